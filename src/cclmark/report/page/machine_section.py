"""The sections of a page on the machine, its environment and the method."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.document.head import (
    binding_lines,
    buffer_lines,
    device_lines,
    link_lines,
    origin_of,
)
from cclmark.document.naming import Run
from cclmark.document.page.page import PageFacts, Section
from cclmark.kinds.registry import KINDS, report_kind
from cclmark.plan.sizes import format_size

_LONGEST_VALUE = 2000  # characters of a variable


def machine_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns sections on the machine and its libraries, the environment, and each run's method."""
    facts, environment, method = [], [], []
    for run in runs:
        name = f" of {run.name}" if len(runs) > 1 else ""
        header = run.journal.header
        machine = header.machine
        rows = [
            ("host", machine.hostname),
            ("system", f"{machine.system}, kernel {machine.kernel}"),
            (
                "processor",
                f"{machine.processor}, {machine.processors} processors, "
                f"{machine.numa_nodes} NUMA node{'s' * (machine.numa_nodes > 1)}",
            ),
            ("memory", format_size(machine.memory_bytes)),
        ]
        if header.imported is not None:  # another tool reports few of these fields
            rows = [("imported", origin_of(header.imported))]
        rows += [("devices", line) for line in device_lines(header.devices, machine.vendor_driver)]
        rows += [("binding", line) for line in binding_lines(header)]
        rows += [("links", line) for line in link_lines(header.links) if line]
        rows += [(f"library {one.name}", f"{one.version}  {one.path}") for one in header.libraries]
        rows += [("buffers", line) for line in buffer_lines(header)]
        rows += [
            (
                "another host",
                f"{one.machine.hostname}, {one.machine.system}, kernel {one.machine.kernel}",
            )
            for one in header.hosts[1:]
        ]
        rows += [("notice", text) for text in header.notices]
        facts.append(PageFacts(f"Machine and libraries{name}", rows))
        if header.environment:
            environment.append(
                PageFacts(
                    run.name if len(runs) > 1 else "",
                    [(key, _cut(value)) for key, value in sorted(header.environment.items())],
                )
            )
        method.append(PageFacts(run.name if len(runs) > 1 else "", _method_rows(run)))
    sections = [Section("machine", "Machine", facts=facts)]
    if environment:
        sections.append(Section("environment", "Environment", facts=environment))
    sections.append(Section("method", "Method", words=_method_words(runs), facts=method))
    return sections


def _cut(value: str) -> str:
    more = len(value) - _LONGEST_VALUE
    return f"{value[:_LONGEST_VALUE]} … {more} characters more" if more > 0 else value


def _method_words(runs: Sequence[Run]) -> list[str]:
    """Explains the figures of each kind of work in the runs."""
    present = {run.journal.kind for run in runs}
    words = dict.fromkeys(report_kind(name).method_words for name in KINDS if name in present)
    return [text for text in words if text]


def _method_rows(run: Run) -> list[tuple[str, str]]:
    journal = run.journal
    header, settings = journal.header, journal.header.settings
    kind = report_kind(journal.kind)
    rows = [
        ("command", " ".join(header.command)),
        ("started", header.started_at),
        ("in words", kind.method(header)),
    ]
    if header.imported is None and kind.by_session:
        rows += [
            ("timing", settings.timing),
            ("across ranks", settings.across_ranks),
            ("barrier", settings.barrier),
            ("clock", settings.clock),
        ]
    if header.imported is None and kind.has_samples:
        at_most = f"at most {settings.max_time_s:g} s"
        rows.append(("precision", f"±{settings.precision * 100:.3g} % of the median, {at_most}"))
    if header.imported is None:
        rows.append(("seed", str(settings.seed)))
    rows.append(("run", header.run_id))
    if header.launcher:
        rows.append(("started by", header.launcher))
    if journal.footer is not None:
        rows.append(
            ("took", f"{journal.footer.duration_s:.1f} s, exit code {journal.footer.exit_code}")
        )
    return rows
