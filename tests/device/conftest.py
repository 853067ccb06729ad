"""What tests on real accelerators share."""

import json
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def device_count():
    """The number of accelerators of this machine."""
    command = [sys.executable, "-m", "cclmark", "info", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True)
    return sum(device["runtime"] != "host" for device in json.loads(done.stdout)["devices"])


@pytest.fixture
def two_devices(device_count):
    """Skips the test on a machine with fewer than two accelerators."""
    if device_count < 2:
        pytest.skip(f"requires two accelerators, but this machine has {device_count}")
