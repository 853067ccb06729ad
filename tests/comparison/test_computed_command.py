"""``cclmark compare`` of runs that are computed: exact differences, without noise."""

import csv
import json
import shutil

import pytest

from places import RUNS
from transcripts import require_transcript, stored_commands

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


def test_figures_are_those_of_both_journals_with_their_ratio(cclmark, tmp_path):
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
    cclmark("compare", *names, "--format", "html", "-O", tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert "sent to other nodes in a step" in page
    assert "judged network" in page
