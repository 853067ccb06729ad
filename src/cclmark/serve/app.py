"""The routes of the site."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from cclmark.base.errors import CclmarkError
from cclmark.document.reference_notes import Load
from cclmark.history.history_model import RunFilter, UnknownRunError
from cclmark.history.lists import SHORT_ID
from cclmark.history.store import History
from cclmark.serve.guard import AccessRules, Guard
from cclmark.serve.pages import file_response, message_response, report_response
from cclmark.serve.parameters import RefusalError, chosen, fields_of, page_number
from cclmark.serve.views import (
    EXPORTED,
    compared_page,
    exported,
    list_page,
    run_page,
    stored,
    together_page,
    trend_page,
)

# A report has five megabytes, nine tenths of them one script: this level reduces it to a third in
# 0.1 s; higher levels are slower for 4 % less.
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

    def runs(self, request: Request) -> Response:
        """The list of runs."""
        query = request.query_params
        return HTMLResponse(list_page(self.history, fields_of(query), page_number(query)))

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
    site = Site(history, load)
    limiter = CapacityLimiter(_AT_ONCE)
    light = (("/", site.runs), ("/journal", site.journal), ("/healthz", site.health))
    heavy = (
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
