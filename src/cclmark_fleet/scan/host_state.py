"""What slows a host down: its counters while it is tested, and the checks of ``cclmark doctor``."""

from __future__ import annotations

import time
from pathlib import Path

from cclmark.base.errors import MissingError
from cclmark.rank.condition_readers import HostReader, NvmlReader, reader_for

_CGROUPS = Path("/sys/fs/cgroup")
#: Reasons of NVML and of the kernel that mean heat or power. The place of each is its bit.
THERMAL_REASONS = (
    "thermal slowdown",
    "hardware thermal slowdown",
    "hardware slowdown",
    "power brake",
    "processor thermally throttled",
)
LEAST_THROTTLED = 0.05  # of the time of a round
EXAMINATION_S = 5.0
#: Checks of the doctor that mean heat or power.
THERMAL_CHECKS = ("gpu-heat", "gpu-power", "gpu-clocks")


def throttled_s(own: Path = Path("/proc/self/cgroup"), root: Path = _CGROUPS) -> float | None:
    """How long the control groups of this process had to wait for their quota; None if unknown.

    From cpu.stat: throttled_usec of version 2, throttled_time in nanoseconds of version 1. The
    longest of the group and those above it.
    """
    try:
        lines = own.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    found = []
    for line in lines:
        _, controllers, place = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "cpu" if controllers else root
        parts = Path(place.strip("/")).parts
        for depth in range(len(parts) + 1) if ".." not in parts else ():
            found += _throttled_in(top.joinpath(*parts[:depth]) / "cpu.stat")
    return max(found, default=None)


def _throttled_in(path: Path) -> list[float]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    units = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
    return [
        int(one[1]) * units[one[0]]
        for one in map(str.split, text.splitlines())
        if len(one) == 2 and one[0] in units and one[1].isascii() and one[1].isdecimal()
    ]


def failed_checks() -> dict[str, str]:
    """The checks of ``cclmark doctor`` that fail on this host, without those of counters.

    By the check's name: what it saw; nothing if the checks cannot be run.
    """
    # Only ranks of hosts that are slow, and of a few others, import and run the checks.
    from cclmark_fleet.hosts.checks import CHECKS
    from cclmark_fleet.hosts.examination import examine
    from cclmark_fleet.hosts.host import COMMANDS, Host
    from cclmark_fleet.hosts.host_probe import LiveProbe

    probe = LiveProbe(time.monotonic() + EXAMINATION_S)
    try:
        probe.begin(*COMMANDS)
        chosen = [one for one in CHECKS if not one.counters]
        outcomes = examine(Host(probe), chosen, 0.0).outcomes
    except Exception:  # a host must not count as lost because of what a check meets there
        return {}
    finally:
        probe.close()
    found = {}
    for one in outcomes:
        if one.state == "fail" and one.certainty != "possible":
            signal = one.signals[0]
            limit = f", limit {signal.limit}" if signal.limit else ""
            found[one.check] = f"{signal.where}: {signal.seen}{limit}"
    return found


class StateWatch:
    """The state of a rank's device and of its control group, round by round."""

    def __init__(self, runtime: str, pci_bus_id: str) -> None:
        self._reader: NvmlReader | HostReader | None
        try:
            self._reader = reader_for(runtime, pci_bus_id)
        except MissingError:
            self._reader = None
        self._reasons: set[str] = set()
        self._throttles: int | None = None
        self._began_s = 0.0
        self._throttled_s: float | None = None

    def begin(self) -> None:
        """Begins a round."""
        self._reasons = set()
        self.look()
        self._began_s, self._throttled_s = time.monotonic(), throttled_s()

    def look(self) -> None:
        """Reads the reasons of the device, between timed regions."""
        if self._reader is None:
            return
        condition = self._reader.read(0, 0, 0)
        self._reasons.update(condition.reasons)
        count = condition.throttle_count
        if count is not None and self._throttles is not None and count > self._throttles:
            self._reasons.add(THERMAL_REASONS[-1])
        self._throttles = count

    def end(self) -> tuple[float, float]:
        """The reasons as bits, see THERMAL_REASONS, and the throttled share of the round."""
        self.look()
        bits = sum(1 << bit for bit, one in enumerate(THERMAL_REASONS) if one in self._reasons)
        now_s = throttled_s()
        took_s = time.monotonic() - self._began_s
        if now_s is None or self._throttled_s is None or took_s <= 0:
            return float(bits), 0.0
        return float(bits), max(0.0, now_s - self._throttled_s) / took_s
