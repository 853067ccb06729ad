"""The names of devices in tables and charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cclmark.journal.schema import DeviceDescription
from cclmark.work.cases import Case


def device_labels(devices: Sequence[DeviceDescription]) -> list[str]:
    """Returns the name of each device, which no other one has: ``DEV2``, or ``HOST0:DEV2``.

    Where numbers alone do not distinguish devices, as those of adapters and GPUs of one host, names
    are those of the devices, ``HOST0:adapter1``, with the rank if several have the same.
    """
    names = list(dict.fromkeys(device.host for device in devices))
    places = [f"HOST{names.index(one.host)}:" * (len(names) > 1) for one in devices]
    if not of_several_kinds(devices):
        return [f"{place}DEV{one.index}" for place, one in zip(places, devices, strict=True)]
    found = [
        place + (one.name.replace(" ", "") or f"DEV{one.index}")
        for place, one in zip(places, devices, strict=True)
    ]
    count = Counter(found)
    return [
        f"{label}#{one.rank}" if count[label] > 1 else label
        for label, one in zip(found, devices, strict=True)
    ]


def of_several_kinds(devices: Sequence[DeviceDescription]) -> bool:
    """Whether two devices of a host have the same number, as a GPU and an adapter can."""
    return len({(one.host, one.index) for one in devices}) < len(devices)


def pair_name(pair: tuple[int, int], operation: str, names: Sequence[str]) -> str:
    """Names two devices, with an arrow if the operation moves data in one direction."""
    first, second = (names[number] for number in pair)
    if operation in ("broadcast", "send"):
        return f"{first} → {second}"
    return f"{second} → {first}" if operation == "reduce" else f"{first}–{second}"


def way_between(case: Case, names: Sequence[str]) -> str:
    """Names the two devices of a case of a pair, with its direction if it has a root."""
    assert case.pair is not None
    pair = case.pair if case.root in (None, 0) else (case.pair[1], case.pair[0])
    return pair_name(pair, case.operation, names)
