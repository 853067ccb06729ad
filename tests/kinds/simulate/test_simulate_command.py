"""``cclmark simulate``."""

import csv
from pathlib import Path

import pytest

from cclmark_planning.simulate.figures import busbw_bps
from cclmark_planning.simulate.result import SimulationResult
from refusals import require_refusals

SMALL = ("simulate", "all_reduce", "--topology", "fat-tree:16x8,oversub=2", "-b", "64M")


def test_what_is_not_possible_is_refused_before_anything_is_written(tag, tmp_path):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, [])


def results_of(run):
    return run.journal.of(SimulationResult)


def test_all_algorithms_are_compared_with_the_law_of_the_links(cclmark):
    run = cclmark(*SMALL)
    results = results_of(run)
    assert [one.simulation.algorithm for one in results] == ["ring", "rail", "hierarchical", "tree"]
    # 8 interfaces of 400 Gb/s of each node, of which 90 % are achieved, and 15 of 16 nodes' data.
    law_s = 2 * 15 * 64 * 2**20 / (16 * 8 * 50e9 * 0.9)
    assert [one.bound_s for one in results] == [pytest.approx(law_s)] * 4
    assert min(one.time_s for one in results) > law_s
    assert "verdict    result: all_reduce 64 MiB of 128 ranks takes" in run.out
    # The estimate comes first, and each result as soon as it is known.
    lines = run.err.splitlines()
    assert lines[0] == "cclmark: 4 simulations on 128 devices: about 1 s"
    assert [line.split()[5].strip(":") for line in lines[1:5]] == [
        one.simulation.algorithm for one in results
    ]
    # The journal has all that is printed.
    again = cclmark("export", str(run.journal_path), "--format", "table")
    texts = [
        one.out.partition("simulated times")[2].partition("verdict")[0] for one in (run, again)
    ]
    assert texts[0] == texts[1] != ""


def test_the_same_without_a_slow_link_is_beside(cclmark):
    run = cclmark(*SMALL, "--algorithm", "ring", "--slow-link", "gpu17-leaf=0.5")
    slow, whole = results_of(run)
    assert (slow.simulation.variant, whole.simulation.variant) == ("", "links whole")
    extra_s = 2 * 127 / 128 * 64 * 2**20 / 8 / (50e9 * 0.9)
    assert slow.time_s - whole.time_s == pytest.approx(extra_s)
    assert {one.name for one in slow.hottest[:2]} == {"gpu17-leaf", "leaf-gpu17"}
    assert "notable    all_reduce 64 MiB of 128 ranks by ring: with slow or broken links" in run.out


def test_each_kind_of_cost_is_left_out_alone_and_all_together(cclmark):
    run = cclmark(
        *("simulate", "--topology", "fat-tree:16x8,oversub=4", "-b", "64M", "--algorithm", "ring"),
        *("--ranks", "64", "--placement", "spread", "--job", "alltoall:64M:64:spread"),
        *("--background", "spine=20%", "--broken-link", "leaf0-spine.3", "--format", "csv"),
    )
    rows = {row["variant"]: float(row["time_us"]) for row in csv.DictReader(run.out.splitlines())}
    assert [*rows] == [
        *("", "links whole", "no background", "no other job", "packed", "none of these")
    ]
    assert all(rows[""] > time for name, time in rows.items() if name)
    assert rows["none of these"] == min(rows.values())


def test_devices_of_a_file_are_the_ranks(cclmark, tmp_path):
    places = tmp_path / "places"
    places.write_text("8-15\n0-7\n")
    run = cclmark(*SMALL, "--algorithm", "ring", "--placement", str(places))
    assert [one.simulation.rank_count for one in results_of(run)] == [16]


def test_an_alltoallv_has_the_matrix_of_a_file(cclmark, tmp_path):
    matrix = tmp_path / "matrix.csv"
    matrix.write_text("0,3,1\n1,0,1\n1,1,0\n")
    run = cclmark(
        *("simulate", "alltoallv", "--topology", "nvlink:3", "-b", "1G"),
        *("--pattern", f"matrix:{matrix}", "--node-efficiency", "100%"),
    )
    [result] = results_of(run)
    # Three quarters of the largest row go over the link to the second device, beside a quarter.
    assert result.time_s == pytest.approx(2**30 / 450e9 + 3.4e-6, rel=1e-6)
    assert busbw_bps(result) < 450e9


def test_sizes_are_drawn_and_the_page_shows_the_fabric(cclmark, tmp_path):
    run = cclmark(*SMALL, "-e", "256M", "--slow-link", "leaf1-spine=0.5")
    page = tmp_path / "page.html"
    cclmark("report", str(run.journal_path), "-o", str(page))
    text = page.read_text()
    for words in ("load of the links", "simulated bus bandwidth by algorithm", "hottest links"):
        assert words in text, words
    assert page.stat().st_size < 1 << 20


def test_without_numpy_the_extra_is_named(cclmark, tmp_path):
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('gone', name='numpy')")
    env = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    run = cclmark("simulate", "--topology", "nvlink:8", env=env, code=3)
    assert "numpy, which this requires, is not installed: pip install 'cclmark[scale]'" in run.err
    assert run.written() == ["numpy.py"]
