"""Pages, and all formats: whatever a journal holds stays text, and only own scripts run."""

import base64
import csv
import dataclasses
import functools
import hashlib
import io
import json
import math
import re
from collections import Counter
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.printable import plain, printable
from cclmark.document.blocks import Finding, Gain
from cclmark.document.chart_model import Heat
from cclmark.document.exporters import exporter_of
from cclmark.document.naming import NamedRun
from cclmark.document.page import page as page_module
from cclmark.document.page.page import Encoder, Insights, render, uniform_words
from cclmark.document.text import escape, token
from cclmark.document.ticks import Scale
from cclmark.journal import schema
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import WrongOutput
from cclmark.kinds.registry import KINDS, parse_journal, read_journal
from cclmark.report.run_page import device_map, page_of
from cclmark.work.items import COLLECTIVE
from examples import examples
from places import TESTS
from reports import (
    COLLECTIVES,
    hostile_case,
    hostile_header,
    page_data,
    whole_texts,
)

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "'\"><svg/onload=alert(1)>",
    "<!--<script>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "\u2028alert(1)\u2029",
    "\ud800\x00\x1b[2J",
    "&lt;b&gt;",
)


class Parsed(HTMLParser):
    """What a browser would find: tags, the attributes that can run something, and scripts."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.ids = Counter(), Counter()
        self.handlers, self.addresses, self.scripts = [], [], []
        self.policy = ""
        self._script = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        attributes = dict(attrs)
        if "id" in attributes:
            self.ids[attributes["id"]] += 1
        self.handlers += [name for name in attributes if name.startswith("on") or name == "style"]
        self.addresses += [attributes[name] for name in ("href", "src") if name in attributes]
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        if tag == "script":
            self._script = (attributes.get("type", ""), [])

    def handle_endtag(self, tag):
        if tag == "script":
            kind, parts = self._script
            self.scripts.append((kind, "".join(parts)))
            self._script = None

    def handle_data(self, data):
        if self._script:
            self._script[1].append(data)


def hostile_journal(text):
    machine = dict.fromkeys(("hostname", "processor", "system", "kernel"), text)
    header = hostile_header(
        SAMPLE.header,
        text,
        machine=replace(SAMPLE.header.machine, **machine),
        libraries=[replace(SAMPLE.header.libraries[0], name=text, version=text, path=text)],
        **dict.fromkeys(("started_at", "run_id", "launcher"), text),
    )
    results = [replace(hostile_case(one, text), reason=text) for one in SAMPLE.results]
    trace = schema.Trace(text, text, 1, {0: [schema.TracedStage(text, 0.0, 1.0)]}, [text])
    paths = schema.Paths(text, text, parameters={text: text}, messages=[text])
    return Journal(header, results, footer=SAMPLE.footer, traces=[trace], paths=[paths])


def render_journal(journal, name="run"):
    return render(page_of([NamedRun(name, journal)]))


@functools.cache
def usual():
    return Parsed(render_journal(SAMPLE))


def test_the_policy_lets_just_the_pages_script_and_style_be_used():
    html = render_journal(SAMPLE)
    parsed = Parsed(html)
    (script,) = (text for kind, text in parsed.scripts if kind == "")
    (style,) = re.findall("<style>(.*?)</style>", html, re.DOTALL)
    assert {*re.findall(r"'sha256-([^']+)'", parsed.policy)} == {
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (script, style)
    }
    assert parsed.policy.startswith("default-src 'none'; ")
    for word in ("http", "unsafe", "connect-src", "*"):
        assert word not in parsed.policy
    assert parsed.handlers == []
    assert {*parsed.ids.values()} == {1}


def test_large_pages_have_the_drawings_of_folded_sections_compressed(monkeypatch):
    whole = render_journal(SAMPLE)
    inline = re.findall(r'data-chart="([^"]+)">(<svg.*?</svg>)</div>', whole)
    assert len(inline) > 1 and "drawings" not in page_data(whole)
    monkeypatch.setattr(page_module, "_MOST_DRAWN", len(inline[0][1]))
    html = render_journal(SAMPLE)
    assert re.findall(r'data-chart="([^"]+)">(<svg.*?</svg>)</div>', html) == inline[:1]
    assert page_data(html)["drawings"] == dict(inline[1:])


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_strings_stay_text(text):
    html = render_journal(hostile_journal(text), text)
    parsed = Parsed(html)
    for tag in ("script", "img", "style", "iframe"):
        assert parsed.tags[tag] == usual().tags[tag], tag
    assert parsed.handlers == []
    assert all(address.startswith("#") for address in parsed.addresses)
    assert [kind for kind, _ in parsed.scripts] == [kind for kind, _ in usual().scripts]
    assert parsed.policy == usual().policy
    assert not [body for kind, body in parsed.scripts if kind != "" and "<" in body]
    further = [svg for views in page_data(html)["views"].values() for _, svg, _ in views[1:]]
    drawn = Parsed("".join(further))
    assert drawn.tags.keys() <= {"svg", "g", "path", "text"}
    assert drawn.handlers == []


def test_numbers_have_six_digits_and_are_those_of_json():
    shortened = page_module.shortened
    assert [*map(shortened, (1.23456789, 12345678.9, 2.0))] == [1.23457, 12345700, 2]
    for value in (math.nan, math.inf, -math.inf):
        assert shortened(value) is None
        with pytest.raises(ValueError, match="JSON"):
            page_module.packed([value])
    assert page_module.packed("a\ud800b").isascii()


def test_the_ratio_of_an_axis_ends_may_exceed_the_largest_number():
    assert Scale(1e-200, 1e200, 0, 10, is_log=True)(1.0) == pytest.approx(5)


def test_rows_in_order_are_folded_behind_the_others():
    journal = read_journal(TESTS / "journals" / "check.jsonl")
    passed = [one.check.name for one in journal.results if one.status == "ok"]
    summary = f"<summary>{len(passed)} of {len(journal.results)} in order</summary>"
    shown, folded = render_journal(journal).split(summary)
    cells = {name: f"<td>{name}</td>" for name in (one.check.name for one in journal.results)}
    assert [name for name, cell in cells.items() if cell in folded] == passed
    assert len(passed) < len(cells) == sum(cell in shown + folded for cell in cells.values())


def test_commands_in_advice_are_code_and_nothing_else_is_html():
    assert page_module._coded("look: `cclmark <p2p>` & `x`") == (
        "look: <code>cclmark &lt;p2p&gt;</code> &amp; <code>x</code>"
    )
    assert "`cclmark" not in render_journal(SAMPLE).split("<script")[0]


@pytest.mark.parametrize(("kinds", "legend"), [(["NV4"] * 3, []), (["NV4", "SYS", "SYS"], [2])])
def test_connections_of_devices_are_drawn_unless_all_are_alike(kinds, legend):
    pairs = [(0, 1), (0, 2), (1, 2)]
    relations = [schema.Relation(*pair, kind) for pair, kind in zip(pairs, kinds, strict=True)]
    devices = COLLECTIVES.header.devices[:3]
    header = replace(COLLECTIVES.header, devices=devices, relations=relations)
    assert [len(one.legend) for one in device_map(header)] == legend
    html = render_journal(dataclasses.replace(COLLECTIVES, header=header))
    assert ("NV4 between all 3 pairs" in html) == (not legend)


@given(st.lists(st.text(alphabet="a 1.,%-é", max_size=12), unique=True))
def test_texts_are_words_and_figures(texts):
    encoder = Encoder()
    encoder.cells([f"{'long ' * 6}{text}" for text in texts])
    assert whole_texts(encoder.texts) == [f"{'long ' * 6}{text}" for text in texts]


def heat(values, key="k", title="Bandwidth [GB/s]", unit="GB/s", **properties):
    rows, columns = ([f"DEV{one}" for one in range(len(own))] for own in (values, values[0]))
    texts = [["x" if one is None else str(one) for one in row] for row in values]
    found = Heat(key, title, "", "", unit, rows, columns, values, texts, texts)
    return dataclasses.replace(found, **properties)


ALIKE = [[None, 396.02], [395.1, None]]
RANKS = {"unit": "%", "title": "Ranks", "centred": True}


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (heat(ALIKE), "Bandwidth: 395 to 396 GB/s in all 2 cells"),
        (heat([[0.0, -0.4]], **RANKS), "Ranks: all within ±0.4 %"),
        (heat([[0.0, -9.0]], **RANKS), ""),
        (heat([[396.0, 200.0]]), ""),
        (heat(ALIKE, wrong=[(0, 0)]), ""),
        (heat(ALIKE, texts=[["x", "▼ 396"], ["395", "x"]]), ""),
    ],
)
def test_a_map_of_values_that_are_alike_is_a_sentence(one, words):
    assert uniform_words(one) == words


def test_three_findings_are_at_the_top_the_most_severe_and_those_with_a_gain_first():
    gain = Gain(1.2, "times as fast")
    severities = ("look a", "good g", "unknown u", "look b", "note n", "bad c")
    *own, bad = (
        Finding("id", *words.split(), gain=gain if words == "look b" else None)
        for words in severities
    )
    found = Insights.of([("", own), ("run", [bad])])
    first = [("run", "c"), ("", "b"), ("", "a")]
    assert [(name, one.sentence) for name, one in found.first] == first
    assert [one.sentence for _, own in found.more for one in own] == ["u"]
    assert [one.sentence for _, own in found.passed for one in own] == ["g"]
    assert Insights.count(found.notes) == 1


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


@pytest.mark.parametrize("name", FORMAT_NAMES)
@settings(max_examples=examples(100))
@given(run=runs())
def test_no_control_character_gets_out(name, run):
    text = export(name, run)
    assert text.replace("\n", "").isprintable()
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
