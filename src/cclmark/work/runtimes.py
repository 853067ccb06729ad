"""The supported device runtimes, and the devices that users name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cclmark.base.errors import UsageError


@dataclass(frozen=True)
class AcceleratorRuntime:
    """A runtime of accelerators, and what indicates that a machine has its devices.

    ``nodes``: by vendor, the names of the device nodes below ``/dev``, as a pattern.
    ``library_variable``: the environment variable with the path of its library.
    ``visible_variables``: the environment variables that select the visible devices.
    ``may_be``: another runtime that drives the same devices if it works.
    """

    name: str
    nodes: Mapping[str, str]
    library_variable: str
    visible_variables: tuple[str, ...]
    may_be: str = ""


_CUDA_VISIBLE = "CUDA_VISIBLE_DEVICES"

# In the order in which they are probed if no runtime is named.
ACCELERATOR_RUNTIMES = {
    runtime.name: runtime
    for runtime in (
        AcceleratorRuntime(
            "cuda", {"NVIDIA": "nvidia[0-9]*"}, "CCLMARK_CUDA_LIBRARY", (_CUDA_VISIBLE,)
        ),
        AcceleratorRuntime(
            "acl",
            {"Ascend": "davinci[0-9]*"},
            "CCLMARK_ASCENDCL_LIBRARY",
            ("ASCEND_RT_VISIBLE_DEVICES",),
        ),
        AcceleratorRuntime(
            "hip",
            {"AMD": "kfd"},
            "CCLMARK_HIP_LIBRARY",
            ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", _CUDA_VISIBLE),
        ),
        AcceleratorRuntime(
            "maca",
            {"MetaX": "mxcd*"},
            "CCLMARK_MACA_LIBRARY",
            ("MACA_VISIBLE_DEVICES", _CUDA_VISIBLE),
        ),
        AcceleratorRuntime(
            "musa",
            {"Moore Threads": "mtgpu*"},
            "CCLMARK_MUSA_LIBRARY",
            ("MUSA_VISIBLE_DEVICES",),
        ),
        AcceleratorRuntime(
            "tops", {"Enflame": "gcu[0-9]*"}, "CCLMARK_TOPS_LIBRARY", ("TOPS_VISIBLE_DEVICES",)
        ),
        AcceleratorRuntime(
            "cudart",
            {
                "Iluvatar": "iluvatar[0-9]*",
                "T-Head": "alixpu_ppu[0-9]*",
                "Kunlunxin": "xpu[0-9]*",
                "Hygon": "mkfd",
            },
            "CCLMARK_CUDART_LIBRARY",
            (_CUDA_VISIBLE,),
            may_be="cuda",  # NVIDIA's libcudart
        ),
        AcceleratorRuntime(
            "cnrt",
            {"Cambricon": "cambricon_dev[0-9]*"},
            "CCLMARK_CNRT_LIBRARY",
            ("MLU_VISIBLE_DEVICES",),
        ),
        AcceleratorRuntime(
            "tang", {"Sunrise": "ptpu[0-9]*"}, "CCLMARK_TANG_LIBRARY", ("TANG_VISIBLE_DEVICES",)
        ),
    )
}

RUNTIMES = (*ACCELERATOR_RUNTIMES, "host")

MOST_HOST_RANKS = 1024


@dataclass(frozen=True)
class NamedDevices:
    """The devices of ``--devices``: by runtime their numbers, or no numbers for all devices.

    Numbers without a runtime, of the runtime "", are of the machine's default accelerators. Without
    any: accelerators if there are any, else the host. ``text``: as it was written.
    """

    text: str = ""
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether any devices are named."""
        return bool(self.numbers)

    def __str__(self) -> str:
        """The text."""
        return self.text

    @property
    def runtime(self) -> str:
        """The first runtime, empty if none is named."""
        return next(iter(self.numbers), "")


def parse_devices(text: str) -> NamedDevices:
    """Parses ``--devices``.

    ``text`` is empty, a runtime, numbers of devices, or both: ``host``, ``cuda``, ``0,2,3``,
    ``cuda:0-3``, ``host:4`` (any number of host devices), or several of these joined by ``+``.
    Raises UsageError.
    """
    numbers: dict[str, tuple[int, ...]] = {}
    for part in text.split("+") if text else ():
        runtime, _, listed = part.strip().partition(":")
        if not runtime:
            raise UsageError(f"cannot read the devices {text!r}: write cuda:0-1+host:2")
        if not runtime.isalpha():
            runtime, listed = "", part.strip()
        if runtime not in ("", *RUNTIMES):
            raise UsageError(f"unknown runtime {runtime!r}: choose from {', '.join(RUNTIMES)}")
        if runtime in numbers:
            raise UsageError(
                f"the devices {text!r} list a runtime twice: list all its devices together"
            )
        if runtime == "host" and _is_number(listed):
            if not 1 <= int(listed) <= MOST_HOST_RANKS:
                raise UsageError(f"{listed} host ranks: choose from 1 to {MOST_HOST_RANKS}")
            numbers[runtime] = tuple(range(int(listed)))
        else:
            numbers[runtime] = _parse_numbers(listed) if listed else ()
    if "" in numbers and set(numbers) - {"", "host"}:
        raise UsageError(
            f"the devices {text!r} have numbers without a runtime beside another one: write the "
            "runtime of all of them, as in cuda:0-1+musa:0-1"
        )
    return NamedDevices(text, numbers)


def _parse_numbers(text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not _is_number(first) or not _is_number(last) or int(last) < int(first):
            raise UsageError(f"cannot read the devices {text!r}: write 0,2,3 or cuda:0-3 or host:4")
        if int(last) >= MOST_HOST_RANKS:
            raise UsageError(f"device {last} of {text!r}: the limit is {MOST_HOST_RANKS - 1}")
        numbers += range(int(first), int(last) + 1)
    if len(set(numbers)) != len(numbers):
        raise UsageError(
            f"the devices {text!r} list a device twice: each rank requires its own device"
        )
    return tuple(numbers)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
