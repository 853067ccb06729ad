"""Rows, gauges and JSON of results."""

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.document import case_fields
from cclmark.document.columns import Column, cell_text, csv_line, places_of
from cclmark.document.exporters import exporter_of
from cclmark.document.json_format import encode
from cclmark.document.openmetrics import Metric, RunLabels, Series, labels_of, lines_of
from cclmark.document.report_kind import View
from cclmark.document.sample_columns import CASE_SAMPLES, times_of_samples
from cclmark.journal import schema
from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import KINDS, read_journal
from cclmark.report import exports
from goldens import require_stated
from places import TESTS

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
ONE = replace(SAMPLE.results[0], device=None, device_reason="")
END = schema.Footer("", 0, 2.5)
DEVICES = [schema.DeviceDescription(rank, "h", "cuda", rank, "", 0) for rank in range(3)]
HEADER = replace(SAMPLE.header, notices=[])
FAILED = replace(ONE, status="failed", reason="why", summary=None, verification=None)
WRONG = replace(ONE, status="wrong", verification=schema.Verification(7))
PAIR = replace(ONE, case=replace(ONE.case, pair=(2, 0), root=0), beside=3, at_once_ratio=1.5)
TIMED = schema.DeviceTime(None, replace(ONE.summary, time_s=5e-6), False)
RESULTS = {
    "usual": ONE,
    "failed": FAILED,
    "skipped": replace(FAILED, status="skipped"),
    "wrong": WRONG,
    "of a pair": PAIR,
    "of one sample": replace(ONE, summary=replace(ONE.summary, samples=1)),
    "with the time of the device": replace(ONE, device=TIMED, converged=False),
    "explained": replace(ONE, explanation=schema.Explanation(0, "log", "ring", channels=4)),
    "without an explanation": replace(ONE, explanation=schema.Explanation(0)),
}


def test_a_row_has_every_figure_in_its_unit():
    layout = case_fields.EXPORTED_CASES.layout
    names = [one.name for one in layout.columns]
    rows_of = layout.rows_in(replace(HEADER, devices=DEVICES))
    ((*usual,),) = rows_of(ONE)
    found = {"usual": [f"{name}: {cell}" for name, cell in zip(names, usual, strict=True)]}
    for name, one in RESULTS.items():
        ((*cells,),) = rows_of(one)
        found.setdefault(
            name,
            [
                f"{column}: {cell}"
                for column, cell, own in zip(names, cells, usual, strict=True)
                if cell != own
            ],
        )
    require_stated("words/rows.txt", found)


def test_lines_of_csv_are_no_formulas_and_have_digits():
    cells = ["=1+1", " -x", "a,b", None, 3, 1 / 3, math.inf]
    assert csv_line(cells) == "'=1+1,' -x,\"a,b\",,3,0.3333333333,\n"
    assert csv_line([1 / 3], exact=True) == f"{1 / 3!r}\n"
    columns = [Column(name, "int", "A.") for name in ("one", "two")]
    assert places_of(["two", "one", "two"], columns) == [1, 0, 1]
    with pytest.raises(UsageError, match="no column has the name 'three'"):
        places_of(["three"], columns)
    shown = cell_text("x\x1b", Column("a", "text", "A."))
    assert (shown[0], "\x1b" in shown) == ("x", False)


def test_samples_have_a_row_for_each_rank():
    clocks = ([[1.0, 2.0], [3.0]], [], [[9.0, 8.0, 7.0]])
    assert [*times_of_samples(clocks)] == [
        (0, 0, [1.0, None, 9.0]),
        (0, 1, [2.0, None, 8.0]),
        (0, 2, [None, None, 7.0]),
        (1, 0, [3.0, None, None]),
    ]
    names = [one.name for one in CASE_SAMPLES.columns]
    assert {"method", "first"} <= {*names} - {"status"}
    assert len(names) == len(set(names))
    rows_of = CASE_SAMPLES.rows_in(SAMPLE.header)
    sampled = replace(ONE, samples=schema.Samples([[1.0, 2.0]], [], [], 2), case=PAIR.case)
    places = [names.index(one) for one in ("rank", "host_s", "operations_per_sample")]
    found = [[row[place] for place in places] for row in rows_of(sampled)]
    assert found == [[2, 1.0, 2], [0, 2.0, 2]]
    assert [*rows_of(replace(ONE, samples=None))] == []


def test_gauges_have_unit_labels_and_exact_numbers():
    one = Series(
        [Metric("a_s", "s", "Help."), *(Metric(name, "", "Help.") for name in ("b", "none"))]
    )
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


def gauges(*results):
    """The labels of the only case, and its figures."""
    found = Series(case_fields.CASE_FIELDS.metrics)
    found.begin_run()
    for one in results:
        run = RunLabels([("host", "h")], [("timing", "t")], ["D0", "D1", "D2"])
        case_fields.measure_case(found, one, run)
    figures = {name: [*own.items()] for name, own in found.values.items() if own}
    labels = {key for ((key, _),) in figures.values()}
    return [*labels, *(f"{name}: {value:.9g}" for name, ((_, value),) in figures.items())]


def test_a_case_has_gauges_of_its_figures_and_its_check():
    found = {name: gauges(one) for name, one in RESULTS.items()}
    found["failed in the second cycle"] = gauges(ONE, replace(FAILED, cycle=1))
    require_stated("words/gauges.txt", found)


def journal(*results, footer=END, **header):
    return Journal(replace(HEADER, **header), [*results], footer=footer)


def test_a_scrape_has_the_runs_in_the_order_of_their_time():
    late = replace(ONE, summary=replace(ONE.summary, time_s=9.0))
    newer = journal(late, started_at="2026-01-02T00:00:00Z")
    text = exports.prometheus([newer, journal(ONE, started_at="2026-01-01T00:00:00")])
    for part in ("cclmark_time_seconds{", " 9\n", "cclmark_run_duration_seconds", "1767312000"):
        assert part in text
    assert exports.prometheus([journal(started_at="x")]) == "# EOF\n"
    assert "timestamp" not in exports.prometheus([journal(ONE, started_at="x", footer=None)])
    assert "exit_code" not in exports.prometheus([journal(ONE, footer=None)])
    other = exports.prometheus([journal(ONE, imported=schema.Imported("x", ""))])
    assert ("exit_code" in other, "duration" in other) == (True, False)


def test_a_date_without_a_zone_is_utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC-5")
    time.tzset()
    dates = [f"2026-01-01T00:00:00{zone}" for zone in ("", "Z")]
    try:
        texts = [exports.prometheus([journal(ONE, started_at=date)]) for date in dates]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert texts[0] == texts[1]
    assert " 1767225600\n" in texts[0]


@given(st.recursive(st.none() | st.floats() | st.text(max_size=3), st.lists, max_leaves=5))
def test_any_number_becomes_valid_json(value):
    def finite(one):
        if isinstance(one, list):
            return [*map(finite, one)]
        return None if isinstance(one, float) and not math.isfinite(one) else one

    assert json.loads(encode(value), parse_constant=pytest.fail) == finite(value)


def test_structures_are_encoded_with_all_their_fields():
    assert json.loads(encode(END)).keys() == {*END.__struct_fields__}
    assert json.loads(encode((1, 2))) == [1, 2]
    with pytest.raises(TypeError, match="the schema has no set"):
        encode({1})
    assert json.loads(encode(replace(END, duration_s=math.nan)))["duration_s"] is None


def test_chosen_fields_are_rows_of_any_text():
    fields = ["time_us", "operation"]
    for format in ("table", "markdown", "csv"):
        text = "".join(exports.replayed(SAMPLE, format, View(fields=fields)))
        assert text.count("all_reduce") >= 3
    message = r"json has no columns to choose: use csv, table, markdown"
    with pytest.raises(UsageError, match=message):
        exporter_of(KINDS[SAMPLE.kind], "json", View(fields=fields))
    with pytest.raises(UsageError, match="prometheus has no columns"):
        exports.export_content([("a", SAMPLE)], "prometheus", columns=fields)
    whole = exports.chosen_table([("a", SAMPLE)], "cases")
    assert whole.chosen([]) is whole
    table = whole.chosen(fields)
    assert [one.name for one in table.columns] == fields
    assert next(table.rows)[1] == "all_reduce"


PAIRS, TRAIN = (read_journal(TESTS / "journals" / f"{name}.jsonl") for name in ("p2p", "train"))


@pytest.mark.parametrize(
    ("journals", "format", "table", "message"),
    [
        ([SAMPLE], "csv", "x", "no table has the name 'x'"),
        ([SAMPLE, TRAIN], "csv", "steps", r"^a: only trainings and profiles have steps"),
        ([SAMPLE, PAIRS], "csv", "cases", "a contains cases, b contains"),
        ([SAMPLE, SAMPLE], "json", "cases", "json contains one complete run"),
        ([PAIRS], "flagcx", "cases", "contains transfers, not .* choose from table, json"),
    ],
)
def test_journals_of_which_there_is_no_such_text_are_refused(journals, format, table, message):
    with pytest.raises(UsageError, match=message):
        exports.export_content([*zip("ab", journals, strict=False)], format, table)
