"""Published all_reduce times beside what ``cclmark predict`` makes of the runs on fewer nodes.

    python benchmarks/scale/predictions.py [--rows] [JOURNAL...]

``tables.csv``: bus bandwidths and times that others measured on two or more numbers of nodes, with
their sources. Each number of nodes is predicted from the smaller ones of its table. The baseline:
the bus bandwidth of the largest of these. ``--rows``: every time too. With journals of collectives
on different numbers of devices of one host, these instead: each device counts as a node.
"""

import csv
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import cclmark
from cclmark_planning.predict.command import PredictFlags
from cclmark_planning.predict.figures import SIZE_CLASSES, bus_bandwidth, size_class, skill_of
from cclmark_planning.predict.predictions import predictions_of
from cclmark_planning.predict.result import PredictResult
from cclmark_planning.scale.algorithms import ALGORITHMS

TABLE = Path(__file__).with_name("tables.csv")
_OTHER_COLUMNS = ("table", "source")


def predicted(rows: Sequence[Mapping[str, str]]) -> list[PredictResult]:
    """The measured numbers of nodes of a table, predicted from fewer."""
    columns = [name for name in rows[0] if name not in _OTHER_COLUMNS]
    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
        file.flush()
        most = max(int(row["nodes"]) for row in rows)
        shared = any("shared" in row.get("source", "") for row in rows)
        flags = PredictFlags(runs=(Path(file.name),), nodes=[2 * most], shared=shared)
        results, _ = predictions_of(flags)
    return [one for one in results if one.prediction.is_measured]


def rows_of(paths: Sequence[Path]) -> list[tuple[str, list[dict[str, str]]]]:
    """A table for each operation of journals, with a device for a node."""
    found = defaultdict(list)
    for path in paths:
        for one in cclmark.open(path).rows:
            case, summary = one.case, one.summary
            if case.operation in ALGORITHMS and not case.in_place and summary is not None:
                found[case.operation].append(
                    {
                        "operation": case.operation,
                        **{"nodes": f"{case.ranks}", "gpus_per_node": "1"},
                        **{"size": f"{case.size_bytes}", "time_us": f"{summary.time_s * 1e6}"},
                    }
                )
    return [*found.items()]


def main() -> None:
    journals = [Path(word) for word in sys.argv[1:] if not word.startswith("-")]
    if journals:
        tables = rows_of(journals)
    else:
        with TABLE.open() as file:
            tables = [
                (name, [*rows])
                for name, rows in groupby(csv.DictReader(file), lambda row: row["table"])
            ]
    print(f"{'table':28} {'sizes':12} times  error  same busbw  skill  within 90 %  cannot say")
    every: list[PredictResult] = []
    for table, rows in tables:
        results = predicted(rows)
        every += results
        for name, *_ in SIZE_CLASSES:
            own = [one for one in results if size_class(one) == name]
            write(table, name, own)
        if "--rows" in sys.argv:
            for one in results:
                write_row(one)
    for name, *_ in SIZE_CLASSES:
        write("all", name, [one for one in every if size_class(one) == name])


def write(table: str, name: str, results: Sequence[PredictResult]) -> None:
    """A line of errors; nothing without predictions."""
    silent = sum(bool(one.reason) for one in results)
    found = skill_of(name, results)
    if found is not None:
        print(
            f"{table:28} {name:12} {found.number:5} {found.error:6.1%} {found.baseline:11.1%} "
            f"{found.skill:6.2f} {found.inside:5} of {found.number:3} {silent:11}"
        )
    elif silent:
        print(f"{table:28} {name:12} {'-':>5} {'-':>6} {'-':>11} {'-':>6} {'-':>12} {silent:11}")


def write_row(one: PredictResult) -> None:
    """A measured time with its prediction."""
    item = one.prediction
    if one.measured_s is None or one.baseline_s is None:
        return
    measured = bus_bandwidth(item, one.measured_s) / 1e9
    words = f"    {item.nodes:5} nodes {item.size_bytes:12} B {measured:8.2f} GB/s"
    if one.time_s is None or one.low_s is None or one.high_s is None:
        print(f"{words}  {one.reason}")
        return
    low, middle, high = (bus_bandwidth(item, t) / 1e9 for t in (one.high_s, one.time_s, one.low_s))
    same = bus_bandwidth(item, one.baseline_s) / 1e9
    print(f"{words}  predicted {middle:8.2f} [{low:.2f} to {high:.2f}], same busbw {same:8.2f}")


if __name__ == "__main__":
    main()
