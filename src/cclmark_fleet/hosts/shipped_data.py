"""Limits and tables that ship with checks, each row with its source: ``data/*.toml``."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from cclmark.base.files import shipped_toml_files
from cclmark_fleet.hosts.check import Certainty, Grade


class MachineClass(msgspec.Struct, frozen=True):
    """What a machine with a type of GPU has. ``gpu``: a pattern of the product's name.

    ``nvlinks`` with ``nvlink_gbps`` each, in one direction; ``gpus``: the numbers of a board, of
    which a host has one or more; ``has_switches``: whether NVSwitches connect them.
    """

    name: str
    gpu: str
    nvlinks: int
    nvlink_gbps: float
    source: str
    gpus: tuple[int, ...] = ()


class CounterLimit(msgspec.Struct, frozen=True):
    """How fast counters may grow. ``name``: a pattern; ``family``: of the check that judges them.

    ``most`` events in ``per_s`` seconds; 0: none at all. ``is_gauge``: not a counter but a value,
    which may not exceed ``most`` at both moments. ``unit``: of counters that are times.
    """

    name: str
    family: str
    most: float
    source: str
    per_s: float = 1.0
    grade: Grade = "bad"
    is_gauge: bool = False
    unit: Literal["", "µs", "ns"] = ""


class VariableRule(msgspec.Struct, frozen=True):
    """A value of a variable that costs communication. ``value``: a pattern.

    ``family``: of the check. ``where``, ``least_devices``: what the host must have for the rule to
    apply; ``gpu`` is NVIDIA or AMD, ``mnnvl`` NVLink between hosts, ``nvls`` GPUs of Hopper and
    later, which have NVLink SHARP; ``efa`` those with EFA. ``beside``: another
    variable with the value that makes it cost something.
    """

    name: str
    value: str
    family: str
    cost: str
    source: str
    grade: Grade = "look"
    where: Literal[
        "", "nvidia", "amd", "gpu", "mnnvl", "nvls", "ascend", "rdma", "infiniband", "efa"
    ] = ""
    least_devices: int = 0
    beside: str = ""


class XidRule(msgspec.Struct, frozen=True):
    """NVIDIA's catalogue of an Xid: its meaning, the immediate action and the one after it."""

    code: int
    name: str
    text: str
    action: str
    then: str = ""


class KernelLine(msgspec.Struct, frozen=True):
    """A line of the kernel's log that reports a fault; ``text`` is its pattern.

    ``family``: of the check. More than ``most`` lines in a day fail. ``ended``: a pattern of a
    later line that ends the fault, of the same subject if both have a group. ``of_devices``: lines
    that name addresses count for accelerators, RDMA devices and bridges above them alone.
    """

    text: str
    family: str
    source: str
    most: int = 0
    ended: str = ""
    of_devices: bool = False
    grade: Grade = "bad"


class BadVersion(msgspec.Struct, frozen=True):
    """Versions of a library that are known to be slow or wrong: from ``first`` to ``last``.

    ``gpu``: a pattern of the products on which they are; ``certainty`` of the row.
    """

    library: str
    first: str
    last: str
    cost: str
    fix: str
    source: str
    gpu: str = ""
    certainty: Certainty = "likely"


_TABLES: dict[str, type[Any]] = {
    "machines": MachineClass,
    "counters": CounterLimit,
    "variables": VariableRule,
    "xids": XidRule,
    "versions": BadVersion,
    "kernel_lines": KernelLine,
}

_DATA = Path(__file__).parent / "data"


@cache
def table(name: str) -> list[Any]:
    """The rows of a shipped table."""
    (path,) = (one for one in shipped_toml_files(_DATA) if one.stem == name)
    written = msgspec.toml.decode(path.read_bytes())
    return [msgspec.convert(row, _TABLES[name]) for rows in written.values() for row in rows]


def machine_class(gpu: str) -> MachineClass | None:
    """The class of machines with this GPU; None for an unknown one."""
    return next((one for one in table("machines") if re.search(one.gpu, gpu)), None)
