"""Logs of the NCCL plug-in: reading them cut off, damaged and whole."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.errors import UsageError
from cclmark.explain.calls import calls_by_communicator, operations_of
from cclmark.explain.plugin_log import parse_plugin_log, read_plugin_log

HEADER_BYTES = 4096
COMMUNICATOR, COLLECTIVE, MESSAGE, COSTS = 1, 2, 3, 13


def record(kind, rank=0, communicator=7, number=1024, root=0, channels=2, texts=("", "", "", "")):
    """A record as the plug-in writes it, see engine/plugin/event_log.hpp."""
    names = [text.encode() for text in texts]
    return struct.pack(
        "<Ii6QiHH20s16s12s16s",
        *(kind, rank, communicator, 1000, 0, 1, number, 0, root, channels, 16, *names),
    )


def all_reduce(rank=0, algorithm="RING", protocol="LL", number=1024):
    return record(
        COLLECTIVE, rank, number=number, texts=("AllReduce", algorithm, protocol, "ncclFloat32")
    )


def cost_table():
    costs = [-1.0] * 21
    costs[0], costs[5] = 5.5, 18.25  # tree LL, ring SIMPLE
    return struct.pack("<IiQQQQI21f", COSTS, -1, 7, 1000, 0, 4096, 4, *costs)


def other_plugin(name, interface=5, reason=""):
    return struct.pack("<I508s512s", interface, name.encode(), reason.encode())


def log(*records, capacity=1 << 20, claimed=None, dropped=0, interface=5, others=b""):
    claimed = len(records) if claimed is None else claimed
    head = struct.pack(
        "<8sII6qI64s",
        *(b"CCLMLOG1", 128, interface, capacity, claimed, dropped, 42, 5, 6, 22809, b"node"),
    )
    return (head + others).ljust(HEADER_BYTES, b"\0") + b"".join(records)


WHOLE = log(
    record(COMMUNICATOR, number=2, root=1),
    all_reduce(),
    cost_table(),
    record(MESSAGE, root=1, texts=("Send", "", "", "ncclInt8")),
)


def test_what_a_process_did():
    read = parse_plugin_log(WHOLE, "log")
    assert (read.host, read.pid, read.interface_version, read.library_version) == (
        *("node", 42, 5),
        22809,
    )
    assert [event.kind for event in read.events] == ["communicator", "collective", "point-to-point"]
    (table,) = read.cost_tables
    assert (table.function, table.size_bytes) == ("AllReduce", 4096)
    assert table.costs_us == {("TREE", "LL"): 5.5, ("RING", "SIMPLE"): 18.25}
    ring, message = operations_of(read.events)
    assert (ring.kernel, ring.protocol, ring.channels, ring.datatype) == (
        "ring",
        "LL",
        2,
        "Float32",
    )
    assert (message.kernel, message.peer) == ("send/recv", 1)
    assert (read.dropped, read.incomplete) == (0, 0)


def test_other_plug_ins():
    assert parse_plugin_log(WHOLE, "log").other_plugins == []
    others = other_plugin("/a.so") + other_plugin("\x1b", 0, "its init returned 3")
    texts = [one.text for one in parse_plugin_log(log(others=others), "log").other_plugins]
    assert texts == [
        "the profiler plug-in /a.so is called too, by interface version 5",
        "the tuner plug-in \\x1b is not called: its init returned 3",
    ]
    partly = other_plugin("") + other_plugin("b", 4, "its init returned 3")
    (tuner,) = parse_plugin_log(log(others=partly), "log").other_plugins
    assert tuner.text.endswith("by interface version 4, except where its init returned 3")


@given(st.integers(0, len(WHOLE)))
def test_a_log_cut_off_anywhere_holds_what_was_written_before(length):
    try:
        read = parse_plugin_log(WHOLE[:length], "log")
    except UsageError as error:
        assert length < 136
        assert "cut off" in str(error) or "not a log" in str(error)
        return
    records = max(0, length - HEADER_BYTES) // 128
    assert len(read.events) + len(read.cost_tables) == records
    assert read.incomplete == 4 - records


@given(st.binary(max_size=300), st.integers(0, len(WHOLE) - 1))
def test_other_bytes_are_refused_or_read(noise, place):
    content = bytearray(WHOLE)
    content[place : place + len(noise)] = noise
    with suppress(UsageError):
        parse_plugin_log(bytes(content), "log")


def test_what_did_not_fit_is_counted():
    read = parse_plugin_log(log(all_reduce(), capacity=1, claimed=9, dropped=8), "log")
    assert (len(read.events), read.claimed, read.dropped, read.incomplete) == (1, 9, 8, 0)
    # The disk was full for one event in between.
    read = parse_plugin_log(log(all_reduce(), b"\0" * 128, all_reduce(), dropped=1), "log")
    assert (len(read.events), read.dropped, read.incomplete) == (2, 1, 0)


def test_a_record_that_was_not_finished_is_left_out():
    read = parse_plugin_log(log(all_reduce(), b"\0" * 128, all_reduce()), "log")
    assert (len(read.events), read.incomplete) == (2, 1)


def test_texts_do_not_control_a_terminal():
    read = parse_plugin_log(
        log(record(COLLECTIVE, texts=("\x1b[2J", "\xff", "LL", "ncclInt8"))), "log"
    )
    assert read.events[0].function == "\\x1b[2J"


@pytest.mark.parametrize(
    "content", [b"", b"CCLM", b"not a log at all", b"CCLMLOG1" + b"\xff" * 200]
)
def test_another_file_is_refused_by_name(content, tmp_path):
    (tmp_path / "some.log").write_bytes(content)
    with pytest.raises(UsageError, match=r"some\.log"):
        read_plugin_log(tmp_path / "some.log")


def test_only_what_is_written_of_a_log_is_read(tmp_path):
    path = tmp_path / "sparse.log"
    path.write_bytes(WHOLE)
    with path.open("r+b") as file:
        file.truncate(HEADER_BYTES + (128 << 28))  # 32 GiB, more than most machines could hold
    assert read_plugin_log(path) == parse_plugin_log(WHOLE, "log")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        read_plugin_log(tmp_path / "absent")


def test_ranks_that_differ_are_named():
    introduced = [record(COMMUNICATOR, rank, number=2) for rank in (0, 1)]
    logs = [
        parse_plugin_log(log(introduced[0], all_reduce(0), all_reduce(0)), "a"),
        parse_plugin_log(log(introduced[1], all_reduce(1), all_reduce(1, "TREE")), "b"),
    ]
    (calls,) = calls_by_communicator(logs)
    (text,) = calls.differences()
    assert text.startswith("collective 2: rank 1 ran AllReduce of 1024 Float32 by tree LL")
    assert calls.counts()[0][1] == 2
    fewer = [logs[0], parse_plugin_log(log(introduced[1], all_reduce(1)), "b")]
    assert calls_by_communicator(fewer)[0].differences() == [
        "rank 1 recorded 1 collectives, rank 0 2"
    ]
    assert calls_by_communicator(logs[:1])[0].absent_ranks == 1
    assert calls_by_communicator([logs[0], logs[0]])[0].ranks == 2
