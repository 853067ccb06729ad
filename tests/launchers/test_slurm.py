"""The Slurm of the tests is one: it starts tasks, on both nodes, and tells them what they are."""

from __future__ import annotations

import pytest

TELL = "echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS $SLURMD_NODENAME $(hostname)"


def told(done):
    assert done.returncode == 0, done.stderr
    return sorted(line.split() for line in done.stdout.splitlines())


def test_four_tasks_on_one_node(slurm):
    (node,) = {line[3] for line in told(slurm.run("srun", "-n", "4", "sh", "-c", TELL))}
    assert node in {"node1", "node2"}


def test_tasks_on_two_nodes_of_this_machine(slurm):
    lines = told(slurm.run("srun", "-N", "2", "--ntasks-per-node=2", "sh", "-c", TELL))
    assert [line[:4] for line in lines] == [
        ["0", "0", "4", "node1"],
        ["1", "1", "4", "node1"],
        ["2", "0", "4", "node2"],
        ["3", "1", "4", "node2"],
    ]
    assert len({line[4] for line in lines}) == 1


def test_tasks_on_two_hosts(slurm_on_hosts):
    lines = told(slurm_on_hosts.run("srun", "-N", "2", "--ntasks-per-node=2", "sh", "-c", TELL))
    assert [line[3:] for line in lines] == [["alpha", "alpha"]] * 2 + [["beta", "beta"]] * 2


@pytest.mark.parametrize("code", [1, 3, 130])
def test_the_exit_code_of_a_task_is_that_of_srun(slurm, code):
    program = f"[ $SLURM_PROCID != 1 ] || exit {code}"
    assert slurm.run("srun", "-n", "2", "sh", "-c", program).returncode == code


def test_a_batch_script_is_a_process_of_its_own_and_starts_steps(slurm, tmp_path):
    script = tmp_path / "script.sh"
    script.write_text(f"#!/bin/sh\necho batch $SLURM_STEP_ID\nsrun sh -c '{TELL}'\n")
    said = tmp_path / "said"
    done = slurm.run("sbatch", "--wait", "-N2", "-n4", f"--output={said}", str(script))
    assert done.returncode == 0, done.stderr
    lines = said.read_text().splitlines()
    assert lines[0] == "batch"
    assert sorted(line.split()[0] for line in lines[1:]) == ["0", "1", "2", "3"]
