"""What the files below benchmarks/results were measured on: devices and libraries.

Only files whose text contains the head of a run count: journals and tables, not the figures that
the programs of benchmarks/ derive from them.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cclmark.work.libraries import shipped
from places import RESULTS

JOURNALS = sorted(RESULTS.rglob("*.jsonl"))
# Of equal runs, which have one name or are counted, the first one is enough.
_FIRST = {re.sub("-[0-9]$", "", file.stem): file for file in reversed(JOURNALS)}
each_journal = pytest.mark.parametrize(
    "file",
    [
        pytest.param(
            file,
            id=file.stem,
            marks=[] if file in _FIRST.values() else pytest.mark.exhaustive,
        )
        for file in JOURNALS
    ],
)
HOSTS = "hosts"
_TITLE = re.compile(r"cclmark \S+  \d+ (?:rank|device|process)")
_LABEL = re.compile(r"  ([a-z]+) +(\S.*)")
_INDENT = 13  # of what follows a label
_DEVICES = re.compile(r"(?:\S+: )?(\d+) × (.+?)(?: \((\w+):|, |$)")
# The rows of tables that compare libraries begin with a name, or name it as what is varied.
_ROW = re.compile(r"^  (?:library=)?([a-z]+(?::[a-z]+)?)  +[\d.]+ ", re.MULTILINE)


@dataclass
class Measured:
    """A run. ``counts``: the devices on each host. ``versions``: of its libraries, by name."""

    model: str
    counts: list[int]
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def devices(self) -> str:
        """Their number, host by host."""
        return " + ".join(map(str, self.counts))


def model_of(name: str, runtime: str) -> str:
    """The model of a device in short: ``H100``; processors of the host are all alike."""
    if runtime == "host":
        return HOSTS
    words = [word for word in name.split() if word != "NVIDIA"]
    return words[0] if words else name


def measured() -> list[Measured]:
    """The runs whose results are stored."""
    found: list[Measured] = []
    for path in sorted(RESULTS.rglob("*.jsonl")):
        found += _of_journal(path)
    for path in sorted(RESULTS.rglob("*.txt")):
        found += _of_text(path.read_text(encoding="utf-8"))
    return found


def _of_journal(path: Path) -> Iterator[Measured]:
    with path.open(encoding="utf-8") as lines:
        header = json.loads(next(lines))
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for device in header["devices"]:
        counts[model_of(device["name"], device["runtime"]), device["host"]] += 1
    for model in dict.fromkeys(model for model, _ in counts):
        of_hosts = [number for (name, _), number in counts.items() if name == model]
        versions = {one["name"]: one["version"] for one in header["libraries"]}
        yield Measured(model, of_hosts, versions)


def _of_text(text: str) -> Iterator[Measured]:
    """The runs whose tables a text contains, one after the other."""
    parts = re.split(rf"(?m)^(?={_TITLE.pattern})", text)
    for part in parts:
        title, *lines = part.splitlines() or [""]
        labels = _labels(lines) if _TITLE.match(title) else {}
        rows = [found for line in labels.get("devices", []) if (found := _DEVICES.match(line))]
        if not rows:
            continue
        versions = {}
        for line in labels.get("library", []):
            name, _, rest = line.partition(" ")
            versions[name] = rest.strip().partition("  ")[0]
        for name in _ROW.findall(part):
            if name in shipped() or name.startswith("torch:"):
                versions.setdefault(name, "")
        model = model_of(rows[0][2], rows[0][3] or "")
        yield Measured(model, [int(row[1]) for row in rows], versions)


def _labels(lines: Sequence[str]) -> dict[str, list[str]]:
    """The lines of a head by label."""
    found: dict[str, list[str]] = {}
    label = ""
    for line in lines:
        if (labelled := _LABEL.fullmatch(line)) and line.index(labelled[2]) >= _INDENT:
            label = labelled[1]
            found.setdefault(label, []).append(labelled[2])
        elif label and line[:_INDENT].isspace() and line.strip():
            found[label].append(line.strip())
        else:
            break
    return found


def models(runs: Iterable[Measured]) -> list[str]:
    """The models of devices, the host last."""
    return sorted({run.model for run in runs}, key=lambda model: (model == HOSTS, model))


def where(runs: Iterable[Measured], names: Sequence[str]) -> Mapping[str, str]:
    """The devices and versions with which libraries were measured, by the devices' model.

    ``names``: of the libraries; those of one row of a table.
    """
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for run in runs:
        for name in names:
            if name in run.versions:
                version = _short(name, run.versions[name])
                found[run.model][version].add(run.devices)
    return {model: _text(versions) for model, versions in found.items()}


def _short(name: str, version: str) -> str:
    """The version in short, empty for built-in libraries and for numbers without a meaning."""
    library = shipped().get(name)
    if "." not in version or (library is not None and library.shape in ("shm", "bridge")):
        return ""
    text = version.replace(" Version:", "").partition("+")[0]
    return f"torch {text}" if name.startswith("torch:") else text


def _text(versions: Mapping[str, set[str]]) -> str:
    """``2, 4: 2.28.9``: the numbers of devices with each version, where it is known."""
    known = {version: numbers for version, numbers in versions.items() if version}
    unknown = set(versions.get("", ())).difference(*known.values())
    parts = [*known.items(), *([("", unknown)] if unknown else [])]
    return "; ".join(
        ", ".join(sorted(numbers, key=_order)) + (f": {version}" if version else "")
        for version, numbers in sorted(parts)
    )


def _order(devices: str) -> tuple[int, str]:
    return sum(map(int, devices.split(" + "))), devices
