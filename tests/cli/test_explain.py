"""``--explain`` and ``cclmark plugin``: a fake NCCL loads the plug-in as NCCL does.

``scenarios/explain.txt`` has what ran and the connections.
"""

import re

import pytest

from cclmark.explain.plugin_log import plugin_path, read_plugin_log
from commands import wait_until

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
#: The first version of each interface of tuners.
OF_TUNERS = (22300, 22400, 22809, 23003)
BY_SIZE = [("tree", "LL", 1), ("tree", "LL", 2), ("ring", "SIMPLE", 24)]


def choices(run):
    return [
        (found.kernel, found.protocol, found.channels, found.source)
        for found in (result.explanation for result in run.journal.results)
    ]


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


def test_a_rank_that_dies_while_explaining_leaves_the_results(background, fake_cuda):
    env = fake_cuda.env(CCLMARK_FAKE_NCCL_ENQUEUE_US="400000")
    run = background("all_reduce", *EAGER, "--explain", env=env)
    first = set(run.wait_for_ranks())
    wait_until(lambda: len(set(run.workers()) - first) == 2 or run.ended(), "there are new ranks")
    run.wait_for_phase(1, "explaining")
    run.signal(max(set(run.workers()) - first), 9)
    ended = run.finish(code=4)
    assert [result.status for result in ended.journal.results] == ["ok"] * 3
    assert re.search("[1-9] of 3 cases are not explained: rank 1 ", ended.err)
    assert "all_reduce" in ended.out


@pytest.fixture
def logs(cclmark, fake_cuda, tmp_path):
    """Runs a program with the plug-in, here cclmark, which does not know of it: the logs."""
    path = str(plugin_path())
    names = {"NCCL_PROFILER_PLUGIN": path, "NCCL_TUNER_PLUGIN": path}
    names["CCLMARK_PLUGIN_LOG"] = str(tmp_path / "log")

    def run(**more):
        cclmark("all_reduce", *EAGER, env=fake_cuda.env(**names, **more))
        return sorted(tmp_path.glob("log-*.cclmlog"))

    return run


@pytest.mark.parametrize("version", OF_TUNERS)
def test_its_logs_hold_every_call(cclmark, logs, version):
    paths = logs(CCLMARK_FAKE_NCCL_VERSION=str(version))
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
    assert cclmark("plugin").out == f"{plugin_path()}\n"


def test_channels_and_their_times_on_request(logs):
    paths = logs(CCLMARK_PLUGIN_EVENTS="steps")
    events = read_plugin_log(paths[0]).events
    kernel = next(one for one in events if one.kind == "kernel channel")
    assert kernel.device_ns == 1000
    states = [one for one in events if one.kind == "state" and one.parent == kernel.number]
    assert [(one.sequence, one.device_ns) for one in states] == [(22, 5000)]
    (parent,) = [one for one in events if one.number == kernel.parent]
    assert parent.kind == "collective"
