import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.work.cases import Sweep, UnevenPattern, heaviest_row, rows_pattern
from cclmark.work.inject import Injection
from cclmark.work.islands import parse_islands
from cclmark.work.operations import (
    parse_dtypes,
    parse_reductions,
)
from cclmark.work.sizes import format_size, parse_size, sweep
from goldens import refusal, require_outcomes

READERS = {
    "size": parse_size,
    "written": format_size,
    "sweep": sweep,
    "types": parse_dtypes,
    "reductions": parse_reductions,
    "fault": lambda text: Injection.parse(text, 2),
    "pattern": UnevenPattern.parse,
}


def test_what_is_typed_is_read_or_refused():
    def outcome(line):
        kind, *arguments = json.loads(line)
        return refusal(READERS[kind], *arguments)

    require_outcomes(Path(__file__).with_name("plan_values.txt"), outcome)


def plan(**changes):
    values = {
        "operations": ["all_reduce"],
        "ccls": ["shm"],
        "ranks": 4,
        "sizes": [8, 16],
        "dtypes": ["float32"],
        "reductions": ["sum"],
        "roots": [0],
        "placements": (False, True),
        "uneven": UnevenPattern(),
    }
    return Sweep(**{**values, **changes})


def test_a_plan_is_every_combination_once():
    cases = list(plan(dtypes=["int8", "float64"], reductions=["sum", "max"]).cases())
    assert len(cases) == len(set(cases)) == 2 * 2 * 2 * 2
    assert [case.in_place for case in cases[:2]] == [False, True]


@pytest.mark.parametrize(
    ("placements", "ccl", "operation", "in_place"),
    [
        ((), "shm", "broadcast", [False]),
        ((), "mpi", "broadcast", [True]),
        ((), "mpi", "barrier", [False]),
        ((False, True), "mpi", "broadcast", [True]),
        ((False, True), "mpi", "all_gather", [False, True]),
        ((False,), "mpi", "broadcast", [False]),  # is skipped with the reason
    ],
)
def test_one_placement_unless_asked_for(placements, ccl, operation, in_place):
    chosen = plan(operations=[operation], ccls=[ccl], placements=placements, sizes=[4096])
    assert [case.in_place for case in chosen.cases()] == in_place


def test_sizes_of_no_element_have_no_case_and_equal_ones_are_measured_once():
    cases = list(plan(operations=["all_gather"], sizes=[8, 60, 64, 100, 128]).cases())
    assert [case.size_bytes for case in cases if not case.in_place] == [64, 128]
    assert len(list(plan(operations=["barrier"], dtypes=["int8", "int32"]).cases())) == 1


@given(st.integers(1, 16), st.floats(1, 100), st.integers(0, 1 << 24))
def test_uneven_parts_keep_to_the_size(ranks, skew, elements):
    matrix = UnevenPattern(skew=skew).matrix(elements, ranks, 4)
    assert len(matrix) == ranks * ranks
    assert heaviest_row(matrix, ranks) <= elements
    rows = [sorted(matrix[i * ranks : (i + 1) * ranks]) for i in range(ranks)]
    assert all(row == rows[0] for row in rows)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        *(("1 1\n1 1\n1 1", "2 x 2"), ("1 1\n1", "2 x 2"), ("1 x\n1 1", "numbers")),
        *(("-1 2\n1 1", "negative"), ("0 0\n0 0", "zeros"), ("1 inf\n1 1", "finite")),
        ("# nothing\n", "empty"),
    ],
)
def test_matrix_files_that_make_no_sense_are_refused(tmp_path, content, words):
    path = tmp_path / "m.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match=words):
        UnevenPattern.parse(f"matrix:{path}").check(2)


def test_matrix_files_are_regular_files_of_bounded_size(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "secret").write_text("1 2\n3 hunter2:secret\n")
    for name, words in (
        *(("fifo", "not a regular file"), ("large", "larger than"), ("nul\0", "not a path")),
        ("secret", "line 2, column 2: not a number"),
    ):
        with pytest.raises(UsageError, match=words) as caught:
            UnevenPattern.parse(f"matrix:{tmp_path / name}")
        assert "hunter2" not in str(caught.value)


def test_the_weights_of_a_pattern_can_be_written_as_one():
    weights = ((0.0, 1.5), (1e100, 1 / 3))
    assert UnevenPattern.parse(rows_pattern(weights)).weights == weights


# Islands by what was typed, and by the hosts that ranks are on.


LIBRARIES = {"cuda": ["nccl", "flagcx"], "host": ["shm", "oneccl"]}
CUDA, HOST = ["cuda"] * 4, ["host"] * 4
MIXED = ["cuda", "host"] * 2


@pytest.mark.parametrize(
    ("text", "runtimes", "hosts", "expected"),
    [
        *((text, CUDA, "0011", "0-1=nccl 2-3=nccl") for text in ("", "host", "0-1,2-3", " host ")),
        ("host=flagcx", CUDA[:3], "011", "0 1-2=flagcx"),
        ("", MIXED, "0011", "0 1 2 3"),
        ("host", MIXED, "0011", "a library supports only one kind"),
        ("0-2,3", CUDA, "0011", "0-2=nccl 3"),
        ("0-2,3", HOST, "0011", "shm works within one"),
        ("host", CUDA[:2], "00", "all ranks are on one"),
        ("host", CUDA, "0101", "not consecutive"),
        ("host=nccl,shm", CUDA, "0011", "one library for all"),
    ],
)
def test_islands(text, runtimes, hosts, expected):
    def islands():
        parsed = parse_islands(
            text, runtimes, LIBRARIES, dict.fromkeys(LIBRARIES, True), [*map(int, hosts)]
        )
        return " ".join(island.describe() for island in parsed)

    found = refusal(islands)
    assert expected in found if "Error" in found else expected == found
