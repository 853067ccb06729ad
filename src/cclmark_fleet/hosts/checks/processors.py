"""Processors and the kernel: governors, clocks, load, stalls, the clock of the host."""

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
from cclmark_fleet.hosts.host import Host

_CPU = "/sys/devices/system/cpu"
_GOVERNOR = (
    setting(
        "cpupower frequency-set -g performance, as root, or tuned-adm profile "
        "throughput-performance",
    ),
)


def _governor(host: Host) -> Judged:
    found = Judged()
    seen: dict[tuple[str, str, str], int] = {}
    for name in host.probe.entries(_CPU):
        if re.fullmatch(r"cpu\d{1,5}", name):
            root = f"{_CPU}/{name}/cpufreq"
            governor = host.probe.text(f"{root}/scaling_governor")
            if not governor:
                break  # all processors have one, or none
            driver = host.probe.text(f"{root}/scaling_driver")
            preference = host.probe.text(f"{root}/energy_performance_preference")
            key = governor, driver, preference
            seen[key] = seen.get(key, 0) + 1
    if not seen:
        raise NotApplicableError("the host does not control the clock (as in virtual machines)")
    for (governor, driver, preference), count in seen.items():
        # The governor powersave of these drivers is dynamic: the preference decides.
        is_dynamic = driver in ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
        is_slow = governor in ("conservative", "ondemand", "schedutil") or (
            governor == "powersave" and (not is_dynamic or preference in ("power", "balance_power"))
        )
        text = " ".join(filter(None, (governor, driver, preference)))
        found.see(f"{count} processors", text, "performance", ok=not is_slow)
    return found


GOVERNOR = HostCheck(
    "cpu-governor",
    "governor of processors",
    _governor,
    "launches, proxies and TCP run at a low clock: small messages take longer, times vary",
    _GOVERNOR,
    "NVIDIA's guides for network devices; powersave of intel_pstate and amd-pstate is dynamic and "
    "judged by its energy preference",
    grade="look",
)


def _clock(host: Host) -> Judged:
    seen: dict[tuple[int, int], list[str]] = {}  # processors by limit and least limit
    percent = host.probe.number(f"{_CPU}/intel_pstate/max_perf_pct") or 100
    for name in host.probe.entries(_CPU):
        if not re.fullmatch(r"cpu\d{1,5}", name):
            continue
        root = f"{_CPU}/{name}/cpufreq"
        most = host.probe.number(f"{root}/cpuinfo_max_freq")
        limit = host.probe.number(f"{root}/scaling_max_freq")
        if not most or not limit:
            break  # all processors have one, or none
        base = host.probe.number(f"{root}/base_frequency") or most
        # A limit at the base clock is one way to turn boost off.
        limit = min(limit, most * percent // 100)
        seen.setdefault((limit, min(most, base)), []).append(name)
    if not seen:
        raise NotApplicableError("the host does not control the clock (as in virtual machines)")
    found = Judged()
    for path, off in ((f"{_CPU}/intel_pstate/no_turbo", "1"), (f"{_CPU}/cpufreq/boost", "0")):
        if host.probe.text(path) == off:
            found.see(path, off, "boost on, unless the site turns it off", ok=False)
            found.certainty = "possible"
            found.remedies = [
                setting(f"echo {1 - int(off)} > {path}, as root, unless it is intended"),
                *CLOCK.fix,
            ]
    for (limit, least), names in seen.items():
        where = names[0] if len(names) == 1 else f"{len(names)} processors"
        text = f"limited to {limit / 1e6:g} GHz"
        found.see(where, text, f"≥ {0.9 * least / 1e6:.3g} GHz", ok=limit >= 0.9 * least)
    return found


CLOCK = HostCheck(
    "cpu-clock",
    "limit of the processors' clock",
    _clock,
    "launches, proxies and TCP slow down with the clock",
    (setting("cpupower frequency-set -u the largest clock, as root"),),
    "no_turbo, boost; scaling_max_freq and max_perf_pct beside the base clock; own margin: 10 %",
    grade="look",
)


def _pressure(host: Host) -> Judged:
    text = host.probe.text("/proc/pressure/cpu")
    some = re.search(r"^some avg10=([\d.]{1,8})", text, re.MULTILINE)
    if some is None:
        raise CannotTellError("the kernel has no /proc/pressure", "a kernel with PSI (psi=1)")
    found = Judged()
    share = float(some[1]) if some[1].count(".") < 2 else 0.0
    found.see("/proc/pressure/cpu", f"{share:.0f} % of 10 s", "≤ 25 %", ok=share <= 25)
    return found


PRESSURE = HostCheck(
    "cpu-pressure",
    "waits for processors",
    _pressure,
    "a rank that waits for a processor delays all ranks of a collective",
    (setting("end what else runs (top), or give ranks processors of their own"),),
    "share of 10 s in which a runnable thread waited; own limit: 25 %",
    grade="look",
    certainty="likely",
)


def _source(host: Host) -> Judged:
    source = host.probe.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    if not source:
        raise CannotTellError("the clock source is not readable")
    found = Judged()
    found.see(
        "clock source",
        source,
        "tsc, kvm-clock or the like",
        ok=source not in ("hpet", "acpi_pm", "jiffies", "refined-jiffies"),
    )
    return found


SOURCE = HostCheck(
    "clock-source",
    "clock source of the kernel",
    _source,
    "each reading of the time takes a microsecond and more, in every poll of a library",
    (
        setting("boot with tsc=reliable, if the processor's TSC is (constant_tsc nonstop_tsc)"),
        reboot("update the BIOS: the kernel found the TSC to be unstable"),
    ),
    "documentation of the Linux kernel: hpet and acpi_pm are read over a bus",
    grade="look",
)


def _synchronised(host: Host) -> Judged:
    reading = host.probe.ask("clock", "")
    if reading.error:
        raise CannotTellError(f"adjtimex: {reading.error}", "chronyc tracking, timedatectl")
    found = Judged()
    is_on = "synchronised=1" in reading.text
    if not is_on and (host.is_virtual or host.container):
        # A hypervisor or the host may set the clock, which adjtimex does not show.
        raise CannotTellError("no program synchronises the clock", "chronyc tracking, or the host")
    found.see("clock", "synchronised" if is_on else "not synchronised", "synchronised", ok=is_on)
    error = re.search(r"maximum_error_us=(\d{1,15})", reading.text)
    if is_on and error:
        error_s = int(error[1]) / 1e6
        found.see("clock", f"error of at most {error_s:.3g} s", "≤ 1 s", ok=error_s <= 1)
    return found


SYNCHRONISED = HostCheck(
    "clock-synchronised",
    "synchronisation of the clock",
    _synchronised,
    "logs and timelines of hosts cannot be compared; certificates and leases fail",
    (setting("systemctl enable --now chronyd (or systemd-timesyncd)"),),
    "STA_UNSYNC and maxerror of adjtimex(2); own limit of the error: 1 s",
    grade="look",
    certainty="likely",
)
