"""What commands would measure: also in ``scenarios/runs.txt``."""

import pytest

HOSTS = ("--devices", "host:2")
SIZES = ("-b", "1K", "-e", "4K", "-f", "4")
COMMANDS = {
    "all_reduce": (*HOSTS, *SIZES),
    "memory all_reduce": HOSTS,
    "overlap all_reduce": HOSTS,
    "experiment all_reduce": (*HOSTS, "--vary", "CCLMARK_SHM_INLINE_BYTES=0,4096", "-b", "1K"),
    "p2p": HOSTS,
    "torch check": ("--backend", "gloo", *HOSTS),
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
