"""Which settings of a variant had no effect, by what the library reports."""

import pytest
from msgspec.structs import replace

from cclmark.journal.schema import Explanation
from cclmark.kinds.experiment.figures import without_effect
from cclmark.work.cases import Case
from cclmark.work.variants import Assignment, Variant

NAME = "OMPI_MCA_coll_tuned_allreduce_algorithm"
CASE = Case("all_reduce", "mpi", 2, "float32", 1024, 256, False, reduction="sum")
RING = Variant((Assignment(NAME, "ring"),))


REASON = "it requires coll_tuned_use_dynamic_rules=true"
IGNORED = Explanation(0, reason="unknown", ignored={NAME: REASON})
SELECTED = Explanation(0, source="variables", kernel="ring", algorithm="ring")
OTHER = Variant((Assignment("OMPI_MCA_coll", "^han"),))


@pytest.mark.parametrize(
    ("variant", "ran", "usual", "reason"),
    [
        (RING, IGNORED, None, f"{NAME}: {REASON}"),
        (OTHER, IGNORED, None, ""),
        # A setting that selects proves nothing.
        (RING, SELECTED, SELECTED, ""),
    ],
)
def test_a_setting_that_the_library_ignores_has_no_effect(variant, ran, usual, reason):
    assert without_effect(variant, CASE, ran, usual) == reason


@pytest.mark.parametrize(
    ("ccl", "name", "reason"),
    [
        ("shm", "HCCL_BUFFSIZE", "HCCL_BUFFSIZE is a setting of HCCL: shm does not read it"),
        ("shm", "CCLMARK_SHM_STREAM_BYTES", ""),
        ("shm", "SOME_NAME", ""),
        ("mpi", "HCCL_BUFFSIZE", ""),
        ("hccl", "HCCL_BUFFSIZE", ""),
    ],
)
def test_a_variable_of_other_libraries_has_no_effect_on_the_built_in_one(ccl, name, reason):
    case = replace(CASE, ccl=ccl)
    assert without_effect(Variant((Assignment(name, "10"),)), case, None, None) == reason


def test_a_variable_of_another_library_may_have_an_effect_where_that_library_runs():
    case = replace(CASE, ccl="shm")
    both = (Assignment("OMPI_MCA_coll", "^han"), Assignment("library", "mpi"))
    assert without_effect(Variant(both), case, None, None) == ""
