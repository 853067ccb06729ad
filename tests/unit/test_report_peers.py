"""The lines of FlagCX's perf programs and the table of hccl_test."""

from pathlib import Path

import msgspec
import pytest

from cclmark.kinds.collective.flagcx import FlagcxExporter
from cclmark.kinds.collective.hccl import HcclExporter
from cclmark.kinds.registry import read_journal

SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")


def export(exporter, results):
    text = exporter.begin(SAMPLE.header) + "".join(map(exporter.add, results))
    return text + exporter.end(SAMPLE.footer)


@pytest.mark.parametrize("exporter", [FlagcxExporter, HcclExporter])
def test_the_placement_that_is_shown_is_named(exporter):
    in_place = [result for result in SAMPLE.results[:6] if result.case.in_place]
    comments = [line for line in export(exporter(), in_place).splitlines() if line[0] == "#"]
    # A notice of the run precedes it.
    assert comments[1] == "# all_reduce float32 sum in-place, nccl, 4 ranks"


def test_hccl_repeats_its_settings():
    settings = msgspec.structs.replace(SAMPLE.header.settings, iterations=20, warmup=5)
    exporter = HcclExporter()
    exporter.begin(msgspec.structs.replace(SAMPLE.header, settings=settings))
    text = exporter.add(SAMPLE.results[0]) + exporter.end(None)
    assert "the minbytes is 1024, maxbytes is 67108864, iters is 20, warmup_iters is 5\n" in text
    assert text.endswith("# the end of the run is missing\n")
