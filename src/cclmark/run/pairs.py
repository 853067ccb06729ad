"""Measuring collectives of every two ranks, several pairs at once where that disturbs none.

The pairs of a round share no rank. In the first round each pair is measured alone, then all of them
at once: a case that takes no longer then may be measured at once in the rounds to come. There, what
took longer than the first round's fastest pair alone is measured again alone, so that a figure is
either undisturbed or as good as one.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cclmark import _engine as engine
from cclmark.plan.inject import Injection
from cclmark.plan.pairs import Pair, pair_rounds
from cclmark.results.schema import CaseResult, Summary
from cclmark.run.measure import CaseRunner
from cclmark.run.memory import reserve_for
from cclmark.run.rank import Rank

MOST_DISTURBANCE = 0.02  # of a time, for pairs measured at once
_PHASES_OF_A_CASE = 4


@dataclass
class _Bench:
    """What one pair measures with. ``too_large``: cases with the reason why they do not fit."""

    pair: Pair
    runner: CaseRunner
    session: engine.Session
    communicator: engine.Communicator
    too_large: dict[int, str]


class PairsRunner:
    """Runs the cases of all pairs with one library on one rank, in step with the other ranks."""

    def __init__(self, rank: Rank, ccl: engine.Ccl, device: engine.Device) -> None:
        self._rank = rank
        self._job = rank.job
        self._ccl = ccl
        self._device = device
        self._by_pair: dict[Pair, list[int]] = {}
        for index, case in enumerate(self._job.cases):
            if case.ccl == ccl.info.name and case.pair is not None:
                self._by_pair.setdefault(case.pair, []).append(index)
        # The cases of all pairs are alike: one is known by its place in the pair's list.
        self._places = range(len(next(iter(self._by_pair.values()))))
        self._at_once = set[int]()
        self._fastest_s: dict[int, float] = {}

    def run(self) -> None:
        """Measures everything; the first rank of each pair sends the results."""
        gc.collect()
        gc.disable()
        for number, pairs in enumerate(pair_rounds(self._job.ranks)):
            bench = self._bench(pairs)
            self._rank.team.rest(bench is None)
            if number == 0 or self._job.settings.one_by_one:
                results = self._alone(pairs, bench, dict.fromkeys(pairs, self._places))
                if len(pairs) > 1 and not self._job.settings.one_by_one:
                    self._compare(bench, results)
            else:
                at_once, again = self._together(pairs, bench)
                results = at_once | self._alone(pairs, bench, again)
                # What is wrong beside others stays so, whatever comes out alone.
                results |= {k: one for k, one in at_once.items() if one.status == "wrong"}
            if bench is not None and self._job.rank == bench.pair[0]:
                for place in self._places:
                    self._rank.report(results[place])
            self._close(bench)

    def _bench(self, pairs: Sequence[Pair]) -> _Bench | None:
        """Joins the pair that this rank is in; None where it is in none."""
        job, rank = self._job, self._rank
        pair = next((pair for pair in pairs if job.rank in pair), None)
        if pair is None:
            return None
        slot = job.ranks + 2 * sorted(self._by_pair).index(pair)
        rank.group = rank.team.group(job.team_fd, list(pair), slot)
        rank.enter("communicator creation")
        key = f"communicator id of {self._ccl.info.name} for ranks {pair[0]} and {pair[1]}"
        if job.rank == pair[0]:
            identity = self._ccl.make_id(2)
            rank.client.put(key, identity)
        else:
            identity = rank.client.get(key, job.settings.timeout_s)
        communicator = self._ccl.join(self._device, identity, rank.group)
        session = engine.Session(self._device, rank.group, communicator)
        if session.checked_on_host and pair == min(self._by_pair) and job.rank == pair[0]:
            rank.notice(f"outputs are checked on the host: {session.checked_on_host}")
        rank.enter("allocating buffers")
        indices = self._by_pair[pair]
        too_large = reserve_for(
            [job.cases[index] for index in indices],
            session,
            self._device,
            rank.group,
            getattr(engine.Registration, job.settings.registration),
            job.ranks if job.runtime == "host" else 1,
        )
        runner = CaseRunner(session, job.settings, self._injections(pair), rank.enter)
        reasons = {index: too_large.get(job.cases[index], "") for index in indices}
        return _Bench(pair, runner, session, communicator, reasons)

    def _injections(self, pair: Pair) -> list[Injection]:
        """The faults that strike this rank in ``pair``: a delay its first, corruption its second
        device, as they are written.
        """
        faults = [
            Injection.parse_for_pairs(text, self._job.ranks) for text in self._job.settings.inject
        ]
        struck = []
        for fault in faults:
            assert fault.pair is not None
            strikes = fault.pair[0 if fault.kind == "delay" else 1]
            if sorted(fault.pair) == list(pair) and strikes == self._job.rank:
                struck.append(fault)
        return struck

    def _close(self, bench: _Bench | None) -> None:
        self._rank.case_index = -1
        self._rank.enter("shutdown")
        if bench is not None:
            del bench.runner, bench.session
            del bench.communicator
            self._rank.group = None
        self._meet(len(self._places))
        self._rank.team.rest(False)

    def _run(self, bench: _Bench, place: int) -> CaseResult:
        index = self._by_pair[bench.pair][place]
        self._rank.case_index = index
        case = self._job.cases[index]
        if bench.too_large[index]:
            return CaseResult(index, case, "skipped", bench.too_large[index])
        return bench.runner.run(index, case, 0)

    def _meet(self, cases: int) -> None:
        """Waits for all ranks, which may have so many cases before them.

        Those who measure have deadlines of their own, and end the run for all when one passes.
        """
        self._rank.case_index = -1
        self._rank.enter("waiting for other pairs", phases=1 + _PHASES_OF_A_CASE * cases)
        self._rank.team.barrier()

    def _gather(self, values: list[float]) -> list[list[float]]:
        """Every rank's ``values``, while some may still be at their case."""
        self._rank.case_index = -1
        self._rank.enter("waiting for other pairs", phases=1 + _PHASES_OF_A_CASE)
        flat = self._rank.team.gather(values)
        width = len(values)
        return [flat[first : first + width] for first in range(0, len(flat), width)]

    def _alone(
        self, pairs: Sequence[Pair], bench: _Bench | None, places: Mapping[Pair, Iterable[int]]
    ) -> dict[int, CaseResult]:
        """One pair after the other, each with its ``places``; the others sleep."""
        results: dict[int, CaseResult] = {}
        for pair in pairs:
            own = list(places[pair])
            if not own:
                continue
            working = bench is not None and bench.pair == pair
            self._rank.team.rest(not working)
            if bench is not None and working:
                results |= {place: self._run(bench, place) for place in own}
            self._meet(0 if working else len(own))
        self._rank.team.rest(bench is None)
        return results

    def _compare(self, bench: _Bench | None, alone: dict[int, CaseResult]) -> None:
        """All pairs at once, beside what each took alone: sets what later rounds go by.

        A wrong result takes the place of the one in ``alone``: such a fault may show only then.
        """
        for place in self._places:
            own = [math.nan, math.nan]
            if bench is not None:
                beside = self._run(bench, place)
                before = alone[place]
                if beside.summary is not None and before.summary is not None:
                    least_s, most_s = _least(beside.summary), _most(before.summary)
                    own = [most_s, least_s / most_s]
                    before.at_once_ratio = beside.summary.time_s / before.summary.time_s
                if beside.status == "wrong":
                    alone[place] = beside
            known = [row for row in self._gather(own) if not math.isnan(row[0])]
            if not known:
                continue
            self._fastest_s[place] = min(row[0] for row in known)
            if max(row[1] for row in known) <= 1 + MOST_DISTURBANCE:
                self._at_once.add(place)

    def _together(
        self, pairs: Sequence[Pair], bench: _Bench | None
    ) -> tuple[dict[int, CaseResult], dict[Pair, list[int]]]:
        """All pairs at once, where that disturbs none; and what each has to measure alone."""
        again: dict[Pair, list[int]] = {pair: [] for pair in pairs}
        results: dict[int, CaseResult] = {}
        for place in self._places:
            if place not in self._at_once:
                for pair in pairs:
                    again[pair].append(place)
                continue
            least_s = math.nan
            if bench is not None:
                result = self._run(bench, place)
                result.beside = len(pairs) - 1
                results[place] = result
                if result.summary is not None:
                    least_s = _least(result.summary)
            times_s = [row[0] for row in self._gather([least_s])]
            allowed_s = self._fastest_s[place] * (1 + MOST_DISTURBANCE)
            slow = [pair for pair in pairs if times_s[pair[0]] > allowed_s]
            if len(pairs) > 1:
                for pair in slow:
                    again[pair].append(place)
            if 2 * len(slow) > len(pairs):
                self._at_once.discard(place)
        return results, again


def _least(summary: Summary) -> float:
    """The lower end of the median's interval, in seconds."""
    return summary.time_s * (1 - (summary.half_width or 0.0))


def _most(summary: Summary) -> float:
    """The upper end of the median's interval, in seconds."""
    return summary.time_s * (1 + (summary.half_width or 0.0))
