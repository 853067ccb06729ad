"""The caller of a run: the command line, or a program that calls ``cclmark.measure``.

The parts of a run that are runs themselves have the same caller.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from cclmark.base.errors import CclmarkError
from cclmark.base.standard_error import tell

_OPTION = re.compile(r"(?<![\w`-])(--?[a-zA-Z][\w-]*)(?: \(--[\w-]+\)| FILE\b| (?=\d))?")


@dataclass(frozen=True)
class Caller:
    """``command``: the one that measures the same. ``is_silent``: nothing is printed.

    ``step``: the number of the run among those of the launcher's processes, by default that of the
    environment.
    """

    command: Sequence[str]
    step: int | None = None
    is_silent: bool = False


_PROGRAM: ContextVar[Caller | None] = ContextVar("program", default=None)


def caller() -> Caller:
    """The program that has called, else the command line."""
    return _PROGRAM.get() or Caller(sys.argv)


@contextmanager
def called_by(program: Caller) -> Iterator[None]:
    """``program`` is the caller within the context."""
    token = _PROGRAM.set(program)
    try:
        yield
    finally:
        _PROGRAM.reset(token)


@contextmanager
def in_python(names: Mapping[str, str]) -> Iterator[None]:
    """Errors within the context name arguments of calls, ``journal=``, in place of options.

    ``names``: by the option.
    """
    try:
        yield
    except CclmarkError as error:
        text = _OPTION.sub(lambda found: names.get(found[1], found[0]), str(error))
        error.args = (text,)
        raise


def notice(text: str, *, is_whole: bool = False) -> None:
    """Prints a notice on standard error for the user of the command line, see ``tell``."""
    if not caller().is_silent:
        tell(text, is_whole=is_whole)
