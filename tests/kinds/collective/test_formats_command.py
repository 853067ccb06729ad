"""The formats, as a reader of each sees them."""

import fcntl
import json
import os
import re
import struct
import termios
from contextlib import suppress

from cclmark.journal.schema import SCHEMA_VERSION

ARGUMENTS = (
    *("all_reduce", "--devices", "host:2", "-b", "64", "-e", "256"),
    *("-n", "2", "-w", "1"),
)
SIZES = [64, 128, 256]


def read_json(text):
    document = json.loads(text)
    assert document["header"]["schema_version"] == SCHEMA_VERSION
    assert document["footer"]["exit_code"] == 0
    assert all(len(case["samples"]["host_s"][0]) == 2 for case in document["cases"])
    return [case["case"]["size_bytes"] for case in document["cases"]][::2]


def test_prints_to_a_file(cclmark, tmp_path):
    run = cclmark(*ARGUMENTS, "--format", "json", "-O", "out.txt")
    assert run.out == ""
    assert read_json((tmp_path / "out.txt").read_text()) == SIZES


def test_what_the_environment_hides_is_not_printed(cclmark):
    secrets = {"NCCL_SECRET_KEY": "hunter2", "MY_TOKEN": "hunter2", "NCCL_DEBUG": "VERSION"}
    run = cclmark(*ARGUMENTS, "--format", "json", env=secrets)
    assert json.loads(run.out)["header"]["environment"] == {"NCCL_DEBUG": "VERSION"}
    assert "hunter2" not in run.out + run.err + run.journal_path.read_text()


def test_the_table_fits_the_terminal(cclmark):
    reading, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    cclmark(*ARGUMENTS, stdout=terminal, env={"COLUMNS": ""})
    os.close(terminal)
    shown = b""
    with suppress(OSError):  # what a terminal says at its end
        while chunk := os.read(reading, 1 << 16):
            shown += chunk
    os.close(reading)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    table = text.replace("\r", "").split("\n\n")[1].splitlines()
    assert max(map(len, table)) <= 80
    assert len([line for line in table if re.search(r"\d+\.\d\d", line)]) == 3 * 2
