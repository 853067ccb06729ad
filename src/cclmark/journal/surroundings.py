"""Differences between two machines, two states of one, or two runs, that may influence figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cclmark.journal.machine import kept_environment
from cclmark.journal.method import memory_kinds
from cclmark.journal.resume import differing_settings
from cclmark.journal.schema import DeviceDescription, Header, LibraryDescription

_OF_MACHINE = {
    "hostname": "host",
    "kernel": "kernel",
    "processor": "processor",
    "processors": "processors",
    "vendor_driver": "driver",
}


def surroundings_changed(there: Header, here: Header, after: str = "now") -> list[str]:
    """Describes each difference between an earlier header, ``there``, and a later one, ``here``.

    ``after``: the word for the later one, ``after`` in a comparison of two runs.
    """
    found = [
        _Change("cclmark", there.cclmark_version, here.cclmark_version),
        _Change("launcher", there.launcher, here.launcher),
        *(
            _Change(words, getattr(there.machine, name), getattr(here.machine, name))
            for name, words in _OF_MACHINE.items()
        ),
        _Change("devices", _kinds(there.devices), _kinds(here.devices)),
        _Change("runtime", _runtimes(there.devices), _runtimes(here.devices)),
        *_libraries(there.libraries, here.libraries),
        *_memory(there, here),
        # Older journals hold more variables.
        *_variables(kept_environment(there.environment), kept_environment(here.environment)),
    ]
    if there.hosts or here.hosts:
        found.insert(2, _Change("hosts", _hosts(there), _hosts(here)))
    if _kinds(there.devices) == _kinds(here.devices):
        found.append(_Change("chosen devices", _which(there.devices), _which(here.devices)))
    return [one.described(after) for one in found if one.before != one.after]


def environment_changed(there: Header, here: Header, after: str = "now") -> list[str]:
    """Describes the variables of libraries that differ; ``after`` as for surroundings_changed."""
    found = _variables(kept_environment(there.environment), kept_environment(here.environment))
    return [one.described(after) for one in found if one.before != one.after]


@dataclass(frozen=True)
class _Change:
    """A value before and after; ``what`` is its name."""

    what: str
    before: object
    after: object

    def described(self, after: str) -> str:
        return f"{self.what}: {_said(self.before)} before, {_said(self.after)} {after}"


def _memory(there: Header, here: Header) -> list[_Change]:
    """The kinds of memory of libraries that both runs measured."""
    before, after = memory_kinds(there), memory_kinds(here)
    return [
        _Change(f"memory of {name}'s buffers", kind, after[name])
        for name, kind in before.items()
        if name in after
    ]


def differing_memory(there: Header, here: Header) -> list[str]:
    """Describes the kinds of memory that differ in two runs, none of which another tool made."""
    if there.imported is not None or here.imported is not None:
        return []
    return [
        f"{one.what}: {one.before} there, {one.after} here"
        for one in _memory(there, here)
        if one.before != one.after
    ]


def _variables(there: Mapping[str, str], here: Mapping[str, str]) -> list[_Change]:
    return [_Change(name, there.get(name), here.get(name)) for name in sorted({*there, *here})]


def _said(value: object) -> str:
    if value is None:
        return "not set"
    return str(value) or "none"


def _hosts(header: Header) -> str:
    machines = [host.machine for host in header.hosts] or [header.machine]
    return ", ".join(machine.hostname for machine in machines)


def _kinds(devices: Sequence[DeviceDescription]) -> str:
    kinds = Counter((device.runtime, device.name) for device in devices)
    return ", ".join(f"{number} × {name} ({kind})" for (kind, name), number in kinds.items())


def _runtimes(devices: Sequence[DeviceDescription]) -> str:
    runtimes = dict.fromkeys((it.runtime, it.driver_version, it.runtime_path) for it in devices)
    return ", ".join(" ".join(filter(None, words)) for words in runtimes)


def _which(devices: Sequence[DeviceDescription]) -> str:
    return ", ".join(" ".join(filter(None, (str(it.index), it.uuid))) for it in devices)


def _libraries(
    there: Sequence[LibraryDescription], here: Sequence[LibraryDescription]
) -> list[_Change]:
    theirs = {library.name: f"{library.version} from {library.path}" for library in there}
    ours = {library.name: f"{library.version} from {library.path}" for library in here}
    gone = [name for name in theirs if name not in ours]
    new = [name for name in ours if name not in theirs]
    found = []
    if len(gone) == len(new) == 1:  # one replaces the other
        (old,), (now,) = gone, new
        found.append(_Change("library", f"{old} {theirs.pop(old)}", f"{now} {ours.pop(now)}"))
    absent = "not measured"
    return found + [
        _Change(name, theirs.get(name, absent), ours.get(name, absent))
        for name in {**theirs, **ours}
    ]


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
        ("devices", _named_devices(there), _named_devices(here)),
        *(
            (name, version, _versions(here).get(name, ""))
            for name, version in _versions(there).items()
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


def _named_devices(header: Header) -> str:
    kinds = Counter(device.name for device in header.devices)
    return ", ".join(f"{number} × {name}" for name, number in kinds.items())


def _versions(header: Header) -> dict[str, str]:
    return {library.name: library.version for library in header.libraries}
