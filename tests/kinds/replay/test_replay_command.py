"""``cclmark replay``: the step of a profiled program, on a fake NCCL and on the host."""

import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from cclmark.kinds.registry import read_journal
from cclmark_programs.replay.figures import summaries_of_replays
from cclmark_programs.replay.request import chosen_of
from cclmark_programs.replay.result import ReplayResult
from places import TESTS
from refusals import require_refusals
from samples import edited

FAST = ("-n", "3", "-w", "1")
ONCE = ("-n", "1", "-w", "0")
SLOW_S = 0.01


@pytest.fixture(scope="session")
def profiled(cclmark_in, fake_cuda, tmp_path_factory):
    """The journal of a profile of the job on two ranks."""
    env = fake_cuda.env(CCLMARK_FAKE_NCCL_VERSION="22809", CCLMARK_FAKE_DEVICE_CLOCK_AHEAD_NS="0")
    program = str(TESTS / "programs" / "nccl_job.py")
    words = [sys.executable, program, str(fake_cuda.cuda), str(fake_cuda.nccl)]
    profile = ("profile", "--", *words, "--steps", "12")
    return str(cclmark_in(tmp_path_factory.mktemp("profiled"), *profile, env=env).journal_path)


@pytest.fixture(scope="session")
def traced(cclmark_in, tmp_path_factory):
    """The journal of the traces of a program of two ranks that uses gloo."""
    files = [str(path) for path in sorted(TESTS.glob("traces/gloo-*.json.gz"))]
    return str(cclmark_in(tmp_path_factory.mktemp("traced"), "import", *files).journal_path)


@pytest.fixture
def on_fakes(cclmark, fake_cuda):
    """Replays on the fake CUDA path; ``fakes``: what is different there."""

    def run(*words, code=0, products=False, **fakes):
        variables = {f"CCLMARK_FAKE_{name}": value for name, value in fakes.items()}
        env = fake_cuda.env(products=products, **variables)
        return cclmark("replay", *words, env=env, code=code)

    return run


def results_of(run):
    return run.journal.of(ReplayResult)


def test_without_accelerators_the_host_replays_and_the_head_says_so(cclmark, profiled, on_fakes):
    run = cclmark("replay", profiled, *ONCE, env={"CUDA_VISIBLE_DEVICES": ""})
    assert [one.runtime for one in run.journal.header.devices] == ["host", "host"]
    assert "its host is measured instead" in run.out
    run = on_fakes(profiled, *ONCE, DEVICES="1", code=3)
    assert "the profile has 2 ranks, but this machine has 1 cuda devices" in run.err


def altered_in(directory, profile, change, name="altered"):
    """A copy of a profile; ``change`` returns the calls of a window with changes."""

    def alter(line):
        if line["type"] == "profile":
            line["window"] = [change(window) for window in line["window"]]

    path = directory / f"{name}.jsonl"
    path.write_bytes(edited(Path(profile).read_bytes(), alter))
    return str(path)


@pytest.fixture
def altered(tmp_path):
    return partial(altered_in, tmp_path)


def each(change):
    """A change for ``altered`` of every call by its place."""
    return lambda window: [one | change(place, one) for place, one in enumerate(window)]


@pytest.fixture
def slower(profiled, altered):
    """A profile in which each call takes 10 ms and begins 10 ms after the end of the last one."""
    return altered(
        profiled, each(lambda place, _: {"begin_s": place * 2 * SLOW_S, "time_s": SLOW_S})
    )


def later(later_s, first=2, **more):
    """A change for ``altered``: all calls but the first ones begin so much later."""
    return each(
        lambda place, one: {"begin_s": one["begin_s"] + later_s, **more} if place >= first else {}
    )


@pytest.mark.parametrize(("gaps", "least_s"), [("keep", 0.15), ("drop", 0.0)])
def test_a_step_with_every_use_of_its_gaps(on_fakes, profiled, altered, gaps, least_s):
    """A call that began 150 ms later in the program begins so much later in the replay."""
    run = on_fakes(altered(profiled, later(0.15)), "--gaps", gaps, *FAST, "--compute", "none")
    (result,) = results_of(run)
    assert (result.status, result.verification.wrong) == ("ok", 0)
    assert [len(values) for values in result.span_s] == [3, 3]
    # A send and a receive of one group call are one call, in the row of the send.
    called = {
        (it.operation.operation, it.operation.size_bytes): it.calls for it in result.operations
    }
    collectives = {("all_reduce", 1024): 2, ("all_reduce", 1 << 20): 1, ("all_gather", 256): 1}
    assert called == {("send", 256): 1, **collectives}
    shortest_s = min(map(min, result.span_s))
    assert shortest_s >= least_s
    assert gaps != "drop" or shortest_s < 0.15
    assert ("replay against program" in run.out) == (gaps != "drop")
    assert "1 of 1 replay checked, all right" in run.out
    assert (result.replay.traffic, result.traffic) == (False, [])
    assert "memory traffic" not in run.out


def test_memory_traffic_runs_beside_calls_that_take_longer_in_the_program(
    on_fakes, slower, tmp_path
):
    """It is chosen once, for all variants and rounds, also of a run that is resumed."""
    words = (slower, *ONCE, "--vary", "NCCL_PROTO=LL", "--rounds", "2")
    run = on_fakes(*words)
    before = run.journal_path.with_name(f"{run.journal_path.stem}-traffic.jsonl")
    (chosen,) = read_journal(before).of(ReplayResult)
    assert len(chosen.traffic) == 4  # numbered calls of both ranks, without the messages
    assert any(chosen.traffic)
    results = results_of(run)
    assert [(one.traffic, one.verification.wrong) for one in results] == [(chosen.traffic, 0)] * 4
    compared = {
        one.operation.operation: (one.program_s > 0, one.ratios) for one in results[0].operations
    }
    assert compared.pop("send") == (False, [])
    assert all(known and ratios for known, ratios in compared.values())
    assert "the times of sends and receives are not compared" in " ".join(run.out.split())
    assert ", beside memory traffic" in run.out
    assert re.search(
        r"memory traffic on \d+( to \d+)? multiprocessors? runs beside \d of 4 calls", run.out
    )
    refused = on_fakes(*words, "--journal", run.journal_path, code=2)
    assert f"the journal {run.journal_path} exists" in refused.err
    assert [*run.journal_path.parent.glob(f"{run.journal_path.stem}-traffic*")] == [before]
    # As if other traffic had been chosen before the run was interrupted in its first round.
    lines = run.journal_path.read_text().splitlines(keepends=True)
    first = next(k for k, line in enumerate(lines) if '"type":"replay"' in line)
    result = json.loads(lines[first])
    result["traffic"] = [3] * len(result["traffic"])
    cut = tmp_path / "cut.jsonl"
    cut.write_text("".join(lines[:first]) + json.dumps(result) + "\n")
    again = on_fakes(*words, "--resume", cut)
    assert [one.traffic for one in results_of(again)] == [result["traffic"]] * 4
    assert not [*again.directory.rglob(f"{again.journal_path.stem}-traffic.jsonl")]


def test_gaps_pass_on_another_stream_too(cclmark, fake_cuda, profiled, altered):
    """The last three calls are on another stream, 40 ms later than in the program."""
    apart = altered(profiled, later(0.04, 3, stream=1))
    env = fake_cuda.env(CUDA_DEVICE_MAX_CONNECTIONS="1")
    run = cclmark("replay", apart, "--gaps", "fixed", *ONCE, env=env)
    said = "the step has 2 streams, and as many for memory traffic, but the device 1 hardware"
    assert said in run.out
    (result,) = results_of(run)
    assert result.verification.wrong == 0
    assert min(map(min, result.span_s)) >= 0.02


def test_calls_run_beside_products(on_fakes, profiled):
    """A device without products ends the run with the reason."""
    words = (profiled, "--gaps", "fixed", "--compute", "matmul", "--matrix", "64")
    run = on_fakes(*words, *FAST, products=True)
    (result,) = results_of(run)
    assert result.verification.wrong == 0
    assert result.replay.compute.describe() == "matmul 64 x 64 x 64 bfloat16"
    assert ", beside matmul 64 x 64 x 64 bfloat16" in run.out
    refused = on_fakes(*words, products=True, CUBLASLT_UNSUPPORTED="1", code=3)
    assert "cublasLtMatmul failed" in refused.err


def test_what_is_chosen_between_the_calls_is_measured_and_a_run_continues_with_it(
    cclmark, traced, tmp_path
):
    """Every candidate is measured in three passes; the run has what was chosen from them. What fits
    the default does not show whether computation waits for slower communication: a variant is
    measured with both gaps.
    """
    vary = ("--vary", "CCLMARK_SHM_INLINE_BYTES=0", "--rounds", "2")
    words = ("replay", traced, *ONCE, "--compute", "fit", *vary)
    fitted = cclmark(*words)
    (journal,) = fitted.directory.rglob(f"{fitted.journal_path.stem}-fit.jsonl")
    tried = read_journal(journal).of(ReplayResult)
    candidates = [(one.replay.gaps, one.replay.compute) for one in tried]
    assert candidates == candidates[:10] * 3
    assert len(set(candidates)) == 10
    found = chosen_of(summaries_of_replays(tried))
    other = "keep" if found.gaps == "fixed" else "fixed"
    replays = [one.replay for one in results_of(fitted)]
    assert sorted(one.gaps for one in replays) == ["fixed"] * 4 + ["keep"] * 4
    chosen = {(one.compute, one.fit) for one in replays if one.gaps == found.gaps}
    assert chosen == {(found.compute, found.fit)}
    ratios = {
        one.replay.gaps: one.ratio.ratio
        for one in summaries_of_replays(results_of(fitted))
        if one.ratio is not None
    }
    assert (
        "with CCLMARK_SHM_INLINE_BYTES=0 a step of the program is expected to take between "
        f"{ratios['keep']:.3f} times as long (keep: computation waits for communication"
    ) in fitted.out
    assert f" and {ratios['fixed']:.3f} times as long (fixed: it does not" in fitted.out
    # gloo's communication takes longer than that of shm, whatever runs beside it.
    assert found.fit == "nearest"
    assert "--compute fit found nothing that fits; the nearest is" in fitted.out
    assert "; 6 more" in fitted.out
    assert "the profile is of gloo, the replay of shm: the fit hides differences" in fitted.out
    resume = ("--resume", str(fitted.journal_path))
    assert "already complete" in cclmark(*words, *resume).err
    refused = cclmark(*words, "--gaps", other, *resume, code=2)
    assert f"was measured with --gaps {found.gaps}, not {other}" in refused.err
    table = cclmark("export", str(journal), "--format", "table", "-O", "-").out
    assert table.count("keep, ") == table.count("fixed, ") == 5
    # As if something else had been chosen before the run was interrupted in its first round.
    lines = fitted.journal_path.read_text().splitlines(keepends=True)
    cut = tmp_path / "cut.jsonl"
    kept = lines[: next(k for k, line in enumerate(lines) if '"type":"replay"' in line) + 1]
    cut.write_text("".join(kept))
    first = read_journal(cut).of(ReplayResult)[0].replay
    again = cclmark(*words, "--resume", str(cut))
    own = [one.replay.compute for one in results_of(again) if one.replay.gaps == first.gaps]
    assert own == [first.compute] * 4
    assert [*again.directory.rglob("*-fit.jsonl")] == [journal]  # nothing is fitted again
    cut.write_text(kept[0])
    refused = cclmark(*words, "--resume", str(cut), code=2)
    assert "has no result of a replay to continue" in refused.err


def test_wrong_data_is_found_and_named(on_fakes, profiled):
    run = on_fakes(profiled, *FAST, "--inject", "corrupt:rank=1,index=300", code=1)
    (result,) = results_of(run)
    assert result.status == "wrong"
    (finding,) = result.verification.findings
    assert (finding.rank, finding.wrong, finding.first_element) == (1, 1, 300)
    assert "WRONG DATA on rank 1" in run.out
    assert "all_reduce of 1 MiB float32" in run.out


def test_options_of_the_communicators_are_varied(on_fakes, profiled):
    """The option reaches the library: a failure of that function is the variant's alone."""
    vary = ("--vary", "config.maxCTAs=4", "--rounds", "2")
    run = on_fakes(profiled, *FAST, *vary, NCCL_FAIL="1:CommInitRankConfig")
    found = {(one.replay.variant.describe(), one.status) for one in results_of(run)}
    assert found >= {("default", "ok"), ("config.maxCTAs=4", "died")}
    assert ("config.maxCTAs=4", "ok") not in found


def test_bad_input_is_told(tag, tmp_path, traced, tmp_path_factory):
    """The ranks of DIFFERING differ in their calls, which takes long to find for many ranks: a
    wrong number of devices is reported before.
    """
    directory = tmp_path_factory.mktemp("altered")
    windows = iter((0, 1))
    names = {"PROFILE": traced, "COLLECTIVES": str(TESTS / "golden" / "sample.jsonl")}
    names["DIFFERING"] = altered_in(directory, traced, lambda window: window[next(windows) :])
    counted = each(lambda *_: {"time_s": 0.0})
    names["COUNTED"] = altered_in(directory, traced, counted, "counted")
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, ["replay"], names)
