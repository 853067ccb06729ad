"""The formats that can be imported. To add one: a file with its reader, and a line here."""

from __future__ import annotations

import re

from cclmark.errors import UsageError
from cclmark.importing.assemble import assemble
from cclmark.importing.cclmark_output import CCLMARK_JSON
from cclmark.importing.cleaned_text import Text, decode
from cclmark.importing.cuda_p2p import CUDA_SAMPLES
from cclmark.importing.deepep import DEEPEP
from cclmark.importing.hccl_flagcx import FLAGCX, HCCL
from cclmark.importing.json_lines import MSCCLPP, SUPERBENCH, SUPERBENCH_COPIES
from cclmark.importing.line_reader import Importer
from cclmark.importing.ml_engineering import ALL_GATHER_OBJECT, ALL_REDUCE_BENCH, ALL_REDUCE_LATENCY
from cclmark.importing.mpi_tables import IMB, OSU, UCC
from cclmark.importing.nccl_tests_json import NCCL_TESTS_JSON
from cclmark.importing.nccl_tests_text import NCCL_TESTS
from cclmark.importing.nccom import NCCOM, NCCOM_JSON
from cclmark.importing.nvbandwidth import NVBANDWIDTH, NVBANDWIDTH_JSON
from cclmark.importing.pccl import PCCL
from cclmark.importing.perftest import PERFTEST, PERFTEST_JSON
from cclmark.importing.run import Given, Origin
from cclmark.importing.traces import TRACE_IMPORTERS
from cclmark.importing.transports import NIXLBENCH, UCX
from cclmark.results.journal import Journal

_JOURNAL = b'{"type":"header"'
_HEAD_LINES = 5  # one of which contains the version in cclmark's own table
_OWN = re.compile(r"cclmark \d")


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


def import_text(
    content: bytes, name: str, format: str | None, given: Given, origin: Origin
) -> tuple[str, Journal]:
    """Returns the format of a file and its journal; ``format`` None: detect it.

    Raises UsageError for a text of no format, of several, or one that cannot be read.
    """
    if content.startswith(_JOURNAL):
        raise UsageError(f"{name} is already a journal of cclmark: no import is required")
    text = decode(content, name)
    chosen = format or _recognised(text)
    found = IMPORTERS[chosen].read(text)
    if isinstance(found, Journal):
        return chosen, found
    return chosen, assemble(found, text, chosen, given, origin)


def _recognised(text: Text) -> str:
    lines = text.lines()
    found = {
        name: line
        for name, importer in IMPORTERS.items()
        if (line := importer.finds(text, lines)) is not None
    }
    whole = [name for name in found if name.endswith("json")]
    if whole:
        return whole[0]
    if not found:
        if any(_OWN.match(line.text) for line in lines[:_HEAD_LINES]):
            raise UsageError(f"{text.name} is output of cclmark: use the journal of this run")
        raise UsageError(
            f"{text.name} contains no table of a supported tool ({', '.join(IMPORTERS)}) and is no "
            f"trace of a program ({', '.join(TRACE_IMPORTERS)}). Check the file, or set the tool "
            "with --format"
        )
    if len(found) > 1:
        places = " and ".join(f"{name} (line {line})" for name, line in found.items())
        raise UsageError(
            f"{text.name} contains {places}: import them one by one with --format NAME"
        )
    return next(iter(found))
