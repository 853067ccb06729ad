"""What is measured for the cost of tuned settings beside a matrix product."""

import msgspec

from cclmark.analysis.ratio import RatioEstimate
from cclmark.kinds.overlap.plan import overlaps_of_pairs
from cclmark.kinds.tune.plan import Choice
from cclmark.kinds.tune.result import OperationResult, Proof, Proven, RulesResult
from cclmark.kinds.tune.search import Rule
from cclmark.kinds.tune.tuning import measure_sm_cost
from cclmark.launch.request import Outcome
from cclmark.work.cases import Case
from cclmark.work.computations import Compute
from cclmark.work.variants import DEFAULT
from cclmark.work.work_beside import MATMUL
from simulated_trials import stored_document

SIZE = 1 << 20


def tuned(operation, choice):
    case = Case(operation, "nccl", 2, "float32", SIZE, SIZE // 4, False)
    gain = RatioEstimate(-0.1, 0.01, 6, 0.001, 7)
    result = OperationResult(case, choices={1: choice})
    result.proof = Proof([Proven(Rule(0, SIZE, 1), gain, 0.001, {SIZE: gain})], [])
    return result


def test_each_operation_is_measured_with_the_default_and_as_it_is_deployed(tmp_path, monkeypatch):
    """Not with the settings of another operation, whose figures nothing would show."""
    seen = []

    def measure(request, pairs, compute, rounds, journal):
        seen.extend(pairs)
        return [], Outcome(0)

    monkeypatch.setattr("cclmark.kinds.tune.tuning.measure_beside", measure)
    operations = [
        tuned("all_reduce", Choice("ring", "simple", 2)),
        tuned("all_gather", Choice("", "", 0, registration="symmetric")),
    ]
    result = RulesResult(7, operations=operations, variables={"NCCL_MIN_CTAS": "32"})
    cases = {one.operation: [one.case] for one in operations}
    measure_sm_cost(None, cases, result, tmp_path, 64)
    assert [(variant.describe(), case.operation) for variant, case in seen] == [
        ("default", "all_reduce"),
        ("NCCL_MIN_CTAS=32", "all_reduce"),
        ("default", "all_gather"),
        ("NCCL_MIN_CTAS=32 registration=symmetric", "all_gather"),
    ]
    overlaps = overlaps_of_pairs(seen, 2, Compute(MATMUL, "bfloat16", 64))
    assert [one.round for one in overlaps] == [0] * 4 + [1] * 4
    assert overlaps[0].variant == DEFAULT


def test_without_a_product_the_reason_is_reported(tmp_path, monkeypatch):
    product = "cuBLASLt, which multiplies matrices on CUDA devices (pip install nvidia-cublas"
    message = f"rank 0 (cuda:0) failed\n  {product}\x1b), cannot be loaded\n  another line"
    monkeypatch.setattr(
        "cclmark.kinds.tune.tuning.measure_beside", lambda *_: ([], Outcome(3, message))
    )
    one = tuned("all_reduce", Choice("ring", "simple", 2))
    result = RulesResult(7, operations=[one])
    cost = measure_sm_cost(None, {"all_reduce": [one.case]}, result, tmp_path, 64)
    result = msgspec.structs.replace(result, is_complete=True, sm_cost=cost)
    (finding,) = [one for one in stored_document(result).findings if one.id == "sm-cost"]
    assert finding.severity == "unknown"
    failed = f"rank 0 (cuda:0) failed: {product}\\x1b), cannot be loaded"
    assert finding.sentence == f"SM cost: not measured: {failed}"
