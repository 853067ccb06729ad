"""The header of a journal of another tool's results: only information from the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

import msgspec

from cclmark.errors import UsageError
from cclmark.importing.cleaned_text import MOST_RANKS
from cclmark.importing.run import ForeignRun, ToolSettings
from cclmark.results.item_results import CaseResult, TransferResult
from cclmark.results.schema import (
    SCHEMA_VERSION,
    DeviceDescription,
    Footer,
    Header,
    HostDescription,
    Imported,
    Machine,
    Settings,
)


@dataclass(frozen=True)
class Given:
    """Information from the user that a text lacks."""

    operation: str | None = None
    ccl: str | None = None
    ranks: int | None = None
    device: str | None = None
    dtype: str | None = None
    reduction: str | None = None
    hosts: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True)
class Origin:
    """The origin of a text. ``written_s``: in seconds since 1970, None for a pipe.

    ``digest`` is of the content and of the user's information: the same file is the same run,
    however often it is imported.
    """

    file: str
    digest: str
    written_s: float | None
    command: list[str]
    version: str


def how(settings: ToolSettings | Settings) -> str:
    """Describes how times were measured: results with other settings are of another run."""
    words = [settings.timing]
    words += [f"-n {settings.iterations}"] if settings.iterations is not None else []
    words += [f"-w {settings.warmup}"] if settings.warmup is not None else []
    words += [f"-m {settings.group}"] if settings.group != 1 else []
    words += [f"-G {settings.graph_launches}"] if settings.graph_launches != 1 else []
    return " ".join(words)


def header_of(
    run: ForeignRun,
    format: str,
    given: Given,
    origin: Origin,
    results: Sequence[CaseResult] | Sequence[TransferResult],
    notices: list[str],
) -> Header:
    """Creates the header of a journal of ``results``, which must not be empty.

    Devices of transfers are always known, at least by number. Raises UsageError if the text and the
    user specify different hosts.
    """
    written = iso_time(origin.written_s)
    ranks = len(run.devices) if run.copies else max(result.item.ranks for result in results)
    devices = _devices(run, given, ranks)
    hosts = list(dict.fromkeys(device.host for device in devices if device.host))
    all_known = all(device.host for device in devices)
    return Header(
        schema_version=SCHEMA_VERSION,
        cclmark_version=origin.version,
        started_at=run.started_at or written,
        command=origin.command,
        machine=_machine(hosts[0] if hosts else "", run.vendor_driver),
        devices=devices,
        links=[],
        relations=run.relations,
        libraries=run.libraries,
        environment=run.environment,
        settings=_settings(run.facts, results),
        notices=notices,
        run_id=origin.digest[:32],
        planned_cases=1 + max(result.index for result in results),
        hosts=[HostDescription(_machine(host), host, {}) for host in hosts]
        if len(hosts) > 1 and all_known
        else [],
        imported=Imported(
            tool=run.tool,
            format=format,
            version=run.version,
            file=origin.file,
            file_date=written,
            command=run.command,
            figure=run.figure,
            ranks=ranks,
            hosts=_number_of_hosts(run, devices, ranks, given, origin),
        ),
    )


def _number_of_hosts(
    run: ForeignRun,
    devices: Sequence[DeviceDescription],
    ranks: int,
    given: Given,
    origin: Origin,
) -> int:
    """Returns the number of hosts from the text's devices, else from the user; 0 if unknown.

    Raises UsageError for a given number that is not the text's, or that does not divide ``ranks``:
    references are of hosts with equal numbers of ranks.
    """
    told = {device.host for device in devices}
    known = len(told) if told and all(told) else int(run.on_one_host)
    if known and given.hosts not in (None, known):
        raise UsageError(
            f"{origin.file or 'the text'} lists {known} host{'s' * (known > 1)}, not --hosts "
            f"{given.hosts}"
        )
    what = "devices" if run.copies else "ranks"
    if given.hosts is not None and ranks % given.hosts and not known:
        raise UsageError(
            f"{origin.file or 'the text'} is of {ranks} {what}, which --hosts {given.hosts} does "
            f"not divide: set a number of hosts with equal numbers of {what}, or leave --hosts out"
        )
    return known or given.hosts or 0


def _devices(run: ForeignRun, given: Given, ranks: int) -> list[DeviceDescription]:
    """Returns the text's devices, renamed if the user gives a name.

    For ranks that the text does not list only the name is known, if one is given or all listed
    devices have the same; without a name they are omitted.
    """
    devices = run.devices
    if given.device is not None:
        devices = [msgspec.structs.replace(one, name=given.device) for one in devices]
    if devices and not run.device_of_each_rank:
        return devices
    if (not devices and given.device is None) or ranks > MOST_RANKS:
        return []
    names = {one.name for one in devices} or {given.device or ""}
    name = names.pop() if len(names) == 1 else ""
    listed = {one.rank for one in devices}
    unlisted = [
        DeviceDescription(
            rank=rank,
            host="",
            runtime="",
            index=-1,
            name=name,
            memory_bytes=0,
        )
        for rank in range(ranks)
        if rank not in listed
    ]
    return sorted([*devices, *unlisted], key=lambda one: one.rank)


def _settings(
    facts: ToolSettings, results: Sequence[CaseResult] | Sequence[TransferResult]
) -> Settings:
    sizes = [result.item.size_bytes for result in results]
    checked = any(result.verification is not None for result in results)
    return Settings(
        begin_bytes=min(sizes) if facts.begin_bytes is None else facts.begin_bytes,
        end_bytes=max(sizes) if facts.end_bytes is None else facts.end_bytes,
        step_bytes=facts.step_bytes,
        factor=facts.factor,
        timing=facts.timing,
        across_ranks=facts.across_ranks,
        barrier=facts.barrier,
        clock="",
        precision=0.0,
        max_time_s=0.0,
        timeout_s=0.0,
        iterations=facts.iterations,
        warmup=facts.warmup,
        group=facts.group,
        graph_launches=facts.graph_launches,
        check=int(checked) if facts.check is None else facts.check,
        cycles=1 + max(result.cycle for result in results),
        registration="",
        seed=0,
    )


def _machine(hostname: str, vendor_driver: str = "") -> Machine:
    return Machine(
        hostname=hostname,
        system="",
        kernel="",
        processor="",
        processors=0,
        memory_bytes=0,
        vendor_driver=vendor_driver,
    )


def footer_of(
    run: ForeignRun,
    results: Sequence[CaseResult] | Sequence[TransferResult],
    header: Header,
) -> Footer:
    """Creates the footer of a complete text."""
    wrong = run.failed or any(result.status == "wrong" for result in results)
    return Footer(
        ended_at=header.started_at,
        exit_code=run.exit_code or int(wrong),
        duration_s=0.0,
        message=run.message,
    )


def iso_time(seconds: float | None) -> str:
    """Returns seconds since 1970 as ISO 8601; the present for None."""
    now = datetime.now(timezone.utc)
    moment = now if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds")
