#!/usr/bin/env python3
"""How fast are outputs checked, what share of a sweep is that, and how large may a message be?

    python benchmarks/verification.py [--out FILE.json]

Needs accelerators. Reads what the journals of ordinary runs say.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from fidelity import run

from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import read_journal


def measure(*flags: str) -> Journal:
    """The journal of one run."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "run.jsonl"
        run([sys.executable, "-m", "cclmark", "all_reduce", *flags, "--journal", str(path)])
        return read_journal(path)


def main() -> None:
    """Measures and prints the three figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", default="4")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    figures: dict[str, object] = {}

    large = measure("-b", "4G", "-e", "4G", "-g", args.ranks, "--placement", "out-of-place")
    check = large.results[0].verification
    rate = large.results[0].case.size_bytes / check.compare_s
    print(f"check of 4 GiB float32: {check.compare_s * 1e3:.3f} ms, {rate / 1e12:.2f} TB/s")
    figures["check_bytes_per_s"] = rate

    sweep = measure("-b", "8", "-e", "4G", "-f", "4", "-g", args.ranks)
    checks_s = sum(result.verification.time_s for result in sweep.results)
    cases_s = sum(result.duration_s for result in sweep.results)
    print(
        f"sweep of {len(sweep.results)} cases: {cases_s:.2f} s, checks {checks_s:.3f} s "
        f"({checks_s / cases_s:.1%} of the sweep, {checks_s / sweep.footer.duration_s:.1%} of "
        "the run)"
    )
    figures["share_of_sweep"] = checks_s / cases_s

    memory_bytes = sweep.header.devices[0].memory_bytes
    size_mib = int(0.46 * memory_bytes) >> 20
    flags = ["-g", args.ranks, "--placement", "out-of-place", "-n", "2", "-w", "1"]
    largest = measure("-b", f"{size_mib}M", "-e", f"{size_mib}M", *flags)
    result = largest.results[0]
    share = result.case.size_bytes / memory_bytes
    print(f"message of {share:.1%} of device memory: {result.status} {result.reason}")
    figures["largest_share_of_memory"] = share if result.status == "ok" else 0
    if args.out:
        args.out.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
