"""Every block in every renderer, and the fields of results in every table."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.document.blocks import Bars, Document, Facts, Finding, Listing, Stages, Table
from cclmark.document.case_fields import case_fields
from cclmark.document.chart_model import ChartCurve, Heat, Lines
from cclmark.document.document_json import RunDocument, decode_documents, encode_documents
from cclmark.document.document_page import sections_of
from cclmark.document.document_text import DocumentMarkdown, DocumentText
from cclmark.document.fields import Field, Fields
from cclmark.document.insight_words import sentence
from cclmark.document.json_format import JsonExporter
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import Series, lines_of
from cclmark.document.page.page import Encoder
from cclmark.document.report_kind import RunLabels, View
from cclmark.errors import UsageError
from cclmark.kinds.registry import read_journal
from cclmark.plan.cases import Case
from cclmark.report import overview
from cclmark.results.journal import Journal
from cclmark.results.schema import Profile, TracedStage
from examples import examples

JOURNAL = read_journal(Path(__file__).parent / "journals" / "replay.jsonl")
CALLS = [TracedStage("send", 0.0, 0.5), TracedStage("recv", 0.25, 0.5)]  # they overlap
GALLERY = Document(
    "Gallery",
    "3 timed steps",
    [
        Table("times of <a>", ("name", "ms"), [("a|b", "1.5"), ("c", "10.25")], "<>", ["a note"]),
        Table("in per cent", ("name", "%"), [("c", "100")], "<>", belongs=True, wrong=[0]),
        Facts([("compute", "by <b>")]),
        Lines("curve", "Curve", "Says.", "x", "y", [ChartCurve("one", [1.0], [2.0])]),
        Bars("From first to last", "variant", [("one", [("work", 0.25), ("rest", 0.75)])]),
        Stages("Calls", "process", [("one", CALLS), ("two", CALLS[:1])]),
        Heat(
            *("ways", "Ways <b>", "Says.", "size", "% faster", ["µs", "a|b", "c"], ["1 K", "2 K"]),
            values=[[None, None], [20.0, 0.0], [-20.0, None]],
            texts=[["1.5", "2.5"], ["1.20", "1.01"], ["0.80", "WRONG"]],
            hover=[["", ""]] * 3,
            centred=True,
            wrong=[(2, 1)],
        ),
        Listing("result of the search", ["a: share", "  1  *2* %\x1b[1m"]),
    ],
    [
        Finding("bad", "rank 1 is wrong"),
        Finding("look", "nccl is late", advice="measure longer"),
        Finding("note", "all 2"),
    ],
    "1 of 2 checked",
    is_wrong=True,
)


def painted(text, style):
    return f"<{style}>{text}</{style}>" if style else text


def written(renderer, document=GALLERY, footer=JOURNAL.footer, results=()):
    seen = []

    def compose(run):
        seen.append([*run.results])
        return document

    exporter = renderer(compose, View(paint=painted))
    head = exporter.begin(JOURNAL.header)
    assert [exporter.add(one) for one in results] == [""] * len(results)
    body = exporter.end(footer)
    assert seen[-1] == [*results]
    return head, body


class TestJson:
    TEXT = encode_documents([RunDocument("run", "replay", GALLERY)])

    def test_documents_come_back(self):
        (found,) = decode_documents(self.TEXT, "page")
        assert (found.name, found.kind) == ("run", "replay")
        assert [type(one) for one in found.document.blocks] == [type(one) for one in GALLERY.blocks]
        assert found.document.findings == GALLERY.findings
        table, curve = found.document.blocks[0], found.document.blocks[3]
        assert (table.title, table.notes) == (GALLERY.blocks[0].title, ["a note"])
        (own,) = curve.series
        assert (own.name, own.x, own.y) == (GALLERY.blocks[3].series[0].name, [1.0], [2.0])
        assert found.document.blocks[5].rows[0] == ("one", CALLS)
        assert encode_documents([found]) == self.TEXT

    def test_numbers_that_json_does_not_have_are_null(self):
        curve = ChartCurve("one", [1.0, math.inf], [math.nan, 2.0], [None, 1.0])
        lines = Lines("curve", "Curve", "Says.", "x", "y", [curve])
        text = encode_documents([RunDocument("run", "replay", Document("a", "b", [lines]))])
        (found,) = decode_documents(text, "page")
        (series,) = found.document.blocks[0].series
        assert (series.x[0], math.isnan(series.x[1]), series.low) == (1.0, True, [None, 1.0])
        assert math.isnan(series.y[0])

    def test_every_block_has_a_type(self):
        types = {one["type"] for one in json.loads(self.TEXT)["runs"][0]["document"]["blocks"]}
        assert types == {"table", "facts", "lines", "bars", "stages", "heat", "listing"}

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('"type":"facts"', '"type":"poem"', "Invalid value 'poem'"),
            ('"outcome"', '"outcomes"', "unknown field `outcomes`"),
            ('"severity":"bad"', '"severity":"odd"', "Invalid enum value 'odd'"),
            ('"x":[1.0]', '"x":["1"]', "Expected `float"),
            ('"faint":', '"feint":', "unknown field `feint`"),
            ('"version":1', '"version":2', "version 2, newer than 1: update cclmark"),
            ('{"version"', '{{"version"', "JSON is malformed"),
        ],
    )
    def test_other_forms_are_refused(self, old, new, message):
        assert old in self.TEXT
        with pytest.raises(UsageError, match=re.escape(message)) as raised:
            decode_documents(self.TEXT.replace(old, new, 1), "page")
        assert str(raised.value).startswith("page")

    @given(st.data())
    @settings(max_examples=examples(200), deadline=None)
    def test_a_changed_value_is_read_or_refused(self, data):
        whole = json.loads(self.TEXT)
        place = whole
        while isinstance(place, dict | list) and place:
            keys = [*place] if isinstance(place, dict) else [*range(len(place))]
            before, key = place, data.draw(st.sampled_from(keys))
            place = place[key]
            if data.draw(st.booleans()):
                break
        before[key] = data.draw(st.sampled_from([None, -1, 0.5, "", "x", [], {}, [[]], [None]]))
        try:
            found = decode_documents(json.dumps(whole), "page")
        except UsageError:
            return
        encode_documents(found)


def test_json_has_the_findings_of_a_document():
    exporter = JsonExporter("replays", lambda run: GALLERY)
    text = exporter.begin(JOURNAL.header) + exporter.end(JOURNAL.footer)
    assert list(json.loads(text))[-1] == "findings"
    assert json.loads(text)["findings"][1] == {
        "severity": "look",
        "sentence": "nccl is late",
        "subject": "",
        "advice": "measure longer",
    }


def test_json_of_a_journal_that_contradicts_itself_has_no_findings():
    exporter = JsonExporter("replays", lambda run: GALLERY.findings[7])
    text = exporter.begin(JOURNAL.header) + exporter.end(None)
    assert json.loads(text)["findings"] is None
    assert json.loads(text)["findings_error"].startswith("IndexError: ")


def test_text_has_the_blocks_in_order_and_paints_what_is_bad():
    head, body = written(DocumentText)
    assert "method     3 timed steps" in head
    assert body.splitlines() == [
        "",
        "<bold>  times of <a></bold>",
        "<dim>  name     ms</dim>",
        "  a|b     1.5",
        "  c     10.25",
        "<dim>  in per cent</dim>",
        "  name    %",
        "<red>  c     100</red>",
        "  compute    by <b>",
        "",
        "<bold>  Ways <b></bold>",
        "<dim>             1 K       2 K</dim>",
        "    µs       1.5       2.5",
        "   a|b <heat6>     1.20</heat6> <dim>     1.01</dim>",
        "     c <heat0>     0.80</heat0> <red>    WRONG</red>",
        "",
        "<bold>  result of the search</bold>",
        "  a: share",
        "    1  *2* %\\x1b[1m",
        "",
        "  a note",
        "<red>  rank 1 is wrong</red>",
        "<yellow>  nccl is late</yellow>",
        "<yellow>    measure longer</yellow>",
        "  all 2",
        "<red>  1 of 2 checked</red>",
    ]


def in_parts(renderer):
    """A table of a row for each of two results, the second with lines below it."""
    below = {0: "", 1: "late\nrank 1"}

    def compose(run):
        rows = [(f"case {one.index}", "ok", below[one.index]) for one in run.results]
        table = Table(
            "cases", ("case", "x", "why"), rows, "<><", [], widths=(7, 3), is_last_below=True
        )
        return Document("Gallery", "", [table] if rows else [], outcome="2 measured")

    exporter = renderer(compose, View(), lambda result: (result.index, 1))
    exporter.begin(JOURNAL.header)
    results = [SimpleNamespace(index=index) for index in (0, 1)]
    return [*map(exporter.add, results), exporter.end(JOURNAL.footer)]


def test_rows_of_further_parts_continue_a_table_of_given_widths():
    assert in_parts(DocumentText) == [
        "\n  cases\n  case       x\n  case 0    ok\n",
        "  case 1    ok\n           late\n           rank 1\n",
        "\n  2 measured\n",
    ]
    assert in_parts(DocumentMarkdown) == [
        "\n## cases\n\n| case | x | why |\n|---|---:|---|\n| case 0 | ok |  |\n",
        "| case 1 | ok | late |\n|  |  | rank 1 |\n",
        "\n- 2 measured\n",
    ]


def heat(title, names, values, **options):
    texts = [["x" if one is None else f"{one:g}" for one in row] for row in values]
    return Heat(*(title, title, "Says.", "", "GB/s", names, names, values, texts, texts), **options)


def matrices_of_group():
    """Three matrices of one group, the last one with a reason, and one without values."""
    names, shared = ["DEV0", "DEV1"], {"group": "all", "of_devices": True, "meaning": ["row sends"]}
    values = [[None, 1.0], [2.0, None]]
    return [
        heat("all: first", names, values, **shared),
        heat("all: second", names, values, **shared),
        heat("all: third", names, values, reasons=["n/a: <slow>"], **shared),
        heat("kinds", names, [[None, None]] * 2, meaning=["of", "links"], of_devices=True),
    ]


def written_as(renderer, document, **view):
    exporter = renderer(lambda run: document, View(**view))
    exporter.begin(JOURNAL.header)
    return exporter.end(JOURNAL.footer).splitlines()


def test_maps_of_a_group_are_side_by_side_where_they_fit():
    document = Document("Gallery", "", matrices_of_group()[:3])
    row = "  DEV0         x         1"
    assert written_as(DocumentText, document, columns=60) == [
        "",
        "  all",
        "  row sends",
        f"  first{'':25}second",
        f"{'DEV0':>16}{'DEV1':>10}{'DEV0':>20}{'DEV1':>10}",
        f"{row}    {row}",
        "  DEV1         2         x      DEV1         2         x",
        "  third",
        f"{'DEV0':>16}{'DEV1':>10}",
        row,
        "  DEV1         2         x",
        "  n/a: <slow>",
    ]
    narrow = written_as(DocumentText, document, columns=30, most_devices=1)
    assert narrow.count("  DEV0         x") == 3
    assert sum("1 of 2 devices is not shown" in line for line in narrow) == 1


def test_markdown_has_a_heading_for_a_group_and_reasons():
    assert written_as(DocumentMarkdown, Document("Gallery", "", matrices_of_group()[2:])) == [
        "",
        "## all",
        "",
        "row sends",
        "",
        "**third**",
        "",
        *("|  | DEV0 | DEV1 |", "|---|---:|---:|", "| DEV0 | x | 1 |", "| DEV1 | 2 | x |"),
        "",
        "- n/a: &#60;slow&#62;",
        "",
        "## kinds",
        "",
        "of; links",
        "",
        *("|  | DEV0 | DEV1 |", "|---|---:|---:|", "| DEV0 | x | x |", "| DEV1 | x | x |"),
    ]


def test_a_page_has_maps_without_values_as_tables():
    document = Document("Gallery", "", matrices_of_group()[2:])
    (section,) = sections_of(lambda _: document, "gallery", [NamedRun("a", JOURNAL)])
    ((chart,), (table,)) = section.charts, section.tables
    assert (chart.title, [*chart.notes]) == ("all: third", ["row sends", "n/a: <slow>"])
    assert (table.title, [*table.notes]) == ("kinds", ["of", "links"])
    assert [*table.rows] == [["DEV0", "x", "x"], ["DEV1", "x", "x"]]
    assert not {"group", "meaning", "reasons", "of_devices"} & {*Encoder().chart(chart)}


def test_details_are_in_texts_on_request():
    document = Document("Gallery", "", [replace(matrices_of_group()[3], is_detail=True)])
    for renderer in (DocumentText, DocumentMarkdown):
        assert written_as(renderer, document) == []
        assert any("kinds" in line for line in written_as(renderer, document, details=True))


def test_curves_that_texts_have_are_figures_and_a_drawing():
    curves = [ChartCurve("up", [8, 4096], [1.0, 100.0]), ChartCurve("one", [8], [10.0])]
    lines = Lines("key", "Rates", "Says.", "size", "GB/s", curves, in_texts=True)
    text = written_as(DocumentText, Document("Gallery", "", [lines]), columns=80)
    assert [line.split() for line in text[1:5]] == [
        ["Rates"],
        ["a", "up", "b", "one"],
        ["8", "B", "1.00", "10.00"],
        ["4", "KiB", "100.00", "-"],
    ]
    assert text[-1].split() == ["8", "4K"]
    assert sum("a" in line.partition("│")[2] for line in text) == 2
    assert written_as(DocumentMarkdown, Document("Gallery", "", [lines]))[3:] == [
        *(
            "|  | up | one |",
            "|---:|---:|---:|",
            "| 8 B | 1.00 | 10.00 |",
            "| 4 KiB | 100.00 | - |",
        ),
    ]


def test_a_part_in_order_is_complete_when_another_begins():
    samples = set()

    def compose(run):
        keys = [one.key for one in run.results]
        samples.update(one.samples for one in run.results)
        facts = [Facts([("part", "".join(keys))])] if keys else []
        return Document(
            *("Gallery", "", facts),
            [Finding("note", f"{len(keys)} in all")] if run.is_whole else [],
            opening=[Facts([("links", "two")])],
            closing=[Facts([("whole", str(run.is_whole))])],
        )

    exporter = DocumentText(
        compose, View(), lambda one: (one.key, 99), in_order=True, keeps_samples=False
    )
    head = exporter.begin(JOURNAL.header)
    texts = [exporter.add(_Sampled(key, [1.0])) for key in "aab"]
    assert head.endswith("  links      two\n")
    assert texts == ["", "", "  part       aa\n"]
    assert exporter.end(JOURNAL.footer) == ("  part       b\n  whole      True\n\n  3 in all\n")
    assert samples == {None}


class _Sampled(msgspec.Struct):
    key: str
    samples: list[float] | None = None


def test_what_several_parts_alternate_in_is_written_at_the_end():
    def compose(run):
        return Document("Gallery", "", [Facts([("a", str(len(run.results)))])], in_parts=False)

    exporter = DocumentText(compose, View(), lambda one: (one.key, 1))
    exporter.begin(JOURNAL.header)
    assert [exporter.add(_Sampled(key)) for key in "ab"] == ["", ""]
    assert exporter.end(JOURNAL.footer) == "  a          2\n"


def test_what_the_outcome_says_is_on_pages_only(monkeypatch):
    found = [Finding("good", "all were checked", is_outcome=True)]
    document = Document("Gallery", "", findings=found, outcome="1 of 1 checked")
    assert written_as(DocumentText, document) == ["", "  1 of 1 checked"]
    assert [one.sentence for one in insights_of(monkeypatch, document)] == ["All were checked."]


def test_markdown_escapes_and_aligns_by_the_sides():
    head, body = written(DocumentMarkdown)
    assert head.startswith("# Gallery\n\n```text\n")
    assert "<bold>" not in head
    assert body.splitlines() == [
        "",
        "## times of &#60;a&#62;",
        "",
        "| name | ms |",
        "|---|---:|",
        "| a&#124;b | 1.5 |",
        "| c | 10.25 |",
        "",
        "## in per cent",
        "",
        "| name | % |",
        "|---|---:|",
        "| c | 100 |",
        "",
        "- compute: by &#60;b&#62;",
        "",
        "## Ways &#60;b&#62;",
        "",
        "| size | 1 K | 2 K |",
        "|---|---:|---:|",
        "| µs | 1.5 | 2.5 |",
        "| a&#124;b | 1.20 | 1.01 |",
        "| c | 0.80 | WRONG |",
        "",
        "## result of the search",
        "",
        "```text",
        "a: share",
        "  1  *2* %\\x1b[1m",
        "```",
        "",
        "- a note",
        "- rank 1 is wrong",
        "- nccl is late",
        "  - measure longer",
        "- all 2",
        "- 1 of 2 checked",
    ]


@pytest.mark.parametrize("renderer", [DocumentText, DocumentMarkdown])
def test_the_end_of_a_run_that_is_missing_is_named(renderer):
    _, whole = written(renderer)
    _, cut = written(renderer, footer=None, results=JOURNAL.results)
    assert "ended early" not in whole.lower()
    assert "the end of the run is missing" in cut.splitlines()[-1]


@pytest.mark.parametrize("renderer", [DocumentText, DocumentMarkdown])
def test_an_end_that_a_finding_states_is_stated_once(renderer):
    document = Document("Gallery", "", findings=[Finding("bad", "rank 1 died")], states_end=True)
    footer = msgspec.structs.replace(JOURNAL.footer, message="rank 1 died", exit_code=4)
    _, body = written(renderer, document, footer)
    assert body.count("rank 1 died") == 1
    assert "ended early" not in body.lower()


@pytest.mark.parametrize("states_end", [False, True])
def test_the_summary_of_a_page_has_the_end_unless_a_finding_states_it(monkeypatch, states_end):
    document = Document("Gallery", "", states_end=states_end)
    kind = SimpleNamespace(document=lambda _: document, has_times=False)
    monkeypatch.setattr(overview, "report_kind", lambda _: kind)
    cut = Journal(header=JOURNAL.header, results=JOURNAL.results)
    texts = [one.sentence for one in overview.insights(NamedRun("a", cut))]
    assert any("ended early" in text for text in texts) != states_end


def test_what_the_head_counts_is_named():
    document = Document("Gallery", "", noun="process")
    number = len(JOURNAL.header.devices)
    assert number > 1
    assert f"{number} processes on" in written(DocumentText, document)[0]


@pytest.mark.parametrize("renderer", [DocumentText, DocumentMarkdown])
def test_nothing_follows_tables_without_notes_and_findings(renderer):
    _, body = written(renderer, Document("Gallery", "", [Table("t", ("a",), [("b",)], "<")]))
    assert not body.endswith("\n\n")


NOTICES = [sentence(text) for text in JOURNAL.header.notices]
ABOUT = [
    Finding("bad", "rank 1 is wrong", "64 KiB"),
    Finding("note", "it takes 1 MiB.", "64 KiB"),
    Finding("note", "it takes 2 MiB", "64 KiB"),
    Finding("note", "it takes 3 MiB", "128 KiB"),
    Finding("note", "all <2>"),
]


def test_findings_on_a_subject_are_below_it():
    document = Document("Gallery", "", findings=ABOUT, notes=["sizes are <sums>"])
    assert written(DocumentText, document)[1].splitlines() == [
        "",
        "  64 KiB:",
        "<red>    rank 1 is wrong</red>",
        "    it takes 1 MiB.",
        "    it takes 2 MiB",
        "  128 KiB:",
        "    it takes 3 MiB",
        "  all <2>",
        "<dim>  sizes are <sums></dim>",
    ]
    assert written(DocumentMarkdown, document)[1].splitlines() == [
        "",
        "- 64 KiB:",
        "  - rank 1 is wrong",
        "  - it takes 1 MiB.",
        "  - it takes 2 MiB",
        "- 128 KiB:",
        "  - it takes 3 MiB",
        "- all &#60;2&#62;",
        "- sizes are &#60;sums&#62;",
    ]


def insights_of(monkeypatch, document):
    """Without the notices of the run."""
    kind = SimpleNamespace(document=lambda _: document, has_times=False)
    monkeypatch.setattr(overview, "report_kind", lambda _: kind)
    return [one for one in overview.insights(NamedRun("a", JOURNAL)) if one.sentence not in NOTICES]


def test_advice_is_that_of_its_insight(monkeypatch):
    found = insights_of(monkeypatch, GALLERY)
    assert [(one.sentence, one.advice) for one in found] == [
        ("Rank 1 is wrong.", ""),
        ("nccl is late.", "Measure longer."),
        ("All 2.", ""),
    ]


def test_findings_on_a_subject_are_one_insight_for_each_severity(monkeypatch):
    found = insights_of(monkeypatch, Document("Gallery", "", findings=ABOUT))
    assert [(one.severity, one.sentence) for one in found] == [
        ("bad", "64 KiB: rank 1 is wrong."),
        ("note", "64 KiB: it takes 1 MiB. it takes 2 MiB."),
        ("note", "128 KiB: it takes 3 MiB."),
        ("note", "All <2>."),
    ]


@pytest.mark.parametrize(("renderer", "head"), [(DocumentText, "  "), (DocumentMarkdown, "## ")])
def test_parts_are_written_once_when_they_are_complete(renderer, head):
    def compose(run):
        tables = [Table(one, ["n"], [["1"]], ">", [f"note on {one}"]) for one, _ in run.results]
        return Document("Gallery", "", tables, [Finding("note", f"{len(run.results)} in all")])

    exporter = renderer(compose, View(), lambda one: one)
    exporter.begin(JOURNAL.header)
    texts = [exporter.add(one) for one in (("a", 2), ("b", 1), ("c", 2), ("a", 2))]
    texts.append(exporter.end(JOURNAL.footer))
    for text, parts in zip(texts, ["", "b", "", "aa", "c"], strict=True):
        titles = [line for line in text.splitlines() if line in [f"{head}{one}" for one in "abc"]]
        assert titles == [f"{head}{one}" for one in parts]
        assert [text.count(f"note on {one}") for one in "abc"] == [*map(parts.count, "abc")]
        assert ("4 in all" in text) == (parts == "c")
        assert "1 in all" not in text


@pytest.mark.parametrize("renderer", [DocumentText, DocumentMarkdown])
def test_a_run_without_anything_has_its_outcome_only(renderer):
    _, body = written(renderer, Document("Gallery", "", outcome="0 replays measured"))
    assert body.strip() in ("0 replays measured", "- 0 replays measured")


def test_a_page_has_a_section_for_each_run_with_blocks():
    runs = [NamedRun(name, JOURNAL) for name in ("a", "b")]
    listed, one, other_listed, two = sections_of(lambda _: GALLERY, "gallery", runs)
    assert (listed.key, listed.title) == ("result-of-the-search-0", "Result of the search (a)")
    assert listed.listing == "a: share\n  1  *2* %\\x1b[1m"
    assert other_listed.key == "result-of-the-search-1"
    assert (one.key, one.title, two.key, two.title) == (
        *("gallery-0", "Gallery (a)"),
        *("gallery-1", "Gallery (b)"),
    )
    table, other = one.tables
    assert other.title == "In per cent"
    keys = ["curve-0", "ways-0", "curve-1", "ways-1"]
    assert [chart.key for chart in (*one.charts, *two.charts)] == keys
    assert [*one.words] == ["1 of 2 checked."]
    assert [fact.rows for fact in one.facts] == [[("compute", "by <b>")]]
    assert (table.title, table.numeric) == ("Times of <a>", 1)
    assert [*table.rows] == [("a|b", "1.5"), ("c", "10.25")]
    assert [*table.notes] == ["a note"]
    bars, calls = one.bars
    work, rest = bars.bars
    assert rest.x == pytest.approx(work.x + work.width)
    assert rest.width == pytest.approx(3 * work.width)
    assert [name for _, name in bars.rows] == ["one"]
    send, recv, other = calls.bars
    assert send.x < recv.x < send.x + send.width
    assert (send.y, recv.y) == (0, 0)
    assert other.y > 0
    assert calls.says.startswith("The stages of 2 processes over time.")
    _, alone = sections_of(lambda _: GALLERY, "gallery", runs[:1])
    assert (alone.key, alone.title) == ("gallery", "Gallery")
    assert sections_of(lambda _: Document("Gallery", ""), "gallery", runs) == []


FIELDS = Fields(
    [
        Field("name", lambda one: one.name, "text"),
        Field("step_ms", lambda one: one.step_s, gauge="Time of one step."),
        Field("steps", lambda one: one.steps, "int", on_page=False),
    ],
    gauges="cclmark_example",
    labels=("name",),
    noun="a sample",
)
MEASURED = SimpleNamespace(name="a", step_s=0.5, steps=3, status="ok")


def test_fields_give_columns_and_cells_in_the_unit_of_their_key():
    layout = FIELDS.layout()
    assert [(one.name, one.kind) for one in layout.columns] == [
        *(("name", "text"), ("step_ms", "float"), ("steps", "int")),
    ]
    rows = layout.rows_in(JOURNAL.header)
    assert [*rows(MEASURED)] == [["a", 500.0, 3]]
    unknown = SimpleNamespace(**vars(MEASURED) | {"step_s": None})
    assert [*rows(unknown)] == [["a", None, 3]]
    assert FIELDS.page_columns() == ["name", "step_ms"]
    cells = {"name": "a", "step_ms": 500.0, "steps": 3}
    assert FIELDS.page_cells(NamedRun("a", JOURNAL))(MEASURED) == cells


def test_a_result_may_have_several_rows_of_which_pages_have_the_first():
    def rows(header, one):
        return [(header.run_id, name) for name in one]

    several = Fields(
        [Field("run", lambda row: row[0], "text"), Field("x", lambda row: row[1])], rows=rows
    )
    of = several.layout().rows_in(JOURNAL.header)
    run = JOURNAL.header.run_id
    assert [*of("ab")] == [[run, "a"], [run, "b"]]
    assert several.page_cells(NamedRun("a", JOURNAL))("ab") == {"run": run, "x": "a"}


def test_pages_may_have_another_row_and_other_names():
    fields = Fields(
        [
            Field("group_ranks", len, "int", name="ranks"),
            Field("first", lambda one: one[0], "text"),
        ],
        rows=lambda header, one: one,
        page_row="".join,
    )
    rows = fields.layout().rows_in(JOURNAL.header)
    assert [*rows(["ab", "c"])] == [[2, "a"], [1, "c"]]
    assert fields.page_columns() == ["ranks", "first"]
    assert fields.page_cells(NamedRun("a", JOURNAL))(["ab", "c"]) == {"ranks": 3, "first": "a"}


def test_common_fields_are_the_last_cells_of_all_rows():
    fields = Fields(
        [Field("name", lambda one: one, "text")],
        rows=lambda header, one: one,
        common=[Field("wall_ms", lambda one: one.wall_s)],
        common_of=lambda profile: profile or Profile(""),
    )
    layout = fields.layout()
    assert [one.name for one in layout.columns] == ["name", "wall_ms"]
    for profile, wall_ms in ((None, 0.0), (Profile("", wall_s=2.0), 2000.0)):
        rows = layout.rows_of(JOURNAL.header, profile)
        assert [*rows("ab")] == [["a", wall_ms], ["b", wall_ms]]
    assert fields.page_columns() == ["name"]


def test_fields_of_a_case_are_in_the_order_of_all_tables():
    fields = case_fields("replay.case")
    case = Case("reduce", "nccl", 4, "float32", 64, 16, True, reduction="sum", root=1)
    found = {
        one.key: one.cell(SimpleNamespace(replay=SimpleNamespace(case=case))) for one in fields
    }
    assert [*found.values()] == [*("reduce", "nccl", 4, "float32", "sum", 1, "in-place", 64, 16)]
    assert [*found][-2:] == ["size_bytes", "count"]


def test_gauges_are_in_seconds_and_only_of_what_was_measured():
    series = Series(FIELDS.metrics())
    run = RunLabels([("host", "h")], [], [])
    FIELDS.measure(series, MEASURED, run)
    wrong = SimpleNamespace(**vars(MEASURED) | {"name": "b", "status": "wrong"})
    FIELDS.measure(series, wrong, run)
    died = SimpleNamespace(name="c", step_s=None, steps=0, status="died")
    FIELDS.measure(series, died, run)
    assert "".join(lines_of(series)).splitlines() == [
        "# HELP cclmark_example_step_seconds Time of one step.",
        "# TYPE cclmark_example_step_seconds gauge",
        "# UNIT cclmark_example_step_seconds seconds",
        'cclmark_example_step_seconds{name="a",host="h"} 0.5',
        'cclmark_example_step_seconds{name="b",host="h"} 0.5',
        "# HELP cclmark_example_ok 1 for a sample that was measured and not wrong, else 0.",
        "# TYPE cclmark_example_ok gauge",
        'cclmark_example_ok{name="a",host="h"} 1',
        'cclmark_example_ok{name="b",host="h"} 0',
        'cclmark_example_ok{name="c",host="h"} 0',
        "# EOF",
    ]


def test_series_of_a_kind_may_have_the_method_of_the_run():
    fields = Fields(
        [
            Field("step_ms", lambda one: one.step_s),
            Field("device_ms", lambda one: 0.25, gauge="Of it.", gauge_name="device_time_seconds"),
        ],
        gauges="cclmark_example",
        noun="a sample",
        by_method=True,
    )
    series = Series(fields.metrics())
    fields.measure(series, MEASURED, RunLabels([("host", "h")], [("timing", "graph")], []))
    lines = "".join(lines_of(series)).splitlines()
    assert "# UNIT cclmark_example_device_time_seconds seconds" in lines
    assert 'cclmark_example_device_time_seconds{timing="graph",host="h"} 0.25' in lines


def test_a_footer_with_a_message_is_shown():
    footer = msgspec.structs.replace(JOURNAL.footer, message="rank 1 died", exit_code=4)
    _, body = written(DocumentText, footer=footer)
    assert "ended early: rank 1 died" in body.splitlines()[-1]


def test_gauges_with_a_name_of_their_own_follow_those_of_times():
    fields = Fields(
        [
            Field("bytes_per_s", lambda one: one.rate, gauge="Rate.", gauge_name="rate"),
            Field("step_ms", lambda one: one.step_s, gauge="Time of one step."),
        ],
        gauges="cclmark_example",
        labels=(),
        noun="a sample",
    )
    series = Series(fields.metrics())
    result = SimpleNamespace(rate=2.0, step_s=0.5, status="ok", is_measured=True)
    fields.measure(series, result, RunLabels([("host", "h")], [], []))
    lines = [line for line in "".join(lines_of(series)).splitlines() if not line.startswith("#")]
    assert lines == [
        'cclmark_example_step_seconds{host="h"} 0.5',
        'cclmark_example_rate{host="h"} 2',
        'cclmark_example_ok{host="h"} 1',
    ]


def test_gauges_of_what_cannot_fail_have_their_unit_and_label():
    fields = Fields(
        [
            Field("group_ranks", lambda one: one.ranks, "int", name="ranks"),
            Field("calls", lambda one: one.calls, "int", gauge="Calls.", gauge_name="calls"),
            Field("bytes", lambda one: one.bytes, "int", gauge="Bytes.", gauge_name="bytes"),
        ],
        gauges="cclmark_example",
        labels=("group_ranks",),
    )
    series = Series(fields.metrics())
    one = SimpleNamespace(ranks=2, calls=3, bytes=4)
    fields.measure(series, one, RunLabels([("host", "h")], [], []))
    assert "".join(lines_of(series)).splitlines() == [
        "# HELP cclmark_example_calls Calls.",
        "# TYPE cclmark_example_calls gauge",
        'cclmark_example_calls{ranks="2",host="h"} 3',
        "# HELP cclmark_example_bytes Bytes.",
        "# TYPE cclmark_example_bytes gauge",
        "# UNIT cclmark_example_bytes bytes",
        'cclmark_example_bytes{ranks="2",host="h"} 4',
        "# EOF",
    ]


def test_the_title_of_a_table_keeps_a_name_on_a_page():
    titles = ["gpt2-254m: 2 ranks", "sendrecv of 1 KiB", "all_reduce of 1 KiB"]
    document = Document("Gallery", "", [Table(one, ("a",), [("b",)], "<") for one in titles])
    (section,) = sections_of(lambda _: document, "gallery", [NamedRun("a", JOURNAL)])
    assert [table.title for table in section.tables] == titles
