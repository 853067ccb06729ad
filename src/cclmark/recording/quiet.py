"""Redirects the output of libraries that the command itself loads."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def libraries_on_standard_error() -> Iterator[None]:
    """Sends the output of libraries to standard error, so that it does not mix with results."""
    kept = os.dup(1)
    _flush()
    os.dup2(2, 1)
    try:
        yield
    finally:
        _flush()
        os.dup2(kept, 1)
        os.close(kept)


def _flush() -> None:
    """Flushes the buffers of Python and of C."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
