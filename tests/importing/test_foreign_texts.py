"""Texts of other tools: every figure at its place with the tool's definition, or refused."""

import json
import math
import time
from datetime import datetime

import pytest

from cclmark.base.errors import UsageError
from cclmark.history.history_model import stored_moment
from cclmark.journal.journal_file import JournalWriter
from cclmark.kinds.registry import read_journal
from cclmark.report.exports import replayed
from cclmark_importers.importers import IMPORTERS
from foreign_texts import (
    CASES,
    LACKING,
    MADE,
    TEXTS,
    contents_of,
    expected_of,
    outcome,
    read,
    stored,
)

FILES = sorted([*TEXTS.iterdir(), *MADE.iterdir()])
ALL_CASES = [json.loads(line) for line in CASES.read_text().splitlines()]
SIXTEEN = (MADE / "nccl-tests-16-ranks.txt").read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_journal_of_a_text(file, tmp_path):
    journal = read(file.read_bytes(), **LACKING.get(file.name, {}))
    assert contents_of(journal) == expected_of(file.name)
    path = tmp_path / "journal.jsonl"  # has every field that readers require
    writer = JournalWriter(path)
    for line in journal.lines:
        writer.write(line)
    writer.close(keep=True)
    back = read_journal(path)
    assert (back.results, back.damaged_lines) == (journal.results, 0)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case["what"])
def test_a_text_with_changes(case):
    assert outcome(case) == {key: case[key] for key in ("refused", "changes") if key in case}


def test_every_importer_is_documented():
    page = (TEXTS.parents[1] / "docs" / "reference" / "imports.md").read_text()
    assert [name for name in IMPORTERS if f"`{name}`" not in page] == []


def test_what_is_no_text_of_a_tool():
    journal = (TEXTS.parent / "golden" / "sample.jsonl").read_bytes()
    for content, message in (
        *((b"", "is empty"), (b" \n\t\n", "is empty"), (b"\x7fELF\0\0\0\1", "is binary")),
        (journal, "already a journal of cclmark"),
    ):
        with pytest.raises(UsageError, match=message):
            read(content)


# Texts as launchers, mails and documents pass them on.


@pytest.mark.parametrize("name", ["all-gather-object", "all-reduce-bench", "hccl-test"])
def test_lines_of_comments_are_read_as_lines(name):
    plain, given = (TEXTS / f"{name}.txt").read_bytes(), LACKING.get(f"{name}.txt", {})
    commented = b"import torch\n#\n# " + plain.replace(b"\n", b"\n# ")
    assert read(commented, **given).results == read(plain, **given).results


@pytest.mark.parametrize("file", sorted(TEXTS.glob("*.txt")), ids=lambda file: file.name)
def test_line_ends_of_windows_are_no_matter(file):
    plain, given = file.read_bytes(), LACKING.get(file.name, {})
    assert read(plain.replace(b"\n", b"\r\n"), **given).results == read(plain, **given).results


@pytest.mark.parametrize(
    "prefix",
    [
        *("[1,0]<stdout>:", "0: ", "[default0]:", "\x1b[32m", "│ "),
        *("2026-01-02T03:04:05.678Z ", "[2026-01-02 03:04:05] ", "03:04:05 | "),
        "> 2026-01-02 03:04:05 [1,0]<stdout>: ",
    ],
)
def test_what_stands_before_lines_is_no_matter(prefix):
    quoted = "".join(f"{prefix}{line}\n" for line in SIXTEEN.splitlines())
    assert read(quoted).results == read(SIXTEEN).results


def test_what_stands_around_a_table_is_no_matter():
    width = max(map(len, SIXTEEN.splitlines()))
    lines = [f"│ {line:<{width}} │\n" for line in SIXTEEN.splitlines()]
    rule = "─" * (width + 2)
    for text in (f"┌{rule}┐\n{''.join(lines)}└{rule}┘\n", SIXTEEN.encode("utf-16")):
        assert read(text).results == read(SIXTEEN).results


def test_a_table_without_any_sign():
    text = SIXTEEN + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 44.2368\n"
    bare = text.replace("#wrong", "?wrong").replace("#", " ").replace("?wrong", "#wrong")
    assert contents_of(read(bare)) == contents_of(read(text))
    assert contents_of(read(bare))[-1] == "end"


def test_other_units_below_the_head_are_refused():
    head = SIXTEEN[: SIXTEEN.index("  1048576  262144")]
    units = "# (B) (elements)" + "  (us)  (GB/s)  (GB/s)" * 2 + "\n"
    printed = SIXTEEN.replace(head, head + units)
    for text in (printed, printed.replace("(us)", "(µs)")):
        assert read(text).results == read(SIXTEEN).results
    for due, unit in (("us", "ms"), ("B", "KiB"), ("GB/s", "Gb/s")):
        with pytest.raises(
            UsageError, match=rf"^a\.txt:22: the unit \({unit}\), but .* prints \({due}\): copy"
        ):
            read(printed.replace(f"({due})", f"({unit})"))


# What is derived from a text beside its figures.


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone cannot be changed here")
def test_local_time_is_no_utc(monkeypatch):
    began = datetime.fromisoformat(stored("nccl-tests.json").header.started_at)
    assert began == datetime(2026, 9, 1, 10, 11, 12).astimezone()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        began = stored("nccl-tests.json").header.started_at
    finally:
        monkeypatch.undo()
        time.tzset()
    assert stored_moment(began) == "2026-09-01T01:11:12.000Z"


@pytest.mark.parametrize(
    ("place", "value", "damaged"),
    [
        (("cases", 1, "summary", "time_s"), math.inf, r"cases\[1\]"),
        (("header", "settings", "max_time_s"), math.nan, "header"),
    ],
)
def test_json_of_ours_with_what_no_journal_can_hold_is_refused_whole(place, value, damaged):
    """It would be left out by whoever reads the journal."""
    sample = read_journal(TEXTS.parent / "golden" / "sample.jsonl")
    document = json.loads("".join(replayed(sample, "json")))
    assert len(read(json.dumps(document)).results) == len(sample.results)
    *path, last = place
    parent = document
    for key in path:
        parent = parent[key]
    parent[last] = value
    with pytest.raises(UsageError, match=f"damaged: {damaged} contain"):
        read(json.dumps(document))
