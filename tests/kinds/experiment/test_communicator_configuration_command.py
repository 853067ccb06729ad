"""Options of communicators, given to the fake NCCL, which declares their structure by itself."""

import pytest

from cclmark.kinds.experiment.result import TrialResult

SMALL = ("-g", "2", "-b", "64K", "-e", "64K", "-n", "1", "-w", "1")


def test_an_experiment_varies_options_of_the_communicator(cclmark, fake_cuda):
    run = cclmark(
        *("experiment", "all_reduce", *SMALL, "--rounds", "2", "--one-at-a-time"),
        *("--vary", "config.minCTAs=8,32", "--vary", "config.maxCTAs=1"),
        env=fake_cuda.env(),
    )
    trials = run.journal.of(TrialResult)
    ran = {
        one.trial.variant.describe(): one.explanation.channels
        for one in trials
        if one.explanation is not None
    }
    counts = {"config.minCTAs=8": 8, "config.minCTAs=32": 32, "config.maxCTAs=1": 1, "default": 2}
    assert ran.items() >= counts.items()
    # Communicators of the default's processes.
    assert all(not one.trial.variant.process for one in trials)
    assert all(one.status == "ok" and one.is_checked for one in trials)
    assert "config.minCTAs=32" in run.out
    assert "no effect" not in run.out


@pytest.mark.parametrize("version", ["21805", "22602", "22703", "22809"])
def test_libraries_of_all_versions_receive_the_option(cclmark, fake_cuda, version):
    run = cclmark(
        *("all_reduce", *SMALL, "--explain", "--config", "minCTAs=16"),
        env=fake_cuda.env(CCLMARK_FAKE_NCCL_VERSION=version),
    )
    assert run.journal.header.settings.config == {"minCTAs": "16"}
    assert "communicators with minCTAs=16" in run.out
    assert {one.explanation.channels for one in run.journal.cases} == {16}


def test_a_library_without_the_function(cclmark, fake_cuda):
    env = fake_cuda.env(CCLMARK_NCCL_LIBRARY=str(fake_cuda.old_nccl))
    lack = "nccl 2.18.5 has no CommInitRankConfig, which options of a communicator require (NCCL "
    # No variant is left: the experiment failed as they did.
    words = ("--rounds", "2", "--vary", "config.minCTAs=8")
    run = cclmark("experiment", "all_reduce", *SMALL, *words, env=env, code=3)
    assert "no variant could be measured: config.minCTAs=8: " in run.err
    assert lack in run.err
    usual = [one for one in run.journal.of(TrialResult) if one.trial.variant.is_default]
    assert {one.status for one in usual} == {"ok"}
