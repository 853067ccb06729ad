"""The engine as a module of the interpreter, beside others that bring C++ libraries."""

import shutil
import subprocess

import pytest

from cclmark import _engine as engine


def test_nothing_but_the_entry_is_exported():
    """Else a module linked statically with the C++ library shares half of it with torch's or zmq's:
    streams that read no numbers, crashes in torch's start."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is not here")
    listed = subprocess.run(
        [nm, "-D", "--defined-only", engine.__file__], capture_output=True, text=True, check=True
    )
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["PyInit__engine"]
