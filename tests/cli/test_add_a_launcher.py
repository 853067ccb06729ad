"""docs/extend/add-a-launcher.md, applied to a copy of the package."""

import os
import re
import subprocess
import sys

import pytest

from cclmark.kinds.registry import read_journal
from extending import blocks_of, copy_of_package
from patience import scaled
from places import REPOSITORY

PAGE = REPOSITORY / "docs" / "extend" / "add-a-launcher.md"
TABLE = "# In order of precedence, inner launchers first"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    files = re.findall(r"^## \d\. .*`([^`]+)`$", PAGE.read_text(), re.MULTILINE)
    assert len(files) <= 3
    assert all((REPOSITORY / file).is_file() for file in files)
    root = copy_of_package(tmp_path_factory.mktemp("extended"))
    [(path, (function, row))] = blocks_of(PAGE)
    file = root / path.removeprefix("src/")
    text = file.read_text()
    assert text.count(TABLE) == 1
    text = text.replace(TABLE, f"{function}\n\n{TABLE}")
    file.write_text(
        text.replace('    "torchrun": _torchrun,\n', f'    "torchrun": _torchrun,\n{row}')
    )
    return root


def test_processes_of_the_new_launcher_measure_together(package, tmp_path):
    def start(rank):
        own = {"JSM_NAMESPACE_RANK": str(rank), "JSM_NAMESPACE_SIZE": "2"}
        local = {"JSM_NAMESPACE_LOCAL_RANK": str(rank), "JSM_NAMESPACE_LOCAL_SIZE": "2"}
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "cclmark", "all_reduce", "--devices", "host"),
                *("-b", "8", "-e", "8", "-n", "1", "-w", "0", "--journal", "run.jsonl"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(package), "LSB_JOBID": "7", **own, **local},
        )

    processes = [start(rank) for rank in range(2)]
    ended = [process.communicate(timeout=scaled(60)) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ended
    journal = read_journal(tmp_path / "run.jsonl")
    assert len(journal.header.devices) == 2
    assert {result.status for result in journal.results} == {"ok"}
