"""The way through CUDA and NCCL, on fake libraries that compute in host memory."""

import json

import pytest
from vendors import outcomes

from cclmark.kinds.pieces.result import PieceResult
from cclmark.work.sizes import parse_size
from examples import exhaustive
from goldens import require_golden
from patience import deadline_s, waits

SHORT = ("-n", "2", "-w", "1")
TWO = ("-g", "2", "-b", "64", "-e", "64", *SHORT)


def keys(value):
    """The shape of a document: the names at every depth."""
    if isinstance(value, dict):
        return {(name, *below) for name, inner in value.items() for below in keys(inner) or [()]}
    if isinstance(value, list):
        return {below for inner in value for below in keys(inner)}
    return set()


def test_a_journal_has_one_schema_on_host_and_accelerators(cclmark, fake_cuda, tmp_path):
    on_host = cclmark("all_reduce", "--devices", "host:2", "-b", "64", "-e", "128", *SHORT)
    on_cuda = cclmark(
        *("all_reduce", "-g", "2", "-b", "64", "-e", "128", *SHORT, "--timing", "throughput"),
        env=fake_cuda.env(),
    )
    shapes = []
    for run in (on_host, on_cuda):
        assert {result.status for result in run.journal.results} == {"ok"}
        cases = [json.loads(line) for line in run.journal_path.read_text().splitlines()][1:-1]
        shapes.append([keys(case) - {("summary", "late_rank")} for case in cases])
        assert len(cases) == 4
    assert shapes[0] == shapes[1]
    header = on_cuda.journal.header
    assert [device.index for device in header.devices] == [0, 1]
    assert {device.runtime for device in header.devices} == {"cuda"}
    assert [library.path for library in header.libraries] == [str(fake_cuda.nccl.resolve())]


EVERYTHING = ("collectives", "-g", "3", "-b", "480", "-e", "480", "-n", "1", "-w", "0")
OF_TYPES = ("all_reduce", "-g", "2", "-b", "512", "-e", "512", "-d", "all", "-o", "all")
# Of the library, or of its old version.
RUNS = {
    **dict.fromkeys(("recent", "old"), EVERYTHING),
    "types": (*OF_TYPES, "-n", "1", "-w", "0", "--placement", "out-of-place"),
    "old-types": ("all_reduce", *TWO, "-d", "fp8e4m3,int8"),
    "old-local": ("all_reduce", *TWO, "--register", "local"),
    "old-symmetric": ("all_reduce", *TWO, "--register", "symmetric"),
    "memory-32m": ("all_reduce", "-g", "2", "-b", "20M", "-e", "20M", "-n", "1", "-w", "0"),
    "memory-8m": ("all_reduce", "-g", "2", "-b", "1G", "-e", "1G", *SHORT),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_becomes_of_every_case(cclmark, fake_cuda, name):
    kind, _, memory = name.partition("-")
    settings = {"CCLMARK_FAKE_MEMORY": str(parse_size(memory))} if kind == "memory" else {}
    env = fake_cuda.env(old=kind == "old", **settings)
    run = cclmark(*RUNS[name], env=env, code=(0, 3))
    require_golden(f"fakes/nccl-{name}.txt", outcomes(run))
    assert ("nothing was measured" in run.err) == (run.code == 3)


@pytest.mark.parametrize(("ccls", "runtime"), [("shm", "host"), ("nccl", "cuda")])
def test_a_library_brings_its_devices(cclmark, fake_cuda, ccls, runtime):
    run = cclmark("all_reduce", "--ccl", ccls, *TWO, env=fake_cuda.env())
    assert {device.runtime for device in run.journal.header.devices} == {runtime}
    assert {result.status for result in run.journal.results} == {"ok"}


def test_the_host_sees_a_batch_of_per_op_as_one(cclmark, fake_cuda):
    five = ("--timing", "per-op", "-n", "5", "-w", "1")
    for clock, samples in (("device", 5), ("host", 1)):
        run = cclmark("all_reduce", *TWO, *five, "--clock", clock, env=fake_cuda.env())
        for result in run.journal.results:
            assert result.summary.clock == clock
            assert result.summary.samples == len(result.samples.host_s) == samples
            assert len(result.samples.device_s) == len(result.samples.enqueue_s) == samples
            assert result.samples.operations_per_sample == 5 // samples


@pytest.mark.parametrize(
    "arguments",
    [
        exhaustive(("--timing", "graph")),  # as -G 1
        ("-G", "3"),
        ("--register", "local"),
        exhaustive(("--register", "symmetric")),  # as -R 2
        ("-R", "2"),
        ("-m", "4"),
        ("-z", "1"),
        ("--timing", "per-op"),
    ],
    ids=" ".join,
)
def test_ways_to_measure(cclmark, fake_cuda, arguments):
    run = cclmark("all_reduce", *TWO, *arguments, env=fake_cuda.env())
    results = run.journal.results
    assert [result.status for result in results] == ["ok", "ok"]
    assert all(result.verification.wrong == 0 for result in results)
    operations = {"-G": 6, "-m": 8, "-z": 1, "--timing": results[0].samples.operations_per_sample}
    expected = operations.get(arguments[0], 2)
    assert {result.samples.operations_per_sample for result in results} == {expected}


@pytest.mark.parametrize("operation", ["all_reduce", exhaustive("broadcast"), "sendrecv"])
def test_pieces_are_also_one_group(cclmark, fake_cuda, operation):
    sizes = ("-g", "2", "-b", "1000", "-e", "1000", "--max-time", "0.02")
    run = cclmark(operation, *sizes, "--pieces", "7", env=fake_cuda.env())
    for result in run.journal.of(PieceResult):
        found = {
            row.division.form: (row.status, row.verification.wrong, row.summary.clock)
            for row in result.rows
        }
        assert found == dict.fromkeys(("one", "separate", "grouped"), ("ok", 0, "device"))


class TestRefusals:
    """A library that refuses the arguments of an operation on all ranks does not support it."""

    def test_one_rank_does_not_average_8_bit_floats(self, cclmark, fake_cuda):
        arguments = ("all_reduce", "-g", "1", "-b", "64", "-e", "64", *SHORT)
        types = ("-d", "fp8e4m3,float", "-o", "avg,sum", "--placement", "out-of-place")
        run = cclmark(*arguments, *types, env=fake_cuda.env())
        statuses = {(one.case.dtype, one.case.reduction): one.status for one in run.journal.results}
        assert statuses == {
            ("fp8e4m3", "avg"): "skipped",
            ("fp8e4m3", "sum"): "ok",
            ("float32", "avg"): "ok",
            ("float32", "sum"): "ok",
        }
        (reason,) = [one.reason for one in run.journal.results if one.reason]
        assert "ncclAllReduce failed: invalid argument" in reason
        assert "one rank does not scale 8-bit floats (code 4)" in reason
        assert reason in run.out
        assert run.journal.footer.exit_code == 0

    @pytest.mark.parametrize(
        ("code", "timing"),
        [
            *((4, "auto"), (5, "blocking"), (4, "per-op"), (5, "graph")),
            *(
                exhaustive(*pair)
                for pair in ((5, "auto"), (4, "blocking"), (5, "per-op"), (4, "graph"))
            ),
        ],
    )
    def test_what_all_ranks_refuse_is_skipped(self, cclmark, fake_cuda, code, timing):
        env = fake_cuda.env(CCLMARK_FAKE_NCCL_FAIL=f"all:AllReduce:{code}")
        arguments = ("collectives", "--only", "all_reduce,broadcast", *TWO, "--timing", timing)
        run = cclmark(*arguments, env=env)
        found = [(one.case.operation, one.status) for one in run.journal.results]
        assert found == [("all_reduce", "skipped")] * 2 + [("broadcast", "ok")] * 2
        assert f"(code {code})" in run.journal.results[0].reason

    def test_what_one_rank_refuses_is_its_failure(self, cclmark, fake_cuda, no_leaks):
        env = fake_cuda.env(CCLMARK_FAKE_NCCL_FAIL="1:AllReduce:4")
        run = cclmark("all_reduce", *TWO, code=4, env=env)
        first, second = run.message.splitlines()[:2]
        assert first.startswith("cclmark: rank 1 (cuda:1, pid ")
        assert "failed during" in first
        assert "injected failure of AllReduce on rank 1" in second
        assert run.journal.results == []

    @pytest.mark.parametrize("code", [1, *map(exhaustive, (2, 3)), 6])
    def test_other_failures_of_all_ranks_end_the_run(self, cclmark, fake_cuda, no_leaks, code):
        env = fake_cuda.env(CCLMARK_FAKE_NCCL_FAIL=f"all:AllReduce:{code}")
        run = cclmark("all_reduce", *TWO, code=4, env=env)
        assert f"(code {code})" in run.message
        assert run.journal.results == []

    def test_a_communicator_that_is_refused_ends_the_run(self, cclmark, fake_cuda, no_leaks):
        env = fake_cuda.env(CCLMARK_FAKE_NCCL_FAIL="all:CommInitRank:5")
        run = cclmark("all_reduce", *TWO, code=4, env=env)
        assert "ncclCommInitRank failed" in run.message


class TestFaults:
    @pytest.mark.parametrize("rank", [exhaustive(0), 1])
    def test_wrong_data_is_found_and_the_rank_named(self, cclmark, fake_cuda, rank):
        env = fake_cuda.env(CCLMARK_FAKE_NCCL_CORRUPT=f"{rank}:AllReduce:7")
        run = cclmark("all_reduce", *TWO, code=1, env=env)
        found = [result.verification.findings for result in run.journal.results]
        assert [[(it.rank, it.wrong, it.first_element) for it in entry] for entry in found] == [
            [(rank, 1, 7)],
            [(rank, 1, 7)],
        ]
        assert f"rank {rank}: 1 element" in run.out
        assert "index 7" in run.out
        assert run.journal.footer.exit_code == 1

    @pytest.mark.parametrize("call", ["CommInitRank", "AllReduce"])
    def test_a_failing_call_is_told_with_the_vendors_words(
        self, cclmark, fake_cuda, no_leaks, call
    ):
        env = fake_cuda.env(CCLMARK_FAKE_NCCL_FAIL=f"1:{call}")
        run = cclmark("all_reduce", *TWO, code=4, env=env)
        first, *others = run.message.splitlines()
        assert first.startswith("cclmark: rank 1 (cuda:1, pid ")
        assert "failed during" in first
        assert f"nccl{call} failed" in others[0]
        assert f"injected failure of {call} on rank 1" in others[0]
        assert "(code 3)" in others[0]
        if call == "AllReduce":
            assert "all_reduce 64 B float32 sum out-of-place" in first
            assert run.journal.footer.exit_code == 4
            assert run.journal.footer.message in run.message

    def test_a_hanging_operation_ends_at_the_deadline(self, cclmark, fake_cuda, no_leaks):
        env = fake_cuda.env(CCLMARK_FAKE_NCCL_HANG="1:AllReduce")
        only = ("--only", "broadcast,all_reduce,all_gather", "--placement", "out-of-place")
        run = cclmark("collectives", *only, *TWO, *waits(2), code=4, env=env, timeout_s=30)
        assert f"waited {deadline_s(2):g} s" in run.message
        assert "all_reduce 64 B float32 sum out-of-place" in run.message
        journal = run.journal
        found = [(result.case.operation, result.status) for result in journal.results]
        assert found == [("broadcast", "ok"), ("all_reduce", "timeout"), ("all_gather", "ok")]
        assert journal.results[2].verification.wrong == 0
        assert "rank 1 (cuda:1, pid " in journal.results[1].report
        assert "new ranks continue" in run.message
        assert journal.footer.exit_code == 4


class TestWithoutNvrtc:
    def env(self, fake_cuda, tmp_path, **extra):
        nowhere = {"CCLMARK_NVRTC_LIBRARY": "/nonexistent", "CCLMARK_CACHE_DIR": str(tmp_path)}
        return {**fake_cuda.env(**extra), **nowhere}

    def test_outputs_are_checked_on_the_host_with_a_notice(self, cclmark, fake_cuda, tmp_path):
        env = self.env(fake_cuda, tmp_path / "empty")
        run = cclmark("collectives", *TWO, "-o", "all", env=env)
        assert {result.status for result in run.journal.results} == {"ok"}
        assert {result.verification.where for result in run.journal.results} == {"host"}
        notices = run.message + "".join(run.journal.header.notices)
        assert "checked on the host" in notices
        assert "/nonexistent" in notices

    def test_corruption_is_still_caught(self, cclmark, fake_cuda, tmp_path):
        env = self.env(fake_cuda, tmp_path / "empty", CCLMARK_FAKE_NCCL_CORRUPT="1:AllReduce:7")
        run = cclmark("all_reduce", *TWO, code=1, env=env)
        for result in run.journal.results:
            (found,) = result.verification.findings
            assert (found.rank, found.wrong, found.first_element) == (1, 1, 7)


class TestMemory:
    """What does not fit is skipped with the reason and the rest is measured."""

    @pytest.mark.parametrize("register", ["none", "local"])
    def test_sizes_that_do_not_fit(self, cclmark, fake_cuda, register):
        env = fake_cuda.env(CCLMARK_FAKE_MEMORY=str(16 << 20))
        run = cclmark(
            *("all_reduce", "-g", "2", "-b", "1M", "-e", "64M", "-f", "8", "-n", "1", "-w", "0"),
            *("--placement", "out-of-place", "--register", register),
            env=env,
        )
        statuses = [result.status for result in run.journal.results]
        assert statuses == ["ok", "skipped", "skipped"][: len(statuses)]
        reasons = [result.reason for result in run.journal.results if result.reason]
        assert reasons
        for reason in reasons:
            assert "MiB" in reason
            assert reason in run.out
