"""How long tests wait at most."""

import os

# On a machine that is busy with other things, as with tests beside this one, everything takes
# longer.
PATIENCE = float(os.environ.get("CCLMARK_TEST_PATIENCE", "1"))


def scaled(patience_s: float) -> float:
    """How long to wait here for what is there within ``patience_s`` on an idle machine."""
    return patience_s * PATIENCE


def deadline_s(patience_s: float) -> float:
    """How long the program waits here for what a test makes hang, and so the test in any case.

    This grows more slowly: a deadline need not cover several slow steps, only one. At least 4 s
    where patience allows it.
    """
    return max(patience_s * PATIENCE**0.5, min(scaled(patience_s), 4.0))


def waits(patience_s: float) -> tuple[str, str]:
    """The option for what the program itself is to wait for, as long."""
    return "--timeout", f"{deadline_s(patience_s):g}"
