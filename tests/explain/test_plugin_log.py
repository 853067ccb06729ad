import errno
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.cli.plugin.run import print_logs
from cclmark.explain.calls import CallCollector, operations_of
from cclmark.explain.plugin_log import parse_plugin_log, read_plugin_log
from goldens import outline, require_golden
from plugin_logs import COLLECTIVE, COMMUNICATOR, COSTS, HEADER_BYTES, MESSAGE, log, record


def introduced(rank=0, ranks=2):
    return record(COMMUNICATOR, rank=rank, count=ranks, root=1)


def all_reduce(rank=0, algorithm="RING", number=1024):
    texts = ("AllReduce", algorithm, "LL", "ncclFloat32")
    return record(COLLECTIVE, rank=rank, count=number, channels=2, texts=texts)


def cost_table():
    costs = [-1.0] * 21
    costs[0], costs[5] = 5.5, 18.25  # tree LL, ring SIMPLE
    return struct.pack("<IiQQQQI21f", COSTS, -1, 7, 1000, 0, 4096, 4, *costs)


def other_plugin(name, interface=5, reason=""):
    return struct.pack("<I508s512s", interface, name.encode(), reason.encode())


WHOLE = log(
    introduced(),
    all_reduce(),
    cost_table(),
    record(MESSAGE, root=1, texts=("Send", "", "", "ncclInt8")),
)


EMPTY = b"\0" * 128
LOGS = {
    "whole": WHOLE,
    "other plug-ins": log(
        others=other_plugin("/a.so") + other_plugin("\x1b", 0, "its init returned 3")
    ),
    "partly called": log(others=other_plugin("") + other_plugin("b", 4, "its init returned 3")),
    "full": log(all_reduce(), capacity=1, claimed=9, dropped=8),
    # The disk was full for one event in between, or for the last seven of which the first one had
    # claimed a place.
    "gap": log(all_reduce(), EMPTY, all_reduce(), dropped=1),
    "full disk": log(all_reduce(), claimed=2, dropped=7, losses=(6, errno.ENOSPC)),
    "large file": log(all_reduce(), claimed=2, dropped=7, losses=(6, errno.EFBIG)),
    "cut off": log(all_reduce(), claimed=3),
    "unfinished": log(EMPTY, all_reduce()),
    "unfinished in between": log(all_reduce(), EMPTY, all_reduce()),
    # Texts do not control a terminal.
    "control characters": log(record(COLLECTIVE, texts=("\x1b[2J", "\xff", "LL", "ncclInt8"))),
}


def test_what_logs_contain_and_what_is_said_of_them(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = {}
    for name, content in LOGS.items():
        path = Path("a.cclmlog")
        path.write_bytes(content)
        read = read_plugin_log(path)
        code = print_logs([path])
        found[name] = {
            "log": read,
            "occurred": read.occurred,
            "operations": operations_of(read.events),
            "others": [one.text for one in read.other_plugins],
            f"printed ({code})": capsys.readouterr().err.splitlines(),
        }
    require_golden("plugin_logs.txt", outline(found))


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


def test_impossible_numbers_are_damage():
    for numbers in ({"claimed": -1}, *({"dropped": it, "claimed": 201} for it in (-1, 999))):
        with pytest.raises(UsageError, match="damaged: copy the log again"):
            parse_plugin_log(log(**numbers), "log")


def test_another_file_is_refused_by_name(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        read_plugin_log(tmp_path / "some.log")
    for content in (b"", b"CCLM", b"not a log at all", b"CCLMLOG1" + b"\xff" * 200):
        (tmp_path / "some.log").write_bytes(content)
        with pytest.raises(UsageError, match=r"some\.log"):
            read_plugin_log(tmp_path / "some.log")
    os.mkfifo(tmp_path / "pipe")
    for name in ("/dev/zero", "/dev/null", tmp_path / "pipe", "."):
        for read in (read_plugin_log, CallCollector().add):
            with pytest.raises(UsageError, match="is not a regular file"):
                read(Path(name))


INTRODUCED = tuple(introduced(rank) for rank in (0, 1))


@pytest.fixture
def calls_of(tmp_path):
    """The operations of several logs, each read as a file."""

    def read(*contents):
        collector = CallCollector()
        for number, content in enumerate(contents):
            path = tmp_path / f"{number}.cclmlog"
            path.write_bytes(content)
            collector.add(path)
        (calls,) = collector.communicators
        return calls

    return read


def test_ranks_that_differ_are_named(calls_of):
    first = log(INTRODUCED[0], all_reduce(0), all_reduce(0))
    calls = calls_of(first, log(INTRODUCED[1], all_reduce(1), all_reduce(1, "TREE")))
    (text,) = calls.differences()
    assert text.startswith("collective 2: rank 1 ran AllReduce of 1024 Float32 by tree LL")
    assert calls.counts()[0][1] == 2
    calls = calls_of(first, log(INTRODUCED[1], all_reduce(1)))
    assert calls.differences() == ["rank 1 recorded 1 collectives, rank 0 2"]
    assert calls_of(first).absent_ranks == 1
    assert calls_of(first, first).ranks == 2


@pytest.mark.parametrize("full", [(1,), (0, 1)])
def test_logs_that_lack_events_are_compared_up_to_there(calls_of, full):
    """A full log has a shorter list, and is no difference."""
    contents = []
    for rank in (0, 1):
        events = [all_reduce(rank) for _ in range(5 + 2 * rank if rank in full else 9)]
        places = len(events) + 1
        lost = 18 if rank in full else 0
        contents.append(
            log(
                *(INTRODUCED[rank], *events),
                capacity=places if lost else 1 << 20,
                claimed=places + lost,
                dropped=lost,
            )
        )
    assert calls_of(*contents).differences() == []


def test_what_follows_a_gap_is_not_compared(calls_of):
    """The disk was full for a while: what is missing lies between records."""
    after = all_reduce(1, number=2048)
    gap = log(
        *(INTRODUCED[1], all_reduce(1), b"\0" * 128, after),
        dropped=6,
        losses=(5, errno.ENOSPC),
    )
    whole = log(INTRODUCED[0], all_reduce(), *[all_reduce()] * 6, all_reduce(number=2048))
    calls = calls_of(whole, gap)
    assert calls.differences() == []
    assert len(calls.by_rank[1]) == 2
