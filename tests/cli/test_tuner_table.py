"""Tuner tables: a fake NCCL loads the plug-in and obeys its tuner, as NCCL does."""

import os
import re
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from test_explain import BY_SIZE, EAGER, VERSIONS, choices, sampled
from vendors import RCCL

from cclmark.explain.plugin_log import plugin_path, read_plugin_log
from cclmark.kinds.tune.table_file import Rule, RuleTable, written
from examples import exhaustive
from goldens import require_golden

WITHOUT_PROFILERS = 22100  # the first version of the tuner's interface that is supported
RING = Rule("all_reduce", 2, 1, 32768, 131072, "ring", "ll128", 7)
TABLE = RuleTable("nccl", "2.28.9", "CCLMark Fake GPU", None, [RING])
CHANGED = ("ring", "LL128", 7)
LINE = 7  # of the first rule
RING_SIMPLE_5 = "125"  # what another tuner chooses


def version_text(version):
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


class Bench:
    """Runs a program with a tuner table."""

    def __init__(self, cclmark, fake_cuda, directory):
        self.cclmark = cclmark
        self.fake_cuda = fake_cuda
        self.directory = directory
        self.path = directory / "tuned" / "table.txt"
        self.path.parent.mkdir()
        fakes = fake_cuda.nccl.parent
        self.other = str(fakes / "plugins" / "libnccl-profiler-other.so")
        self.nvml = str(fakes / "nvml")

    def env(self, table=TABLE, **more):
        if table is not None:
            self.path.write_text(table if isinstance(table, str) else written(table))
        names = {
            "CCLMARK_FAKE_NCCL_VERSION": "22809",
            "NCCL_TUNER_PLUGIN": str(plugin_path()),
            "CCLMARK_TUNER_TABLE": str(self.path),
        }
        return self.fake_cuda.env(**(names | more))

    def run(self, table=TABLE, *, operation="all_reduce", code=0, **more):
        env = self.env(table, **more)
        return self.cclmark(operation, *EAGER, "--explain", env=env, code=code)

    def logs(self, table=TABLE, **more):
        own = str(plugin_path())
        env = self.env(table, CCLMARK_PLUGIN_LOG=str(self.directory / "log"), **more)
        run = self.cclmark("all_reduce", *EAGER, env=env | {"NCCL_PROFILER_PLUGIN": own})
        return run, sorted(self.directory.glob("log-*"))


@pytest.fixture
def bench(cclmark, fake_cuda, tmp_path):
    return Bench(cclmark, fake_cuda, tmp_path)


def kernels(run):
    return [found[:3] for found in choices(run)]


def reasons(run):
    return [result.explanation.reason for result in run.journal.results]


def expected(choice=CHANGED):
    return [BY_SIZE[0], choice, BY_SIZE[2]]


@pytest.mark.parametrize("version", [WITHOUT_PROFILERS, *sampled(VERSIONS)])
def test_a_rule_changes_what_runs_in_its_range(bench, version):
    table = replace(TABLE, library_version=version_text(version))
    run = bench.run(table, CCLMARK_FAKE_NCCL_VERSION=str(version))
    assert kernels(run) == expected()
    assert reasons(run) == [""] * 3
    rules = [result.explanation.rule for result in run.journal.results]
    assert rules == ["", f"line {LINE} of {bench.path}", ""]
    assert f"64 KiB  ring LL128, 7 channels, by line {LINE} of {bench.path}\n" in run.out
    if version != WITHOUT_PROFILERS:  # before the rule
        predicted_s = run.journal.results[1].explanation.predicted_s
        assert min(predicted_s.values()) == predicted_s["TREE LL"] < predicted_s["RING LL128"]


def test_bytes_are_those_of_the_larger_buffer(bench):
    rules = [replace(RING, operation="all_gather", smallest_bytes=1 << 16, largest_bytes=1 << 16)]
    run = bench.run(replace(TABLE, rules=rules), operation="all_gather")
    changed = {
        result.case.size_bytes
        for result in run.journal.results
        if result.explanation.choice == "ring LL128" and result.explanation.rule
    }
    assert changed == {1 << 16}


LIMITS = [
    replace(RING, smallest_bytes=1024, largest_bytes=1024, channels=3),
    replace(RING, smallest_bytes=1025, largest_bytes=(4 << 20) - 1, protocol="ll"),
    replace(RING, smallest_bytes=4 << 20, largest_bytes=4 << 20, algorithm="tree"),
]
OF_OTHER_GROUPS = replace(TABLE, rules=[replace(RING, ranks=4), replace(RING, nodes=2)])
DIFFERENT = {"library_version": "2.27.7", "device": "NVIDIA H200", "nvlinks": 18}
ANYWHERE = {"CCLMARK_TUNER_ANYWHERE": "1"}
OF_12_LINKS = replace(TABLE, nvlinks=12)
COLLNET = replace(RING, algorithm="collnet_chain", protocol="simple")
ANY_CHANNELS = replace(RING, channels=0)
ERROR = written(TABLE).replace("ll128", "ll129")
NVLS = replace(RING, algorithm="nvls_tree", protocol="simple")
VERSION = "CCLMARK_FAKE_NCCL_VERSION"
WARNING = {"NCCL_DEBUG": "WARN"}


def with_links(bench, number):
    return {"LD_LIBRARY_PATH": bench.nvml, "CCLMARK_FAKE_NVLINKS": number}


def beside(bench):
    return {"CCLMARK_PLUGIN_TUNER": bench.other, "CCLMARK_FAKE_OTHER_CHOICE": RING_SIMPLE_5}


# A table, or its rules, and variables.
RUNS = {
    "limits": (LIMITS, {}),
    "any-channels": ([ANY_CHANNELS], {}),
    "other-groups": (OF_OTHER_GROUPS, {"NCCL_DEBUG": "INFO"}),
    "other-groups-without-a-log": (OF_OTHER_GROUPS, {}),
    **{f"other-{name}": (replace(TABLE, **{name: DIFFERENT[name]}), {}) for name in DIFFERENT},
    "other-library": (replace(TABLE, library="rccl"), {}),
    # All differences are reported.
    "different": (replace(TABLE, **DIFFERENT), {"CCLMARK_TUNER_ANYWHERE": "0"}),
    "different-on-request": (replace(TABLE, **DIFFERENT), {**ANYWHERE, "NCCL_DEBUG": "INFO"}),
    "links": (OF_12_LINKS, lambda bench: with_links(bench, "12")),
    # Links fail one by one: ranks with all NVLinks would apply the rules.
    "other-links": (OF_12_LINKS, lambda bench: with_links(bench, "18")),
    "no-links": (OF_12_LINKS, lambda bench: with_links(bench, "0")),
    "other-links-on-request": (OF_12_LINKS, lambda bench: with_links(bench, "18") | ANYWHERE),
    # A table without rules for this group changes nothing, and so is no danger.
    "other-links-of-other-groups": (
        replace(OF_OTHER_GROUPS, nvlinks=12),
        lambda bench: with_links(bench, "18"),
    ),
    # tests/kinds/tune/test_table_file.py has all errors, with this plug-in.
    "error": (ERROR, WARNING),
    "error-without-profilers": (ERROR, {**WARNING, VERSION: str(WITHOUT_PROFILERS)}),
    "nvls-off": ([NVLS], {"NCCL_NVLS_ENABLE": "0"}),
    "nvls-off-in-hexadecimal": ([NVLS], {"NCCL_NVLS_ENABLE": "0x0"}),
    **{
        f"not-available-{version}": (
            replace(TABLE, library_version=version_text(version), rules=[COLLNET]),
            {**WARNING, VERSION: str(version)},
        )
        for version in (WITHOUT_PROFILERS, 22200, 22809, 23003)
    },
    "excluded-by-a-variable": (TABLE, {"NCCL_ALGO": "TREE"}),
    # Over another tuner a rule has the last word; the other one's channels belong to its choice.
    **{
        f"beside-another-{version}": (
            replace(TABLE, library_version=version_text(version)),
            lambda bench, version=version: {**beside(bench), VERSION: str(version)},
        )
        for version in (WITHOUT_PROFILERS, 22809)
    },
    "any-channels-beside-another": ([ANY_CHANNELS], beside),
    "not-available-beside-another": ([COLLNET], beside),
    "no-plug-in": (TABLE, {"NCCL_TUNER_PLUGIN": ""}),
    "plug-in-off": (TABLE, {"NCCL_TUNER_PLUGIN": "none"}),
    "another-plug-in": (TABLE, lambda bench: {"NCCL_TUNER_PLUGIN": bench.other}),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_a_table_changes(bench, name):
    """What ran for each size, why, and the lines that mention it, with their number, unless the
    failure of one rank may end another one before it writes its own.
    """
    table, variables = RUNS[name]
    table = replace(TABLE, rules=table) if isinstance(table, list) else table
    more = variables(bench) if callable(variables) else variables
    run = bench.run(table, code=(0, 4), **more)
    found = [
        f"{one.case.size_bytes}: {one.explanation.choice}, {one.explanation.channels} channels, "
        f"{one.explanation.rule} {one.explanation.reason}".rstrip(", ")
        for one in run.journal.results
    ]
    mentioned = [line for line in run.err.splitlines() if re.search("plug-in|TUNER", line)]
    counted = Counter(re.sub(r"^fake\S+ \[\d\] ", "", line) for line in mentioned)
    found += sorted(line if run.code else f"{counted[line]} × {line}" for line in counted)
    text = "".join(f"{line}\n" for line in found)
    for path, word in ((str(bench.path), "TABLE"), (bench.other, "OTHER")):
        text = text.replace(path, word)
    require_golden(f"tuner/{name}.txt", text)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("missing", "{0}: No such file or directory"),
        exhaustive("directory", "{0}: it is not a regular file"),
        ("fifo", "{0}: it is not a regular file"),
        *(
            (
                path,
                f"CCLMARK_TUNER_TABLE={path} is a relative path, which depends on each process's "
                "directory: set the absolute path",
            )
            for path in ("table.txt", "~/table.txt")
        ),
        ("switch", "CCLMARK_TUNER_ANYWHERE must be 0 or 1"),
    ],
)
def test_a_table_that_cannot_be_read_ends_the_run(bench, kind, problem):
    more = {}
    if kind == "directory":
        bench.path.mkdir()
    elif kind == "fifo":
        os.mkfifo(bench.path)
    elif kind == "switch":
        more["CCLMARK_TUNER_ANYWHERE"] = "yes"
    elif kind.endswith(".txt"):
        more["CCLMARK_TUNER_TABLE"] = kind
    run = bench.run(None, code=4, **more)
    assert f"refuses the tuner table: {problem.format(bench.path)}" in run.err


def test_the_logs_contain_the_rules(bench):
    missing = Rule("all_reduce", 2, 1, 1024, 1024, "collnet_chain", "simple")
    _, paths = bench.logs(replace(TABLE, rules=[missing, RING]))
    assert len(paths) == 2
    for path in paths:
        log = read_plugin_log(path)
        assert (log.dropped, log.incomplete) == (0, 0)
        assert (log.table.path, log.table.is_applied, log.table.reason) == (
            str(bench.path),
            True,
            "",
        )
        rules = {
            (one.sequence, one.root, one.count, one.algorithm, one.protocol, one.channels)
            for one in log.events
            if one.kind == "tuner rule"
        }
        assert rules == {
            (LINE, 0, 1024, "collnet_chain", "simple", 0),
            (LINE + 1, 1, 65536, "ring", "ll128", 7),
        }
        tables = {one.number: one.size_bytes for one in log.cost_tables}
        parents = {tables[one.parent] for one in log.events if one.kind == "tuner rule"}
        assert parents == {1024, 65536}
    shown = bench.cclmark("plugin", *map(str, paths)).out
    assert f"the tuner table {bench.path} is applied\n" in shown
    assert f"  line {LINE}: all_reduce by collnet_chain simple, " in shown
    assert "calls of 1 KiB, not available: the library decided\n" in shown
    assert f"  line {LINE + 1}: all_reduce by ring ll128 on 7 channels, " in shown


def test_the_log_contains_why_a_table_is_not_applied(bench):
    _, paths = bench.logs(replace(TABLE, device="NVIDIA H200"))
    shown = bench.cclmark("plugin", *map(str, paths)).out
    assert f"the tuner table {bench.path} is not applied: the device is 'CCLMark Fake GPU'" in shown
    assert "line " not in shown


def test_a_copy_of_the_plug_in_applies_the_table(bench, tmp_path):
    copy = tmp_path / "libcclmark_plugin.so"
    shutil.copy(plugin_path(), copy)
    run = bench.run(NCCL_TUNER_PLUGIN=str(copy))
    assert kernels(run) == expected()
    assert reasons(run) == [""] * 3


@pytest.mark.parametrize("library", ["rccl", "nccl"])
def test_rccl_has_tables_of_its_own(cclmark, tmp_path, library):
    path = tmp_path / "table"
    path.write_text(written(RuleTable(library, "2.28.3", "CCLMark Fake MI", None, [RING])))
    names = {"NCCL_TUNER_PLUGIN": str(plugin_path()), "CCLMARK_TUNER_TABLE": str(path)}
    run = cclmark(
        *("all_reduce", *EAGER, "--explain", "--devices", "hip:0-1", "--ccl", "rccl"),
        env=RCCL.env(**names),
    )
    assert kernels(run) == (expected() if library == "rccl" else BY_SIZE)
