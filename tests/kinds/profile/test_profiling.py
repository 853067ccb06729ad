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


@pytest.mark.parametrize("libraries", [{"libtorch_cpu.so"}, {"libgloo.so.1"}, set()])
def test_a_program_without_nccl_is_referred_to_traces_of_torch(libraries):
    seen = [SeenProcess(7, "python", libraries)]
    text = profiling._why_empty(profiling.ProgramRun("", None, [], [], seen))
    assert "cclmark profile records the operations of NCCL, which no process" in text
    assert (f"Loaded were {', '.join(libraries)}" in text) == bool(libraries)
    assert text.endswith("cclmark import TRACE.json...") == ("libtorch_cpu.so" in libraries)
