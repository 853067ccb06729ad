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
from cclmark.base.statistics import median
from cclmark.document.text import three_digits
from cclmark.recording.caller import notice
from cclmark_fleet.hosts.check import CheckOutcome
from cclmark_fleet.hosts.checks.variables import MEASURABLE

_ARGUMENTS = ("all_reduce", "-b", "64M", "-e", "64M", "--max-time", "0.5", "--format", "json")
_LIMIT_S = 90.0
_ROUNDS = 3


def with_costs(outcomes: Sequence[CheckOutcome]) -> list[CheckOutcome]:
    """The outcomes, with the measured cost where variables of the environment failed."""
    found = []
    for one in outcomes:
        names = _variables(one)
        if one.state != "fail" or not names:
            found.append(one)
            continue
        notice(f"measures an all-reduce {_ROUNDS} times with and without {', '.join(names)}")
        without = {name: value for name, value in os.environ.items() if name not in names}
        rounds = [(_bus_gbps(os.environ), _bus_gbps(without)) for _ in range(_ROUNDS)]
        found.append(msgspec.structs.replace(one, measured=_compared(names, rounds)))
    return found


def _variables(outcome: CheckOutcome) -> list[str]:
    names = [one.seen.partition("=")[0] for one in outcome.signals if one.where == "environment"]
    return [name for name in names if name in MEASURABLE]


def _compared(names: Sequence[str], rounds: Sequence[tuple[float | str, float | str]]) -> str:
    """What the rounds say: a difference counts if it is the same in all of them."""
    now, without = (
        [rate for rate in own if not isinstance(rate, str)] for own in zip(*rounds, strict=True)
    )
    failures = [rate for pair in rounds for rate in pair if isinstance(rate, str)]
    if failures:
        return f"not measured: {failures[0]}"
    text = (
        f"measured: all_reduce 64 MiB has {three_digits(median(now))} GB/s of bus bandwidth, and "
        f"{three_digits(median(without))} GB/s without {', '.join(names)}"
    )
    apart = max(now) < min(without) or min(now) > max(without)
    return text if apart else f"{text}: no difference beyond noise"


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
