"""NVIDIA's GPUs as their driver reports them: clocks, power, memory errors, modes."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence

from cclmark_fleet.hosts.check import (
    CannotTellError,
    HostCheck,
    Judged,
    NotApplicableError,
    reboot,
    reset,
    service,
    setting,
)
from cclmark_fleet.hosts.host import NVIDIA, Host, PciDevice
from cclmark_fleet.hosts.host_probe import MISSING
from cclmark_fleet.hosts.tool_texts import SmiSection, parse_topology

_RESET = reset("stop all programs of the GPU: nvidia-smi --gpu-reset -i ADDRESS")
_REBOOT = reboot("drain and reboot the host")
_SERVICE = service("replace the GPU")
_LADDER = (_RESET, _REBOOT, _SERVICE)
_FAILED = re.compile(
    r"Driver/library version mismatch|couldn't communicate with the NVIDIA driver|Failed to "
    r"initialize NVML|No devices were found|Unable to determine the device handle|GPU is lost|"
    r"Unknown Error"
)
_Judge = Callable[[Host], Judged]


def judged_as_read(judge: _Judge, *sections: str) -> _Judge:
    """``judge``, which cannot tell about GPUs whose values nvidia-smi -q failed to read.

    ``sections``: those of the GPU that ``judge`` reads, or single values beside them.
    """

    def judged(host: Host) -> Judged:
        unread: list[tuple[str, str]] = []
        for address, own in host.smi.items():
            names = [name for name in sections if own.fault(name)]
            names += [f"{part}: {name}" for part in sections for name in own.part(part).faults()]
            is_missing = own.is_lost and not any(one in own or one in own.parts for one in sections)
            if names or is_missing:
                text = f"{address}: nvidia-smi failed to read {', '.join(names[:3]) or 'the GPU'}"
                unread.append((text, "a GPU that answers: see gpu-driver"))
        try:
            found = judge(host)
        except NotApplicableError:
            if not unread:
                raise
            found = Judged()
        for reason, needs in unread:
            found.cannot_tell(reason, needs)
        return found

    return judged


def _driver(host: Host) -> Judged:
    gpus = host.gpus_of(NVIDIA, "NVIDIA GPU")
    reading = host.smi_reading
    found = Judged()
    is_loaded = bool(host.probe.text("/proc/driver/nvidia/version"))
    # A line with " : " is a value of one GPU, and no message of the driver.
    messages = [line for line in reading.text.splitlines() if " : " not in line]
    failure = _FAILED.search("\n".join(messages))
    if failure is not None and is_loaded:
        found.see("nvidia-smi", failure[0], "no failure", ok=False)
    elif not is_loaded and host.container:
        raise NotApplicableError("the GPUs of the host are not exposed to this container")
    elif not is_loaded:
        found.see("kernel", f"no NVIDIA driver for {len(gpus)} GPUs", "loaded", ok=False)
    elif reading.error == MISSING:
        raise CannotTellError("nvidia-smi is not installed", "nvidia-smi")
    elif reading.error:
        raise CannotTellError(f"nvidia-smi: {reading.error}", "a driver that answers, or a reboot")
    else:
        found.see("driver", host.driver or "loaded")
        for line in messages:
            if "infoROM is corrupted" in line:
                found.see("nvidia-smi", line.strip()[:100], "a valid infoROM", ok=False)
                found.grade, found.remedies = "look", (_REBOOT, _SERVICE)
        for address, own in host.smi.items() if host.has_smi else ():
            if own.is_lost:
                count = len(own.faults())
                text = f"nvidia-smi failed to read {count} values ({', '.join(own.faults()[:3])} …)"
                found.see(address, text, "values, but of two sections at most", ok=False)
                found.remedies = _LADDER
    return found


DRIVER = HostCheck(
    "gpu-driver",
    "driver of GPUs",
    _driver,
    "no program can use the GPUs",
    (
        setting(
            "reload the driver's modules, or install the user-space packages of its version",
        ),
        _REBOOT,
    ),
    "messages of nvidia-smi",
)


def _is_passed_on(host: Host, one: PciDevice) -> bool:
    """Whether a virtual machine on this host has the GPU."""
    driver = host.probe.resolved(f"/sys/bus/pci/devices/{one.address}/driver")
    return driver.endswith("/vfio-pci")


def _count(host: Host) -> Judged:
    gpus = host.gpus_of(NVIDIA, "NVIDIA GPU")
    listed = host.smi
    found = Judged()
    hides = bool(host.container) or host.is_in_job  # they show the devices of the job alone
    for one in gpus:
        if host.probe.text(f"/sys/bus/pci/devices/{one.address}/revision") == "0xff":
            found.see(one.address, "does not answer on the bus", "answers", ok=False)
        elif one.address not in listed and not hides and not _is_passed_on(host, one):
            found.see(one.address, "not listed by nvidia-smi", "listed", ok=False)
    boards = host.machine.gpus if host.machine else ()
    if boards and not host.container and not host.is_virtual:
        is_whole = any(len(gpus) % one == 0 for one in boards)
        found.see("host", f"{len(gpus)} GPUs", f"a multiple of {min(boards)}", ok=is_whole)
    found.see("nvidia-smi", f"{len(listed)} GPUs")
    return found


COUNT = HostCheck(
    "gpu-count",
    "GPUs that are missing",
    _count,
    "the job has fewer ranks, or does not start",
    (_REBOOT, service("reseat or replace the GPU, or the board")),
    "GPUs on the PCI bus beside those of nvidia-smi, and the boards of the machine class",
)


def _each(path: Sequence[str], limit: str, is_ok: Callable[[str], bool], name: str = "") -> _Judge:
    """Judges a value of nvidia-smi -q of each GPU; not applicable where no GPU has it."""

    def judge(host: Host) -> Judged:
        found = Judged()
        for address, value in host.of_gpus(*path):
            found.see(address, f"{name}{value}", limit, ok=is_ok(value))
        if not found.signals:
            raise NotApplicableError(f"nvidia-smi reports no {path[-1]}")
        return found

    return judged_as_read(judge, path[0])


def _number(text: str) -> float | None:
    found = re.match(r"-?\d{1,12}(?:\.\d{1,6})?", text)
    return float(found[0]) if found else None


_SLOW = {
    "HW Slowdown": "bad",
    "HW Thermal Slowdown": "bad",
    "HW Power Brake Slowdown": "bad",
    "SW Thermal Slowdown": "look",
}


def _clocks(host: Host) -> Judged:
    found = Judged()
    grades = set()
    for address, own in host.smi.items():
        reasons = own.part("Clocks Event Reasons", "Clocks Throttle Reasons")
        active = [name for name in _all(reasons) if name in _SLOW]
        grades |= {_SLOW[name] for name in active}
        if reasons:
            found.see(address, ", ".join(active) or "no slowdown", "no slowdown", ok=not active)
    if not found.signals:
        raise CannotTellError("nvidia-smi reports no reasons of clocks", "a newer driver")
    found.grade = "bad" if "bad" in grades else "look"
    return found


def _all(section: SmiSection) -> list[str]:
    """The names of a section and of those below it whose value is Active."""
    found = [name for name, value in section.items() if value == "Active"]
    return found + [name for part in section.parts.values() for name in _all(part)]


def _limited(host: Host) -> Judged:
    """Clocks under load beside the largest ones, where neither power nor heat explains them."""
    found = Judged()
    for address, own in host.smi.items():
        now = _number(own.at("Clocks", "SM") or own.at("Clocks", "Graphics"))
        most = _number(own.at("Max Clocks", "SM") or own.at("Max Clocks", "Graphics"))
        reasons = own.part("Clocks Event Reasons", "Clocks Throttle Reasons")
        is_explained = bool({*_all(reasons)} & {*_SLOW, "SW Power Cap", "Idle", "GPU Idle"})
        is_busy = is_used(own) and own.at("Performance State") in ("P0", "P1", "P2")
        if now and most and is_busy and not is_explained:
            text = f"{now:g} MHz under load, no reason given"
            found.see(address, text, f"≥ {0.7 * most:.0f} of {most:g} MHz", ok=now >= 0.7 * most)
    if not found.signals:
        raise NotApplicableError("no GPU is under load")
    return found


def is_used(own: SmiSection) -> bool:
    """Whether a GPU of ``nvidia-smi -q`` is busy for more than half of the time."""
    used = _number(own.at("Utilization", "GPU") or own.at("Utilization", "Gpu"))  # 580 on, before
    return used is not None and used > 50


LIMITED = HostCheck(
    "gpu-locked-clocks",
    "clocks of GPUs under load",
    _limited,
    "kernels of collectives and of compute run at a lower clock: the slowest GPU delays all",
    (setting("nvidia-smi -rgc, as root: it ends a limit that nvidia-smi -lgc set"), _REBOOT),
    "own limit: 70 % of the largest clock, if no power cap and no slowdown is active",
    grade="look",
    certainty="likely",
)

CLOCKS = HostCheck(
    "gpu-clocks",
    "slowdown of GPU clocks",
    judged_as_read(_clocks, "Clocks Event Reasons", "Clocks Throttle Reasons"),
    "the GPU and with it every collective slows down; kernels and copies lose the clock's share",
    (
        setting("check fans, inlet temperature, power supplies and the power cap of the rack"),
        _REBOOT,
        service("replace the heat sink's paste, the power supply or the GPU"),
    ),
    "clocks_event_reasons.active: HW slowdown 0x8, SW thermal 0x20, HW thermal 0x40, power brake "
    "0x80; the software's power cap is normal under load and not judged",
)


def _power(host: Host) -> Judged:
    found = Judged()
    for address, own in host.smi.items():
        gpu = own.part("GPU Power Readings", "Power Readings")
        for name, power in (("", gpu), ("module ", own.part("Module Power Readings"))):
            now = _number(power.at("Current Power Limit") or power.at("Power Limit"))
            usual = _number(power.at("Default Power Limit"))
            if now and usual:
                limit = f"≥ {usual:g} W, the default"
                found.see(address, f"{name}{now:g} W", limit, ok=now >= 0.98 * usual)
    if not found.signals:
        raise NotApplicableError("nvidia-smi reports no power limits")
    return found


POWER = HostCheck(
    "gpu-power",
    "power limits of GPUs",
    judged_as_read(_power, "GPU Power Readings", "Power Readings", "Module Power Readings"),
    "under load the clock falls, and collectives wait for the slowest GPU",
    (setting("nvidia-smi -pl WATT, as root, unless the limit is intended"),),
    "the default limit that the driver reports",
    grade="look",
)


def _application(host: Host) -> Judged:
    found = Judged()
    for address, own in host.smi.items():
        for name in ("Graphics", "Memory"):
            now = _number(own.at("Applications Clocks", name))
            usual = _number(own.at("Default Applications Clocks", name))
            if now and usual:
                found.see(
                    address, f"{name} {now:g} MHz", f"≥ {usual:g} MHz, the default", ok=now >= usual
                )
    if not found.signals:
        raise NotApplicableError("the driver has no application clocks")
    return found


APPLICATION_CLOCKS = HostCheck(
    "gpu-application-clocks",
    "application clocks of GPUs",
    judged_as_read(_application, "Applications Clocks", "Default Applications Clocks"),
    "kernels of collectives and of compute run at a lower clock",
    (setting("nvidia-smi -rac, as root"),),
    "the default clocks that the driver reports",
    grade="look",
)

PERSISTENCE = HostCheck(
    "gpu-persistence",
    "persistence mode of GPUs",
    _each(("Persistence Mode",), "Enabled", lambda text: text == "Enabled", "persistence "),
    "the driver unloads between programs: each start takes seconds, and NVLinks train again",
    (setting("systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1, as root"),),
    "NVIDIA's documentation of driver persistence",
    grade="look",
)

COMPUTE_MODE = HostCheck(
    "gpu-compute-mode",
    "compute mode of GPUs",
    _each(("Compute Mode",), "Default or Exclusive_Process", lambda text: text != "Prohibited"),
    "no program can use the GPU",
    (setting("nvidia-smi -c DEFAULT, as root"),),
    "documentation of nvidia-smi",
)

MIG = HostCheck(
    "gpu-mig",
    "MIG mode of GPUs",
    _each(("MIG Mode", "Current"), "Disabled", lambda text: text != "Enabled", "MIG "),
    "instances have no peer access: NCCL does not connect two instances of one GPU",
    (setting("nvidia-smi -mig 0, as root, if no instance is in use"),),
    "NVIDIA's MIG user guide",
    grade="look",
)


def _ecc_mode(host: Host) -> Judged:
    found = Judged()
    for address, own in host.smi.items():
        now = own.at("ECC Mode", "Current")
        then = own.at("ECC Mode", "Pending") or now
        if now:
            limit = "Enabled, nothing pending"
            is_data_center = host.machine is not None
            ok = now == then and (now == "Enabled" or not is_data_center)
            found.see(address, now if now == then else f"{now}, pending {then}", limit, ok=ok)
    if not found.signals:
        raise NotApplicableError("the GPUs have no ECC")
    return found


ECC_MODE = HostCheck(
    "gpu-ecc-mode",
    "ECC of GPU memory",
    judged_as_read(_ecc_mode, "ECC Mode"),
    "errors of memory are not seen, and equal hosts behave differently",
    (setting("nvidia-smi -e 1, as root"), _RESET),
    "the machine classes have ECC enabled when they are delivered",
    grade="look",
)


def _ecc_errors(host: Host) -> Judged:
    found = Judged()
    for address, own in host.smi.items():
        volatile = own.parts.get("ECC Errors", SmiSection()).parts.get("Volatile", SmiSection())
        for name, text in volatile.items():
            count = _number(text)
            if "ncorrect" in name and count is not None:
                found.see(
                    address, f"{name} {count:g}", "0 since the driver was loaded", ok=count == 0
                )
        if text := own.at("ECC Errors", "Aggregate", "SRAM Threshold Exceeded"):
            found.see(address, f"SRAM threshold exceeded: {text}", "No", ok=text != "Yes")
    if not found.signals:
        raise NotApplicableError("the GPUs report no ECC errors")
    return found


ECC_ERRORS = HostCheck(
    "gpu-ecc-errors",
    "uncorrectable errors of GPU memory",
    judged_as_read(_ecc_errors, "ECC Errors"),
    "programs end, and more errors follow until the GPU is reset",
    _LADDER,
    "NVIDIA's GPU memory error management: reset after an uncorrectable error; only errors since "
    "the driver was loaded are judged, not those of the GPU's life",
)


def _rows(host: Host) -> Judged:
    found = Judged()
    for address, own in host.smi.items():
        rows = own.part("Remapped Rows")
        for name in ("Pending", "Remapping Failure Occurred"):
            if text := rows.at(name):
                found.see(address, f"remapped rows: {name} {text}", "No", ok=text != "Yes")
        for section in (own.part("ECC Errors"), rows):  # by the driver's version
            for name in ("Channel Repair Pending", "TPC Repair Pending", "Unrepairable Memory"):
                if text := section.at(name):
                    found.see(address, f"{name} {text}", "No", ok=text != "Yes")
        spare = _number(rows.part("Bank Remap Availability Histogram").at("None"))
        if spare is not None:
            found.see(address, f"{spare:g} banks without spare rows", "0", ok=spare == 0)
        pages = own.part("Retired Pages")
        if text := pages.at("Pending Page Blacklist") or pages.at("Pending"):
            found.see(address, f"retired pages pending {text}", "No", ok=text != "Yes")
        if (count := _number(rows.at("Uncorrectable Error"))) is not None:
            found.see(address, f"{count:g} remapped rows", "≤ 512", ok=count <= 512)
    if not found.signals:
        raise NotApplicableError("the GPUs report no remapped rows")
    return found


ROWS = HostCheck(
    "gpu-remapped-rows",
    "remapped rows of GPU memory",
    judged_as_read(_rows, "Remapped Rows", "Retired Pages"),
    "the row stays bad until a reset; after a failed remapping programs end again and again",
    _LADDER,
    "NVIDIA's GPU memory error management; OCI replaces hosts with more than 512 rows",
)


def _recovery(host: Host) -> Judged:
    found = Judged()
    for address, own in host.smi.items():
        action = own.at("GPU Recovery Action")
        asked = [
            name
            for name in ("Drain and Reset Recommended", "Reset Required")
            if own.at(name) == "Yes" or own.at("GPU Reset Status", name) == "Yes"
        ]
        has_status = bool(own.part("GPU Reset Status")) or bool(own.at(_DRAIN))
        if action or asked or has_status:
            text = ", ".join([*([action] if action not in ("", "None") else []), *asked])
            found.see(address, text or "None", "None", ok=not text)
    if not found.signals:
        raise NotApplicableError("the driver reports no recovery action")
    return found


_DRAIN = "Drain and Reset Recommended"
RECOVERY = HostCheck(
    "gpu-recovery",
    "recovery action that the driver asks for",
    judged_as_read(_recovery, "GPU Recovery Action", "GPU Reset Status"),
    "the GPU fails or is slow until the action is taken",
    _LADDER,
    "NVML's recovery actions: 1 reset, 2 reboot, 3 drain peers, 4 drain and reset",
)


_HBM_CELSIUS = 95.0


def _heat(host: Host) -> Judged:
    found = Judged()
    for address, own in host.smi.items():
        heat = own.part("Temperature")
        margin = _number(heat.at("GPU T.Limit Temp"))
        now, most = _number(heat.at("GPU Current Temp")), _number(heat.at("GPU Slowdown Temp"))
        if margin is not None:
            found.see(address, f"{margin:g} °C below the limit", "≥ 3 °C", ok=margin >= 3)
        if now is not None and most:
            found.see(address, f"{now:g} °C", f"≤ {most - 3:g} °C", ok=now <= most - 3)
        memory, limit = (
            _number(heat.at("Memory Current Temp")),
            _number(heat.at("Memory Max Operating Temp")),
        )
        if memory is not None and not limit and host.machine:
            limit = _HBM_CELSIUS  # later drivers tell the distance to a limit of the GPU alone
        if memory is not None and limit:
            found.see(address, f"memory {memory:g} °C", f"≤ {limit:g} °C", ok=memory <= limit)
    if not found.signals:
        raise NotApplicableError("the GPUs report no limits of temperature")
    return found


HEAT = HostCheck(
    "gpu-temperature",
    "temperature of GPUs",
    judged_as_read(_heat, "Temperature"),
    "the clock falls before the limit: jitter of one GPU slows every collective",
    (setting("check fans, filters and the inlet temperature"), _SERVICE),
    "the limits that the driver reports, 95 °C for HBM without one; own margin: 3 °C",
    grade="look",
)


_LEFT_MIB = 2048.0


def _leftover(host: Host) -> Judged:
    """Memory that is in use although no program runs. A container does not see all programs."""
    if host.container or host.is_in_job:
        raise NotApplicableError("programs of others are not visible here")
    found = Judged()
    for address, own in host.smi.items():
        used = _number(own.at("FB Memory Usage", "Used"))
        if used is not None and own.get("Processes") == "None":
            limit = f"≤ {_LEFT_MIB:g} MiB"
            found.see(address, f"{used:g} MiB used, no program", limit, ok=used <= _LEFT_MIB)
    if not found.signals:
        raise NotApplicableError("programs run on all GPUs, or nvidia-smi does not list them")
    return found


LEFTOVER = HostCheck(
    "gpu-memory",
    "memory of GPUs that no program uses",
    judged_as_read(_leftover, "FB Memory Usage"),
    "the next job has less memory, or fails to allocate it",
    (setting("end what is left of the former job: fuser -v /dev/nvidia*"), *_LADDER),
    "FB Memory Usage beside Processes in nvidia-smi -q; own limit: 2 GiB",
    grade="look",
    certainty="likely",
)


def _files(host: Host) -> Judged:
    if not host.container:
        raise NotApplicableError("no container")
    if not host.probe.exists("/dev/nvidiactl"):
        raise NotApplicableError("this container has no device files of NVIDIA")
    found = Judged()
    is_there = host.probe.exists("/dev/nvidia-uvm")
    found.see("/dev/nvidia-uvm", "exists" if is_there else "missing", "exists", ok=is_there)
    return found


FILES = HostCheck(
    "gpu-device-files",
    "device files of GPUs in containers",
    _files,
    "CUDA does not start, although nvidia-smi lists the GPUs",
    (setting("nvidia-modprobe -u -c 0 on the host; docker run --gpus all, or a CDI device"),),
    "NVIDIA's container toolkit: nvidiactl, nvidia-uvm and a file for each GPU",
)


def _parameters(host: Host) -> Judged:
    reading = host.probe.read("/proc/driver/nvidia/params")
    if reading.error:
        host.gpus_of(NVIDIA, "NVIDIA GPU")
        raise NotApplicableError("no NVIDIA driver")
    if len(host.gpus_of(NVIDIA, "NVIDIA GPU")) < 2:
        raise NotApplicableError("one GPU")
    values = dict(line.split(": ", 1) for line in reading.text.splitlines() if ": " in line)
    found = Judged()
    link = values.get("NvLinkDisable", "0").strip()
    found.see("NvLinkDisable", link, "0", ok=link == "0")
    return found


PARAMETERS = HostCheck(
    "gpu-driver-parameters",
    "parameters of NVIDIA's driver",
    _parameters,
    "NVLink is off: copies between GPUs use PCIe, a tenth of the bandwidth",
    (setting("remove NVreg_NvLinkDisable from /etc/modprobe.d"), _REBOOT),
    "/proc/driver/nvidia/params; EnablePCIERelaxedOrderingMode: 0 is the default and harmless",
)


def _peers(host: Host) -> Judged:
    if len(host.smi) < 2:
        raise NotApplicableError("one GPU")
    reading = host.probe.run("nvidia-smi", "topo", "-p2p", "r")
    cells = {
        pair: cell
        for pair, cell in parse_topology(reading.text).items()
        if pair[1].startswith("GPU") and pair[0] != pair[1]
    }
    if not cells:
        raise CannotTellError(f"nvidia-smi topo -p2p r: {reading.error or 'no matrix'}")
    found = Judged()
    for (one, other), cell in cells.items():
        if cell not in ("OK", "CNS", "GNS", "TNS", "NS", "DR"):
            found.cannot_tell(f"{one}-{other}: the driver reports an unknown state ({cell[:8]})")
        else:
            found.see(f"{one}-{other}", cell, "OK", ok=cell == "OK")
    return found


PEERS = HostCheck(
    "gpu-peer-access",
    "peer access between GPUs",
    _peers,
    "copies go through host memory, at a fraction of the bandwidth of NVLink or PCIe",
    (
        setting("give the container or the machine all GPUs, and turn off ACS and MIG"),
        reboot("start the fabric manager before programs; check the BIOS for IOMMU and ACS"),
    ),
    "nvidia-smi topo -p2p r: CNS chipset, GNS GPU, TNS topology not supported, DR disabled",
    certainty="likely",
)


def _directions(host: Host) -> Judged:
    if len(host.gpus) < 2:
        raise NotApplicableError("fewer than two accelerators")
    reading = host.probe.ask("measure", "both-directions")
    if reading.error == MISSING:
        raise CannotTellError("it takes a short test of all pairs", "cclmark doctor --measure")
    alone: dict[tuple[str, str], float] = {}
    both: dict[tuple[str, str], float] = {}
    for row in csv.DictReader(reading.text.splitlines()):
        pair = row.get("from") or "", row.get("to") or ""
        total = _number(row.get("total_gbps") or "")
        if total and row.get("measure") == "unidirectional":
            alone[pair] = total
        elif total and row.get("measure") == "bidirectional":
            both.setdefault(pair, total)
    found = Judged()
    for pair, rate in alone.items():
        if pair in both:
            limit = 0.75 * rate
            found.see(
                "-".join(pair),
                f"{both[pair] / 2:.4g} GB/s each way at once, {rate:.4g} alone",
                f"≥ {limit:.4g}",
                ok=both[pair] / 2 >= limit,
            )
    if not found.signals:
        raise CannotTellError(f"cclmark p2p: {reading.error or 'no figures'}")
    return found


def _firmware(host: Host) -> Judged:
    found = Judged()
    names = ("VBIOS Version", "GSP Firmware Version")
    for name in names:
        seen: dict[str, dict[str, str]] = {}
        for address, own in host.smi.items():
            part = own.at("GPU Part Number") or own.at("Board Part Number")
            if value := own.at(name):
                seen.setdefault(f"{own.at('Product Name')} {part}", {})[address] = value
        for versions in seen.values():
            usual = Counter(versions.values()).most_common(1)[0][0]
            for address, value in versions.items():
                found.see(address, f"{name} {value}", f"{usual}, as others", ok=value == usual)
    sizes: dict[str, dict[str, float]] = {}
    for address, own in host.smi.items():
        size = _number(own.at("BAR1 Memory Usage", "Total"))
        if size is not None:
            sizes.setdefault(own.at("Product Name"), {})[address] = size
    for by_gpu in sizes.values():
        most = max(by_gpu.values())
        for address, size in by_gpu.items():
            limit = f"≥ {most:g} MiB, as others"
            found.see(address, f"BAR1 {size:g} MiB", limit, ok=size >= most)
    if not found.signals:
        raise NotApplicableError("nvidia-smi reports no firmware")
    return found


FIRMWARE = HostCheck(
    "gpu-firmware",
    "equal firmware and BAR1 of equal GPUs",
    judged_as_read(_firmware, "VBIOS Version", "GSP Firmware Version", "BAR1 Memory Usage"),
    "clocks, power and errors differ between the GPUs of a host: the slowest one delays all; a "
    "small BAR1 has no room for GPUDirect RDMA and for copies of peers over PCIe",
    (
        setting(
            "install the same firmware on all GPUs, as the vendor of the machine delivers it; for "
            "BAR1: resizable BARs and decoding above 4 GiB in the BIOS"
        ),
        _REBOOT,
    ),
    "VBIOS and GSP of GPUs with the same part number, BAR1 of those with the same name",
    grade="look",
    certainty="possible",
)

DIRECTIONS = HostCheck(
    "both-directions",
    "copies in both directions at once",
    _directions,
    "collectives send and receive at once: a B200 host with 32 in place of 48 GB/s each way lost a "
    "third, and tests of one direction showed nothing",
    (
        setting("check acs, iommu, pcie-relaxed-ordering and pcie-payload"),
        _REBOOT,
        service("compare with an equal host, then replace the switch board"),
    ),
    "own limit: 75 % of the rate of one direction, measured by cclmark p2p",
    certainty="likely",
)
