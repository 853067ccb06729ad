"""``cclmark import``: converts results of other tools into journals."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.options.printed_help import SaysHelp
from cclmark.options.types import Size, WholeNumber
from cclmark.plan.operations import COLLECTIVES, DTYPE_BYTES, REDUCTIONS, moves_data

_FORMATS = (
    *("auto", "nccl-tests", "nccl-tests-json", "flagcx", "hccl", "ml-engineering"),
    *("cclmark-json", "kineto", "execution-trace", "nccl-inspector"),
)
_OTHER_BENCHMARKS = (
    *("nvbandwidth", "nvbandwidth-json", "cuda-samples", "pccl", "osu", "imb", "perftest"),
    *("all-reduce-latency-comp", "all-gather-object", "nccom-test", "mscclpp", "ucc"),
    *("ucx", "superbench", "superbench-copies", "deepep", "nixlbench", "perftest-json"),
    *("nccom-test-json",),
)

_EXAMPLES = [
    ("cclmark import all_reduce_perf.txt", "The output of nccl-tests, in cclmark-runs/."),
    (
        "cclmark import --format kineto rank0.json rank1.json -o job.jsonl",
        "Traces of torch.profiler as one profile.",
    ),
]


def import_command(name: str, summary: str) -> click.Command:
    """Returns the command."""
    return SaysHelp(
        name,
        params=[
            click.Argument(["files"], nargs=-1, required=True, metavar="FILE..."),
            click.Option(
                ["-o", "--journal", "output"],
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Journal to write; it contains the results of all files, which must be of one "
                "tool and the same devices [one journal for each file in cclmark-runs/].",
            ),
            click.Option(
                ["--format"],
                type=click.Choice((*_FORMATS, *_OTHER_BENCHMARKS)),
                default="auto",
                help="Format of the files [auto: detected].",
            ),
            click.Option(
                ["--operation"],
                type=click.Choice([one for one in COLLECTIVES if moves_data(one)]),
                help="Operation, if the text does not contain it.",
            ),
            click.Option(
                ["--ranks"],
                type=WholeNumber(1, 1 << 20),
                metavar="N",
                help="Number of ranks, if the text does not contain it.",
            ),
            click.Option(
                ["--dtype"],
                type=click.Choice([*DTYPE_BYTES]),
                metavar="NAME",
                help="Element type, if the text does not contain it.",
            ),
            click.Option(
                ["--reduction"],
                type=click.Choice(REDUCTIONS),
                help="Reduction, if the text does not contain it.",
            ),
            click.Option(
                ["--size"],
                type=Size(),
                metavar="SIZE",
                help="Size of a copy, if the text does not contain it [the tool's default].",
            ),
            click.Option(["--device"], metavar="NAME", help="Name of the devices."),
            click.Option(
                ["--hosts"],
                type=WholeNumber(1, 1 << 20),
                metavar="N",
                help="Number of hosts, if the text does not contain it.",
            ),
            click.Option(
                ["--ccl"],
                metavar="NAME",
                help="Library that was measured [the tool's own library].",
            ),
        ],
        callback=_import,
        examples=_EXAMPLES,
        help=f"{summary}\n\nFILE: output of nvbandwidth (text or -j), "
        "p2pBandwidthLatencyTest (of the CUDA samples or of PCCL), the OSU micro-benchmarks, the "
        "Intel MPI Benchmarks, perftest (ib_write_bw and others), ucc_perftest, ucx_perftest, "
        "nccom-test, mscclpp-test (-o), SuperBench (results-summary.jsonl), "
        "DeepEP's tests, nixlbench, "
        "all_reduce_latency_comp.py, all_gather_object_vs_all_reduce.py, "
        "nccl-tests, rccl-tests, hccl_test, "
        "FlagCX's perf programs or all_reduce_bench.py, the JSON of nccl-tests (-J) or of "
        "cclmark, or traces of torch.profiler, execution traces of PyTorch (.json or .json.gz) or "
        "logs of NCCL Inspector, one for each rank, which become one profile; - is standard input.",
    )


def _import(**options: object) -> None:
    from cclmark.cli.imports.run import import_files

    sys.exit(import_files(**options))  # type: ignore[arg-type]
