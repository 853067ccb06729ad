"""The variables of an MPI that select its algorithms, read through the MPI tool interface (MPI_T).

No MPI reports which algorithm ran. Open MPI's and MPICH's variables report which one is selected,
if one is. The arguments of MPI_T have the same layout in all of them.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cclmark.plan.libraries import MPI
from cclmark.plan.library_settings import algorithm_settings
from cclmark.plan.setting_fields import IMPLEMENTATIONS

_SINGLE = 0  # MPI_THREAD_SINGLE
_MOST_BYTES = 16 << 10
_MPICH_CHOICE = re.compile(r"^(\w+)\s+- ", re.MULTILINE)
_OPEN_MPI, _MPICH = IMPLEMENTATIONS
_OPEN_MPI_PREFIX = "OMPI_MCA_"

#: The value of a variable as text, with the name of a numbered choice; None for an unknown one.
Read = Callable[[str], str | None]


@dataclass(frozen=True)
class Selected:
    """The algorithm that variables select for an operation, empty for none, and ``reason``."""

    algorithm: str
    reason: str


def tool_name(setting: str) -> str:
    """The name of a setting, an environment variable, in the tool interface."""
    return setting.removeprefix(_OPEN_MPI_PREFIX)


def selected_for(operation: str, read: Read, components: Sequence[str] = ()) -> Selected:
    """Which algorithm the variables that ``read`` returns select for an operation.

    ``components``: those of Open MPI that serve collectives, the highest priority first.
    """
    variables = {one.implementation: one.name for one in algorithm_settings(MPI, operation)}
    if not variables:
        return Selected("", f"MPI has no algorithm for {operation}: it consists of messages")
    dynamic = read("coll_tuned_use_dynamic_rules")
    if dynamic is not None:
        served = f" (components by priority: {', '.join(components)})" if components else ""
        return _by_open_mpi(tool_name(variables[_OPEN_MPI]), dynamic == "true", served, read)
    variable = variables[_MPICH]
    chosen = read(variable)
    if chosen is None:
        return Selected("", f"this MPI has no known variable for the algorithm of {operation}")
    device = variable.replace("_INTRA_ALGORITHM", "_DEVICE_COLLECTIVE")
    if chosen == "auto":
        return Selected(
            "",
            f"MPICH does not report which algorithm ran ({variable}=auto, {device}={read(device)})",
        )
    return Selected(
        chosen,
        f"selected by {variable}={chosen}: MPICH does not report what ran, and with {device}=1 "
        f"(now {read(device)}) its device may run another algorithm",
    )


def _by_open_mpi(variable: str, dynamic: bool, served: str, read: Read) -> Selected:
    chosen = read(variable) or "ignore"
    unknown = f"Open MPI does not report which algorithm ran{served}"
    rules = "coll_tuned_use_dynamic_rules"
    if dynamic and chosen != "ignore":
        return Selected(
            chosen,
            f"selected by {variable}={chosen} for Open MPI's component tuned: Open MPI does not "
            f"report what ran, and another component may serve the operation{served}",
        )
    if chosen != "ignore":
        return Selected("", f"{unknown}; {variable}={chosen} has no effect without {rules}=true")
    if dynamic and (file := read("coll_tuned_dynamic_rules_filename")):
        return Selected("", f"{unknown}; the rules in {file} select it")
    return Selected("", f"{unknown}; {rules}=true and {variable} select one")


class MpiVariables:
    """The variables of the MPI that this process has loaded for all its symbols."""

    def __init__(self) -> None:
        """Raises AttributeError if there is no MPI with this interface, OSError if it fails."""
        self._mpi = ctypes.CDLL(None)
        provided = ctypes.c_int()
        if self._mpi.MPI_T_init_thread(_SINGLE, ctypes.byref(provided)) != 0:
            raise OSError("MPI_T_init_thread failed")

    def close(self) -> None:
        """Ends the use of the interface."""
        self._mpi.MPI_T_finalize()

    def read(self, name: str) -> str | None:
        """See Read."""
        index, count = ctypes.c_int(), ctypes.c_int()
        if self._mpi.MPI_T_cvar_get_index(name.encode(), ctypes.byref(index)) != 0:
            return None
        handle = ctypes.c_void_p()
        if self._mpi.MPI_T_cvar_handle_alloc(
            index, None, ctypes.byref(handle), ctypes.byref(count)
        ):
            return None
        content = ctypes.create_string_buffer(_MOST_BYTES)
        failed = count.value >= _MOST_BYTES or self._mpi.MPI_T_cvar_read(handle, content)
        self._mpi.MPI_T_cvar_handle_free(ctypes.byref(handle))
        if failed:
            return None
        if count.value > 1:
            return content.value.decode(errors="replace")
        value = ctypes.c_int.from_buffer(content).value
        return self._names(index).get(value, str(value))

    def _names(self, index: ctypes.c_int) -> dict[int, str]:
        """The names of a variable's values: an enumeration, or lines of MPICH's description."""
        name, description = (ctypes.create_string_buffer(_MOST_BYTES) for _ in range(2))
        lengths = [ctypes.c_int(_MOST_BYTES) for _ in range(2)]
        datatype, enumeration = ctypes.c_void_p(), ctypes.c_void_p()
        others = [ctypes.c_int() for _ in range(3)]  # verbosity, binding and scope
        if self._mpi.MPI_T_cvar_get_info(
            *(index, name, ctypes.byref(lengths[0]), ctypes.byref(others[0])),
            *(ctypes.byref(datatype), ctypes.byref(enumeration)),
            *(description, ctypes.byref(lengths[1])),
            *(ctypes.byref(others[1]), ctypes.byref(others[2])),
        ):
            return {}
        if enumeration:
            return self._items(enumeration)
        return dict(enumerate(_MPICH_CHOICE.findall(description.value.decode(errors="replace"))))

    def _items(self, enumeration: ctypes.c_void_p) -> dict[int, str]:
        number = ctypes.c_int()
        text = ctypes.create_string_buffer(_MOST_BYTES)
        length = ctypes.c_int(_MOST_BYTES)
        if self._mpi.MPI_T_enum_get_info(
            enumeration, ctypes.byref(number), text, ctypes.byref(length)
        ):
            return {}
        found = {}
        for place in range(number.value):
            value, length = ctypes.c_int(), ctypes.c_int(_MOST_BYTES)
            failed = self._mpi.MPI_T_enum_get_item(
                *(enumeration, place, ctypes.byref(value), text, ctypes.byref(length))
            )
            if not failed:
                found[value.value] = text.value.decode(errors="replace")
        return found
