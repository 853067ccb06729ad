"""Tuner tables: a fake NCCL loads the plug-in and obeys its tuner, as NCCL does.

``scenarios/tuner.txt`` has what tables change and why they are refused.
"""

import pytest
from test_explain import BY_SIZE, EAGER, OF_TUNERS, choices

from cclmark.explain.plugin_log import plugin_path, read_plugin_log
from cclmark.kinds.tune.table_file import Rule, RuleTable, written

WITHOUT_PROFILERS = 22100  # the first version of the tuner's interface that is supported
RING = Rule("all_reduce", 2, 1, 32768, 131072, "ring", "ll128", 7)
LINE = 7  # of the first rule


@pytest.fixture
def tuned(cclmark, fake_cuda, tmp_path):
    """Runs a program with a tuner table of these rules: the run and the table's path."""
    path = tmp_path / "tuned.txt"

    def run(version, *options, rules=(RING,), **more):
        text = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
        path.write_text(written(RuleTable("nccl", text, "CCLMark Fake GPU", None, [*rules])))
        env = fake_cuda.env(
            CCLMARK_FAKE_NCCL_VERSION=str(version),
            NCCL_TUNER_PLUGIN=str(plugin_path()),
            CCLMARK_TUNER_TABLE=str(path),
            **more,
        )
        return cclmark("all_reduce", *EAGER, *options, env=env), path

    return run


@pytest.mark.parametrize("version", [WITHOUT_PROFILERS, *OF_TUNERS])
def test_a_rule_changes_what_runs_in_its_range(tuned, version):
    run, path = tuned(version, "--explain")
    assert [one[:3] for one in choices(run)] == [BY_SIZE[0], ("ring", "LL128", 7), BY_SIZE[2]]
    assert {result.explanation.reason for result in run.journal.results} == {""}
    rules = [result.explanation.rule for result in run.journal.results]
    assert rules == ["", f"line {LINE} of {path}", ""]
    assert f"64 KiB  ring LL128, 7 channels, by line {LINE} of {path}\n" in run.out
    if version != WITHOUT_PROFILERS:  # before the rule
        predicted_s = run.journal.results[1].explanation.predicted_s
        assert min(predicted_s.values()) == predicted_s["TREE LL"] < predicted_s["RING LL128"]


def test_the_logs_contain_the_rules(cclmark, tuned, tmp_path):
    missing = Rule("all_reduce", 2, 1, 1024, 1024, "collnet_chain", "simple")
    own = {"NCCL_PROFILER_PLUGIN": str(plugin_path()), "CCLMARK_PLUGIN_LOG": f"{tmp_path}/log"}
    _, path = tuned(22809, rules=[missing, RING], **own)
    logs = sorted(tmp_path.glob("log-*"))
    assert len(logs) == 2
    for log in map(read_plugin_log, logs):
        assert (log.dropped, log.incomplete) == (0, 0)
        assert (log.table.path, log.table.is_applied, log.table.reason) == (str(path), True, "")
        applied = [one for one in log.events if one.kind == "tuner rule"]
        assert {
            (one.sequence, one.root, one.count, one.algorithm, one.protocol, one.channels)
            for one in applied
        } == {
            (LINE, 0, 1024, "collnet_chain", "simple", 0),
            (LINE + 1, 1, 65536, "ring", "ll128", 7),
        }
        tables = {one.number: one.size_bytes for one in log.cost_tables}
        assert {tables[one.parent] for one in applied} == {1024, 65536}
    shown = cclmark("plugin", *map(str, logs)).out
    assert f"the tuner table {path} is applied\n" in shown
    assert f"  line {LINE}: all_reduce by collnet_chain simple, " in shown
    assert "calls of 1 KiB, not available: the library decided\n" in shown
    assert f"  line {LINE + 1}: all_reduce by ring ll128 on 7 channels, " in shown
