"""Files of recorded hosts: what identifies a host is replaced, and damaged files are refused."""

import gzip
import json
import os

import pytest

from cclmark.base.errors import UsageError
from cclmark_fleet.hosts.checks import CHECKS, IDS
from cclmark_fleet.hosts.examination import examine
from cclmark_fleet.hosts.host import Host
from cclmark_fleet.hosts.host_probe import MISSING, LiveProbe, _loopback_names
from cclmark_fleet.hosts.recorded_host import (
    Anonymiser,
    ProbeRecorder,
    RecordedProbe,
    parse_recorded,
    read_recorded,
    write_recorded,
)
from places import TESTS
from recorded_hosts import h100, roce

IDENTIFYING = (
    "GPU-c01949e2-1042-b434-f011-8e33401c426e",
    "a088:c203:0012:3456",
    "fe80:0000:0000:0000:a088:c203:0012:3456",
    "a0:88:c2:12:34:56",
    "80:00:00:48:fe:80:00:00:00:00:00:00:a0:88:c2:03:00:12:34:56",
    "0xa088c20300123456",
    "10.17.3.250",
    "2001:db8::17",
    "3045d0292489d9bb87f664ebf4e248a8",
)
HARMLESS = (
    *("0000:3b:00.0", "535.129.03", "28.41.1000", "2.23.4", "127.0.0.1", "0.0.0.0", "16:20:03"),
    *("Serial Number : N/A", "Board Part Number : 692-2G520"),
    *("12:34:56", "96.00.99.00.01", "0-63,128-191", "0000:0000:0000:0000", "node0", "mlx5_0"),
)


@pytest.mark.parametrize("text", IDENTIFYING)
def test_what_identifies_is_replaced_consistently(text):
    one = Anonymiser("gpu17.cluster.example", b"salt")
    line = f"before {text} after"
    assert text not in one.text(line)
    assert one.text(line) == one.text(line)
    assert len(one.text(text)) == len(text) or text.count(".") == 3 or "::" in text
    assert one.text(line) != Anonymiser("gpu17.cluster.example", b"other").text(line)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_does_not_identify_stays(text):
    assert Anonymiser("gpu17", b"salt").text(f"x {text} y") == f"x {text} y"


def test_names_serial_numbers_and_homes_are_replaced():
    one = Anonymiser("gpu17.cluster.example", b"salt")
    text = "gpu17 gpu17.cluster.example gpu170 Serial Number : 1654024199465 /home/ada/lib"
    changed = one.text(text)
    for secret in ("gpu17 ", "gpu17.cluster", "1654024199465", "ada"):
        assert secret not in changed
    assert "gpu170" in changed and one.name in changed


def test_a_recorded_host_is_judged_as_the_live_one(tmp_path):
    live = RecordedProbe(parse_recorded(roce().content()))
    recorder = ProbeRecorder(live)
    first = examine(Host(recorder), CHECKS, 0.0)
    path = tmp_path / "host.json.gz"
    write_recorded(path, recorder.recorded("gpu17", IDS, "0.1.0"))
    recorded = read_recorded(path)
    second = examine(Host(RecordedProbe(recorded), recorded.checks), CHECKS, 0.0)
    states = [[(one.check, one.state) for one in it.outcomes] for it in (first, second)]
    assert states[0] == states[1]
    assert b"gpu17" not in gzip.decompress(path.read_bytes())


def test_counters_of_the_later_moment_are_recorded(tmp_path):
    host = h100().grow("/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "9\n")
    recorder = ProbeRecorder(RecordedProbe(parse_recorded(host.content())))
    examine(Host(recorder), CHECKS, 0.0)
    path = tmp_path / "host.json"
    write_recorded(path, recorder.recorded("x", IDS, "0"))
    again = read_recorded(path)
    found = examine(Host(RecordedProbe(again), again.checks), CHECKS, 0.0).outcomes
    assert next(one for one in found if one.check == "rdma-errors").state == "fail"


def test_a_check_that_is_newer_than_the_recording_cannot_tell():
    document = h100().document()
    document["checks"].remove("shm-size")
    recorded = parse_recorded(json.dumps(document).encode())
    found = examine(Host(RecordedProbe(recorded), recorded.checks), CHECKS, 0.0).outcomes
    one = next(one for one in found if one.check == "shm-size")
    assert (one.state, "newer" in one.reason) == ("unknown", True)


@pytest.mark.parametrize(
    "path", sorted((TESTS / "kinds" / "doctor" / "hosts").glob("*")), ids=lambda path: path.name
)
def test_recorded_machines_are_judged(path):
    recorded = read_recorded(path)
    found = examine(Host(RecordedProbe(recorded), recorded.checks), CHECKS, 0.0).outcomes
    assert [one.check for one in found if one.state == "fail"] == []
    assert sum(one.state == "pass" for one in found) > 40


def _with(**changes):
    return json.dumps(h100().document() | changes).encode()


BOMB = gzip.compress(b"x" * (65 << 20))
REFUSED = {
    "truncated": (gzip.compress(_with())[:-30], "truncated or damaged"),
    "no text": (b"\xff\xfe\0", "not a recorded host"),
    "a journal": (b'{"type": "header"}', "not a recorded host"),
    "bomb": (BOMB, "expands to more than 64 MiB"),
    "deep": (b"[" * 100_000, "not a recorded host"),
    "format": (_with(format="x\x1b[2J"), "format x\\x1b[2J 1 is unknown"),
    "version": (_with(version=2), "cclmark-host 2 is unknown"),
    "verb": (_with(answers={"write": {"/x": "y"}}), "verb 'write' is unknown"),
    "relative": (_with(answers={"read": {"etc/passwd": "y"}}), "not an absolute path"),
    "outside": (_with(answers={"read": {"/sys/../../etc/passwd": "y"}}), "not an absolute path"),
    "link": (_with(answers={"resolve": {"/sys/x": "../../etc"}}), "not an absolute path"),
    "huge": (_with(answers={"read": {"/sys/x": "y" * (2 << 20)}}), "more than 1 MiB"),
    "interval": (_with(interval_s=-1.0), "not a recorded host"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_files_are_refused(name):
    content, because = REFUSED[name]
    with pytest.raises(UsageError) as refused:
        parse_recorded(content)
    assert because in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_every_part_of_a_file_may_be_cut(tmp_path):
    content = gzip.compress(h100().content())
    for length in range(0, len(content) - 1, 97):
        with pytest.raises(UsageError):
            parse_recorded(content[:length])


def test_no_file_a_folder_and_a_pipe_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe"):
        with pytest.raises(UsageError, match="--from"):
            read_recorded(path)


def test_a_live_probe_answers_from_files_and_commands(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"value\xff\n")
    (tmp_path / "link").symlink_to("file")
    probe = LiveProbe()
    assert probe.read(str(tmp_path / "file")).text == "value�\n"
    assert probe.entries(str(tmp_path)) == ["file", "link"]
    assert probe.resolved(str(tmp_path / "link")) == str((tmp_path / "file").resolve())
    assert probe.read(str(tmp_path / "none")).error == MISSING
    assert probe.run("no-such-program").error == MISSING
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert "LC_ALL=C\n" in probe.run("env").text  # tools speak one language
    os.mkfifo(tmp_path / "pipe")
    assert probe.read(str(tmp_path / "pipe")).text == ""  # and it did not block
    probe.close()


def test_the_home_of_the_user_is_replaced_wherever_it_is():
    anonymous = Anonymiser("node7", b"salt", "/mnt/staff/alice")
    text = anonymous.text("/mnt/staff/alice/.nccl.conf /mnt/staff/alice2/x")
    assert text == "/home/user/.nccl.conf /mnt/staff/alice2/x"
    assert Anonymiser("node7", b"salt", "/root").text("/root/.nccl.conf") == "/root/.nccl.conf"
    assert Anonymiser("node7", b"salt", "/").text("/etc/x") == "/etc/x"


def test_names_of_other_hosts_are_not_read():
    text = "127.0.0.1 localhost # x\n127.0.1.1 a.corp.example a\n::1 b\n10.0.0.7 other\n"
    assert _loopback_names(text) == "127.0.0.1 localhost\n127.0.1.1 a"
