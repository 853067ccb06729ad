"""Journals and documents in a page: read back unchanged, by every command, or refused."""

import base64
import bz2
import json
import re
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import cclmark as api
from cclmark.base.errors import UsageError
from cclmark.document.naming import NamedRun
from cclmark.document.page.page import render
from cclmark.document.page.page_model import Page, Rows
from cclmark.journal import page_journals
from cclmark.journal.page_journals import JOURNALS_ID, expanded, packed_in, read_lines, unpack
from cclmark.journal.schema import SCHEMA_VERSION
from cclmark.kinds.registry import parse_journal, read_journal
from cclmark.report import run_page
from examples import examples
from places import H200X4, TESTS

JOURNALS = {path.stem: path for path in sorted((TESTS / "journals").iterdir())}
EACH = pytest.mark.parametrize("name", JOURNALS)
RUNS = [H200X4 / "runs" / f"{name}.jsonl" for name in ("default-1", "ctas8")]
HEAD = '<!DOCTYPE html>\n<meta name="generator" content="cclmark 1.0">\n'


def script(text, head=HEAD, end="</body></html>\n"):
    return f'{head}<script type="application/json" id="{JOURNALS_ID}">{text}</script>{end}'.encode()


def packed(*runs, **changes):
    """The JSON of a page with ``runs``, each a name and a content."""
    found = [msgspec.to_builtins(page_journals.pack(*one)) for one in runs]
    version = page_journals.PAGE_VERSION
    return json.dumps({"version": version, "runs": [one | changes for one in found]})


def page_with(*paths):
    runs = [NamedRun(path.stem, read_journal(path), content=path.read_bytes()) for path in paths]
    content = run_page.embedded(runs)[0]
    return render(Page("a", "b", [], [], [], Rows([], []), embedded=content)).encode()


def journal_in(embedded):
    """The journal of the only run of a page whose scripts have these texts."""
    (found,) = packed_in(script(embedded[JOURNALS_ID]), "page")
    return parse_journal(unpack(found, "page").splitlines(), "page")


@pytest.fixture
def page(tmp_path):
    """Writes a page with journals."""

    def write(*paths, name="page.html"):
        (tmp_path / name).write_bytes(page_with(*paths))
        return tmp_path / name

    return write


@EACH
def test_a_journal_comes_back_byte_for_byte_or_in_the_schema_of_today(page, name):
    journal = read_journal(JOURNALS[name])
    assert read_lines(page(JOURNALS[name]))[0] == JOURNALS[name].read_bytes()
    assert read_journal(page(JOURNALS[name])) == journal
    without_a_file = journal_in(run_page.embedded([NamedRun("run", journal)])[0])
    journal.header.schema_version = SCHEMA_VERSION
    assert without_a_file == journal


def test_pages_of_version_1_are_read(tmp_path):
    content = JOURNALS["pairs"].read_bytes()
    run = {"name": "run", "size_bytes": len(content)}
    run["zlib"] = base64.b64encode(zlib.compress(content)).decode()
    (tmp_path / "old.html").write_bytes(script(json.dumps({"version": 1, "runs": [run]})))
    assert read_lines(tmp_path / "old.html")[0] == content


def test_a_damaged_journal_stays_damaged_and_says_so_without_its_file(page, tmp_path):
    first, *rest = JOURNALS["pairs"].read_bytes().splitlines(keepends=True)
    path = tmp_path / "cut.jsonl"
    path.write_bytes(first + rest[0].replace(b"1", b"2", 1) + b"".join(rest[1:])[:-20])
    journal = read_journal(path)
    assert journal.damaged_lines == 2
    assert read_journal(page(path)) == journal
    journal = journal_in(run_page.embedded([NamedRun("run", journal)])[0])
    assert journal.damaged_lines == 0
    assert journal.header.notices[-1] == "damaged lines are left out: 2"


def test_one_of_several_is_chosen_by_name_or_number(page):
    path = page(*RUNS)
    for place, run in enumerate(RUNS, start=1):
        for choice in (run.stem, place):
            assert read_lines(Path(f"{path}#{choice}"))[0] == run.read_bytes()
    both = [f"{path}#default-1", f"{path}#ctas8"]
    assert expanded([str(path), str(RUNS[0])]) == [*both, str(RUNS[0])]
    with pytest.raises(UsageError, match=r"2 journals \(default-1, ctas8\): choose one, for"):
        read_journal(path)
    for choice in ("other", "0", "3"):
        with pytest.raises(UsageError, match=f"none is '{choice}'"):
            read_journal(Path(f"{path}#{choice}"))
    with pytest.raises(UsageError, match="is not a page"):
        read_journal(Path(f"{RUNS[0]}#1"))


def test_a_file_whose_name_contains_the_sign_is_a_file(page, tmp_path):
    path = page(RUNS[0], name="a#b.html")
    assert read_lines(path)[0] == RUNS[0].read_bytes()
    assert page_journals.file_of(Path(f"{path}#1")) == path
    for missing in (Path("#" * 5000), tmp_path / "none#1"):
        assert page_journals.file_of(missing) == missing
    assert page_journals.stem_of("a/page.html#one run") == "one run"
    assert page_journals.stem_of("a/b.jsonl") == "b"


def test_samples_of_large_journals_are_left_out_with_notices(monkeypatch):
    monkeypatch.setattr(run_page, "MOST_WITH_SAMPLES_BYTES", 1000)
    stored = read_journal(RUNS[0])
    page = run_page.page_of([NamedRun("run", stored, content=RUNS[0].read_bytes())])
    assert "Raw samples are left out" in page.made_by
    journal = journal_in(page.embedded)
    # The run is from before summaries had the spread of samples.
    unknown = {"spread": None, "outliers": 0, "outlier_span": None}
    for one, whole in zip(journal.cases, stored.cases, strict=True):
        expected = msgspec.to_builtins(replace(whole.summary, **unknown))
        assert msgspec.to_builtins(one.summary) == pytest.approx(expected, rel=1e-4)
        assert one.started_at_s == round(whole.started_at_s, 3)
    assert "no raw samples" in journal.header.notices[-1]
    monkeypatch.setattr(run_page, "MOST_BYTES", 1000)
    without = run_page.page_of([NamedRun("run", read_journal(RUNS[0]))])
    assert JOURNALS_ID not in without.embedded
    assert without.made_by.endswith("too large for this file: keep them.")
    served = run_page.page_of([NamedRun("run", read_journal(RUNS[0]))], embeds=False)
    assert served.embedded == {}


def shortened(value, name=""):
    """A result as builtins without samples, with figures of five digits, and milliseconds."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key != "samples" or one == 1}
        return {key: shortened(one, key) for key, one in kept.items()}
    if isinstance(value, list | tuple):
        return [shortened(one) for one in value]
    if not isinstance(value, float):
        return value
    return round(value, 3) if name.endswith("at_s") else float(f"{value:.5g}")


@EACH
def test_nothing_else_is_left_out_with_the_samples(name):
    content = JOURNALS[name].read_bytes()
    shorter = run_page.without_samples(content, read_journal(JOURNALS[name]).results)
    whole, less = (
        parse_journal(one.splitlines(), name, as_written=True) for one in (content, shorter)
    )
    assert b'"samples":{' not in shorter
    assert (shorter == content) == (b'"samples":{' not in content)
    for part in ("damaged_lines", "conditions", "traces", "paths", "profile", "footer"):
        assert getattr(less, part) == getattr(whole, part)
    assert shortened(msgspec.to_builtins(less.results)) == shortened(
        msgspec.to_builtins(whole.results)
    )
    assert run_page.page_of([NamedRun("run", less)]).sections


def test_all_runs_of_a_page_are_read_and_can_be_named(page, cclmark, tmp_path):
    path = page(*RUNS)
    assert cclmark("export", "--format", "csv", path).out.count("busbw_gbps") == 1
    for words, names in (
        ([path], ["default-1", "ctas8"]),
        ([f"usual={path}#1", f"{path}#ctas8"], ["usual", "ctas8"]),
    ):
        cclmark("report", *words, "-o", "two.html")
        packed_runs = packed_in((tmp_path / "two.html").read_bytes(), "")
        assert [one.name for one in packed_runs] == names
    assert "26 cases" in cclmark("compare", f"{path}#default-1", f"{path}#ctas8").out
    assert "would be overwritten" in cclmark("report", f"a={path}#ctas8", code=2).err


def test_import_and_python_read_the_journals_of_a_page(page, cclmark, tmp_path):
    path = page(*RUNS)
    cclmark("import", path)
    found = sorted((tmp_path / "cclmark-runs").iterdir())
    assert [read_journal(one) for one in found] == [read_journal(one) for one in RUNS]
    cclmark("import", f"{path}#ctas8", "-o", "ctas8.jsonl")
    assert read_journal(tmp_path / "ctas8.jsonl") == read_journal(RUNS[1])
    assert "none is 'other'" in cclmark("import", f"{path}#other", code=2).err
    opened = api.open(f"{path}#ctas8")
    assert (opened.name, opened.journal) == ("ctas8", read_journal(RUNS[1]))


AB, ABC = ("a", b"b"), ("a", b"abc")
WITH_MORE = base64.b64encode(bz2.compress(b"abc") + b"x").decode()
NEWER = "version 999 of the format of pages, newer than 2: update cclmark"
MOST = page_journals.MOST_BYTES
WRONG = {
    "of another version": (script('{"version":999,"zip":[]}'), NEWER),
    "with an unknown field": (script(packed(AB, zip=1)), "damaged page"),
    "without a field": (script('{"version":1}'), "damaged page"),
    "with no journal": (script(packed(*[])), "there is none"),
    "not base64": (script(packed(AB, bz2="§")), "damaged page"),
    "not compressed": (script(packed(AB, bz2="YWJj")), "damaged page"),
    "of another size": (script(packed(ABC, size_bytes=2)), "stated 2 bytes"),
    "smaller than stated": (script(packed(ABC, size_bytes=9)), "stated 9 bytes"),
    "too large": (script(packed(ABC, size_bytes=1 << 40)), "damaged page"),
    "too large together": (script(packed(AB, AB, size_bytes=MOST)), "more than 268435456"),
    "with more behind": (script(packed(ABC, bz2=WITH_MORE)), "stated 3 bytes"),
    "twice": (2 * script(packed(AB)), "in 2 places"),
    "cut off in its journals": (script(packed(AB))[:-40], "cut off"),
    "cut off before": (HEAD.encode(), "cut off"),
    "of cclmark, without journals": (f"{HEAD}</html>".encode(), "cclmark without journals"),
    "of another program": (b"<html><body>a</body></html>", "of another program"),
    "with something else": (script(packed(("a", b"text"))), "is not a journal of cclmark"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_page_is_refused(tmp_path, cclmark, name):
    content, message = WRONG[name]
    path = tmp_path / "page.html"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=re.escape(message)) as raised:
        read_journal(path)
    assert "page.html" in str(raised.value)
    for words in (
        "report",
        "export --format csv",
        f"compare {RUNS[0]}",
        "history add --db h",
        "import",
    ):
        cclmark(*words.split(), path, code=2)


@pytest.mark.parametrize("format", [bz2, zlib])
def test_a_small_page_cannot_fill_the_memory(format):
    bomb = base64.b64encode(format.compress(bytes(50 << 20))).decode()
    text = packed(("a", b""), size_bytes=1000, **{"bz2": "", format.__name__: bomb})
    (found,) = packed_in(script(text), "page")
    with pytest.raises(UsageError, match="stated 1000 bytes"):
        unpack(found, "page")


PAGE = page_with(JOURNALS["memory"])
BEGIN = PAGE.index(JOURNALS_ID.encode()) - 40


@given(st.integers(BEGIN, len(PAGE) - 1), st.binary(max_size=10), st.integers(0, 50))
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_changed_page_is_read_or_refused(place, inserted, left_out):
    changed = PAGE[:place] + inserted + PAGE[place + left_out :]
    try:
        for one in packed_in(changed, "page"):
            assert unpack(one, "page") == JOURNALS["memory"].read_bytes()
    except UsageError as error:
        assert len(str(error)) < 1000
