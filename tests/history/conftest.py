"""Commands that read journals run in the process of the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from commands import Run
from in_process import with_commands_here


@pytest.fixture
def cclmark(cclmark: Callable[..., Run], tag: str, tmp_path: Path) -> Callable[..., Run]:
    """The program in a new directory."""
    return with_commands_here(cclmark, tag, tmp_path)
