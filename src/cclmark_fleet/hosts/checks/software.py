"""Libraries on the host: their versions, and the driver's."""

from __future__ import annotations

import re

from cclmark_fleet.hosts.check import HostCheck, Judged, NotApplicableError, reboot, setting
from cclmark_fleet.hosts.checks.rdma_use import LIBRARY_PLACES
from cclmark_fleet.hosts.host import NVIDIA, Host
from cclmark_fleet.hosts.shipped_data import table

_FILE = re.compile(r"libnccl\.so\.(\d{1,2}\.\d{1,3}\.\d{1,3})")
_WHEEL = re.compile(r"nvidia_nccl_cu(\d{2})-(\d{1,2}\.\d{1,3}\.\d{1,3})(?:\.\w+)?\.dist-info")


def nccl_versions(host: Host) -> dict[str, str]:
    """The versions of NCCL that programs may load, by the folder."""
    found = {}
    own = [one for one in host.probe.environment.get("LD_LIBRARY_PATH", "").split(":") if one]
    for place in dict.fromkeys([*own, *LIBRARY_PLACES]):
        for name in host.probe.entries(place) if place.startswith("/") else ():
            if (file := _FILE.fullmatch(name)) is not None:
                found[host.probe.resolved(place) or place] = file[1]
    for name, version, _ in _wheels(host):
        found[name] = version
    for path in re.split(r"[:\s]+", host.probe.environment.get("LD_PRELOAD", "")):
        place = host.probe.resolved(path) if path.startswith("/") else ""
        file = _FILE.fullmatch(place.rpartition("/")[2] or path.rpartition("/")[2])
        if file is not None:
            found[f"LD_PRELOAD={path}"] = file[1]
    return found


def _wheels(host: Host) -> list[tuple[str, str, int]]:
    """Place, version and CUDA's major version of NCCL's wheels."""
    wheels = map(_WHEEL.fullmatch, host.probe.ask("packages", "").text.split("\n"))
    return [("Python", wheel[2], int(wheel[1])) for wheel in wheels if wheel]


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())


def _known(host: Host) -> Judged:
    versions = nccl_versions(host)
    if not versions:
        raise NotApplicableError("no NCCL where programs load it from")
    found = Judged()
    for place, version in versions.items():
        rule = next(
            (
                one
                for one in table("versions")
                if _parts(one.first) <= _parts(version) <= _parts(one.last)
                and (not one.gpu or any(re.search(one.gpu, name) for name in host.gpu_names))
            ),
            None,
        )
        found.see(place, f"NCCL {version}", rule.fix if rule else "", ok=rule is None)
        if rule is not None:
            found.cost, found.source, found.certainty = rule.cost, rule.source, rule.certainty
            found.remedies = [setting(f"install {rule.fix}")]
    return found


KNOWN = HostCheck(
    "nccl-version",
    "versions of NCCL with a known fault",
    _known,
    "see the version",
    (setting("install a later NCCL"),),
    "cclmark_fleet/hosts/data/versions.toml",
    grade="look",
    certainty="likely",
)


def _one(host: Host) -> Judged:
    versions = nccl_versions(host)
    if not versions:
        raise NotApplicableError("no NCCL where programs load it from")
    found = Judged()
    numbers = sorted(_parts(version)[:2] for version in versions.values())
    (major, minor), (_, last) = numbers[0], numbers[-1]
    listed = ", ".join(f"{version} in {place[-40:]}" for place, version in versions.items())
    # Two near versions are usual: the system's, and that of torch's wheel.
    is_mixed = numbers[0] != numbers[-1] and ((major, minor) < (2, 18) or last - minor > 4)
    found.see("host", listed[:160], "none that is years older", ok=not is_mixed)
    return found


ONE = HostCheck(
    "nccl-versions",
    "versions of NCCL beside each other",
    _one,
    "programs that load the old one are slower, and ranks with different versions do not connect",
    (
        setting(
            "remove the old one, or order LD_LIBRARY_PATH; cclmark info shows what is loaded",
        ),
    ),
    "own limit: five releases apart, or one before 2.18 (2023) beside a later one",
    grade="look",
    certainty="possible",
)


def _driver(host: Host) -> Judged:
    host.gpus_of(NVIDIA, "NVIDIA GPU")
    wheels = _wheels(host)
    version = re.match(r"(\d{3})\.", host.driver)
    if not wheels or not version:
        raise NotApplicableError("no wheel of NCCL, or no driver")
    found = Judged()
    for place, nccl, cuda in wheels:
        least = _LEAST_DRIVER.get(cuda, 0)
        found.see(
            place,
            f"driver {host.driver} for NCCL {nccl} of CUDA {cuda}",
            f"≥ {least}",
            ok=int(version[1]) >= least,
        )
    return found


_LEAST_DRIVER = {11: 450, 12: 525, 13: 580}
DRIVER = HostCheck(
    "cuda-driver",
    "driver for the CUDA version of NCCL",
    _driver,
    "NCCL does not start: the driver is insufficient for the CUDA version",
    (
        setting("install the wheel of an older CUDA, for example nvidia-nccl-cu12"),
        reboot("install a later driver, and reboot"),
    ),
    "CUDA's release notes: minor version compatibility from driver 450, 525 and 580 on",
)
