"""Runs ``cclmark overlap``: flags to variants, variants to overlaps, overlaps to ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cclmark.base.errors import UsageError
from cclmark.kinds.overlap.command import OverlapFlags
from cclmark.kinds.overlap.kind import KIND
from cclmark.kinds.overlap.plan import overlaps_of
from cclmark.launch.coordinator import Coordinator
from cclmark.options.case_request import request_of, stem_of, wanted_of, with_new_ranks
from cclmark.options.varied import check_settings, checked_variants, compute_of
from cclmark.recording.joining import run_joined
from cclmark.recording.recorder import Recorded, record
from cclmark.work.cases import Case
from cclmark.work.items import items_of
from cclmark.work.variants import DEFAULT, Variant

# By runtime; the other ones are accelerators.
_ROWS, _USUAL_ROWS = {"host": 256}, 8192
_ARRAYS, _USUAL_ARRAY_BYTES = {"host": 16 << 20}, 1 << 30

_USUAL_OPERATION = "all_reduce"


def measure_overlap(flags: OverlapFlags) -> Recorded:
    """Measures the overlaps of ``flags``."""
    operations = flags.operations or [_USUAL_OPERATION]
    return run_joined(
        wanted_of(flags), lambda coordinator: _measure(operations, flags, coordinator)
    )


def _measure(operations: Sequence[str], flags: OverlapFlags, coordinator: Coordinator) -> Recorded:
    request, plan = request_of(KIND, list(operations), flags, coordinator)
    if len(plan.ccls) > 1:
        raise UsageError("--ccl: overlap measures one library")
    ccl = plan.ccls[0]
    runtime = coordinator.devices.runtime
    compute = compute_of(
        flags,
        runtime,
        usual_rows=_ROWS.get(runtime, _USUAL_ROWS),
        usual_array_bytes=_ARRAYS.get(runtime, _USUAL_ARRAY_BYTES),
        by_torch=True,
    )
    varied = flags.vary
    notices = check_settings(
        varied, ccl, allow_unknown=flags.allow_unknown_settings, hosts=coordinator.hosts
    )
    variants: list[Variant] = []
    if varied:
        variants, others = checked_variants(
            varied, ccl, flags, one_at_a_time=flags.one_at_a_time, hosts=coordinator.hosts
        )
        notices += others
    cases = items_of(request.planned, Case)
    overlaps = replace(
        request,
        kind=KIND,
        planned=overlaps_of(cases, [DEFAULT, *variants], flags.rounds, compute),
        warnings=[*request.warnings, *notices],
    )
    if len(overlaps.planned) > len(cases):
        overlaps = with_new_ranks("overlap", overlaps)
    return record(overlaps, flags, stem_of(plan, "overlap-"), explain=flags.explain)
