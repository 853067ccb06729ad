"""A round of a scan, from the side of one rank.

All groups work at once: every batch begins at a barrier of all ranks, so that the load is that of
the whole round. Rank 0 decides about the groups, and composes the result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

import cclmark._engine as engine
from cclmark.analysis.stopping import WarmUp
from cclmark.journal.item_results import CaseResult
from cclmark.journal.summaries import chosen_times, combine
from cclmark.rank.context import RankContext
from cclmark.rank.item_loop import measure_each, measure_items
from cclmark.rank.measure import Batches, CaseRunner, least_batch_s
from cclmark.rank.opening import NativeLibrary, OpenLibrary
from cclmark.rank.reserved_buffers import buffer_kind, free_on_all, reserve_for
from cclmark.work.cases import Case
from cclmark.work.inject import Injection, RankFaults
from cclmark.work.items import items_of
from cclmark.work.libraries import torch_backend_of
from cclmark.work.operations import DTYPE_BYTES, OPERATIONS
from cclmark_fleet.scan.host_state import (
    EXAMINATION_S,
    LEAST_THROTTLED,
    THERMAL_REASONS,
    StateWatch,
    failed_checks,
)
from cclmark_fleet.scan.plan import HOSTS, PARTS, QUIET, SCAN, VERDICT, WHOLE, ScanRound
from cclmark_fleet.scan.result import DeviceState, GroupTest, KnownFleet, ScanResult

_LATENCY_BYTES = 8
_SLACK_S = 60.0


class _Groups(msgspec.Struct):
    """Ranks that work together, with their devices; ``reason``: why there are none.

    ``examined``: ranks that check their hosts instead.
    """

    ranks: list[list[int]]
    devices: list[list[int]]
    reason: str = ""
    examined: list[int] = []


@dataclass
class _Bench:
    """The resources of a group on this rank."""

    runner: CaseRunner
    session: engine.Session
    communicator: engine.Communicator
    left_out: dict[Case, str]
    is_first: bool


def cases_of(item: ScanRound, ranks: int) -> list[Case]:
    """What a group measures: a pair both ways at each size, its latency, and one way alone.

    A larger group measures all_reduce at each size. torch.distributed sends in both directions
    only, also for the latency. Rounds of pairs with one size measure its rate alone.
    """
    is_pair = ranks == 2 and item.purpose not in (HOSTS, QUIET, WHOLE, PARTS)
    operation = "sendrecv" if is_pair else "all_reduce"
    cases = [_case(item, operation, size, ranks) for size in item.sizes]
    if item.is_of_pairs and len(item.sizes) > 1:
        by_torch = torch_backend_of(item.ccl) is not None
        latency = "sendrecv" if by_torch else "ping_pong"
        cases.append(_case(item, latency, _LATENCY_BYTES, 2, 0))
        if not by_torch:
            cases += [_case(item, "send", item.sizes[-1], 2, root) for root in (0, 1)]
    return cases


def _case(item: ScanRound, operation: str, size: int, ranks: int, root: int | None = None) -> Case:
    info = OPERATIONS[operation]
    count = max(1, size // DTYPE_BYTES[item.dtype])
    return Case(
        operation,
        item.ccl,
        ranks,
        item.dtype,
        count * DTYPE_BYTES[item.dtype],
        count,
        in_place=info.reduces,
        reduction="sum" if info.reduces else None,
        root=root if info.rooted else None,
    )


class ScanRunner:
    """Measures the rounds in step with the other ranks."""

    def __init__(self, context: RankContext, library: Any, rounds: Sequence[ScanRound]) -> None:
        self._rank, self._job = context.rank, context.job
        self._device, self._library, self._rounds = context.devices[0], library, rounds
        self._own = library.descriptions[0]
        info = self._device.info
        self._watch = StateWatch(info.runtime, info.pci_bus_id)
        self._case_s = 6 * self._job.settings.timeout_s + _SLACK_S
        self._finished = False
        self._decisions: Any = None
        if self._job.rank == 0:
            from cclmark_fleet.scan.decisions import Decisions  # numpy, which others need not have

            known = msgspec.msgpack.decode(self._job.attachment, type=KnownFleet)
            size = rounds[0].size_bytes
            self._decisions = Decisions(known, self._job.settings.seed, info.name, size)

    def run(self) -> None:
        """Measures everything that is pending; rank 0 reports."""
        self._rank.enter("communicator creation")
        self._library.start(self._rank, self._device)
        self._rank.enter("allocating buffers")
        self._free_bytes = free_on_all(
            self._device, self._rank.rank_group, len(self._job.ranks_here)
        )
        measure_items(self._rank, self._job.pending or range(len(self._rounds)), self._measure)
        self._rank.case_index = -1

    def _measure(self, index: int) -> ScanResult:
        item, rank = self._rounds[index], self._rank
        started_at_s, began_s = time.time(), time.monotonic()
        rank.enter("choosing groups")
        groups = self._chosen(index, item)
        own = next((at for at, one in enumerate(groups.ranks) if self._job.rank in one), -1)
        values: list[list[float]] = []
        if groups.ranks:
            self._watch.begin()
            rank.rank_group.rest(own < 0)
            bench = self._bench(index, item, groups, own) if own >= 0 else None
            self._meet()
            sizes = max(len(cases_of(item, len(one))) for one in groups.ranks)
            cases = cases_of(item, len(groups.ranks[own])) if own >= 0 else []
            results = []
            for place in range(sizes):
                case = cases[place] if place < len(cases) else None
                results.append(self._at_once(index, bench, case))
                self._watch.look()
            self._close(bench)
            figures = _figures(item, results) if bench is not None and bench.is_first else []
            width = _WIDTH + len(item.sizes)
            rank.enter("waiting for other groups")
            told = rank.rank_group.gather(
                [*self._watch.end(), *figures, *[math.nan] * (width - len(figures))]
            )
            values = [told[at : at + width + 2] for at in range(0, len(told), width + 2)]
        failed = self._examined(index, groups.examined)
        if self._decisions is None:
            return ScanResult(index, item, "skipped")
        if failed:
            self._decisions.examined(failed)
        result: ScanResult = self._decisions.result(
            index,
            item,
            groups.reason,
            [
                _test_of(item, devices, values[ranks[0]][2:])
                for ranks, devices in zip(groups.ranks, groups.devices, strict=True)
            ],
            [
                state
                for number, row in enumerate(values)
                for state in _states_of(self._decisions.known.devices[number], *row[:2])
            ],
        )
        result.started_at_s, result.duration_s = started_at_s, time.monotonic() - began_s
        return result

    def _chosen(self, index: int, item: ScanRound) -> _Groups:
        """The groups of a round, from rank 0."""
        key = f"groups of {SCAN} {index}"
        if self._decisions is None:
            told = self._rank.client.get(key, self._job.settings.timeout_s)
            return msgspec.msgpack.decode(told, type=_Groups)
        if item.purpose == VERDICT:
            chosen = _Groups([], [])
            rank_of = {one: rank for rank, one in enumerate(self._decisions.known.devices)}
            chosen.examined = [rank_of[one] for one in self._decisions.to_examine()]
        else:
            devices, reason = self._decisions.groups(item)
            rank_of = {one: rank for rank, one in enumerate(self._decisions.known.devices)}
            chosen = _Groups([[rank_of[one] for one in own] for own in devices], devices, reason)
        self._rank.client.put(key, msgspec.msgpack.encode(chosen))
        return chosen

    def _examined(self, index: int, ranks: Sequence[int]) -> dict[int, dict[str, str]]:
        """On rank 0, by device: the checks that fail on the hosts of these ranks."""

        def key(rank: int) -> str:
            return f"examination of {SCAN} {index} by {rank}"

        if not ranks:
            return {}
        self._rank.enter("checking hosts", others_s=2 * EXAMINATION_S)
        if self._job.rank in ranks:
            own = msgspec.msgpack.encode(failed_checks())
            self._rank.client.put(key(self._job.rank), own)
        if self._decisions is None:
            return {}
        timeout_s = self._job.settings.timeout_s + 2 * EXAMINATION_S
        return {
            self._decisions.known.devices[rank]: msgspec.msgpack.decode(
                self._rank.client.get(key(rank), timeout_s), type=dict[str, str]
            )
            for rank in ranks
        }

    def _bench(self, index: int, item: ScanRound, groups: _Groups, own: int) -> _Bench:
        job, rank, members = self._job, self._rank, groups.ranks[own]
        # Each round has separate slots: members of a group must have met in them equally often.
        place = 4 * job.ranks * index + sum(len(one) for one in groups.ranks[:own])
        subgroup = rank.form_subgroup(members, place)
        rank.enter("communicator creation")
        name = f"communicator of {SCAN} {index} for ranks {members[0]} to {members[-1]}, {place}"
        communicator = self._library.join_some(rank, self._device, members, name)
        session = engine.Session(self._device, subgroup, communicator, rank.counter)
        rank.enter("allocating buffers")
        kind = buffer_kind(self._device, job.settings, self._own.name, self._own.capabilities)
        left_out = reserve_for(
            cases_of(item, len(members)), session, subgroup, kind, self._free_bytes
        )
        assert rank.subgroup_agreement is not None
        runner = CaseRunner(
            session,
            rank.subgroup_agreement,
            job.settings,
            RankFaults.among(self._injected(groups.devices[own], members)),
            rank.enter,
            batches=Batches(
                least_batch_s(job, members),
                # Slow messages are not repeated: the first one has connected.
                warm_up=WarmUp(least_batches=0, most_time_s=job.settings.max_time_s),
            ),
        )
        return _Bench(runner, session, communicator, left_out, job.rank == members[0])

    def _injected(self, devices: Sequence[int], members: Sequence[int]) -> list[Injection]:
        """The faults that delay this rank: those of its device, and of the pair."""
        own = devices[members.index(self._job.rank)]
        found = []
        for text in self._job.settings.inject:
            if "pair=" in text:
                fault = Injection.parse_for_pairs(text, 1 << 30)
                if fault.pair is not None and sorted(fault.pair) == sorted(devices):
                    found.append(fault)
            elif (fault := Injection.parse(text, 1 << 30)).rank == own:
                found.append(fault)
        return [one for one in found if one.kind == "delay"]

    def _at_once(self, index: int, bench: _Bench | None, case: Case | None) -> CaseResult | None:
        """Measures a case while all groups do; None if this rank's group has none."""
        self._finished = False
        result = None

        def all_done(done: bool) -> bool:
            self._finished = self._all(index, done)
            return self._finished

        if bench is not None and case is not None and case not in bench.left_out:
            result = bench.runner.run(index, case, 0, all_done)
        while not self._finished:
            self._finished = self._all(index, True)
        return result

    def _all(self, index: int, holds: bool) -> bool:
        """Whether ``holds`` is true on every rank."""
        self._rank.enter("waiting for other groups", others_s=self._case_s)
        found = min(self._rank.rank_group.gather([1.0 if holds else 0.0])) > 0
        self._rank.enter("timing")
        return found

    def _meet(self) -> None:
        self._rank.enter("waiting for other groups", others_s=self._case_s)
        self._rank.rank_group.barrier()

    def _close(self, bench: _Bench | None) -> None:
        self._rank.enter("shutdown")
        if bench is not None:
            del bench.runner, bench.session
            bench.communicator.leave()
            del bench.communicator
            self._rank.leave_subgroup()
        self._meet()
        self._rank.rank_group.rest(False)


_WIDTH = 9  # figures of a group besides the rates


def _figures(item: ScanRound, results: Sequence[CaseResult | None]) -> list[float]:
    """The figures of a group, NaN for what was not measured."""
    sizes = len(item.sizes)
    measured = [one if one is not None and one.summary is not None else None for one in results]
    rates = [
        math.nan if one is None or one.summary is None else one.summary.busbw_bytes_per_s
        for one in measured[:sizes]
    ]
    ways = [
        math.nan if one is None or one.summary is None else one.summary.algbw_bytes_per_s
        for one in measured[sizes + 1 : sizes + 3]
    ]
    latency = measured[sizes] if len(measured) > sizes else None
    largest = measured[sizes - 1]
    spread = [math.nan] * 4
    if largest is not None and largest.summary is not None and largest.samples is not None:
        middle = largest.summary
        times_s = sorted(combine(chosen_times(largest.samples, middle.clock), "max"))
        if len(times_s) > 3 and middle.time_s > 0:
            p95_s, p99_s = (
                times_s[min(len(times_s) - 1, int(p * len(times_s)))] for p in (0.95, 0.99)
            )
            scale = middle.busbw_bytes_per_s * middle.time_s
            spread = [
                *(max(0.0, p95_s / middle.time_s - 1), max(0.0, p99_s / middle.time_s - 1)),
                *(scale / times_s[-1], scale / times_s[0]),
            ]
    is_wrong = any(one is not None and one.status == "wrong" for one in results)
    return [
        *rates,
        *ways,
        *[math.nan] * (2 - len(ways)),
        *(
            (latency.summary.time_s, latency.summary.p99_s)
            if latency is not None and latency.summary is not None
            else (math.nan, math.nan)
        ),
        *spread,
        1.0 if is_wrong else 0.0,
    ]


def _test_of(item: ScanRound, devices: Sequence[int], values: Sequence[float]) -> GroupTest:
    sizes = len(item.sizes)
    rates, rest = values[:sizes], values[sizes:]

    def known(value: float) -> float:
        return 0.0 if math.isnan(value) else value

    forward_bps, back_bps, latency_s, latency_p99_s, spread, tail, low_bps, high_bps, wrong = rest
    return GroupTest(
        list(devices),
        [known(one) for one in rates],
        *(known(forward_bps), known(back_bps), known(latency_s), known(latency_p99_s)),
        spread=None if math.isnan(spread) else spread,
        tail=None if math.isnan(tail) else tail,
        low_bps=known(low_bps),
        high_bps=known(high_bps),
        is_wrong=wrong == 1.0,
    )


def _states_of(device: int, bits: float, throttled: float) -> list[DeviceState]:
    found = [
        DeviceState(device, f"{one} during a test", is_thermal=True)
        for bit, one in enumerate(THERMAL_REASONS)
        if int(bits) >> bit & 1
    ]
    if throttled > LEAST_THROTTLED:
        text = (
            f"its control group waited for its processor quota (cpu.max) {throttled:.0%} of a test"
        )
        found.append(DeviceState(device, text))
    return found


def run(context: RankContext) -> None:
    """Measures all rounds. Raises MissingError for a library that joins all ranks only."""
    rounds = items_of(context.rank.planned, ScanRound)

    def measure(name: str, library: OpenLibrary) -> None:
        if not isinstance(library, NativeLibrary) and not hasattr(library, "join_some"):
            raise engine.MissingError(f"{name} does not create communicators of two ranks")
        ScanRunner(context, library, rounds).run()

    measure_each(context, rounds, measure, all_needed=True, starts_threads=True)
