"""Storage: GPUDirect Storage (GDS), which moves data between drives and GPUs without the host."""

from __future__ import annotations

import re

from cclmark_fleet.hosts.check import (
    CannotTellError,
    HostCheck,
    Judged,
    NotApplicableError,
    reboot,
    setting,
)
from cclmark_fleet.hosts.host import NVIDIA, Host
from cclmark_fleet.hosts.host_probe import whole

_VERSION = "/proc/driver/nvidia-fs/version"
# Local drives need no nvidia-fs from CUDA 12.8 on with this driver and this kernel.
_OPEN_DRIVER, _KERNEL = 565, (6, 2)
_FILE_SYSTEMS = {"lustre", "beegfs", "gpfs", "wekafs"}


def _direct(host: Host) -> Judged:
    if not [one for one in host.gpus if one.vendor == NVIDIA]:
        raise NotApplicableError("no NVIDIA GPU on the PCI bus")
    mounted = {line.split()[2] for line in _mounts(host)} & _FILE_SYSTEMS
    drives = host.probe.entries("/sys/class/nvme")
    if not mounted and not drives:
        raise NotApplicableError("no NVMe drive and no parallel file system")
    found = Judged()
    if host.probe.exists(_VERSION) or host.probe.exists("/sys/module/nvidia_fs"):
        found.see("nvidia-fs", host.probe.text(_VERSION).strip() or "loaded", "loaded")
        return found
    if not mounted and _has_p2pdma(host):
        raise CannotTellError(
            "nvidia-fs is not loaded, and drives may do without it: the open driver and the kernel "
            "have P2PDMA, which CUDA uses from 12.8 on",
            "gdscheck -p of NVIDIA's gds-tools, which names the mode of each kind of storage",
        )
    if not any(one.startswith("nvidia-fs-") for one in host.probe.entries("/usr/src")):
        raise NotApplicableError("nvidia-fs is neither loaded nor installed: no GPUDirect Storage")
    storage = ", ".join([*sorted(mounted), *drives])
    found.see("nvidia-fs", f"installed and not loaded; storage: {storage}", "loaded", ok=False)
    return found


def _mounts(host: Host) -> list[str]:
    return [line for line in host.probe.text("/proc/mounts").splitlines() if len(line.split()) > 2]


def _has_p2pdma(host: Host) -> bool:
    kernel = re.match(r"(\d{1,3})\.(\d{1,4})", host.probe.text("/proc/sys/kernel/osrelease"))
    is_new = kernel is not None and (int(kernel[1]), int(kernel[2])) >= _KERNEL
    is_open = "Open Kernel Module" in host.probe.text("/proc/driver/nvidia/version")
    return is_new and is_open and (whole(host.driver.partition(".")[0]) or 0) >= _OPEN_DRIVER


DIRECT = HostCheck(
    "gpudirect-storage",
    "GPUDirect Storage",
    _direct,
    "cuFile copies through host memory (compatibility mode): checkpoints and data load more slowly "
    "and take memory bandwidth of the host",
    (
        setting(
            "modprobe nvidia-fs, and add it to /etc/modules-load.d; gdscheck -p shows the mode"
        ),
        reboot("install nvidia-gds for the kernel and the driver that run"),
    ),
    "NVIDIA's installation guide of GPUDirect Storage: nvidia-fs, or P2PDMA from CUDA 12.8, driver "
    "565 (open) and Linux 6.2 on",
    grade="look",
)
