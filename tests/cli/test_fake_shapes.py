"""Libraries whose interface is not NCCL's: CNCL, XCCL and oneCCL, through fakes that move data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from cclmark.work.operations import COLLECTIVES, DTYPE_BYTES
from fake_libraries import fake_library
from patience import deadline_s, waits

GROUPED = "grouped send/recv"
EVERYTHING = ("collectives", "-b", "6K", "-e", "6K", "--root", "all", "--pattern", "skew:4")


@dataclass(frozen=True)
class Shape:
    """A fake library, and the devices that it works on."""

    ccl: str
    runtime: str
    file: str
    version: str
    id_bytes: int
    dtypes: frozenset[str]
    flags: tuple[str, ...] = ()
    runtime_file: str = ""

    def devices(self, ranks: int) -> str:
        return f"host:{ranks}" if self.runtime == "host" else f"{self.runtime}:0-{ranks - 1}"

    @property
    def variable(self) -> str:
        return f"CCLMARK_{self.ccl.upper()}_LIBRARY"

    def directory(self) -> Path:
        """Where the fakes are."""
        return fake_library(f"{self.runtime}/{self.file}").parent

    def env(self, variant: str = "", **extra: str) -> dict[str, str]:
        """The environment in which they are found. ``variant``: "old" has no optional functions."""
        directory = self.directory()
        env = {self.variable: str(directory / variant / self.file), **extra}
        if self.runtime_file:
            env[f"CCLMARK_{self.runtime.upper()}_LIBRARY"] = str(directory / self.runtime_file)
        return env


_INTEGERS = {"int8", "uint8", "int32", "uint32", "int64", "uint64"}
_SHORTS = {"int16", "uint16"}
CNCL = Shape(
    *("cncl", "cnrt", "libcncl.so", "1.25.0", 136),
    frozenset(_INTEGERS | _SHORTS | {"float16", "bfloat16", "float32"}),
    runtime_file="libcnrt.so",
)
BKCL = Shape(
    *("bkcl", "cudart", "libbkcl.so", "unknown", 4096),
    frozenset({"uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"}),
    flags=("--allow-unverified",),
    runtime_file="libcudart.so",
)
ONECCL = Shape(
    *("oneccl", "host", "libccl.so.2", "2022.2.0", 4096),
    frozenset(_INTEGERS | {"float16", "bfloat16", "float32", "float64"}),
)
SHAPES = (CNCL, BKCL, ONECCL)


def by_name(shape: Shape) -> str:
    return shape.ccl


def measure(
    cclmark, shape: Shape, *arguments: str, env: dict[str, str], code: int = 0, ranks: int = 3
):
    return cclmark(
        *arguments,
        *(
            "--devices",
            shape.devices(ranks),
            "--ccl",
            shape.ccl,
            "-n",
            "2",
            "-w",
            "1",
            *shape.flags,
        ),
        env=env,
        code=code,
    )


@pytest.mark.parametrize("operation", ["all_reduce", "sendrecv"])
def test_what_is_refused_inside_a_group_ends_it(cclmark, operation) -> None:
    """CNCL says it when it is called. What comes later must not join the group and never start."""
    group = ("-m", "2") if operation == "all_reduce" else ()
    maximum = ("-o", "max") if operation == "all_reduce" else ()
    run = measure(
        cclmark,
        CNCL,
        *(operation, "-d", "float32,float16", "-b", "1K", "-e", "1K", *group, *maximum),
        env=CNCL.env(CCLMARK_FAKE_MISREAD="dtype"),
    )
    assert {(it.case.dtype, it.status) for it in run.journal.results} == {
        ("float32", "skipped"),
        ("float16", "ok"),
    }


@pytest.mark.parametrize("shape", SHAPES, ids=by_name)
class TestEveryShape:
    """What all of them do, on three ranks."""

    def test_all_operations_are_right_and_checked(self, cclmark, shape) -> None:
        run = measure(cclmark, shape, *EVERYTHING, env=shape.env())
        results = run.journal.results
        assert {result.case.operation for result in results} == set(COLLECTIVES)
        for result in results:
            assert result.status == "ok", result
            if result.case.operation != "barrier":
                assert result.verification is not None
        for operation in ("broadcast", "reduce", "gather", "scatter"):
            of_one = [result for result in results if result.case.operation == operation]
            assert {result.case.root for result in of_one} == {0, 1, 2}
        (library,) = run.journal.header.libraries
        assert (library.name, library.version) == (shape.ccl, shape.version)
        assert Path(library.path).name == shape.file

    def test_every_type_and_reduction(self, cclmark, shape) -> None:
        run = measure(
            cclmark,
            shape,
            *("collectives", "--only", "all_reduce,sendrecv", "-b", "384", "-e", "384"),
            *("-d", "all", "-o", "all", "--placement", "out-of-place"),
            env=shape.env(),
            ranks=2,
        )
        reduced, moved = {}, {}
        for result in run.journal.results:
            key = (result.case.dtype, result.case.reduction)
            if result.case.operation == "sendrecv":
                moved[key[0]] = result.status
            elif result.case.dtype not in shape.dtypes:
                assert result.status == "skipped"
                assert f"does not support {key[0]}" in result.reason
            elif key[1] == "avg":
                assert result.status == "skipped"
                assert "reduction avg" in result.reason
            else:
                reduced[key] = result.status
        assert set(reduced.values()) == {"ok"}
        assert len(reduced) == 4 * len(shape.dtypes)
        assert moved == {
            dtype: "ok" if dtype in shape.dtypes else "skipped" for dtype in DTYPE_BYTES
        }

    def test_pairs(self, cclmark, shape) -> None:
        run = cclmark(
            *("pairs", "--devices", shape.devices(3), "--ccl", shape.ccl, *shape.flags),
            *("-b", "64", "-e", "64", "-n", "2", "-w", "1", "--only", "ping_pong,sendrecv"),
            env=shape.env(),
        )
        assert len(run.journal.results) == 6
        assert {result.status for result in run.journal.results} == {"ok"}

    def test_several_operations_in_a_call(self, cclmark, shape) -> None:
        run = measure(cclmark, shape, "all_reduce", "-e", "64", "-m", "3", env=shape.env())
        assert {result.status for result in run.journal.results} == {"ok"}

    @pytest.mark.parametrize(
        ("operation", "call"), [("all_reduce", "AllReduce"), ("gather", "Recv")]
    )
    def test_corrupt_data_is_caught(self, cclmark, shape, operation, call) -> None:
        env = shape.env(CCLMARK_FAKE_NCCL_CORRUPT=f"0:{call}:7")
        run = measure(cclmark, shape, operation, "-b", "1K", "-e", "1K", env=env, code=1)
        assert {result.status for result in run.journal.results} == {"wrong"}
        for result in run.journal.results:
            assert {finding.rank for finding in result.verification.findings} == {0}

    @pytest.mark.parametrize(
        ("argument", "operations"), [("op", "reduce_scatter"), ("root", "broadcast,reduce")]
    )
    def test_an_argument_that_means_something_else_is_caught(
        self, cclmark, shape, argument, operations
    ) -> None:
        arguments = ("collectives", "--only", operations, "-o", "max", "-b", "1K", "-e", "1K")
        env = shape.env(CCLMARK_FAKE_MISREAD=argument)
        results = measure(cclmark, shape, *arguments, env=env, code=1).journal.results
        wrong = {result.case.operation for result in results if result.status == "wrong"}
        assert wrong == set(operations.split(","))

    def test_a_type_that_means_another_is_caught(self, cclmark, shape) -> None:
        env = shape.env(CCLMARK_FAKE_MISREAD="dtype")
        dtype = "float16" if shape is CNCL else "float32"
        arguments = ("all_reduce", "-b", "1K", "-e", "1K", "-d", dtype)
        run = measure(cclmark, shape, *arguments, env=env, code=1)
        assert {result.status for result in run.journal.results} == {"wrong"}

    def test_all_bytes_of_the_id_have_to_come(self, cclmark, shape) -> None:
        env = shape.env(CCLMARK_FAKE_MISREAD="id")
        run = measure(cclmark, shape, "all_reduce", "-e", "64", env=env, code=4)
        assert "not all bytes of the id came" in run.err

    def test_a_library_that_is_not_there(self, cclmark, shape, tmp_path: Path) -> None:
        env = shape.env() | {shape.variable: str(tmp_path / shape.file)}
        run = measure(cclmark, shape, "all_reduce", "-e", "64", env=env, code=3)
        assert str(tmp_path / shape.file) in run.err
        assert "was not found" in run.err

    def test_a_library_of_another_vendor(self, cclmark, shape) -> None:
        other = next(one for one in SHAPES if one is not shape)
        file = other.directory() / other.file
        env = shape.env() | {shape.variable: str(file)}
        run = measure(cclmark, shape, "all_reduce", "-e", "64", env=env, code=3)
        prefix = "bkcl_" if shape is BKCL else shape.ccl
        assert f"{file} has no symbol {prefix}" in run.err


class TestWords:
    """A failing call is told with its name, code and the vendor's words."""

    @pytest.mark.parametrize(
        ("shape", "words"),
        [
            (CNCL, "cnclAllReduce failed: CNCL: internal error (code 1)"),
            (BKCL, "bkcl_all_reduce failed: no text given (code 3)"),
            (
                ONECCL,
                "onecclAllReduce failed: Internal error: injected failure of AllReduce on rank 1 "
                "(code 3)",
            ),
        ],
        ids=("cncl", "bkcl", "oneccl"),
    )
    def test_of_a_call(self, cclmark, no_leaks, shape, words) -> None:
        env = shape.env(CCLMARK_FAKE_NCCL_FAIL="1:AllReduce")
        run = measure(cclmark, shape, "all_reduce", "-e", "64", env=env, code=4)
        assert words in run.err
        assert "rank 1" in run.err

    def test_of_a_communicator(self, cclmark, no_leaks) -> None:
        env = CNCL.env(CCLMARK_FAKE_NCCL_FAIL="1:InitComms")
        run = measure(cclmark, CNCL, "all_reduce", "-e", "64", env=env, code=4)
        assert "cnclInitComms failed: CNCL: internal error (code 1)" in run.err

    def test_of_what_fails_behind_our_back(self, cclmark, no_leaks) -> None:
        env = CNCL.env(CCLMARK_FAKE_NCCL_HANG="1:AllReduce", CCLMARK_FAKE_TIMEOUT_S="1")
        run = measure(cclmark, CNCL, "all_reduce", "-e", "64", env=env, code=4)
        assert "cnclGetCommAsyncError failed: CNCL: asynchronous error (code 22)" in run.err

    @pytest.mark.parametrize(
        "shape",
        [
            pytest.param(shape, marks=[pytest.mark.exhaustive] if shape is BKCL else [])
            for shape in SHAPES
        ],
        ids=by_name,
    )
    def test_of_an_operation_that_hangs(self, cclmark, no_leaks, shape) -> None:
        env = shape.env(CCLMARK_FAKE_NCCL_HANG="1:AllReduce")
        only = ("--only", "all_reduce,all_gather", "--placement", "in-place")
        arguments = ("collectives", *only, "-b", "64", "-e", "64", *waits(3))
        run = measure(cclmark, shape, *arguments, env=env, code=4)
        assert [result.status for result in run.journal.results] == ["timeout", "ok"]
        # Calls of oneCCL return when their work is done, so nobody looks at the clock meanwhile but
        # the launcher.
        assert (
            "did not get any further than" if shape is ONECCL else f"waited {deadline_s(3):g} s"
        ) in run.err


@pytest.fixture(scope="module")
def reports(cclmark_in, tmp_path_factory) -> dict[str, dict]:
    """What ``info`` says of every library on a machine that has all of them."""
    env = {name: text for shape in SHAPES for name, text in shape.env().items()}
    run = cclmark_in(tmp_path_factory.mktemp("info"), "info", "--ccls", "--json", env=env)
    return {report["name"]: report for report in json.loads(run.out)["ccls"]}


class TestWhatDiffers:
    ROUTES = {
        "cncl": {"alltoall": "native", "alltoallv": "native", "gather": GROUPED},
        "bkcl": {"alltoall": "native", "alltoallv": "native", "scatter": GROUPED},
        "oneccl": {"alltoallv": "native", "scatter": "native", "gather": "alltoallv"},
    }

    @pytest.mark.parametrize("shape", SHAPES, ids=by_name)
    def test_how_operations_are_done(self, reports, shape) -> None:
        report = reports[shape.ccl]
        assert report["reason"] == ""
        assert (report["version"], report["id_bytes"]) == (shape.version, shape.id_bytes)
        assert report["runtimes"] == [shape.runtime]
        assert report["routes"] | self.ROUTES[shape.ccl] == report["routes"]
        assert set(report["dtypes"]) == shape.dtypes
        assert report["reductions"] == ["sum", "prod", "max", "min"]

    @pytest.mark.parametrize("shape", (CNCL, BKCL), ids=by_name)
    def test_registered_buffers_are_skipped_with_the_reason(self, cclmark, shape) -> None:
        arguments = ("all_reduce", "-b", "64", "-e", "64", "--register", "local")
        run = measure(cclmark, shape, *arguments, env=shape.env(), code=3)
        for result in run.journal.results:
            assert result.status == "skipped"
            assert f"not supported with {shape.ccl}" in result.reason

    def test_cncl_is_what_its_devices_bring(self, cclmark) -> None:
        run = cclmark("all_reduce", "--devices", "cnrt:0,1", "-e", "64", "-n", "1", env=CNCL.env())
        assert [library.name for library in run.journal.header.libraries] == ["cncl"]

    def test_an_older_cncl_composes_its_exchanges(self, cclmark) -> None:
        arguments = ("collectives", "--only", "alltoall,alltoallv", "-b", "6K", "-e", "6K")
        run = measure(cclmark, CNCL, *arguments, env=CNCL.env("old"))
        assert {result.status for result in run.journal.results} == {"ok"}
        assert all(GROUPED in result.route for result in run.journal.results)

    def test_an_older_oneccl_composes_its_exchanges(self, cclmark) -> None:
        """2022.1 has no AllToAllV."""
        run = measure(cclmark, ONECCL, *EVERYTHING, env=ONECCL.env("old"))
        results = run.journal.results
        assert {result.case.operation for result in results} == set(COLLECTIVES)
        assert {result.status for result in results} == {"ok"}
        routes = {result.case.operation: result.route for result in results}
        for operation in ("alltoallv", "gather", "scatter", "sendrecv"):
            assert GROUPED in routes[operation]
        assert GROUPED not in routes["alltoall"]
        (library,) = run.journal.header.libraries
        assert library.version == "2022.1.2"

    def test_a_missing_operation_is_skipped_with_the_reason(self, cclmark, without_torch) -> None:
        env = ONECCL.env("bare")
        run = measure(cclmark, ONECCL, *EVERYTHING, env=env)
        skipped = {"reduce": "Reduce"} | dict.fromkeys(
            ("alltoall", "alltoallv", "gather", "scatter", "sendrecv"), "Recv"
        )
        assert {result.case.operation for result in run.journal.results} == set(COLLECTIVES)
        for result in run.journal.results:
            missing = skipped.get(result.case.operation)
            assert result.status == ("ok" if missing is None else "skipped")
            if missing is not None:
                assert result.reason.endswith(f"libccl.so.2 has no oneccl{missing}")
        info = cclmark("info", "--ccls", "--json", env=env | without_torch)
        (report,) = [it for it in json.loads(info.out)["ccls"] if it["name"] == "oneccl"]
        assert not set(report["routes"]) & set(skipped)
        assert {"Reduce", "Recv", "AllToAll"} <= set(report["lacks"])

    @pytest.mark.parametrize("shape", SHAPES, ids=by_name)
    def test_parts_that_go_elsewhere_are_caught(self, cclmark, no_leaks, shape) -> None:
        env = shape.env(CCLMARK_FAKE_MISREAD="parts", CCLMARK_FAKE_TIMEOUT_S="2")
        arguments = ("alltoallv", "--pattern", "skew:4", "-b", "6K", "-e", "6K")
        run = measure(cclmark, shape, *arguments, env=env, code=4 if shape is ONECCL else 1)
        if shape is ONECCL:
            assert "onecclAllToAllV failed" in run.err
        else:
            assert "wrong" in {result.status for result in run.journal.results}

    def test_xccl_is_not_used_unasked(self, cclmark) -> None:
        arguments = ("--devices", "cudart:0,1", "--ccl", "bkcl", "-e", "64")
        run = cclmark("all_reduce", *arguments, env=BKCL.env(), code=3)
        assert "the numbers of its element types and reductions" in run.err
        assert "--allow-unverified" in run.err
        assert not run.written()

    def test_oneccl_says_what_hosts_may_need(self, cclmark) -> None:
        env = ONECCL.env(CCLMARK_FAKE_NCCL_FAIL="1:CommInitRank")
        run = measure(cclmark, ONECCL, "all_reduce", "-e", "64", env=env, code=4)
        assert "Host memory may require CCL_PLUGIN=ONECCL_LEGACY_CPU" in run.err
        env["CCL_PLUGIN"] = "ONECCL_LEGACY_CPU"
        run = measure(cclmark, ONECCL, "all_reduce", "-e", "64", env=env, code=4)
        assert "may require" not in run.err

    EXPLAINED = (*("all_reduce", "-b", "1K", "-e", "64K", "-f", "8"), "--explain")

    def test_oneccls_log_explains_it(self, cclmark) -> None:
        run = measure(cclmark, ONECCL, *self.EXPLAINED, env=ONECCL.env())
        found = [result.explanation for result in run.journal.results if not result.case.in_place]
        assert [(one.source, one.kernel, one.algorithm, one.reason) for one in found] == [
            *[("log", "recursive doubling", "recursive_doubling", "")] * 2,
            ("log", "ring", "ring", ""),
        ]
        assert "what ran (the library's log)" in run.out
        assert "CCL_DEBUG" not in run.out + run.err

    def test_a_rank_whose_log_differs_is_named(self, cclmark) -> None:
        env = ONECCL.env(CCLMARK_FAKE_ODD_ALGORITHM="2")
        run = measure(cclmark, ONECCL, *self.EXPLAINED, env=env, code=3)
        assert run.journal.results[0].explanation.reason == (
            "rank 2 ran allreduce by ring, rank 0 allreduce by recursive doubling"
        )

    def test_a_broken_line_is_no_algorithm(self, cclmark) -> None:
        env = ONECCL.env(CCLMARK_FAKE_BROKEN_LOG="0")
        run = measure(cclmark, ONECCL, *self.EXPLAINED, env=env, code=3)
        found = run.journal.results[0].explanation  # of the other ranks
        assert (found.source, found.kernel) == ("log", "recursive doubling")
        assert found.reason == (
            "rank 0 reported no operation: the log of oneccl contains no line about the algorithm; "
            "CCL_ALLREDUCE is not set: the library decides"
        )

    def test_oneccl_beside_shm(self, cclmark) -> None:
        arguments = ("all_reduce", "--devices", "host:2", "--ccl", "shm,oneccl", "-b", "1K")
        run = cclmark(*arguments, "-e", "1K", "-n", "2", "-w", "1", env=ONECCL.env())
        assert {result.case.ccl for result in run.journal.results} == {"shm", "oneccl"}
        assert {result.status for result in run.journal.results} == {"ok"}
