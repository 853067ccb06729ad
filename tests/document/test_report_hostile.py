"""Whatever strings a journal holds, the formats keep their shape and reach no terminal raw."""

import csv
import io
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.printable import plain, printable
from cclmark.document.exporters import exporter_of
from cclmark.document.text import escape, token
from cclmark.journal.schema import WrongOutput
from cclmark.kinds.registry import KINDS, parse_journal, read_journal
from cclmark.work.items import COLLECTIVE
from examples import examples
from places import TESTS

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
OK, WRONG, SKIPPED = SAMPLE.results[0], SAMPLE.results[3], SAMPLE.results[4]
FORMAT_NAMES = ("table", "csv", "json", "markdown", "nccl-tests", "flagcx", "hccl")

STRINGS = (
    "\x1b[2J\x1b]0;title\x07",
    "a\r\nb\n# Avg bus bandwidth    : 999\n",
    'x","y\n=1+1',
    "| a | b |\n|---|---|",
    "`</code><script>alert(1)</script>",
    "![x](http://example.org) **b** @all #1 $x$",
    "\u202egnp.exe\u2028\u0085\x9b31m",
    "\ud800",
    "\\|",
    "",
)
hostile = st.one_of(st.sampled_from(STRINGS), st.text(alphabet=st.characters(), max_size=40))


def with_hostile(draw, value, *names):
    return replace(value, **{name: draw(hostile) for name in names})


@st.composite
def results(draw):
    """A result with figures, with findings or with a reason, all of its strings hostile."""
    base = draw(st.sampled_from((OK, WRONG, SKIPPED)))
    case = with_hostile(draw, base.case, "operation", "ccl", "dtype")
    case = replace(case, reduction=draw(st.none() | hostile))
    base = with_hostile(draw, replace(base, case=case), "route", "reason")
    if base.status != "wrong":
        return base
    finding = WrongOutput(1, 1, 0, draw(hostile), draw(hostile))
    return replace(base, verification=replace(base.verification, findings=[finding]))


@st.composite
def runs(draw):
    """A header, a few results and a footer with hostile strings."""
    header = with_hostile(draw, SAMPLE.header, "cclmark_version")
    header = replace(
        header,
        command=draw(st.lists(hostile, max_size=3)),
        devices=[with_hostile(draw, header.devices[0], "name", "host", "pci_bus_id")],
        libraries=[with_hostile(draw, header.libraries[0], "name", "version", "path")],
        notices=draw(st.lists(hostile, max_size=2)),
        machine=with_hostile(draw, header.machine, "processor"),
        settings=with_hostile(draw, header.settings, "timing"),
    )
    footer = with_hostile(draw, SAMPLE.footer, "message")
    return header, draw(st.lists(results(), max_size=4)), draw(st.sampled_from((footer, None)))


def export(name, run):
    header, cases, footer = printable(run)
    exporter = exporter_of(KINDS[COLLECTIVE], name)
    return exporter.begin(header) + "".join(map(exporter.add, cases)) + exporter.end(footer)


def is_printable(text):
    return all(character == "\n" or character.isprintable() for character in text)


@pytest.mark.parametrize("name", FORMAT_NAMES)
@settings(max_examples=examples(100))
@given(run=runs())
def test_no_control_character_gets_out(name, run):
    text = export(name, run)
    assert is_printable(text)
    text.encode("utf-8")


@settings(max_examples=examples(100))
@given(run=runs())
def test_markdown_tables_keep_their_shape(run):
    title, head, text = export("markdown", run).split("```", 2)
    assert (title, head[:5]) == ("# Collectives\n\n", "text\n")
    assert not any(line.lstrip().startswith("```") for line in head.splitlines())
    assert "<" not in text and "`" not in text
    for paragraph in text.split("\n\n"):
        table = [line for line in paragraph.splitlines() if "|" in line]
        columns = {line.count("|") for line in table}
        assert len(columns) <= 1
        assert all(line.startswith("|") and line.endswith("|") for line in table)


@settings(max_examples=examples(100))
@given(run=runs())
def test_rows_keep_their_columns_and_cannot_be_forged(run):
    text = export("csv", run)
    records = list(csv.reader(io.StringIO(text)))
    assert len(records) == len(run[1]) + 1 == text.count("\n")
    assert len({len(record) for record in records}) == 1
    text = export("nccl-tests", run)
    rows = [line.split() for line in text.splitlines() if line.strip() and line[0] != "#"]
    assert {len(row) for row in rows} <= {13}
    assert len(rows) <= len(run[1])
    measured = sum(result.summary is not None for result in run[1])
    lines = export("flagcx", run).splitlines()
    assert sum(line.startswith("Comm size: ") for line in lines) <= measured
    assert all(line.startswith(("Comm size: ", "# ")) for line in lines)
    rows = [line for line in export("hccl", run).splitlines() if "|" in line]
    assert {line.count("|") for line in rows} <= {3}


@settings(max_examples=examples(100))
@given(hostile)
def test_plain_text_is_one_printable_line(text):
    assert plain(text).isprintable()
    assert plain(plain(text)) == plain(text)
    assert len(token(text).split()) == 1


def test_markdown_reads_a_name_as_it_is_written():
    assert escape("all_reduce") == "all_reduce"
    assert escape("_x_ <b>") == "&#95;x&#95; &#60;b&#62;"
    assert escape("http://x") == "http&#58;//x"


@settings(max_examples=examples(100))
@given(run=runs())
def test_a_journal_is_read_with_printable_texts_or_as_written(run):
    header, cases, footer = run
    entries = [entry for entry in (header, *cases, footer) if entry is not None]
    try:
        lines = [msgspec.json.encode(entry) for entry in entries]
    except UnicodeEncodeError:  # a lone surrogate, which no journal can hold
        return
    read = parse_journal(lines, "journal")
    assert (read.header, read.results, read.footer) == printable((header, cases, footer))
    raw = parse_journal(lines, "journal", as_written=True)
    assert (raw.header, raw.results, raw.footer) == (header, cases, footer)
    texts = json.dumps(msgspec.to_builtins([read.header, read.results]), ensure_ascii=False)
    assert texts.isprintable()
