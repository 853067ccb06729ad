"""``cclmark predict``."""

import json
from pathlib import Path

import pytest

from cclmark.journal.journal_file import JournalWriter
from cclmark.kinds.registry import read_journal
from cclmark_planning.predict.figures import bus_bandwidth, skill_of, skills
from cclmark_planning.predict.result import PredictResult
from places import RUNS, TESTS
from refusals import require_refusals

pytest.importorskip("scipy")

HEAD = "nodes,gpus_per_node,size,busbw_gbps,device,nic_gbit,version,algorithm\n"
COPIES = TESTS / "journals" / "p2p.jsonl"
ONE_HOST = str(RUNS / "default-1.jsonl")
SIZES = ("8", "64K", "1M", "16M", "256M", "4G")


def busbw(size, nodes, per_node):
    """Of a ring: what the tests of the models know exactly, too."""
    number = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(size[-1], 1)
    size_bytes = int(size.rstrip("KMG")) * number
    ranks = nodes * per_node
    moved = 2 * (ranks - 1) / ranks * size_bytes
    time_s = 12e-6 + 2 * (nodes - 1) * 9e-6 + 2 * nodes * (per_node - 1) * 9e-7 + moved / 370e9
    return moved / time_s / 1e9


def table(path, *nodes, per_node=8, sizes=SIZES, version="2.28.9", device="H100"):
    lines = [
        f"{one},{per_node},{size},{busbw(size, one, per_node):.9g},{device},400,{version},ring\n"
        for one in nodes
        for size in sizes
    ]
    path.write_text(HEAD + "".join(lines))
    return str(path)


@pytest.fixture
def two_and_four(tmp_path):
    return table(tmp_path / "nodes.csv", 2, 4)


def results_of(run):
    return run.journal.of(PredictResult)


def asked(run):
    """What was predicted, without what was measured."""
    return [one for one in results_of(run) if not one.prediction.is_measured]


def test_more_nodes_are_predicted_with_an_interval_and_an_error(cclmark, two_and_four):
    run = cclmark("predict", two_and_four, "--nodes", "8,64")
    results = results_of(run)
    by_size = {bus_of(one): one for one in results if one.prediction.nodes == 8}
    for size in SIZES:
        one = by_size[size]
        low, high = (bus_bandwidth(one.prediction, t) / 1e9 for t in (one.high_s, one.low_s))
        assert low <= busbw(size, 8, 8) <= high
    found = skill_of("all", results)
    assert found.number == len(SIZES)
    assert found.error < found.baseline
    assert [one.sizes for one in skills(results)] == ["< 1 MiB", "1 to 64 MiB", "≥ 64 MiB"]
    assert "all_reduce: measured times beside their predictions from fewer nodes" in run.out
    assert "leaves a node" in run.out
    assert "algorithm  ring, of all runs" in run.out


def bus_of(result):
    """The size as the tables have it."""
    size = result.prediction.size_bytes
    units = {"G": 1 << 30, "M": 1 << 20, "K": 1 << 10}
    texts = [f"{size // number}{unit}" for unit, number in units.items() if size >= number]
    return [*texts, str(size)][0]


def test_runs_of_one_host_say_nothing_of_a_network(cclmark):
    run = cclmark("predict", ONE_HOST, "--nodes", "2,8")
    assert {one.status for one in asked(run)} == {"skipped"}
    assert "no run crossed the network between nodes" in run.out
    assert "cannot say" in run.out
    # With a line rate sizes that latencies do not determine are predicted.
    known = cclmark("predict", ONE_HOST, "--nodes", "2,8", "--network", "400")
    predicted = [one for one in asked(known) if one.time_s]
    assert predicted
    assert "latencies between nodes determine this size" in known.out
    for one in predicted:
        # Two nodes of a tree send half of the bus bandwidth, and 15 of 16 bytes.
        assert bus_bandwidth(one.prediction, one.time_s) < 2.0 * one.prediction.network_bps


def test_a_level_that_no_run_crossed_is_refused_without_a_topology(cclmark, tmp_path):
    runs = table(tmp_path / "racks.csv", 2, 4, per_node=4, device="GB300")
    run = cclmark("predict", runs, "--nodes", "16,64")
    reasons = {(one.prediction.nodes, one.reason) for one in results_of(run)}
    crossing = {(64, "no run crossed the NVLink domains of 72 GPUs")}
    assert {one for one in reasons if one[0] >= 16} == {(16, ""), *crossing}
    assert "--topology" in run.out


def test_levels_cost_what_a_simulation_says(cclmark, tmp_path):
    """Through spines that are eight fold oversubscribed; the simulation is of the same network."""
    fabric = ("--topology", "fat-tree:16x8,leaf=2,oversub=8")
    runs = table(tmp_path / "ring.csv", 2, sizes=("16M", "256M", "4G"))
    last = asked(cclmark("predict", runs, "--nodes", "16", *fabric))[-1]
    words = ("all_reduce", *fabric, "--algorithm", "ring", "-b", "4G", "--format", "json")
    (one,) = json.loads(cclmark("simulate", *words).out)["simulations"]
    assert last.low_s * 0.9 < one["time_s"] < last.high_s * 1.1
    without = results_of(cclmark("predict", runs, "--nodes", "16"))[-1]
    assert last.time_s > 1.5 * without.time_s


def test_begin_and_end_choose_what_is_shown(cclmark, tmp_path):
    runs = table(tmp_path / "ring.csv", 2, 4, sizes=("16M", "256M", "4G"))
    whole = results_of(cclmark("predict", runs, "--nodes", "16"))
    part = results_of(cclmark("predict", runs, "--nodes", "16", "-b", "4G"))
    shown = [one for one in whole if one.prediction.size_bytes == 4 << 30]
    assert [(one.low_s, one.time_s, one.high_s) for one in part] == [
        (one.low_s, one.time_s, one.high_s) for one in shown
    ]


def test_a_line_rate_that_runs_exceed_is_not_used(cclmark, two_and_four):
    run = cclmark("predict", two_and_four, "--nodes", "16", "--network", "8x25")
    assert "of the line rate of 200 Gb/s of a node, which is therefore not used" in run.out
    assert all(not one.prediction.network_bps for one in results_of(run))


def test_one_size_of_one_number_of_nodes_says_nothing(cclmark, tmp_path):
    run = cclmark("predict", table(tmp_path / "one.csv", 4, sizes=("1G",)), "--nodes", "16")
    assert "the runs have one size" in run.out
    assert "-b 8 -e 8G" in run.out


def alltoalls(path, **times_us):
    rows = [
        f"alltoall,{nodes.removeprefix('on')},8,{size},{time * number}\n"
        for nodes, time in times_us.items()
        for number, size in ((1, "64M"), (4, "256M"), (16, "1G"))
    ]
    path.write_text("operation,nodes,gpus_per_node,size,time_us\n" + "".join(rows))
    return path


def test_what_the_baseline_predicted_better_or_falls_is_not_predicted(cclmark, tmp_path):
    """Every rank sends to other nodes in an alltoall: more nodes take longer."""
    run = cclmark("predict", alltoalls(tmp_path / "a.csv", on2=2000, on4=2000), "--nodes", "16")
    (found,) = skills(results_of(run))
    assert found.skill < 0
    assert all("were predicted worse" in one.reason for one in asked(run))
    assert "The models do not describe these runs" in run.out
    run = cclmark("predict", alltoalls(tmp_path / "b.csv", on2=2000, on4=1000), "--nodes", "16")
    reason = "times of the runs fall by 50 % with more nodes"
    assert {one.reason for one in asked(run)} == {reason}


def changed_rows(path, factor, only=""):
    """Multiplies the bandwidths of the rows that begin so."""
    head, *lines = path.read_text().splitlines()
    rows = [line.split(",") for line in lines]
    for row, line in zip(rows, lines, strict=True):
        if line.startswith(only):
            row[3] = f"{float(row[3]) * factor:.6g}"
    path.write_text("\n".join([head, *map(",".join, rows), ""]))
    return str(path)


def test_nothing_is_said_where_the_fabric_is_not_healthy(cclmark, tmp_path):
    path = tmp_path / "nodes.csv"
    table(path, 2, 4, sizes=("1M", "16M", "256M", "4G"))
    run = cclmark("predict", changed_rows(path, 0.25, "4,8,256M"), "--nodes", "8")
    reasons = {bus_of(one): one.reason for one in asked(run)}
    assert "falls by" in reasons["256M"]
    assert not reasons["4G"]


def stored(path, change):
    """A journal of one host with changed results."""
    journal = read_journal(RUNS / "default-1.jsonl", as_written=True)
    change(journal.results)
    writer = JournalWriter(path)
    for line in (journal.header, *journal.results):
        writer.write(line)
    writer.close(keep=True)
    return path


def test_times_that_vary_are_not_extrapolated(cclmark, tmp_path):
    def noisy(results):
        for one in results:
            one.summary.spread = 0.8

    path = stored(tmp_path / "noisy.jsonl", noisy)
    run = cclmark("predict", path, "--nodes", "4", "--network", "400")
    assert "times of the runs vary by 80 %" in {one.reason for one in asked(run)}


def test_wide_intervals_follow_from_noise_between_runs(cclmark, tmp_path):
    first, again, noisy = (tmp_path / f"{name}.csv" for name in ("first", "again", "noisy"))
    for path in (first, again, noisy):
        table(path, 2, 4)
    changed_rows(again, 1.0 + 1e-9)
    changed_rows(noisy, 1.5)

    def width(*runs):
        said = [one for one in asked(cclmark("predict", *runs, "--nodes", "8")) if one.time_s]
        return sum(one.high_s / one.low_s for one in said) / len(said)

    assert width(first, noisy) > 1.3 * width(first, again)


def test_what_cannot_be_predicted_is_refused(tag, tmp_path, tmp_path_factory):
    files = tmp_path_factory.mktemp("runs")
    stored(files / "wrong.jsonl", lambda results: setattr(results[0], "status", "wrong"))
    table(files / "nodes.csv", 2, 4)
    for version in ("2.27", "2.28"):
        table(files / f"{version}.csv", 2, version=version)
    head = "nodes,gpus_per_node,size,busbw_gbps,time_us\n"
    texts = {
        **{"empty": "", "head": head, "text": f"{head}2,8,1M,fast,\n"},
        **{"zero": f"{head}0,8,1M,1,\n", "both": f"{head}2,8,1M,1,1\n"},
        "twice": f"{head}2,8,8,1,\n2,8,8,2,\n",
    }
    for name, text in texts.items():
        (files / f"{name}.csv").write_text(text)
    (files / "folder.csv").mkdir()
    names = {path.name: str(path) for path in (*files.iterdir(), COPIES)}
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, [], names)
