"""Reads torch.profiler's traces (Kineto), one for each rank, as profiles of programs.

The kernels of NCCL carry what torch called: "Collective name", "In msg nelems", "Out msg nelems",
"dtype", "Group size", "Process Group Name" and "Process Group Ranks" (torch/csrc/distributed/c10d/
ParamCommsUtils.hpp). Gloo has no kernels: its events "gloo:all_reduce" have times, and sizes if the
shapes were recorded.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import msgspec

from cclmark.analysis.steps import ON_DEVICE, is_communication, is_host_compute
from cclmark.base.errors import UsageError
from cclmark.base.printable import plain
from cclmark.profile.observed import ObservedGroup, ObservedProcess
from cclmark.work.intervals import Interval, union_of
from cclmark_importers.trace_calls import (
    NO_OPERATIONS,
    TorchCalls,
    decoded,
    group_of,
    is_rank,
    named,
    number_of,
    rank_in_name,
)
from cclmark_importers.trace_events import TraceEvent, is_compressed, pieces_of, read_events

_FIRST_UNION = 1 << 18  # intervals of kernels, which may overlap
_STEP = "ProfilerStep#"
_RECORD = "record_param_comms"
_NCCL_KERNEL = re.compile(r"nccl(?:Dev)?Kernel_?([A-Za-z]+)", re.ASCII)
_NCCL, _GLOO = "nccl", "gloo"


_ARGUMENTS = msgspec.json.Decoder(dict[str, Any])


def is_kineto(content: bytes) -> bool:
    """Whether a file is a trace of torch.profiler, perhaps compressed or cut off."""
    start = content
    if is_compressed(content):
        try:
            start = zlib.decompressobj(wbits=31).decompress(content, 1 << 16)
        except zlib.error:
            return False
    head = start[: 1 << 16].lstrip()
    return head.startswith(b"{") and (
        b'"traceEvents"' in head or (b'"schemaVersion"' in head and b'"deviceProperties"' in head)
    )


@dataclass
class _Kept:
    """Data kept of the events.

    ``kernels``: the intervals of the device's work that computes, ``host_work``: of torch's
    operators, until there is work of a device. ``transfers``: of communication without a call.
    ``host_steps`` and ``device_steps``: by name; those of a device have an interval on each stream.
    """

    communication: list[tuple[TraceEvent, int, int]] = field(default_factory=list)
    recorded: list[tuple[TraceEvent, int, int]] = field(default_factory=list)
    kernels: list[Interval] = field(default_factory=list)
    host_work: list[Interval] = field(default_factory=list)
    transfers: list[Interval] = field(default_factory=list)
    host_steps: dict[str, Interval] = field(default_factory=dict)
    device_steps: dict[str, Interval] = field(default_factory=dict)
    has_device: bool = False
    most: int = _FIRST_UNION

    def add(self, events: list[TraceEvent]) -> None:
        """Adds events. Their arguments are copied, since they refer to a piece of the file."""
        for event, begin_ns, end_ns in _complete(events):
            if event.cat in ON_DEVICE:
                self.has_device = True
                if event.cat == "kernel" and "nccl" in event.name[:16]:
                    self.communication.append((_copied(event), begin_ns, end_ns))
                elif is_communication(event.cat, event.name):
                    self.transfers.append((begin_ns, end_ns))
                else:
                    self.kernels.append((begin_ns, end_ns))
            elif event.name.startswith(_STEP):
                steps = self.device_steps if event.cat.startswith("gpu") else self.host_steps
                other_ns = steps.get(event.name, (begin_ns, end_ns))
                steps[event.name] = min(begin_ns, other_ns[0]), max(end_ns, other_ns[1])
            elif event.name.startswith("gloo:") and not event.cat.startswith("gpu"):
                self.communication.append((_copied(event), begin_ns, end_ns))
            elif event.name == _RECORD:
                self.recorded.append((_copied(event), begin_ns, end_ns))
            elif not self.has_device and is_host_compute(event.cat, event.name):
                self.host_work.append((begin_ns, end_ns))
        if self.has_device:
            self.host_work.clear()
        if max(map(len, (self.kernels, self.host_work, self.transfers))) > self.most:
            self.kernels = union_of(self.kernels)
            self.host_work = union_of(self.host_work)
            self.transfers = union_of(self.transfers)
            longest = max(map(len, (self.kernels, self.host_work, self.transfers)))
            self.most = max(_FIRST_UNION, 2 * longest)


def _copied(event: TraceEvent) -> TraceEvent:
    return TraceEvent(cat=event.cat, name=event.name, args=event.args.copy())


@dataclass
class _Found(TorchCalls):
    """Data collected from a trace."""

    gloo: ObservedGroup = field(default_factory=lambda: ObservedGroup(_GLOO))
    kept: _Kept = field(default_factory=_Kept)
    unnamed: int = 0
    unsized: int = 0
    untimed: int = 0


def read_kineto(file: BinaryIO, name: str, number: int) -> ObservedProcess:
    """Reads the trace of one rank. ``number``: of the file among those that are imported.

    The file is read piece by piece: only communication and the times of kernels are kept. Raises
    UsageError if the trace is truncated or damaged, or contains no communication.
    """
    kept = _Kept()
    members = read_events(pieces_of(file, name), name, kept.add)
    info = members.distributedInfo
    found = _Found(
        ObservedProcess(
            rank=_rank(info, name, number),
            host=plain(members.host_name),
            pid=0,
            library=_library(info),
        ),
        gloo=_group_of_gloo(info),
        kept=kept,
    )
    for event in sorted(kept.communication, key=lambda one: one[1]):
        _add(found, *event)
    kept.communication.clear()
    if not found.process.operations:
        _add_recorded(found)
    _complete_process(found)
    if not found.process.operations:
        raise UsageError(
            f"{name} contains no communication: no kernel of NCCL, and no event of gloo. Record "
            "with ProfilerActivity.CUDA (for gloo: CPU), around the steps of training"
        )
    if not found.process.is_possible:
        raise UsageError(
            f"{name}: the trace is damaged: it contains numbers that are too large. Export it again"
        )
    return found.process


def _rank(info: dict[str, Any], name: str, number: int) -> int:
    rank = info.get("rank")
    return number_of(rank) if is_rank(rank) else rank_in_name(name, number)


def _library(info: dict[str, Any]) -> str:
    backend, version = info.get("backend"), info.get("nccl_version")
    if not isinstance(backend, str):
        return ""
    is_known = backend == _NCCL and isinstance(version, str)
    return plain(f"{backend} {version}" if is_known else backend)


def _group_of_gloo(info: dict[str, Any]) -> ObservedGroup:
    """The group of gloo's operations, whose events do not name it: known if there is only one."""
    groups = info.get("pg_config")
    only = groups[0] if isinstance(groups, list) and len(groups) == 1 else None
    ranks = only.get("ranks") if isinstance(only, dict) else None
    if not isinstance(ranks, list) or not all(isinstance(one, int) for one in ranks):
        return ObservedGroup(_GLOO)
    assert isinstance(only, dict)
    return ObservedGroup(_GLOO, plain(str(only.get("pg_desc", ""))), len(ranks), -1, ranks)


def _complete(events: list[TraceEvent]) -> Iterator[tuple[TraceEvent, int, int]]:
    """The events with a duration, and their begin and end in nanoseconds."""
    for event in events:
        if event.ph != "X":
            continue
        try:
            begin_ns = round(float(event.ts or 0.0) * 1e3)
            yield event, begin_ns, begin_ns + round(float(event.dur or 0.0) * 1e3)
        except (ValueError, OverflowError):
            continue


def _add(found: _Found, event: TraceEvent, begin_ns: int, end_ns: int) -> None:
    if event.cat in ON_DEVICE:
        _add_nccl(found, event, begin_ns, end_ns)
    else:
        _add_gloo(found, event, begin_ns, end_ns)


def _arguments(event: TraceEvent) -> dict[str, Any]:
    return decoded(_ARGUMENTS, event.args, {})


def _add_nccl(
    found: _Found, event: TraceEvent, begin_ns: int, end_ns: int, *, is_timed: bool = True
) -> None:
    arguments = _arguments(event)
    name = arguments.get("Collective name")
    if not isinstance(name, str) or not name:
        kernel = _NCCL_KERNEL.match(event.name)
        name = kernel[1] if kernel is not None else "unknown"
        found.unnamed += 1
    collective = named(name)
    side = "Out" if collective.is_counted_by_output else "In"
    peer = {"send": "Dst Rank", "recv": "Src Rank"}.get(collective.operation, "")
    found.add(
        _NCCL,
        collective,
        _group(arguments),
        str(arguments.get("dtype", "")),
        number_of(arguments.get(f"{side} msg nelems")),
        at_ns=begin_ns,
        time_ns=max(0, end_ns - begin_ns) if is_timed else None,
        stream=arguments.get("stream"),
        peer=arguments.get(peer),
        numbered=arguments.get("Seq"),
    )


def _add_recorded(found: _Found) -> None:
    """Adds the calls of a trace without kernels, whose times are unknown."""
    for event, begin_ns, end_ns in sorted(found.kept.recorded, key=lambda one: one[1]):
        name = _arguments(event).get("Collective name")
        if isinstance(name, str) and name and name not in NO_OPERATIONS:
            _add_nccl(found, event, begin_ns, end_ns, is_timed=False)
            found.untimed += 1


def _group(arguments: dict[str, Any]) -> ObservedGroup:
    name = str(arguments.get("Process Group Name", ""))
    described = str(arguments.get("Process Group Description", ""))
    text = str(arguments.get("Process Group Ranks", ""))
    size = number_of(arguments.get("Group size"))
    members: list[int] = []
    if "..." not in text:  # torch shortens long lists
        members = [int(one) for one in re.findall(r"\d{1,7}", text)]
    if size and len(members) != size:
        members = []
    return group_of(name, described, f"{text} {size}", size or len(members), members)


def _add_gloo(found: _Found, event: TraceEvent, begin_ns: int, end_ns: int) -> None:
    arguments = _arguments(event)
    dimensions, types = arguments.get("Input Dims"), arguments.get("Input type")
    count, dtype = 0, ""
    if isinstance(dimensions, list) and dimensions and isinstance(dimensions[0], list):
        count = 1
        for one in dimensions[0]:
            count = number_of(count * number_of(one))
        if isinstance(types, list) and types:
            dtype = str(types[0])
    else:
        found.unsized += 1
    found.add(
        _GLOO,
        named(event.name.removeprefix("gloo:")),
        found.gloo,
        dtype,
        count,
        at_ns=begin_ns,
        time_ns=max(0, end_ns - begin_ns),
    )


def _complete_process(found: _Found) -> None:
    process = found.process
    kept = found.kept
    if kept.has_device:
        process.kernels = union_of(kept.kernels)
    elif kept.host_work and not found.untimed:  # the host computes, beside gloo's operations
        process.kernels = union_of(kept.host_work)
    process.transfers = union_of(kept.transfers)
    process.steps = _steps((kept.device_steps or kept.host_steps).values())
    notes = []
    if found.unnamed:
        notes.append(
            f"{found.unnamed} kernels of NCCL without a description of the collective, as torch "
            "before 2.4 records them: their sizes are unknown"
        )
    if found.unsized:
        notes.append(
            f"{found.unsized} operations of gloo without sizes: record with record_shapes=True"
        )
    if found.untimed:
        notes.append(
            f"{found.untimed} calls without kernels, so that their times are unknown: record with "
            "ProfilerActivity.CUDA"
        )
    process.note = "; ".join(notes)


def _steps(marked: Iterable[Interval]) -> list[Interval]:
    """The steps, each up to the start of the next one: the last one up to its own end."""
    ordered = sorted(marked)
    ends = [begin for begin, _ in ordered[1:]] + [end for _, end in ordered[-1:]]
    return [(begin, end) for (begin, _), end in zip(ordered, ends, strict=True) if end > begin]
