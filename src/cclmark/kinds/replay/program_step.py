"""The step of a program that can be replayed, from the window of its profile.

Kernels of operations in which every rank needs data of all others end together. So the ranks of a
step are aligned at the end of the first such operation that all of them call: the rank whose kernel
took longest, because it waited for the others, begins first.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NoReturn

import msgspec

from cclmark.errors import UsageError
from cclmark.kinds.replay.deadlocks import Launch, join_deadlocked
from cclmark.kinds.replay.plan import EXCHANGE, OriginalStep, ProgramStep, ReplayedCall
from cclmark.plan.operations import DTYPE_BYTES, OPERATIONS
from cclmark.plan.profiled import PLUG_IN, ProfiledOperation
from cclmark.profile.intervals import length_of, union_of
from cclmark.profile.observed import MESSAGES, SEND, SYNCHRONIZING
from cclmark.results.journal import Journal
from cclmark.results.schema import Profile, ProfiledCall

_NS = 1e9
_LEAST_LAUNCH_S = 1e-6  # between two kernels; messages of one kernel may follow each other sooner
_MOST_STEP_S = 3600.0
_MOST_ENTRIES = 1 << 23  # of all matrices of messages
_MOST_COUNT = 1 << 44
_QUARTILES = 2
_PAIR = 2
_LARGE_DEVIATION = 0.1  # of the replayed step from the median of all

_index_of = attrgetter("index")
_peer_of = attrgetter("index", "peer")
_UNKNOWN_SIZES = "alltoallv"  # a profile has the sum of a rank's parts only


@dataclass(frozen=True)
class FoundStep:
    """A step, with its figures in the program and remarks in words."""

    step: ProgramStep
    original: OriginalStep
    remarks: list[str]

    @property
    def digest(self) -> str:
        """Identifies the step."""
        return hashlib.sha256(msgspec.msgpack.encode(self.step)).hexdigest()[:16]


def ranks_of(journal: Journal, name: str) -> int:
    """Returns the number of ranks of a profile, which takes no time.

    Raises UsageError if the journal is no profile, or lists no calls.
    """
    return len(_profile_of(journal, name).window)


def _profile_of(journal: Journal, name: str) -> Profile:
    profile = journal.profile
    places = [result.index for result in journal.profiled]
    if journal.unread_lines or places != list(range(len(places))):
        raise UsageError(
            f"{name}: the journal is damaged: lines are missing, or of another profile. Calls "
            "refer to operations by their number: profile or import again"
        )
    if profile is None:
        raise UsageError(
            f"{name} is no profile: replay reads the journals of cclmark profile, and of imported "
            "traces"
        )
    if not places:
        raise UsageError(f"{name}: the profile has no operation: the program communicated nothing")
    if not any(profile.window):
        raise UsageError(
            f"{name}: the profile lists no calls in their order: profile again with --calls"
        )
    return profile


def step_of(journal: Journal, name: str) -> FoundStep:
    """Returns the step of a profile. ``name``: of its file, for messages.

    Raises UsageError with the reason if the journal is no profile, or its step cannot be replayed.
    """
    profile = _profile_of(journal, name)
    operations = tuple(result.profiled for result in journal.profiled)
    windows = profile.window
    _check_windows(profile, operations, name)
    ranks = len(windows)
    callers: dict[int, list[int]] = {}
    for number, window in enumerate(windows):
        for group in {operations[index].group for index in _indices_in(window)}:
            callers.setdefault(group, []).append(number)
    used = sorted(callers)
    groups = [tuple(one for one in group.ranks if one is not None) for group in profile.groups]
    for group in used:
        # A trace may not contain the members of a group whose operations all ranks call.
        if not profile.groups[group].ranks and len(callers[group]) == ranks:
            groups[group] = tuple(range(ranks))
        else:
            _check_group(profile, group, ranks, callers[group], name)
    # Ranks meet in the same place for one group after the other, the largest first.
    used.sort(key=lambda group: -len(groups[group]))
    numbers = {group: number for number, group in enumerate(used)}
    steps = [_Rank(number, window, operations) for number, window in enumerate(windows)]
    _check_order(steps, operations, groups, used, profile, name)
    if stuck := join_deadlocked([one.launches for one in steps], operations, groups):
        ranks_text = ", ".join(str(profile.processes[one].rank) for one in stuck)
        raise UsageError(
            f"{name}: ranks {ranks_text} wait for each other within the listed step: a replay "
            "would hang. The profile found no common step: profile a longer part of the program"
        )
    shifts_s = _shifts(steps, operations, groups)
    matrices = _matrices(steps, operations, groups)
    # NCCL stamps the end of a kernel when its first thread has finished, which in a kernel of
    # messages works on one of them only.
    has_partial = profile.source == PLUG_IN
    shared, own_s = _shared(steps, operations, groups, messages=not has_partial)
    calls = tuple(
        tuple(_calls(one, operations, numbers, matrices, shared, shifts_s[one.number], has_partial))
        for one in steps
    )
    remarks = [*_remarks(profile, windows, operations)]
    step = ProgramStep(tuple(groups[group] for group in used), operations, calls, own_s)
    return FoundStep(step, _original(profile, operations), remarks)


class _Rank:
    """The launches of a rank in their order."""

    def __init__(
        self,
        number: int,
        window: Sequence[ProfiledCall],
        operations: Sequence[ProfiledOperation],
    ) -> None:
        self.number = number
        self.launches = [*_launches(window, operations)]
        #: The begins are times of kernels.
        self.is_timed = bool(window) and all(one.time_s > 0 for one in window)


def _launches(
    window: Sequence[ProfiledCall], operations: Sequence[ProfiledOperation]
) -> Iterator[Launch]:
    """Joins messages that follow each other in a group and on a stream and run in one kernel.

    Without times, messages that follow each other are together until one of them occurs again.
    """
    if not any(operations[index].operation in MESSAGES for index in _indices_in(window)):
        yield from (Launch((call,)) for call in window)
        return
    pending: list[ProfiledCall] = []
    peers: set[tuple[str, int]] = set()
    end_s = 0.0
    for call in window:
        own = operations[call.index]
        is_message, peer = own.operation in MESSAGES, (own.operation, call.peer)
        if pending and not (
            is_message
            and peer not in peers
            and _is_alike(pending[0], call, operations)
            and (call.time_s <= 0 or call.begin_s < end_s + _LEAST_LAUNCH_S)
        ):
            yield Launch(tuple(pending))
            pending, end_s = [], 0.0
            peers.clear()
        if is_message:
            pending.append(call)
            peers.add(peer)
            end_s = max(end_s, call.begin_s + call.time_s) if call.time_s > 0 else math.inf
        else:
            yield Launch((call,))
    if pending:
        yield Launch(tuple(pending))


def _indices_in(window: Sequence[ProfiledCall]) -> set[int]:
    """The numbers of the operations that a rank calls."""
    return set(map(_index_of, window))


def _is_alike(
    one: ProfiledCall, other: ProfiledCall, operations: Sequence[ProfiledOperation]
) -> bool:
    """Whether two messages are of one group, stream and type."""
    first, second = operations[one.index], operations[other.index]
    return (first.group, one.stream, first.dtype) == (second.group, other.stream, second.dtype)


def _check_windows(profile: Profile, operations: Sequence[ProfiledOperation], name: str) -> None:
    if len(profile.window) != len(profile.processes):
        raise UsageError(f"{name}: the profile is damaged: a process has no list of calls")
    _check_repetitions(profile, name)
    checked: set[tuple[int, int]] = set()
    for window in profile.window:
        for call in window:
            if (
                0 <= call.begin_s <= _MOST_STEP_S
                and 0 <= call.time_s <= _MOST_STEP_S
                and 0 <= (call.beside_s or 0.0) <= _MOST_STEP_S
            ):
                continue
            if call.index < len(operations):
                _refuse_call(operations[call.index], name)
        for index, peer in set(map(_peer_of, window)) - checked:
            if index >= len(operations):
                raise UsageError(f"{name}: the profile is damaged: a call has no operation")
            one = operations[index]
            if one.count > _MOST_COUNT:
                _refuse_call(one, name)
            if one.group >= len(profile.groups):
                raise UsageError(f"{name}: the profile is damaged: an operation has no group")
            _check_operation(one, peer, len(profile.groups[one.group].ranks), name)
            checked.add((index, peer))


def _refuse_call(one: ProfiledOperation, name: str) -> NoReturn:
    raise UsageError(
        f"{name}: a call of {one.describe()} has an impossible time or size: the profile is "
        "damaged, or its step is longer than an hour"
    )


def _check_repetitions(profile: Profile, name: str) -> None:
    known = profile.repetitions
    if known is None:
        return
    by_process, quartiles = (known.communication_s, known.span_s), known.communication_quartiles_s
    if (
        any(values and len(values) != len(profile.window) for values in by_process)
        or len(quartiles) not in (0, _QUARTILES)
        or not all(one <= _MOST_STEP_S for values in (*by_process, quartiles) for one in values)
    ):
        raise UsageError(f"{name}: the profile is damaged: impossible figures of its steps")


def _check_operation(one: ProfiledOperation, peer: int, group_size: int, name: str) -> None:
    what = f"{name}: {one.describe()} cannot be replayed"
    if one.operation in MESSAGES:
        if peer < 0:
            raise UsageError(f"{what}: the profile does not contain its peer")
        if peer >= group_size > 0:
            raise UsageError(f"{what}: its peer is rank {peer} of a group of {group_size} ranks")
    elif one.operation not in OPERATIONS or one.operation == _UNKNOWN_SIZES:
        raise UsageError(f"{what}: the profile does not contain the sizes of its parts")
    if one.dtype not in DTYPE_BYTES:
        raise UsageError(f"{what}: its type is unknown; record the trace with shapes")
    # The size is that of a rank's elements, or of all ranks' parts.
    parts = max(1, one.group_ranks)
    width_bytes = DTYPE_BYTES[one.dtype]
    if not any(
        one.count * width_bytes * number <= one.size_bytes < (one.count + 1) * width_bytes * number
        for number in (1, parts)
    ):
        raise UsageError(
            f"{what}: the profile is damaged: {one.count} elements do not have {one.size_bytes} "
            "bytes"
        )
    if group_size and one.group_ranks not in (0, group_size):
        raise UsageError(
            f"{what}: the profile is damaged: its group has {group_size} ranks, not "
            f"{one.group_ranks}"
        )


def _check_group(
    profile: Profile, group: int, ranks: int, callers: Sequence[int], name: str
) -> None:
    members = profile.groups[group].ranks
    if not members or any(one is None for one in members):
        known = sum(one is not None for one in members)
        raise UsageError(
            f"{name}: {known} of {len(members)} ranks of group {group} are in the profile: a "
            "replay requires all of them. Profile all hosts, or import the traces of all ranks"
        )
    present = {one for one in members if one is not None and 0 <= one < ranks}
    if len(present) < len(members) or not present.issuperset(callers):
        raise UsageError(
            f"{name}: the profile is damaged: the ranks of group {group} differ from its callers"
        )


def _check_order(
    steps: Sequence[_Rank],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
    used: Sequence[int],
    profile: Profile,
    name: str,
) -> None:
    """Raises UsageError if ranks of a group do not call the same collectives in the same order."""
    found = [_collectives(one, operations) for one in steps]
    for group in used:
        sequences = [found[member].get(group, []) for member in groups[group]]
        for member, sequence in zip(groups[group], sequences, strict=True):
            if sequence == sequences[0]:
                continue
            pairs = list(zip(sequence, sequences[0], strict=False))
            place = next((i for i, (one, other) in enumerate(pairs) if one != other), len(pairs))
            first, other = profile.processes[groups[group][0]], profile.processes[member]
            raise UsageError(
                f"{name}: ranks {first.rank} and {other.rank} differ in call {place + 1} of group "
                f"{group} within the listed step, so that a replay would hang. The profile found "
                "no common step: profile a longer part of the training, or raise --calls"
            )


def _collectives(one: _Rank, operations: Sequence[ProfiledOperation]) -> dict[int, list[int]]:
    """The operations of a rank's collectives in their order, by group."""
    found: dict[int, list[int]] = {}
    for launch in one.launches:
        index = launch.calls[0].index
        own = operations[index]
        if own.operation not in MESSAGES:
            found.setdefault(own.group, []).append(index)
    return found


def _shifts(
    steps: Sequence[_Rank],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
) -> list[float]:
    """How much later than the first rank each one begins, in seconds."""

    def is_common(launch: Launch) -> bool:
        own = operations[launch.first.index]
        return own.operation in SYNCHRONIZING and len(groups[own.group]) == len(steps)

    # Ranks have the same order within a group, so the first one of a group is the same call.
    group = next(
        (
            operations[launch.first.index].group
            for launch in (steps[0].launches if steps else ())
            if is_common(launch)
        ),
        -1,
    )
    ends_s: list[float | None] = []
    for one in steps:
        found = next(
            (
                launch.end_s
                for launch in one.launches
                if is_common(launch) and operations[launch.first.index].group == group
            ),
            None,
        )
        ends_s.append(found if one.is_timed else None)
    known = [one for one in ends_s if one is not None]
    if len(known) < len(steps):
        return [0.0] * len(steps)
    return [max(known) - one for one in known]


#: The row of a sender by its rank and the number of its launch.
_Matrices = dict[tuple[int, int], dict[int, int]]


def _matrices(
    steps: Sequence[_Rank],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
) -> dict[tuple[int, int], tuple[int, ...]]:
    """The matrix of each launch of messages, by rank and number of the launch.

    The sends from one rank to another match the receives there in their order. What a sender sends
    to others in the same launch determines where its parts lie.
    """
    messages = [
        (one, number, launch, operations[launch.first.index].group)
        for one in steps
        for number, launch in enumerate(one.launches)
        if operations[launch.first.index].operation in MESSAGES
    ]
    if sum(len(groups[group]) ** 2 for _, _, _, group in messages) > _MOST_ENTRIES:
        raise UsageError(
            f"the messages of {len(steps)} ranks in {len(messages)} calls are too many to replay: "
            "profile a program of fewer ranks"
        )
    rows: _Matrices = {}
    sent: dict[tuple[int, int, int], deque[tuple[int, int]]] = {}
    for one, number, launch, group in messages:
        row: dict[int, int] = {}
        for call in launch.calls:
            part = operations[call.index]
            if part.operation == SEND:
                row[call.peer] = row.get(call.peer, 0) + part.count
        rows[one.number, number] = row
        place = groups[group].index(one.number)
        for peer in row:
            sent.setdefault((group, place, peer), deque()).append((one.number, number))
    return {
        (one.number, number): _matrix(one, number, launch, groups[group], operations, rows, sent)
        for one, number, launch, group in messages
    }


def _matrix(
    one: _Rank,
    number: int,
    launch: Launch,
    members: Sequence[int],
    operations: Sequence[ProfiledOperation],
    rows: _Matrices,
    sent: dict[tuple[int, int, int], deque[tuple[int, int]]],
) -> tuple[int, ...]:
    size = len(members)
    own = members.index(one.number)
    matrix = [0] * (size * size)

    def fill(sender: int, row: dict[int, int]) -> None:
        for peer, count in row.items():
            matrix[sender * size + peer] = count

    fill(own, rows[one.number, number])
    received: dict[int, int] = {}
    for call in launch.calls:
        part = operations[call.index]
        if part.operation != SEND:
            received[call.peer] = received.get(call.peer, 0) + part.count
    group = operations[launch.first.index].group
    for peer, count in received.items():
        matching = sent.get((group, peer, own))
        sender = rows[matching.popleft()] if matching else {}
        if sender.get(own) != count:
            raise UsageError(
                f"rank {own} of group {group} receives {count} elements from rank {peer}, which "
                f"sends {sender.get(own, 0)} within the listed step, so that a replay would hang. "
                "The profile found no common step: profile a longer part of the program"
            )
        fill(peer, sender)
    return tuple(matrix)


def _shared(
    steps: Sequence[_Rank],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
    *,
    messages: bool,
) -> tuple[dict[tuple[int, int], int], tuple[float, ...]]:
    """The number of each launch that ranks share, by rank and place, and its own time.

    Its kernels end together, so that the rank that came last, and waited least, shows the time that
    the operation takes. That is so for operations in which every rank needs data of all others, and
    for messages between the two ranks of a group. ``messages``: whether the times of messages are
    those of their kernels.
    """
    keys = [(own.group, own.operation in MESSAGES) for own in operations]
    is_shared = [
        (messages and key[1] and len(groups[key[0]]) == _PAIR) or own.operation in SYNCHRONIZING
        for key, own in zip(keys, operations, strict=True)
    ]
    by_key: dict[tuple[int, bool, int], list[tuple[int, int]]] = {}
    for one in steps:
        counts = dict.fromkeys(keys, 0)
        for place, launch in enumerate(one.launches):
            index = launch.calls[0].index
            key = keys[index]
            counts[key] = count = counts[key] + 1
            if is_shared[index]:
                by_key.setdefault((*key, count), []).append((one.number, place))
    found: dict[tuple[int, int], int] = {}
    own_s: list[float] = []
    for (group, _, _), shared in by_key.items():
        if len(shared) < len(groups[group]) or not all(steps[rank].is_timed for rank, _ in shared):
            continue
        found.update(dict.fromkeys(shared, len(own_s)))
        launches = [steps[rank].launches[place] for rank, place in shared]
        is_alone = all(_beside_s(one) <= 0 for one in launches)
        own_s.append(0.0 if is_alone else min(one.end_s - one.begin_s for one in launches))
    return found, tuple(own_s)


def _beside_s(launch: Launch) -> float:
    """How long other kernels ran beside a launch, at most: if they are unknown, all the time."""
    time_s = launch.end_s - launch.begin_s
    known = [one.beside_s for one in launch.calls if one.beside_s is not None]
    return min(time_s, max(known)) if known else time_s


def _calls(
    one: _Rank,
    operations: Sequence[ProfiledOperation],
    numbers: dict[int, int],
    matrices: dict[tuple[int, int], tuple[int, ...]],
    shared: dict[tuple[int, int], int],
    shift_s: float,
    has_partial: bool,
) -> Iterator[ReplayedCall]:
    streams: dict[int, int] = {}
    for number, launch in enumerate(one.launches):
        counted = launch.calls[0]
        if len(launch.calls) > 1:
            # The order of messages in a launch differs between ranks.
            sends = (one for one in launch.calls if operations[one.index].operation == SEND)
            counted = next(sends, counted)
        own = operations[counted.index]
        matrix = matrices.get((one.number, number), ())
        begin_s = launch.begin_s
        yield ReplayedCall(
            group=numbers[own.group],
            stream=streams.setdefault(launch.calls[0].stream, len(streams)),
            operation=counted.index,
            collective=EXCHANGE if matrix else own.operation,
            dtype=own.dtype,
            count=max(matrix) if matrix else own.count,
            begin_s=begin_s + shift_s,
            time_s=launch.end_s - begin_s if one.is_timed else 0.0,
            matrix=matrix,
            number=shared.get((one.number, number), -1),
            beside_s=_beside_s(launch) if one.is_timed else 0.0,
            is_partial=has_partial and bool(matrix),
        )


def _original(profile: Profile, operations: Sequence[ProfiledOperation]) -> OriginalStep:
    """The figures of the program: medians of its steps where they are known.

    Messages whose times are only a part of their kernels' are left out of the communication, by
    their share of it in the listed step. If there is nothing else, it is unknown.
    """
    found = _all_of_original(profile)
    if profile.source != PLUG_IN or not found.communication_s:
        return found
    collectives = [
        [one for one in window if operations[one.index].operation not in MESSAGES]
        for window in profile.window
    ]
    if sum(map(len, collectives)) == sum(map(len, profile.window)):
        return found
    if not any(collectives):
        return msgspec.structs.replace(found, communication_s=(), quartiles_s=())
    whole_s, own_s = _communication(profile.window), _communication(collectives)
    shares = [own / whole for own, whole in zip(own_s, whole_s, strict=True)]
    share = sum(own_s) / sum(whole_s)
    return msgspec.structs.replace(
        found,
        communication_s=tuple(
            time_s * own for time_s, own in zip(found.communication_s, shares, strict=True)
        ),
        quartiles_s=tuple(time_s * share for time_s in found.quartiles_s),
    )


def _all_of_original(profile: Profile) -> OriginalStep:
    if not all(window and all(one.time_s > 0 for one in window) for window in profile.window):
        return OriginalStep()
    steps = [one.step_s for one in profile.processes if one.step_s is not None]
    step_s = tuple(steps) if _is_one_step(profile) and len(steps) == len(profile.window) else ()
    known = profile.repetitions
    if known is not None and known.communication_s and known.span_s:
        return OriginalStep(
            tuple(known.span_s),
            tuple(known.communication_s),
            step_s,
            known.compared,
            tuple(known.communication_quartiles_s),
        )
    own = OriginalStep(_spans(profile), _communication(profile.window), step_s)
    if median_s := _earlier_medians(profile):
        number = min(one.steps for one in profile.processes)
        return msgspec.structs.replace(own, communication_s=median_s, steps=number)
    return own


def _is_one_step(profile: Profile) -> bool:
    """Whether the listed calls are known to be one step of the program."""
    pairs = zip(profile.processes, profile.window, strict=True)
    return all(one.step_calls == len(window) for one, window in pairs)


def _spans(profile: Profile) -> tuple[float, ...]:
    """From the first call to the end of the last one of the listed step, by rank."""
    return tuple(
        max(one.begin_s + one.time_s for one in window) - min(one.begin_s for one in window)
        for window in profile.window
    )


def _communication(windows: Sequence[Sequence[ProfiledCall]]) -> tuple[float, ...]:
    """In which at least one of the calls of a step ran, by rank."""
    return tuple(
        length_of(
            union_of(
                (round(one.begin_s * _NS), round((one.begin_s + one.time_s) * _NS))
                for one in window
            )
        )
        / _NS
        for window in windows
    )


def _earlier_medians(profile: Profile) -> tuple[float, ...]:
    """The median communication of all steps by rank; empty if unknown.

    Profiles of earlier versions contain no other figures of all repetitions.
    """
    known = [one.step_communication_s for one in profile.processes]
    medians_s = tuple(one for one in known if one is not None)
    is_known = profile.repetitions is None and len(medians_s) == len(profile.window)
    return medians_s if is_known and _is_one_step(profile) else ()


def _untypical(profile: Profile) -> Iterator[str]:
    """A remark if the replayed step is far from the medians of all steps."""
    known = profile.repetitions
    if known is not None:
        largest = max(known.step_deviation, known.communication_deviation)
        if largest > _LARGE_DEVIATION:
            yield (
                "no step of the program is typical: the replayed one is the nearest to the medians "
                f"of {known.compared} steps, but differs from them by "
                f"{known.communication_deviation * 100:.0f} % in communication and "
                f"{known.step_deviation * 100:.0f} % in its length"
            )
        return
    original = _all_of_original(profile)
    if not original.steps or not sum(original.communication_s):
        return
    yield (
        "the profile does not contain the first to last of all steps: that of the program is of "
        "the replayed step. Profile or import again to have it"
    )
    pairs = zip(_communication(profile.window), original.communication_s, strict=True)
    deviation = sum(abs(own - usual) for own, usual in pairs) / sum(original.communication_s)
    is_longer = max(original.span_s) > (1 + _LARGE_DEVIATION) * max(original.step_s, default=0.0)
    if deviation > _LARGE_DEVIATION or (original.step_s and is_longer):
        yield (
            f"the step that is replayed is not typical: of {original.steps} steps it is the middle "
            f"one, and its communication differs by {deviation * 100:.0f} % from their median. "
            "Profile or import again: this version records the most typical step"
        )


def _remarks(
    profile: Profile,
    windows: Sequence[Sequence[ProfiledCall]],
    operations: Sequence[ProfiledOperation],
) -> Iterator[str]:
    used = set().union(*map(_indices_in, windows))
    if not _is_one_step(profile):
        yield (
            "the listed calls may not form one step of the program: the replay repeats "
            f"{max(map(len, windows))} calls from its middle, and times of steps are left out"
        )
    yield from _untypical(profile)
    if any(operations[index].is_range for index in used):
        yield "calls that were counted by powers of two are replayed with their smallest count"
    if any(not profile.groups[operations[index].group].ranks for index in used):
        yield "the profile does not name the ranks of a group that all ranks use: all are assumed"
    rooted = {operations[index].operation for index in used if _is_rooted(operations[index])}
    if profile.source == PLUG_IN and any(operations[one].operation in MESSAGES for one in used):
        yield (
            "the times of sends and receives are not compared, nor part of the communication "
            "beside other operations: NCCL reports them to the plug-in without the end of their "
            "kernels"
        )
    if rooted:
        names = ", ".join(sorted(rooted))
        yield f"the profile does not contain the roots of {names}: rank 0 is taken"


def _is_rooted(one: ProfiledOperation) -> bool:
    info = OPERATIONS.get(one.operation)
    return info is not None and info.rooted and one.operation not in MESSAGES
