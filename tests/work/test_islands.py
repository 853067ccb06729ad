"""Islands by what was typed, and by the hosts that ranks are on."""

import pytest

from cclmark.base.errors import UsageError
from cclmark.work.islands import parse_islands

LIBRARIES = {"cuda": ["nccl", "flagcx"], "host": ["shm", "oneccl"]}
NATURAL = {"cuda": True, "host": True}


def islands(text, runtimes, hosts):
    parsed = parse_islands(text, runtimes, LIBRARIES, NATURAL, hosts)
    return [island.describe() for island in parsed]


@pytest.mark.parametrize("text", ["", "host", "0-1,2-3", " host "])
def test_each_host_is_an_island(text):
    assert islands(text, ["cuda"] * 4, [0, 0, 1, 1]) == ["0-1=nccl", "2-3=nccl"]


def test_each_host_is_an_island_of_the_library_that_is_named():
    assert islands("host=flagcx", ["cuda"] * 3, [0, 1, 1]) == ["0", "1-2=flagcx"]


def test_kinds_of_devices_part_the_ranks_of_a_host():
    assert islands("", ["cuda", "host", "cuda", "host"], [0, 0, 1, 1]) == [*("0", "1", "2", "3")]
    with pytest.raises(UsageError, match="a library supports only one kind"):
        islands("host", ["cuda", "host", "cuda", "host"], [0, 0, 1, 1])


def test_an_island_may_be_on_several_hosts_where_its_library_can():
    assert islands("0-2,3", ["cuda"] * 4, [0, 0, 1, 1]) == ["0-2=nccl", "3"]
    with pytest.raises(UsageError, match="shm works within one"):
        islands("0-2,3", ["host"] * 4, [0, 0, 1, 1])


def test_one_host_is_no_two_islands():
    with pytest.raises(UsageError, match="all ranks are on one"):
        islands("host", ["cuda"] * 2, [0, 0])


def test_hosts_whose_ranks_are_not_in_a_row_are_no_islands():
    with pytest.raises(UsageError, match="not consecutive"):
        islands("host", ["cuda"] * 4, [0, 1, 0, 1])
    with pytest.raises(UsageError, match="one library for all"):
        islands("host=nccl,shm", ["cuda"] * 4, [0, 0, 1, 1])
