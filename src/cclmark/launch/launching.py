"""How the items of a kind of work are launched."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from cclmark.launch.experiment_launch import explain_experiment, run_experiment
from cclmark.launch.explain_pass import explain_cases
from cclmark.launch.persistent import PersistentLaunch
from cclmark.launch.request import Listener, Outcome, Request
from cclmark.results.kind import Kind


@dataclass(frozen=True)
class Launching:
    """``run`` measures the items of a request. ``explain`` observes those with these indices."""

    run: Callable[[Request, Listener], Outcome]
    explain: Callable[[Request, Collection[int], Listener, Outcome], Outcome]


def _run(request: Request, listener: Listener) -> Outcome:
    return PersistentLaunch(request, listener).run()


_USUAL = Launching(_run, explain_cases)
_ROUNDS = Launching(run_experiment, explain_experiment)


def launching_of(kind: Kind) -> Launching:
    """The launching of a kind of work: in one piece, unless its items require other processes."""
    return _ROUNDS if kind.in_rounds else _USUAL
