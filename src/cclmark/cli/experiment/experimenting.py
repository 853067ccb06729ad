"""Runs ``cclmark experiment``: flags to variants, variants to trials, trials to ranks."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from cclmark.cli.case_request import request_of, stem_of
from cclmark.cli.chosen_devices import device_count, devices_text
from cclmark.cli.communicator_options import parse_config, require_option
from cclmark.cli.experiment.bisecting import parse_bisect, run_bisection
from cclmark.cli.experiment.experiment_options import ExperimentFlags
from cclmark.cli.library_version import version_for
from cclmark.cli.mpirun_of_ranks import with_mpirun
from cclmark.cli.operation_argument import known_operations
from cclmark.cli.option_values import check_limits
from cclmark.cli.options import AUTO_PLACEMENT
from cclmark.cli.varied import check_settings, checked_variants, scope_of
from cclmark.errors import UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Request
from cclmark.plan.cases import Case
from cclmark.plan.items import EXPERIMENT, items_of
from cclmark.plan.libraries import MPI, all_libraries, in_place_only
from cclmark.plan.library_settings import foreign_setting
from cclmark.kinds.experiment.plan import Trial, trials_of
from cclmark.plan.variants import (
    CONTROL,
    DEFAULT,
    LIBRARY,
    OPTION,
    Assignment,
    Variant,
    parse_vary,
)
from cclmark.recording.joining import joined
from cclmark.recording.output import Output
from cclmark.recording.recorder import record, recording
from cclmark.recording.run_files import new_journal
from cclmark.recording.trial_measuring import TrialMeasuring
from cclmark.recording.trial_resuming import EarlierTrials
from cclmark.document.exporter import Exporter
from cclmark.report.journal_text import exporter_of
from cclmark.report.kinds.experiment_table import BisectionTable, ExperimentTable
from cclmark.report.lists.bisection_lines import bisection_lines
from cclmark.document.paint import ansi, unpainted
from cclmark.kinds.experiment.result import TrialResult


def measure_experiment(flags: ExperimentFlags) -> int:
    """Measures the trials of ``flags`` and returns the exit code.

    Raises CclmarkError before anything is started or written if the flags are invalid.
    """
    began_s = time.monotonic()
    check_limits(flags.precision_percent, flags.max_time_s, flags.timeout_s)
    operations = known_operations(flags.operations)
    with joined(lambda: devices_text(flags), device_count(flags), flags.timeout_s) as coordinator:
        coordinator.exit_code = _measure(operations, flags, coordinator, began_s)
        return coordinator.exit_code


def _measure(
    operations: list[str], flags: ExperimentFlags, coordinator: Coordinator, began_s: float
) -> int:
    if coordinator.placement is not None:
        raise UsageError(
            f"experiment starts its ranks itself, several times: run it without "
            f"{coordinator.placement.launcher}, on one host"
        )
    request, plan = request_of(operations, flags, coordinator)
    if len(plan.ccls) > 1:
        raise UsageError("--ccl: one library is the default; compare others with --library")
    ccl = plan.ccls[0]
    cases = items_of(request.planned, Case)
    if flags.bisect:
        return _bisect(flags, ccl, replace(request, kind=EXPERIMENT), cases, began_s)
    variants, notices = _variants(flags, ccl)
    if any(one.value_of(LIBRARY) == MPI for one in variants):
        request = with_mpirun(request, coordinator, "--library mpi")
    if flags.placement == AUTO_PLACEMENT:
        cases = _placed_alike(cases, variants)
    trials = trials_of(cases, [DEFAULT, CONTROL, *variants], flags.rounds)
    experiment = replace(
        request,
        kind=EXPERIMENT,
        planned=trials,
        warnings=[*request.warnings, *notices],
    )
    return record(
        experiment,
        lambda output: _exporter(flags, output),
        began_s,
        output=flags.output,
        journal=flags.journal,
        resume=flags.resume,
        explain=True,
        stem=stem_of(
            f"experiment-{operations[0] if len(operations) == 1 else 'collectives'}", plan
        ),
    )


def _placed_alike(cases: Sequence[Case], variants: Sequence[Variant]) -> list[Case]:
    """Returns the cases in place where the library of any variant supports nothing else."""
    return [
        msgspec.structs.replace(
            case,
            in_place=case.in_place
            or any(in_place_only(one.applied_to(case).ccl, case.operation) for one in variants),
        )
        for case in cases
    ]


def _bisect(
    flags: ExperimentFlags, ccl: str, request: Request, cases: Sequence[Case], began_s: float
) -> int:
    """Runs ``--bisect`` and returns the exit code. Raises UsageError."""
    if flags.vary or flags.libraries or flags.one_at_a_time:
        raise UsageError(
            "--bisect excludes --vary, --library and --one-at-a-time: it varies one value"
        )
    if flags.format != "table" or flags.output is not None:
        raise UsageError("--bisect prints a table: use cclmark export for its journal")
    name, values, keep = parse_bisect(flags.bisect, flags.keep)
    if foreign := foreign_setting(ccl, name):
        raise UsageError(f"--bisect: {foreign}")
    version = version_for([name], ccl, flags)
    notices = check_settings(
        [(name, [str(values[0]), str(values[-1])])],
        ccl,
        version,
        option="--bisect",
        allow_unknown=flags.allow_unknown_settings,
    )
    scope = scope_of(ccl, name)
    nominal = trials_of(cases, [DEFAULT], 1)
    request = replace(request, planned=nominal, warnings=[*request.warnings, *notices])
    earlier = None
    if flags.resume is not None:
        command = f"cclmark experiment --bisect {flags.bisect}"
        fits = partial(_is_of, name, {"", *map(str, values)})
        earlier = EarlierTrials.read(flags.resume, request, command, fits, repeats_failures=True)
    printed = Output(None)
    paint = ansi if printed.takes_colours else unpainted
    table = BisectionTable(paint=paint)
    place = flags.journal or new_journal(f"experiment-bisect-{ccl}")
    try:
        with recording(place, printed, table, request, began_s, earlier=earlier) as recorder:
            known = () if earlier is None else earlier.results
            measuring = TrialMeasuring(request, recorder, known)
            result, outcome = run_bisection(
                measuring, cases, name, scope, values, keep, recorder.notice
            )
            if result.found is not None:
                arguments = (result.found, name, cases, keep, result.without_effect)
                table.result = bisection_lines(*arguments, paint, printed.terminal_columns)
                outcome = replace(outcome, conclusion=bisection_lines(*arguments))
            return recorder.finish(outcome)
    finally:
        printed.close()


def _is_of(name: str, values: Collection[str], trial: Trial) -> bool:
    """Whether a bisection of the setting over these values may have measured the trial."""
    variant = trial.variant
    others = [one for one in variant.assignments if one.name != name]
    plain_trial = not trial.stage and not variant.control and not others
    return plain_trial and variant.value_of(name) in values


def _variants(flags: ExperimentFlags, ccl: str) -> tuple[list[Variant], list[str]]:
    """Returns the variants of the flags, and notices on settings. Raises UsageError."""
    varied = [parse_vary(text) for text in flags.vary]
    libraries = [one.strip() for one in flags.libraries.split(",") if one.strip()]
    if not varied and not libraries:
        raise UsageError(
            "nothing is varied: add --vary NAME=VALUE,VALUE (see cclmark settings) or --library A,B"
        )
    version = version_for([name for name, _ in varied], ccl, flags)
    notices = check_settings(varied, ccl, version, allow_unknown=flags.allow_unknown_settings)
    options = {name for name, _ in varied if Assignment(name, "").option}
    options |= {OPTION + name for name in parse_config(flags.config)}
    for library in libraries:
        for name in options if library in all_libraries() else ():
            require_option(f"--library {library}:", library, name)
    if libraries:
        varied.append((LIBRARY, [_library(one) for one in libraries]))
    variants, impossible = checked_variants(
        varied, ccl, flags, one_at_a_time=flags.one_at_a_time, version=version
    )
    return variants, [*notices, *impossible]


def _library(text: str) -> str:
    """Returns a name of a library, or the absolute path of a file. Raises UsageError."""
    if text in all_libraries():
        return text
    path = Path(text)
    if not path.is_file():
        raise UsageError(
            f"--library {text}: neither a known library nor a file: see cclmark info --ccls"
        )
    return str(path.absolute())


def _exporter(flags: ExperimentFlags, output: Output) -> Exporter[TrialResult]:
    if flags.format != "table":
        return exporter_of(EXPERIMENT, flags.format)
    return ExperimentTable(
        paint=ansi if output.takes_colours else unpainted, width=output.terminal_columns
    )
