"""Tuner tables: a fake NCCL loads the plug-in and obeys its tuner, as NCCL does."""

import os
import shutil
from dataclasses import replace

import pytest
from test_explain import BY_SIZE, EAGER, VERSIONS, choices, sampled
from vendors import RCCL

from cclmark.explain.plugin_log import plugin_path, read_plugin_log
from cclmark.kinds.tune.table_file import Rule, RuleTable, written
from examples import exhaustive

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


def test_the_limits_of_a_range_belong_to_it(bench):
    rules = [
        replace(RING, smallest_bytes=1024, largest_bytes=1024, channels=3),
        replace(RING, smallest_bytes=1025, largest_bytes=(4 << 20) - 1, protocol="ll"),
        replace(RING, smallest_bytes=4 << 20, largest_bytes=4 << 20, algorithm="tree"),
    ]
    run = bench.run(replace(TABLE, rules=rules))
    assert kernels(run) == [("ring", "LL128", 3), ("ring", "LL", 7), ("tree", "LL128", 7)]


def test_zero_channels_are_the_librarys_choice(bench):
    run = bench.run(replace(TABLE, rules=[replace(RING, channels=0)]))
    assert kernels(run) == expected(("ring", "LL128", BY_SIZE[1][2]))


def test_bytes_are_those_of_the_larger_buffer(bench):
    rules = [replace(RING, operation="all_gather", smallest_bytes=1 << 16, largest_bytes=1 << 16)]
    run = bench.run(replace(TABLE, rules=rules), operation="all_gather")
    changed = {
        result.case.size_bytes
        for result in run.journal.results
        if result.explanation.choice == "ring LL128" and result.explanation.rule
    }
    assert changed == {1 << 16}


def test_another_group_keeps_the_librarys_choice(bench):
    rules = [replace(RING, ranks=4), replace(RING, nodes=2)]
    table = replace(TABLE, rules=rules)
    run = bench.run(table, NCCL_DEBUG="INFO")
    assert kernels(run) == BY_SIZE
    notice = f"applies no rule to this communicator: {bench.path} has none with ranks 2 and nodes 1"
    assert run.err.count(notice) == 2  # ranks that measure: the log of the others is a file
    assert "WARN" not in run.err
    assert notice not in bench.run(table).err


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"library_version": "2.27.7"}, "the library is nccl 2.28.9, not nccl 2.27.7"),
        ({"library": "rccl"}, "the library is nccl 2.28.9, not rccl 2.28.9"),
        ({"device": "NVIDIA H200"}, "the device is 'CCLMark Fake GPU', not 'NVIDIA H200'"),
        ({"nvlinks": 18}, "the number of the device's NVLinks is unknown, not 18"),
    ],
)
def test_other_conditions_keep_the_librarys_choice(bench, changes, difference):
    other = replace(TABLE, **changes)
    run = bench.run(other)
    assert kernels(run) == BY_SIZE
    warning = (
        f"does not apply the tuner table: {bench.path}: {difference} "
        "(CCLMARK_TUNER_ANYWHERE=1 applies it nevertheless)"
    )
    # Once in each process, those that measure and those that explain, without NCCL_DEBUG too.
    assert run.err.count(f"\ncclmark's plug-in {warning}") + run.err.startswith("cclmark's") == 4
    assert reasons(run) == [f"the tuner table {bench.path} is not applied: {difference}"] * 3


@pytest.mark.parametrize("library", ["nccl", exhaustive("rccl")])
def test_a_table_for_other_conditions_is_applied_on_request(bench, library):
    """All differences are reported."""
    changes = {"library": library, "library_version": "2.27.7", "device": "NVIDIA H200"}
    other = replace(TABLE, **changes, nvlinks=18)
    differences = (
        f"the library is nccl 2.28.9, not {library} 2.27.7; the device is 'CCLMark Fake GPU', not "
        "'NVIDIA H200'; the number of the device's NVLinks is unknown, not 18"
    )
    forced = bench.run(other, CCLMARK_TUNER_ANYWHERE="1", NCCL_DEBUG="INFO")
    assert kernels(forced) == expected()
    assert f"1 of {bench.path}, although {differences}" in forced.err
    assert (
        reasons(forced) == [f"the tuner table {bench.path} is applied, although {differences}"] * 3
    )
    refused = bench.run(other, CCLMARK_TUNER_ANYWHERE="0")
    assert kernels(refused) == BY_SIZE
    assert differences in refused.err


def test_nvlinks_are_counted(bench):
    paths = {"LD_LIBRARY_PATH": bench.nvml, "CCLMARK_FAKE_NVLINKS": "12"}
    assert kernels(bench.run(replace(TABLE, nvlinks=12), **paths)) == expected()


@pytest.mark.parametrize("links", ["18", exhaustive("0")])
def test_a_device_with_other_links_creates_no_communicator(bench, links):
    """Links fail one by one: ranks with all NVLinks would apply the rules."""
    paths = {"LD_LIBRARY_PATH": bench.nvml, "CCLMARK_FAKE_NVLINKS": links}
    run = bench.run(replace(TABLE, nvlinks=12), code=4, **paths)
    assert f"the device has {links} NVLinks, not 12, although it is the table's device" in run.err
    forced = bench.run(replace(TABLE, nvlinks=12), CCLMARK_TUNER_ANYWHERE="1", **paths)
    assert kernels(forced) == expected()
    # A table without rules for this group changes nothing, and so is no danger.
    other = replace(TABLE, nvlinks=12, rules=[replace(RING, ranks=4)])
    assert kernels(bench.run(other, **paths)) == BY_SIZE


@pytest.mark.parametrize("version", [WITHOUT_PROFILERS, 22809])
def test_a_table_with_an_error_ends_the_run(bench, version):
    """tests/kinds/tune/test_table_file.py has all errors, with this plug-in."""
    debug = {"NCCL_DEBUG": "WARN", "CCLMARK_FAKE_NCCL_VERSION": str(version)}
    run = bench.run(written(TABLE).replace("ll128", "ll129"), code=4, **debug)
    text = (
        f"cclmark's plug-in refuses the tuner table: {bench.path}: line {LINE}, protocol: 'll129' "
        "is not ll, ll128 or simple"
    )
    assert f"NCCL WARN {text}" in run.err
    assert f"invalid usage (run with NCCL_DEBUG=WARN for details): {text}" in run.err


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


@pytest.mark.parametrize("value", [exhaustive("0"), "0x0"])
def test_nvls_is_refused_where_it_is_switched_off(bench, value):
    table = replace(TABLE, rules=[replace(RING, algorithm="nvls_tree", protocol="simple")])
    run = bench.run(table, NCCL_NVLS_ENABLE=value, code=4)
    assert (
        f"{bench.path}: line {LINE}, algorithm: nvls_tree is not possible with NCCL_NVLS_ENABLE=0"
    ) in run.err


@pytest.mark.parametrize("version", [WITHOUT_PROFILERS, exhaustive(22200), 22809, 23003])
def test_what_is_not_available_is_the_librarys_choice(bench, version):
    table = replace(
        TABLE,
        library_version=version_text(version),
        rules=[replace(RING, algorithm="collnet_chain", protocol="simple")],
    )
    debug = {"NCCL_DEBUG": "WARN", "CCLMARK_FAKE_NCCL_VERSION": str(version)}
    run = bench.run(table, **debug)
    assert kernels(run) == BY_SIZE
    warning = (
        f"does not apply line {LINE} of the tuner table: all_reduce has no collnet_chain simple "
        "for 2 ranks here: the library decides for these sizes"
    )
    assert run.err.count(warning) == 4  # once for each communicator
    missing = f"line {LINE} of {bench.path} is not applied: collnet_chain simple is not available"
    assert reasons(run) == ["", missing, ""]


def test_a_variable_of_nccl_excludes_a_rule(bench):
    run = bench.run(NCCL_ALGO="TREE")
    assert {kernel for kernel, _, _ in kernels(run)} == {"tree"}
    assert f"does not apply line {LINE} of the tuner table" in run.err


# Other tests call rules, and the other tuner, by every interface.
@pytest.mark.parametrize(
    "version",
    [
        version if version in (WITHOUT_PROFILERS, 22809) else exhaustive(version)
        for version in (WITHOUT_PROFILERS, *VERSIONS)
    ],
)
def test_a_rule_has_the_last_word_over_another_tuner(bench, version):
    more = {
        "CCLMARK_FAKE_NCCL_VERSION": str(version),
        "CCLMARK_PLUGIN_TUNER": bench.other,
        "CCLMARK_FAKE_OTHER_CHOICE": RING_SIMPLE_5,
    }
    table = replace(TABLE, library_version=version_text(version))
    run = bench.run(table, **more)
    others = ("ring", "SIMPLE", 5)
    assert kernels(run) == [others, CHANGED, others]


def test_what_a_rule_leaves_open_beside_another_tuner(bench):
    more = {
        "CCLMARK_PLUGIN_TUNER": bench.other,
        "CCLMARK_FAKE_OTHER_CHOICE": RING_SIMPLE_5,
    }
    others = ("ring", "SIMPLE", 5)
    # The other one's channels belong to the other one's choice.
    kept = bench.run(replace(TABLE, rules=[replace(RING, channels=0)]), **more)
    assert kernels(kept) == [others, ("ring", "LL128", BY_SIZE[1][2]), others]
    missing = replace(RING, algorithm="collnet_chain", protocol="simple")
    assert kernels(bench.run(replace(TABLE, rules=[missing]), **more)) == [others] * 3


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


def test_a_table_without_the_plug_in_has_no_effect(bench):
    for tuner in ("", "none", bench.other):
        run = bench.run(NCCL_TUNER_PLUGIN=tuner)
        assert kernels(run) == BY_SIZE
        assert "CCLMARK_TUNER_TABLE has no effect, because NCCL_TUNER_PLUGIN is not" in run.err


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
