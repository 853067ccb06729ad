"""CSV and JSON read back with the standard library."""

import csv
import io
import json
import math
from pathlib import Path

import msgspec

from cclmark.document.columns import CsvExporter
from cclmark.document.json_format import JsonExporter
from cclmark.kinds.collective.document import FIELDS, document_of_cases
from cclmark.kinds.registry import read_journal
from cclmark.results.item_results import CaseResult
from cclmark.results.schema import Header

SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")


def export(exporter, results, footer=SAMPLE.footer):
    text = exporter.begin(SAMPLE.header) + "".join(map(exporter.add, results))
    return text + exporter.end(footer)


def with_summary(result, **changes):
    summary = msgspec.structs.replace(result.summary, **changes)
    return msgspec.structs.replace(result, summary=summary)


def json_of():
    return JsonExporter("cases", document_of_cases)


def test_csv_has_no_text_where_there_is_no_number():
    result = with_summary(SAMPLE.results[0], p99_s=math.nan, busbw_bytes_per_s=math.inf)
    record = next(csv.DictReader(io.StringIO(export(CsvExporter(FIELDS.layout()), [result]))))
    assert (record["p99_us"], record["busbw_gbps"]) == ("", "")


def test_csv_cells_are_no_formulas():
    result = msgspec.structs.replace(SAMPLE.results[4], reason="=HYPERLINK(1)", route=" -1+1")
    record = next(csv.DictReader(io.StringIO(export(CsvExporter(FIELDS.layout()), [result]))))
    assert (record["reason"], record["route"]) == ("'=HYPERLINK(1)", "' -1+1")


def test_json_holds_everything_that_the_journal_holds():
    document = json.loads(export(json_of(), SAMPLE.results))
    assert msgspec.convert(document["header"], Header) == SAMPLE.header
    cases = [msgspec.convert(case, CaseResult) for case in document["cases"]]
    assert cases == SAMPLE.results
    assert document["footer"]["exit_code"] == 1


def test_json_has_no_nan():
    result = with_summary(SAMPLE.results[0], p99_s=math.nan, busbw_bytes_per_s=math.inf)
    summary = json.loads(export(json_of(), [result]))["cases"][0]["summary"]
    assert summary["p99_s"] is None
    assert summary["busbw_bytes_per_s"] is None


def test_json_of_a_run_cut_short_is_closed():
    for results in ([], SAMPLE.results[:3]):
        document = json.loads(export(json_of(), results, footer=None))
        assert len(document["cases"]) == len(results)
        assert document["footer"] is None
