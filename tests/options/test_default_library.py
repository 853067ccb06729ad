"""The default library where the devices of several vendors have one runtime."""

import pytest

from cclmark.launch import devices
from cclmark.options.case_request import default_library, warnings_of


@pytest.mark.parametrize(
    ("nodes", "variables", "library"),
    [
        ({"alixpu_ppu[0-9]*"}, (), "pccl"),
        ({"iluvatar[0-9]*"}, (), "ixccl"),
        (set(), ("CCLMARK_PCCL_LIBRARY",), "pccl"),
        (set(), ("CCLMARK_PCCL_LIBRARY", "CCLMARK_FLAGCX_LIBRARY"), "pccl"),
        (set(), ("CCLMARK_FLAGCX_LIBRARY",), None),
        (set(), ("CCLMARK_PCCL_LIBRARY", "CCLMARK_IXCCL_LIBRARY"), None),
        (set(), (), None),
    ],
)
def test_the_vendors_library_is_the_default(monkeypatch, nodes, variables, library) -> None:
    monkeypatch.setattr(devices, "_device_nodes", lambda pattern: [pattern] * (pattern in nodes))
    for name in variables:
        monkeypatch.setenv(name, "/lib/vendor.so")
    assert default_library("cudart") == library
    assert default_library("cuda") == "nccl"


def test_values_in_the_environment_without_effect_are_warned_of(monkeypatch) -> None:
    monkeypatch.setenv("FLAGCX_DEBUG", "TRUE")
    (warning,) = warnings_of(["flagcx", "torch:flagcx", "shm"])
    assert warning.startswith("in the environment, FLAGCX_DEBUG=TRUE: unknown value 'TRUE': choose")
