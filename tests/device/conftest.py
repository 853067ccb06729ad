"""What tests on real accelerators share."""

import json
import os
import sys
import time

import pytest

from cclmark.kinds.registry import read_journal
from commands import completed


@pytest.fixture(scope="session")
def device_count():
    """The number of accelerators of this machine."""
    command = [sys.executable, "-m", "cclmark", "info", "--json"]
    done = completed(command, timeout_s=110, check=True)
    return sum(device["runtime"] != "host" for device in json.loads(done.stdout)["devices"])


@pytest.fixture
def two_devices(device_count):
    """Skips the test on a machine with fewer than two accelerators."""
    if device_count < 2:
        pytest.skip(f"requires two accelerators, but this machine has {device_count}")


@pytest.fixture
def measured(tmp_path):
    """Runs the program to its end, which has to have this code: its output and its journal."""

    def run(*arguments, code=0, environment=None):
        journal = tmp_path / f"{time.monotonic_ns()}.jsonl"
        done = completed(
            [sys.executable, "-m", "cclmark", *map(str, arguments), "--journal", str(journal)],
            timeout_s=300,
            cwd=tmp_path,
            env={**os.environ, **(environment or {})},
        )
        if done.returncode == 3 and "cuBLASLt" in done.stderr:
            pytest.skip("requires cuBLASLt")
        assert done.returncode == code, done.stderr
        return done, read_journal(journal)

    return run
