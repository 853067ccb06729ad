"""Libraries that are loaded by the command itself, and what they print."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def libraries_on_standard_error() -> Iterator[None]:
    """What libraries write meanwhile does not mix with what this command prints."""
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
    """Python's buffer and that of C."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
