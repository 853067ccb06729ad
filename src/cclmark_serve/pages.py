"""The pages other than reports: lists, trends, messages; without scripts and external resources.

And the responses with the Content-Security-Policy of their content.
"""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any

import jinja2
from starlette.responses import HTMLResponse, Response

from cclmark.base.printable import plain
from cclmark.base.version import VERSION
from cclmark.document.page.page import page_style, policy_of, render, source_hash
from cclmark.document.page.page_model import Page
from cclmark_serve.parameters import address


def html(template: str, **values: Any) -> str:
    """Renders ``template`` with ``values``, whose texts are escaped."""
    return _environment().get_template(f"{template}.html.j2").render(values)


@cache
def policy() -> str:
    """Returns the Content-Security-Policy of these pages: one style, and forms of this site."""
    return (
        f"default-src 'none'; style-src {source_hash(style())}; img-src data:; "
        "base-uri 'none'; form-action 'self'"
    )


@cache
def style() -> str:
    """Returns the style of reports, and that of the site."""
    return page_style() + (files(__package__) / "templates" / "serve.css").read_text("utf-8")


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(
            lambda name: (files(__package__) / "templates" / name).read_text("utf-8")
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals.update(style=style(), version=VERSION, address=address)
    return found


def report_response(page: Page) -> Response:
    """Returns a report, whose header repeats the policy in the page itself."""
    return HTMLResponse(render(page), headers={"Content-Security-Policy": policy_of()})


def message_response(status: int, message: str) -> Response:
    """Returns a page with a message only."""
    name = HTTPStatus(status).phrase
    return HTMLResponse(
        html("message", title=name, here="", status=status, message=plain(message)), status
    )


def file_response(content: bytes, media_type: str, name: str) -> Response:
    """Returns a file to download. ``name`` may contain any characters."""
    safe = "".join(one for one in name if one.isascii() and (one.isalnum() or one in "-_."))
    disposition = f'attachment; filename="{safe.lstrip(".") or "cclmark"}"'
    return Response(content, media_type=media_type, headers={"Content-Disposition": disposition})
