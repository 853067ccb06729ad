"""``cclmark settings``: what can be set in a library, and what is in effect."""

import json
import re

import pytest

from cclmark.work.libraries import shipped
from cclmark.work.library_settings import settings_of
from cclmark.work.setting_fields import LibrarySetting
from mpis import mpi_environment

OWN = """
name = "mine"
shape = "nccl"
devices = ["cuda"]
prefix = "mine"
files = ["libmine.so"]
[types]
float32 = 7
[reductions]
sum = 0
[inherits]
settings_of = "nccl"
[configuration]
variable = "MINE_FILE"
[[settings]]
name = "MINE_LEVEL"
effect = "The level."
form = "integer"
minimum = 1
maximum = 9
default = "5"
scope = "call"
deployed_by = ["environment", "program change"]
costs = ["host CPU"]
"""
NO_NCCL = {"CCLMARK_NCCL_LIBRARY": "/no/such/file"}
PLAIN = {"NCCL_CONF_FILE": "/no/such/nccl.conf"}  # not the user's own


def settings(run) -> dict:
    return {one["name"]: one for one in json.loads(run.out)["settings"]}


def rows(run) -> dict[str, list[str]]:
    """The cells of each setting's line of a table, by its name."""
    lines = [line for line in run.out.splitlines() if re.match("  [A-Z]+_", line)]
    return {cells[0]: cells[1:] for line in lines if (cells := [*filter(None, line.split("  "))])}


def test_table(cclmark, tmp_path):
    file = tmp_path / "own.conf"
    file.write_text("NCCL_CROSS_NIC=1\nNCCL_ALGO=Tree\n")
    env = {**NO_NCCL, "NCCL_CONF_FILE": str(file), "NCCL_ALGO": "Ring"}
    run = cclmark("settings", "--ccl", "nccl", env=env)
    table = {name: [cell.strip() for cell in cells] for name, cells in rows(run).items()}
    assert table["NCCL_ALGO"] == [
        "Ring",
        "environment",
        "new communicator",
        "-",
        "tuner plug-in, environment, configuration file",
    ]
    assert table["NCCL_CROSS_NIC"][:2] == ["1", str(file)]
    assert table["NCCL_MAX_CTAS"][:4] == ["not set", "default", "new process", "SMs"]
    assert len(table) == len(settings_of("nccl"))
    assert "Values: Ring, Tree, CollnetDirect" in " ".join(run.out.split())
    assert "its version is unknown" in run.err
    assert "\x1b" not in run.out
    assert run.written() == ["own.conf"]


def test_json(cclmark):
    run = cclmark("settings", "--ccl", "nccl", "--format", "json", env={**NO_NCCL, **PLAIN})
    document = json.loads(run.out)
    assert (document["library"], document["version"]) == ("nccl", "")
    fields = {*LibrarySetting.__struct_fields__, "value", "source", "absence"}
    assert all(set(one) == fields for one in document["settings"])
    assert settings(run)["NCCL_BUFFSIZE"]["value"] == "4194304"
    assert "NCCL_CONF_FILE=/no/such/nccl.conf: No such file" in run.err


def test_of_the_version_that_is_here(cclmark, fake_cuda):
    env = {**fake_cuda.env(old=True), **PLAIN}
    found = settings(cclmark("settings", "--format", "json", env=env))
    assert found["NCCL_WIN_ENABLE"]["absence"] == "since 2.27, this library is 2.18.5"
    assert found["NCCL_MAX_CTAS"]["absence"] == ""
    run = cclmark("settings", env=env)
    assert run.out.startswith("NCCL 2.18.5: ")
    assert "since 2.27, this library is 2.18.5: " in run.out.partition("Not in this library")[2]
    given = cclmark("settings", "--ccl", "nccl", "--ccl-path", str(fake_cuda.nccl), env=env)
    assert given.out.startswith("NCCL 2.28")


def test_the_default_is_the_library_of_the_devices(cclmark):
    run = cclmark("settings", env={"CCLMARK_CUDA_LIBRARY": "/nonexistent/libcuda.so.1"})
    assert run.out.startswith("shm: 2 settings, 0 of them changed\n")


def test_a_backend_of_torch(cclmark):
    run = cclmark("settings", "--ccl", "torch:nccl", "--format", "json", env=PLAIN)
    assert list(settings(run)) == [one.name for one in settings_of("nccl")]
    assert cclmark("settings", "--ccl", "torch:gloo").out.endswith("has no known settings.\n")


def test_a_library_of_ones_own(cclmark, tmp_path):
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "own.conf").write_text("MINE_LEVEL=7\x1b[31m\n")
    chosen = ("--ccl-file", "own.toml", "--ccl", "mine")
    env = {**PLAIN, "MINE_FILE": "own.conf"}
    run = cclmark("settings", *chosen, env=env)
    level = [cell.strip() for cell in rows(run)["MINE_LEVEL"]]
    assert level[1:] == ["own.conf", "next call", "host CPU", "environment, program change"]
    assert "\x1b" not in run.out
    run = cclmark("settings", *chosen, "--format", "json", "-O", "out.json", env=env)
    found = json.loads((tmp_path / "out.json").read_text())["settings"]
    assert found[0]["value"] == "7\x1b[31m"
    assert len(found) == 1 + len(settings_of("nccl"))


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_an_mpi_reports_its_own_values(cclmark, name):
    """Every default of the data is what the installed MPI has."""
    found = settings(
        cclmark("settings", "--ccl", "mpi", "--format", "json", env=mpi_environment(name))
    )
    here = {key: one for key, one in found.items() if not one["absence"]}
    implementation = {"openmpi": "Open MPI", "mpich": "MPICH"}[name]
    expected = [one for one in settings_of("mpi") if one.implementation == implementation]
    assert list(here) == [one.name for one in expected]
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
    found = settings(cclmark("settings", "--ccl", "mpi", "--format", "json", env=env))
    priority = found["OMPI_MCA_coll_tuned_priority"]
    assert (priority["value"], priority["source"]) == ("31", "library")
    bcast = found["OMPI_MCA_coll_tuned_bcast_algorithm"]
    assert (bcast["value"], bcast["source"]) == ("binary_tree", "environment")


def test_without_an_mpi_the_data_are_listed(cclmark, tmp_path):
    env = {"CCLMARK_MPIRUN": str(tmp_path / "mpirun")}
    run = cclmark("settings", "--ccl", "mpi", "--format", "json", env=env)
    assert len(settings(run)) == len(settings_of("mpi"))
    assert f"CCLMARK_MPIRUN={tmp_path}/mpirun: no such program: its version is unknown" in run.err


class TestMistakes:
    @pytest.mark.parametrize("name", ["nicl", "torch:", "nccl,shm"])
    def test_an_unknown_library(self, cclmark, name):
        run = cclmark("settings", "--ccl", name, code=2)
        assert f"unknown library '{name}': choose from {next(iter(shipped()))}" in run.err
        assert run.out == ""

    def test_a_file_for_a_library_without_one(self, cclmark):
        run = cclmark("settings", "--ccl", "shm", "--ccl-path", "x", code=2)
        assert "shm is not loaded from a file" in run.err
