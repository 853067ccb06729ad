"""``cclmark import``: converts results of other tools into journals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.command import INPUT, OPERATION, OUTPUT, WHERE, argument, option
from cclmark.options.types import PATH, Size, WholeNumber
from cclmark.work.operations import COLLECTIVES, DTYPE_BYTES, REDUCTIONS, moves_data

_FORMATS = (
    *("auto", "nccl-tests", "nccl-tests-json", "flagcx", "hccl", "ml-engineering"),
    *("cclmark-json", "kineto", "execution-trace", "nccl-inspector", "msprof"),
)
_OTHER_BENCHMARKS = (
    *("nvbandwidth", "nvbandwidth-json", "cuda-samples", "pccl", "osu", "imb", "perftest"),
    *("all-reduce-latency-comp", "all-gather-object", "nccom-test", "mscclpp", "ucc"),
    *("ucx", "superbench", "superbench-copies", "deepep", "nixlbench", "perftest-json"),
    *("nccom-test-json",),
)


@dataclass
class ImportFlags:
    """The options of ``cclmark import``."""

    title: ClassVar[str] = OPERATION
    examples: ClassVar = [
        ("cclmark import all_reduce_perf.txt", "The output of nccl-tests, in cclmark-runs/."),
        (
            "cclmark import loop.log --directory runs",
            "A log of several runs: a journal for each.",
        ),
        (
            "cclmark import --format kineto rank0.json rank1.json -o job.jsonl",
            "Traces of torch.profiler as one profile.",
        ),
    ]
    about: ClassVar = (
        "FILE: output of nvbandwidth (text or -j), "
        "p2pBandwidthLatencyTest (of the CUDA samples or of PCCL), the OSU micro-benchmarks, the "
        "Intel MPI Benchmarks, perftest (ib_write_bw and others), ucc_perftest, ucx_perftest, "
        "nccom-test, mscclpp-test (-o), SuperBench (results-summary.jsonl), "
        "DeepEP's tests, nixlbench, "
        "all_reduce_latency_comp.py, all_gather_object_vs_all_reduce.py, "
        "nccl-tests, rccl-tests, hccl_test, "
        "FlagCX's perf programs or all_reduce_bench.py, the JSON of nccl-tests (-J) or of "
        "cclmark, or traces of torch.profiler, execution traces of PyTorch (.json or .json.gz), "
        "timelines of msprof or "
        "logs of NCCL Inspector, one for each rank, which become one profile; - is standard input. "
        "Also PAGE.html, a page of cclmark report, whose journals are written to files, and "
        "PAGE.html#RUN, one of them."
    )

    files: tuple[str, ...] = argument("FILE...", nargs=-1, required=True)
    output: Path | None = option(
        "-o",
        "-O",
        "--journal",
        title=OUTPUT,
        type=PATH,
        metavar="FILE",
        help="Journal to write; it contains the results of all files, which must be of one "
        "tool and the same devices [one journal for each run of each file in cclmark-runs/].",
    )
    directory: Path | None = option(
        "--directory",
        title=OUTPUT,
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Directory of the journals, one for each run [cclmark-runs/].",
    )
    format: str = option(
        "--format",
        title=INPUT,
        type=click.Choice((*_FORMATS, *_OTHER_BENCHMARKS)),
        default="auto",
        help="Format of the files [auto: detected].",
    )
    operation: str | None = option(
        "--operation",
        type=click.Choice([one for one in COLLECTIVES if moves_data(one)]),
        help="Operation, if the text does not contain it.",
    )
    ranks: int | None = option(
        "--ranks",
        title=WHERE,
        type=WholeNumber(1, 1 << 20),
        help="Number of ranks, if the text does not contain it.",
    )
    dtype: str | None = option(
        "--dtype",
        type=click.Choice([*DTYPE_BYTES]),
        metavar="NAME",
        help="Element type, if the text does not contain it.",
    )
    reduction: str | None = option(
        "--reduction",
        type=click.Choice(REDUCTIONS),
        help="Reduction, if the text does not contain it.",
    )
    size: int | None = option(
        "--size",
        type=Size(),
        help="Size of a copy, if the text does not contain it [the tool's default].",
    )
    device: str | None = option(
        "--device", title=WHERE, metavar="NAME", help="Name of the devices."
    )
    hosts: int | None = option(
        "--hosts",
        title=WHERE,
        type=WholeNumber(1, 1 << 20),
        help="Number of hosts, if the text does not contain it.",
    )
    ccl: str | None = option(
        "--ccl",
        title=WHERE,
        metavar="NAME",
        help="Library that was measured [the tool's own library].",
    )
