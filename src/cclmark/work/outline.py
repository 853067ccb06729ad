"""Summaries of plans, sufficient to report the differences between two plans."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cclmark.work.items import Item, Outlined, Value
from cclmark.work.sizes import format_size

# The fields that differ between items, and the options that set them. Other properties, for example
# the matrices of alltoallv and the order of items, are covered by the digest.
_NAMES = {
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


class Outline(msgspec.Struct):
    """The values in a plan by field, and a digest of the whole plan."""

    digest: str
    values: dict[str, list[Value]]


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
    """The differences between a journal's plan and a command's, with options; empty if equal."""
    found = []
    for name, words in _NAMES.items():
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
