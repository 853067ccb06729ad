"""Programs that are profiled: how they end, and what remains of them."""

import signal
import sys

import pytest

from cclmark_programs.profile import request as profiling
from cclmark_programs.profile.request import ProgramEnd, SeenProcess
from commands import completed

WRITES_A_LOG = 'touch "$CCLMARK_PLUGIN_LOG-1.cclmlog"'
ENDS = """
from cclmark_programs.profile.request import run_program
end = run_program(["sh", "-c", "trap '' 0; exit 7"], {"PATH": "/usr/bin:/bin"}, lambda _: 1.0)
print(end.code)
"""


@pytest.mark.parametrize(("code", "text"), [(-9, "SIGKILL"), (-35, "signal 35"), (3, "code 3")])
def test_every_end_has_words(code, text):
    assert ProgramEnd(code, 1.0).text.endswith(text)


def test_the_exit_code_is_known_where_ends_of_children_were_ignored():
    run = completed(
        [sys.executable, "-c", ENDS],
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    assert (run.stdout, run.stderr) == ("7\n", "")


@pytest.mark.parametrize(("script", "remains"), [(WRITES_A_LOG, True), ("true", False)])
def test_logs_remain_if_the_profile_cannot_be_written(
    script, remains, monkeypatch, tmp_path, capsys
):
    def fail(*_):
        raise RuntimeError("no assembly")

    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(profiling.tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(profiling, "assembled_profile", fail)
    request = profiling.ProfileRequest(["sh", "-c", script], None, 10, True)
    with pytest.raises(RuntimeError, match="no assembly"):
        profiling.profile(request, tmp_path / "journal.jsonl", None, print)
    kept = [*temporary.iterdir()]
    assert len(kept) == remains
    if remains:
        assert f"cclmark profile --read {kept[0]}\n" in capsys.readouterr().err


class FailedProfile:
    """A profile with a log, whose journal cannot be written."""

    def __init__(self, monkeypatch, tmp_path):
        monkeypatch.setattr(profiling.tempfile, "tempdir", str(tmp_path))
        request = profiling.ProfileRequest(["true"], None, 10, True)
        self.directory = profiling._directory(request)
        self.made = self.directory.__enter__()
        (self.made / "1.cclmlog").touch()

    def end(self):
        error = RuntimeError("no journal")
        assert not self.directory.__exit__(RuntimeError, error, None)  # it is raised again

    def check(self, said):
        assert [one.name for one in self.made.iterdir()] == ["1.cclmlog"]
        assert said == (
            f"cclmark: the logs of the program remain: cclmark profile --read {self.made}\n"
        )


@pytest.fixture
def another_begins(monkeypatch, tmp_path):
    """Another profile begins when the lock of one ends."""
    locked = profiling._locked

    class Lock:
        def __init__(self, path):
            self.file = locked(path)

        def __enter__(self):
            return self.file

        def __exit__(self, *_):
            self.file.close()
            profiling._remove_abandoned(tmp_path)

    monkeypatch.setattr(profiling, "_locked", Lock)


@pytest.mark.usefixtures("another_begins")
def test_another_profile_that_begins_when_the_lock_ends(monkeypatch, tmp_path, capsys):
    failed = FailedProfile(monkeypatch, tmp_path)
    failed.end()
    failed.check(capsys.readouterr().err)
    # A complete profile is not called killed by another.
    with profiling._directory(profiling.ProfileRequest(["true"], None, 10, True)) as made:
        (made / "1.cclmlog").touch()
    assert not made.exists()
    assert str(made) not in capsys.readouterr().err


def test_another_profile_that_has_opened_the_file_before(monkeypatch, tmp_path, capsys):
    failed = FailedProfile(monkeypatch, tmp_path)
    flock = profiling.fcntl.flock

    def lock_late(file, operation):
        failed.end()
        flock(file, operation)

    monkeypatch.setattr(profiling.fcntl, "flock", lock_late)
    profiling._remove_abandoned(tmp_path)
    failed.check(capsys.readouterr().err)


@pytest.mark.parametrize("libraries", [{"libtorch_cpu.so"}, {"libgloo.so.1"}, set()])
def test_a_program_without_nccl_is_referred_to_traces_of_torch(libraries):
    seen = [SeenProcess(7, "python", libraries)]
    text = profiling._why_empty(profiling.ProgramRun("", None, [], [], seen))
    assert "cclmark profile records the operations of NCCL, which no process" in text
    assert (f"Loaded were {', '.join(libraries)}" in text) == bool(libraries)
    assert text.endswith("cclmark import TRACE.json...") == ("libtorch_cpu.so" in libraries)
