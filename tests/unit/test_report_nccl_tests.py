"""The nccl-tests text as the scripts of its users read it."""

import re
from pathlib import Path

import msgspec
import pytest

from cclmark.kinds.collective.nccl_tests import NcclTestsExporter, fit
from cclmark.kinds.registry import read_journal

SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")


def export(results, header=SAMPLE.header, footer=SAMPLE.footer):
    exporter = NcclTestsExporter()
    text = exporter.begin(header) + "".join(exporter.add(result) for result in results)
    return text + exporter.end(footer)


def rows(text):
    return [line.split() for line in text.splitlines() if line.strip() and line[0] != "#"]


def test_rows_match_the_regular_expression_that_scripts_use():
    number = r"\s+(\d+\.?\d*(?:e\+\d+)?)"
    wrong = r"\s+(\d+|N/A)"
    pattern = re.compile(
        r"^\s+(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(-?\d+)" + (number * 3 + wrong) * 2 + "$"
    )
    text = export([result for result in SAMPLE.results if result.summary is not None][:4])
    matches = [match for match in map(pattern.match, text.splitlines()) if match]
    assert [int(match[1]) for match in matches] == [1024, 262144]
    assert float(matches[1][8]) == 19.82
    assert float(matches[1][12]) == 19.55


def test_one_placement_only_leaves_the_other_na():
    table = rows(export([SAMPLE.results[0], SAMPLE.results[2]]))
    assert [row[9:] for row in table] == [["N/A"] * 4] * 2


def test_nothing_measured_is_no_bandwidth():
    text = export([SAMPLE.results[4]])
    assert rows(text) == []
    assert "# Avg bus bandwidth    : nan \n" in text


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((8, 1 << 30, 0, 2.0), "minBytes 8 maxBytes 1073741824 step: 2(factor)"),
        ((8, 1024, 8, 0.0), "minBytes 8 maxBytes 1024 step: 8(bytes)"),
    ],
)
def test_the_sizes_are_those_of_the_settings(sizes, expected):
    names = ("begin_bytes", "end_bytes", "step_bytes", "factor")
    settings = msgspec.structs.replace(
        SAMPLE.header.settings, **dict(zip(names, sizes, strict=True))
    )
    header = msgspec.structs.replace(SAMPLE.header, settings=settings)
    assert expected in export(SAMPLE.results, header)


def test_a_run_that_was_fine_ends_like_one_of_nccl_tests():
    footer = msgspec.structs.replace(SAMPLE.footer, exit_code=0, message="")
    text = export(SAMPLE.results[:2], footer=footer)
    assert text.endswith(
        "# Collective test concluded: all_reduce_perf (cclmark 0.1.0, nccl)\n#\n\n"
    )
    assert "# error" not in text


# Expected texts come from nccl-tests' own getFloatStr, compiled.
@pytest.mark.parametrize(
    ("value", "width", "expected"),
    [
        (0.0, 6, "  0.00"),
        (12.345, 7, "  12.35"),
        (999.995, 6, "1000.0"),
        (9999.95, 7, "9999.95"),
        (9999.995, 7, "10000.0"),
        (123456.78, 7, " 123457"),
        (99999.96, 6, "100000"),
        (1234567.0, 6, " 1e+06"),
        (12345678.0, 7, "1.2e+07"),
        (float("nan"), 6, "   nan"),
    ],
)
def test_numbers_give_up_decimals_before_they_outgrow_their_column(value, width, expected):
    assert fit(value, width) == expected
