"""The devices of a command that names none: accelerators of every runtime, or the host, said."""

from pathlib import Path

import pytest

from cclmark.journal.item_results import Result
from cclmark.kinds.registry import read_journal
from fake_libraries import fake_library

TWO = ("nccl-tests", "pccl")  # formats that show both placements, or have none
TINY = ("-b", "64", "-e", "64", "-n", "1", "-w", "0")
# NVIDIA devices of the machine that runs the tests do not count.
NO_ACCELERATORS = {"CUDA_VISIBLE_DEVICES": ""}
IN_PLACE_OF = "its host is measured instead"
PCCL = ("p2pBandwidthLatencyTest", "--num_elems=65536", "--p2p_type=CE")


def of_fake(variable: str, file: str) -> dict[str, str]:
    return {**NO_ACCELERATORS, variable: str(fake_library(file))}


@pytest.fixture
def with_cudart() -> dict[str, str]:
    """The environment of a machine with four devices of a runtime with the name of CUDA's."""
    env = of_fake("CCLMARK_CUDART_LIBRARY", "cudart/libcudart.so")
    shim = Path(env["CCLMARK_CUDART_LIBRARY"]).with_name("libnccl.so")
    return {**env, "CCLMARK_PCCL_LIBRARY": str(shim)}


def _is_shown(result: Result) -> bool:
    return not result.case.in_place


def test_copies_are_between_accelerators(cclmark, with_cudart) -> None:
    run = cclmark(*PCCL, "--num_gpus=2", "--perf=uniBw", env=with_cudart)
    assert [one.runtime for one in run.journal.header.devices] == ["cudart", "cudart"]
    assert {one.status for one in run.journal.transfers} == {"ok"}


def test_the_host_on_request_is_no_replacement(cclmark) -> None:
    run = cclmark(*PCCL, "--devices", "host:2", env=NO_ACCELERATORS)
    assert {one.runtime for one in run.journal.header.devices} == {"host"}
    assert IN_PLACE_OF not in run.out + run.err


@pytest.mark.parametrize(
    "command",
    [
        ("all_reduce", *TINY),
        ("p2p", "-b", "64K", "-t", "CE", "-p", "uniBw", "--max-time", "0.01"),
        ("experiment", "all_reduce", *TINY, "--vary", "CCLMARK_SHM_INLINE_BYTES=0,64"),
    ],
    ids=lambda command: command[0],
)
def test_the_head_names_the_host(cclmark, command) -> None:
    run = cclmark(*command, env=NO_ACCELERATORS)
    assert IN_PLACE_OF in run.out
    assert run.err.count(IN_PLACE_OF) == 1


@pytest.mark.parametrize("format_name", ["nccl-tests", "hccl", "pccl"])
def test_texts_of_other_tools_name_the_host_and_are_imported(
    cclmark, cclmark_in, tmp_path, format_name
) -> None:
    command = ("all_reduce", *TINY)
    if format_name == "pccl":
        command = ("p2p", "-b", "64K", "-t", "CE", "-p", "uniBw", "--max-time", "0.01")
    run = cclmark_in(tmp_path, *command, "--format", format_name, env=NO_ACCELERATORS)
    (line,) = (line for line in run.out.splitlines() if IN_PLACE_OF in line)
    assert line.startswith("# ")
    (tmp_path / "text.txt").write_text(run.out)
    cclmark_in(tmp_path, "import", "text.txt", "--journal", "read.jsonl")
    imported = read_journal(tmp_path / "read.jsonl")
    figures = [one for one in imported.results if one.is_measured]
    in_text = [one for one in run.journal.results if format_name in TWO or _is_shown(one)]
    assert len(figures) == len(in_text) > 0
