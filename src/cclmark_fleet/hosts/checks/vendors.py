"""AMD's GPUs and Huawei's NPUs, by sysfs and by their tools."""

from __future__ import annotations

import re
from collections import Counter

from cclmark_fleet.hosts.check import (
    ROOT,
    CannotTellError,
    HostCheck,
    Judged,
    NotApplicableError,
    reboot,
    reset,
    service,
    setting,
)
from cclmark_fleet.hosts.host import AMD, ASCEND, PCI, Host
from cclmark_fleet.hosts.host_probe import MISSING

_RESET_AMD = reset("stop all programs: amd-smi reset --gpureset")
_REBOOT = reboot("drain and reboot the host")
_KFD = "/sys/class/kfd/kfd/topology/nodes"
_XGMI = "type 11"


def _ras(host: Host) -> Judged:
    found = Judged()
    for one in host.gpus_of(AMD, "AMD GPU"):
        root = f"{PCI}/{one.address}/ras"
        for name in host.probe.entries(root):
            text = host.probe.text(f"{root}/{name}") if name.endswith("_err_count") else ""
            if name == "gpu_vram_bad_pages":  # a line for each page: R retired, P pending, F failed
                flags = re.findall(
                    r":\s*([PF])\s*$", host.probe.text(f"{root}/{name}"), re.MULTILINE
                )
                words = f"{len(flags)} bad pages that are not retired"
                found.see(one.address, words, "0", ok=not flags)
            if (errors := re.search(r"ue: (\d{1,18})", text)) is not None:
                found.see(
                    one.address,
                    f"{name.removesuffix('_err_count')} ue {errors[1]}",
                    "0",
                    ok=int(errors[1]) == 0,
                )
    if not found.signals:
        raise CannotTellError("ras/*_err_count is not readable", f"{ROOT}, or amd-smi metric --ecc")
    return found


AMD_RAS = HostCheck(
    "amd-ras",
    "uncorrectable errors of AMD GPUs (RAS)",
    _ras,
    "programs end, and more errors follow until the GPU is reset",
    (_RESET_AMD, _REBOOT, service("replace the GPU")),
    "amdgpu's documentation: counts since the driver was loaded",
)


def _xgmi(host: Host) -> Judged:
    found = Judged()
    for one in host.gpus_of(AMD, "AMD GPU"):
        if (state := host.probe.number(f"{PCI}/{one.address}/xgmi_error")) is not None:
            text = ("no error", "an error", "several errors")[min(max(state, 0), 2)]
            found.see(one.address, f"{text} of xGMI", "no error", ok=state == 0)
    counts: dict[str, int] = {}
    for node in host.probe.entries(_KFD):
        links = host.probe.entries(f"{_KFD}/{node}/io_links")
        kinds = [
            " ".join(host.probe.text(f"{_KFD}/{node}/io_links/{link}/properties").split()[:2])
            for link in links
        ]
        if "simd_count 0" not in host.probe.text(f"{_KFD}/{node}/properties"):
            counts[node] = sum(kind == _XGMI for kind in kinds)
    if not any(counts.values()):
        if found.signals:
            return found
        raise NotApplicableError("no xGMI between the GPUs")
    for node, count in counts.items():
        found.see(
            f"node {node}",
            f"{count} xGMI links",
            f"{max(counts.values())}, as others",
            ok=count == max(counts.values()),
        )
    return found


AMD_XGMI = HostCheck(
    "amd-xgmi",
    "xGMI links of AMD GPUs",
    _xgmi,
    "copies to the GPU use PCIe: collectives wait for it",
    (_RESET_AMD, _REBOOT, service("replace the GPU or the board")),
    "the other GPUs of the host, in the topology of KFD; xgmi_error of amdgpu",
)


def _level(host: Host) -> Judged:
    found = Judged()
    for one in host.gpus_of(AMD, "AMD GPU"):
        level = host.probe.text(f"{PCI}/{one.address}/power_dpm_force_performance_level")
        if level:
            found.see(
                one.address, level, "auto or high", ok=level not in ("low", "profile_min_sclk")
            )
    if not found.signals:
        raise CannotTellError("power_dpm_force_performance_level is not readable")
    return found


AMD_LEVEL = HostCheck(
    "amd-performance",
    "performance level of AMD GPUs",
    _level,
    "kernels of collectives and of compute run at the lowest clock",
    (setting("rocm-smi --setperflevel auto, as root"),),
    "amdgpu's documentation of power_dpm_force_performance_level",
)


def _sensors(host: Host) -> Judged:
    """Caps of power and temperatures of amdgpu's hwmon; equal partitions."""
    found = Judged()
    partitions: dict[str, str] = {}
    for one in host.gpus_of(AMD, "AMD GPU"):
        root = f"{PCI}/{one.address}"
        for name in host.probe.entries(f"{root}/hwmon"):
            own = f"{root}/hwmon/{name}"
            now, usual = (host.probe.number(f"{own}/power1_cap{end}") for end in ("", "_default"))
            if now and usual:
                is_ok = now >= 0.98 * usual
                text = f"power cap {now / 1e6:g} W"
                found.see(one.address, text, f"≥ {usual / 1e6:g} W, the default", ok=is_ok)
            for sensor in ("temp1", "temp2", "temp3"):
                heat = host.probe.number(f"{own}/{sensor}_input")
                most = host.probe.number(f"{own}/{sensor}_crit")
                if heat and most:
                    label = host.probe.text(f"{own}/{sensor}_label") or sensor
                    limit = most / 1000 - 3
                    is_ok = heat / 1000 <= limit
                    found.see(
                        one.address, f"{label} {heat / 1000:g} °C", f"≤ {limit:g} °C", ok=is_ok
                    )
        if kind := host.probe.text(f"{root}/current_compute_partition"):
            partitions[one.address] = kind
    usual_kind = Counter(partitions.values()).most_common(1)
    for address, kind in partitions.items():
        usual_text = usual_kind[0][0]
        limit_text = f"{usual_text}, as others"
        found.see(address, f"partition {kind}", limit_text, ok=kind == usual_text)
    if not found.signals:
        raise CannotTellError("hwmon of amdgpu is not readable", "amd-smi metric --power --temp")
    return found


AMD_SENSORS = HostCheck(
    "amd-sensors",
    "power caps, temperatures and partitions of AMD GPUs",
    _sensors,
    "the clock falls under load: collectives wait for the slowest GPU",
    (
        setting("amd-smi set --power-cap WATT, as root; check fans and the inlet temperature"),
        _RESET_AMD,
        service("replace the GPU"),
    ),
    "power1_cap_default and temp*_crit of amdgpu's hwmon; own margin: 3 °C",
    grade="look",
)


_VIOLATION = re.compile(r"^\s*((?:PROCHOT|SOCKET_THERMAL|VR_THERMAL|HBM_THERMAL)\w*_STATUS): *(.+)")


def _throttling(host: Host) -> Judged:
    host.gpus_of(AMD, "AMD GPU")
    reading = host.probe.run("amd-smi", "metric")
    if reading.error:
        raise CannotTellError(f"amd-smi: {reading.error}", "amd-smi")
    found = Judged()
    gpu = ""
    for line in reading.text.splitlines():
        if head := re.match(r"\s*GPU: (\d{1,3})\b", line):
            gpu = f"GPU {head[1]}"
        elif gpu and (one := _VIOLATION.match(line)):
            name = one[1].removesuffix("_STATUS").removesuffix("_VIOLATION")
            if one[2].strip() in ("ACTIVE", "NOT ACTIVE"):
                text = f"{name} {one[2].strip().lower()}"
                found.see(gpu, text, "not active", ok=one[2].strip() == "NOT ACTIVE")
        elif gpu and (count := re.match(r"\s*TOTAL_UNCORRECTABLE_COUNT: (\d{1,18})", line)):
            found.see(gpu, f"{count[1]} uncorrectable errors", "0", ok=int(count[1]) == 0)
    if not found.signals:
        raise CannotTellError("amd-smi metric reports no throttling", "a newer ROCm, or root")
    return found


AMD_THROTTLING = HostCheck(
    "amd-throttling",
    "throttling and errors of AMD GPUs, as amd-smi reports them",
    _throttling,
    "the GPU and with it every collective slows down",
    (
        setting("check fans, inlet temperature and power supplies"),
        _RESET_AMD,
        _REBOOT,
        service("replace the GPU"),
    ),
    "amd-smi metric: violation status of PROCHOT and of temperatures; the power cap is normal",
)


def _npus(host: Host) -> Judged:
    npus = host.gpus_of(ASCEND, "Ascend NPU")
    reading = host.probe.run("npu-smi", "info")
    if reading.error == MISSING:
        raise CannotTellError("npu-smi is not installed", "npu-smi")
    rows = re.findall(
        r"^\|\s*(\d{1,3})\s+(\S{2,20})\s*\|\s*(OK|Warning|Alarm|Critical|UNKNOWN)\b",
        reading.text,
        re.MULTILINE,
    )
    if not rows:
        raise CannotTellError(f"npu-smi info: {reading.error or 'no devices listed'}", ROOT)
    found = Judged()
    for number, name, health in rows:
        found.see(f"NPU {number} ({name})", health, "OK", ok=health == "OK")
    if not host.container:
        found.see(
            "npu-smi", f"{len(rows)} NPUs", f"{len(npus)} on the PCI bus", ok=len(rows) >= len(npus)
        )
    return found


NPU_HEALTH = HostCheck(
    "npu-health",
    "health of Ascend NPUs",
    _npus,
    "jobs fail, or wait for the NPU",
    (
        reset("npu-smi set -t reset -i NUMBER -c 0, as root"),
        _REBOOT,
        service("npu-smi info -t health -i NUMBER lists the fault codes"),
    ),
    "Health in npu-smi info",
)


_NOT_ASKED = ("Init", "Detect ip set")  # no address to test was configured


def _npu_links(host: Host) -> Judged:
    npus = host.gpus_of(ASCEND, "Ascend NPU")
    found = Judged()
    for number in range(min(len(npus), 16)):
        reading = host.probe.run("hccn_tool", "-i", str(number), "-link", "-g")
        status = re.search(r"link status:\s*(UP|DOWN)", reading.text, re.IGNORECASE)
        if status:
            found.see(f"NPU {number}", f"RoCE link {status[1]}", "UP", ok=status[1].upper() == "UP")
            answer = host.probe.run("hccn_tool", "-i", str(number), "-net_health", "-g").text
            health = re.search(r"net health status:\s*([A-Za-z ]{2,40})", answer)
            if health and health[1].strip() not in _NOT_ASKED:
                words = health[1].strip()
                is_ok = words == "Success"
                found.see(f"NPU {number}", f"health of the network: {words}", "Success", ok=is_ok)
        else:
            reason = reading.error or "no link status"
            found.cannot_tell(f"hccn_tool -i {number} -link -g: {reason}", ROOT)
    return found


NPU_LINKS = HostCheck(
    "npu-links",
    "RoCE links of Ascend NPUs",
    _npu_links,
    "HCCL between servers fails or waits for the rail",
    (
        setting("hccn_tool -i NUMBER -link -s up, as root"),
        reset("reseat the cable"),
        service("replace the transceiver"),
    ),
    "hccn_tool -link -g and -net_health -g",
)
