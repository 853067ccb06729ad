"""Reads the document that nccl-tests writes with ``-J``, complete or truncated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from cclmark.journal.machine import kept_environment
from cclmark.journal.schema import DeviceDescription, LibraryDescription
from cclmark.journal.secrets import without_secrets
from cclmark.profile.observed import nccl_version
from cclmark_importers.cleaned_text import (
    MOST_RANKS,
    PrintedFigure,
    Text,
    dtype_of,
    operation_in,
    read_count,
    reduction_of,
)
from cclmark_importers.line_reader import Importer
from cclmark_importers.nccl_tests_head import FIGURE
from cclmark_importers.run import (
    ForeignRun,
    ImportedRow,
    RankCount,
    Spread,
    ToolSettings,
    left_out,
    listed_device,
)

_DIGIT = 0.5e-6  # half of the last digit that it writes of any figure
_RESULTS = '"results":'
_ACROSS = {"0": "rank0", "1": "mean", "2": "min", "3": "max"}


def _is_document(text: Text) -> bool:
    """Whether the text is such a document, or the beginning of one."""
    start = text.content.lstrip()
    return start.startswith("{") and '"nccl_version"' in start and '"config"' in start


def _read(text: Text) -> ForeignRun:
    document, numbers, whole = _document(text)
    config = _mapping(document.get("config"))
    run = ForeignRun("nccl-tests", FIGURE, "host", "nccl", whole=whole)
    if not whole:
        run.notices.append(f"the document is truncated after {len(numbers)} results")
    run.command = [without_secrets(str(word)) for word in _list(document.get("args"))]
    run.environment = kept_environment(_variables(document))
    run.started_at = _started(document)
    if run.started_at:
        run.notices.append(
            f"the run began at {run.started_at}: the document contains no time zone, so the zone "
            "of this machine is assumed"
        )
    run.facts = _facts(config, run.command)
    run.devices = [_device(one) for one in _list(config.get("devices")) if isinstance(one, Mapping)]
    version = document.get("nccl_version")
    if isinstance(version, int) and 0 < version < 1_000_000:
        run.libraries = [LibraryDescription("nccl", nccl_version(version), "")]
    operation = operation_in(run.command[0]) if run.command else None
    ranks = _ranks(config, len(run.devices))
    told = None if ranks is None else RankCount(ranks, _line_of(text, '"devices"'))
    untimed: list[int] = []
    for line, result in zip(numbers, _list(document.get("results")), strict=False):
        rows = _rows(text, line, result, operation, told)
        untimed += [] if rows else [line]
        run.rows += rows
    if untimed:
        run.notices.append(left_out("results without a figure", untimed))
    if ranks is not None and ranks != len(run.devices):
        run.notices.append(f"the document lists {len(run.devices)} of the {ranks} devices")
    if any(row.spread is not None for row in run.rows):
        run.figure = "the median of the tool's iterations, each timed by itself on the device (-I)"
    return run


def _document(text: Text) -> tuple[dict[str, Any], list[int], bool]:
    """Returns the document, the line of each result, and whether it was complete."""
    content = text.content.lstrip("\ufeff")
    offset = content.find(_RESULTS)
    start = content.find("[", offset) if offset >= 0 else -1
    results, lines, end = (
        _each_result(content, start + 1, text.first) if start >= 0 else ([], [], -1)
    )
    try:
        document = json.loads(content)
        whole = isinstance(document, dict) and "end_time" in document
    except (ValueError, RecursionError) as error:
        if start < 0:
            where = text.line_of_error(error)
            raise text.refuse(where, "this JSON is not complete and contains no results") from None
        try:  # the part before the results, and the complete results
            document = json.loads(content[: start + 1] + "]}")
        except (ValueError, RecursionError):
            line = text.line_at(start)
            raise text.refuse(line, "the part before the results is not JSON") from None
        if content[end : end + 1] not in ("", "{", "]"):
            line = text.line_at(end)
            raise text.refuse(line, "cannot read the rest of this JSON") from None
        whole = False
    if not isinstance(document, dict):
        raise text.refuse(text.first, "this is not a document of nccl-tests")
    document["results"] = results
    return document, lines, whole


def _each_result(content: str, place: int, first: int) -> tuple[list[Any], list[int], int]:
    """Returns the complete results from ``place`` on, their lines, and where they end.

    ``first``: the number of the first line of ``content``.
    """
    decoder = json.JSONDecoder()
    found: list[Any] = []
    lines: list[int] = []
    line, counted = first, 0
    while True:
        while place < len(content) and content[place] in " \t\r\n,":
            place += 1
        try:
            result, end = decoder.raw_decode(content, place)
        except (ValueError, RecursionError):
            return found, lines, place
        line += content.count("\n", counted, place)
        counted = place
        found.append(result)
        lines.append(line)
        place = end


def _line_of(text: Text, word: str) -> int:
    """Returns the line of the first ``word``, 1 if it is missing."""
    return text.line_at(max(0, text.content.find(word)))


def _rows(
    text: Text, line: int, result: Any, operation: str | None, ranks: RankCount | None
) -> list[ImportedRow]:
    if not isinstance(result, Mapping):
        raise text.refuse(line, "a result is not an object")
    size, count = _whole(result.get("size")), _whole(result.get("count"))
    if size is None or count is None:
        raise text.refuse(line, "a result has no size and count")
    rows = []
    for name, in_place in (("out_of_place", False), ("in_place", True)):
        half = result.get(name)
        if half is None:
            continue
        if not isinstance(half, Mapping):
            raise text.refuse(line, f"{name} is not an object")
        time = half.get("time", half.get("cpu_time"))
        if not _is_number(time):
            raise text.refuse(line, f"the time of {name} is {str(time)[:40]!r}, not a number")
        wrong = half.get("nwrong")
        rows.append(
            ImportedRow(
                line=line,
                size_bytes=size,
                count=count,
                in_place=in_place,
                operation=operation,
                dtype=dtype_of(str(result.get("type", ""))),
                reduction=reduction_of(str(result.get("redop", "none"))),
                root=read_count(str(result.get("root", "")).strip()),
                time=PrintedFigure(float(time), _DIGIT).times(1e-6),
                algbw=_rate(half.get("alg_bw")),
                busbw=_rate(half.get("bus_bw")),
                wrong=_number(wrong),
                ranks=ranks,
                spread=_spread(result.get(f"{name}_per_iter")),
            )
        )
    return rows


def _spread(told: Any) -> Spread | None:
    """Reads the statistics of ``-I``: times of single iterations, in microseconds."""
    if not isinstance(told, Mapping):
        return None
    names = ("p50_us", "min_us", "p95_us", "p99_us", "max_us")
    figures: list[Any] = [told.get(name) for name in names]
    times: list[Any] = _list(told.get("times_us"))
    if not all(map(_is_number, [*figures, *times])) or not times or figures[0] <= 0:
        return None
    median_s, min_s, p95_s, p99_s, max_s = (float(figure) * 1e-6 for figure in figures)
    times_s = [float(time) * 1e-6 for time in times]
    return Spread(median_s, min_s, p95_s, p99_s, max_s, times_s)


def _facts(config: Mapping[str, Any], command: list[str]) -> ToolSettings:
    graph = _whole(config.get("graph")) or 0
    blocking = str(config.get("blocking_collectives")) == "true"
    return ToolSettings(
        begin_bytes=_whole(config.get("minimum_bytes")),
        end_bytes=_whole(config.get("maximum_bytes")),
        step_bytes=_whole(config.get("step_bytes")) or 0,
        factor=float(_whole(config.get("step_factor")) or 0),
        warmup=_whole(config.get("warmup_iters")) or None,
        iterations=_whole(config.get("iterations")) or None,
        group=_whole(config.get("aggregated_iterations")) or 1,
        graph_launches=max(1, graph),
        check=_whole(config.get("validation")),
        timing="graph" if graph else "blocking" if blocking else "throughput",
        across_ranks=_across(command),
    )


def _across(command: list[str]) -> str:
    """Returns how the tool combines ranks: 1 is the mean, its default without ``-a``."""
    for word, value in pairwise(command):
        if word in ("-a", "--average"):
            return _ACROSS.get(value, "")
    return "mean" if command else ""


def _device(told: Mapping[str, Any]) -> DeviceDescription:
    return listed_device(
        _whole(told.get("rank")) or 0,
        str(told.get("device_info", "")).strip(),
        host=str(told.get("hostname", "")),
        runtime="cuda",
        index=_whole(told.get("device")) or 0,
        pid=_whole(told.get("pid")) or 0,
        pci_bus_id=str(told.get("device_hex", "")),
    )


def _ranks(config: Mapping[str, Any], listed: int) -> int | None:
    """Returns the number of ranks: the tool lists one device of each process, even with several."""
    each = (_whole(config.get("nthreads")) or 1) * (_whole(config.get("ngpus")) or 1)
    ranks = listed * each
    return ranks if 0 < ranks <= MOST_RANKS else None


def _variables(document: Mapping[str, Any]) -> dict[str, str]:
    pairs = [str(one).partition("=") for one in _list(document.get("env"))]
    return {name: value for name, _, value in pairs}


def _started(document: Mapping[str, Any]) -> str:
    """Returns the start in ISO 8601; the tool writes local time: this machine's is assumed."""
    told = str(document.get("start_time", ""))
    try:
        return datetime.strptime(told, "%Y-%m-%d %H:%M:%S").astimezone().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _rate(value: Any) -> PrintedFigure | None:
    return PrintedFigure(float(value), _DIGIT).times(1e9) if _is_number(value) else None


def _number(value: Any) -> int | None:
    """Returns a whole number that may be written as a float."""
    return round(value) if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18


def _whole(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60
    return value if whole else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


NCCL_TESTS_JSON = Importer(lambda text, lines: 1 if _is_document(text) else None, _read)
