"""``cclmark settings``: what can be set in a library, and what is in effect."""

import json
import re
import shutil
from pathlib import Path

import pytest

from cclmark.work.library_settings import settings_of
from mpis import mpi_environment

OWN = Path(__file__).with_name("own_library.toml")


def test_a_library_of_ones_own(cclmark, tmp_path):
    shutil.copy(OWN, tmp_path / "own.toml")
    (tmp_path / "own.conf").write_text("MINE_LEVEL=7\x1b[31m\n")
    chosen = ("--ccl-file", "own.toml", "--ccl", "mine")
    env = {"NCCL_CONF_FILE": "/no/such/nccl.conf", "MINE_FILE": "own.conf"}
    run = cclmark("settings", *chosen, env=env)
    cells = " +".join(["own.conf", "next call", "host CPU", "environment, program change"])
    assert re.search(f"^  MINE_LEVEL .* {cells}$", run.out, re.MULTILINE)
    assert "\x1b" not in run.out
    run = cclmark("settings", *chosen, "--format", "json", "-O", "out.json", env=env)
    found = json.loads((tmp_path / "out.json").read_text())["settings"]
    assert found[0]["value"] == "7\x1b[31m"
    assert len(found) == 1 + len(settings_of("nccl"))


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_an_mpi_reports_its_own_values(cclmark, name):
    """Every default of the data is what the installed MPI has."""
    run = cclmark("settings", "--ccl", "mpi", "--format", "json", env=mpi_environment(name))
    here = [one for one in json.loads(run.out)["settings"] if not one["absence"]]
    implementation = {"openmpi": "Open MPI", "mpich": "MPICH"}[name]
    expected = [one for one in settings_of("mpi") if one.implementation == implementation]
    assert {one["source"] for one in here} == {"default"}
    found = {one["name"]: one["value"] for one in here}
    assert found == {one.name: one.default for one in expected}


@pytest.mark.parametrize("library", ["nccl", "flagcx"])
def test_names_are_never_broken(cclmark, library):
    out = cclmark("settings", "--ccl", library, env={"COLUMNS": "100"}).out
    assert {one.name for one in settings_of(library)} <= set(out.split())
    assert max(map(len, out.splitlines())) <= 100
    assert out.count("  setting ") == 1
