"""Ranks that a launcher started with different variables of the built-in libraries."""

from __future__ import annotations

import pytest
from pods import SWEEP


@pytest.mark.parametrize(
    ("ccl", "name"),
    [("shm", "CCLMARK_SHM_INLINE_BYTES"), ("bridge", "CCLMARK_BRIDGE_WHOLE_BYTES")],
)
def test_ranks_with_different_values_end_with_a_message(pods, ccl, name):
    islands = ("--islands", "0,1") if ccl == "bridge" else ()
    command = (*SWEEP, "--ccl", ccl, *islands)
    first, second = (
        pods.start(rank, 2, *command, **{name: value}) for rank, value in ((0, "1K"), (1, "4K"))
    )
    code, _, err = pods.end(first)
    assert code == 2
    assert f"{name} differs between ranks: 1024 on rank 0, 4096 on rank 1" in err
    assert pods.end(second)[0] == 2


def test_a_default_that_depends_on_the_group_differs_from_a_value(pods):
    name = "CCLMARK_BRIDGE_WHOLE_BYTES"
    command = (*SWEEP, "--ccl", "bridge", "--islands", "0,1")
    first = pods.start(0, 2, *command, **{name: "256K"})
    second = pods.start(1, 2, *command)
    code, _, err = pods.end(first)
    assert code == 2
    assert f"{name} differs between ranks: 262144 on rank 0, the default on rank 1" in err
    assert pods.end(second)[0] == 2


def test_one_rank_with_a_wrong_value_ends_all(pods):
    name = "CCLMARK_SHM_INLINE_BYTES"
    first = pods.start(0, 2, *SWEEP, "--ccl", "shm")
    second = pods.start(1, 2, *SWEEP, "--ccl", "shm", **{name: "much"})
    code, _, err = pods.end(first)
    assert code == 2
    assert f"{name}=much: not a size" in err
    assert "rank 1" in err
    assert pods.end(second)[0] == 2
