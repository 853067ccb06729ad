"""Islands by what was typed, and by the hosts that ranks are on."""

import pytest

from cclmark.work.islands import parse_islands
from goldens import refusal

LIBRARIES = {"cuda": ["nccl", "flagcx"], "host": ["shm", "oneccl"]}
NATURAL = {"cuda": True, "host": True}
CUDA, HOST = ["cuda"] * 4, ["host"] * 4
MIXED = ["cuda", "host"] * 2


@pytest.mark.parametrize(
    ("text", "runtimes", "hosts", "expected"),
    [
        *((text, CUDA, "0011", "0-1=nccl 2-3=nccl") for text in ("", "host", "0-1,2-3", " host ")),
        ("host=flagcx", CUDA[:3], "011", "0 1-2=flagcx"),
        ("", MIXED, "0011", "0 1 2 3"),
        ("host", MIXED, "0011", "a library supports only one kind"),
        ("0-2,3", CUDA, "0011", "0-2=nccl 3"),
        ("0-2,3", HOST, "0011", "shm works within one"),
        ("host", CUDA[:2], "00", "all ranks are on one"),
        ("host", CUDA, "0101", "not consecutive"),
        ("host=nccl,shm", CUDA, "0011", "one library for all"),
    ],
)
def test_islands(text, runtimes, hosts, expected):
    def islands():
        parsed = parse_islands(text, runtimes, LIBRARIES, NATURAL, [*map(int, hosts)])
        return " ".join(island.describe() for island in parsed)

    found = refusal(islands)
    assert expected in found if "Error" in found else expected == found
