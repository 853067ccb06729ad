"""Runs ``cclmark replay``: a profile and flags to replays, these to ranks."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from cclmark.base.errors import EXIT_MISSING, EXIT_OK, CclmarkError, MissingError, UsageError
from cclmark.base.grouping import by_key
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.report_kind import View
from cclmark.document.text import clock_text
from cclmark.kinds.registry import read_journal
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.devices import DeviceChoice, choose_devices
from cclmark.launch.placement import find_placement
from cclmark.launch.request import Outcome, Request
from cclmark.options.case_request import default_library, unknown_library, with_new_ranks
from cclmark.options.varied import compute_of, faults_of, rounds_of, step_settings, step_variants
from cclmark.rank import locate
from cclmark.recording.caller import notice
from cclmark.recording.joining import WantedDevices, devices_here, run_joined
from cclmark.recording.output import usual_references
from cclmark.recording.recorder import Recorded, record, unused
from cclmark.recording.run_files import new_journal
from cclmark.work.computations import Compute
from cclmark.work.libraries import (
    BRIDGE,
    MPI,
    meant_by,
    names_for,
    runtimes_of,
    torch_backend_of,
)
from cclmark.work.runtimes import NamedDevices
from cclmark.work.variants import DEFAULT
from cclmark.work.work_beside import FIT, MATMUL, NO_COMPUTE, OF_PROFILE, TRIAD
from cclmark_programs.replay.choices import (
    DROP,
    FITTED,
    FIXED,
    KEEP,
    LARGE_ERROR,
    LEAST_STEPS,
    NEAREST,
    TRAFFIC_ROUNDS,
    WAIT_ROUNDS,
    steps_of_round,
)
from cclmark_programs.replay.command import ReplayFlags
from cclmark_programs.replay.document import fit_notice
from cclmark_programs.replay.figures import ReplaySummary, summaries_of_replays
from cclmark_programs.replay.kind import KIND
from cclmark_programs.replay.plan import Replay, in_ways, replays_of
from cclmark_programs.replay.program_step import FoundStep, ranks_of, step_of
from cclmark_programs.replay.result import ReplayResult

# All candidates are measured in turn, several times: what drifts affects all alike.
_PASSES = 3
_WARM_UP_STEPS, _LEAST_STEPS, _MOST_STEPS = 2, 2, 5
_OTHER_STEPS = 2  # before the warm-up, and to allocate
_USUAL_S = 120.0  # of all candidates, if their steps are short enough
# Of the sum of logarithmic errors: so few steps do not distinguish smaller differences from noise.
_CLEAR = 0.02
# Of matrices and arrays. A call waits for the blocks of a product, the longer the larger it is.
_FITTED_ROWS = {
    "cuda": (1024, 2048, 3072, 3584, 4096, 6144, 8192),
    "host": (64, 128, 256),
}
_TYPES = {"cuda": "bfloat16", "host": "float32"}
_ARRAYS_BYTES = {"host": (1 << 20,)}
_USUAL_ARRAYS_BYTES = (16 << 20, 64 << 20)


@dataclass(frozen=True)
class Fit:
    """``tried``: a summary for each candidate that was measured, the smallest error first.

    ``chosen``: None if none was measured. ``others``: the nearest with each of the other gaps.
    ``outcome``: of the run that measured them, with the journal.
    """

    tried: Sequence[ReplaySummary]
    chosen: Replay | None
    others: Sequence[Replay]
    outcome: Outcome
    journal: Path


@dataclass(frozen=True)
class FitPlan:
    """``replays``: the candidates, again in each pass. ``steps``: timed in each pass.

    ``candidates``: their number. ``expected_s``: the time of all steps.
    """

    replays: Sequence[Replay]
    candidates: int
    steps: int
    expected_s: float


def computes_for(runtime: str) -> list[Compute | None]:
    """Returns what may run beside the calls on devices of a runtime, first nothing."""
    products = [Compute(MATMUL, _TYPES[runtime], rows) for rows in _FITTED_ROWS.get(runtime, ())]
    arrays = _ARRAYS_BYTES.get(runtime, _USUAL_ARRAYS_BYTES)
    return [None, *products, *(Compute(TRIAD, "float32", extent) for extent in arrays)]


def fit_plan(one: Replay, gaps: Sequence[str], runtime: str) -> FitPlan:
    """Returns ``one`` with each of ``gaps`` and each compute, and fewer steps if they are long."""
    replays = [
        msgspec.structs.replace(one, gaps=each, compute=compute)
        for each in gaps
        for compute in computes_for(runtime)
    ]
    number = len(replays)
    length_s = max(one.original.step_s or one.original.span_s)
    all_s = length_s * number * _PASSES
    # Once for all candidates with the same gaps. Ranks on the host wait inside the call.
    waits_s = WAIT_ROUNDS * (1 + steps_of_round(WAIT_ROUNDS, length_s)) * length_s * len(gaps)
    others = _OTHER_STEPS + _WARM_UP_STEPS
    steps = min(max(int(_USUAL_S / all_s) - others, _LEAST_STEPS), _MOST_STEPS)
    expected_s = (steps + others) * all_s + (0.0 if runtime == "host" else waits_s)
    return FitPlan(replays * _PASSES, number, steps, expected_s)


def fit(request: Request, plan: FitPlan, journal: Path) -> Fit:
    """Measures the candidates and chooses one.

    ``request``: the devices, the settings and the step. The results are in the new file
    ``journal``. Raises UsageError if it cannot be created.
    """
    settings = msgspec.structs.replace(
        request.settings, iterations=plan.steps, warmup=_WARM_UP_STEPS, check=0, inject=[]
    )
    own = replace(request, settings=settings, planned=plan.replays, pending=(), warnings=())
    _, outcome, results = record(own, journal=journal)
    summaries = summaries_of_replays(one for one in results if isinstance(one, ReplayResult))
    measured = [one for one in summaries if one.communication_error is not None]
    chosen = chosen_of(measured) if outcome.exit_code == EXIT_OK else None
    others = [] if chosen is None else others_of(measured, chosen)
    return Fit(sorted(measured, key=error_of), chosen, others, outcome, journal)


def chosen_of(measured: Sequence[ReplaySummary]) -> Replay | None:
    """The candidate that is used, None if there is none.

    ``measured``: in the order of the plan, the simplest of each gaps first. Other gaps are used
    only if the smallest error with them is clearly smaller, and of one gaps the first candidate
    whose error is not clearly larger than the smallest.
    """
    by_gaps = by_key((one.replay.gaps, one) for one in measured)
    best: list[ReplaySummary] = []
    for own in by_gaps.values():
        if not best or min(map(error_of, own)) < min(map(error_of, best)) - _CLEAR:
            best = own
    if not best:
        return None
    return _simplest(best)


def others_of(measured: Sequence[ReplaySummary], chosen: Replay) -> list[Replay]:
    """The candidate with each of the other gaps that would be used if there were no others.

    It reacts differently if communication takes longer: with ``keep`` all computation waits for
    it, with ``fixed`` none does. Programs are between them.
    """
    by_gaps = by_key((one.replay.gaps, one) for one in measured if one.replay.gaps != chosen.gaps)
    return [_simplest(own) for own in by_gaps.values()]


def _simplest(candidates: Sequence[ReplaySummary]) -> Replay:
    """The first candidate whose error is not clearly larger than the smallest."""
    least = min(map(error_of, candidates))
    one = next(one for one in candidates if error_of(one) <= least + _CLEAR)
    errors = [abs(each) for each in (one.communication_error, one.step_error) if each is not None]
    fits = max(errors) <= LARGE_ERROR
    return msgspec.structs.replace(one.replay, fit=FITTED if fits else NEAREST)


def error_of(one: ReplaySummary) -> float:
    """How far communication and step are from the program's: the sum of their logarithmic ratios.

    The step counts only if it is known.
    """
    errors = [one.communication_error, one.step_error]
    return sum(abs(math.log1p(max(each, -0.999))) for each in errors if each is not None)


def check_fit(flags: ReplayFlags, found: FoundStep) -> None:
    """Raises UsageError if nothing can be fitted, or if it contradicts other options."""
    if flags.gaps == DROP:
        raise UsageError(
            "--compute fit compares the communication with the program's, whose calls --gaps drop "
            "does not repeat at their times: use keep or fixed"
        )
    if not any(found.original.communication_s):
        raise UsageError(
            f"--compute fit: {flags.profile} has no times of kernels to compare with, as profiles "
            "with --no-kernel-times and execution traces: choose --gaps and --compute yourself"
        )


def fitted_replays(
    flags: ReplayFlags, request: Request, replay: Replay, journal: Path, *, is_varied: bool
) -> tuple[list[Replay], list[str]]:
    """Returns the replay with what fits between its calls, and notices about what was tried.

    ``is_varied``: variants are compared. Then also the replay with the other gaps, because what
    fits the default does not show whether computation would wait for slower communication.
    A run that is resumed keeps what it chose. Raises CclmarkError if nothing can be chosen.
    """
    if flags.resume is not None:
        return _chosen_before(flags, replay, flags.resume), []
    _check_unused(journal)
    gaps = [flags.gaps] if flags.gaps else [KEEP, FIXED]
    plan = fit_plan(replay, gaps, request.devices.runtime)
    notice(
        f"--compute fit measures {plan.candidates} candidates: about "
        f"{plan.expected_s:.0f} s and the start of the ranks"
    )
    found = fit(request, plan, unused(journal.parent, f"{journal.stem}-fit"))
    place = f"its steps are in {found.journal}"
    if found.chosen is None:
        code = found.outcome.exit_code
        reason = found.outcome.message or "no candidate was measured"
        error = CclmarkError(f"--compute fit ({place}): {reason}")
        error.exit_code = EXIT_MISSING if code == EXIT_OK else code
        raise error
    chosen = [found.chosen, *(found.others if is_varied else [])]
    said = f"{fit_notice(found.chosen, found.tried)}; {place}"
    return in_ways(replay, [one.way for one in chosen]), [said]


def shared_traffic(
    flags: ReplayFlags, request: Request, replay: Replay, journal: Path
) -> list[int]:
    """Returns the traffic beside the calls that the default needs, measured before.

    A variant whose calls take longer would choose none. A run that is resumed keeps what it chose,
    if it has a result. Raises CclmarkError if it is not measured.
    """
    if flags.resume is not None:
        for one in read_journal(flags.resume).of(ReplayResult):
            if one.is_measured and one.replay.traffic:
                return one.traffic
    _check_unused(journal)
    settings = msgspec.structs.replace(request.settings, iterations=1, warmup=0, check=0, inject=[])
    own = replace(request, settings=settings, planned=[replay], pending=(), warnings=())
    path = unused(journal.parent, f"{journal.stem}-traffic")
    outcome = record(own, journal=path).outcome
    # An interrupted run may have no journal yet.
    replays = read_journal(path).of(ReplayResult) if path.exists() else []
    measured = [one for one in replays if one.is_measured]
    if measured:
        return measured[0].traffic
    error = CclmarkError(
        f"the traffic beside the calls was not measured ({path}): "
        f"{outcome.message or 'no step was replayed'}"
    )
    error.exit_code = EXIT_MISSING if outcome.exit_code == EXIT_OK else outcome.exit_code
    raise error


def _check_unused(journal: Path) -> None:
    """Raises UsageError if the journal exists, before anything is measured for it."""
    if journal.exists() and journal.stat().st_size:
        raise UsageError(f"the journal {journal} exists. Choose another place with --journal FILE.")


def _chosen_before(flags: ReplayFlags, replay: Replay, path: Path) -> list[Replay]:
    """The replays with what the run of the journal chose. Raises UsageError."""
    earlier = [one.replay for one in read_journal(path).of(ReplayResult)]
    if not earlier:
        raise UsageError(f"{path} has no result of a replay to continue: start a new run")
    first = earlier[0]
    if not first.fit:
        raise UsageError(f"{path} was measured without --compute fit: omit it")
    if flags.gaps not in (None, first.gaps):
        raise UsageError(f"{path} was measured with --gaps {first.gaps}, not {flags.gaps}")
    return in_ways(replay, [first.way, *first.other_ways])


_OF_HOST = "shm"
_LONG_S = 60.0  # of a run that is announced
_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
_USUAL_CONNECTIONS = 8
# Of the work beside the calls, by runtime: it is short beside a step.
_ROWS, _USUAL_ROWS = {"host": 128}, 4096
_ARRAYS, _USUAL_ARRAY_BYTES = {"host": 1 << 20}, 64 << 20


def measure_replays(flags: ReplayFlags) -> Recorded:
    """Measures the replays of ``flags``."""
    if not flags.profile:
        raise UsageError(
            "the profile is missing: cclmark replay [OPTIONS] PROFILE, the journal of cclmark "
            "profile or of imported traces"
        )
    path = Path(flags.profile)
    journal = read_journal(path)
    ranks = ranks_of(journal, flags.profile)
    count = _count(flags, ranks)
    if find_placement(os.environ) is None:
        # Before the work on the step, which takes long for many ranks.
        falls_back = flags.count is None
        chosen = choose_devices(flags.devices, count, devices_here, falls_back=falls_back)
        _check_count(chosen, ranks)
    gc.disable()  # millions of calls have no cycles, for which it would look again and again
    try:
        found = step_of(journal, flags.profile)
    finally:
        gc.enable()
    libraries = [one.name for one in journal.header.libraries]
    wanted = WantedDevices(
        lambda: flags.devices, count, flags.timeout_s, falls_back=flags.count is None
    )
    return run_joined(wanted, lambda coordinator: _measure(flags, found, libraries, coordinator))


def _count(flags: ReplayFlags, ranks: int) -> int | None:
    """Returns ``-g``; without it and ``--devices`` the number of the profile's ranks.

    Raises MissingError if this machine has accelerators, but fewer.
    """
    if flags.devices or flags.count is not None or find_placement(os.environ) is not None:
        return flags.count
    found = choose_devices(NamedDevices(), None, devices_here)
    if found.runtime != "host" and len(found.indices) < ranks:
        raise MissingError(
            f"the profile has {ranks} ranks, but this machine has {len(found.indices)} "
            f"{found.runtime} devices: replay it where there are as many, or on the host with "
            f"--devices host:{ranks}"
        )
    return ranks


def _check_count(devices: DeviceChoice, ranks: int) -> None:
    """Raises UsageError if the devices are not as many as the ranks of the profile."""
    if len(devices.indices) != ranks:
        raise UsageError(
            f"the profile has {ranks} ranks, but {len(devices.indices)} devices are chosen: see "
            "--devices and -g"
        )


def _measure(
    flags: ReplayFlags,
    found: FoundStep,
    of_program: Sequence[str],
    coordinator: Coordinator,
) -> Recorded:
    """``of_program``: the libraries of the program."""
    devices = coordinator.devices
    ranks = len(devices.indices)
    _check_count(devices, len(found.step.calls))
    libraries = _libraries(flags, devices.runtime)
    variants, notices = step_variants(
        "replay", flags, libraries, with_options=True, hosts=coordinator.hosts
    )
    rounds = rounds_of(flags, variants)
    _check_faults(flags, ranks)
    if flags.compute == FIT:
        check_fit(flags, found)
    has_traffic = _has_traffic(flags, found, devices.runtime)
    replay = Replay(
        variant=DEFAULT,
        round=0,
        ccl=libraries[0],
        ranks=ranks,
        program=Path(flags.profile).name,
        digest=found.digest,
        calls=max(len(own) for own in found.step.calls),
        groups=len(found.step.groups),
        gaps=flags.gaps or KEEP,
        original=found.original,
        compute=None if flags.compute == FIT else _compute_of(flags, devices.runtime),
        traffic=has_traffic,
    )
    few_connections = _few_connections(found, devices.runtime, has_traffic=has_traffic)
    request = Request(
        devices=devices,
        settings=step_settings(flags, ranks),
        ccl_path=flags.ccl_path,
        ccl_wheels={name: locate.wheel_files(name) for name in libraries},
        kind=KIND,
        planned=replays_of(replay, variants, rounds),
        warnings=[*found.remarks, *few_connections, *notices],
        attachment=[msgspec.msgpack.encode(part) for part in found.step.by_rank()],
        coordinator=coordinator,
    )
    if len(request.planned) > 1 or flags.compute == FIT:
        request = with_new_ranks("replay", request)
    journal = flags.journal
    if flags.compute != FIT:
        _announce(flags, found, request, has_traffic=has_traffic)
    if replay.traffic and len(request.planned) > 1:
        journal = journal or new_journal(_stem(ranks))
        parts = found.step.by_rank(shared_traffic(flags, request, replay, journal))
        request = replace(request, attachment=[msgspec.msgpack.encode(part) for part in parts])
    if flags.compute == FIT:
        journal = journal or new_journal(_stem(ranks))
        fitted, notices = fitted_replays(
            flags, request, replay, journal, is_varied=len(variants) > 1
        )
        if of_program and libraries[0] not in of_program:
            notices.append(
                f"the profile is of {', '.join(of_program)}, the replay of {libraries[0]}: the "
                "fit hides differences between the libraries"
            )
        planned = [one for each in fitted for one in replays_of(each, variants, rounds)]
        request = replace(request, planned=planned, warnings=[*request.warnings, *notices])
        _announce(flags, found, request, has_traffic=has_traffic)
    return record(
        request,
        flags,
        _stem(ranks),
        view=View(references=ReferenceNotes(usual_references)),
        journal=journal,
    )


def _has_traffic(flags: ReplayFlags, found: FoundStep, runtime: str) -> bool:
    """Whether memory traffic runs beside the calls. Only devices of CUDA have kernels for it."""
    is_asked = flags.compute == OF_PROFILE and flags.gaps != DROP
    return is_asked and runtime == "cuda" and any(found.step.own_s)


def _announce(flags: ReplayFlags, found: FoundStep, request: Request, *, has_traffic: bool) -> None:
    """Prints how long the run takes, if its steps are long."""
    if flags.gaps == DROP:
        return
    length_s = max(call.begin_s + call.time_s for own in found.step.calls for call in own)
    timed = LEAST_STEPS if flags.steps is None else flags.steps
    warm_up = 1 if flags.warmup is None else flags.warmup
    # One step connects, and the outputs of another one are checked.
    steps = 1 + bool(flags.check) + warm_up + timed
    traffic = TRAFFIC_ROUNDS * (1 + steps_of_round(TRAFFIC_ROUNDS, length_s)) if has_traffic else 0
    waits = 0  # or steps after which ranks wait about as in the program
    if found.step.own_s and request.devices.runtime != "host":
        waits = WAIT_ROUNDS * (1 + steps_of_round(WAIT_ROUNDS, length_s))
    replays = len(request.planned)
    repeated = f"at least {steps + waits} times"
    if replays > 1:
        repeated += f" in each of {replays} replays"
    total = replays * (steps + waits)
    if traffic:
        # Ranks that are started for it time one step.
        total += traffic + (2 + waits if replays > 1 else 0)
        repeated += f", and up to {traffic} times to choose memory traffic"
    if total * length_s < _LONG_S:
        return
    notice(
        f"a step takes about {clock_text(length_s)}, as in the program, and is "
        f"repeated {repeated}: about {clock_text(total * length_s)}. -n and -w set the number of "
        "timed steps, --gaps drop omits the time between calls"
    )


def _stem(ranks: int) -> str:
    return f"replay-{ranks}"


def _few_connections(found: FoundStep, runtime: str, *, has_traffic: bool) -> list[str]:
    """A notice if gaps on one stream may delay calls on another one."""
    text = os.environ.get(_CONNECTIONS, "")
    connections = int(text) if text.isascii() and text.isdecimal() else _USUAL_CONNECTIONS
    streams = max(1 + call.stream for own in found.step.calls for call in own)
    if runtime != "cuda" or streams * (1 + has_traffic) <= connections:
        return []
    beside = ", and as many for memory traffic" if has_traffic else ""
    return [
        f"the step has {streams} streams{beside}, but the device {connections} hardware queues "
        f"({_CONNECTIONS}): a gap on one stream may delay calls on another one. Set it to 32"
    ]


def _libraries(flags: ReplayFlags, runtime: str) -> list[str]:
    """The libraries of ``--ccl``, by default the devices' own. Raises UsageError."""
    usual = _OF_HOST if runtime == "host" else default_library(runtime)
    named = flags.ccl or [usual or ""]
    found = list(dict.fromkeys(meant_by(name, runtime) for name in named))
    for name in found:
        backend = torch_backend_of(name)
        if name in (MPI, BRIDGE) or backend is not None:
            instead = backend if backend in names_for(runtime) else usual
            raise UsageError(
                f"--ccl {name}: replay enqueues calls on several streams of libraries that cclmark "
                f"loads itself, which {name} does not support"
                + (f": use --ccl {instead}" if instead else "")
            )
        if name not in names_for(runtime):
            raise _not_for(name, runtime)
    if flags.ccl_path and len(found) > 1:
        raise UsageError("--ccl-path is the file of one library, but --ccl names several")
    return found


def _not_for(name: str, runtime: str) -> UsageError:
    needed = runtimes_of(name)
    if not needed:
        return unknown_library(name, runtime)
    return UsageError(
        f"{name} supports {' and '.join(needed)} devices, not {runtime} devices: see --devices"
    )


def _compute_of(flags: ReplayFlags, runtime: str) -> Compute | None:
    """Returns what runs beside the calls. Raises UsageError."""
    if flags.compute not in (NO_COMPUTE, OF_PROFILE):
        return compute_of(
            flags,
            runtime,
            usual_rows=_ROWS.get(runtime, _USUAL_ROWS),
            usual_array_bytes=_ARRAYS.get(runtime, _USUAL_ARRAY_BYTES),
        )
    return None


def _check_faults(flags: ReplayFlags, ranks: int) -> None:
    """Raises UsageError for a fault that cannot be observed."""
    for text, fault in faults_of("replay", flags, ranks).items():
        if fault.kind == "corrupt" and not flags.check:
            raise UsageError(f"{text!r}: -c 0 checks no data, so the fault would not be detected")
