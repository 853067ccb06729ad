"""A forked program is one that was started: what other tests of commands stand on."""

import os
import signal

import pytest

from cclmark.kinds.registry import read_journal
from commands import environment, launch, wait_until
from forked import Sources
from patience import scaled


@pytest.fixture(scope="module")
def own_sources(source):
    """Those of the session, which other tests need as well."""
    if source is not None:
        yield source
        return
    made = Sources()
    yield made
    made.close()


@pytest.fixture(scope="module")
def own_source(own_sources):
    return own_sources.of([])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("references",), 0),
        (("report", "absent.jsonl"), 2),
        (("all_reduce", "--devices", "musa:0"), 3),
        (("all_reduce", "--devices", "host:2", "-b", "1M", "-e", "1K"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_it_says_and_returns_the_same(own_sources, tag, tmp_path, arguments, code):
    forked = launch(tag, tmp_path, *arguments, code=code, source=own_sources)
    started = launch(tag, tmp_path, *arguments, code=code)
    assert forked.out + forked.err
    assert (forked.out, forked.err) == (started.out, started.err)


def test_its_journal_says_the_same(own_sources, tag, tmp_path):
    arguments = ("all_reduce", "--devices", "host:2", "-b", "64", "-e", "64", "-n", "1", "-w", "0")
    env = {"NCCL_OF_TEST": "1"}
    one = launch(tag, tmp_path, *arguments, env=env, source=own_sources).journal
    other = launch(tag, tmp_path, *arguments, env=env).journal
    assert one.header.command == other.header.command
    assert one.header.environment == other.header.environment
    assert one.header.environment["NCCL_OF_TEST"] == "1"
    assert [result.case for result in one.results] == [result.case for result in other.results]


# Its ranks mostly sleep, as it only has to last.
ENDLESS = [
    *("all_reduce", "--devices", "host:2", "-b", "64", "-e", "64", "-n", "1", "-w", "0"),
    *("-N", "0", *(f"--inject=delay:rank={rank},ms=20" for rank in range(2))),
]


@pytest.fixture
def endless(own_source, tag, tmp_path):
    """A run without an end, and the processes of its ranks."""
    run = own_source.start(ENDLESS, tmp_path, environment(tag, None))
    wait_until(lambda: [*tmp_path.rglob("*.jsonl")], "it has begun")
    (path,) = tmp_path.rglob("*.jsonl")
    wait_until(lambda: path.read_bytes().count(b"\n") > 1, "it has results")
    yield run, [device.pid for device in read_journal(path).header.devices]
    run.kill()
    run.close()


def test_a_rank_that_is_killed_is_named(endless):
    run, ranks = endless
    os.kill(ranks[1], signal.SIGKILL)
    _, err = run.communicate(scaled(60))
    assert run.returncode == 4
    assert b"rank 1" in err
    assert b"SIGKILL" in err


def test_another_start_is_not_forked(own_source, monkeypatch):
    assert own_source.suits(dict(os.environ))
    assert own_source.suits({**os.environ, "CCLMARK_JOURNAL_DIR": "x", "COLUMNS": "9"})
    assert not own_source.suits({**os.environ, "PYTHONUTF8": "0"})
    assert not own_source.suits({**os.environ, "LC_ALL": "C"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1 << 10})
    assert not own_source.suits(dict(os.environ))
