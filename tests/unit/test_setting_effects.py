"""Which settings of a variant had no effect, by what the library reports."""

from cclmark.analysis.experiments import without_effect
from cclmark.plan.cases import Case
from cclmark.plan.variants import Assignment, Variant
from cclmark.results.schema import Explanation

NAME = "OMPI_MCA_coll_tuned_allreduce_algorithm"
CASE = Case("all_reduce", "mpi", 2, "float32", 1024, 256, False, reduction="sum")
RING = Variant((Assignment(NAME, "ring"),))


def test_a_setting_that_the_library_ignores_has_no_effect():
    ignored = {NAME: "it requires coll_tuned_use_dynamic_rules=true"}
    explanation = Explanation(0, reason="unknown", ignored=ignored)
    reason = f"{NAME}: it requires coll_tuned_use_dynamic_rules=true"
    assert without_effect(RING, CASE, explanation, None) == reason
    other = Variant((Assignment("OMPI_MCA_coll", "^han"),))
    assert without_effect(other, CASE, explanation, None) == ""


def test_a_setting_that_selects_proves_nothing():
    explanation = Explanation(0, source="variables", kernel="ring", algorithm="ring")
    assert without_effect(RING, CASE, explanation, explanation) == ""
