from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark_importers.cleaned_text import Text, decode
from cclmark_importers.importers import import_run
from cclmark_importers.run import Given
from cclmark_importers.runs_in_text import part_of, runs_in
from examples import examples
from foreign_texts import LACKING, MADE, ORIGIN, TEXTS, contents_of, read
from places import TESTS

LOG = (TESTS / "foreign_logs" / "pccl-24-commands.log").read_text()
SAMPLES = sorted([*TEXTS.iterdir(), *MADE.iterdir()])
NOISE = (
    *("", "real\t0m12.345s", "$ sleep 1", "+ echo done", "==== next ====", "done 3 of 24"),
    *("2026-11-24 10:00:00 INFO waiting for node7", "Config: default", "}", "# end"),
    *("mpirun: warning: no such file", "+ mpirun -np 4 \\", "export NCCL_DEBUG=WARN"),
)


def _said(journal):
    """All that a journal says, without the numbers of lines."""
    header = [re.sub(r"\d+", "N", one) for one in journal.header.notices]
    notices = set(journal.header.notices)
    return header, [one for one in contents_of(journal) if one not in notices]


def _outcome(text, run, given_):
    try:
        return _said(import_run(text, run, given_, ORIGIN))
    except UsageError as error:
        return re.sub(r"\d+", "N", str(error))


def _runs(content):
    text = decode(content.encode(), "a.txt")
    return text, runs_in(text)


@settings(max_examples=examples(80), deadline=None)
@given(st.data())
def test_outputs_in_a_row_are_the_journals_of_each(data):
    chosen = data.draw(st.lists(st.sampled_from(SAMPLES), min_size=1, max_size=6, unique=True))
    noise = st.lists(st.sampled_from(NOISE), max_size=3)
    content, expected = "", []
    for path in chosen:
        alone, runs = _runs(path.read_text())
        facts = Given(**LACKING.get(path.name, {}))
        expected += [(run.format, facts, _outcome(alone, run, facts)) for run in runs]
        content += path.read_text().rstrip("\n") + "\n"
        content += "".join(f"{line}\n" for line in data.draw(noise))
    text, found = _runs(content)
    assert [run.format for run in found] == [name for name, _, _ in expected]
    for run, (_, facts, outcome) in zip(found, expected, strict=True):
        assert _outcome(text, run, facts) == outcome


@pytest.mark.parametrize("prompt", ["user@node:~/tools$ ", None])
def test_24_commands_of_pccl_are_24_runs(prompt):
    lines = LOG.splitlines()
    if prompt is None:  # output alone
        lines = [one for one in lines if not one.startswith("$")]
    content = "\n".join(
        prompt + one[2:] if prompt is not None and one.startswith("$ ") else one for one in lines
    )
    text, runs = _runs(content)
    assert len(runs) == 24
    journals = [import_run(text, run, Given(), ORIGIN) for run in runs]
    measures = {"uniBw": "unidirectional", "biBw": "bidirectional", "latency": "latency"}
    commands = [one for one in LOG.splitlines() if one.startswith("$")]
    for journal, command in zip(journals, commands, strict=True):
        words = dict(one.removeprefix("--").split("=") for one in command.split()[2:])
        assert len(journal.results) == 56
        copy = journal.results[0].transfer
        assert copy.measure == measures[words["perf"]]
        assert copy.direction == words["p2p_direction"]
        assert copy.engine == words["p2p_type"]
        assert copy.kernel == ("" if prompt is None else words.get("kernel", ""))
    assert len({one.header.run_id for one in journals}) == 24
    assert journals[0].results[0].summary.bytes_per_s == 47.5e9
    assert journals[-1].results[0].summary.time_s == pytest.approx(1.81e-6)


@pytest.mark.parametrize("end", range(20, 400, 190))
def test_a_log_that_is_cut_has_the_runs_before_the_cut(end):
    lines = LOG.splitlines()
    text, runs = _runs("\n".join(lines[:end]))
    whole, all_runs = _runs(LOG.rstrip("\n"))
    complete = [run for run in all_runs if run.last <= end]
    assert runs[: len(complete)] == complete
    for run in complete:
        alone = Text("a.txt", part_of(whole, run).content)
        assert _outcome(text, run, Given()) == _said(read(alone.content))
    assert len(runs) <= len(complete) + 1


def test_lines_are_those_of_the_log():
    content = "\n" * 7 + (TEXTS / "pccl-p2p.txt").read_text()
    text, runs = _runs(content + (TEXTS / "nccl-tests-2.19.txt").read_text())
    assert (runs[0].first, runs[0].last) == (1, 30)
    damaged = text.content.split("\n")
    number = runs[-1].last - 10
    assert damaged[number - 1].split()[2] == "float"
    damaged[number - 1] += " 1 2 3"
    text, runs = _runs("\n".join(damaged))
    with pytest.raises(UsageError, match=rf"a\.txt:{number}: \d+ columns"):
        import_run(text, runs[-1], Given(), ORIGIN)


def test_a_table_of_results_is_a_run_for_each_row():
    """Nothing but sizes that start again separates the rows of different machines."""
    names = ("flagcx-a800", "flagcx-c550", "flagcx-p800")
    rows = [(TEXTS / f"{name}.txt").read_text() for name in names]
    head = (
        "$ mpirun -np 2 ./test_allreduce -p 1\n| library | machine | bandwidth |\n|---|---|---|\n"
    )
    text, runs = _runs(head + "".join(rows))
    assert [(run.first, run.last) for run in runs] == [(1, 4), (5, 5), (6, 7)]
    text, runs = _runs(f"{head}| | | AllReduce |\n{''.join(rows)}")
    for run, row in zip(runs, rows, strict=True):  # the head of the table names the operation
        assert _outcome(text, run, Given()) == _said(read(row, operation="all_reduce"))
