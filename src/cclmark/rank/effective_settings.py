"""The values of a library's settings on this machine: what a new process would use.

Those of an MPI are read through the MPI tool interface (MPI_T), whose arguments have the same
layout in all of them. No MPI reports which algorithm ran; Open MPI's and MPICH's variables report
which one is selected, if one is.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import cclmark._engine as engine
from cclmark.base.errors import MissingError
from cclmark.journal.setting_values import (
    DEFAULT,
    ENVIRONMENT,
    LIBRARY,
    SettingValue,
    read_configuration_files,
)
from cclmark.rank.engine_values import open_ccl
from cclmark.rank.locate import find_mpirun, wheel_files
from cclmark.work.libraries import MPI, library_called
from cclmark.work.library_settings import (
    absence_of,
    algorithm_settings,
    configuration_files_of,
    settings_of,
)
from cclmark.work.setting_fields import IMPLEMENTATIONS, LibrarySetting

_SINGLE = 0  # MPI_THREAD_SINGLE
_MOST_BYTES = 16 << 10
_MPICH_CHOICE = re.compile(r"^(\w+)\s+- ", re.MULTILINE)
_OPEN_MPI, _MPICH = IMPLEMENTATIONS
_OPEN_MPI_PREFIX = "OMPI_MCA_"
_DYNAMIC = "OMPI_MCA_coll_tuned_use_dynamic_rules"
_RULES_FILE = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
_OF_OPEN_MPI = "coll_base_verbose"  # a variable that any Open MPI has
_TUNED = "tuned"  # the component with these variables
_NONE = "ignore"  # the value of an algorithm's variable that selects none

#: The value of a variable as text, with the name of a numbered choice; None for an unknown one.
ReadVariable = Callable[[str], str | None]


@dataclass(frozen=True)
class Selected:
    """The algorithm that variables select for an operation, empty for none, and ``reason``.

    ``ignored``: for each setting that is made and has no effect, by its name in the environment,
    the reason.
    """

    algorithm: str
    reason: str
    ignored: Mapping[str, str] = field(default_factory=dict)


def tool_name(setting: str) -> str:
    """The name of a setting, an environment variable, in the tool interface."""
    return setting.removeprefix(_OPEN_MPI_PREFIX)


def selected_for(
    operation: str,
    read: ReadVariable,
    components: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Selected:
    """Which algorithm the variables that ``read`` returns select for an operation.

    ``components``: those of Open MPI that serve collectives, the highest priority first; empty if
    they are unknown.
    ``environment``: the environment variables, which ``read`` does not return while the component
    that has them is not loaded.
    """
    variables = {one.implementation: one.name for one in algorithm_settings(MPI, operation)}
    if not variables:
        return Selected("", f"MPI has no algorithm for {operation}: it consists of messages")
    if components or any(read(name) is not None for name in (tool_name(_DYNAMIC), _OF_OPEN_MPI)):
        return _OpenMpi(variables[_OPEN_MPI], read, components, environment or {}).selected()
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
        f"selected by {variable}={chosen}: MPICH does not report its algorithm, and with "
        f"{device}=1 (now {read(device)}) its device may run another algorithm",
    )


@dataclass(frozen=True)
class _OpenMpi:
    """What component tuned selects, see selected_for. ``setting``: the algorithm's variable."""

    setting: str
    read: ReadVariable
    components: Sequence[str]
    environment: Mapping[str, str]

    def selected(self) -> Selected:
        variable, rules = tool_name(self.setting), tool_name(_DYNAMIC)
        chosen = self._value(self.setting) or _NONE
        file = self._value(_RULES_FILE) or ""
        made = [
            *([self.setting] if chosen != _NONE else []),
            *([_RULES_FILE] if file else []),
        ]
        if not self._has_tuned():
            return self._without_effect(made, "Open MPI does not use its component tuned")
        if self._value(_DYNAMIC) != "true" and made:
            return self._without_effect(made, f"it requires {rules}=true")
        if chosen != _NONE:
            return Selected(
                chosen,
                f"selected by {variable}={chosen} for Open MPI's component tuned: Open MPI does "
                f"not report its algorithm, and another component may serve the "
                f"operation{self._served}",
            )
        if not file:
            return self._unknown(f"{rules}=true and {variable} select one")
        if not os.access(file, os.R_OK):
            return self._without_effect(
                made, "the file cannot be read, and Open MPI ignores it without a message"
            )
        return self._unknown(f"the rules in {file} select it where they contain the operation")

    def _has_tuned(self) -> bool:
        """Whether the component serves collectives, or is loaded if the components are unknown."""
        if self.components:
            return _TUNED in self.components
        return self.read(tool_name(_DYNAMIC)) is not None

    def _value(self, setting: str) -> str | None:
        """The value of a variable, from the environment while its component is not loaded."""
        found = self.read(tool_name(setting))
        return self.environment.get(setting) if found is None else found

    @property
    def _served(self) -> str:
        listed = ", ".join(self.components)
        return f" (components by priority: {listed})" if listed else ""

    def _unknown(self, what: str) -> Selected:
        unknown = f"Open MPI does not report which algorithm ran{self._served}"
        return Selected("", f"{unknown}; {what}" if what else unknown)

    def _without_effect(self, settings: Sequence[str], why: str) -> Selected:
        parts = [f"{tool_name(one)}={self._value(one)} has no effect" for one in settings]
        found = self._unknown(f"{' and '.join(parts)}: {why}" if parts else why)
        return Selected("", found.reason, dict.fromkeys(settings, why))


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
        """See ReadVariable."""
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


#: The value of a setting's variable in the library itself, None for a variable that it lacks.
ReadSetting = Callable[[LibrarySetting], str | None]


@dataclass(frozen=True)
class FoundLibrary:
    """The version of a library's file; empty for none, with the ``reason`` if one is expected."""

    version: str
    reason: str = ""


def find_library(ccl: str, ccl_path: str) -> FoundLibrary:
    """Loads the library, or the file ``ccl_path``. Raises MissingError if it cannot be loaded."""
    library = library_called(ccl)
    if library is None or not library.is_loaded:
        return FoundLibrary("")
    try:
        files = find_mpirun().libraries if ccl == MPI and not ccl_path else wheel_files(ccl)
        return FoundLibrary(open_ccl(ccl, ccl_path, files).info.version)
    except (engine.EngineError, MissingError) as error:
        if ccl_path:
            raise MissingError(f"--ccl-path: {error}") from None
        return FoundLibrary("", str(error))


def read_mpi() -> ReadSetting | None:
    """Reads variables through the tool interface of the MPI that find_library has loaded.

    Returns None if it has none. It stays in use until the process ends.
    """
    try:
        variables = MpiVariables()
    except (AttributeError, OSError):
        return None
    return lambda setting: variables.read(tool_name(setting.name))


def effective_values(
    ccl: str, version: str, environment: Mapping[str, str], read: ReadSetting | None = None
) -> tuple[list[SettingValue], list[str]]:
    """The library's settings with their values, and notices about files that cannot be read.

    ``version``: the library's own text about its version, empty if it is unknown.
    """
    files, notices = read_configuration_files(configuration_files_of(ccl), environment)
    values = [_value(one, version, environment, files, read) for one in settings_of(ccl)]
    return values, notices


def _value(
    setting: LibrarySetting,
    version: str,
    environment: Mapping[str, str],
    files: Sequence[tuple[str, Mapping[str, str]]],
    read: ReadSetting | None,
) -> SettingValue:
    if absence := absence_of(setting, version):
        return SettingValue(setting, "", "", absence)
    value, source = setting.default, DEFAULT
    for origin, variables in ((ENVIRONMENT, environment), *files):
        if setting.name in variables:
            value, source = variables[setting.name], origin
            break
    if read is not None:
        own = read(setting)
        if own is None:
            return SettingValue(setting, "", "", "unknown to this library")
        if own != value and source != ENVIRONMENT:
            source = DEFAULT if own == setting.default else LIBRARY
        value = own
    return SettingValue(setting, value, source)
