"""How often does a healthy machine get told to look at a link, and how often is a slow one found?

    python benchmarks/outliers.py [RUNS]

Simulates `cclmark p2p`: eight matrices of copies between every two devices, each cell with normal
noise of its logarithm. Prints the share of runs in which any pair is called slow though none is,
and in which a slow one is named: one that is slow in all matrices, and in one alone.
"""

from __future__ import annotations

import math
import random
import sys
from itertools import permutations

from cclmark.journal.item_results import TransferResult
from cclmark.journal.schema import Relation, TransferSummary
from cclmark.kinds.p2p.figures import deviations
from cclmark.work.transfers import Transfer

MATRICES = [
    (measure, direction, engine)
    for measure in ("unidirectional", "bidirectional")
    for direction in ("write", "read")
    for engine in ("CE", "SM")
]
USUAL = 4e11  # bytes per second
SLOW = (1, 0)


def named(
    devices: int, noise: float, chance: random.Random, slower: float = 0.0, slow_in: int = 0
) -> set[tuple[int, int]]:
    """The pairs that are called slow in a run whose first ``slow_in`` matrices have a slow one."""
    results = []
    pairs = list(permutations(range(devices), 2))
    for number, (measure, direction, engine) in enumerate(MATRICES):
        for pair in pairs:
            rate = USUAL * math.exp(chance.gauss(0, noise))
            if pair == SLOW and number < slow_in:
                rate *= 1 - slower
            summary = TransferSummary(
                1e-3, 1e-3, 1e-3, 9, bytes_per_s=rate, flow_bytes_per_s=[rate]
            )
            transfer = Transfer(measure, "pairs", engine, direction, (pair,), 1 << 28)
            results.append(TransferResult(0, transfer, "ok", summary=summary))
    relations = [Relation(*pair, "NV18", 1) for pair in pairs]
    return {one.pair for one in deviations(results, relations) if one.worse}


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    chance = random.Random(1)
    print("devices  noise  false alarms  10 % slow: in all, in one  30 % slow: in all, in one")
    for devices in (3, 4, 8):
        for noise in (0.002, 0.01, 0.02, 0.03):
            few = max(1, runs // 10)
            alarms = sum(bool(named(devices, noise, chance)) for _ in range(runs)) / runs
            found = [
                sum(SLOW in named(devices, noise, chance, slower, slow_in) for _ in range(few))
                / few
                for slower in (0.1, 0.3)
                for slow_in in (len(MATRICES), 1)
            ]
            print(
                f"{devices:>7} {noise:>6.1%} {alarms:>13.2%} "
                f"{found[0]:>18.0%} {found[1]:>6.0%} {found[2]:>18.0%} {found[3]:>6.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
