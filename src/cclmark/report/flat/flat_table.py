"""A flat table, and the columns that say which run a row is of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cclmark.report.formats.csv_format import Cell
from cclmark.results.schema import Header

Kind = Literal["text", "int", "float", "bool"]
Row = Sequence[Cell]


@dataclass(frozen=True)
class Column:
    """A name, which ends in its unit, and what its cells are, where they are not empty."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Table:
    """Columns and rows, which are made while they are read: raw samples may be many.

    ``exact``: numbers are to be written with all of their digits.
    """

    columns: Sequence[Column]
    rows: Iterator[Row]
    exact: bool = False


def columns(
    names: str | Sequence[str], *, texts: str = "", whole: str = "", flags: str = ""
) -> list[Column]:
    """Columns of these names; those in none of the others hold numbers of any kind.

    All are words with blanks between.
    """
    kinds: dict[str, Kind] = dict.fromkeys(texts.split(), "text")
    kinds |= dict.fromkeys(whole.split(), "int")
    kinds |= dict.fromkeys(flags.split(), "bool")
    listed = names.split() if isinstance(names, str) else names
    return [Column(name, kinds.get(name, "float")) for name in listed]


_OF_RUN = "run_id started_at host device source"
RUN_COLUMNS = columns(_OF_RUN, texts=_OF_RUN)


def run_cells(header: Header) -> list[Cell]:
    """A cell for each of RUN_COLUMNS."""
    source = f"cclmark {header.cclmark_version}"
    if header.imported is not None:
        source = header.imported.source
    return [header.run_id, header.started_at, hosts_of(header), devices_of(header), source]


def hosts_of(header: Header) -> str:
    """The host's name; of several their names with commas between."""
    names = [host.machine.hostname for host in header.hosts] or [header.machine.hostname]
    return ",".join(dict.fromkeys(names))


def devices_of(header: Header) -> str:
    """The devices' name; of several kinds their names with plus signs between."""
    return " + ".join(dict.fromkeys(device.name for device in header.devices))
