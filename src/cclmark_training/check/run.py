"""Checks of a backend of torch.distributed on one rank."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

import cclmark._engine as engine
from cclmark.rank.context import RankContext
from cclmark.rank.torch_backend import ProcessGroup, cannot, one_line
from cclmark.work.inject import RankFaults
from cclmark.work.items import items_of
from cclmark_training.check.plan import Check
from cclmark_training.check.result import CheckedValue, CheckResult
from cclmark_training.check.torch_checks import FUNCTIONS, NotThereError, ValueRecorder, World
from cclmark_training.torch_loop import TorchLoop

_PASS, _UNSUPPORTED, _FAILED = 0.0, 1.0, 2.0


def run(context: RankContext) -> None:
    """Loads torch, introduces the rank and runs the checks; rank 0 reports."""
    TorchChecker(context, items_of(context.rank.planned, Check)).run()


class TorchChecker(TorchLoop):
    """Runs the checks of a job on one rank, in step with the others."""

    def __init__(self, context: RankContext, checks: Sequence[Check]) -> None:
        super().__init__(context, checks, checks[0].backend)
        self._checks = checks
        job = self.job
        self._faults = RankFaults.of_rank(job.settings.inject, job.rank, job.ranks)

    @property
    def timeout_s(self) -> float:
        """torch's timeout, before the deadline of the rank: a check that hangs counts as failed."""
        return self.job.settings.timeout_s / 2

    def words(self, error: Exception) -> str:
        """The whole message, for the author of a backend."""
        return str(error)

    def open(self, torch: Any, device: Any, group: ProcessGroup) -> None:
        """See TorchLoop."""
        job = self.job
        self._group = group
        self._recorder = ValueRecorder(torch, job.rank) if job.settings.values else None
        self._world = World(
            torch,
            self.backend,
            job.rank,
            job.ranks,
            device,
            self._faults.corrupt,
            self._recorder,
            job.settings.seed,
        )

    def finish(self) -> None:
        """Reports an element to corrupt that no output has."""
        if self._faults.corrupt is not None and not self._world.falsified:
            self.rank.notice(
                f"no output of rank {self.job.rank} was corrupted: no compared output has an "
                f"element {self._faults.corrupt}"
            )

    def measure(self, index: int) -> CheckResult:
        """See TorchLoop."""
        check = self._checks[index]
        self.rank.enter("timing")
        started_at_s, begin_s = time.time(), time.monotonic()
        if self._faults.delay_s:
            time.sleep(self._faults.delay_s)
        verdict, reason = self._call(check)
        duration_s = time.monotonic() - begin_s
        # Other ranks may still wait for an operation to time out.
        self.rank.enter("verification", others_s=self._group.timeout_s)
        # Durations instead of times, because the clocks of several hosts are not comparable.
        gathered = self.rank.rank_group.gather([verdict, duration_s])
        verdicts, durations_s = gathered[::2], gathered[1::2]
        result = CheckResult(index, check, "ok", "", started_at_s, duration_s)
        if self._recorder is not None:
            result.values = self._values(index, self._recorder.take())
        if max(verdicts) == _PASS:
            return result
        alike = min(verdicts) == max(verdicts) == _UNSUPPORTED
        result.status = "unsupported" if alike else "failed"
        result.reason = self._reason(index, reason, verdicts, durations_s, alike=alike)
        if not alike:
            try:
                self._group.renew()
            except Exception as error:  # torch and its plug-ins may raise any exception
                raise engine.EngineError(
                    f"after {check.name} failed, torch cannot create the process group again: "
                    f"{one_line(error)}"
                ) from None
        return result

    def _values(self, index: int, own: list[CheckedValue]) -> list[CheckedValue]:
        """The values of all ranks on rank 0, the first of each rank first; elsewhere empty."""
        job, client = self.rank.job, self.rank.client
        if job.rank:
            client.put(f"values {index} of rank {job.rank}", msgspec.msgpack.encode(own))
            return []
        by_rank = [own]
        for rank in range(1, job.ranks):
            sent = client.get(f"values {index} of rank {rank}", job.settings.timeout_s)
            by_rank.append(msgspec.msgpack.decode(sent, type=list[CheckedValue]))
        rows = [(place, one) for values in by_rank for place, one in enumerate(values)]
        return [one for _, one in sorted(rows, key=lambda row: (row[0], row[1].rank))]

    def _call(self, check: Check) -> tuple[float, str]:
        self._world.mismatch = ""
        verdict, reason = self._run(check)
        if self._world.mismatch:  # an error after it may follow from it
            return _FAILED, self._world.mismatch
        return verdict, reason

    def _run(self, check: Check) -> tuple[float, str]:
        try:
            FUNCTIONS[check.name](self._world)
        except NotThereError as error:
            return _UNSUPPORTED, str(error)
        except Exception as error:  # torch and its plug-ins may raise any exception
            return (_UNSUPPORTED if cannot(error) else _FAILED), one_line(error)
        return _PASS, ""

    def _reason(
        self,
        index: int,
        own: str,
        verdicts: Sequence[float],
        durations_s: Sequence[float],
        *,
        alike: bool,
    ) -> str:
        """The reason of the rank that failed first, since others may only have waited for it."""
        job, client = self.rank.job, self.rank.client
        worst = max(verdicts)
        speaker = min(
            (number for number, verdict in enumerate(verdicts) if verdict == worst),
            key=lambda number: durations_s[number],
        )
        key = f"reason {index}"
        if job.rank == speaker:
            client.put(key, own.encode())
        if job.rank != 0:
            return ""
        text = own if speaker == 0 else client.get(key, job.settings.timeout_s).decode()
        if alike:
            return text
        others = sum(verdict != _PASS for verdict in verdicts) - 1
        more = f" ({others} more rank{'s' * (others > 1)} failed)" if others else ""
        return f"rank {speaker}: {text}{more}"
