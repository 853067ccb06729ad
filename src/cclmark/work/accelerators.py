"""Peak rates and links of accelerators, as their makers publish them."""

from __future__ import annotations

from dataclasses import dataclass

_TERA, _GIGA = 1e12, 1e9
#: Of a job or a network.
MOST_DEVICES = 1_000_000

#: Bytes per second of a Gb/s.
GBIT = 1e9 / 8
#: What is achieved of links and memory, and between nodes; latencies of a transfer between nodes
#: and within them: protocol Simple in NCCL 2.28, graph/tuning.cc.
LINK_SHARE = MEMORY_SHARE = 0.8
EFFICIENCY = 0.9
LATENCY_S, NODE_LATENCY_S = 14e-6, 3.4e-6


@dataclass(frozen=True)
class Accelerator:
    """Devices whose name contains all ``words``.

    ``peak_flops``: the dense rate in bfloat16 (of V100 in float16), in FLOP/s. ``has_fp8``: whether
    that in 8 bits is twice as high. ``link_bps``: what a device sends to the others of its node, in
    bytes/s in one direction; 0 where only PCIe connects them or it is unknown. ``memory_bps``: of
    its memory (of A100 that of 80 GB). ``memory_bytes``: its size.
    """

    words: tuple[str, ...]
    peak_flops: float
    memory_bps: float
    source: str
    link_bps: float = 0.0
    has_fp8: bool = False
    memory_bytes: float = 0.0

    @property
    def name(self) -> str:
        """The name, for example H100 PCIe."""
        return " ".join(self.words)


def _of(
    words: str,
    teraflops: float,
    memory_tbps: float,
    source: str,
    link_gbps: float = 0.0,
    *,
    memory_gb: float,
    has_fp8: bool = False,
) -> Accelerator:
    return Accelerator(
        *(tuple(words.split()), teraflops * _TERA, memory_tbps * _TERA, source),
        link_bps=link_gbps * _GIGA,
        has_fp8=has_fp8,
        memory_bytes=memory_gb * _GIGA,
    )


_H100 = "NVIDIA H100 datasheet, half of the rate with sparsity"
_H200 = "NVIDIA H200 datasheet, half of the rate with sparsity"
_GB200 = "NVIDIA GB200 NVL72 datasheet, per GPU, half of the rate with sparsity"
_B200 = "NVIDIA HGX B200 datasheet, half of the rate with sparsity"
_L40S = "NVIDIA L40S datasheet, half of the rate with sparsity"

#: The first entry that fits counts: more specific names come first.
ACCELERATORS = (
    _of("H100 PCIe", 756, 2.0, _H100, memory_gb=80, has_fp8=True),
    _of("H100 NVL", 835.5, 3.9, _H100, 300, memory_gb=94, has_fp8=True),
    _of("H100", 989.4, 3.35, _H100, 450, memory_gb=80, has_fp8=True),
    _of("H200 NVL", 835.5, 4.8, _H200, 450, memory_gb=141, has_fp8=True),
    _of("H200", 989.4, 4.8, _H200, 450, memory_gb=141, has_fp8=True),
    _of("H800 PCIe", 756, 2.0, "as H100 PCIe", memory_gb=80, has_fp8=True),
    _of("H800", 989.4, 3.35, "as H100 SXM", 200, memory_gb=80, has_fp8=True),
    _of("H20", 148, 4.0, "NVIDIA H20 specification", 450, memory_gb=96, has_fp8=True),
    _of("GB200", 2500, 8.0, _GB200, 900, memory_gb=186, has_fp8=True),
    _of("B200", 2250, 8.0, _B200, 900, memory_gb=180, has_fp8=True),
    _of("A100 PCIe", 312, 1.935, "NVIDIA A100 datasheet", memory_gb=80),
    _of("A100", 312, 2.039, "NVIDIA A100 datasheet", 300, memory_gb=80),
    _of("A800", 312, 2.039, "as A100", 200, memory_gb=80),
    _of("L40S", 362.05, 0.864, _L40S, memory_gb=48, has_fp8=True),
    _of("A40", 149.7, 0.696, "NVIDIA A40 datasheet", memory_gb=48),
    _of("A10G", 70, 0.6, "AWS G5 documentation", memory_gb=24),
    _of("A10", 125, 0.6, "NVIDIA A10 datasheet", memory_gb=24),
    _of("V100 PCIe", 112, 0.9, "NVIDIA V100 datasheet, float16", memory_gb=32),
    _of("V100", 125, 0.9, "NVIDIA V100 datasheet, float16", 150, memory_gb=32),
    _of("MI300X", 1307.4, 5.3, "AMD Instinct MI300X datasheet", 448, memory_gb=192, has_fp8=True),
)


def find_accelerator(name: str) -> Accelerator | None:
    """The accelerator that a device's name means, None if it is unknown, or a part of one (MIG)."""
    words = [word.upper() for word in name.replace("-", " ").split()]
    if "MIG" in words:
        return None
    return next(
        (one for one in ACCELERATORS if all(word.upper() in words for word in one.words)), None
    )
