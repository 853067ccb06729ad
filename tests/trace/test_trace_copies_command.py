import re

from patience import waits
from timeline_files import within


def test_copies_of_the_host(timeline):
    run, found = timeline(
        *("p2p", "--devices", "host:2", "-b", "64K", "-n", "3", "--perf", "biBw", "-d", "read")
    )
    assert found.facts["copies of each flow"] == 3
    assert found.facts["clocks agree within ns"] == 0
    for device, peer in ((0, 1), (1, 0)):
        assert {"start-up", "warm-up", "tracing", "verification"} <= {*found.stages(device)}
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


def test_kernels_copy(timeline, fakes):
    _, found = timeline(*("p2p", "-b", "4K", "-n", "2", "-t", "SM", "-k", "ncCopy"), env=fakes())
    methods = [one["args"]["method"] for one in found.slices[0, "copies to device 1"]]
    assert methods == ["kernel ncCopy, device 0 writes"] * 2
    assert len(found.arrows()) == 2


def test_a_copy_that_hangs_leaves_no_file(cclmark, fakes, tmp_path):
    path = tmp_path / "t.pftrace"
    env = fakes(CCLMARK_FAKE_COPY_HANG="0-1")
    run = cclmark("trace", "p2p", "-b", "4K", "-O", path, *waits(4), env=env, code=4)
    assert "nothing was traced\ncclmark: no data arrived from DEV0 at DEV1 within" in run.err
    assert not path.exists()
