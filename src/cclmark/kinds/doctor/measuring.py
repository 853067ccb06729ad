"""What failed checks cost on this host, measured: a short all-reduce with and without variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from cclmark.base.printable import plain
from cclmark.doctor.check import CheckOutcome
from cclmark.doctor.checks.variables import MEASURABLE
from cclmark.document.text import three_digits
from cclmark.recording.caller import notice

_ARGUMENTS = ("all_reduce", "-b", "64M", "-e", "64M", "--max-time", "0.5", "--format", "json")
_LIMIT_S = 90.0


def with_costs(outcomes: Sequence[CheckOutcome]) -> list[CheckOutcome]:
    """The outcomes, with the measured cost where variables of the environment failed."""
    base: float | str | None = None
    found = []
    for one in outcomes:
        names = _variables(one)
        if one.state != "fail" or not names:
            found.append(one)
            continue
        notice(f"measures an all-reduce with and without {', '.join(names)}")
        base = _bus_gbps(os.environ) if base is None else base
        without = {name: value for name, value in os.environ.items() if name not in names}
        text = _compared(names, base, _bus_gbps(without))
        found.append(msgspec.structs.replace(one, measured=text))
    return found


def _variables(outcome: CheckOutcome) -> list[str]:
    names = [one.seen.partition("=")[0] for one in outcome.signals if one.where == "environment"]
    return [name for name in names if name in MEASURABLE]


def _compared(names: Sequence[str], now: float | str, without: float | str) -> str:
    if isinstance(now, str) or isinstance(without, str):
        return f"not measured: {now if isinstance(now, str) else without}"
    return (
        f"measured: all_reduce 64 MiB has {three_digits(now)} GB/s of bus bandwidth, and "
        f"{three_digits(without)} GB/s without {', '.join(names)}"
    )


def _bus_gbps(environment: Mapping[str, str]) -> float | str:
    """The bus bandwidth of the test in GB/s, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cclmark", *_ARGUMENTS, "--quiet"]
        command += ["--journal", str(Path(folder) / "run.jsonl")]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                env={**environment},
                timeout=_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"the all-reduce took more than {_LIMIT_S:.0f} s"
        with suppress(ValueError, KeyError, IndexError, TypeError):
            cases = json.loads(done.stdout)["cases"]
            return max(float(one["summary"]["busbw_bytes_per_s"]) for one in cases) / 1e9
        lines = done.stderr.strip().splitlines() or ["no figures"]
        return plain(lines[-1])
