"""Where the fake vendor libraries of these tests are."""

import os
from pathlib import Path

import pytest

from commands import REPOSITORY

#: Of what is built for tests.
DIRECTORY = Path(os.environ.get("CCLMARK_TEST_BUILD", REPOSITORY / "build" / "tests"))


def fake_library(pattern: str) -> Path:
    """The file that matches ``pattern``, a name or the end of a path, in the uppermost of several
    directories: variants of a library are in directories below it. Fails if it is not built.
    """
    found = list(DIRECTORY.rglob(pattern))
    if not found:
        pytest.fail(
            f"the fake vendor libraries are not built: there is no {pattern} below {DIRECTORY}. "
            "Build them with: make fakes-build (or set CCLMARK_TEST_BUILD to where they are)"
        )
    return min(found, key=lambda path: len(path.parts))
