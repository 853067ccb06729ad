"""Options of a training job, of its network and of what is assumed of both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.command import JOB, flag, option
from cclmark.options.types import (
    PATH,
    LineRate,
    Numbers,
    Parsed,
    Percent,
    RealNumber,
    WholeNumber,
    parse_line_rate,
)
from cclmark.work.accelerators import EFFICIENCY, LATENCY_S, MOST_DEVICES, NODE_LATENCY_S
from cclmark_planning.scale.frameworks import FRAMEWORKS, GRADIENTS, PRECISIONS

USUAL_MFU = 50.0
USUAL_PER_NODE = 8


@dataclass
class JobOptions:
    """A training job, its network, and what its GPUs compute."""

    title: ClassVar[str] = JOB

    model: str = option(
        "--model",
        default="",
        metavar="MODEL",
        help="llama3-8b, deepseek-v3, … (a wrong name lists all); dimensions: family=llama (or "
        "gpt, bloom),width=4096,layers=32,heads=32, and key_value_heads, hidden, vocabulary, "
        "context, head_size, experts, active_experts; or the path of a config.json of Hugging "
        "Face.",
    )
    gpus: list[int] = option(
        "--gpus",
        default=[],
        type=Numbers("GPUs", 1, MOST_DEVICES),
        metavar="NUMBERS",
        help="Numbers of GPUs, with commas [those of --parallel].",
    )
    parallel: str = option(
        "--parallel",
        default="",
        metavar="LAYOUT",
        help="Degrees of parallelism, tp=8,pp=4,dp=16,zero=1; dp follows from --gpus. tp: tensor, "
        "cp: context, pp: pipeline (vp: interleaved parts of a stage), dp: data, ep: experts; "
        "zero: what replicas share (1: state of the optimizer, 2: gradients, 3: parameters, as "
        "FSDP; fsdp=64: dp=64,zero=3), shard: among how many of them; sp=1: sequence parallelism "
        "[dp].",
    )
    batch: int | None = option(
        "--batch",
        type=WholeNumber(1, 1 << 24),
        help="Sequences of all replicas in a step [one micro-batch of each replica and stage: "
        "grows with --gpus].",
    )
    micro_batch: int = option(
        "--micro-batch",
        default=1,
        type=WholeNumber(1, 1 << 20),
        help="Sequences that a replica computes at once [1].",
    )
    sequence: int | None = option(
        "--seq",
        "--sequence",
        type=WholeNumber(1, 1 << 24),
        help="Tokens of a sequence [the model's longest, at most 8192].",
    )
    precision: str = option(
        "--precision",
        "--dtype",
        default="bf16",
        type=click.Choice([*PRECISIONS]),
        help="Of activations and parameters; mixed: parameters of float32, activations of bfloat16 "
        "[bf16].",
    )
    gradients: str | None = option(
        "--gradients",
        type=click.Choice([*GRADIENTS]),
        help="Of gradients when they are reduced [fp32 with mixed, and with megatron and bf16 or "
        "fp8; else as parameters].",
    )
    framework: str = option(
        "--framework",
        default=FRAMEWORKS[0],
        type=click.Choice([*FRAMEWORKS]),
        help="Whose messages are counted [torch].",
    )
    recompute: bool = flag(
        "--recompute", help="Layers repeat their forward pass in the backward pass."
    )
    hold_gradients: bool = flag(
        "--hold-gradients",
        help="zero=2 or 3: reduce gradients after the last micro-batch alone, not after each.",
    )
    scatter_gather: bool = flag(
        "--scatter-gather",
        help="Devices of tp send a part of the activations each to the next stage and gather them "
        "there, as Megatron-DeepSpeed, and Megatron-LM until 2023.",
    )
    per_node: int = option(
        "--gpus-per-node",
        default=USUAL_PER_NODE,
        type=WholeNumber(1, MOST_DEVICES),
        help="GPUs of a node, or of an NVLink domain [8].",
    )
    accelerator: str = option(
        "--accelerator",
        default="",
        metavar="NAME",
        help="Peak rate and links: H100, A100, B200, … (a wrong name lists all) [that of "
        "--measured, or H100].",
    )
    peak_tflops: float | None = option(
        "--peak",
        type=RealNumber(0.001, 1e9, shown=False),
        metavar="TFLOPS",
        help="Peak rate of a GPU in the precision of the job, in TFLOP/s [of --accelerator].",
    )
    network: LineRate | None = option(
        "--network",
        type=Parsed(parse_line_rate),
        metavar="GBIT",
        help="A network to judge: Gb/s of each GPU, 400, or interfaces of a node, 8x400.",
    )
    efficiency_percent: float = option(
        "--efficiency",
        default=EFFICIENCY * 100,
        type=Percent("90%", above=True, most=100),
        metavar="PERCENT",
        help="Share of the line rate between nodes that transfers achieve [90%].",
    )
    latency_us: float = option(
        "--latency",
        default=LATENCY_S * 1e6,
        type=RealNumber(0, 1e6, shown=False),
        metavar="µS",
        help="Of a transfer between nodes, in microseconds [14].",
    )
    node_gbps: float | None = option(
        "--node-bandwidth",
        type=RealNumber(0.001, 1e9, shown=False),
        metavar="GB/S",
        help="What a GPU achieves within its node, in GB/s in one direction [80 % of the links of "
        "--accelerator].",
    )
    node_latency_us: float = option(
        "--node-latency",
        default=NODE_LATENCY_S * 1e6,
        type=RealNumber(0, 1e6, shown=False),
        metavar="µS",
        help="Of a transfer within a node, in microseconds [3.4].",
    )
    mfu_percent: float | None = option(
        "--mfu",
        type=Percent("50%", above=True, most=100),
        metavar="PERCENT",
        help="Share of the peak rate that a GPU computes with while it computes, without waiting "
        "for communication [50%].",
    )
    measured: Path | None = option(
        "--measured",
        type=PATH,
        metavar="JOURNAL",
        help="Compute of a run of `cclmark train` or `cclmark profile`, in place of --mfu.",
    )
    measured_tokens: int | None = option(
        "--measured-tokens",
        type=WholeNumber(1, 1 << 40),
        help="Tokens of a step of all ranks of a program in --measured.",
    )
    overlap: str | None = option(
        "--overlap",
        metavar="SHARES",
        help="Shares of messages that run beside compute, dp=100%,tp=50%; or the journal of "
        "`cclmark overlap`, for those of dp and cp [what the framework overlaps by default].",
    )
