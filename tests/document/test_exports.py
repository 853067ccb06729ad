"""Rows, gauges and JSON of results, and what a page's data are."""

import dataclasses
import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.document.blocks import Document, Finding, TableColumn, table_of
from cclmark.document.case_fields import (
    CASE_FIELDS,
    EXPORTED_CASES,
    case_cells,
    measure_case,
    notes_on_cases,
    title_of_cases,
)
from cclmark.document.chart_model import ChartCurve, Lines
from cclmark.document.columns import Column, cell_text, csv_line, places_of
from cclmark.document.exporters import exporter_of, formats_of
from cclmark.document.fields import value_at
from cclmark.document.json_format import JsonExporter, encode, without_samples
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import Metric, RunLabels, Series, labels_of, lines_of
from cclmark.document.page.page import Encoder, packed, render, shortened
from cclmark.document.page.page_model import Page, Rows
from cclmark.document.report_kind import View
from cclmark.document.sample_columns import CASE_SAMPLES, times_of_samples
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import (
    Condition,
    DeviceDescription,
    DeviceTime,
    Explanation,
    Footer,
    Imported,
    Link,
    Samples,
    Verification,
)
from cclmark.kinds.registry import KINDS, read_journal
from cclmark.report.exports import (
    chosen_table,
    devices_of,
    export_content,
    hosts_of,
    prometheus,
    replaced_runs,
    replayed,
    run_cells,
)
from places import TESTS
from reports import page_data, whole_texts

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
ONE = replace(SAMPLE.results[0], device=None, device_reason="")
END = Footer("", 0, 2.5)
HEADER = replace(SAMPLE.header, notices=[])


def row_of(result, fields=CASE_FIELDS, header=HEADER):
    names = [one.name for one in fields.layout.columns]
    (cells,) = fields.layout.rows_in(header)(result)
    return dict(zip(names, cells, strict=True))


def test_a_row_has_every_figure_in_its_unit():
    row = row_of(ONE)
    summary = ONE.summary
    assert row["time_us"] == pytest.approx(summary.time_s * 1e6)
    assert row["busbw_gbps"] == pytest.approx(summary.busbw_bytes_per_s / 1e9)
    assert row["min_us"] == pytest.approx(summary.min_s * 1e6)
    assert (row["operation"], row["reduction"], row["root"]) == ("all_reduce", "sum", None)
    assert (row["wrong"], row["converged"], row["status"], row["cycle"]) == (0, 1, "ok", 0)
    assert (row["device_us"], row["kernel"], row["channels"]) == (None, "", None)
    failed = row_of(replace(ONE, status="failed", reason="why", summary=None, verification=None))
    assert (failed["time_us"], failed["wrong"], failed["converged"]) == (None, None, None)
    assert failed["reason"] == "why"
    device = DeviceTime(None, replace(ONE.summary, time_s=5e-6), False)
    timed = row_of(replace(ONE, device=device, converged=False))
    assert timed["device_us"] == pytest.approx(5)
    assert (timed["device_converged"], timed["converged"]) == (0, 0)
    ran = row_of(replace(ONE, explanation=Explanation(0, "log", "ring", channels=4)))
    assert (ran["kernel"], ran["algorithm"], ran["channels"]) == ("ring", "", 4)
    assert row_of(replace(ONE, explanation=Explanation(0)))["channels"] is None


def test_pairs_have_the_names_of_their_devices():
    devices = [DeviceDescription(rank, "h", "cuda", rank, "", 0) for rank in range(3)]
    header = replace(HEADER, devices=devices)
    pair = replace(ONE, case=replace(ONE.case, pair=(2, 0)), beside=3, at_once_ratio=1.5)
    row = row_of(pair, EXPORTED_CASES, header)
    assert (row["first"], row["second"], row["beside"], row["at_once_ratio"]) == (
        *("DEV2", "DEV0", 3, 1.5),
    )
    alone = row_of(ONE, EXPORTED_CASES, header)
    assert (alone["first"], alone["beside"], alone["at_once_ratio"]) == ("", None, None)


def test_a_page_has_the_shares_of_a_case():
    limited = replace(HEADER, links=[Link(0, "NVLink", 1, 1e9)], hosts=[])
    run = NamedRun("a", Journal(limited, [ONE]))
    cells = case_cells(CASE_FIELDS, run)(ONE)
    share = ONE.summary.busbw_bytes_per_s / 1e9 * 100
    assert cells["of_link_limit_percent"] == pytest.approx(share)
    assert "reference" not in cells
    for result in (
        replace(ONE, summary=None),
        replace(ONE, summary=replace(ONE.summary, busbw_bytes_per_s=0.0)),
    ):
        assert "of_link_limit_percent" not in case_cells(CASE_FIELDS, run)(result)
    bare = NamedRun("a", Journal(replace(HEADER, links=[]), [ONE]))
    assert "of_link_limit_percent" not in case_cells(CASE_FIELDS, bare)(ONE)


def test_the_title_names_three_operations():
    def title(*names):
        results = [replace(ONE, case=replace(ONE.case, operation=name)) for name in names]
        return title_of_cases([NamedRun("a", Journal(HEADER, results))])

    assert title("a", "b", "a", "c") == "a, b, c"
    assert title("a", "b", "c", "d", "e") == "a, b, c and 2 more"
    staged = replace(ONE, route="copy", case=replace(ONE.case, operation="alltoall", in_place=True))
    assert len(notes_on_cases([ONE, staged])) == 1
    assert notes_on_cases([ONE]) == []


# Columns.


@pytest.mark.parametrize(
    ("column", "cell", "text"),
    [
        (Column("a", "text", "A."), "x\x1b", "x␛"),
        (Column("a", "text", "A."), "", "-"),
        (Column("a", "int", "A."), None, "-"),
        (Column("a", "int", "A."), 4096, "4096"),
        (Column("a_bytes", "int", "A."), 4096, "4 KiB"),
        (Column("a_bytes", "int", "A."), -4096, "-4 KiB"),
        (Column("a", "bool", "A."), 1, "yes"),
        (Column("a", "bool", "A."), 0, "no"),
        (Column("a_us", "float", "A."), 1234.56, "1234.6"),
        (Column("a_ms", "float", "A."), 1234.56, "1234.56"),
    ],
)
def test_cells_in_words(column, cell, text):
    if "\x1b" in str(cell):
        assert "\x1b" not in cell_text(cell, column)
        assert cell_text(cell, column).startswith("x")
    else:
        assert cell_text(cell, column) == text


@pytest.mark.parametrize(
    ("name", "title"),
    [
        *(("time_us", "time µs"), ("us", "µs"), ("bonus", "bonus"), ("size_bytes", "size bytes")),
        *(("tokens_per_s", "tokens per s"), ("of_limit_percent", "of limit %"), ("a_b", "a b")),
    ],
)
def test_the_title_of_a_column_ends_with_its_unit(name, title):
    assert Column(name, "float", "Help.").title == title
    assert Column("ratio", "float", "Help.", "times").title == "ratio times"


def test_lines_of_csv_are_no_formulas_and_have_digits():
    cells = ["=1+1", " -x", "a,b", None, 3, 1 / 3, math.inf]
    assert csv_line(cells) == "'=1+1,' -x,\"a,b\",,3,0.3333333333,\n"
    assert csv_line([1 / 3], exact=True) == f"{1 / 3!r}\n"
    columns = [Column(name, "int", "A.") for name in ("one", "two")]
    assert places_of(["two", "one", "two"], columns) == [1, 0, 1]
    with pytest.raises(UsageError, match="no column has the name 'three'"):
        places_of(["three"], columns)


def test_columns_that_stand_out_keep_their_places_when_others_are_left_out():
    columns = [
        TableColumn("none", lambda row: "", look=lambda row: "bad"),
        TableColumn("one", lambda row: row, ">", look=lambda row: "good" if row == "b" else ""),
    ]
    table = table_of("t", columns, ["a", "b"])
    assert (table.head, table.rows, table.sides, table.looks) == (
        *(["one"], [["a"], ["b"]], ">", [(1, 0, "good")]),
    )


def test_a_path_ends_at_what_is_unknown():
    assert value_at("summary.time_s")(ONE) == ONE.summary.time_s
    assert value_at("summary.time_s")(replace(ONE, summary=None)) is None


def test_samples_have_a_row_for_each_rank():
    clocks = ([[1.0, 2.0], [3.0]], [], [[9.0, 8.0, 7.0]])
    assert [*times_of_samples(clocks)] == [
        (0, 0, [1.0, None, 9.0]),
        (0, 1, [2.0, None, 8.0]),
        (0, 2, [None, None, 7.0]),
        (1, 0, [3.0, None, None]),
    ]
    names = [one.name for one in CASE_SAMPLES.columns]
    assert ("method" in names, "first" in names, "status" in names) == (True, True, False)
    assert len(names) == len(set(names))
    sampled = replace(
        ONE, samples=Samples([[1.0, 2.0]], [], [], 2), case=replace(ONE.case, pair=(1, 0))
    )
    rows = [
        dict(zip(names, row, strict=True)) for row in CASE_SAMPLES.rows_in(SAMPLE.header)(sampled)
    ]
    assert [(row["rank"], row["host_s"], row["operations_per_sample"]) for row in rows] == [
        *((1, 1.0, 2), (0, 2.0, 2)),
    ]
    assert [*CASE_SAMPLES.rows_in(SAMPLE.header)(replace(ONE, samples=None))] == []


# Gauges.


def series(*names):
    return Series([Metric(name, "s" if name.endswith("s") else "", "Help.") for name in names])


def test_gauges_have_unit_labels_and_exact_numbers():
    one = series("a_s", "b", "none")
    labels = labels_of([("x", 'q"\\\n'), ("empty", "")])
    one.set("a_s", labels, 0.1)
    one.set("b", (), 3.0)
    for value in (None, math.inf, math.nan):
        one.set("none", labels, value)
    one.set("b", (("big", "1"),), 2.0**53)
    assert "".join(lines_of(one)) == (
        '# HELP a_s Help.\n# TYPE a_s gauge\n# UNIT a_s s\na_s{x="q\\"\\\\\\n"} 0.1\n'
        '# HELP b Help.\n# TYPE b gauge\nb{} 3\nb{big="1"} 9007199254740992.0\n# EOF\n'
    )


def test_a_later_run_replaces_an_earlier_one_and_cycles_of_a_run_their_worst():
    one, labels = series("a"), (("x", "1"),)
    for values in ([3.0, 5.0, 4.0], [2.0]):
        one.begin_run()
        for value in values:
            one.begin(labels)
            one.worst("a", labels, value, max)
    assert one.values == {"a": {labels: 2.0}}
    assert one.replaced == {1: 1}
    one.clear(labels, ["a"])
    assert one.values == {"a": {}}


RUN = RunLabels([("host", "h")], [("timing", "t")], ["D0", "D1"])


def gauges(*results):
    found = Series(CASE_FIELDS.metrics)
    found.begin_run()
    for one in results:
        measure_case(found, one, RUN)
    return {name: [*own.values()] for name, own in found.values.items() if own}


def test_a_case_has_gauges_of_its_figures_and_its_check():
    found = gauges(ONE)
    assert found["cclmark_case_ok"] == [1]
    assert found["cclmark_wrong_elements"] == [0]
    assert found["cclmark_time_seconds"] == [ONE.summary.time_s]
    assert "cclmark_time_min_seconds" in found
    assert gauges(replace(ONE, status="skipped")) == {}
    failed = gauges(replace(ONE, status="failed", summary=None, verification=None))
    assert failed == {"cclmark_case_ok": [0]}
    single = gauges(replace(ONE, summary=replace(ONE.summary, samples=1)))
    assert "cclmark_time_min_seconds" not in single
    wrong = replace(ONE, status="wrong", verification=Verification(7))
    both = gauges(wrong, ONE)
    assert (both["cclmark_case_ok"], both["cclmark_wrong_elements"]) == ([0], [7])
    assert gauges(ONE, wrong)["cclmark_wrong_elements"] == [7]
    later = gauges(ONE, replace(ONE, cycle=1, status="failed", summary=None, verification=None))
    assert "cclmark_time_seconds" not in later


def test_labels_have_the_case_the_pair_the_method_and_the_host():
    found = Series(CASE_FIELDS.metrics)
    measure_case(found, replace(ONE, case=replace(ONE.case, pair=(1, 0), root=0)), RUN)
    (labels,) = found.values["cclmark_case_ok"]
    assert dict(labels) | {"first": "D1", "second": "D0", "root": "0", "reduction": "sum"} == dict(
        labels
    )
    assert [name for name, _ in labels][-4:] == ["first", "second", "timing", "host"]


def journal(*results, footer=END, **header):
    return Journal(replace(HEADER, **header), [*results], footer=footer)


def test_a_scrape_has_the_runs_in_the_order_of_their_time():
    older = journal(ONE, started_at="2026-01-01T00:00:00")
    newer = journal(
        replace(ONE, summary=replace(ONE.summary, time_s=9.0)), started_at="2026-01-02T00:00:00Z"
    )
    text = prometheus([newer, older])
    assert prometheus([older, newer]) == text
    assert "cclmark_time_seconds{" in text
    assert " 9\n" in text
    assert "cclmark_run_duration_seconds" in text
    assert f"{1767312000}" in text
    assert prometheus([journal(started_at="x")]) == "# EOF\n"
    assert "timestamp" not in prometheus([journal(ONE, started_at="x", footer=None)])
    assert "exit_code" not in prometheus([journal(ONE, footer=None)])
    other = prometheus([journal(ONE, imported=Imported("x", ""))])
    assert ("exit_code" in other, "duration" in other) == (True, False)
    (replaced,) = replaced_runs([("new", newer), ("old", older)])
    assert replaced.startswith("old: the figures of 2 label sets are left out")
    assert replaced_runs([("old", older)]) == []


def test_a_date_without_a_zone_is_utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC-5")
    time.tzset()
    try:
        texts = [
            prometheus([journal(ONE, started_at=f"2026-01-01T00:00:00{z}")]) for z in ("", "Z")
        ]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert texts[0] == texts[1]
    assert " 1767225600\n" in texts[0]


# JSON.


@given(st.recursive(st.none() | st.floats() | st.text(max_size=3), st.lists, max_leaves=5))
def test_any_number_becomes_valid_json(value):
    def finite(one):
        if isinstance(one, list):
            return [*map(finite, one)]
        return None if isinstance(one, float) and not math.isfinite(one) else one

    read = json.loads(encode(value), parse_constant=pytest.fail)
    assert read == finite(value)


def test_structures_are_encoded_with_all_their_fields():
    assert json.loads(encode(END)).keys() == {*END.__struct_fields__}
    assert json.loads(encode((1, 2))) == [1, 2]
    with pytest.raises(TypeError, match="the schema has no set"):
        encode({1})
    nan = replace(END, duration_s=math.nan)
    assert json.loads(encode(nan))["duration_s"] is None


class Reduced:
    def __init__(self):
        self.seen = []

    def add(self, result):
        self.seen.append(result)
        return result.cycle == 0


@pytest.mark.parametrize(
    ("reduced", "cycles", "keeps", "kept"),
    [(False, 1, True, 2), (False, 0, True, None), (True, 0, True, 1), (False, 1, False, 2)],
)
def test_findings_of_json_are_of_what_is_kept(reduced, cycles, keeps, kept):
    seen, reduction = [], Reduced()

    def compose(run):
        seen.append(run)
        return Document(
            "t", "", findings=[Finding("notice", "note", "x"), Finding("drift", "bad", "y")]
        )

    exporter = JsonExporter(
        "cases",
        compose,
        keeps_samples=keeps,
        reduction=lambda header: reduction if reduced else None,
    )
    text = exporter.begin(replace(HEADER, settings=replace(HEADER.settings, cycles=cycles)))
    text += "".join(exporter.add(replace(ONE, cycle=cycle)) for cycle in (0, 1))
    exporter.observe(Condition(0, 0, 0, 1.0))
    read = json.loads(text + exporter.end(END))
    assert len(read["cases"]) == 2
    assert len(read["conditions"]) == 1
    if kept is None:
        assert read["findings"] is None
        return
    assert [one["id"] for one in read["findings"]] == ["drift", "notice"]
    (run,) = seen
    assert len(run.results) == kept
    assert run.reduction is (reduction if reduced else None)
    assert (run.results[0].samples is None) != (keeps and ONE.samples is not None)
    device = replace(ONE, device=DeviceTime(ONE.samples, ONE.summary))
    assert without_samples(device).device.samples is None


# Pages.


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_page_has_no_numbers_that_json_lacks(value):
    assert shortened(value) is None
    with pytest.raises(ValueError, match="JSON"):
        packed([value])


def test_long_texts_of_cells_are_stored_once():
    encoder = Encoder()
    assert encoder.cells(["a" * 24, "b" * 25, 1, None, "b" * 25]) == ["a" * 24, [0], 1, None, [0]]
    assert whole_texts(encoder.texts) == ["b" * 25]
    chart = Lines(
        "k", "T", "S.", "x", "y", [ChartCurve("c", [1.0], [0.123456789], hover=["b" * 25])]
    )
    encoded = encoder.chart(chart)
    assert encoded["kind"] == "lines"
    assert encoded["series"] == [
        {
            "name": "c",
            "x": [1],
            "y": [0.1235],
            "hover": [0],
        }
    ]
    assert "levels" not in encoded


@given(st.lists(st.text(alphabet="a 1.,%-é", max_size=12), unique=True))
def test_texts_are_words_and_figures(texts):
    encoder = Encoder()
    encoder.cells([f"{'long ' * 6}{text}" for text in texts])
    assert whole_texts(encoder.texts) == [f"{'long ' * 6}{text}" for text in texts]


def test_texts_that_differ_in_figures_alone_have_their_words_once():
    encoder = Encoder()
    texts = [f"{n}.5 µs; {n} samples of {n} ranks" for n in range(9)]
    chart = Lines("k", "T", "S.", "x", "y", [ChartCurve("c", [1.0] * 9, [1.0] * 9, hover=texts)])
    assert encoder.chart(chart)["series"][0]["hover"] == 0
    assert len(encoder.texts["words"]) == 1
    assert whole_texts(encoder.texts) == texts
    part = dataclasses.replace(chart.series[0], x=[1.0] * 5, y=[1.0] * 5, hover=texts[::2])
    again = encoder.chart(dataclasses.replace(chart, series=[part]))
    assert again["series"][0]["hover"] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(("parts", "is_listed"), [((), False), ((0, 0), False), ((0, 1), True)])
def test_a_page_says_of_which_kind_a_row_is_if_there_are_several(parts, is_listed):
    rows = Rows([Column("a", "int", "A.")], [[1], [2]], parts=parts)
    assert ("parts" in page_data(render(Page("t", "s", [], [], [], rows)))) == is_listed


# Formats.


def test_every_kind_has_the_usual_formats():
    for kind in KINDS.values():
        found = formats_of(kind)
        assert found[:4] == ["table", "json", "csv", "markdown"]
        assert len(found) == len(set(found))


def test_chosen_fields_are_rows_of_any_text():
    kind = KINDS[SAMPLE.kind]
    fields = ["time_us", "operation"]
    for format in ("table", "markdown", "csv"):
        text = "".join(replayed(SAMPLE, format, View(fields=fields)))
        assert text.count("all_reduce") >= 3
    with pytest.raises(
        UsageError, match=r"json has no columns to choose: use csv, table, markdown"
    ):
        exporter_of(kind, "json", View(fields=fields))
    with pytest.raises(UsageError, match="prometheus has no columns"):
        export_content([("a", SAMPLE)], "prometheus", columns=fields)
    table = chosen_table([("a", SAMPLE)], "cases").chosen(fields)
    assert [one.name for one in table.columns] == fields
    assert next(table.rows)[1] == "all_reduce"
    whole = chosen_table([("a", SAMPLE)], "cases")
    assert whole.chosen([]) is whole


def test_a_table_is_of_one_kind():
    pairs = read_journal(TESTS / "journals" / "p2p.jsonl")
    train = read_journal(TESTS / "journals" / "train.jsonl")
    profile = read_journal(TESTS / "journals" / "profile.jsonl")
    with pytest.raises(UsageError, match="no table has the name 'x'"):
        chosen_table([("a", SAMPLE)], "x")
    with pytest.raises(UsageError, match=r"^a: only trainings and profiles have steps"):
        chosen_table([("a", SAMPLE), ("b", train)], "steps")
    with pytest.raises(UsageError, match="a contains cases, b contains"):
        chosen_table([("a", SAMPLE), ("b", pairs)], "cases")
    steps = chosen_table([("a", train)], "steps")
    rows = [*steps.rows]
    assert rows
    assert {len(row) for row in rows} == {len(steps.columns)}
    mixed = chosen_table([("a", train), ("b", profile)], "cases")
    assert [one.name for one in mixed.columns] == [one.name for one in steps.columns]
    assert len(chosen_table([("a", train), ("b", train)], "cases").columns) != len(steps.columns)
    with pytest.raises(UsageError, match="json contains one complete run"):
        export_content([("a", SAMPLE)] * 2, "json")
    assert json.loads(export_content([("a", SAMPLE)], "json"))["cases"]
    assert export_content([("a", SAMPLE)] * 2, "table").count(b"cclmark ") >= 2
    with pytest.raises(UsageError, match="a contains cases, not supported by pccl: choose from"):
        export_content([("a", SAMPLE)], "pccl")


def test_rows_say_which_run_they_are_of():
    cells = run_cells(HEADER)
    assert cells[0] == HEADER.run_id
    assert cells[4] == f"cclmark {HEADER.cclmark_version}"
    assert hosts_of(replace(HEADER, hosts=[])) == HEADER.machine.hostname
    names = [DeviceDescription(rank, "h", "cuda", rank, name, 0) for rank, name in enumerate("aab")]
    assert devices_of(replace(HEADER, devices=names)) == "a + b"
