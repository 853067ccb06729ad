"""Steps of a replay: what ranks wait for each other, and traffic beside calls."""

import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from cclmark import _engine as engine
from cclmark.work.computations import Compute
from cclmark.work.profiled import ProfiledOperation
from cclmark.work.variants import DEFAULT
from cclmark_programs.replay import run as step_runner
from cclmark_programs.replay.choices import DROP, FIXED, KEEP, steps_of_round
from cclmark_programs.replay.plan import RankStep, Replay, ReplayedCall
from cclmark_programs.replay.run import StepRunner, corrected_s

US = 1e-6
OWN_S = 10 * US
PATIENCE_S = 60.0
REPLAY = Replay(DEFAULT, 0, "nccl", 2, "profile.jsonl", "", 1, 1, KEEP)


class SimulatedReplay:
    """Steps of one call, which ends on all ranks together. Traffic makes it longer."""

    begins_s: tuple[float, ...] = ()
    most_traffic_blocks = 0
    memory_on: tuple[int, ...] = ()  # ranks that have memory for traffic
    checked_on_host = ""

    def __init__(self, _device, rank_group, **_):
        self.rank_group = rank_group
        self.later_s = [0.0]
        self.blocks = 0
        self.runs = 0

    def run(self, _delay_s):
        self.runs += 1
        begin_s = self.begins_s[self.rank_group.rank] + self.later_s[0]
        end_s = max(self.rank_group.gather([begin_s])) + OWN_S * (1 + self.blocks / 10)
        return SimpleNamespace(begin_s=[begin_s], end_s=[end_s], enqueue_s=0.0, host_s=1e-3)

    def set_later(self, later_s):
        self.later_s = list(later_s)

    def set_traffic(self, by_call):
        blocks = by_call[0][0]
        if blocks and self.rank_group.rank not in self.memory_on:
            raise engine.OutOfMemoryError("256 MiB are not free")
        self.blocks = blocks


def run_ranks(monkeypatch, begins_us, wanted_us, items, own_us=0.0, **of_replay):
    """What ranks measure that begin at ``begins_us`` and wait ``wanted_us`` in the program.

    ``own_us``: of the call in the program, beside other kernels. Returns by rank the results, the
    runners' steps, and notices.
    """
    replays = []

    def open_replay(*arguments, **options):
        replays.append(SimulatedReplay(*arguments, **options))
        for name, value in of_replay.items():
            setattr(replays[-1], name, value)
        replays[-1].begins_s = tuple(one * US for one in begins_us)
        return replays[-1]

    monkeypatch.setattr(step_runner.engine, "StepReplay", open_replay)
    ranks = len(begins_us)
    file = os.memfd_create("ranks of a test")
    limits = {"precision": 0.02, "max_time_s": 1.0, "warmup": 1, "iterations": 1}
    settings = SimpleNamespace(inject=[], seed=1, check=0, **limits)

    def run(rank):
        options = engine.RankGroupOptions(fd=file, rank=rank, size=ranks, oversubscribed=True)
        group = engine.RankGroup(options)
        agreement = group.subgroup(file, list(range(ranks)), 2 * ranks)
        for one in (group, agreement):
            one.expect_within(PATIENCE_S, "a test")
        noticed = []
        context = SimpleNamespace(
            job=SimpleNamespace(rank=rank, ranks=ranks, settings=settings),
            rank_group=group,
            agreement=agreement,
            counter=None,
            enter=lambda *_, **__: None,
            notice=noticed.append,
        )
        time_s = (own_us * US or OWN_S) + wanted_us[rank] * US
        call = ReplayedCall(0, 0, 0, "all_reduce", "float32", 1, 1e-3, time_s, number=0)
        groups = (tuple(range(ranks)),)
        operation = ProfiledOperation("all_reduce", "nccl", 0, ranks, "float32", 1, 4)
        step = RankStep(groups, (operation,), (call,), 2e-3, (own_us * US,))
        device = SimpleNamespace(info=SimpleNamespace(runtime="cuda"))
        later_s = {}
        results = []
        try:
            for item in items:
                runner = StepRunner(context, device, step, item.gaps, [object()], None, later_s)
                results.append(runner.run(0, item))
        except BaseException:
            group.abort()
            raise
        return results, noticed

    try:
        with ThreadPoolExecutor(ranks) as threads:
            told = list(threads.map(run, range(ranks)))
    finally:
        os.close(file)
    replays.sort(key=lambda one: one.rank_group.rank)
    return told, replays


def waits_s(replays):
    begins_s = [
        one.begins_s[number] + one.later_s[0]
        for number, one in enumerate(sorted(replays, key=lambda one: one.rank_group.rank))
    ]
    return [max(begins_s) - begin_s for begin_s in begins_s]


MATMUL = Compute("matmul", "float32", 128)


@pytest.mark.parametrize(
    ("begins_us", "wanted_us", "changes"),
    [
        ((8, 0), (3, 0), {}),
        ((0, 5, 9), (0, 6, 2), {}),
        # Whatever runs beside the calls.
        ((0, 8), (3, 0), {"compute": MATMUL, "round": 1}),
        ((0, 8), (3, 0), {"gaps": FIXED}),
    ],
)
def test_ranks_come_to_wait_as_long_as_in_the_program(monkeypatch, begins_us, wanted_us, changes):
    _, replays = run_ranks(monkeypatch, begins_us, wanted_us, [replace(REPLAY, **changes)])
    assert waits_s(replays) == pytest.approx([one * US for one in wanted_us], abs=0.5 * US)


def test_without_gaps_ranks_begin_at_once(monkeypatch):
    _, replays = run_ranks(monkeypatch, (0, 8), (3, 0), [replace(REPLAY, gaps=DROP)])
    assert [one.later_s for one in replays] == [[0.0], [0.0]]


def test_waits_are_corrected_once_for_all_computes(monkeypatch):
    beside = replace(REPLAY, compute=MATMUL)
    _, replays = run_ranks(monkeypatch, (0, 8), (3, 0), [REPLAY, beside])
    of_first = [one for one in replays if one.rank_group.rank == 0]
    assert of_first[0].later_s == of_first[1].later_s != [0.0]
    assert of_first[0].runs > of_first[1].runs == 3  # connects, warms up, is timed


SLOWED = {"own_us": 15.0, "most_traffic_blocks": 100}  # calls take 10 µs alone
BESIDE_MEMORY = replace(REPLAY, traffic=True)


def test_traffic_makes_calls_as_long_as_in_the_program(monkeypatch):
    items, memory = [BESIDE_MEMORY], {"memory_on": (0, 1), **SLOWED}
    told, replays = run_ranks(monkeypatch, (0, 0), (0, 0), items, **memory)
    for (results, noticed), replay in zip(told, replays, strict=True):
        assert results[0].traffic == [replay.blocks] == [5]
        assert noticed == []


def test_without_memory_on_one_rank_no_rank_has_traffic(monkeypatch):
    items, memory = [BESIDE_MEMORY], {"memory_on": (1,), **SLOWED}
    told, replays = run_ranks(monkeypatch, (0, 8), (3, 0), items, **memory)
    notice = "no memory traffic runs beside the calls: on rank 0: 256 MiB are not free"
    for (results, noticed), replay in zip(told, replays, strict=True):
        assert (results[0].status, results[0].traffic, replay.blocks) == ("ok", [], 0)
        assert noticed == [notice]
    assert waits_s(replays) == pytest.approx([3 * US, 0.0], abs=0.5 * US)


def test_a_correction_has_limits():
    assert corrected_s(0.0, 1.0, 100 * US) == pytest.approx(50 * US)
    assert corrected_s(0.0, -1.0, 10 * US) == pytest.approx(-30 * US)


@pytest.mark.parametrize(
    ("rounds", "length_s", "steps"), [(5, 1e-3, 4), (10, 0.5, 3), (10, 60.0, 1), (5, 0.0, 4)]
)
def test_rounds_of_long_steps_have_fewer(rounds, length_s, steps):
    assert steps_of_round(rounds, length_s) == steps
