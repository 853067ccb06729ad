"""Differences between two machines, or two states of one, that may influence figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cclmark.results.machine import kept_environment
from cclmark.results.schema import DeviceDescription, Header, LibraryDescription

_OF_MACHINE = {
    "hostname": "host",
    "kernel": "kernel",
    "processor": "processor",
    "processors": "processors",
    "vendor_driver": "driver",
}


def surroundings_changed(there: Header, here: Header) -> list[str]:
    """Describes each difference between the header ``there`` and the current one, ``here``."""
    found = [
        _changed("cclmark", there.cclmark_version, here.cclmark_version),
        _changed("launcher", there.launcher, here.launcher),
        _changed("hosts", _hosts(there), _hosts(here)) if there.hosts or here.hosts else "",
        *(
            _changed(words, getattr(there.machine, name), getattr(here.machine, name))
            for name, words in _OF_MACHINE.items()
        ),
        _changed("devices", _kinds(there.devices), _kinds(here.devices)),
        _changed("runtime", _runtimes(there.devices), _runtimes(here.devices)),
        *_libraries(there.libraries, here.libraries),
        # Older journals hold more variables.
        *environment_changed(
            kept_environment(there.environment), kept_environment(here.environment)
        ),
    ]
    if _kinds(there.devices) == _kinds(here.devices):
        found.append(_changed("chosen devices", _which(there.devices), _which(here.devices)))
    return [text for text in found if text]


def environment_changed(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """Describes the variables that differ in value, or exist on one side only."""
    names = sorted({*there, *here})
    changes = [_changed(name, there.get(name), here.get(name)) for name in names]
    return [text for text in changes if text]


def _changed(what: str, there: object, here: object) -> str:
    if there == here:
        return ""
    if what.endswith("s") and what.islower():  # plural, for example processors
        return f"{what}: {_said(there)} before, {_said(here)} now"
    return f"{what} was {_said(there)}, is {_said(here)}"


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
) -> list[str]:
    theirs = {library.name: f"{library.version} from {library.path}" for library in there}
    ours = {library.name: f"{library.version} from {library.path}" for library in here}
    gone = [name for name in theirs if name not in ours]
    new = [name for name in ours if name not in theirs]
    found = []
    if len(gone) == len(new) == 1:  # one replaces the other
        (old,), (now,) = gone, new
        found.append(_changed("library", f"{old} {theirs.pop(old)}", f"{now} {ours.pop(now)}"))
    absent = "not measured"
    return found + [
        _changed(name, theirs.get(name, absent), ours.get(name, absent))
        for name in {**theirs, **ours}
    ]
