"""Devices that a plug-in adds to torch, through a fake one that moves real data."""

from __future__ import annotations

import pytest

from cclmark.kinds.overlap.result import OverlapResult
from cclmark.work.operations import COLLECTIVES
from cclmark_training.check.result import CheckResult
from cclmark_training.objects.result import ObjectResult
from cclmark_training.result import TrainingResult
from fake_torch_devices import ACL, GCU, MUSA

pytestmark = pytest.mark.usefixtures("torch", "no_leaks")
TWO = ("--devices", "musa:0-1")
SHORT = ("-n", "2", "-w", "1", "-b", "1K", "-e", "1K")
# What gloo, which moves the data, does not support; and backends like NCCL match by order.
UNSUPPORTED = {
    *("all_reduce_premul_sum", "all_reduce_float8", "all_gather_uneven", "monitored_barrier"),
    *("send_recv_tags", "recv_any_source"),
}
BOTH = pytest.mark.parametrize("vendor", [MUSA, ACL], ids=lambda vendor: vendor.plug_in)


class TestCases:
    @BOTH
    def test_all_operations_are_right_on_torchs_own_stream(self, cclmark, vendor):
        """The engine fills and checks torch's buffers on another stream than torch works on."""
        run = cclmark(
            *("collectives", "--ccl", f"torch:{vendor.backend}", "-b", "6K", "-e", "6K"),
            *("--devices", f"{vendor.runtime}:0-2", "-n", "2", "-w", "1"),
            *("--root", "all", "--pattern", "skew:4"),
            env=vendor.env(),
        )
        results = run.journal.results
        assert {result.case.operation for result in results} == {*COLLECTIVES}
        assert {result.status for result in results} == {"ok"}
        assert all(
            result.verification.wrong == 0
            for result in results
            if result.case.operation != "barrier"
        )
        assert {result.summary.clock for result in results} == {"device"}
        (library,) = run.journal.header.libraries
        assert (library.name, library.memory) == (f"torch:{vendor.backend}", "torch")
        assert library.version.endswith(f", {vendor.plug_in} 2.13.0")
        assert "of torch's caching allocator" in run.out

    def test_every_operation_can_be_timed_by_events(self, cclmark):
        run = cclmark(
            *("all_reduce", "--ccl", "torch:mccl", *TWO, *SHORT, "--timing", "per-op"),
            env=MUSA.env(),
        )
        (result,) = run.journal.results
        assert result.summary.clock == "device"
        assert len(result.samples.device_s) == 2

    def test_without_times_of_events_the_host_is_the_clock(self, cclmark):
        run = cclmark(
            *("all_reduce", "--ccl", "torch:mccl", *TWO, *SHORT), env=MUSA.env("no-event-times")
        )
        (result,) = run.journal.results
        assert (result.status, result.summary.clock) == ("ok", "host")

    def test_wrong_data_is_found(self, cclmark):
        run = cclmark(
            *("all_reduce", "--ccl", "torch:mccl", *TWO, *SHORT), env=MUSA.env("corrupt"), code=1
        )
        (result,) = run.journal.results
        (finding,) = result.verification.findings
        assert (finding.rank, finding.wrong, finding.first_element) == (1, 1, 0)

    def test_an_operation_that_the_plug_in_lacks_is_skipped(self, cclmark):
        run = cclmark(
            *("collectives", "--only", "all_reduce,scatter", "--ccl", "torch:mccl", *TWO, *SHORT),
            env=MUSA.env("without:scatter"),
        )
        status = {result.case.operation: result.status for result in run.journal.results}
        assert status == {"all_reduce": "ok", "scatter": "skipped"}
        assert "mccl does not support scatter" in run.out

    def test_other_memory_than_torchs_is_refused(self, cclmark):
        run = cclmark(
            *("all_reduce", "--ccl", "torch:mccl", *TWO, *SHORT, "--memory", "plain"),
            env=MUSA.env(),
            code=2,
        )
        assert "on musa devices torch.distributed supports only buffers of torch" in run.err

    def test_the_vendors_library_works_on_buffers_of_torch(self, cclmark):
        env = MUSA.env() | {"CCLMARK_MUSA_MCCL_LIBRARY": MUSA.beside("libmccl.so.2")}
        run = cclmark("all_reduce", *TWO, *SHORT, "--memory", "torch", env=env)
        assert run.journal.header.libraries[0].memory == "torch"
        assert all(result.verification.wrong == 0 for result in run.journal.results)

    def test_the_device_of_another_type_is_refused_by_a_backend(self, cclmark):
        run = cclmark("all_reduce", "--ccl", "torch:hccl", *TWO, env=MUSA.env(), code=2)
        assert "torch:hccl supports acl devices, not musa devices" in run.err


class TestKinds:
    def test_checks_pass(self, cclmark):
        run = cclmark("torch", "check", *TWO, env=MUSA.env())
        status = {result.check.name: result.status for result in run.journal.of(CheckResult)}
        assert {name for name, one in status.items() if one != "ok"} == UNSUPPORTED
        assert {one for one in status.values() if one != "ok"} == {"unsupported"}
        assert "checks of mccl" in run.out

    def test_a_check_finds_wrong_data_and_what_is_missing(self, cclmark):
        run = cclmark(
            *("torch", "check", *TWO, "--only", "all_reduce_sum,broadcast_async", "--values"),
            env=MUSA.env("corrupt"),
            code=1,
        )
        failed, right = run.journal.of(CheckResult)
        assert (failed.status, right.status) == ("failed", "ok")
        assert "rank 1: output: 1 of 1000 wrong, first at index 0" in failed.reason
        assert "device='musa:1'" in run.out
        run = cclmark(
            *("torch", "check", *TWO, "--only", "gather,reduce"), env=MUSA.env("without:gather")
        )
        status = {one.check.name: one.status for one in run.journal.of(CheckResult)}
        assert status == {"gather": "unsupported", "reduce": "ok"}

    def test_objects_are_measured(self, cclmark):
        run = cclmark(
            *("torch", "objects", *TWO, "-b", "64", "-e", "64", "--max-time", "0.1"),
            env=MUSA.env(),
        )
        results = run.journal.of(ObjectResult)
        assert results
        assert {result.status for result in results} == {"ok"}

    def test_training_steps_are_measured(self, cclmark):
        run = cclmark("train", *TWO, "--model", "tiny", "-n", "2", env=MUSA.env())
        (result,) = run.journal.of(TrainingResult)
        assert result.status == "ok"
        assert result.training.ccl == "torch:mccl"
        assert all(result.peak_allocated_bytes)
        assert result.timeline_reason == "torch's profiler does not record musa devices"

    @pytest.mark.parametrize("layout", ["fsdp=2,tp=2", "pp=2,dp=2"])
    def test_layouts_of_parallelism_compute_what_the_host_computes(self, cclmark, layout):
        """Groups of a mesh, sharded parameters, stages: all in the vendor's memory and backend."""
        options = ("train", "--layout", layout, "--model", "tiny", "-n", "2", "-w", "2")
        losses = []
        for devices, env in (("musa:0-3", MUSA.env()), ("host:0-3", {})):
            run = cclmark(*options, "--dtype", "float32", "--devices", devices, env=env)
            (result,) = run.journal.of(TrainingResult)
            assert result.status == "ok"
            losses.append(result.losses)
            # Calls of a group that is written in Python, as the fake's, cannot be counted.
            counted = {"fsdp", "tp"} if layout.startswith("fsdp") else {"pp", "dp", "embedding"}
            assert {one.group for one in result.groups} == (set() if env else counted)
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)

    def test_what_a_plug_in_lacks_is_said(self, cclmark):
        run = cclmark(
            *("train", *TWO, "--model", "tiny", "-n", "2", "--parallel", "fsdp"),
            env=MUSA.env("lacks:is_initialized"),
            code=3,
        )
        assert "--parallel fsdp requires what torch's plug-in for musa devices" in run.err
        assert "module 'torch.musa' has no attribute 'is_initialized'" in run.err
        assert "Traceback" not in run.err


class TestOverlap:
    """Torch multiplies matrices beside a vendor's library, on a stream of the engine."""

    SMALL = ("--devices", "tops:0-1", "--matrix", "100", "-b", "1K", "-e", "1K", "--rounds", "2")

    def env(self, fault: str = "") -> dict[str, str]:
        return GCU.env(fault) | {"CCLMARK_ECCL_LIBRARY": GCU.beside("libeccl.so")}

    def test_the_product_is_torchs_and_checked(self, cclmark):
        # Whether operations of fakes run beside each other depends on the machine (code 3 if none).
        run = cclmark("overlap", *self.SMALL, env=self.env(), code=(0, 3))
        results = run.journal.of(OverlapResult)
        assert len(results) == 2
        for result in results:
            assert result.implementation.startswith("torch 2.")
            assert result.overlap.compute.dtype == "bfloat16"
            assert result.verification.wrong == 0
            assert result.compute_findings == []

    def test_a_wrong_product_is_found(self, cclmark):
        run = cclmark("overlap", *self.SMALL, env=self.env("wrong-product"), code=1)
        for result in run.journal.of(OverlapResult):
            assert result.status == "wrong"
            found = [(one.rank, one.wrong, one.first_element) for one in result.compute_findings]
            assert found == [(0, 1, 0), (1, 1, 0)]

    def test_a_stream_of_torch_is_not_measured_beside_it(self, cclmark):
        run = cclmark("overlap", "--ccl", "torch:eccl", *self.SMALL, env=self.env(), code=3)
        assert "works on a separate stream" in run.out

    def test_a_plug_in_that_requires_its_own_streams_is_refused(self, cclmark):
        env = ACL.env() | {"CCLMARK_HCCL_LIBRARY": ACL.beside("libhccl.so")}
        run = cclmark("overlap", *self.SMALL, "--devices", "acl:0-1", env=env, code=3)
        assert "torch.npu has no ExternalStream" in run.err


class TestBadInput:
    @pytest.mark.parametrize(
        ("fault", "has_plug_in", "words"),
        [
            ("", False, ("torch requires torch_musa for musa devices, which is not installed",)),
            (
                *("other-torch", True),
                ("cannot import torch_musa", "undefined symbol: _ZN2at4_ops3addE", "its release"),
            ),
            ("no-backend", True, ("has no backend mccl", "this build of torch_musa is without it")),
            ("no-devices", True, ("with torch_musa has no musa devices",)),
            ("one-device", True, ("torch has 1 musa devices, but musa:1 is requested",)),
        ],
    )
    def test_what_is_missing_is_said(self, cclmark, fault, has_plug_in, words):
        env = MUSA.env(fault, has_plug_in=has_plug_in)
        run = cclmark("torch", "check", *TWO, env=env, code=3)
        for word in words:
            assert word in run.err

    def test_it_is_said_of_cases_too(self, cclmark):
        env = MUSA.env(has_plug_in=False)
        run = cclmark("all_reduce", "--ccl", "torch:mccl", *TWO, env=env, code=3)
        assert "install its release for torch 2.13" in run.err
