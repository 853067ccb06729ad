"""The limits of a machine's links."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.results.schema import HostDescription, Link


def link_limit(links: Sequence[Link], hosts: Sequence[HostDescription] = ()) -> float | None:
    """Bytes per second that every device can send over its NVLinks, or its PCIe slot without them.

    The result is the smallest of all devices: a collective is as fast as its slowest member. None
    if the machine does not report it, and for several ``hosts``, whose network is unknown.
    """
    if len(hosts) > 1:
        return None
    limits = []
    for device in {link.device for link in links}:
        own = [link for link in links if link.device == device]
        fast = [link for link in own if link.kind == "NVLink"] or own
        limits.append(sum(link.count * link.rate_bytes_per_s for link in fast))
    smallest = min(limits, default=0.0)
    return smallest if smallest > 0 else None
