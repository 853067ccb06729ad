"""What stands above every table."""

import pytest

from cclmark.report.head import device_lines
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
