"""The head of every table: the devices, their links and the method in short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cclmark.base.grouping import abridged, by_key
from cclmark.base.standard_error import filled
from cclmark.document.insight_words import listed
from cclmark.document.paint import Paint
from cclmark.document.text import counted
from cclmark.journal.schema import DeviceDescription, Header, Imported, Link, Settings
from cclmark.work.binding import RANKS, mode_of
from cclmark.work.libraries import AUTO_MEMORY
from cclmark.work.sizes import format_size, in_ranges

_MOST_HOSTS = 4
_MOST_LINES = 8
LABEL_WIDTH = 11  # characters of a label and the blanks behind it
_TIMINGS = {"auto": "throughput, and replayed from graphs where launches determine the time"}
_MOST_BINDINGS = 4
_MEMORY = {
    "plain": "plain, of the runtime's allocator",
    "library": "of the library's allocator, which it can register (see --memory)",
    "vmm": "physical memory mapped at reserved addresses (VMM)",
    "torch": "of torch's caching allocator",
}
_ACROSS = {"max": "slowest rank", "mean": "mean of ranks", "min": "fastest rank"}
_CLOCKS = {"device": ", the device's clock where it has one", "host": ", the host's clock"}


def opening_lines(
    header: Header, noun: str, method: str, paint: Paint, width: int | None = None
) -> list[str]:
    """The head: devices (``noun``), links, libraries, method. ``width``: of a terminal."""
    number = len(header.devices) if header.imported is None else header.imported.ranks
    title = f"cclmark {header.cclmark_version}"
    what = [counted(number, noun)] if number else []
    what += [f"on {where}"] if (where := _where(header)) else []
    first = f"{paint(title, 'bold')}  {' '.join(what)}".rstrip()
    lines = labelled([*head_facts(header), ("method", method)])
    notices = [f"  notice     {text}" for text in header.notices]
    if width is not None:
        lines, notices = (
            [filled(line, width, hanging=LABEL_WIDTH) for line in some] for some in (lines, notices)
        )
        first = filled(first, width)
    return [first, *lines, *(paint(line, "yellow") for line in notices)]


def _where(header: Header) -> str:
    """Returns the host, or the number of hosts and their first names, and the launcher."""
    started = f", started by {header.launcher}" if header.launcher else ""
    names = [host.machine.hostname for host in header.hosts]
    if not names:
        return f"{header.machine.hostname}{started}"
    return f"{len(names)} hosts ({abridged(names, _MOST_HOSTS)}){started}"


def head_facts(header: Header) -> list[tuple[str, str]]:
    """Returns the origin of imported results, devices, binding, links, libraries and buffers."""
    texts = {
        "imported": [] if header.imported is None else [origin_of(header.imported)],
        "devices": device_lines(header.devices, header.machine.vendor_driver),
        "binding": binding_lines(header),
        "links": link_lines(header.links),
        "library": [f"{one.name} {one.version}  {one.path}".rstrip() for one in header.libraries],
        "buffers": buffer_lines(header),
    }
    return [(label, text) for label, own in texts.items() for text in own]


def labelled(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Returns a line for each row with a text; equal labels that follow each other appear once."""
    lines, before = [], ""
    for label, text in rows:
        if text:
            lines.append(f"  {'' if label == before else label:<{LABEL_WIDTH - 2}}  {text}")
            before = label
    return lines


def host_lines(header: Header) -> list[str]:
    """Returns the processors, the system and the start of the run, for texts that are kept."""
    machine = header.machine
    texts = [
        f"{machine.processors} × {machine.processor}, {format_size(machine.memory_bytes)}"
        if machine.processors
        else "",
        f"{machine.system}, kernel {machine.kernel}" if machine.kernel else "",
        f"started {header.started_at}" if header.started_at else "",
    ]
    return labelled([("host", "; ".join(filter(None, texts)))])


def device_lines(devices: Sequence[DeviceDescription], driver: str) -> list[str]:
    """Returns one line for each kind of device."""
    lines: list[str] = []
    several = len({device.host for device in devices}) > 1
    kinds: dict[tuple[str, str, str], list[DeviceDescription]] = {}
    for device in devices:
        # Devices that differ from host to host have separate lines, up to a limit.
        host = device.host if several else ""
        kinds.setdefault((host, device.runtime, device.name), []).append(device)
    for (host, runtime, name), members in list(kinds.items())[:_MOST_LINES]:
        indices = ",".join(str(device.index) for device in members if device.index >= 0)
        line = f"{len(members)} × {name or 'unnamed'}"
        # For devices reported by another tool, the other fields may be unknown.
        line += f" ({runtime}:{indices})" if runtime else f" ({indices})" * bool(indices)
        if runtime != "host":
            line += f", {format_size(memory)} each" if (memory := members[0].memory_bytes) else ""
            line += f", driver {driver}" if driver else ""
            version = members[0].driver_version
            line += f", {runtime} {version}" if version else ""
        line += _numa([device.numa_node for device in members])
        lines.append(f"{host}: {line}" if host else line)
    if len(kinds) > _MOST_LINES:
        lines.append(f"… and {len(kinds) - _MOST_LINES} more kinds and hosts")
    return lines


def buffer_lines(header: Header) -> list[str]:
    """Returns a line with the kind of memory of each library's buffers; none if all are plain."""
    kinds = {one.name: one.memory for one in header.libraries if one.memory}
    if set(kinds.values()) <= {"plain"} and header.settings.memory in ("", AUTO_MEMORY):
        return []
    texts = dict.fromkeys(_MEMORY[kind] for kind in kinds.values() if kind in _MEMORY)
    if len(texts) == 1:
        return list(texts)
    return [f"{name}: {_MEMORY[kind]}" for name, kind in kinds.items() if kind in _MEMORY]


def _numa(nodes: Sequence[int]) -> str:
    """Returns the NUMA nodes of devices; empty if one is unknown."""
    if any(node < 0 for node in nodes):
        return ""
    if len(set(nodes)) == 1:
        return f", NUMA node {nodes[0]}"
    return f", NUMA nodes {','.join(map(str, nodes))}"


def binding_lines(header: Header) -> list[str]:
    """Returns a line with the requested binding and each rank's processors; none if unbound."""
    if not header.settings.bind:
        return []
    ranks_on = by_key(
        (device.processors, device.rank) for device in header.devices if device.processors
    )
    parts = [
        f"rank{'s' * (len(ranks) > 1)} {in_ranges(sorted(ranks))} → {processors}"
        for processors, ranks in list(ranks_on.items())[:_MOST_BINDINGS]
    ]
    if len(ranks_on) > _MOST_BINDINGS:
        parts.append(f"… and {len(ranks_on) - _MOST_BINDINGS} more lists of processors")
    mode = mode_of(header.settings.bind)
    mode = "listed" if mode == RANKS else mode
    return [f"{mode}: {'; '.join(parts)}" if parts else mode]


def link_lines(links: Sequence[Link]) -> list[str]:
    """Returns one line with the links per device if all devices are alike, else a line for each."""
    by_device: dict[int, list[str]] = {}
    for link in links:
        if link.kind == "PCIe":
            text = f"PCIe {link.version} x{link.count}"
        else:
            rate = f" at {link.rate_bytes_per_s / 1e9:.0f} GB/s" if link.rate_bytes_per_s else ""
            text = f"{link.count} × {link.kind} {link.version}{rate}"
        by_device.setdefault(link.device, []).append(text)
    described = {device: " and ".join(texts) for device, texts in by_device.items()}
    if len(set(described.values())) == 1:
        return [f"{next(iter(described.values()))} per device"]
    return [f"rank {device}: {text}" for device, text in described.items()]


def origin_of(imported: Imported) -> str:
    """Returns a line with the origin of another tool's results."""
    file = f", {imported.file}" if imported.file else ""
    date = f" of {imported.file_date[:10]}" if imported.file_date else ""
    return f"from {imported.source}{file}{date}"


def method_of(header: Header) -> str:
    """Describes in a line how collectives were measured."""
    settings = header.settings
    if header.imported is not None:
        return _method_of_another(settings)
    if settings.iterations is not None:
        length = counted(settings.iterations, "iteration")
    else:
        length = f"until the median is known to ±{settings.precision * 100:g} % (95 %)"
    check = _check_of(settings)
    cache = ", same buffers again and again" if settings.cache == "warm" else ""
    rank = _ACROSS.get(settings.across_ranks, "rank 0")
    timing = _TIMINGS.get(settings.timing) or settings.timing
    options = " ".join(f"{name}={value}" for name, value in settings.config.items())
    given = f", communicators with {options}" if options else ""
    return f"{timing}, {length}, {rank}, {check}{cache}{_met_and_clocked(settings)}{given}"


def _check_of(settings: Settings) -> str:
    """Describes the check of each case's output, by operations that are not timed."""
    if not settings.check:
        return "outputs not checked"
    times = f" {settings.check} times" if settings.check > 1 else ""
    where = " on the host" if settings.check_on else ""
    return f"each case's output checked{times}{where} after timing"


def _met_and_clocked(settings: Settings) -> str:
    """Describes the barrier and the clock if they are not the default."""
    barrier = ", after the library's barrier" if settings.barrier == "library" else ""
    return barrier + _CLOCKS.get(settings.clock, "")


def _method_of_another(settings: Settings) -> str:
    """Describes the method of another tool, as far as its text reports it."""
    words = [settings.timing] if settings.timing not in ("", "throughput") else []
    if settings.iterations is not None:
        words.append(counted(settings.iterations, "iteration"))
    words += [_ACROSS.get(settings.across_ranks, "rank 0")] if settings.across_ranks else []
    words.append("one figure for each case")
    return ", ".join(words) + _met_and_clocked(settings)


_OWN = "the median over samples of the slowest rank unless the method says otherwise"

# The tools of each definition of a time, in the order of the runs.
Definitions = Mapping[str, list[str]]


def definition_of(header: Header) -> str:
    """Returns the definition of a run's times in words; empty if the journal has none."""
    return _OWN if header.imported is None else header.imported.figure


def definitions_of(headers: Iterable[Header]) -> Definitions:
    """Returns the tools by definition. Runs without a definition are left out."""
    found: dict[str, dict[str, None]] = {}
    for header in headers:
        if definition := definition_of(header):
            tool = "cclmark" if header.imported is None else header.imported.source
            found.setdefault(definition, {})[tool] = None
    return {definition: [*tools] for definition, tools in found.items()}


def definition_lines(definitions: Definitions) -> list[str]:
    """Returns a sentence for each definition: its tools, and what a time is."""
    return [f"{listed(tools)}: a time is {words}" for words, tools in definitions.items()]
