"""What tests on real accelerators share."""

import json
import sys

import pytest

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
