"""What a run of overlaps says, and the fields of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from cclmark.analysis.ratio import RatioEstimate
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
)
from cclmark.document.case_fields import (
    CASE_LABELS,
    case_fields,
    explained_fields,
    status_fields,
    variant_fields,
    wrong_field,
)
from cclmark.document.chart_model import Chart, ChartCurve, Level, Lines, key_of
from cclmark.document.fields import Field, Fields, TableField
from cclmark.document.insight_words import Remark, amount, limits_of
from cclmark.document.naming import NamedRun
from cclmark.document.remarks import elements_text, reason_text
from cclmark.document.report_kind import ReportKind
from cclmark.document.soundness import or_unlocated, wrong_data
from cclmark.document.text import BYTES_PER_GB, counted, format_time_us
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header
from cclmark.journal.summaries import algorithm_bandwidth, bus_factor
from cclmark.kinds.overlap.figures import OverlapSummary, SlowDown, summaries_of
from cclmark.kinds.overlap.result import OverlapFigures, OverlapResult
from cclmark.work.work_beside import MATMUL


def slow_down_text(slow_down: SlowDown | None) -> str:
    """The slow-down with its interval: ``1.18 (1.16 to 1.20)``."""
    if slow_down is not None and slow_down.estimate is None:
        return f"{slow_down.ratio:.3f}"
    return ratio_text(None if slow_down is None else slow_down.estimate)


def ratio_text(estimate: RatioEstimate | None) -> str:
    """A ratio with its interval: ``1.18 (1.16 to 1.20)``, unless the rounds differ too much."""
    if estimate is None:
        return "-"
    if _is_unknown(estimate):
        return _UNKNOWN
    return f"{estimate.ratio:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def _word_of(estimate: RatioEstimate | None, text: str) -> str:
    """The text of a ratio, or the word for an interval that contains 1 and is wide."""
    is_noise = estimate is not None and estimate.verdict(_MARGIN) == "inconclusive"
    return "inconclusive" if is_noise and not _is_unknown(estimate) else text


_MARGIN = 0.02  # a smaller difference does not matter
_PERCENT = 100
_TERA = 1e12
_PRECISE = 100.0  # smaller rates are printed with three digits
_IN_TURNS = 1.05  # a smaller sum of the remaining rates is no gain over executing in turns
_FEW = 0.5  # a smaller share of the operations that count is reported
_MOST_WRONG = 8
_MOST_APART = 4  # largest upper end over lower end of a ratio's interval that is reported
_UNKNOWN = "cannot be said"
_APART = f"the 95 % interval of the rounds spans more than a factor of {_MOST_APART}"


def _figure(of: Callable[[OverlapFigures], float]) -> Callable[[OverlapResult], float | None]:
    """Of the figures of the round, None without them."""
    return lambda one: None if one.figures is None else of(one.figures)


def _busbw(name: str) -> Callable[[OverlapResult], float | None]:
    """The bus bandwidth of the collective in the time with this name."""

    def busbw(one: OverlapResult) -> float | None:
        if one.figures is None:
            return None
        case = one.overlap.case
        return algorithm_bandwidth(case.size_bytes, getattr(one.figures, name)) * bus_factor(case)

    return busbw


def _rate(name: str) -> Callable[[OverlapResult], float | None]:
    """The work of the compute over the time with this name."""
    return lambda one: (
        None if one.figures is None else one.overlap.compute.work / getattr(one.figures, name)
    )


def _reason(one: OverlapResult) -> str:
    """The reason; of wrong data the first wrong element, of the collective or the compute."""
    text = reason_text(one)
    if text or not one.compute_findings:
        return text
    first = one.compute_findings[0]
    return f"rank {first.rank}, the compute: {elements_text(first)}"


_LAUNCH_BOUND = {
    "launch_bound": "the collective alone",
    "compute_launch_bound": "the compute alone",
    "together_launch_bound": "both at once",
}
FIELDS = Fields(
    [
        *variant_fields("overlap"),
        *case_fields("overlap.case"),
        Field(
            "compute",
            "What computes beside the collective: matmul or memory.",
            "overlap.compute.name",
            "text",
        ),
        TableField("compute_dtype", "Data type of the compute.", "overlap.compute.dtype", "text"),
        Field(
            "extent", "Rows of the matrices, or bytes of an array.", "overlap.compute.extent", "int"
        ),
        *status_fields(_reason),
        Field(
            "alone_us",
            "Time of one collective alone.",
            "figures.communication_alone_s",
            gauge="alone_seconds",
        ),
        Field(
            "beside_us",
            "Time of one collective beside the compute.",
            "figures.communication_s",
            gauge="beside_seconds",
        ),
        Field(
            "slow_down",
            "Time of the collective beside the compute over its time alone.",
            _figure(lambda own: own.communication_s / own.communication_alone_s),
            direction="lower",
        ),
        TableField(
            "alone_busbw_gbps",
            "Bus bandwidth of the collective alone.",
            _busbw("communication_alone_s"),
        ),
        Field(
            "beside_busbw_gbps",
            "Bus bandwidth of the collective beside the compute.",
            _busbw("communication_s"),
        ),
        Field(
            "compute_alone_us",
            "Time of one compute alone.",
            "figures.compute_alone_s",
            gauge="compute_alone_seconds",
        ),
        Field(
            "compute_beside_us",
            "Time of one compute beside the collective.",
            "figures.compute_s",
            gauge="compute_beside_seconds",
        ),
        Field(
            "compute_slow_down",
            "Time of the compute beside the collective over its time alone.",
            _figure(lambda own: own.compute_s / own.compute_alone_s),
            direction="lower",
        ),
        TableField(
            "compute_alone_per_s",
            "Floating-point operations (matmul) or bytes (memory) in a second, alone.",
            _rate("compute_alone_s"),
        ),
        TableField(
            "compute_beside_per_s",
            "Floating-point operations or bytes in a second, beside the collective.",
            _rate("compute_s"),
        ),
        Field(
            "evaluated",
            "Smallest share of the collectives that ran entirely beside the compute and count.",
            "figures.communication_evaluated",
            direction="higher",
        ),
        Field(
            "compute_evaluated",
            "Smallest share of the compute operations that ran entirely beside the collective.",
            "figures.compute_evaluated",
            direction="higher",
        ),
        *(
            TableField(name, f"Whether launches set the time of {what}.", f"figures.{name}", "bool")
            for name, what in _LAUNCH_BOUND.items()
        ),
        TableField(
            "attempts",
            "How often the phases were measured, with more operations each time.",
            lambda one: None if one.together is None else one.attempts,
            "int",
        ),
        wrong_field(),
        TableField(
            "compute_wrong",
            "Wrong elements of the compute; empty without a check.",
            lambda one: (
                None
                if one.verification is None
                else sum(found.wrong for found in one.compute_findings)
            ),
            "int",
            direction="lower",
        ),
        TableField("implementation", "Software that computes.", "implementation", "text"),
        *explained_fields(),
    ],
    gauges="cclmark_overlap",
    labels=("variant", "round", *CASE_LABELS, "compute", "extent"),
    noun="an overlap",
)


def document_of_overlaps(run: RunContent) -> Document:
    """Composes everything that a run says."""
    results = cast("Sequence[OverlapResult]", run.results)
    summaries = summaries_of(results)
    wrong = or_unlocated(wrong_findings(results), results)
    return Document(
        "Collectives beside compute",
        method_of_overlaps(run.header),
        [*_blocks(summaries)],
        [
            *wrong[:_MOST_WRONG],
            *remarks_of(summaries),
            *findings_on_largest(summaries),
        ],
        _outcome(results),
        is_wrong=bool(wrong),
        head_figures=[*_head_figures(summaries)],
    )


def _largest_default(summaries: Sequence[OverlapSummary]) -> OverlapSummary | None:
    """The largest message by default, if it was measured."""
    known = [one for one in summaries if one.variant.is_default and one.communication is not None]
    return max(known, key=lambda one: one.case.size_bytes, default=None)


def _head_figures(summaries: Sequence[OverlapSummary]) -> Iterator[HeadFigure]:
    """The slow-downs of the largest message by default, and its bandwidths."""
    one = _largest_default(summaries)
    if one is None:
        return
    case = f"{one.case.operation} of {one.case.size_words()}"
    slow_downs = (
        ("collective beside compute", one.communication, one.launch_bound, case),
        ("compute beside the collective", one.compute, one.compute_launch_bound, ""),
    )
    for label, found, is_limit, of in slow_downs:
        if found is not None and found.estimate is not None and _is_certain(found.estimate):
            note = ", ".join(filter(None, ("at least" * is_limit, of or one.work.describe())))
            yield HeadFigure(label, f"{found.ratio:.3f}", "times as long", note)
    if one.busbw_beside and not _unknown_of(one):
        rate = bandwidth_text(one.busbw_beside)
        alone = f"{case}; {bandwidth_text(one.busbw_alone)} alone"
        yield HeadFigure("bus bandwidth beside compute", rate, "GB/s", alone)


def _is_certain(estimate: RatioEstimate) -> bool:
    return not _is_unknown(estimate) and estimate.verdict(_MARGIN) != "inconclusive"


def _outcome(results: Sequence[OverlapResult]) -> str:
    """The numbers of rounds and of checked results."""
    measured = [one for one in results if one.is_measured]
    checked = sum(one.is_checked for one in measured)
    wrong = sum(one.status == "wrong" for one in results)
    rounds = counted(len({one.overlap.round for one in results}), "round")
    return f"{rounds}; {checked} of {len(measured)} results checked, {wrong} wrong"


def _blocks(summaries: Sequence[OverlapSummary]) -> Iterator[Block]:
    software = (f"{one.implementation}  {one.implementation_path}".rstrip() for one in summaries)
    if computed := [("compute", plain(text)) for text in dict.fromkeys(software) if text]:
        yield Facts(computed)
    keys: set[str] = set()
    for group in grouped(summaries):
        title = plain(group_title(group[0]))
        ran = dict.fromkeys(f"{one.variant.describe()}: {one.ran}" for one in group if one.ran)
        notes = [
            *(f"ran with {plain(text)}" for text in ran),
            *filter(None, (share_text(group), alone_text(group))),
        ]
        rows, compared = [cells_of(one) for one in group], against_rows(group)
        if any(_UNKNOWN in row for row in (*rows, *compared)):
            notes.append(f"{_UNKNOWN}: {_APART}; --rounds measures more")
        head = _head(group[0])
        yield _worded(Table(title, head, rows, "><" + ">" * 6, notes), _slow_downs(group))
        if compared:
            names = ("size", "variant", "collective", "compute")
            table = Table(against_title(group), names, compared, "><>>", belongs=True)
            yield _worded(table, _against(group))
        yield from _charts(group, keys)


def _worded(table: Table, ratios: Iterable[tuple[int, int, RatioEstimate | None]]) -> Table:
    """The table with words in the cells of ratios that noise decides."""
    rows = [[*cells] for cells in table.rows]
    numbers = []
    for row, column, ratio in ratios:
        number = rows[row][column]
        if (word := _word_of(ratio, number)) != number:
            rows[row][column] = word
            numbers.append((row, column, number))
    return replace(table, rows=rows, numbers=numbers)


def _slow_downs(
    group: Sequence[OverlapSummary],
) -> Iterator[tuple[int, int, RatioEstimate | None]]:
    """The ratios of the cells of ``cells_of``, with their rows and columns."""
    for row, one in enumerate(group):
        for column, slow_down in ((5, one.communication), (7, one.compute)):
            if one.communication is not None and slow_down is not None:
                yield row, column, slow_down.estimate


def _against(group: Sequence[OverlapSummary]) -> Iterator[tuple[int, int, RatioEstimate | None]]:
    """The same of ``against_rows``."""
    for row, (_, communication, compute) in enumerate(_against_usual(group)):
        yield row, 2, communication.against_usual
        yield row, 3, compute.against_usual


def _against_usual(
    group: Sequence[OverlapSummary],
) -> list[tuple[OverlapSummary, SlowDown, SlowDown]]:
    """The variants that are compared with the default: slow-downs of collective and compute."""
    return [
        (one, one.communication, one.compute)
        for one in group
        if one.communication is not None
        and one.compute is not None
        and one.communication.against_usual is not None
    ]


def findings_on_largest(summaries: Sequence[OverlapSummary]) -> Iterator[Finding]:
    """The slow-downs of the largest messages, or that they are unknown."""
    for group in grouped(summaries):
        largest = max(one.case.size_bytes for one in group)
        for one in group:
            if one.case.size_bytes == largest and one.communication is not None:
                at = f"{one.case.describe()}, {one.variant.describe()}"
                slow_downs = {"slow_down": one.communication, "compute_slow_down": one.compute}
                yield Finding(
                    "overlap-of-largest",
                    "unknown" if _unknown_of(one) else "note",
                    _sentence(one),
                    evidence=tuple(
                        Evidence.of(name, known.ratio, at)
                        for name, known in slow_downs.items()
                        if known is not None
                    ),
                )


def method_of_overlaps(header: Header) -> str:
    """Describes in a line how overlaps were measured."""
    check = "outputs of both checked" if header.settings.check else "outputs not checked"
    return (
        "each alone and both at once in every round, operations that ran entirely beside the other "
        f"work, slowest rank, {check}"
    )


def grouped(summaries: Iterable[OverlapSummary]) -> list[list[OverlapSummary]]:
    """The summaries of each series of cases."""
    groups = by_key((group_title(one), one) for one in summaries)
    return list(groups.values())


def group_title(one: OverlapSummary) -> str:
    """The collective and the work beside it: the title of a group."""
    return f"{one.case.series().group_words()}, beside {one.work.describe()}"


def rate_text(rate: float | None, one: OverlapSummary) -> str:
    """The rate of the compute in its unit."""
    if rate is None:
        return "-"
    value = rate / (_TERA if one.work.name == MATMUL else BYTES_PER_GB)
    return f"{value:.3g}" if value < _PRECISE else f"{value:.1f}"


def bandwidth_text(bytes_per_s: float | None) -> str:
    """A bus bandwidth in GB/s; a rank alone has none."""
    return f"{bytes_per_s / BYTES_PER_GB:.2f}" if bytes_per_s else "-"


def _head(one: OverlapSummary) -> list[str]:
    unit = "TFLOP/s" if one.work.name == MATMUL else "GB/s"
    return [
        *("size", "variant", "alone µs", "busbw", "beside busbw", "slow-down (95 %)"),
        *(f"compute {unit}", "slow-down (95 %)"),
    ]


def cells_of(one: OverlapSummary) -> list[str]:
    """The cells of a row."""
    if one.communication is None:
        what = "WRONG" if one.status == "wrong" else one.status
        return [one.case.size_words(), plain(one.variant.describe()), what, *["-"] * 5]
    return [
        one.case.size_words(),
        plain(one.variant.describe()),
        format_time_us(one.communication.alone_s),
        bandwidth_text(one.busbw_alone),
        bandwidth_text(one.busbw_beside),
        slow_down_text(one.communication),
        rate_text(one.rate_alone, one),
        slow_down_text(one.compute),
    ]


def against_title(group: Sequence[OverlapSummary]) -> str:
    """The title of the table of ``against_rows``."""
    usual = next((one.usual for one in group if one.usual is not None), group[0].variant)
    return f"both at once: times over those of {plain(usual.describe())} in the same rounds (95 %)"


def against_rows(group: Sequence[OverlapSummary]) -> list[list[str]]:
    """The cells of the variants that are compared with the default; empty without any."""
    return [
        [
            one.case.size_words(),
            plain(one.variant.describe()),
            ratio_text(communication.against_usual),
            ratio_text(compute.against_usual),
        ]
        for one, communication, compute in _against_usual(group)
    ]


def remarks_of(summaries: Sequence[OverlapSummary]) -> list[Finding]:
    """What was wrong, failed or skipped, is bound by launches, or is based on few operations."""
    return limits_of(remark for one in summaries for remark in _remarks(one))


def _remarks(one: OverlapSummary) -> Iterator[Remark]:
    name = f"{one.variant.describe()} {one.case.size_words()}"
    if one.status not in ("ok", "wrong"):
        yield f"{one.status}: {one.reason}", name, ()
    if one.left_out:
        text = (
            f"in {one.left_out} of {counted(one.rounds, 'round')} no operation ran entirely beside "
            "the other work: these rounds are left out"
        )
        yield text, name, ()
    if one.launch_bound:
        text = "launches set the time of the collective alone"
        yield f"{text}, so that its slow-down is a lower limit", name, ()
    if one.compute_launch_bound:
        text = "launches set the time of the compute alone"
        yield f"{text}, so that its slow-down is a lower limit", name, ()
    if one.together_launch_bound:
        text = (
            "launches set the times of both at once, so that the slow-downs contain the cost of "
            "launches on the host"
        )
        yield text, name, ()
    if one.communication is not None and min(one.evaluated) < _FEW:
        text = "less than half of the operations ran entirely beside the other work"
        yield text, name, (Evidence.of("evaluated", min(one.evaluated), name, _FEW),)
    is_known = one.communication is not None and not _is_unknown(one.communication.estimate)
    if is_known and one.combined_rate is not None and one.combined_rate < _IN_TURNS:
        text = "together they took as long as one after the other: executed in turns"
        yield text, name, (Evidence.of("combined_rate", one.combined_rate, name, _IN_TURNS),)


def share_text(summaries: Sequence[OverlapSummary]) -> str:
    """The share of the operations that counts; empty without figures."""
    known = [one.evaluated for one in summaries if one.communication is not None]
    if not known:
        return ""
    sent, computed = min(one[0] for one in known), min(one[1] for one in known)
    return (
        f"at least {sent:.0%} of the collectives and {computed:.0%} of the compute operations ran "
        "entirely beside the other work and count"
    )


def alone_text(summaries: Sequence[OverlapSummary]) -> str:
    """Explains the time alone, which is not that of a sweep; empty without figures."""
    known = [one.alone_operations for one in summaries if one.alone_operations]
    if not known:
        return ""
    numbers = " to ".join(str(one) for one in dict.fromkeys((min(known), max(known))))
    return (
        f"alone: the mean of {numbers} collectives in a row, as many as beside the compute, of the "
        "slowest rank; a sweep reports the median of longer batches, in which a small message may "
        "take less time"
    )


def wrong_findings(results: Iterable[OverlapResult]) -> Iterator[Finding]:
    """A finding on each rank with wrong data: of the collective, or of the compute."""
    for result in results:
        checked = result.verification.findings if result.verification is not None else []
        for name, key, findings in (
            ("the collective", "wrong", checked),
            ("the compute", "compute_wrong", result.compute_findings),
        ):
            for one in findings:
                at = f"{result.overlap.describe()}: rank {one.rank}"
                text = f"wrong data of {name} in {at}: {elements_text(one)}"
                yield wrong_data(text, one.wrong, at, key)


def _is_unknown(ratio: RatioEstimate | None) -> bool:
    """Whether the rounds differ too much to determine the ratio."""
    return ratio is not None and ratio.high > _MOST_APART * ratio.low


def _unknown_of(one: OverlapSummary) -> list[str]:
    """The slow-downs that are unknown, in words."""
    slow_downs = {"collective": one.communication, "compute": one.compute}
    return [
        name
        for name, known in slow_downs.items()
        if known is not None and _is_unknown(known.estimate)
    ]


def _sentence(one: OverlapSummary) -> str:
    if unknown := _unknown_of(one):
        return (
            f"{one.case.operation} of {one.case.size_words()} with {one.variant.describe()} beside "
            f"{one.work.describe()}: the slow-down of the {' and the '.join(unknown)} "
            f"{_UNKNOWN}, because {_APART}; --rounds measures more"
        )
    return (
        f"{one.case.operation} of {one.case.size_words()} with {one.variant.describe()} takes "
        f"{slow_down_text(one.communication)} times as long beside {one.work.describe()}, which "
        f"takes {slow_down_text(one.compute)} times as long"
    )


def _charts(group: Sequence[OverlapSummary], keys: set[str]) -> list[Chart]:
    measured = [one for one in group if one.communication is not None and one.compute is not None]
    if not measured:
        return []
    return [
        _trade_off(measured, keys),
        _by_size(measured, keys, "collective", lambda one: one.communication),
        _by_size(measured, keys, "compute", lambda one: one.compute),
    ]


def _name(group: Sequence[OverlapSummary]) -> str:
    case = group[0].case
    return f"{case.operation} {case.placement}"


def _trade_off(group: Sequence[OverlapSummary], keys: set[str]) -> Lines:
    """The bandwidth of the collective against the compute that remains, a curve for each size."""
    title = f"{_name(group)}: bandwidth against remaining compute"
    series = []
    for number, case in enumerate(dict.fromkeys(one.case for one in group)):
        own = sorted(
            (one for one in group if one.case == case), key=lambda one: one.remaining_compute or 0
        )
        intervals = [one.busbw_interval for one in own]
        series.append(
            ChartCurve(
                name=case.size_words(),
                x=[(one.remaining_compute or 0) * _PERCENT for one in own],
                y=[(one.busbw_beside or 0) / BYTES_PER_GB for one in own],
                low=[None if one is None else one[0] / BYTES_PER_GB for one in intervals],
                high=[None if one is None else one[1] / BYTES_PER_GB for one in intervals],
                colour=number,
                hover=[
                    f"{one.variant.describe()}: collective {slow_down_text(one.communication)}, "
                    f"compute {slow_down_text(one.compute)}"
                    for one in own
                ],
            )
        )
    return Lines(
        key=key_of(f"overlap {group[0].case.series().group_words()}", keys),
        title=title,
        says=f"{group_title(group[0])}: bandwidth against the compute that remains, a curve for "
        "each message size and a point for each variant, with 95 % intervals of the bandwidth.",
        x_title="compute that remains beside the collective, % of its rate alone",
        y_title="bus bandwidth beside the compute, GB/s",
        series=series,
        x_kind="number",
    )


def _by_size(
    group: Sequence[OverlapSummary],
    keys: set[str],
    name: str,
    of: Callable[[OverlapSummary], SlowDown | None],
) -> Lines:
    """The slow-down of the collective or the compute by message size, a curve for each variant."""
    title = f"{_name(group)}: slow-down of the {name}"
    series = []
    for number, variant in enumerate(dict.fromkeys(one.variant for one in group)):
        own = [
            (one.case.size_bytes, found)
            for one in group
            if one.variant == variant and (found := of(one)) is not None
        ]
        bounds = [found.estimate for _, found in own]
        series.append(
            ChartCurve(
                name=variant.describe(),
                x=[size for size, _ in own],
                y=[found.ratio for _, found in own],
                low=[None if one is None else one.low for one in bounds],
                high=[None if one is None else one.high for one in bounds],
                colour=number,
            )
        )
    return Lines(
        key=key_of(f"overlap {name} {group[0].case.series().group_words()}", keys),
        title=title,
        says=f"{group_title(group[0])}: the time of the {name} beside the other work over its time "
        "alone, by message size.",
        x_title="message size",
        y_title="time beside the other work / time alone",
        series=series,
        levels=[Level("alone", 1.0)],
        zero_based=False,
    )


def _headline(run: NamedRun) -> str:
    """The slow-downs of the largest message by default; empty if it was not measured."""
    one = _largest_default(summaries_of(run.journal.of(OverlapResult)))
    return "" if one is None else _sentence(one)


def _titled(runs: Sequence[NamedRun]) -> str:
    """The operations and the work beside them."""
    results = [result for run in runs for result in run.journal.of(OverlapResult)]
    operations = dict.fromkeys(one.overlap.case.operation for one in results)
    works = dict.fromkeys(one.overlap.compute.describe() for one in results)
    return f"{', '.join(operations)} beside {' and '.join(works)}"


def _counted(journal: Journal) -> str:
    variants = {result.overlap.variant for result in journal.of(OverlapResult)}
    return f"{amount(len(journal.results), 'overlap')} of {amount(len(variants), 'variant')}"


REPORT = ReportKind(
    noun="overlaps",
    title="overlaps",
    has_times=False,
    fields=FIELDS,
    document=document_of_overlaps,
    counted=_counted,
    headline=_headline,
    titled=_titled,
    method=method_of_overlaps,
    by_session=False,
)
