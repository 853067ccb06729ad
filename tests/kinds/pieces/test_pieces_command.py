"""``--pieces``: one message against many."""

import importlib
from pathlib import Path

import pytest

from cclmark.kinds.pieces.plan import BUCKET_BYTES, FIRST_BUCKET_BYTES
from cclmark.kinds.pieces.result import PieceResult
from refusals import require_refusals

QUICK = ("--max-time", "0.02")
HOST = ("--devices", "host:2", *QUICK)


def rows_of(run):
    return [row for result in run.journal.of(PieceResult) for row in result.rows]


def test_nonsense_is_refused_before_anything_starts(tag, tmp_path):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, [])


def test_every_division_is_measured_checked_or_skipped_with_the_reason(cclmark):
    run = cclmark("all_reduce", *HOST, "--pieces", "1,3,64", "-b", "2M", "-e", "2M")
    rows = rows_of(run)
    assert [(row.division.form, row.division.pieces) for row in rows[:6]] == [
        *(("one", 1), ("separate", 3), ("grouped", 3), ("separate", 64), ("grouped", 64)),
        ("buckets", 2),
    ]
    assert len(rows) == 12  # out-of-place and in-place
    for row in rows:
        if row.division.form == "grouped":
            assert row.status == "skipped"
            assert row.reason == "this library does not support groups of operations"
        else:
            assert (row.status, row.verification.wrong) == ("ok", 0)
            assert row.ratio_low <= row.ratio <= row.ratio_high
            assert len(row.samples.host_s) >= 7
    assert "all_reduce float32 sum out-of-place · shm, 2 ranks: 2 MiB" in run.out
    assert "8 of 12 divisions measured; 8 checked, 0 wrong" in run.out
    assert "all_reduce 2 MiB float32 sum in-place in 64 calls takes " in run.out


@pytest.mark.parametrize(
    ("operation", "dtypes"), [("reduce", "int8,float64"), ("sendrecv", "int8")]
)
def test_other_operations_have_right_outputs_in_pieces(cclmark, operation, dtypes):
    """Of uneven lengths, with three ranks, at a root that is not the first."""
    flags = ("--pieces", "1,7", "-b", "100", "-e", "100", "-d", dtypes, "-c", "2")
    roots = () if operation == "sendrecv" else ("-r", "2")
    run = cclmark(operation, "--devices", "host:3", *QUICK, *flags, *roots)
    rows = [row for row in rows_of(run) if row.status != "skipped"]
    assert {(row.status, row.verification.wrong) for row in rows} == {("ok", 0)}
    assert {row.division.pieces for row in rows} == {1, 7}


def test_corruption_in_any_division_is_found(cclmark):
    flags = ("--pieces", "4", "-b", "64", "-e", "64", "--placement", "in-place")
    run = cclmark("all_reduce", *HOST, *flags, "--inject", "corrupt:rank=1,index=3", code=1)
    measured = [row for row in rows_of(run) if row.status != "skipped"]
    assert [row.status for row in measured] == ["wrong", "wrong"]
    for row in measured:
        (found,) = row.verification.findings
        assert (found.rank, found.wrong, found.first_element) == (1, 1, 3)
    assert "in 4 calls: rank 1: 1 element, first at index 3" in run.out


@pytest.mark.usefixtures("torch")
def test_buckets_have_the_defaults_of_ddp():
    """As far as the installed torch has names for them."""
    ddp = importlib.import_module("torch.nn.parallel.distributed")
    first_bytes = importlib.import_module("torch.distributed")._DEFAULT_FIRST_BUCKET_BYTES
    most_mib = getattr(ddp, "_DEFAULT_BUCKET_CAP_MB", 25)
    assert (first_bytes, most_mib << 20) == (FIRST_BUCKET_BYTES, BUCKET_BYTES)


@pytest.mark.usefixtures("torch")
def test_calls_of_torch_are_coalesced_where_it_can(cclmark):
    flags = ("--pieces", "7", "-b", "1000", "-e", "1000", "--ccl", "torch:gloo")
    run = cclmark("all_reduce", *HOST, *flags)
    found = {row.division.form: (row.status, row.verification.wrong) for row in rows_of(run)}
    assert found == dict.fromkeys(("one", "separate", "grouped"), ("ok", 0))
    found = {row.division.form: row for row in rows_of(cclmark("broadcast", *HOST, *flags))}
    assert found["separate"].status == "ok"
    assert "does not support groups of operations of broadcast" in found["grouped"].reason
