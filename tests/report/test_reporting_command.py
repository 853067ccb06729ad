"""``cclmark report``: a page, pictures, and what is said where neither can be made."""

import shutil
from pathlib import Path

import pytest

from places import H200X4, RUNS
from reports import page_data

COLLECTIVES = str(H200X4 / "report" / "collectives.jsonl")
COPIES = str(H200X4 / "report" / "p2p.jsonl")


def data_of(path):
    """The data of a page, the cells row by row, and the names of the curves of its bandwidth."""
    data = page_data(path.read_text())
    rows = [*zip(*data["cells"], strict=True)]
    charts = [one for one in data["charts"] if one["key"].endswith("bandwidth")]
    names = [one["name"] for chart in charts[:1] for one in chart["series"]]
    return data | {"rows": rows, "names": names}


def test_a_run_that_was_just_measured_becomes_a_page(cclmark, tmp_path):
    run = cclmark("all_reduce", "-b", "8", "-e", "64K", "-f", "8", "--devices", "host:2")
    told = cclmark("report", str(run.journal_path), "-o", "report.html")
    assert told.err == "cclmark: report report.html\n"
    assert told.out.startswith("  verdict ")
    data = data_of(tmp_path / "report.html")
    assert {"lines", "boxes"} <= {chart["kind"] for chart in data["charts"]}
    assert len(data["rows"]) == len(run.journal.results)
    assert "all_reduce on 2 × " in (tmp_path / "report.html").read_text()


def test_figures_stand_beside_those_of_others(cclmark, tmp_path):
    cclmark("report", COLLECTIVES)
    text = (tmp_path / "collectives.html").read_text()
    assert "Peaks are normal: all_reduce 99%, all_gather 100%" in text
    assert "(4 × H200, nccl-tests 2.19.6, NCCL 2.28.9, multicast off)" in text
    data = data_of(tmp_path / "collectives.html")
    reference = "reference: 4 × H200, nccl-tests"
    assert sum(one.startswith(reference) for one in data["names"]) == 1
    row = dict(zip(data["columns"], data["rows"][0], strict=True))
    assert 50 < row["of_reference_percent"] < 150
    assert "nccl-tests" in data["texts"][row["reference"][0]]


def test_several_journals_are_drawn_on_the_same_axes(cclmark, tmp_path):
    cclmark(
        *("report", f"usual={RUNS / 'default-1.jsonl'}", str(RUNS / "ctas8.jsonl")),
        *("--title", "Eight CTAs <beside> the usual", "-o", "two.html"),
    )
    text = (tmp_path / "two.html").read_text()
    assert "<title>Eight CTAs &lt;beside&gt; the usual</title>" in text
    data = data_of(tmp_path / "two.html")
    assert {one for one in data["names"] if not one.startswith("reference: ")} == {
        f"{run} {placed}-place" for run in ("usual", "ctas8") for placed in ("in", "out-of")
    }
    assert data["columns"][0] == "run"
    # Names of files, too, have to tell journals apart.
    shutil.copy(COPIES, tmp_path / "collectives.jsonl")
    cclmark("report", "collectives.jsonl", COLLECTIVES)
    assert data_of(tmp_path / "collectives.html")["columns"][0] == "run"


def test_each_chart_is_a_picture(cclmark, tmp_path):
    pytest.importorskip("matplotlib")
    told = cclmark("report", str(RUNS / "ctas8.jsonl"), "--png", "pictures", "--svg", "pictures")
    assert told.err == "cclmark: 4 pictures in pictures\n" * 2
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == [
        f"all_reduce-float32-sum-{kind}.{format}"
        for kind in ("bandwidth", "ranks", "spread", "time")
        for format in ("png", "svg")
    ]
    assert not list(tmp_path.glob("*.html"))


def test_a_journal_that_was_cut_off_is_reported_as_far_as_it_goes(cclmark, tmp_path):
    content = Path(COLLECTIVES).read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(content[: len(content) // 3])
    cclmark("report", "cut.jsonl")
    text = (tmp_path / "cut.html").read_text()
    assert "The run ended early after" in text
    assert "the end of the run is missing" in text


def test_an_older_report_is_replaced_whole_or_not_at_all(cclmark, tmp_path):
    (tmp_path / "r.html").write_text("older")
    cclmark("report", "gone.jsonl", "-o", "r.html", code=2)
    assert (tmp_path / "r.html").read_text() == "older"
    cclmark("report", COPIES, "-o", "r.html")
    assert 100_000 < (tmp_path / "r.html").stat().st_size < 300_000
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_a_comparison_becomes_a_page(cclmark, tmp_path):
    two = [str(RUNS / f"{name}.jsonl") for name in ("default-1", "ctas8")]
    cclmark("compare", *two, "--format", "html", "-O", "c.html")
    data = data_of(tmp_path / "c.html")
    assert data["charts"][0]["key"].endswith("-ratio")
    assert data["columns"][-2:] == ["verdict", "reason"]


def test_journals_without_results_are_named_and_the_others_used(cclmark, tmp_path):
    for name in ("default-1", "default-2"):
        shutil.copy(RUNS / f"{name}.jsonl", tmp_path)
    header = (tmp_path / "default-1.jsonl").read_bytes().partition(b"\n")[0]
    incomplete = "its first line, the header, is incomplete: cut off after 300 bytes"
    empty = {
        "never.jsonl": (b"", "it is empty"),
        "blank.jsonl": (b"\n\n", "it is empty"),
        "cut.jsonl": (header[:300], incomplete),
        "early.jsonl": (header + b"\n", "the end of the run is missing; 0 of 26 results are there"),
    }
    named = ""
    for name, (content, why) in empty.items():
        (tmp_path / name).write_bytes(content)
        named += f"cclmark: {name} holds no result: {why}\n"
    told = cclmark("report", *empty, "default-1.jsonl")
    assert told.err == f"{named}cclmark: report default-1.html\n"
    assert len(data_of(tmp_path / "default-1.html")["rows"]) == 26
    told = cclmark("export", *empty, "default-1.jsonl", "--format", "csv")
    assert (told.err, len(told.out.splitlines())) == (named, 27)
    told = cclmark("compare", "default-1.jsonl", ",".join([*empty, "default-2.jsonl"]))
    assert told.err == named
    assert told.out == cclmark("compare", "default-1.jsonl", "default-2.jsonl").out
    for command in (("report",), ("export", "--format", "csv")):
        told = cclmark(*command, *empty, code=2)
        assert told.err == "cclmark: never.jsonl is empty: not a journal of cclmark\n"
    assert "never.jsonl is empty" in cclmark("compare", "default-1.jsonl", *empty, code=2).message


def test_a_cut_header_before_other_lines_is_no_empty_journal(cclmark, tmp_path):
    lines = (RUNS / "default-1.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "odd.jsonl").write_bytes(b"".join([lines[0][:300] + b"\n", *lines[1:]]))
    told = cclmark("report", "odd.jsonl", COLLECTIVES, code=2)
    assert "is incomplete: cut off after 300 bytes. Without it" in told.message
