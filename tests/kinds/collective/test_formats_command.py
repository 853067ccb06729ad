"""The formats as a reader of each sees them, and ``--like``: the method of another program."""

import fcntl
import json
import os
import re
import struct
import termios
from contextlib import suppress

import pytest

from cclmark.kinds.collective.command import CollectivesFlags, OperationFlags
from cclmark.options.types import OTHER_PROGRAMS

ARGUMENTS = (
    *("all_reduce", "--devices", "host:2", "-b", "64", "-e", "256"),
    *("-n", "2", "-w", "1"),
)


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


LIKE = ("all_reduce", "--like", "all_reduce_bench", "--devices", "host:2")
ROW = re.compile(
    r" +(\d+) KiB +\d+ +fp32 +sum +- +[\d.]+ +([\d.]+) +([\d.]+) .* ([\d.]+) +([\d.]+)$"
)


def test_the_method_the_sizes_and_the_gigabits_of_all_reduce_bench(cclmark):
    run = cclmark(*LIKE, "-e", "64K")
    settings = run.journal.header.settings
    assert (settings.begin_bytes, settings.factor) == (32 << 10, 2)
    assert (settings.iterations, settings.warmup) == (5, 2)
    assert (settings.timing, settings.barrier, settings.cache) == ("blocking", "library", "warm")
    assert settings.across_ranks == "mean"
    results = run.journal.results
    sizes = [(one.case.size_bytes >> 10, one.case.in_place) for one in results]
    assert sizes == [(32, True), (64, True)]
    rows = [found for line in run.out.splitlines() if (found := ROW.match(line))]
    assert [found[1] for found in rows] == ["32", "64"]
    for found, one in zip(rows, results, strict=True):
        assert len(one.samples.host_s) == 5
        assert one.samples.operations_per_sample == 1
        rates = (one.summary.algbw_bytes_per_s, one.summary.busbw_bytes_per_s)
        assert [found[4], found[5]] == [f"{rate * 8 / 1e9:.1f}" for rate in rates]
    assert "Gbps" not in cclmark("all_reduce", "--devices", "host:2", "-e", "8", "-n", "1").out


@pytest.mark.parametrize("flags", [OperationFlags, CollectivesFlags])
@pytest.mark.parametrize("name", OTHER_PROGRAMS)
def test_every_default_is_of_an_option(name, flags):
    assert set(OTHER_PROGRAMS[name].defaults) <= set(flags.__dataclass_fields__)
