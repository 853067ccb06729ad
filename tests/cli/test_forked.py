"""A forked program is one that was started: what other tests of commands stand on."""

from __future__ import annotations

import os
import signal

import pytest

from conftest import environment, launch, tagged_processes, wait_until
from forked import Source


@pytest.fixture
def own_source():
    made = Source()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("references",), 0),
        (("--version",), 0),
        (("all_reduce", "--help"), 0),
        (("all_reduce", "--nonsense"), 2),
        (("report", "absent.jsonl"), 2),
        (("all_reduce", "--devices", "musa:0"), 3),
        (("all_reduce", "--devices", "host:2", "-b", "1M", "-e", "1K"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_it_says_and_returns_the_same(own_source, tag, tmp_path, arguments, code):
    forked = launch(tag, tmp_path, *arguments, code=code, source=own_source)
    started = launch(tag, tmp_path, *arguments, code=code)
    assert forked.out + forked.err
    assert (forked.out, forked.err) == (started.out, started.err)


def test_its_journal_says_the_same(own_source, tag, tmp_path):
    arguments = ("all_reduce", "--devices", "host:2", "-b", "64", "-e", "64", "-n", "1", "-w", "0")
    env = {"NCCL_OF_TEST": "1"}
    one = launch(tag, tmp_path, *arguments, env=env, source=own_source).journal
    other = launch(tag, tmp_path, *arguments, env=env).journal
    assert one.header.command == other.header.command
    assert one.header.environment == other.header.environment
    assert one.header.environment["NCCL_OF_TEST"] == "1"
    assert [result.case for result in one.results] == [result.case for result in other.results]


def test_a_signal_ends_it(own_source, tag, tmp_path):
    run = own_source.start(
        ["all_reduce", "--devices", "host:2", "-b", "64", "-e", "64", "-N", "0"],
        tmp_path,
        environment(tag, None),
    )
    wait_until(lambda: [*tmp_path.rglob("*.jsonl")], "it has begun")
    os.kill(run.pid, signal.SIGINT)
    _, err = run.communicate(60)
    assert run.returncode == 130
    assert b"cclmark: interrupted" in err


def test_one_that_takes_too_long_is_killed_with_its_ranks(own_source, tag, tmp_path):
    endless = ("all_reduce", "--devices", "host:2", "-b", "64", "-e", "64", "-N", "0")
    own = f"{tag}-too-long"
    with pytest.raises(pytest.fail.Exception, match="still running"):
        launch(own, tmp_path, *endless, timeout_s=0.5, source=own_source)
    wait_until(lambda: not tagged_processes(own), "its ranks are gone")


def test_another_start_is_not_forked(own_source, monkeypatch):
    assert own_source.suits(dict(os.environ))
    assert own_source.suits({**os.environ, "CCLMARK_JOURNAL_DIR": "x", "COLUMNS": "9"})
    assert not own_source.suits({**os.environ, "PYTHONUTF8": "0"})
    assert not own_source.suits({**os.environ, "LC_ALL": "C"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1 << 10})
    assert not own_source.suits(dict(os.environ))
