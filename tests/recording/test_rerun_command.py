import json

import pytest

from places import TESTS

COMMAND = ("--devices", "host:2", "-b", "64", "-e", "256", "-n", "2", "-w", "0")


@pytest.fixture(scope="module")
def journal_lines(cclmark_in, tmp_path_factory):
    """The header and the other lines of a small run."""
    run = cclmark_in(tmp_path_factory.mktemp("run"), "all_reduce", *COMMAND)
    header, *rest = run.journal_path.read_text().splitlines()
    return json.loads(header), rest


@pytest.fixture
def altered(journal_lines, tmp_path):
    """A journal of the small run whose header says other things than it did."""

    def alter(**changes):
        header, rest = journal_lines
        path = tmp_path / "altered.jsonl"
        found = header | {"directory": str(tmp_path)} | changes
        path.write_text("\n".join([json.dumps(found), *rest]) + "\n")
        return path

    return alter


def test_the_same_is_measured_and_compared(cclmark, no_leaks):
    named = ("-d", "int8,float32", "--journal", "a.jsonl", "-O", "o.txt")
    first = cclmark("all_reduce", *COMMAND, *named)
    printed = (first.directory / "o.txt").read_text()
    content = first.journal_path.read_bytes()
    again = cclmark("rerun", "a.jsonl")
    assert [it.case for it in again.journal.results] == [it.case for it in first.journal.results]
    header, was = again.journal.header, first.journal.header
    assert header.settings == was.settings
    assert header.repeats.run_id == was.run_id
    assert header.repeats.path == str(first.journal_path)
    assert "12 in both; 0 slower and 0 faster beyond noise, 12 not judged" in again.out
    assert "noise unknown\n" not in again.out
    sides = f"a.jsonl cclmark-runs/{again.journal_path.name}"
    assert f"cclmark compare {sides}" in " ".join(again.out.split())
    unknown = "the noise between runs is unknown for this machine: 2 more runs of each side"
    assert f"12 not judged: {unknown}" in again.out
    # What it wrote stays as it is.
    assert first.journal_path.read_bytes() == content
    assert (first.directory / "o.txt").read_text() == printed


def test_options_after_two_dashes_replace_those_of_the_journal(cclmark):
    cclmark("broadcast", *COMMAND, "--inject", "delay:rank=0,ms=1", "--journal", "a.jsonl")
    again = cclmark(
        "rerun", "a.jsonl", "--", "-e", "64", "--inject", "delay:rank=1,ms=2", "--format", "csv"
    )
    header = again.journal.header
    assert header.settings.inject == ["delay:rank=1,ms=2"]
    assert (header.settings.end_bytes, header.settings.iterations) == (64, 2)
    assert len(again.out.splitlines()) == 3
    assert "2 in both" in again.err
    assert "--maxbytes=64" in header.command


def test_the_matrix_of_alltoallv_needs_no_file(cclmark, tmp_path):
    (tmp_path / "m.txt").write_text("0 1.5 # row\n3 0\n")
    first = cclmark(
        "alltoallv", *COMMAND, "--pattern", "matrix:m.txt", "--journal", "a.jsonl"
    ).journal
    assert first.header.settings.weights == [[0, 1.5], [3, 0]]
    (tmp_path / "m.txt").unlink()
    again = cclmark("rerun", "a.jsonl").journal
    assert [it.case for it in again.results] == [it.case for it in first.results]


def test_a_matrix_file_that_only_the_journal_names_is_not_read(cclmark, altered, tmp_path):
    (tmp_path / "secret").write_text("hunter2\n")
    command = ["cclmark", "alltoallv", *COMMAND, "--pattern", "matrix:secret"]
    path = altered(command=command)
    refused = cclmark("rerun", path, code=2)
    assert "does not contain its weights" in refused.err
    assert "hunter2" not in refused.err
    (tmp_path / "mine.txt").write_text("0 1\n1 0\n")
    again = cclmark("rerun", path, "--", "--pattern", "matrix:mine.txt")
    assert again.journal.header.settings.weights == [[0, 1], [1, 0]]


def test_variables_come_from_the_journal_where_none_are_set(cclmark):
    then = {
        "NCCL_ALGO": "Ring",
        "NCCL_NVLS_ENABLE": "1",
        "NCCL_TOPO_FILE": "/x/topology.xml",
        "NCCL_TUNER_PLUGIN": "other",
        "NCCL_X": "http://me:hunter2@h",
    }
    cclmark("barrier", *COMMAND, "--journal", "a.jsonl", env=then)
    again = cclmark("rerun", "a.jsonl", env={"NCCL_NVLS_ENABLE": "0", "NCCL_DEBUG": "WARN"})
    assert again.journal.header.environment == {
        "NCCL_ALGO": "Ring",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_DEBUG": "WARN",
    }
    for said in (
        "NCCL_ALGO=Ring is set, as in the journal",
        "NCCL_NVLS_ENABLE: 1 before, 0 now",
        "NCCL_DEBUG: not set before, WARN now",
        "NCCL_TOPO_FILE is not set: names of files and modules are not taken from a journal",
        "NCCL_TUNER_PLUGIN is not set: names of files",
        "NCCL_X is not set: the journal does not contain",
    ):
        assert said in again.out
    assert "hunter2" not in again.out + again.err
    kept = cclmark("rerun", "a.jsonl", "--keep-environment")
    assert kept.journal.header.environment == {}
    assert "NCCL_ALGO: Ring before, not set now" in kept.out


def test_variables_that_no_journal_keeps_are_not_taken_from_one(cclmark, altered):
    """Nor those in which a launcher describes its job, of a journal from when all were kept."""
    captured = TESTS / "launchers" / "environments.json"
    told = json.loads(captured.read_text())["openmpi-4"]["tasks"][0]["environment"]
    others = {"LD_PRELOAD": "x.so", "PYTHONPATH": "x", **told}
    again = cclmark("rerun", altered(environment={**others, "OMPI_MCA_pml": "ob1"}))
    assert again.journal.header.environment == {"OMPI_MCA_pml": "ob1"}
    assert "OMPI_MCA_pml=ob1 is set, as in the journal" in again.out
    assert again.out.count("OMPI_MCA_") == 1


def test_a_run_of_a_launcher_is_told_how_to_be_started_again(cclmark, altered):
    launched = {"launcher": "srun", "launched": 4}
    path = altered(**launched)
    said = f"start cclmark rerun {path} under srun with 4 processes"
    assert said in cclmark("rerun", path).err


def test_what_differs_is_said(cclmark, altered, journal_lines):
    whole, _ = journal_lines
    path = altered(
        cclmark_version="0.0.1",
        machine=whole["machine"] | {"kernel": "1.0\x1b[2J", "hostname": "elsewhere"},
        devices=whole["devices"][:1],
        libraries=[whole["libraries"][0] | {"version": "9", "path": "/y"}],
    )
    again = cclmark("rerun", path)
    for said in (
        "cclmark: 0.0.1 before, ",
        "host: elsewhere before, ",
        "kernel: 1.0\\x1b[2J before, ",
        "devices: 1 × ",
        "shm: 9 from /y before, ",
    ):
        assert said in again.out
    assert "\x1b" not in again.out + again.err


def test_a_journal_of_missing_accelerators_is_refused_unless_the_user_says_so(
    cclmark, altered, tmp_path
):
    """On a host without them nothing could be compared."""
    there = {"host": "gpus", "runtime": "musa", "name": "MTT S4000", "memory_bytes": 1 << 30}
    path = altered(
        command=["cclmark", "all_reduce", "-b", "64", "-e", "64", "-n", "2"],
        devices=[{**there, "rank": rank, "index": rank} for rank in range(2)],
        libraries=[{"name": "musa-mccl", "version": "2.11", "path": "/opt/mccl.so"}],
    )
    before = sorted(tmp_path.rglob("*"))
    refused = cclmark("rerun", path, code=3)
    assert "measured on 2 × MTT S4000 (musa) with musa-mccl 2.11" in refused.message
    assert "this host has 0 musa devices" in refused.message
    assert f"cclmark rerun --elsewhere {path}" in refused.message
    assert sorted(tmp_path.rglob("*")) == before
    again = cclmark("rerun", "--elsewhere", path, env={"CUDA_VISIBLE_DEVICES": ""})
    assert {result.case.ccl for result in again.journal.results} == {"shm"}
    assert "nothing is compared: " in again.out
    assert "was measured on 2 × MTT S4000 (musa), this run on 2 × " in again.out


def test_commands_that_are_refused(cclmark, altered, tmp_path):
    (tmp_path / "touching.py").write_text("open('touched', 'w')")
    altered()
    before = sorted(tmp_path.rglob("*"))
    for words in (
        *("", "sh -c touch\xa0touched", "cclmark info", "cclmark rerun altered.jsonl"),
        *("cclmark all_reduce --no-such\x1b[2J", "cclmark all_reduce --import touching"),
        "cclmark all_reduce --ccl-path ./touching.so",
    ):
        path = altered(command=[one.replace("\xa0", " ") for one in words.split(" ") if one])
        refused = cclmark("rerun", path, code=2)
        assert "\x1b" not in refused.err + refused.out
        assert refused.message
        assert sorted(tmp_path.rglob("*")) == before
