"""Errors of NVIDIA's GPUs in the kernel's log (Xid), by NVIDIA's catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from cclmark_fleet.hosts.check import HostCheck, Judged, Remedy, Step, reboot, reset, service
from cclmark_fleet.hosts.host import NVIDIA, Host
from cclmark_fleet.hosts.shipped_data import XidRule, table
from cclmark_fleet.hosts.tool_texts import XidEvent, is_fatal, xids_of

_NVLINK5 = "WORKFLOW_NVLINK5_ERR"
# What NVIDIA's actions ask of the host; others concern programs, or nothing.
_STEPS: Mapping[str, Step] = {
    **dict.fromkeys(("RESET_GPU", "WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR"), "reset"),
    _NVLINK5: "reset",
    **dict.fromkeys(("RESTART_BM", "RESTART_VM"), "reboot"),
    **dict.fromkeys(("CHECK_MECHANICALS", "UPDATE_SWFW"), "service"),
}
_ACTIONS: Mapping[Step, str] = {
    "reset": "stop all programs of the GPU: nvidia-smi --gpu-reset -i ADDRESS",
    "reboot": "drain and reboot the host (power it off and on if the GPU stays away)",
    "service": "replace the GPU, or check its power and its seat",
    "setting": "restart the program",
}
# The same of Xid 154, by NVML's recovery actions.
_RECOVERIES: Mapping[str, Step] = {
    **{"0x1": "reset", "0x3": "reset", "0x4": "reset", "0x5": "reset", "0x6": "reset"},
    **{"0x2": "reboot", "0x7": "reboot"},
}
_HOST_CODES_WITHOUT_ACTION = (167, 168, 169, 171, 172)  # by their descriptions
# Somewhat grave: NVIDIA asks for support after 92 and, of older GPUs, 61; the text of 63 for a
# reset.
_MILD_CODES = (61, 63, 92)
_REMAPPED = 63
_PROGRAMS = ("RESTART_APP", "CHECK_UVM", "WORKFLOW_XID_45")
_PROGRAM_CODES = (43,)  # by its description: a fault of the application
_NONFATAL = re.compile(r"non[ -]?fatal", re.IGNORECASE)
_NO_ACTION = "0x0"
_OLD, _OLD_S = "older than a day", 24 * 3600


def rule_of(code: int) -> XidRule | None:
    """The row of the catalogue; None for codes that it lacks or that are unused."""
    return next((one for one in table("xids") if one.code == code), None)


def step_of(event: XidEvent) -> Step | None:
    """What an error asks of the host; None if it concerns programs alone, or nothing."""
    if event.recovery:
        return _RECOVERIES.get(event.recovery)
    rule = rule_of(event.code)
    if event.code in _HOST_CODES_WITHOUT_ACTION:
        return "reset"
    if event.code in _MILD_CODES:
        return None if event.code == _REMAPPED and "reset" not in event.text else "reset"
    if rule is None or (rule.action == _NVLINK5 and is_nonfatal(event.text)):
        return None
    return _STEPS.get(rule.action)


def is_nonfatal(text: str) -> bool:
    """Whether an Xid of NVLink (144 to 150) says that it is not fatal."""
    return _NONFATAL.search(text) is not None and not is_fatal(text)


def standing(events: Iterable[XidEvent]) -> list[XidEvent]:
    """The events that no later Xid 154 of the GPU has ended.

    With the action None it ends all errors of the GPU, with another one the former Xid 154.
    """
    found: list[XidEvent] = []
    for event in events:
        if event.recovery == _NO_ACTION:
            found = [one for one in found if one.address != event.address]
            continue
        if event.code == 154:
            found = [one for one in found if (one.address, one.code) != (event.address, 154)]
        found.append(event)
    return found


def _judge(host: Host) -> Judged:
    host.gpus_of(NVIDIA, "NVIDIA GPU")
    found = Judged()
    steps: list[Step] = []
    asking: dict[tuple[str, int], tuple[XidEvent, int]] = {}
    others: list[XidEvent] = []
    for event in standing(xids_of(host.kernel_log)):
        if step_of(event) is None or _is_over(host, event):
            others.append(event)
            continue
        _, count = asking.get((event.address, event.code), (event, 0))
        asking[event.address, event.code] = event, count + 1
    for (address, code), (event, count) in asking.items():
        if (step := step_of(event)) is not None:
            steps.append(step)
        rule = rule_of(code)
        times = f" × {count}" if count > 1 else ""
        age = _age(host, event)
        text = event.text if code == 154 else (rule.text if rule else event.text)
        action = ""
        if rule and rule.action and code != 154:
            action = f"; NVIDIA: {rule.action}" + (f", then {rule.then}" if rule.then else "")
        found.see(address, f"Xid {code}{times}{age}: {text[:120]}{action}", "none", ok=False)
    if not steps:
        text = "; ".join(["no Xid that asks for a reset or more", *_listed(host, others)])
        found.see("kernel log", text)
    if steps and all(code in _MILD_CODES for _, code in asking):
        found.grade = "look"
    order: tuple[Step, ...] = ("reset", "reboot", "service")
    worst = max((order.index(one) for one in steps if one in order), default=0)
    found.remedies = [Remedy(one, _ACTIONS[one]) for one in order[worst:]]
    return found


def _listed(host: Host, events: Sequence[XidEvent]) -> list[str]:
    """The codes that are not judged, by the reason."""
    codes: dict[str, set[int]] = {"of programs": set(), "without an action": set(), _OLD: set()}
    for event in events:
        rule = rule_of(event.code)
        is_of_program = event.code in _PROGRAM_CODES or (
            rule is not None and rule.action in _PROGRAMS
        )
        reason = "of programs" if is_of_program else "without an action"
        codes[_OLD if _is_old(host, event) else reason].add(event.code)
    return [
        f"{reason}: {', '.join(map(str, sorted(own)[:8]))}" for reason, own in codes.items() if own
    ]


def _is_old(host: Host, event: XidEvent) -> bool:
    return event.at_s is not None and host.uptime_s - event.at_s > _OLD_S


def _is_over(host: Host, event: XidEvent) -> bool:
    """Whether an error is old and the driver asks for nothing any more: a reset leaves no line.

    A row is remapped by a reset; the driver tells whether it still has to be.
    """
    own = host.smi.get(event.address) if host.has_smi else None
    if event.code == _REMAPPED and own is not None:
        return own.part("Remapped Rows").at("Pending") == "No"
    is_calm = own is not None and own.get("GPU Recovery Action") == "None"
    return is_calm and _is_old(host, event)


def _age(host: Host, event: XidEvent) -> str:
    """`` 3 h ago``, empty if the time is unknown."""
    if event.at_s is None or not host.uptime_s:
        return ""
    hours = max(0.0, host.uptime_s - event.at_s) / 3600
    return f" {hours:.0f} h ago" if hours >= 1 else f" {hours * 60:.0f} min ago"


XID = HostCheck(
    "gpu-xid",
    "errors of GPUs (Xid)",
    _judge,
    "programs end, hang or are slow until the action is taken",
    [
        reset(_ACTIONS["reset"]),
        reboot(_ACTIONS["reboot"]),
        service(_ACTIONS["service"]),
    ],
    "NVIDIA's Xid catalogue (analyzing-xid-catalog): the immediate action; Xid 154 states it in "
    "words. Errors of programs (13, 31, 43, 45, 94 …) and nonfatal ones of NVLink (144 to 150) are "
    "not judged; one older than a day is over if the driver's recovery action is None",
)
