"""Does `cclmark compare` find a slow-down of small messages from one run of each side?

    python benchmarks/planted.py RUN.jsonl RUN.jsonl ... [--factor 1.05]

Takes journals of equal runs with --timing auto. Every ordered pair of them is compared twice: as
they are, where every verdict but "no difference" is false or undecided, and with the device times
of the second multiplied by the factor.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from pathlib import Path

import msgspec

from cclmark.comparison.figures import Side, bands, compare
from cclmark.journal.item_results import CaseResult
from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import read_journal


def slower(result: CaseResult, factor: float) -> CaseResult:
    """The result with its device's time multiplied by the factor."""
    if result.device is None:
        return result
    time_s = result.device.summary.time_s * factor
    summary = msgspec.structs.replace(result.device.summary, time_s=time_s)
    return msgspec.structs.replace(
        result, device=msgspec.structs.replace(result.device, summary=summary)
    )


def verdicts(runs: list[list[Journal]]) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """The verdicts of all cases, and those of the bands of each operation."""
    cases: Counter[str] = Counter()
    operations: dict[str, Counter[str]] = {}
    for before, after in itertools.permutations(range(len(runs[0])), 2):
        found = compare(Side("before", [runs[0][before]]), Side("after", [runs[1][after]]))
        cases.update(one.verdict for one in found)
        for band in bands(found):
            operations.setdefault(f"{band.operation}, {band.name}", Counter())[band.verdict] += 1
    return cases, operations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--factor", type=float, default=1.05)
    args = parser.parse_args()
    equal = [read_journal(path) for path in args.runs]
    planted = [read_journal(path) for path in args.runs]
    for run in planted:
        run.results[:] = [slower(result, args.factor) for result in run.results]
    for name, runs in (("equal", [equal, equal]), (f"x {args.factor:g}", [equal, planted])):
        cases, operations = verdicts(runs)
        print(f"{name}: cases {dict(cases)}")
        for operation, counts in operations.items():
            print(f"  {operation:>40}  {dict(counts)}")


if __name__ == "__main__":
    main()
