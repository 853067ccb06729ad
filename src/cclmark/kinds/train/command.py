"""``cclmark train``: training steps, and what communication costs in them."""

from __future__ import annotations

from dataclasses import dataclass

import click

from cclmark.kinds.train.choices import LEARNING_RATES, MODEL_NAMES, PARALLELISMS
from cclmark.options.flags import METHOD, OPERATION, Action, Flags, changed, command, option
from cclmark.options.numbers import RealNumber, WholeNumber
from cclmark.options.step_options import StepFlags

_SHARED = Flags.__dataclass_fields__
_STEPS = StepFlags.__dataclass_fields__
USUAL_SEQUENCE = 1024
USUAL_BALANCE_WEIGHT = 0.01  # alpha of Switch Transformers, arXiv 2101.03961, section 2.2


@dataclass
class ModelFlags:
    """The training: its model, parallelism and numbers."""

    model: str = option(
        OPERATION,
        "--model",
        default="",
        metavar="NAME",
        help=f"{', '.join(MODEL_NAMES)} [gpt2; host: tiny].",
    )
    layers: int | None = option(
        OPERATION,
        "--layers",
        type=WholeNumber(1, 1000),
        metavar="N",
        help="Another number of layers [the model's].",
    )
    vocabulary: int | None = option(
        OPERATION,
        "--vocabulary",
        type=WholeNumber(2, 1 << 24),
        metavar="N",
        help="Another number of tokens [the model's]; gpt2's 50257 padded to 50304, a multiple of "
        "64, is faster on tensor cores.",
    )
    parallel: str | None = option(
        OPERATION,
        "--parallel",
        type=click.Choice(list(PARALLELISMS)),
        help="none (one rank), ddp, zero1 (ZeroRedundancyOptimizer), fsdp (fully_shard), tp "
        "(tensor), pp (pipeline) or ep (experts) over all ranks [ddp; one rank: none].",
    )
    batch: int = option(
        OPERATION,
        "--batch",
        default=4,
        type=WholeNumber(1, 1 << 20),
        metavar="N",
        help="Sequences of each rank in a step; with tp and pp of all ranks together [4].",
    )
    sequence: int | None = option(
        OPERATION,
        "--sequence",
        type=WholeNumber(2, 1 << 24),
        metavar="N",
        help=f"Tokens of a sequence [{USUAL_SEQUENCE}, or the model's context if it is shorter].",
    )
    microbatches: int | None = option(
        OPERATION,
        "--microbatches",
        type=WholeNumber(1, 4096),
        metavar="N",
        help="pp: parts of the batch that pass the pipeline [one for each sequence of the batch].",
    )
    dtype: str = option(
        OPERATION,
        "--dtype",
        default="",
        metavar="TYPE",
        help="Type of parameters and arithmetic: bfloat16 (bf16), float32 (fp32), or mixed: "
        "float32 parameters, gradients and optimizer state, products of matrices in bfloat16 "
        "(autocast; fsdp: MixedPrecisionPolicy) [bfloat16; host: float32].",
    )
    optimizer: str = option(
        OPERATION,
        "--optimizer",
        default="adamw",
        type=click.Choice(list(LEARNING_RATES)),
        help="Optimizer [adamw].",
    )
    learning_rate: float | None = option(
        OPERATION,
        "--learning-rate",
        type=RealNumber(0, 1e3),
        metavar="RATE",
        help=f"Learning rate [{', '.join(f'{k}: {v:g}' for k, v in LEARNING_RATES.items())}].",
    )
    balance_loss: float | None = option(
        OPERATION,
        "--balance-loss",
        type=RealNumber(0, 1e3),
        metavar="WEIGHT",
        help=f"Weight of the auxiliary loss that balances experts, 0 for none "
        f"[{USUAL_BALANCE_WEIGHT:g} for models with experts].",
    )
    compiled: bool = option(
        OPERATION,
        "--compile",
        default=False,
        is_flag=True,
        help="Compile the model with torch.compile; compilation is part of the warm-up.",
    )


@dataclass
class TrainFlags(StepFlags, ModelFlags):
    """The options of ``cclmark train``."""

    artifacts: list[str] = option(
        OPERATION,
        "--artifact",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="An environment file, for example the environment.sh of cclmark tune: its variables "
        "are compared with the default; may be repeated.",
    )
    ccl: str = changed(
        _STEPS["ccl"],
        help="Backends of torch.distributed, with commas: torch:nccl, torch:gloo, torch:flagcx, …; "
        "the first one is the default, with which the others are compared [torch:nccl; host: "
        "torch:gloo].",
    )
    modules: list[str] = changed(_SHARED["modules"])
    check: int = changed(
        _STEPS["check"],
        help="1: compare parameters that several ranks hold after the training [1].",
    )
    max_time_s: float = changed(
        _STEPS["max_time_s"], 20.0, help="Maximum time for timing steps of a variant [20]."
    )
    peak_teraflops: float | None = option(
        METHOD,
        "--peak",
        type=RealNumber(0, 1e6, above=True),
        metavar="TFLOPS",
        help="Peak rate of a device for the MFU, in 10^12 operations per second [the dense "
        "bfloat16 peak of its datasheet].",
    )
    timeout_s: float = changed(
        _STEPS["timeout_s"],
        help="Maximum time for one phase, for example the first step, before the run is ended; "
        "later phases are also allowed the time of their steps [60].",
    )
    seed: int = changed(_STEPS["seed"], help="Seed of the tokens and the initial parameters [1].")
    inject: list[str] = changed(
        _STEPS["inject"],
        help="A fault to inject, to verify its detection: corrupt:rank=1,index=5 (an element of "
        "the first parameter) or delay:rank=1,ms=50 (before each step).",
    )


def train_command(name: str, run: Action) -> click.Command:
    """Returns the command."""
    return command(
        name,
        "Train a model with torch: tokens/s, MFU, compute, exposed and hidden communication, loss.",
        TrainFlags,
        run,
    )
