"""Sentences on the memory of a case: what the library takes, and what explains it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from cclmark.analysis.memory_use import (
    ALLOCATED,
    GIVEN_BACK,
    LIBRARY_STAGES,
    changed_meanwhile,
    expected_of,
    listed_bytes,
    on_host,
    sharing_devices,
    stage_called,
    taken_by_library,
    taken_in,
)
from cclmark.plan.ranges import in_ranges
from cclmark.plan.sizes import format_size
from cclmark.printable import plain
from cclmark.results.kinds import MemoryResult
from cclmark.results.schema import Header, MemoryStage

PAGES_NOTE = (
    "Host memory of a process: RSS counts every resident page in full, PSS divides a page by the "
    "number of processes that share it. Sums over ranks are sums of PSS."
)
DEVICE_NOTE = (
    "Device memory is the change of the device's free memory, so it contains changes that other "
    "processes cause during a stage."
)


def signed_size(size_bytes: int) -> str:
    """Formats a change: +4 MiB, -4 MiB, 0 B."""
    sign = "+" if size_bytes > 0 else "-" if size_bytes < 0 else ""
    return sign + format_size(abs(size_bytes))


def span(sizes_bytes: Iterable[int], text: Callable[[int], str] = format_size) -> str:
    """Formats sizes of several ranks: one size, or the smallest to the largest."""
    ordered = sorted(sizes_bytes)
    texts = list(dict.fromkeys(map(text, (ordered[0], ordered[-1]))))
    return " to ".join(texts)


def ranks_text(ranks: Iterable[int]) -> str:
    """Returns ``rank 3`` or ``ranks 0-3,7``."""
    ordered = sorted(ranks)
    return f"rank {ordered[0]}" if len(ordered) == 1 else f"ranks {in_ranges(ordered)}"


def memory_sentences(results: Sequence[MemoryResult], header: Header) -> list[str]:
    """Returns sentences on the ranks of one case. Safe to print."""
    devices = header.devices
    measured = [one for one in results if one.is_measured]
    if not measured:
        return []
    on_devices = [one for one in measured if not on_host(one, devices)]
    ccl = plain(measured[0].memory.ccl)
    lines = []
    if on_devices:
        lines += _at_first(on_devices, header)
        lines.append(_of_devices(on_devices, ccl))
        lines += _of_expectation(on_devices, header, ccl)
        lines += _given_back(on_devices, ccl)
        lines += _of_buffers(on_devices)
    if hosts := [one for one in measured if on_host(one, devices)]:
        lines.append(_of_host(hosts, ccl))
    lines += _of_statement(measured)
    lines += _of_others(on_devices, header)
    return lines


def _at_first(results: Sequence[MemoryResult], header: Header) -> list[str]:
    own = {it.memory.rank for it in results}
    whole = [device.memory_bytes for device in header.devices if device.rank in own]
    free = [it.stages[0].before.device_free_bytes for it in results if it.stages]
    if not whole or not free:
        return []
    text = f"Before the library is loaded, {span(free)} of {span(whole)} of device memory are free"
    if min(free) < max(whole):
        text += ": the runtime's context and other processes use the rest"
    return [f"{text}."]


def _of_devices(results: Sequence[MemoryResult], ccl: str) -> str:
    every = [taken_by_library(it) for it in results]
    whole = [sum(one.device_bytes for one in taken.values()) for taken in every]
    stages = []
    for name in LIBRARY_STAGES:
        taken = [one[name].device_bytes for one in every if name in one]
        stages += [f"{name} {span(taken, signed_size)}"] if taken else []
    taken_text = _change_text(
        whole,
        lambda sizes: f"{ccl} takes {sizes} of device memory per rank",
        lambda sizes: f"with {ccl}, the free device memory grows by {sizes} per rank",
        lambda sizes: f"with {ccl}, the used device memory changes by {sizes} per rank",
    )
    return f"{taken_text} (measured{': ' if stages else ''}{', '.join(stages)})."


def _change_text(
    sizes_bytes: Iterable[int],
    growing: Callable[[str], str],
    shrinking: Callable[[str], str],
    mixed: Callable[[str], str],
) -> str:
    """Describes changes of several ranks, without negative sizes if all have one direction."""
    sizes = list(sizes_bytes)
    if min(sizes) >= 0:
        return growing(span(sizes))
    if max(sizes) <= 0:
        return shrinking(span([-one for one in sizes]))
    return mixed(span(sizes, signed_size))


def _of_host(results: Sequence[MemoryResult], ccl: str) -> str:
    """The growth of the process: PSS, or RSS if PSS is unknown."""
    totals = [taken_by_library(one).values() for one in results]
    pss = [[one.pss_bytes for one in taken if one.pss_bytes is not None] for taken in totals]
    if all(len(known) == len(taken) for known, taken in zip(pss, totals, strict=True)):
        changes, figure = [sum(known) for known in pss], "PSS"
    else:
        changes = [sum(one.rss_bytes for one in taken) for taken in totals]
        figure = "RSS"
    text = _change_text(
        changes,
        lambda sizes: f"grows by {sizes}",
        lambda sizes: f"shrinks by {sizes}",
        lambda sizes: f"changes by {sizes}",
    )
    return (
        f"With {ccl}, a rank's process {text} ({figure}, measured) from the loading of "
        "the library to its first operations, without the stage in which cclmark allocates."
    )


def _of_expectation(results: Sequence[MemoryResult], header: Header, ccl: str) -> list[str]:
    expected = expected_of(results[0], header.environment)
    if expected is None:
        return []
    origin = "set" if expected.is_set else "the default"
    setting = f"{expected.variable} is {format_size(expected.value_bytes)} ({origin})"
    if expected.unit_bytes is None:
        return [
            f"{setting}: {ccl} has a buffer of this size for each channel of a connection. The "
            "number of channels is unknown: the library's log does not contain it."
        ]
    explained = f"{setting}; computed: {format_size(expected.unit_bytes)} for {expected.unit}"
    ratios = [
        sum(one.device_bytes for one in taken_by_library(it).values()) / expected.unit_bytes
        for it in results
    ]
    ends = list(dict.fromkeys(f"{ratio:.1f}" for ratio in (min(ratios), max(ratios))))
    return [f"{explained}. The measured figure is {' to '.join(ends)} times that."]


def _given_back(results: Sequence[MemoryResult], ccl: str) -> list[str]:
    ends = [stage for it in results if (stage := stage_called(it, GIVEN_BACK)) is not None]
    if len(ends) < len(results):
        return []
    back = [-taken_in(stage).device_bytes for stage in ends]
    held = [
        sum(one.device_bytes for one in taken_by_library(it).values()) - returned
        for it, returned in zip(results, back, strict=True)
    ]
    rest = "nothing remains"
    if any(held):
        rest = _change_text(
            held,
            lambda sizes: f"{sizes} remain until the process exits",
            lambda sizes: f"{sizes} more than before are free",
            lambda sizes: f"the used memory remains changed by {sizes}",
        )
    given = _change_text(
        back,
        lambda sizes: f"gives {sizes} back",
        lambda sizes: f"takes {sizes} more",
        lambda sizes: f"changes the free memory by {sizes}",
    )
    return [f"The end of the communicator {given}; {rest}."]


def _of_buffers(results: Sequence[MemoryResult]) -> list[str]:
    """Compares the listed buffers with the change of free memory when they were allocated."""
    stages = [stage for it in results if (stage := stage_called(it, ALLOCATED)) is not None]
    if len(stages) < len(results):
        return []
    listed = [
        listed_bytes((one for one in it.buffers if one.owner == "cclmark"), "device")
        for it in results
    ]
    measured = [taken_in(stage).device_bytes for stage in stages]
    text = f"cclmark allocates {span(listed)} of device memory for buffers and checks"
    if any(0 < one.used_bytes < one.size_bytes for it in results for one in it.buffers):
        text += (
            " (more than one operation uses: consecutive operations use different parts, so that "
            "small messages do not stay in the cache)"
        )
    if listed == measured:
        return [f"{text}, as much as the free memory decreases."]
    change = _change_text(
        measured,
        lambda sizes: f"decreases by {sizes}",
        lambda sizes: f"increases by {sizes}",
        lambda sizes: f"decreases by {sizes}",
    )
    return [f"{text}; the free memory {change}, with streams, kernels and the runtime's rounding."]


def _of_statement(results: Sequence[MemoryResult]) -> list[str]:
    if known := [stated for it in results if (stated := _last_statement(it.stages))]:
        total, kept, released = (
            span(stated.get(name, 0) for stated in known)
            for name in ("GpuMemTotal", "GpuMemPersist", "GpuMemSuspend")
        )
        return [
            f"The library itself reports {total} that it tracks ({kept} persistent, {released} "
            "that ncclCommSuspend releases)."
        ]
    by_reason: dict[str, list[int]] = {}
    for it in results:
        by_reason.setdefault(it.not_stated, []).append(it.memory.rank)
    silent = {reason: ranks for reason, ranks in by_reason.items() if reason}
    if len(by_reason) == 1:
        return [f"The library itself reports nothing: {plain(reason)}." for reason in silent]
    return [
        f"The library of {ranks_text(ranks)} reports nothing itself: {plain(reason)}."
        for reason, ranks in silent.items()
    ]


def _last_statement(stages: Sequence[MemoryStage]) -> Mapping[str, int]:
    """What the library reported last, empty if nothing."""
    return next((stage.after.stated for stage in reversed(stages) if stage.after.stated), {})


def _of_others(results: Sequence[MemoryResult], header: Header) -> list[str]:
    lines = [
        f"{ranks_text(ranks).capitalize()} share a device: the figures of each contain those of "
        "the others."
        for ranks in sharing_devices(header.devices)
    ]
    changed = {
        it.memory.rank: sum(abs(one) for one in found.values())
        for it in results
        if (found := changed_meanwhile(it))
    }
    if changed:
        lines.append(
            f"The free memory of the device of {ranks_text(changed)} changed by "
            f"{span(changed.values())} while no rank worked: other processes use it, and the "
            "figures of stages may contain such changes."
        )
    return lines
