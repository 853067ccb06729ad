"""``cclmark info``, the help and the version: quick answers that need no devices."""

import os
import re

import pytest

from cclmark import __version__
from cclmark.cli.commands import COMMANDS, GROUPS
from cclmark.cli.main import TOPICS
from commands import PROGRAM, completed, environment


def test_info_is_one_screen_with_alike_devices_once(cclmark, fake_cuda, without_torch):
    run = cclmark("info", env=fake_cuda.env() | without_torch)
    assert len(run.out.splitlines()) <= 24
    devices = run.out.partition("\nDevices ")[2].partition("\nLibraries ")[0]
    assert re.match(r"    cuda:0-3 +4 × ", devices)
    assert "PCI " not in devices
    for path in (fake_cuda.nccl, fake_cuda.nvrtc):
        assert str(path.resolve()) in run.out
    assert "runtime hip" in run.out.partition("Not found ")[2]
    assert "libamdhip64" not in run.out
    assert "libamdhip64" in cclmark("info", "--json", env=fake_cuda.env()).out


@pytest.mark.parametrize("command", ["info", "-h"])
def test_a_closed_pipe_ends_without_a_message(cclmark, command):
    reading, writing = os.pipe()
    os.close(reading)
    run = cclmark(command, stdout=writing, code=141)
    os.close(writing)
    assert run.err == ""


@pytest.mark.parametrize("columns", ["80", "200"])
def test_the_help_is_one_screen_with_every_command_and_topic(cclmark, columns):
    out = cclmark("-h", env={"COLUMNS": columns}).out
    assert out == cclmark("help", env={"COLUMNS": columns}).out
    for name in (*COMMANDS, *TOPICS):
        assert re.search(rf"[ ]{name}[\s,.]", out) is not None, name
    assert [title in out for title in GROUPS] == [True] * len(GROUPS)
    lines = out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= min(int(columns), 100)


def test_without_a_command_the_help_is_printed(cclmark):
    run = completed(PROGRAM, env=environment("", {}))
    assert (run.returncode, run.stderr) == (2, cclmark("-h").out)
    assert cclmark("--version").out == f"cclmark {__version__}\n"


def test_the_help_of_a_topic_is_one_screen(cclmark):
    for topic in TOPICS:
        assert topic not in COMMANDS
        lines = cclmark("help", topic).out.splitlines()
        assert len(lines) <= 40, topic
        assert max(map(len, lines)) <= 80, topic


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("sui", {"suite"}),
        ("tune --bud", {"--budget"}),
        ("explain all_", {"all_reduce", "all_gather"}),
        ("collectives --only reduce,ga", {"reduce,gather"}),
        ("all_reduce --format m", {"markdown"}),
        ("references s", {"show"}),
    ],
)
def test_the_tabulator_completes_commands_options_and_names(typed, found):
    words = ["cclmark", *typed.split()]
    asked = {"_CCLMARK_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words)}
    asked["COMP_CWORD"] = str(len(words) - 1)
    out = completed(PROGRAM, env=environment("", asked)).stdout
    assert {line.partition(",")[2] for line in out.splitlines()} == found


def test_bash_accepts_the_script_of_completion(cclmark):
    script = cclmark("completion", "bash").out
    bash = ["bash", "-c", f"{script}\ncomplete -p cclmark"]
    assert "_cclmark_completion" in completed(bash, check=True).stdout
