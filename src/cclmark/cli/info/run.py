"""Prints the devices and libraries of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

import msgspec

from cclmark.base.errors import MissingError
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.cli.info.command import InfoFlags
from cclmark.journal.machine import complete_from_nvml, describe_machine
from cclmark.journal.schema import CclReport, DeviceDescription, Link, Machine, NetworkInterface
from cclmark.rank.probe import Inventory, report_ccls, take_inventory
from cclmark.recording.joining import leave_it_to_the_first, libraries_on_standard_error
from cclmark.recording.output import print_lines
from cclmark.recording.standard_output import say
from cclmark.work.operations import DTYPE_BYTES
from cclmark.work.sizes import format_size

_SCREEN, _INDENT = 100, 28


def screen_text(
    machine: Machine, found: Inventory, links: Sequence[Link], notices: Sequence[str]
) -> str:
    """Returns the inventory on one screen: alike devices once, and reasons that are errors."""
    nodes = f"{machine.numa_nodes} NUMA node{'s' * (machine.numa_nodes > 1)}"
    lines = _rows(
        "Machine",
        [
            (machine.hostname, f"{machine.system}, kernel {machine.kernel}"),
            ("", f"{machine.processors} × {machine.processor}, {nodes}"),
            ("", f"{format_size(machine.memory_bytes)} of memory"),
        ],
    )
    devices = []
    alike = by_key((_of_all(device, links), device) for device in found.devices)
    for (_, first, *others), group in alike.items():
        devices.append((_names(group), f"{len(group)} × {first}"))
        devices += [("", text) for text in others]
    driver = [("", f"NVIDIA driver {machine.vendor_driver}")] if machine.vendor_driver else []
    lines += _rows("Devices", [*devices, *driver, *(("", text) for text in notices)])
    interfaces = by_key((_of_interface(one), one.name) for one in machine.interfaces)
    lines += _rows(
        "Network", [(", ".join(names), f"{len(names)} × {of}") for of, names in interfaces.items()]
    )
    libraries = [(f"{one.name} {one.version}", one.path) for one in found.libraries]
    nvrtc = [("NVRTC", found.nvrtc_path)] if found.nvrtc_path else []
    lines += _rows("Libraries", [*libraries, *nvrtc])
    absent = [name for name, reason in found.unavailable.items() if _is_absent(reason)]
    errors = by_key(
        (" ".join(map(str.strip, reason.splitlines()[:2])), name)
        for name, reason in found.unavailable.items()
        if name not in absent
    )
    lines += _rows("Not usable", [(", ".join(names), text) for text, names in errors.items()])
    lines += _rows("Not found", [("", ", ".join(absent))] if absent else [])
    return "\n".join(
        [*lines, "", "All details, and the files that were searched: cclmark info --all"]
    )


def _rows(title: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    """Lines of a title, names and texts. A name that leaves no space has a separate line."""
    lines: list[str] = []
    for place, (name, text) in enumerate(rows):
        head = f"{title if place == 0 else '':12}{plain(name):14}  "
        if len(head) > _INDENT:
            lines.append(head.rstrip())
            head = ""
        lines += wrap(
            plain(text),
            _SCREEN,
            initial_indent=head or " " * _INDENT,
            subsequent_indent=" " * _INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def _of_interface(one: NetworkInterface) -> str:
    """What is the same of alike interfaces: kind, rate and state."""
    rate = f"{one.rate_bits_per_s / 1e9:g} Gb/s" if one.rate_bits_per_s else ""
    return ", ".join(filter(None, (f"{one.kind} {rate}".strip(), one.state)))


def _names(devices: Sequence[DeviceDescription]) -> str:
    """``cuda:0-7``, or ``cuda:0,2``."""
    numbers = [device.index for device in devices]
    first, last = numbers[0], numbers[-1]
    listed = ",".join(map(str, numbers))
    if last - first == len(numbers) - 1 > 0:
        listed = f"{first}-{last}"
    return f"{devices[0].runtime}:{listed}"


def _of_all(device: DeviceDescription, links: Sequence[Link]) -> tuple[str, ...]:
    """What is the same of alike devices: name, memory and links."""
    head, *others = _device_lines(device, [one for one in links if one.device == device.rank])
    others = [text.strip() for text in others if not text.strip().startswith("PCI ")]
    return (device.runtime, head.split(maxsplit=1)[1], *others)


def _is_absent(reason: str) -> bool:
    """Whether a library was not found where it usually is; a file that the user named is shown."""
    first, *others = reason.splitlines()
    return first.endswith("was not found.") and not any(" is set to " in line for line in others)


def inventory_text(
    machine: Machine, found: Inventory, links: Sequence[Link], notices: Sequence[str]
) -> str:
    """Returns the inventory as text."""
    lines = [
        f"Machine    {plain(machine.hostname)}: {plain(machine.system)}, kernel "
        f"{plain(machine.kernel)}",
        f"           {machine.processors} × {plain(machine.processor)}, "
        f"{format_size(machine.memory_bytes)}, {machine.numa_nodes} NUMA node"
        f"{'s' * (machine.numa_nodes > 1)}",
        "",
        "Devices",
    ]
    for device in found.devices:
        lines += _device_lines(device, [link for link in links if link.device == device.rank])
    if machine.vendor_driver:
        lines.append(f"  NVIDIA driver {plain(machine.vendor_driver)}")
    lines += [f"  {plain(text)}" for text in notices]
    lines += [*([""] * bool(machine.interfaces)), *_interface_lines(machine)]
    lines += ["", "Libraries"]
    for library in found.libraries:
        lines.append(f"  {plain(library.name)} {plain(library.version)}  {plain(library.path)}")
        if library.capabilities:
            lines.append(f"    has    {', '.join(map(plain, library.capabilities))}")
        if library.missing:
            lines.append(f"    lacks  {', '.join(map(plain, library.missing))}")
    if found.nvrtc_path:
        lines.append(f"  NVRTC (compiles kernels)  {plain(found.nvrtc_path)}")
    unavailable = found.unavailable
    absent = [name for name, reason in unavailable.items() if _just_not_installed(name, reason)]
    if unavailable:
        lines += ["", "Not available"]
        for name, reason in unavailable.items():
            if name in absent:
                continue
            first, *others = reason.splitlines()
            lines.append(f"  {name}: {plain(first)}")
            lines += [f"    {plain(other.strip())}" for other in others]
    if absent:
        lines.append(f"  not installed: {', '.join(map(plain, absent))}")
        lines.append("    'cclmark info --json' lists the paths that were searched.")
    return "\n".join(lines)


def _interface_lines(machine: Machine) -> list[str]:
    """A line for each network interface, below a title; none without any."""
    lines = ["Network interfaces"] if machine.interfaces else []
    for one in machine.interfaces:
        names = f" ({', '.join(one.interfaces)})" if one.interfaces else ""
        place = f", PCI {one.pci_bus_id}" if one.pci_bus_id else ""
        node = f", NUMA node {one.numa_node}" if one.numa_node >= 0 else ""
        lines.append(plain(f"  {one.name}{names}  {_of_interface(one)}{place}{node}"))
    return lines


def _just_not_installed(name: str, reason: str) -> bool:
    """Whether a vendor's library is just not installed; a file that the user named is reported."""
    first, *others = reason.splitlines()
    tried = [line for line in others if not line.strip().startswith("Set ")]
    return (
        name not in ("nccl", "NVRTC", "runtime cuda")
        and first.endswith("was not found.")
        and len(tried) == 1
        and "," in tried[0].partition(":")[0]
        and tried[0].endswith("No such file or directory")
    )


def _device_lines(device: DeviceDescription, links: Sequence[Link]) -> list[str]:
    head = f"  {plain(device.runtime)}:{device.index}  {plain(device.name)}, "
    head += format_size(device.memory_bytes)
    if device.architecture:
        head += f", compute capability {device.architecture / 10:.1f}"
    lines = [head]
    if device.pci_bus_id:
        node = f", NUMA node {device.numa_node}" if device.numa_node >= 0 else ""
        node += f", processors {plain(device.near)}" if device.near else ""
        lines.append(
            f"          PCI {plain(device.pci_bus_id)}{node} {plain(device.uuid)}".rstrip()
        )
    for link in links:
        rate = link.rate_bytes_per_s / 1e9
        what = f"{link.count} × {plain(link.kind)} {plain(link.version)}"
        if link.kind == "PCIe":
            what = f"PCIe {plain(link.version)} x{link.count}"
        lines.append(f"          {what}, {rate:.3g} GB/s each, {rate * link.count:.0f} GB/s in all")
    return lines


def json_of(document: object) -> str:
    """Returns one JSON object, indented for readability."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def ccls_text(reports: Sequence[CclReport]) -> str:
    """Returns a paragraph for each library, available ones first."""
    lines: list[str] = []
    for report in sorted(reports, key=lambda one: bool(one.reason)):
        lines += ["", *_lines(report)]
    return "\n".join(lines[1:])


def _lines(report: CclReport) -> list[str]:
    head = f"{plain(report.name)}, for devices of {' and '.join(report.runtimes)}"
    if report.reason:
        first, *others = map(plain, report.reason.splitlines())
        lines = [f"{head}: not found", f"  reason      {first}"]
        lines += [f"              {other.strip()}" for other in others]
        return [*lines, *_verified(report)]
    lines = [f"{head}: {plain(report.version)}", f"  path        {plain(report.path)}"]
    by_route = by_key((route, operation) for operation, route in report.routes.items())
    for number, (route, operations) in enumerate(by_route.items()):
        label = "operations" if number == 0 else ""
        lines.append(f"  {label:10}  {plain(route)}: {' '.join(map(plain, operations))}")
    if report.in_place_only:
        lines.append(f"              in place only: {' '.join(report.in_place_only)}")
    if report.dtypes:
        alike = report.reduced_dtypes == report.dtypes
        of_types = "" if alike else f" of {_types(report.reduced_dtypes)}"
        lines.append(f"  types       {_types(report.dtypes)}")
        lines.append(f"  reductions  {' '.join(report.reductions)}{of_types}")
    else:
        lines.append(
            "  types       as supported by the library; other types are skipped with its error"
        )
    lines.append(f"  id          {f'{report.id_bytes} bytes' if report.id_bytes else 'none'}")
    for label, names in (("has", report.has), ("lacks", report.lacks)):
        if names:
            lines.append(f"  {label:10}  {', '.join(map(plain, names))}")
    return [*lines, *_verified(report)]


def _verified(report: CclReport) -> list[str]:
    return [f"  verified    {plain(report.verified)}"] if report.verified else []


def _types(names: Sequence[str]) -> str:
    return "all" if set(names) == set(DTYPE_BYTES) else " ".join(map(plain, names))


def print_info(flags: InfoFlags) -> None:
    """Prints the devices and libraries of this machine. Raises CclmarkError."""
    leave_it_to_the_first()
    flags.add_ccl_files()
    if flags.ccls:
        with libraries_on_standard_error():
            reports = report_ccls(flags.ccl_path)
        say(json_of({"ccls": reports}) if flags.json else ccls_text(reports))
        reasons = {report.name: report.reason for report in reports}
        _require_given_file(flags.ccl_path, reasons)
        return
    machine = describe_machine()
    with libraries_on_standard_error():
        found = take_inventory(flags.ccl_path)
        links, notices = complete_from_nvml(found.devices, machine)
    document = {
        "machine": machine,
        "devices": found.devices,
        "links": links,
        "libraries": found.libraries,
        "unavailable": found.unavailable,
        "nvrtc_path": found.nvrtc_path,
        "notices": notices,
    }
    if flags.json:
        say(json_of(document))
    else:
        text_of = inventory_text if flags.all else screen_text
        print_lines([text_of(machine, found, links, notices)])
    _require_given_file(flags.ccl_path, found.unavailable)


def _require_given_file(ccl_path: str, reasons: Mapping[str, str]) -> None:
    """Raises MissingError if ``--ccl-path`` names a file that cannot be used."""
    if ccl_path and reasons.get("nccl"):
        raise MissingError(f"--ccl-path: {reasons['nccl']}")
