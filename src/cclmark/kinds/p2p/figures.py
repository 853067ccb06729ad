"""What results of copies show: bandwidths, limits, copies that stand out, and matrices of them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from cclmark.analysis.outliers import least_factor, looked_at, outliers, times_mean_little
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.base.statistics import median, median_half_width
from cclmark.document.deviations import relative
from cclmark.document.device_labels import device_labels, of_several_kinds
from cclmark.document.text import BYTES_PER_GB, US_PER_S, counted, figure
from cclmark.journal.item_results import TransferResult
from cclmark.journal.schema import Header, Relation, TransferSamples, TransferSummary
from cclmark.journal.summaries import algorithm_bandwidth
from cclmark.work.sizes import format_size
from cclmark.work.transfers import LATENCY_BYTES, MESSAGE_LATENCY, Transfer

Pair = tuple[int, int]


def summarise_copies(transfer: Transfer, samples: TransferSamples) -> TransferSummary:
    """The median time of all flows together, and the bandwidths of all and of each flow."""
    slowest_s = [max(row) for row in samples.device_s]
    summary = TransferSummary(
        time_s=median(slowest_s),
        min_s=min(slowest_s),
        max_s=max(slowest_s),
        samples=len(slowest_s),
        call_s=median([max(row) for row in samples.call_s]) if samples.call_s else None,
        half_width=median_half_width(slowest_s),
        launch_s=median([max(row) for row in samples.launch_s]) if samples.launch_s else 0.0,
    )
    if transfer.measure != "latency":
        size_bytes = transfer.size_bytes
        by_flow = zip(*samples.device_s, strict=True)
        summary.flow_bytes_per_s = [
            algorithm_bandwidth(size_bytes, median(times)) for times in by_flow
        ]
        summary.bytes_per_s = algorithm_bandwidth(size_bytes * len(transfer.flows), summary.time_s)
    return summary


class LinkLimits:
    """The limits of the connections between devices, in bytes per second.

    Both directions of a link have a limit each. Copies between host devices share the bandwidth of
    the host's memory, whatever their directions.
    """

    def __init__(self, relations: Sequence[Relation]) -> None:
        self._of = {(one.first, one.second): one.limit_bytes_per_s for one in relations}
        self._in_memory = {(one.first, one.second) for one in relations if one.kind == "MEM"}
        self._routed = {(one.first, one.second) for one in relations if (one.hops or 0) > 1}

    def of(self, pair: Pair) -> float:
        """The limit from the first device to the second, 0 if unknown."""
        return self._of.get(pair, 0.0)

    def are_shared(self, flows: Sequence[Pair]) -> bool:
        """Whether routes of simultaneous flows are over links that other flows use."""
        if not self._routed or self._routed.isdisjoint(flows):
            return False
        return len({frozenset(flow) for flow in flows}) > 1

    def of_all(self, flows: Sequence[Pair]) -> float:
        """The limit of simultaneous flows, 0 if unknown."""
        if self.are_shared(flows):
            return 0.0
        limits = [self.of(flow) for flow in flows]
        return max(limits) if self._in_memory.issuperset(flows) else sum(limits)


def utilisation(result: TransferResult, limits: LinkLimits) -> float | None:
    """The share of the links' limit in the used directions; None if unknown."""
    if result.summary is None or not result.summary.bytes_per_s:
        return None
    allowed = allowed_bytes_per_s(result.transfer, result.transfer.flows, limits)
    return result.summary.bytes_per_s / allowed if allowed else None


def allowed_bytes_per_s(
    transfer: Transfer, flows: Sequence[Pair], limits: LinkLimits
) -> float | None:
    """The links' limit of ``flows``; None if unknown, or if flows share a device's links."""
    if transfer.scope not in ("pairs", "all-pairs"):
        return None
    return limits.of_all(flows) or None


@dataclass(frozen=True)
class Deviation:
    """A pair whose figure is far from those of other pairs with the same kind of link.

    ``value`` and ``usual`` (the median) are bytes per second, or seconds for a latency.
    """

    transfer: Transfer
    pair: Pair
    kind: str
    value: float
    usual: float

    @property
    def worse(self) -> bool:
        """Whether it is slower than usual."""
        if self.transfer.measure == "latency":
            return self.value > self.usual
        return self.value < self.usual


_Groups = dict[tuple[Transfer, str | None], list[tuple[TransferResult, Pair, float]]]


def _groups(results: Sequence[TransferResult], relations: Sequence[Relation]) -> _Groups:
    """The figures of each matrix and class of link, None for pairs with an unknown one."""
    kinds = {(one.first, one.second): f"{one.kind}, {one.hops} hops" for one in relations}
    groups: _Groups = defaultdict(list)
    for result in results:
        if result.transfer.scope not in ("pairs", "all-pairs"):
            continue  # the device determines the order of flows that begin together
        for pair, value in figures(result):
            if value > 0:  # zero: shorter than the clock's resolution
                groups[result.transfer.series(), kinds.get(pair)].append((result, pair, value))
    return groups


def deviations(results: Sequence[TransferResult], relations: Sequence[Relation]) -> list[Deviation]:
    """The pairs that stand out in a matrix and class of link, by ``outliers`` of all figures."""
    names = {(one.first, one.second): one.kind for one in relations}
    groups = [own for (_, kind), own in _groups(results, relations).items() if kind is not None]
    found = []
    of = looked_at(groups)
    for members in groups:
        usual, places = outliers([value for *_, value in members], of)
        for result, pair, value in (members[place] for place in places):
            if _is_beyond_doubt(result, value, usual):
                found.append(Deviation(result.transfer, pair, names[pair], value, usual))
    return found


def _is_beyond_doubt(result: TransferResult, value: float, usual: float) -> bool:
    """Whether a median that did not converge is further from the usual one than it is uncertain."""
    half = result.summary.half_width if result.summary is not None else None
    return result.converged or half is None or abs(math.log(value / usual)) > 2 * half


def wrong_flows(result: TransferResult) -> set[int]:
    """The numbers of the flows with wrong data."""
    findings = result.verification.findings if result.verification is not None else []
    return {finding.rank for finding in findings}


def figures(result: TransferResult) -> list[tuple[Pair, float]]:
    """The bandwidths or latency by pair, without wrong data, whose times have no meaning."""
    summary, transfer = result.summary, result.transfer
    if summary is None or transfer.host_memory:
        return []
    wrong = wrong_flows(result)
    if wrong and transfer.scope == "all-pairs":
        known = enumerate(zip(transfer.flows, summary.flow_bytes_per_s, strict=False))
        return [figure for number, figure in known if number not in wrong]
    if result.status == "wrong":
        return []
    if transfer.measure == "latency":
        return [(transfer.flows[0], summary.time_s)]
    if transfer.scope in ("pairs", "local"):
        return [(transfer.flows[0], summary.bytes_per_s)]
    # A result with an unknown measure may have no bandwidths.
    return list(zip(transfer.flows, summary.flow_bytes_per_s, strict=False))


@dataclass(frozen=True)
class Checks:
    """The numbers of transfers with an output, that were checked, and that were wrong.

    ``messages``: how many of the former are messages between hosts, the others are copies.
    ``unverifiable``: the number of latencies of loads and stores, which have no output to check.
    """

    copies: int
    messages: int
    checked: int
    wrong: int
    unverifiable: int


def checks_of(results: Sequence[TransferResult]) -> Checks:
    """Counts the results of a run."""
    copies = [one for one in results if one.transfer.has_output]
    return Checks(
        copies=len(copies),
        messages=sum(bool(one.transfer.ccl) for one in copies),
        checked=sum(one.verification is not None for one in results),
        wrong=sum(one.status == "wrong" for one in results),
        unverifiable=len(results) - len(copies),
    )


@dataclass(frozen=True)
class Outliers:
    """The pairs that stand out, the worst first and better ones last.

    ``compared``: the number of figures of classes of links with enough pairs for a usual value.
    ``rest``: of the other figures of pairs.
    """

    far: list[Deviation]
    compared: int
    rest: int = 0

    @property
    def worse(self) -> list[Deviation]:
        """The pairs that are slower than usual."""
        return [one for one in self.far if one.worse]


def outliers_of(results: Sequence[TransferResult], header: Header) -> Outliers:
    """The pairs far from others with the same kind of link; none if the times mean little."""
    if times_mean_little(header):
        return Outliers([], compared=0)
    groups = _groups(results, header.relations)
    compared = looked_at(own for (_, kind), own in groups.items() if kind is not None)
    least = least_factor(header)
    found = deviations(results, header.relations)
    far = sorted(
        (one for one in found if max(one.value / one.usual, one.usual / one.value) >= least),
        key=lambda one: (not one.worse, min(one.value / one.usual, one.usual / one.value)),
    )
    return Outliers(far, compared, sum(map(len, groups.values())) - compared)


CellPlace = tuple[str, str]

_LATENCY_MEANING = {
    "copy": "time of one copy of 16 bytes among others behind each other, by the device's clock",
    "chase": "time of one load of 8 bytes that waits for the one before, the mean over all "
    "multiprocessors",
    "ping-pong": "half a round trip: a store of 4 bytes until the other device sees it",
    "half-round-trip": "half the time of a message and its answer",
    "round-trip": "the time of a read until its data has arrived",
}
# A host device copies within the call, and 16 bytes stay in the caches.
LATENCY_OF_HOST_COPIES = (
    "mean time of a call that copies 16 bytes, many calls in a row, by the host's clock; a host "
    "device copies within the call, and the data stay in its caches: -p latency -t SM "
    "--latency-method ping-pong measures the latency between processors"
)
_CALL_MEANING_ON_HOST = "the same calls: a host device copies within the call"
_ABOVE_MEMORY = (
    "the limit is the bandwidth of the host's memory, and data that stay in the caches of the "
    "processors are copied faster: increase the size (-b)"
)
_ABOVE_LINKS = "the limit is that of the links that the driver reports, too few for these pairs"
WRONG = "WRONG"
NOT_MEASURED = "-"  # because another pair hung
CALL_MEANING = "time of the host in the call that starts one copy"


@dataclass(frozen=True)
class MatrixCell:
    """A cell of a matrix: the value in the matrix's unit, or the reason why there is none."""

    value: float | None
    pair: Pair
    result: TransferResult
    note: str = ""

    @property
    def judged_pair(self) -> Pair:
        """The pair by which a deviation names the cell: both cells of a mutual message have one."""
        transfer = self.result.transfer
        return transfer.flows[0] if transfer.is_mutual else self.pair

    @property
    def ccl(self) -> str:
        """The library whose message was measured, empty for a copy."""
        return self.result.transfer.ccl


@dataclass
class Matrix:
    """A matrix of one figure. ``figure``: bandwidth, utilisation, latency or call.

    ``between_hosts``: what measured the pairs on different hosts, if the matrix has such cells
    besides those of ``series``; ``has_copies``: and copies. ``on_host``: devices are processors.
    """

    series: Transfer
    figure: str
    rows: list[str]
    columns: list[str]
    cells: dict[CellPlace, MatrixCell] = field(default_factory=dict)
    between_hosts: str = ""
    has_copies: bool = False
    on_host: bool = False

    @property
    def unit(self) -> str:
        """The unit of the values."""
        return {"bandwidth": "GB/s", "utilisation": "%"}.get(self.figure, "µs")

    @property
    def title(self) -> str:
        """The measured figure and its conditions, in words."""
        series = self.series
        what = {
            "bandwidth": "bandwidth",
            "utilisation": "share of the link limit",
            "latency": "latency",
            "call": "time of the host's call",
        }[self.figure]
        words = [f"{series.measure} {what}" if series.measure != "latency" else what]
        if series.scope != "pairs":
            words.append(_SCOPE_WORDS.get(series.scope, series.scope))
        words += [] if series.scope == "host" or series.ccl else [series.direction]
        words.append(series.means)
        if series.blocks:
            words.append(f"{series.blocks} block{'s' * (series.blocks > 1)}")
        if not series.peer_access:
            words.append("peer access off, staged through the host")
        if series.measure != "latency" or series.size_bytes != LATENCY_BYTES:
            words.append(format_size(series.size_bytes))
        if series.offset_bytes:
            words.append(f"offset {format_size(series.offset_bytes)}")
        return ", ".join(words)

    @property
    def above_limit(self) -> str:
        """The reason for shares of the link limit above 100 %; empty for none."""
        if self.figure != "utilisation":
            return ""
        percents = [one.value for one in self.cells.values() if one.value is not None]
        return above_limit_text(percents, on_host=self.on_host)

    @property
    def meaning(self) -> str:
        """The direction of the data, or the definition of the latency."""
        if not self.between_hosts:
            return self._meaning
        between = f"between hosts: {self.between_hosts}"
        if self.series.measure == "latency":
            between += f", {_LATENCY_MEANING[MESSAGE_LATENCY]}"
        return f"{self._meaning}; {between}"

    @property
    def _meaning(self) -> str:
        series = self.series
        if self.figure == "call":
            return _CALL_MEANING_ON_HOST if self.on_host else CALL_MEANING
        if series.measure == "latency":
            is_mutual = series.method in ("ping-pong", MESSAGE_LATENCY)
            way = "" if is_mutual else f"; {_way(series)}"
            if self.on_host and series.method == "copy":
                return LATENCY_OF_HOST_COPIES + way
            return _LATENCY_MEANING.get(series.method, series.method) + way
        if series.measure == "bidirectional" and series.scope == "pairs":
            verb = "write to" if series.direction == "write" else "read from"
            verb = "send to" if series.ccl else verb
            return f"row and column {verb} each other at once; both directions together"
        at_once = ", all pairs of a round at once" if series.scope == "all-pairs" else ""
        meaning = _SCOPE_MEANING.get((series.scope, series.measure == "bidirectional"))
        return _way(series) + at_once if meaning is None else meaning


# By the scope, and whether copies are in both directions.
_SCOPE_MEANING = {
    ("host", False): "",
    ("host", True): "from and to the host at once; both directions together",
    ("local", False): "",
    ("all-to-one", False): "all others send to the column's device at once: the sum",
    ("all-to-one", True): "all others send to the column's device at once, and back: the sum",
    ("one-to-all", False): "the column's device sends to all others at once: the sum",
    ("one-to-all", True): "the column's device sends to all others at once, and back: the sum",
}
_SCOPE_WORDS = {
    "local": "within a device",
    "host": "device and host",
    "all-to-one": "all to one",
    "one-to-all": "one to all",
    "all-pairs": "all pairs at once",
}


def _row_of(series: Transfer) -> str:
    """Returns the name of the single row of a matrix with many simultaneous flows."""
    return series.scope.replace("-", " ")


def _way(series: Transfer) -> str:
    if series.ccl:
        return "rows send: data goes from the row's device to the column's"
    if series.direction == "write":
        return "rows write: data goes from the row's device to the column's"
    return "rows read: data goes from the column's device to the row's"


class MatrixCollector:
    """Sorts results into matrices.

    Results of one matrix must be adjacent, except in runs on several hosts: there all hosts measure
    at the same time, and messages between hosts belong to the matrices of the copies within them.
    """

    def __init__(self, header: Header, *, shares: bool) -> None:
        """``shares``: also create a matrix of shares of the link limit."""
        self._names = device_labels(header.devices)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._is_triangle = header.settings.triangle
        self._is_mixed = of_several_kinds(header.devices)
        self._limits = LinkLimits(header.relations)
        self._shares = shares
        self._on_host = is_on_host(header)
        self._is_across_hosts = len({device.host for device in header.devices}) > 1
        self._results: list[TransferResult] = []

    def add(self, result: TransferResult) -> list[Matrix]:
        """Adds a result; returns the previous matrices if it belongs to another one."""
        begins = self._results and series_of(self._results[0]) != series_of(result)
        finished = self.finish() if begins and not self._is_across_hosts else []
        self._results.append(result)
        return finished

    def finish(self) -> list[Matrix]:
        """Returns the matrices of the results added since the last complete ones."""
        results, self._results = self._results, []
        if not results:
            return []
        if not self._is_across_hosts:
            return self._matrices_of(results)
        by_series = by_key(
            (series_of(result), result) for result in sorted(results, key=lambda one: one.index)
        )
        matrices = [matrix for own in by_series.values() for matrix in self._matrices_of(own)]
        within = [one for one in matrices if not one.series.ccl]
        between = [one for one in matrices if one.series.ccl]
        merged = [one for one in between if self._merge(one, within)]
        for one in between:
            one.cells = {place: cell for place, cell in one.cells.items() if self._is_shown(place)}
        return [one for one in matrices if not any(one is other for other in merged)]

    def _is_shown(self, place: CellPlace) -> bool:
        """Whether a message has this place in a matrix: in a triangle, above the diagonal."""
        row, column = place
        return not self._is_triangle or self._numbers[row] < self._numbers[column]

    def _merge(self, messages: Matrix, within: Sequence[Matrix]) -> bool:
        """Adds messages between hosts to matrices of the same measure, if there are any.

        A copy between hosts that was measured keeps its place. Returns whether all messages have a
        place in them.
        """
        found, replaced = False, True
        for matrix in within:
            ours, theirs = matrix.series, messages.series
            if (ours.scope, ours.measure, ours.size_bytes, matrix.figure) != (
                *(theirs.scope, theirs.measure, theirs.size_bytes),
                messages.figure,
            ):
                continue
            found = True
            for (row, column), cell in messages.cells.items():
                place = (row, column) if ours.direction == "write" else (column, row)
                copied = matrix.cells.get(place)
                if copied is not None and copied.result.status != "skipped":
                    replaced, matrix.has_copies = False, True
                elif self._is_shown(place):
                    matrix.cells[place] = cell
                    matrix.between_hosts = theirs.means
        return found and replaced

    def _matrices_of(self, results: Sequence[TransferResult]) -> list[Matrix]:
        series = series_of(results[0])
        rows, columns = self._axes(series, results)
        wanted = ["bandwidth"] if series.measure != "latency" else ["latency"]
        if series.measure == "latency" and series.method == "copy":
            wanted.append("call")
        if self._shares and series.measure != "latency" and series.scope in ("pairs", "all-pairs"):
            wanted.append("utilisation")
        matrices = [
            Matrix(series, figure, rows, columns, on_host=self._on_host) for figure in wanted
        ]
        for matrix in matrices:
            for result in results:
                for place, pair, value in self._values(matrix.figure, result):
                    matrix.cells[place] = MatrixCell(
                        value, pair, result, note_of_flow(result, pair)
                    )
        return matrices

    def _axes(
        self, series: Transfer, results: Sequence[TransferResult]
    ) -> tuple[list[str], list[str]]:
        """Returns the names of rows and columns: all devices, of several kinds only those used."""
        names = self._names
        if self._is_mixed:
            flows = [flow for result in results for flow in result.transfer.flows]
            names = [names[number] for number in sorted({end for flow in flows for end in flow})]
        if series.scope in ("pairs", "all-pairs"):
            return names, names
        if series.scope == "host":
            return [], names  # rows are added as results arrive
        return [_row_of(series)], names

    def _values(
        self, figure: str, result: TransferResult
    ) -> list[tuple[CellPlace, Pair, float | None]]:
        transfer = result.transfer
        summary = result.summary
        if transfer.scope in ("pairs", "all-pairs"):
            known = dict(figures(result))
            flows = transfer.flows
            if transfer.is_mutual:
                start, end = flows[0]
                flows = ((start, end), (end, start))
            elif transfer.scope == "pairs":
                flows = flows[:1]
            found = []
            for flow in flows:
                row, column = transfer.row_and_column(flow)
                known_value = known.get(flow, known.get(flows[0]) if transfer.ccl else None)
                value = self._value(figure, result, known_value, flow)
                found.append(((self._names[row], self._names[column]), flow, value))
            return found
        value = None
        if summary is not None:
            value = self._value(
                figure,
                result,
                summary.time_s if transfer.measure == "latency" else summary.bytes_per_s,
                transfer.flows[0],
            )
        row_name = _row_of(transfer)
        column = transfer.flows[0][1]
        if transfer.scope == "one-to-all":
            column = transfer.flows[0][0]
        if transfer.scope == "host":
            far = "" if transfer.numa in ("", "near") else " far"
            there, here = f"{transfer.host_memory}{far} host", "device"
            both = transfer.measure == "bidirectional"
            ends = (here, there) if both or transfer.to_host else (there, here)
            row_name = f" {'↔' if both else '→'} ".join(ends)
        return [((row_name, self._names[column]), transfer.flows[0], value)]

    def _value(
        self, figure: str, result: TransferResult, value: float | None, flow: Pair
    ) -> float | None:
        if value is None:
            return None
        if figure == "bandwidth":
            return value / BYTES_PER_GB
        if figure == "latency":
            return value * US_PER_S
        if figure == "call":
            summary = result.summary
            return None if summary is None or summary.call_s is None else summary.call_s * US_PER_S
        if result.transfer.scope == "pairs":
            share = utilisation(result, self._limits)
        else:
            is_shared = self._limits.are_shared(result.transfer.flows)
            limit = 0.0 if is_shared else self._limits.of(flow)
            share = value / limit if limit else None
        return None if share is None else share * 100


def above_limit_text(percents: Sequence[float], *, on_host: bool) -> str:
    """Returns the reason for shares above 100 %; empty for none. ``on_host``: of processors."""
    above = [one for one in percents if one > 100]
    if not above:
        return ""
    text = (
        f"{len(above)} of {counted(len(percents), 'share')} of the link limit exceed 100 %, up to "
        f"{figure(max(above))} %: "
    )
    return text + (_ABOVE_MEMORY if on_host else _ABOVE_LINKS)


def is_on_host(header: Header) -> bool:
    """Whether all devices are processors."""
    return bool(header.devices) and all(one.runtime == "host" for one in header.devices)


def series_of(result: TransferResult) -> Transfer:
    """Returns the common properties of all results of one matrix."""
    series = result.transfer.series()
    if series.scope == "host":
        return msgspec.structs.replace(series, host_memory="", to_host=False, numa="")
    return series


def missing_figures(results: Sequence[TransferResult]) -> list[str]:
    """Returns why cells have no figure: their text, the number of such transfers, the reason."""
    counts = Counter((note(one), one.reason) for one in results if one.summary is None)
    return [
        f"{text}: {number} of {counted(len(results), 'transfer')}: {plain(reason)}"
        for (text, reason), number in counts.items()
    ]


def note_of_flow(result: TransferResult, flow: Pair) -> str:
    """Returns the note on one pair of several measured together, if it concerns that pair."""
    if result.transfer.scope != "all-pairs" or result.status not in ("wrong", "timeout"):
        return note(result)
    number = result.transfer.flows.index(flow)
    if result.status == "wrong":
        return note(result) if number in wrong_flows(result) else ""
    return note(result) if number in result.hung else NOT_MEASURED


def note(result: TransferResult) -> str:
    """Returns the text of a cell for a result that is not ok."""
    if result.status == "ok":
        return ""
    return {"skipped": "n/a", "timeout": "hung", "wrong": WRONG}.get(result.status, result.status)


def deviation_text(one: Deviation, names: Sequence[str]) -> str:
    """Describes a copy that stands out: the measured value and the usual one."""
    latency = one.transfer.measure == "latency"
    scale, unit = (US_PER_S, "µs") if latency else (1 / BYTES_PER_GB, "GB/s")
    start, end = (names[rank] for rank in one.pair)
    share = relative(one.value, one.usual, lower_is_better=latency)
    return (
        f"{start} → {end}: {figure(one.value * scale)} {unit}, usual for {one.kind} "
        f"{figure(one.usual * scale)} {unit} ({share}): {series_title(one.transfer.series())}"
    )


def series_title(series: Transfer) -> str:
    """Describes the series, as the heading of its matrix."""
    figure_of = "latency" if series.measure == "latency" else "bandwidth"
    return Matrix(series, figure_of, [], []).title


def checks_text(checks: Checks) -> str:
    """Returns the number of checked transfers, and of results without an output to check."""
    what = "copies"
    if checks.messages:
        what = "messages" if checks.messages == checks.copies else "copies and messages"
    text = f"{checks.checked} of {checks.copies} {what} checked, {checks.wrong} wrong"
    if not checks.unverifiable:
        return text
    latencies = "latency" if checks.unverifiable == 1 else "latencies"
    return f"{text}; {checks.unverifiable} {latencies} of loads and stores have no output to check"
