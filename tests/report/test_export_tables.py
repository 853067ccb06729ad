"""Flat tables: every case and every raw sample, typed, as CSV and as Parquet."""

import csv
import dataclasses
import io
import math
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


def rows_of(content):
    return list(csv.DictReader(io.StringIO(content.decode())))


def parquet_of(content):
    pq = pytest.importorskip("pyarrow.parquet")
    return pq.read_table(io.BytesIO(content))


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


def test_several_journals_come_into_one_table():
    runs = named(H200X4 / "all_reduce.jsonl", GOLDEN / "sample.jsonl")
    rows = rows_of(export_content(runs, "csv", "cases"))
    assert len(rows) == sum(len(journal.results) for _, journal in runs)
    assert {row["run_id"] for row in rows} == {journal.header.run_id for _, journal in runs}
    assert {row["host"] for row in rows} == {"h200-host", "node1.cluster"}
    assert rows[0]["device"] == "NVIDIA H200"


@pytest.mark.parametrize("table", ["cases", "samples"])
def test_rows_tell_by_what_method_they_were_measured(table):
    (name, journal), *_ = named(GOLDEN / "sample.jsonl")
    settings = replace(
        journal.header.settings, timing="blocking", barrier="library", through_host=True
    )
    header = replace(journal.header, settings=settings)
    other = name, dataclasses.replace(journal, header=header)
    usual, *_ = rows_of(export_content([(name, journal)], "csv", table))
    unusual, *_ = rows_of(export_content([other], "csv", table))
    assert usual["method"] == ""
    # The way between islands shapes no other library's times.
    assert unusual["ccl"] == "nccl"
    assert unusual["method"] == "timed by blocking; barrier of the library"


def test_parquet_is_typed_and_says_the_same_as_csv():
    runs = named(H200X4 / "collectives.jsonl")
    table = parquet_of(export_content(runs, "parquet", "cases"))
    types = {field.name: str(field.type) for field in table.schema}
    assert types["size_bytes"] == "int64"
    assert types["time_us"] == "double"
    assert types["converged"] == "bool"
    assert types["operation"] == "string"
    columns = table.to_pylist()
    for row, result in zip(columns, runs[0][1].results, strict=True):
        assert row["time_us"] == result.summary.time_s * 1e6
        assert row["size_bytes"] == result.case.size_bytes
        assert row["reduction"] == result.case.reduction
        assert row["first"] is None
    said = rows_of(export_content(runs, "csv", "cases"))
    for row, text in zip(columns, said, strict=True):
        assert float(text["busbw_gbps"]) == pytest.approx(row["busbw_gbps"], rel=1e-9)


def triples(journal):
    """Every raw sample of a journal: where it is of, and its three times."""
    found = []
    for result in journal.results:
        if result.samples is None:
            continue
        for sample, (host, device, enqueue) in enumerate(
            zip(
                result.samples.host_s,
                result.samples.device_s,
                result.samples.enqueue_s,
                strict=True,
            )
        ):
            for place, times in enumerate(zip(host, device, enqueue, strict=True)):
                rank = place if result.case.pair is None else result.case.pair[place]
                found.append((result.index, result.cycle, sample, rank, *times))
    return found


@pytest.mark.parametrize("file", ["all_reduce", "libraries", "two_hosts"])
def test_no_raw_sample_is_lost_or_rounded(file):
    ((_, journal),) = runs = named(H200X4 / f"{file}.jsonl")
    keys = ("index", "cycle", "sample", "rank", "host_s", "device_s", "enqueue_s")
    expected = triples(journal)
    assert len(expected) > 100
    table = parquet_of(export_content(runs, "parquet", "samples")).select(keys).to_pylist()
    assert [tuple(row[key] for key in keys) for row in table] == expected
    said = rows_of(export_content(runs, "csv", "samples"))
    texts = [
        (
            *(int(row[key]) for key in keys[:4]),
            *(float(row[key]) if row[key] else None for key in keys[4:]),
        )
        for row in said
    ]
    assert texts == expected


def test_no_raw_sample_of_a_transfer_is_lost():
    ((_, journal),) = runs = named(H200X4 / "p2p.jsonl")
    expected = [
        (result.index, sample, flow, time_s)
        for result in journal.transfers
        if result.samples is not None
        for sample, flows in enumerate(result.samples.device_s)
        for flow, time_s in enumerate(flows)
    ]
    table = parquet_of(export_content(runs, "parquet", "samples")).to_pylist()
    found = [(row["index"], row["sample"], row["flow"], row["device_s"]) for row in table]
    assert found == expected
    assert table[0]["from"] != table[0]["to"]


def test_a_row_for_each_flow():
    runs = named(H200X4 / "p2p.jsonl")
    rows = parquet_of(export_content(runs, "parquet", "cases")).to_pylist()
    assert len(rows) == sum(len(one.transfer.flows) for one in runs[0][1].transfers)
    assert {row["peer_access"] for row in rows} == {True}
    measured = [row for row in rows if row["measure"] == "unidirectional"]
    assert all(math.isfinite(row["gbps"]) for row in measured)


def test_kinds_do_not_mix():
    runs = named(H200X4 / "p2p.jsonl", GOLDEN / "sample.jsonl")
    for format in ("csv", "parquet"):
        with pytest.raises(UsageError, match=r"p2p\.jsonl contains transfers, sample\.jsonl co"):
            export_content(runs, format, "cases")


def test_formats_without_a_place_for_it_say_so():
    runs = named(H200X4 / "p2p.jsonl")
    for format in ("nccl-tests", "flagcx", "hccl"):
        with pytest.raises(UsageError, match=r"contains transfers, not .* choose from table, json"):
            export_content(runs, format, "cases")
    with pytest.raises(UsageError, match="json contains one complete run"):
        export_content(runs * 2, "json", "cases")


def test_without_samples_there_is_no_table_of_them():
    ((name, journal),) = named(GOLDEN / "sample.jsonl")
    for result in journal.results:
        result.samples = None
    with pytest.raises(UsageError, match="no raw samples recorded"):
        export_content([(name, journal)], "csv", "samples")


def test_without_pyarrow_parquet_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingError, match=r"pip install 'cclmark\[parquet\]'"):
        export_content(SAMPLE, "parquet", "cases")
