"""Measures collectives: the cases of the options, with results to journal and screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from cclmark.base.errors import UsageError
from cclmark.document.exporter import Exporter
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.report_kind import View
from cclmark.journal.item_results import CaseResult
from cclmark.kinds.collective.command import CollectiveOptions, CollectivesFlags, ExplainFlags
from cclmark.kinds.collective.kind import KIND
from cclmark.kinds.pieces.kind import KIND as PIECES
from cclmark.kinds.pieces.plan import piece_cases
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Request
from cclmark.options.case_request import libraries_of, request_of, stem_of, wanted_of
from cclmark.options.groups import CaseOptions
from cclmark.recording.joining import run_joined
from cclmark.recording.output import usual_references
from cclmark.recording.recorder import Recorded, record
from cclmark.work.cases import Case, Sweep
from cclmark.work.items import items_of
from cclmark.work.libraries import (
    BRIDGE,
    MPI,
    engine_libraries,
    meant_by,
    names_for,
    native_library,
    owners_of,
    torch_backend_of,
)
from cclmark.work.operations import COLLECTIVES

_SHM = "shm"  # of the ranks of one host
_UNDER_MPI = (
    "start the ranks by an mpirun, or by srun with --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)"
)


def libraries_of_pairs(flags: CaseOptions, coordinator: Coordinator, user: str) -> list[str]:
    """Returns the libraries of ``--ccl``, else the default, for work between two ranks.

    ``user``: words before the supported libraries. Raises UsageError, MissingError; what a message
    advises is supported with the launcher and the devices of this run.
    """
    runtime = coordinator.devices.runtime
    hosts = len(coordinator.hosts)
    known = {one.name for one in engine_libraries()}
    for typed in flags.ccl:
        name = meant_by(typed, runtime)
        if name == BRIDGE or torch_backend_of(name) is not None:
            raise UsageError(
                f"{user} mpi or the libraries of the devices, not with {name}: "
                f"{_ways(flags.ccl, coordinator)}"
            )
        if name == _SHM and hosts > 1:
            raise UsageError(
                f"shm works within one host, but these ranks are on {hosts} hosts: "
                f"{_ways(flags.ccl, coordinator)}"
            )
        if name not in known and not owners_of(name):
            raise UsageError(f"unknown library {name!r}: {_ways(flags.ccl, coordinator)}")
    if not flags.ccl and runtime == "host" and hosts > 1:
        flags = replace(flags, ccl=[MPI])
    return libraries_of(flags, coordinator)


def on_each_host(ccl: Sequence[str]) -> str:
    """Returns the advice to measure hosts one by one, where ``--ccl`` may not be supported."""
    return "run the command on each host" + (" without --ccl" if ccl else "")


def instead_of_mpi(ccl: Sequence[str], coordinator: Coordinator) -> str:
    """Returns what else measures between two ranks, as advice. ``ccl``: ``--ccl``."""
    return _other_library(coordinator) or on_each_host(ccl)


def _other_library(coordinator: Coordinator) -> str:
    """Advice to use the library of the devices, empty if there is none between these hosts."""
    runtime = coordinator.devices.runtime
    names = [native_library(runtime) or "", *(names_for(runtime) if runtime != "host" else [])]
    absent = ["", MPI] if len(coordinator.hosts) == 1 else ["", MPI, _SHM]
    return next((f"use --ccl {name}" for name in names if name not in absent), "")


def _ways(ccl: Sequence[str], coordinator: Coordinator) -> str:
    if other := _other_library(coordinator):
        return other
    placement = coordinator.placement
    by_mpi = placement is not None and placement.by_mpi
    return (f"use --ccl {MPI}" if by_mpi else _UNDER_MPI) + f", or {on_each_host(ccl)}"


def measure(
    operations: list[str], flags: CollectiveOptions, pieces: Sequence[int] = ()
) -> Recorded:
    """Measures ``operations``, each message in as many ``pieces``, or in one call without any."""

    def measured(coordinator: Coordinator) -> Recorded:
        request, plan = request_of(KIND, operations, flags, coordinator)
        if pieces:
            return record(_in_pieces(request, pieces), flags, stem_of(plan, behind="-pieces"))
        return record(
            request,
            flags,
            stem_of(plan),
            view=View(references=_reference_notes(are_asked=flags.references)),
            exporter_for=lambda view: _exporter(flags, plan, view),
            explain=flags.why or flags.explain,
        )

    return run_joined(wanted_of(flags, mixed=True), measured)


def measure_several(flags: CollectivesFlags) -> Recorded:
    """Measures the operations of ``flags``, by default all."""
    return measure(flags.only or list(COLLECTIVES), flags)


def explain(flags: ExplainFlags) -> Recorded:
    """Measures the operation of ``flags`` and shows the library's predictions."""
    return measure([flags.operation], flags)


def _in_pieces(request: Request, numbers: Sequence[int]) -> Request:
    """Returns the request for its cases in these numbers of pieces. Raises UsageError."""
    settings = request.settings
    if settings.timing not in ("auto", "throughput", "blocking"):
        raise UsageError(f"--pieces: --timing is throughput or blocking, not {settings.timing}")
    timing = "throughput" if settings.timing == "auto" else settings.timing
    return replace(
        request,
        kind=PIECES,
        settings=msgspec.structs.replace(settings, timing=timing),
        planned=piece_cases(items_of(request.planned, Case), numbers),
    )


def _reference_notes(*, are_asked: bool) -> ReferenceNotes:
    """Returns the references that figures are compared with. Raises UsageError."""
    if not are_asked:
        return ReferenceNotes(usual_references)
    from cclmark.references.reference_store import load_references

    references = load_references()
    return ReferenceNotes(lambda kinds: references)


def _exporter(flags: CollectiveOptions, plan: Sweep, view: View) -> Exporter[CaseResult]:
    # Imported while the ranks start, see Recorder.
    from cclmark.document.exporters import exporter_of
    from cclmark.kinds.collective.document import PLACEMENTS, CaseView, exporter_of_cases

    if view.fields or flags.format not in ("table", "markdown"):
        return exporter_of(KIND, flags.format, view)
    names = [name for name in PLACEMENTS if (name == "in-place") in plan.placements]
    gbps = flags.like is not None and flags.like.shows_gbps
    shown = CaseView(names, flags.references, gbps, flags.why)
    return exporter_of_cases(view, shown, flags.format, every_s=flags.summary_every)
