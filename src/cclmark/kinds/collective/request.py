"""Measures collectives: the cases of the options, with results to journal and screen."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

from cclmark.document.document_text import DocumentMarkdown, DocumentText
from cclmark.document.exporter import Exporter
from cclmark.document.exporters import exporter_of
from cclmark.document.paint import ansi, unpainted
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.report_kind import View
from cclmark.errors import UsageError
from cclmark.kinds.collective.document import (
    PLACEMENTS,
    CaseView,
    document_of_cases,
    part_of_case,
)
from cclmark.kinds.collective.kind import KIND
from cclmark.kinds.pieces.request import piece_exporter, pieces_request
from cclmark.launch.coordinator import Coordinator
from cclmark.options import like
from cclmark.options.case_request import request_of, stem_of
from cclmark.options.chosen_devices import device_count, devices_text
from cclmark.options.chosen_libraries import libraries_of
from cclmark.options.flags import Flags
from cclmark.options.option_values import check_limits, duration_of
from cclmark.options.usual_references import usual_references
from cclmark.plan.cases import Sweep
from cclmark.plan.libraries import (
    BRIDGE,
    MPI,
    engine_libraries,
    meant_by,
    names_for,
    native_library,
    owners_of,
    torch_backend_of,
)
from cclmark.recording.joining import joined
from cclmark.recording.output import Output
from cclmark.recording.recorder import record
from cclmark.results.item_results import CaseResult

_SHM = "shm"  # of the ranks of one host
_UNDER_MPI = (
    "start the ranks by an mpirun, or by srun with --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)"
)


def libraries_of_pairs(flags: Flags, coordinator: Coordinator, user: str) -> list[str]:
    """Returns the libraries of ``--ccl``, else the default, for work between two ranks.

    ``user``: words before the supported libraries. Raises UsageError, MissingError; what a message
    advises is supported with the launcher and the devices of this run.
    """
    runtime = coordinator.devices.runtime
    hosts = len(coordinator.hosts)
    known = {one.name for one in engine_libraries()}
    for typed in filter(None, (name.strip() for name in flags.ccl.split(","))):
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
        flags = replace(flags, ccl=MPI)
    return libraries_of(flags, coordinator)


def on_each_host(ccl: str) -> str:
    """Returns the advice to measure hosts one by one, where ``--ccl`` may not be supported."""
    return "run the command on each host" + (" without --ccl" if ccl else "")


def instead_of_mpi(ccl: str, coordinator: Coordinator) -> str:
    """Returns what else measures between two ranks, as advice. ``ccl``: ``--ccl``."""
    return _other_library(coordinator) or on_each_host(ccl)


def _other_library(coordinator: Coordinator) -> str:
    """Advice to use the library of the devices, empty if there is none between these hosts."""
    runtime = coordinator.devices.runtime
    names = [native_library(runtime) or "", *(names_for(runtime) if runtime != "host" else [])]
    absent = ["", MPI] if len(coordinator.hosts) == 1 else ["", MPI, _SHM]
    return next((f"use --ccl {name}" for name in names if name not in absent), "")


def _ways(ccl: str, coordinator: Coordinator) -> str:
    if other := _other_library(coordinator):
        return other
    placement = coordinator.placement
    by_mpi = placement is not None and placement.by_mpi
    return (f"use --ccl {MPI}" if by_mpi else _UNDER_MPI) + f", or {on_each_host(ccl)}"


def measure(operations: list[str], flags: Flags, pieces: str = "") -> int:
    """Measures ``operations`` with ``flags`` and returns the exit code.

    ``pieces``: the numbers of pieces to divide each message into, empty for one call each.

    Raises CclmarkError before anything is started or written if the flags are invalid.
    """
    began_s = time.monotonic()
    check_limits(flags.precision_percent, flags.max_time_s, flags.timeout_s)
    with joined(
        lambda: devices_text(flags), device_count(flags), flags.timeout_s, mixed=True
    ) as coordinator:
        coordinator.exit_code = _measure(operations, flags, pieces, coordinator, began_s)
        return coordinator.exit_code


def _measure(
    operations: list[str], flags: Flags, pieces: str, coordinator: Coordinator, began_s: float
) -> int:
    every_s = duration_of("--summary-every", flags.summary_every)
    references = _reference_notes(flags)
    request, plan = request_of(KIND, operations, flags, coordinator)
    name = operations[0] if len(operations) == 1 else "collectives"
    if pieces:
        return record(
            pieces_request(request, flags, pieces),
            lambda output: piece_exporter(flags, output),
            began_s,
            output=flags.output,
            journal=flags.journal,
            resume=flags.resume,
            stem=stem_of(f"{name}-pieces", plan),
        )
    return record(
        request,
        lambda output: _exporter(flags, plan, output, every_s, references),
        began_s,
        output=flags.output,
        journal=flags.journal,
        resume=flags.resume,
        explain=flags.explain,
        stem=stem_of(name, plan),
    )


def _reference_notes(flags: Flags) -> ReferenceNotes:
    """Returns the references that figures are compared with. Raises UsageError."""
    if not flags.references:
        return ReferenceNotes(usual_references)
    if flags.format not in ("table", "markdown"):
        raise UsageError(
            f"--references requires --format table or markdown, not {flags.format}: for csv and "
            "json use cclmark references check JOURNAL"
        )
    from cclmark.references.reference_store import load_references

    references = load_references()
    return ReferenceNotes(lambda kinds: references)


def _exporter(
    flags: Flags, plan: Sweep, output: Output, every_s: float, references: ReferenceNotes
) -> Exporter[CaseResult]:
    if flags.format not in ("table", "markdown"):
        return exporter_of(KIND, flags.format)
    names = [name for name in PLACEMENTS if (name == "in-place") in plan.placements]
    shown = CaseView(names, flags.references, like.shows_gbps(flags.like), flags.why)
    compose = partial(document_of_cases, view=shown)
    part = partial(part_of_case, placements=len(names))
    if flags.format == "markdown":
        view = View(references=references)
        return DocumentMarkdown(compose, view, part, in_order=True, keeps_samples=False)
    paint = ansi if output.takes_colours else unpainted

    def table() -> DocumentText:
        view = View(paint=paint, columns=output.terminal_columns, references=references)
        return DocumentText(compose, view, part, in_order=True, keeps_samples=False)

    if not flags.duration:
        return table()
    from cclmark.kinds.collective.soak import SoakTable

    return SoakTable(table, paint, every_s)
