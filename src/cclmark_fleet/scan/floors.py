"""What a healthy pair has: published, of the user, or accepted from an earlier scan."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import tomllib

from cclmark.base.errors import UsageError
from cclmark.base.files import read_regular
from cclmark.references.reference_store import data_directory
from cclmark.work.counts import NotNegative, Positive
from cclmark.work.sizes import parse_size
from cclmark_fleet.scan.figures import ScanFigures
from cclmark_fleet.scan.result import ScannedFleet

#: The floors of collectives: of a host alone, and of all devices.
HOST_ALL_REDUCE, ALL_REDUCE = "host all_reduce", "all_reduce"
_FILE = Path(__file__).with_name("floors.toml")
_MOST_BYTES = 64 << 20


class PublishedFloor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of floors.toml; see its head."""

    test: str
    size: str
    gbps: Positive
    source: str
    date: str
    device: str = ""
    devices: int = 0
    network_gbit: float = 0.0


def published_floors() -> list[PublishedFloor]:
    """The entries of floors.toml."""
    found = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return msgspec.convert(found["floor"], list[PublishedFloor])


def with_published(
    fleet: ScannedFleet, device: str, network_gbit: float, size_bytes: int
) -> ScannedFleet:
    """The fleet with the published floors of its devices, unless it has others.

    ``device``: its name; ``network_gbit``: of its interface, 0 if unknown. Of several entries the
    one for the largest size counts.
    """
    if fleet.floors_bps:
        return fleet
    widest = max(map(len, fleet.shape.members))
    floors: dict[str, float] = {}
    sources: dict[str, None] = {}
    for one in sorted(published_floors(), key=lambda one: parse_size(one.size)):
        if (
            parse_size(one.size) > size_bytes
            or one.device not in device
            or one.devices not in (0, widest)
            or one.network_gbit not in (0.0, network_gbit)
        ):
            continue
        names = {"node": ["node"], "between": fleet.shape.level_names[1:]}
        for name in names.get(one.test, [HOST_ALL_REDUCE]):
            floors[name] = one.gbps * 1e9
        sources[f"{one.source}, {one.date}"] = None
    return msgspec.structs.replace(fleet, floors_bps=floors, floor_source="; ".join(sources))


class AcceptedScan(msgspec.Struct, forbid_unknown_fields=True):
    """What an accepted scan had, in bytes/s. ``hosts``: the fleet in words."""

    accepted_at: str
    hosts: str
    floors_bps: dict[str, NotNegative]
    rates_bps: dict[str, NotNegative]


def place_of(names: Sequence[str], devices: int, ccl: str, size_bytes: int) -> Path:
    """The file of a fleet: the same hosts in any order, devices, library and size."""
    key = "\n".join([*sorted(names), str(devices), ccl, str(size_bytes)])
    return (
        data_directory().parent / "scans" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
    )


def read_accepted(path: Path) -> AcceptedScan | None:
    """What was accepted, None if nothing was. Raises UsageError for a file that is damaged."""
    try:
        return msgspec.json.decode(read_regular(path, _MOST_BYTES), type=AcceptedScan)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{path}: cannot read the accepted scan ({error}): remove the file, and accept another"
        ) from None


def write_accepted(path: Path, figures: ScanFigures, at: str) -> None:
    """Stores the rates of a scan. Raises UsageError if the file cannot be written."""
    floors = dict(figures.judgement.rates_bps)
    for test in (test for one in figures.of_purpose("whole") for test in one.tests):
        floors[ALL_REDUCE] = test.rate_bps
    names = figures.shape.node_names
    words = f"{len(names)} hosts, {names[0]} to {names[-1]}"
    content = AcceptedScan(at, words, floors, figures.node_rates_bps)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        own = path.with_suffix(f".{os.getpid()}")
        own.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1))
        own.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot store the accepted scan: {error.strerror}") from None
