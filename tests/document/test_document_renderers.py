"""Every block in every renderer, and the fields of results in every table."""

import json
import math
import re
from types import SimpleNamespace

import msgspec
import pytest

from cclmark.document.blocks import (
    Bars,
    Document,
    Facts,
    Finding,
    Listing,
    Stages,
    Table,
    TableColumn,
    table_of,
)
from cclmark.document.chart_model import ChartCurve, Heat, Lines
from cclmark.document.document_text import DocumentMarkdown, DocumentText, MarkdownLines, TextLines
from cclmark.document.fields import Field, Fields
from cclmark.document.json_format import JsonExporter
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import RunLabels, Series, lines_of
from cclmark.document.page.page import Encoder
from cclmark.document.paint import unpainted
from cclmark.document.report_kind import View
from cclmark.journal.schema import TracedStage
from cclmark.kinds.registry import read_journal
from cclmark.report.run_page import plain_document, sections_of
from goldens import outline, require_golden, require_stated
from places import TESTS

JOURNAL = read_journal(TESTS / "journals" / "replay.jsonl")
CALLS = [TracedStage("send", 0.0, 0.5), TracedStage("recv", 0.25, 0.5)]  # they overlap
DEVICES = ["DEV0", "DEV1"]
OF_DEVICES = {"group": "all", "of_devices": True, "meaning": ["row sends"]}


def heat(title, values=((None, 1.0), (2.0, None)), **options):
    texts = [["x" if one is None else f"{one:g}" for one in row] for row in values]
    names = ("", "GB/s", DEVICES, DEVICES)
    return Heat(title, title, "Says.", *names, values, texts, texts, **options)


GALLERY = Document(
    "Gallery",
    "3 timed steps",
    [
        Table("times of <a>", ("name", "ms"), [("a|b", "1.5"), ("c", "10.25")], "<>", ["a note"]),
        Table("in per cent", ("name", "%"), [("c", "100")], "<>", belongs=True, wrong=[0]),
        Table("sendrecv of 1 KiB", ("a",), [("b",)], "<", on_page=False),
        Facts([("compute", "by <b>")]),
        Lines("curve", "Curve", "Says.", "x", "y", [ChartCurve("one", [1.0], [math.inf])]),
        Lines(
            *("rates", "Rates", "Says.", "size", "GB/s"),
            [ChartCurve("up", [8, 4096], [1.0, 100.0]), ChartCurve("one", [8], [10.0])],
            in_texts=True,
        ),
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
        # Side by side where they fit.
        heat("all: first", **OF_DEVICES),
        heat("all: second", **OF_DEVICES),
        heat("all: third", reasons=["n/a: <slow>"], **OF_DEVICES),
        # Without values it is a table on a page.
        heat("kinds", [[None] * 2] * 2, meaning=["of", "links"], of_devices=True),
        heat("detail", is_detail=True),
        Listing("result of the search", ["a: share", "  1  *2* %\x1b[1m"]),
    ],
    [
        Finding("wrong-data", "bad", "rank 1 is wrong"),
        Finding("late-rank", "look", "nccl is late", advice="measure longer"),
        Finding("wrong-data", "bad", "rank 1 is wrong", "64 KiB"),
        Finding("notice", "note", "it takes 1 MiB.", "64 KiB"),
        Finding("notice", "note", "it takes 2 MiB", "64 KiB"),
        Finding("notice", "note", "it takes 3 MiB", "128 KiB"),
        Finding("notice", "note", "all <2>"),
        Finding("data-checked", "good", "all were checked", is_outcome=True),
    ],
    "1 of 2 checked",
    is_wrong=True,
    notes=["sizes are <sums>"],
    noun="process",
    opening=[Facts([("links", "two")])],
    closing=[Table("all_reduce of 1 KiB", ("a",), [("b",)], "<", ["of the end"])],
    figures=["3 GB/s"],
)


def painted(text, style):
    return f"<{style}>{text}</{style}>" if style else text


def written(renderer, document=GALLERY, footer=JOURNAL.footer, results=(), **view):
    exporter = renderer(lambda run: document, View(**{"paint": painted, **view}))
    head = exporter.begin(JOURNAL.header)
    assert [exporter.add(one) for one in results] == [""] * len(results)
    return head, exporter.end(footer)


TEXTS = {
    "gallery.txt": (DocumentText, {"columns": 80, "paint": unpainted}),
    "gallery.narrow.txt": (DocumentText, {"columns": 30, "most_devices": 1, "details": True}),
    "gallery.md": (DocumentMarkdown, {}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_every_block(name):
    renderer, view = TEXTS[name]
    head, body = written(renderer, **view)
    assert "method     3 timed steps" in head
    assert f"{len(JOURNAL.header.devices)} processes on" in " ".join(head.split())
    require_golden(name, head.partition("  method")[2] + body)


def test_sections_of_every_block():
    runs = [NamedRun(name, JOURNAL) for name in ("a", "b")]
    require_golden("gallery.sections.txt", outline(sections_of(lambda _: GALLERY, "gallery", runs)))
    assert sections_of(lambda _: Document("Gallery", ""), "gallery", runs) == []
    assert not OF_DEVICES.keys() & {*Encoder().chart(GALLERY.blocks[9])}


def test_json_of_every_block():
    text = msgspec.json.format(msgspec.json.encode(plain_document(GALLERY)), indent=1).decode()
    require_golden("gallery.json", text)


def test_json_of_a_journal_that_contradicts_itself_has_no_findings():
    exporter = JsonExporter("replays", lambda run: GALLERY.findings[99])
    text = exporter.begin(JOURNAL.header) + exporter.end(None)
    assert json.loads(text)["findings"] is None
    assert json.loads(text)["findings_error"].startswith("IndexError: ")


def in_parts(renderer):
    """A table of a row for each of two results, the second with lines below it."""
    below = {0: "", 1: "late\nrank 1"}

    def compose(run):
        rows = [(f"case {one}", "ok", below[one]) for one in run.results]
        widths = {"widths": (7, 3), "is_last_below": True}
        table = Table("cases", ("case", "x", "why"), rows, "<><", [], **widths)
        return Document("Gallery", "", [table] if rows else [], outcome="2 measured")

    exporter = renderer(compose, View(), lambda result: (result, 1))
    exporter.begin(JOURNAL.header)
    return [*map(exporter.add, (0, 1)), exporter.end(JOURNAL.footer)]


class _Sampled(msgspec.Struct):
    key: str
    samples: list[float] | None = None


def of_parts(samples):
    """A text of which a part is complete when another begins; gathers the samples it had."""

    def compose(run):
        keys = "".join(one.key for one in run.results)
        samples.update(one.samples for one in run.results)
        found = [Finding("notice", "note", f"{len(keys)} in all")] if run.is_whole else []
        facts = [Facts([("part", keys)])] if keys else []
        ends = {"opening": [Facts([("links", "two")])]}
        ends["closing"] = [Facts([("whole", str(run.is_whole))])]
        return Document("Gallery", "", facts, found, **ends)

    exporter = DocumentText(
        compose, View(), lambda one: (one.key, 99), in_order=True, keeps_samples=False
    )
    assert exporter.begin(JOURNAL.header).endswith("  links      two\n")
    texts = [exporter.add(_Sampled(key, [1.0])) for key in "aab"]
    return [*texts, exporter.end(JOURNAL.footer)]


def alternating():
    """A text of what several parts alternate in, which is written at the end."""

    def compose(run):
        return Document("Gallery", "", [Facts([("a", str(len(run.results)))])], in_parts=False)

    exporter = DocumentText(compose, View(), lambda one: (one.key, 1))
    exporter.begin(JOURNAL.header)
    return [*(exporter.add(_Sampled(key)) for key in "ab"), exporter.end(JOURNAL.footer)]


COLUMNS = (
    TableColumn("size", lambda one: str(one[0]), ">"),
    TableColumn("nothing", lambda one: "", look=lambda one: "bad"),
    TableColumn("verdict", lambda one: one[1], look=lambda one: "good" if one[1] else ""),
)
LIKE = table_of("like", COLUMNS, [(8, ""), (16, "")], is_detail=True)
UNLIKE = table_of("unlike", COLUMNS, [(8, ""), (16, "faster")], notes=["a note"])
OF_SEVERAL = Document("b & a", "", [LIKE, UNLIKE], [Finding("faster", "good", "1 faster")])


def test_texts_in_parts_and_of_several_runs():
    """Rows of further parts continue a table of given widths, empty columns are left out, and a
    terminal has sentences below tables, Markdown above them, and details at the end.
    """
    samples = set()
    found = {
        "in order": of_parts(samples),
        "alternating": alternating(),
        "several runs, for a terminal": TextLines(View(paint=painted)).whole(OF_SEVERAL),
        "several runs, in Markdown": MarkdownLines(View()).whole(OF_SEVERAL),
    }
    assert samples == {None}
    outcome = Document("Gallery", "", outcome="0 replays measured")
    table = Document("t", "", [Table("t", ("a",), [("b",)], "<")])
    for renderer in (DocumentText, DocumentMarkdown):
        name = renderer.__name__
        found[f"rows, {name}"] = in_parts(renderer)
        found[f"outcome alone, {name}"] = written(renderer, outcome, paint=unpainted)[1]
        found[f"table alone, {name}"] = written(renderer, table, paint=unpainted)[1]
    require_stated("gallery.parts.txt", found)


RENDERERS = pytest.mark.parametrize("renderer", [DocumentText, DocumentMarkdown])
DIED = msgspec.structs.replace(JOURNAL.footer, message="rank 1 died", exit_code=4)


@RENDERERS
@pytest.mark.parametrize(
    ("footer", "last"), [(None, "the end of the run is missing"), (DIED, "rank 1 died")]
)
def test_an_early_end_is_stated_once(renderer, footer, last):
    _, body = written(renderer, footer=footer, results=JOURNAL.results)
    assert re.search(f"ended early: {last}", body.splitlines()[-1], re.IGNORECASE)
    failed = [Finding("program-failed", "bad", last)]
    stated = Document("Gallery", "", findings=failed, states_end=True)
    _, body = written(renderer, stated, footer)
    assert body.count(last) == 1
    assert "ended early" not in body.lower()


FIELDS = Fields(
    [
        Field("name", "Name of the sample.", "name", "text"),
        Field("step_ms", "Time of one step.", lambda one: one.step_s, gauge="step_seconds"),
        Field("steps", "Its steps.", "steps", "int", direction="higher", on_page=False),
    ],
    gauges="cclmark_example",
    labels=("name",),
    noun="a sample",
)


def sample(name="a", step_s=0.5, steps=3, status="ok"):
    return SimpleNamespace(name=name, step_s=step_s, steps=steps, status=status)


#: By the method of the run; those with a name of their own follow those of times.
OF_METHOD = Fields(
    [
        Field("bytes_per_s", "Rate.", lambda one: 2.0, gauge="rate"),
        Field("step_ms", "Time of one step.", "step_s", gauge="step_seconds"),
        Field("device_ms", "Of it.", lambda one: 0.25, gauge="device_seconds"),
    ],
    gauges="cclmark_method",
    noun="a sample",
    by_method=True,
)


def test_gauges_of_fields():
    died = sample("c", None, 0, "died")
    text = ""
    for fields, results in (
        (FIELDS, [sample(), sample("b", status="wrong"), died]),
        (OF_METHOD, [sample()]),
    ):
        series = Series(fields.metrics)
        for one in results:
            fields.measure(series, one, RunLabels([("host", "h")], [("timing", "graph")], []))
        text += "".join(lines_of(series))
    require_golden("gallery.prom", text)
