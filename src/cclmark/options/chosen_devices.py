"""The devices that the options of a command choose."""

from __future__ import annotations

import os
import sys

from cclmark.errors import UsageError
from cclmark.launch.placement import find_placement, is_primary
from cclmark.options.flags import Flags
from cclmark.plan.libraries import runtimes_of


def devices_text(flags: Flags) -> str:
    """Returns ``--devices``, or by default the devices that the named libraries require.

    Accelerators come before the host. Reads ``--ccl-file`` first, which may describe one of those
    libraries. Raises UsageError.
    """
    flags.add_ccl_files()
    if flags.devices or not flags.ccl:
        return flags.devices
    needed = [runtimes_of(name.strip()) for name in flags.ccl.split(",")]
    for runtimes in needed:
        if len(runtimes) == 1 and runtimes != ["host"]:
            return runtimes[0]
    return "host" if all(runtimes == ["host"] for runtimes in needed) else ""


def device_count(flags: Flags) -> int | None:
    """Returns the device count of ``-g``, or of hccl_test's ``-p``, which counts per host."""
    if flags.npus is None or flags.npus > 1:
        if flags.count is not None and flags.npus is not None and flags.count != flags.npus:
            raise UsageError("-g and -p request different numbers of devices")
        if flags.count is not None or flags.npus is None:
            return flags.count
        placement = find_placement(os.environ)
        beside = placement.local_size if placement is not None else None
        return max(1, flags.npus // (beside or 1))
    if is_primary(os.environ):
        print(
            f"cclmark: -p {flags.npus} is ignored: ranks always start in parallel and outputs are "
            "checked. For one device write -g 1.",
            file=sys.stderr,
        )
    return flags.count
