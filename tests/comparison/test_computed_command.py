"""``cclmark compare`` of runs that are computed: exact differences, without noise."""

import csv
import json
import re

import pytest

JOB = ("need", "--model", "llama3-8b", "--parallel", "zero=3")
KEYS = ("needed_gbit", "network_bytes", "node_bytes", "compute_ms", "step_ms")


@pytest.fixture
def needs(cclmark, tmp_path):
    """``needs(after=("--network", "8x200"))``: the runs before and after; both of 64 GPUs."""

    def run(before=("--network", "8x400"), after=("--network", "8x200"), gpus=("64", "64")):
        names = []
        for name, options, number in zip(("a", "b"), (before, after), gpus, strict=True):
            file = tmp_path / f"{name}.jsonl"
            cclmark(*JOB, "--gpus", number, *options, "--journal", file, "--quiet")
            names.append(file.name)
        return names

    return run


def rows_of(cclmark, name):
    """The fields of a journal as exported, by job."""
    rows = csv.DictReader(cclmark("export", name, "--format", "csv", "-O", "-").out.splitlines())
    return {(row["gpus"], row["variant"]): row for row in rows}


def test_figures_are_those_of_both_journals_with_their_ratio(cclmark, needs):
    names = needs()
    [found] = json.loads(cclmark("compare", *names, "--format", "json").out)
    assert (found["before"], found["after"]) == tuple(names)
    sides = [rows_of(cclmark, name) for name in names]
    assert len(found["items"]) == len(sides[0]) == len(sides[1]) > 5
    own = found["items"][0]["figures"]
    for key in KEYS:
        before, after = (float(side["64", ""][key]) for side in sides)
        assert (own[key]["before"], own[key]["after"]) == pytest.approx((before, after), rel=1e-6)
        assert own[key]["ratio"] == pytest.approx(after / before, rel=1e-5)
    # Half of the rate: the same messages, which need the same network, take longer.
    assert own["needed_gbit"]["ratio"] == own["network_bytes"]["ratio"] == 1
    assert own["step_ms"]["ratio"] > 1
    assert [one["name"] for one in found["differences"]] == ["judged network"]


def test_the_text_shows_what_differs_and_each_number_of_gpus(cclmark, needs):
    names = needs(after=("--network", "8x400", "--seq", "4096"), gpus=("64,128", "128,256"))
    text = cclmark("compare", *names).out
    assert re.search(r"batch +\d+ sequences of 8,192 tokens.* \d+ sequences of 4,096", text)
    assert re.search(r"only before +64 GPUs\n", text)
    assert re.search(r"only after +256 GPUs\n", text)
    table = text.partition("  128 GPUs\n")[2]
    assert re.search(r"compute of a step +9\d\d ms +4\d\d ms +0\.4\d+\n", table)
    assert "with half the sequence" not in text
    assert "noise" not in text


def test_equal_runs_have_no_difference(cclmark, needs):
    names = needs(after=("--network", "8x400"))
    assert "1 job on both sides" in (text := cclmark("compare", *names).out)
    assert "all figures are equal" in text
    assert "what the runs assume" not in text
    cclmark("compare", *names, "--fail-if-slower", "1%")


@pytest.mark.parametrize(
    ("before", "after", "gpus", "code", "said"),
    [
        (["--network", "8x400"], ["--network", "8x50"], ("64", "64"), 1, "slower by 5 % or more"),
        (["--network", "8x50"], ["--network", "8x400"], ("64", "64"), 0, ""),
        # A step of half the batch takes about half of the time, but no less for a token.
        (
            ["--network", "8x400", "--batch", "128"],
            ["--network", "8x50", "--batch", "64"],
            *(("64", "64"), 1, "slower by 5 % or more"),
        ),
        (["--network", "8x400"], ["--network", "8x400"], ("64,128", "64"), 1, "only before: 128"),
        ([], [], ("64", "64"), 2, "judge a network on both sides, cclmark need --network"),
    ],
)
def test_the_step_decides_whether_a_run_is_slower(cclmark, needs, before, after, gpus, code, said):
    names = needs(before, after, gpus)
    assert said in cclmark("compare", *names, "--fail-if-slower", "5%", code=code).err


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


def test_a_page_has_the_tables(cclmark, needs, tmp_path):
    cclmark("compare", *needs(), "--format", "html", "-O", tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert "sent to other nodes in a step" in page
    assert "judged network" in page


def test_what_cannot_be_compared_is_refused(cclmark, needs, tmp_path):
    a, b = needs(gpus=("64", "128"))
    assert "have nothing in common: 64 GPUs before, 128 GPUs after" in (
        cclmark("compare", a, b, code=2).err
    )
    cclmark("all_reduce", "--devices", "host:2", "-b", "8", "-e", "8", "--journal", "m.jsonl")
    for names in ([a, "m.jsonl"], ["m.jsonl", a]):
        said = cclmark("compare", *names, code=2).err
        assert "these are not compared. Use two journals of the same kind" in said
    cclmark(*JOB, "--gpus", "64", "--network", "8x400", "--journal", "c.jsonl", "--quiet")
    said = cclmark("compare", f"{a},c.jsonl", b, code=2).err
    assert "jobs are computed and have no noise: use one journal for each side" in said
