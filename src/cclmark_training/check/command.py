"""``cclmark torch check``: every operation of a backend of torch.distributed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cclmark.base.errors import UsageError
from cclmark.options import groups
from cclmark.options.command import OPERATION, OUTPUT, flag, option
from cclmark.options.types import Parsed, WholeNumber


def _one_backend(backend: str) -> str:
    """Returns the name of a backend. Raises UsageError for several."""
    names = [part.strip().rpartition(":")[2] for part in backend.split(",")]  # cpu:gloo,cuda:nccl
    names = [*dict.fromkeys(filter(None, names))]
    if "," in backend:
        runs = " and then with ".join(f"--backend {name}" for name in names)
        raise UsageError(
            f"{backend!r}: one backend is allowed at a time"
            + (f": run the command with {runs}" if runs else "")
        )
    return backend


CCL_OF_TORCH = (
    "The backend of torch.distributed is --backend NAME. cclmark all_reduce --ccl torch:NAME,nccl "
    "measures it beside other libraries."
)


@dataclass
class BackendOptions:
    """The backend of torch.distributed."""

    title: ClassVar[str] = OPERATION

    backend: str = option(
        "--backend",
        default="",
        type=Parsed(_one_backend),
        metavar="NAME",
        help="gloo, nccl, flagcx, ucc, mpi or any registered backend [by device: nccl, hccl, mccl, "
        "…; gloo on the host].",
    )


def _checks(text: str) -> list[str]:
    from cclmark_training.check.plan import checks_called

    return checks_called(text)


@dataclass
class TorchFlags(
    BackendOptions,
    groups.ModuleOptions,
    groups.DeviceOptions,
    groups.TimeoutOptions,
    groups.FaultOptions,
    groups.FormatOptions,
    groups.ColumnOptions,
    groups.FileOptions,
):
    """The options of ``cclmark torch check``."""

    examples: ClassVar = [
        (
            "cclmark torch check",
            "Every operation of the devices' backend (nccl, hccl, mccl, …), of gloo on the host.",
        ),
        (
            "cclmark torch check --backend gloo --devices host:2 --only broadcast,barrier",
            "Two operations of gloo, between two ranks of the host.",
        ),
        (
            "cclmark torch check --devices host:2 --only random --seed 7 --values",
            "Tensors of random values before and after reductions, on every rank.",
        ),
    ]

    usual: ClassVar = (
        *("only", "backend", "count", "devices", "values", "seed", "modules", "format", "output"),
        *("journal", "timeout_s", "inject"),
    )
    elsewhere: ClassVar = {
        "--ccl": CCL_OF_TORCH,
        **dict.fromkeys(
            ("-b", "--begin", "-e", "--end", "-f", "--factor", "-d", "--dtype", "-o", "--op"),
            "cclmark torch check calls each operation once, with tensors of fixed sizes: cclmark "
            "all_reduce --ccl torch:NAME has this option.",
        ),
    }
    only: list[str] = option(
        "--only",
        title=OPERATION,
        default=[],
        type=Parsed(_checks),
        metavar="A,B",
        help="Only these checks; a part selects all checks that begin with it [all].",
    )
    values: bool = flag(
        "--values",
        title=OUTPUT,
        help="The tensors before and after each operation on every rank, long ones by their ends.",
    )
    seed: int | None = option(
        "--seed",
        title=OPERATION,
        default=None,
        type=WholeNumber(1, 2**32 - 1),
        help="Seed of random values, which are checked too, as with --only random [1].",
    )
