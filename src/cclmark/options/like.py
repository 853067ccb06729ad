"""The methods of other programs, as defaults of our options: ``--like``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import click


class Program(NamedTuple):
    """A program whose method can be requested.

    ``defaults``: by the name of an option (cclmark.options.groups), as typed. ``end_bytes``: the
    largest size on accelerators. ``shows_gbps``: whether it also prints bandwidths in Gbit/s.
    """

    defaults: Mapping[str, str]
    end_bytes: int
    shows_gbps: bool = False


PROGRAMS = {
    # network/benchmarks/all_reduce_bench.py of Machine Learning Engineering: 5 trials after 2
    # warm-ups, each a barrier of torch, one call between two events, and a wait; the mean of ranks.
    "all_reduce_bench": Program(
        {
            "begin": "32K",
            "iterations": "5",
            "warmup": "2",
            "timing": "blocking",
            "barrier": "library",
            "clock": "device",
            "across": "mean",
            "cache": "warm",
            "placement": "in-place",
        },
        end_bytes=16 << 30,
        shows_gbps=True,
    )
}


def apply(context: click.Context, parameter: click.Parameter, name: str | None) -> Program | None:
    """Makes the method of the program ``name`` the default of the command's other options.

    The option must be eager: only options that are processed later get the defaults. Returns the
    program, None if none was requested.
    """
    if not name:
        return None
    context.default_map = {**(context.default_map or {}), **PROGRAMS[name].defaults}
    return PROGRAMS[name]
