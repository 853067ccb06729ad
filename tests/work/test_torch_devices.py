"""How torch uses the devices of each runtime."""

from __future__ import annotations

import pytest

from cclmark.base.errors import UsageError
from cclmark.work.runtimes import RUNTIMES
from cclmark.work.torch_devices import (
    TORCH_DEVICES,
    require_support,
    supports,
    torch_runtimes,
    usual_backend,
)


def test_devices_are_those_of_a_build_or_of_a_plug_in():
    assert set(TORCH_DEVICES) == set(RUNTIMES)
    for runtime, device in TORCH_DEVICES.items():
        assert (device.type == "cpu") == (runtime == "host")
        assert bool(device.plug_in) + bool(device.build) == (runtime != "host")
        assert device.plug_in in ("", f"torch_{device.type}")
    own = [device.type for device in TORCH_DEVICES.values() if device.plug_in]
    assert len(own) == len(set(own))
    assert "cuda" not in own


@pytest.mark.parametrize(
    ("backend", "runtimes"),
    [
        ("gloo", ["host"]),
        ("nccl", ["cuda", "hip", "maca", "cudart"]),
        ("hccl", ["acl"]),
        ("mccl", ["musa"]),
        ("cncl", ["cnrt"]),
        ("eccl", ["tops"]),
        ("mpi", ["host"]),
        ("flagcx", []),
    ],
)
def test_backends_have_the_devices_that_they_are_made_for(backend, runtimes):
    assert torch_runtimes(backend) == runtimes


@pytest.mark.parametrize(
    ("backend", "supported", "others"),
    [
        ("gloo", ("host", "cuda", "hip"), ("musa",)),
        ("nccl", ("maca",), ("acl",)),
        ("mccl", ("musa",), ("maca",)),
        ("flagcx", ("acl",), ()),
        ("mpi", ("cuda",), ()),
    ],
)
def test_a_backend_supports_its_devices_and_unknown_ones_any(backend, supported, others):
    assert all(supports(backend, one) is True for one in supported)
    for runtime in others:
        assert supports(backend, runtime) is False
        needed = " and ".join(torch_runtimes(backend))
        with pytest.raises(UsageError, match=f"torch:x supports {needed} devices, not {runtime} "):
            require_support("torch:x", backend, runtime)


def test_the_backend_of_some_devices_has_to_be_chosen():
    assert usual_backend("acl", "--backend") == "hccl"
    with pytest.raises(UsageError, match="tang devices is not known: choose one with --backend"):
        usual_backend("tang", "--backend")
