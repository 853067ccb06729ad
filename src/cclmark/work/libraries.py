"""The collective libraries of ``--ccl``: the ones shipped with cclmark and a user's own.

Each library is described by a file in ``cclmark/libraries`` or by a user's file (``--ccl-file``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from cclmark.base.errors import UsageError
from cclmark.base.files import shipped_toml_files
from cclmark.work.library_files import Library, Log, parse_library, read_library
from cclmark.work.runtimes import RUNTIMES
from cclmark.work.setting_fields import LibrarySetting

BRIDGE = "bridge"
MPI = "mpi"
#: What ``--memory`` can be, besides AUTO_MEMORY: the runtime's allocator, the library's, physical
#: memory that is mapped, and torch's allocator.
MEMORY_KINDS = ("plain", "library", "vmm", "torch")
AUTO_MEMORY = "auto"
#: The capability of a torch backend that uses only buffers of torch.
OWN_MEMORY = "own memory"
_TORCH = "torch"
# Names in variables CCLMARK_..._LIBRARY that do not belong to a collective library.
_OTHER_FILES = ("nvrtc", "ascendcl", *RUNTIMES)

# The settings are the last part of a shipped file.
_SETTINGS = b"\n[[settings]]\n"

_added: dict[str, Library] = {}


@cache
def shipped() -> dict[str, Library]:
    """The libraries shipped with cclmark by name, in the order of listings.

    Without their settings, see listed_settings: every rank and every command reads the files, and
    most of their text describes settings.
    """
    found = [
        parse_library(path.read_bytes().partition(_SETTINGS)[0], path.name)
        for path in shipped_toml_files("libraries")
    ]
    return {library.name: library for library in sorted(found, key=lambda one: one.place)}


@cache
def _shipped_settings(name: str) -> list[LibrarySetting]:
    """The settings in the shipped file of a library."""
    stem = name.replace(":", "-")
    (path,) = (path for path in shipped_toml_files("libraries") if path.stem == stem)
    return parse_library(path.read_bytes(), path.name).settings


def listed_settings(library: Library) -> list[LibrarySetting]:
    """The settings in the file of a library, in their order."""
    return library.settings if library.name in _added else _shipped_settings(library.name)


def all_libraries() -> dict[str, Library]:
    """The shipped libraries followed by the added ones, by name."""
    return {**shipped(), **_added}


def added_libraries() -> list[Library]:
    """The libraries that were added in this process."""
    return list(_added.values())


def add_libraries(libraries: Iterable[Library]) -> None:
    """Adds libraries for the rest of this process."""
    _added.update({library.name: library for library in libraries})


def add_library_files(paths: Sequence[Path]) -> None:
    """Adds users' libraries. Raises UsageError for an invalid file, and for a name in use."""
    read: dict[str, Library] = {}
    taken = {*shipped(), *_shared_names(), *_OTHER_FILES, _TORCH}
    for path in paths:
        library = read_library(path)
        if library.name in taken or library.also_called in taken:
            name = library.name if library.name in taken else library.also_called
            raise UsageError(
                f"--ccl-file {path}: name: {name!r} is already in use: choose another name"
            )
        if library.name in read:
            raise UsageError(
                f"--ccl-file {path}: name: {library.name!r} is in another --ccl-file too"
            )
        inherited = library.inherits.settings_of
        if inherited and inherited not in shipped():
            raise UsageError(
                f"--ccl-file {path}: inherits.settings_of: {inherited!r} is not a library of "
                f"cclmark: choose from {', '.join(shipped())}"
            )
        read[library.name] = library
    add_libraries(read.values())


def library_called(name: str) -> Library | None:
    """The description of a library, None for an unknown one."""
    return _added.get(name) or shipped().get(name)


def engine_libraries() -> list[Library]:
    """The libraries that the engine opens: all but the bridge and torch's backends."""
    return [one for one in all_libraries().values() if one.shape not in (BRIDGE, _TORCH)]


def runtimes_of(name: str) -> list[str]:
    """The runtimes whose devices a library of the engine supports, empty for an unknown library."""
    return next((one.devices for one in engine_libraries() if one.name == name), [])


def names_for(runtime: str) -> list[str]:
    """The names of the engine's libraries that support devices of ``runtime``."""
    return [one.name for one in engine_libraries() if runtime in one.devices]


def native_library(runtime: str) -> str | None:
    """The vendor's library for devices of ``runtime``, None where no library is marked native."""
    return next((one.name for one in engine_libraries() if runtime in one.native_of), None)


def similar_libraries(library: Library) -> list[Library]:
    """The other libraries with the same shape and the same prefix of function names."""
    return [
        other
        for other in engine_libraries()
        if other.name != library.name
        and (other.shape, other.prefix) == (library.shape, library.prefix)
    ]


def assumption_of(name: str) -> str:
    """The assumptions about a library without a public interface; empty for other libraries."""
    library = library_called(name)
    return library.assumed if library is not None else ""


def verified(name: str) -> str:
    """How the library was verified, or the assumptions about its interface if it was not."""
    if assumed := assumption_of(name):
        return f"unverified: assumes {assumed}"
    library = library_called(name)
    return library.verified if library is not None else "unverified"


def plug_ins_of(name: str) -> str:
    """The interface whose plug-ins the library loads: ``nccl``; empty for none."""
    library = library_called(name)
    return library.plug_ins if library is not None else ""


def log_of(name: str) -> Log:
    """What the library logs about algorithms; its pattern is empty for a library that does not."""
    library = library_called(name)
    return library.log if library is not None else Log()


def title_of(name: str) -> str:
    """A library's name in its vendor's spelling; ``name`` for an unknown library."""
    library = library_called(name)
    return library.written_title if library is not None else name


def torch_backend_of(name: str) -> str | None:
    """The torch.distributed backend in ``torch:BACKEND``, None for a library of the engine."""
    prefix = f"{_TORCH}:"
    return name.removeprefix(prefix) if name.startswith(prefix) else None


def meant_by(name: str, runtime: str) -> str:
    """The library called ``name`` on devices of ``runtime``, since vendors share some names."""
    return owners_of(name).get(runtime, name)


def owners_of(name: str) -> dict[str, str]:
    """The libraries with this shared name by runtime, empty for a name that is not shared."""
    return _shared_names().get(name, {})


def _shared_names() -> dict[str, dict[str, str]]:
    owners: dict[str, dict[str, str]] = {}
    for library in all_libraries().values():
        if library.also_called:
            of_runtimes = dict.fromkeys(library.devices, library.name)
            owners.setdefault(library.also_called, {}).update(of_runtimes)
    return owners


def memory_of(
    requested: str, timing: str, registration: str, ccl: str, capabilities: Sequence[str]
) -> str:
    """The kind of memory of the buffers of library ``ccl``.

    ``requested`` is a kind, or AUTO_MEMORY: what the vendor's own test program allocates where that
    influences a time, which is with registered buffers and in graphs, whose buffers some libraries
    register by themselves. Elsewhere, and in runs that had no choice (empty), it is plain.
    ``capabilities``: the library's, by name.
    """
    if OWN_MEMORY in capabilities:
        return "torch"
    if requested not in ("", AUTO_MEMORY):
        return requested
    if registration not in ("", "none"):
        usual = "library"
    elif requested == AUTO_MEMORY and timing == "graph" and (library := library_called(ccl)):
        usual = library.memory
    else:
        usual = "plain"
    return usual if "MemAlloc" in capabilities else "plain"


def in_place_only(ccl: str, operation: str) -> bool:
    """Whether the library's function for the operation has no separate output buffer."""
    library = library_called(_TORCH if torch_backend_of(ccl) is not None else ccl)
    return library is not None and operation in library.in_place_only


def environment_prefixes() -> tuple[str, ...]:
    """The prefixes of environment variables that change the behaviour of a library."""
    prefixes = (it for library in all_libraries().values() for it in library.environment_prefixes)
    return tuple(dict.fromkeys(prefixes))
