"""How devices are connected, as vendors' programs print it."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.journal.schema import DeviceDescription
from cclmark.journal.topology import TOOLS, parse_matrix, relations_between
from fake_libraries import fake_library
from places import TESTS

#: What vendors' programs print.
PPU, LINKS, NPU, MX, ROCM = (
    (TESTS / "journal" / "topologies" / f"{name}.txt").read_text()
    for name in ("ppu", "ppu-links", "npu", "mx", "rocm")
)
NPU_SPEEDS = ("224 224 0 224", "112 112 0 112", "224 224 224 224")


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
    ppus = devices("cudart", [0, 1, 2, 3])
    found = {
        (one.first, one.second): (one.kind, one.hops, one.limit_bytes_per_s)
        for one in relations_between(ppus, [], reach)
    }
    assert found[0, 1] == ("ICN2", 1, 100e9)
    assert found[1, 2] == ("ICN1", 1, 50e9)
    # Over two other devices at once, of which one has one link.
    assert found[0, 2] == ("SYS", 2, 100e9)
    assert [one.links for one in relations_between(ppus, [], reach)[:3]] == [2, 0, 1]
    some = relations_between(devices("cudart", [0, 2]), [], {(0, 1), (1, 0)})
    assert [(one.hops, one.limit_bytes_per_s) for one in some] == [(2, 100e9)] * 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,2")
    [one, _] = relations_between(devices("cudart", [0, 1]), [], {(0, 1), (1, 0)})
    assert one.kind == "ICN2"


def test_links_of_npus_are_spread_over_all_of_a_mesh(program) -> None:
    speeds = {str(npu): f"  hccs link speed : [{text}]\n" for npu, text in enumerate(NPU_SPEEDS)}
    program("npu-smi", {"topo": NPU, **speeds})
    found = relations_between(devices("acl", [0, 1]), [], None)
    # Three links of 224 Gb/s at two peers; the other device has slower ones, and one peer.
    assert [(one.kind, one.links, one.limit_bytes_per_s) for one in found] == [
        ("HCCS", 1, 28e9)
    ] * 2
    program("npu-smi", {"1": ""})
    [one, _] = relations_between(devices("acl", [0, 1]), [], None)
    assert (one.kind, one.links, one.limit_bytes_per_s) == ("HCCS", 0, 0.0)


def test_links_that_only_a_library_knows(monkeypatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_library("links/libefml.so").parent))
    found = relations_between(devices("tops", [0, 1, 2]), [], {(0, 1), (0, 2)})
    two = 2 * 25 * 128 / 130 * 16 / 8 * 1e9
    assert [(one.kind, one.links, one.hops) for one in found[:2]] == [("ESL2", 2, 1), ("?", 0, 2)]
    assert [one.limit_bytes_per_s for one in found[:2]] == pytest.approx([two, 0])
    [one, _] = relations_between(devices("tops", [0, 9]), [], {(0, 1)})
    assert (one.kind, one.links) == ("P2P", 0)


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
