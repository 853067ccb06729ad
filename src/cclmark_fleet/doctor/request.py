"""Runs ``cclmark doctor``: examines this host, those of a launcher, or recorded ones."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cclmark.base.errors import EXIT_OK, EXIT_WRONG, UsageError
from cclmark.base.printable import plain, printable
from cclmark.base.version import VERSION
from cclmark.document.insight_words import amount, listed
from cclmark.journal.schema import Header, HostDescription, settings_without_sweep
from cclmark.launch.placement import find_placement, is_primary
from cclmark.launch.request import Outcome
from cclmark.recording.caller import caller, notice
from cclmark.recording.joining import run_with_reports
from cclmark.recording.output import print_lines
from cclmark.recording.recorder import Recorded
from cclmark.recording.standard_output import say
from cclmark.recording.whole_run import record_whole
from cclmark.work.thresholds import meant
from cclmark_fleet.doctor.command import DoctorFlags
from cclmark_fleet.doctor.document import signal_text
from cclmark_fleet.doctor.figures import counts_of, differences_of, failures_of, harmful_of
from cclmark_fleet.doctor.kind import KIND
from cclmark_fleet.doctor.measuring import with_costs
from cclmark_fleet.doctor.plan import Examination
from cclmark_fleet.doctor.result import ExaminationResult
from cclmark_fleet.hosts.check import HostCheck
from cclmark_fleet.hosts.checks import CHECKS, IDS
from cclmark_fleet.hosts.examination import Examined, examine
from cclmark_fleet.hosts.host import COMMANDS, Host
from cclmark_fleet.hosts.host_probe import LiveProbe
from cclmark_fleet.hosts.recorded_host import (
    ProbeRecorder,
    RecordedProbe,
    read_recorded,
    write_recorded,
)

_USUAL_S = 1.0  # between readings of counters
_ANSWER_S = 3.8  # of a prolog; starting the program and writing take the rest


class _HostReport(msgspec.Struct):
    """What a process reports of its host. ``interval_s``: between readings of counters."""

    examined: Examined
    interval_s: float
    started_at_s: float
    duration_s: float


def examine_hosts(flags: DoctorFlags) -> Recorded:
    """Examines the hosts of ``flags``. Raises UsageError."""
    began_s = time.monotonic()
    checks = _chosen(flags)
    interval_s = flags.watch_s or _USUAL_S
    if flags.measure and find_placement(os.environ) is not None:
        raise UsageError("--measure starts ranks itself: run it on one host, without a launcher")
    files = [*flags.recorded, *flags.more]
    if flags.dry_run:
        for path in files:
            read_recorded(path)
        if is_primary(os.environ):
            print_lines(_planned_lines(flags, checks, interval_s))
        return Recorded(EXIT_OK, Outcome(EXIT_OK))
    if flags.recorded:
        names = [path.name.partition(".")[0] or path.name for path in files]
        results = [
            _judged(place, path, _apart(names, place), checks) for place, path in enumerate(files)
        ]
        return _recorded(flags, results, began_s)

    def report() -> bytes:
        return msgspec.msgpack.encode(_examined_here(flags, checks, interval_s, began_s))

    def run(reports: Sequence[tuple[HostDescription, bytes]]) -> Recorded:
        results = []
        for place, (host, content) in enumerate(reports):
            found = msgspec.msgpack.decode(content, type=_HostReport)
            item = Examination(host.machine.hostname, tuple(one.id for one in checks), interval_s)
            results.append(_result(place, item, found))
        hosts = [host for host, _ in reports]
        return _recorded(flags, results, began_s, hosts if len(hosts) > 1 else ())

    return run_with_reports(report, flags.timeout_s, run)


def _planned_lines(flags: DoctorFlags, checks: Sequence[HostCheck], interval_s: float) -> list[str]:
    """What would be checked, and the time between readings, without that of the tools."""
    files = len(flags.recorded) + len(flags.more)
    where = amount(files, "recorded host") if files else "each host"
    lines = [f"{amount(len(checks), 'check')} of {where}:"]
    width = max(len(one.id) for one in checks)
    lines += [f"  {one.id:<{width}}  {one.title}" for one in checks]
    counters = sum(one.counters for one in checks)
    if counters and not flags.recorded:
        lines.append(
            f"{amount(counters, 'check')} of counters, which are read twice, {interval_s:g} s "
            "apart (--watch); the rest takes as long as the tools of the host, usually seconds"
        )
    if flags.measure:
        lines.append(
            "--measure then runs copies between all devices, and an all_reduce with and without "
            "each variable that a check objects to"
        )
    return lines


def _chosen(flags: DoctorFlags) -> list[HostCheck]:
    """The checks of --only without those of --skip. Raises UsageError for unknown names."""

    def selected(names: Sequence[str], option: str) -> set[str]:
        found: set[str] = set()
        for name in names:
            own = {one for one in IDS if one == name} or {
                one for one in IDS if one.startswith(name)
            }
            if not own:
                known = ", ".join(IDS)
                raise UsageError(
                    f"{option}: unknown check {plain(name)!r}{meant(name, IDS)} Choose from {known}"
                )
            found |= own
        return found

    only, skip = selected(flags.only, "--only") or {*IDS}, selected(flags.skip, "--skip")
    if not only - skip:
        raise UsageError("--skip leaves none of the checks")
    return [one for one in CHECKS if one.id in only - skip]


def _apart(names: Sequence[str], place: int) -> str:
    """The name of a host, numbered where several files have it."""
    own = names[place]
    return own if names.count(own) == 1 else f"{own}#{names[: place + 1].count(own)}"


def _judged(place: int, path: Path, name: str, checks: Sequence[HostCheck]) -> ExaminationResult:
    """What the checks find on a recorded host. Raises UsageError."""
    began_s, started_at_s = time.monotonic(), time.time()
    recorded = read_recorded(path)
    host = Host(RecordedProbe(recorded), recorded.checks)
    examined = examine(host, checks, 0.0)
    item = Examination(name, tuple(one.id for one in checks), 0.0, path.name)
    duration_s = time.monotonic() - began_s
    report = _HostReport(examined, recorded.interval_s, started_at_s, duration_s)
    return _result(place, item, report)


def _result(place: int, item: Examination, report: _HostReport) -> ExaminationResult:
    return ExaminationResult(
        *(place, item, "ok", "", report.started_at_s, report.duration_s),
        *(report.examined.outcomes, report.examined.facts, report.interval_s),
    )


def _examined_here(
    flags: DoctorFlags, checks: Sequence[HostCheck], interval_s: float, began_s: float
) -> _HostReport:
    """Examines this host, and records it if that is asked for."""
    started_at_s = time.time()
    deadline_s = began_s + _ANSWER_S if flags.prolog else None
    probe = LiveProbe(deadline_s, measures=flags.measure)
    try:
        probe.begin(*COMMANDS)
        if flags.watch_s > 2 * _USUAL_S and not flags.quiet:
            notice(f"counters are read twice, {flags.watch_s:g} s apart")
        recorder = ProbeRecorder(probe)
        examined = examine(Host(recorder), CHECKS if flags.record else checks, interval_s)
    finally:
        probe.close()
    if flags.record is not None:
        placement = find_placement(os.environ)
        path = flags.record
        if placement is not None:  # a file for each host
            path = path.with_name(f"{placement.process}-{path.name}")
        write_recorded(path, recorder.recorded(platform.node(), IDS, VERSION))
        if not flags.quiet:
            notice(f"recorded host {plain(str(path))}", is_whole=True)
        kept = {one.id for one in checks}
        examined.outcomes = [one for one in examined.outcomes if one.check in kept]
    if flags.measure:
        examined.outcomes = with_costs(examined.outcomes)
    duration_s = time.monotonic() - began_s
    return _HostReport(examined, probe.interval_s, started_at_s, duration_s)


def _recorded(
    flags: DoctorFlags,
    results: Sequence[ExaminationResult],
    began_s: float,
    hosts: Sequence[HostDescription] = (),
) -> Recorded:
    is_wrong = any(one.of("fail") for one in results) or harmful_of(differences_of(results))
    code = EXIT_WRONG if is_wrong else EXIT_OK
    if flags.prolog:
        if not caller().is_silent:
            say(_line(results))
        if flags.journal is None:
            return Recorded(code, Outcome(code, ""), results)

    def completed(header: Header) -> Header:
        settings = settings_without_sweep("readings", flags.timeout_s, check=0)
        return msgspec.structs.replace(header, settings=settings, hosts=[*hosts])

    return record_whole(KIND, results, flags, "doctor", began_s, code=code, header_of=completed)


def _line(results: Sequence[ExaminationResult]) -> str:
    """All hosts in a line: what failed first."""
    results = [printable(one) for one in results]
    failures = failures_of(results)
    counts = counts_of(results)
    words = f"{counts['pass']} passed, {counts['unknown']} cannot tell"
    harmful = harmful_of(differences_of(results))
    if not failures and not harmful:
        return f"cclmark doctor: OK, {words}"
    texts = [f"hosts differ in {listed([one.subject for one in harmful])}"] if harmful else []
    for one in failures[:3]:
        on = f" ({amount(len(one.by_host), 'host')})" if len(results) > 1 else ""
        texts.append(f"{one.check}{on}: {signal_text(one.first.signals[0])}")
    more = f"; {len(failures) - 3} more" if len(failures) > 3 else ""
    return f"cclmark doctor: FAILED {'; '.join(texts)}{more}; {words}"
