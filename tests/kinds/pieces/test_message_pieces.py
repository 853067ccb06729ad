"""The division of messages into pieces, and the figures of pieces."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.document.exporters import exporter_of
from cclmark.journal.schema import Samples, Verification, WrongOutput
from cclmark.kinds.pieces import plan
from cclmark.kinds.pieces.document import beside_whole, remarks_of, wrong_findings
from cclmark.kinds.pieces.figures import row_of
from cclmark.kinds.pieces.result import PieceResult
from cclmark.kinds.registry import KINDS, read_journal
from cclmark.work.cases import Case
from cclmark.work.operations import DTYPE_BYTES, OPERATIONS
from goldens import require_golden
from places import TESTS
from samples import usual_job

CASE = Case("all_reduce", "shm", 2, "float32", 4 << 20, 1 << 20, False, reduction="sum")
MIB = 1 << 18  # elements of float32
JOURNAL = read_journal(TESTS / "journals" / "pieces.jsonl")


def of(count, dtype="float32"):
    return replace(CASE, count=count, dtype=dtype)


@given(
    count=st.integers(1, 1 << 34),
    pieces=st.integers(1, 3000),
    dtype=st.sampled_from(["int8", "float16", "float32", "float64"]),
)
def test_pieces_add_up_are_alike_and_begin_at_vectors(count, pieces, dtype):
    if pieces > count:
        return
    counts = plan.piece_counts(of(count, dtype), plan.Division(plan.SEPARATE, pieces))
    assert len(counts) == pieces
    assert sum(counts) == count
    assert min(counts) > 0
    width = DTYPE_BYTES[dtype]
    step = (512 if count * width >= pieces * 512 else 16) // width
    assert max(counts) - min(counts) <= 2 * step
    if count >= pieces * step:
        assert not any(length % step for length in counts[:-1])
    # Calls of equal length share what a library has bound.
    assert len(set(counts)) <= 3


@given(count=st.integers(1, 1 << 32), dtype=st.sampled_from(["int8", "float32", "float64"]))
def test_buckets_have_the_limits_of_ddp(count, dtype):
    counts = plan.piece_counts(of(count, dtype), plan.Division(plan.BUCKETS, 1))
    width = DTYPE_BYTES[dtype]
    assert sum(counts) == count
    assert counts[0] == min(count, (1 << 20) // width)
    assert all(length == (25 << 20) // width for length in counts[1:-1])
    assert 0 < counts[-1] <= (25 << 20) // width


def test_divisions_are_one_call_then_calls_and_groups_then_buckets():
    assert plan.piece_counts(CASE, plan.Division(plan.ONE, 1)) == []  # it is the operation itself
    one = plan.Division(plan.ONE, 1)

    def both(pieces):
        return plan.Division(plan.SEPARATE, pieces), plan.Division(plan.GROUPED, pieces)

    assert plan.divisions_of(CASE, [1, 2, 10]) == (
        one,
        *both(2),
        *both(10),
        plan.Division(plan.BUCKETS, 2),
    )
    assert plan.divisions_of(of(5), [1, 5, 6]) == (one, *both(5))
    assert plan.divisions_of(of(MIB), [1]) == (one,)
    assert plan.divisions_of(of(MIB + 1), [1])[-1] == plan.Division(plan.BUCKETS, 2)
    assert plan.divisions_of(of(1024 * MIB), [1])[-1] == plan.Division(plan.BUCKETS, 42)
    assert plan.divisions_of(replace(of(1024 * MIB), operation="broadcast"), [1]) == (one,)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_whose_pieces_have_another_order_are_refused(operation):
    case = replace(CASE, operation=operation)
    if operation in plan.DIVISIBLE:
        assert not OPERATIONS[operation].spans_ranks
        assert len(plan.piece_cases([case], [4])) == 1
        return
    with pytest.raises(UsageError, match=f"--pieces: {operation} cannot be divided"):
        plan.piece_cases([case], [4])


@given(text=st.text(max_size=12))
@example(text="0\x1f")  # which str.strip removes, and int does not
def test_other_texts_are_refused(text):
    try:
        numbers = plan.parse_pieces(text)
    except UsageError as error:
        assert "write numbers from 1 to 100000" in str(error)
    else:
        assert numbers == sorted(set(numbers))
        assert all(1 <= number <= 100_000 for number in numbers)


def samples(times_s, enqueue_s, with_device=True):
    return Samples(
        host_s=[[one, one * 1.1] for one in times_s],
        device_s=[[one * 0.9, one if with_device else None] for one in times_s],
        enqueue_s=[[enqueue_s, enqueue_s] for _ in times_s],
        operations_per_sample=20,
    )


def test_ratios_are_those_of_the_rounds_by_one_clock():
    settings = usual_job().settings
    drift = [1e-3 * (1 + step / 10) for step in range(8)]
    one = samples(drift, 1e-5)
    three = samples([3 * time_s for time_s in drift], 2.9e-3)
    row = row_of(CASE, three, one, settings, plan.Division(plan.SEPARATE, 4), launches=True)
    assert (row.ratio, row.ratio_low, row.ratio_high) == pytest.approx((3, 3, 3))
    assert row.summary.clock == "device"
    assert row.summary.time_s == pytest.approx(3 * 1.35e-3)
    assert row.summary.algbw_bytes_per_s == pytest.approx(CASE.size_bytes / row.summary.time_s)
    # Without device times of one of the two, both are by the clock of the host.
    own, grouped = samples(drift, 1e-5, with_device=False), plan.Division(plan.GROUPED, 4)
    row = row_of(CASE, own, one, settings, grouped, launches=True)
    assert row.summary.clock == "host"
    assert row.ratio == pytest.approx(1)


def test_launches_set_the_time_where_the_host_enqueues_as_long():
    def is_bound(pieces, form=plan.SEPARATE, *, enqueue_s=9.8e-4, launches=True):
        own = samples([1e-3] * 7, enqueue_s)
        settings = usual_job().settings
        return row_of(
            CASE, own, own, settings, plan.Division(form, pieces), launches=launches
        ).launch_bound

    assert is_bound(4)
    assert not is_bound(4, launches=False)
    # 20 operations of 51 calls are 1020 launches, of 52 more than the queue of launches holds.
    assert is_bound(51)
    assert not is_bound(52)
    assert is_bound(52, plan.GROUPED)
    assert not is_bound(4, enqueue_s=5e-4)


def measured(ccl, index=0):
    """A message in one call and in 100, whose outputs are wrong."""
    case = replace(CASE, ccl=ccl, in_place=True)
    settings = usual_job().settings
    one, many = (samples([time_s] * 8, 1e-5) for time_s in (1e-3, 2e-3))
    divisions = (plan.Division(plan.ONE, 1), plan.Division(plan.SEPARATE, 100))
    rows = [
        row_of(case, own, one, settings, division, launches=True)
        for own, division in zip((one, many), divisions, strict=True)
    ]
    rows[1].launch_bound = True
    rows[1].verification = Verification(1, [WrongOutput(1, 1, 3, "1", "2")])
    return PieceResult(index, plan.PieceCase(case, divisions), "wrong", rows=rows, converged=False)


def test_the_library_is_named_where_several_are_measured():
    found = [measured("torch:gloo"), measured("shm", 1)]
    table = exporter_of(KINDS[plan.PIECES], "table")
    table.begin(JOURNAL.header)
    text = "".join(map(table.add, found)) + table.end(None)
    require_golden("texts/pieces-of-two-libraries.txt", text)
    assert not any(" with " in one.sentence for one in beside_whole(found[0], found[:1]))
    said = [*remarks_of(found[:1]), *wrong_findings(found[:1])]
    assert any("in-place in 100 calls" in one.sentence for one in said)
