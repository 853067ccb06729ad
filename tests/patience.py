"""How long tests wait at most."""

from __future__ import annotations

import os

# On a machine that is busy with other things, as with tests beside this one, everything takes
# longer.
PATIENCE = float(os.environ.get("CCLMARK_TEST_PATIENCE", "1"))


def scaled(patience_s: float) -> float:
    """How long to wait here for what is there within ``patience_s`` on an idle machine."""
    return patience_s * PATIENCE


def waits(patience_s: float) -> tuple[str, str]:
    """The option for what the program itself is to wait for, as long."""
    return "--timeout", f"{scaled(patience_s):g}"
