"""Measure, verify and explain the communication between accelerators.

The Python API: ``measure``, ``open``, ``compare``, ``session``, ``measure_options`` and
the types of what they return, see ``api.py``.

docs/architecture.md has the picture of the packages and their rules; the docstring of each package
describes its modules. Entries are ``__main__.py`` (commands) and ``rank_process.py`` (ranks).
"""

from typing import TYPE_CHECKING, Any

from cclmark.base.errors import CclmarkError, MissingError, RankError, UsageError
from cclmark.base.version import VERSION

if TYPE_CHECKING:
    from cclmark.api import (
        Run,
        RunComparison,
        Session,
        compare,
        measure,
        measure_options,
        open,
        session,
    )

__version__ = VERSION
__all__ = [
    "CclmarkError",
    "MissingError",
    "RankError",
    "Run",
    "RunComparison",
    "Session",
    "UsageError",
    "__version__",
    "compare",
    "measure",
    "measure_options",
    "open",
    "session",
]


def __getattr__(name: str) -> Any:
    """Imports the API when one of its names is first used: the command line does without."""
    if name in __all__:
        from cclmark import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]
