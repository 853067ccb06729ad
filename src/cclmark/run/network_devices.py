"""The network devices of this host that libraries can use beside TCP sockets."""

from __future__ import annotations

from pathlib import Path

_LISTED = Path("/sys/class/infiniband")


def network_devices(listed: Path = _LISTED) -> list[str]:
    """Returns the names of InfiniBand and RoCE devices that Linux lists; empty if it cannot."""
    try:
        return sorted(entry.name for entry in listed.iterdir())
    except OSError:
        return []
