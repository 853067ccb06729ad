"""The description of the machine, read once per run and stored with the results."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cclmark.journal.host_processors import kernel_text, largest_cache_bytes
from cclmark.journal.network_interfaces import network_interfaces
from cclmark.journal.schema import DeviceDescription, HostDescription, Link, Machine
from cclmark.journal.secrets import names_secret, without_secrets
from cclmark.work.libraries import environment_prefixes

_OPEN_MPI = "OMPI_MCA_"
# The frameworks of Open MPI 4 that start processes: none of them transports MPI messages.
_STARTING = (
    *("orte", "ess", "plm", "routed", "rmaps", "ras", "odls", "oob", "rml", "grpcomm", "iof"),
    *("errmgr", "filem", "state", "schizo", "regx", "rtc", "sstore", "snapc", "dfs", "notifier"),
    "pmix",
)
# Further variables that Open MPI 4 and 5 set in every process.
_TOLD = (
    *("PREFIXES", "initial_wdir", "num_procs", "cpu_type", "mpi_oversubscribe"),
    "shmem_RUNTIME_QUERY_hint",
)
# Variables by which processes of one start of cclmark find each other.
_OWN = ("CCLMARK_STEP", "CCLMARK_LAUNCHER", "CCLMARK_ADDRESS")


def is_of_one_start(name: str) -> bool:
    """Whether the variable ``name`` describes a single start of processes."""
    if name in _OWN:
        return True
    if not name.startswith(_OPEN_MPI):
        return False
    parameter = name.removeprefix(_OPEN_MPI)
    return parameter in _TOLD or parameter.partition("_")[0] in _STARTING


_DROPPED_NAMES = ("CCLMARK_HISTORY", "CCLMARK_PROGRESS_S")  # these influence no run
KEPT_NAMES = (
    *("OMP_NUM_THREADS", "NVSHMEM_DISABLE_NVLS", "HSA_NO_SCRATCH_RECLAIM", "LD_PRELOAD"),
    *("TORCH_DISTRIBUTED_DEBUG", "TORCH_DISTRIBUTED_DETAIL", "FORCE_ACTIVE_WAIT"),
)

# One link in one direction, by generation (NVIDIA's data sheets), if the driver reports no rate.
_NVLINK_BYTES_PER_S = {1: 20e9, 2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9}
# One lane in one direction after encoding (PCI-SIG).
_PCIE_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


def readable(text: str) -> str:
    """Returns ``text`` with bytes that are not UTF-8, which the system may return, as escapes."""
    return text.encode(errors="backslashreplace").decode()


def kept_prefixes() -> tuple[str, ...]:
    """Returns the prefixes of variables that influence a communication library.

    Never the whole environment. docs/reference/journal.md lists them.
    """
    return ("CCLMARK_", *environment_prefixes())


def kept_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the part of ``environment`` that a journal may hold.

    That is the user's settings without a launcher's job variables and without anything that looks
    like a secret.
    """
    prefixes = kept_prefixes()
    return {
        readable(name): without_secrets(readable(value))
        for name, value in sorted(environment.items())
        if (name.startswith(prefixes) or name in KEPT_NAMES)
        and name not in _DROPPED_NAMES
        and not is_of_one_start(name)
        and not names_secret(name)
    }


def describe_host(environment: Mapping[str, str]) -> HostDescription:
    """Describes this host as one of several.

    Containers with a network of their own are separate hosts, also on one machine: their processes
    share no memory.
    """
    words = [platform.node()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/net", "/proc/self/ns/pid"):
        with suppress(OSError):
            file = Path(path)
            words.append(str(file.readlink()) if file.is_symlink() else kernel_text(file))
    return HostDescription(
        machine=describe_machine(),
        identity=hashlib.sha256("\0".join(words).encode()).hexdigest()[:16],
        environment=kept_environment(environment),
    )


def describe_machine() -> Machine:
    """Describes this host."""
    return Machine(
        hostname=platform.node(),
        system=_system_name(),
        kernel=platform.release(),
        processor=_processor_name(),
        processors=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        numa_nodes=max(1, len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))),
        python=platform.python_version(),
        vendor_driver=_nvidia_driver(),
        cache_bytes=largest_cache_bytes(),
        interfaces=network_interfaces(),
    )


def _nvidia_driver() -> str:
    """Returns the version of NVIDIA's kernel module without the driver, which is slow to start."""
    with suppress(OSError):
        text = kernel_text(Path("/proc/driver/nvidia/version"))
        found = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", text)
        return found[1] if found else ""
    return ""


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", sys.platform)
    except OSError:
        return sys.platform


def _processor_name() -> str:
    try:
        for line in kernel_text(Path("/proc/cpuinfo")).splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def complete_from_nvml(
    devices: Iterable[DeviceDescription], machine: Machine
) -> tuple[list[Link], list[str]]:
    """Adds UUIDs and the driver's version to NVIDIA devices and returns their links.

    The second value holds the reasons if there are none because NVML is missing or fails.
    """
    cuda = [device for device in devices if device.runtime == "cuda"]
    if not cuda:
        return [], []
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return [], [f"links unknown: NVML is not available ({error})"]
    links: list[Link] = []
    notices: list[str] = []
    try:
        machine.vendor_driver = _text(pynvml.nvmlSystemGetDriverVersion())
        for device in cuda:
            try:
                handle = pynvml.nvmlDeviceGetHandleByPciBusId(device.pci_bus_id.encode())
                device.uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
                device.max_clock_hz = _max_clock_hz(pynvml, handle)
                links += _links(pynvml, handle, device.rank)
            except pynvml.NVMLError as error:
                notices.append(f"links of device {device.index} unknown: {error}")
    finally:
        pynvml.nvmlShutdown()
    return links, notices


def _max_clock_hz(nvml: Any, handle: Any) -> float:
    try:
        return float(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)) * 1e6
    except nvml.NVMLError:
        return 0.0


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _links(nvml: Any, handle: Any, rank: int) -> list[Link]:
    links = []
    active, version = 0, 0
    for index in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, index) == nvml.NVML_FEATURE_ENABLED:
                active += 1
                version = nvml.nvmlDeviceGetNvLinkVersion(handle, index)
        except nvml.NVMLError:
            break
    if active:
        generation = _nvlink_generation(nvml, handle, version)
        rate = _NVLINK_BYTES_PER_S.get(generation, 0.0)
        links.append(Link(rank, "NVLink", active, rate, str(generation)))
    generation = nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)
    width = nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)
    rate = _PCIE_LANE_BYTES_PER_S.get(generation, 0.0)
    links.append(Link(rank, "PCIe", width, rate, str(generation)))
    return links


def _nvlink_generation(nvml: Any, handle: Any, version: int) -> int:
    """Maps NVML's own numbering of NVLink versions to a generation, by the architecture."""
    try:
        major, _ = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    except nvml.NVMLError:
        return version
    return {6: 1, 7: 2, 8: 3, 9: 4, 10: 5}.get(int(major), version)
