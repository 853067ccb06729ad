"""The command of a rank's process, and what it does before the rank's modules are imported."""

from __future__ import annotations

import sys
import threading

import msgspec
import pytest

from cclmark import _engine as engine
from cclmark import rank_process as entry
from cclmark.kinds.registry import KINDS
from cclmark.launch.ranks import _early_runtime
from cclmark.rank import worker
from cclmark.rendezvous.messages import Job

REQUIRED = [one.name for one in msgspec.structs.fields(Job) if one.required]


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        ({"runtime": "cuda"}, ["--runtime", "cuda"]),
        ({"runtime": "host"}, []),
        # The rank sets variables first, which a driver may read when it is initialised.
        ({"runtime": "cuda", "environment": {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}}, []),
        ({"runtime": "cuda", "explain": True}, []),
        ({"runtime": "cuda", "traced_operations": 3}, []),
    ],
)
def test_a_runtime_loads_early_only_if_the_rank_sets_no_variables(fields, arguments):
    assert _early_runtime(Job(**(dict.fromkeys(REQUIRED) | fields))) == arguments


@pytest.mark.parametrize(
    ("words", "jobs", "loads"),
    [([], "", False), (["/proc/1/fd/5"], "/proc/1/fd/5", False), (["--runtime", "cuda"], "", True)],
)
def test_the_runtime_loads_beside_the_imports(monkeypatch, words, jobs, loads):
    found, loaded = [], threading.Event()

    def fail(runtime):
        assert runtime == "cuda"
        loaded.set()
        raise engine.MissingError("no driver")  # reported when the rank opens its device

    monkeypatch.setattr(engine, "device_count", fail)
    monkeypatch.setattr(worker, "run_rank", lambda *given: found.append(given))
    monkeypatch.setattr(sys, "argv", ["cclmark.rank_process", *words])
    entry.main()
    ((given, loading, kinds),) = found
    assert kinds == KINDS
    assert given == jobs
    assert (loading is not None) == loads
    if loading is not None:
        loading.join(10)
        assert loaded.is_set()
