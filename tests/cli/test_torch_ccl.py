"""torch.distributed as a library of the measuring commands: ``--ccl torch:BACKEND``."""

import json
import re
import signal

import pytest

from cclmark.report.exports import replayed
from cclmark.work.operations import COLLECTIVES, DTYPE_BYTES
from examples import exhaustive
from fake_backends import find_fakes
from patience import waits

SHORT = ("--max-time", "0.02")
NEED_TORCH = [
    ("all_reduce", "--ccl", "torch:gloo", "-e", "8"),
    ("torch", "check", "--backend", "gloo"),
    ("torch", "objects", "--backend", "gloo"),
]


class TestWithoutTorch:
    @pytest.mark.parametrize("command", NEED_TORCH, ids=lambda command: command[1])
    def test_a_missing_torch_is_said_with_what_to_do(
        self, cclmark, without_torch, torch_not_installed, command
    ):
        run = cclmark(*command, "--devices", "host:2", env=without_torch, code=3)
        assert "torch cannot be imported (there is none here): install torch" in run.err
        run = cclmark(*command, "--devices", "host:2", env=torch_not_installed, code=3)
        assert run.err.strip() == "cclmark: torch is not installed: pip install torch"
        assert not [name for name in run.written() if name.endswith(".jsonl")]

    @pytest.mark.parametrize("ccls", ["shm,torch:gloo", "torch:gloo,shm"])
    def test_a_missing_library_is_left_out_beside_another(self, cclmark, torch_not_installed, ccls):
        run = cclmark(
            *("all_reduce", "--ccl", ccls, "--devices", "host:2", "-b", "8", "-e", "16", *SHORT),
            env=torch_not_installed,
        )
        found = {(it.case.ccl, it.status) for it in run.journal.results}
        assert found == {("shm", "ok"), ("torch:gloo", "skipped")}
        assert [library.name for library in run.journal.header.libraries] == ["shm"]
        for result in run.journal.results:
            assert ("torch cannot be imported" in result.reason) == (result.status == "skipped")
        assert "torch cannot be imported" in run.out
        assert run.journal.footer.exit_code == 0

    def test_nothing_left_is_missing(self, cclmark, torch_not_installed):
        arguments = ("all_reduce", "--ccl", "oneccl,torch:gloo", "--devices", "host:2", "-e", "8")
        env = {"CCLMARK_ONECCL_LIBRARY": "/nonexistent/libccl.so.2", **torch_not_installed}
        run = cclmark(*arguments, env=env, code=3)
        assert "/nonexistent/libccl.so.2" in run.err
        assert "torch cannot be imported" in run.err


@pytest.mark.usefixtures("torch", "no_leaks")
class TestGloo:
    @pytest.fixture(scope="class")
    @staticmethod
    def whole(cclmark_in, tmp_path_factory, torch):
        return cclmark_in(
            tmp_path_factory.mktemp("torch"),
            *("collectives", "--ccl", "shm,torch:gloo", "--devices", "host:3", "--pattern"),
            *("skew:3", "-b", "1K", "-e", "1K", "-r", "1", *SHORT),
        )

    def test_every_operation_is_measured_and_right(self, whole):
        own = [one for one in whole.journal.results if one.case.ccl == "torch:gloo"]
        assert {one.case.operation for one in own} == set(COLLECTIVES)
        assert {one.status for one in own} == {"ok"}
        assert {one.verification.wrong for one in own} == {0}
        assert [one.name for one in whole.journal.header.libraries] == ["shm", "torch:gloo"]
        assert "torch:gloo 2." in whole.out

    def test_operations_without_an_output_of_their_own_are_measured_in_place(self, whole):
        placements = {}
        for one in whole.journal.results:
            if one.case.ccl == "torch:gloo":
                placements.setdefault(one.case.operation, set()).add(one.case.placement)
        assert placements["all_reduce"] == placements["reduce"] == {"in-place"}
        assert placements["broadcast"] == {"in-place"}
        assert placements["all_gather"] == {"in-place", "out-of-place"}

    def test_torchs_own_names_are_the_routes(self, whole):
        routes = {
            one.case.operation: one.route
            for one in whole.journal.results
            if one.case.ccl == "torch:gloo" and not one.case.in_place
        }
        assert routes["all_gather"] == "all_gather_into_tensor"
        assert routes["sendrecv"] == "batch_isend_irecv"

    def test_both_libraries_stand_beside_each_other(self, whole):
        assert "all_reduce float32 sum in-place: time in µs" in whole.out
        grid = whole.out.split("all_reduce float32 sum in-place: time in µs")[1].splitlines()
        assert grid[1].split() == ["size", "shm", "torch:gloo", "/", "shm"]
        markdown = "".join(replayed(whole.journal, "markdown"))
        assert "| size | shm | torch:gloo | / shm |" in markdown
        size, _, own, other, ratio = grid[2].split()
        assert size == "1"
        assert float(other) / float(own) == pytest.approx(float(ratio), rel=0.02)
        assert re.search(r"^  all_reduce · torch:gloo +[0-9.]+ ", whole.out, re.MULTILINE)

    def test_types_are_measured_or_left_out_with_torchs_reason(self, cclmark):
        run = cclmark(
            *("broadcast", "--ccl", "torch:gloo", "--devices", "host:2", "-b", "1K", "-e", "1K"),
            *("-d", "all", *SHORT),
        )
        found = {one.case.dtype: one for one in run.journal.results}
        assert set(found) == set(DTYPE_BYTES)
        for name in ("float32", "bfloat16", "int8", "int64", "float16"):
            assert found[name].status == "ok", found[name].reason
        for one in found.values():
            assert one.status == "ok" or one.reason, one

    @pytest.mark.parametrize(
        ("operation", "arguments", "reason"),
        [
            ("all_reduce", ("-G", "2"), "graphs are not supported with torch"),
            ("broadcast", ("-m", "4"), "does not support groups of operations of broadcast"),
            ("all_reduce", ("--placement", "out-of-place"), "in place only"),
        ],
    )
    def test_what_torch_cannot_do_is_skipped_with_the_reason(
        self, cclmark, operation, arguments, reason
    ):
        run = cclmark(
            *(operation, "--ccl", "torch:gloo", "--devices", "host:2", "-b", "8", "-e", "8"),
            *arguments,
            code=3,
        )
        assert {one.status for one in run.journal.results} == {"skipped"}
        assert reason in run.journal.results[0].reason

    def test_torch_coalesces_the_operations_of_a_group(self, cclmark):
        sizes = ("-b", "8", "-e", "8", "-m", "4", "-n", "5")
        run = cclmark("all_reduce", "--ccl", "torch:gloo", "--devices", "host:2", *sizes)
        (result,) = run.journal.results
        assert (result.status, result.samples.operations_per_sample) == ("ok", 20)

    def test_the_rank_that_keeps_others_waiting_is_named(self, cclmark):
        run = cclmark(
            *("all_reduce", "--ccl", "torch:gloo", "--devices", "host:2", "-b", "1K", "-e", "64K"),
            *("-f", "8", "-n", "10", "-w", "2", *waits(4), "--inject", "hang:rank=1,case=1"),
            code=4,
        )
        statuses = {one.index: one.status for one in run.journal.results}
        assert statuses == {0: "ok", 1: "timeout", 2: "ok"}
        report = next(one.report for one in run.journal.results if one.index == 1)
        assert report.startswith("rank 1 (host:1, pid ")
        assert re.search(r"rank 1 has not entered call \d+; rank 0 waits in it", report)
        assert re.search(r"rank 0 .* \d+ operations entered, \d+ complete", report)

    def test_a_killed_rank_is_named(self, background):
        run = background(
            *("all_reduce", "--ccl", "torch:gloo", "--devices", "host:2", "-b", "1K", "-e", "1K"),
            *("-n", "5", "-N", "0"),
        )
        pids = run.wait_for_ranks(1)
        run.signal(pids[1], signal.SIGKILL)
        ended = run.finish(code=4)
        assert f"rank 1 (host:1, pid {pids[1]}) was killed by SIGKILL" in ended.err

    def test_a_backend_that_torch_lacks_is_said(self, cclmark):
        run = cclmark(
            *("all_reduce", "--ccl", "torch:nope", "--devices", "host:2", "-e", "8"), code=3
        )
        assert "has no backend nope, only gloo" in run.err

    def test_two_backends_in_a_run_do_not_meet_in_one_place(self, cclmark, tmp_path):
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

    def test_info_tells_of_backends_that_this_torch_lacks(self, cclmark):
        document = json.loads(cclmark("info", "--ccls", "--json").out)
        ccls = {entry["name"]: entry for entry in document["ccls"]}
        assert ccls["torch:gloo"]["reason"] == ""
        assert ccls["torch:gloo"]["routes"]["sendrecv"] == "batch_isend_irecv"
        assert "was built without its backend nccl; it has gloo" in ccls["torch:nccl"]["reason"]
        assert "4 × H200" in ccls["torch:nccl"]["verified"]
        assert "requires torch_npu for acl devices" in ccls["torch:hccl"]["reason"]
        assert ccls["torch:nccl"]["routes"] == {}


@pytest.mark.usefixtures("torch", "no_leaks")
class TestBrokenBackend:
    """Torch with a plug-in that has known faults: see tests/fakes/broken_backend.py."""

    @pytest.mark.parametrize(
        ("operation", "length"),
        [
            ("all_reduce", ()),
            *(
                exhaustive(operation, length)
                for operation, length in (
                    ("broadcast", ("--timing", "blocking")),
                    ("all_reduce", ("-w", "0", "-n", "5")),
                    ("all_reduce", ("--timing", "blocking")),
                    ("broadcast", ("-w", "0", "-n", "5")),
                    ("broadcast", ()),
                )
            ),
        ],
    )
    def test_what_one_rank_alone_refuses_is_its_failure(self, cclmark, operation, length):
        run = cclmark(
            *(operation, "--ccl", "torch:odd", "--import", "odd_backend"),
            *("--devices", "host:2", "-b", "1K", "-e", "2K", "-f", "2", *SHORT, *length),
            *("--placement", "in-place", *waits(5)),
            code=4,
        )
        first, reason, *_ = run.err.splitlines()
        assert first.startswith("cclmark: rank 1 (host:1")
        assert f"{operation} 1 KiB" in first
        assert "ibv_reg_mr failed: Operation not supported" in reason
        assert run.journal.results == []

    @pytest.fixture(autouse=True)
    @staticmethod
    def found(tmp_path):
        find_fakes(tmp_path, "broken_backend", "odd_backend", "over_gloo")

    def run(self, cclmark, operation, code):
        return cclmark(
            *(operation, "--ccl", "torch:broken", "--import", "broken_backend"),
            *("--devices", "host:2", "-b", "4K", "-e", "4K", *waits(10), *SHORT),
            code=code,
        )

    def test_a_wrong_sum_is_found(self, cclmark):
        run = self.run(cclmark, "all_reduce", 1)
        assert "rank 1: 1 element, first at index 0" in run.out

    def test_what_it_does_not_have_is_skipped(self, cclmark):
        run = self.run(cclmark, "barrier", 3)
        assert "broken does not support barrier" in run.journal.results[0].reason

    def test_one_rank_that_fails_is_named(self, cclmark):
        run = self.run(cclmark, "broadcast", 4)
        assert "rank 1 (host:1" in run.err
        assert "torch.distributed broadcast: out of luck" in run.err
