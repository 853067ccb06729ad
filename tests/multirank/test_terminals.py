"""Output to a terminal that nobody reads."""

import os
import pty
import select
import signal
import subprocess
import sys

import pytest
from test_signals import waits_to_write

from commands import wait_until
from patience import scaled

PROGRAM = """
import sys
from cclmark.base.signals import note, on_ending_signals
from cclmark.base.streams import prepare_streams
on_ending_signals(note)
prepare_streams()
sys.stderr.write("begun\\n")
line = "x" * {length} + "\\n"
try:
    while True:
        sys.stdout.write(line)
        sys.stdout.flush()
except OSError as error:
    sys.stderr.write(f"ended: {error}")
"""


@pytest.mark.parametrize("length", [4000, 5003])
def test_writing_ends_soon_after_a_signal(length):
    reader, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("{length}", str(length))],
        stdout=terminal,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(terminal)
        try:
            assert process.stderr.readline() == b"begun\n"
            wait_until(lambda: waits_to_write(process.pid), "the terminal is full")
            process.send_signal(signal.SIGTERM)
            said = (
                process.stderr.read()
                if select.select([process.stderr], [], [], scaled(20))[0]
                else b""
            )
        finally:
            process.kill()
            os.close(reader)
    assert b"the reader of the output does not read" in said


def test_all_of_a_long_text_arrives():
    reader, terminal = pty.openpty()
    text = PROGRAM.partition("line =")[0] + "sys.stdout.write('x' * 100_000 + '.'); sys.exit(0)"
    with subprocess.Popen([sys.executable, "-c", text], stdout=terminal, stderr=subprocess.DEVNULL):
        os.close(terminal)
        found = b""
        while select.select([reader], [], [], scaled(20))[0]:
            try:
                found += os.read(reader, 1000)
            except OSError:  # the other end is closed
                break
    os.close(reader)
    assert found == b"x" * 100_000 + b"."
