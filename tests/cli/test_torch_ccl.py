"""torch.distributed as a library of the measuring commands, and devices that a plug-in adds to it.

Also in ``scenarios/torch.txt`` and ``torch_plug_ins.txt``.
"""

import json
import re
import signal
from collections import defaultdict

import pytest

from cclmark.report.exports import replayed
from cclmark.work.operations import COLLECTIVES
from cclmark_training.result import TrainingResult
from fake_backends import find_fakes
from fake_torch_devices import MUSA
from patience import waits

pytestmark = pytest.mark.usefixtures("torch", "no_leaks")


def test_every_operation_is_measured_and_right_beside_the_engine(cclmark):
    run = cclmark(
        *("collectives", "--ccl", "shm,torch:gloo", "--devices", "host:2", "--pattern"),
        *("skew:3", "-b", "1K", "-e", "1K", "-r", "1", "-n", "2", "-w", "1"),
    )
    own = [one for one in run.journal.results if one.case.ccl == "torch:gloo"]
    assert {one.case.operation for one in own} == set(COLLECTIVES)
    assert {(one.status, one.verification.wrong) for one in own} == {("ok", 0)}
    assert [one.name for one in run.journal.header.libraries] == ["shm", "torch:gloo"]
    assert "torch:gloo 2." in run.out
    placements = defaultdict(set)
    for one in own:
        placements[one.case.operation].add(one.case.placement)
    # Operations of torch without an output of their own.
    for operation in ("all_reduce", "reduce", "broadcast"):
        assert placements[operation] == {"in-place"}
    assert placements["all_gather"] == {"in-place", "out-of-place"}
    routes = {one.case.operation: one.route for one in own if not one.case.in_place}
    assert routes["all_gather"] == "all_gather_into_tensor"
    assert routes["sendrecv"] == "batch_isend_irecv"
    grid = run.out.split("all_reduce float32 sum in-place: time in µs")[1].splitlines()
    assert grid[1].split() == ["size", "shm", "torch:gloo", "/", "shm"]
    assert "| size | shm | torch:gloo | / shm |" in "".join(replayed(run.journal, "markdown"))
    size, _, shm, gloo, ratio = grid[2].split()
    assert size == "1"
    assert float(gloo) / float(shm) == pytest.approx(float(ratio), rel=0.02)
    assert re.search(r"^  all_reduce · torch:gloo +[0-9.]+ ", run.out, re.MULTILINE)


def test_a_killed_rank_is_named(background):
    run = background(
        *("all_reduce", "--ccl", "torch:gloo", "--devices", "host:2", "-b", "1K", "-e", "1K"),
        *("-n", "5", "-N", "0"),
    )
    pids = run.wait_for_ranks(1)
    run.signal(pids[1], signal.SIGKILL)
    ended = run.finish(code=4)
    assert f"rank 1 (host:1, pid {pids[1]}) was killed by SIGKILL" in ended.err


def test_two_backends_in_a_run_do_not_meet_in_one_place(cclmark, tmp_path):
    find_fakes(tmp_path, "second_backend")
    run = cclmark(
        *("all_reduce", "--ccl", "torch:gloo,torch:second", "--import", "second_backend"),
        *("--devices", "host:3", "-b", "8", "-e", "8", "-n", "1", "-w", "1", *waits(20)),
        *("--format", "json"),
    )
    assert {it.case.ccl for it in run.journal.results} == {"torch:gloo", "torch:second"}
    # Standard output is for results, whatever a library writes there.
    assert len(json.loads(run.out)["cases"]) == 2
    assert run.err.count("{ the backend says hello") == 3


def test_info_tells_of_backends_that_this_torch_lacks(cclmark):
    document = json.loads(cclmark("info", "--ccls", "--json").out)
    ccls = {entry["name"]: entry for entry in document["ccls"]}
    assert ccls["torch:gloo"]["reason"] == ""
    assert ccls["torch:gloo"]["routes"]["sendrecv"] == "batch_isend_irecv"
    assert "was built without its backend nccl; it has gloo" in ccls["torch:nccl"]["reason"]
    assert "4 × H200" in ccls["torch:nccl"]["verified"]
    assert "requires torch_npu for acl devices" in ccls["torch:hccl"]["reason"]
    assert ccls["torch:nccl"]["routes"] == {}


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
