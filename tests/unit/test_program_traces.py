"""Traces of programs: of torch.profiler, of torch's execution observer, of NCCL Inspector.

Real ones of gloo, and such with the fields that torch and NCCL's plug-in write; whole and damaged.
"""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.errors import UsageError
from cclmark.importing import inspector, trace_events
from cclmark.importing.execution_trace import is_execution_trace, read_execution_trace
from cclmark.importing.kineto import read_kineto
from cclmark.importing.run import Origin
from cclmark.importing.trace_events import read_events
from cclmark.importing.traces import TraceFile, import_traces, trace_format
from examples import examples
from kineto_events import collective, kernel, trace

ROOM = Path(__file__).parent / "traces"
GLOO, EXECUTED = (
    [(ROOM / f"{name}-{rank}.json.gz").read_bytes() for rank in (0, 1)]
    for name in ("gloo", "execution")
)


def read_trace(content, name="trace.json", number=0):
    return read_kineto(BytesIO(content), name, number)


def read_executed(content, name="et-0.json", number=0):
    return read_execution_trace(BytesIO(content), name, number)


def read_inspector(content):
    return inspector.read_inspector(BytesIO(content), "a.log", 0)


def file_of(content, name="trace.json"):
    return TraceFile(name, content, Origin(name, f"digest of {name}", 0.0, ["cclmark"], "0"))


def imported(*contents, format):
    """The journal of files of one format, the files numbered by rank."""
    files = [file_of(content, f"t{rank}.json") for rank, content in enumerate(contents)]
    assert [trace_format(one.content) for one in files] == [format] * len(files)
    return import_traces(files, format)


def calls_of(journal):
    """How often each process called each operation."""
    return {
        (one.profiled.operation, one.profiled.dtype, one.profiled.size_bytes): [
            figures.calls for figures in one.figures
        ]
        for one in journal.profiled
    }


# torch.profiler


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
    process = read_trace(of_nccl(), number=5)
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
    journal = imported(of_nccl(1), of_nccl(0), format="kineto")
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
    journal = imported(trace(first), trace(second, 1), format="kineto")
    (result,) = journal.results
    assert [one.compared for one in result.figures] == [2, 2]
    assert result.figures[0].wait_s == pytest.approx(80e-6)
    assert "rank 1 called it 2 times, rank 0 3 times" in journal.profile.notes[0]


def test_real_traces_of_gloo():
    journal = imported(*GLOO, format="kineto")
    assert calls_of(journal) == {
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


def test_a_list_of_ranks_that_torch_shortened_is_unknown():
    shortened = {"Process Group Ranks": "[0, ..., 1]"}
    process = read_trace(trace([collective("allreduce", 1, 2, 64, **shortened)]))
    (group,) = process.groups.values()
    assert (group.ranks, group.members) == (2, [])


def test_one_rank_alone_is_stated():
    journal = imported(of_nccl(), format="kineto")
    assert journal.profile.notes[0].startswith("only the trace of rank 0 was imported")
    assert journal.profile.groups[0].ranks == [0, None]


def test_kernels_without_a_description_are_counted():
    """As torch before 2.4 writes them."""
    content = trace([kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", 10, 5)])
    process = read_trace(content)
    (found,) = process.operations
    assert (found.operation, found.calls, found.size_bytes) == ("all_reduce", 1, 0)
    assert "1 kernels of NCCL without a description" in process.note


def test_calls_without_kernels_have_no_times():
    described = collective("allreduce", 5, 9, 256)
    recorded = {**described, "cat": "cpu_op", "name": "record_param_comms"}
    waiting = {**recorded, "args": {"Collective name": "wait"}}
    process = read_trace(trace([recorded, waiting]))
    (found,) = process.operations
    assert (found.calls, found.timed, found.bytes) == (1, 0, 1024)
    assert not process.calls[0].is_timed
    assert "without kernels" in process.note


def test_a_rank_that_is_too_large_is_that_of_the_file():
    events = [collective("allreduce", 1, 2, 64)]
    assert read_trace(trace(events, rank=1 << 70), "trace.json", 3).rank == 3


TRICKY = st.sampled_from(['},{"', "} , {", "\\", '"', "]}", '"traceEvents": [', "é"])
ARGUMENTS = st.dictionaries(
    TRICKY, TRICKY | st.lists(st.dictionaries(TRICKY, st.integers(0, 9), max_size=2), max_size=3)
)


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
        read_trace(damaged)
    cut = gzip.compress(content)
    assert read_trace(cut) == read_trace(content)
    with pytest.raises(UsageError, match=f"cut off after {len(cut) - 9} bytes"):
        read_trace(cut[:-9])


def test_what_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(trace_events, "_PIECE_BYTES", 1000)
    monkeypatch.setattr(trace_events, "_MOST_WITHOUT_END", 5000)
    content = trace([collective("allreduce" * 1000, 1, 2, 64)])
    with pytest.raises(UsageError, match="contain no complete event"):
        read_trace(content)


# Execution traces


def record(number, name, elements, *, peer=0, dtype="Float", out=None, **attributes):
    """A node as ProcessGroupNCCL's record_param_comms leaves it."""
    found = {
        "collective_name": name,
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
        "inputs": {"values": [*values, name], "types": [], "shapes": []},
        "attrs": [{"name": name, "type": "", "value": value} for name, value in found.items()],
    }


def trace_of(*nodes, schema="1.1.1-chakra.0.0.4"):
    document = {"schema": schema, "pid": 1, "time": "", "start_ts": 1, "nodes": [*nodes]}
    return json.dumps(document).encode()


def counted(process):
    return {
        (one.operation, one.dtype, one.count): (one.calls, one.bytes) for one in process.operations
    }


def test_real_execution_traces_of_gloo():
    journal = imported(*EXECUTED, format="execution-trace")
    assert calls_of(journal) == {
        ("all_reduce", "float32", 4 * 4160): [3, 3],
        ("all_reduce", "float32", 4 * 256): [3, 3],
        ("all_gather", "float32", 4 * 256): [3, 3],
        ("broadcast", "float32", 4 * 256): [3, 3],
        ("send", "float32", 4 * 256): [3],
        ("recv", "float32", 4 * 256): [3],
        ("broadcast", "int32", 4 * 3): [1, 1],
        ("broadcast", "int32", 4): [1, 1],
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
        record(10, "alltoall_base", 64),  # of all parts
        record(11, "broadcast", 8, pg_name="8", pg_desc="dp", global_rank_stride=0),
    ]
    process = read_executed(trace_of(*nodes))
    assert counted(process) == {
        ("all_reduce", "float32", 1024): (1, 4096),
        ("reduce_scatter", "float32", 256): (1, 2048),
        ("send", "float32", 64): (1, 256),
        ("all_reduce", "float32", 16): (1, 64),
        ("all_gather", "bfloat16", 128): (1, 512),
        ("alltoall", "float32", 32): (1, 256),
        ("broadcast", "float32", 8): (1, 32),
    }
    # The order is that of the begin of operators, by their numbers; nodes are written at their end.
    assert [process.operations[one.operation].count for one in process.calls] == [
        *(1024, 256, 64, 16, 128, 32, 8)
    ]
    assert [one.peer for one in process.calls] == [-1, -1, 1, -1, -1, -1, -1]
    assert {tuple(one.members) for one in process.groups.values()} == {(0, 1), (0, 4), ()}
    assert process.library == "nccl"


def test_groups_that_the_trace_lists():
    listed = [
        {"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 4},
        {"pg_name": "7", "pg_desc": "tp", "ranks": [1, 3], "group_size": 2},
    ]
    head = {"id": 2, "name": "## process_group:init ##", "inputs": {"values": [json.dumps(listed)]}}
    process = read_executed(
        trace_of(head, record(3, "allreduce", 8), record(4, "allreduce", 8, pg_name="7"))
    )
    assert [one.members for one in process.groups.values()] == [[0, 1, 2, 3], [1, 3]]


def test_records_of_an_older_torch_have_no_sizes():
    node = record(3, "allreduce", 8)
    node["attrs"] = []
    process = read_executed(trace_of(node))
    assert counted(process) == {("all_reduce", "", 0): (1, 0)}
    assert "torch before 2.5" in process.note


def test_the_rank_is_in_the_name_of_the_file():
    content = trace_of(record(3, "allreduce", 8))
    assert read_executed(content, "run2/et_17.json").rank == 17
    assert read_executed(content, "trace.json", 5).rank == 5


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
    with pytest.raises(
        UsageError, match=r"et-0\.json is a Chakra trace in protobuf form.*JSON exec"
    ):
        read_executed(content)


# NCCL Inspector

WORLD, PAIR = "0x7f8c496ae9f661", "0x51dd0c2a88b1"
BEGIN_US = 1752867229235059


def line(rank, name, sequence, size_bytes, time_us, **more):
    """A line as the plug-in writes it, without spaces. ``at_us``: of a verbose log."""
    kind = "p2p" if "peer" in more else "coll"
    ranks = more.get("ranks", 2)
    perf = {kind: name, f"{kind}_sn": sequence}
    if kind == "p2p":
        perf["p2p_peer"] = more["peer"]
    perf |= {
        f"{kind}_msg_size_bytes": size_bytes,
        f"{kind}_exec_time_us": time_us,
        f"{kind}_timing_source": more.get("source", "kernel_gpu"),
        f"{kind}_algobw_gbs": 1.5,
        f"{kind}_busbw_gbs": 1.5,
    }
    if "at_us" in more:
        begin = more["at_us"]
        perf["event_trace_sn"] = {f"{kind}_start_sn": 1, f"{kind}_stop_sn": 2, "kernel_events": []}
        perf["event_trace_ts"] = {
            f"{kind}_start_ts": begin - 90,
            f"{kind}_stop_ts": begin - 85,
            "kernel_events": [
                {
                    "channel_id": channel,
                    "kernel_start_ts": begin + channel,
                    "kernel_stop_ts": begin + time_us,
                    "kernel_record_ts": begin + time_us,
                }
                for channel in (0, 1)
            ],
        }
    whole = {
        "header": {
            "id": more.get("id", WORLD),
            "comm_name": more.get("comm_name", "unknown"),
            "rank": rank,
            "n_ranks": ranks,
            "nnodes": 1,
        },
        "metadata": {
            "inspector_output_format_version": more.get("version", "v4.0"),
            "git_rev": "",
            "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": BEGIN_US + 10**6,
            "hostname": "node1",
            "pid": 400 + more.get("process", rank),
        },
        f"{kind}_perf": perf,
    }
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n"


def verbose(rank):
    """Two steps of three operations; rank 1 arrives 30 us later at the all_reduce."""
    found = b""
    for step in (0, 1):
        at_us = BEGIN_US + step * 1000
        late = 30 * rank
        found += line(rank, "AllReduce", step, 4 << 20, 200 - late, at_us=at_us + late)
        found += line(rank, "AllGather", step, 1 << 20, 80, at_us=at_us + 300)
        found += line(rank, "ReduceScatter", step, 1 << 19, 60, at_us=at_us + 500)
    return found


def test_operations_with_the_sizes_of_all_ranks():
    (process,) = read_inspector(verbose(0))
    assert (process.rank, process.host, process.pid, process.library) == (0, "node1", 400, "nccl")
    found = {one.operation: one for one in process.operations}
    assert {
        name: (one.size_bytes, one.calls, one.timed, one.total_ns, one.least_ns)
        for name, one in found.items()
    } == {
        "all_reduce": (4 << 20, 2, 2, 400_000, 200_000),
        "all_gather": (2 << 20, 2, 2, 160_000, 80_000),
        "reduce_scatter": (1 << 20, 2, 2, 120_000, 60_000),
    }
    first = process.calls[0]
    assert (first.begin_ns, first.end_ns) == (BEGIN_US * 1000, (BEGIN_US + 200) * 1000)
    assert "element types are not in the log" in process.note


def test_files_of_all_ranks_are_one_profile():
    journal = imported(verbose(1), verbose(0), format="nccl-inspector")
    assert [one.rank for one in journal.profile.processes] == [0, 1]
    (group,) = journal.profile.groups
    assert group.ranks == [0, 1]
    reduced = next(one for one in journal.results if one.profiled.operation == "all_reduce")
    assert [one.total_s for one in reduced.figures] == pytest.approx([400e-6, 340e-6])
    assert [one.median_s for one in reduced.figures] == pytest.approx([200e-6, 170e-6])
    # The rank whose kernel is the shortest arrived last; the other one waited for it.
    assert reduced.figures[0].wait_s == pytest.approx(60e-6)
    assert reduced.figures[1].last == 2
    assert journal.header.imported.tool == "NCCL Inspector"


def test_logs_without_moments():
    content = b"".join(line(0, "AllReduce", number, 8192, 20 + number) for number in range(4))
    (process,) = read_inspector(content)
    (one,) = process.operations
    assert (one.calls, one.total_ns, one.least_ns, one.most_ns) == (4, 86_000, 20_000, 23_000)
    assert not any(call.is_timed for call in process.calls)
    assert "record with NCCL_INSPECTOR_DUMP_VERBOSE=1" in process.note
    journal = imported(content, format="nccl-inspector")
    (figures,) = journal.results[0].figures
    assert (figures.total_s, figures.median_s) == (pytest.approx(86e-6), None)


def test_times_of_the_host_are_left_out():
    content = line(0, "AllReduce", 0, 8192, 20) + line(
        0, "AllReduce", 1, 8192, 900, source="collective_cpu"
    )
    (process,) = read_inspector(content)
    (one,) = process.operations
    assert (one.calls, one.timed, one.most_ns) == (2, 1, 20_000)
    assert "1 by collective_cpu" in process.note


def test_messages_and_other_communicators():
    content = line(3, "AllReduce", 0, 8192, 20, ranks=4, process=3)
    content += line(
        1, "Send", 7, 65536, 12, peer=0, id=PAIR, comm_name="PP Group 1", ranks=2, process=3
    )
    (process,) = read_inspector(content)
    assert process.rank == 3  # of the largest communicator
    assert process.groups[PAIR].name == "PP Group 1"
    assert process.groups[WORLD].own_rank == 3
    sent = process.calls[1]
    assert (process.operations[sent.operation].operation, sent.peer) == ("send", 0)


def test_a_process_with_several_devices():
    content = b"".join(line(rank, "AllReduce", 0, 8192, 20 + rank, process=0) for rank in range(2))
    processes = read_inspector(content)
    assert [one.rank for one in processes] == [0, 1]
    assert [one.operations[0].total_ns for one in processes] == [20_000, 21_000]
    journal = imported(content, format="nccl-inspector")
    assert [one.rank for one in journal.profile.processes] == [0, 1]
    with pytest.raises(UsageError, match="several ranks and several communicators"):
        read_inspector(content + line(0, "AllReduce", 0, 8192, 9, id=PAIR, process=0))


def test_a_log_that_is_cut_off():
    content = verbose(0)
    (process,) = read_inspector(content[:-40])
    assert sum(one.calls for one in process.operations) == 5
    assert "the last line is cut off" in process.note
    with pytest.raises(UsageError, match=r"^a\.log:1: this line is no operation"):
        read_inspector(content[: content.index(b"\n") - 9])


def test_a_newer_format_is_noted():
    (process,) = read_inspector(line(0, "AllReduce", 0, 8192, 20, version="v5.0"))
    assert "the format is v5.0" in process.note


# Files that cannot be read

EXECUTED_ONE = trace_of(record(3, "allreduce", 8))
EXECUTED_ALL = trace_of(
    record(3, "allreduce", 1024), record(4, "send", 8, peer=1), record(5, "alltoall", 64)
)


@pytest.mark.parametrize(
    ("read", "content", "problem"),
    [
        (read_trace, trace([kernel("gemm", 1, 2)]), "contains no communication"),
        (
            *(read_trace, b'{"schemaVersion": 1, "traceEvents": 7}'),
            "is not a trace of torch.profiler",
        ),
        (read_trace, of_nccl()[:-40], "cut off after"),
        (read_trace, of_nccl().replace(b'"ts"', b"ts", 1), "the trace is damaged"),
        (read_trace, GLOO[0][:-9], "the compressed file is cut off"),
        (read_trace, GLOO[0][:30] + b"\0" * 40 + GLOO[0][70:], "the compressed file is damaged"),
        *(
            (
                *(read_trace, trace([collective("allreduce", at_us, 2, elements, **more)])),
                r"^trace\.json: the trace is damaged: it contains numbers",
            )
            for at_us, elements, more in (
                *((1, 1 << 61, {}), (1, 64, {"Group size": (1 << 20) + 1}), (1e30, 64, {})),
            )
        ),
        (read_executed, trace_of(), "contains no communication"),
        (read_executed, trace_of({"id": 3, "name": "aten::add"}), "contains no communication"),
        (read_executed, EXECUTED_ONE[:-40], "cut off"),
        (
            *(read_executed, b'{"schema": "1.1.1", "nodes": [{"id": "x"}]}'),
            "is not an execution trace",
        ),
        (read_executed, b'{"schema": "1.1.1", "nodes": [}', "damaged"),
        (read_executed, gzip.compress(EXECUTED_ONE, mtime=0)[:-9], "cut off"),
        *(
            (read_inspector, verbose(0).replace(old, new, 1), rf"^a\.log:{problem}")
            for old, new, problem in (
                (b'"coll_sn":0', b'"coll_sn":"x"', "1: this line is no operation of NCCL Insp"),
                (b'"rank":0', b'"rank":2', "1: rank 2 of 2: the line is damaged"),
                (b'"pid":400', b'"pid":401', "2: process 400 of node1 here, process 401"),
                (b'"coll_perf"', b'"coll_xerf"', "1: neither coll_perf nor p2p_perf"),
                (b'_time_us":200', b'_time_us":-200', "1: a number is negative or too large"),
            )
        ),
    ],
)
def test_what_cannot_be_read_says_where(read, content, problem):
    with pytest.raises(UsageError, match=problem):
        read(content)


@pytest.mark.parametrize(
    ("format", "content"),
    [("kineto", of_nccl()), ("nccl-inspector", verbose(1)), ("execution-trace", EXECUTED_ALL)],
)
def test_two_traces_of_one_rank_are_refused(format, content):
    with pytest.raises(UsageError, match=r"are both of rank \d: import one trace for each rank"):
        import_traces([file_of(content, "t1.json")] * 2, format)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{}", b"[]", b'{"header": 1}', gzip.compress(b"text", mtime=0)),
        *(b"\x1f\x8bnonsense", b"\x80", VERSION, VERSION[:4], NODE + NODE, VERSION + b"\x05"),
        VERSION + delimited(b"\x08\x01"),
    ],
)
def test_other_files_are_no_traces(content):
    assert trace_format(content) == ""


def test_execution_traces_are_distinct_from_those_of_the_profiler():
    assert is_execution_trace(gzip.compress(trace_of()))
    assert not is_execution_trace(b'{"schemaVersion": 1, "traceEvents": []}')


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_no_bytes_are_too_odd_to_be_recognised(content):
    assert trace_format(VERSION + content) in ("", "execution-trace")
    trace_format(content)


@given(st.integers(0, len(of_nccl()) - 1))
def test_a_trace_that_is_cut_off_anywhere_is_refused(length):
    with pytest.raises(UsageError):
        read_trace(of_nccl()[:length])


def faulty(content, random):
    """``content`` with up to four faults in its bytes."""
    for _ in range(random.randint(1, 4)):
        place, length = random.randrange(len(content)), random.choice((1, 2, 8, 60))
        put = bytes(random.choices(b'0123456789-.e{}[]":,\n truen\xff\x00', k=length))
        put = random.choice((put, b"", b"9" * 30, b"-1", b"null"))
        content = content[:place] + put + content[place + random.choice((0, 1, length)) :]
    return content


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("kineto", of_nccl()),
        ("execution-trace", EXECUTED_ALL),
        (
            "nccl-inspector",
            verbose(0) + line(1, "Send", 7, 65536, 12, peer=0, id=PAIR, process=0),
        ),
    ],
)
def test_thousands_of_faults(format, content):
    for seed in range(examples(3000)):
        damaged = faulty(content, Random(seed))
        trace_format(damaged)
        with suppress(UsageError):
            journal = import_traces([file_of(damaged)], format)
            assert journal.results
            for result in journal.results:
                assert str(result.profiled.size_bytes)
                assert result.profiled.count >= 0
                assert all((one.total_s or 0) >= 0 for one in result.figures)


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


@given(st.dictionaries(NAMES, VALUES), VALUES)
def test_any_values_of_arguments_are_read_or_refused(arguments, rank):
    event = collective("allreduce", 1, 2, 64)
    event["args"] = {**event["args"], **arguments}
    info = {"rank": rank, "backend": rank, "nccl_version": rank}
    content = json.dumps({"traceEvents": [event], "distributedInfo": info}).encode()
    with suppress(UsageError):
        import_traces([file_of(content)], "kineto")
