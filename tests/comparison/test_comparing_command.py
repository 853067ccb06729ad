"""``cclmark compare``: on the terminal, for a pull request, for CI. Texts are in tests/golden."""

import csv
import json
import re
import shutil

import pytest

from goldens import GOLDEN, require_golden
from places import H200X4, RUNS
from samples import edited, with_header
from transcripts import require_transcript, stored_commands

TEXTS = GOLDEN / "texts"


def of_cases(change):
    """A change of all cases: ``change`` receives the line of one and its size."""

    def change_line(entry):
        is_case = entry["type"] == "case"
        return change(entry, entry["case"]["size_bytes"]) if is_case else None

    return change_line


def timed_auto(ratio):
    """Launches set the sizes up to 512 KiB, and the device's times are ``ratio`` times 5 µs."""

    def change(entry):
        if entry["type"] == "header":
            entry["settings"]["timing"] = "auto"
        elif entry["type"] == "case" and entry["case"]["size_bytes"] <= 512 << 10:
            summary = {**entry["summary"], "time_s": 5e-6 * ratio}
            entry["device"] = {"samples": entry["samples"], "summary": summary}

    return change


def of_a100(entry):
    """Of this device no noise is assumed."""
    for device in entry.get("devices", []):
        device["name"] = "NVIDIA A100-SXM4-80GB"


def of_rccl(entry):
    for library in entry.get("libraries", []):
        if library["name"] == "nccl":
            library.update(name="rccl", version="2.27.7", path="/opt/rccl.so")
    if entry["type"] == "case":
        entry["case"]["ccl"] = "rccl"


def uncaptured(entry):
    if entry["type"] == "case":
        entry["device_reason"] = "the library cannot be captured"
    elif entry["type"] == "header":
        entry["settings"]["timing"] = "auto"


@of_cases
def slower_launches(entry, size):
    entry["summary"]["time_s"] *= 1.35 if size <= 128 << 10 else 1


@of_cases
def by_the_host(entry, size):
    entry["summary"]["clock"] = "host" if size >= 64 << 20 else "device"


@of_cases
def without_spread(entry, _):
    entry["summary"].pop("half_width")


@of_cases
def hung(entry, size):
    if size == 8:
        entry.update(status="timeout", reason="rank 1 hung", summary=None)


@of_cases
def wrong(entry, _):
    entry["status"] = "wrong"


@of_cases
def wrong_or_gone(entry, size):
    entry["status"] = "wrong"
    return size == 8


#: Runs by name: the stored run, and what is changed in it.
ALTERED = {
    "slower-launches": ("default-1", slower_launches),
    **{f"auto-{n}": (f"default-{n}", timed_auto(1.35 if n == 3 else 1)) for n in (1, 2, 3)},
    **{f"uncaptured-{n}": (f"default-{n}", uncaptured) for n in (1, 2)},
    **{f"a100-{n}": (f"default-{n}", of_a100) for n in range(1, 8)},
    "a100-ctas8": ("ctas8", of_a100),
    "rccl": ("ctas8", of_rccl),
    "by-the-host": ("default-2", by_the_host),
    "without-spread": ("ctas8", without_spread),
    "smaller": ("default-2", of_cases(lambda _, size: size < 64 << 20)),
    "small-in-place": (
        "default-2",
        of_cases(lambda entry, size: size <= 1 << 20 and entry["case"].get("in_place")),
    ),
    "hung": ("default-2", hung),
    "wrong": ("default-2", wrong),
    "wrong-or-gone": ("default-2", wrong_or_gone),
}


def run_of(name):
    if name in ALTERED:
        stored, change = ALTERED[name]
        content = edited(run_of(stored), change)
        return with_header(content, run_id="0" * 32) if name == "slower-launches" else content
    whole, other = ((RUNS / f"default-{number}.jsonl").read_bytes() for number in (1, 2))
    made = {
        **{"copy": whole, "cut": whole[:-3000], "early": whole.splitlines(keepends=True)[0]},
        "graph": other.replace(b'"timing":"throughput"', b'"timing":"graph"'),
        **{"empty": b"", "foreign": b"# nThread 1 nGpus 4\n"},
        **{"unnamed": with_header(whole, run_id=""), "copied": with_header(whole, run_id="")},
        "unnamed-other": with_header(other, run_id=""),
        "copies": (H200X4 / "p2p.jsonl").read_bytes(),
    }
    return made[name] if name in made else (RUNS / f"{name}.jsonl").read_bytes()


@pytest.fixture
def compare(cclmark, tmp_path):
    """``compare("default-1 ctas8 --format json")``: runs by name, of which files are made."""

    def run(line, **options):
        sides, option, more = line.partition(" --")
        for name in re.split("[ ,]", sides):
            if name != "nothing":
                (tmp_path / f"{name}.jsonl").write_bytes(run_of(name))
        named = re.sub("[^ ,]+", lambda name: f"{name[0]}.jsonl", sides)
        return cclmark("compare", *f"{named}{option}{more}".split(), **options)

    return run


ROW = re.compile(r"^(  +|\| )[\d.]+ [KM]?i?B .*\n", re.MULTILINE)


@pytest.mark.parametrize("name", sorted(path.stem for path in TEXTS.glob("compare-*.txt")))
def test_what_is_said(compare, name):
    """Whole, but without the rows of most tables. Each stored text names its commands."""
    texts = []
    for line in (TEXTS / f"{name}.txt").read_text().splitlines():
        if not line.startswith("$ cclmark compare "):
            continue
        told = compare(line.removeprefix("$ cclmark compare "), code=(0, 1, 2))
        code = f"[exit code {told.code}]\n" if told.code else ""
        rows = told.out if "-setting" in name else ROW.sub("", told.out)
        texts.append(f"{line}\n{code}{told.err}{rows}")
    require_golden(f"texts/{name}.txt", "\n".join(texts))


def test_for_a_program(compare):
    first, second = json.loads(compare("default-1 buff8 ctas8 --format json").out)
    assert first["after"].endswith("buff8.jsonl")
    assert first["ccls"] is None
    assert {case["verdict"] for case in first["cases"]} == {"no difference", "inconclusive"}
    slower = [case for case in second["cases"] if case["verdict"] == "slower"]
    assert len(slower) == 8
    assert all(case["low"] <= case["ratio"] <= case["high"] for case in slower)
    assert second["differences"][-1] == "NCCL_MAX_CTAS: not set before, 8 after"
    (found,) = json.loads(compare("auto-1 auto-3 --format json").out)
    assert (found["launches"]["count"], found["launches"]["device_verdict"]) == (18, "slower")
    assert found["cases"][0]["before_s"] == pytest.approx(5e-6)
    assert found["cases"][0]["call_before_s"] > 5e-6


def test_elsewhere_the_noise_is_unknown_until_the_history_has_measured_it(
    cclmark, compare, tmp_path
):
    home = {"XDG_DATA_HOME": str(tmp_path / "home")}
    sides = "a100-1 a100-ctas8"
    gated = f"{sides} --fail-if-slower 5%"
    message = compare(gated, env=home, code=2).message
    assert "can be judged: the noise between runs is unknown for this machine: 2 more" in message

    runs = [tmp_path / f"a100-{number}.jsonl" for number in range(2, 8)]
    for run in runs:
        run.write_bytes(run_of(run.stem))
    cclmark("history", "add", *runs, env=home)
    told = compare(gated, env=home, code=1)
    assert "noise from run to run is of this machine, measured by the runs in its" in told.out
    assert re.search(r"128 MiB .* slower", told.out)
    assert "slower by 5 % or more" in told.err


# ``cclmark compare`` of runs that are computed: exact differences, without noise.


KEYS = ("needed_gbit", "network_bytes", "node_bytes", "compute_ms", "step_ms")


def test_what_commands_print(cclmark, tmp_path):
    shutil.copy(RUNS / "default-1.jsonl", tmp_path / "measured.jsonl")
    commands = stored_commands("compare-computed")
    require_transcript("compare-computed", commands, cclmark, tmp_path)


def test_predictions_differ_only_beyond_their_intervals(cclmark, tmp_path):
    head = "nodes,gpus_per_node,size,busbw_gbps,device\n"
    for name, factor in (("a", 1.0), ("b", 0.93), ("c", 0.3)):
        rows = [
            f"{nodes},8,{size},{rate * factor},H100\n"
            for nodes, rates in ((2, (260, 330)), (4, (210, 320)))
            for size, rate in zip(("64M", "8G"), rates, strict=True)
        ]
        (tmp_path / f"{name}.csv").write_text(head + "".join(rows))
        cclmark("predict", f"{name}.csv", "--nodes", "8", "--journal", f"{name}.jsonl", "--quiet")
    close = cclmark("compare", "a.jsonl", "b.jsonl", "--fail-if-slower", "5%")
    assert "where these overlap, no difference is known" in " ".join(close.out.split())
    cclmark("compare", "a.jsonl", "c.jsonl", "--fail-if-slower", "5%", code=1)


def rows_of(cclmark, name):
    """The fields of a journal as exported, by job."""
    rows = csv.DictReader(cclmark("export", name, "--format", "csv", "-O", "-").out.splitlines())
    return {(row["gpus"], row["variant"]): row for row in rows}


def test_figures_are_those_of_both_journals_with_their_ratio(cclmark):
    names = []
    for network in ("8x400", "8x200"):
        names.append(f"{network}.jsonl")
        job = ("--model", "llama3-8b", "--parallel", "zero=3", "--gpus", "64")
        cclmark("need", *job, "--network", network, "--journal", names[-1], "--quiet")
    [found] = json.loads(cclmark("compare", *names, "--format", "json").out)
    assert (found["before"], found["after"]) == tuple(names)
    sides = [rows_of(cclmark, name) for name in names]
    assert len(found["items"]) == len(sides[0]) == len(sides[1]) > 5
    own = found["items"][0]["figures"]
    for key in KEYS:
        before, after = (float(side["64", ""][key]) for side in sides)
        assert (own[key]["before"], own[key]["after"]) == pytest.approx((before, after), rel=1e-6)
        assert own[key]["ratio"] == pytest.approx(after / before, rel=1e-5)
    assert own["needed_gbit"]["ratio"] == own["network_bytes"]["ratio"] == 1
    assert own["step_ms"]["ratio"] > 1
    assert [one["name"] for one in found["differences"]] == ["judged network"]
