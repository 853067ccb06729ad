"""What processes that explain cases need: the plug-ins of the user, which cclmark's loads too."""

from __future__ import annotations

import filecmp
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cclmark.base.errors import MissingError
from cclmark.base.printable import plain
from cclmark.explain.plugin_log import plugin_path
from cclmark.work.libraries import MPI

#: The variable of the plug-in with the path of a tuner table.
TABLE_VARIABLE = "CCLMARK_TUNER_TABLE"


@dataclass(frozen=True)
class PluginVariables:
    """The variables of a kind of plug-in: NCCL's, and the one that cclmark's plug-in reads."""

    kind: str
    nccl: str
    other: str


VARIABLES = (
    PluginVariables("profiler", "NCCL_PROFILER_PLUGIN", "CCLMARK_PLUGIN_PROFILER"),
    PluginVariables("tuner", "NCCL_TUNER_PLUGIN", "CCLMARK_PLUGIN_TUNER"),
)


def chained(environ: Mapping[str, str], own: Path) -> dict[str, str]:
    """The variables by which NCCL loads the plug-in ``own``, and that one the plug-ins of the user.

    A plug-in that is not set stays so: cclmark's plug-in searches the one that NCCL loads then.
    """
    found = {}
    for variables in VARIABLES:
        found[variables.nccl] = str(own)
        value = environ.get(variables.nccl, "")
        if value and not _is_same_file(value, own):
            found[variables.other] = value
    return found


def chaining_notices(environ: Mapping[str, str]) -> list[str]:
    """Notices for the user on other plug-ins that are loaded too while cases are explained."""
    try:
        loaded = chained(environ, plugin_path())
    except MissingError:
        return []
    notices = [
        f"another {one.kind} plug-in is set ({one.nccl}={plain(loaded[one.other])}): it is loaded "
        "too while the cases are explained"
        for one in VARIABLES
        if loaded.get(one.other, "none").lower() != "none"
    ]
    if environ.get(TABLE_VARIABLE) and not is_own_tuner(environ, plugin_path()):
        notices.append(
            f"{TABLE_VARIABLE} has no effect, because NCCL_TUNER_PLUGIN is not cclmark's plug-in: "
            'set NCCL_TUNER_PLUGIN="$(cclmark plugin)"'
        )
    return notices


def is_own_tuner(environ: Mapping[str, str], own: Path) -> bool:
    """Whether NCCL loads cclmark's plug-in ``own``, or a copy of it, as its tuner."""
    return _is_same_file(environ.get("NCCL_TUNER_PLUGIN", ""), own)


def _is_same_file(name: str, own: Path) -> bool:
    try:
        return filecmp.cmp(name, own, shallow=False)
    except OSError:  # a name that the loader searches
        return False


def without_second_process(ccl: str) -> str:
    """The reason for a case of the library ``ccl``, and what to do."""
    alone = "" if ccl == MPI else f", or {ccl} alone"
    return (
        f"what {ccl} does is observed by a second process for each rank, which the MPI of this "
        f"launcher does not support: run without the launcher{alone}"
    )
