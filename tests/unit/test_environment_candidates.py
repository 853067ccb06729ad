"""What an environment can be tuned with, from the libraries' files."""

from __future__ import annotations

import msgspec
import pytest

from cclmark.kinds.tune.environment_search import axis_of, candidates_of
from cclmark.plan.library_settings import find_setting
from cclmark.plan.setting_fields import LibrarySetting

KIB, MIB = 1 << 10, 1 << 20


def candidates(ccl, operations=("all_reduce",), environment=None, version="", **options):
    return candidates_of(ccl, version, operations, environment or {}, **options)


def axes(*arguments, **options):
    return {axis.name: axis for axis in candidates(*arguments, **options).space.axes}


def first_values(axis):
    return [axis.values[at] for at in axis.first]


def integer(**fields):
    base = {"name": "MINE", "effect": "x.", "form": "integer", "deployed_by": ["environment"]}
    return msgspec.convert({**base, **fields}, LibrarySetting)


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({"default": "16"}, [4, 8, 32, 64, 128]),
        ({"default": "16", "minimum": 8, "maximum": 32}, [8, 32]),
        ({"default": "1", "minimum": 1}, [2, 4, 8]),
        ({"default": "200", "unit": "MB"}, [50, 100, 400, 800, 1600]),
        ({"default": "0"}, [1, 4, 16, 64, 256]),
        ({"form": "size", "default": "0", "maximum": 512}, [2, 8, 32, 128, 512]),
        ({"form": "size", "default": "0"}, [4096, 16384, 65536, 262144, 1048576]),
        ({"default": "-2"}, [1, 4, 16, 64, 256]),
        ({"minimum": 1, "maximum": 64}, [1, 4, 16, 64]),
        ({"minimum": 1, "maximum": 32}, [1, 2, 4, 8, 16, 32]),
        ({"form": "size", "default": "65536"}, [4096, 16384, 32768, 131072, 262144, 1048576]),
    ],
)
def test_ladders_are_around_the_default_and_within_the_limits(fields, first):
    axis = axis_of(integer(**fields))
    assert [int(one) for one in first_values(axis)] == first
    assert len(first) <= 6
    assert axis.ordered
    values = [int(one) for one in axis.values]
    assert values == sorted(set(values))
    default = fields.get("default", "")
    assert (axis.values[axis.usual] if axis.usual is not None else "") == (
        default if default.isdecimal() and int(default) > 0 else ""
    )


@pytest.mark.parametrize(
    "fields",
    [{}, {"minimum": 1}, {"form": "text"}, {"default": "4", "minimum": 4, "maximum": 4}],
)
def test_without_known_values_there_is_nothing_to_try(fields):
    assert axis_of(integer(**fields)) is None


def test_hccl():
    found = candidates("hccl")
    assert {one.name for one in found.space.axes} == {
        "HCCL_BUFFSIZE",
        "HCCL_OP_EXPANSION_MODE",
        "HCCL_INTRA_PCIE_ENABLE",
        "HCCL_INTRA_ROCE_ENABLE",
    }
    assert found.refused["HCCL_DETERMINISTIC"] == "because results depend on it"
    assert found.refused["HCCL_RDMA_QPS_PER_CONNECTION"] == "with an effect between hosts only"
    assert found.refused["HCCL_ALGO"] == "with an effect between hosts only"


def test_values_that_conflict_with_the_defaults_of_others_are_tried_once_these_have_changed():
    space = candidates("hccl").space
    names = [axis.name for axis in space.axes]
    tried = [space.variables(one) for one in space.changes(())]
    assert {"HCCL_INTRA_PCIE_ENABLE": "0"} in tried
    assert {"HCCL_INTRA_ROCE_ENABLE": "1"} not in tried
    pcie = names.index("HCCL_INTRA_PCIE_ENABLE")
    off = ((pcie, list(space.axes[pcie].values).index("0")),)
    assert {"HCCL_INTRA_PCIE_ENABLE": "0", "HCCL_INTRA_ROCE_ENABLE": "1"} in [
        space.variables(one) for one in space.changes(off)
    ]


def test_flagcx_and_the_library_below_it():
    found = candidates("flagcx")
    names = {one.name: one for one in found.space.axes}
    assert {"FLAGCX_P2P_CHUNK_SIZE", "FLAGCX_UNIRUNNER_USE_SLICEDAR", "NCCL_PROTO"} <= set(names)
    assert "FLAGCX_UNIRUNNER_USE_RINGAG" not in names
    assert "all_gather" in found.refused["FLAGCX_UNIRUNNER_USE_RINGAG"]
    assert "FLAGCX_UNIRUNNER_USE_RINGAG" in axes("flagcx", ["all_gather"])
    assert "of the library below" in found.refused["NCCL_SHM_DISABLE"]


@pytest.mark.parametrize("environment", [{}, {"NCCL_NVLS_ENABLE": "0"}, {"NCCL_NVLS_ENABLE": "1"}])
@pytest.mark.parametrize("only", [(), ("NCCL_ALGO", "NCCL_NVLS_ENABLE")])
@pytest.mark.parametrize("ccl", ["flagcx", "nccl", "rccl"])
def test_multicast_is_never_tried(ccl, environment, only):
    operations = ["all_reduce", "all_gather", "reduce_scatter"]
    found = axes(ccl, operations, environment, only=only)
    values = [f"{name}={value}" for name, one in found.items() for value in one.values]
    assert values
    assert not [one for one in values if "NVLS" in one.upper()]


def test_oneccl():
    found = axes("oneccl", ["all_reduce"])
    assert set(found["CCL_ALLREDUCE"].values) >= {"ring", "recursive_doubling", "topo"}
    assert found["CCL_ALLREDUCE"].usual is None
    assert not found["CCL_ALLREDUCE"].ordered
    assert {"CCL_ALLGATHER", "CCL_ALLREDUCE_SCALEOUT", "CCL_WORKER_AFFINITY"} & set(found) == set()
    assert first_values(found["CCL_WORKER_COUNT"]) == ["2", "4", "8"]


@pytest.mark.parametrize("ccl", ["maca-mccl", "musa-mccl"])
def test_mccl_states_no_values(ccl):
    assert candidates(ccl).space.axes == []


def test_shm_and_bridge():
    assert first_values(axes("shm")["CCLMARK_SHM_INLINE_BYTES"]) == [
        "128", "512", "1024", "4096", "8192", "32768",
    ]  # fmt: skip
    bridge = axes("bridge")
    whole = bridge["CCLMARK_BRIDGE_WHOLE_BYTES"]
    assert whole.usual is None  # it depends on the group
    assert [int(one) for one in first_values(whole)] == [
        *(16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB, 1024 * MIB)
    ]
    assert int(whole.values[0]) == 4 * KIB
    slots = [int(one) for one in first_values(bridge["CCLMARK_BRIDGE_HOST_SLOT_BYTES"])]
    assert slots[0] == 64 * KIB
    assert slots[-1] == 256 * MIB
    assert "CCLMARK_BRIDGE_WHOLE_BYTES" not in axes("bridge", ["all_gather"])


def test_a_threshold_that_is_off_is_searched_around_the_default_of_the_library():
    name = "CCLMARK_SHM_INLINE_BYTES"
    found = candidates("shm", environment={name: "0"}, only=(name,))
    axis = found.space.axes[0]
    assert axis.usual is None
    assert [int(one) for one in first_values(axis)] == [*(128, 512, 1024, 2048, 4096, 8192, 32768)]


def test_a_variable_that_is_set_stays_and_is_reported():
    environment = {"CCLMARK_SHM_INLINE_BYTES": "1K"}
    found = candidates("shm", environment=environment)
    assert [one.name for one in found.space.axes] == ["CCLMARK_SHM_STREAM_BYTES"]
    assert found.refused == {
        "CCLMARK_SHM_INLINE_BYTES": "set in the environment already, where they stay as they are"
    }


def test_a_variable_that_is_set_can_be_the_default():
    environment = {"CCLMARK_SHM_INLINE_BYTES": "1K"}
    only = ["CCLMARK_SHM_INLINE_BYTES"]
    [axis] = axes("shm", environment=environment, only=only).values()
    assert axis.values[axis.usual] == "1024"
    assert "2048" in first_values(axis)


def test_versions_limit_what_is_tried():
    old, new = axes("nccl", version="2.12.12"), axes("nccl", version="2.28.9")
    assert "PAT" not in old["NCCL_ALGO"].values
    assert "PAT" in new["NCCL_ALGO"].values


def test_the_default_of_a_word_is_found():
    axis = axis_of(find_setting("hccl", "HCCL_INTRA_PCIE_ENABLE"))
    assert axis.values[axis.usual] == "1"
    assert first_values(axis) == ["0"]
