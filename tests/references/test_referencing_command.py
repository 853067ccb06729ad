"""``cclmark references``: what there is, whether a journal is as it should be, one's own.

What commands print is in tests/golden/transcripts.
"""

import json
import re

import pytest

from places import H200X4
from samples import edited
from transcripts import require_transcript, stored_commands, stored_names

HOST = ("all_reduce", "--devices", "host:2", "-b", "1M", "-e", "4M", "-n", "5", "-w", "2")
STORED = {
    "sweep": H200X4 / "all_reduce.jsonl",
    "copies": H200X4 / "p2p.jsonl",
    "hosts": H200X4 / "two_hosts.jsonl",
    "devices": H200X4.parent / "h200x2" / "all_reduce.jsonl",
}
SERIES = 'title = "ours"\n[[series]]\ndevices = "4 x H200"\noperation = "all_reduce"\n'
FIGURES = "figures = '''\nsize busbw_gbps\n1G 350\n'''\n"


def longer(summary, factor):
    summary["time_s"] *= factor
    summary["busbw_bytes_per_s"] /= factor


def slow(entry):
    if entry.get("summary"):
        longer(entry["summary"], 2)


def slow_devices(entry):
    if "device" in entry:
        longer(entry["device"]["summary"], 1.2)
        entry["device"]["summary"]["algbw_bytes_per_s"] /= 1.2


def wrong(entry):
    if entry.get("index") == 0:
        entry["status"] = "wrong"


def noisy(entry):
    """Three of the sweep vary by more than 10 %; here one more did not converge."""
    if entry["type"] == "case":
        entry["converged"] = entry["index"] != 27
    if entry.get("index") == 26:
        del entry["verification"]


def varied(entry):
    if entry.get("index") == 0:
        for row in entry["samples"]["device_s"][1::2]:
            row[:] = [2 * time_s for time_s in row]


#: Journals by name: the stored one, and what is changed in it.
ALTERED = {
    "slow": ("sweep", slow),
    "slow-devices": ("devices", slow_devices),
    "small": ("sweep", lambda one: one.get("case", {}).get("size_bytes", 0) <= 512),
    "wrong": ("sweep", wrong),
    "noisy": ("sweep", noisy),
    "varied": ("copies", varied),
}
LINES = {"empty": 1, "short": 6, "cut": 25}  # of the sweep


def journal_of(name):
    if name in ALTERED:
        stored, change = ALTERED[name]
        return edited(journal_of(stored), change)
    if name in LINES:
        return b"".join(journal_of("sweep").splitlines(keepends=True)[: LINES[name]])
    return STORED[name].read_bytes()


@pytest.fixture
def refs(cclmark, tmp_path):
    """Runs the program with a separate data directory, beside the journals."""
    for name in (*STORED, *ALTERED, *LINES):
        (tmp_path / f"{name}.jsonl").write_bytes(journal_of(name))

    def run(*arguments, env=None, **options):
        home = {"XDG_DATA_HOME": str(tmp_path / "data")}
        return cclmark(*arguments, env={**home, **(env or {})}, **options)

    return run


@pytest.fixture
def own(tmp_path):
    home = tmp_path / "data" / "cclmark" / "references"
    return lambda: sorted(file.name for file in home.glob("*"))


#: The files of references that remain after the commands of a transcript.
LEFT = {
    "references-times-of-devices": ["own.toml"],
    "references-left-out": ["copies.toml", "short.toml", "x.toml"],
    "references-odd-names": ["机架-1.toml"],
}


@pytest.mark.parametrize("name", stored_names("references-"))
def test_what_commands_print(refs, own, tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "ours").mkdir()
    for file in ("a", "b"):
        (tmp_path / "ours" / f"{file}.toml").write_text(SERIES + FIGURES)
    (tmp_path / "ours" / "broken.toml").write_text("title = 3\n[[")
    require_transcript(name, stored_commands(name), refs, tmp_path)
    assert own() == LEFT.get(name, [])


def test_for_a_program(refs, tmp_path):
    assert refs("references", "--format", "json", "-O", "all.json").out == ""
    document = json.loads((tmp_path / "all.json").read_text())
    assert len(document["figures"]) > 2000
    sources = {one["name"] for one in document["sources"]}
    assert {one["source"] for one in document["figures"]} == sources
    document = json.loads(refs("references", "check", "sweep.jsonl", "--format", "json").out)
    assert len(document["cases"]) == 28
    last = document["cases"][-1]
    assert last["judged"]
    assert last["reference"]["source"] == "nccl-tests-h200x4-rounds"
    share = last["bytes_per_s"] / last["reference"]["bytes_per_s"]
    assert last["reference"]["share"] == pytest.approx(share)


def test_a_machine_that_one_accepted_is_what_the_next_run_is_held_against(refs):
    journal = str(refs(*HOST).journal_path)
    refs("references", "add", journal, "--name", "our rack, accepted 2026-11", "--force")
    checked = refs("references", "check", journal, "--fail-below", "99.9%")
    assert 'a: "our rack, accepted 2026-11", 2 × ' in checked.out
    assert "6 judged, 0 of them below 99.9%; shares from 100% to 100%" in checked.out
    again = refs(*HOST, "--references").out
    assert len(re.findall(r"\d% a", again)) == 6
    assert 'a: "our rack, accepted 2026-11"' in again
    # On a busy machine one run may be more than ten times as fast as the other.
    share = r"(normal: all_reduce|all_reduce is (low|high):) (>999|\d+)% of the reference"
    assert re.search(share, again)


def test_a_broken_file_of_the_users_is_named(refs, tmp_path):
    home = tmp_path / "data" / "cclmark" / "references"
    home.mkdir(parents=True)
    (home / "mine.toml").write_text(SERIES.replace("devices", "device") + FIGURES)
    message = refs("references", "check", "sweep.jsonl", code=2).message
    said = "mine.toml: series 1: unknown key 'device': did you mean 'devices'?"
    assert f"{home / said}" in message
    # A measurement does without.
    told = refs(*HOST)
    assert f"your references are not used: {home / 'mine.toml'}" in told.err
    assert "6 of 6 cases checked, 0 wrong" in told.out
