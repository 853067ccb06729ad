"""The default library where the devices of several vendors have one runtime."""

import pytest

from cclmark.launch import devices
from cclmark.options.case_request import CaseOptions, default_library, devices_for, warnings_of
from cclmark.work.runtimes import parse_devices


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


def test_numbers_alone_are_of_the_devices_of_the_named_library() -> None:
    """Of the host's own they are not: numbers alone are of accelerators."""
    for library, runtime in (("hccl", "acl"), ("shm", "")):
        flags = CaseOptions(ccl=[library], devices=parse_devices("1,3"))
        assert devices_for(flags).numbers == {runtime: (1, 3)}


def test_values_in_the_environment_without_effect_are_warned_of(monkeypatch) -> None:
    monkeypatch.setenv("FLAGCX_DEBUG", "TRUE")
    for name, number in (("LEVEL", "5"), ("DISABLE", "01"), ("BUFFSIZE", "0x400000")):
        monkeypatch.setenv(f"NCCL_{'P2P_' * (name != 'BUFFSIZE')}{name}", number)
    (warning,) = warnings_of(["flagcx", "torch:flagcx", "shm", "nccl"])
    assert warning.startswith("in the environment, FLAGCX_DEBUG=TRUE: unknown value 'TRUE': choose")
