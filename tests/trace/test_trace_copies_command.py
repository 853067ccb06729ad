"""``cclmark trace p2p``: timelines of copies, on host devices and on the fake CUDA runtime."""

import re

import pytest

from patience import waits
from timeline_files import perfetto_slices, within


def test_copies_of_the_host(timeline):
    run, found = timeline(
        *("p2p", "--devices", "host:2", "-b", "64K", "-n", "3", "--perf", "biBw", "-d", "read")
    )
    assert found.facts["copies of each flow"] == 3
    assert found.facts["clocks agree within ns"] == 0
    for device, peer in ((0, 1), (1, 0)):
        names = found.stages(device)
        assert names[0] == "start-up"
        assert {"allocating buffers", "preparing", "warm-up", "tracing", "verification"} <= {*names}
        assert found.tracing(device)["args"]["bytes"] == 3 * 65536
        # The destination reads: its calls are the copies.
        calls = found.slices[peer, "calls"]
        copies = found.slices[device, f"copies to device {peer}"]
        assert [one["ts"] for one in calls] == [one["ts"] for one in copies]
        assert len(copies) == 3
        for one in copies:
            assert within(one, found.tracing(device))
            assert one["args"]["bytes"] == 65536
            assert one["args"]["method"] == f"processor, memmove, device {peer} reads"
        expected = [0, 65536, 131072, 196608]
        assert found.counted(peer, f"bytes from device {device}") == expected
    assert found.arrows() == [(0, 1)] * 3 + [(1, 0)] * 3
    assert re.search(
        r"in batches of 3, [\d.]+ µs \([\d.]+ GB/s\) each while traced \(median of 9, ", run.out
    )
    assert re.search(r"both directions at once for [\d.]+% of the time", run.out)
    assert "destinations checked: 0 wrong elements" in run.out


def test_copies_on_the_clock_of_a_device(timeline, fakes):
    run, found = timeline("p2p", "-g", "3", "--pair", "2-0", "-b", "1M", "-n", "4", env=fakes())
    slices = found.slices
    # One process opens all devices: its stages are those of its first device.
    assert {place for place in slices if place[1] == "stages"} == {(0, "stages")}
    assert (1, "calls") not in slices
    error_us = found.facts["clocks agree within ns"] / 1e3
    (gate,) = slices[2, "gate"]
    for call, copy in zip(slices[2, "calls"], slices[2, "copies to device 0"], strict=True):
        assert within(call, gate)  # all are enqueued before the first may begin
        assert copy["ts"] >= gate["ts"] + gate["dur"] - error_us
        assert within(copy, found.tracing(0), error_us)
        assert copy["args"]["method"] == "copy engine, device 2 writes"
    assert found.arrows() == [(2, 0)] * 4
    assert "by events on the devices' clocks" in run.out
    assert re.search(r"device 2 to device 0 +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+\n", run.out)


@pytest.mark.parametrize(
    ("flags", "device", "track", "method"),
    [
        ("-t SM -k ncCopy", 0, "to device 1", "kernel ncCopy, device 0 writes"),
        ("--pair host-0 --host-memory pageable", 1, "to device 0", "copy engine of device 0"),
    ],
)
def test_methods(timeline, fakes, flags, device, track, method):
    environment = fakes(read="SM" in flags)
    _, found = timeline("p2p", "-b", "4K", "-n", "2", *flags.split(), env=environment)
    assert [one["args"]["method"] for one in found.slices[device, f"copies {track}"]] == [
        method
    ] * 2
    assert len(found.arrows()) == 2


def test_a_process_for_each_device_and_several_batches(cclmark, fakes, tmp_path):
    path = tmp_path / "t.pftrace"
    run = cclmark(
        *("trace", "p2p", "-m", "1", "-p", "biBw", "-b", "4K", "-n", "101", "-O", path), env=fakes()
    )
    slices = perfetto_slices(path.read_bytes())
    assert len(slices["copies to device 0"]) == len(slices["copies from device 0"]) == 101
    assert len(slices["calls"]) == 2 * 101
    assert len(slices["gate"]) == 2 * 2
    assert "in batches of 100" in run.out


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        ("COPY_HANG", 4, "nothing was traced\ncclmark: no data arrived from DEV0 at DEV1 within"),
        ("NO_PEER", 3, "nothing was measured: the driver does not permit DEV0 to access DEV1"),
    ],
)
def test_a_copy_that_hangs_or_fails_leaves_no_file(cclmark, fakes, tmp_path, fault, code, message):
    path = tmp_path / "t.pftrace"
    env = fakes(**{f"CCLMARK_FAKE_{fault}": "0-1"})
    run = cclmark("trace", "p2p", "-b", "4K", "-O", path, *waits(4), env=env, code=code)
    assert message in run.err
    assert not path.exists()
