"""The formats that can be imported. To add one: a file with its reader, and a line here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from cclmark.errors import UsageError
from cclmark.importing.assemble import assemble
from cclmark.importing.cclmark_json import is_cclmark_json, read_cclmark_json
from cclmark.importing.cleaned_text import Text, TextLine, decode
from cclmark.importing.cuda_p2p_text import is_cuda_p2p, read_cuda_p2p
from cclmark.importing.deepep_text import is_deepep, read_deepep
from cclmark.importing.flagcx_text import is_flagcx, read_flagcx
from cclmark.importing.hccl_text import is_hccl, read_hccl
from cclmark.importing.header import Given, Origin
from cclmark.importing.imb_text import is_imb, read_imb
from cclmark.importing.latency_comp import is_latency_comp, read_latency_comp
from cclmark.importing.ml_engineering import is_ml_engineering, read_ml_engineering
from cclmark.importing.mscclpp_lines import is_mscclpp, read_mscclpp
from cclmark.importing.nccl_tests_json import is_nccl_tests_json, read_nccl_tests_json
from cclmark.importing.nccl_tests_text import is_nccl_tests, read_nccl_tests
from cclmark.importing.nccom_json import is_nccom_json, read_nccom_json
from cclmark.importing.nccom_text import is_nccom, read_nccom
from cclmark.importing.nixlbench_text import is_nixlbench, read_nixlbench
from cclmark.importing.nvbandwidth_json import is_nvbandwidth_json, read_nvbandwidth_json
from cclmark.importing.nvbandwidth_text import is_nvbandwidth, read_nvbandwidth
from cclmark.importing.object_comp import is_object_comp, read_object_comp
from cclmark.importing.osu_text import is_osu, read_osu
from cclmark.importing.pccl_text import is_pccl, read_pccl
from cclmark.importing.perftest_json import is_perftest_json, read_perftest_json
from cclmark.importing.perftest_text import is_perftest, read_perftest
from cclmark.importing.run import ForeignRun
from cclmark.importing.superbench import (
    is_superbench,
    is_superbench_copies,
    read_superbench,
    read_superbench_copies,
)
from cclmark.importing.traces import TRACE_IMPORTERS
from cclmark.importing.ucc_text import is_ucc, read_ucc
from cclmark.importing.ucx_text import is_ucx, read_ucx
from cclmark.results.journal import Journal

_JOURNAL = b'{"type":"header"'
_HEAD_LINES = 5  # one of which contains the version in cclmark's own table
_OWN = re.compile(r"cclmark \d")


@dataclass(frozen=True)
class Importer:
    """A format. ``finds``: returns the first line that identifies the format, if any.

    ``read`` raises UsageError for a text that it cannot read.
    """

    finds: Callable[[Text, list[TextLine]], int | None]
    read: Callable[[Text], ForeignRun | Journal]


def _by_lines(
    finds: Callable[[list[TextLine]], int | None],
) -> Callable[[Text, list[TextLine]], int | None]:
    return lambda text, lines: finds(lines)


def _as_a_whole(fits: Callable[[Text], bool]) -> Callable[[Text, list[TextLine]], int | None]:
    return lambda text, lines: 1 if fits(text) else None


IMPORTERS: dict[str, Importer] = {
    "cclmark-json": Importer(_as_a_whole(is_cclmark_json), read_cclmark_json),
    "nccl-tests-json": Importer(_as_a_whole(is_nccl_tests_json), read_nccl_tests_json),
    "nvbandwidth-json": Importer(_as_a_whole(is_nvbandwidth_json), read_nvbandwidth_json),
    "nccom-test-json": Importer(_as_a_whole(is_nccom_json), read_nccom_json),
    "perftest-json": Importer(_as_a_whole(is_perftest_json), read_perftest_json),
    "nccl-tests": Importer(_by_lines(is_nccl_tests), read_nccl_tests),
    "flagcx": Importer(_by_lines(is_flagcx), read_flagcx),
    "hccl": Importer(_by_lines(is_hccl), read_hccl),
    "ml-engineering": Importer(_by_lines(is_ml_engineering), read_ml_engineering),
    "all-reduce-latency-comp": Importer(_by_lines(is_latency_comp), read_latency_comp),
    "all-gather-object": Importer(_by_lines(is_object_comp), read_object_comp),
    "nvbandwidth": Importer(_by_lines(is_nvbandwidth), read_nvbandwidth),
    "cuda-samples": Importer(_by_lines(is_cuda_p2p), read_cuda_p2p),
    "pccl": Importer(_by_lines(is_pccl), read_pccl),
    "osu": Importer(_by_lines(is_osu), read_osu),
    "imb": Importer(_by_lines(is_imb), read_imb),
    "perftest": Importer(_by_lines(is_perftest), read_perftest),
    "nccom-test": Importer(_by_lines(is_nccom), read_nccom),
    "mscclpp": Importer(_by_lines(is_mscclpp), read_mscclpp),
    "ucc": Importer(_by_lines(is_ucc), read_ucc),
    "ucx": Importer(_by_lines(is_ucx), read_ucx),
    "nixlbench": Importer(_by_lines(is_nixlbench), read_nixlbench),
    "deepep": Importer(_by_lines(is_deepep), read_deepep),
    "superbench": Importer(_by_lines(is_superbench), read_superbench),
    "superbench-copies": Importer(_by_lines(is_superbench_copies), read_superbench_copies),
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
