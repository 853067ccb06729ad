"""``cclmark replay --compute fit``: what runs between the calls is chosen by measuring."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from cclmark.cli.replay.replay_options import ReplayFlags
from cclmark.errors import EXIT_MISSING, EXIT_OK, CclmarkError, UsageError
from cclmark.kinds.replay.document import fit_notice
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Request
from cclmark.kinds.replay.plan import DROP, FIXED, KEEP
from cclmark.kinds.replay.plan import Replay, in_ways
from cclmark.profile.program_step import FoundStep
from cclmark.recording.part import measure_part, unused
from cclmark.recording.replay_fit import fit, fit_plan
from cclmark.results.journal import read_journal


def check_fit(flags: ReplayFlags, found: FoundStep, coordinator: Coordinator) -> None:
    """Raises UsageError if nothing can be fitted, or if it contradicts other options."""
    if coordinator.placement is not None:
        raise UsageError(
            "--compute fit starts ranks once to choose and once to measure: run it without "
            f"{coordinator.placement.launcher} on one host, then give the --gaps and --compute "
            "that it chose"
        )
    if flags.matrix is not None or flags.array:
        raise UsageError("--compute fit chooses the size: omit --matrix and --array")
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
    print(
        f"cclmark: --compute fit measures {plan.candidates} candidates: about "
        f"{plan.expected_s:.0f} s and the start of the ranks",
        file=sys.stderr,
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
    notice = f"{fit_notice(found.chosen, found.tried)}; {place}"
    return in_ways(replay, [one.way for one in chosen]), [notice]


def shared_traffic(
    flags: ReplayFlags, request: Request, replay: Replay, journal: Path
) -> list[int]:
    """Returns the traffic beside the calls that the default needs, measured before.

    A variant whose calls take longer would choose none. A run that is resumed keeps what it chose,
    if it has a result. Raises CclmarkError if it is not measured.
    """
    if flags.resume is not None:
        for one in read_journal(flags.resume).replays:
            if one.is_measured and one.replay.traffic:
                return one.traffic
    _check_unused(journal)
    settings = msgspec.structs.replace(request.settings, iterations=1, warmup=0, check=0, inject=[])
    own = replace(request, settings=settings, planned=[replay], pending=(), warnings=())
    path = unused(journal.parent, f"{journal.stem}-traffic")
    _, outcome = measure_part(own, path)
    # An interrupted run may have no journal yet.
    replays = read_journal(path).replays if path.exists() else []
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
    earlier = [one.replay for one in read_journal(path).replays]
    if not earlier:
        raise UsageError(f"{path} has no result of a replay to continue: start a new run")
    first = earlier[0]
    if not first.fit:
        raise UsageError(f"{path} was measured without --compute fit: omit it")
    if flags.gaps not in (None, first.gaps):
        raise UsageError(f"{path} was measured with --gaps {first.gaps}, not {flags.gaps}")
    return in_ways(replay, [first.way, *first.other_ways])
