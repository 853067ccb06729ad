"""How torch uses the devices of each runtime."""

import json
from pathlib import Path

from cclmark.work.runtimes import RUNTIMES
from cclmark.work.torch_devices import (
    TORCH_DEVICES,
    require_support,
    supports,
    torch_runtimes,
    usual_backend,
)
from goldens import refusal, require_outcomes


def test_devices_are_those_of_a_build_or_of_a_plug_in():
    assert set(TORCH_DEVICES) == set(RUNTIMES)
    for runtime, device in TORCH_DEVICES.items():
        assert (device.type == "cpu") == (runtime == "host")
        assert bool(device.plug_in) + bool(device.build) == (runtime != "host")
        assert device.plug_in in ("", f"torch_{device.type}")
    own = [device.type for device in TORCH_DEVICES.values() if device.plug_in]
    assert len(own) == len(set(own))
    assert "cuda" not in own


FACTS = {
    "has": torch_runtimes,
    "supports": supports,
    "is required to support": lambda *given: require_support("torch:x", *given),
    "usual": lambda runtime: usual_backend(runtime, "--backend"),
}


def test_backends_support_the_devices_that_they_are_made_for_and_unknown_ones_any():
    def fact(line):
        kind, *arguments = json.loads(line)
        return refusal(lambda: repr(FACTS[kind](*arguments)))

    require_outcomes(Path(__file__).with_name("torch_backends.txt"), fact)
