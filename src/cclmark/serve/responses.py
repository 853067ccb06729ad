"""Responses with the Content-Security-Policy of their content."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import HTMLResponse, Response

from cclmark.document.page.page import Page, policy_of, render
from cclmark.printable import plain
from cclmark.serve.pages import html


def report_response(page: Page) -> Response:
    """Returns a report, whose header repeats the policy in the page itself."""
    return HTMLResponse(render(page), headers={"Content-Security-Policy": policy_of(page)})


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
