import gzip
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.journal import machine
from cclmark.journal.journal_file import JournalWriter
from cclmark.journal.machine import kept_environment
from cclmark.journal.secrets import names_secret, without_secrets
from cclmark.kinds.registry import parse_journal, read_journal
from goldens import refusal, require_outcomes
from places import TESTS

IMPORTED = "use cclmark import FILE"
CAPTURED = json.loads((TESTS / "launchers" / "environments.json").read_text())


def test_only_variables_that_matter_are_kept_and_never_secrets():
    kept = kept_environment(
        {
            "NCCL_ALGO": "Ring",
            "CUDA_VISIBLE_DEVICES": "0",
            "NCCL_AUTH_TOKEN": "hunter2",
            "CCLMARK_SECRET": "hunter2",
            "AWS_SECRET_ACCESS_KEY": "hunter2",
            "HOME": "/root",
            **(preloaded := {"LD_PRELOAD": "libnccl.so", "TORCH_DISTRIBUTED_DETAIL": "DEBUG"}),
        }
    )
    assert kept == {"NCCL_ALGO": "Ring", "CUDA_VISIBLE_DEVICES": "0", **preloaded}


@pytest.mark.parametrize("name", CAPTURED)
def test_what_launchers_say_of_their_job_is_not_kept(name):
    for task in CAPTURED[name]["tasks"]:
        # torchrun sets these as a user would, for every process alike.
        of_torchrun = {"OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING"}
        assert kept_environment(task["environment"]).keys() <= of_torchrun


def test_what_users_give_an_mpirun_is_kept():
    theirs = {
        "FI_PROVIDER": "tcp",
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "OMPI_MCA_btl_tcp_if_include": "eth0",
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "core",
        "OMPI_MCA_osc": "ucx",
        "OMPI_MCA_pml": "ob1",
        "UCX_TLS": "tcp",
    }
    told = CAPTURED["openmpi-4-2-hosts"]["tasks"][-1]["environment"]
    assert kept_environment({**told, **theirs, "CCLMARK_STEP": "2"}) == theirs


def test_a_journal_is_never_written_over(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("mine")
    with pytest.raises(UsageError, match=r"run\.jsonl"):
        JournalWriter(path)
    assert path.read_text() == "mine"


def test_a_journal_without_a_whole_header_alone_is_taken_over(tmp_path):
    """It was left by a run that was killed before all its ranks were up."""
    path = tmp_path / "run.jsonl"
    for content in (b"", b'{"type"', b'{"type":"header","schema_version":3,"run'):
        path.write_bytes(content)
        JournalWriter(path).close(keep=True)
        assert path.read_bytes() == b""
    for content in (b'{"type":"header"}\n', b'{"type":"footer"', b"\n", b"{}"):
        path.write_bytes(content)
        with pytest.raises(UsageError, match="File exists"):
            JournalWriter(path)
        assert path.read_bytes() == content
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(UsageError, match="File exists"):
        JournalWriter(tmp_path / "link")


def test_a_journal_that_another_run_is_about_to_begin_is_not_taken_over(tmp_path):
    path = tmp_path / "run.jsonl"
    first = JournalWriter(path)
    with pytest.raises(UsageError, match="File exists"):
        JournalWriter(path)
    assert path.read_bytes() == b""
    first.close(keep=False)
    JournalWriter(path).close(keep=False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "x is empty: not a journal of cclmark"),
        (b'{"type":"header","schema_version":99}\n', "x has schema 99, newer than"),
        (b'{"type":"header","schema_ver', "incomplete: cut off after 28 bytes"),
        (b'{"type":"footer"}', "x is not a journal of cclmark: it begins with"),
        (gzip.compress(b'{"type":"header"}', mtime=0), "it is compressed: gunzip it first"),
        ("{}".encode("utf-16"), "it is UTF-16: save it as UTF-8"),
        (bytes(range(128, 255)), "it is binary"),
        (("x" * 39 + "é").encode(), "it begins with 'xxx"),
        # What other tools print.
        (b"# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n", IMPORTED),
        (b'{"header": {"schema_version": 4}}\n', IMPORTED),
    ],
)
def test_what_is_no_journal_is_described(tmp_path, content, said):
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        read_journal(file)
    assert (said != IMPORTED) or "it begins with " in str(caught.value)


SAMPLE = TESTS / "golden" / "sample.jsonl"


def with_fields(number, *changes):
    """The sample's lines as another program writes JSON, with some fields of a line changed."""
    lines = [json.loads(line) for line in SAMPLE.read_bytes().splitlines()]
    for path, value in changes:
        *parents, last = path.split(".")
        entry = lines[number]
        for name in parents:
            entry = entry[name]
        entry[last] = value
        lines[number].pop("crc32", None)
    return [json.dumps(line).encode() for line in lines]


def test_a_wrong_or_impossible_field_is_named_with_its_line():
    def outcome(line):
        number, field, value = json.loads(line)
        return refusal(parse_journal, with_fields(number, (field, value)), "x.jsonl")

    require_outcomes(TESTS / "journal" / "wrong_fields.txt", outcome)


def test_a_damaged_line_is_left_out_whatever_it_says():
    lines = SAMPLE.read_bytes().splitlines()
    whole = parse_journal(lines, "x")
    content = lines[1].replace(b'"ranks":4', b'"ranks":-4')
    assert content != lines[1]
    lines[1] = b'%s,"crc32":"00000000"}' % content[:-1]
    damaged = parse_journal(lines, "x")
    assert damaged.damaged_lines == 1
    assert damaged.results == whole.results[1:]
    # A field of another kind is damage too: nobody knows what it would have said.
    assert parse_journal(with_fields(1, ("case.ranks", "x")), "x").damaged_lines == 1


def test_secrets():
    """Names of variables, and JSON of values with what is kept of them."""

    def outcome(line):
        if not line.startswith('"'):
            return "secret" if names_secret(line) else "kept"
        value = json.loads(line)
        kept = without_secrets(value)
        assert kept_environment({"NCCL_X": value}) == {"NCCL_X": kept}
        return "as it is" if kept == value else kept

    require_outcomes(TESTS / "journal" / "secrets.txt", outcome)


@given(st.text())
def test_secrets_are_hidden_once(value):
    hidden = without_secrets(value)
    assert without_secrets(hidden) == hidden


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (b'"samples":25', b'"samples":25,"new":-9223372036854775809'),
        (b'"min_s":1.1931e-05', b'"min_s":1E+101'),
        (b"[1.32e-05,1.31e-05,", b"[1.32e-05, 9223372036854775808,"),
    ],
    ids=["a whole number", "a number", "a list"],
)
def test_a_line_with_a_number_too_long_to_compute_with_is_damaged(field, text):
    header, line = SAMPLE.read_bytes().splitlines()[:2]
    line = re.sub(rb',"crc32":"[0-9a-f]{8}"', b"", line)
    assert len(parse_journal([header, line], "x.jsonl").results) == 1
    assert field in line
    journal = parse_journal([header, line.replace(field, text)], "x.jsonl")
    assert (journal.results, journal.damaged_lines) == ([], 1)
    longest = line.replace(b'"samples":25', b'"samples":9223372036854775807')
    assert len(parse_journal([header, longest], "x.jsonl").results) == 1


def test_the_driver_is_that_of_the_kernel_module(monkeypatch):
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"
    monkeypatch.setattr(machine, "kernel_text", lambda path: text)
    assert machine._nvidia_driver() == "570.86.15"
