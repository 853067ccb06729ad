"""The islands that bridge connects, and their libraries."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.cli.chosen_libraries import require_allowed, require_one_file
from cclmark.cli.options import Flags
from cclmark.errors import UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.plan.islands import Island, parse_islands
from cclmark.plan.libraries import BRIDGE, names_for, native_library, torch_backend_of


def islands_of(flags: Flags, ccls: Sequence[str], coordinator: Coordinator) -> list[Island]:
    """Returns the islands that bridge connects, none without bridge. Raises UsageError."""
    devices = coordinator.devices
    if BRIDGE not in ccls:
        for given, name in ((flags.islands, "--islands"), (flags.through_host, "--through-host")):
            if given:
                raise UsageError(f"{name} requires --ccl bridge")
        if devices.mixed:
            raise UsageError(
                f"{' and '.join(dict.fromkeys(devices.mixed))} devices together require --ccl "
                "bridge"
            )
        return []
    if devices.mixed and len(ccls) > 1:
        raise UsageError("devices of several runtimes support only --ccl bridge")
    libraries = {runtime: _libraries_of(runtime) for runtime in dict.fromkeys(devices.runtimes)}
    natural = {runtime: native_library(runtime) is not None for runtime in libraries}
    islands = parse_islands(
        flags.islands, devices.runtimes, libraries, natural, coordinator.host_of_rank
    )
    inner = inner_libraries(islands)
    for name in inner:
        require_allowed(name, flags)
    loaded = (name for name in (*ccls, *inner) if name not in ("shm", BRIDGE))
    files = dict.fromkeys(name for name in loaded if torch_backend_of(name) is None)
    require_one_file(flags, list(files))
    if flags.ccl_path and not files:
        raise UsageError(
            "--ccl-path is not supported: shm is built in, and no other library is used"
        )
    return islands


def inner_libraries(islands: Sequence[Island]) -> list[str]:
    """Returns the libraries that islands load; a rank alone in its island requires none."""
    return list(dict.fromkeys(island.ccl for island in islands if island.ccl))


def _libraries_of(runtime: str) -> list[str]:
    """Returns the libraries that an island of such devices may use, the native one first."""
    native = native_library(runtime)
    return sorted(
        (name for name in names_for(runtime) if name != "mpi"), key=lambda name: name != native
    )
