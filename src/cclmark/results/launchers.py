"""Variables that launchers set for one start: no settings of the user, and no use to another run.

Some name the job and its daemons, and one is a key. What a user gives an mpirun with ``-mca`` or
``-x`` comes to its processes in the same way, and stays a setting.
"""

from __future__ import annotations

_OPEN_MPI = "OMPI_MCA_"
# The frameworks of Open MPI 4 that start processes: none of them moves the messages of MPI.
_STARTING = (
    *("orte", "ess", "plm", "routed", "rmaps", "ras", "odls", "oob", "rml", "grpcomm", "iof"),
    *("errmgr", "filem", "state", "schizo", "regx", "rtc", "sstore", "snapc", "dfs", "notifier"),
    "pmix",
)
# What Open MPI 4 and 5 tell every process besides.
_TOLD = (
    *("PREFIXES", "initial_wdir", "num_procs", "cpu_type", "mpi_oversubscribe"),
    "shmem_RUNTIME_QUERY_hint",
)
# How processes of one start of cclmark find each other.
_OWN = ("CCLMARK_STEP", "CCLMARK_LAUNCHER", "CCLMARK_ADDRESS")


def is_of_one_start(name: str) -> bool:
    """Whether the variable ``name`` says something of one start of processes alone."""
    if name in _OWN:
        return True
    if not name.startswith(_OPEN_MPI):
        return False
    parameter = name.removeprefix(_OPEN_MPI)
    return parameter in _TOLD or parameter.partition("_")[0] in _STARTING
