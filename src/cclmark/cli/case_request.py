"""The request of a command that measures cases, from its options."""

from __future__ import annotations

from cclmark.cli.chosen_islands import inner_libraries, islands_of
from cclmark.cli.chosen_libraries import libraries_of, require_added_to_be_used, warnings_of
from cclmark.cli.communicator_options import check_config
from cclmark.cli.injected_faults import check_faults
from cclmark.cli.loop_settings import settings_of
from cclmark.cli.mpirun_of_ranks import mpirun_of
from cclmark.cli.options import Flags
from cclmark.cli.requested_sweep import (
    USUAL_ROOT,
    root_without_effect,
    roots_of,
    rounding_of,
    sweep_of,
)
from cclmark.errors import MissingError, UsageError
from cclmark.kinds.collective.kind import KIND
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Request
from cclmark.plan.binding import Binding
from cclmark.plan.cases import Sweep
from cclmark.plan.inject import Injection
from cclmark.plan.libraries import BRIDGE
from cclmark.run import locate

# Libraries besides the CCLs that ranks may open: for kernels and for matrix products.
_BESIDE_CCLS = ("nvrtc", "cublaslt")


def request_of(
    operations: list[str], flags: Flags, coordinator: Coordinator
) -> tuple[Request, Sweep]:
    """Returns the request for the cases of ``flags``, and the sweep that contains them.

    Raises CclmarkError if the flags are invalid.
    """
    devices = coordinator.devices
    settings = settings_of(flags, devices.runtime)
    ranks = len(devices.indices)
    roots = roots_of(flags.root or USUAL_ROOT, ranks)
    without_effect = root_without_effect(operations, flags.root)
    plan = sweep_of(operations, flags, libraries_of(flags, coordinator), settings, ranks, roots)
    settings.weights = [list(row) for row in plan.uneven.weights]
    settings.islands = islands_of(flags, plan.ccls, coordinator)
    settings.through_host = flags.through_host
    settings.bind = str(Binding.parse(flags.bind, ranks))
    loaded = [*plan.ccls, *inner_libraries(settings.islands)]
    require_added_to_be_used(loaded)
    check_config(settings.config, plan.ccls)
    cases = list(plan.cases())
    if not cases:
        raise UsageError(
            f"no size of the sweep has an element of {flags.dtype} for each of {plan.ranks} ranks: "
            f"raise {'-b' if 'end' in flags.without else '-e'}"
        )
    check_faults({text: Injection.parse(text, ranks) for text in flags.inject}, settings, cases)
    mpirun = None
    absent: dict[str, str] = {}
    if "mpi" in plan.ccls:
        try:
            mpirun = mpirun_of(coordinator, "--ccl mpi")
        except MissingError as error:
            if len(plan.ccls) == 1:
                raise
            absent["mpi"] = str(error)
    elif BRIDGE in plan.ccls and len(coordinator.hosts) > 1:
        mpirun = mpirun_of(coordinator, "--ccl bridge between hosts")
    request = Request(
        devices=devices,
        kind=KIND,
        planned=cases,
        settings=settings,
        ccl_path=flags.ccl_path,
        ccl_wheels={name: locate.wheel_files(name) for name in (*loaded, *_BESIDE_CCLS)}
        | ({"mpi": mpirun.libraries} if mpirun is not None else {}),
        modules=flags.modules,
        warnings=[*warnings_of(loaded), *rounding_of(plan), *without_effect],
        mpirun=mpirun.path if mpirun is not None and coordinator.placement is None else "",
        absent=absent,
        coordinator=coordinator,
    )
    return request, plan


def stem_of(name: str, plan: Sweep) -> str:
    """Returns a part of the name of a journal: the command, the libraries, the number of ranks."""
    return f"{name}-{'-'.join(plan.ccls).replace(':', '-')}-{plan.ranks}"
