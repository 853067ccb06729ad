"""Devices that a plug-in adds to torch: ``scenarios/torch_plug_ins.txt`` has the other cases."""

import pytest

from cclmark_training.result import TrainingResult
from fake_torch_devices import MUSA


@pytest.mark.usefixtures("torch", "no_leaks")
@pytest.mark.parametrize("layout", ["fsdp=2,tp=2", "pp=2,dp=2"])
def test_layouts_of_parallelism_compute_what_the_host_computes(cclmark, layout):
    """Groups of a mesh, sharded parameters, stages: all in the vendor's memory and backend."""
    options = ("train", "--layout", layout, "--model", "tiny", "-n", "2", "-w", "2")
    losses = []
    for devices, env in (("musa:0-3", MUSA.env()), ("host:0-3", {})):
        run = cclmark(*options, "--dtype", "float32", "--devices", devices, env=env)
        (result,) = run.journal.of(TrainingResult)
        assert result.status == "ok"
        losses.append(result.losses)
        if env:
            assert all(result.peak_allocated_bytes)
        # Calls of a group that is written in Python, as the fake's, cannot be counted.
        counted = {"fsdp", "tp"} if layout.startswith("fsdp") else {"pp", "dp", "embedding"}
        assert {one.group for one in result.groups} == (set() if env else counted)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
