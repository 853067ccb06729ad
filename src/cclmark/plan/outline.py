"""Summaries of plans, sufficient to report the differences between two plans."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cclmark.plan.items import Item
from cclmark.plan.overlaps import Overlap
from cclmark.plan.pairs import PairCases
from cclmark.plan.pieces import PieceCase
from cclmark.plan.rank_memory import RankMemories
from cclmark.plan.replays import Replay
from cclmark.plan.sizes import format_size
from cclmark.plan.trainings import Training
from cclmark.plan.trials import Trial

Value = str | int | float | bool | None

# The fields that differ between items, and the options that set them. Other properties, for example
# the matrices of alltoallv and the order of items, are covered by the digest.
_NAMES = {
    "devices": "devices",
    "processes": "processes",
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
    "blocks": "thread blocks",
    "threads": "threads",
    "peer_access": "peer access",
    "host_memory": "host memory",
    "numa": "NUMA nodes of host memory",
    "method": "latency methods",
    "name": "checks (--only)",
    "variant": "settings (--vary)",
    "round": "rounds (--rounds)",
    "compute": "work beside the collective (--compute, --matrix, --array)",
    "backend": "backends",
    "model": "models (--model, --layers)",
    "parallel": "parallelisms (--parallel)",
    "batch": "batches (--batch)",
    "sequence": "sequences (--sequence)",
    "optimizer": "optimizers (--optimizer)",
    "learning_rate": "learning rates (--learning-rate)",
    "microbatches": "microbatches (--microbatches)",
    "compiled": "compilation (--compile)",
    "pieces": "pieces (--pieces)",
    "content": "contents of objects (--content)",
}
_MOST_LISTED = 6


class Outline(msgspec.Struct):
    """The values in a plan by field, and a digest of the whole plan."""

    digest: str
    values: dict[str, list[Value]]


def outline_of(items: Sequence[Item], devices: int, processes: int) -> Outline:
    """The outline of ``items`` measured on ``devices`` devices by ``processes`` processes."""
    listed = items
    if isinstance(items, PairCases):
        listed = items.of_two
    elif isinstance(items, RankMemories):
        listed = items.cases
    values: dict[str, list[Value]] = {"devices": [devices], "processes": [processes]}
    parts: list[Item] = [*listed]
    trials = [one for one in listed if isinstance(one, Trial | Overlap)]
    if trials:
        parts = [one.case for one in trials]
        values["variant"] = [*dict.fromkeys(one.variant.describe() for one in trials)]
        values["round"] = [len({one.round for one in trials})]
    if trainings := [one for one in listed if isinstance(one, Training)]:
        parts = [one.without_variant() for one in trainings]
        values["variant"] = [*dict.fromkeys(one.variant.describe() for one in trainings)]
        values["round"] = [len({one.round for one in trainings})]
        values["model"] = [*dict.fromkeys(one.model.describe() for one in trainings)]
        values["ccl"] = [*dict.fromkeys(one.ccl for one in trainings)]
    if replays := [one for one in listed if isinstance(one, Replay)]:
        parts = [one.without_variant() for one in replays]
        values["variant"] = [*dict.fromkeys(one.variant.describe() for one in replays)]
        values["round"] = [len({one.round for one in replays})]
        values["step"] = [*dict.fromkeys(one.digest for one in replays)]
        values["gaps"] = [*dict.fromkeys(one.gaps for one in replays)]
        filled = [one.compute for one in replays if one.compute is not None]
        values["compute"] = [*dict.fromkeys(one.describe() for one in filled)]
        values["ccl"] = [*dict.fromkeys(one.ccl for one in replays)]
    if piece_cases := [one for one in listed if isinstance(one, PieceCase)]:
        parts = [one.case for one in piece_cases]
        divisions = dict.fromkeys(part for one in piece_cases for part in one.divisions)
        values["pieces"] = [part.describe() for part in divisions]
    if overlaps := [one for one in listed if isinstance(one, Overlap)]:
        values["compute"] = [*dict.fromkeys(one.compute.describe() for one in overlaps)]
    for name in _NAMES:
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
    """The differences between two plans in words, empty for equal plans."""
    found = []
    for name, words in _NAMES.items():
        theirs, ours = there.values.get(name, []), here.values.get(name, [])
        parts = []
        for where, some, others in (("there", theirs, set(ours)), ("here", ours, set(theirs))):
            if only := [value for value in some if value not in others]:
                parts.append(f"only {where} {_listed(name, only)}")
        if parts:
            found.append(f"{words}: {', '.join(parts)}")
    if not found and there.digest != here.digest:
        found.append("the same values in different combinations, or different alltoallv matrices")
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
