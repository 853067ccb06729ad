"""Islands of ranks and FlagCX: what ``scenarios/bridge.txt`` and ``flagcx.txt`` do not show."""

import json
import signal


def env_of(fake_cuda, **more):
    library = fake_cuda.nccl.parent / "libflagcx.so"
    return fake_cuda.env(CCLMARK_FLAGCX_LIBRARY=str(library), **more)


def test_a_rank_that_dies_ends_the_run(background, fake_cuda, no_leaks):
    run = background(
        *("all_reduce", "--ccl", "bridge", "-g", "3", "--islands", "0-1,2", "-b", "16K"),
        *("-e", "16K", "-n", "2", "-w", "1", "-N", "0", "--timeout", "20"),
        env=env_of(fake_cuda),
    )
    ranks = run.wait_for_ranks(1)
    run.signal(ranks[2], signal.SIGKILL)
    assert "rank 2" in run.finish(code=4).message


def test_an_explanation_has_a_log_of_its_own(cclmark, fake_cuda, tmp_path):
    """The user's log is of the measurement: the second pass neither adds to it nor replaces it."""
    log = tmp_path / "flagcx.log"
    run = cclmark(
        *("all_reduce", "--ccl", "flagcx", "-g", "2", "-b", "64", "-e", "64", "-n", "2"),
        *("-w", "1", "--explain", "--format", "json"),
        env=env_of(fake_cuda, FLAGCX_DEBUG="INFO", FLAGCX_DEBUG_FILE=str(log)),
    )
    assert "FLAGCX INFO rank = " in log.read_text()
    assert run.journal.header.environment["FLAGCX_DEBUG_FILE"] == str(log)
    assert run.journal.paths  # of the second pass
    assert len(json.loads(run.out)["cases"]) == len(run.journal.results)
