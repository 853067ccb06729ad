"""Runs that a ``sitecustomize.py`` patches, and processes below a launcher, are forked as well."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from patched_sources import PatchedSources
from pods import Pods, pods_in

import forked


@pytest.fixture(scope="session")
def source(source: forked.Sources | None) -> Iterator[PatchedSources | None]:
    """Those of all tests, and one whose forks can be patched and launched."""
    if source is None:
        yield None
        return
    made = PatchedSources(source)
    yield made
    made.close()


@pytest.fixture
def pods(
    request: pytest.FixtureRequest, tag: str, tmp_path: Path, source: PatchedSources | None
) -> Iterator[Pods]:
    """Processes of a launcher, forked but for tests with the mark ``started``."""
    started = request.node.get_closest_marker("started")
    with pods_in(tmp_path, tag, None if started else source) as made:
        yield made
