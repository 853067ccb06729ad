"""The formats, as a reader of each sees them."""

import fcntl
import json
import os
import re
import struct
import termios
from contextlib import suppress

import pytest

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


def test_chosen_columns_are_rows_as_they_are_measured(cclmark, tmp_path):
    names = "size_bytes,placement,time_us,wrong"
    run = cclmark(*ARGUMENTS, "--columns", names, "--journal", "a.jsonl")
    (place,) = [
        place
        for place, line in enumerate(run.out.splitlines())
        if line.split() == ["size", "placement", "time", "µs", "wrong"]
    ]
    rows = [line.split() for line in run.out.splitlines()[place + 1 : place + 7]]
    assert [row[:3] for row in rows[::2]] == [[str(one), "B", "out-of-place"] for one in SIZES]
    assert {row[-1] for row in rows} == {"0"}
    assert "6 of 6 cases checked, 0 wrong" in run.out
    again = cclmark("export", "a.jsonl", "--format", "csv", "--columns", names).out.splitlines()
    assert again[0] == names
    assert [row.split(",")[0] for row in again[1::2]] == [str(one) for one in SIZES]


def test_tells_of_wrong_data(cclmark):
    """In one format: the golden texts of all have a wrong result."""
    run = cclmark(*ARGUMENTS, "--inject", "corrupt:rank=1,index=5", "-N", "2", code=1)
    assert "12 wrong" in run.out
    rows = [line.split() for line in run.out.splitlines() if "fp32" in line]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3, "the cycle of each"


def test_what_the_environment_hides_is_not_printed(cclmark):
    secrets = {"NCCL_SECRET_KEY": "hunter2", "MY_TOKEN": "hunter2", "NCCL_DEBUG": "VERSION"}
    run = cclmark(*ARGUMENTS, "--format", "json", env=secrets)
    assert json.loads(run.out)["header"]["environment"] == {"NCCL_DEBUG": "VERSION"}
    assert "hunter2" not in run.out + run.err + run.journal_path.read_text()


@pytest.mark.parametrize(("columns", "lines_per_size"), [(80, 2), (200, 1)])
def test_the_table_fits_the_terminal(cclmark, columns, lines_per_size):
    reading, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    cclmark(*ARGUMENTS, stdout=terminal, env={"COLUMNS": ""})
    os.close(terminal)
    shown = b""
    with suppress(OSError):  # what a terminal says at its end
        while chunk := os.read(reading, 1 << 16):
            shown += chunk
    os.close(reading)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    table = text.replace("\r", "").split("\n\n")[1].splitlines()
    assert max(map(len, table)) <= columns
    assert len([line for line in table if re.search(r"\d+\.\d\d", line)]) == 3 * lines_per_size
