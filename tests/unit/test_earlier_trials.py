"""Which journals adaptive runs continue with ``--resume``."""

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from cclmark.cli.earlier_trials import earlier_trials
from cclmark.errors import UsageError
from cclmark.plan.cases import Case
from cclmark.plan.outline import outline_of
from cclmark.plan.trials import SEARCH, Trial, trials_of
from cclmark.plan.variants import DEFAULT
from cclmark.results.journal import JournalWriter, read_journal
from cclmark.results.kinds import TrialResult

HEADER = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl").header
CASE = Case("all_reduce", "shm", 2, "float32", 1024, 256, False, reduction="sum")
NOMINAL = trials_of([CASE], [DEFAULT], 1)
REQUEST = SimpleNamespace(
    items=NOMINAL, devices=SimpleNamespace(indices=[0, 1]), processes=[[0], [1]]
)


def earlier_of(path):
    return earlier_trials(path, REQUEST, "cclmark tune", lambda trial: bool(trial.stage))


def journal(path, items, results):
    writer = JournalWriter(path)
    plan = outline_of(items, 2, 2)
    writer.write(msgspec.structs.replace(HEADER, plan=plan, devices=[], planned_cases=1))
    for result in results:
        writer.write(result)
    writer.close(keep=True)
    return path


def result(stage):
    return TrialResult(0, Trial(DEFAULT, 0, CASE, stage), "died", reason="for the test")


def test_without_a_journal_there_are_none():
    assert earlier_of(None) == []


def test_a_run_that_was_interrupted_before_its_first_trial_continues(tmp_path):
    assert earlier_of(journal(tmp_path / "a.jsonl", NOMINAL, [])) == []


def test_trials_of_the_search_count_again(tmp_path):
    found = earlier_of(journal(tmp_path / "a.jsonl", NOMINAL, [result(SEARCH)]))
    assert [one.trial.stage for one in found] == [SEARCH]


def test_the_journal_of_an_experiment_is_refused(tmp_path):
    path = journal(tmp_path / "a.jsonl", NOMINAL, [result("")])
    with pytest.raises(UsageError, match="not the journal of cclmark tune"):
        earlier_of(path)


def test_other_sizes_are_refused(tmp_path):
    larger = msgspec.structs.replace(CASE, size_bytes=4096, count=1024)
    path = journal(tmp_path / "a.jsonl", trials_of([larger], [DEFAULT], 1), [])
    with pytest.raises(UsageError, match="sizes"):
        earlier_of(path)
