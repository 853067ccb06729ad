"""What simulations say, and the fields of their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import msgspec

from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Bars,
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
from cclmark.document.chart_model import ChartCurve, Heat, Lines
from cclmark.document.fields import Field, Fields
from cclmark.document.insight_words import amount
from cclmark.document.report_kind import ComputedFigure, ComputedFigures, report_of_formulas
from cclmark.document.text import BYTES_PER_GB, longer_words, percent_words, time_words
from cclmark.journal.schema import Header
from cclmark.work.operations import OPERATIONS
from cclmark.work.sizes import format_size
from cclmark_planning.simulate.figures import (
    algbw_bps,
    asked,
    busbw_bps,
    cost,
    fastest,
    latency_s,
    law_bps,
    of_law,
    series_of,
    variants_of,
)
from cclmark_planning.simulate.plan import Simulation
from cclmark_planning.simulate.result import HotLink, LinkLevel, SimulatedPhase, SimulationResult

_NEGLIGIBLE = 0.01  # of the time: a cost below is none
_HELD = 0.5  # of a link's time: below, latency determines the time
_COSTS = {
    "links whole": "slow or broken links",
    "no background": "background traffic",
    "no other job": "the other jobs",
    "packed": "the placement",
    "none of these": "all of these",
}
_NOTE = (
    "Simulated, not measured: flows share links by max-min fairness. law: the bus bandwidth that "
    "the links of devices and groups permit any algorithm."
)

FIELDS = Fields(
    [
        Field("topology", "Topology, as the user wrote it.", "simulation.topology", "text"),
        Field("devices", "Devices of the topology.", "simulation.devices", "int"),
        Field("operation", "Operation, as NCCL names it.", "simulation.operation", "text"),
        Field("algorithm", "Algorithm that is simulated.", "simulation.algorithm", "text"),
        Field("ranks", "Ranks that take part.", "simulation.rank_count", "int"),
        Field("placement", "Placement of the ranks.", "simulation.placement", "text"),
        Field(
            "size_bytes",
            "Size of the message, as nccl-tests counts it for the operation.",
            "simulation.size_bytes",
            "int",
        ),
        Field("variant", "What of the request is left out.", "simulation.variant", "text"),
        *status_fields("reason", "status"),
        Field("time_us", "Time of the operation.", lambda one: one.time_s or None),
        Field("latency_us", "Part of the time that is latency.", latency_s),
        Field("algbw_gbps", "Algorithm bandwidth.", algbw_bps, direction="higher"),
        Field("busbw_gbps", "Bus bandwidth.", busbw_bps, direction="higher"),
        Field("law_gbps", "Bus bandwidth that the links permit any algorithm.", law_bps),
        Field(
            "of_law_percent",
            "Bus bandwidth as a share of what the links permit.",
            lambda one: None if (share := of_law(one)) is None else share * 100,
            direction="higher",
        ),
        Field(
            "hottest_link",
            "Link that is busy longest.",
            lambda one: one.hottest[0].name if one.hottest else "",
            "text",
        ),
        Field(
            "hottest_percent",
            "Share of the time in which that link is busy.",
            lambda one: one.hottest[0].busy_s / one.time_s * 100 if one.hottest else None,
        ),
    ],
)


def _gbps(bps: float | None) -> str:
    return "" if bps is None else f"{bps / BYTES_PER_GB:.2f}"


def _share(share: float | None) -> str:
    return "" if share is None else percent_words(share)


def document_of_simulations(run: RunContent) -> Document:
    """Composes everything that simulations say."""
    results = cast("Sequence[SimulationResult]", run.results)
    best = fastest(results)
    findings = [*_missing(results)]
    if best is not None:
        findings += _findings(best, results)
    return Document(
        "Simulated collectives",
        method_of_simulations(run.header),
        [*_blocks(best, results)] if best is not None else [],
        findings,
        notes=[_NOTE] if best is not None else [],
        head_figures=[*_head_figures(best)] if best is not None else [],
    )


def method_of_simulations(header: Header) -> str:
    """Describes in a line how the figures were obtained."""
    return "simulated: flows on a network share its links by max-min fairness; nothing is measured"


def _head_figures(best: SimulationResult) -> Iterator[HeadFigure]:
    item = best.simulation
    of = f"{item.operation} {format_size(item.size_bytes)} by {item.algorithm}"
    value, unit = time_words(best.time_s).split()
    yield HeadFigure("time", value, unit, of)
    yield HeadFigure("bus bandwidth", _gbps(busbw_bps(best)), "GB/s", f"{item.rank_count:,} ranks")
    if (share := of_law(best)) is not None:
        yield HeadFigure("of what the links permit", f"{share * 100:.0f}", "%", "")


def _blocks(best: SimulationResult, results: Sequence[SimulationResult]) -> Iterator[Block]:
    yield Facts([*_facts(best.simulation)])
    yield _times_table(results)
    if any(one.simulation.variant for one in results):
        yield _costs_table(results)
    yield _phases_table(best)
    if best.levels:
        yield _levels_table(best)
        yield _picture(best)
        links = [(one.name, [("busy", one.busy_s)]) for one in best.hottest]
        yield Bars(f"The hottest links, {best.simulation.describe()}", "link", links)
    if len({one.simulation.size_bytes for one in asked(results)}) > 1:
        yield _chart(results)


def _facts(item: Simulation) -> Iterator[tuple[str, str]]:
    yield "topology", f"{item.topology}, {item.devices:,} devices"
    yield "job", f"{item.operation}, {item.rank_count:,} ranks, placement {item.placement}"
    if OPERATIONS[item.operation].uneven:
        yield "pattern", item.pattern
    for name, words in (
        ("other jobs", item.neighbours),
        ("background", item.background),
        ("slow links", item.slow),
        ("broken links", item.broken),
    ):
        if words:
            yield name, ", ".join(words)
    yield "routing", f"{item.routing} over equal links"
    yield (
        "rates",
        f"{item.efficiency * 100:g} % of line rates are achieved between nodes and "
        f"{item.node_efficiency * 100:g} % within them (assumed, as cclmark need)",
    )


def _times_table(results: Sequence[SimulationResult]) -> Table:
    rows = sorted(asked(results), key=lambda one: (one.simulation.size_bytes, one.time_s))

    def is_fastest(one: SimulationResult) -> bool:
        same = (each for each in rows if each.simulation.size_bytes == one.simulation.size_bytes)
        return next(same) is one

    columns = [
        TableColumn("size", lambda one: format_size(one.simulation.size_bytes), ">"),
        TableColumn("algorithm", lambda one: one.simulation.algorithm),
        TableColumn("time", lambda one: time_words(one.time_s), ">"),
        TableColumn("latency", lambda one: percent_words(latency_s(one) / one.time_s), ">"),
        TableColumn("algbw GB/s", lambda one: _gbps(algbw_bps(one)), ">"),
        TableColumn("busbw GB/s", lambda one: _gbps(busbw_bps(one)), ">"),
        TableColumn("law GB/s", lambda one: _gbps(law_bps(one)), ">"),
        TableColumn("of law", lambda one: _share(of_law(one)), ">"),
        TableColumn("hottest link", lambda one: one.hottest[0].name if one.hottest else ""),
        TableColumn("", lambda one: "fastest" if is_fastest(one) else ""),
    ]
    notes = ["latency: its share of the time; law: what the links permit any algorithm"]
    return table_of("simulated times", columns, rows, notes=notes)


def _costs_table(results: Sequence[SimulationResult]) -> Table:
    """Each collective beside the same without what costs time."""
    rows = [(one, without) for one in asked(results) for without in variants_of(one, results)]
    columns = [
        TableColumn("size", lambda row: format_size(row[0].simulation.size_bytes), ">"),
        TableColumn("algorithm", lambda row: row[0].simulation.algorithm),
        TableColumn("cost of", lambda row: _cost_words(row[1].simulation.variant)),
        TableColumn("with", lambda row: time_words(row[0].time_s), ">"),
        TableColumn("without", lambda row: time_words(row[1].time_s), ">"),
        TableColumn(
            "with beside without",
            lambda row: _longer(cost(*row)),
            ">",
            look=lambda row: "look" if cost(*row) > _NEGLIGIBLE else "",
        ),
    ]
    return table_of("what it costs", columns, rows)


def _longer(share: float) -> str:
    if share < 0:
        return f"{percent_words(-share)} shorter"
    return longer_words(share).rpartition(" ")[0]


def _cost_words(variant: str) -> str:
    return _COSTS.get(variant, plain(variant))


def _phases_table(best: SimulationResult) -> Table:
    def share(one: SimulatedPhase) -> str:
        return percent_words((one.transfer_s + one.latency_s) / best.time_s)

    columns = [
        TableColumn("step", lambda one: one.name),
        TableColumn("times", lambda one: f"{one.repeat:,}", ">"),
        TableColumn("transfer", lambda one: time_words(one.transfer_s), ">"),
        TableColumn("latency", lambda one: time_words(one.latency_s), ">"),
        TableColumn("of the time", share, ">"),
    ]
    return table_of(f"steps of {best.simulation.describe()}", columns, best.phases)


def _levels_table(best: SimulationResult) -> Table:
    def busy(seconds: float) -> str:
        return percent_words(seconds / best.time_s)

    columns = [
        TableColumn("links", lambda one: one.name),
        TableColumn("number", lambda one: f"{one.links:,}", ">"),
        TableColumn("busiest", lambda one: one.busiest.name),
        TableColumn("carries", lambda one: format_size(round(one.busiest.size_bytes)), ">"),
        TableColumn("busy", lambda one: busy(one.busiest.busy_s), ">"),
        TableColumn("as busy", lambda one: f"{one.equal:,}", ">"),
        TableColumn("mean", lambda one: busy(one.mean_busy_s), ">"),
    ]
    notes = [
        "links in both directions; busy: the time that a link takes for the job's data, as a share "
        "of the whole; as busy: how many, within 1 %; mean: of all links of the kind"
    ]
    return table_of(f"links, {best.simulation.describe()}", columns, best.levels, notes=notes)


def _picture(best: SimulationResult) -> Heat:
    """The busy shares of all links, in as many columns as the largest kind has parts."""
    width = max(len(one.bins) for one in best.levels)
    rows = [
        [_bin(one, place, width) / best.time_s * 100 for place in range(width)]
        for one in best.levels
    ]
    devices = best.simulation.devices
    texts = [[f"{value:.0f}" for value in row] for row in rows]
    return Heat(
        key="link-load",
        title=f"load of the links, {best.simulation.describe()}",
        says="How long links are busy, by their kind and the place of their devices.",
        column_title="place of the links: the first device of each part",
        unit="%",
        rows=[one.name for one in best.levels],
        columns=[f"{place * devices // width:,}" for place in range(width)],
        values=rows,
        texts=texts,
        hover=[
            [
                f"{level.name}, devices from {place * devices // width:,} on: the busiest link is "
                f"busy {value:.1f} % of the time"
                for place, value in enumerate(row)
            ]
            for level, row in zip(best.levels, rows, strict=True)
        ],
        higher_is_better=False,
        notes=["a cell: the busiest link of a part of the fabric, as a share of the time"],
        is_detail=True,
    )


def _bin(level: LinkLevel, place: int, width: int) -> float:
    return level.bins[place * len(level.bins) // width]


def _chart(results: Sequence[SimulationResult]) -> Lines:
    curves = [
        ChartCurve(
            item.algorithm,
            [one.simulation.size_bytes for one in own],
            [(busbw_bps(one) or 0.0) / BYTES_PER_GB for one in own],
            colour=number,
        )
        for number, (item, own) in enumerate(series_of(results).items())
    ]
    return Lines(
        key="simulated-bus-bandwidth",
        title="simulated bus bandwidth by algorithm",
        says="The bus bandwidth of each algorithm by the size of the message.",
        x_title="size",
        y_title="bus bandwidth, GB/s",
        series=curves,
    )


def _missing(results: Sequence[SimulationResult]) -> Iterator[Finding]:
    """What has no figures, with the reason."""
    for one in results:
        if not one.is_measured:
            reason = f": {one.reason}" if one.reason else ""
            text = f"{one.simulation.describe()}: {one.status}{reason}"
            yield Finding("not-measured", "look", plain(text))


def _findings(best: SimulationResult, results: Sequence[SimulationResult]) -> Iterator[Finding]:
    item = best.simulation
    at = f"{item.operation} {format_size(item.size_bytes)} of {amount(item.rank_count, 'rank')}"
    number = len({one.simulation.algorithm for one in asked(results)})
    of = f", the fastest of {number} algorithms" if number > 1 else ""
    share = of_law(best)
    law = "" if share is None else f", {percent_words(share)} of what the links permit"
    yield Finding(
        "simulated-collective",
        "note",
        f"{at} takes {time_words(best.time_s)} by {item.algorithm}{of}: bus bandwidth "
        f"{_gbps(busbw_bps(best))} GB/s{law}{_holds(best)}",
        evidence=(
            Evidence.of("time_us", best.time_s, at),
            Evidence.of("busbw_gbps", busbw_bps(best) or 0.0, at),
        ),
    )
    for without in variants_of(best, results):
        share = cost(best, without)
        words = _cost_words(without.simulation.variant)
        if share <= _NEGLIGIBLE:
            text = f"{at} by {item.algorithm}: {words} cost less than {percent_words(_NEGLIGIBLE)}"
            yield Finding("cost-on-the-network", "note", text)
        else:
            yield Finding(
                "cost-on-the-network",
                "look",
                f"{at} by {item.algorithm}: with {words}, it takes {longer_words(share)} without, "
                f"{time_words(best.time_s)} in place of {time_words(without.time_s)}",
                evidence=(Evidence.of("time_us", best.time_s, at, without.time_s),),
            )


def _holds(best: SimulationResult) -> str:
    """What determines the time; empty if other jobs do."""
    hot: HotLink | None = best.hottest[0] if best.hottest else None
    if hot is not None and hot.busy_s >= _HELD * best.time_s:
        level = next((one for one in best.levels if one.busiest.name == hot.name), None)
        others = f" and {level.equal - 1:,} more" if level and level.equal > 1 else ""
        verb = "are" if others else "is"
        return f"; {hot.name}{others} {verb} busy {percent_words(hot.busy_s / best.time_s)} of it"
    share = latency_s(best) / best.time_s
    return f"; latency is {percent_words(share)} of it" if share >= _HELD else ""


def _headline(results: Sequence[SimulationResult]) -> str:
    best = fastest(results)
    return "" if best is None else next(_findings(best, results)).sentence


def _titled(results: Sequence[SimulationResult]) -> str:
    """The topologies."""
    names = dict.fromkeys(one.simulation.topology for one in results)
    return f"Simulated collectives on {', '.join(map(plain, names))}"


def _inputs(results: Sequence[SimulationResult]) -> Iterator[tuple[str, str]]:
    if results:
        item = results[0].simulation
        yield from _facts(item)
        yield "ranks", f"{item.rank_count:,}, {item.placement}"


def _compared() -> ComputedFigures:
    """By what two runs are compared: the same operation, algorithm, size and variant."""
    fields = {one.key: one for one in FIELDS.all}
    return ComputedFigures(
        figures=[
            ComputedFigure(
                fields["time_us"],
                "time",
                lambda one: time_words(one.time_s) if one.is_measured else one.status,
                is_time=True,
            ),
            ComputedFigure(
                fields["busbw_gbps"], "bus bandwidth, GB/s", lambda one: _gbps(busbw_bps(one))
            ),
        ],
        key=lambda one: msgspec.structs.replace(
            one.simulation,
            topology="",
            devices=1,
            **{"rank_count": 1, "placement": "", "neighbours": (), "background": ()},
            **{"slow": (), "broken": (), "routing": "", "efficiency": 1.0, "node_efficiency": 1.0},
        ),
        words=lambda one: one.simulation.describe(),
        is_main=lambda one: not one.simulation.variant,
        inputs=_inputs,
        without_time="simulate layouts that the algorithm covers",
    )


REPORT = report_of_formulas(
    "simulations",
    "simulations",
    FIELDS,
    document_of_simulations,
    method_of_simulations,
    _compared(),
    headline=_headline,
    titled=_titled,
)
