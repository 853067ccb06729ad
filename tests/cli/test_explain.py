"""``--explain`` and ``cclmark plugin``: a fake NCCL loads the plug-in as NCCL does."""

import csv
import io
import re
import sys

import pytest

from cclmark.explain.plugin_log import HEADER_BYTES, RECORD_BYTES, plugin_path, read_plugin_log
from commands import completed, wait_until
from examples import exhaustive

RUN = ("-g", "2", "-b", "1K", "-e", "4M", "-f", "64", "-n", "1", "-w", "0")
EAGER = (*RUN, "-c", "0", "--timing", "throughput", "--placement", "out-of-place")
# The versions in which the interfaces of the profiler and of the tuner changed, and theirs.
VERSIONS = {
    22300: (1, 3),
    22400: (2, 4),
    22600: (3, 4),
    22700: (4, 4),
    22809: (5, 5),
    22902: (6, 5),
    23003: (6, 6),
    23102: (7, 6),
}


def sampled(versions):
    """The first version of each interface of the tuner; the others only with --all."""
    seen: set[int] = set()
    for version in versions:
        tuner = VERSIONS[version][1]
        yield pytest.param(version, marks=[pytest.mark.exhaustive] if tuner in seen else [])
        seen.add(tuner)


def choices(run):
    return [
        (found.kernel, found.protocol, found.channels, found.source)
        for found in (result.explanation for result in run.journal.results)
    ]


BY_SIZE = [("tree", "LL", 1), ("tree", "LL", 2), ("ring", "SIMPLE", 24)]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_interface_says_the_same(cclmark, fake_cuda, version):
    run = cclmark(
        *("all_reduce", *EAGER, "--explain"),
        env=fake_cuda.env(CCLMARK_FAKE_NCCL_VERSION=str(version)),
    )
    assert choices(run) == [(*one, "plug-in") for one in BY_SIZE]
    for result in run.journal.results:
        assert result.explanation.reason == ""
        predicted_s = result.explanation.predicted_s
        chosen = f"{result.explanation.algorithm} {result.explanation.protocol}"
        assert predicted_s[chosen] == min(predicted_s.values())
    assert "1 KiB  tree LL, 1 channel" in run.out
    assert "what ran (the library's plug-in interface)" in run.out


def test_the_log_is_read_where_there_is_no_plug_in(cclmark, fake_cuda):
    old = fake_cuda.env(CCLMARK_FAKE_NCCL_VERSION="21805")
    run = cclmark("all_reduce", *EAGER, "--explain", env=old)
    assert choices(run) == [(*one, "log") for one in BY_SIZE]
    symmetric = cclmark(
        *("all_reduce", *EAGER, "--explain"), env=fake_cuda.env(CCLMARK_FAKE_SYMMETRIC="1")
    )
    assert {one[0] for one in choices(symmetric)} == {"symmetric"}
    assert "symmetric AllReduce_AGxLL_R, 1 channel" in symmetric.out


@pytest.mark.parametrize(
    ("operation", "variable", "version", "kernel", "algorithm"),
    [
        ("all_reduce", "SYMMETRIC", "23102", "symmetric", "AllReduce_AGxLL_R"),
        ("all_gather", "COPY_ENGINE", "22902", "copy engine", ""),
        ("alltoall", "COPY_ENGINE", "23102", "copy engine", ""),
        *(
            exhaustive(operation, *rest, "copy engine", "")
            for operation, *rest in (
                *(("all_gather", "COPY_ENGINE", "23102"), ("alltoall", "COPY_ENGINE", "22902")),
            )
        ),
    ],
)
def test_other_kernels_are_named(
    cclmark, fake_cuda, operation, variable, version, kernel, algorithm
):
    env = fake_cuda.env(**{f"CCLMARK_FAKE_{variable}": "1", "CCLMARK_FAKE_NCCL_VERSION": version})
    run = cclmark(operation, *EAGER, "--explain", env=env)
    for result in run.journal.results:
        found = result.explanation
        assert (found.source, found.kernel) == ("plug-in", kernel)
        assert (found.algorithm, found.protocol, found.reason) == (algorithm, "", "")
        assert (found.channels == 0) == (kernel == "copy engine")
    assert kernel in run.out


def test_messages_have_a_kernel_and_no_algorithm(cclmark, fake_cuda):
    run = cclmark("alltoall", *EAGER, "--explain", "--format", "csv", env=fake_cuda.env())
    rows = list(csv.DictReader(io.StringIO(run.out)))
    assert len(rows) == 3
    for row in rows:
        assert (row["kernel"], row["algorithm"], row["explained_by"]) == (
            "send/recv",
            "",
            "plug-in",
        )
    exported = cclmark("export", "--format", "csv", str(run.journal_path))
    (again, *_) = csv.DictReader(io.StringIO(exported.out))
    assert (again["kernel"], again["channels"]) == ("send/recv", rows[0]["channels"])


def test_the_engine_explains_its_own_library(cclmark):
    run = cclmark("all_reduce", "--devices", "host:2", *RUN[2:], "--explain")
    assert [result.explanation.source for result in run.journal.results] == ["engine"] * 6
    assert run.journal.results[0].explanation.kernel == "inline in announcements"
    assert "each rank reduces one slice" in run.out
    islands = ("--devices", "host:4", "--ccl", "bridge", "--islands", "0-1,2-3")
    bridge = cclmark("all_reduce", *islands, *RUN[2:], "--explain")
    assert "2 islands" in bridge.journal.results[0].explanation.kernel


def test_a_barrier_has_no_type(cclmark):
    run = cclmark("barrier", "--devices", "host:2", "-n", "1", "--explain")
    assert "  barrier · shm, what ran (cclmark's engine)\n" in run.out
    assert ["-", "announcements"] in [line.split() for line in run.out.splitlines()]


def test_a_library_without_an_interface_is_unknown_with_the_reason(cclmark, torch):
    run = cclmark("all_reduce", "--devices", "host:2", "--ccl", "torch:gloo", *RUN[2:], "--explain")
    found = run.journal.results[0].explanation
    assert found.source == "unknown"
    assert "torch:gloo has no interface" in found.reason
    assert "unknown: torch:gloo has no interface" in run.out


@pytest.mark.parametrize(
    ("variables", "cases", "reason"),
    [
        (
            {"CCLMARK_FAKE_ODD_ALGORITHM": "1"},
            *("1 case", "rank 1 ran AllReduce by ring LL on 1 channel, rank 0 AllReduce by tree"),
        ),
        ({"CCLMARK_FAKE_SILENT_PROFILER": "1"}, "3 cases", "rank 1 reported no operation"),
        # NCCL's log, which rank 0 writes, does not replace its events.
        (
            {"CCLMARK_FAKE_SILENT_PROFILER": "0"},
            *("1 case", "rank 0 reported no operation to its plug-in; its log has"),
        ),
    ],
)
def test_ranks_whose_events_differ_are_named(cclmark, fake_cuda, variables, cases, reason):
    run = cclmark("explain", "all_reduce", *EAGER, env=fake_cuda.env(**variables), code=3)
    found = run.journal.results[0].explanation
    assert found.source == "plug-in"
    assert found.reason.startswith(reason)
    assert reason[:28] in run.out
    assert "ended early" not in run.out
    problem = f"what ran in {cases} is not certain: {found.reason}"
    assert f"cclmark: {problem}\n" in run.err
    assert run.journal.footer.problems[0] == problem
    assert [result.status for result in run.journal.results] == ["ok"] * 3


def test_wrong_data_outweighs_a_doubtful_explanation(cclmark, fake_cuda):
    env = fake_cuda.env(CCLMARK_FAKE_SILENT_PROFILER="1")
    wrong = ("-c", "1", "--inject", "corrupt:rank=1,index=5")
    cclmark("all_reduce", *EAGER, *wrong, "--explain", env=env, code=1)


PAIRS = ("pairs", "--devices", "cuda:0-2", "--explain", *RUN[2:], "-c", "0")


@pytest.mark.parametrize(
    ("arguments", "ranks", "cases"),
    [
        (("all_reduce", *EAGER, "--explain"), 2, 3),
        exhaustive(*((*PAIRS, "--only", "all_reduce"), 3, 9)),
    ],
    ids=["collectives", "pairs"],
)
def test_a_rank_that_dies_while_explaining_leaves_the_results(
    background, fake_cuda, arguments, ranks, cases
):
    run = background(*arguments, env=fake_cuda.env(CCLMARK_FAKE_NCCL_ENQUEUE_US="400000"))
    first = set(run.wait_for_ranks())
    wait_until(
        lambda: len(set(run.workers()) - first) == ranks or run.ended(), "there are new ranks"
    )
    run.wait_for_phase(ranks - 1, "explaining")
    run.signal(max(set(run.workers()) - first), 9)
    ended = run.finish()
    assert ended.code == 4
    assert [result.status for result in ended.journal.results] == ["ok"] * cases
    assert re.search(rf"[1-9] of {cases} cases are not explained: rank {ranks - 1} ", ended.err)
    assert "all_reduce" in ended.out


class TestPairs:
    """Every two devices with a communicator of their own."""

    REDUCED = (*PAIRS, "--only", "all_reduce")

    def test_every_pair_is_explained(self, cclmark, fake_cuda):
        run = cclmark(*self.REDUCED, env=fake_cuda.env())
        by_pair = {}
        for result in run.journal.results:
            by_pair.setdefault(result.case.pair, []).append(result)
        assert set(by_pair) == {(0, 1), (0, 2), (1, 2)}
        for results in by_pair.values():
            results.sort(key=lambda result: result.case.size_bytes)
            found = [result.explanation for result in results]
            assert [(one.kernel, one.protocol, one.channels) for one in found] == BY_SIZE
            assert {(one.source, one.reason) for one in found} == {("plug-in", "")}
            assert found[0].predicted_s
        indices = {result.index for result in run.journal.results}
        assert {result.explanation.index for result in run.journal.results} == indices
        assert "  all_reduce float32 sum · nccl, what ran (the library's plug-in" in run.out
        assert "\n   1 KiB  tree LL, 1 channel\n" in run.out
        assert "3 pairs" not in run.out

    def test_a_pair_whose_choice_differs_is_named(self, cclmark, fake_cuda):
        env = fake_cuda.env(CCLMARK_FAKE_NO_PEER="0-2")
        run = cclmark(*self.REDUCED, env=env)
        channels = {
            result.case.pair: result.explanation.channels
            for result in run.journal.results
            if result.case.size_bytes == 4 << 20
        }
        assert channels == {(0, 1): 24, (0, 2): 2, (1, 2): 24}
        lines = run.out.splitlines()
        titles = {line.rpartition("): ")[2]: place for place, line in enumerate(lines)}
        usual = titles["2 of 3 pairs: DEV0–DEV1, DEV1–DEV2"]
        assert lines[usual + 4].split() == ["4", "MiB", "ring", "SIMPLE,", "24", "channels"]
        odd = titles["1 of 3 pairs: DEV0–DEV2"]
        assert lines[odd + 4].split() == ["4", "MiB", "ring", "SIMPLE,", "2", "channels"]

    def test_ranks_of_a_pair_that_differ_are_named_as_ranks_of_the_run(self, cclmark, fake_cuda):
        env = fake_cuda.env(CCLMARK_FAKE_ODD_ALGORITHM="1")  # of each communicator
        run = cclmark(*self.REDUCED, env=env, code=3)
        for result in run.journal.results:
            first, second = result.case.pair
            reason = result.explanation.reason
            assert reason.startswith(f"rank {second} ran AllReduce by ")
            assert f", rank {first} AllReduce by " in reason

    def test_what_was_skipped_is_not_explained(self, cclmark):
        sizes = ("-b", "1K", "-e", "1T", "-f", str(1 << 30), "-n", "1", "-w", "0")
        only = ("--only", "sendrecv", "--explain")
        run = cclmark("pairs", "--devices", "host:3", *sizes, *only)
        explained = {
            result.case.size_bytes: result.explanation is not None for result in run.journal.results
        }
        assert explained == {1 << 10: True, 1 << 40: False}

    def test_what_was_given_up_leaves_the_others_explained(self, cclmark, fake_cuda):
        env = fake_cuda.env(CCLMARK_FAKE_NCCL_FAIL="1:AllReduce")
        arguments = (*PAIRS, "--only", "sendrecv,all_reduce", "-e", "1K")
        run = cclmark(*arguments, env=env, code=4)
        explained = {
            (result.case.operation, result.status, result.explanation is not None)
            for result in run.journal.results
        }
        assert explained == {("sendrecv", "ok", True), ("all_reduce", "died", False)}


_RECORDS_IN_MEMORY = """
import ctypes, resource, sys
from cclmark.explain.plugin_log import plugin_path
from cclmark.rank.instruments import Instruments
from cclmark.rank.instruments import log_failure

class Interface(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("init", ctypes.c_void_p)]

instruments = Instruments(2, ["nccl"])
instruments.begin()
assert log_failure() == ""
print(instruments.observation().reason)
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
found = Interface.in_dll(ctypes.CDLL(str(plugin_path())), "ncclProfiler_v5")
init = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p,
    ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p,
)(found.init)
context, mask = ctypes.c_void_p(), ctypes.c_int()
init(ctypes.byref(context), 1, ctypes.byref(mask), b"x", 1, 2, 0, None)
print(instruments.observation().reason)
"""


@pytest.mark.parametrize(
    ("limit_bytes", "reason"),
    [
        (
            4095,
            "the library loaded the profiler plug-in, which records nothing: cannot write the log "
            "in memory: File too large",
        ),
        (4096, "the log of the plug-in could not grow: File too large"),
        (1 << 20, "the library reported no event, although it ran the operation"),
    ],
)
def test_a_log_in_memory_that_cannot_be_written_is_the_reason(limit_bytes, reason):
    command = [sys.executable, "-c", _RECORDS_IN_MEMORY, str(limit_bytes)]
    ended = completed(command, check=True)
    assert ended.stdout.splitlines() == [
        "the library loaded no profiler plug-in (NCCL has them since 2.23)",
        reason,
    ]


def test_why_it_was_chosen(cclmark, fake_cuda):
    run = cclmark("explain", "all_reduce", *EAGER, env=fake_cuda.env())
    assert "predictions in µs (* chosen) beside the measured time" in run.out
    (row,) = [line.split() for line in run.out.splitlines() if "*5.07" in line]
    assert row[:2] == ["1", "KiB"]
    assert "4 MiB: tree LL → ring SIMPLE; 64 times the data takes" in run.out
    refused = cclmark("explain", "all_reduces", code=2)
    assert "unknown operation 'all_reduces'" in refused.err
    missing = cclmark("explain", code=2)
    assert "Missing argument 'OPERATION'. Choose from all_reduce, " in missing.err
    assert "OPERATION: all_reduce, " in cclmark("explain", "--help").out
    soak = cclmark(
        *("all_reduce", *EAGER, "--explain", "--duration", "2s"), env=fake_cuda.env(), code=0
    )
    assert "1 KiB  tree LL, 1 channel" in soak.out


class TestPlugin:
    """The plug-in in a program: here the program is cclmark, which does not know of it."""

    def logs(self, cclmark, fake_cuda, tmp_path, operation="all_reduce", **more):
        path = str(plugin_path())
        names = {"NCCL_PROFILER_PLUGIN": path, "NCCL_TUNER_PLUGIN": path}
        env = fake_cuda.env(**names, CCLMARK_PLUGIN_LOG=str(tmp_path / "log"), **more)
        cclmark(operation, *EAGER, env=env)
        return sorted(tmp_path.glob("log-*.cclmlog"))

    def test_its_path_is_printed(self, cclmark):
        run = cclmark("plugin")
        assert run.out == f"{plugin_path()}\n"

    @pytest.mark.parametrize("version", sampled(VERSIONS))
    def test_its_logs_hold_every_call(self, cclmark, fake_cuda, tmp_path, version):
        paths = self.logs(cclmark, fake_cuda, tmp_path, CCLMARK_FAKE_NCCL_VERSION=str(version))
        assert len(paths) == 2
        for path in paths:
            log = read_plugin_log(path)
            assert log.interface_version == VERSIONS[version][0]
            assert (log.dropped, log.incomplete) == (0, 0)
            chosen = [one for one in log.events if one.kind == "collective"]
            assert {(one.algorithm, one.protocol, one.channels) for one in chosen} == {
                ("TREE", "LL", 1),
                ("TREE", "LL", 2),
                ("RING", "SIMPLE", 24),
            }
            assert len(log.cost_tables) == len(chosen)
            assert {one.size_bytes for one in log.cost_tables} == {1 << 10, 1 << 16, 4 << 20}
        shown = cclmark("plugin", *map(str, paths))
        assert "AllReduce  float32" in shown.out
        assert "64 KiB" in shown.out

    def test_a_log_that_is_cut_off_accuses_no_rank(self, cclmark, fake_cuda, tmp_path):
        paths = self.logs(cclmark, fake_cuda, tmp_path)
        whole = read_plugin_log(paths[1])
        content = paths[1].read_bytes()
        paths[1].write_bytes(content[: HEADER_BYTES + (whole.places - 5) * RECORD_BYTES])
        shown = cclmark("plugin", *map(str, paths), code=3)
        (line,) = shown.err.splitlines()
        assert f"5 of {whole.places} events are missing at the end of the file" in line

    def test_channels_and_their_times_on_request(self, cclmark, fake_cuda, tmp_path):
        paths = self.logs(cclmark, fake_cuda, tmp_path, CCLMARK_PLUGIN_EVENTS="steps")
        events = read_plugin_log(paths[0]).events
        kernel = next(one for one in events if one.kind == "kernel channel")
        assert kernel.device_ns == 1000
        states = [one for one in events if one.kind == "state" and one.parent == kernel.number]
        assert [(one.sequence, one.device_ns) for one in states] == [(22, 5000)]
        (parent,) = [one for one in events if one.number == kernel.parent]
        assert parent.kind == "collective"

    @pytest.mark.parametrize("version", [22803, 23102])
    def test_calls_of_messages_and_launches_are_recorded(
        self, cclmark, fake_cuda, tmp_path, version
    ):
        more = {"CCLMARK_FAKE_NCCL_VERSION": str(version)}
        paths = self.logs(cclmark, fake_cuda, tmp_path, "alltoall", **more)
        for path in paths:
            log = read_plugin_log(path)
            kinds = {one.number: one for one in log.events}
            messages = [one for one in log.events if one.kind == "point-to-point"]
            calls = [kinds[one.parent] for one in messages]
            assert {one.kind for one in calls} == {"point-to-point call"}
            # Of 1 KiB, 64 KiB and 4 MiB of float32 between two ranks.
            assert {(one.function, one.count, one.datatype) for one in calls} == {
                (function, count, "ncclFloat32")
                for function in ("Send", "Recv")
                for count in (1 << 7, 1 << 13, 1 << 19)
            }
            launches = [one for one in log.events if one.kind == "kernel launch"]
            assert 4 * len(launches) == len(messages)  # a send and a receive for each rank
            ended = {one.parent for one in log.events if one.kind == "stop"}
            assert {one.number for one in (*calls, *launches)} <= ended

    @pytest.mark.parametrize("version", [22902, 23102])
    def test_collectives_of_copy_engines_are_recorded(self, cclmark, fake_cuda, tmp_path, version):
        more = {"CCLMARK_FAKE_NCCL_VERSION": str(version), "CCLMARK_FAKE_COPY_ENGINE": "1"}
        paths = self.logs(cclmark, fake_cuda, tmp_path, "all_gather", **more)
        for path in paths:
            log = read_plugin_log(path)
            kinds = {one.number: one.kind for one in log.events}
            copies = [one for one in log.events if one.kind == "copy-engine collective"]
            assert [one.sequence for one in copies] == [*range(1, len(copies) + 1)]
            assert {(one.function, one.datatype, one.algorithm) for one in copies} == {
                ("AllGather", "ncclFloat32", "MultiMem")
            }
            assert {one.count for one in copies} == {1 << 7, 1 << 13, 1 << 19}
            assert {kinds[one.parent] for one in copies} == {"collective call"}
            assert {"collective", "kernel launch"}.isdisjoint(kinds.values())
        shown = cclmark("plugin", *map(str, paths))
        assert re.search(r"AllGather +float32 +128 +512 B +copy engine +- +-$", shown.out, re.M)

    @pytest.mark.parametrize("variable", ["NCCL_PROFILER_PLUGIN", "NCCL_TUNER_PLUGIN"])
    def test_an_unwritable_log_is_reported_and_stops_nothing(self, cclmark, fake_cuda, variable):
        env = fake_cuda.env(CCLMARK_PLUGIN_LOG="/nowhere/x", **{variable: str(plugin_path())})
        run = cclmark("all_reduce", *EAGER, env=env)
        assert [result.status for result in run.journal.results] == ["ok"] * 3
        # Once for each process, beside NCCL's own warnings, which NCCL usually does not print.
        expected = "cclmark's plug-in records nothing: cannot create /nowhere/x-"
        assert len(re.findall(f"^{re.escape(expected)}", run.err, re.MULTILINE)) == 2

    @pytest.mark.parametrize(
        ("name", "value"),
        [("CCLMARK_PLUGIN_RECORDS", "many"), ("CCLMARK_PLUGIN_EVENTS", "everything")],
    )
    def test_an_invalid_setting_is_reported(self, cclmark, fake_cuda, tmp_path, name, value):
        path = str(plugin_path())
        env = fake_cuda.env(
            NCCL_PROFILER_PLUGIN=path, CCLMARK_PLUGIN_LOG=str(tmp_path / "log"), **{name: value}
        )
        run = cclmark("all_reduce", *EAGER, env=env)
        # The logger of the fake prints the format; older interfaces have no logger.
        assert "cclmark's plug-in" in run.err
        old = cclmark("all_reduce", *EAGER, env={**env, "CCLMARK_FAKE_NCCL_VERSION": "22300"})
        assert f"ignores an invalid setting: {name} must be" in old.err

    @pytest.mark.parametrize(
        ("variables", "code", "message"),
        [
            ({"CCLMARK_PLUGIN_RECORDS": "5"}, 3, "events did not fit"),
            (
                {"CCLMARK_FAKE_ODD_ALGORITHM": "1"},
                *(1, "rank 1 ran AllReduce of 256 Float32 by ring LL on 1 channel"),
            ),
            ({"CCLMARK_FAKE_SILENT_PROFILER": "0"}, 3, "no operation was recorded"),
        ],
    )
    def test_problems_of_logs_are_reported(
        self, cclmark, fake_cuda, tmp_path, variables, code, message
    ):
        paths = self.logs(cclmark, fake_cuda, tmp_path, **variables)
        if "SILENT" in "".join(variables):
            paths = paths[:1]
        assert message in cclmark("plugin", *map(str, paths), code=code).err

    def test_another_file_is_refused(self, cclmark, tmp_path):
        (tmp_path / "x").write_text("text")
        run = cclmark("plugin", str(tmp_path / "x"), code=2)
        assert "is not a log of cclmark's plug-in" in run.err
        endless = cclmark("plugin", "/dev/zero", code=2)
        assert "/dev/zero is not a regular file" in endless.err
        shown = " ".join(cclmark("plugin", "--help").out.split())
        assert "2 if a file cannot be read or is not a log" in shown


@pytest.mark.parametrize(
    ("flags", "environment", "registered"),
    [
        (("--timing", "graph"), {}, "by graph"),
        (("--timing", "graph"), {"NCCL_GRAPH_REGISTER": "0"}, "no"),
        (("--timing", "graph", "--register", "local"), {}, "by call"),
        (("--timing", "throughput", "--register", "local"), {}, "by call"),
        (("--timing", "throughput"), {}, ""),
    ],
)
def test_registered_buffers_are_observed(cclmark, fake_cuda, flags, environment, registered):
    run = cclmark(
        *("all_reduce", *EAGER[:-4], "--placement", "out-of-place", *flags, "--explain"),
        env=fake_cuda.env(**environment),
    )
    found = {result.explanation.registered for result in run.journal.results}
    assert found == {registered}
    assert choices(run) == [(*one, "plug-in") for one in BY_SIZE]
    words = {
        "by graph": "buffers registered by the graph",
        "by call": ", registered buffers",
        "no": "buffers not registered",
    }
    for name, text in words.items():
        assert (text in run.out) == (name == registered)
