"""Peak rates of accelerators: dense matrix products in bfloat16, as their vendors publish them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_TERA = 1e12


@dataclass(frozen=True)
class Peak:
    """The dense bfloat16 peak of devices whose name contains all ``words``, in FLOP/s."""

    words: tuple[str, ...]
    operations_per_s: float
    source: str


def _peak(words: str, teraflops: float, source: str) -> Peak:
    return Peak(tuple(words.split()), teraflops * _TERA, source)


_H100 = "NVIDIA H100 datasheet, half of the rate with sparsity"
_H200 = "NVIDIA H200 datasheet, half of the rate with sparsity"

#: The first entry that fits counts: more specific names come first.
PEAKS = (
    _peak("H100 PCIe", 756, _H100),
    _peak("H100 NVL", 835.5, _H100),
    _peak("H100", 989.4, _H100),
    _peak("H200 NVL", 835.5, _H200),
    _peak("H200", 989.4, _H200),
    _peak("H800 PCIe", 756, "as H100 PCIe"),
    _peak("H800", 989.4, "as H100 SXM"),
    _peak("H20", 148, "NVIDIA H20 specification"),
    _peak("GB200", 2500, "NVIDIA GB200 NVL72 datasheet, per GPU, half of the rate with sparsity"),
    _peak("B200", 2250, "NVIDIA HGX B200 datasheet, half of the rate with sparsity"),
    _peak("A100", 312, "NVIDIA A100 datasheet"),
    _peak("A800", 312, "as A100"),
    _peak("L40S", 362.05, "NVIDIA L40S datasheet, half of the rate with sparsity"),
    _peak("A40", 149.7, "NVIDIA A40 datasheet"),
    _peak("A10G", 70, "AWS G5 documentation"),
    _peak("A10", 125, "NVIDIA A10 datasheet"),
)


def peak_of(name: str) -> Peak | None:
    """The peak of a device by its name, None if it is unknown."""
    words = name.replace("-", " ").split()
    if "MIG" in words:  # a part of a device
        return None
    return next((peak for peak in PEAKS if all(word in words for word in peak.words)), None)


def total_peak(names: Iterable[str]) -> tuple[float | None, str]:
    """The sum of the peaks of devices with its sources, or None with the reason."""
    total = 0.0
    names = list(names)
    if not names:
        return None, "the devices are unknown"
    sources: dict[str, None] = {}
    for name in names:
        peak = peak_of(name)
        if peak is None:
            return None, f"the peak rate of {name} is unknown; --peak TFLOPS sets it"
        total += peak.operations_per_s
        sources[f"{name}: {peak.operations_per_s / _TERA:g} TFLOP/s ({peak.source})"] = None
    return total, ", ".join(sources)
