"""The names of devices in tables and charts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cclmark.document.device_labels import device_labels
from cclmark.results.schema import DeviceDescription


def device(rank, host, index, name):
    return DeviceDescription(
        rank=rank, host=host, runtime="", index=index, name=name, memory_bytes=0
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]), st.integers(0, 3), st.sampled_from(["", "GPU 0", "NIC 1"])
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_no_two_devices_have_one_name(described, hosts):
    devices = [device(rank, *one) for rank, one in enumerate(described)]
    found = device_labels(devices, hosts=hosts)
    assert len(set(found)) == len(devices)
    assert not any(" " in name for name in found)  # a name is a word of a printed matrix


def test_names_are_numbers_unless_these_repeat():
    gpus = [device(rank, "a", rank, "H100") for rank in range(2)]
    assert device_labels(gpus) == ["DEV0", "DEV1"]
    assert device_labels([*gpus, device(2, "b", 0, "H100")]) == [
        "HOST0:DEV0",
        "HOST0:DEV1",
        "HOST1:DEV0",
    ]
    assert device_labels([*gpus, device(2, "a", 1, "mlx5_1")]) == ["H100#0", "H100#1", "mlx5_1"]
