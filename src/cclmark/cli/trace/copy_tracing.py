"""Traces one transfer: measures it, then records its copies, and writes the timeline."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from cclmark.cli.p2p.transferring import devices_of, is_together, plans_of, settings_of
from cclmark.cli.trace.copy_options import TraceCopiesFlags
from cclmark.cli.trace.new_files import file_for
from cclmark.cli.trace.tracing import WRITERS, Files, TraceContents, Tracing
from cclmark.errors import UsageError
from cclmark.launch.devices import DeviceChoice
from cclmark.launch.request import Request, Surroundings
from cclmark.plan.binding import Binding
from cclmark.plan.items import P2P
from cclmark.plan.transfers import Transfer
from cclmark.recording.joining import first_of
from cclmark.recording.run_files import new_journal
from cclmark.report.lists.copy_trace_summary import copy_trace_summary
from cclmark.run import locate
from cclmark.trace.copy_timeline import assemble_copies
from cclmark.trace.rank_trace import RankTrace

_MEASURED_FOR_S = 0.3  # the copies that are not traced, to compare with
_MOST_AT_ONCE = 100  # copies in a batch of the trace, and in a sample of the measurement
_MOST_LISTED = 8
_HOST = "host"


def trace_copies(flags: TraceCopiesFlags) -> int:
    """Traces the transfer that the flags describe and returns the exit code.

    Raises CclmarkError before anything is started if the flags are invalid.
    """
    began_s = time.monotonic()
    launched = first_of("trace p2p")
    if launched is not None:
        print(
            f"cclmark: {launched.launcher} started {launched.processes} processes; one of them "
            "traces all devices.",
            file=sys.stderr,
        )
    copies = flags.repeat
    assert copies is not None  # has a default
    flags.repeat, flags.max_time_s = min(copies, _MOST_AT_ONCE), _MEASURED_FOR_S
    flags.scope = flags.scope.strip().lower()
    pair = _Pair.parse(flags.pair or _default_pair(flags.scope))
    if pair is not None:
        flags.scope = pair.scope_for(flags.scope)
    devices = _devices(flags, pair)
    settings = settings_of(flags, devices.runtime)
    plans = plans_of(flags, devices, settings)
    transfer = _only([one for plan in plans for one in plan.transfers()], flags, pair)
    together = is_together(flags, devices.runtime, [transfer])
    settings = msgspec.structs.replace(
        settings,
        warmup=flags.warmup,
        bind=str(Binding.parse(flags.bind, 1 if together else len(devices.indices))),
    )
    request = Request(
        devices=devices,
        settings=settings,
        kind=P2P,
        planned=[transfer],
        together=together,
        ccl_wheels={"nvrtc": locate.wheel_files("nvrtc")},
    )
    suffix, _ = WRITERS[flags.format]
    stem = f"p2p-{devices.runtime}-{len(devices.indices)}"
    path = file_for(flags.output, stem, suffix)
    files = Files(path, flags.format, flags.journal or new_journal(f"trace-{stem}"))
    return Tracing(request, copies, partial(_found, transfer, copies)).run(files, began_s)


def _found(
    transfer: Transfer,
    copies: int,
    traces: list[RankTrace],
    untraced_s: float,
    _surroundings: Surroundings,
) -> TraceContents:
    """Contents of the traces of a transfer."""
    found = assemble_copies(transfer, traces)
    found.timeline.facts["copies of each flow"] = copies
    found.timeline.facts["µs of a copy that is not traced"] = round(untraced_s * 1e6, 3)
    lines = copy_trace_summary(found, copies, untraced_s)
    return TraceContents(found.timeline, lines, found.stages, bool(found.wrong), [])


@dataclass(frozen=True)
class _Pair:
    """The ends of a flow: device numbers, None for the host's memory."""

    start: int | None
    end: int | None

    @classmethod
    def parse(cls, text: str) -> _Pair | None:
        """Parses ``0-1``, ``host-0`` or ``0-host``; None for an empty text. Raises UsageError."""
        if not text:
            return None
        ends = text.lower().split("-")
        known = all(end == _HOST or (end.isascii() and end.isdecimal()) for end in ends)
        if len(ends) != 2 or not known or ends == [_HOST, _HOST]:
            raise UsageError(f"cannot read the pair {text!r}: write 0-1, 2-2, host-0 or 0-host")
        start, end = (None if end == _HOST else int(end) for end in ends)
        return cls(start, end)

    @property
    def devices(self) -> int:
        """How many devices there must be."""
        return 1 + max(end for end in (self.start, self.end) if end is not None)

    def scope_for(self, scope: str) -> str:
        """The scope that contains this pair, if ``scope`` is that of single flows."""
        if scope != "pairs":
            return scope
        if None in (self.start, self.end):
            return "host"
        return "local" if self.start == self.end else scope

    def is_of(self, transfer: Transfer) -> bool:
        """Whether it is a flow of ``transfer``; of one pair in both directions, the first."""
        if transfer.host_memory:
            device = transfer.flows[0][0]
            ends = (device, None) if transfer.to_host else (None, device)
            return (self.start, self.end) == ends
        flows = transfer.flows[:1] if transfer.scope == "pairs" else transfer.flows
        return (self.start, self.end) in flows


def _default_pair(scope: str) -> str:
    return {"pairs": "0-1", "local": "0-0", "host": "host-0"}.get(scope, "")


def _devices(flags: TraceCopiesFlags, pair: _Pair | None) -> DeviceChoice:
    """The selected devices, without those that the pair does not require."""
    found = devices_of(flags, None)
    number = len(found.indices)
    if pair is None:
        return found
    if pair.devices > number:
        raise UsageError(
            f"the pair requires {pair.devices} devices, but there "
            f"{'is' if number == 1 else 'are'} only {number}: see --devices, -g and --pair, or use "
            "--scope local,host"
        )
    if flags.count is None and flags.scope in ("pairs", "local", "host"):
        return replace(found, indices=found.indices[: pair.devices])
    return found


def _only(transfers: list[Transfer], flags: TraceCopiesFlags, pair: _Pair | None) -> Transfer:
    """The one transfer that the options describe. Raises UsageError."""
    found = [
        one
        for one in dict.fromkeys(transfers)
        if (pair is None or pair.is_of(one))
        and one.numa in ("", "near")
        and one.host_memory in ("", flags.host_memory)
    ]
    if not found:
        raise UsageError(
            "these options describe no copy: peer access off requires --direction write and "
            "--engine CE; a copy within a device or with the host requires uniBw; the host's "
            "memory requires --direction write, and pageable memory --engine CE; --pair must be a "
            "flow of --scope"
        )
    if len(found) > 1:
        listed = [one.describe() for one in found[:_MOST_LISTED]]
        more = [f"and {len(found) - _MOST_LISTED} more"] if len(found) > _MOST_LISTED else []
        raise UsageError(
            f"these options describe {len(found)} transfers: a trace contains one. Choose one pair "
            "(--pair), direction, engine, kernel, scope and number of blocks:\n  "
            + "\n  ".join([*listed, *more])
        )
    return found[0]
