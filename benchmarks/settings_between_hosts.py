"""Do experiments between hosts find a difference where there is none?

    python benchmarks/settings_between_hosts.py DIRECTORY [--ccl nccl] [--repeat 5] -- COMMAND...

Compares values of a variable that nothing reads, several times: on this host alone, and by
COMMAND, which starts one `cclmark` on each of several hosts (`srun -N 2 cclmark`). Prints for each
how many of the 95 % intervals of the ratio to the default contain 1, and the noise of the default
against itself.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import cclmark
from cclmark.kinds.experiment.figures import experiment_of

VALUES = 3
ARGUMENTS = (
    *("experiment", "all_reduce", "-b", "1K", "-e", "1M", "-f", "2"),
    *("--vary", f"CCLMARK_UNREAD={','.join(map(str, range(VALUES)))}"),
    *("--allow-unknown-settings", "--rounds", "5", "--max-time", "0.1", "--quiet"),
)


@dataclass
class Found:
    """The ratios of all repetitions to the default, and the noise of the default."""

    ratios: list[float] = field(default_factory=list)
    containing_1: int = 0
    noise: list[float] = field(default_factory=list)

    def add(self, journal: Path) -> None:
        run = cclmark.open(journal)
        found = experiment_of(run.rows, run.header.settings.timing)
        known = [one.estimate for one in found.compared.values() if one.estimate is not None]
        self.ratios += [one.ratio for one in known]
        self.containing_1 += sum(one.low <= 1 <= one.high for one in known)
        own = found.controls.values()
        self.noise += [max(abs(one.high - 1), abs(one.low - 1)) for one in own]

    def text(self) -> str:
        return (
            f"{self.containing_1} of {len(self.ratios)} intervals contain 1 "
            f"({self.containing_1 / len(self.ratios):.1%}); ratios {min(self.ratios):.3f} to "
            f"{max(self.ratios):.3f}, median {median(self.ratios):.3f}; the default differs from "
            f"itself by {median(self.noise):.1%} (median), at most {max(self.noise):.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ccl", default="torch:gloo")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=1, help="repetitions, with processors each")
    parser.add_argument("command", nargs="+")
    flags = parser.parse_args()
    flags.directory.mkdir(parents=True, exist_ok=True)
    commands = {"one host": [sys.executable, "-m", "cclmark"], "several hosts": flags.command}
    found = {name: Found() for name in commands}

    def measure(repetition: int) -> None:
        for name, command in commands.items():
            journal = flags.directory / f"{name.replace(' ', '_')}_{repetition}.jsonl"
            arguments = (*ARGUMENTS, "--ccl", flags.ccl, "--journal", str(journal))
            done = subprocess.run([*command, *arguments], stdout=subprocess.DEVNULL, check=False)
            if done.returncode not in (0, 2):  # 2: nothing is decided
                sys.exit(f"exit code {done.returncode}, see {journal}")
            found[name].add(journal)

    with ThreadPoolExecutor(flags.at_once) as pool:
        list(pool.map(measure, range(flags.repeat)))
    for name, one in found.items():
        print(f"{flags.ccl}, {name}: {one.text()}")


if __name__ == "__main__":
    main()
