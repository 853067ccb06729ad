"""Flat tables: every case and every raw sample, typed, as CSV and as Parquet."""

import csv
import dataclasses
import io
import sys

import pytest
from msgspec.structs import replace

from cclmark.base.errors import MissingError, UsageError
from cclmark.kinds.registry import read_journal
from cclmark.report.exports import export_content
from goldens import GOLDEN, require_golden
from places import H200X4


def named(*paths):
    return [(path.name, read_journal(path)) for path in paths]


SAMPLE = named(GOLDEN / "sample.jsonl")


def csv_of(runs, table):
    return list(csv.DictReader(io.StringIO(export_content(runs, "csv", table).decode())))


def parquet_of(runs, table):
    pq = pytest.importorskip("pyarrow.parquet")
    return pq.read_table(io.BytesIO(export_content(runs, "parquet", table)))


@pytest.mark.parametrize(
    ("format", "table", "file"),
    [
        ("csv", "cases", "sample.export.csv"),
        ("csv", "samples", "sample.samples.csv"),
        ("prometheus", "cases", "sample.prom"),
    ],
)
def test_what_is_written_reads_as_stored(format, table, file):
    require_golden(file, export_content(SAMPLE, format, table).decode())


def test_parquet_is_typed_and_says_the_same_as_csv():
    ((_, journal),) = runs = named(H200X4 / "collectives.jsonl")
    table = parquet_of(runs, "cases")
    types = {field.name: str(field.type) for field in table.schema}
    expected = {"size_bytes": "int64", "time_us": "double", "operation": "string"}
    assert types | expected | {"converged": "bool"} == types
    rows = table.to_pylist()
    for row, result in zip(rows, journal.results, strict=True):
        assert row["time_us"] == result.summary.time_s * 1e6
        assert row["size_bytes"] == result.case.size_bytes
        assert row["reduction"] == result.case.reduction
        assert row["first"] is None
    for row, text in zip(rows, csv_of(runs, "cases"), strict=True):
        assert float(text["busbw_gbps"]) == pytest.approx(row["busbw_gbps"], rel=1e-9)


def triples(journal):
    """Every raw sample of a journal: where it is of, and its three times."""
    for result in journal.results:
        if result.samples is None:
            continue
        clocks = (result.samples.host_s, result.samples.device_s, result.samples.enqueue_s)
        for sample, rows in enumerate(zip(*clocks, strict=True)):
            for place, times in enumerate(zip(*rows, strict=True)):
                rank = place if result.case.pair is None else result.case.pair[place]
                yield (result.index, result.cycle, sample, rank, *times)


@pytest.mark.parametrize("file", ["all_reduce", "libraries", "two_hosts"])
def test_no_raw_sample_is_lost_or_rounded(file):
    ((_, journal),) = runs = named(H200X4 / f"{file}.jsonl")
    keys = ("index", "cycle", "sample", "rank", "host_s", "device_s", "enqueue_s")
    expected = [*triples(journal)]
    assert len(expected) > 100
    table = parquet_of(runs, "samples").select(keys).to_pylist()
    assert [tuple(row[key] for key in keys) for row in table] == expected
    texts = [[row[key] for key in keys] for row in csv_of(runs, "samples")]
    assert [
        (*map(int, row[:4]), *(float(one) if one else None for one in row[4:])) for row in texts
    ] == expected


def test_what_a_table_requires_is_named_where_it_is_missing(monkeypatch):
    ((name, journal),) = SAMPLE
    results = [replace(one, samples=None) for one in journal.results]
    without = dataclasses.replace(journal, results=results)
    with pytest.raises(UsageError, match="no raw samples recorded"):
        export_content([(name, without)], "csv", "samples")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingError, match=r"pip install 'cclmark\[parquet\]'"):
        export_content(SAMPLE, "parquet", "cases")
