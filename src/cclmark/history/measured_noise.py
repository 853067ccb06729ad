"""Measures the noise from run to run of a machine from the runs of its history."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import get_args

from sqlalchemy import Connection, and_, delete, insert, select

from cclmark.analysis.ratio import LEAST_RUNS
from cclmark.analysis.run_noise import Clocked, NoiseClass, OwnNoise, RunNoise, band_of
from cclmark.base.statistics import median
from cclmark.history.history_model import now
from cclmark.history.tables import noises, results, runs, things

_NEWEST = 30  # runs: a machine changes
_LEAST_DEVIATION = 1e-4  # runs that agree by chance are not without noise


def measure_noise(connection: Connection, machine: str = "", method: str = "") -> None:
    """Stores the noise of a machine with a method, or of all of them.

    A stored noise is kept where too few of the newest runs are of its class: they may have been
    removed.
    """
    contexts = [(machine, method)]
    if not machine:
        query = select(runs.c.machine, runs.c.method).distinct()
        contexts = [(one.machine, one.method) for one in connection.execute(query)]
    for context in contexts:
        for key, (deviation, count) in _measured(connection, *context).items():
            place = dict(zip(_KEY, (*context, *key), strict=True))
            at_place = (noises.c[name] == value for name, value in place.items())
            connection.execute(delete(noises).where(and_(*at_place)))
            values = {**place, "deviation": deviation, "runs": count, "measured_at": now()}
            connection.execute(insert(noises).values(values))


def noise_of(connection: Connection, machine: str, method: str) -> OwnNoise:
    """The stored noise of a machine with a method by class."""
    query = select(noises).where(noises.c.machine == machine, noises.c.method == method)
    found: dict[NoiseClass, RunNoise] = {}
    for row in connection.execute(query):
        is_valid = isinstance(row.deviation, float) and isinstance(row.runs, int)
        if is_valid and _LEAST_DEVIATION <= row.deviation < math.inf and row.runs >= LEAST_RUNS:
            key = NoiseClass(row.clocked, row.operation, row.ccl, row.band)
            found[key] = RunNoise(row.deviation, freedom=row.runs - 1)
    return found


_KEY = ("machine", "method", *NoiseClass._fields)


def _measured(
    connection: Connection, machine: str, method: str
) -> dict[NoiseClass, tuple[float, int]]:
    """The deviation of a run's logarithm by class, and the number of runs that it is from.

    It is computed from the steps from one run to the next, so that a change of the machine counts
    once (von Neumann, Ann. Math. Stat. 12, 1941).
    """
    newest = select(runs.c.number).where(runs.c.machine == machine, runs.c.method == method)
    newest = newest.order_by(runs.c.started_at.desc(), runs.c.number.desc()).limit(_NEWEST)
    numbers = list(connection.scalars(newest))[::-1]
    if len(numbers) < LEAST_RUNS:
        return {}
    columns = (results.c.run, things.c.number, things.c.operation, things.c.ccl)
    query = select(*columns, things.c.size_bytes, results.c.time_s, results.c.device_time_s).where(
        results.c.thing == things.c.number,
        results.c.run.in_(numbers),
        results.c.status == "ok",
        results.c.carried.is_(False),
    )
    times: dict[tuple[NoiseClass, int], dict[int, list[float]]] = {}
    for row in connection.execute(query):
        for clocked, time_s in zip(get_args(Clocked), (row[-2], row[-1]), strict=True):
            if time_s is not None and 0 < time_s < math.inf:
                key = NoiseClass(clocked, row.operation, row.ccl, band_of(row.size_bytes))
                of_thing = times.setdefault((key, row.number), {})
                of_thing.setdefault(row.run, []).append(time_s)
    classes: dict[NoiseClass, list[list[float]]] = {}
    for (key, _), by_run in times.items():
        # The cycles of a run are one run, because they share its process.
        series = [math.log(median(by_run[number])) for number in numbers if number in by_run]
        if len(series) >= LEAST_RUNS:
            classes.setdefault(key, []).append(series)
    return {key: (_deviation(own), max(map(len, own))) for key, own in classes.items()}


def _deviation(all_series: Iterable[Sequence[float]]) -> float:
    squares = [(b - a) ** 2 for series in all_series for a, b in pairwise(series)]
    return max(math.sqrt(math.fsum(squares) / len(squares) / 2), _LEAST_DEVIATION)
