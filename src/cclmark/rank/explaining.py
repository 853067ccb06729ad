"""Observes what the library does for each case and how it connects this rank, without measuring."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec

import cclmark._engine as engine
from cclmark.base.printable import plain
from cclmark.explain.chaining import without_second_process
from cclmark.explain.nccl_log import BY_CALL, BY_GRAPH, NOT_REGISTERED
from cclmark.explain.operation import Operation
from cclmark.explain.paths import RankPaths, Route
from cclmark.rank.all_or_none import in_step
from cclmark.rank.effective_settings import MpiVariables, selected_for
from cclmark.rank.engine_values import operation_of
from cclmark.rank.instruments import Instruments, OpenMpiLog
from cclmark.rank.rank import Rank
from cclmark.rendezvous.messages import Connected, Explained, Job, Observation
from cclmark.work.cases import Case
from cclmark.work.libraries import MPI, log_of, plug_ins_of
from cclmark.work.library_settings import algorithm_settings


class CaseExplainer:
    """Runs cases once on one rank, in step with the same object on the others."""

    def __init__(
        self,
        rank: Rank,
        session: engine.Session,
        agreement: engine.RankGroup,
        instruments: Instruments,
        registration: str = "",
    ) -> None:
        """``agreement``: a group of the ranks of ``session`` with separate slots.

        ``registration``: of the buffers, by default as in the job's settings.
        """
        self._registration = registration or rank.job.settings.registration
        self._rank = rank
        self._session = session
        self._agreement = agreement
        self._instruments = instruments

    def run(self, index: int, case: Case) -> None:
        """Runs the case once and sends what was observed. Raises EngineError."""
        self._rank.case_index = index
        self._rank.enter("explaining")
        settings = self._rank.job.settings
        try:
            in_step(self._agreement, partial(self._prepare, case))
            self._instruments.begin()
            self._instruments.library_log.begin()
            from_graph = settings.timing == "graph"
            timing = engine.Timing.graph if from_graph else engine.Timing.throughput
            batch = engine.Batch(timing=timing, iterations=1, group=settings.group)
            # A captured operation is what graphs launch; libraries report it when it is captured.
            run = self._session.capture if from_graph else self._session.run
            in_step(self._agreement, partial(run, batch))
            observation = self._observation(case)
            if from_graph or self._registration != "none":
                is_logged = self._instruments.has_registered()
                observation.registered = registered(observation, self._registration, is_logged)
        except engine.UnsupportedError as error:
            observation = Observation("unknown", str(error), [], {})
        send_explained(self._rank, index, observation)

    def finish(self, ccl: str, communicator: engine.Communicator) -> None:
        """Sends how the library ``ccl`` connects this rank, which it may do when it is first used.

        ``communicator``: that of the session, of all ranks of the run. Raises EngineError.
        """
        job = self._rank.job
        source, reason, paths = connections_of(ccl, communicator, self._instruments, job)
        devices = network_devices()
        self._rank.client.send(Connected(job.rank, job.token, ccl, source, reason, paths, devices))

    def _prepare(self, case: Case) -> None:
        seed = self._rank.job.settings.seed
        self._session.prepare(operation_of(case), case.in_place, seed)

    def _observation(self, case: Case) -> Observation:
        if plug_ins_of(case.ccl):
            return self._instruments.observation()
        kernel, log = self._session.kernel, log_of(case.ccl)
        if kernel or not log.pattern:
            return _without_log(case, kernel, self._instruments.open_mpi_log)
        if found := self._instruments.library_log.operations(log):
            return Observation("log", "", found, {})
        reason = f"the log of {case.ccl} contains no line about the algorithm"
        return Observation("unknown", reason + _selecting(case), [], {})


def registered(found: Observation, registration: str, is_logged: bool) -> str:
    """Whether the observed operations used registered buffers, see schema.Explanation.

    ``registration``: as the program requested. ``is_logged``: whether the library's log contains a
    registration. Symmetric kernels use windows without a line in the log.
    """
    if found.source not in ("plug-in", "log"):
        return ""
    if not is_logged and not any(one.kernel == "symmetric" for one in found.operations):
        return NOT_REGISTERED
    return BY_GRAPH if registration == "none" else BY_CALL


def known_after_measuring(case: Case, kernel: str) -> Observation:
    """What a rank knows that has measured a case of a library without a plug-in or log.

    ``kernel``: of the session that measured it. Open MPI reports its components only if that is
    requested before it starts.
    """
    return _without_log(case, kernel, None)


def send_explained(rank: Rank, index: int, found: Observation) -> None:
    """Sends what a rank observed of a case."""
    job = rank.job
    observed = msgspec.structs.asdict(found)
    rank.client.send(Explained(**observed, rank=job.rank, token=job.token, index=index))


def _without_log(case: Case, kernel: str, open_mpi_log: OpenMpiLog | None) -> Observation:
    if kernel:
        return Observation("engine", "", [_built_in(case, kernel)], {})
    if case.ccl == MPI:
        return selected_in_mpi(case, open_mpi_log)
    reason = f"{case.ccl} has no interface that reports what it does"
    return Observation("unknown", reason + _selecting(case), [], {})


def _selecting(case: Case) -> str:
    """Whether variables select the library's algorithm, for the end of a reason."""
    variables = [setting.name for setting in algorithm_settings(case.ccl, case.operation)]
    known = [f"{one}={plain(os.environ[one])}" for one in variables if one in os.environ]
    missing = [one for one in variables if one not in os.environ]
    if known:
        return f"; {' and '.join(known)} is set"
    return f"; {' and '.join(missing)} is not set: the library decides" if missing else ""


def selected_in_mpi(case: Case, log: OpenMpiLog | None) -> Observation:
    """What the variables of this process' MPI select. ``log``: of Open MPI, if it was requested."""
    components = log.components() if log else []
    try:
        variables = MpiVariables()
    except (AttributeError, OSError):
        return Observation("unknown", "this MPI has no tool interface (MPI_T)", [], {})
    try:
        found = selected_for(case.operation, variables.read, components, os.environ)
    finally:
        variables.close()
    reason = plain(found.reason)
    if not found.algorithm:
        return Observation("unknown", reason, [], {}, ignored=_plain(found.ignored))
    kernel = found.algorithm.replace("_", " ")
    operation = msgspec.structs.replace(_built_in(case, kernel), algorithm=found.algorithm)
    return Observation("variables", reason, [operation], {}, ignored=_plain(found.ignored))


def _plain(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: plain(text) for name, text in texts.items()}


def _built_in(case: Case, kernel: str) -> Operation:
    return Operation(case.operation, case.dtype, case.count, -1, kernel, "", "", 0)


_LISTED = Path("/sys/class/infiniband")


def network_devices(listed: Path = _LISTED) -> list[str]:
    """Returns the names of InfiniBand and RoCE devices that Linux lists; empty if it cannot."""
    try:
        return sorted(entry.name for entry in listed.iterdir())
    except OSError:
        return []


_SINGLE = "a single rank has no connection"


def connections_of(
    ccl: str, communicator: engine.Communicator, instruments: Instruments, job: Job
) -> tuple[str, str, RankPaths]:
    """Returns the source (log, engine or unknown), the reason if it is unknown, and the paths.

    ``communicator``: of the library ``ccl`` and of all ranks of the run. The library may connect
    ranks when it is first used.
    """
    if not plug_ins_of(ccl):
        return connections_without_log(ccl, communicator.connections, job)
    source, reason, paths = "log", "", instruments.paths()
    paths.others = {
        plain(name): plain(value)
        for name, value in communicator.parameters
        if name not in paths.parameters
    }
    sizes = sorted({*paths.communicators, job.ranks})
    if len(sizes) > 1:
        # Their lines name ranks by their numbers in each of them.
        paths.routes, paths.ring_next, paths.tree_parent = [], {}, {}
    if paths.is_empty:
        source, reason = "unknown", "the library's log contains no connection"
        if job.ranks == 1:
            reason = _SINGLE
        elif len(sizes) > 1:
            reason = (
                f"the library created communicators of {' and '.join(map(str, sizes))} ranks, "
                "and its log does not show which communicator a connection belongs to"
            )
    return source, reason, paths


def connections_without_log(
    ccl: str, connections: Iterable[engine.Connection], job: Job
) -> tuple[str, str, RankPaths]:
    """As ``connections_of``, for the ``connections`` of a communicator that the engine reports."""
    routes = [Route(job.rank, one.to, one.transport) for one in connections]
    if routes:
        return "engine", "", RankPaths(routes=routes)
    reason = f"{ccl} has no interface that reports its connections"
    if job.ranks == 1:
        reason = _SINGLE
    elif plug_ins_of(ccl):
        reason = without_second_process(ccl)
    return "unknown", reason, RankPaths()
