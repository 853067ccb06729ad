"""Runs ``cclmark experiment``: flags to variants, variants to trials, trials to ranks."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from cclmark.base.errors import EXIT_OK, UsageError
from cclmark.document.text import counted
from cclmark.journal.schema import HostDescription
from cclmark.kinds.experiment.bisection import LEAST_ROUNDS_TO_DECIDE, Bisected, bisect
from cclmark.kinds.experiment.command import ExperimentFlags
from cclmark.kinds.experiment.figures import without_effect
from cclmark.kinds.experiment.kind import KIND
from cclmark.kinds.experiment.measured_trials import (
    EarlierTrials,
    EndedError,
    Measuring,
    ended,
    record_search,
)
from cclmark.kinds.experiment.plan import Trial, trials_of
from cclmark.kinds.experiment.result import BisectionResult, as_found
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.launching import worst_of
from cclmark.launch.placement import LAUNCHER_VARIABLE
from cclmark.launch.request import Outcome, Request
from cclmark.options.case_request import (
    request_of,
    require_option,
    stem_of,
    wanted_of,
    with_mpirun,
    with_new_ranks,
)
from cclmark.options.groups import AUTO_PLACEMENT, CaseOptions
from cclmark.options.varied import check_settings, checked_variants, scope_of
from cclmark.recording.caller import caller
from cclmark.recording.joining import run_joined
from cclmark.recording.output import print_lines
from cclmark.recording.recorder import Recorded, Recorder, record
from cclmark.recording.run_files import new_journal
from cclmark.work.cases import Case
from cclmark.work.items import items_of
from cclmark.work.libraries import MPI, all_libraries, in_place_only, library_called
from cclmark.work.library_fields import parse_version
from cclmark.work.library_settings import find_setting, foreign_setting
from cclmark.work.variants import CONTROL, DEFAULT, LIBRARY, OPTION, Assignment, Variant

_TIMEOUT_S = 60.0


def version_for(names: Sequence[str], ccl: str, flags: CaseOptions) -> str:
    """Returns the version of the library ``ccl`` if variables with these names depend on it.

    Empty if they do not, if the library is not loaded from a file, and if it cannot be loaded: the
    ranks report why.
    """
    library = library_called(ccl)
    if library is None or not library.is_loaded:
        return ""
    oldest = parse_version(library.oldest_version)
    if any(_depends(ccl, name, oldest) for name in names):
        return _version_of(ccl, flags)
    return ""


def _depends(ccl: str, name: str, oldest: int) -> bool:
    """Whether the setting, or one of its values, is missing in some versions from ``oldest`` on."""
    setting = find_setting(ccl, name)
    if setting is None or name.startswith(OPTION):  # the ranks report options that are missing
        return False
    added = [one for one in (setting.since, *setting.value_since.values()) if one]
    return (
        bool(setting.until or setting.implementation or setting.maximum_before)
        or max(map(parse_version, added), default=0) > oldest
    )


def _version_of(ccl: str, flags: CaseOptions) -> str:
    command = [sys.executable, "-m", "cclmark", "settings", "--ccl", ccl, "--format", "json"]
    if flags.ccl_path:
        command += ["--ccl-path", flags.ccl_path]
    for file in flags.ccl_files:
        command += ["--ccl-file", file]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
            env={**os.environ, LAUNCHER_VARIABLE: "none"},
        )
        version = json.loads(done.stdout)["version"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return ""
    return version if isinstance(version, str) else ""


def run_bisection(
    measuring: Measuring,
    cases: Sequence[Case],
    scopes: Mapping[str, str],
    values: Sequence[int],
    keep: float,
    notice: Callable[[str], None],
) -> tuple[BisectionResult, Outcome]:
    """Measures values until the smallest one that keeps the share is certain.

    The default is measured too, for the journal, in rounds with a value that had fewer than
    LEAST_ROUNDS_TO_DECIDE before. ``scopes``: of the settings that have each value, by their names.
    A run that ends early has the result of the rounds up to then.
    Afterwards the libraries are observed with every measured value. ``notice`` receives what the
    user should know meanwhile.
    """
    result = partial(BisectionResult, " and ".join(scopes), [*cases], keep)
    process = bisect(values, len(cases), keep)
    batch = next(process)
    measured: dict[int, list[Trial]] = {}
    rounds: Counter[int] = Counter()
    while True:
        trials = {
            cell: Trial(_with_all(scopes, cell[0]), batch.number, cases[cell[1]])
            for cell in batch.cells
        }
        for (value, _), trial in trials.items():
            own = measured.setdefault(value, [])
            if all(trial.case != one.case for one in own):
                own.append(trial)
        present = {value for value, _ in batch.cells}
        compared = any(rounds[value] < LEAST_ROUNDS_TO_DECIDE for value in present)
        usual = [Trial(DEFAULT, batch.number, case) for case in cases if compared]
        rounds.update(present)
        begin_s, before = time.monotonic(), measuring.number
        try:
            times = measuring.measure([*usual, *trials.values()])
            everything = measuring.number - before == len(usual) + len(trials)
            if batch.number == 0 and everything:
                notice(_duration_text(len(measured), time.monotonic() - begin_s))
            batch = process.send({cell: times.get(trial) for cell, trial in trials.items()})
        except EndedError as error:
            found = ended(process)
            return result(found if found.curve else None), error.outcome
        except StopIteration as end:
            found, outcome = end.value, _judged(end.value, measuring)
            break
    if outcome.exit_code != EXIT_OK:
        return result(found), outcome
    kept = {value: measured[value] for value in found.curve}
    try:
        return result(found, _without_effect(measuring, cases, kept)), outcome
    except EndedError as error:
        message = f"what ran was not observed: {error.outcome.message}"
        return result(found), replace(error.outcome, message=message)


def _with_all(scopes: Mapping[str, str], value: int) -> Variant:
    return Variant(tuple(Assignment(name, str(value), scope) for name, scope in scopes.items()))


def _duration_text(values: int, round_s: float) -> str:
    return (
        f"the first round of {values} values took {round_s:.1f} s: at least "
        f"{LEAST_ROUNDS_TO_DECIDE} such rounds follow each other, then shorter ones of values that "
        "are not decided, which find and confirm the result"
    )


def _without_effect(
    measuring: Measuring, cases: Sequence[Case], measured: Mapping[int, Sequence[Trial]]
) -> dict[int, str]:
    """Observes the trials; returns values without effect, with the reason. Raises EndedError."""
    usual = [Trial(DEFAULT, 0, case) for case in cases]
    observed = measuring.observe([*usual, *itertools.chain.from_iterable(measured.values())])
    by_default = {trial.case: observed.get(trial) for trial in usual}
    found = {}
    for value, trials in measured.items():
        reasons = [
            without_effect(one.variant, one.case, observed.get(one), by_default[one.case])
            for one in trials
        ]
        if all(reasons):
            found[value] = reasons[0]
    return found


def _judged(found: Bisected, measuring: Measuring) -> Outcome:
    """The outcome of a complete bisection: a failure if no value could be measured."""
    if found.curve or not found.failed:
        return Outcome(EXIT_OK)
    code = worst_of(measuring.failures.values())
    return Outcome(code, "every measured value failed: see the messages about each of them")


def measure_experiment(flags: ExperimentFlags) -> Recorded:
    """Measures the trials of ``flags``."""
    return run_joined(wanted_of(flags), lambda coordinator: _measure(flags, coordinator))


def _measure(flags: ExperimentFlags, coordinator: Coordinator) -> Recorded:
    request, plan = request_of(KIND, flags.operations, flags, coordinator)
    if len(plan.ccls) > 1:
        raise UsageError("--ccl: one library is the default; compare others with --library")
    ccl = plan.ccls[0]
    cases = items_of(request.planned, Case)
    if flags.bisect:
        return _bisect(flags, ccl, request, cases, coordinator)
    variants, notices = _variants(flags, ccl, coordinator.hosts)
    if any(one.value_of(LIBRARY) == MPI for one in variants):
        request = with_mpirun(request, coordinator, "--library mpi")
    if flags.placement == AUTO_PLACEMENT:
        cases = _placed_alike(cases, variants)
    trials = trials_of(cases, [DEFAULT, CONTROL, *variants], flags.rounds)
    experiment = replace(
        request,
        planned=trials,
        warnings=[*request.warnings, *notices],
    )
    experiment = with_new_ranks("experiment", experiment)
    return record(experiment, flags, stem_of(plan, "experiment-"), explain=True)


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
    flags: ExperimentFlags,
    ccl: str,
    request: Request,
    cases: Sequence[Case],
    coordinator: Coordinator,
) -> Recorded:
    """Runs ``--bisect``, with the same value for all of its settings. Raises UsageError."""
    keep, names = flags.keep / 100, sorted(one for one, _ in flags.bisect)
    first, values = flags.bisect[0]
    for name, own in flags.bisect:
        if [*own] != [*values]:
            raise UsageError(
                f"--bisect {name}: its values differ from those of {first}, but a search gives "
                "all its settings the same value: write one range for all of them"
            )
        if foreign := foreign_setting(ccl, name):
            raise UsageError(f"--bisect: {foreign}")
    notices = check_settings(
        [(name, [str(values[0]), str(values[-1])]) for name in names],
        ccl,
        version_for(names, ccl, flags),
        option="--bisect",
        allow_unknown=flags.allow_unknown_settings,
        hosts=coordinator.hosts,
    )
    scopes = {name: scope_of(ccl, name) for name in names}
    nominal = trials_of(cases, [DEFAULT], 1)
    request = replace(request, planned=nominal, warnings=[*request.warnings, *notices])
    request = with_new_ranks("experiment", request)
    if flags.dry_run:
        print_lines(
            [
                f"bisects {' and '.join(names)} among {len(values)} values from {values[0]} to "
                f"{values[-1]} in {counted(len(cases), 'case')}; the results decide which of them "
                "are measured"
            ]
        )
        return Recorded(EXIT_OK, Outcome(EXIT_OK))
    earlier = None
    if flags.resume is not None:
        searched = (f" --bisect {name}={values[0]}:{values[-1]}" for name in names)
        command = f"cclmark experiment{''.join(searched)}"
        possible = {DEFAULT, *(_with_all(scopes, one) for one in values)}
        earlier = EarlierTrials.read(
            *(flags.resume, request, command),
            lambda trial: not trial.stage and trial.variant in possible,
            repeats_failures=True,
        )
    journal = flags.journal or new_journal(f"experiment-bisect-{ccl}")

    def search(measuring: Measuring, recorder: Recorder) -> tuple[Mapping[str, Any], Outcome]:
        tell = (lambda text: None) if caller().is_silent else recorder.notice
        result, outcome = run_bisection(measuring, cases, scopes, values, keep, tell)
        return {} if result.found is None else as_found(result), outcome

    return record_search(
        *(request, earlier, journal, coordinator.began_s, search, flags.format),
        is_quiet=flags.quiet,
        numbers=flags.numbers,
    )


def _variants(
    flags: ExperimentFlags, ccl: str, hosts: Sequence[HostDescription]
) -> tuple[list[Variant], list[str]]:
    """Returns the variants of the flags, and notices on settings. Raises UsageError."""
    varied = list(flags.vary)
    libraries = flags.libraries
    if not varied and not libraries:
        raise UsageError(
            "nothing is varied: add --vary NAME=VALUE,VALUE (see cclmark settings) or --library A,B"
        )
    version = version_for([name for name, _ in varied], ccl, flags)
    notices = check_settings(
        varied, ccl, version, allow_unknown=flags.allow_unknown_settings, hosts=hosts
    )
    options = {name for name, _ in varied if Assignment(name, "").option}
    options |= {OPTION + name for name in dict(flags.config)}
    for library in libraries:
        for name in options if library in all_libraries() else ():
            require_option(f"--library {library}:", library, name)
    if libraries:
        varied.append((LIBRARY, [_library(one) for one in libraries]))
    variants, impossible = checked_variants(
        varied, ccl, flags, one_at_a_time=flags.one_at_a_time, version=version, hosts=hosts
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
