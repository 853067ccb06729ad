"""Tuner tables: a fake NCCL loads the plug-in and obeys its tuner, as NCCL does.

``scenarios/tuner.txt`` has what tables change and why they are refused.
"""

from dataclasses import replace

import pytest
from test_explain import BY_SIZE, EAGER, VERSIONS, choices, sampled

from cclmark.explain.plugin_log import plugin_path, read_plugin_log
from cclmark.kinds.tune.table_file import Rule, RuleTable, written

WITHOUT_PROFILERS = 22100  # the first version of the tuner's interface that is supported
RING = Rule("all_reduce", 2, 1, 32768, 131072, "ring", "ll128", 7)
TABLE = RuleTable("nccl", "2.28.9", "CCLMark Fake GPU", None, [RING])
LINE = 7  # of the first rule


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


@pytest.mark.parametrize("version", [WITHOUT_PROFILERS, *sampled(VERSIONS)])
def test_a_rule_changes_what_runs_in_its_range(bench, version):
    table = replace(TABLE, library_version=version_text(version))
    run = bench.run(table, CCLMARK_FAKE_NCCL_VERSION=str(version))
    assert kernels(run) == [BY_SIZE[0], ("ring", "LL128", 7), BY_SIZE[2]]
    assert {result.explanation.reason for result in run.journal.results} == {""}
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


def test_the_logs_contain_the_rules(bench):
    missing = Rule("all_reduce", 2, 1, 1024, 1024, "collnet_chain", "simple")
    _, paths = bench.logs(replace(TABLE, rules=[missing, RING]))
    assert len(paths) == 2
    for path in paths:
        log = read_plugin_log(path)
        assert (log.dropped, log.incomplete) == (0, 0)
        table = log.table
        assert (table.path, table.is_applied, table.reason) == (str(bench.path), True, "")
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
