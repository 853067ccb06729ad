"""A forked program is one that was started: what other tests of commands stand on."""

import os

import pytest

from commands import launch
from forked import Sources


@pytest.fixture(scope="module")
def own_sources(source):
    """Those of the session, which other tests need as well."""
    if source is not None:
        yield source
        return
    made = Sources()
    yield made
    made.close()


def test_it_says_and_returns_the_same(own_sources, tag, tmp_path):
    for arguments, code in (("report absent.jsonl", 2), ("all_reduce --devices musa:0", 3)):
        words = arguments.split()
        forked = launch(tag, tmp_path, *words, code=code, source=own_sources)
        started = launch(tag, tmp_path, *words, code=code)
        assert forked.err
        assert (forked.out, forked.err) == (started.out, started.err)


def test_another_start_is_not_forked(own_sources, monkeypatch):
    own_source = own_sources.of([])
    assert own_source.suits(dict(os.environ))
    assert own_source.suits({**os.environ, "CCLMARK_JOURNAL_DIR": "x", "COLUMNS": "9"})
    assert not own_source.suits({**os.environ, "PYTHONUTF8": "0"})
    assert not own_source.suits({**os.environ, "LC_ALL": "C"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1 << 10})
    assert not own_source.suits(dict(os.environ))
