import io
import re
import sys
import time

import pytest
from msgspec.structs import replace

from cclmark.recording.recorder import Progress, StatusLine
from cclmark.rendezvous.messages import RankStatus
from cclmark.work.cases import Case

CASES = [Case("all_reduce", "shm", 2, "float32", 1024, 256, placed) for placed in (False, True)]
OUTSIDE = RankStatus(0, 1, "communicator creation", -1, 0, 0.0, False, None, False)
TIMING = RankStatus(0, 1, "timing", 1, 12, 0.0, False, None, False)


def progress(*, cycles=1, elapsed_s=0.0, done=0):
    line = Progress(CASES, cycles, time.monotonic() - elapsed_s, sys.stderr)
    for _ in range(done):
        line.advance()
    return line


def test_begins_with_the_time_since_the_run_began():
    for elapsed_s, clock in ((7, "0:07"), (61, "1:01"), (754, "12:34"), (3723, "1:02:03")):
        assert progress(elapsed_s=elapsed_s).describe(OUTSIDE) == f"{clock}  communicator creation"


def test_numbers_the_case_among_all_of_the_run():
    for cycles, done, number in (
        *((1, 1, "case 2 of 2"), (1, 2, "case 2 of 2"), (3, 4, "case 5 of 6")),
        (0, 40, "case 41"),
    ):
        text = progress(cycles=cycles, elapsed_s=3, done=done).describe(TIMING)
        assert text == f"0:03  {number}  all_reduce 1 KiB float32 in-place: timing, batch 12"


class FakeTerminal(io.StringIO):
    def isatty(self):
        return True


def test_neither_escapes_nor_markup_reach_the_terminal(monkeypatch):
    stream = FakeTerminal()
    case = replace(CASES[0], operation="\x1b]0;x\x07[red]all[/red]")
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setattr("cclmark.recording.recorder._PATIENCE_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    line = Progress([case], 1, time.monotonic(), stream)
    line.show(RankStatus(0, 1, "timing", 0, 1, 0.0, False, None, False))
    line.clear()
    assert "\x1b]0;x" not in stream.getvalue()
    assert "[red]all[/red]" in stream.getvalue()


def test_the_line_is_replaced_cut_and_removed(monkeypatch):
    stream = FakeTerminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "10")
    line = StatusLine(stream)
    for text in ("one", "one", "a text that is too long"):
        line.show(text)
    line.clear()
    line.clear()
    assert stream.getvalue() == "\r\x1b[Kone\r\x1b[Ka text th\r\x1b[K"


def reported(monkeypatch, *, done=1, cycles=1, every="0.000001", hidden=False):
    """The lines of a run without a terminal that is asked for its progress twice."""
    stream = io.StringIO()
    monkeypatch.setenv("CCLMARK_PROGRESS_S", every)
    line = Progress(CASES, cycles, time.monotonic() - 60, stream, is_hidden=hidden)
    time.sleep(0.001)  # longer than from line to line
    line.show(TIMING)
    for _ in range(done):
        line.advance()
    time.sleep(0.001)
    line.show(TIMING)
    return stream.getvalue().splitlines()


def test_without_a_terminal_lines_tell_what_is_done_and_when_the_rest_ends(monkeypatch):
    first, second = reported(monkeypatch)
    assert re.fullmatch(r"cclmark: 1:0\d  timing", first)
    assert re.fullmatch(
        r"cclmark: 1:0\d  1 of 2 cases done, about 0:0\d left, until \d\d:\d\d:\d\d  timing", second
    )
    assert reported(monkeypatch, cycles=0)[1].endswith("  1 case done  timing")
    assert reported(monkeypatch, done=5)[1].endswith("  5 cases done  timing")


def test_lines_of_progress_can_be_switched_off(monkeypatch):
    for every, hidden in (("0", False), ("1e9", False), ("0.001", True)):
        assert reported(monkeypatch, every=every, hidden=hidden) == []
    # Without a number they come every twenty seconds.
    assert reported(monkeypatch, every="often") == []
    line = Progress(CASES, 1, time.monotonic(), io.StringIO())
    assert line._next_s == pytest.approx(time.monotonic() + 20, abs=5)


@pytest.mark.parametrize("terminal", ["dumb", ""])
def test_a_terminal_without_control_sequences_shows_no_line(monkeypatch, terminal):
    stream = FakeTerminal()
    monkeypatch.setenv("TERM", terminal)
    StatusLine(stream).show("one")
    assert stream.getvalue() == ""
