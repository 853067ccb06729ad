"""How often does `cclmark compare` call two sets of runs of one command different?

    python benchmarks/run_noise.py RUN.jsonl RUN.jsonl ...

Takes journals of one command, run again and again on one machine; compares every so many of them
with every so many others, and prints the share of cases that were called faster or slower: false
alarms, of which 5 % are to be expected at most. Then how much each case's median differs from run
to run, beside what compare assumes where it has too few runs to know.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from statistics import median, stdev

from cclmark.analysis.run_noise import run_noise
from cclmark.comparison.figures import Side, compare
from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import read_journal
from cclmark.work.cases import Case

MOST_PAIRS = 300


def false_alarms(runs: list[Journal], each: int) -> tuple[int, int]:
    """How many cases were called different, and how many there were."""
    pairs = [
        (first, second)
        for first in itertools.combinations(range(len(runs)), each)
        for second in itertools.combinations(range(len(runs)), each)
        if first[0] < second[0] and not set(first) & set(second)
    ]
    stride = math.ceil(len(pairs) / MOST_PAIRS)
    verdicts = [
        one.verdict
        for first, second in pairs[::stride]
        for one in compare(
            Side("first", [runs[i] for i in first]), Side("second", [runs[i] for i in second])
        )
    ]
    return sum(verdict in ("faster", "slower") for verdict in verdicts), len(verdicts)


def main() -> None:
    runs = [read_journal(Path(name)) for name in sys.argv[1:]]
    if len(runs) < 2:
        sys.exit(__doc__)
    for each in range(1, len(runs) // 2 + 1):
        wrong, cases = false_alarms(runs, each)
        print(f"{each} of each: {wrong} of {cases} called different, {wrong / cases:.2%}")
    timing = runs[0].header.settings.timing
    times: dict[Case, list[float]] = {}
    for run in runs:
        for result in run.results:
            if result.summary is not None:
                times.setdefault(result.case, []).append(result.summary.time_s)
    for case, each_s in times.items():
        middle_s = median(each_s)
        assumed = math.sqrt(run_noise(case, timing).variance(middle_s))
        print(
            f"{case.describe():>45}: {middle_s * 1e6:9.2f} us, from run to run "
            f"{stdev(each_s) / middle_s:6.2%}, assumed {assumed:6.2%}"
        )


if __name__ == "__main__":
    main()
