"""Parallelisms, one and several at once, on several ranks: losses, replicas, calls and memory."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from cclmark.work.models import MODELS
from cclmark_planning.scale.layout import parse_job_layout
from cclmark_planning.scale.traffic import traffic_of
from cclmark_planning.scale.training_job import TrainingJob, check_job
from patience import scaled

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch")

FLOAT = 4  # bytes
WIDTH = MODELS["tiny"].width
LENGTH, SEQUENCES = 24, 8


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What layout_steps.py found, by the number of ranks, which have ended."""
    directory = tmp_path_factory.mktemp("steps")
    program = Path(__file__).with_name("layout_steps.py")
    process = subprocess.Popen(
        [sys.executable, str(program), str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Threads at the import of numpy would be lost where it forks.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        _, err = process.communicate(timeout=scaled(120))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, err[-3000:]
    return {ranks: json.loads((directory / f"{ranks}.json").read_text()) for ranks in (2, 4)}


@pytest.fixture
def four(found):
    return found[4]


def test_the_losses_of_several_ranks_are_those_of_one_rank_with_all_data(found):
    assert [len(own["steps"]) for own in found.values()] == [8, 10]
    for name, row in (*found[2]["steps"].items(), *found[4]["steps"].items()):
        together, alone, other, different, *_ = row
        assert together == pytest.approx(alone, abs=2e-5), name
        # The same comparison distinguishes other data.
        assert together != pytest.approx(other, abs=2e-3), name
        assert different == [], name


def calls(found, name):
    """By group and operation the calls and the bytes of each rank."""
    return {
        (group, operation): list(zip(numbers, sizes, strict=True))
        for group, _, operation, numbers, sizes in found["steps"][name][5]
    }


def test_a_step_communicates_as_often_as_documented(found):
    two = found[2]
    # Two layers, and the root unit with the tied embedding, which stays gathered. Four layers and
    # the embedding in both passes, and once the output head. An untied output head: its logits are
    # gathered, the gradient of its input is summed.
    for name, documented in {
        "fsdp": {("fsdp", "all_gather"): 5, ("fsdp", "reduce_scatter"): 3},
        "fsdp of llama": {("fsdp", "all_gather"): 11, ("fsdp", "reduce_scatter"): 6},
        "tp": {("tp", "all_reduce"): 2 * 2 * 2},
        "tp of llama": {("tp", "all_reduce"): 4 * 2 * 2 + 1, ("tp", "all_gather"): 1},
    }.items():
        seen = {key: [number for number, _ in rows] for key, rows in calls(two, name).items()}
        assert seen == {key: [number] * 2 for key, number in documented.items()}


def test_tensor_ranks_reduce_activations_and_replicas_gradients(four):
    found = calls(four, "tensor ranks with replicas")
    # Two all-reduces per layer and pass, of the activations of four sequences.
    activations = 4 * LENGTH * WIDTH * FLOAT
    assert found["tp", "all_reduce"] == [(8, 8 * activations)] * 4
    ((number, size_bytes),) = set(found["dp", "all_reduce"])
    # Half of the matrices, and all else.
    parameters = MODELS["tiny"].parameters
    matrices = 2 * (WIDTH * (MODELS["tiny"].projected + WIDTH) + 2 * WIDTH * 4 * WIDTH)
    biases = 2 * (MODELS["tiny"].projected + 4 * WIDTH)  # of matrices by columns
    assert (number, size_bytes) == (1, (parameters - (matrices + biases) // 2) * FLOAT)


def test_gradients_are_reduced_once_for_all_parts_of_a_batch(four):
    size_bytes = MODELS["tiny"].parameters * FLOAT
    for name in ("accumulated", "uneven replicas"):
        assert calls(four, name) == {("dp", "all_reduce"): [(1, size_bytes)] * 4}
    shards = calls(four, "accumulated shards")
    # The layers are gathered in both passes of both parts, the root unit once in each part.
    assert shards["fsdp", "reduce_scatter"] == [(3, size_bytes)] * 4
    assert {number for number, _ in shards["fsdp", "all_gather"]} == {10}
    # They stay gathered where replicas have unequal parts.
    assert calls(four, "uneven shards") == {
        ("fsdp", "all_gather"): [(3, size_bytes)] * 4,
        ("fsdp", "reduce_scatter"): [(3, size_bytes)] * 4,
    }


def test_stages_send_each_microbatch_on_and_its_gradient_back(four):
    found = calls(four, "uneven stages")
    sequence = LENGTH * WIDTH * FLOAT
    # Ranks 0 and 2 are the stages of the replica with five microbatches.
    assert found["pp", "send"] == [(number, number * sequence) for number in (5, 3, 5, 3)]
    embedding = MODELS["tiny"].vocabulary * WIDTH * FLOAT
    assert found["embedding", "all_reduce"] == [(1, embedding)] * 4
    # With sequence parallelism all sequences pass one pipeline; of each, a rank sends its half.
    found = calls(four, "sequence parallel in stages")
    assert found["pp", "send"] == [(4, SEQUENCES * LENGTH // 2 * WIDTH * FLOAT)] * 4
    # Two layers, four microbatches, two in each pass.
    assert {number for number, _ in found["tp", "reduce_scatter"]} == {2 * 4 * 2 * 2}


def test_the_estimated_memory_is_a_close_lower_limit_of_what_tensors_occupy(found):
    for number, own in ((3, found[2]), (4, found[4])):
        ratios = {name: estimated / largest for name, (estimated, largest) in own["peaks"].items()}
        assert len(ratios) == number
        assert all(0.75 < ratio <= 1 for ratio in ratios.values()), ratios


def planned(found, name):
    """The formulas' calls and bytes by group and operation of each rank, as ``calls`` has them."""
    parallel, model, _, changes = found["cases"][name]
    ranks = len(next(iter(calls(found, name).values())))
    of_all = {"ddp": f"dp={ranks}", "fsdp": f"fsdp={ranks}"}.get(parallel, parallel)
    by_sequence = ",sp=1" if changes.get("by_sequence") else ""
    layout = parse_job_layout(of_all + by_sequence).on(ranks)
    micro_batch = SEQUENCES // layout.dp // changes.get("microbatches", 1)
    job = TrainingJob(
        *(MODELS[model], layout, SEQUENCES, micro_batch, LENGTH, ranks),
        precision="fp32",
        gradient_bytes=FLOAT,
        holds=True,
    )
    check_job(job)
    by_group = {}
    for rank in range(ranks):
        for one in traffic_of(job, rank // (layout.tp * layout.replicas)):
            group = "fsdp" if one.group == "dp" and layout.zero else one.group
            rows = by_group.setdefault((group, one.operation), [(0, 0)] * ranks)
            number, size_bytes = rows[rank]
            rows[rank] = (number + one.messages, size_bytes + one.total_bytes)
    return by_group


def test_formulas_count_the_calls_and_bytes_of_a_step(four):
    names = [name for name in four["steps"] if "uneven" not in name and "experts" not in name]
    assert len(names) == 6
    for name in names:
        assert planned(four, name) == calls(four, name), name


def test_formulas_assume_that_all_experts_get_as_many_tokens(four):
    model, experts = MODELS["tiny-moe"], calls(four, "accumulated experts")
    [rows] = [rows for (_, operation), rows in experts.items() if operation == "alltoall"]
    sent = [size_bytes for _, size_bytes in rows]
    tokens = LENGTH * SEQUENCES // 4 * model.active_experts
    even = 4 * model.layers * tokens * model.width * FLOAT
    assert sum(sent) / 4 == pytest.approx(even, rel=0.5)
