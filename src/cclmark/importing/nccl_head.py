"""Reads the lines above a table of nccl-tests: its settings and its devices."""

from __future__ import annotations

import re

from cclmark.importing.run import ToolSettings
from cclmark.results.schema import DeviceDescription

FIGURE = "the mean of the tool's iterations"
_DEVICE = re.compile(
    r"#\s*Rank\s+(\d{1,7})(?:\s+Group\s+(\d{1,7}))?(?:\s+Pid\s+(\d{1,9}))? on\s+(\S+) "
    r"device\s+(\d{1,4}) \[([^\]]*)\] ?(.*)"
)
_BUS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?")
_SETUP = re.compile(
    r"# nThread (\d{1,4}) nGpus (\d{1,4}) minBytes (\d{1,18}) maxBytes (\d{1,18}) (.*)"
)
_STEP = re.compile(r"step: (\d{1,18}(?:\.\d{1,9})?)\((factor|bytes)\)")
_WORD = re.compile(r"([a-z]+(?: [a-z]+)?): (\d{1,9})(?=\s|$)")


def read_device(line: str) -> tuple[str, DeviceDescription] | None:
    """Returns a device and its group, empty without groups; None for any other line.

    The runtime is derived from the device's name.
    """
    found = _DEVICE.match(line)
    if found is None:
        return None
    rank, group, pid, host, index, bus, name = found.groups()
    return group or "", DeviceDescription(
        rank=int(rank),
        host=host,
        runtime="hip" if "AMD" in name or "Instinct" in name else "cuda",
        index=int(index),
        name=name.strip(),
        memory_bytes=0,
        pid=int(pid or 0),
        pci_bus_id=bus if _BUS.fullmatch(bus) else "",
    )


def read_facts(line: str) -> ToolSettings | None:
    """Returns the settings of a run from the line that contains them."""
    setup = _SETUP.match(line)
    if setup is None:
        return None
    threads, devices, begin, end, rest = setup.groups()
    step = _STEP.search(rest)
    words = {name: int(value) for name, value in _WORD.findall(rest)}
    graph = words.get("graph", 0)
    size = float(step[1]) if step else 0.0
    return ToolSettings(
        begin_bytes=int(begin),
        end_bytes=int(end),
        step_bytes=int(size) if step and step[2] == "bytes" else 0,
        factor=size if step and step[2] == "factor" else 0.0,
        warmup=words.get("warmup iters") or None,
        iterations=words.get("iters") or None,
        ranks_per_process=max(1, int(threads) * int(devices)),
        group=words.get("agg iters", 1),
        graph_launches=max(1, graph),
        check=words.get("validation"),
        timing="graph" if graph else "throughput",
    )


def nccl_version(code: int) -> str:
    """2.28.9 of 22809, and 2.8.4 of 2804, as nccl.h writes them."""
    base = 10000 if code >= 10000 else 1000
    return f"{code // base}.{code % base // 100}.{code % 100}"
