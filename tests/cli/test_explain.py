"""``--explain`` and ``cclmark plugin``: a fake NCCL loads the plug-in as NCCL does.

``scenarios/explain.txt`` has what ran and the connections, ``tuner.txt`` tables of tuners.
"""

import re

from cclmark.explain.plugin_log import plugin_path, read_plugin_log
from commands import wait_until

EAGER = (
    *("-g", "2", "-b", "1K", "-e", "4M", "-f", "64", "-n", "1", "-w", "0", "-c", "0"),
    *("--timing", "throughput", "--placement", "out-of-place"),
)


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


def test_channels_and_their_times_on_request(cclmark, fake_cuda, tmp_path):
    """Logged by the plug-in in a program, here cclmark, which does not know of it."""
    names = dict.fromkeys(("NCCL_PROFILER_PLUGIN", "NCCL_TUNER_PLUGIN"), str(plugin_path()))
    names |= {"CCLMARK_PLUGIN_LOG": str(tmp_path / "log"), "CCLMARK_PLUGIN_EVENTS": "steps"}
    cclmark("all_reduce", *EAGER, env=fake_cuda.env(**names))
    path, _ = sorted(tmp_path.glob("log-*.cclmlog"))
    events = read_plugin_log(path).events
    kernel = next(one for one in events if one.kind == "kernel channel")
    assert kernel.device_ns == 1000
    states = [one for one in events if one.kind == "state" and one.parent == kernel.number]
    assert [(one.sequence, one.device_ns) for one in states] == [(22, 5000)]
    (parent,) = [one for one in events if one.number == kernel.parent]
    assert parent.kind == "collective"
