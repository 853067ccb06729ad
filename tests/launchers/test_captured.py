"""`environments.json` is what the launchers on this machine tell their processes."""

import json
import shutil
from ctypes.util import find_library

import capture
import pytest

# What a launcher tells of the place of a process. Open MPI's local ranks depend on how many
# processors there are: with too few of them they do not follow the ranks.
_PLACE = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
    *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    *("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMIX_RANK"),
    *("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NODELIST"),
)
CAPTURED = json.loads(capture.CAPTURED.read_text())


def places(tasks):
    """Where each process is, and which variables it has, in an order of their own."""
    return sorted(
        (
            task["hostname"],
            *((name, task["environment"].get(name, "")) for name in _PLACE),
            *sorted(task["environment"]),
        )
        for task in tasks
    )


# One of each launcher: the others set no variables that depend on more than its version.
TRIED = (
    *("none", "srun-2-nodes", "srun-pmi2", "srun-pmix", "sbatch", "salloc-srun", "openmpi"),
    *("openmpi-2-hosts", "openmpi-4", "mpich", "srun-torchrun"),
)


@pytest.mark.parametrize("name", TRIED)
@pytest.mark.usefixtures("torch")
def test_what_is_captured_is_still_told(name, hosts, slurm_on_hosts, tmp_path):
    launcher = capture.launchers(hosts)[name]
    for program in launcher.command[:1]:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if name == "srun-pmix" and find_library("pmix") is None:
        pytest.skip("Slurm's PMIx needs a libpmix, and none is installed")
    tasks = capture.taken(launcher, hosts, slurm_on_hosts, tmp_path)
    assert places(tasks) == places(CAPTURED[name]["tasks"])


def test_nothing_of_the_machine_is_in_the_file():
    text = capture.CAPTURED.read_text()
    assert "/tmp" not in text
    assert "/root" not in text
    assert str(capture.HERE) not in text
