"""Which journals adaptive runs continue with ``--resume``."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.journal.journal_file import JournalWriter
from cclmark.journal.resume import outline_of
from cclmark.kinds.experiment.measured_trials import EarlierTrials
from cclmark.kinds.experiment.plan import SEARCH, Trial, trials_of
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.registry import read_journal
from cclmark.work.cases import Case
from cclmark.work.variants import DEFAULT
from places import TESTS

HEADER = read_journal(TESTS / "golden" / "sample.jsonl").header
CASE = Case("all_reduce", "shm", 2, "float32", 1024, 256, False, reduction="sum")
NOMINAL = trials_of([CASE], [DEFAULT], 1)
REQUEST = SimpleNamespace(outline=outline_of(NOMINAL, 2, 2), settings=HEADER.settings)


def read(path, request=REQUEST, **options):
    return EarlierTrials.read(
        path, request, "cclmark tune", lambda trial: bool(trial.stage), **options
    )


@pytest.fixture
def journal(tmp_path):
    """Writes a journal with the plan of ``items``."""

    def write(results, items=NOMINAL):
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.jsonl"
        writer = JournalWriter(path)
        plan = outline_of(items, 2, 2)
        writer.write(replace(HEADER, plan=plan, devices=[], planned_cases=1))
        for one in results:
            writer.write(one)
        writer.close(keep=True)
        return path

    return write


def result(stage, status="died", reason="for the test"):
    return TrialResult(0, Trial(DEFAULT, 0, CASE, stage), status, reason=reason)


def test_journals_of_other_runs_are_refused(journal):
    with pytest.raises(UsageError, match="not the journal of cclmark tune"):
        read(journal([result("")]))
    larger = replace(CASE, size_bytes=4096, count=1024)
    with pytest.raises(UsageError, match="sizes"):
        read(journal([], trials_of([larger], [DEFAULT], 1)))
    settings = replace(HEADER.settings, iterations=77)
    other = SimpleNamespace(**{**vars(REQUEST), "settings": settings})
    with pytest.raises(UsageError, match="-n: not given in the journal, 77 in this command"):
        read(journal([result(SEARCH)]), other)


def test_failures_can_be_repeated(journal):
    results = [
        result(SEARCH, "skipped", "the library lacks it"),
        result(SEARCH, "skipped", "the variant failed before: rank 1 died"),
        result(SEARCH, "timeout"),
        result(SEARCH),
    ]
    path = journal(results)
    assert len(read(path).results) == 4
    again = read(path, repeats_failures=True)
    assert [one.reason for one in again.results] == ["the library lacks it"]
    assert again.predecessor.carried == 1
    text = f"1 trial of {path}, begun {HEADER.started_at}, is kept; 3 trials that failed there"
    assert again.notices() == [f"{text} are measured again"]


def test_damaged_lines_are_reported(journal):
    path = journal([result(SEARCH)])
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "{damaged\n", *lines[1:]]))
    assert read(path).notices()[1:] == [f"1 line of {path} cannot be used"]
