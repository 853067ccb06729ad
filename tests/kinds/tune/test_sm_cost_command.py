"""What tuned settings cost a matrix product, on fakes: measured as part of another run."""

import os
import re
import sys

from cclmark.kinds.overlap.result import OverlapResult
from cclmark.kinds.registry import read_journal
from commands import completed

# As ``cclmark tune`` calls it, with a proven rule.
PROGRAM = """
import sys
from pathlib import Path
from cclmark.analysis.ratio import RatioEstimate
from cclmark.options.case_request import request_of
from cclmark.kinds.experiment.kind import KIND
from cclmark.kinds.tune.command import TuneFlags
from cclmark.work.cases import Case
from cclmark.work.items import items_of
from cclmark.work.runtimes import parse_devices
from cclmark.recording.joining import WantedDevices, joined
from cclmark.kinds.tune.tuning import measure_sm_cost
from cclmark.document.document_text import TextLines
from cclmark.document.report_kind import View
from cclmark.kinds.tune.document import document_of_result
from cclmark.journal.schema import Explanation
from cclmark.kinds.tune.plan import Choice
from cclmark.kinds.tune.result import Proof, Proven
from cclmark.kinds.tune.search import Rule
from cclmark.kinds.tune.result import OperationResult, RulesResult

flags = TuneFlags(operations=["all_reduce"], begin=16 << 10, end=64 << 10, factor=2.0)
with joined(WantedDevices(lambda: parse_devices("cuda:0"), None, 60.0)) as coordinator:
    request, plan = request_of(KIND, ["all_reduce"], flags, coordinator)
    cases = items_of(request.planned, Case)
    gain = RatioEstimate(-0.1, 0.01, 6, 0.001, 7)
    one = OperationResult(cases[0], choices={1: Choice("ring", "simple", 2)})
    one.proof = Proof([Proven(Rule(0, 32768, 1), gain, 0.001, {32768: gain})], [])
    one.usual = {32768: Explanation(0, channels=2)}
    one.tuned = {32768: Explanation(0, channels=4)}
    result = RulesResult(7, operations=[one], files=["x"], variables={"NCCL_PROTO": "Simple"})
    cost = measure_sm_cost(request, {"all_reduce": cases}, result, Path("."), 62)
    result.is_complete, result.sm_cost = True, cost
    print(TextLines(View()).whole(document_of_result(result)))
    coordinator.exit_code = 0
"""


def test_the_largest_tuned_case_is_measured_by_default_and_as_deployed(fake_cuda, tmp_path):
    done = completed(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, **fake_cuda.env(products=True)},
    )
    assert done.returncode == 0, done.stderr
    journal = read_journal(tmp_path / "sm-cost.jsonl")
    overlaps = [one.overlap for one in journal.of(OverlapResult)]
    assert {one.case.size_bytes for one in overlaps} == {32768}
    assert {one.compute.extent for one in overlaps} == {62}
    assert [one.variant.describe() for one in overlaps].count("default") == 4
    deployed = [one.variant for one in overlaps if one.variant.assignments]
    assert len(deployed) == 4
    assert {one.variables("process")["NCCL_PROTO"] for one in deployed} == {"Simple"}
    assert "SM cost: the slow-down of a matrix product beside the collective" in done.stdout
    for when, channels in (("before", 2), ("after", 4)):  # on a busy machine rounds differ widely
        slow_down = r"([0-9.]+ \([0-9.]+ to [0-9.]+\)|cannot be said)"
        assert re.search(rf" {when} +{channels} +{slow_down}", done.stdout)
    assert "journal sm-cost.jsonl" in done.stdout
    assert "cclmark: journal" not in done.stderr  # it is a part of another run
