import dataclasses
from pathlib import Path

import msgspec

from cclmark.cli.rerun.rerunning import repeat_lines
from cclmark.comparison.figures import Side, compare
from cclmark.kinds.registry import read_journal

RUNS = Path(__file__).parents[2] / "benchmarks" / "results" / "h200x4" / "runs"


def lines_of(then, now, name="a.jsonl"):
    sides = [Side(one, [read_journal(RUNS / f"{one}.jsonl")]) for one in (then, now)]
    return repeat_lines(compare(*sides), name)


def test_a_repeated_run_differs_by_noise_alone():
    lines = lines_of("default-1", "default-2")
    assert len(lines) == 28
    assert lines[0] == "  time now over time in a.jsonl:"
    assert lines[-1].endswith("0 slower and 0 faster beyond noise, 18 inconclusive at 5%")
    assert lines[-1].startswith("  26 in both, median ratio 1.008; ")


def test_what_differs_is_named_in_its_line():
    lines = lines_of("default-1", "ctas8")
    (large,) = [line for line in lines if "128 MiB float32 sum out-of-place" in line]
    assert large.endswith("1.751  slower")
    assert "8 slower and 0 faster" in lines[-1]


def test_of_many_only_those_that_differ_are_shown():
    lines = lines_of("collectives/b-1", "collectives/b-2")
    assert "169 in both" in lines[-1]
    assert len(lines) < 20
    assert all(line.endswith(("slower", "faster")) for line in lines[1:-1])


def test_of_several_libraries_each_line_names_its_own():
    run = read_journal(RUNS.parent / "libraries.jsonl")
    lines = repeat_lines(compare(Side("then", [run]), Side("now", [run])), "a.jsonl")
    (one,) = [line for line in lines if " in both" in line]
    assert "81 in both" in one
    assert not lines[1].startswith("    ")  # more than are shown, and none of them differs
    few = dataclasses.replace(run, results=[it for it in run.results if it.case.size_bytes == 8])
    lines = repeat_lines(compare(Side("then", [few]), Side("now", [few])), "a.jsonl")
    named = [line.split("  ")[2].rpartition(", ")[2] for line in lines[1:-1]]
    assert named == [it.case.ccl for it in few.results]
    assert set(named) == {"nccl", "torch:nccl", "flagcx", "mpi", "bridge"}


def test_without_anything_in_common_that_is_said():
    assert repeat_lines([], "a.jsonl") == [
        "  nothing that was measured now can be compared with a.jsonl"
    ]


def test_why_nothing_can_be_compared_is_said():
    run = read_journal(RUNS / "default-1.jsonl")
    by_host = [
        msgspec.structs.replace(it, summary=msgspec.structs.replace(it.summary, clock="host"))
        for it in run.results
    ]
    other = dataclasses.replace(run, results=by_host)
    lines = repeat_lines(compare(Side("then", [run]), Side("now", [other])), "a.jsonl")
    assert lines == [
        "  nothing that was measured now can be compared with a.jsonl",
        "    26 cases: the device's clock before, the host's clock after",
    ]


def test_cases_of_one_run_alone_are_counted_by_run():
    run = read_journal(RUNS / "default-1.jsonl")
    first = dataclasses.replace(run, results=run.results[:20])
    second = dataclasses.replace(run, results=run.results[20:])
    lines = repeat_lines(compare(Side("then", [first]), Side("now", [second])), "a.jsonl")
    assert lines[1:] == ["    20 cases only in the old run", "    6 cases only in the new run"]
