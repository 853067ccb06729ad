"""Cases of checks: rows of ``tests/kinds/doctor/cases/*.toml``.

A row is a healthy host, what is changed on it, and the state in which the check ends. Its keys:
``host`` (default h100); ``state`` (default fail), ``seen`` (texts in its signals or its reason),
``count`` (of signals), ``steps`` (of the ladder), ``needs``, ``why``; ``files``, ``grow`` (at the
second moment), ``remove`` (beginnings of paths), ``links``, ``run`` (outputs of commands), ``edit``
and ``later`` (command, old text, new text, and ``all`` for every place), ``dmesg`` (lines, of 17
minutes ago without a time; or a line and how often), ``root_ports`` (network devices that are below
none of the switches), ``smi`` (values of the first GPU of nvidia-smi -q, by a name or
section/name), ``gpus`` (those that it lists), ``unread`` (what it has in place of all values of the
second one), ``env``, ``space``, ``packages``, ``clock``, ``measured``. Paths may begin with PCI/,
IB/, NET/, CPU/ and CGROUP/; ``<0-7>`` stands for each of these digits.
"""

import re
from pathlib import Path
from typing import NamedTuple

from msgspec import toml

from recorded_hosts import HEALTHY, IB, NET, PCI, smi_text

_EXPECTED = ("state", "seen", "count", "steps", "needs", "why")
CASES = Path(__file__).parent / "kinds" / "doctor" / "cases"
_PLACES = {
    "PCI": PCI,
    "IB": IB,
    "NET": NET,
    "CPU": "/sys/devices/system/cpu",
    "CGROUP": "/sys/fs/cgroup",
}
_SMI = "nvidia-smi -q"
_AGO = "[863000.100000] "


class Case(NamedTuple):
    """A row of a table. ``check``: its id."""

    check: str
    number: int
    row: dict

    @property
    def state(self):
        return self.row.get("state", "fail")

    def recording(self):
        return changed(**{key: self.row[key] for key in self.row if key not in _EXPECTED})


def cases():
    """All rows, in the order of the tables."""
    return [
        Case(check, number, row)
        for path in sorted(CASES.glob("*.toml"))
        for check, rows in toml.decode(path.read_text()).items()
        for number, row in enumerate(rows)
    ]


def changed(host="h100", **changes):
    """A healthy host with changes, as a row has them. ``host``: its name or a recording."""
    made = HEALTHY[host]() if isinstance(host, str) else host
    for key, change in changes.items():
        _CHANGES[key](made, change)
    return made


def _each(name):
    """The names that one with a range stands for, with whole paths."""
    place, slash, rest = name.partition("/")
    name = f"{_PLACES[place]}{slash}{rest}" if place in _PLACES else name
    found = re.search(r"<(\d)-(\d)>", name)
    digits = range(int(found[1]), int(found[2]) + 1) if found else ()
    return [name.replace(found[0], str(one)) for one in digits] if found else [name]


def _named(change, host, do):
    for name, value in change.items():
        for one in _each(name):
            do(host, one, value)


def _edit(host, edits, *, is_later=False):
    later = host.later.setdefault("run", {}) if is_later else {}
    for command, old, new, *every in edits:
        for one in _each(command):
            text = later.get(one, host.run[one])
            assert old in text, (one, old)
            (later if is_later else host.run)[one] = text.replace(old, new, -1 if every else 1)


def _smi(host, values):
    for path, value in values.items():
        text, at = host.run[_SMI], 0
        *sections, name = path.split("/")
        for section in sections:
            at = re.compile(rf"^ *{re.escape(section)}\n", re.MULTILINE).search(text, at).end()
        line = re.compile(rf"^( *{re.escape(name)} +: ).*", re.MULTILINE).search(text, at)
        host.run[_SMI] = f"{text[: line.start()]}{line[1]}{value}{text[line.end() :]}"


def _unread(host, value):
    head, first, second, *others = host.run[_SMI].split("\nGPU 0000")
    second = re.sub(r" : (?!N/A).+", f" : {value}", second)
    host.run[_SMI] = "\nGPU 0000".join([head, first, second, *others])


def _dmesg(host, lines):
    if not isinstance(lines, str):
        line, count = lines
        lines = "\n".join(f"[{863000 + 5 * number}.5] {line}" for number in range(count))
    for line in lines.splitlines():
        has_time = re.match(r"\[ *\d+\.\d+\] |systemd", line)
        host.run["dmesg"] += f"{'' if has_time else _AGO}{line}\n"


def _root_ports(host, numbers):
    for number in numbers:
        nic = f"0000:{number // 2}{4 + 2 * (number % 2)}:00.0"
        for path in (f"{PCI}/{nic}", f"{IB}/mlx5_{number}/device"):
            host.resolve[path] = f"/sys/devices/pci0000:00/0000:f0:0{number}.0/{nic}"


_CHANGES = {
    "files": lambda host, own: _named(own, host, lambda host, path, text: host.set(path, text)),
    "grow": lambda host, own: _named(own, host, lambda host, path, text: host.grow(path, text)),
    "links": lambda host, own: _named(own, host, lambda host, *pair: host.resolve.update([pair])),
    "remove": lambda host, own: [host.remove(one) for name in own for one in _each(name)],
    "run": lambda host, own: _named(own, host, lambda host, *pair: host.run.update([pair])),
    "edit": _edit,
    "later": lambda host, own: _edit(host, own, is_later=True),
    "dmesg": _dmesg,
    "root_ports": _root_ports,
    "smi": _smi,
    "gpus": lambda host, own: host.run.update({_SMI: smi_text(own)}),
    "unread": _unread,
    "env": lambda host, own: host.environment.update(own),
    "space": lambda host, own: host.space.update(own),
    "packages": lambda host, text: setattr(host, "packages", text),
    "clock": lambda host, text: setattr(host, "clock", text),
    "measured": lambda host, text: setattr(host, "measured", text),
    "interval_s": lambda host, own: setattr(host, "interval_s", own),
}
