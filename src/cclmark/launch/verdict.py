"""One sentence on the ranks that block others, from the phases of ranks and their operations.

Collectives hang if ranks do not all make the same call: a rank is in another phase, or has not
entered the call in which the others wait. Calls are numbered from 1 since the communicator was
created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cclmark.plan.items import Item
from cclmark.rendezvous.board import Operations, Status

_WITH_OPERATIONS = ("warm-up", "timing", "replaying", "verification", "explaining", "tracing")
_AT_REST = "waiting for other pairs"


def verdict(statuses: Mapping[int, Status], cases: Sequence[Item]) -> str:
    """The sentence on ranks of which none died, empty if their states show no difference.

    ``statuses`` by rank. Ranks that are idle while other pairs measure are ignored.
    """
    involved = {rank: one for rank, one in statuses.items() if one.phase != _AT_REST}
    if len(involved) < 2:
        return ""
    places = _gather(involved, lambda status: _place(status, cases))
    if len(places) > 1:
        return _apart(places)
    ((place, _),) = places.items()
    counts = {r: one.operations for r, one in involved.items() if one.operations is not None}
    (phase,) = {status.phase for status in involved.values()}
    counting = len(counts) > 1 and phase in _WITH_OPERATIONS
    if not counting or len({one.entered for one in counts.values()}) == 1:
        batches = _gather(involved, lambda status: f"at batch {status.batches + 1} {place}")
        if len(batches) > 1:
            return _apart(batches)
    if not counting:
        return ""
    unknown = sorted(set(involved) - set(counts))
    return _by_counts(counts) + (f"; {_ranks(unknown)} reported no counts" if unknown else "")


def _gather(statuses: Mapping[int, Status], where: Callable[[Status], str]) -> dict[str, list[int]]:
    """The ranks in each place."""
    places: dict[str, list[int]] = {}
    for rank, status in statuses.items():
        places.setdefault(where(status), []).append(rank)
    return places


def _place(status: Status, cases: Sequence[Item]) -> str:
    if 0 <= status.case_index < len(cases):
        return f"in {status.phase} of {cases[status.case_index].describe()}"
    return status.phase if status.phase == "finished" else f"in {status.phase}"


def _apart(places: Mapping[str, list[int]]) -> str:
    """A sentence on ranks in different places. The largest group is called the others."""
    ordered = sorted(places.items(), key=lambda item: (len(item[1]), item[1]))
    most = len(ordered[-1][1])
    if most > 1 and len(ordered[-2][1]) < most:
        *few, (rest, _) = ordered
        return f"{_each(few)}; the others are {rest}"
    return _each(sorted(ordered, key=lambda item: item[1]))


def _each(places: Sequence[tuple[str, list[int]]]) -> str:
    return ", ".join(f"{_ranks(ranks)} {_be(ranks)} {place}" for place, ranks in places)


def _by_counts(counts: Mapping[int, Operations]) -> str:
    fewest = min(one.entered for one in counts.values())
    most = max(one.entered for one in counts.values())
    if fewest == most:
        return _abreast(counts, most)
    call = fewest + 1
    behind = [rank for rank, one in counts.items() if one.entered == fewest]
    ahead = [rank for rank in counts if rank not in behind]
    waiting = [rank for rank in ahead if counts[rank].complete < call]
    sentence = f"{_ranks(behind)} {_have(behind)} not entered call {call}; "
    if not waiting:
        return sentence + f"{_others(ahead)} {_have(ahead)} completed it"
    subject = _others(ahead) if waiting == ahead else _ranks(waiting)
    sentence += f"{subject} {'waits' if len(waiting) == 1 else 'wait'} in it"
    if waiting != ahead:
        done = [rank for rank in ahead if rank not in waiting]
        sentence += f", {_ranks(done)} {_have(done)} completed it"
    elif most > call:
        sentence += f", with calls up to {most} behind it"
    return sentence


def _abreast(counts: Mapping[int, Operations], entered: int) -> str:
    """A sentence on ranks that have all entered the same number of calls."""
    if entered == 0:
        return "no rank has entered a call"
    late = [rank for rank, one in counts.items() if one.complete < entered]
    if not late:
        return f"all ranks have completed call {entered} and entered no other"
    if len(late) < len(counts):
        return (
            f"all ranks have entered call {entered}; {_ranks(late)} {_have(late)} not completed it"
        )
    known = min(one.complete for one in counts.values())
    sentence = f"all ranks have entered call {entered} and none completed it"
    if known == entered - 1:
        return sentence
    return f"{sentence}: one of calls {known + 1} to {entered} hangs"


def _ranks(ranks: Sequence[int]) -> str:
    names = [str(rank) for rank in sorted(ranks)]
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def _others(ranks: Sequence[int]) -> str:
    return "the others" if len(ranks) > 1 else _ranks(ranks)


def _be(ranks: Sequence[int]) -> str:
    return "is" if len(ranks) == 1 else "are"


def _have(ranks: Sequence[int]) -> str:
    return "has" if len(ranks) == 1 else "have"
