"""What a request of cases says about the sizes of its sweep."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.options.case_request import no_cases, rounding_of
from cclmark.options.groups import CaseOptions
from cclmark.work.cases import Sweep, UnevenPattern
from cclmark.work.operations import DTYPE_BYTES, OPERATIONS, moves_data


def sweep_of(operations, sizes, ranks=4, dtypes=("float32",)):
    return Sweep(operations, ["shm"], ranks, sizes, dtypes, ["sum"], [0], (False,), UnevenPattern())


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (sweep_of(["all_reduce", "all_gather"], [64, 128]), []),
        (sweep_of(["barrier"], [1, 2]), []),
        (sweep_of(["all_reduce"], [6]), ["sizes are rounded down .*: 6 B is 4 B of float32"]),
        (sweep_of(["all_reduce"], [2]), ["^all_reduce: 2 B left out: .* float32 has 4 B$"]),
        (
            sweep_of(["all_gather", "all_reduce", "alltoall"], [2, 4, 8, 63, 64]),
            [
                "^all_gather, alltoall: 2 B to 63 B left out: 4 parts of at least 16 B.* 64 B$",
                "^all_reduce: 2 B left out",
                "rounded down",
            ],
        ),
        (
            sweep_of(["all_reduce"], [1, 2, 8], dtypes=("int8", "float16", "float64")),
            ["1 B left out: an element of float16 has 2 B", "1 B to 2 B .* of float64 has 8 B"],
        ),
    ],
)
def test_sizes_that_are_left_out_are_named_with_the_reason(plan, said):
    notices = rounding_of(plan)
    assert len(notices) == len(said)
    for notice, text in zip(notices, said, strict=True):
        assert re.search(text, notice), notice


@given(
    st.sampled_from([name for name in OPERATIONS if moves_data(name)]),
    st.integers(1, 300),
    st.integers(1, 8),
    st.sampled_from([*DTYPE_BYTES]),
)
def test_a_size_has_a_case_or_a_notice(operation, size, ranks, dtype):
    plan = sweep_of([operation], [size], ranks, [dtype])
    left_out = [one for one in rounding_of(plan) if "left out" in one]
    assert bool(left_out) != bool([*plan.cases()])


def test_a_sweep_without_cases_is_refused_with_the_reason():
    error = no_cases(CaseOptions(), sweep_of(["all_gather"], [8], ranks=2))
    assert str(error).startswith("all_gather: 8 B left out: 2 parts of at least 16 B")
    assert str(error).endswith("have 32 B: raise -e")
