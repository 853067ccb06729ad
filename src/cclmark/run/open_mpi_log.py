"""Open MPI's report of the components that serve the collectives of all ranks.

Open MPI writes it when it starts, to the file descriptor of its messages.
"""

from __future__ import annotations

import os
import re

_DESTINATION = "OPAL_OUTPUT_STDERR_FD"
_VERBOSITY = "OMPI_MCA_coll_base_verbose"
_MOST_BYTES = 1 << 20
_COMMUNICATOR = re.compile(r"comm_select: new communicator: (\S+)")
_SELECTED = re.compile(r"comm_select: selecting +(\w+), priority +(\d+), Enabled")


class OpenMpiLog:
    """The messages of Open MPI in this process; created before it starts."""

    def __init__(self) -> None:
        """Sets the environment variables that Open MPI reads when it starts."""
        self._file = os.memfd_create("Open MPI's messages")
        os.environ[_DESTINATION] = str(self._file)
        os.environ[_VERBOSITY] = "10"

    def components(self) -> list[str]:
        """The components of MPI_COMM_WORLD, the highest priority first; empty for another MPI."""
        text = os.pread(self._file, _MOST_BYTES, 0).decode(errors="replace")
        return components_in(text)


def components_in(text: str) -> list[str]:
    """As OpenMpiLog.components, from the lines of the messages."""
    found: list[tuple[int, str]] = []
    of_world = False
    for line in text.splitlines():
        if began := _COMMUNICATOR.search(line):
            of_world = began[1] == "MPI_COMM_WORLD"
        elif of_world and (selected := _SELECTED.search(line)):
            found.append((int(selected[2]), selected[1]))
    return [name for _, name in sorted(found, key=lambda one: -one[0])]
