"""Plug-ins of others beside cclmark's own: a fake NCCL loads cclmark's, which loads a fake one.

``scenarios/plug_ins.txt`` has the plug-ins that cannot be used, and those beside ``--explain``.
"""

import re

import pytest
from test_explain import EAGER, VERSIONS, choices

from cclmark.explain.plugin_log import plugin_path, read_plugin_log

GROUP, COLLECTIVE, KERNEL, ALL = 1, 2, 64, 0xFFFF
RING_LL128_7 = "117"  # what the other tuner chooses
BEFORE_PROFILERS = 22100
OLDER, NEWER = "22700", "22809"
# One type, a type whose parent is ignored, and none. What is left out by a mask does not depend on
# the interface.
MASKS = [(OLDER, KERNEL, GROUP), (OLDER, ALL, COLLECTIVE), (NEWER, 0, 0)]


class Bench:
    """Runs a program with plug-ins and reads what each one received."""

    def __init__(self, cclmark, fake_cuda, directory):
        self.cclmark = cclmark
        self.fake_cuda = fake_cuda
        self.directory = directory
        self.plugins = fake_cuda.nccl.parent / "plugins"
        self.other = str(self.plugins / "libnccl-profiler-other.so")
        self.run = None

    def env(self, name, **more):
        more.setdefault("CCLMARK_FAKE_NCCL_VERSION", "22809")
        more.setdefault("NCCL_DEBUG", "WARN")
        return self.fake_cuda.env(
            CCLMARK_PLUGIN_LOG=str(self.directory / f"{name}.log"),
            CCLMARK_FAKE_OTHER_FILE=str(self.directory / f"{name}.other"),
            **more,
        )

    def received(self, name):
        """The lines that the other plug-in wrote in each process."""
        texts = [path.read_text() for path in self.directory.glob(f"{name}.other-*")]
        return sorted(text.splitlines() for text in texts)

    def alone(self, other="", operation="all_reduce", **more):
        """What the other plug-in receives if it is the only one."""
        other = other or self.other
        env = self.env("alone", NCCL_PROFILER_PLUGIN=other, NCCL_TUNER_PLUGIN=other, **more)
        self.cclmark(operation, *EAGER, env=env)
        return self.received("alone")

    def chained(self, other="", operation="all_reduce", **more):
        """What it receives from cclmark's plug-in, and the logs of that one."""
        names = {"CCLMARK_PLUGIN_PROFILER": other or self.other}
        names["CCLMARK_PLUGIN_TUNER"] = other or self.other
        return self.own(operation, **(names | more))

    def own(self, operation="all_reduce", **more):
        own = str(plugin_path())
        names = {"NCCL_PROFILER_PLUGIN": own, "NCCL_TUNER_PLUGIN": own}
        for file in self.directory.glob("both.*"):
            file.unlink()
        self.run = self.cclmark(operation, *EAGER, env=self.env("both", **(names | more)))
        assert [result.status for result in self.run.journal.results] == ["ok"] * 3
        logs = [read_plugin_log(path) for path in self.directory.glob("both.log-*")]
        assert len(logs) == 2
        return self.received("both"), logs

    def shown(self, code=0):
        return self.cclmark("plugin", *map(str, self.directory.glob("both.log-*")), code=code)


@pytest.fixture
def bench(cclmark, fake_cuda, tmp_path):
    return Bench(cclmark, fake_cuda, tmp_path)


def without_other_processes(received):
    """Operations for other processes have parents there, which cannot be translated here."""
    return [
        [re.sub(r"in -?\d+ of another", "of another", line) for line in one] for one in received
    ]


def assert_same(alone, both):
    assert len(alone) == len(both) == 2
    assert not [line for one in alone + both for line in one if "ERROR" in line]
    assert without_other_processes(both) == without_other_processes(alone)
    remote = [line for one in both for line in one if "of another" in line]
    assert all(" in 0 of another process" in line for line in remote)


def chosen(log):
    return [(one.algorithm, one.protocol) for one in log.events if one.kind == "collective"]


# One version for each interface of profilers; that of tuners has a test below.
@pytest.mark.parametrize("version", [BEFORE_PROFILERS, 22300, 22700, 22809, 22902, 23102])
def test_the_other_one_receives_what_it_receives_alone(bench, version):
    alone = bench.alone(CCLMARK_FAKE_NCCL_VERSION=str(version))
    both, logs = bench.chained(
        CCLMARK_FAKE_NCCL_VERSION=str(version), CCLMARK_PLUGIN_EVENTS="steps"
    )
    assert_same(alone, both)
    profiler, tuner = VERSIONS.get(version, (0, 2))
    assert tuner < 6 or "chunk" in both[0]
    for log in logs:
        called = {one.kind: (one.interface_version, one.reason) for one in log.other_plugins}
        assert called["tuner"] == (tuner, "")
        assert log.interface_version == profiler
        assert log.dropped == 0
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
        shown = bench.shown().out
        assert f"other.so is called too, by interface version {profiler}\n" in shown
        assert shown.count("is called too") == 2


@pytest.mark.parametrize(("version", "mask", "ignored"), MASKS)
def test_each_one_receives_the_types_that_it_asked_for(bench, version, mask, ignored):
    more = {
        "CCLMARK_FAKE_NCCL_VERSION": version,
        "CCLMARK_FAKE_OTHER_MASK": str(mask),
        "CCLMARK_FAKE_OTHER_IGNORES": str(ignored),
    }
    alone = bench.alone(**more)
    both, logs = bench.chained(**more)
    assert_same(alone, both)
    for log in logs:
        assert len(chosen(log)) == len(log.cost_tables) >= 3
        assert {"kernel channel", "proxy step"}.isdisjoint(one.kind for one in log.events)


# One version for each interface of tuners: the test above has all of profilers.
@pytest.mark.parametrize("version", [BEFORE_PROFILERS, 22300, 22700, 22902, 23102])
def test_the_other_tuner_decides(bench, version):
    env = bench.env(
        "both",
        CCLMARK_FAKE_NCCL_VERSION=str(version),
        CCLMARK_FAKE_OTHER_CHOICE=RING_LL128_7,
        NCCL_TUNER_PLUGIN=bench.other,
    )
    run = bench.cclmark("all_reduce", *EAGER, "--explain", env=env)
    source = "log" if version == BEFORE_PROFILERS else "plug-in"
    assert choices(run) == [("ring", "LL128", 7, source)] * 3
    assert run.err.count(f"another tuner plug-in is set (NCCL_TUNER_PLUGIN={bench.other})") == 1
    for result in run.journal.results:
        assert result.explanation.reason == ""
        if version > BEFORE_PROFILERS:  # before it decided
            assert result.explanation.predicted_s["RING LL128"] > 1e-6


def test_errors_of_the_other_tuner_reach_nccl(bench):
    _, logs = bench.chained(CCLMARK_FAKE_OTHER_RESULT="5")
    assert "getCollInfo returned 5" in bench.run.err
    assert all(len(log.cost_tables) >= 3 for log in logs)


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
        "CCLMARK_FAKE_OTHER_CHOICE": RING_LL128_7,
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
