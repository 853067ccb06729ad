"""Outlines of plans, whether a journal fits a plan, and the items of the plan that it lacks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from cclmark.base.errors import UsageError
from cclmark.journal.item_results import Result
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header, Outline, Settings
from cclmark.work.islands import Island
from cclmark.work.items import Item, Outlined, Value
from cclmark.work.sizes import format_size

# The fields that differ between items, and the options that set them. Other properties, for example
# the matrices of alltoallv and the order of items, are covered by the digest.
_FIELDS = {
    "devices": "devices (--devices, -g)",
    "processes": "processes (of the launcher; p2p: -m)",
    "operation": "operations",
    "ccl": "libraries (--ccl)",
    "dtype": "types (-d)",
    "reduction": "reductions (-o)",
    "root": "roots (-r)",
    "in_place": "placements (--placement)",
    "size_bytes": "sizes (-b, -e, -f, -i)",
    "measure": "measurements (--perf)",
    "scope": "scopes (--scope)",
    "engine": "engines (--engine)",
    "direction": "directions (--direction)",
    "kernel": "kernels (--kernel)",
    "offset_bytes": "offsets (--buffer-offset)",
    "blocks": "thread blocks (--num-thread-blocks)",
    "threads": "threads of a block (-s)",
    "peer_access": "peer access (-a)",
    "host_memory": "host memory (--scope)",
    "numa": "NUMA nodes of host memory (--scope)",
    "method": "latency methods (--latency-method)",
    "name": "checks (--only)",
    "variant": "settings (--vary)",
    "round": "rounds (--rounds)",
    "compute": "work beside the collective (--compute, --matrix, --array)",
    "backend": "backends (--backend)",
    "model": "models (--model, --layers)",
    "parallel": "parallelisms (--parallel, --layout)",
    "by_sequence": "sequence parallelism (--sequence-parallel)",
    "batch": "batches (--batch, --global-batch)",
    "sequence": "sequences (--sequence)",
    "optimizer": "optimizers (--optimizer)",
    "learning_rate": "learning rates (--learning-rate)",
    "microbatches": "microbatches (--microbatches, --micro-batch)",
    "compiled": "compilation (--compile)",
    "pieces": "pieces (--pieces)",
    "content": "contents of objects (--content)",
}
_MOST_LISTED = 6
#: The two sides of a difference: the run to be resumed, and the command.
SIDES = ("in the journal", "in this command")
MEASURED = ("ok", "wrong", "skipped")  # other cases are measured again

# Settings that influence figures, with their options. Sizes and patterns are in the outline.
_FLAGS = {
    "timing": "--timing",
    "across_ranks": "--across-ranks",
    "precision": "--precision (as a share)",
    "max_time_s": "--max-time",
    "iterations": "-n",
    "warmup": "-w",
    "group": "-m",
    "graph_launches": "-G",
    "check": "-c",
    "cycles": "-N",
    "registration": "--register",
    "memory": "--memory",
    "cache": "--cache",
    "barrier": "--barrier",
    "clock": "--clock",
    "seed": "--seed",
    "check_on": "--check-on",
    "inject": "--inject",
    "one_by_one": "--one-by-one",
    "triangle": "-j",
    "islands": "--islands",
    "through_host": "--through-host",
    "bind": "--bind",
    "config": "--config",
}


# What is requested of memory is compared when a run is resumed: of two runs, what they had is, see
# surroundings_changed.
_COMPARED = tuple(name for name in _FLAGS if name != "memory")


def outline_of(items: Sequence[Item], devices: int, processes: int) -> Outline:
    """The outline of ``items`` measured on ``devices`` devices by ``processes`` processes."""
    listed: Sequence[Item] = getattr(items, "distinct", items)
    values: dict[str, list[Value]] = {"devices": [devices], "processes": [processes]}
    parts: list[Item] = []
    own: dict[str, dict[Value, None]] = {}
    for one in listed:
        part, described = one.outline() if isinstance(one, Outlined) else (one, {})
        parts.append(part)
        for name, texts in described.items():
            own.setdefault(name, {}).update(dict.fromkeys(texts))
    values.update((name, list(texts)) for name, texts in own.items())
    if rounds := {number for one in listed if (number := getattr(one, "round", None)) is not None}:
        values["round"] = [len(rounds)]
    for name in _FIELDS:
        found = dict.fromkeys(
            getattr(one, name) for one in parts if name in type(one).__annotations__
        )
        if found and name not in values:
            values[name] = list(found)
    import hashlib  # which loads OpenSSL: ranks create no outline

    digest = hashlib.sha256(f"{devices} {processes} ".encode())
    for one in listed:
        digest.update(msgspec.json.encode(one) + b"\n")
    return Outline(digest.hexdigest(), values)


def differences(there: Outline, here: Outline) -> list[str]:
    """The differences between a journal's plan and a command's, with options; empty if equal."""
    found = []
    for name, words in _FIELDS.items():
        theirs, ours = there.values.get(name, []), here.values.get(name, [])
        parts = []
        for side, some, others in zip(SIDES, (theirs, ours), (set(ours), set(theirs)), strict=True):
            if own := [value for value in some if value not in others]:
                parts.append(f"{_listed(name, own)} only {side}")
        if parts:
            found.append(f"{words}: {', '.join(parts)}")
    if not found and there.digest != here.digest:
        found.append(
            "the same values in another order or in other combinations, or other matrices of "
            "alltoallv (--pattern)"
        )
    return found


def _listed(name: str, values: Sequence[Value]) -> str:
    texts = [_text(name, value) for value in values[:_MOST_LISTED]]
    more = len(values) - _MOST_LISTED
    return " ".join(texts) + (f" and {more} more" if more > 0 else "")


def _text(name: str, value: Value) -> str:
    if name == "in_place":
        return "in-place" if value else "out-of-place"
    if name.endswith("_bytes") and isinstance(value, int):
        return format_size(value).replace(" ", "")
    return "none" if value in (None, "") else str(value)


@dataclass(frozen=True)
class Remainder:
    """``carried``: results kept unchanged. ``pending``: places still to be measured.

    A place is an index of the plan, plus the plan's number of items for every earlier cycle.
    ``misplaced``: the number of results that do not match the plan's item in their place.
    """

    carried: list[Result]
    pending: list[int]
    misplaced: int


def remainder_of(
    journal: Journal,
    name: str,
    outline: Outline,
    settings: Settings,
    items: Sequence[Item],
) -> Remainder:
    """Returns the remainder of ``items``, measured with ``settings``. ``name`` is the journal's.

    Raises UsageError for a journal of another plan, with the differences, and for plans without an
    end.
    """
    if settings.cycles == 0:
        raise UsageError("--resume does not support runs without end: start a new run")
    header = journal.header
    found = differing_plan(header, outline, settings)
    carried: list[Result] = []
    misplaced: list[Result] = []
    for result in journal.results:
        if not _fits(result, items, settings.cycles):
            misplaced.append(result)
        elif result.status in MEASURED:
            carried.append(result)
    if header.plan is None and not found:
        # An older journal does not record the plan, which is derived from the measured items.
        if header.planned_cases not in (0, len(items)):
            found.append(f"cases: {header.planned_cases} {SIDES[0]}, {len(items)} {SIDES[1]}")
        found += [
            f"case {result.index} {SIDES[0]} is {result.item.describe()}"
            for result in misplaced[:1]
        ]
    if found:
        raise UsageError(
            f"{name} was measured with other options: {'; '.join(found)}. Repeat its options, or "
            "start a new run without --resume"
        )
    done = {place_of(result, len(items)) for result in carried}
    everything = range(len(items) * settings.cycles)
    return Remainder(carried, [place for place in everything if place not in done], len(misplaced))


def differing_plan(header: Header, outline: Outline, settings: Settings) -> list[str]:
    """The differences between a journal's plan and settings and a command's, with options."""
    found = [] if header.plan is None else differences(header.plan, outline)
    return found + differing_settings(header.settings, settings, tuple(_FLAGS), sides=SIDES)


def differing_settings(
    there: Settings,
    here: Settings,
    names: Collection[str] = _COMPARED,
    *,
    sides: tuple[str, str] = ("there", "here"),
) -> list[str]:
    """Describes the differing settings among ``names`` by their flags. ``sides``: their names."""
    return [
        f"{flag}: {_words(theirs)} {sides[0]}, {_words(ours)} {sides[1]}"
        for name, flag in _FLAGS.items()
        if name in names
        and (theirs := _of_results(there, name)) != (ours := _of_results(here, name))
    ]


def _of_results(settings: Settings, name: str) -> object:
    """Returns a setting as far as measured results depend on it: a case that hung has none."""
    value = getattr(settings, name)
    if name == "inject":
        return [fault for fault in value if not fault.startswith("hang:")]
    return value


def _words(value: object) -> str:
    if isinstance(value, list):
        texts = [one.describe() if isinstance(one, Island) else str(one) for one in value]
        return " ".join(texts) or "none"
    return "not given" if value in (None, "") else str(value)


def _fits(
    result: Result,
    items: Sequence[Item],
    cycles: int,
) -> bool:
    """Whether the result matches the plan's item in its place."""
    within = 0 <= result.index < len(items) and 0 <= result.cycle < cycles
    return within and items[result.index] == result.item


def place_of(result: Result, number: int) -> int:
    """Returns the place of a result in a plan of ``number`` items, see Remainder."""
    return result.index + number * result.cycle
