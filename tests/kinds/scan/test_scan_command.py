"""``cclmark scan`` with ranks of this host, and what its journals say."""

import json
import math
import random
from pathlib import Path

import msgspec
import pytest

from cclmark.document.exporters import exporter_of
from cclmark.kinds.registry import KINDS, read_journal
from cclmark_fleet.scan import figures
from cclmark_fleet.scan.decisions import Decisions
from cclmark_fleet.scan.figures import figures_of
from cclmark_fleet.scan.fleet_rounds import CONFIRM, LEVEL, planned_rounds
from cclmark_fleet.scan.fleet_shape import shape_of_hosts
from cclmark_fleet.scan.floors import HOST_ALL_REDUCE, published_floors, with_published
from cclmark_fleet.scan.host_state import throttled_s
from cclmark_fleet.scan.lists import excluded, host_list
from cclmark_fleet.scan.plan import PARTS, ScanRound, rounds_of_scan
from cclmark_fleet.scan.result import GroupTest, KnownFleet, ScannedFleet, ScanResult
from places import TESTS
from refusals import require_refusals

QUICK = ("scan", "--devices", "host", "-e", "64K", "--max-time", "0.02", "-T", "60")
#: Four hosts with a real network between them, one of which has a slow link.
STORED = TESTS / "journals" / "scan.jsonl"


def test_wrong_options_are_refused_with_the_reason(tag, tmp_path):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, ["scan"])


def results_of(journal):
    return [one for one in journal.results if isinstance(one, ScanResult)]


def test_two_ranks_are_tested_and_nothing_is_blamed(cclmark):
    ended = cclmark(*QUICK[:2], "host:2", *QUICK[3:])
    assert ended.code == 0, ended.err
    assert "verdict not judged: two devices have one link" in " ".join(ended.out.split())
    with_floor = cclmark(*QUICK[:2], "host:2", *QUICK[3:], "--floor", "node=0.000001")
    assert "no fault found: the link between the two devices" in " ".join(with_floor.out.split())
    assert "a scan cannot tell which end is slow" in ended.out + ended.err
    results = results_of(read_journal(ended.journal_path))
    level = next(one for one in results if one.scanned.purpose == LEVEL)
    (test,) = level.tests
    assert test.devices == [0, 1]
    assert all(rate > 0 for rate in (*test.rates_bps, test.forward_bps, test.back_bps))
    assert 0 < test.latency_s <= test.latency_p99_s


def test_a_budget_ends_the_rounds_and_the_verdict_says_so(cclmark):
    ended = cclmark(
        *QUICK[:2], "host:2", *QUICK[3:], "--budget", "0.2s", "--inject", "delay:rank=1,ms=300"
    )
    assert "(--budget) is used up" in " ".join(ended.out.split())
    results = results_of(read_journal(ended.journal_path))
    assert {one.status for one in results} == {"ok", "skipped"}


def test_the_stored_scan_names_the_host_with_the_slow_link():
    journal = read_journal(STORED)
    found = figures_of(journal.header, results_of(journal))
    (fault,) = found.judgement.faults
    assert (fault.kind, fault.where) == ("NODE", ("node3",))
    assert fault.effect == pytest.approx(-0.6, abs=0.05)
    rates = found.node_rates_bps
    assert rates["node3"] == min(rates.values())


def written(journal, format):
    exporter = exporter_of(KINDS["scan"], format)
    return exporter.whole(journal.header, journal.results, journal.footer)


def test_lists_for_schedulers_have_the_node_alone():
    journal = read_journal(STORED)
    assert written(journal, "slurm") == "node3\n"
    assert "kubectl drain node3 --ignore-daemonsets" in written(journal, "kubernetes")
    assert json.loads(written(journal, "json"))


def test_lists_have_no_name_that_a_shell_would_read():
    journal = read_journal(STORED)
    for device in journal.header.devices:
        device.host = {"node3": "node3; rm -rf $HOME"}.get(device.host, device.host)
    results = results_of(journal)
    for one in results:
        one.fleet = None
    found = figures_of(journal.header, results)
    nodes, rest = excluded(found)
    assert nodes == {} and "node3; rm" in rest[0]
    assert "rm -rf" not in "".join(
        line for line in written(journal, "kubernetes").splitlines() if not line.startswith("#")
    )


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["node7", "node3", "node8", "node9"], "node[3,7-9]"),
        (["n001", "n003"], "n[001,003]"),
        (["a1", "login"], "a1,login"),
    ],
)
def test_host_lists_are_those_of_slurm(names, text):
    assert host_list(names) == text


def test_a_scan_with_too_few_tests_has_no_verdict():
    journal = read_journal(STORED)
    results = results_of(journal)
    first = next(one for one in results if one.scanned.purpose == LEVEL and one.tests)
    found = figures_of(journal.header, [results[0], first])
    (only,) = found.faults
    assert only.kind == "UNKNOWN" and "0 of 4 devices have two or more" in only.evidence
    assert not found.blames
    assert not any(written(journal, name).count("UNKNOWN") for name in ("slurm", "kubernetes"))


def test_results_with_unlike_lists_are_left_out():
    journal = read_journal(STORED)
    one = next(one for one in results_of(journal) if one.tests)
    assert one.is_consistent
    double = msgspec.structs.replace(one.tests[0], devices=[1, 1])
    assert not msgspec.structs.replace(one, tests=[double]).is_consistent
    short = msgspec.structs.replace(one.tests[0], rates_bps=[1.0])
    assert not msgspec.structs.replace(one, tests=[short]).is_consistent


def test_devices_that_failed_meet_nobody_any_more():
    fleet = ScannedFleet(shape_of_hosts(range(6), [f"n{one}" for one in "abcdef"]))
    decisions = Decisions(KnownFleet(fleet, devices=[0, 1, 2, 4, 5]), 1, "", 1 << 20)
    for meeting in range(5):
        item = ScanRound(LEVEL, "shm", (1, 2, 4), "float32", meeting, meeting)
        groups, reason = decisions.groups(item)
        assert groups and not reason
        assert all(3 not in own and len(own) == 2 for own in groups)
    nothing, reason = decisions.groups(ScanRound(CONFIRM, "shm", (1, 2, 4), "float32"))
    assert nothing == [] and reason == "nothing is suspected"


@pytest.mark.parametrize("count", [4, 6, 33, 1000])
def test_a_bisection_narrows_a_planted_slow_host_in_few_rounds(count):
    """Simulated: a part is as slow as its slowest member, and all vary by 1 %."""
    fleet = ScannedFleet(shape_of_hosts(range(count), [f"n{one:04}" for one in range(count)]))
    meetings = planned_rounds(fleet.shape, 1)
    divisions = (count - 1).bit_length()
    rounds = rounds_of_scan(fleet.shape, meetings, "nccl", (1, 2, 4), "float32", divisions)
    bisection = [one for one in rounds if one.purpose == PARTS]
    assert len(bisection) == divisions == math.ceil(math.log2(count))
    draw = random.Random(count)
    slow = draw.randrange(count)
    decisions = Decisions(KnownFleet(fleet, devices=[*range(count)], is_complete=True), 1, "", 4)
    results = []
    for index, item in enumerate(bisection):
        groups, _ = decisions.groups(item)
        tests = [
            GroupTest(own, [40e9 * (0.6 if slow in own else 1) * draw.gauss(1, 0.01)])
            for own in groups
        ]
        results.append(ScanResult(index, item, "ok", tests=tests))
    narrowed = figures.ScanFigures(fleet, results).narrowed
    assert narrowed is not None
    part, ratio = narrowed
    assert slow in part.devices and len(part.devices) <= 3
    assert ratio == pytest.approx(0.6, abs=0.05)


def test_rounds_are_left_out_only_once_the_verdict_is_certain():
    names = [f"n{one}" for one in "abcd"]
    fleet = ScannedFleet(shape_of_hosts(range(4), names))
    rounds = rounds_of_scan(fleet.shape, planned_rounds(fleet.shape, 1), "shm", (1, 2, 4), "u8", 0)

    def measured(slow, known):
        decisions, purposes = Decisions(known, 1, "", 4), []
        for index, item in enumerate(rounds[:-1]):
            groups, reason = decisions.groups(item)
            tests = [
                GroupTest(own, [1e9 * (0.5 if slow & {*own} else 1)] * len(item.sizes))
                for own in groups
            ]
            decisions.result(index, item, reason, tests, [])
            purposes += [item.purpose] if tests else []
        return purposes

    everyone = [0, 1, 2, 3]
    found = measured({2}, KnownFleet(fleet, devices=everyone))
    assert {*found} == {LEVEL, CONFIRM} and len(found) <= 6
    for own in (
        measured({2}, KnownFleet(fleet, devices=everyone, is_complete=True)),
        measured(set(), KnownFleet(fleet, devices=everyone)),
    ):
        assert {"random", "shifted", "whole"} <= {*own}


def test_a_check_of_the_doctor_counts_on_slow_hosts_alone():
    fleet = ScannedFleet(shape_of_hosts(range(6), [f"n{one}" for one in "abcdef"]))
    decisions = Decisions(KnownFleet(fleet, devices=[*range(6)]), 1, "", 4)
    rounds = rounds_of_scan(fleet.shape, planned_rounds(fleet.shape, 1), "shm", (4,), "u8", 0)
    for index, item in enumerate(rounds[:-1]):
        groups, reason = decisions.groups(item)
        tests = [GroupTest(own, [1e9 * (0.5 if 4 in own else 1)]) for own in groups]
        decisions.result(index, item, reason, tests, [])
    examined = decisions.to_examine()
    assert 4 in examined and len(examined) == 4
    everywhere = {one: {"shm-size": "small"} for one in examined}
    decisions.examined({**everywhere, 4: {"shm-size": "small", "pcie-width": "g0: x8, limit x16"}})
    last = decisions.result(len(rounds) - 1, rounds[-1], "", [], [])
    assert last.reason.startswith("HOST STATE ne (-50%")
    assert "cclmark doctor: pcie-width: g0: x8, limit x16" in last.reason
    assert "shm-size" not in last.reason


def test_published_floors_are_those_of_the_device_and_size():
    assert all(one.source and one.date for one in published_floors())
    fleet = ScannedFleet(shape_of_hosts([0] * 8 + [1] * 8, ["a", "b"]))
    found = with_published(fleet, "NVIDIA H100 80GB HBM3", 400.0, 64 << 20)
    assert found.floors_bps == {"node": 245e9, "fabric": 36e9, HOST_ALL_REDUCE: 361e9}
    eight = ScannedFleet(shape_of_hosts([0] * 8, ["a"]))
    for device, size, gbps in (
        ("NVIDIA A100-SXM4-80GB", 1 << 30, 185),
        ("NVIDIA A100-SXM4-80GB", 16 << 30, 228),
        ("NVIDIA B200", 64 << 20, 400),
        ("NVIDIA H200", 16 << 30, 431),
        ("AMD Instinct MI300X", 4 << 30, 312),
    ):
        own = with_published(eight, device, 0.0, size).floors_bps
        assert own[HOST_ALL_REDUCE] == gbps * 1e9
    assert HOST_ALL_REDUCE not in with_published(eight, "NVIDIA GB200", 0.0, 1 << 30).floors_bps
    assert not with_published(fleet, "Xeon", 0.0, 64 << 20).floors_bps
    own = msgspec.structs.replace(fleet, floors_bps={"node": 1.0})
    assert with_published(own, "NVIDIA H100", 400.0, 64 << 20) is own


def test_a_throttled_control_group_is_read_with_those_above_it(tmp_path):
    own = tmp_path / "cgroup"
    (tmp_path / "root" / "a" / "b").mkdir(parents=True)
    (tmp_path / "root" / "a" / "cpu.stat").write_text("nr_throttled 3\nthrottled_usec 2500000\n")
    (tmp_path / "root" / "a" / "b" / "cpu.stat").write_text("throttled_usec zwölf\n\x00\n")
    own.write_text("1:name=x:/\n0::/a/b\n")
    assert throttled_s(own, tmp_path / "root") == 2.5
    own.write_text("0::/../../etc\n")
    assert throttled_s(own, tmp_path / "root") is None
    assert throttled_s(tmp_path / "missing") is None
    job = tmp_path / "root" / "cpu" / "job"
    job.mkdir(parents=True)
    (job / "cpu.stat").write_text("nr_periods 9\nthrottled_time 1500000000\n")
    own.write_text("4:cpuacct,cpu:/job\n3:memory:/x\n")
    assert throttled_s(own, tmp_path / "root") == 1.5
