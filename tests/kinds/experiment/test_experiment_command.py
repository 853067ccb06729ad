"""``cclmark experiment``: variants next to the default, on the host and on fakes."""

import signal
from itertools import product
from pathlib import Path

import pytest

from cclmark.kinds.experiment.figures import experiment_of
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.registry import read_journal
from cclmark.work.variants import CONTROL, DEFAULT
from refusals import require_refusals

SMALL = ("-b", "1K", "-e", "64K", "-f", "64", "--rounds", "2", "-n", "2", "-w", "1")
UNKNOWN = "--allow-unknown-settings"
ON_HOST = ("--devices", "host:2", *SMALL)
ON_FAKES = ("-g", "2", *SMALL)


def effects(journal, timing="throughput"):
    compared = experiment_of(journal.of(TrialResult), timing).compared
    return {(variant.describe(), case.size_bytes): it for (variant, case), it in compared.items()}


def test_every_variant_is_measured_next_to_the_default(cclmark):
    run = cclmark("experiment", "all_reduce", *ON_HOST, "--vary", "SOME_NAME=a,b", UNKNOWN)
    results = run.journal.of(TrialResult)
    trials = [one.trial for one in results]
    names = ["default", "default again", "SOME_NAME=a", "SOME_NAME=b"]
    places = product((0, 1), names, (1024, 65536))
    assert sorted(places) == sorted(
        (one.round, one.variant.describe(), one.case.size_bytes) for one in trials
    )
    assert all(one.status == "ok" and one.is_checked for one in results)
    assert sorted(one.index for one in results) == list(range(16))
    # Each round begins with other processes.
    firsts = [next(one for one in trials if one.round == number) for number in (0, 1)]
    assert [one.variant for one in firsts] == [DEFAULT, CONTROL]
    assert "SOME_NAME is unknown to cclmark: its values are not checked" in run.out
    assert "2 variants, 2 cases, 2 rounds; 16 of 16 trials checked, 0 wrong" in run.out


def test_impossible_combinations_are_left_out(cclmark, fake_cuda):
    run = cclmark(
        *("experiment", "all_reduce", *ON_FAKES, "-e", "1K"),
        *("--vary", "NCCL_MIN_CTAS=4,32", "--vary", "NCCL_MAX_CTAS=8,64"),
        env=fake_cuda.env(),
    )
    measured = {one.trial.variant.describe() for one in run.journal.of(TrialResult)}
    assert measured == {
        *("default", "default again", "NCCL_MIN_CTAS=4 NCCL_MAX_CTAS=8"),
        *("NCCL_MIN_CTAS=4 NCCL_MAX_CTAS=64", "NCCL_MIN_CTAS=32 NCCL_MAX_CTAS=64"),
    }
    assert "NCCL_MIN_CTAS=32 NCCL_MAX_CTAS=8 is left out: NCCL_M" in run.out


def test_what_the_library_cannot_have_is_refused(refusals, fake_cuda):
    refusals("refused_on_fakes.txt", fake_cuda.env())


def test_what_ran_is_recorded_and_settings_without_effect_are_not_ranked(cclmark, fake_cuda):
    run = cclmark(
        *("experiment", "all_reduce", *ON_FAKES),
        *("--vary", "NCCL_PROTO=LL,Simple", "--vary", "NCCL_MAX_CTAS=1,64", "--one-at-a-time"),
        env=fake_cuda.env(),
    )
    journal = run.journal
    variants = {one.trial.variant for one in journal.of(TrialResult)}
    protocols = [one for one in variants if one.value_of("NCCL_PROTO")]
    assert all(not one.process for one in protocols)  # communicators of the default's processes
    found = effects(journal, "auto")
    assert found["NCCL_PROTO=LL", 65536].explanation.protocol == "LL"
    simple = found["NCCL_PROTO=Simple", 1024]
    assert simple.explanation.protocol == "SIMPLE"
    assert simple.usual.protocol == "LL"
    assert simple.effect != "no effect"
    # The fake ignores this one, and uses two channels.
    ignored = found["NCCL_MAX_CTAS=1", 65536]
    assert ignored.effect == "no effect"
    assert not ignored.is_ranked
    assert "had no effect" in ignored.reason
    assert "NCCL_MAX_CTAS=1: no effect: NCCL_MAX_CTAS=1 had no effect: " in run.out
    # The same as the default ran, and all of the setting is visible.
    assert found["NCCL_PROTO=LL", 1024].effect == "no effect"
    assert "the library ran the same as by default" in found["NCCL_PROTO=LL", 1024].reason


def test_ranks_that_ran_different_operations_have_exit_code_3_and_no_verdict_on_effect(
    cclmark, fake_cuda
):
    run = cclmark(
        *("experiment", "all_reduce", *ON_FAKES, "--vary", "NCCL_PROTO=LL"),
        env=fake_cuda.env(CCLMARK_FAKE_ODD_ALGORITHM="1"),
        code=3,
    )
    assert "is not certain: rank 1 ran AllReduce by ring" in run.err
    assert run.journal.footer.problems
    assert any(one.explanation is not None for one in run.journal.of(TrialResult))
    assert "no effect" not in run.out


@pytest.mark.parametrize(
    ("fault", "status"), [("FAIL=1:CommInitRank", "died"), ("HANG=1:AllReduce", "timeout")]
)
def test_a_setting_that_fails_is_recorded_and_skipped(cclmark, fake_cuda, fault, status):
    """Rank 2, of which the other value is, does not exist."""
    name, value = f"CCLMARK_FAKE_NCCL_{fault}".split("=")
    other = value.replace("1:", "2:")
    words = ("-T", "2", UNKNOWN, "--vary", f"{name}={value},{other}")
    run = cclmark("experiment", "all_reduce", *ON_FAKES, *words, env=fake_cuda.env())
    failing, others = (
        [it for it in run.journal.of(TrialResult) if it.trial.variant.describe() == f"{name}={one}"]
        for one in (value, other)
    )
    assert [one.status for one in failing] == [status, "skipped", "skipped", "skipped"]
    assert failing[0].report
    assert "the variant failed before" in failing[1].reason
    assert [one.status for one in others] == ["ok"] * 4
    assert f"{name}={value} is not measured any more" in run.err
    assert effects(run.journal)[f"{name}={value}", 1024].effect == "failed"


def test_registration_placement_and_versions_of_a_library_are_settings(cclmark, fake_cuda):
    files = [str(fake_cuda.old_nccl), str(fake_cuda.nccl)]
    run = cclmark(
        *("experiment", "all_reduce", *ON_FAKES, "--one-at-a-time", "--library", ",".join(files)),
        *("--vary", "registration=symmetric", "--vary", "placement=in-place"),
        env=fake_cuda.env(),
    )
    found = effects(run.journal, "auto")
    expected = {"registration=symmetric", "placement=in-place", *(f"library={it}" for it in files)}
    assert {name for name, _ in found} == expected
    trials = [one.trial for one in run.journal.of(TrialResult)]
    placed = [one.case for one in trials if one.variant.value_of("placement") == "in-place"]
    assert {one.in_place for one in placed} == {True}
    assert all(one.estimate is not None for one in found.values())


BISECTION = (
    *("experiment", "all_reduce", "--devices", "host:2", "-b", "4K", "-e", "4K", "-n", "1"),
    *("-w", "0", UNKNOWN, "--keep", "1%", "--bisect"),
)


def test_an_interrupted_bisection_of_two_settings_is_resumed(cclmark, background):
    arguments = (*BISECTION, "SOME_NUMBER=1:4", "--bisect", "OTHER_NUMBER=1:4")
    run = background(*arguments)
    run.wait_for_ranks(results=3)
    run.signal(run.process.pid, signal.SIGINT)
    assert run.finish().code == 130
    done = read_journal(run.journal_path).of(TrialResult)
    resumed = cclmark(*arguments, "--resume", run.journal_path)
    trials = resumed.journal.of(TrialResult)
    assert [one.started_at_s for one in trials[: len(done)]] == [one.started_at_s for one in done]
    assert len({one.trial for one in trials}) == len(trials)
    assert resumed.journal.header.continues.carried == len(done)
    assert f"{len(done)} trials of" in resumed.out
    assert (
        "OTHER_NUMBER and SOME_NUMBER=1 is the smallest value that keeps 1 % of the" in resumed.out
    )
    variants = {one.trial.variant.describe() for one in trials}
    assert variants <= {"default", *(f"OTHER_NUMBER={it} SOME_NUMBER={it}" for it in range(1, 5))}

    again = cclmark(*arguments, "--resume", resumed.journal_path)  # nothing is left to measure
    kept = [(one.trial, one.started_at_s) for one in again.journal.of(TrialResult)]
    assert kept == [(one.trial, one.started_at_s) for one in trials]
    assert "the first round" not in again.out + again.err

    fewer = (*BISECTION, "SOME_NUMBER=1:2", "--resume", resumed.journal_path)
    message = cclmark(*fewer, code=2).message
    assert "it is not the journal of cclmark experiment --bisect SOME_NUMBER=1:2" in message


def test_invalid_requests(tag, tmp_path):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, [])


def test_a_variable_of_the_environment_is_the_default(cclmark, fake_cuda):
    run = cclmark(
        *("experiment", "all_reduce", *ON_FAKES, "--vary", "NCCL_PROTO=Simple"),
        env=fake_cuda.env(NCCL_PROTO="LL"),
    )
    assert "NCCL_PROTO=LL is set in the environment: it is the default here" in run.out
    found = effects(run.journal, "auto")
    assert found["NCCL_PROTO=Simple", 65536].usual.protocol == "LL"
    assert found["NCCL_PROTO=Simple", 65536].explanation.protocol == "SIMPLE"
