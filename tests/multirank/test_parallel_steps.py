"""Steps of ``cclmark train`` on two ranks: losses, memory and communication."""

from importlib.util import find_spec

import pytest
from steps_program import found_by

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch")


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """What parallel_steps.py found."""
    meeting = tmp_path_factory.mktemp("meeting") / "file"
    return found_by("parallel_steps.py", meeting, timeout_s=90)


def test_the_losses_are_those_of_one_rank_with_all_data(steps):
    assert len(steps["losses"]) == 9
    for *case, together, alone, other in steps["losses"]:
        assert together == pytest.approx(alone, abs=2e-5), case
        # The same comparison distinguishes other data.
        assert together != pytest.approx(other, abs=2e-3), case


def test_the_estimated_memory_is_a_close_lower_limit_of_what_tensors_occupy(steps):
    ratios = {tuple(row[:3]): row[3] / row[4] for row in steps["peaks"]}
    assert len(ratios) == 7
    assert all(0.75 < ratio <= 1 for ratio in ratios.values()), ratios


def test_a_step_communicates_as_often_as_documented(steps):
    counts = {tuple(row[:2]): row[2] for row in steps["communication"]}
    # Two layers, and the root unit with the tied embedding, which stays gathered.
    assert counts["fsdp", "tiny"] == {"c10d._allgather_base_": 5, "c10d._reduce_scatter_base_": 3}
    # Four layers and the embedding in both passes, and once the output head.
    assert counts["fsdp", "tiny-llama"] == {
        "c10d._allgather_base_": 11,
        "c10d._reduce_scatter_base_": 6,
    }
    assert counts["tp", "tiny"] == {"c10d_functional.all_reduce": 2 * 2 * 2}
    # An untied output head: its logits are gathered, the gradient of its input is summed.
    assert counts["tp", "tiny-llama"] == {
        "c10d_functional.all_reduce": 4 * 2 * 2 + 1,
        "c10d_functional.all_gather_into_tensor": 1,
    }
