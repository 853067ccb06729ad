"""Execution traces of PyTorch: real ones of gloo, of NCCL with the attributes that torch writes."""

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
from cclmark.importing.execution_trace import is_execution_trace, read_execution_trace
from cclmark.importing.run import Origin
from cclmark.importing.traces import TraceFile, import_traces, trace_format
from examples import examples

ROOM = Path(__file__).parent / "traces"
GLOO = [(ROOM / f"execution-{rank}.json.gz").read_bytes() for rank in (0, 1)]


def read(content, name="et-0.json", number=0):
    return read_execution_trace(BytesIO(content), name, number)


def record(number, collective, elements, *, peer=0, dtype="Float", out=None, **attributes):
    """A node as ProcessGroupNCCL's record_param_comms leaves it."""
    found = {
        "collective_name": collective,
        "dtype": dtype,
        "in_msg_nelems": elements,
        "out_msg_nelems": elements if out is None else out,
        "global_rank_start": 0,
        "global_rank_stride": 1,
        "pg_name": "0",
        "pg_desc": "default_pg",
        "pg_size": 2,
        **attributes,
    }
    values = [[[1, 2, 0, elements, 4, "cuda:0"]], [number, False], ["0", "default_pg"], peer]
    return {
        "id": number,
        "name": "record_param_comms",
        "ctrl_deps": 1,
        "inputs": {"values": [*values, collective], "types": [], "shapes": []},
        "attrs": [{"name": name, "type": "", "value": value} for name, value in found.items()],
    }


def trace_of(*nodes, schema="1.1.1-chakra.0.0.4"):
    document = {"schema": schema, "pid": 1, "time": "", "start_ts": 1, "nodes": [*nodes]}
    return json.dumps(document).encode()


def counted(process):
    return {
        (one.operation, one.dtype, one.count): (one.calls, one.bytes) for one in process.operations
    }


def test_real_traces_of_two_ranks_are_one_profile():
    files = [
        TraceFile(f"et-{rank}.json", content, Origin("et", "digest", 0.0, ["cclmark"], "0"))
        for rank, content in enumerate(GLOO)
    ]
    assert trace_format(GLOO[0]) == "execution-trace"
    journal = import_traces(files, "execution-trace")
    calls = {
        (one.profiled.operation, one.profiled.dtype, one.profiled.count): [
            figures.calls for figures in one.figures
        ]
        for one in journal.profiled
    }
    assert calls == {
        ("all_reduce", "float32", 4160): [3, 3],
        ("all_reduce", "float32", 256): [3, 3],
        ("all_gather", "float32", 256): [3, 3],
        ("broadcast", "float32", 256): [3, 3],
        ("send", "float32", 256): [3],
        ("recv", "float32", 256): [3],
        ("broadcast", "int32", 3): [1, 1],
        ("broadcast", "int32", 1): [1, 1],
    }
    peers = [
        call.peer
        for call in journal.profile.window[0]
        if journal.results[call.index].profiled.operation == "send"
    ]
    assert set(peers) == {1}
    assert all("has no times" in one.note for one in journal.profile.processes)


def test_collectives_of_nccl_with_their_groups():
    nodes = [
        record(9, "_allgather_base", 128, dtype="BFloat16", out=256),
        record(3, "allreduce", 1024),
        record(4, "init", 0),
        record(5, "_reduce_scatter_base", 512, out=256),
        record(6, "send", 64, peer=1),
        record(7, "allreduce", 16, pg_name="7", pg_desc="tp", pg_size=2, global_rank_stride=4),
        record(8, "wait", 0),
    ]
    process = read(trace_of(*nodes))
    assert counted(process) == {
        ("all_reduce", "float32", 1024): (1, 4096),
        ("reduce_scatter", "float32", 256): (1, 2048),
        ("send", "float32", 64): (1, 256),
        ("all_reduce", "float32", 16): (1, 64),
        ("all_gather", "bfloat16", 128): (1, 512),
    }
    # The order is that of the begin of operators, by their numbers; nodes are written at their end.
    assert [process.operations[one.operation].count for one in process.calls] == [
        *(1024, 256, 64, 16, 128)
    ]
    assert [one.peer for one in process.calls] == [-1, -1, 1, -1, -1]
    assert {tuple(one.members) for one in process.groups.values()} == {(0, 1), (0, 4)}
    assert process.library == "nccl"


def test_groups_that_the_trace_lists():
    listed = [
        {"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 4},
        {"pg_name": "7", "pg_desc": "tp", "ranks": [1, 3], "group_size": 2},
    ]
    head = {"id": 2, "name": "## process_group:init ##", "inputs": {"values": [json.dumps(listed)]}}
    process = read(
        trace_of(head, record(3, "allreduce", 8), record(4, "allreduce", 8, pg_name="7"))
    )
    assert [one.members for one in process.groups.values()] == [[0, 1, 2, 3], [1, 3]]


def test_records_of_an_older_torch_have_no_sizes():
    node = record(3, "allreduce", 8)
    node["attrs"] = []
    process = read(trace_of(node))
    assert counted(process) == {("all_reduce", "", 0): (1, 0)}
    assert "torch before 2.5" in process.note


def test_the_rank_is_in_the_name_of_the_file():
    content = trace_of(record(3, "allreduce", 8))
    assert read(content, "run2/et_17.json").rank == 17
    assert read(content, "trace.json", 5).rank == 5


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (trace_of(), "contains no communication"),
        (trace_of({"id": 3, "name": "aten::add"}), "contains no communication"),
        (trace_of(record(3, "allreduce", 8))[:-40], "cut off"),
        (b'{"schema": "1.1.1", "nodes": [{"id": "x"}]}', "is not an execution trace"),
        (b'{"schema": "1.1.1", "nodes": [}', "damaged"),
        (gzip.compress(trace_of(record(3, "allreduce", 8)), mtime=0)[:-9], "cut off"),
    ],
)
def test_damaged_traces_are_refused(content, says):
    with pytest.raises(UsageError, match=says):
        read(content)


def delimited(content):
    """A message of protobuf with its length before it, as Chakra's converter writes them."""
    number, length = len(content), bytearray()
    while number >= 0x80:
        length.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*length, number]) + content


def field(number, content):
    return bytes([number << 3 | 2]) + delimited(content)


VERSION = delimited(field(1, b"0.0.4"))
ATTRIBUTES = delimited(field(2, field(1, b"schema") + b"\xea\x01" + delimited(b"1.1.1" * 60)))
NODE = delimited(b"\x08\x87\x02" + field(2, b"[pytorch|profiler|execution_trace]") + b"\x18\x01")
FIRST_NODE = delimited(field(2, b"record_param_comms") + b"\x18\x07")  # id 0 is left out
CONVERTED = [
    VERSION + NODE,
    VERSION + FIRST_NODE + NODE,
    ATTRIBUTES + NODE,
    delimited(b"") + NODE,
    gzip.compress(VERSION + NODE, mtime=0),
]


@pytest.mark.parametrize("content", CONVERTED)
def test_the_form_of_protobuf_is_recognised_and_refused(content):
    assert trace_format(content) == "execution-trace"
    with pytest.raises(UsageError, match=r"et-0\.et is a Chakra trace in protobuf form.*JSON exec"):
        read(content, "et-0.et")


@pytest.mark.parametrize(
    "content",
    [
        VERSION,
        VERSION[:4],
        NODE + NODE,
        VERSION + b"\x05",
        VERSION + delimited(b"\x08\x01"),
        b"\x80",
    ],
)
def test_other_messages_of_protobuf_are_not_traces(content):
    assert trace_format(content) == ""


@settings(max_examples=examples(300))
@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_no_bytes_are_too_odd_to_be_recognised(content):
    assert is_execution_trace(content) in (True, False)
    assert is_execution_trace(VERSION + content) in (True, False)


def test_other_files_are_not_taken_for_execution_traces():
    assert is_execution_trace(trace_of())
    assert is_execution_trace(gzip.compress(trace_of()))
    assert not is_execution_trace(b'{"schemaVersion": 1, "traceEvents": []}')
    assert not is_execution_trace(b"\x1f\x8b damaged")
    assert not is_execution_trace(b"")


WHOLE = trace_of(
    record(3, "allreduce", 1024), record(4, "send", 8, peer=1), record(5, "alltoall", 64)
)


@settings(max_examples=examples(400), deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=6), st.integers(0, 12))
def test_faulty_texts_give_a_message(place, text, gone):
    content = WHOLE[:place] + text + WHOLE[place + gone :]
    with suppress(UsageError):
        process = read(content)
        assert process.operations
        assert all(one.count >= 0 for one in process.operations)
