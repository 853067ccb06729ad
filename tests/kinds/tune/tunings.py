"""Requests to tune, whose trials a function gives the times of: see simulated_trials."""

import msgspec

from cclmark.kinds.tune.tuning import TuneRequest
from cclmark.work.cases import Case

KIB, MIB = 1 << 10, 1 << 20


def case_of(operation, size, ccl="nccl"):
    return Case(operation, ccl, 2, "float32", size, size // 4, False, reduction="sum")


def request_of(directory, cases, **options):
    """Of two processes, with time for everything. ``options``: other fields of the request."""
    usual = {"proof_cases": cases, "budget_s": 1e6, "proof_rounds": 10}
    devices = msgspec.defstruct("Devices", [("processes", list)])([[0], [1]])
    return TuneRequest(request=devices, cases=cases, directory=directory, **(usual | options))


def is_tuned(trial):
    """Whether a trial proves what was found."""
    return trial.stage == "proof" and bool(trial.variant.assignments)
