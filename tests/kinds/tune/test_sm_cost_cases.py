"""What is measured for the cost of tuned settings beside a matrix product."""

import msgspec

from cclmark.analysis.ratio import RatioEstimate
from cclmark.kinds.tune.plan import Choice
from cclmark.kinds.tune.result import OperationResult, Proof, Proven, RulesResult
from cclmark.kinds.tune.search import Rule
from cclmark.kinds.tune.tuning import measure_sm_cost
from cclmark.launch.request import Outcome
from cclmark.work.cases import Case
from simulated_trials import stored_document

SIZE = 1 << 20


def tuned(operation, choice):
    case = Case(operation, "nccl", 2, "float32", SIZE, SIZE // 4, False)
    gain = RatioEstimate(-0.1, 0.01, 6, 0.001, 7)
    result = OperationResult(case, choices={1: choice})
    result.proof = Proof([Proven(Rule(0, SIZE, 1), gain, 0.001, {SIZE: gain})], [])
    return result


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
