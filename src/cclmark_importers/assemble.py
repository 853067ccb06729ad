"""Creates a journal from an importer's findings, and merges journals of several texts of one run.

Unknown values are omitted, not guessed.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import msgspec

from cclmark.base.errors import EmptyError, UsageError
from cclmark.base.printable import plain
from cclmark.journal.item_results import CaseResult, Result, TransferResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import (
    SCHEMA_VERSION,
    DeviceDescription,
    Footer,
    Header,
    HostDescription,
    Imported,
    Machine,
    Settings,
    Summary,
    TransferSummary,
    Verification,
    time_text,
)
from cclmark.journal.summaries import spread_figures
from cclmark.profile.profile_assembly import unmeasured_settings
from cclmark.work.cases import Case
from cclmark.work.items import Item
from cclmark.work.operations import DTYPE_BYTES, OPERATIONS
from cclmark.work.sizes import format_size
from cclmark.work.transfers import Transfer
from cclmark_importers.cleaned_text import MOST_RANKS, PrintedFigure, Text
from cclmark_importers.plausible import bus_factor, disagreement, is_derived, rank_counts, time_of
from cclmark_importers.run import (
    ForeignRun,
    Given,
    ImportedRow,
    ImportedTransfer,
    Notices,
    Origin,
    Spread,
    ToolSettings,
    how,
    left_out,
    listed_device,
)

_UNCOUNTED = "the check of the tool failed, without the number of wrong elements"
_Results = list[CaseResult] | list[TransferResult]


def assemble(run: ForeignRun, text: Text, format: str, given: Given, origin: Origin) -> Journal:
    """Creates the journal from a text. Of copies, ``run.devices`` lists all devices.

    Raises UsageError if the text and ``given`` lack a property that every case requires, contradict
    each other, or contain no row; for copies also if a size is unknown, if a copy was measured
    twice, or if the user specifies properties that copies do not have.
    """
    if run.copies and run.rows:
        line = max(run.rows[0].line, run.copies[0].line)
        raise text.refuse(
            line,
            "copies between devices and operations of ranks are different kinds of work: split the "
            "text before this line and import the parts one by one",
        )
    assembly = _Copies(run, text, given) if run.copies else _Rows(run, text, given)
    results = assembly.results()
    said = [f"a time is {run.figure}", *run.notices, *assembly.notices.sentences()]
    if run.unknown_hosts and given.hosts is None:
        said.append("the text does not contain the hosts of the devices: --hosts sets their number")
    header = assembly.header(format, origin, results, said)
    wrong = run.failed or any(result.status == "wrong" for result in results)
    code = run.exit_code or int(wrong)
    footer = Footer(header.started_at, code, 0.0, run.message) if run.whole else None
    return Journal(header, [*results], footer=footer)


class _Assembly:
    """What is common to journals of rows and of copies."""

    def __init__(self, run: ForeignRun, text: Text, given: Given) -> None:
        self.run = run
        self.text = text
        self.given = given
        self.notices = Notices()

    def results(self) -> _Results:
        """Returns the results, of which there is at least one."""
        raise NotImplementedError

    def header(self, format: str, origin: Origin, results: _Results, said: list[str]) -> Header:
        """Returns the header: only information from the text. ``said``: the notices.

        Devices of transfers are always known, at least by number. Raises UsageError if the text and
        the user specify different hosts.
        """
        run, written = self.run, time_text(origin.written_s)
        ranks = len(run.devices) if run.copies else max(result.item.ranks for result in results)
        devices = self._devices(ranks)
        hosts = list(dict.fromkeys(device.host for device in devices if device.host))
        all_known = all(device.host for device in devices)
        machine = _machine(hosts[0] if hosts else "")
        machine.vendor_driver = run.vendor_driver
        return Header(
            schema_version=SCHEMA_VERSION,
            cclmark_version=origin.version,
            started_at=run.started_at or written,
            command=origin.command,
            machine=machine,
            devices=devices,
            links=[],
            relations=run.relations,
            libraries=run.libraries,
            environment=run.environment,
            settings=_settings(run.facts, results),
            notices=said,
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
                hosts=self._number_of_hosts(devices, ranks, origin.file or "the text"),
            ),
        )

    def _number_of_hosts(self, devices: Sequence[DeviceDescription], ranks: int, name: str) -> int:
        """Returns the number of hosts from the text's devices, else from the user; 0 if unknown.

        Raises UsageError for a given number that is not the text's, or that does not divide
        ``ranks``: references are of hosts with equal numbers of ranks.
        """
        given = self.given.hosts
        told = {device.host for device in devices}
        known = len(told) if told and all(told) else int(self.run.on_one_host)
        if known and given not in (None, known):
            raise UsageError(f"{name} lists {known} host{'s' * (known > 1)}, not --hosts {given}")
        if given is not None and ranks % given and not known:
            what = "devices" if self.run.copies else "ranks"
            raise UsageError(
                f"{name} is of {ranks} {what}, which --hosts {given} does not divide: set a number "
                f"of hosts with equal numbers of {what}, or leave --hosts out"
            )
        return known or given or 0

    def _devices(self, ranks: int) -> list[DeviceDescription]:
        """Returns the text's devices, renamed if the user gives a name.

        For ranks that the text does not list only the name is known, if one is given or all listed
        devices have the same; without a name they are omitted.
        """
        devices, given = self.run.devices, self.given.device
        if self.run.names_devices and len(devices) != ranks:
            devices = []
        elif self.run.names_devices and given is not None:
            other = next((one.name for one in devices if not _is_alike(one.name, given)), None)
            if other is not None:
                raise UsageError(
                    f"{self.text.name} names its devices {plain(other)}, not {plain(given)}: leave "
                    "--device out, or import the rows of each device by themselves"
                )
        if given is not None:
            devices = [msgspec.structs.replace(one, name=given) for one in devices]
        if devices and not self.run.device_of_each_rank:
            return devices
        if (not devices and given is None) or ranks > MOST_RANKS:
            return []
        names = {one.name for one in devices} or {given or ""}
        name = names.pop() if len(names) == 1 else ""
        listed = {one.rank for one in devices}
        unlisted = [
            listed_device(rank, name, index=-1) for rank in range(ranks) if rank not in listed
        ]
        return sorted([*devices, *unlisted], key=lambda one: one.rank)


class _Copies(_Assembly):
    def results(self) -> list[TransferResult]:
        run, text = self.run, self.text
        self._refuse_inapplicable()
        lacks_sizes = any(row.size_bytes is None for row in run.copies)
        results: list[TransferResult] = []
        lines: dict[Transfer, int] = {}
        for row in run.copies:
            given_bytes = self.given.size_bytes
            is_latency = row.transfer.measure == "latency"
            if not lacks_sizes and not is_latency and given_bytes not in (None, row.size_bytes):
                raise text.refuse(
                    row.line, f"the size is {row.size_bytes} bytes, not --size {given_bytes}"
                )
            transfer = self._sized(row)
            first = lines.setdefault(transfer, row.line)
            if len(lines) == len(results):
                reason = f"{transfer.describe()} is on line {first} already"
                raise text.split(row.line, reason, place="table")
            if row.is_wrong:
                results.append(TransferResult(len(results), transfer, "wrong", "wrong data"))
            else:
                summary = _summary(row, transfer)
                results.append(TransferResult(len(results), transfer, "ok", summary=summary))
        return results

    def _refuse_inapplicable(self) -> None:
        """Raises UsageError for options that only apply to collectives."""
        for name in ("operation", "ranks", "dtype", "reduction", "ccl"):
            if getattr(self.given, name) is not None:
                raise UsageError(
                    f"{self.text.name} contains copies between devices: --{name} applies only to "
                    "operations of ranks"
                )

    def _sized(self, row: ImportedTransfer) -> Transfer:
        size_bytes, run = row.size_bytes, self.run
        if size_bytes is None:
            size_bytes = self.given.size_bytes
            if size_bytes is None and run.usual_size is not None:
                size_bytes = run.usual_size.size_bytes
                self.notices.add(
                    f"the text contains no size: {format_size(size_bytes)}, the default of "
                    f"{run.usual_size.words}, is assumed; --size sets another",
                    row.line,
                )
        if size_bytes is None:
            reason = f", because {run.no_usual_size}" if run.no_usual_size else ""
            raise self.text.refuse(
                row.line, f"the size of a copy is unknown{reason}: set it with --size SIZE"
            )
        return msgspec.structs.replace(row.transfer, size_bytes=size_bytes)


def _summary(row: ImportedTransfer, transfer: Transfer) -> TransferSummary:
    """Returns the figures. A time is of the slowest flow, as in journals of cclmark."""
    if transfer.measure == "latency":
        time_s = row.time_s
    elif row.rates_bytes_per_s:
        time_s = transfer.size_bytes / min(row.rates_bytes_per_s)
    else:
        time_s = transfer.size_bytes * len(transfer.flows) / row.total_bytes_per_s
    least_s, most_s = row.range_s or (time_s, time_s)
    summary = TransferSummary(time_s, least_s, most_s, row.samples, call_s=row.call_s)
    if transfer.measure != "latency":
        summary.bytes_per_s = row.total_bytes_per_s
        summary.flow_bytes_per_s = list(row.rates_bytes_per_s)
    return summary


class _Rows(_Assembly):
    def results(self) -> list[CaseResult]:
        run, name = self.run, self.text.name
        if not run.rows:
            reasons = "".join(f"; {one}" for one in run.notices)
            raise EmptyError(f"{name} contains no row of {run.tool}{reasons}", name, "no row")
        operations = [self._operation(row) for row in run.rows]
        ranks, self.notices.found = rank_counts(run.rows, operations, self.text, self.given)
        results = self._measured(operations, ranks)
        if not results:
            left = "; ".join([*run.notices, *self.notices.sentences()])
            raise UsageError(f"{name}: none of its {len(run.rows)} rows can be used: {left}")
        return results

    def _operation(self, row: ImportedRow) -> str:
        given = self.given.operation
        operation = row.operation or given
        if operation is None:
            message = "the operation is unknown: set it with --operation NAME"
            raise self.text.refuse(row.line, message)
        if given not in (None, operation):
            raise self.text.refuse(row.line, f"this is {operation}, not --operation {given}")
        return operation

    def _measured(self, operations: Sequence[str], ranks: Sequence[int]) -> list[CaseResult]:
        notices, given = self.notices, self.given
        results: list[CaseResult] = []
        places: dict[Case, int] = {}
        seen: Counter[Case] = Counter()
        empty: list[int] = []
        doubtful = 0
        for printed, operation, number in zip(self.run.rows, operations, ranks, strict=True):
            if printed.is_part and OPERATIONS[operation].spans_ranks:
                printed = replace(printed, size_bytes=printed.size_bytes * number)  # noqa: PLW2901
            case = self._case(printed, operation, number)
            if case is None:
                continue
            row = replace(printed, size_bytes=case.size_bytes)
            time = time_of(row)
            if row.size_bytes <= 0:
                notices.add("omitted: no data", row.line)
                continue
            if time is None or time.value <= 0:
                empty.append(row.line)
                continue
            if case.count <= 0:
                notices.add("omitted: less than one element for each rank", row.line)
                continue
            if is_derived(row):
                notices.add(
                    "the time is computed from size and algorithm bandwidth, which has more digits "
                    "than the printed time",
                    row.line,
                )
            if bus_factor(row, operation, number) != OPERATIONS[operation].bus_factor(number):
                notices.add("parts are uneven: the bus bandwidth of the text is used", row.line)
            doubt = disagreement(row, operation, number, time)
            if doubt:
                doubtful += 1
                notices.add(f"does not fit: {doubt}" if doubtful == 1 else "do not fit", row.line)
            index = places.setdefault(case, len(places))
            results.append(_result(row, case, time, index, seen[case], self.run.clock))
            seen[case] += 1
        if empty:
            self.run.notices.append(left_out("rows without a figure", empty))
        if doubtful > len(results) / 2 and (given.operation or given.ranks):
            words = next(kind for kind in notices.found if kind.startswith("does not fit"))
            raise UsageError(
                f"{self.text.name}: {doubtful} of {len(results)} rows do not fit --operation and "
                f"--ranks as given; line {notices.found[words][0]} {words}"
            )
        return results

    def _case(self, row: ImportedRow, operation: str, ranks: int) -> Case | None:
        """Returns the measured case; None, with a notice, if cclmark does not support it."""
        info, run, given = OPERATIONS[operation], self.run, self.given
        dtype = row.dtype or given.dtype
        reduction = row.reduction or given.reduction
        if run.usual is not None and (dtype is None or (info.reduces and reduction is None)):
            usual = f"{run.usual[0]} {run.usual[1]}" if info.reduces else run.usual[0]
            self.notices.add(
                f"the text contains no type and reduction: {usual}, the default of {run.tool}, is "
                "assumed; --dtype and --reduction set others",
                row.line,
            )
            dtype = dtype or run.usual[0]
            reduction = reduction or run.usual[1]
        if dtype is None or dtype not in DTYPE_BYTES:
            self.notices.add("omitted: cclmark does not support this element type", row.line)
            return None
        count, size_bytes = self._rounded(row, operation, ranks, DTYPE_BYTES[dtype])
        return Case(
            operation=operation,
            ccl=given.ccl or row.ccl or run.ccl,
            ranks=ranks,
            dtype=dtype,
            size_bytes=size_bytes,
            count=count,
            in_place=row.in_place,
            reduction=reduction if info.reduces else None,
            root=row.root if info.rooted else None,
        )

    def _rounded(self, row: ImportedRow, operation: str, ranks: int, width: int) -> tuple[int, int]:
        """Returns the elements of a rank, and the bytes that the figures refer to.

        A tool that rounds up measures more than it prints; its bandwidth shows whether it did.
        """
        if row.count is not None:
            return row.count, row.size_bytes
        parts = ranks if OPERATIONS[operation].spans_ranks else 1
        count = row.size_bytes // (width * parts)
        if not row.rounds_up or row.size_bytes == count * width * parts:
            return count, row.size_bytes
        more = math.ceil(math.ceil(row.size_bytes / width) / parts)
        larger = replace(row, size_bytes=more * width * parts)
        time = time_of(larger)
        if time is None or time.value <= 0 or disagreement(larger, operation, ranks, time):
            return count, row.size_bytes
        self.notices.add(
            "the tool rounds this size up to whole elements for each rank: the rounded size is "
            "used",
            row.line,
        )
        return more, larger.size_bytes


def _result(
    row: ImportedRow, case: Case, time: PrintedFigure, index: int, cycle: int, clock: str
) -> CaseResult:
    spread = row.spread or Spread(*(time.value,) * 5, [time.value])
    rate = row.size_bytes / spread.median_s
    summary = Summary(
        clock=clock if row.spread is None else "device",
        time_s=spread.median_s,
        min_s=spread.min_s,
        p95_s=spread.p95_s,
        p99_s=spread.p99_s,
        max_s=spread.max_s,
        samples=len(spread.times_s),
        algbw_bytes_per_s=rate,
        busbw_bytes_per_s=rate * bus_factor(row, case.operation, case.ranks),
        **spread_figures(spread.times_s),
    )
    return CaseResult(
        index=index,
        case=case,
        status="wrong" if row.wrong or row.failed else "ok",
        reason=_UNCOUNTED if row.failed else "",
        cycle=cycle,
        route="",
        summary=summary,
        verification=None if row.wrong is None else Verification(wrong=row.wrong, where=""),
    )


def _settings(facts: ToolSettings, results: _Results) -> Settings:
    sizes = [result.item.size_bytes for result in results]
    checked = any(result.verification is not None for result in results)
    return msgspec.structs.replace(
        unmeasured_settings(facts.timing),
        begin_bytes=min(sizes) if facts.begin_bytes is None else facts.begin_bytes,
        end_bytes=max(sizes) if facts.end_bytes is None else facts.end_bytes,
        step_bytes=facts.step_bytes,
        factor=facts.factor,
        across_ranks=facts.across_ranks,
        barrier=facts.barrier,
        clock="",
        iterations=facts.iterations,
        warmup=facts.warmup,
        group=facts.group,
        graph_launches=facts.graph_launches,
        check=int(checked) if facts.check is None else facts.check,
        cycles=1 + max(result.cycle for result in results),
    )


def _machine(hostname: str) -> Machine:
    return Machine(hostname, system="", kernel="", processor="", processors=0, memory_bytes=0)


def merged(runs: Sequence[tuple[str, Journal]]) -> Journal:
    """Merges journals, each with its name. Raises UsageError if they cannot be of one run."""
    first_name, first = runs[0]
    if len(runs) == 1:
        return first
    for name, run in runs:
        if run.kind != first.kind:
            raise UsageError(
                f"{first_name} and {name} contain different kinds of work: import them one by one"
            )
        if run.header.imported is None:
            raise UsageError(f"{name} is a complete journal: import it separately")
        for what, there, here in _identity(first.header, run.header):
            if there != here:
                raise UsageError(
                    f"{first_name} and {name} are not of the same run: {what} {there or 'unknown'} "
                    f"and {here or 'unknown'}. Import them one by one"
                )
    _refuse_unlike(runs)
    imported = first.header.imported
    assert imported is not None
    results = _renumbered(runs)
    settings = [run.header.settings for _, run in runs]
    header = msgspec.structs.replace(
        first.header,
        notices=list(dict.fromkeys(_notices(runs))),
        run_id=_joined_id([run.header.run_id for _, run in runs]),
        imported=msgspec.structs.replace(
            imported,
            file=", ".join(dict.fromkeys(_file(run.header) for _, run in runs)),
            ranks=max(one.header.imported.ranks for _, one in runs if one.header.imported),
        ),
        planned_cases=1 + max(result.index for result in results),
        settings=msgspec.structs.replace(
            settings[0],
            begin_bytes=min(one.begin_bytes for one in settings),
            end_bytes=max(one.end_bytes for one in settings),
            cycles=1 + max(result.cycle for result in results),
        ),
    )
    footers = [run.footer for _, run in runs]
    ended = [one for one in footers if one is not None]
    worst = max(ended, key=lambda one: one.exit_code, default=None)
    return Journal(header, [*results], footer=None if None in footers else worst)


def _refuse_unlike(runs: Sequence[tuple[str, Journal]]) -> None:
    """Raises UsageError if two files contain the same case and may be of different devices.

    The same text twice is not a repeated measurement either.
    """
    files: dict[str, str] = {}
    cases: dict[Case, str] = {}
    for name, run in runs:
        run_id = run.header.run_id
        if run_id in files:
            raise UsageError(
                f"{files[run_id]} and {name} have the same content: import one of them"
            )
        files[run_id] = name
        for case in {result.case: None for result in run.cases}:
            other = cases.setdefault(case, name)
            if other != name and not run.header.devices:
                raise UsageError(
                    f"{other} and {name} both contain {case.describe()}, but not its devices: "
                    "import them one by one, or set --device NAME if the devices are the same"
                )


def _identity(there: Header, here: Header) -> list[tuple[str, str, str]]:
    """Returns the properties that must be equal: a name and both values."""
    return [
        ("tool", _tool(there), _tool(here)),
        ("devices", _devices(there), _devices(here)),
        ("libraries", _libraries(there), _libraries(here)),
        ("settings", how(there.settings), how(here.settings)),
    ]


def _tool(header: Header) -> str:
    return header.imported.source if header.imported is not None else ""


def _file(header: Header) -> str:
    return header.imported.file if header.imported is not None else ""


def _is_alike(one: str, other: str) -> bool:
    """Whether one name has all words of the other, whatever their case: A800, NVIDIA A800."""
    words = [set(name.lower().split()) for name in (one, other)]
    return words[0] <= words[1] or words[1] <= words[0]


def _devices(header: Header) -> str:
    return ", ".join(f"{one.host} {one.index} {one.name}".strip() for one in header.devices)


def _libraries(header: Header) -> str:
    return ", ".join(f"{one.name} {one.version}" for one in header.libraries)


def _notices(runs: Sequence[tuple[str, Journal]]) -> list[str]:
    """Returns the notices; those about lines start with the name of the file."""
    return [
        f"{_file(run.header) or name}: {notice}" if "line" in notice.partition(":")[0] else notice
        for name, run in runs
        for notice in run.header.notices
    ]


def _renumbered(runs: Sequence[tuple[str, Journal]]) -> list[Result]:
    """Renumbers results: each item has one index, and a repeated case is of another cycle.

    Raises UsageError for a repeated item of a kind without cycles.
    """
    places: dict[Item, int] = {}
    seen: dict[Item, int] = {}
    numbered: list[Result] = []
    for name, run in runs:
        for result in run.results:
            cycle = seen.get(result.item, 0)
            seen[result.item] = cycle + 1
            index = places.setdefault(result.item, len(places))
            renumbered: Any = copy(result)
            renumbered.index = index
            if "cycle" in renumbered.__struct_fields__:
                renumbered.cycle = cycle
            elif cycle:
                raise UsageError(
                    f"{name} contains {result.item.describe()}, which another file contains too: "
                    "import them one by one"
                )
            numbered.append(renumbered)
    return numbered


def _joined_id(ids: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(ids).encode()).hexdigest()[:32]
