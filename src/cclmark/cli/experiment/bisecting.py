"""``cclmark experiment --bisect``: the smallest value that keeps a share of the best bandwidth."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cclmark.cli.percent import percent_of
from cclmark.errors import EXIT_OK, UsageError
from cclmark.launch.request import Outcome
from cclmark.plan.cases import Case
from cclmark.plan.trials import Trial
from cclmark.plan.variants import DEFAULT, Assignment, Variant
from cclmark.recording.trial_measuring import EndedError, Measuring
from cclmark.tune.bisection import Bisected, bisect

_RANGE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([0-9]{1,9}):([0-9]{1,9})", re.ASCII)
_MOST_VALUES = 4096


def parse_bisect(text: str, keep: str) -> tuple[str, int, int, float]:
    """Parses ``NAME=LOW:HIGH`` and the share of ``--keep``. Raises UsageError."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--bisect {text!r}: write NAME=LOW:HIGH, for example NCCL_MAX_CTAS=1:64")
    low, high = int(found[2]), int(found[3])
    if not 1 <= low < high or high - low >= _MOST_VALUES:
        raise UsageError(
            f"--bisect {text}: the range must begin at 1 or more and have 2 to {_MOST_VALUES} "
            "values"
        )
    percent = percent_of("--keep", keep, "99%")
    if not 0 < percent <= 100:
        raise UsageError(f"--keep {keep}: a share above 0 and up to 100%")
    return found[1], low, high, percent / 100


def run_bisection(
    measuring: Measuring,
    cases: Sequence[Case],
    name: str,
    scope: str,
    limits: tuple[int, int, float],
) -> tuple[Bisected | None, Outcome]:
    """Measures values until the smallest one that keeps the share is certain.

    ``limits``: the lowest and the highest value, and the share. The default is measured in every
    round too, for the journal.
    """
    low, high, keep = limits
    process = bisect(low, high, len(cases), keep)
    batch = next(process)
    while True:
        trials = {
            cell: Trial(_variant(name, cell[0], scope), batch.number, cases[cell[1]])
            for cell in batch.cells
        }
        usual = [Trial(DEFAULT, batch.number, case) for case in cases]
        try:
            times = measuring.measure([*usual, *trials.values()])
            batch = process.send({cell: times.get(trial) for cell, trial in trials.items()})
        except EndedError as ended:
            return None, ended.outcome
        except StopIteration as end:
            return end.value, Outcome(EXIT_OK)


def _variant(name: str, value: int, scope: str) -> Variant:
    return Variant((Assignment(name, str(value), scope),))
