"""Traces of torch.profiler: real ones of gloo, and of NCCL with the fields that torch writes."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.errors import UsageError
from cclmark.importing import trace_events
from cclmark.importing.kineto import is_kineto, read_kineto
from cclmark.importing.run import Origin
from cclmark.importing.trace_events import read_events
from cclmark.importing.traces import TraceFile, import_traces, trace_format
from examples import examples
from kineto_events import collective, kernel, trace

ROOM = Path(__file__).parent / "traces"
GLOO = [(ROOM / f"gloo-{rank}.json.gz").read_bytes() for rank in (0, 1)]


def read_trace(content, name, number):
    return read_kineto(BytesIO(content), name, number)


def file_of(content, name="trace.json"):
    return TraceFile(name, content, Origin(name, f"digest of {name}", 0.0, ["cclmark"], "0"))


def of_nccl(rank=0):
    late_us = 30 * rank
    events = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
        kernel("gemm", 1000, 500),
        collective("allreduce", 1400 + late_us, 200 - late_us, 1 << 20, "BFloat16", Seq=1),
        collective("_allgather_base", 1700, 100, 64, out=128, Seq=2),
        collective("_reduce_scatter_base", 1900, 50, 128, out=64, Seq=3),
    ]
    return trace(events, rank)


def test_kernels_of_nccl_become_operations():
    process = read_trace(of_nccl(), "trace.json", 5)
    assert process.rank == 0
    assert process.library == "nccl 2.28.9"
    found = {one.operation: one for one in process.operations}
    reduced = found["all_reduce"]
    assert (reduced.dtype, reduced.count, reduced.size_bytes) == ("bfloat16", 1 << 20, 2 << 20)
    assert (reduced.calls, reduced.total_ns) == (1, 200_000)
    # As NCCL counts: what one rank contributes, or receives.
    for name in ("all_gather", "reduce_scatter"):
        assert (found[name].count, found[name].size_bytes) == (64, 512)
    (group,) = process.groups.values()
    assert (group.name, group.ranks, group.own_rank, group.members) == ("default_pg", 2, 0, [0, 1])
    assert process.kernels == [(1_000_000, 1_500_000)]


def test_traces_of_two_ranks_are_one_profile():
    journal = import_traces(
        [file_of(of_nccl(1), "b.json"), file_of(of_nccl(0), "a.json")], "kineto"
    )
    profile = journal.profile
    assert [one.rank for one in profile.processes] == [0, 1]
    assert profile.groups[0].ranks == [0, 1]
    first = profile.processes[0]
    # 1400 to 1500 µs both run; of 350 µs of communication 250 are exposed.
    assert first.communication_s == pytest.approx(350e-6)
    assert first.exposed_s == pytest.approx(250e-6)
    assert first.compute_s == pytest.approx(500e-6)
    waits = {
        (result.profiled.operation, one.process): one.wait_s
        for result in journal.results
        for one in result.figures
    }
    assert waits["all_reduce", 0] == pytest.approx(30e-6)
    assert waits["all_reduce", 1] == 0.0
    assert journal.kind == "profile"
    assert journal.header.imported.tool == "torch.profiler"
    assert profile.notes == []


def test_calls_are_matched_by_torchs_numbers():
    """The trace of one rank began a call later."""
    first = [collective("allreduce", at, 100, 64, Seq=at) for at in (100, 300, 500)]
    second = [collective("allreduce", at, 60, 64, Seq=at) for at in (300, 500)]
    journal = import_traces([file_of(trace(first), "a"), file_of(trace(second, 1), "b")], "kineto")
    (result,) = journal.results
    assert [one.compared for one in result.figures] == [2, 2]
    assert result.figures[0].wait_s == pytest.approx(80e-6)
    assert "rank 1 called it 2 times, rank 0 3 times" in journal.profile.notes[0]


def test_real_traces_of_gloo():
    files = [file_of(content, f"gloo-{rank}.json.gz") for rank, content in enumerate(GLOO)]
    assert [trace_format(one.content) for one in files] == ["kineto"] * 2
    journal = import_traces(files, "kineto")
    counts = {
        (one.profiled.operation, one.profiled.dtype, one.profiled.size_bytes): [
            figures.calls for figures in one.figures
        ]
        for one in journal.results
    }
    assert counts == {
        ("all_reduce", "float32", 1024): [6, 6],
        ("broadcast", "float32", 1024): [3, 3],
        ("all_gather", "bfloat16", 64): [3, 3],
    }
    for one in journal.profile.processes:
        assert one.steps == 3
        # On the host torch's operators compute, beside the threads of gloo.
        assert 0 < one.compute_s < one.span_s
        assert 0 < one.exposed_s < one.communication_s
        assert one.step_s > 0
    assert journal.profile.groups[0].ranks == [0, 1]


def test_one_rank_alone_is_stated():
    journal = import_traces([file_of(of_nccl())], "kineto")
    assert journal.profile.notes[0].startswith("only the trace of rank 0 was imported")
    assert journal.profile.groups[0].ranks == [0, None]


def test_two_traces_of_one_rank_are_refused():
    with pytest.raises(UsageError, match="are both of rank 0"):
        import_traces([file_of(of_nccl(), "a.json"), file_of(of_nccl(), "b.json")], "kineto")


def test_kernels_without_a_description_are_counted():
    """As torch before 2.4 writes them."""
    content = trace([kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", 10, 5)])
    process = read_trace(content, "old.json", 0)
    (found,) = process.operations
    assert (found.operation, found.calls, found.size_bytes) == ("all_reduce", 1, 0)
    assert "1 kernels of NCCL without a description" in process.note


def test_calls_without_kernels_have_no_times():
    described = collective("allreduce", 5, 9, 256)
    recorded = {**described, "cat": "cpu_op", "name": "record_param_comms"}
    waiting = {**recorded, "args": {"Collective name": "wait"}}
    process = read_trace(trace([recorded, waiting]), "cpu.json", 0)
    (found,) = process.operations
    assert (found.calls, found.timed, found.bytes) == (1, 0, 1024)
    assert not process.calls[0].is_timed
    assert "without kernels" in process.note


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (trace([kernel("gemm", 1, 2)]), "contains no communication"),
        (b'{"schemaVersion": 1, "traceEvents": 7}', "is not a trace of torch.profiler"),
        (of_nccl()[:-40], "cut off after"),
        (of_nccl().replace(b'"ts"', b"ts", 1), "the trace is damaged"),
        (GLOO[0][:-9], "the compressed file is cut off"),
        (GLOO[0][:30] + b"\0" * 40 + GLOO[0][70:], "the compressed file is damaged"),
    ],
    ids=["no communication", "other JSON", "cut off", "damaged", "cut gzip", "damaged gzip"],
)
def test_what_cannot_be_read_says_where(content, problem):
    with pytest.raises(UsageError, match=problem):
        read_trace(content, "trace.json", 0)


@settings(max_examples=60)
@given(st.integers(0, len(of_nccl()) - 1))
def test_a_trace_that_is_cut_off_anywhere_is_refused(length):
    with pytest.raises(UsageError):
        read_trace(of_nccl()[:length], "trace.json", 0)


@settings(max_examples=60)
@given(st.integers(0, len(of_nccl()) - 1), st.binary(min_size=1, max_size=4))
def test_a_damaged_trace_is_read_or_refused(place, inserted):
    content = of_nccl()
    with suppress(UsageError):
        read_trace(content[:place] + inserted + content[place:], "trace.json", 0)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        "Collective name",
        "In msg nelems",
        "dtype",
        "Group size",
        "Process Group Ranks",
        "Seq",
        "stream",
    ]
)


@settings(max_examples=60)
@given(st.dictionaries(NAMES, VALUES), VALUES)
def test_any_values_of_arguments_are_read_or_refused(arguments, rank):
    event = collective("allreduce", 1, 2, 64)
    event["args"] = {**event["args"], **arguments}
    info = {"rank": rank, "backend": rank, "nccl_version": rank}
    content = json.dumps({"traceEvents": [event], "distributedInfo": info}).encode()
    with suppress(UsageError):
        import_traces([file_of(content)], "kineto")


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b'{"header": 1}', gzip.compress(b"text", mtime=0), b"\x1f\x8bnonsense"],
    ids=["empty", "object", "list", "header", "gzip of text", "damaged gzip"],
)
def test_other_files_are_no_traces(content):
    assert not is_kineto(content)


@pytest.mark.parametrize(
    "event",
    [
        collective("allreduce", 1, 2, 1 << 61),
        collective("allreduce", 1, 2, 64, **{"Group size": (1 << 20) + 1}),
        collective("allreduce", 1e30, 2, 64),
    ],
)
def test_numbers_that_are_too_large_are_damage(event):
    with pytest.raises(UsageError, match=r"trace\.json: the trace is damaged: it contains numbers"):
        read_trace(trace([event]), "trace.json", 0)


def test_a_rank_that_is_too_large_is_that_of_the_file():
    events = [collective("allreduce", 1, 2, 64)]
    assert read_trace(trace(events, rank=1 << 70), "trace.json", 3).rank == 3


TRICKY = st.sampled_from(['},{"', "} , {", "\\", '"', "]}", '"traceEvents": [', "é"])
ARGUMENTS = st.dictionaries(
    TRICKY, TRICKY | st.lists(st.dictionaries(TRICKY, st.integers(0, 9), max_size=2), max_size=3)
)


@settings(max_examples=examples(200))
@given(
    st.lists(ARGUMENTS, max_size=6),
    st.lists(st.integers(1, 40), min_size=1),
    st.sampled_from([None, 1]),
)
def test_a_trace_is_the_same_in_pieces_of_any_size(arguments, sizes, indent):
    events = [{"ph": "X", "name": str(n), "args": one} for n, one in enumerate(arguments)]
    members = {"host_name": '"traceEvents": [', "deviceProperties": [{"id": 0}, {"id": 1}]}
    whole = {**members, "traceEvents": events, "distributedInfo": {"rank": 3}, "x": [{}, {}]}
    content = json.dumps(whole, indent=indent).encode()
    found = []

    def keep(batch):
        found.extend((one.name, json.loads(bytes(one.args))) for one in batch)

    def pieces():
        at = 0
        while at < len(content):
            size = sizes[at % len(sizes)]
            yield content[at : at + size]
            at += size

    read = read_events(pieces(), "trace.json", keep)
    assert found == [(str(n), one) for n, one in enumerate(arguments)]
    assert read.distributedInfo == {"rank": 3}
    assert read.host_name == '"traceEvents": ['
    assert len(read.deviceProperties) == 2


def test_damage_behind_the_first_piece_is_located(monkeypatch):
    monkeypatch.setattr(trace_events, "_PIECE_BYTES", 1000)
    content = of_nccl()
    place = content.rindex(b'"ts"')
    damaged = content[:place] + b"ts" + content[place:]
    with pytest.raises(UsageError, match=rf"the trace is damaged: .*\(byte {place}\)"):
        read_trace(damaged, "trace.json", 0)
    cut = gzip.compress(content)
    assert read_trace(cut, "trace.json", 0) == read_trace(content, "trace.json", 0)
    with pytest.raises(UsageError, match=f"cut off after {len(cut) - 9} bytes"):
        read_trace(cut[:-9], "trace.json", 0)


def test_what_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(trace_events, "_PIECE_BYTES", 1000)
    monkeypatch.setattr(trace_events, "_MOST_WITHOUT_END", 5000)
    content = trace([collective("allreduce" * 1000, 1, 2, 64)])
    with pytest.raises(UsageError, match="contain no complete event"):
        read_trace(content, "trace.json", 0)
