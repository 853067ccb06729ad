"""The formats that ``cclmark import`` detects. To add one: a file with its reader, a line here."""

from __future__ import annotations

from cclmark_importers.cclmark_output import CCLMARK_JSON
from cclmark_importers.cuda_p2p import CUDA_SAMPLES
from cclmark_importers.deepep import DEEPEP
from cclmark_importers.execution_trace import is_execution_trace, read_execution_trace
from cclmark_importers.hccl_flagcx import FLAGCX, HCCL
from cclmark_importers.inspector import is_inspector, read_inspector
from cclmark_importers.json_lines import MSCCLPP, SUPERBENCH, SUPERBENCH_COPIES
from cclmark_importers.kineto import is_kineto, read_kineto
from cclmark_importers.line_reader import Importer, TraceImporter
from cclmark_importers.ml_engineering import ALL_GATHER_OBJECT, ALL_REDUCE_BENCH, ALL_REDUCE_LATENCY
from cclmark_importers.mpi_tables import IMB, OSU, UCC
from cclmark_importers.msprof import is_msprof, read_processes
from cclmark_importers.nccl_tests_json import NCCL_TESTS_JSON
from cclmark_importers.nccl_tests_text import NCCL_TESTS
from cclmark_importers.nccom import NCCOM, NCCOM_JSON
from cclmark_importers.nvbandwidth import NVBANDWIDTH, NVBANDWIDTH_JSON
from cclmark_importers.pccl import PCCL
from cclmark_importers.perftest import PERFTEST, PERFTEST_JSON
from cclmark_importers.transports import NIXLBENCH, UCX

#: Texts, each of one run.
IMPORTERS: dict[str, Importer] = {
    "cclmark-json": CCLMARK_JSON,
    "nccl-tests-json": NCCL_TESTS_JSON,
    "nvbandwidth-json": NVBANDWIDTH_JSON,
    "nccom-test-json": NCCOM_JSON,
    "perftest-json": PERFTEST_JSON,
    "nccl-tests": NCCL_TESTS,
    "flagcx": FLAGCX,
    "hccl": HCCL,
    "ml-engineering": ALL_REDUCE_BENCH,
    "all-reduce-latency-comp": ALL_REDUCE_LATENCY,
    "all-gather-object": ALL_GATHER_OBJECT,
    "nvbandwidth": NVBANDWIDTH,
    "cuda-samples": CUDA_SAMPLES,
    "pccl": PCCL,
    "osu": OSU,
    "imb": IMB,
    "perftest": PERFTEST,
    "nccom-test": NCCOM,
    "mscclpp": MSCCLPP,
    "ucc": UCC,
    "ucx": UCX,
    "nixlbench": NIXLBENCH,
    "deepep": DEEPEP,
    "superbench": SUPERBENCH,
    "superbench-copies": SUPERBENCH_COPIES,
}

#: Traces of programs, of which several files are one journal.
TRACE_IMPORTERS = {
    "kineto": TraceImporter(
        "torch.profiler",
        "the time of kernels by the device's clock; for gloo, of calls by the host's",
        is_kineto,
        lambda file, name, number: [read_kineto(file, name, number)],
    ),
    "execution-trace": TraceImporter(
        "ExecutionTraceObserver",
        "none: execution traces have no times",
        is_execution_trace,
        lambda file, name, number: [read_execution_trace(file, name, number)],
    ),
    "msprof": TraceImporter(
        "msprof",
        "the time from the first to the last task by the device's clock",
        is_msprof,
        read_processes,
    ),
    "nccl-inspector": TraceImporter(
        "NCCL Inspector",
        "the time of the slowest channel's kernel by the device's clock, in whole microseconds",
        is_inspector,
        read_inspector,
    ),
}
