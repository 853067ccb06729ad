"""Fake libraries of vendors and the devices that they work on."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cclmark import __version__
from fake_libraries import fake_library


@dataclass(frozen=True)
class Vendor:
    """A fake library, the fake runtime that it works on, and what it supports."""

    ccl: str
    runtime: str
    directory: str
    ccl_file: str
    runtime_file: str
    version: str
    id_bytes: int = 128
    flags: tuple[str, ...] = ()
    runtime_name: str = ""  # in the variable, where it is not that of the runtime

    @property
    def ccl_variable(self) -> str:
        return f"CCLMARK_{self.ccl.upper().replace('-', '_')}_LIBRARY"

    @property
    def runtime_variable(self) -> str:
        return f"CCLMARK_{(self.runtime_name or self.runtime).upper()}_LIBRARY"

    def file(self, variant: str = "") -> Path:
        """The library; ``variant``: "old" has no optional functions, "bare" lacks others too."""
        return fake_library(f"{self.directory}/{self.ccl_file}").parent / variant / self.ccl_file

    def env(self, variant: str = "", ccl: Path | None = None, **extra: str) -> dict[str, str]:
        """The environment in which both are found."""
        file = ccl or self.file(variant)
        found = {self.ccl_variable: str(file)}
        if self.runtime_file:
            found[self.runtime_variable] = str(self.file().parent / self.runtime_file)
        return found | extra

    def devices(self, ranks: int) -> str:
        return f"host:{ranks}" if self.runtime == "host" else f"{self.runtime}:0-{ranks - 1}"


RCCL = Vendor("rccl", "hip", "hip", "librccl.so.1", "libamdhip64.so.6", "2.28.3")
MACA = Vendor("maca-mccl", "maca", "maca", "libmccl.so", "libmcruntime.so", "2.16.5")
MUSA = Vendor("musa-mccl", "musa", "musa", "libmccl.so.2", "libmusart.so", "2.11.4")
ECCL = Vendor("eccl", "tops", "tops", "libeccl.so", "libtopsrt.so", "3.1.0")
SHIM, DUCCL, PCCL = (
    Vendor(name, "cudart", "cudart", "libnccl.so", "libcudart.so", "2.18.5")
    for name in ("ixccl", "duccl", "pccl")
)
SUNRISE = Vendor(
    *("sunrise-pccl", "tang", "tang", "libpccl.so", "libtangrt_shared.so", "1.1.0"),
    flags=("--allow-unverified",),
)
# Libraries whose interface is not NCCL's.
CNCL = Vendor("cncl", "cnrt", "cnrt", "libcncl.so", "libcnrt.so", "1.25.0", 136)
BKCL = Vendor(
    *("bkcl", "cudart", "cudart", "libbkcl.so", "libcudart.so", "unknown"),
    *(4096, ("--allow-unverified",)),
)
ONECCL = Vendor("oneccl", "host", "host", "libccl.so.2", "", "2022.2.0", 4096)
HCCL = Vendor(
    *("hccl", "acl", ".", "libhccl.so", "libascendcl.so", "8.2.RC1", 4108), runtime_name="ascendcl"
)
VENDORS = (RCCL, MACA, MUSA, ECCL, SHIM, DUCCL, PCCL, CNCL, BKCL, ONECCL)
# One of each build of the fakes: the vendors of the shim differ in their names.
SHAPES = tuple(vendor for vendor in VENDORS if vendor not in (DUCCL, PCCL))


def by_name(vendor: Vendor) -> str:
    return vendor.ccl


def outcomes(run) -> str:
    """The devices and libraries of a run, and what became of its cases: those alike together."""
    text = "".join(f"{line}\n" for line in _outcomes(run.journal))
    return re.sub(r"(?<=\s)/\S+/", "", text).replace(f" {__version__} ", " VERSION ")


def _outcomes(journal) -> Iterator[str]:
    for one in journal.header.devices:
        of = "" if one.runtime == "host" else f" {one.name} by {Path(one.runtime_path).name}"
        yield f"{one.runtime}:{one.index}{of}"
    for one in journal.header.libraries:
        yield f"{one.name} {one.version} by {Path(one.path).name}"
    found = defaultdict(lambda: defaultdict(set))
    for one in journal.results:
        case = one.case
        how = f"{one.status}: {', '.join(filter(None, (one.route, one.reason)))}"
        if one.verification:
            how += f", checked on the {one.verification.where}, {one.verification.wrong} wrong"
        if one.samples and any(None in row for row in one.samples.device_s):
            how += ", without device times"
        root = "" if case.root is None else f"root {case.root}"
        pair = "" if case.pair is None else f"of {case.pair}"
        words = " ".join(filter(None, (case.reduction, root, pair, case.placement)))
        found[how][f"{case.operation} {case.dtype}"].add(words)
    for how, cases in sorted(found.items()):
        yield how
        yield from sorted(f"  {case}: {', '.join(sorted(words))}" for case, words in cases.items())
