"""``cclmark tune`` for libraries whose variables hold for a whole process."""

from pathlib import Path

import pytest

from cclmark.kinds.experiment.plan import PROOF
from cclmark.kinds.experiment.result import TrialResult
from commands import completed
from examples import exhaustive
from fake_libraries import fake_library

SHORT = ("-n", "1", "-w", "0", "-b", "4K", "-e", "4K")
WAITS = "100000"  # microseconds: more than ranks wait for a processor on a busy machine


@pytest.fixture
def env(tmp_path, fake_cuda, flagcx_env):
    """The environment of each library; its own directory for the lock against other runs."""
    ascend, oneccl = (str(fake_library(one)) for one in ("libascendcl.so", "libccl.so.2"))
    hccl = str(Path(ascend).parent / "libhccl.so")
    found = {
        "hccl": {"CCLMARK_ASCENDCL_LIBRARY": ascend, "CCLMARK_HCCL_LIBRARY": hccl},
        "oneccl": {"CCLMARK_ONECCL_LIBRARY": oneccl},
        **{"nccl": fake_cuda.env(), "flagcx": flagcx_env()},
    }
    return {ccl: {"TMPDIR": str(tmp_path), **variables} for ccl, variables in found.items()}


# NCCL asks a tuner for collectives, so that variables are tuned for its sends and receives.
COMMANDS = {
    "hccl": ("all_reduce", "--devices", "acl:0,1"),
    "flagcx": ("all_reduce", "--ccl", "flagcx", "-g", "2"),
    "oneccl": ("all_reduce", "--ccl", "oneccl", "--devices", "host:2"),
    "nccl": ("sendrecv", "--ccl", "nccl", "-g", "2"),
}


@pytest.mark.parametrize(
    ("ccl", "name", "value", "default", "kept"),
    [
        ("nccl", "NCCL_NVB_DISABLE", "1", "0", "NCCL_IB_DISABLE"),
        exhaustive("nccl", "NCCL_MIN_P2P_NCHANNELS", "4", "1", "NCCL_IB_DISABLE"),
        exhaustive("hccl", "HCCL_BUFFSIZE", "400", "200", "HCCL_INTRA_PCIE_ENABLE"),
        exhaustive("flagcx", "FLAGCX_UNIRUNNER_NSLICES", "4", "1", "FLAGCX_P2P_DISABLE"),
        exhaustive("oneccl", "CCL_WORKER_COUNT", "4", "1", "CCL_ATL_SHM"),
    ],
)
def test_a_variable_that_is_faster_is_found_proven_and_deployed(
    cclmark, env, ccl, name, value, default, kept
):
    slow = {kept: "1", "CCLMARK_FAKE_SLOW_UNLESS": f"{name}={value}:{WAITS}"}
    run = cclmark(
        *("tune", *COMMANDS[ccl], *SHORT, "--settings", name, "-O", "t"),
        env=env[ccl] | slow,
        timeout_s=200,
    )
    file = run.directory / "t" / "environment.sh"
    assert f"{name}={value}  default {default}" in run.out
    assert f"use: . {file.relative_to(run.directory)}    which sets {name}={value}" in run.out
    done = completed(["sh", "-c", f'. "{file}"; printf "%s" "${name}"'], check=True)
    assert done.stdout == value
    comments = [line for line in file.read_text().splitlines() if line.startswith("#")]
    assert f"# {ccl} " in comments[0]
    assert "2 ranks on one host" in comments[0]
    assert f"# measured with {kept}=1, which this file does not set" in comments
    trials = run.journal.of(TrialResult)
    assert all(one.is_checked for one in trials)
    proofs = [one.trial for one in trials if one.trial.stage == PROOF]
    assert {one.round for one in proofs} == set(range(7))
    variants = {one.variant.describe() for one in proofs}
    assert variants == {"default", "default again", f"{name}={value}"}
