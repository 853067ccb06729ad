"""``cclmark settings``: what can be set in a library, and what is in effect."""

import json
import re
import shutil
from pathlib import Path

import pytest

from cclmark.work.library_settings import settings_of
from mpis import mpi_environment

OWN = Path(__file__).with_name("own_library.toml")


def settings_of_mpi(cclmark, env) -> dict:
    run = cclmark("settings", "--ccl", "mpi", "--format", "json", env=env)
    return {one["name"]: one for one in json.loads(run.out)["settings"]}


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
    found = settings_of_mpi(cclmark, mpi_environment(name))
    here = {key: one for key, one in found.items() if not one["absence"]}
    implementation = {"openmpi": "Open MPI", "mpich": "MPICH"}[name]
    expected = [one for one in settings_of("mpi") if one.implementation == implementation]
    assert {one["source"] for one in here.values()} == {"default"}
    assert {key: one["value"] for key, one in here.items()} == {
        one.name: one.default for one in expected
    }


def test_an_mpi_reports_what_it_reads_from_its_files(cclmark, tmp_path):
    (tmp_path / "params.conf").write_text("coll_tuned_priority = 31\n")
    env = {
        **mpi_environment("openmpi"),
        "OMPI_MCA_mca_base_param_files": str(tmp_path / "params.conf"),
        "OMPI_MCA_coll_tuned_bcast_algorithm": "5",
    }
    found = settings_of_mpi(cclmark, env)
    priority = found["OMPI_MCA_coll_tuned_priority"]
    assert (priority["value"], priority["source"]) == ("31", "library")
    bcast = found["OMPI_MCA_coll_tuned_bcast_algorithm"]
    assert (bcast["value"], bcast["source"]) == ("binary_tree", "environment")
