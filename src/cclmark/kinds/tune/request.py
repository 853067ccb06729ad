"""Runs ``cclmark tune``: flags to cases, search and proof, results to journal and screen."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from cclmark.base.errors import EXIT_OK, MissingError, UsageError
from cclmark.document.text import clock_text
from cclmark.explain.plugin_log import plugin_path
from cclmark.kinds.experiment.measured_trials import EarlierTrials, Measuring, record_search
from cclmark.kinds.experiment.plan import trials_of
from cclmark.kinds.experiment.result import as_found
from cclmark.kinds.tune import mpich_selection, open_mpi_rules
from cclmark.kinds.tune.command import TuneFlags
from cclmark.kinds.tune.environment_search import EnvironmentTarget, candidates_of
from cclmark.kinds.tune.kind import KIND
from cclmark.kinds.tune.mpich_selection import builtin_trees
from cclmark.kinds.tune.plan import Target
from cclmark.kinds.tune.result import EnvironmentResult, RulesResult
from cclmark.kinds.tune.search import LARGEST_LOSS
from cclmark.kinds.tune.table_file import LIBRARIES
from cclmark.kinds.tune.targets import (
    ANYWHERE,
    MIN_CTAS,
    PLUG_IN,
    TABLE,
    TUNED_OPERATIONS,
    MpichTarget,
    NcclTarget,
    OpenMpiTarget,
)
from cclmark.kinds.tune.tuning import EnvironmentTuning, RulesTuning, TuneRequest, measure_sm_cost
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Outcome
from cclmark.options.case_request import request_of, wanted_of, with_new_ranks
from cclmark.options.varied import environment_with
from cclmark.recording.caller import notice
from cclmark.recording.joining import run_joined
from cclmark.recording.output import print_lines, write_files
from cclmark.recording.recorder import Recorded, Recorder
from cclmark.recording.run_files import new_journal
from cclmark.work.cases import Case
from cclmark.work.items import items_of
from cclmark.work.libraries import MPI, title_of, torch_backend_of
from cclmark.work.library_settings import (
    check_value,
    find_setting,
    settings_of,
    unknown_setting_refusal,
)
from cclmark.work.operations import count_for_size, size_for_count
from cclmark.work.sizes import format_size
from cclmark.work.variants import DEFAULT

_UNKNOWN_VERSION = ""
_PROBE = ".writable"


def require_candidates(
    ccl: str,
    operations: Sequence[str],
    only: Sequence[str],
    environment: Mapping[str, str],
    hosts: int,
) -> None:
    """Checks that tune can try values of at least one setting, and of all settings in ``only``.

    ``environment``: the variables of ``hosts`` hosts. Raises UsageError for a setting that is
    unknown, has an impossible value in the environment or cannot be tried, MissingError if the
    library has no setting that can be tried.
    """
    for name in only:
        setting = find_setting(ccl, name)
        if setting is None:
            raise UsageError(f"--settings: {unknown_setting_refusal(ccl, name)}")
        if name in environment:  # the value with which the search begins
            check_value(setting, environment[name], _UNKNOWN_VERSION)
    found = candidates_of(ccl, _UNKNOWN_VERSION, operations, environment, only=only, hosts=hosts)
    title = title_of(ccl)
    for name in only:
        if name in found.refused:
            raise UsageError(
                f"--settings: tune tries no settings of {title} {found.refused[name]}: {name}"
            )
    if found.space.axes and torch_backend_of(ccl) is None:
        return
    if kept := [name for name in found.refused if name in environment]:
        raise UsageError(
            f"{', '.join(kept)}: set in the environment, and nothing else of {title} can be tuned: "
            "unset it, or name it with --settings"
        )
    raise MissingError(
        f"cclmark tune has nothing to try for {ccl}: the values of its settings are unknown, or "
        f"none applies to these operations on {_hosts_text(hosts)}: compare values with cclmark "
        "experiment (see cclmark settings)"
    )


def environment_of(
    ccl: str,
    ranks: int,
    operations: Sequence[str],
    only: Sequence[str],
    environment: Mapping[str, str],
    hosts: int,
    measuring: Measuring,
) -> EnvironmentTarget:
    """The target, by what the ranks have reported."""
    version = measuring.library(ccl).version
    devices = " and ".join(measuring.device_names)
    names = {setting.name for setting in settings_of(ccl)} - set(only)
    replaced = {name: environment[name] for name in only if name in environment}
    return EnvironmentTarget(
        f"{ccl} {version}, {ranks} ranks on {_hosts_text(hosts)}, {devices}",
        candidates_of(ccl, version, operations, environment, only=only, hosts=hosts),
        {name: value for name, value in environment.items() if name in names},
        replaced,
    )


def _hosts_text(hosts: int) -> str:
    return "one host" if hosts == 1 else f"{hosts} hosts"


_USUAL_DIRECTORY = Path("tuned")
AnyTuning = RulesTuning | EnvironmentTuning
# Creates the run of a request that sends its progress to a function.
Start = Callable[[TuneRequest, Measuring, Callable[[str], None]], AnyTuning]
# Set by the user, they would override the tuned settings.
_DECIDING = (
    *(PLUG_IN, TABLE, ANYWHERE, MIN_CTAS, "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS"),
    *("NCCL_MAX_NCHANNELS", "NCCL_CTA_POLICY", "NCCL_ALGO", "NCCL_PROTO"),
)
_DECIDING_MPI = (*open_mpi_rules.VARIABLES, *mpich_selection.VARIABLES)
# Variables of NCCL that its sends and receives depend on.
_FOR_MESSAGES = "NCCL_MIN_CTAS,NCCL_MIN_P2P_NCHANNELS,NCCL_P2P_NVL_CHUNKSIZE"


def tune(flags: TuneFlags) -> Recorded:
    """Tunes the library for the operations of ``flags``."""

    def tuned(coordinator: Coordinator) -> Recorded:
        request, start = _request(flags, coordinator)
        if flags.dry_run:
            print_lines([_planned_text(request), *_planned_sizes(request)])
            return Recorded(EXIT_OK, Outcome(EXIT_OK))
        return _tune(request, start, coordinator.began_s, is_quiet=flags.quiet)

    return run_joined(wanted_of(flags), tuned)


def _planned_text(tune: TuneRequest) -> str:
    return (
        f"searches settings for {' and '.join(tune.cases)}, and proves them in "
        f"{tune.proof_rounds} rounds or more, within {clock_text(tune.budget_s)} (--budget)"
    )


def _planned_sizes(tune: TuneRequest) -> Iterator[str]:
    for name, cases in tune.cases.items():
        sizes = ", ".join(format_size(case.size_bytes) for case in cases)
        yield f"  {name}: {sizes}; in the proof {len(tune.proof_cases[name])} sizes"


def _tune(tune: TuneRequest, start: Start, began_s: float, *, is_quiet: bool = False) -> Recorded:
    earlier = None
    if tune.resume is not None:
        earlier = EarlierTrials.read(
            tune.resume, tune.request, "cclmark tune", lambda trial: bool(trial.stage)
        )
    check_directory(tune.directory, resumes=earlier is not None)
    journal = tune.journal or new_journal(f"tune-{'-'.join(tune.cases)}")
    if not is_quiet:
        end = datetime.now().astimezone() + timedelta(seconds=tune.budget_s)
        notice(f"{_planned_text(tune)}: until about {end:%H:%M:%S}")
    with _alone():
        search = partial(_search, tune, start)
        return record_search(
            *(tune.request, earlier, journal, began_s, search, tune.format),
            is_quiet=is_quiet,
            numbers=tune.numbers,
        )


def check_directory(directory: Path, *, resumes: bool) -> None:
    """Raises UsageError unless the directory is new or empty, or a run in it is resumed."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"-O {directory} is not a directory")
    if directory.is_dir() and any(directory.iterdir()) and not resumes:
        raise UsageError(
            f"-O {directory} is not empty: use a new directory, or --resume the journal of the run"
        )
    [probe] = write_files(directory, {_PROBE: ""})
    probe.unlink()


def _search(
    tune: TuneRequest, start: Start, measuring: Measuring, _: Recorder
) -> tuple[Mapping[str, Any], Outcome]:
    """Searches, proves, and prices the result."""
    result: RulesResult | EnvironmentResult
    result, outcome = start(tune, measuring, _say).run()
    if tune.matrix_rows and isinstance(result, RulesResult) and result.files:
        _say("measuring the slow-down of a matrix product")
        result.sm_cost = measure_sm_cost(
            tune.request, tune.proof_cases, result, tune.directory, tune.matrix_rows
        )
    return as_found(result), outcome


def _say(text: str) -> None:
    if sys.stderr.isatty():
        notice(text)


def _request(flags: TuneFlags, coordinator: Coordinator) -> tuple[TuneRequest, Start]:
    operations, only = flags.operations, flags.settings
    largest_loss = flags.allow_loss / 100
    changes = flags.app_changes == "yes"
    request, plan = request_of(KIND, operations, flags, coordinator)
    ccl = plan.ccls[0]
    if len(plan.ccls) > 1:
        raise UsageError("--ccl: tune one library at a time")
    of_nccl = ccl in LIBRARIES
    by_size = (ccl == MPI or of_nccl) and not only
    _require_flags_of(ccl, by_size, largest_loss)
    request = with_new_ranks("tune", request)
    hosts = len(coordinator.hosts)
    if by_size and hosts > 1:
        raise UsageError(
            "tune tries files that select by size, which ranks of other hosts cannot read: name "
            "variables with --settings, or tune on one host"
        )
    environment = environment_with(ccl, coordinator.hosts)
    if not by_size:
        require_candidates(ccl, operations, only, environment, hosts)
    if plan.ranks < 2:
        raise UsageError(
            "tune requires two or more devices: a single rank has no partner; see --devices and "
            "-g, and cclmark p2p for the copies of one device"
        )
    for flag, values in (("-d", plan.dtypes), ("-o", plan.reductions), ("-r", plan.roots)):
        if len(values) > 1:
            scope = "its rules are by operation and size" if by_size else "the proof is for one"
            raise UsageError(f"{flag}: tune one at a time: {scope}")
    deciding = _DECIDING if of_nccl else _DECIDING_MPI
    for name in deciding if by_size else ():
        if name in os.environ:
            raise UsageError(
                f"{name}={os.environ[name]} is set in the environment and overrides the tuned "
                "settings: unset it"
            )
    if changes and not of_nccl:
        raise UsageError("--app-changes yes requires nccl or rccl: it registers buffers")
    if of_nccl and by_size and not changes:
        _require_tuned(operations)
    cases = items_of(request.planned, Case)
    by_operation = {name: [case for case in cases if case.operation == name] for name in operations}
    tune = TuneRequest(
        replace(request, planned=trials_of(cases, [DEFAULT], 1)),
        by_operation,
        {name: _with_middles(own) for name, own in by_operation.items()},
        directory=flags.output or _USUAL_DIRECTORY,
        budget_s=flags.budget,
        proof_rounds=flags.proof_rounds,
        largest_loss=largest_loss,
        matrix_rows=flags.sm_cost if request.devices.runtime == "cuda" else 0,
        journal=flags.journal,
        resume=flags.resume,
        format=flags.format,
        numbers=flags.numbers,
    )
    if by_size:
        timing = request.settings.timing
        return tune, partial(RulesTuning, partial(_target_of, ccl, plan.ranks, changes, timing))
    return tune, partial(
        EnvironmentTuning,
        partial(environment_of, ccl, plan.ranks, operations, only, environment, hosts),
    )


def _require_flags_of(ccl: str, by_size: bool, largest_loss: float) -> None:
    """Raises UsageError for options that have no meaning for the library."""
    if not by_size and largest_loss != LARGEST_LOSS:
        together = " together with --settings" if ccl in (*LIBRARIES, MPI) else ""
        raise UsageError(
            f"--allow-loss is not supported for {ccl}{together}: one environment has no rules"
        )


def _require_tuned(operations: Sequence[str]) -> None:
    """Raises UsageError if NCCL calls a tuner for none of the operations."""
    if not set(operations) & set(TUNED_OPERATIONS):
        raise UsageError(
            f"NCCL does not call a tuner for {' and '.join(operations)}: name variables with "
            f"--settings ({_FOR_MESSAGES}), use --app-changes yes, or vary variables with cclmark "
            "experiment"
        )


def _target_of(
    ccl: str, ranks: int, app_changes: bool, timing: str, measuring: Measuring
) -> Target:
    """The target, by what the ranks have reported. Raises MissingError."""
    if ccl == MPI:
        library = measuring.library(ccl)
        if "open mpi" in library.version.lower():
            return OpenMpiTarget(library.version, ranks)
        if "mpich" in library.version.lower():
            content = Path(library.path).read_bytes()
            return MpichTarget(library.version, ranks, builtin_trees(content))
        raise MissingError(f"tune supports Open MPI and MPICH, not {library.version}")
    version, device, nvlinks = measuring.conditions(ccl)
    loaded = measuring.library(ccl)
    # Only in graphs NCCL registers buffers by itself, if their memory allows it.
    may_register = app_changes and timing == "graph" and "MemAlloc" in loaded.capabilities
    return NcclTarget(
        ccl,
        version,
        device,
        nvlinks,
        ranks,
        measuring.usual_channels,
        str(plugin_path()),
        app_changes,
        "CommInitRankConfig" in loaded.capabilities,
        "library" if may_register and loaded.memory != "library" else "",
    )


def _with_middles(cases: Sequence[Case]) -> list[Case]:
    """The cases, and one of a size between each two: rules are proven there too."""
    found: list[Case] = []
    for case, following in zip(cases, [*cases[1:], None], strict=True):
        found.append(case)
        if following is None:
            continue
        middle = math.isqrt(case.size_bytes * following.size_bytes)
        count = count_for_size(case.operation, middle, case.dtype, case.ranks)
        size = size_for_count(case.operation, count, case.dtype, case.ranks)
        if case.size_bytes < size < following.size_bytes and not case.matrix:
            found.append(msgspec.structs.replace(case, size_bytes=size, count=count))
    return found


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Raises UsageError while another cclmark tune of this user runs: both would be disturbed."""
    path = Path(os.environ.get("TMPDIR") or "/tmp") / f"cclmark-tune-{os.getuid()}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                "another cclmark tune runs on this host, and both would disturb each other: wait "
                "until it has ended"
            ) from None
        yield
    finally:
        os.close(handle)
