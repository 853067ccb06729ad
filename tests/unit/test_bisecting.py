"""``cclmark experiment --bisect`` on a simulated device."""

from __future__ import annotations

import random

import pytest

from cclmark.cli.experiment.bisecting import parse_bisect, run_bisection
from cclmark.errors import UsageError
from cclmark.launch.request import Outcome
from cclmark.plan.cases import Case
from cclmark.plan.variants import PROCESS
from cclmark.recording.trial_measuring import EndedError
from cclmark.report.lists.bisection_lines import bisection_lines

MIB = 1 << 20
CASES = [
    Case("all_reduce", "nccl", 2, "float32", size, size // 4, False, reduction="sum")
    for size in (64 * MIB, 1024 * MIB)
]


class Simulated:
    """Bandwidth grows up to 24 blocks; values above 48 fail."""

    number = 0
    usual_channels = 24

    def __init__(self):
        self._random = random.Random(1)
        self.values = set()

    def measure(self, trials):
        found = {}
        for one in trials:
            text = one.variant.value_of("NCCL_MAX_CTAS")
            value = int(text or 32)
            self.values |= {value} if text else set()
            time_s = one.case.size_bytes / (300e9 * min(value, 24) / 24)
            noise = self._random.lognormvariate(0, 0.001)
            found[one] = None if value > 48 else time_s * noise
        return found


def test_the_smallest_value_that_keeps_the_share():
    simulated = Simulated()
    limits = (1, 64, 0.99)
    found, outcome = run_bisection(simulated, CASES, "NCCL_MAX_CTAS", PROCESS, limits)
    assert outcome == Outcome(0)
    assert found.value == 24
    assert {22, 23, 25, 26} <= simulated.values  # its neighbours
    text = "\n".join(bisection_lines(found, "NCCL_MAX_CTAS", CASES, 0.99))
    assert "NCCL_MAX_CTAS=24 is the smallest value that keeps 99 % of the best bandwidth" in text
    assert "all_reduce 1 GiB" in text
    assert "  failed: " in text


def test_a_failure_of_the_default_ends_it():
    class Failing(Simulated):
        def measure(self, trials):
            raise EndedError(Outcome(4, "rank 1 died"))

    found, outcome = run_bisection(Failing(), CASES, "A", PROCESS, (1, 4, 0.5))
    assert (found, outcome.exit_code) == (None, 4)


def test_requests():
    assert parse_bisect("NCCL_MAX_CTAS=1:64", "99%") == ("NCCL_MAX_CTAS", 1, 64, 0.99)


@pytest.mark.parametrize(
    ("text", "keep", "message"),
    [
        ("NCCL_MAX_CTAS", "99%", "write NAME=LOW:HIGH"),
        ("NCCL_MAX_CTAS=4:4", "99%", "2 to 4096 values"),
        ("NCCL_MAX_CTAS=0:4", "99%", "begin at 1 or more"),
        ("NCCL_MAX_CTAS=1:9999", "99%", "2 to 4096 values"),
        ("NCCL_MAX_CTAS=1:64", "0%", "above 0"),
        ("NCCL_MAX_CTAS=1:64", "101%", "up to 100%"),
    ],
)
def test_invalid_requests(text, keep, message):
    with pytest.raises(UsageError, match=message):
        parse_bisect(text, keep)
