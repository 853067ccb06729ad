"""cclmark's plug-in in a fake NCCL, also beside plug-ins of others, which it loads as NCCL does.

``scenarios/explain.txt`` has what ran and the connections, ``tuner.txt`` tables of tuners, and
``plug_ins.txt`` the plug-ins that cannot be used, and those beside ``--explain``.
"""

import re

import pytest

from cclmark.explain.plugin_log import plugin_path, read_plugin_log
from commands import wait_until

EAGER = (
    *("-g", "2", "-b", "1K", "-e", "4M", "-f", "64", "-n", "1", "-w", "0", "-c", "0"),
    *("--timing", "throughput", "--placement", "out-of-place"),
)
GROUP, COLLECTIVE, KERNEL, ALL = 1, 2, 64, 0xFFFF
BEFORE_PROFILERS = 22100
OLDER, NEWER = 22700, 22809
#: Versions of NCCL, each with other interfaces of profilers and tuners.
INTERFACES = [
    *((BEFORE_PROFILERS, 0, 2), (22300, 1, 3), (22400, 2, 4), (OLDER, 4, 4), (NEWER, 5, 5)),
    *((22902, 6, 5), (23102, 7, 6)),
]
# One type, a type whose parent is ignored, and none. What is left out by a mask does not depend on
# the interface.
MASKS = [(OLDER, KERNEL, GROUP), (OLDER, ALL, COLLECTIVE), (NEWER, 0, 0)]


class Bench:
    """Runs a program with plug-ins and reads what each one received."""

    def __init__(self, cclmark, fake_cuda, directory):
        self._cclmark = cclmark
        self._fake_cuda = fake_cuda
        self._directory = directory
        self.plugins = fake_cuda.nccl.parent / "plugins"
        self.other = str(self.plugins / "libnccl-profiler-other.so")

    def _received(self, version, profiler, tuner, **more):
        """The lines that the other plug-in wrote in each process; and the logs of cclmark's."""
        for file in self._directory.glob("run.*"):
            file.unlink()
        env = self._fake_cuda.env(
            NCCL_PROFILER_PLUGIN=profiler,
            NCCL_TUNER_PLUGIN=tuner,
            NCCL_DEBUG="WARN",
            CCLMARK_FAKE_NCCL_VERSION=str(version),
            CCLMARK_PLUGIN_LOG=str(self._directory / "run.log"),
            CCLMARK_FAKE_OTHER_FILE=str(self._directory / "run.other"),
            **more,
        )
        run = self._cclmark("all_reduce", *EAGER, env=env)
        assert [result.status for result in run.journal.results] == ["ok"] * 3
        texts = [path.read_text() for path in self._directory.glob("run.other-*")]
        logs = [read_plugin_log(path) for path in self._directory.glob("run.log-*")]
        return sorted(text.splitlines() for text in texts), logs

    def alone(self, other="", version=NEWER, **more):
        """What the other plug-in receives if it is the only one."""
        other = other or self.other
        return self._received(version, other, other, **more)[0]

    def own(self, version=NEWER, **more):
        """What others receive from cclmark's plug-in, and its logs."""
        found = self._received(version, *[str(plugin_path())] * 2, **more)
        assert len(found[1]) == 2
        return found

    def chained(self, other="", version=NEWER, **more):
        """The same of one plug-in that is a profiler and a tuner."""
        names = ("CCLMARK_PLUGIN_PROFILER", "CCLMARK_PLUGIN_TUNER")
        return self.own(version, **dict.fromkeys(names, other or self.other), **more)

    def shown(self):
        logs = map(str, self._directory.glob("run.log-*"))
        return self._cclmark("plugin", *logs).out


@pytest.fixture
def bench(cclmark, fake_cuda, tmp_path):
    return Bench(cclmark, fake_cuda, tmp_path)


def assert_same(alone, both):
    assert len(alone) == len(both) == 2
    lines = [line for one in alone + both for line in one]
    assert not [line for line in lines if "ERROR" in line]
    # Operations for other processes have parents there, which cannot be translated here.
    without = [[re.sub(r"in -?\d+ of another", "", it) for it in one] for one in alone + both]
    assert without[:2] == without[2:]
    remote = [line for one in both for line in one if "of another" in line]
    assert all(" in 0 of another process" in line for line in remote)


def chosen(log):
    return [(one.algorithm, one.protocol) for one in log.events if one.kind == "collective"]


@pytest.mark.parametrize(("version", "profiler", "tuner"), INTERFACES)
def test_the_other_one_receives_what_it_receives_alone(bench, version, profiler, tuner):
    both, logs = bench.chained(version=version, CCLMARK_PLUGIN_EVENTS="steps")
    shown = bench.shown() if version > BEFORE_PROFILERS else ""
    assert_same(bench.alone(version=version), both)
    assert tuner < 6 or "chunk" in both[0]
    for log in logs:
        called = {one.kind: (one.interface_version, one.reason) for one in log.other_plugins}
        assert called["tuner"] == (tuner, "")
        assert log.interface_version == profiler
        assert (log.dropped, log.incomplete) == (0, 0)
        if profiler:
            assert called["profiler"] == (profiler, "")
            assert len(chosen(log)) >= 3
            kinds = {one.number: one.kind for one in log.events}
            inner = [one for one in log.events if one.kind in ("kernel channel", "proxy step")]
            outer = {kinds.get(one.parent) for one in inner}
            assert outer <= {"collective", "proxy operation"}
    if profiler:
        starts = [line for line in both[0] if line.startswith("start")]
        assert any("type 2 in" in line and "type 2 in 0" not in line for line in starts)
        assert f"other.so is called too, by interface version {profiler}\n" in shown
        assert shown.count("is called too") == 2


@pytest.mark.parametrize(("version", "mask", "ignored"), MASKS)
def test_each_one_receives_the_types_that_it_asked_for(bench, version, mask, ignored):
    masks = {"CCLMARK_FAKE_OTHER_MASK": mask, "CCLMARK_FAKE_OTHER_IGNORES": ignored}
    more = {"version": version} | {name: str(own) for name, own in masks.items()}
    both, logs = bench.chained(**more)
    assert_same(bench.alone(**more), both)
    for log in logs:
        assert len(chosen(log)) == len(log.cost_tables) >= 3
        assert {"kernel channel", "proxy step"}.isdisjoint(one.kind for one in log.events)


def test_an_older_plug_in_is_used_by_its_interface(bench):
    older = str(bench.plugins / "libnccl-profiler-older.so")
    alone = bench.alone(older)
    both, logs = bench.chained(older)
    assert_same(alone, both)
    assert alone[0][0].startswith(("init v4", "tuner init v3"))
    for log in logs:
        assert log.interface_version == 4
        assert [one.interface_version for one in log.other_plugins] == [4, 3]
        assert len(chosen(log)) == len(log.cost_tables) >= 3


def test_names_are_searched_as_nccl_does(bench, tmp_path):
    # Without a setting, NCCL loads files with these names.
    (tmp_path / "libnccl-tuner.so").symlink_to(bench.other)
    paths = {
        "LD_LIBRARY_PATH": f"{tmp_path}:{bench.plugins}",
        "CCLMARK_FAKE_OTHER_CHOICE": "117",  # ring LL128
    }
    both, logs = bench.own(CCLMARK_PLUGIN_PROFILER="other", **paths)
    assert any("start" in line for line in both[0])
    assert "decide" in both[0]
    assert set(chosen(logs[0])) == {("RING", "LL128")}
    both, logs = bench.own(CCLMARK_PLUGIN_TUNER="none", **paths)
    assert both == []
    assert logs[0].other_plugins == []
    both, logs = bench.own(NCCL_NET_PLUGIN=bench.other, LD_PRELOAD=bench.other)
    assert "decide" in both[0]
    assert [one.kind for one in logs[0].other_plugins] == ["profiler", "tuner"]


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
