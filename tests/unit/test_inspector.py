"""Logs of NCCL Inspector with the fields of its source, in whole and damaged."""

from __future__ import annotations

import json
from contextlib import suppress
from io import BytesIO
from random import Random

import pytest

from cclmark.errors import UsageError
from cclmark.importing import inspector
from cclmark.importing.inspector import is_inspector
from cclmark.importing.run import Origin
from cclmark.importing.traces import TraceFile, import_traces, trace_format
from examples import examples

WORLD, PAIR = "0x7f8c496ae9f661", "0x51dd0c2a88b1"
BEGIN_US = 1752867229235059


def read_inspector(content, name, number):
    return inspector.read_inspector(BytesIO(content), name, number)


def file_of(content, name="node1-pid1.log"):
    return TraceFile(name, content, Origin(name, f"digest of {name}", 0.0, ["cclmark"], "0"))


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
    (process,) = read_inspector(verbose(0), "a.log", 0)
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
    files = [file_of(verbose(rank), f"node1-pid{rank}.log") for rank in (1, 0)]
    assert [trace_format(one.content) for one in files] == ["nccl-inspector"] * 2
    journal = import_traces(files, "nccl-inspector")
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
    with pytest.raises(UsageError, match=r"are both of rank 1: import one trace for each rank"):
        import_traces([files[0], file_of(verbose(1), "again.log")], "nccl-inspector")


def test_logs_without_moments():
    content = b"".join(line(0, "AllReduce", number, 8192, 20 + number) for number in range(4))
    (process,) = read_inspector(content, "a.log", 0)
    (one,) = process.operations
    assert (one.calls, one.total_ns, one.least_ns, one.most_ns) == (4, 86_000, 20_000, 23_000)
    assert not any(call.is_timed for call in process.calls)
    assert "record with NCCL_INSPECTOR_DUMP_VERBOSE=1" in process.note
    journal = import_traces([file_of(content)], "nccl-inspector")
    (figures,) = journal.results[0].figures
    assert (figures.total_s, figures.median_s) == (pytest.approx(86e-6), None)


def test_times_of_the_host_are_left_out():
    content = line(0, "AllReduce", 0, 8192, 20) + line(
        0, "AllReduce", 1, 8192, 900, source="collective_cpu"
    )
    (process,) = read_inspector(content, "a.log", 0)
    (one,) = process.operations
    assert (one.calls, one.timed, one.most_ns) == (2, 1, 20_000)
    assert "1 by collective_cpu" in process.note


def test_messages_and_other_communicators():
    content = line(3, "AllReduce", 0, 8192, 20, ranks=4, process=3)
    content += line(
        1, "Send", 7, 65536, 12, peer=0, id=PAIR, comm_name="PP Group 1", ranks=2, process=3
    )
    (process,) = read_inspector(content, "a.log", 0)
    assert process.rank == 3  # of the largest communicator
    assert process.groups[PAIR].name == "PP Group 1"
    assert process.groups[WORLD].own_rank == 3
    sent = process.calls[1]
    assert (process.operations[sent.operation].operation, sent.peer) == ("send", 0)


def test_a_process_with_several_devices():
    content = b"".join(line(rank, "AllReduce", 0, 8192, 20 + rank, process=0) for rank in range(2))
    processes = read_inspector(content, "a.log", 0)
    assert [one.rank for one in processes] == [0, 1]
    assert [one.operations[0].total_ns for one in processes] == [20_000, 21_000]
    journal = import_traces([file_of(content)], "nccl-inspector")
    assert [one.rank for one in journal.profile.processes] == [0, 1]
    with pytest.raises(UsageError, match="several ranks and several communicators"):
        read_inspector(content + line(0, "AllReduce", 0, 8192, 9, id=PAIR, process=0), "a.log", 0)


def test_a_log_that_is_cut_off():
    content = verbose(0)
    (process,) = read_inspector(content[:-40], "a.log", 0)
    assert sum(one.calls for one in process.operations) == 5
    assert "the last line is cut off" in process.note
    with pytest.raises(UsageError, match=r"^a\.log:1: this line is no operation"):
        read_inspector(content[: content.index(b"\n") - 9], "a.log", 0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"coll_sn":0', b'"coll_sn":"x"', "a.log:1: this line is no operation of NCCL Inspector"),
        (b'"rank":0', b'"rank":2', "a.log:1: rank 2 of 2: the line is damaged"),
        (b'"pid":400', b'"pid":401', "a.log:2: process 400 of node1 here, process 401"),
        (b'"coll_perf"', b'"coll_xerf"', "a.log:1: neither coll_perf nor p2p_perf"),
        (b'_time_us":200', b'_time_us":-200', "a.log:1: a number is negative or too large"),
    ],
)
def test_damage_is_refused_with_its_line(old, new, message):
    content = verbose(0)
    assert old in content
    with pytest.raises(UsageError, match=message):
        read_inspector(content.replace(old, new, 1), "a.log", 0)


def test_a_newer_format_is_noted():
    (process,) = read_inspector(line(0, "AllReduce", 0, 8192, 20, version="v5.0"), "a.log", 0)
    assert "the format is v5.0" in process.note


def faulty(content, random):
    """``content`` with up to four faults in its bytes."""
    for _ in range(random.randint(1, 4)):
        place, length = random.randrange(len(content)), random.choice((1, 2, 8, 60))
        put = bytes(random.choices(b'0123456789-.e{}[]":,\n truen\xff\x00', k=length))
        content = random.choice(
            (
                content[:place] + content[place + length :],
                content[:place] + put + content[place:],
                content[:place] + put + content[place + length :],
                content[:place] + random.choice((b"9" * 30, b"-1", b"null")) + content[place + 1 :],
            )
        )
    return content


def test_thousands_of_faults():
    content = verbose(0) + line(1, "Send", 7, 65536, 12, peer=0, id=PAIR, process=0)
    for seed in range(examples(5000)):
        damaged = faulty(content, Random(seed))
        is_inspector(damaged)
        with suppress(UsageError):
            journal = import_traces([file_of(damaged)], "nccl-inspector")
            assert journal.results
            for result in journal.results:
                assert str(result.profiled.size_bytes)
                assert all((one.total_s or 0) >= 0 for one in result.figures)
