"""What a run of memory says, and the fields of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TypeAlias, cast

from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Document,
    Evidence,
    Finding,
    HeadFigure,
    RunContent,
    Table,
    without_empty_columns,
)
from cclmark.document.case_fields import CASE_LABELS, case_fields, status_fields
from cclmark.document.columns import Cell
from cclmark.document.fields import Field, Fields
from cclmark.document.insight_words import amount, listed
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import RunLabels, Series
from cclmark.document.remarks import ending, reason_text
from cclmark.document.report_kind import ReportKind
from cclmark.document.soundness import wrong_data
from cclmark.document.text import counted, ranks_text
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header
from cclmark.kinds.memory.figures import (
    ALLOCATED,
    EARLIER,
    GIVEN_BACK,
    HOST_PIECE,
    LIBRARY_STAGES,
    alike,
    changed_meanwhile,
    expected_of,
    hccl_test_host_bytes,
    listed_bytes,
    on_host,
    same_buffers,
    sharing_devices,
    stage_called,
    stated_total,
    taken_by_library,
    taken_in,
)
from cclmark.kinds.memory.result import MemoryBuffer, MemoryResult, MemoryStage
from cclmark.work.operations import DTYPE_BYTES
from cclmark.work.sizes import format_size, in_ranges

_PAGES_NOTE = (
    "Host memory of a process: RSS counts every resident page in full, PSS divides a page by the "
    "number of processes that share it. Sums over ranks are sums of PSS."
)
_DEVICE_NOTE = (
    "Device memory is the change of the device's free memory, so it contains changes that other "
    "processes cause during a stage."
)
_MOST_GROUPS = 8
_MOST_ROWS = 32
#: A sentence with the figures that it states.
_Sentence: TypeAlias = tuple[str, tuple[Evidence, ...]]
_HOST_PLACES = ("host", "shared host", "pinned host")
# The columns with the side on which they are aligned.
_STAGES = {
    **{"stage": "<", "owner": "<", "device": ">", "RSS": ">", "shared": ">", "PSS": ">"},
    "library reports": ">",
}
_BUFFERS = {
    **{"ranks": "<", "buffer": "<", "owner": "<", "place": "<", "allocated": ">", "used": ">"},
    "elements": ">",
}
_VALUES = {"ranks": "<", "buffer": "<", "address": "<", "begins with": "<"}


@dataclass(frozen=True)
class _Entry:
    """A result, or a stage or a buffer of it. ``on_host``: whether its rank computes there.

    A rank of the host has no memory of a device: the free memory is that of the whole host.
    """

    result: MemoryResult
    on_host: bool
    stage: MemoryStage | None = None
    buffer: MemoryBuffer | None = None


def _entries(header: Header, result: MemoryResult) -> Iterator[_Entry]:
    host = on_host(result, header.devices)
    yield from (_Entry(result, host, stage=stage) for stage in result.stages)
    yield from (_Entry(result, host, buffer=buffer) for buffer in result.buffers)


def _name(entry: _Entry) -> Cell:
    if entry.stage is not None:
        return entry.stage.name
    return None if entry.buffer is None else entry.buffer.purpose


def _of_stage(
    key: str,
    help: str,
    of: Callable[[MemoryStage], int | None],
    *,
    on_device: bool = False,
    gauge: str = "",
) -> Field:
    def value(entry: _Entry) -> Cell:
        if entry.stage is None or (on_device and entry.on_host):
            return None
        return of(entry.stage)

    return Field(key, help, value, "int", gauge=gauge)


def _of_library(result: MemoryResult, name: str) -> int:
    return sum(getattr(one, name) for one in taken_by_library(result).values())


def _on_device(key: str, help: str, of: Callable[[MemoryResult], int | None]) -> Field:
    return Field(key, help, lambda one: None if one.on_host else of(one.result), "int")


def _given_back_bytes(result: MemoryResult) -> int | None:
    end = stage_called(result, GIVEN_BACK)
    return None if end is None else -taken_in(end).device_bytes


def _stated_bytes(entry: _Entry) -> int | None:
    stated = (stated_total(stage) for stage in entry.result.stages)
    return max((one for one in stated if one is not None), default=None)


_OF_RESULT = (
    *case_fields("result.memory.case"),
    Field("rank", "Rank whose process holds the memory.", "result.memory.rank", "int"),
    *status_fields(lambda one: reason_text(one.result), "result.status"),
)
# A row for each stage, then one for each buffer.
FIELDS = Fields(
    [
        *_OF_RESULT,
        Field(
            "entry",
            "stage or buffer.",
            lambda one: "buffer" if one.stage is None else "stage",
            "text",
        ),
        Field("name", "The stage, or the purpose of the buffer.", _name, "text"),
        Field(
            "owner",
            "Who allocated: library or cclmark.",
            lambda one: (one.stage or one.buffer).owner,
            "text",
        ),
        _of_stage(
            "device_bytes",
            "Decrease of the device's free memory in a stage; negative where memory became free.",
            lambda one: taken_in(one).device_bytes,
            on_device=True,
            gauge="device_taken_bytes",
        ),
        _of_stage(
            "device_free_bytes",
            "Free memory of the device after a stage; empty for ranks of the host.",
            attrgetter("after.device_free_bytes"),
            on_device=True,
        ),
        _of_stage(
            "rss_bytes",
            "Growth of the resident memory of the rank's process in a stage.",
            lambda one: taken_in(one).rss_bytes,
            gauge="resident_taken_bytes",
        ),
        _of_stage(
            "shared_bytes",
            "Growth of the shared resident memory of the rank's process.",
            lambda one: taken_in(one).shared_bytes,
        ),
        _of_stage(
            "pss_bytes",
            "Growth of the memory of the process, shared pages divided by their users (PSS).",
            lambda one: taken_in(one).pss_bytes,
        ),
        _of_stage(
            "stated_bytes",
            "Device memory that the library itself reports after a stage.",
            stated_total,
            gauge="stated_bytes",
        ),
        Field("place", "Memory that the buffer is in.", "buffer.place", "text"),
        Field("allocated_bytes", "Bytes of the buffer.", "buffer.size_bytes", "int"),
        Field(
            "used_bytes", "What one operation reads or writes of it.", "buffer.used_bytes", "int"
        ),
        Field(
            "first_values",
            "First elements of an input, or those expected in an output.",
            "buffer.first_values",
            "text",
        ),
        Field("address", "Virtual address in the process of the rank.", "buffer.address", "text"),
        Field(
            "mapped",
            "Whether another process allocated it.",
            lambda one: None if one.buffer is None else one.buffer.mapped,
            "bool",
        ),
    ],
    rows=_entries,
    gauges="cclmark_memory",
    labels=(*CASE_LABELS, "rank", "name", "owner"),
)
# On pages, a row for each rank and case.
_OF_PAGE = Fields(
    [
        *_OF_RESULT,
        _on_device(
            "library_device_bytes",
            "Device memory that the library took.",
            lambda one: _of_library(one, "device_bytes"),
        ),
        Field(
            "library_rss_bytes",
            "Growth of the resident memory of the process in the library's stages.",
            lambda one: _of_library(one.result, "rss_bytes"),
            "int",
        ),
        _on_device(
            "given_back_device_bytes",
            "Device memory that the library gave back at the end.",
            _given_back_bytes,
        ),
        Field(
            "stated_bytes", "Device memory that the library itself reports.", _stated_bytes, "int"
        ),
        _on_device(
            "buffers_device_bytes",
            "Device memory in buffers.",
            lambda one: listed_bytes(one.buffers, "device"),
        ),
        Field(
            "buffers_host_bytes",
            "Memory of the host in buffers.",
            lambda one: sum(listed_bytes(one.result.buffers, place) for place in _HOST_PLACES),
            "int",
        ),
    ],
    rows=lambda header, result: [_Entry(result, on_host(result, header.devices))],
)


def _measure(series: Series, result: MemoryResult, run: RunLabels) -> None:
    """Sets the gauges of one rank and case, for each stage."""
    on_host = result.memory.rank in run.host_ranks
    for stage in result.stages:
        FIELDS.measure(series, _Entry(result, on_host, stage=stage), run)


def document_of_memory(run: RunContent) -> Document:
    """Composes everything that a run says."""
    results = cast("Sequence[MemoryResult]", run.results)
    header, footer = run.header, run.footer
    cases = _cases_of(results)
    wrong = dict.fromkeys(one.memory.case for one in results if one.status == "wrong")
    on_devices = not all(on_host(one, header.devices) for one in results)
    return Document(
        "Memory",
        method_of_memory(header),
        [table for case in cases for table in _tables(case, header)],
        [
            *(Finding("wrong-data", "bad", f"wrong data in {case.describe()}") for case in wrong),
            *(finding for case in cases for finding in _findings(case, header)),
        ],
        "" if footer is None or footer.message else ending(footer),
        bool(footer and footer.exit_code),
        [_DEVICE_NOTE] * on_devices + [_PAGES_NOTE] * bool(results),
        head_figures=[*_head_figures(cases[-1], header)] if cases else [],
    )


def _head_figures(results: Sequence[MemoryResult], header: Header) -> Iterator[HeadFigure]:
    """What the library and cclmark take of the devices' memory, unless others change it too."""
    measured = [one for one in results if one.is_measured]
    hosts = [one for one in measured if on_host(one, header.devices)]
    if not measured or len(measured) > len(hosts) > 0:
        return
    at = f"per rank, {measured[0].memory.case.describe()}"
    if hosts:
        changes, name = _host_growth(hosts)
        yield from _sizes(f"{name} of {plain(hosts[0].memory.ccl)}", changes, at)
        buffers = [sum(listed_bytes(it.buffers, place) for place in _HOST_PLACES) for it in hosts]
        yield from _sizes("buffers of all", buffers, "per rank, shared ones in each")
        return
    if not sharing_devices(header.devices) and not any(map(changed_meanwhile, measured)):
        ccl = plain(measured[0].memory.ccl)
        taken = [_of_library(one, "device_bytes") for one in measured]
        yield from _sizes(f"device memory of {ccl}", taken, at)
        back = [_given_back_bytes(one) for one in measured]
        if known := [one for one in back if one is not None]:
            yield from _sizes("given back at the end", known, "per rank")
    own = [[one for one in result.buffers if one.owner == "cclmark"] for result in measured]
    yield from _sizes("buffers of cclmark", [listed_bytes(one, "device") for one in own], at)


def _sizes(label: str, sizes_bytes: Sequence[int], note: str) -> Iterator[HeadFigure]:
    """The largest size; none where memory became free."""
    if min(sizes_bytes) >= 0:
        value, unit = format_size(max(sizes_bytes)).split()
        most = "at most, " * (min(sizes_bytes) < max(sizes_bytes))
        yield HeadFigure(label, value, unit, f"{most}{note}")


def method_of_memory(header: Header) -> str:
    """Describes in a line how the memory was read."""
    check = "outputs checked" if header.settings.check else "outputs not checked"
    return f"free memory and the process's memory before and after each stage, {check}"


def _cases_of(results: Iterable[MemoryResult]) -> list[list[MemoryResult]]:
    """Returns the results of each case, by rank."""
    cases = by_key((one.memory.case, one) for one in results)
    return [sorted(some, key=lambda one: one.memory.rank) for some in cases.values()]


def _tables(results: Sequence[MemoryResult], header: Header) -> Iterator[Table]:
    """The stages of each group of equal ranks of a case, then the buffers of all."""
    case = results[0].memory.case
    title = f"{case.describe()} · {plain(case.ccl)}, {counted(case.ranks, 'rank')}"
    groups = [group for group in alike(results, header.devices) if group[0].stages]
    shown = groups[:_MOST_GROUPS]
    more = sum(len(group) for group in groups[_MOST_GROUPS:])
    for number, group in enumerate(shown, start=1):
        ranks = ranks_text(one.memory.rank for one in group)
        notes = [f"{more} more ranks, each different: see the journal"] if more else []
        rows = _stage_rows(group, header)
        yield _table(f"stages of {ranks}: {title}", _STAGES, rows, notes * (number == len(shown)))
    values = "first values (of outputs: those expected)"
    for name, columns, rows in (
        ("buffers", _BUFFERS, _buffer_rows(results)),
        (values, _VALUES, _value_rows(results)),
    ):
        more = len(rows) - _MOST_ROWS
        notes = [f"{more} more rows: see the journal"] if more > 0 else []
        yield from [_table(f"{name}: {title}", columns, rows[:_MOST_ROWS], notes)] * bool(rows)


def _table(
    title: str, columns: Mapping[str, str], rows: Sequence[Sequence[str]], notes: Sequence[str]
) -> Table:
    heads = [*columns]
    optional = [heads.index("shared")] if "shared" in columns else []
    sides = "".join(columns.values())
    return without_empty_columns(Table(title, heads, rows, sides, notes, optional=optional))


def _stage_rows(group: Sequence[MemoryResult], header: Header) -> list[list[str]]:
    """The stages of equal ranks. Host memory is given as a range."""
    host = on_host(group[0], header.devices)
    rows = []
    for stages in zip(*(one.stages for one in group), strict=True):
        taken = [taken_in(stage) for stage in stages]
        pss = [one.pss_bytes for one in taken if one.pss_bytes is not None]
        total = stated_total(stages[0])
        rows.append(
            [
                stages[0].name,
                stages[0].owner,
                "" if host else signed_size(taken[0].device_bytes),
                _span((one.rss_bytes for one in taken), signed_size),
                _span((one.shared_bytes for one in taken), signed_size),
                _span(pss, signed_size) if len(pss) == len(taken) else "-",
                "" if total is None else format_size(total),
            ]
        )
    return rows


def _buffer_rows(results: Sequence[MemoryResult]) -> list[list[str]]:
    dtype = results[0].memory.case.dtype
    rows = []
    for same in same_buffers(results):
        one = same.buffer
        number = f"{same.number} × " if same.number > 1 else ""
        rows.append(
            [
                in_ranges(sorted(same.ranks)),
                plain(one.purpose) + (" (mapped)" if one.mapped else ""),
                one.owner,
                one.place,
                number + format_size(one.size_bytes),
                format_size(one.used_bytes) if one.used_bytes else "",
                f"{one.used_bytes // DTYPE_BYTES[dtype]:,}" if one.used_bytes else "",
            ]
        )
    return rows


def _value_rows(results: Sequence[MemoryResult]) -> list[list[str]]:
    """The contents of each buffer, a row for all ranks that have the same; addresses of few."""
    few = len(results) <= _MOST_GROUPS
    found = by_key(
        ((one.purpose, one.address if few else "", one.first_values), result.memory.rank)
        for result in results
        for one in result.buffers
        if one.first_values
    )
    return [
        [in_ranges(sorted(ranks)), *map(plain, key)]
        for key, ranks in sorted(found.items(), key=lambda item: (item[0][0], item[1]))
    ]


def _findings(results: Sequence[MemoryResult], header: Header) -> Iterator[Finding]:
    """What there is to say about a case."""
    case = results[0].memory.case
    subject = case.describe()
    for one in results:
        if one.status == "wrong" and one.verification is not None:
            wrong, at = one.verification.wrong, f"rank {one.memory.rank}"
            text = f"{at}: {wrong} wrong elements in the output"
            yield replace(wrong_data(text, wrong, f"{subject}, {at}"), subject=subject)
    reasons = by_key(
        (f"{one.status}: {one.reason}", one.memory.rank) for one in results if not one.is_measured
    )
    for reason, ranks in reasons.items():
        yield Finding("not-measured", "look", f"{ranks_text(ranks)}: {plain(reason)}", subject)
    if absent := {*range(case.ranks)} - {one.memory.rank for one in results}:
        yield Finding("not-measured", "look", f"{ranks_text(absent)} reported nothing", subject)
    for sentence, figures in memory_sentences(results, header):
        yield Finding("memory-of-library", "note", sentence, subject, evidence=figures)


def signed_size(size_bytes: int) -> str:
    """Formats a change: +4 MiB, -4 MiB, 0 B."""
    sign = "+" if size_bytes > 0 else "-" if size_bytes < 0 else ""
    return sign + format_size(abs(size_bytes))


def _span(sizes_bytes: Iterable[int], text: Callable[[int], str] = format_size) -> str:
    """Formats sizes of several ranks: one size, or the smallest to the largest in its unit."""
    ordered = sorted(sizes_bytes)
    first, last = map(text, (ordered[0], ordered[-1]))
    unit = last.partition(" ")[2]
    return last if first == last else f"{first.removesuffix(f' {unit}')} to {last}"


def memory_sentences(results: Sequence[MemoryResult], header: Header) -> list[_Sentence]:
    """Returns sentences on the ranks of one case, each with its figures. Safe to print."""
    devices = header.devices
    measured = [one for one in results if one.is_measured]
    if not measured:
        return []
    on_devices = [one for one in measured if not on_host(one, devices)]
    ccl = plain(measured[0].memory.ccl)
    lines: list[_Sentence] = []
    if on_devices:
        lines += _at_first(on_devices, header)
        lines.append(_of_devices(on_devices, ccl))
        lines += _of_expectation(on_devices, header, ccl)
        lines += _given_back(on_devices, ccl)
        lines += _of_buffers(on_devices)
    if hosts := [one for one in measured if on_host(one, devices)]:
        lines.append(_of_host(hosts, ccl))
    lines += _of_host_check(measured)
    lines += _of_statement(measured)
    lines += _of_others(on_devices, header)
    return lines


def _ends(
    name: str, ranks: Iterable[int], sizes_bytes: Sequence[int], limit_bytes: int | None = None
) -> tuple[Evidence, ...]:
    """The smallest and the largest size of several ranks, once if all are equal."""
    by_size = dict(zip(sizes_bytes, ranks, strict=True))
    ends = sorted({min(by_size), max(by_size)})
    return tuple(Evidence.of(name, one, f"rank {by_size[one]}", limit_bytes) for one in ends)


def _at_first(results: Sequence[MemoryResult], header: Header) -> list[_Sentence]:
    own = [it.memory.rank for it in results if it.stages]
    whole = [device.memory_bytes for device in header.devices if device.rank in own]
    free = [it.stages[0].before.device_free_bytes for it in results if it.stages]
    if not whole or not free:
        return []
    text = (
        f"Before the library is loaded, {_span(free)} of {_span(whole)} of device memory are free"
    )
    if min(free) < max(whole):
        text += ": the runtime's context and other processes use the rest"
    return [(f"{text}.", _ends("device_free_bytes", own, free))]


def _of_devices(results: Sequence[MemoryResult], ccl: str) -> _Sentence:
    every = [taken_by_library(it) for it in results]
    whole = [sum(one.device_bytes for one in taken.values()) for taken in every]
    stages = []
    for name in LIBRARY_STAGES:
        taken = [one[name].device_bytes for one in every if name in one]
        stages += [f"{name} {_span(taken, signed_size)}"] if taken else []
    taken_text = _change_text(
        whole,
        f"{ccl} takes {{}} of device memory per rank",
        f"with {ccl}, the free device memory grows by {{}} per rank",
        f"with {ccl}, the used device memory changes by {{}} per rank",
    )
    text = f"{taken_text} (measured{': ' if stages else ''}{', '.join(stages)})."
    return text, _ends("library_device_bytes", _ranks(results), whole)


def _ranks(results: Sequence[MemoryResult]) -> list[int]:
    return [one.memory.rank for one in results]


def _change_text(
    sizes_bytes: Iterable[int],
    growing: str,
    shrinking: str,
    mixed: str,
) -> str:
    """Describes changes of several ranks, without negative sizes if all have one direction.

    ``growing``, ``shrinking`` and ``mixed``: the words, with ``{}`` in place of the sizes.
    """
    sizes = list(sizes_bytes)
    if min(sizes) >= 0:
        return growing.replace("{}", _span(sizes))
    if max(sizes) <= 0:
        return shrinking.replace("{}", _span([-one for one in sizes]))
    return mixed.replace("{}", _span(sizes, signed_size))


def _host_growth(results: Sequence[MemoryResult]) -> tuple[list[int], str]:
    """The growth of the processes and its name: PSS, or RSS if PSS is unknown."""
    totals = [taken_by_library(one).values() for one in results]
    pss = [[one.pss_bytes for one in taken if one.pss_bytes is not None] for taken in totals]
    if all(len(known) == len(taken) for known, taken in zip(pss, totals, strict=True)):
        return [sum(known) for known in pss], "PSS"
    return [sum(one.rss_bytes for one in taken) for taken in totals], "RSS"


def _of_host(results: Sequence[MemoryResult], ccl: str) -> _Sentence:
    changes, figure = _host_growth(results)
    text = _change_text(
        changes,
        "grows by {}",
        "shrinks by {}",
        "changes by {}",
    )
    earlier = [taken_by_library(one).get(EARLIER) for one in results]
    kept = [one.pss_bytes if figure == "PSS" else one.rss_bytes for one in earlier if one]
    of_earlier = ""
    if kept:
        of_earlier = f"; {_span([one or 0 for one in kept])} were kept from earlier sizes"
    text = (
        f"With {ccl}, a rank's process {text} ({figure}, measured) from the loading of "
        f"the library to its first operations, without the stage in which cclmark allocates"
        f"{of_earlier}."
    )
    return text, _ends(f"library_{figure.lower()}_bytes", _ranks(results), changes)


def _of_expectation(results: Sequence[MemoryResult], header: Header, ccl: str) -> list[_Sentence]:
    expected = expected_of(results[0], header.environment)
    if expected is None:
        return []
    origin = "set" if expected.is_set else "the default"
    setting = f"{expected.variable} is {format_size(expected.value_bytes)} ({origin})"
    if expected.unit_bytes is None:
        text = (
            f"{setting}: {ccl} has a buffer of this size for each channel of a connection. The "
            "number of channels is unknown: the library's log does not contain it."
        )
        return [(text, ())]
    explained = f"{setting}; computed: {format_size(expected.unit_bytes)} for {expected.unit}"
    taken = [_of_library(it, "device_bytes") for it in results]
    unit_bytes = expected.unit_bytes
    ends = list(dict.fromkeys(f"{one / unit_bytes:.1f}" for one in (min(taken), max(taken))))
    text = f"{explained}. The measured figure is {' to '.join(ends)} times that."
    return [(text, _ends("library_device_bytes", _ranks(results), taken, unit_bytes))]


def _given_back(results: Sequence[MemoryResult], ccl: str) -> list[_Sentence]:
    ends = [stage for it in results if (stage := stage_called(it, GIVEN_BACK)) is not None]
    if len(ends) < len(results):
        return []
    back = [-taken_in(stage).device_bytes for stage in ends]
    held = [
        _of_library(it, "device_bytes") - returned
        for it, returned in zip(results, back, strict=True)
    ]
    rest = "nothing remains"
    if any(held):
        rest = _change_text(
            held,
            "{} remain until the process exits",
            "{} more than before are free",
            "the used memory remains changed by {}",
        )
    given = _change_text(
        back,
        "gives {} back",
        "takes {} more",
        "changes the free memory by {}",
    )
    text = f"The end of the communicator {given}; {rest}."
    return [(text, _ends("given_back_device_bytes", _ranks(results), back))]


def _of_buffers(results: Sequence[MemoryResult]) -> list[_Sentence]:
    """Compares the listed buffers with the change of free memory when they were allocated."""
    stages = [stage for it in results if (stage := stage_called(it, ALLOCATED)) is not None]
    if len(stages) < len(results):
        return []
    listed = [
        listed_bytes((one for one in it.buffers if one.owner == "cclmark"), "device")
        for it in results
    ]
    measured = [taken_in(stage).device_bytes for stage in stages]
    text = f"cclmark allocates {_span(listed)} of device memory for buffers and checks"
    if any(0 < one.used_bytes < one.size_bytes for it in results for one in it.buffers):
        text += (
            " (more than one operation uses: consecutive operations use different parts, so that "
            "small messages do not stay in the cache)"
        )
    figures = _ends("allocated_bytes", _ranks(results), listed)
    if listed == measured:
        return [(f"{text}, as much as the free memory decreases.", figures)]
    change = _change_text(
        measured,
        "decreases by {}",
        "increases by {}",
        "decreases by {}",
    )
    text += f"; the free memory {change}, with streams, kernels and the runtime's rounding."
    return [(text, (*figures, *_ends("device_bytes", _ranks(results), measured)))]


def _of_host_check(results: Sequence[MemoryResult]) -> list[_Sentence]:
    """Compares the host memory of a check on the host with that of hccl_test's."""
    pieces = {
        it.memory.rank: sum(one.size_bytes for one in it.buffers if one.purpose == HOST_PIECE)
        for it in results
    }
    if not any(pieces.values()):
        return []
    theirs = [hccl_test_host_bytes(it) for it in results]
    text = (
        f"Filling and checking on the host takes {_span(pieces.values())} of host memory per rank, "
        "during a call only. hccl_test holds three buffers, of the input, the expected and the "
        f"received output: {_span(theirs)}."
    )
    return [(text, _ends("check_host_bytes", pieces, [*pieces.values()]))]


def _of_statement(results: Sequence[MemoryResult]) -> list[_Sentence]:
    stated = {it.memory.rank: _last_statement(it.stages) for it in results}
    if known := {rank: own for rank, own in stated.items() if own}:
        totals, *others = (
            [own.get(name, 0) for own in known.values()]
            for name in ("GpuMemTotal", "GpuMemPersist", "GpuMemSuspend")
        )
        kept, released = map(_span, others)
        text = (
            f"The library itself reports {_span(totals)} that it tracks ({kept} persistent, "
            f"{released} that ncclCommSuspend releases)."
        )
        return [(text, _ends("stated_bytes", known, totals))]
    by_reason = by_key((it.not_stated, it.memory.rank) for it in results)
    silent = {reason: ranks for reason, ranks in by_reason.items() if reason}
    if len(by_reason) == 1:
        return [(f"The library itself reports nothing: {plain(reason)}.", ()) for reason in silent]
    return [
        (f"The library of {ranks_text(ranks)} reports nothing itself: {plain(reason)}.", ())
        for reason, ranks in silent.items()
    ]


def _last_statement(stages: Sequence[MemoryStage]) -> Mapping[str, int]:
    """What the library reported last, empty if nothing."""
    return next((stage.after.stated for stage in reversed(stages) if stage.after.stated), {})


def _of_others(results: Sequence[MemoryResult], header: Header) -> list[_Sentence]:
    text = "share a device: the figures of each contain those of the others."
    lines: list[_Sentence] = [
        (f"{ranks_text(ranks).capitalize()} {text}", ())
        for ranks in sharing_devices(header.devices)
    ]
    changed = {
        it.memory.rank: sum(abs(one) for one in found.values())
        for it in results
        if (found := changed_meanwhile(it))
    }
    if changed:
        text = (
            f"The free memory of the device of {ranks_text(changed)} changed by "
            f"{_span(changed.values())} while no rank worked: other processes use it, and the "
            "figures of stages may contain such changes."
        )
        lines.append((text, _ends("changed_bytes", changed, [*changed.values()])))
    return lines


def _titled(runs: Sequence[NamedRun]) -> str:
    """The operations whose memory was read."""
    results = [result for run in runs for result in run.journal.of(MemoryResult)]
    return f"memory of {', '.join(dict.fromkeys(one.memory.case.operation for one in results))}"


def _counted(journal: Journal) -> str:
    cases = {result.memory.case for result in journal.of(MemoryResult)}
    operations = sorted({case.operation for case in cases})
    return f"memory of {amount(len(cases), 'case')} of {listed(operations)}"


REPORT = ReportKind(
    noun="memory",
    title="memory",
    has_times=False,
    fields=FIELDS,
    measure=_measure,
    counted=_counted,
    document=document_of_memory,
    part=lambda result: (result.memory.case, result.memory.case.ranks),
    titled=_titled,
    method=method_of_memory,
    by_session=False,
    has_samples=False,
    of_page=_OF_PAGE,
)
