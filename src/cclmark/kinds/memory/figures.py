"""Memory use of a library and of cclmark, from the readings before and after each stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cclmark.base.grouping import by_key
from cclmark.journal.schema import DeviceDescription
from cclmark.kinds.memory.result import MemoryBuffer, MemoryResult, MemoryStage
from cclmark.work.library_settings import number_set

GIVEN_BACK = "communicator destroyed"
ALLOCATED = "buffers allocated"
#: The stages up to the first operations, in the order of time. Results of one case have the same
#: ones, unless some ranks were measured again with --resume.
EARLIER = "earlier sizes"
LIBRARY_STAGES = ("library loaded", "communicator created", EARLIER, "first operations")


@dataclass(frozen=True)
class Taken:
    """The memory that became used in a stage, in bytes; negative where memory became free.

    ``device_bytes``: of the whole device, whichever process took it. ``pss_bytes``: None if
    unknown. See kinds.memory.result.MemoryReading.
    """

    device_bytes: int
    rss_bytes: int
    shared_bytes: int
    pss_bytes: int | None


def taken_in(stage: MemoryStage) -> Taken:
    """The memory taken in one stage."""
    before, after = stage.before, stage.after
    known = before.pss_bytes is not None and after.pss_bytes is not None
    return Taken(
        device_bytes=before.device_free_bytes - after.device_free_bytes,
        rss_bytes=after.rss_bytes - before.rss_bytes,
        shared_bytes=after.shared_bytes - before.shared_bytes,
        pss_bytes=(after.pss_bytes or 0) - (before.pss_bytes or 0) if known else None,
    )


def taken_by_library(result: MemoryResult) -> dict[str, Taken]:
    """The memory taken in each stage of the library up to its first operations, by stage."""
    return {stage.name: taken_in(stage) for stage in result.stages if stage.name in LIBRARY_STAGES}


def stated_total(stage: MemoryStage) -> int | None:
    """The device memory that the library reports after a stage, in bytes; None if nothing.

    NCCL: GpuMemTotal of ncclCommMemStats, "total communicator allocated GPU memory that is tracked
    by NCCL" (API reference).
    """
    return stage.after.stated.get("GpuMemTotal")


def stage_called(result: MemoryResult, name: str) -> MemoryStage | None:
    """The stage of this name, None where the result has none."""
    return next((stage for stage in result.stages if stage.name == name), None)


def changed_meanwhile(result: MemoryResult) -> dict[str, int]:
    """The bytes of device memory that became used between stages, by the stage that follows.

    No rank works between stages, so other processes cause these changes. Changes that other
    processes cause during a stage cannot be separated from the stage's own.
    """
    changes = {}
    for earlier, later in zip(result.stages, result.stages[1:], strict=False):
        change = earlier.after.device_free_bytes - later.before.device_free_bytes
        if change:
            changes[later.name] = change
    return changes


def listed_bytes(buffers: Iterable[MemoryBuffer], place: str) -> int:
    """The bytes that a rank has allocated in ``place``, without memory that it has only mapped."""
    return sum(one.size_bytes for one in buffers if one.place == place and not one.mapped)


#: The memory in which pieces are filled and checked on the host, during a call.
HOST_PIECE = "piece that is filled or checked on the host"
_INPUTS, _OUTPUTS = ("input", "input and output"), ("output", "input and output")


def hccl_test_host_bytes(result: MemoryResult) -> int:
    """The bytes of the host buffers that hccl_test holds on a rank for the same operation.

    Those of the input, of the expected output and of the received one (init_buff, check_buff,
    recv_buff_temp of its sources), from the first one to the end.
    """
    inputs, outputs = (
        sum(
            one.used_bytes
            for one in result.buffers
            if one.purpose.partition(",")[0] in purposes  # input, registered
        )
        for purposes in (_INPUTS, _OUTPUTS)
    )
    return inputs + 2 * outputs


def sharing_devices(devices: Sequence[DeviceDescription]) -> list[list[int]]:
    """The ranks of each accelerator that several ranks use."""
    users = by_key(
        ((device.host, device.runtime, device.index), device.rank)
        for device in devices
        if device.runtime != "host"
    )
    return [ranks for ranks in users.values() if len(ranks) > 1]


def on_host(result: MemoryResult, devices: Sequence[DeviceDescription]) -> bool:
    """Whether the rank computes on the host, so that its device has no separate memory."""
    return any(one.rank == result.memory.rank and one.runtime == "host" for one in devices)


def alike(
    results: Sequence[MemoryResult], devices: Sequence[DeviceDescription]
) -> list[list[MemoryResult]]:
    """Groups the results of one case: within a group, every stage took the same device memory.

    Host memory differs by pages from rank to rank and has no influence.
    """
    groups: dict[object, list[MemoryResult]] = {}
    for result in results:
        host = on_host(result, devices)
        stages = tuple(
            (stage.name, 0 if host else taken_in(stage).device_bytes, *stage.after.stated.items())
            for stage in result.stages
        )
        groups.setdefault((host, stages, result.status, result.reason), []).append(result)
    return list(groups.values())


@dataclass(frozen=True)
class SameBuffers:
    """A buffer that several ranks have alike, but for its values and address."""

    buffer: MemoryBuffer
    ranks: list[int]
    number: int


def same_buffers(results: Sequence[MemoryResult]) -> list[SameBuffers]:
    """The buffers of all ranks of a case, in the order in which ranks list them, by purpose.

    Equal buffers of one rank, for example the mapped buffers of its peers, are one entry with
    their ``number``.
    """
    found: dict[tuple[object, ...], Counter[int]] = {}
    first: dict[tuple[object, ...], MemoryBuffer] = {}
    for result in results:
        for one in result.buffers:
            key = (one.owner, one.purpose, one.place, one.mapped, one.size_bytes, one.used_bytes)
            first.setdefault(key, one)
            found.setdefault(key, Counter())[result.memory.rank] += 1
    merged = [
        SameBuffers(first[key], ranks, number)
        for key, by_rank in found.items()
        for number, ranks in by_key((number, rank) for rank, number in by_rank.items()).items()
    ]
    purposes = list(dict.fromkeys(one.buffer.purpose for one in merged))
    return sorted(merged, key=lambda one: purposes.index(one.buffer.purpose))


@dataclass(frozen=True)
class Expected:
    """Device memory that a library's documentation explains.

    ``variable``: the setting with its ``value_bytes``, which is the default unless ``is_set``.
    ``unit_bytes``: the memory of one ``unit``; None without the figures to compute it.
    """

    variable: str
    value_bytes: int
    is_set: bool
    unit_bytes: int | None
    unit: str


def expected_of(result: MemoryResult, environment: Mapping[str, str]) -> Expected | None:
    """The documented memory of the library of ``result``; None if no formula is documented.

    NCCL: NCCL_BUFFSIZE, in bytes, "controls the size of the buffer used by NCCL when communicating
    data between pairs of GPUs", 4194304 by default (user guide, Environment Variables). In NCCL's
    public sources (src/transport/p2p.cc) each channel has such a buffer for each connection, in
    addition to smaller buffers of the protocols LL and LL128, which are not counted here.

    HCCL: "each communicator occupies 2 x HCCL_BUFFSIZE memory, which is used for receiving and
    sending"; the unit is MB (of 1024 x 1024 bytes), 200 by default (CANN, Environment Variable
    Reference).

    A value that is not a number, which libraries ignore, counts as not set.
    """
    library = result.memory.ccl.removeprefix("torch:")
    if library == "nccl":
        value, is_set = number_set(environment, "nccl", "NCCL_BUFFSIZE")
        channels = 0 if result.channels is None else result.channels.collective
        unit = f"a connection of all {channels} channels"
        return Expected("NCCL_BUFFSIZE", value, is_set, value * channels or None, unit)
    if library == "hccl":
        value, is_set = number_set(environment, "hccl", "HCCL_BUFFSIZE")
        value <<= 20
        return Expected("HCCL_BUFFSIZE", value, is_set, 2 * value, "the communicator")
    return None
