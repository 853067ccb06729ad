"""The values of a library's settings on this machine: what a new process would use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cclmark import _engine as engine
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
from cclmark.rank.mpi_variables import MpiVariables, tool_name
from cclmark.work.libraries import MPI, library_called
from cclmark.work.library_settings import absence_of, configuration_files_of, settings_of
from cclmark.work.setting_fields import LibrarySetting

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
