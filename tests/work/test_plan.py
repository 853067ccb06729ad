import os
from functools import partial

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.work.cases import Sweep, UnevenPattern, heaviest_row, rows_pattern
from cclmark.work.inject import Injection
from cclmark.work.operations import (
    DTYPE_BYTES,
    OPERATIONS,
    count_for_size,
    parse_dtypes,
    parse_reductions,
    size_for_count,
)
from cclmark.work.sizes import format_size, parse_size, sweep


def fault_of_two(text):
    """A fault of one of two ranks."""
    return Injection.parse(text, 2)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8", 8),
        ("128K", 128 << 10),
        ("4G", 4 << 30),
        ("1GiB", 1 << 30),
        ("1gb", 1 << 30),
        ("1.5M", 3 << 19),
        (" 2 T ", 2 << 40),
        ("7B", 7),
    ],
)
def test_sizes_read_as_the_peers_write_them(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("parse", "wrong"),
    [
        *((parse_size, one) for one in ("", "-8", "0", "eight", "1X", "1e3", "0.3", "K")),
        *((parse_size, one) for one in ("2000T", "1.0001K")),
        *((partial(sweep, 8, 9), one) for one in ((-1, 2), (0, 1), (0, float("nan")))),
        (sweep, (9, 8, 0, 2)),
        (sweep, (1, 1 << 40, 1, 0)),
        *((UnevenPattern.parse, one) for one in ("skew", "skew:x", "skew:0.5", "skew:inf")),
        *((UnevenPattern.parse, one) for one in ("matrix:/nowhere", "even")),
        *((parse_dtypes, one) for one in ("int128", "", ",", "float32 int8")),
        *((fault_of_two, one) for one in ("", "crash:rank=1", "corrupt:rank=1")),
        *((fault_of_two, one) for one in ("corrupt:rank=2,index=0", "corrupt:rank=0,index=x")),
        *((fault_of_two, f"delay:rank=0{one}") for one in (",ms=-1", ".5,ms=1", ",ms=1,index=3")),
    ],
)
def test_what_makes_no_sense_is_refused(parse, wrong):
    with pytest.raises(UsageError):
        parse(*wrong) if isinstance(wrong, tuple) else parse(wrong)


@given(st.integers(1, (1 << 50) - 1))
def test_a_plain_number_is_a_number_of_bytes(size):
    assert parse_size(str(size)) == size


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused_with_a_message(text):
    try:
        assert parse_size(text) >= 1
    except UsageError as error:
        assert str(error)


def test_sweeps():
    assert sweep(8, 100, 0, 2) == [8, 16, 32, 64]
    assert sweep(8, 32, 8, 0) == [8, 16, 24, 32]
    assert sweep(1, 5, 0, 1.2) == [1, 2, 3, 4, 5]  # grows by a byte at least


@given(
    st.sampled_from(sorted(OPERATIONS)),
    st.integers(1, 1 << 33),
    st.sampled_from(sorted(DTYPE_BYTES)),
    st.integers(1, 64),
)
def test_what_is_measured_is_never_larger_than_what_was_asked_for(operation, size, dtype, ranks):
    count = count_for_size(operation, size, dtype, ranks)
    assert size_for_count(operation, count, dtype, ranks) <= size
    if OPERATIONS[operation].spans_ranks:
        assert count * DTYPE_BYTES[dtype] % 16 == 0


def test_names_of_types_are_those_of_the_peers():
    assert parse_dtypes("half,float,double") == ["float16", "float32", "float64"]
    assert parse_dtypes("bfp16") == ["bfloat16"]
    assert parse_dtypes("all") == list(DTYPE_BYTES)
    assert parse_reductions("max,max,SUM") == ["max", "sum"]


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
        ((), "mpi", "all_gather", [False]),
        ((), "torch:gloo", "all_reduce", [True]),
        ((), "mpi", "barrier", [False]),
        ((False, True), "mpi", "broadcast", [True]),
        ((False, True), "mpi", "all_gather", [False, True]),
        ((False,), "mpi", "broadcast", [False]),  # is skipped with the reason
    ],
)
def test_one_placement_unless_asked_for(placements, ccl, operation, in_place):
    chosen = plan(operations=[operation], ccls=[ccl], placements=placements, sizes=[4096])
    assert [case.in_place for case in chosen.cases()] == in_place


def test_roots_and_reductions_only_where_there_are_some():
    cases = list(plan(operations=["broadcast", "alltoall"], roots=[0, 3], sizes=[4096]).cases())
    assert {case.reduction for case in cases} == {None}
    assert {case.root for case in cases if case.operation == "broadcast"} == {0, 3}
    assert {case.root for case in cases if case.operation == "alltoall"} == {None}


def test_sizes_of_no_element_have_no_case_and_equal_ones_are_measured_once():
    cases = list(plan(operations=["all_gather"], sizes=[8, 60, 64, 100, 128]).cases())
    assert [case.size_bytes for case in cases if not case.in_place] == [64, 128]


def test_a_barrier_is_one_case():
    assert len(list(plan(operations=["barrier"], dtypes=["int8", "int32"]).cases())) == 1


@given(st.integers(1, 16), st.floats(1, 100), st.integers(0, 1 << 24))
def test_uneven_parts_keep_to_the_size(ranks, skew, elements):
    matrix = UnevenPattern(skew=skew).matrix(elements, ranks, 4)
    assert len(matrix) == ranks * ranks
    assert heaviest_row(matrix, ranks) <= elements
    rows = [sorted(matrix[i * ranks : (i + 1) * ranks]) for i in range(ranks)]
    assert all(row == rows[0] for row in rows)


def test_a_skew_makes_the_largest_part_that_much_larger():
    matrix = UnevenPattern.parse("skew:4").matrix(1 << 20, 4, 4)
    assert max(matrix[:4]) / min(matrix[:4]) == pytest.approx(4, rel=0.01)


def test_a_matrix_file_gives_the_shares(tmp_path):
    path = tmp_path / "m.txt"
    path.write_text("# from step 100\n0, 3\n1 1\n")
    pattern = UnevenPattern.parse(f"matrix:{path}")
    pattern.check(2)
    assert pattern.matrix(3000, 2, 1) == (0, 2992, 992, 992)
    with pytest.raises(UsageError, match="3 x 3"):
        pattern.check(3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        *((content, "2 x 2") for content in ("1 1\n1 1\n1 1", "1 1 1\n1 1 1", "1 1\n1")),
        *(("1 x\n1 1", "numbers"), ("-1 2\n1 1", "negative"), ("0 0\n0 0", "zeros")),
        *((content, "finite") for content in ("nan 1\n1 1", "1 inf\n1 1")),
        *((content, "empty") for content in ("", "# nothing\n")),
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
    for name, words in {
        "fifo": "not a regular file",
        "large": "larger than",
        "missing": "No such file",
        "nul\0": "not a path",
    }.items():
        with pytest.raises(UsageError, match=words):
            UnevenPattern.parse(f"matrix:{tmp_path / name}")
    for device in ("/dev/zero", "/dev/null", str(tmp_path)):
        with pytest.raises(UsageError, match=r"not a regular file|directory"):
            UnevenPattern.parse(f"matrix:{device}")


def test_errors_of_matrix_files_do_not_quote_them(tmp_path):
    path = tmp_path / "m.txt"
    path.write_text("1 2\n3 hunter2:secret\n")
    with pytest.raises(UsageError, match="line 2, column 2: not a number") as caught:
        UnevenPattern.parse(f"matrix:{path}")
    assert "hunter2" not in str(caught.value)


@given(
    st.integers(1, 5).flatmap(
        lambda ranks: st.lists(
            st.lists(st.floats(0, 1e100), min_size=ranks, max_size=ranks),
            min_size=ranks,
            max_size=ranks,
        )
    )
)
def test_the_weights_of_a_pattern_can_be_written_as_one(weights):
    assume(any(map(any, weights)))
    assert UnevenPattern.parse(rows_pattern(weights)).weights == tuple(map(tuple, weights))


def test_faults_are_read():
    assert fault_of_two("corrupt:rank=1,index=5") == Injection("corrupt", 1, 5)
    assert fault_of_two("delay:ms=2.5,rank=0") == Injection("delay", 0, 2.5)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (8, "8 B"),
        (1023, "1023 B"),
        (131072, "128 KiB"),
        ((1 << 20) - 16, "1 MiB"),
        (3 << 29, "1.5 GiB"),
        (5 << 40, "5 TiB"),
        (-4, "-4 B"),
        (-131072, "-128 KiB"),
    ],
)
def test_sizes_are_written_as_people_read_them(size, text):
    assert format_size(size) == text
