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
from cclmark.work.operations import parse_dtypes, parse_reductions
from cclmark.work.sizes import format_size, parse_size, sweep
from goldens import refusal, require_outcomes


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


LIBRARIES = {"cuda": ["nccl", "flagcx"], "host": ["shm", "oneccl"]}


def placements_of(given, ccl, operation):
    chosen = plan(operations=[operation], ccls=[ccl], placements=given, sizes=[4096])
    return [case.placement for case in chosen.cases()]


def islands_of(text, runtimes, hosts):
    parsed = parse_islands(text, runtimes, LIBRARIES, dict.fromkeys(LIBRARIES, True), hosts)
    return " ".join(island.describe() for island in parsed)


READERS = {
    "size": parse_size,
    "written": format_size,
    "sweep": sweep,
    "types": parse_dtypes,
    "reductions": parse_reductions,
    "fault": lambda text: Injection.parse(text, 2),
    "pattern": UnevenPattern.parse,
    "placements": placements_of,
    "islands": islands_of,
}


def test_what_is_typed_is_read_or_refused(tmp_path):
    """Islands by what was typed, and by the hosts that ranks are on."""
    path = tmp_path / "m.txt"

    def matrix(content):
        path.write_text(content)
        return UnevenPattern.parse(f"matrix:{path}").check(2)

    def outcome(line):
        kind, *arguments = json.loads(line)
        return refusal({**READERS, "matrix": matrix}[kind], *arguments).replace(str(path), "FILE")

    require_outcomes(Path(__file__).with_name("plan_values.txt"), outcome)


def test_a_plan_is_every_combination_once():
    cases = list(plan(dtypes=["int8", "float64"], reductions=["sum", "max"]).cases())
    assert len(cases) == len(set(cases)) == 2 * 2 * 2 * 2
    assert [case.in_place for case in cases[:2]] == [False, True]


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
