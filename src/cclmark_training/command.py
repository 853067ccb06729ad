"""``cclmark train``: training steps, and what communication costs in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import click

from cclmark.options import groups
from cclmark.options.command import METHOD, OPERATION, changed, option
from cclmark.options.types import Parsed, RealNumber, WholeNumber
from cclmark_training.choices import LEARNING_RATES, MODEL_NAMES, PARALLELISMS, RECIPE_NAMES

if TYPE_CHECKING:
    from cclmark_training.layout import MeshLayout

USUAL_SEQUENCE = 1024
USUAL_BALANCE_WEIGHT = 0.01  # alpha of Switch Transformers, arXiv 2101.03961, section 2.2


def _backends(text: str) -> list[str]:
    from cclmark_training.plan import named_backends

    return named_backends(text)


def _layout(text: str) -> MeshLayout:
    from cclmark_training.layout import parse_layout

    return parse_layout(text)


def _microbatches(text: str) -> tuple[int, ...]:
    from cclmark_training.plan import parse_microbatches

    return parse_microbatches(text)


@dataclass
class TrainingOptions:
    """The training: its model, parallelism and numbers."""

    title: ClassVar[str] = OPERATION

    model: str = option(
        "--model",
        default="",
        metavar="NAME",
        help=f"{', '.join(MODEL_NAMES)} [gpt2; host: tiny].",
    )
    layers: int | None = option(
        "--layers",
        type=WholeNumber(1, 1000),
        metavar="N",
        help="Another number of layers [the model's].",
    )
    vocabulary: int | None = option(
        "--vocabulary",
        type=WholeNumber(2, 1 << 24),
        metavar="N",
        help="Another number of tokens [the model's]; gpt2's 50257 padded to 50304, a multiple of "
        "64, is faster on tensor cores.",
    )
    parallel: str | None = option(
        "--parallel",
        type=click.Choice(list(PARALLELISMS)),
        help="Parallelism over all ranks; none: one rank, zero1: ZeroRedundancyOptimizer, fsdp: "
        "fully_shard, tp: tensor, pp: pipeline, ep: experts [ddp; one rank: none].",
    )
    layout: MeshLayout | None = option(
        "--layout",
        type=Parsed(_layout),
        metavar="TP=N,...",
        help="Several parallelisms with the ranks of each, for example tp=2,pp=2,dp=2; tp "
        "(tensor), pp (pipeline), and dp (DistributedDataParallel) or fsdp (fully_shard); their "
        "product is the number of ranks.",
    )
    by_sequence: bool = option(
        "--sequence-parallel",
        default=False,
        is_flag=True,
        help="tp: ranks share the sequence between the matrices (SequenceParallel).",
    )
    batch: int | None = option(
        "--batch",
        type=WholeNumber(1, 1 << 20),
        metavar="N",
        help="Sequences of each rank in a step; ranks of tp and pp work on the same ones [4].",
    )
    global_batch: int | None = option(
        "--global-batch",
        type=WholeNumber(1, 1 << 24),
        metavar="N",
        help="Sequences of all ranks in a step, in place of --batch.",
    )
    micro_batch: int | None = option(
        "--micro-batch",
        type=WholeNumber(1, 1 << 20),
        metavar="N",
        help="Sequences that a rank computes at once: gradients of the parts of a batch are "
        "added up and reduced once [the batch; pp: 1].",
    )
    sequence: int | None = option(
        "--sequence",
        "--seq",
        type=WholeNumber(2, 1 << 24),
        metavar="N",
        help=f"Tokens of a sequence [{USUAL_SEQUENCE}, or the model's context if it is shorter].",
    )
    microbatches: tuple[int, ...] = option(
        "--microbatches",
        default=(),
        type=Parsed(_microbatches),
        metavar="N",
        help="Parts of the batch, in place of --micro-batch; or one number for each replica of dp "
        "or fsdp, for example 3,1, where devices are not equally fast.",
    )
    recipe: str | None = option(
        "--recipe",
        type=click.Choice(RECIPE_NAMES),
        help="The numbers of another program's configuration; options given beside it "
        "take their place, and differences are printed.",
    )
    dtype: str = option(
        "--dtype",
        default="",
        metavar="TYPE",
        help="Type of parameters and arithmetic: bfloat16 (bf16), float32 (fp32), or mixed; mixed: "
        "float32 parameters, gradients and optimizer state, products of matrices in bfloat16 "
        "(autocast; fsdp: MixedPrecisionPolicy) [bfloat16; host: float32].",
    )
    optimizer: str | None = option(
        "--optimizer",
        type=click.Choice(list(LEARNING_RATES)),
        help="Optimizer [adamw].",
    )
    learning_rate: float | None = option(
        "--learning-rate",
        type=RealNumber(0, 1e3),
        metavar="RATE",
        help=f"Learning rate [{', '.join(f'{k}: {v:g}' for k, v in LEARNING_RATES.items())}].",
    )
    balance_loss: float | None = option(
        "--balance-loss",
        type=RealNumber(0, 1e3),
        metavar="WEIGHT",
        help=f"Weight of the auxiliary loss that balances experts, 0 for none "
        f"[{USUAL_BALANCE_WEIGHT:g} for models with experts].",
    )
    compiled: bool = option(
        "--compile",
        default=False,
        is_flag=True,
        help="Compile the model with torch.compile; compilation is part of the warm-up.",
    )


@dataclass
class TrainFlags(groups.StepOptions, TrainingOptions, groups.ModuleOptions):
    """The options of ``cclmark train``."""

    examples: ClassVar = [
        ("cclmark train", "gpt2 with DDP on all accelerators."),
        (
            "cclmark train --model tiny --devices host:2 --sequence 16 -n 2 -w 1",
            "A tiny model on two ranks of the host.",
        ),
        (
            "cclmark train --model gpt2-medium --parallel fsdp --dtype mixed "
            "--vary NCCL_PROTO=Simple",
            "Sharded parameters, with a setting of NCCL against the default.",
        ),
        (
            "cclmark train --model tiny --devices host:4 --layout tp=2,dp=2 --global-batch 8 "
            "--micro-batch 2 --sequence 16 -n 2 -w 1",
            "Two kinds of parallelism, and gradients of two microbatches.",
        ),
    ]

    about: ClassVar = (
        "Reports tokens/s, MFU, compute, exposed and hidden communication, and the loss."
    )
    usual: ClassVar = (
        *("model", "parallel", "layout", "batch", "sequence", "dtype", "count", "devices", "ccl"),
        *("vary", "steps", "dry_run", "format"),
    )

    artifacts: list[str] = option(
        "--artifact",
        title=OPERATION,
        multiple=True,
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="An environment file, for example the environment.sh of cclmark tune: its variables "
        "are compared with the default; may be repeated.",
    )
    ccl: list[str] = changed(
        groups.StepOptions,
        "ccl",
        type=Parsed(_backends),
        help="Backends of torch.distributed, with commas; torch:nccl, torch:gloo, torch:flagcx, …; "
        "the first one is the default, with which the others are compared [torch:nccl; host: "
        "torch:gloo].",
    )
    check: int = changed(
        groups.StepOptions,
        "check",
        help="1: compare parameters that several ranks hold after the training [1].",
    )
    max_time_s: float = changed(
        groups.SamplingOptions,
        "max_time_s",
        20.0,
        help="Maximum time for timing steps of a variant [20].",
    )
    peak_teraflops: float | None = option(
        "--peak",
        title=METHOD,
        type=RealNumber(0, 1e6, above=True),
        metavar="TFLOPS",
        help="Peak rate of a device for the MFU, in 10^12 operations per second [the dense "
        "bfloat16 peak of its datasheet].",
    )
    timeout_s: float = changed(
        groups.TimeoutOptions,
        "timeout_s",
        help="Maximum time for one phase, for example the first step, before the run is ended; "
        "later phases are also allowed the time of their steps [60].",
    )
    seed: int = changed(
        groups.SeedOptions, "seed", help="Seed of the tokens and the initial parameters [1]."
    )
    inject: list[str] = changed(
        groups.FaultOptions,
        "inject",
        help="A fault to inject, to verify its detection: corrupt:rank=1,index=5 (an element of "
        "the first parameter) or delay:rank=1,ms=50 (before each step).",
    )
