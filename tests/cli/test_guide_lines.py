"""Command lines of the guides in docs/from, as they stand, on fakes of the guides' own hardware.

A word is appended to a line only where its messages would take too long here: the last value of an
option counts.
"""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from vendors import HCCL, PCCL

from cclmark.kinds.registry import read_journal
from commands import PROGRAM, environment
from examples import exhaustive
from fake_libraries import fake_library
from patience import scaled
from places import REPOSITORY
from ports import free_port

PCCL_LINE = "p2pBandwidthLatencyTest --num_gpus=8 "
ELEMENTS = "--num_elems=536870912 "
WAYS = ("write", "read")
BANDWIDTHS = [f"--perf={perf} --p2p_direction={way}" for perf in ("uniBw", "biBw") for way in WAYS]
LATENCIES = [f"--perf=latency --p2p_direction={way}" for way in WAYS]
KERNELS = ("cacheCopy", "ncCopy", "bulkCopy")
MEANS = ["--p2p_type=CE", *(f"--p2p_type=SM --kernel={kernel}" for kernel in KERNELS)]
P2P_LINES = [
    f"{PCCL_LINE}{ELEMENTS}--p2p_type=CE --perf=uniBw --p2p_direction=write --display_ur=1",
    *(
        f"{PCCL_LINE}{ELEMENTS if 'Bw' in what else ''}{means} {what}"
        for means in MEANS
        for what in (*BANDWIDTHS, *LATENCIES)
    ),
]


ICN = [[0, 1, 1, 1, 0, 0, 0, 1], [1, 0, 1, 1, 0, 0, 1, 0], [1, 1, 0, 1, 0, 1, 0, 0]]
ICN += [[1, 1, 1, 0, 1, 0, 0, 0], [0, 0, 0, 1, 0, 1, 1, 1], [0, 0, 1, 0, 1, 0, 1, 1]]
ICN += [[0, 1, 0, 0, 1, 1, 0, 1], [1, 0, 0, 0, 1, 1, 1, 0]]  # of the guide's eight PPUs


@pytest.fixture
def ppu_smi(tmp_path) -> Path:
    """A directory with T-Head's program, which prints the guide's topology."""
    names = [f"PPU{number}" for number in range(8)]
    signs = [
        [f"ICN{links}" if links else "X" if one == other else "SYS" for other, links in own]
        for one, own in enumerate([*enumerate(row)] for row in ICN)
    ]
    rows = [" ".join([name, *row, "0-47"]) for name, row in zip(names, signs, strict=True)]
    (tmp_path / "topo").write_text("\n".join([f" {' '.join(names)} CPU Affinity", *rows]))
    (tmp_path / "icn").write_text("PPU 0: PPU (UUID: x)\n    Link 0: 50 GB/s\n")
    program = tmp_path / "bin" / "ppu-smi"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncat {tmp_path}/"$1"\n')
    program.chmod(0o755)
    return program.parent


@pytest.fixture
def ppus(fake_cuda, ppu_smi) -> dict[str, str]:
    """The guide's machine."""
    return PCCL.env(
        CCLMARK_FAKE_DEVICES="8",
        PATH=f"{ppu_smi}:{os.environ['PATH']}",
        CCLMARK_NVRTC_LIBRARY=str(fake_library("rtc/libnvrtc.so")),
        CCLMARK_CACHE_DIR=str(fake_cuda.cache),
    )


# Each value of each option; all of the product with --all.
TRIED = [*P2P_LINES[::5], P2P_LINES[-1]]


@pytest.mark.parametrize(
    "line",
    [line if line in TRIED else exhaustive(line) for line in P2P_LINES],
    ids=lambda it: it.removeprefix(PCCL_LINE),
)
def test_lines_of_the_guide_of_copies(cclmark, ppus, line):
    words = line.split()
    short = ["--num_elems=4096"] if ELEMENTS in line else []
    run = cclmark(*words, *short, env=ppus)
    results = run.journal.transfers
    assert {one.status for one in results} == {"ok"}
    options = dict(word.lstrip("-").partition("=")[::2] for word in words[1:])
    assert {one.transfer.direction for one in results} == {options["p2p_direction"]}
    means = " ".join(filter(None, (options["p2p_type"], options.get("kernel"))))
    assert {one.transfer.means for one in results} == {means}
    unit = "(US)" if options["perf"] == "latency" else "(GB/s)"
    matrices = [block for block in run.out.split("\n(EnabledP2P")[1:] if unit in block]
    assert len(matrices) == (2 if options["perf"] == "latency" else 1)
    for matrix in matrices:
        rows = [row.split() for row in matrix.splitlines() if row.startswith("DEV")]
        assert [len(row) for row in rows] == [9] * 8
        assert not any("/" in cell for row in rows for cell in row)  # n/a
    if "--display_ur=1" in words:
        assert re.search(r"minPath Matrix\n(?:.*\n)*?DEV0 +0 +1 +1 +1 +2 +2 +2 +1 *\n", run.out)
        relations = {(one.first, one.second): one for one in run.journal.header.relations}
        assert (relations[0, 1].kind, relations[0, 1].limit_bytes_per_s) == ("ICN1", 50e9)
        assert relations[0, 4].limit_bytes_per_s == 100e9  # over devices 3 and 7, as in the guide


def test_the_list_of_devices_of_the_guide_is_of_this_machines_accelerators(cclmark, ppus):
    run = cclmark(*PCCL_LINE.split(), "-g", "2", "--dev_list=1,3", "--num_elems=4096", env=ppus)
    assert [(one.runtime, one.index) for one in run.journal.header.devices] == [
        ("cudart", 1),
        ("cudart", 3),
    ]


def test_lines_of_the_page_are_these():
    page = (REPOSITORY / "docs" / "from" / "p2p-matrices.md").read_text()
    listed = re.findall(r"^\| `(--p2p_type=[^`]+)`(?:, `(read)`)? \|", page, re.MULTILINE)
    found = [one for one, _ in listed]
    found += [one.replace("=write", "=read") for one, read in listed if read]
    lines = [one.removeprefix(PCCL_LINE).removeprefix(ELEMENTS) for one in P2P_LINES]
    assert sorted(found) == sorted(lines)


# The guide's machines: two A800, two C550 and two P800, whose runtime has CUDA's interface.
FLAGCX_LINE = "all_reduce -b 128K -e 4G -f 2 -p 1"
FLAGCX_MACHINES = {
    "A800": ("cuda", "NVIDIA", "libflagcx.so", "CCLMARK_CUDA_LIBRARY", "libcuda.so.1"),
    "C550": ("maca", "METAX", "maca/libflagcx.so", "CCLMARK_MACA_LIBRARY", "maca/libmcruntime.so"),
    "P800": (
        *("cudart", "KUNLUNXIN", "cudart/libflagcx.so"),
        *("CCLMARK_CUDART_LIBRARY", "cudart/libcudart.so"),
    ),
}


FLAGCX_WORDS = (*FLAGCX_LINE.split(), "--ccl", "flagcx", "-e", "512K", "-n", "2", "-w", "1")


def on_machine(fake_cuda, machine):
    """The environment of a process on one of them."""
    runtime, vendor, library, variable, file = FLAGCX_MACHINES[machine]
    return (fake_cuda.env() if runtime == "cuda" else {}) | {
        "CCLMARK_FLAGCX_LIBRARY": str(fake_library(library)),
        "CCLMARK_FAKE_FLAGCX_VENDOR": vendor,
        variable: str(fake_library(file)),
    }


@pytest.mark.parametrize("machine", FLAGCX_MACHINES)
def test_the_line_of_the_guide_of_flagcx(cclmark, fake_cuda, machine):
    runtime, *_ = FLAGCX_MACHINES[machine]
    run = cclmark(
        *FLAGCX_WORDS,
        *("--devices", "0-1", "--format", "flagcx", "-g", "2"),
        env=on_machine(fake_cuda, machine),
    )
    sizes = re.findall(r"^Comm size: (\d+) bytes; Elapsed time: ", run.out, re.MULTILINE)
    assert sizes == ["131072", "262144", "524288"]
    assert {one.verification.wrong for one in run.journal.results} == {0}
    assert {device.runtime for device in run.journal.header.devices} == {runtime}


def test_the_line_of_the_guide_of_flagcx_between_two_vendors(fake_cuda, tag, tmp_path):
    """The guide's mpirun starts a process for an A800 and one for a C550, which FlagCX joins."""
    launched = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    launched |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = []
    for rank, machine in enumerate(("A800", "C550")):
        env = on_machine(fake_cuda, machine) | launched
        env |= {"RANK": str(rank), "GROUP_RANK": str(rank)}
        processes.append(
            subprocess.Popen(
                [*PROGRAM, *FLAGCX_WORDS, "-g", "1", "--journal", str(tmp_path / "run.jsonl")],
                env=environment(tag, env),
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    said = [process.communicate(timeout=scaled(60))[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    journal = read_journal(tmp_path / "run.jsonl")
    assert [device.runtime for device in journal.header.devices] == ["cuda", "maca"]
    assert {(one.status, one.verification.wrong) for one in journal.results} == {("ok", 0)}


# Lines of the page for the guide of hccl_test, and what makes their messages short.
HCCL_LINES = {
    "cclmark all_reduce -b 8 -e 2048M -f 2 -p 8": "-e 64 -n 2 -w 1 -p 3",
    "cclmark collectives --only all_gather,alltoall,alltoallv,broadcast,reduce,reduce_scatter "
    "-b 8 -e 2048M -f 2 -p 8": "-e 64 -f 8 -n 2 -w 1 -p 3",
    "cclmark pairs -b 8 -e 2048M -f 2": "-e 16 --devices 0-2 -n 2 -w 1",
    "cclmark trace broadcast -b 2G --placement in-place --steps": "-b 64K -p 3",
    "cclmark experiment broadcast -b 2G -e 2G --placement in-place --vary HCCL_BUFFSIZE=10,2048": (
        "-b 64K -e 64K -w 1 --rounds 2 -n 2 -p 3"
    ),
}


@pytest.mark.parametrize("line", HCCL_LINES, ids=lambda it: " ".join(it.split()[1:3]))
def test_lines_of_the_guide_of_hccl(cclmark, line):
    _, *words = shlex.split(line)
    run = cclmark(*words, *HCCL_LINES[line].split(), env=HCCL.env(CCLMARK_FAKE_DEVICES="8"))
    assert {device.runtime for device in run.journal.header.devices} == {"acl"}
    assert {one.name for one in run.journal.header.libraries} == {"hccl"}
    assert {one.status for one in run.journal.results} == {"ok"}
    page = (REPOSITORY / "docs" / "from" / "hccl-test.md").read_text()
    assert f"`{line}`" in page
