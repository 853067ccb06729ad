import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.journal.link_libraries import links_between
from cclmark.journal.schema import DeviceDescription
from cclmark.journal.topology import TOOLS, parse_matrix, relations_between
from fake_libraries import fake_library
from places import TESTS

#: What vendors' programs print.
PPU, LINKS, NPU, MX, ROCM, XPU = (
    (TESTS / "journal" / "topologies" / f"{name}.txt").read_text()
    for name in ("ppu", "ppu-links", "npu", "mx", "rocm", "xpu")
)
NPU_SPEEDS = ("224 224 224 224 224 224 224 0", "224 224", "224 112")


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
        (XPU, "XPU", (1, 3), "XL", 12),
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


def test_npus_have_a_link_to_each_of_a_mesh(program) -> None:
    speeds = {str(npu): f"  hccs link speed : [{text}]\n" for npu, text in enumerate(NPU_SPEEDS)}
    program("npu-smi", {"topo": NPU, **speeds})

    def found(*npus: int) -> list[tuple[str, int, float]]:
        relations = relations_between(devices("acl", [*npus]), [], None)
        return [(one.kind, one.links, one.limit_bytes_per_s) for one in relations]

    assert found(0, 1) == [("HCCS", 1, 28e9)] * 2  # of the seven of a mesh, in a container of two
    assert found(0, 2) == [("HCCS", 0, 0.0)] * 2  # links of device 2 differ: which one is unknown
    program("npu-smi", {"0": "", "1": "xlink link speed : [224]\n"})
    assert found(0, 1) == [("HCCS", 0, 0.0)] * 2


@pytest.mark.parametrize(
    ("name", "texts", "runtime", "known"),
    [
        ("xpu-smi", {"-m": XPU}, "cudart", [("XL", 1), ("SYS", 3)]),
        ("hy-smi", {"--showtopotype": ROCM.replace("GPU", "HCU")}, "hip", [("XGMI", 1)]),
        ("hy-smi", {"--showtopotype": ROCM.replace("GPU", "DCU")}, "cudart", [("XGMI", 1)]),
    ],
)
def test_links_without_a_known_rate(program, name, texts, runtime, known) -> None:
    program(name, texts)
    found = relations_between(devices(runtime, [*range(len(known) + 1)]), [], None)
    told = [(one.kind, one.hops, one.limit_bytes_per_s) for one in found if one.first == 0]
    assert told == [(kind, steps, 0) for kind, steps in known]


def test_devices_that_a_library_does_not_open_leave_the_links_of_others(monkeypatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_library("links/libcndev.so").parent))
    whole = links_between("cnrt", [0, 1, 2])
    assert whole[0, 1] == (2, 50e9)
    assert links_between("cnrt", [0, 1, 2, 3]) == whole
    assert links_between("musa", [0, 1, 99])[0, 1] == links_between("musa", [0, 1])[0, 1]


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
