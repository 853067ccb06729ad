"""The sizes that a run was asked for. Peers print them before the first row; parsers read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cclmark.errors import UsageError
from cclmark.plan.sizes import parse_size


@dataclass(frozen=True)
class AskedSizes:
    """A sweep as flags say it. What the command left to defaults is 0: a journal has no record."""

    min_bytes: int
    max_bytes: int
    step_bytes: int
    factor: float


def asked_sizes(command: Sequence[str]) -> AskedSizes:
    """The sweep in ``command``, by the flags that nccl-tests and hccl_test also know."""
    return AskedSizes(
        min_bytes=int(_value(command, "-b", "--minbytes", parse_size)),
        max_bytes=int(_value(command, "-e", "--maxbytes", parse_size)),
        step_bytes=int(_value(command, "-i", "--stepbytes", parse_size)),
        factor=_value(command, "-f", "--stepfactor", float),
    )


def _value(command: Sequence[str], short: str, long: str, read: Callable[[str], float]) -> float:
    for position, word in enumerate(command):
        text = ""
        if word in (short, long):
            text = next(iter(command[position + 1 :]), "")
        elif word.startswith(f"{long}="):
            text = word[len(long) + 1 :]
        elif word.startswith(short):
            text = word[len(short) :]
        try:
            return read(text)
        except (UsageError, ValueError):
            continue
    return 0
