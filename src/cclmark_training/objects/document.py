"""What a run of object calls says, and the fields of its results.

Object calls move Python objects through torch.distributed; the same data is moved as tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Document,
    Evidence,
    Finding,
    Gain,
    HeadFigure,
    RunContent,
    Table,
)
from cclmark.document.case_fields import interval_fields, ratio_fields, status_fields
from cclmark.document.chart_model import Chart, ChartCurve, Level, Lines, key_of
from cclmark.document.fields import Field, Fields, TableField
from cclmark.document.insight_words import amount, limits_of
from cclmark.document.naming import NamedRun
from cclmark.document.report_kind import ReportKind
from cclmark.document.soundness import of_checked, or_unlocated
from cclmark.document.text import US_PER_S, format_time_us, half_width_text
from cclmark.journal.schema import Header
from cclmark.work.sizes import format_size
from cclmark_training.objects.plan import FLAG, FLAG_CALL, OBJECT_CALLS, ObjectCall
from cclmark_training.objects.result import ObjectFigures, ObjectResult

_HEAD = ("size", "objects µs", "±%", "tensors µs", "±%", "ratio (95 %)", "pickling µs", "share")
_WIDTHS = (10, 11, 5, 11, 5, 24, 11, 6)
_MOST_NAMED = 4
_MOST_WRONG = 8
_COUNTED_CALLS = 1000  # of a flag, as scripts that compare the two print it


def _reason(one: ObjectResult) -> str:
    """The reason; of wrong data the first wrong element."""
    if one.reason or not one.findings:
        return one.reason
    first = one.findings[0]
    return f"rank {first.rank}, {first.of}: {first.text}"


FIELDS = Fields(
    [
        Field("operation", "Call with objects.", "call.operation", "text"),
        Field(
            "tensor_call", "Call with tensors that it is compared with.", "call.tensor_call", "text"
        ),
        Field("backend", "Backend of torch.distributed.", "call.backend", "text"),
        Field("ranks", "Ranks of the process group.", "call.ranks", "int"),
        Field("content", "What is pickled: bytes, numbers or flag.", "call.content", "text"),
        Field("size_bytes", "Bytes of one pickled object.", "call.size_bytes", "int"),
        *status_fields(_reason, "status"),
        Field("objects_us", "Time of one call with objects.", "figures.object_s", gauge="seconds"),
        *interval_fields("objects_us", "figures.object_low_s", "figures.object_high_s"),
        Field(
            "tensors_us",
            "Time of one call with tensors.",
            "figures.tensor_s",
            gauge="tensors_seconds",
        ),
        *interval_fields("tensors_us", "figures.tensor_low_s", "figures.tensor_high_s"),
        *ratio_fields("figures", "Time of a call with objects over that of one with tensors."),
        Field(
            "pickling_us",
            "Time of pickling for one call.",
            "figures.pickling_s",
            gauge="pickling_seconds",
        ),
        Field(
            "rounds",
            "Rounds that were timed.",
            lambda one: one.times and len(one.times.objects_s),
            "int",
        ),
        TableField("calls", "Calls with objects in a row in each round.", "times.calls", "int"),
        TableField(
            "tensor_calls",
            "Calls with tensors in a row in each round.",
            "times.tensor_calls",
            "int",
        ),
        Field(
            "converged",
            "Whether both medians reached the requested precision.",
            "converged",
            "bool",
        ),
        Field(
            "wrong_ranks",
            "Ranks that received wrong data; empty without a check.",
            lambda one: len({found.rank for found in one.findings}) if one.checked else None,
            "int",
            direction="lower",
        ),
    ],
    gauges="cclmark_objects",
    labels=("operation", "backend", "ranks", "content", "size_bytes"),
    noun="a call",
)


def document_of_objects(run: RunContent) -> Document:
    """Composes everything that a run says."""
    results = cast("Sequence[ObjectResult]", run.results)
    groups = by_key((group_title(one.call), one) for one in results)
    return Document(
        "Objects and tensors",
        method_of_objects(run.header),
        [*(_table(title, group) for title, group in groups.items()), *_charts(groups)],
        [*_findings(results, groups.values())],
        outcome_of(results),
        is_wrong=any(one.status == "wrong" for one in results),
        head_figures=[*_head_figures(results)],
    )


def _head_figures(results: Sequence[ObjectResult]) -> Iterator[HeadFigure]:
    """The ratio, the time and the pickling of the largest objects; else of the flag."""
    known = _with_size(results) or [one for one in results if one.figures is not None]
    if not known:
        return
    one = max(known, key=lambda own: own.call.size_bytes)
    figures, call = one.figures, one.call
    assert figures is not None
    of = f"{call.operation} of {format_size(call.size_bytes)}"
    if not figures.ratio_low <= 1 <= figures.ratio_high:
        value = f"{figures.ratio:.3g}"
        yield HeadFigure("objects beside tensors", value, "times as long", of)
    if one.converged:
        yield HeadFigure("call with objects", format_time_us(figures.object_s), "µs", of)
        yield HeadFigure("call with tensors", format_time_us(figures.tensor_s), "µs")
        share = f"{figures.pickling_s / figures.object_s * 100:.0f}"
        yield HeadFigure("pickling", share, "%", "of the call with objects")


def method_of_objects(header: Header) -> str:
    """Describes in a line how object calls were measured."""
    check = "received data compared" if header.settings.check else "received data not compared"
    return (
        "calls in a row, with objects and with the same data as tensors in every round, slowest "
        f"rank, host clock, {check}"
    )


def group_title(call: ObjectCall) -> str:
    """The calls that are compared: the title of a group."""
    row = OBJECT_CALLS.get(call.operation)
    ranks = f"{call.ranks} rank{'s' * (call.ranks > 1)}"
    if call.operation == FLAG_CALL:
        return (
            f"flag: all_gather_object of a bool, all_reduce of an int32 · {call.backend}, {ranks}"
        )
    against = f" and {row.tensor_call}" if row is not None else ""
    return f"{call.operation}{against} · {call.content}, {call.backend}, {ranks}"


def _table(title: str, group: Sequence[ObjectResult]) -> Table:
    wrong = [place for place, one in enumerate(group) if one.status == "wrong"]
    rows = [_cells(one) for one in group]
    return Table(title, _HEAD, rows, ">" * len(_HEAD), wrong=wrong, widths=_WIDTHS)


def _cells(result: ObjectResult) -> list[str]:
    """The cells of a line."""
    size, figures = format_size(result.call.size_bytes), result.figures
    if figures is None:
        return [size, result.status, *["-"] * (len(_HEAD) - 2)]
    return [
        size,
        format_time_us(figures.object_s),
        _half_width(figures.object_low_s, figures.object_high_s, figures.object_s),
        format_time_us(figures.tensor_s),
        _half_width(figures.tensor_low_s, figures.tensor_high_s, figures.tensor_s),
        ratio_text(figures),
        format_time_us(figures.pickling_s),
        f"{figures.pickling_s / figures.object_s:.0%}",
    ]


def _half_width(low_s: float, high_s: float, middle_s: float) -> str:
    return half_width_text((high_s - low_s) / 2 / middle_s)


def ratio_text(figures: ObjectFigures) -> str:
    """The ratio with its interval: ``4.39 (4.31 to 4.47)``."""
    return f"{figures.ratio:.3g} ({figures.ratio_low:.3g} to {figures.ratio_high:.3g})"


def _findings(
    results: Sequence[ObjectResult], groups: Iterable[Sequence[ObjectResult]]
) -> Iterator[Finding]:
    """Wrong data, the ratios of flags and of the largest objects, and what limits the figures."""
    wrong = or_unlocated(_wrong_findings(results), results)
    yield from wrong[:_MOST_WRONG]
    if (more := len(wrong) - _MOST_WRONG) > 0:
        yield Finding(
            "wrong-data", "bad", f"{amount(more, 'more line')} on wrong data: see the journal"
        )
    if not wrong and any(one.is_checked for one in results):
        yield of_checked(results, "all received data were correct")
    for one in results:
        if one.call.content == FLAG and one.figures is not None:
            yield _beside_tensors("cost-of-flags", _of_flags(one.figures), one.call, one.figures)
    for group in groups:
        if known := _with_size(group):
            one = max(known, key=lambda own: own.call.size_bytes)
            assert one.figures is not None
            text = _of_objects(one.call, one.figures)
            yield _beside_tensors("cost-of-objects", text, one.call, one.figures)
    yield from remarks_of(results)


def _beside_tensors(rule: str, text: str, call: ObjectCall, figures: ObjectFigures) -> Finding:
    at = call.describe()
    evidence = (
        Evidence.of("objects_us", figures.object_s, at, figures.tensor_s),
        Evidence.of("pickling_us", figures.pickling_s, at),
    )
    gain = Gain.of(figures.ratio, figures.ratio_low, figures.ratio_high, f"tensors for {at}")
    return Finding(rule, "note", text, evidence=evidence, gain=gain)


def _with_size(group: Iterable[ObjectResult]) -> list[ObjectResult]:
    """The results with figures, without flags, which have one size."""
    return [one for one in group if one.figures is not None and one.call.content != FLAG]


def _wrong_findings(results: Iterable[ObjectResult]) -> Iterator[Finding]:
    """A finding on each rank with wrong data."""
    for result in results:
        for one in result.findings:
            text = f"wrong {one.of} of {result.call.describe()} on rank {one.rank}: {one.text}"
            yield Finding("wrong-data", "bad", plain(text))


def _of_flags(figures: ObjectFigures) -> str:
    """The times of 1000 calls, as scripts print them."""
    return (
        f"a flag of each rank by all_gather_object takes {ratio_text(figures)} times as "
        f"long as by all_reduce: {figures.object_s * _COUNTED_CALLS:.4f} against "
        f"{figures.tensor_s * _COUNTED_CALLS:.4f} s for {_COUNTED_CALLS} calls"
    )


def _of_objects(call: ObjectCall, figures: ObjectFigures) -> str:
    return (
        f"{call.operation} of {format_size(call.size_bytes)} takes {ratio_text(figures)} times "
        f"as long as {call.tensor_call} of the same data; pickling is "
        f"{figures.pickling_s / figures.object_s:.0%} of it"
    )


def remarks_of(results: Sequence[ObjectResult]) -> list[Finding]:
    """Skipped calls with the reason, and medians that are less precise than requested."""
    found = limits_of(
        (
            (f"{one.status}: {one.reason}", one.call.describe(), ())
            for one in results
            if one.status not in ("ok", "wrong")
        ),
        _MOST_NAMED,
    )
    coarse = sum(not one.converged for one in results)
    if coarse:
        text = (
            f"{coarse} of {len(results)} calls reached --max-time before both medians had the "
            "precision of --precision: see ±%"
        )
        found.append(Finding("limited-figures", "look", text))
    return found


def outcome_of(results: Sequence[ObjectResult]) -> str:
    """The numbers of measured, checked and wrong calls."""
    measured = [one for one in results if one.is_measured]
    checked = sum(one.is_checked for one in measured)
    wrong = sum(one.status == "wrong" for one in results)
    return f"{len(measured)} of {len(results)} measured; {checked} checked, {wrong} wrong"


def _charts(groups: Mapping[str, Sequence[ObjectResult]]) -> list[Chart]:
    keys: set[str] = set()
    curves: list[ChartCurve] = []
    charts: list[Chart] = []
    for group in groups.values():
        known = _with_size(group)
        if len(known) < 2:
            continue
        curves.append(_ratios(known, len(curves)))
        charts.append(_times(known, keys))
    if not curves:
        return []
    ratios = Lines(
        key=key_of("objects ratio", keys),
        title="Objects against tensors",
        says="The time of a call with objects over the time with the same data as tensors, by "
        "size.",
        x_title="size of a pickled object",
        y_title="time with objects / time with tensors",
        series=curves,
        levels=[Level("equal", 1.0)],
    )
    return [ratios, *charts]


def _ratios(group: Sequence[ObjectResult], number: int) -> ChartCurve:
    figures = [one.figures for one in group if one.figures is not None]
    return ChartCurve(
        name=group[0].call.operation,
        x=[one.call.size_bytes for one in group],
        y=[one.ratio for one in figures],
        low=[one.ratio_low for one in figures],
        high=[one.ratio_high for one in figures],
        colour=number,
    )


def _times(group: Sequence[ObjectResult], keys: set[str]) -> Lines:
    call = group[0].call
    figures = [one.figures for one in group if one.figures is not None]
    sizes = [one.call.size_bytes for one in group]
    parts = (
        (call.operation, [(one.object_s, one.object_low_s, one.object_high_s) for one in figures]),
        (
            call.tensor_call,
            [(one.tensor_s, one.tensor_low_s, one.tensor_high_s) for one in figures],
        ),
        ("pickling alone", [(one.pickling_s,) * 3 for one in figures]),
    )
    return Lines(
        key=key_of(f"objects {call.operation} {call.content}", keys),
        title=f"{call.operation} and {call.tensor_call}",
        says=f"{group_title(call)}: the time of one call by size.",
        x_title="size of a pickled object",
        y_title="time of a call, µs",
        series=[
            ChartCurve(
                name=name,
                x=sizes,
                y=[one[0] * US_PER_S for one in times_s],
                low=[one[1] * US_PER_S for one in times_s],
                high=[one[2] * US_PER_S for one in times_s],
                colour=number,
            )
            for number, (name, times_s) in enumerate(parts)
        ],
        y_log=True,
    )


def _titled(runs: Sequence[NamedRun]) -> str:
    """The backends."""
    results = [result for run in runs for result in run.journal.of(ObjectResult)]
    backends = dict.fromkeys(one.call.backend for one in results)
    return f"objects and tensors with {', '.join(backends)}"


REPORT = ReportKind(
    noun="object calls",
    title="object calls",
    has_times=False,
    fields=FIELDS,
    document=document_of_objects,
    part=lambda result: (result.index, 1),
    counted=lambda journal: amount(len(journal.results), "object call"),
    titled=_titled,
    method=method_of_objects,
    by_session=False,
)
