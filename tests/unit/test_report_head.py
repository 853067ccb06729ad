"""What stands above every table."""

from pathlib import Path

import msgspec
import pytest

from cclmark.document.head import device_lines, method_of
from cclmark.kinds.registry import read_journal
from cclmark.results.schema import DeviceDescription


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ((-1, -1), ""),
        ((0, -1), ""),
        ((0, 0), ", NUMA node 0"),
        ((0, 0, 1, 1), ", NUMA nodes 0,0,1,1"),
    ],
)
def test_numa_nodes_are_named_where_all_are_known(nodes, text):
    devices = [
        DeviceDescription(rank, "h", "cuda", rank, "GPU", 1 << 30, numa_node=node)
        for rank, node in enumerate(nodes)
    ]
    (line,) = device_lines(devices, "")
    assert line.endswith(text)
    assert ("NUMA" in line) == bool(text)


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        (0, "outputs not checked"),
        (1, "each case's output checked after timing"),
        (3, "each case's output checked 3 times after timing"),
    ],
)
def test_the_method_says_what_is_checked_and_when(checks, words):
    header = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl").header
    header.settings = msgspec.structs.replace(header.settings, check=checks)
    assert words in method_of(header).split(", ")
