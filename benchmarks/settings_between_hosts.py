"""Do experiments between hosts find a difference where there is none?

    python benchmarks/settings_between_hosts.py DIRECTORY -- COMMAND...

Compares values of a variable that nothing reads, with torch:gloo: on this host alone, and by
COMMAND, which starts one `cclmark` on each of several hosts (`srun -N 2 cclmark`). Prints for each
how many of the 95 % intervals of the ratio to the default contain 1, and the noise of the default
against itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import cclmark
from cclmark.kinds.experiment.figures import experiment_of

VALUES = 3
ARGUMENTS = (
    *("experiment", "all_reduce", "--ccl", "torch:gloo", "-b", "1K", "-e", "1M", "-f", "8"),
    *("--vary", f"CCLMARK_UNREAD={','.join(map(str, range(VALUES)))}"),
    *("--allow-unknown-settings", "--rounds", "5", "--max-time", "0.3"),
)


def intervals(command: Sequence[str], journal: Path) -> str:
    """Runs the experiment, and says how many intervals contain 1."""
    subprocess.run([*command, *ARGUMENTS, "--journal", str(journal)], check=True)
    run = cclmark.open(journal)
    found = experiment_of(run.rows, run.header.settings.timing)
    known = [one.estimate for one in found.compared.values() if one.estimate is not None]
    inside = sum(one.low <= 1 <= one.high for one in known)
    ratios = [one.ratio for one in known]
    noise = [max(abs(one.high - 1), abs(one.low - 1)) for one in found.controls.values()]
    return (
        f"{inside} of {len(known)} intervals contain 1; ratios {min(ratios):.3f} to "
        f"{max(ratios):.3f}, median {median(ratios):.3f}; the default differs from itself by up to "
        f"{max(noise):.1%}"
    )


def main() -> None:
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        sys.exit(__doc__)
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    alone = [sys.executable, "-m", "cclmark"]
    here = intervals([*alone], directory / "one_host.jsonl")
    between = intervals(sys.argv[3:], directory / "several_hosts.jsonl")
    print(f"one host, 2 ranks: {here}\nseveral hosts: {between}")


if __name__ == "__main__":
    main()
