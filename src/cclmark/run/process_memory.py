"""The memory of this process, as the kernel reports it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_LINE = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


class ProcessMemory(NamedTuple):
    """Bytes, see results.schema.MemoryReading."""

    rss_bytes: int
    shared_bytes: int
    pss_bytes: int | None


def process_memory() -> ProcessMemory:
    """Reads the memory of this process. Raises OSError if /proc is missing."""
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    try:
        rollup = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8", errors="replace")
    except OSError:  # absent before Linux 4.14, and forbidden in some containers
        rollup = ""
    return memory_in(status, rollup)


def memory_in(status: str, rollup: str) -> ProcessMemory:
    """The memory in the texts of ``/proc/PID/status`` and ``/proc/PID/smaps_rollup``.

    RssShmem includes memory from memfd_create and System V. Figures that a text lacks are 0, but
    PSS is None: without it, sums over processes count shared pages several times.
    """
    resident, rolled_up = _kib_in(status), _kib_in(rollup)
    pss_kib = rolled_up.get("Pss")
    return ProcessMemory(
        rss_bytes=resident.get("VmRSS", 0) * 1024,
        shared_bytes=resident.get("RssShmem", 0) * 1024,
        pss_bytes=None if pss_kib is None else pss_kib * 1024,
    )


def _kib_in(text: str) -> dict[str, int]:
    return {name: int(kib) for name, kib in _LINE.findall(text)}
