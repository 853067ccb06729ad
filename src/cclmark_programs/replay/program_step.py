"""The step of a program that can be replayed, from the window of its profile.

Kernels of operations in which every rank needs data of all others end together. So the ranks of a
step are aligned at the end of the first such operation that all of them call: the rank whose kernel
took longest, because it waited for the others, begins first.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from operator import add, attrgetter, le
from typing import Any, NamedTuple, NoReturn, cast

import msgspec

from cclmark.base.errors import UsageError
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Profile, ProfiledCall
from cclmark.profile.observed import MESSAGES, SEND, SYNCHRONIZING
from cclmark.work.intervals import length_of, union_of
from cclmark.work.operations import DTYPE_BYTES, OPERATIONS
from cclmark.work.profiled import PLUG_IN, ProfiledOperation
from cclmark_programs.replay.deadlocks import Launch, are_in_step, join_deadlocked
from cclmark_programs.replay.plan import EXCHANGE, OriginalStep, ProgramStep, ReplayedCall

_NS = 1e9
_LEAST_LAUNCH_S = 1e-6  # between two kernels; messages of one kernel may follow each other sooner
_MOST_STEP_S = 3600.0
_MOST_ENTRIES = 1 << 23  # of all matrices of messages
_MOST_COUNT = 1 << 44
_QUARTILES = 2
_PAIR = 2
_LARGE_DEVIATION = 0.1  # of the replayed step from the median of all

# Steps of large programs have millions of calls, so their columns are computed by maps.
_index_of, _stream_of = attrgetter("index"), attrgetter("stream")
_begin_of, _time_of, _beside_of = map(attrgetter, ("begin_s", "time_s", "beside_s"))
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
    """The number of ranks of a profile, quickly. Raises UsageError if it has no calls."""
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
    times = [*map(_times_of, windows)]
    # Many ranks have the same sequence, which is kept once.
    known_sequences: dict[tuple[int, ...], tuple[int, ...]] = {}
    sequences = [
        known_sequences.setdefault(own, own)
        for own in (tuple(map(_index_of, window)) for window in windows)
    ]
    _check_windows(profile, sequences, times, operations, name)
    ranks = len(windows)
    callers: dict[int, list[int]] = {}
    for number, sequence in enumerate(sequences):
        for group in {operations[index].group for index in set(sequence)}:
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
    _check_order(sequences, operations, groups, used, profile, name)
    launches: list[list[Launch]] = [[] for _ in windows]
    if not are_in_step(sequences, operations, groups):
        launches = [[*_launches(window, operations)] for window in windows]
        if stuck := join_deadlocked(launches, operations, groups):
            ranks_text = ", ".join(str(profile.processes[one].rank) for one in stuck)
            raise UsageError(
                f"{name}: ranks {ranks_text} wait for each other within the listed step: a replay "
                "would hang. The profile found no common step: profile a longer part of the program"
            )
    steps = [
        _Rank(*one, operations)
        for one in zip(range(ranks), windows, sequences, times, launches, strict=True)
    ]
    # NCCL stamps the end of a kernel when its first thread has finished, which in a kernel of
    # messages works on one of them only.
    has_partial = profile.source == PLUG_IN
    calls, own_s = _calls(steps, operations, groups, numbers, has_partial=has_partial)
    original = _all_of_original(profile, times)
    remarks = [*_remarks(profile, original, set().union(*sequences), operations)]
    step = ProgramStep(tuple(groups[group] for group in used), operations, calls, own_s)
    return FoundStep(step, _without_partial(original, profile, operations), remarks)


class _Times(NamedTuple):
    """The times of the calls of a rank, as columns.

    ``beside_s``: None where it is unknown. ``is_beside_usual``: it is known of all calls, and at
    most their time. ``least_s``: the shortest time. ``span_s``: from the first begin to the last
    end. ``communication_s``: how long at least one of the calls ran; 0 if that is unknown, or if
    not ``are_possible``.
    """

    begin_s: list[float]
    time_s: list[float]
    beside_s: list[float | None]
    is_beside_usual: bool
    least_s: float
    span_s: float
    communication_s: float
    are_possible: bool


def _times_of(window: Sequence[ProfiledCall]) -> _Times:
    begin_s, time_s = [*map(_begin_of, window)], [*map(_time_of, window)]
    # Ends are not kept: for large steps, memory determines the time.
    end_s = [*map(add, begin_s, time_s)]
    least_s, first_s = min(time_s, default=0.0), min(begin_s, default=0.0)
    last_s = max(end_s, default=0.0)
    are_possible = _are_possible(min(first_s, least_s), last_s, sum(end_s))
    is_timed = are_possible and least_s > 0
    communication_s = _communication(begin_s, time_s, end_s) if is_timed else 0.0
    beside_s: list[Any] = [*map(_beside_of, window)]
    is_usual = False
    with suppress(TypeError):  # None cannot be compared
        is_usual = min(beside_s, default=0.0) >= 0 and all(map(le, beside_s, time_s))
    if not is_usual and (known := [one for one in beside_s if one is not None]):
        are_possible = are_possible and _are_possible(min(known), max(known), sum(known))
    return _Times(
        *(begin_s, time_s, beside_s, is_usual),
        *(least_s, last_s - first_s, communication_s, are_possible),
    )


def _are_possible(least_s: float, most_s: float, sum_s: float) -> bool:
    # The sum finds what is not a number, which is neither smaller nor larger.
    return least_s >= 0 and most_s <= _MOST_STEP_S and math.isfinite(sum_s)


def _communication(
    begin_s: Sequence[float], time_s: Sequence[float], end_s: Sequence[float]
) -> float:
    if all(map(le, end_s, begin_s[1:])):
        return math.fsum(time_s)
    begins, ends = (map(round, map(_NS.__mul__, one)) for one in (begin_s, end_s))
    return length_of(union_of(zip(begins, ends, strict=True))) / _NS


#: The numbers of the operations and of the streams of a rank's launches.
_Pattern = tuple[tuple[int, ...], tuple[int, ...]]
#: A launch of all ranks of a group: the group, whether it is of messages, and which of these it is.
_Shared = tuple[int, bool, int]


class _Rank:
    """The launches of a rank in their order, as columns."""

    def __init__(
        self,
        number: int,
        window: Sequence[ProfiledCall],
        sequence: Sequence[int],
        times: _Times,
        launches: Sequence[Launch],
        operations: Sequence[ProfiledOperation],
    ) -> None:
        """``sequence``: the window's operations. ``launches``: without any, each call is one."""
        self.number = number
        #: The begins are times of kernels.
        self.is_timed = times.least_s > 0
        calls, indices = window, list[int]()
        if launches:
            calls = [one.calls[0] for one in launches]
            times, indices = _times_of(calls), [*map(_index_of, calls)]
        self.begin_s, self.time_s, beside_s, *_ = times
        #: Those of messages, by number.
        self.messages: dict[int, Launch] = {}
        for place, launch in enumerate(launches):
            if operations[indices[place]].operation not in MESSAGES:
                continue
            self.messages[place] = launch
            if len(launch.calls) > 1:
                # The order of messages in a launch differs between ranks.
                sends = (one for one in launch.calls if operations[one.index].operation == SEND)
                indices[place] = next(sends, launch.calls[0]).index
                self.begin_s[place] = min(map(_begin_of, launch.calls))
                end_s = max(one.begin_s + one.time_s for one in launch.calls)
                self.time_s[place] = end_s - self.begin_s[place]
                known = [one.beside_s for one in launch.calls if one.beside_s is not None]
                beside_s[place] = max(known, default=None)
        #: How long other kernels ran beside each, at most: if they are unknown, all the time.
        self.beside_s = self.time_s
        if times.is_beside_usual and not launches:
            self.beside_s = cast(list[float], beside_s)
        elif beside_s.count(None) < len(beside_s):
            self.beside_s = [
                time_s if own_s is None or own_s > time_s else own_s
                for time_s, own_s in zip(self.time_s, beside_s, strict=True)
            ]
        #: Many ranks have it in common.
        self.pattern: _Pattern = (tuple(indices or sequence), tuple(map(_stream_of, calls)))


def _launches(
    window: Sequence[ProfiledCall], operations: Sequence[ProfiledOperation]
) -> Iterator[Launch]:
    """Joins messages that follow each other in a group and on a stream and run in one kernel.

    Without times, messages that follow each other are together until one of them occurs again.
    """
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


def _is_alike(
    one: ProfiledCall, other: ProfiledCall, operations: Sequence[ProfiledOperation]
) -> bool:
    """Whether two messages are of one group, stream and type."""
    first, second = operations[one.index], operations[other.index]
    return (first.group, one.stream, first.dtype) == (second.group, other.stream, second.dtype)


def _check_windows(
    profile: Profile,
    sequences: Sequence[tuple[int, ...]],
    times: Sequence[_Times],
    operations: Sequence[ProfiledOperation],
    name: str,
) -> None:
    if len(profile.window) != len(profile.processes):
        raise UsageError(f"{name}: the profile is damaged: a process has no list of calls")
    _check_repetitions(profile, name)
    checked: set[tuple[int, int]] = set()
    messages = {index for index, one in enumerate(operations) if one.operation in MESSAGES}
    for window, sequence, own in zip(profile.window, sequences, times, strict=True):
        if not own.are_possible:
            for call in window:
                end_s = call.begin_s + call.time_s
                times_s = (call.begin_s, call.time_s, end_s, call.beside_s or 0.0)
                if not all(0 <= time_s <= _MOST_STEP_S for time_s in times_s):
                    if call.index >= len(operations):
                        _refuse_index(name)
                    _refuse_call(operations[call.index], name)
        used = set(sequence)
        # Only messages have peers.
        pairs = (
            {(index, -1) for index in used}
            if messages.isdisjoint(used)
            else set(map(_peer_of, window))
        )
        for index, peer in pairs - checked:
            if index >= len(operations):
                _refuse_index(name)
            one = operations[index]
            if one.count > _MOST_COUNT:
                _refuse_call(one, name)
            if one.group >= len(profile.groups):
                raise UsageError(f"{name}: the profile is damaged: an operation has no group")
            _check_operation(one, peer, len(profile.groups[one.group].ranks), name)
            checked.add((index, peer))


def _refuse_index(name: str) -> NoReturn:
    raise UsageError(f"{name}: the profile is damaged: a call has no operation")


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
    # The size is that of a rank's elements; of operations that span ranks, that of all parts.
    spans = one.operation not in OPERATIONS or OPERATIONS[one.operation].spans_ranks
    width_bytes = DTYPE_BYTES[one.dtype]
    if not any(
        one.count * width_bytes * number <= one.size_bytes < (one.count + 1) * width_bytes * number
        for number in {1, max(1, one.group_ranks) if spans else 1}
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
    indices: Sequence[tuple[int, ...]],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
    used: Sequence[int],
    profile: Profile,
    name: str,
) -> None:
    """Raises UsageError if ranks call other collectives. ``indices``: of the operations of each."""
    by_pattern = {own: _collectives(own, operations) for own in set(indices)}
    found = [by_pattern[own] for own in indices]
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


def _collectives(
    indices: Sequence[int], operations: Sequence[ProfiledOperation]
) -> dict[int, list[int]]:
    """The operations of a rank's collectives in their order, by group."""
    found: dict[int, list[int]] = {}
    for index in indices:
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
    of_all = {group for group, members in enumerate(groups) if len(members) == len(steps)}
    common = {
        index: own.group
        for index, own in enumerate(operations)
        if own.operation in SYNCHRONIZING and own.group in of_all
    }
    # Ranks have the same order within a group, so the first one of a group is the same call.
    group = next((common[index] for index in steps[0].pattern[0] if index in common), None)
    ends_s: list[float | None] = []
    for one in steps:
        found = (
            begin_s + time_s
            for index, begin_s, time_s in zip(one.pattern[0], one.begin_s, one.time_s, strict=True)
            if group is not None and common.get(index) == group
        )
        ends_s.append(next(found, None) if one.is_timed else None)
    known = [one for one in ends_s if one is not None]
    if len(known) < len(steps):
        return [0.0] * len(steps)
    latest_s = max(known)
    return [latest_s - one for one in known]


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
        for number, launch in one.messages.items()
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


def _calls(
    steps: Sequence[_Rank],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
    numbers: dict[int, int],
    *,
    has_partial: bool,
) -> tuple[tuple[tuple[ReplayedCall, ...], ...], tuple[float, ...]]:
    """The calls of each rank, and the own times of those that ranks share.

    ``numbers``: of the groups in the step. ``has_partial``: whether the times of messages are only
    parts of those of their kernels.
    """
    shifts_s = _shifts(steps, operations, groups)
    matrices = _matrices(steps, operations, groups)
    alike: dict[_Pattern, list[_Rank]] = {}
    for one in steps:
        alike.setdefault(one.pattern, []).append(one)
    shared, own_s = _shared(alike, operations, groups, messages=not has_partial)
    calls: list[tuple[ReplayedCall, ...]] = [()] * len(steps)
    for pattern, ranks in alike.items():
        indices, streams = pattern
        in_order = {stream: number for number, stream in enumerate(dict.fromkeys(streams))}
        own = [operations[index] for index in indices]
        is_message = [one.operation in MESSAGES for one in own]
        columns = (
            [numbers[one.group] for one in own],
            [in_order[stream] for stream in streams],
            indices,
            [
                EXCHANGE if message else one.operation
                for one, message in zip(own, is_message, strict=True)
            ],
            [one.dtype for one in own],
        )
        counts = [one.count for one in own]
        partial = [has_partial and one for one in is_message]
        for one in ranks:
            untimed = None if one.is_timed else repeat(0.0)
            rows: Iterable[tuple[int, ...]] = repeat(())
            sizes: Iterable[int] = counts
            if one.messages:
                rows = [matrices.get((one.number, place), ()) for place in range(len(own))]
                sizes = [
                    max(row) if row else count for row, count in zip(rows, counts, strict=True)
                ]
            calls[one.number] = tuple(
                map(
                    ReplayedCall,
                    *columns,
                    sizes,
                    map(shifts_s[one.number].__add__, one.begin_s),
                    untimed or one.time_s,
                    rows,
                    shared[pattern],
                    untimed or one.beside_s,
                    partial,
                )
            )
    return tuple(calls), own_s


def _shared(
    alike: Mapping[_Pattern, Sequence[_Rank]],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
    *,
    messages: bool,
) -> tuple[dict[_Pattern, list[int]], tuple[float, ...]]:
    """The numbers of the launches that ranks share, -1 of others, by pattern, and their own times.

    Its kernels end together, so that the rank that came last, and waited least, shows the time that
    the operation takes. That is so for operations in which every rank needs data of all others, and
    for messages between the two ranks of a group. ``alike``: the ranks of each pattern.
    ``messages``: whether the times of messages are those of their kernels.
    """
    keys = [(own.group, own.operation in MESSAGES) for own in operations]
    pairs = {group for group, members in enumerate(groups) if len(members) == _PAIR}
    is_shared = [
        (messages and is_message and group in pairs) or own.operation in SYNCHRONIZING
        for (group, is_message), own in zip(keys, operations, strict=True)
    ]
    # By what is shared: its ranks, the shortest time of a rank, and whether others ran beside one.
    found: dict[_Shared, tuple[int, float, bool]] = {}
    keys_of: dict[_Pattern, list[_Shared | None]] = {}
    for pattern, ranks in alike.items():
        counts = dict.fromkeys(keys, 0)
        keys_of[pattern] = own = []
        for index in pattern[0]:
            counts[keys[index]] += 1
            own.append((*keys[index], counts[keys[index]]) if is_shared[index] else None)
        # The first rank twice: of one value there is no minimum.
        least_s = map(min, ranks[0].time_s, *(one.time_s for one in ranks))
        alone = {place for place, key in enumerate(own) if key is not None}
        for one in ranks:
            alone = {place for place in alone if one.beside_s[place] <= 0}
            if not alone:
                break
        timed = sum(one.is_timed for one in ranks)
        for place, (key, shortest_s) in enumerate(zip(own, least_s, strict=True)):
            if key is not None:
                known, time_s, is_beside = found.get(key, (0, math.inf, False))
                is_beside = is_beside or place not in alone
                found[key] = known + timed, min(time_s, shortest_s), is_beside
    whole = {key: one for key, one in found.items() if one[0] == len(groups[key[0]])}
    numbers: dict[_Shared | None, int] = {key: number for number, key in enumerate(whole)}
    of_patterns = {
        pattern: [numbers.get(key, -1) for key in own] for pattern, own in keys_of.items()
    }
    own_s = (time_s if is_beside else 0.0 for _, time_s, is_beside in whole.values())
    return of_patterns, tuple(own_s)


def _without_partial(
    found: OriginalStep, profile: Profile, operations: Sequence[ProfiledOperation]
) -> OriginalStep:
    """The figures of the program without the messages whose times are not known.

    Messages whose times are only a part of their kernels' are left out of the communication, by
    their share of it in the listed step. If there is nothing else, it is unknown.
    """
    if (
        profile.source != PLUG_IN
        or not found.communication_s
        or not any(one.operation in MESSAGES for one in operations)
    ):
        return found
    collectives = [
        [one for one in window if operations[one.index].operation not in MESSAGES]
        for window in profile.window
    ]
    if sum(map(len, collectives)) == sum(map(len, profile.window)):
        return found
    if not any(collectives):
        return msgspec.structs.replace(found, communication_s=(), quartiles_s=())
    whole_s, own_s = (
        [_times_of(window).communication_s for window in windows]
        for windows in (profile.window, collectives)
    )
    shares = [own / whole for own, whole in zip(own_s, whole_s, strict=True)]
    share = sum(own_s) / sum(whole_s)
    return msgspec.structs.replace(
        found,
        communication_s=tuple(
            time_s * own for time_s, own in zip(found.communication_s, shares, strict=True)
        ),
        quartiles_s=tuple(time_s * share for time_s in found.quartiles_s),
    )


def _all_of_original(profile: Profile, times: Sequence[_Times]) -> OriginalStep:
    if not all(own.least_s > 0 for own in times):
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
    span_s = tuple(own.span_s for own in times)
    own = OriginalStep(span_s, tuple(own.communication_s for own in times), step_s)
    if median_s := _earlier_medians(profile):
        number = min(one.steps for one in profile.processes)
        return msgspec.structs.replace(own, communication_s=median_s, steps=number)
    return own


def _is_one_step(profile: Profile) -> bool:
    """Whether the listed calls are known to be one step of the program."""
    pairs = zip(profile.processes, profile.window, strict=True)
    return all(one.step_calls == len(window) for one, window in pairs)


def _earlier_medians(profile: Profile) -> tuple[float, ...]:
    """The median communication of all steps by rank; empty if unknown.

    Profiles of earlier versions contain no other figures of all repetitions.
    """
    known = [one.step_communication_s for one in profile.processes]
    medians_s = tuple(one for one in known if one is not None)
    is_known = profile.repetitions is None and len(medians_s) == len(profile.window)
    return medians_s if is_known and _is_one_step(profile) else ()


def _untypical(profile: Profile, original: OriginalStep) -> Iterator[str]:
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
    if not original.steps or not sum(original.communication_s):
        return
    yield (
        "the profile does not contain the first to last of all steps: that of the program is of "
        "the replayed step. Profile or import again to have it"
    )
    own_s = [_times_of(window).communication_s for window in profile.window]
    pairs = zip(own_s, original.communication_s, strict=True)
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
    original: OriginalStep,
    used: Iterable[int],
    operations: Sequence[ProfiledOperation],
) -> Iterator[str]:
    if not _is_one_step(profile):
        yield (
            "the listed calls may not form one step of the program: the replay repeats "
            f"{max(map(len, profile.window))} calls from its middle, and times of steps are left "
            "out"
        )
    yield from _untypical(profile, original)
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
