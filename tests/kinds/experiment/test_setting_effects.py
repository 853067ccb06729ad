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
        (RING, SELECTED, SELECTED, ""),  # a setting that selects proves nothing
    ],
)
def test_a_setting_that_the_library_ignores_has_no_effect(variant, ran, usual, reason):
    assert without_effect(variant, CASE, ran, usual) == reason


def test_a_variable_of_other_libraries_has_no_effect_on_the_built_in_one():
    def reason(ccl, *assignments):
        variant = Variant(tuple(Assignment(*one) for one in assignments))
        return without_effect(variant, replace(CASE, ccl=ccl), None, None)

    of_hccl, streaming = ("HCCL_BUFFSIZE", "10"), ("CCLMARK_SHM_STREAM_BYTES", "10")
    assert reason("shm", of_hccl) == "HCCL_BUFFSIZE is a setting of HCCL: shm does not read it"
    for ccl, name in (("shm", streaming), ("shm", ("SOME_NAME", "10")), ("mpi", of_hccl)):
        assert reason(ccl, name) == ""
    assert reason("hccl", of_hccl) == ""
    # It may have one where its library runs.
    assert reason("shm", ("OMPI_MCA_coll", "^han"), ("library", "mpi")) == ""
