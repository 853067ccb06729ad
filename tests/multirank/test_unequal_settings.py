"""Ranks that a launcher started with different variables of the built-in libraries."""

import pytest
from pods import SWEEP


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("SHM_INLINE", ("1K", "4K"), " differs between ranks: 1024 on rank 0, 4096 on rank 1"),
        # The default depends on the group.
        (
            *("BRIDGE_WHOLE", ("256K", "")),
            " differs between ranks: 262144 on rank 0, the default on rank 1",
        ),
        ("SHM_INLINE", ("", "much"), "=much: not a size"),
    ],
)
def test_ranks_with_different_values_end_with_a_message(pods, name, values, message):
    name = f"CCLMARK_{name}_BYTES"
    chosen = ("bridge", "--islands", "0,1") if "BRIDGE" in name else ("shm",)
    first, second = (
        pods.start(rank, 2, *SWEEP, "--ccl", *chosen, **{name: value})
        for rank, value in enumerate(values)
    )
    code, _, err = pods.end(first)
    assert code == 2
    assert f"{name}{message}" in err
    assert "rank 1" in err
    assert pods.end(second)[0] == 2
