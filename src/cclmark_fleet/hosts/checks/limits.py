"""Limits of the process, its container and its host."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cclmark_fleet.hosts.check import (
    CannotTellError,
    HostCheck,
    Judged,
    NotApplicableError,
    reboot,
    setting,
)
from cclmark_fleet.hosts.host import Host
from cclmark_fleet.hosts.host_probe import whole

_GIB = 1 << 30


def _shm(host: Host) -> tuple[int, int]:
    space = host.probe.space("/dev/shm")
    if space is None:
        raise CannotTellError("/dev/shm cannot be read", "mount -t tmpfs tmpfs /dev/shm")
    return space


def _gib(size: int) -> str:
    if size < _GIB:
        return f"{size >> 20} MiB"
    value, unit = (size / _GIB, "GiB") if size < 1 << 40 else (size / (1 << 40), "TiB")
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"


def _shm_size(host: Host) -> Judged:
    total, _ = _shm(host)
    found = Judged()
    limit = _GIB if len(host.gpus) > 1 else 128 << 20
    found.see("/dev/shm", _gib(total), f"≥ {_gib(limit)}", ok=total >= limit)
    return found


SHM_SIZE = HostCheck(
    "shm-size",
    "size of /dev/shm",
    _shm_size,
    "communicators fail, or workers of data loaders end with SIGBUS",
    (
        setting(
            "docker run --shm-size=16g (or --ipc=host); Kubernetes: an emptyDir with medium "
            "Memory at /dev/shm; hosts: mount -o remount,size=50% /dev/shm",
        ),
    ),
    "NCCL's documentation: --shm-size=1g for containers, whose default is 64 MiB",
)


def _shm_free(host: Host) -> Judged:
    total, free = _shm(host)
    found = Judged()
    limit = min(_GIB, total // 10)
    found.see(
        "/dev/shm", f"{_gib(free)} of {_gib(total)} are free", f"≥ {_gib(limit)}", ok=free >= limit
    )
    return found


SHM_FREE = HostCheck(
    "shm-free",
    "free space of /dev/shm",
    _shm_free,
    "communicators fail; programs that were killed leave their segments",
    (
        setting("remove what no process uses: fuser -v /dev/shm/*, then rm"),
        reboot("reboot the host"),
    ),
    "own limit: 10 %, at most 1 GiB",
)


def _files(host: Host) -> Judged:
    text = host.probe.text("/proc/self/limits")
    row = re.search(r"^Max open files\s+(\S+)\s+(\S+)", text, re.MULTILINE)
    if row is None:
        raise CannotTellError("/proc/self/limits is not readable")
    hard = whole(row[2])
    found = Judged()
    found.see(
        "this process", f"{row[2]} (soft {row[1]})", "≥ 16384", ok=hard is None or hard >= 16384
    )
    return found


FILES = HostCheck(
    "open-files",
    "limit of open files",
    _files,
    "large jobs do not start: the first rank has a connection to each rank",
    (
        setting(
            "* hard nofile 1048576 in limits.conf, LimitNOFILE of slurmd, --ulimit nofile of "
            "docker",
        ),
    ),
    "own limit: 16,384; NCCL itself raises the soft limit to the hard one",
    grade="look",
)


_LEAST_PROCESSES, _LEAST_FREE, _LEAST_SWAP_KIB = 4096, 512, 1 << 20


def _processes(host: Host) -> Judged:
    text = host.probe.text("/proc/self/limits")
    row = re.search(r"^Max processes\s+(\S+)", text, re.MULTILINE)
    found = Judged()
    if row and not host.has_capability(_CAP_SYS_RESOURCE):
        number = whole(row[1])
        is_ok = number is None or number >= _LEAST_PROCESSES
        found.see("this user", f"{row[1]} processes", f"≥ {_LEAST_PROCESSES}", ok=is_ok)
    for path in host.cgroups or ["/sys/fs/cgroup"]:
        most = host.probe.number(f"{path}/pids.max")
        now = host.probe.number(f"{path}/pids.current")
        if most is not None and now is not None:
            where = f"cgroup {path.removeprefix('/sys/fs/cgroup') or '/'}"
            least = max(1, min(_LEAST_FREE, 64 * host.visible_devices))
            text = f"{now} of {most} threads are in use"
            found.see(where, text, f"≥ {least} free", ok=most - now >= least)
    stack = re.search(r"^Max stack size\s+(\S+)", text, re.MULTILINE)
    if stack and any(re.search(r"\bGB[23]00", name) for name in host.gpu_names):
        limit = "8192 KiB: unlimited gives NCCL's threads 2048 KiB"
        found.see("stack", stack[1], limit, ok=stack[1] != "unlimited")
    if not found.signals:
        raise NotApplicableError("no limit of processes")
    return found


_CAP_SYS_RESOURCE = 24
PROCESSES = HostCheck(
    "process-limit",
    "limits of processes, threads and their stacks",
    _processes,
    "threads of NCCL, of data loaders and of torch do not start: the job ends",
    (
        setting(
            "* soft nproc unlimited in limits.conf, TasksMax of systemd, --pids-limit of docker, "
            "podPidsLimit of the kubelet; ulimit -s 8192",
        ),
    ),
    "pids.max of the cgroup and RLIMIT_NPROC; own limits: 4,096 processes, 64 free threads for "
    "each accelerator; NCCL 2.27.6's release notes: stacks of hosts with NVLink between them",
    grade="look",
    certainty="likely",
)


def _memory(host: Host) -> Judged:
    text = host.probe.text("/proc/meminfo")
    total, free = _row(text, "MemTotal"), _row(text, "MemAvailable")
    found = Judged()
    if total and free:
        least = total // 50
        words = f"{_gib(free << 10)} of {_gib(total << 10)} are available"
        found.see("/proc/meminfo", words, f"≥ {_gib(least << 10)}", ok=free >= least)
    pressure = host.probe.text("/proc/pressure/memory")
    full = re.search(r"^full avg10=(\d{1,3}(?:\.\d{1,4})?)", pressure, re.MULTILINE)
    if full:
        words = f"all wait {float(full[1]):.0f} % of 10 s"
        found.see("/proc/pressure/memory", words, "≤ 10 %", ok=float(full[1]) <= 10)
    rows = [line.split() for line in host.probe.text("/proc/swaps").splitlines()[1:]]
    sizes = [(whole(row[-3]) or 0, whole(row[-2]) or 0) for row in rows if len(row) >= 4]
    size, used = (sum(one) for one in zip(*sizes, strict=True)) if sizes else (0, 0)
    if size:
        is_ok = used <= 0.9 * size or used < _LEAST_SWAP_KIB
        found.see("swap", f"{_gib(used << 10)} of {_gib(size << 10)} used", "≤ 90 %", ok=is_ok)
    if not found.signals:
        raise CannotTellError("/proc/meminfo does not tell the available memory")
    return found


MEMORY = HostCheck(
    "memory-available",
    "available memory of the host",
    _memory,
    "programs wait for pages to be freed, pinned buffers are refused, or processes are killed",
    (setting("end what takes the memory: ps aux --sort -rss; remove files of /dev/shm"),),
    "MemAvailable, /proc/pressure/memory and swap; own limits: 2 %, waits of 10 %, 90 %",
    grade="look",
    certainty="likely",
)


def _quotas(host: Host) -> Iterator[tuple[str, float | None]]:
    """The processors that each cgroup above this process may use; None without a quota."""
    for path in host.cgroups:
        words = host.probe.text(f"{path}/cpu.max").split()
        if words:
            number, period = whole(words[0]), whole(words[-1])
            yield path, number / period if number and period and len(words) == 2 else None
    for path in host.cgroups_v1("cpu"):
        number = host.probe.number(f"{path}/cpu.cfs_quota_us")
        period = host.probe.number(f"{path}/cpu.cfs_period_us")
        if number is not None and period:
            yield path, number / period if number > 0 else None


def _quota(host: Host) -> Judged:
    quotas = [*_quotas(host)]
    if not quotas:
        raise NotApplicableError("no cgroup with a quota of processors")
    devices = host.visible_devices
    found = Judged()
    for path, processors in quotas:
        if processors is not None:
            limit = f"≥ {devices + 1}: one for each of {devices} accelerators, and one more"
            where = f"cgroup {path.removeprefix('/sys/fs/cgroup') or '/'}"
            found.see(where, f"{processors:g} processors", limit, ok=processors >= devices + 1)
    if not found.signals:
        found.see("cgroup", "no quota of processors")
    return found


QUOTA = HostCheck(
    "cpu-quota",
    "quota of processors",
    _quota,
    "ranks and proxies stand still for up to 100 ms when the quota is used up",
    (setting("raise the container's CPU limit, or remove it"),),
    "own limit: one processor for each accelerator and one more",
)


def _huge(host: Host) -> Judged:
    root = "/sys/kernel/mm/hugepages"
    total_kib = _row(host.probe.text("/proc/meminfo"), "MemTotal")
    if not total_kib:
        raise CannotTellError("/proc/meminfo is not readable")
    found = Judged()
    for name in host.probe.entries(root):
        size = whole(name.removeprefix("hugepages-").removesuffix("kB"))
        free = host.probe.number(f"{root}/{name}/free_hugepages")
        if size and free is not None:
            share = size * free / total_kib
            found.see(
                name, f"{share:.0%} of the memory reserved and unused", "≤ 50%", ok=share <= 0.5
            )
    memory = host.probe.text("/proc/meminfo")
    free_kib = _row(memory, "HugePages_Free") * _row(memory, "Hugepagesize")
    if not found.signals and free_kib:
        share = free_kib / total_kib
        words = f"{share:.0%} of the memory reserved and unused"
        found.see("/proc/meminfo", words, "≤ 50%", ok=share <= 0.5)
    if not found.signals:
        raise NotApplicableError("no reserved huge pages")
    return found


def _row(text: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d{{1,18}})", text, re.MULTILINE)
    return int(found[1]) if found else 0


HUGE_PAGES = HostCheck(
    "huge-pages",
    "reserved huge pages",
    _huge,
    "pinned buffers and page caches share what is left; allocations fail or wait",
    (setting("sysctl vm.nr_hugepages=0, unless a program asks for them"),),
    "own limit: half of the memory",
    grade="look",
    certainty="likely",
)


def _disk(host: Host) -> Judged:
    found = Judged()
    for path in ("/tmp", "/"):
        if (space := host.probe.space(path)) and space[0]:
            used = 1 - space[1] / space[0]
            found.see(path, f"{used:.0%} used", "≤ 95%", ok=used <= 0.95)
    return found


DISK = HostCheck(
    "disk-space",
    "free space of /tmp",
    _disk,
    "logs, caches of kernels and checkpoints fail: programs end",
    (setting("remove old files"),),
    "imbue-ai/cluster-health: 95 %",
    grade="look",
)


def _ipc(host: Host) -> Judged:
    if not host.container:
        raise NotApplicableError("no container")
    if not host.has_smi:
        raise NotApplicableError("no NVIDIA GPU in this container")
    others = [one for one in host.gpus if one.vendor == "10de"]
    if len(host.smi) >= len(others):
        found = Judged()
        found.see("container", f"{len(host.smi)} GPUs, all of the host")
        return found
    raise CannotTellError(
        f"the container has {len(host.smi)} of {len(others)} GPUs: ranks in other containers share "
        "memory only with a common IPC and PID namespace",
        "docker run --ipc=host --pid=host, hostIPC and hostPID of a pod",
    )


IPC = HostCheck(
    "container-ipc",
    "shared memory between containers",
    _ipc,
    "ranks in different containers use the network in place of NVLink",
    (setting("one container with all GPUs, or --ipc=host --pid=host"),),
    "documentation of CUDA IPC and of NCCL, troubleshooting",
)
