import re

from timeline_files import within
from transcripts import require_transcript, stored_commands

HOST = ("all_reduce", "--devices", "host:2")
FAKE = ("all_reduce", "-g", "2", "-b", "1M", "-n", "4")


def test_kernels_are_on_the_common_clock(timeline, fakes):
    """Also if NCCL's thread reports those of the warm-up after the trace has begun."""
    run, found = timeline(*FAKE, env=fakes(CCLMARK_FAKE_LATE_KERNELS_MS="300"))
    slices = found.slices
    for rank in (0, 1):
        channels = [place for place in slices if place[0] == rank and "channel" in place[1]]
        kernels = [place for place in channels if place[1].startswith("channel")]
        assert len(kernels) == 17  # as many as the fake chooses for 1 MiB
        error_us = found.facts["clocks agree within ns"] / 1e3
        for place in kernels:
            assert len(slices[place]) == 4
            for kernel in slices[place]:
                assert kernel["name"] == "AllReduce 262144 float32"
                assert kernel["args"]["protocol"] in ("LL", "LL128", "SIMPLE")
                assert within(kernel, found.tracing(rank), error_us)
        steps = [place for place in slices if place[0] == rank and "network" in place[1]]
        assert steps
        names = {one["name"] for place in steps for one in slices[place]}
        assert names == {"Send step 7", "wait: the network sends"}
        assert all(one["args"].get("bytes", 512) == 512 for p in steps for one in slices[p])
    assert "the start and end of kernels by the devices' clocks" in run.out
    assert "136 channels of kernels" in run.out
    assert ", 0 lost" in run.out
    assert "longest wait of a network step" in run.out
    assert "without an end" not in run.out
    assert re.search(r"^  ran: ring SIMPLE, 17 channels$", run.out, re.M)
    # The wait for them is neither part of the operations nor of the readings of clocks.
    names = found.stages(0)
    assert names[names.index("warm-up") :] == [
        *("warm-up", "awaiting events", "reading clocks", "tracing", "awaiting events"),
        *("reading clocks", *["tracing more batches", "awaiting events"] * 8),
        *("verification", "releasing buffers", "shutdown"),
    ]
    _, wait, *_ = [one for one in slices[0, "stages"] if one["name"] == "awaiting events"]
    assert wait["ts"] + wait["dur"] - found.tracing(0)["ts"] >= 0.3e6


def test_kernels_that_are_not_reported_in_time_are_missing(timeline, fakes):
    # Later than any stall of the machine: only the end of the communicator reports them.
    late = fakes(CCLMARK_FAKE_LATE_KERNELS_MS="600000")
    run, _ = timeline(*FAKE, "--timeout", "4", env=late, code=3)
    for rank in (0, 1):
        assert f"\ncclmark: rank {rank}: the library did not report " in run.err
    assert re.search(r" kernels within 2\.\d s$", run.err, re.M)
    assert "did not report" not in run.out  # each reason is printed once
    assert run.journal.footer.problems[1].startswith("rank 1: the library did not report ")


def test_what_has_no_times_of_kernels_has_events(timeline, fakes):
    run, found = timeline(*FAKE, env=fakes(CCLMARK_FAKE_NCCL_VERSION="22600"))
    for rank in (0, 1):
        assert len(found.slices[rank, "operations on the device"]) == 4
    assert "events on the devices' clocks" in run.out
    assert "the kernels have no times: NCCL reports device times since 2.27" in run.out


def test_the_journal_has_the_measurement_and_the_trace(cclmark):
    run = cclmark("trace", *HOST, "-b", "1M", "-n", "3")
    assert "  ran: each rank reduces one slice" in run.out
    # The default file is a new one.
    named = re.search(r"cclmark: trace (cclmark-runs/\S+\.pftrace) ", run.err)[1]
    assert (run.directory / named).stat().st_size > 0
    (result,) = run.journal.results
    assert (result.status, result.case.size_bytes) == ("ok", 1 << 20)
    (trace,) = run.journal.traces
    assert (trace.file, trace.format, trace.operations) == (named, "perfetto", 3)
    assert list(trace.stages) == [0, 1]
    for stages in trace.stages.values():
        assert {stage.name for stage in stages} >= {"start-up", "tracing", "verification"}
        ends = [stage.begin_s + stage.time_s for stage in stages]
        assert ends == sorted(ends)
    assert min(stages[0].begin_s for stages in trace.stages.values()) == 0
    assert "\n".join(trace.summary) in run.out


def test_a_library_that_reports_nothing_is_an_error(cclmark, fakes, tmp_path):
    path = tmp_path / "t.pftrace"
    env = fakes(read=False, CCLMARK_FAKE_SILENT_PROFILER="1")
    run = cclmark("trace", *FAKE, "-O", path, env=env, code=3)
    assert "rank 1: the library loaded the plug-in and reported no event" in run.err
    assert path.exists()


def test_requests_that_are_refused(cclmark, tmp_path):
    commands = stored_commands("trace-refused")
    (tmp_path / "t.steps.csv").write_text("precious")
    require_transcript("trace-refused", commands, cclmark, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["t.steps.csv"]
    assert (tmp_path / "t.steps.csv").read_text() == "precious"


def test_a_rank_that_dies_while_tracing(cclmark, fakes, tmp_path):
    path = tmp_path / "t.pftrace"
    env = fakes(read=False, CCLMARK_FAKE_DIES_PROFILED="1")
    run = cclmark("trace", *FAKE, "-O", path, env=env, code=4)
    assert "rank 1" in run.err
    assert "during" in run.err
    assert "no trace was written" in run.err
    assert run.written() == [str(run.journal_path.relative_to(tmp_path))]


def test_kernels_with_impossible_times_are_counted_and_left_out(timeline, fake_cuda):
    """Without an offset, the fake library reports kernels at fixed times, long before the run."""
    run, found = timeline(*FAKE, env=fake_cuda.env(), code=3)
    assert re.search(r"rank 0: \d+ kernels with impossible times, not in the trace", run.err)
    assert not [track for _, track in found.slices if track.startswith("channel ")]


def test_slots_of_shm(timeline):
    run, found = timeline("all_reduce", "--devices", "host:3", "-b", "48K", "-n", "4")
    for rank in range(3):
        slots = found.slices[rank, "slots"]
        assert [one["name"] for one in slots] == ["publish 48 KiB", "reduce from all ranks"] * 4
        assert [one["args"]["bytes"] for one in slots] == [49152, 16384] * 4
        for call, published in zip(found.slices[rank, "calls"], slots[::2], strict=True):
            assert within({**published, "dur": 0}, call)
        assert found.counted(rank, "bytes published") == [49152 * n for n in range(5)]
    # Each publication is read by both other ranks.
    pairs = sorted([(a, b) for a in range(3) for b in range(3) if a != b] * 4)
    assert found.arrows(in_order=True) == pairs
    assert re.search(r"\d+ events of slots, 0 lost", run.out)
    assert "outputs checked: 0 wrong elements" in run.out


def test_events_that_do_not_fit_are_counted(cclmark, tmp_path):
    path = tmp_path / "t.pftrace"
    run = cclmark(
        *("trace", "barrier", "--devices", "host:2", "-n", "40", "-O", path),
        env={"CCLMARK_TRACE_EVENTS": "15"},
        code=3,
    )
    lost = int(re.search(r"30 events of slots, (\d+) lost", run.out)[1])
    by_rank = re.findall(r"rank \d: (\d+) events of slots did not fit: lower -n", run.err)
    assert sum(map(int, by_rank)) == lost
    assert lost >= 2 * 40 - 30
    assert "of the time of its calls" not in run.out
    assert path.exists()
