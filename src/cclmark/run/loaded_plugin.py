"""The plug-in as a library of this process loaded it."""

from __future__ import annotations

import ctypes
import os

from cclmark.errors import MissingError
from cclmark.explain.plugin_log import plugin_path
from cclmark.printable import plain


def log_failure() -> str:
    """Why the plug-in has no log; empty if it has one, or if no library loaded it."""
    try:
        loaded = ctypes.CDLL(str(plugin_path()), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except (MissingError, OSError):
        return ""
    loaded.cclmark_plugin_failure.restype = ctypes.c_char_p
    return plain(loaded.cclmark_plugin_failure().decode(errors="replace"))
