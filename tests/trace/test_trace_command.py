"""``cclmark trace``: timelines of real ranks, on the host and on fakes."""

import re

import pytest

from timeline_files import chrome

FAKE = ("-g", "2", "-b", "1M", "-n", "4")
AHEAD_NS = "7000000000000"  # far from any time of the host


def fake_env(fake_cuda, **variables):
    return fake_cuda.env(CCLMARK_FAKE_DEVICE_CLOCK_AHEAD_NS=AHEAD_NS, **variables)


def without_clock(fake_cuda, tmp_path, **variables):
    """No kernel reads the clock of the fake device, which takes longer than all else: then kernels
    have no times, and a test is about something else.
    """
    nothing = {
        "CCLMARK_NVRTC_LIBRARY": "/nowhere/libnvrtc.so",
        "CCLMARK_CACHE_DIR": str(tmp_path / "empty"),
    }
    return fake_env(fake_cuda, **variables) | nothing


HOST_WORK = ("host memory", "values", "copy to the device", "host memory released")
OF_CHECKS = (*HOST_WORK, "copy to the host", "comparison")


def test_what_a_check_on_the_host_takes_is_divided(cclmark, tmp_path):
    """Allocation, values, copies and comparison, each within the stage that it is a part of."""
    path = tmp_path / "t.json"
    run = cclmark(
        *("trace", "broadcast", "--devices", "host:2", "-b", "70M", "-n", "1", "-w", "1"),
        *("--check-on", "host", "--format", "chrome", "-O", path),
    )
    slices, _, _ = chrome(path)
    for rank in (0, 1):
        of_rank = slices[rank, "stages"]
        for phase, parts in (("filling inputs", HOST_WORK), ("verification", OF_CHECKS)):
            (whole,) = [one for one in of_rank if one["name"] == phase]
            found = [one for one in of_rank if one["name"].startswith(f"{phase}: ")]
            names = {one["name"].partition(": ")[2] for one in found}
            # Only the root has an input, so that the other rank fills nothing for a check.
            assert names <= set(parts)
            assert {"host memory", "host memory released"} <= names
            assert rank == 1 or names == set(parts)
            for one in found:
                assert whole["ts"] <= one["ts"]
                assert one["ts"] + one["dur"] <= whole["ts"] + whole["dur"]
            # 70 MiB pass in pieces of 64 MiB.
            copies = [one for one in found if one["name"].endswith("copy to the host")]
            assert [one["args"]["bytes"] >> 20 for one in copies] == [64, 6] * bool(copies)
    stages = {one.name for one in run.journal.traces[0].stages[0]}
    assert {f"verification: {one}" for one in OF_CHECKS} <= stages
    assert re.search(r"verification: comparison +[\d.]+  rank \d +70 MiB", run.out)


def test_the_host(cclmark, tmp_path):
    path = tmp_path / "t.json"
    run = cclmark(
        *("trace", "all_reduce", "--devices", "host:2", "-b", "64K", "-n", "3"),
        *("--format", "chrome", "-O", path),
    )
    slices, events, facts = chrome(path)
    assert facts["operations"] == 3
    for rank in (0, 1):
        stages = [one["name"] for one in slices[rank, "stages"]]
        assert stages[0] == "start-up"
        assert stages[-3:] == ["verification", "releasing buffers", "shutdown"]
        assert {"communicator creation", "allocating buffers", "tracing"} <= set(stages)
        assert not any(": " in one for one in stages)
        calls = slices[rank, "calls"]
        assert len(calls) == 3
        (tracing,) = [one for one in slices[rank, "stages"] if one["name"] == "tracing"]
        for call in calls:
            assert tracing["ts"] <= call["ts"]
            assert call["ts"] + call["dur"] <= tracing["ts"] + tracing["dur"]
    sizes = {
        one["name"]: one["args"].get("bytes")
        for one in slices[0, "stages"]
        if "bytes" in one["args"]
    }
    assert sizes["filling inputs"] == 65536
    assert sizes["tracing"] == 3 * 65536
    assert sizes["releasing buffers"] == sizes["allocating buffers"]
    name = "bytes of complete operations"
    counters = [one for one in events if one["name"] == name and one["pid"] == 1]
    assert [one["args"]["bytes"] for one in counters] == [0, 65536, 131072, 196608]
    assert re.search(r"ranks begin an operation [\d.]+ µs apart", run.out)
    assert re.search(
        r"in batches of 3, [\d.]+ µs each while traced \(median of 9, [\d.]+ to [\d.]+\); ",
        run.out,
    )
    assert re.search(r"untraced [\d.]+ µs \(median, [+-][\d.]+%\)", run.out)
    assert "outputs checked: 0 wrong elements" in run.out


def test_kernels_are_on_the_common_clock(cclmark, fake_cuda, tmp_path):
    """The fake devices' clocks are hours ahead of the host's."""
    path = tmp_path / "t.json"
    run = cclmark(
        "trace", "all_reduce", *FAKE, "--format", "chrome", "-O", path, env=fake_env(fake_cuda)
    )
    slices, _, facts = chrome(path)
    for rank in (0, 1):
        (tracing,) = [one for one in slices[rank, "stages"] if one["name"] == "tracing"]
        channels = [place for place in slices if place[0] == rank and "channel" in place[1]]
        kernels = [place for place in channels if place[1].startswith("channel")]
        assert len(kernels) == 17  # as many as the fake chooses for 1 MiB
        error_us = facts["clocks agree within ns"] / 1e3
        for place in kernels:
            assert len(slices[place]) == 4
            for kernel in slices[place]:
                assert kernel["name"] == "AllReduce 262144 float32"
                assert kernel["args"]["protocol"] in ("LL", "LL128", "SIMPLE")
                assert kernel["ts"] >= tracing["ts"] - error_us
                assert kernel["ts"] + kernel["dur"] <= tracing["ts"] + tracing["dur"] + error_us
        steps = [place for place in slices if place[0] == rank and "network" in place[1]]
        assert steps
        names = {one["name"] for place in steps for one in slices[place]}
        assert names == {"Send step 7", "wait: the network sends"}
        assert all(one["args"].get("bytes", 512) == 512 for p in steps for one in slices[p])
    assert "the start and end of kernels by the devices' clocks" in run.out
    assert "136 channels of kernels" in run.out
    assert ", 0 lost" in run.out
    assert "longest wait of a network step" in run.out


def test_messages_are_connected(cclmark, fake_cuda, tmp_path):
    path = tmp_path / "t.json"
    cclmark(
        *("trace", "alltoall", "-g", "3", "-b", "64K", "-n", "2", "--format", "chrome", "-O", path),
        env=fake_env(fake_cuda),
    )
    _, events, _ = chrome(path)
    begins = {one["id"]: one["pid"] - 1 for one in events if one["ph"] == "s"}
    ends = {one["id"]: one["pid"] - 1 for one in events if one["ph"] == "f"}
    # Each of 3 ranks sends to each, itself too, in each of 2 operations.
    assert len(begins) == 18
    assert begins.keys() == ends.keys()
    pairs = sorted((begins[number], ends[number]) for number in begins)
    assert pairs == sorted([(a, b) for a in range(3) for b in range(3)] * 2)


def test_kernels_that_are_reported_late_belong_to_their_operations(cclmark, fake_cuda, tmp_path):
    """NCCL's thread may report the kernels of the warm-up after the trace has begun."""
    path = tmp_path / "t.json"
    run = cclmark(
        *("trace", "all_reduce", *FAKE, "--format", "chrome", "-O", path),
        env=fake_env(fake_cuda, CCLMARK_FAKE_LATE_KERNELS_MS="300"),
    )
    slices, _, _ = chrome(path)
    for rank in (0, 1):
        numbers = {
            track: len(found)
            for (of, track), found in slices.items()
            if of == rank and track.startswith("channel ")
        }
        assert len(numbers) == 17
        assert set(numbers.values()) == {4}
    assert "without an end" not in run.out
    assert "136 channels of kernels" in run.out
    assert ", 0 lost" in run.out
    # The wait for them is neither part of the operations nor of the readings of clocks.
    names = [one["name"] for one in slices[0, "stages"]]
    assert names[names.index("warm-up") :] == [
        *("warm-up", "awaiting events", "reading clocks", "tracing", "awaiting events"),
        *(
            "reading clocks",
            *["tracing more batches", "awaiting events"] * 8,
            "verification",
            "releasing buffers",
            "shutdown",
        ),
    ]
    (tracing,) = [one for one in slices[0, "stages"] if one["name"] == "tracing"]
    _, wait, *_ = [one for one in slices[0, "stages"] if one["name"] == "awaiting events"]
    assert wait["ts"] + wait["dur"] - tracing["ts"] >= 0.3e6


def test_kernels_that_are_not_reported_in_time_are_missing(cclmark, fake_cuda, tmp_path):
    path = tmp_path / "t.json"
    run = cclmark(
        *("trace", "all_reduce", *FAKE, "--timeout", "4", "--format", "chrome", "-O", path),
        # Later than any stall of the machine: only the end of the communicator reports them.
        env=fake_env(fake_cuda, CCLMARK_FAKE_LATE_KERNELS_MS="600000"),
        code=3,
    )
    for rank in (0, 1):
        assert f"\ncclmark: rank {rank}: the library did not report " in run.err
    assert re.search(r" kernels within 2\.\d s$", run.err, re.M)
    assert "did not report" not in run.out  # each reason is printed once
    assert run.journal.footer.problems[1].startswith("rank 1: the library did not report ")
    page = tmp_path / "t.html"
    cclmark("report", run.journal_path, "-O", page)
    assert "rank 1: the library did not report " in page.read_text()
    assert path.exists()


def test_what_ran_is_part_of_the_summary(cclmark, fake_cuda, tmp_path):
    path = tmp_path / "t.pftrace"
    run = cclmark("trace", "all_reduce", *FAKE, "-O", path, env=without_clock(fake_cuda, tmp_path))
    assert re.search(r"^  ran: ring SIMPLE, 17 channels$", run.out, re.M)
    host = cclmark("trace", "all_reduce", "--devices", "host:2", "-b", "1M", "-n", "1")
    assert "  ran: each rank reduces one slice" in host.out


def test_a_library_without_kernels_has_events(cclmark, fake_cuda, tmp_path):
    path = tmp_path / "t.json"
    env = fake_env(fake_cuda, CCLMARK_FAKE_SYMMETRIC="1")
    run = cclmark("trace", "all_reduce", *FAKE, "--format", "chrome", "-O", path, env=env)
    slices, _, _ = chrome(path)
    assert len(slices[0, "operations on the device"]) == 4
    assert "events on the devices' clocks" in run.out


def test_kernels_without_times_of_the_device_have_events(cclmark, fake_cuda, tmp_path):
    """Before NCCL 2.27, and without NVRTC, kernels cannot be put on the common clock."""
    path = tmp_path / "t.json"
    old = fake_env(fake_cuda, CCLMARK_FAKE_NCCL_VERSION="22600")
    run = cclmark("trace", "all_reduce", *FAKE, "--format", "chrome", "-O", path, env=old)
    slices, _, _ = chrome(path)
    assert len(slices[1, "operations on the device"]) == 4
    assert "events on the devices' clocks" in run.out
    assert "the kernels have no times: NCCL reports device times since 2.27" in run.out
    path.unlink()
    no_kernels = without_clock(fake_cuda, tmp_path)
    run = cclmark("trace", "all_reduce", *FAKE, "--format", "chrome", "-O", path, env=no_kernels)
    slices, _, _ = chrome(path)
    assert len(slices[1, "operations on the device"]) == 4
    assert "the kernels have no times: " in run.out


def test_the_default_file_is_new(cclmark):
    run = cclmark("trace", "all_reduce", "--devices", "host:2", "-b", "1K", "-n", "1")
    named = re.search(r"cclmark: trace (cclmark-runs/\S+\.pftrace) ", run.err)
    assert (run.directory / named[1]).stat().st_size > 0


def test_the_journal_has_the_measurement_and_the_trace(cclmark, tmp_path):
    path = tmp_path / "t.pftrace"
    run = cclmark("trace", "all_reduce", "--devices", "host:2", "-b", "1K", "-n", "3", "-O", path)
    (result,) = run.journal.results
    assert result.status == "ok"
    assert result.case.size_bytes == 1024
    (trace,) = run.journal.traces
    assert (trace.file, trace.format, trace.operations) == (str(path), "perfetto", 3)
    assert list(trace.stages) == [0, 1]
    for stages in trace.stages.values():
        assert {stage.name for stage in stages} >= {"start-up", "tracing", "verification"}
        ends = [stage.begin_s + stage.time_s for stage in stages]
        assert ends == sorted(ends)
    assert min(stages[0].begin_s for stages in trace.stages.values()) == 0
    assert "\n".join(trace.summary) in run.out
    page = tmp_path / "t.html"
    cclmark("report", run.journal_path, "-O", page)
    assert f"is in the file {path}." in page.read_text()


def test_a_library_that_reports_nothing_is_an_error(cclmark, fake_cuda, tmp_path):
    path = tmp_path / "t.pftrace"
    env = without_clock(fake_cuda, tmp_path, CCLMARK_FAKE_SILENT_PROFILER="1")
    run = cclmark("trace", "all_reduce", *FAKE, "-O", path, env=env, code=3)
    assert "rank 1: the library loaded the plug-in and reported no event" in run.err
    assert path.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "unknown operation 'nothing': choose from all_reduce, "),
        ((), "Missing argument 'OPERATION'. Choose from all_reduce, "),
        ((), "barrier, p2p\n"),
        (("all_reduce", "-o", "sum,max"), "these options describe 2 cases"),
        (("all_reduce", "-O", "/nowhere/t"), "cannot write the trace /nowhere/t: No such file"),
        (("all_reduce", "-O", "/dev/null"), "/dev/null exists already"),
        (("all_reduce", "-e", "2M"), "No such option '-e'"),
        (("all_reduce", "-n", "0"), "'0' is not a whole number from 1 to 100000"),
    ],
)
def test_invalid_requests(cclmark, arguments, message):
    run = cclmark("trace", *arguments, "--devices", "host:2", code=2)
    assert message in run.err


def test_a_library_that_works_in_place_only(cclmark, torch):
    options = ("--ccl", "torch:gloo", "-b", "64K", "-n", "2")
    run = cclmark("trace", "all_reduce", "--devices", "host:2", *options)
    assert [result.case.in_place for result in run.journal.results] == [True]
    # The process id, as in the journal's name, because two traces may start in one second.
    [timeline] = run.directory.glob("cclmark-runs/*.pftrace")
    [journal] = run.directory.glob("cclmark-runs/*.jsonl")
    assert timeline.stem.rpartition("-")[2] == journal.stem.rpartition("-")[2]
    assert "-all_reduce-torch-gloo-2-" in timeline.stem


def test_a_case_that_is_skipped_leaves_no_trace(cclmark, tmp_path):
    path = tmp_path / "t.pftrace"
    run = cclmark("trace", "all_reduce", "--devices", "host:2", "-b", "1T", "-O", path, code=3)
    assert "nothing was traced" in run.err
    assert "nothing was measured: requires 2 TiB of memory per rank" in run.err
    assert not path.exists()


def test_a_rank_that_dies_while_tracing(cclmark, fake_cuda, tmp_path):
    path = tmp_path / "t.pftrace"
    env = without_clock(fake_cuda, tmp_path, CCLMARK_FAKE_DIES_PROFILED="1")
    run = cclmark("trace", "all_reduce", *FAKE, "-O", path, env=env, code=4)
    assert "rank 1" in run.err
    assert "during" in run.err
    assert "no trace was written" in run.err
    assert not path.exists()


def test_kernels_with_impossible_times_are_counted_and_left_out(cclmark, fake_cuda, tmp_path):
    """Without an offset, the fake library reports kernels at fixed times, long before the run."""
    path = tmp_path / "impossible"
    run = cclmark(
        *("trace", "all_reduce", *FAKE, "--format", "chrome", "-O", path),
        env=fake_cuda.env(),
        code=3,
    )
    assert re.search(r"rank 0: \d+ kernels with impossible times, not in the trace", run.err)
    slices, _, _ = chrome(path)
    assert not [track for _, track in slices if track.startswith("channel ")]
