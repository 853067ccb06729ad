"""Differences between two runs, one of another tool: only of settings that both report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cclmark.results.resume import differing_settings
from cclmark.results.schema import Header

_TOLD = ("timing", "iterations", "warmup", "group", "graph_launches", "barrier")


def differences_told(there: Header, here: Header) -> list[str]:
    """Returns a sentence for each imported side, and for each difference."""
    found = [
        f"{place}: imported from {header.imported.source}, a time is {header.imported.figure}"
        for place, header in (("before", there), ("after", here))
        if header.imported is not None
    ]
    found += differing_settings(
        there.settings,
        here.settings,
        told_by_both(there, here, _TOLD),
        sides=("before", "after"),
    )
    pairs = [
        ("host", there.machine.hostname, here.machine.hostname),
        ("devices", _devices(there), _devices(here)),
        *(
            (name, version, _libraries(here).get(name, ""))
            for name, version in _libraries(there).items()
        ),
    ]
    found += [
        f"{what}: {then} before, {now} after"
        for what, then, now in pairs
        if then and now != then and now
    ]
    return found


def told_by_both(there: Header, here: Header, names: Iterable[str]) -> list[str]:
    """Returns the settings of ``names`` that both runs report: another tool's text contains few."""
    imported = there.imported is not None or here.imported is not None
    return [
        name
        for name in names
        if (name in _TOLD or not imported)
        and all(getattr(header.settings, name) != "" for header in (there, here))
    ]


def _devices(header: Header) -> str:
    kinds = Counter(device.name for device in header.devices)
    return ", ".join(f"{number} × {name}" for name, number in kinds.items())


def _libraries(header: Header) -> dict[str, str]:
    return {library.name: library.version for library in header.libraries}
