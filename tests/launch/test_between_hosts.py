"""Which library goes with host devices of several hosts, by what started the processes."""

import importlib.util
from types import SimpleNamespace

import pytest

from cclmark.base.errors import MissingError
from cclmark.launch.placement import Placement
from cclmark.options.case_request import libraries_of
from cclmark.options.groups import CaseOptions


def coordinator(launcher, *, by_mpi, devices_each=1):
    """As much of one as is looked at: two processes, a host each."""
    join = SimpleNamespace(indices=list(range(devices_each)))
    return SimpleNamespace(
        placement=Placement(launcher, 0, 2, 0, 1, by_mpi=by_mpi),
        joins=[join, join],
        hosts=["alpha", "beta"],
        devices=SimpleNamespace(runtime="host"),
    )


@pytest.mark.parametrize(
    ("launcher", "by_mpi", "devices_each", "ccl"),
    [
        ("srun", True, 1, "mpi"),
        ("srun", False, 1, "torch:gloo"),
        ("torchrun", False, 1, "torch:gloo"),
        ("Open MPI's mpirun", True, 1, "mpi"),
        ("Open MPI's mpirun", True, 2, "torch:gloo"),
    ],
)
def test_mpi_where_it_is_possible(launcher, by_mpi, devices_each, ccl, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    run = coordinator(launcher, by_mpi=by_mpi, devices_each=devices_each)
    assert libraries_of(CaseOptions(), run) == [ccl]


@pytest.mark.parametrize(("launcher", "hint"), [("srun", True), ("torchrun", False)])
def test_neither_of_both_says_what_to_do(launcher, hint, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingError, match="pip install torch") as caught:
        libraries_of(CaseOptions(), coordinator(launcher, by_mpi=False))
    assert ("srun --mpi=pmix" in str(caught.value)) == hint
