"""Commands that describe a host print once, even if a launcher has started several processes."""

from __future__ import annotations

import os
import sys

from cclmark.errors import EXIT_OK, Followed, UsageError
from cclmark.launch.placement import LAUNCHER_VARIABLE, find_placement


def leave_it_to_the_first() -> None:
    """Raises Followed in all processes of a host but the first, which reports for the host."""
    try:
        placement = find_placement(os.environ)
    except UsageError as error:
        print(f"cclmark: {error}", file=sys.stderr)  # the host can still be reported
        return
    if placement is None:
        return
    if placement.process > 0:
        raise Followed(EXIT_OK)
    print(
        f"cclmark: {placement.launcher} started {placement.processes} processes; this output "
        f"describes the host of the first one. With {LAUNCHER_VARIABLE}=none each process "
        "describes its own host",
        file=sys.stderr,
    )
