"""The lines of FlagCX's perf programs and the table of hccl_test."""

import re
from pathlib import Path

import msgspec
import pytest

from cclmark.kinds.collective.line_formats import FlagcxExporter, HcclExporter
from cclmark.kinds.registry import read_journal

SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")
FLAGCX = re.compile(
    r"Comm size: (\d+) bytes; Elapsed time: (\d+\.\d{6}) sec; "
    r"Algo bandwidth: (\d+\.\d{6}) GB/s; Bus bandwidth: (\d+\.\d{6}) GB/s"
)


def export(exporter, results):
    text = exporter.begin(SAMPLE.header) + "".join(map(exporter.add, results))
    return text + exporter.end(SAMPLE.footer)


def hccl_rows(text):
    return [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if "|" in line]


def test_flagcx_has_a_line_for_each_size_that_was_measured():
    text = export(FlagcxExporter(), SAMPLE.results[:6])
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = [FLAGCX.fullmatch(line).groups() for line in lines]
    assert [size for size, *_ in found] == ["1024", "262144", "67108864"]
    assert found[0] == ("1024", "0.000012", "0.083252", "0.124878")
    assert found[2][1] == "0.000401"


def test_flagcx_says_what_is_wrong_beside_its_lines():
    comments = [
        line for line in export(FlagcxExporter(), SAMPLE.results).splitlines() if line[0] == "#"
    ]
    assert any("in-place: wrong: rank 1: 1024 elements" in line for line in comments)
    # A line for each series, and for each placement that is shown of one.
    assert sum(line.endswith(", nccl, 4 ranks") for line in comments) == 5
    assert comments[-1] == "# exit code 1: 1 case is wrong, 1 failed"


@pytest.mark.parametrize("exporter", [FlagcxExporter, HcclExporter])
def test_the_placement_that_is_shown_is_named(exporter):
    in_place = [result for result in SAMPLE.results[:6] if result.case.in_place]
    comments = [line for line in export(exporter(), in_place).splitlines() if line[0] == "#"]
    # A notice of the run precedes it.
    assert comments[1] == "# all_reduce float32 sum in-place, nccl, 4 ranks"


def test_hccl_has_the_columns_of_hccl_test():
    head, *rows = hccl_rows(export(HcclExporter(), SAMPLE.results[:6]))
    assert head == ["data_size(Bytes):", "aveg_time(us):", "alg_bandwidth(GB/s):", "check_result:"]
    assert rows == [
        ["1024", "12.30", "0.08325", "success"],
        ["262144", "19.84", "13.21290", "failed"],
        ["67108864", "401.20", "167.27035", "success"],
    ]


def test_hccl_says_null_for_what_was_not_checked():
    (_, row) = hccl_rows(export(HcclExporter(), SAMPLE.results[12:]))
    assert row[-1] == "NULL"


def test_hccl_repeats_its_settings():
    settings = msgspec.structs.replace(SAMPLE.header.settings, iterations=20, warmup=5)
    exporter = HcclExporter()
    exporter.begin(msgspec.structs.replace(SAMPLE.header, settings=settings))
    text = exporter.add(SAMPLE.results[0]) + exporter.end(None)
    assert "the minbytes is 1024, maxbytes is 67108864, iters is 20, warmup_iters is 5\n" in text
    assert text.endswith("# the end of the run is missing\n")
