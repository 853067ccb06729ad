"""The parameters of a URL, all of which may be invalid, and the error for an invalid one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from cclmark.base.errors import UsageError
from cclmark.history.history_model import RunFilter, filter_of


class RefusalError(Exception):
    """A response with ``status`` and a sentence with the action to take."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


FIELDS = ("machine", "device", "operation", "ccl", "label", "since", "until")
MOST_TOGETHER = 8  # runs in one page: more curves cannot be distinguished
_MOST_PAGES = 1_000_000
_LONGEST = 400


def fields_of(query: Mapping[str, str]) -> dict[str, str]:
    """Returns the fields of the filter form as they were filled in. Raises RefusalError."""
    fields = {name: query.get(name, "").strip() for name in FIELDS}
    for name, text in fields.items():
        if len(text) > _LONGEST or not text.isprintable():
            raise RefusalError(400, f"{name}: neither a name nor a time")
    return fields


def filter_by(fields: Mapping[str, str]) -> RunFilter:
    """Returns the filter of these fields. Raises RefusalError."""
    try:
        return filter_of(**fields)
    except UsageError as error:
        raise RefusalError(400, str(error)) from None


def page_number(query: Mapping[str, str]) -> int:
    """Returns the number of the page, from 1. Raises RefusalError."""
    text = query.get("page", "1")
    if text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_PAGES)):
        number = int(text)
        if 1 <= number <= _MOST_PAGES:
            return number
    raise RefusalError(400, f"page {text!r}: pages are numbered from 1")


def chosen(ids: Sequence[str], least: int, what: str) -> list[str]:
    """Returns the selected ids of runs, each once. Raises RefusalError for too few or too many."""
    unique = list(dict.fromkeys(filter(None, ids)))
    if len(unique) < least:
        several = "at least two runs" if least > 1 else "a run"
        raise RefusalError(400, f"choose {several} in the list to {what}")
    if any(len(one) > _LONGEST for one in unique):
        raise RefusalError(400, f"run: an id has at most {_LONGEST} characters")
    if len(unique) > MOST_TOGETHER:
        raise RefusalError(
            400,
            f"{len(unique)} runs are chosen, but a page shows at most {MOST_TOGETHER}. Use cclmark "
            "report or compare for more",
        )
    return unique


def address(path: str, *pairs: tuple[str, str]) -> str:
    """Returns a path of this site with parameters, without empty ones."""
    query = urlencode([(name, text) for name, text in pairs if text])
    return f"{path}?{query}" if query else path
