"""What predictions say, and the fields of their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Block,
    Document,
    Evidence,
    Facts,
    Finding,
    HeadFigure,
    RunContent,
    Table,
    TableColumn,
    table_of,
)
from cclmark.document.case_fields import status_fields
from cclmark.document.chart_model import ChartCurve, Level, Lines
from cclmark.document.fields import Field, Fields
from cclmark.document.insight_words import amount, listed
from cclmark.document.report_kind import ComputedFigure, ComputedFigures, report_of_formulas
from cclmark.document.text import BYTES_PER_GB, percent_words, three_digits, time_words
from cclmark.journal.schema import Header
from cclmark.work.sizes import format_size
from cclmark_planning.predict.figures import (
    at,
    bus_bandwidth,
    faster_algorithms,
    is_exact_rate,
    judging,
    measured_counts,
    of_operations,
    predicted_counts,
    rate_out_of_node,
    skill_of,
    skills,
)
from cclmark_planning.predict.result import PredictResult
from cclmark_planning.scale.algorithms import ALGORITHMS, TREE

_MOST_CURVES = 6
# Columns of a table: measured numbers of nodes, the largest ones, and predicted ones.
_MOST_MEASURED, _MOST_PREDICTED = 3, 3
_LEAST_WEIGHT = 0.01  # of a hypothesis that is shown
_CANNOT_SAY = "cannot say"
_INTERVAL_NOTE = (
    "[ ]: nine of ten times are expected within. busbw: as nccl-tests computes it, in GB/s."
)


def _gb(bps: float) -> str:
    return three_digits(bps / BYTES_PER_GB)


def _bus(name: str, result: PredictResult) -> float | None:
    time_s = getattr(result, name)
    return None if not time_s else bus_bandwidth(result.prediction, time_s) / BYTES_PER_GB


def _out_of_node(result: PredictResult) -> float | None:
    time_s = result.measured_s or result.time_s
    if not time_s or result.prediction.nodes == 1:
        return None
    return rate_out_of_node(result.prediction, time_s) / BYTES_PER_GB


FIELDS = Fields(
    [
        Field("operation", "Operation, as NCCL names it.", "prediction.operation", "text"),
        Field("ccl", "Library of the runs.", "prediction.ccl", "text"),
        Field("nodes", "Nodes.", "prediction.nodes", "int"),
        Field("ranks", "Ranks of the communicator.", "prediction.ranks", "int"),
        Field(
            "size_bytes",
            "Size of the message, as nccl-tests counts it for the operation.",
            "prediction.size_bytes",
            "int",
        ),
        *status_fields("reason", "status"),
        Field("measured_us", "Median time of the runs on that many nodes.", "measured_s"),
        Field("predicted_us", "Time that runs on fewer nodes predict.", "time_s"),
        Field("low_us", "Beginning of the interval of nine of ten times.", "low_s"),
        Field("high_us", "End of the interval of nine of ten times.", "high_s"),
        Field(
            "baseline_us",
            "Time with the bus bandwidth of the run on most of the fewer nodes.",
            "baseline_s",
        ),
        Field(
            "predicted_busbw_gbps",
            "Bus bandwidth of the predicted time.",
            partial(_bus, "time_s"),
            direction="higher",
        ),
        Field("busbw_low_gbps", "Bus bandwidth of high_us.", partial(_bus, "high_s")),
        Field("busbw_high_gbps", "Bus bandwidth of low_us.", partial(_bus, "low_s")),
        Field(
            "out_of_node_gbps",
            "What a node sends to other nodes at least, with the measured or predicted time.",
            _out_of_node,
        ),
        Field(
            "growing_percent",
            "Share of the modelled time that grows with the number of nodes.",
            lambda one: one.growing * 100 if one.time_s else None,
        ),
    ],
)


def document_of_predictions(run: RunContent) -> Document:
    """Composes everything that predictions say."""
    results = cast("Sequence[PredictResult]", run.results)
    by_operation = of_operations(results)
    findings = [one for own in by_operation.values() for one in _findings(own)]
    return Document(
        "Predicted times",
        method_of_predictions(run.header),
        [block for name, own in by_operation.items() for block in _blocks(name, own)],
        findings,
        notes=[_INTERVAL_NOTE] if any(one.time_s for one in results) else [],
        head_figures=[*_head_figures(results)],
    )


def method_of_predictions(header: Header) -> str:
    """Describes in a line how the figures were obtained."""
    return (
        "models of algorithms, fitted to runs; intervals from draws of their parameters, from what "
        "the models differ by and from the noise between runs"
    )


def _said(results: Sequence[PredictResult]) -> list[PredictResult]:
    """The predictions that were asked for, with a time: by nodes, then by size."""
    found = [one for one in results if one.time_s and not one.prediction.is_measured]
    return sorted(found, key=lambda one: (one.prediction.nodes, one.prediction.size_bytes))


def _range(result: PredictResult, text: Callable[[float], str] = _gb) -> str:
    """The predicted bus bandwidth with its interval."""
    item = result.prediction
    if not result.time_s or not result.low_s or not result.high_s:
        return _CANNOT_SAY
    middle, low, high = (
        text(bus_bandwidth(item, one)) for one in (result.time_s, result.high_s, result.low_s)
    )
    return f"{middle} [{low}–{high}]"


def _time_range(result: PredictResult) -> str:
    if not result.time_s or not result.low_s or not result.high_s:
        return _CANNOT_SAY
    low, high = time_words(result.low_s), time_words(result.high_s)
    return f"{time_words(result.time_s)} [{low}–{high}]"


def _head_figures(results: Sequence[PredictResult]) -> Iterator[HeadFigure]:
    """Of the first operation on most nodes: its largest and its smallest size, and the errors."""
    said = _said(results)
    if not said:
        return
    nodes = said[-1].prediction.nodes
    own = [one for one in said if one.prediction.nodes == nodes]
    own = [one for one in own if one.prediction.operation == own[0].prediction.operation]
    last, first = own[-1], own[0]
    item = last.prediction
    value, _, interval = _range(last).partition(" ")
    where = f"{item.operation}, {amount(nodes, 'node')}"
    yield HeadFigure(f"busbw, {format_size(item.size_bytes)}", value, "GB/s", f"{where} {interval}")
    if first is not last and first.time_s:
        value, unit = time_words(first.time_s).split()
        size = format_size(first.prediction.size_bytes)
        yield HeadFigure(f"time, {size}", value, unit, where)
    whole = skill_of("all", judging(results)) or skill_of("all", results)
    if whole is not None:
        yield HeadFigure(
            "error of measured counts",
            three_digits(whole.error * 100),
            "%",
            f"same busbw: {percent_words(whole.baseline)}",
        )


def _blocks(operation: str, results: Sequence[PredictResult]) -> Iterator[Block]:
    if not any(one.measured_s for one in results):
        return
    measured, predicted = measured_counts(results), predicted_counts(results)
    yield Facts([*_facts(results, measured)])
    yield from _bandwidths(operation, results, measured, predicted)
    found = skills(results)
    if found:
        yield _skill_table(operation, found)
    if measured[-1] > 1:
        yield _node_table(operation, results, measured, predicted)
    if _said(results):
        yield _algorithm_table(operation, results, _said(results)[-1].prediction.nodes)
        yield _bandwidth_chart(operation, results, measured, predicted)
        yield _nodes_chart(operation, results, measured, predicted)


def _facts(results: Sequence[PredictResult], measured: Sequence[int]) -> Iterator[tuple[str, str]]:
    item = results[0].prediction
    words = [item.operation, item.dtype, item.placement, item.ccl, item.version]
    yield "runs", " ".join(filter(None, words))
    device = f" {item.device}" if item.device else ""
    nodes = ", ".join(f"{one:,}" for one in measured)
    ranks = amount(item.per_node, "rank")
    yield "nodes", f"{nodes}, measured, each with {ranks}{' on' if device else ''}{device}"
    rate = "unknown, from the runs alone"
    if item.network_bps:
        rate = f"{item.network_bps * 8 / 1e9:.4g} Gb/s for a node"
    yield "network", rate
    weights = next((one.weights for one in reversed(results) if one.weights), {})
    if item.algorithm:
        yield "algorithm", f"{item.algorithm}, of all runs"
    elif weights:
        parts = sorted(weights.items(), key=lambda one: -one[1])
        words = [
            f"{name} {percent_words(share)}" for name, share in parts if share >= _LEAST_WEIGHT
        ]
        yield "algorithm", f"{', '.join(words)} (weights, by how well each fits)"


def _bandwidths(
    operation: str,
    results: Sequence[PredictResult],
    measured: Sequence[int],
    predicted: Sequence[int],
) -> Iterator[Table]:
    """A table for every few numbers of nodes, so that a terminal shows their intervals."""
    by_nodes = {nodes: at(results, nodes) for nodes in (*measured, *predicted)}
    sizes = sorted({one.prediction.size_bytes for one in results})

    def known(nodes: int, size: int) -> str:
        one = by_nodes[nodes].get(size)
        if one is None or not one.measured_s:
            return ""
        return _gb(bus_bandwidth(one.prediction, one.measured_s))

    def said(nodes: int, size: int) -> str:
        one = by_nodes[nodes].get(size)
        return "" if one is None else _range(one)

    def look(nodes: int, size: int) -> Any:
        return "unknown" if said(nodes, size) == _CANNOT_SAY else ""

    notes = [f"{listed([amount(one, 'node') for one in measured])}: measured"]
    notes += [f"cannot say: {reason}" for reason in _reasons(results)]
    for first in range(0, len(predicted), _MOST_PREDICTED):
        columns = [TableColumn("size", format_size, ">")]
        columns += [
            TableColumn(amount(nodes, "node"), partial(known, nodes), ">")
            for nodes in measured[-_MOST_MEASURED:]
        ]
        columns += [
            TableColumn(amount(nodes, "node"), partial(said, nodes), ">", look=partial(look, nodes))
            for nodes in predicted[first : first + _MOST_PREDICTED]
        ]
        title = f"busbw of {operation} by size and nodes, GB/s"
        yield table_of(title, columns, sizes, notes=notes, belongs=first > 0)
        notes = []


def _reasons(results: Sequence[PredictResult]) -> list[str]:
    """Why nothing is said, each reason with the sizes and nodes."""
    asked = [one for one in results if one.reason and not one.prediction.is_measured]
    found = []
    for reason, own in by_key((_reason_kind(one.reason), one) for one in asked).items():
        sizes = [one.prediction.size_bytes for one in own]
        span = format_size(min(sizes))
        if max(sizes) > min(sizes):
            span = f"{span} to {format_size(max(sizes))}"
        nodes = sorted({one.prediction.nodes for one in own})
        found.append(f"{reason} ({span} on {', '.join(f'{one:,}' for one in nodes)} nodes)")
    return found


def _reason_kind(reason: str) -> str:
    """Reasons with other figures are alike: what is possible differs too much."""
    return "what is possible differs more than 3 times" if "what is possible" in reason else reason


def _skill_table(operation: str, found: Sequence[Any]) -> Table:
    columns = [
        TableColumn("size", lambda one: one.sizes),
        TableColumn("times", lambda one: f"{one.number:,}", ">"),
        TableColumn("error", lambda one: percent_words(one.error), ">"),
        TableColumn("same busbw", lambda one: percent_words(one.baseline), ">"),
        TableColumn(
            "skill",
            lambda one: f"{one.skill:.2f}",
            ">",
            look=lambda one: "look" if one.skill < 0 else "",
        ),
        TableColumn("within [ ]", lambda one: f"{one.inside} of {one.number}", ">"),
    ]
    notes = [
        "each measured number of nodes, predicted from the runs on fewer; medians of absolute "
        "errors",
        "same busbw: the baseline, that of the run on most of the fewer nodes; skill: 1 without "
        "error, 0 with the error of the baseline",
    ]
    title = f"{operation}: measured times beside their predictions from fewer nodes"
    return table_of(title, columns, found, notes=notes)


def _node_table(
    operation: str,
    results: Sequence[PredictResult],
    measured: Sequence[int],
    predicted: Sequence[int],
) -> Table:
    """Bus bandwidth beside what leaves a node, of the largest size."""
    rows = [
        own[max(sizes)]
        for nodes in (*measured, *predicted)
        if (own := at(results, nodes))
        and (sizes := [size for size, one in own.items() if one.measured_s or one.time_s])
    ]
    exact = is_exact_rate(results[0].prediction)

    def rate(one: PredictResult) -> str:
        value = _out_of_node(one)
        return "-" if value is None else f"{'' if exact else '≥ '}{three_digits(value)}"

    def share(one: PredictResult) -> str:
        value, line = _out_of_node(one), one.prediction.network_bps
        if value is None or not line:
            return ""
        return f"{'' if exact else '≥ '}{percent_words(value * BYTES_PER_GB / line)}"

    def bandwidth(one: PredictResult) -> str:
        if one.measured_s:
            return _gb(bus_bandwidth(one.prediction, one.measured_s))
        return _range(one)

    columns = [
        TableColumn("nodes", lambda one: f"{one.prediction.nodes:,}", ">"),
        TableColumn("size", lambda one: format_size(one.prediction.size_bytes), ">"),
        TableColumn("busbw", bandwidth, ">"),
        TableColumn("leaves a node", rate, ">"),
        TableColumn("of the line rate", share, ">"),
        TableColumn("", lambda one: "measured" if one.measured_s else "predicted"),
    ]
    notes = [
        "leaves a node: what it sends to others, GB/s"
        + (
            ""
            if exact
            else "; a flat ring sends busbw, hierarchical algorithms and a tree of two "
            "nodes less, so that busbw may exceed the line rate"
        ),
    ]
    title = f"what {operation} takes of the network between nodes"
    return table_of(title, columns, rows, notes=notes)


def _algorithm_table(operation: str, results: Sequence[PredictResult], nodes: int) -> Table:
    rows = [one for one in at(results, nodes).values() if one.algorithms]
    names = [*dict.fromkeys(name for one in rows for name in one.algorithms)]

    def fastest(one: PredictResult) -> str:
        return min(one.algorithms, key=lambda name: one.algorithms[name])

    columns = [
        TableColumn("size", lambda one: format_size(one.prediction.size_bytes), ">"),
        *(
            TableColumn(name, lambda one, name=name: time_words(one.algorithms[name]), ">")  # type: ignore[misc]
            for name in names
        ),
        TableColumn("fastest", fastest),
        TableColumn("predicted", _time_range, ">"),
    ]
    notes = [
        "by the models alone, with parameters that fit the runs; predicted: of what the library "
        "chose in the runs",
        "hierarchical: within nodes, between them by halving and doubling, within nodes",
    ]
    title = f"algorithms of {operation} on {amount(nodes, 'node')}"
    return table_of(title, columns, rows, notes=notes)


def _bandwidth_chart(
    operation: str,
    results: Sequence[PredictResult],
    measured: Sequence[int],
    predicted: Sequence[int],
) -> Lines:
    series = []
    for number, nodes in enumerate([*measured, *predicted][-_MOST_CURVES:]):
        own = at(results, nodes)
        is_measured = nodes in measured
        name = "measured_s" if is_measured else "time_s"
        rows = [one for _, one in sorted(own.items())]
        if not any(getattr(one, name) for one in rows):
            continue
        series.append(
            ChartCurve(
                f"{amount(nodes, 'node')}, {'measured' if is_measured else 'predicted'}",
                [one.prediction.size_bytes for one in rows],
                [_bus(name, one) or math.nan for one in rows],
                colour=number,
                dashed=not is_measured,
                low=[] if is_measured else [_bus("high_s", one) for one in rows],
                high=[] if is_measured else [_bus("low_s", one) for one in rows],
            )
        )
    most = _said(results)[-1].prediction.nodes
    largest = [one for _, one in sorted(at(results, most).items()) if one.time_s]
    for number, name in enumerate(largest[-1].weights):
        if len(largest[-1].weights) > 1 and largest[-1].weights[name] >= _LEAST_WEIGHT:
            series.append(
                ChartCurve(
                    f"{amount(most, 'node')}, {name} alone",
                    [one.prediction.size_bytes for one in largest],
                    [
                        bus_bandwidth(one.prediction, one.hypotheses[name]) / BYTES_PER_GB
                        for one in largest
                    ],
                    colour=number,
                    faint=True,
                )
            )
    item = results[0].prediction
    levels = []
    if item.network_bps:
        levels = [Level("line rate of a node", item.network_bps / BYTES_PER_GB)]
    return Lines(
        key=f"predicted-{operation}-by-size",
        title=f"busbw of {operation}",
        says="Bus bandwidth by size, measured and predicted, with the intervals of predictions.",
        x_title="size",
        y_title="busbw, GB/s",
        series=series,
        levels=levels,
    )


def _nodes_chart(
    operation: str,
    results: Sequence[PredictResult],
    measured: Sequence[int],
    predicted: Sequence[int],
) -> Lines:
    """The time of a small, a middle and a large size by the number of nodes."""
    sizes = sorted({one.prediction.size_bytes for one in _said(results)})
    chosen = [*dict.fromkeys([sizes[0], sizes[len(sizes) // 2], sizes[-1]])]
    series = []
    for number, size in enumerate(chosen):
        rows = [
            own[size] for nodes in (*measured, *predicted) if size in (own := at(results, nodes))
        ]
        known = [one for one in rows if one.measured_s]
        said = [one for one in rows if one.time_s and not one.prediction.is_measured]
        if known:
            series.append(
                ChartCurve(
                    f"{format_size(size)}, measured",
                    [one.prediction.nodes for one in known],
                    [(one.measured_s or 0.0) * 1e6 for one in known],
                    colour=number,
                )
            )
        series.append(
            ChartCurve(
                f"{format_size(size)}, predicted",
                [one.prediction.nodes for one in said],
                [(one.time_s or 0.0) * 1e6 for one in said],
                low=[(one.low_s or 0.0) * 1e6 for one in said],
                high=[(one.high_s or 0.0) * 1e6 for one in said],
                colour=number,
                dashed=True,
            )
        )
    return Lines(
        key=f"predicted-{operation}-by-nodes",
        title=f"time of {operation} by the number of nodes",
        says="The times of a small, a middle and a large size by the number of nodes.",
        x_title="nodes",
        x_kind="log",
        y_title="time, µs",
        y_log=True,
        series=series,
    )


def _sizes(sizes: Sequence[int]) -> str:
    ends = dict.fromkeys(format_size(one) for one in (min(sizes), max(sizes)))
    return " to ".join(ends)


def _findings(results: Sequence[PredictResult]) -> Iterator[Finding]:
    item = results[0].prediction
    measured = measured_counts(results)
    said = _said(results)
    asked = [one for one in results if not one.prediction.is_measured]
    failed = [one for one in results if one.status not in ("ok", "skipped")]
    if failed:
        first = failed[0]
        text = f"{first.prediction.describe()}: {first.status}: {first.reason}"
        yield Finding("not-measured", "look", plain(text), subject=item.operation)
    if said:
        last = said[-1]
        where = f"{format_size(last.prediction.size_bytes)} on {last.prediction.nodes:,} nodes"
        yield Finding(
            "predicted-time",
            "note",
            f"{where} takes {_time_range(last)}, busbw {_range(last)} GB/s",
            subject=item.operation,
            evidence=(Evidence.of("predicted_us", last.time_s or 0.0, where),),
        )
    if len(said) < len(asked):
        advice = list(dict.fromkeys(one.advice for one in asked if one.advice))
        yield Finding(
            "nothing-said",
            "unknown",
            plain(
                f"nothing can be said in {len(asked) - len(said)} of "
                f"{len(asked)} cases: {'; '.join(_reasons(results))}"
            ),
            subject=item.operation,
            advice=" ".join(advice),
        )
    whole = skill_of("all", judging(results))
    from_two = skill_of("all", results)
    if found := whole or from_two:
        is_better = found.skill > 0
        help = (
            "The models do not fit these runs: trust the measured bus bandwidth rather than the "
            "predictions."
        )
        if whole is None:
            help = (
                "What two nodes say of more does not judge predictions from more: trees send less "
                f"between two nodes. Run `cclmark {item.operation}` on a further number of nodes."
            )
        yield Finding(
            "prediction-error",
            "good" if is_better else "look" if whole else "unknown",
            f"measured numbers of nodes, predicted from {'fewer' if whole else 'two alone'}, "
            f"differ by {percent_words(found.error)} (median of {found.number}), the same busbw by "
            f"{percent_words(found.baseline)}; {found.inside} of {found.number} are within their "
            "interval",
            subject=item.operation,
            advice="" if is_better else help,
            evidence=(Evidence.of("error_percent", found.error, item.operation, found.baseline),),
        )
    elif said:
        reasons = [one.reason for one in results if one.prediction.is_measured and one.reason]
        why = reasons[0] if reasons else "measured numbers of nodes have no size in common"
        if len(measured) == 1 or (measured[0] == 1 and len(measured) == 2):
            why = f"only {listed([amount(one, 'node') for one in measured])} "
            why += "was measured" if measured == [1] else "were measured"
        yield Finding(
            "prediction-error",
            "unknown",
            f"the error of predictions is unknown: {why}",
            subject=item.operation,
            advice=f"Run `cclmark {item.operation}` on a further number of nodes.",
        )
    between = [one for one in measured if one > 1]
    if said and between == [2] and TREE in ALGORITHMS[item.operation] and not item.algorithm:
        yield Finding(
            "two-nodes-alone",
            "look",
            "two nodes are special: a tree between two nodes sends each byte once, between more "
            "nodes twice, so that busbw falls from two to three nodes where the network limits it",
            subject=item.operation,
            advice=f"Run `cclmark {item.operation}` on four nodes.",
        )
    unseen = [one for one in said if one.unseen]
    if unseen:
        sizes = [one.prediction.size_bytes for one in unseen]
        names = listed([*dict.fromkeys(one.unseen for one in unseen)])
        yield Finding(
            "algorithm-not-seen",
            "look",
            f"for {_sizes(sizes)} {names} is expected, "
            "which no run used at that size: intervals are wider",
            subject=item.operation,
            advice=f"Measure it too: `NCCL_ALGO` for `cclmark {item.operation}`, and predict from "
            "these runs with --algorithm.",
        )
    most = [one for one in said if one.prediction.nodes == said[-1].prediction.nodes]
    faster = [*faster_algorithms(most)]
    if faster:
        best = max(faster, key=lambda one: one.result.prediction.size_bytes)
        sizes = [one.result.prediction.size_bytes for one in faster]
        yield Finding(
            "faster-algorithm",
            "note",
            f"on {best.result.prediction.nodes:,} nodes, by the models, a {best.name} algorithm "
            f"would be faster than what the library chooses from, for {_sizes(sizes)}, for "
            f"example {time_words(best.time_s)} in place of "
            f"{time_words(best.result.time_s or 0.0)} for "
            f"{format_size(best.result.prediction.size_bytes)}",
            subject=item.operation,
        )


def _headline(results: Sequence[PredictResult]) -> str:
    """The largest prediction; empty without figures."""
    found = _findings(results) if _said(results) else iter(())
    first = next((one for one in found if one.id == "predicted-time"), None)
    return "" if first is None else f"{first.subject}: {first.sentence}"


def _titled(results: Sequence[PredictResult]) -> str:
    names = dict.fromkeys(one.prediction.operation for one in results)
    return f"Predictions for {', '.join(names)}"


def _inputs(results: Sequence[PredictResult]) -> Iterator[tuple[str, str]]:
    for operation, own in of_operations(results).items():
        for name, text in _facts(own, measured_counts(own)):
            yield f"{operation}: {name}", text


def _compared() -> ComputedFigures:
    """By what two predictions are compared: the same operation, number of nodes and size."""
    fields = {one.key: one for one in FIELDS.all}

    def time(one: PredictResult) -> str:
        return time_words(one.measured_s) if one.measured_s else _time_range(one)

    return ComputedFigures(
        figures=[
            ComputedFigure(
                fields["predicted_us"],
                "time",
                time,
                is_time=True,
                interval=lambda one: one.low_s and (one.low_s, one.high_s),
            ),
            ComputedFigure(fields["predicted_busbw_gbps"], "busbw, GB/s", _range),
        ],
        key=lambda one: (
            *(one.prediction.operation, one.prediction.nodes, one.prediction.per_node),
            one.prediction.size_bytes,
        ),
        words=lambda one: one.prediction.describe(),
        is_main=lambda one: not one.prediction.is_measured,
        inputs=_inputs,
        without_time="predict from runs that suffice on both sides",
    )


REPORT = report_of_formulas(
    "times",
    "predicted times",
    FIELDS,
    document_of_predictions,
    method_of_predictions,
    _compared(),
    headline=_headline,
    titled=_titled,
)
