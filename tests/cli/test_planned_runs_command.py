"""What commands would measure, and runs that print results alone."""

import re

import pytest

HOSTS = ("--devices", "host:2")
SIZES = ("-b", "1K", "-e", "4K", "-f", "4")
COMMANDS = {
    "all_reduce": (*HOSTS, *SIZES),
    "collectives": (*HOSTS, *SIZES),
    "explain all_reduce": (*HOSTS, *SIZES),
    "memory all_reduce": HOSTS,
    "overlap all_reduce": HOSTS,
    "experiment all_reduce": (*HOSTS, "--vary", "CCLMARK_SHM_INLINE_BYTES=0,4096", "-b", "1K"),
    "p2p": HOSTS,
    "pairs": (*HOSTS, *SIZES),
    "torch check": ("--backend", "gloo", *HOSTS),
    "torch objects": ("--backend", "gloo", *HOSTS),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_dry_run_lists_what_would_be_measured(cclmark, name):
    run = cclmark(*name.split(), *COMMANDS[name], "--dry-run")
    first, *items = run.out.splitlines()
    number, words = first.split(" ", 1)
    assert words.startswith("case")
    assert len(items) == int(number) >= 2
    assert run.err == ""
    assert run.written() == []


def test_a_dry_run_tells_how_long_it_takes_at_most(cclmark):
    timed = cclmark("all_reduce", *HOSTS, *SIZES, "--dry-run", "--max-time", "30").out
    assert timed.startswith(
        "4 cases; each is measured for at most 30 s, all of them for at most 2:00\n"
    )
    cycled = cclmark("all_reduce", *HOSTS, *SIZES, "--dry-run", "--cycles", "3", "-n", "5").out
    assert cycled.startswith("4 cases in each of 3 cycles; how long each takes depends on the ")
    endless = cclmark("all_reduce", *HOSTS, *SIZES, "--dry-run", "--cycles", "0").out
    assert endless.startswith("4 cases again and again, without end; each is measured for at most ")


def test_a_dry_run_of_adaptive_commands_tells_what_is_tried(cclmark, fake_cuda, tmp_path):
    tuned = cclmark(
        "tune",
        "all_reduce",
        *("-b", "1K", "-e", "4K", "--budget", "90"),
        "--dry-run",
        env=fake_cuda.env(TMPDIR=str(tmp_path)),
    )
    assert tuned.out.startswith("searches settings for all_reduce, and proves them in 7 rounds")
    assert "within 1:30 (--budget)" in tuned.out
    assert "  all_reduce: 1 KiB, 4 KiB; in the proof 3 sizes" in tuned.out
    words = ("--bisect", "CCLMARK_SHM_INLINE_BYTES=0:1024")
    found = cclmark("experiment", "all_reduce", *HOSTS, "-b", "1K", *words, "--dry-run")
    assert found.out.startswith("bisects CCLMARK_SHM_INLINE_BYTES among ")
    assert tuned.written() == found.written() == []


def test_a_quiet_run_prints_results_alone(cclmark):
    words = ("all_reduce", *HOSTS, *SIZES, "--max-time", "0.02")
    every = {"CCLMARK_PROGRESS_S": "0.000001"}
    told = cclmark(*words, env=every)
    assert re.search(r"^cclmark: \d+:\d\d  ", told.err, re.MULTILINE)
    assert "cclmark: journal " in told.err
    quiet = cclmark(*words, "--quiet", env=every)
    assert quiet.err == ""
    assert "verdict" in quiet.out
