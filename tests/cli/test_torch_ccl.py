"""torch.distributed as a library of the measuring commands, and devices that a plug-in adds to it.

Also in ``scenarios/torch.txt`` and ``torch_plug_ins.txt``.
"""

import re

import pytest

from cclmark.work.operations import COLLECTIVES
from cclmark_training.result import TrainingResult
from fake_torch_devices import MUSA

pytestmark = pytest.mark.usefixtures("torch", "no_leaks")


def test_every_operation_is_measured_and_right_beside_the_engine(cclmark):
    run = cclmark(
        *("collectives", "--ccl", "shm,torch:gloo", "--devices", "host:2", "--pattern"),
        *("skew:3", "-b", "1K", "-e", "1K", "-r", "1", "-n", "2", "-w", "1"),
    )
    own = [one for one in run.journal.results if one.case.ccl == "torch:gloo"]
    assert {one.case.operation for one in own} == set(COLLECTIVES)
    assert {(one.status, one.verification.wrong) for one in own} == {("ok", 0)}
    assert "torch:gloo 2." in run.out
    routes = {one.case.operation: one.route for one in own if not one.case.in_place}
    # These operations of torch have no output of their own.
    assert not {"all_reduce", "reduce", "broadcast"} & {*routes}
    assert routes["all_gather"] == "all_gather_into_tensor"
    assert routes["sendrecv"] == "batch_isend_irecv"
    grid = run.out.split("all_reduce float32 sum in-place: time in µs")[1].splitlines()
    assert grid[1].split() == ["size", "shm", "torch:gloo", "/", "shm"]
    size, _, shm, gloo, ratio = grid[2].split()
    assert size == "1"
    assert float(gloo) / float(shm) == pytest.approx(float(ratio), rel=0.02)
    assert re.search(r"^  all_reduce · torch:gloo +[0-9.]+ ", run.out, re.MULTILINE)


def test_layouts_of_parallelism_compute_what_the_host_computes(cclmark):
    """Groups of a mesh and sharded parameters in the vendor's memory and backend."""
    options = ("train", "--layout", "fsdp=2,tp=2", "--model", "tiny", "-n", "2", "-w", "2")
    losses = []
    for devices, env in (("musa:0-3", MUSA.env()), ("host:0-3", {})):
        run = cclmark(*options, "--dtype", "float32", "--devices", devices, env=env)
        (result,) = run.journal.of(TrainingResult)
        assert result.status == "ok"
        losses.append(result.losses)
        if env:
            assert all(result.peak_allocated_bytes)
        # Calls of a group that is written in Python, as the fake's, cannot be counted.
        assert {one.group for one in result.groups} == (set() if env else {"fsdp", "tp"})
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
