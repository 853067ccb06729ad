"""Variables that launchers set for one start: not the user's settings, and useless to another run.

Some contain the job and its daemons, and one is a key. Settings that a user gives mpirun with
``-mca`` or ``-x`` reach its processes in the same way, and remain settings.
"""

from __future__ import annotations

_OPEN_MPI = "OMPI_MCA_"
# The frameworks of Open MPI 4 that start processes: none of them transports MPI messages.
_STARTING = (
    *("orte", "ess", "plm", "routed", "rmaps", "ras", "odls", "oob", "rml", "grpcomm", "iof"),
    *("errmgr", "filem", "state", "schizo", "regx", "rtc", "sstore", "snapc", "dfs", "notifier"),
    "pmix",
)
# Further variables that Open MPI 4 and 5 set in every process.
_TOLD = (
    *("PREFIXES", "initial_wdir", "num_procs", "cpu_type", "mpi_oversubscribe"),
    "shmem_RUNTIME_QUERY_hint",
)
# Variables by which processes of one start of cclmark find each other.
_OWN = ("CCLMARK_STEP", "CCLMARK_LAUNCHER", "CCLMARK_ADDRESS")


def is_of_one_start(name: str) -> bool:
    """Whether the variable ``name`` describes a single start of processes."""
    if name in _OWN:
        return True
    if not name.startswith(_OPEN_MPI):
        return False
    parameter = name.removeprefix(_OPEN_MPI)
    return parameter in _TOLD or parameter.partition("_")[0] in _STARTING
