"""``cclmark info``, the help and the version: quick answers that need no devices."""

import json
import os
import re

import pytest

from cclmark import __version__
from cclmark.cli.commands import COMMANDS, GROUPS, UNLISTED
from cclmark.cli.main import TOPICS
from commands import PROGRAM, completed, environment


class TestInfo:
    def test_names_the_host_and_what_is_not_there(self, cclmark):
        run = cclmark("info", env={"CCLMARK_CUDA_LIBRARY": "/nonexistent/libcuda.so.1"})
        assert "host:0" in run.out
        assert "shm" in run.out
        assert "/nonexistent/libcuda.so.1" in run.out.partition("Not usable")[2]
        assert run.written() == []
        run = cclmark("info", "--json", env={"CCLMARK_CUDA_LIBRARY": "/nonexistent/libcuda.so.1"})
        assert json.loads(run.out)["machine"]["memory_bytes"] > 0

    def test_lists_accelerators_and_libraries_with_their_paths(self, cclmark, fake_cuda):
        run = cclmark("info", "--all", env=fake_cuda.env())
        assert [f"cuda:{index}" in run.out for index in range(4)] == [True] * 4
        assert "cuda:4" not in run.out
        for path in (fake_cuda.nccl, fake_cuda.nvrtc):
            assert str(path.resolve()) in run.out

    def test_is_one_screen_with_alike_devices_once(self, cclmark, fake_cuda, without_torch):
        run = cclmark("info", env=fake_cuda.env() | without_torch)
        lines = run.out.splitlines()
        assert len(lines) <= 24
        devices = run.out.partition("\nDevices ")[2].partition("\nLibraries ")[0]
        assert re.match(r"    cuda:0-3 +4 × ", devices)
        assert "PCI " not in devices
        for path in (fake_cuda.nccl, fake_cuda.nvrtc):
            assert str(path.resolve()) in run.out
        assert "runtime hip" in run.out.partition("Not found ")[2]
        assert "libamdhip64" not in run.out
        assert "libamdhip64" in cclmark("info", "--json", env=fake_cuda.env()).out

    def test_json_of_accelerators(self, cclmark, fake_cuda):
        run = cclmark("info", "--json", env=fake_cuda.env(old=True, CCLMARK_FAKE_DEVICES="2"))
        document = json.loads(run.out)
        runtimes = [device["runtime"] for device in document["devices"]]
        assert runtimes == ["cuda", "cuda", "host"]
        (nccl,) = (library for library in document["libraries"] if library["name"] == "nccl")
        assert nccl["path"] == str(fake_cuda.old_nccl.resolve())
        assert {"AlltoAll", "Gather", "Scatter"} <= set(nccl["missing"])

    @pytest.mark.parametrize("what", ["unavailable", "ccls"])
    def test_a_given_file_that_cannot_be_loaded_is_an_error(
        self, cclmark, fake_cuda, without_torch, what
    ):
        only = ("--ccls",) if what == "ccls" else ()
        env = fake_cuda.env() | (without_torch if what == "ccls" else {})
        run = cclmark("info", "--json", *only, "--ccl-path", "/nonexistent", env=env, code=3)
        assert "/nonexistent" in str(json.loads(run.out)[what])
        assert "cclmark: --ccl-path: " in run.err
        assert "/nonexistent" in run.err

    def test_libraries_with_what_they_can_do(self, cclmark, fake_cuda):
        run = cclmark("info", "--ccls", env=fake_cuda.env(old=True))
        nccl = run.out.partition("nccl, for devices of cuda: ")[2].partition("\n\n")[0]
        assert nccl.startswith("2.18.5\n")
        assert "grouped send/recv: alltoall alltoallv gather scatter sendrecv" in nccl
        assert "id          128 bytes" in nccl
        assert "fp8" not in nccl
        assert "lacks       AlltoAll" in nccl
        assert "measured on hardware: 1, 2 and 4 × H100" in nccl
        assert "Machine" not in run.out

    def test_libraries_that_are_not_there_say_why(self, cclmark, without_torch):
        missing = {
            **without_torch,
            "CCLMARK_NCCL_LIBRARY": "/nonexistent/libnccl.so",
            "CCLMARK_MPIRUN": "/nonexistent/mpirun",
        }
        document = json.loads(cclmark("info", "--ccls", "--json", env=missing).out)
        ccls = {entry["name"]: entry for entry in document["ccls"]}
        assert "/nonexistent/libnccl.so" in ccls["nccl"]["reason"]
        assert "/nonexistent/mpirun" in ccls["mpi"]["reason"]
        assert ccls["shm"]["reason"] == ""
        assert ccls["shm"]["routes"]["alltoallv"] == "native"
        text = cclmark("info", "--ccls", env=missing).out
        assert text.index("shm, for") < text.index("nccl, for devices of cuda: not found")

    def test_what_libraries_print_is_not_mixed_in(self, cclmark, tmp_path):
        (tmp_path / "torch.py").write_text(
            "import os; os.write(1, b'hello from C, '); print('and from Python', end='')\n"
            "raise ImportError('no more')"
        )
        env = {"PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": ""}
        run = cclmark("info", "--ccls", "--json", env=env)
        assert {"name", "reason"} <= set(json.loads(run.out)["ccls"][0])
        assert run.err == "hello from C, and from Python"

    def test_an_empty_variable_names_no_file(self, cclmark):
        names = ("NCCL", "MPI", "ONECCL", "CUDA", "HIP", "HCCL", "ASCENDCL", "NVRTC")
        empty = {f"CCLMARK_{name}_LIBRARY": "" for name in names} | {"CCLMARK_MPIRUN": ""}
        usual, found = (json.loads(cclmark("info", "--json", env=env).out) for env in ({}, empty))
        assert found["unavailable"] == usual["unavailable"]
        assert not [text for text in found["unavailable"].values() if "has no symbol" in text]

    def test_without_nvrtc(self, cclmark, fake_cuda):
        env = {**fake_cuda.env(), "CCLMARK_NVRTC_LIBRARY": "/nonexistent"}
        document = json.loads(cclmark("info", "--json", env=env).out)
        assert "/nonexistent" in document["unavailable"]["NVRTC"]
        assert document["nvrtc_path"] == ""


@pytest.mark.parametrize(
    "arguments",
    [("info",), ("--version",), ("-h",), ("all_reduce", "-h"), ("history", "-h"), ("references",)],
)
def test_a_closed_pipe_ends_without_a_message(cclmark, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    run = cclmark(*arguments, stdout=writing, code=141)
    os.close(writing)
    assert run.err == ""


class TestHelp:
    @pytest.mark.parametrize("columns", ["80", "200"])
    def test_is_one_screen_with_every_command_and_topic(self, cclmark, columns):
        out = cclmark("-h", env={"COLUMNS": columns}).out
        assert out == cclmark("help", env={"COLUMNS": columns}).out
        for name in (*COMMANDS, *TOPICS):
            assert (re.search(rf"[ ]{name}[\s,.]", out) is None) == (name in UNLISTED), name
        assert [title in out for title in GROUPS] == [True] * len(GROUPS)
        lines = out.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= min(int(columns), 100)

    def test_without_a_command_is_the_list_of_commands(self, cclmark):
        run = completed(PROGRAM, env=environment("", {}))
        assert (run.returncode, run.stderr) == (2, cclmark("-h").out)

    @pytest.mark.parametrize("topic", TOPICS)
    def test_of_a_topic_is_one_screen(self, cclmark, topic):
        assert topic not in COMMANDS
        lines = cclmark("help", topic).out.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 80

    @pytest.mark.parametrize(
        ("asked", "same"),
        [
            (("help",), ("--help",)),
            (("help", "help"), ("--help",)),
            (("help", "all_reduce"), ("all_reduce", "--help")),
            (("help", "p2p", "-b"), ("p2p", "--help")),
            (("help", "history", "list"), ("history", "list", "--help")),
            (("help", "trace", "p2p"), ("trace", "p2p", "--help")),
        ],
    )
    def test_is_a_command_too(self, cclmark, asked, same):
        assert cclmark(*asked).out == cclmark(*same).out

    def test_of_an_unknown_command(self, cclmark):
        assert "'all-reduce': did you mean all_reduce?" in cclmark("help", "all-reduce", code=2).err
        assert "'size': did you mean sizes?" in cclmark("help", "size", code=2).err
        assert "'size'." in cclmark("size", code=2).err

    def test_of_a_command_names_where_all_options_are(self, cclmark):
        screen = cclmark("torch", "check", "-h").out
        assert screen.splitlines()[-1] == "All options: cclmark help torch check"
        assert "--bind" not in screen
        assert "--bind" in cclmark("help", "torch", "check").out

    def test_version(self, cclmark):
        assert cclmark("--version").out == f"cclmark {__version__}\n"


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("sui", {"suite"}),
        ("tune --bud", {"--budget"}),
        ("explain all_", {"all_reduce", "all_gather"}),
        ("collectives --only reduce,ga", {"reduce,gather"}),
        ("all_reduce --format m", {"markdown"}),
        ("references s", {"show"}),
    ],
)
def test_the_tabulator_completes_commands_options_and_names(typed, found):
    words = ["cclmark", *typed.split()]
    asked = {"_CCLMARK_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words)}
    asked["COMP_CWORD"] = str(len(words) - 1)
    out = completed(PROGRAM, env=environment("", asked)).stdout
    assert {line.partition(",")[2] for line in out.splitlines()} == found


def test_bash_accepts_the_script_of_completion(cclmark):
    script = cclmark("completion", "bash").out
    bash = ["bash", "-c", f"{script}\ncomplete -p cclmark"]
    assert "_cclmark_completion" in completed(bash, check=True).stdout
    assert "compdef" in cclmark("completion", "zsh").out
    assert "complete" in cclmark("completion", "fish").out
