"""The routes of the site, and its pages from journals of the history."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from cclmark.analysis.run_noise import OwnNoiseOf
from cclmark.base.errors import CclmarkError, UsageError
from cclmark.base.printable import plain
from cclmark.comparison.comparison_page import comparison_page
from cclmark.comparison.figures import Side
from cclmark.comparison.words import comparison_of, require_figures
from cclmark.document.blocks import Facts
from cclmark.document.naming import NamedRun
from cclmark.document.page.page_model import Page, Section
from cclmark.document.reference_notes import Load, ReferenceNotes
from cclmark.document.text import format_time_us
from cclmark.history.history_model import RunFilter, StoredRun, UnknownRunError
from cclmark.history.lists import (
    MOST_LINES,
    SHORT_ID,
    Trend,
    case_of,
    heading_of,
    in_order,
    interval_of,
    measured_by,
    name_of,
    run_facts,
    started_of,
    tally_of,
    title_of,
    trends_of,
    verdict_of,
)
from cclmark.history.store import History
from cclmark.journal.journal_file import Journal
from cclmark.report.exports import export_content
from cclmark.report.run_page import page_of
from cclmark_serve.fleet import RunLines, fleet_page, stem_of_run
from cclmark_serve.guard import AccessRules, Guard
from cclmark_serve.pages import file_response, html, message_response, report_response
from cclmark_serve.parameters import (
    MOST_TOGETHER,
    RefusalError,
    address,
    chosen,
    fields_of,
    filter_by,
    page_number,
)

PER_PAGE = 50


def list_page(history: History, fields: Mapping[str, str], page: int, lines: RunLines) -> str:
    """Renders the runs that the filter selects, newest first. Raises RefusalError, MissingError."""
    found, total = history.runs(filter_by(fields), PER_PAGE, (page - 1) * PER_PAGE)
    pages = max(1, -(-total // PER_PAGE))
    first = (page - 1) * PER_PAGE + 1

    def page_address(number: int) -> str:
        return address("/", *fields.items(), ("page", str(number) if number > 1 else ""))

    return html(
        "list",
        title="Runs",
        here="/",
        place=plain(history.name),
        fields=fields,
        choices=history.choices(),
        runs=found,
        measured_by=measured_by,
        started_of=started_of,
        state_of=_state,
        lines={run.run_id: line for run, line in lines.of(found) if line is not None},
        short=SHORT_ID,
        total=total,
        first=first,
        last=first + len(found) - 1,
        page=page,
        pages=pages,
        newer=page_address(min(page - 1, pages)) if page > 1 else "",
        older=page_address(page + 1) if page < pages else "",
        most=MOST_TOGETHER,
        trend=address("/trend", *fields.items()),
    )


def _state(run: StoredRun) -> tuple[str, bool]:
    """Returns how the run ended, in words, and whether that is an error."""
    if run.not_ok:
        return f"{run.not_ok} not ok", True
    if run.exit_code is None:
        return "cut short", True
    return ("ok", False) if run.exit_code == 0 else (f"exit code {run.exit_code}", True)


def trend_page(history: History, fields: Mapping[str, str], everything: bool) -> str:
    """Renders the changes first, then the series. Raises RefusalError, MissingError."""
    which = filter_by(fields)
    found = trends_of(*history.series(which), history.headers)
    shown = list(found.trends)
    if len(shown) > MOST_LINES and not everything:
        shown = [trend for trend in shown if trend.changes]
    return html(
        "trend",
        title="Trend",
        here="/trend",
        place=plain(history.name),
        fields=fields,
        choices=history.choices(),
        told=title_of(found),
        tally=tally_of(found),
        steps=found.steps[::-1],
        blocks=[(head, list(own)) for head, own in groupby(in_order(shown), key=heading_of)],
        runs=found.runs,
        case_of=case_of,
        drawing_of=drawing_of,
        interval_of=interval_of,
        name_of=name_of,
        time_us=format_time_us,
        verdict_of=verdict_of,
        hidden=len(found.trends) - len(shown),
        all=address("/trend", *fields.items(), ("all", "1")),
    )


@dataclass(frozen=True)
class TrendPoint:
    """A run in the drawing of a series."""

    x: float
    y: float
    run: StoredRun
    time: str
    look: str


_TREND_WIDTH, _TREND_HEIGHT, _TREND_EDGE = 240.0, 40.0, 6.0
_MOST_POINTS = 60
_LEAST_RANGE = 0.1  # of times: less is noise, which does not fill the height


def drawing_of(trend: Trend, runs: Mapping[int, StoredRun]) -> list[TrendPoint]:
    """The newest runs of a series on a logarithmic axis of time: low is fast."""
    points = list(zip(trend.runs, trend.times_s, strict=True))[-_MOST_POINTS:]
    logs = [math.log(time_s) for _, time_s in points]
    room = max(0.0, _LEAST_RANGE - (max(logs) - min(logs))) / 2
    high, low = max(logs) + room, min(logs) - room
    step = (_TREND_WIDTH - 2 * _TREND_EDGE) / max(1, len(points) - 1)
    changed = {trend.ends_of(change)[1]: verdict_of(change) for change in trend.changes}
    inner = _TREND_HEIGHT - 2 * _TREND_EDGE
    return [
        TrendPoint(
            round(_TREND_EDGE + place * step, 1),
            round(_TREND_EDGE + (high - one) / (high - low) * inner, 1),
            runs[number],
            format_time_us(time_s),
            changed.get(number, ""),
        )
        for place, ((number, time_s), one) in enumerate(zip(points, logs, strict=True))
    ]


Stored = tuple[StoredRun, Journal]
EXPORTED = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def stored(history: History, ids: Sequence[str]) -> list[Stored]:
    """Returns the runs with these ids, each once. Raises UnknownRunError, MissingError."""
    runs = {run.number: run for run in map(history.run, ids)}
    return [(run, history.journal(run.run_id)) for run in runs.values()]


def run_page(one: Stored, load: Load) -> Page:
    """Returns the report of one run, with data that only the history holds. Raises RefusalError."""
    run, journal = one
    _require_results(one)
    with _fitting(run):
        page = page_of([NamedRun(stem_of_run(run), journal, ReferenceNotes(load))], embeds=False)
    links = [
        ("All runs", "/"),
        ("Journal", address("/journal", ("run", run.run_id))),
        *(
            (format.upper(), address("/export", ("run", run.run_id), ("format", format)))
            for format in EXPORTED
        ),
    ]
    known = Section("history", "History", facts=[Facts(run_facts(run), "In the history")])
    return replace(page, sections=[*page.sections, known], links=links)


def together_page(runs: Sequence[Stored], load: Load) -> Page:
    """Returns a page with all of ``runs`` on the same axes. Raises RefusalError."""
    for one in runs:
        _require_results(one)
    names = names_of([run for run, _ in runs])
    with _fitting(*(run for run, _ in runs)):
        page = page_of(
            [
                NamedRun(name, journal, ReferenceNotes(load))
                for name, (_, journal) in zip(names, runs, strict=True)
            ],
            embeds=False,
        )
    return replace(page, links=[("All runs", "/"), *_links(runs, names)])


def compared_page(runs: Sequence[Stored], own_noise: OwnNoiseOf) -> Page:
    """Returns the comparison of each other run with the first. Raises RefusalError."""
    if len(runs) < 2:
        raise RefusalError(400, "choose two different runs to compare")
    names = names_of([run for run, _ in runs])
    try:
        for name, (_, journal) in zip(names, runs, strict=True):
            require_figures(journal, name)
        sides = [
            # As for a file: pages show a side's name without the suffix.
            Side(f"{name}.jsonl", [journal], own_noise=own_noise)
            for name, (_, journal) in zip(names, runs, strict=True)
        ]
        with _fitting(*(run for run, _ in runs)):
            page = comparison_page([comparison_of(sides[0], side) for side in sides[1:]])
    except UsageError as error:
        raise RefusalError(400, f"not comparable: {error}") from None
    links = [("All runs", "/"), *_links(runs, names)]
    if len(runs) == 2:
        around = address("/compare", *(("run", run.run_id) for run, _ in reversed(runs)))
        links.append(("Swap the sides", around))
    return replace(page, links=links)


def exported(one: Stored, format: str) -> bytes:
    """Returns a run in one of the formats EXPORTED. Raises RefusalError."""
    run, journal = one
    _require_results(one)
    try:
        with _fitting(run):
            return export_content([(f"run {run.run_id}", journal)], format)
    except UsageError as error:
        raise RefusalError(400, str(error)) from None


def names_of(runs: Sequence[StoredRun]) -> list[str]:
    """Returns a name for each run: its file's name, with its id if ambiguous."""
    stems = [stem_of_run(run) for run in runs]
    names = [
        stem if stems.count(stem) == 1 else f"{stem} {run.run_id[:SHORT_ID]}"
        for stem, run in zip(stems, runs, strict=True)
    ]
    if len(set(names)) == len(names):
        return names
    return [run.run_id for run in runs]


def _links(runs: Sequence[Stored], names: Sequence[str]) -> list[tuple[str, str]]:
    return [
        (name, address("/run", ("run", run.run_id)))
        for name, (run, _) in zip(names, runs, strict=True)
    ]


def _require_results(one: Stored) -> None:
    """Raises RefusalError for a run without results."""
    run, journal = one
    if not journal.results:
        raise RefusalError(
            422, f"run {run.run_id} contains no results: only its journal can be shown"
        )


@contextmanager
def _fitting(*runs: StoredRun) -> Iterator[None]:
    """Raises RefusalError for an invalid journal, which may come from an untrusted source."""
    try:
        yield
    except (LookupError, ArithmeticError, ValueError, AssertionError) as error:
        which = ", ".join(run.run_id for run in runs)
        raise RefusalError(
            422,
            f"the journal of {which} cannot be shown: its content is inconsistent "
            f"({type(error).__name__}: {error})",
        ) from None


# Drawings become a fifth; higher levels are slower for 4 % less.
_GZIP_LEVEL = 4
_AT_ONCE = 2  # reports rendered at the same time: each may require much memory

Work = Callable[[Request], Response]
Endpoint = Callable[[Request], Awaitable[Response]]
Answer = Callable[[Request, Exception], Response]


@dataclass(frozen=True)
class Site:
    """The sources of the pages. Every method answers one request and may block."""

    history: History
    load: Load
    lines: RunLines

    def runs(self, request: Request) -> Response:
        """The list of runs."""
        query = request.query_params
        return HTMLResponse(
            list_page(self.history, fields_of(query), page_number(query), self.lines)
        )

    def run(self, request: Request) -> Response:
        """Returns the report of one run."""
        [one] = stored(self.history, [_one(request)])
        return report_response(run_page(one, self.load))

    def journal(self, request: Request) -> Response:
        """Returns the journal of a run, byte by byte as it was added."""
        run = self.history.run(_one(request))
        content = self.history.content(run.run_id)
        return file_response(content, "application/jsonl", f"{run.run_id[:SHORT_ID]}.jsonl")

    def export(self, request: Request) -> Response:
        """Returns a run in another format."""
        format = request.query_params.get("format", "csv")
        if format not in EXPORTED:
            raise RefusalError(
                400, f"unknown format {format!r}: choose from {' and '.join(EXPORTED)}"
            )
        [one] = stored(self.history, [_one(request)])
        name = f"{one[0].run_id[:SHORT_ID]}.{format}"
        return file_response(exported(one, format), EXPORTED[format], name)

    def together(self, request: Request) -> Response:
        """Returns the report of several runs on the same axes."""
        ids = chosen(request.query_params.getlist("run"), 1, "draw")
        return report_response(together_page(stored(self.history, ids), self.load))

    def compare(self, request: Request) -> Response:
        """Compares runs with the first one, or, on the list's request, with the oldest.

        Raises RefusalError for a run compared with itself, also by two abbreviations of its id.
        """
        asked = [text for text in request.query_params.getlist("run") if text]
        ids = chosen(asked, 1 if len(asked) > 1 else 2, "compare")
        runs = stored(self.history, ids)
        if len(runs) < len(asked):
            raise RefusalError(
                400, "a run is not compared with itself: choose each run once in the list"
            )
        if request.query_params.get("by") == "time":
            runs.sort(key=lambda one: (one[0].started_at, one[0].number))
        return report_response(compared_page(runs, self.history.own_noise))

    def trend(self, request: Request) -> Response:
        """Returns the page of changes over time."""
        query = request.query_params
        return HTMLResponse(trend_page(self.history, fields_of(query), "all" in query))

    def fleet(self, request: Request) -> Response:
        """Returns the newest figures of all machines."""
        return HTMLResponse(fleet_page(self.history, self.lines, fields_of(request.query_params)))

    def health(self, request: Request) -> Response:
        """Reports whether the history can be read, and nothing else: it requires no token."""
        try:
            self.history.runs(RunFilter(), 1)
        except CclmarkError:
            return PlainTextResponse("the history cannot be read\n", 503)
        return PlainTextResponse("ok\n")

    def icon(self, request: Request) -> Response:
        """Answers browsers that request an icon: there is none."""
        return Response(status_code=204)


def make_app(
    history: History,
    load: Load,
    access: AccessRules,
    say: Callable[[str], None],
    log: Callable[[str], None] | None = None,
) -> ASGIApp:
    """Creates the site of ``history``, which must be opened read only.

    ``load`` returns references, ``say`` receives errors, ``log`` a line for each request.
    """
    site = Site(history, load, RunLines(history, load))
    limiter = CapacityLimiter(_AT_ONCE)
    light = (("/journal", site.journal), ("/healthz", site.health))
    heavy = (
        ("/", site.runs),
        ("/fleet", site.fleet),
        ("/run", site.run),
        ("/together", site.together),
        ("/compare", site.compare),
        ("/export", site.export),
        ("/trend", site.trend),
    )
    routes = [Route(path, _in_thread(work, None)) for path, work in light]
    routes += [Route(path, _in_thread(work, limiter)) for path, work in heavy]
    routes.append(Route("/favicon.ico", _in_thread(site.icon, None)))
    app = Starlette(
        routes=routes,
        exception_handlers={
            RefusalError: _refused,
            UnknownRunError: _unknown,
            CclmarkError: _unreadable(say),
            HTTPException: _not_found,
            Exception: _fell_over,
        },
    )
    # Pages contain no secrets, so their size after compression reveals nothing.
    return Guard(GZipMiddleware(app, compresslevel=_GZIP_LEVEL), access, say, log)


def _one(request: Request) -> str:
    """Returns the requested run. Raises RefusalError."""
    return chosen(request.query_params.getlist("run")[-1:], 1, "look at")[0]


def _in_thread(work: Work, limiter: CapacityLimiter | None) -> Endpoint:
    """Runs ``work`` in a thread: the database and the reports would block all other requests."""

    async def endpoint(request: Request) -> Response:
        return await to_thread.run_sync(work, request, limiter=limiter)

    return endpoint


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)
    return message_response(error.status, error.message)


def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, UnknownRunError)
    which = (
        ("several runs have ids that begin with these characters")
        if error.several
        else "no run has this id"
    )
    return message_response(404, f"{which}: choose one in the list")


def _unreadable(say: Callable[[str], None]) -> Answer:
    """Returns the handler for an unreadable history; the reason may contain paths and hosts."""

    def answered(request: Request, error: Exception) -> Response:
        say(f"{request.url.path} failed: {error}")
        return message_response(
            503, "the history cannot be read: the terminal of cclmark serve shows why"
        )

    return answered


def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return message_response(error.status_code, "there is no such page")


def _fell_over(request: Request, error: Exception) -> Response:
    return message_response(500, "internal error of cclmark: see the server's terminal")
