"""Copies between devices of vendors whose streams are held in other ways, or not at all."""

import os
import re

import pytest
from vendors import CNCL, ECCL, HCCL, MACA, MUSA, RCCL, SHIM, SUNRISE, by_name

from fake_libraries import fake_library

COPIES = ("p2p", "-b", "64K", "-t", "CE", "--max-time", "0.02")
COPY_US = 2000


def copies(cclmark, vendor, *arguments, code=0, **settings):
    """Copies between two devices of a vendor. ``settings``: of the fake."""
    env = vendor.env(**{f"CCLMARK_FAKE_{name}": value for name, value in settings.items()})
    return cclmark(*COPIES, "--devices", vendor.devices(2), *arguments, env=env, code=code)


def said(run) -> str:
    """What the run says, its notices in the head or on standard error."""
    return " ".join((run.out + run.err).split())


@pytest.mark.parametrize("vendor", [CNCL, ECCL, MACA, MUSA, SHIM, SUNRISE, HCCL], ids=by_name)
def test_functions_of_the_host_hold_streams(cclmark, vendor) -> None:
    run = copies(cclmark, vendor)
    found = run.journal.transfers
    assert len(found) == 6
    assert {(one.status, one.gate, one.by_host) for one in found} == {
        ("ok", "host-function", vendor is MUSA)
    }
    assert all(one.summary.launch_s == 0 and one.verification.wrong == 0 for one in found)
    assert "host functions held the streams" in run.out
    assert "host functions hold the streams of copies: " in said(run)
    assert ("times by the host's clock instead" in run.out) == (vendor is MUSA)


@pytest.mark.parametrize(
    ("vendor", "how", "reason"),
    [
        (SHIM, "none", "cudaLaunchHostFunc failed"),
        (HCCL, "none", "aclrtLaunchHostFunc failed"),
        (MACA, "inline", "a host function does not hold streams of maca"),
        (ECCL, "beside", "a host function does not hold streams of tops"),
    ],
)
def test_copies_between_events_where_no_stream_can_be_held(cclmark, vendor, how, reason) -> None:
    run = copies(cclmark, vendor, HOST_FUNCTIONS=how)
    found = run.journal.transfers
    assert {(one.status, one.gate) for one in found} == {("ok", "events")}
    assert all(0 <= one.summary.launch_s <= one.summary.time_s for one in found)
    assert reason in said(run)
    assert "streams were not held: launches are at most " in run.out


def test_a_copy_that_waits_in_its_call_for_a_held_stream_is_not_held(cclmark) -> None:
    """The host function gives up, and the copies are measured again without it."""
    only = ("-p", "uniBw", "-j", "1", "--timeout", "2")
    [found] = copies(cclmark, SHIM, *only, HOST_FUNCTIONS="blocking").journal.transfers
    assert (found.status, found.gate) == ("ok", "events")


@pytest.mark.parametrize("copy_us", [0, COPY_US])
def test_launches_bound_the_time_of_copies_that_are_not_held(cclmark, copy_us) -> None:
    only = ("-p", "uniBw", "-j", "1", "-r", "20", "--gate", "events")
    run = copies(cclmark, MACA, *only, COPY_US=str(copy_us))
    [found] = run.journal.transfers
    summary = found.summary
    if copy_us:
        # A launch takes microseconds: it is hidden behind the copy before.
        assert summary.launch_s < 0.1 * summary.time_s
    least_s = min(
        one - other
        for rows in zip(found.samples.device_s, found.samples.launch_s, strict=True)
        for one, other in zip(*rows, strict=True)
    )
    assert summary.time_s >= copy_us * 1e-6
    assert least_s <= summary.time_s
    assert run.journal.header.settings.gate == "events"
    if not copy_us:
        assert "launches are at most" in run.out
        assert "≥: a bound" in run.out
        table = run.out.partition("all matrices in a line each")[2]
        assert re.search(r"\n  Unidirectional .+ ≥\S+ GB/s +≥\S+ \(DEV0, DEV1\)", table)


@pytest.mark.parametrize("gate", ["host-function", "events"])
@pytest.mark.parametrize("processes", ["0", "1"], ids=["one process", "a process each"])
def test_wrong_data_is_found_behind_every_gate(cclmark, gate, processes) -> None:
    fault = ("--inject", "corrupt:pair=1-0,index=77")
    arguments = ("--gate", gate, "-p", "biBw", "-m", processes)
    run = copies(cclmark, MACA, *arguments, *fault, code=1)
    found = [(one.status, one.gate) for one in run.journal.transfers]
    assert ("wrong", gate if gate != "stream-wait" else "") in found


def test_a_gate_that_does_not_work_is_refused(cclmark) -> None:
    run = copies(cclmark, MACA, "--gate", "stream-wait", code=3)
    assert "--gate stream-wait: this runtime has no mcStreamWaitValue32" in run.err


def test_the_host_needs_no_gate(cclmark) -> None:
    run = cclmark(*COPIES, "--devices", "host:2", "--gate", "events", "-p", "uniBw")
    assert "--gate is ignored" in run.err
    assert {one.gate for one in run.journal.transfers} == {""}


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


@pytest.mark.parametrize("vendor", PROGRAMS, ids=by_name)
@pytest.mark.parametrize("has_library", [True, False], ids=["with library", "without"])
def test_shares_of_links_by_the_vendors_library(cclmark, tmp_path, vendor, has_library) -> None:
    name, label, signs, argument, limits = PROGRAMS[vendor]
    (tmp_path / argument).write_text(matrix(label, signs))
    if has_library:
        (tmp_path / "--shownodesbw").write_text(matrix(label, ROCM_BANDWIDTHS))
    (tmp_path / name).write_text(f'#!/bin/sh\nexec cat "{tmp_path}/$1"\n')
    (tmp_path / name).chmod(0o755)
    libraries = fake_library("links/libmxsml.so").parent if has_library else tmp_path
    env = vendor.env(
        PATH=f"{tmp_path}:{os.environ['PATH']}",
        LD_LIBRARY_PATH=f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}",
    )
    only = ("-p", "uniBw", "-j", "1", "--display-ur", "1")
    run = cclmark(*COPIES, *only, "--devices", vendor.devices(3), env=env)
    found = {(one.first, one.second): one for one in run.journal.header.relations}
    assert (found[0, 1].kind, found[0, 2].kind) == signs[:2]
    expected = limits if has_library else (0, 0)
    assert tuple(found[0, to].limit_bytes_per_s / 1e9 for to in (1, 2)) == expected
    assert ("link limit of a pair" in run.out) == has_library
