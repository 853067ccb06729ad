"""Launches of copies that are not held: ``scenarios/copies.txt`` has what else is copied."""

import os
import re

import pytest
from vendors import CNCL, MACA, MUSA, RCCL

from fake_libraries import fake_library

COPIES = ("p2p", "-b", "64K", "-t", "CE", "--max-time", "0.02")


@pytest.mark.parametrize("copy_us", [0, 2000])
def test_launches_bound_the_time_of_copies_that_are_not_held(cclmark, copy_us) -> None:
    only = ("-p", "uniBw", "-j", "1", "-r", "20", "--gate", "events")
    env = MACA.env(CCLMARK_FAKE_COPY_US=str(copy_us))
    run = cclmark(*COPIES, "--devices", "maca:0-1", *only, env=env)
    [found] = run.journal.transfers
    summary = found.summary
    if copy_us:
        # A launch takes microseconds: it is hidden behind the copy before.
        assert summary.launch_s < 0.1 * summary.time_s
    assert summary.time_s >= copy_us * 1e-6
    if not copy_us:
        assert "launches are at most" in run.out
        assert "≥: a bound" in run.out
        table = run.out.partition("all matrices in a line each")[2]
        assert re.search(r"\n  Unidirectional, .+ ≥\S+ GB/s +≥\S+ \(DEV0, DEV1\)", table)


# What a vendor's program prints of the first three of its devices, and the limits of links from
# device 0 to the others, in GB/s: from the vendor's library, or, of AMD, from the same program.
PROGRAMS = {
    MACA: ("mx-smi", "GPU", ("MX", "MX", "MX"), "topo", (2 * 64, 64)),
    MUSA: ("mthreads-gmi", "GPU", ("MT2", "SYS", "MT1"), "topo", (2 * 28, 0)),
    CNCL: ("cnmon", "MLU", ("MLK", "SYS", "MLK"), "topo", (2 * 25, 0)),
    RCCL: ("rocm-smi", "GPU", ("XGMI", "XGMI", "XGMI"), "--showtopotype", (200, 50)),
}
ROCM_BANDWIDTHS = ("50000-200000", "50000-50000", "0-0")


def matrix(label: str, signs: tuple[str, str, str]) -> str:
    """The matrix of three devices. ``signs``: of the pairs 0-1, 0-2 and 1-2."""
    near, far, last = signs
    rows = [("X", near, far), (near, "X", last), (far, last, "X")]
    heads = [f"{label}{place}" for place in range(3)]
    lines = [
        " ".join(heads),
        *(" ".join([head, *row]) for head, row in zip(heads, rows, strict=True)),
    ]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("vendor", "fault"),
    [
        *((vendor, "") for vendor in PROGRAMS),
        *((MACA, fault) for fault in ("absent", "crash", "hang")),
    ],
    ids=lambda it: it if isinstance(it, str) else it.ccl,
)
def test_shares_of_links_by_the_vendors_library(cclmark, tmp_path, vendor, fault) -> None:
    name, label, signs, argument, limits = PROGRAMS[vendor]
    (tmp_path / argument).write_text(matrix(label, signs))
    if not fault:
        (tmp_path / "--shownodesbw").write_text(matrix(label, ROCM_BANDWIDTHS))
    (tmp_path / name).write_text(f'#!/bin/sh\nexec cat "{tmp_path}/$1"\n')
    (tmp_path / name).chmod(0o755)
    libraries = fake_library("links/libmxsml.so").parent if fault != "absent" else tmp_path
    env = vendor.env(
        PATH=f"{tmp_path}:{os.environ['PATH']}",
        LD_LIBRARY_PATH=f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        CCLMARK_FAKE_LINKS=fault,
    )
    only = ("-p", "uniBw", "-j", "1", "--display-ur", "1")
    run = cclmark(*COPIES, *only, "--devices", vendor.devices(3), env=env)
    found = {(one.first, one.second): one for one in run.journal.header.relations}
    assert (found[0, 1].kind, found[0, 2].kind) == signs[:2]
    assert all(one.hops for one in found.values())  # copies reach all of them
    expected = (0, 0) if fault else limits
    for pairs in ([(0, 1), (0, 2)], [(1, 0), (2, 0)]):
        assert tuple(found[pair].limit_bytes_per_s / 1e9 for pair in pairs) == expected
    assert ("link limit of a pair" in run.out) == (not fault)
