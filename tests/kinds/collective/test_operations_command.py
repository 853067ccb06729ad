"""Every operation on host devices: what the journal holds is complete and agrees with itself."""

from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

from cclmark.journal.sample_times import with_short_figures
from cclmark.journal.summaries import summarise
from cclmark.work.operations import COLLECTIVES, DTYPE_BYTES, OPERATIONS, REDUCTIONS
from refusals import require_refusals

RANKS = 3
SHORT = ("-n", "2", "-w", "1")


@pytest.fixture(scope="module")
def everything(cclmark_in, tmp_path_factory):
    """All operations in one launch, sampled until precise or out of time."""
    directory = tmp_path_factory.mktemp("everything")
    arguments = ("--devices", f"host:{RANKS}", "-b", "96", "-e", "768", "-f", "8")
    return cclmark_in(directory, "collectives", *arguments, "--max-time", "0.01", "-w", "1")


def of(journal, operation: str):
    return [result for result in journal.results if result.case.operation == operation]


@pytest.mark.parametrize("operation", COLLECTIVES)
def test_both_placements_are_right_and_have_every_sample(everything, operation):
    results = of(everything.journal, operation)
    sizes = {result.case.size_bytes for result in results}
    expected = {(size, placed) for size in sizes for placed in (False, True)}
    if operation == "barrier":
        expected = {(0, False)}
    else:
        assert len(sizes) == 2, "one size for each of 96 and 768 bytes"
    assert {(result.case.size_bytes, result.case.in_place) for result in results} == expected
    for result in results:
        assert (result.status, result.verification.wrong) == ("ok", 0)
        assert (result.case.reduction is not None) == OPERATIONS[operation].reduces
        assert (result.case.root is not None) == OPERATIONS[operation].rooted
        samples, summary = result.samples, result.summary
        for clock in (samples.host_s, samples.device_s, samples.enqueue_s):
            assert len(clock) == summary.samples
            assert all(len(row) == RANKS for row in clock)
        assert all(time > 0 for row in samples.host_s for time in row)
        assert samples.operations_per_sample >= 1
        whole = summarise(result.case, samples, everything.journal.header.settings)
        assert with_short_figures(replace(result, summary=whole)).summary == summary


def test_journal_tells_how_it_came_about(everything):
    journal = everything.journal
    header = journal.header
    assert header.command[1:] == everything.command[3:]
    assert [(device.rank, device.runtime) for device in header.devices] == [
        (rank, "host") for rank in range(RANKS)
    ]
    assert [library.name for library in header.libraries] == ["shm"]
    assert (journal.footer.exit_code, journal.footer.message) == (0, "")
    assert {"timing", "verification"} <= set(journal.footer.phases_s)


def test_every_dtype_with_every_reduction_is_exact(cclmark):
    operations = ("all_reduce", "reduce_scatter")
    run = cclmark(
        *("collectives", "--only", ",".join(operations), "--devices", "host:2"),
        *("-d", "all", "-o", "all", "-b", "800", "-e", "800", "-n", "1", "-w", "0"),
    )
    results = run.journal.results
    measured = {
        (one.case.operation, one.case.dtype, one.case.reduction)
        for one in results
        if one.status == "ok"
    }
    assert measured == {*product(operations, DTYPE_BYTES, REDUCTIONS)}
    assert all(result.verification.wrong == 0 for result in results)


def test_every_dtype_is_moved_from_every_root(cclmark):
    rooted = ("broadcast", "gather", "scatter")
    operations = ("all_gather", "alltoall", "sendrecv", *rooted)
    run = cclmark(
        *("collectives", "--only", f"{','.join(operations)},reduce", "-d", "all", "-r", "all"),
        *("--devices", f"host:{RANKS}", "-b", "480", "-e", "480", "-n", "1", "-w", "0"),
    )
    assert {result.status for result in run.journal.results} == {"ok"}
    for operation in operations:
        assert {result.case.dtype for result in of(run.journal, operation)} == set(DTYPE_BYTES)
    for operation in (*rooted, "reduce"):
        assert {result.case.root for result in of(run.journal, operation)} == set(range(RANKS))


@pytest.mark.parametrize(
    ("chosen", "rows"),
    [((), [(256, 256, 256)] * 3), (("--pattern",), [(0, 192, 576), (192, 192, 0), (0, 0, 0)])],
)
def test_uneven_parts(cclmark, tmp_path, chosen, rows):
    matrix = tmp_path / "shares.txt"
    matrix.write_text("# what each rank sends\n0 1 3\n\n1,1,0\n0 0 0\n")
    words = (*chosen, f"matrix:{matrix}") if chosen else ()
    sizes = ("-b", "3072", "-e", "3072")
    run = cclmark("alltoallv", "--devices", f"host:{RANKS}", *sizes, *SHORT, *words)
    for result in run.journal.results:
        assert (result.status, result.case.size_bytes) == ("ok", 3072)
        assert result.case.matrix == sum(rows, ())


def measure(cclmark, *arguments):
    sweep = ("all_reduce", "--devices", "host:2", "-b", "64", "-e", "128")
    return cclmark(*sweep, *arguments).journal.results


@pytest.mark.parametrize(
    ("arguments", "samples", "operations"),
    [
        ("-n 1 -w 3", 1, 1),
        ("-n 5 -w 1 -z 1", 5, 1),
        ("-n 5 -w 1 --timing blocking -c 3", 5, 1),
        ("-n 5 -w 1 --timing per-op", 5, 1),
        ("-n 2 -w 0 -c 0", 1, 2),
    ],
)
def test_fixed_counts(cclmark, arguments, samples, operations):
    for result in measure(cclmark, *arguments.split()):
        assert result.summary.samples == len(result.samples.host_s) == samples
        assert len(result.samples.device_s) == samples
        assert result.samples.operations_per_sample == operations
        assert (result.warmup_batches > 0) == ("-w 0" not in arguments)
        is_blocking = "-z" in arguments or "blocking" in arguments
        assert not is_blocking or result.summary.clock == "host"
        checked = result.verification
        assert (checked is None) == arguments.endswith("-c 0")
        assert checked is None or checked.wrong == 0


def test_cycles_repeat_the_sweep(cclmark):
    results = measure(cclmark, "-n", "1", "-w", "1", "-N", "3")
    assert [result.cycle for result in results] == [0] * 4 + [1] * 4 + [2] * 4


def test_corruption_is_found_where_it_was_put_in_every_dtype(cclmark):
    run = cclmark(
        *("collectives", "--only", "all_reduce,alltoall", "--devices", "host:2", "-d", "all"),
        *("-b", "1K", "-e", "1K", *SHORT, "--inject", "corrupt:rank=1,index=17"),
        code=1,
    )
    results = run.journal.results
    cases = {(one.case.operation, one.case.dtype, one.case.in_place) for one in results}
    assert cases == {*product(("all_reduce", "alltoall"), DTYPE_BYTES, (False, True))}
    for result in results:
        assert (result.status, result.verification.wrong) == ("wrong", 1)
        (found,) = result.verification.findings
        assert (found.rank, found.first_element, found.wrong) == (1, 17, 1)
        assert found.expected != found.actual
        assert f"expected {found.expected}, got {found.actual}" in run.out
    assert run.journal.footer.exit_code == 1
    assert f"{len(results)} wrong" in run.out


def test_a_late_rank_is_named(cclmark):
    run = cclmark(
        *("all_reduce", "--devices", "host:3", "-b", "64", "-e", "64", "-w", "1"),
        *("--max-time", "0.6", "--inject", "delay:rank=2,ms=100"),
    )
    assert [result.summary.late_rank for result in run.journal.results] == [2, 2]
    named = [line for line in run.out.splitlines()[-8:] if "rank 2 (host:2 of " in line]
    assert any("comes late" in line for line in named), run.out


def test_commands_that_make_no_sense_are_refused(tag, tmp_path):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, [])
