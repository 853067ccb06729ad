"""``--explain`` and ``cclmark plugin``: a fake NCCL loads the plug-in as NCCL does."""

import csv
import io
import re
import sys

import pytest

from cclmark.explain.plugin_log import HEADER_BYTES, RECORD_BYTES, plugin_path, read_plugin_log
from commands import completed, wait_until
from examples import exhaustive
from goldens import require_golden

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


def test_wrong_data_outweighs_a_doubtful_explanation(cclmark, fake_cuda):
    env = fake_cuda.env(CCLMARK_FAKE_SILENT_PROFILER="1")
    wrong = ("-c", "1", "--inject", "corrupt:rank=1,index=5")
    cclmark("all_reduce", *EAGER, *wrong, "--explain", env=env, code=1)


PAIRS = ("pairs", "--devices", "cuda:0-2", "--explain", *RUN[2:], "-c", "0")


REDUCED = (*PAIRS, "--only", "all_reduce")
SHARED = ("all_reduce", "--devices", "host:2", *RUN[2:], "--explain")
ISLANDS = ("--devices", "host:4", "--ccl", "bridge", "--islands", "0-1,2-3")
HUGE = ("-b", "1K", "-e", "1T", "-f", str(1 << 30), "-n", "1", "-w", "0", "--explain")
REGISTERED = ("all_reduce", *EAGER[:-4], "--placement", "out-of-place", "--explain")
REDUCE = ("all_reduce", *EAGER, "--explain")
VERSION = "NCCL_VERSION"
COPY_ENGINE = {"COPY_ENGINE": "1"}
# Arguments, and variables of the fake or of NCCL.
RUNS = {
    "log": (REDUCE, {VERSION: "21805"}),
    "symmetric": (REDUCE, {"SYMMETRIC": "1"}),
    "symmetric-events": (REDUCE, {"SYMMETRIC": "1", VERSION: "23102"}),
    **{
        f"{operation}-{version}": (
            (operation, *EAGER, "--explain"),
            {**COPY_ENGINE, VERSION: version},
        )
        for operation in ("all_gather", "alltoall")
        for version in ("22902", "23102")
    },
    "engine": (SHARED, {}),
    "islands": (("all_reduce", *ISLANDS, *RUN[2:], "--explain"), {}),
    "barrier": (("barrier", "--devices", "host:2", "-n", "1", "--explain"), {}),
    "no-interface": ((*SHARED, "--ccl", "torch:gloo"), {}),
    # Ranks whose events differ; NCCL's log, which rank 0 writes, does not replace its events.
    "odd-rank": (("explain", "all_reduce", *EAGER), {"ODD_ALGORITHM": "1"}),
    "silent-rank": (("explain", "all_reduce", *EAGER), {"SILENT_PROFILER": "1"}),
    "silent-first-rank": (("explain", "all_reduce", *EAGER), {"SILENT_PROFILER": "0"}),
    "pairs": (REDUCED, {}),
    "pairs-of-other-links": (REDUCED, {"NO_PEER": "0-2"}),
    "pairs-with-odd-ranks": (REDUCED, {"ODD_ALGORITHM": "1"}),
    "pairs-skipped": (("pairs", "--devices", "host:3", "--only", "sendrecv", *HUGE), {}),
    "graph": ((*REGISTERED, "--timing", "graph"), {}),
    "graph-off": ((*REGISTERED, "--timing", "graph"), {"NCCL_GRAPH_REGISTER": "0"}),
    "graph-registered": ((*REGISTERED, "--timing", "graph", "--register", "local"), {}),
    "registered": ((*REGISTERED, "--timing", "throughput", "--register", "local"), {}),
    "not-registered": ((*REGISTERED, "--timing", "throughput"), {}),
}


def explained(run):
    """The explanation of each case, and the parts of the output and the messages about them."""
    lines = []
    for result in run.journal.results:
        of = result.explanation
        texts = [of.source, of.kernel, of.algorithm, of.protocol] if of else [result.status]
        texts += [f"{of.channels} channels", of.registered, of.reason] if of else []
        pair = result.case.pair or ""
        lines.append(f"{result.case.describe()} {pair}: {', '.join(filter(None, texts))}")
    parts = [part for part in run.out.split("\n\n") if "what ran" in part.partition("\n")[0]]
    parts += re.findall("^  what ran is .*", run.out, re.MULTILINE)
    return "\n".join([*sorted(lines), *parts, *run.message.splitlines()]) + "\n"


@pytest.mark.parametrize("name", RUNS)
def test_what_ran(cclmark, fake_cuda, request, name):
    arguments, variables = RUNS[name]
    if name == "no-interface":
        request.getfixturevalue("torch")
    env = {
        one if "NCCL_GRAPH" in one else f"CCLMARK_FAKE_{one}": variables[one] for one in variables
    }
    run = cclmark(*arguments, env=fake_cuda.env(**env), code=(0, 3))
    require_golden(f"explained/{name}.txt", explained(run))
    doubts = [one.removeprefix("cclmark: ") for one in run.message.splitlines()]
    assert (run.code == 3) == bool(doubts)
    assert run.code == 0 or run.journal.footer.problems[0] == doubts[0]


def test_what_was_given_up_leaves_the_others_explained(cclmark, fake_cuda):
    env = fake_cuda.env(CCLMARK_FAKE_NCCL_FAIL="1:AllReduce")
    arguments = (*PAIRS, "--only", "sendrecv,all_reduce", "-e", "1K")
    run = cclmark(*arguments, env=env, code=4)
    explained = {
        (result.case.operation, result.status, result.explanation is not None)
        for result in run.journal.results
    }
    assert explained == {("sendrecv", "ok", True), ("all_reduce", "died", False)}


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
    ended = run.finish(code=4)
    assert [result.status for result in ended.journal.results] == ["ok"] * cases
    assert re.search(rf"[1-9] of {cases} cases are not explained: rank {ranks - 1} ", ended.err)
    assert "all_reduce" in ended.out


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
