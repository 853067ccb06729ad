"""Variables that cost communication: left over from tests, harmful alone or together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from cclmark_fleet.hosts.check import Grade, HostCheck, Judged, NotApplicableError, Remedy, setting
from cclmark_fleet.hosts.checks.rdma_use import LIBRARY_PLACES
from cclmark_fleet.hosts.host import AMD, ASCEND, NVIDIA, Host, settings_of
from cclmark_fleet.hosts.host_probe import whole
from cclmark_fleet.hosts.shipped_data import VariableRule, table

_VENDORS = {"nvidia": (NVIDIA,), "amd": (AMD,), "ascend": (ASCEND,), "gpu": (NVIDIA, AMD)}

_PRODUCTS = {"mnnvl": r"\bGB[23]00", "nvls": r"\bG?[HB]\d{2,3}\b"}


def _applies(host: Host, rule: VariableRule) -> bool:
    if len(host.gpus) < rule.least_devices:
        return False
    if rule.where in _VENDORS:
        return any(one.vendor in _VENDORS[rule.where] for one in host.gpus)
    if rule.where == "efa":
        is_late = any(re.search(_PRODUCTS["nvls"], name) for name in host.gpu_names)
        return is_late and any(port.is_efa for port in host.ports)
    if rule.where in _PRODUCTS:
        return any(re.search(_PRODUCTS[rule.where], name) for name in host.gpu_names)
    if rule.where in ("rdma", "infiniband"):
        own = [port for port in host.ports if port.is_active]
        return any(rule.where == "rdma" or not port.is_ethernet for port in own)
    return True


def _is_beside(own: Mapping[str, tuple[str, str]], rule: VariableRule) -> bool:
    """Whether the other variable has the value that the rule requires."""
    name, _, value = rule.beside.partition("=")
    return not name or own.get(name, ("", ""))[0].upper() == value


def _decimal(name: str, value: str) -> str:
    """A value as rules have it: NCCL reads ``0x1`` and ``01`` (strtoll with base 0) as 1."""
    if name.startswith(("NCCL_", "RCCL_")) and re.fullmatch(r"\+?(0x[0-9a-fA-F]+|0[0-7]+)", value):
        digits = value.lstrip("+").lower()
        return str(int(digits, 16 if "x" in digits else 8))
    return value


def _matching(host: Host, family: str) -> Iterator[tuple[VariableRule, str, str, str]]:
    """The rules of a family that values match: the rule, the variable, its value and its place."""
    own = settings_of(host)
    for name, (value, place) in own.items():
        for rule in table("variables"):
            if (
                rule.family == family
                and re.fullmatch(rule.name, name)
                and re.fullmatch(rule.value, _decimal(name, value))
                and _is_beside(own, rule)
                and _applies(host, rule)
            ):
                yield rule, name, value, place


def _family(family: str) -> Callable[[Host], Judged]:
    def judge(host: Host) -> Judged:
        found = Judged()
        grades: set[Grade] = set()
        costs: dict[str, None] = {}
        for rule, name, value, place in _matching(host, family):
            found.see(place, f"{name}={value[:60]}", "not set", ok=False)
            grades.add(rule.grade)
            costs[rule.cost] = None
            found.source = rule.source
        if not costs:
            found.see("environment", "no variable with such a value")
        found.cost = "; ".join(costs)
        found.grade = "bad" if "bad" in grades else "look"
        return found

    return judge


def _check(family: str, title: str, *fix: Remedy) -> HostCheck:
    steps: Sequence[Remedy] = fix or (
        setting("unset it in the job, the image and nccl.conf, unless it is intended"),
    )
    return HostCheck(
        *(family, title, _family(family), "see the variable", steps),
        "rules of values: cclmark_fleet/hosts/data/variables.toml",
        grade="look",
        certainty="likely",
    )


TRANSPORT = _check("variable-transport", "variables that turn transports off")
CHOICE = _check(
    "variable-choice",
    "variables that restrict what a library chooses",
    setting(
        "unset it unless it is intended, and compare: cclmark experiment all_reduce --vary "
        "NAME=VALUE"
    ),
)
DEBUG = _check("variable-debug", "variables of logs and checks")
BLOCKING = _check("variable-blocking", "variables that make calls wait")
ORDERING = _check("relaxed-ordering", "variables of relaxed ordering")


def _together(host: Host) -> Judged:
    """Variables that contradict each other or the network."""
    own = {name: value for name, (value, _) in settings_of(host).items()}
    found = Judged()

    def number(name: str) -> int | None:
        return whole(own.get(name, ""))

    def clash(text: str, why: str) -> None:
        found.see("environment", text, why, ok=False)

    for low, high in (
        ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
        ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
    ):
        least, most = number(low), number(high)
        if least is not None and most is not None and least > most:
            clash(f"{low}={least} above {high}={most}", "at most the other")
    if own.get("NCCL_NVLS_ENABLE") == "0" and "NVLS" in own.get("NCCL_ALGO", "").upper().split(","):
        clash("NCCL_ALGO=NVLS with NCCL_NVLS_ENABLE=0", "only one of them")
    network = own.get("NCCL_NET", "")
    if network.upper() == "IB" and not host.ports:
        clash("NCCL_NET=IB without an RDMA device", "a device, or unset")
    if network and network.upper() not in ("IB", "SOCKET") and not _collnet_plugin(host):
        clash(f"NCCL_NET={network[:40]} without a plug-in", "a plug-in of that name, or unset")
    sockets = (number("NCCL_NSOCKS_PERTHREAD") or 1) * (number("NCCL_SOCKET_NTHREADS") or 1)
    if sockets > 64:
        text = f"NCCL_NSOCKS_PERTHREAD × NCCL_SOCKET_NTHREADS = {sockets}"
        clash(text, "at most 64")
    if own.get("NCCL_COLLNET_ENABLE") == "1" and not _collnet_plugin(host):
        clash("NCCL_COLLNET_ENABLE=1 without a plug-in of SHARP", "a plug-in, or unset")
    if own.get("NCCL_CUMEM_ENABLE") == "0" and own.get("NCCL_NVLS_ENABLE", "") in ("1", "2"):
        clash("NCCL_NVLS_ENABLE with NCCL_CUMEM_ENABLE=0", "cuMem, which NVLS requires")
    if own.get("NCCL_IB_DISABLE") == "1" and own.get("NCCL_IB_HCA"):
        clash("NCCL_IB_HCA with NCCL_IB_DISABLE=1", "only one of them")
    if own.get("NCCL_NET", "").lower() == "socket" and own.get("NCCL_NET_PLUGIN", "none") != "none":
        clash("NCCL_NET_PLUGIN with NCCL_NET=Socket", "only one of them")
    for text, why in _of_visible(host, own.get("CUDA_VISIBLE_DEVICES", "")):
        clash(text, why)
    if not found.signals:
        found.see("environment", "no contradiction")
    return found


def _of_visible(host: Host, value: str) -> Iterator[tuple[str, str]]:
    """What is wrong with a value of CUDA_VISIBLE_DEVICES, and what is required."""
    words = [word for word in value.split(",") if word]
    text = f"CUDA_VISIBLE_DEVICES={value[:40]}"
    if len(words) > len({*words}):
        yield text, "each device once"
    count = len(host.smi) if host.has_smi and not host.is_in_job else 0
    if count and any((whole(word) or 0) >= count for word in words):
        yield text, f"numbers below {count}"


TOGETHER = HostCheck(
    "variable-combinations",
    "variables that contradict each other",
    _together,
    "a library ignores one of them, fails, or chooses an algorithm that was not intended",
    (setting("unset one of them"),),
    "documentation of NCCL's variables",
    grade="look",
)


def _plugins(host: Host) -> Judged:
    """Plug-ins that variables name have to exist: NCCL falls back without an error.

    Those that an image has where NCCL looks for them are listed: NCCL loads them unasked.
    """
    own = settings_of(host)
    found = Judged()
    for variable, stem in (
        ("NCCL_NET_PLUGIN", "net"),
        ("NCCL_TUNER_PLUGIN", "tuner"),
        ("NCCL_PROFILER_PLUGIN", "profiler"),
    ):
        for value in own.get(variable, ("", ""))[0].split(","):
            if value and value.lower() not in ("none", "static_plugin"):
                place = _file_of(host, value, stem)
                text = f"{value[:60]}: {place or 'not found'}"
                found.see(variable, text, "a file", ok=bool(place))
                _see_foreign(host, found, place)
        if variable not in own and (place := _file_of(host, f"libnccl-{stem}.so", stem)):
            found.see(place, "NCCL loads it unasked")
            _see_foreign(host, found, place)
    for variable in ("NCCL_TUNER_CONFIG_FILE", "NCCL_GRAPH_FILE"):
        if path := own.get(variable, ("", ""))[0]:
            is_there = host.probe.exists(path)
            text = f"{path[:60]}: {'exists' if is_there else 'missing'}"
            found.see(variable, text, "a file", ok=is_there)
            if not is_there and variable == "NCCL_GRAPH_FILE":
                found.cost = "NCCL ends with an error at start: it requires the graphs of the file"
    if not found.signals:
        raise NotApplicableError("no variable names a plug-in or a file of NCCL")
    return found


def _see_foreign(host: Host, found: Judged, place: str) -> None:
    """Adds a plug-in of libfabric on InfiniBand or RoCE, which NCCL itself serves best."""
    has_other = any(port.is_efa for port in host.ports) or host.probe.entries("/sys/class/cxi")
    if "ofi" in place and host.ports and not has_other:
        found.see(place, "libfabric on InfiniBand or RoCE", "NCCL's own network", ok=False)
        found.cost = "NCCL uses libfabric in place of verbs: slower, or TCP"
        found.remedies = [setting("NCCL_NET_PLUGIN=none, or another image")]


def _collnet_plugin(host: Host) -> str:
    value = settings_of(host).get("NCCL_NET_PLUGIN", ("", ""))[0]
    return _file_of(host, value or "libnccl-net.so", "net")


def _file_of(host: Host, value: str, stem: str) -> str:
    names = [value] if ".so" in value else [f"libnccl-{stem}-{value}.so", value]
    own = host.probe.environment.get("LD_LIBRARY_PATH", "").split(":")
    places = [f"{folder}/{name}" for folder in (*own, *LIBRARY_PLACES) for name in names]
    places = [value] if value.startswith("/") else places
    return next((path for path in places if path.startswith("/") and host.probe.exists(path)), "")


PLUGINS = HostCheck(
    "plugins",
    "plug-ins and files that variables name",
    _plugins,
    "NCCL goes on without them: TCP in place of the network, defaults in place of tuned choices",
    (
        setting(
            "correct the path or add its folder to LD_LIBRARY_PATH; unset it if it is left over",
        ),
    ),
    "files beside the variables",
)

#: The variables of leftover transports, whose cost a short test measures.
MEASURABLE = (
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
    "NCCL_NTHREADS",
    "NCCL_BUFFSIZE",
    "CUDA_LAUNCH_BLOCKING",
)
