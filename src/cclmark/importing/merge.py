"""Merges several texts of one tool into one run of operations measured one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy
from typing import Any

import msgspec

from cclmark.errors import UsageError
from cclmark.importing.run import how
from cclmark.plan.cases import Case
from cclmark.plan.items import Item
from cclmark.results.item_results import Result
from cclmark.results.journal import Journal
from cclmark.results.schema import Header


def merged(runs: Sequence[tuple[str, Journal]]) -> Journal:
    """Merges journals, each with its name. Raises UsageError if they cannot be of one run."""
    first_name, first = runs[0]
    if len(runs) == 1:
        return first
    for name, run in runs:
        if run.kind != first.kind:
            raise UsageError(
                f"{first_name} and {name} contain different kinds of work: import them one by one"
            )
        if run.header.imported is None:
            raise UsageError(f"{name} is a complete journal: import it separately")
        for what, there, here in _identity(first.header, run.header):
            if there != here:
                raise UsageError(
                    f"{first_name} and {name} are not of the same run: {what} {there or 'unknown'} "
                    f"and {here or 'unknown'}. Import them one by one"
                )
    _refuse_unlike(runs)
    imported = first.header.imported
    assert imported is not None
    results = _renumbered(runs)
    settings = [run.header.settings for _, run in runs]
    header = msgspec.structs.replace(
        first.header,
        notices=list(dict.fromkeys(_notices(runs))),
        run_id=_joined_id([run.header.run_id for _, run in runs]),
        imported=msgspec.structs.replace(
            imported,
            file=", ".join(dict.fromkeys(_file(run.header) for _, run in runs)),
            ranks=max(one.header.imported.ranks for _, one in runs if one.header.imported),
        ),
        planned_cases=1 + max(result.index for result in results),
        settings=msgspec.structs.replace(
            settings[0],
            begin_bytes=min(one.begin_bytes for one in settings),
            end_bytes=max(one.end_bytes for one in settings),
            cycles=1 + max(result.cycle for result in results),
        ),
    )
    footers = [run.footer for _, run in runs]
    ended = [one for one in footers if one is not None]
    worst = max(ended, key=lambda one: one.exit_code, default=None)
    return Journal(header, [*results], footer=None if None in footers else worst)


def _refuse_unlike(runs: Sequence[tuple[str, Journal]]) -> None:
    """Raises UsageError if two files contain the same case and may be of different devices.

    The same text twice is not a repeated measurement either.
    """
    files: dict[str, str] = {}
    cases: dict[Case, str] = {}
    for name, run in runs:
        run_id = run.header.run_id
        if run_id in files:
            raise UsageError(
                f"{files[run_id]} and {name} have the same content: import one of them"
            )
        files[run_id] = name
        for case in {result.case: None for result in run.cases}:
            other = cases.setdefault(case, name)
            if other != name and not run.header.devices:
                raise UsageError(
                    f"{other} and {name} both contain {case.describe()}, but not its devices: "
                    "import them one by one, or set --device NAME if the devices are the same"
                )


def _identity(there: Header, here: Header) -> list[tuple[str, str, str]]:
    """Returns the properties that must be equal: a name and both values."""
    return [
        ("tool", _tool(there), _tool(here)),
        ("devices", _devices(there), _devices(here)),
        ("libraries", _libraries(there), _libraries(here)),
        ("settings", how(there.settings), how(here.settings)),
    ]


def _tool(header: Header) -> str:
    return header.imported.source if header.imported is not None else ""


def _file(header: Header) -> str:
    return header.imported.file if header.imported is not None else ""


def _devices(header: Header) -> str:
    return ", ".join(f"{one.host} {one.index} {one.name}".strip() for one in header.devices)


def _libraries(header: Header) -> str:
    return ", ".join(f"{one.name} {one.version}" for one in header.libraries)


def _notices(runs: Sequence[tuple[str, Journal]]) -> list[str]:
    """Returns the notices; those about lines start with the name of the file."""
    return [
        f"{_file(run.header) or name}: {notice}" if "line" in notice.partition(":")[0] else notice
        for name, run in runs
        for notice in run.header.notices
    ]


def _renumbered(runs: Sequence[tuple[str, Journal]]) -> list[Result]:
    """Renumbers results: each item has one index, and a repeated case is of another cycle.

    Raises UsageError for a repeated item of a kind without cycles.
    """
    places: dict[Item, int] = {}
    seen: dict[Item, int] = {}
    numbered: list[Result] = []
    for name, run in runs:
        for result in run.results:
            cycle = seen.get(result.item, 0)
            seen[result.item] = cycle + 1
            index = places.setdefault(result.item, len(places))
            renumbered: Any = copy(result)
            renumbered.index = index
            if "cycle" in renumbered.__struct_fields__:
                renumbered.cycle = cycle
            elif cycle:
                raise UsageError(
                    f"{name} contains {result.item.describe()}, which another file contains too: "
                    "import them one by one"
                )
            numbered.append(renumbered)
    return numbered


def _joined_id(ids: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(ids).encode()).hexdigest()[:32]
