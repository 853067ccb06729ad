"""Lines of journals hold the times of samples in whole nanoseconds, and are read as they were."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.journal.sample_times import rounded
from cclmark.journal.schema import Samples

TIMES = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
ROWS = st.lists(st.lists(TIMES, max_size=3), max_size=4)


@given(ROWS, ROWS, st.integers(0, 10**6))
def test_samples_are_read_as_they_were_written(host_s, device_s, operations):
    samples = Samples(host_s, rounded(device_s, operations), host_s, operations)
    line = msgspec.json.encode(samples.stored() | {"host_s": []})
    assert msgspec.json.decode(line, type=Samples).device_s == samples.device_s


def test_whole_nanoseconds_take_the_place_of_seconds():
    samples = Samples([[102132 / 1e9 / 1000]], [[None]], [[1e-9 / 3]], 1000)
    stored = samples.stored()
    assert stored["host_ns"] == [[102132]] and "host_s" not in stored
    assert stored["enqueue_s"] == [[1e-9 / 3]]


@pytest.mark.parametrize(
    "fields",
    ['"host_ns":[[1]],"operations_per_sample":0', '"host_ns":[["1"]]', '"host_ns":[[1.5]]']
    + [f'"host_ns":[[{one}]]' for one in (-1, 1 << 54, "null", "1e400")],
)
def test_impossible_times_are_errors(fields):
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(f"{{{fields}}}", type=Samples)
