"""How devices are connected, as vendors' programs print it."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.journal.schema import DeviceDescription
from cclmark.journal.topology import TOOLS, parse_matrix, relations_between

PPU = """\
         PPU0    PPU1    PPU2    PPU3    NIC0    CPU Affinity    NUMA Affinity
 PPU0    X       ICN2    SYS     ICN1    PXB     0-47,96-143     0
 PPU1    ICN2    X       ICN1    SYS     PIX     0-47,96-143     0
 PPU2    SYS     ICN1    X       ICN2    SYS     48-95,144-191   1
 PPU3    ICN1    SYS     ICN2    X       SYS     48-95,144-191   1
 NIC0    PXB     PIX     SYS     SYS     X       0-47,96-143     0

Legend:

  X    = Self
  ICN# = Connection traversing a bonded set of # ICN links

NIC Legend:

  NIC0: mlx5_bond_0

PPU Rear Group:

  Rear ID 0: PPU 0,1,2,3
"""
LINKS = """\
PPU 0: PPU (UUID: GPU-019ea108-c180-040a-0000-000000000000)
    Link 0: 50 GB/s
    Link 1: <inactive>
    Link 2: 50 GB/s
"""
NPU = """\
\t   NPU0       NPU1       NPU2       CPU Affinity
NPU0       X          HCCS       HCCS       144-167
NPU1       HCCS       X          SYS        0-23
NPU2       HCCS       SYS        X          144-167
"""
MX = """\
=================== MetaX System Management Interface Log ===================
Timestamp                                         : Wed Feb 11 16:37:10 2026

Attached GPUs                                     : 2
Device link type matrix
        GPU0    GPU1    Node Affinity  CPU Affinity
GPU0    X       MX      0              0-31,64-95
GPU1    MX      X       0              0-31,64-95
"""
ROCM = """\
============================ ROCm System Management Interface ============================
=============================== Link Type between two GPUs ===============================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
================================== End of ROCm SMI Log ===================================
"""


def devices(runtime: str, indices: list[int]) -> list[DeviceDescription]:
    return [
        DeviceDescription(rank, "h", runtime, index, "device", 1 << 30)
        for rank, index in enumerate(indices)
    ]


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Installs a vendor's program that prints the texts by its last argument."""

    def install(name: str, texts: dict[str, str], code: int = 0) -> None:
        for argument, text in texts.items():
            (tmp_path / f"{name}.{argument}").write_text(text)
        file = tmp_path / name
        file.write_text(f'#!/bin/sh\nfor last; do :; done\ncat "$0.$last"\nexit {code}\n')
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return install


@pytest.mark.parametrize(
    ("text", "label", "pair", "sign", "number"),
    [
        (PPU, "PPU", (1, 2), "ICN1", 12),
        (NPU, "NPU", (1, 2), "SYS", 6),
        (MX, "GPU", (0, 1), "MX", 2),
        (ROCM, "GPU", (1, 0), "XGMI", 2),
        ("", "GPU", (0, 1), None, 0),
        ("GPU0 X MX\n", "GPU", (0, 1), None, 0),
    ],
)
def test_matrices_of_vendors(text, label, pair, sign, number) -> None:
    signs = parse_matrix(text, label)
    assert (signs.get(pair), len(signs)) == (sign, number)


def test_links_of_ppus_have_steps_and_limits(program, monkeypatch) -> None:
    program("ppu-smi", {"-m": PPU, "-s": LINKS})
    reach = {(one, other) for one in range(4) for other in range(4) if one != other}
    found = {
        (one.first, one.second): (one.kind, one.hops, one.limit_bytes_per_s)
        for one in relations_between(devices("cudart", [0, 1, 2, 3]), [], reach)
    }
    assert found[0, 1] == ("ICN2", 1, 100e9)
    assert found[1, 2] == ("ICN1", 1, 50e9)
    assert found[0, 2] == ("SYS", 2, 0.0)  # over another device's links
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,2")
    [one, _] = relations_between(devices("cudart", [0, 1]), [], {(0, 1), (1, 0)})
    assert one.kind == "ICN2"


@pytest.mark.parametrize(
    ("texts", "code"),
    [({"-m": PPU, "-s": LINKS}, 1), ({"-m": "no devices\n"}, 0), ({}, 0), ({"-m": PPU[:120]}, 0)],
)
def test_without_a_matrix_connections_are_unknown(program, texts, code) -> None:
    program("ppu-smi", texts, code)
    found = relations_between(devices("cudart", [0, 1]), [], {(0, 1)})
    assert [one.kind for one in found] == ["P2P", "?"]


@given(st.text(alphabet="GPUX0123 ICN\t|\n-:é", max_size=400))
def test_no_text_is_too_odd(text) -> None:
    for tools in TOOLS.values():
        for tool in tools:
            signs = parse_matrix(text, tool.device)
            assert all(one != other for one, other in signs)
