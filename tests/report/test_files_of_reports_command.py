"""``cclmark export`` and ``cclmark report``, and the files of commands that start no rank."""

import json
import resource
import shutil
from contextlib import contextmanager

import pytest

from commands import PROGRAM, completed
from places import H200X4, RUNS, TESTS
from reports import page_data
from samples import with_header
from transcripts import require_transcript, stored_commands

RUN = str(H200X4 / "all_reduce.jsonl")


def test_a_file_keeps_its_rights_and_its_links_and_a_new_one_is_as_others_are(cclmark, tmp_path):
    real, link = tmp_path / "real.prom", tmp_path / "link.prom"
    real.write_text("old")
    real.chmod(0o604)
    link.symlink_to(real)
    cclmark("export", RUN, "--format", "prometheus", "-O", "link.prom")
    assert link.is_symlink()
    assert real.read_text().endswith("# EOF\n")
    assert real.stat().st_mode & 0o777 == 0o604
    cclmark("export", RUN, "--format", "csv", "-O", "new.csv")
    (tmp_path / "other").touch()
    assert (tmp_path / "new.csv").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_reader_that_has_gone(tmp_path):
    done = completed(
        [
            *("bash", "-c", '"$@" | head -c 10 >/dev/null; exit ${PIPESTATUS[0]}', "-"),
            *(*PROGRAM, "export", str(H200X4 / "collectives.jsonl"), "--format", "json"),
        ],
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (141, "")


def test_what_is_said_of_journals(cclmark, tmp_path):
    run, copies = ((H200X4 / f"{name}.jsonl").read_bytes() for name in ("all_reduce", "p2p"))
    lines = run.splitlines(keepends=True)
    devices = json.loads(copies.partition(b"\n")[0])["devices"]
    files = {
        **{"run.jsonl": run, "again.jsonl": run, "page.html": run, "cut.jsonl": run[:-3000]},
        **{"early.jsonl": lines[0], "short.jsonl": b"".join(lines[:5])},
        # Its copies are of two devices more than its header names.
        **{"text.jsonl": b"# nThread 1\n", "two.jsonl": with_header(copies, devices=devices[:2])},
        **{f"default-{one}.jsonl": (RUNS / f"default-{one}.jsonl").read_bytes() for one in (1, 2)},
        **{"never.jsonl": b"", "blank.jsonl": b"\n\n", "header.jsonl": lines[0][:300]},
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    require_transcript("journals", stored_commands("journals"), cclmark, tmp_path)
    assert (tmp_path / "page.html").read_bytes() == run


COLLECTIVES = str(H200X4 / "report" / "collectives.jsonl")
COPIES = str(H200X4 / "report" / "p2p.jsonl")


def data_of(path):
    """The data of a page, and its cells row by row."""
    data = page_data(path.read_text())
    return data | {"rows": [*zip(*data["cells"], strict=True)]}


def test_figures_stand_beside_those_of_others(cclmark, tmp_path):
    cclmark("report", COLLECTIVES)
    text = (tmp_path / "collectives.html").read_text()
    assert "Peaks are normal: all_reduce 99%, all_gather 100%" in text
    data = data_of(tmp_path / "collectives.html")
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
    charts = data_of(tmp_path / "two.html")["charts"]
    (bandwidth,) = [one for one in charts if one["key"].endswith("bandwidth")]
    names = [one["name"] for one in bandwidth["series"]]
    assert {one for one in names if not one.startswith("reference: ")} == {
        f"{run} {placed}-place" for run in ("usual", "ctas8") for placed in ("in", "out-of")
    }
    # Names of files, too, have to tell journals apart.
    shutil.copy(COPIES, tmp_path / "collectives.jsonl")
    cclmark("report", "collectives.jsonl", COLLECTIVES)
    assert data_of(tmp_path / "collectives.html")["columns"][0] == "run"


def test_each_chart_is_a_picture(cclmark, tmp_path):
    pytest.importorskip("matplotlib")
    journal = str(TESTS / "journals" / "simulate.jsonl")
    told = cclmark("report", journal, "--png", "pictures", "--svg", "pictures")
    assert told.err == "cclmark: 2 pictures in pictures\n" * 2
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == [
        f"{name}.{format}"
        for name in ("link-load", "simulated-bus-bandwidth")
        for format in ("png", "svg")
    ]
    assert not list(tmp_path.glob("*.html"))


# Outputs: never an input, and whole or not there.


INPUTS = {
    "a.jsonl": H200X4 / "runs" / "default-1.jsonl",
    "b.jsonl": H200X4 / "runs" / "default-2.jsonl",
    "c.jsonl": H200X4 / "runs" / "ctas8.jsonl",
    "copies.jsonl": H200X4 / "p2p.jsonl",
}
HISTORY = ("--db", "history.sqlite")
RUN_ID = "fa3d6a0ec1c84c559bb0eb9291906219"  # of a.jsonl
#: By name: the words before the output, and the option that names it.
WRITING = {
    "compare": (("compare", "a.jsonl,b.jsonl", "c.jsonl", "--format", "html"), "-O"),
    "export": (("export", "c.jsonl", "--format", "csv"), "-O"),
    "report": (("report", "a.jsonl", "c.jsonl"), "-o"),
    "references": (("references", "check", "c.jsonl"), "-O"),
    "history list": (("history", "list", *HISTORY), "-O"),
    "history show": (("history", "show", RUN_ID, *HISTORY), "-O"),
    "history trend": (("history", "trend", *HISTORY), "-O"),
    "history export": (("history", "export", RUN_ID, *HISTORY), "-O"),
}
each_command = pytest.mark.parametrize(("words", "option"), WRITING.values(), ids=WRITING)


@pytest.fixture
def files(cclmark, tmp_path):
    """The content of the inputs, to which a symbolic link leads and a hard one."""
    for name, path in INPUTS.items():
        shutil.copy(path, tmp_path / name)
    cclmark("history", "add", "a.jsonl", *HISTORY)
    (tmp_path / "link").symlink_to("c.jsonl")
    (tmp_path / "hard").hardlink_to(tmp_path / "c.jsonl")
    return contents(tmp_path)


def contents(directory):
    return {file.name: file.read_bytes() for file in directory.iterdir()}


@each_command
def test_outputs_that_cannot_be_written_and_standard_output(
    cclmark, tmp_path, files, words, option
):
    for place, code, reason in (
        ("no/where", 2, "No such file or directory"),
        (".", 2, "Is a directory"),
        ("/dev/full", 3, "No space left on device"),
    ):
        message = cclmark(*words, option, place, code=code).message
        assert message.endswith(f"cclmark: cannot write {place}: {reason}")
    told = cclmark(*words, option, "-")
    assert told.out
    assert "report" in words or told.out == cclmark(*words).out
    assert contents(tmp_path) == files


@each_command
def test_an_input_is_not_written_over(cclmark, tmp_path, files, words, option):
    names = ["history.sqlite"] if "history" in words else ["c.jsonl", "link", "hard"]
    names += ["a.jsonl", "b.jsonl"] if "compare" in words else []
    said = (
        "already exists" if "export" in words[1:2] else "is an input of this command and would be"
    )
    for name in names:
        assert f"{name} {said}" in cclmark(*words, option, name, code=2).message
        assert contents(tmp_path) == files


@contextmanager
def small_files():
    """The limit for the size of files stands for a full disk; Python ignores its signal."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "a.jsonl", "c.jsonl", "--format", "html", "-O"),
        ("export", "copies.jsonl", "--format", "json", "-O"),
        ("report", "c.jsonl", "-o"),
        ("history", "export", RUN_ID, *HISTORY, "-O"),
        ("import", "nccl.txt", "-o"),
    ],
    ids=lambda words: words[0],
)
def test_no_room_leaves_what_was_there(cclmark, tmp_path, files, words):
    shutil.copy(TESTS / "foreign" / "nccl-tests-2.19.txt", tmp_path / "nccl.txt")
    (tmp_path / "old").write_text("old")
    before = contents(tmp_path)
    for name in ("new",) if words[0] in ("history", "import") else ("new", "old"):
        with small_files():
            told = cclmark(*words, name, code=3)
        assert f"{name}: File too large" in told.err
        assert "cannot write " in told.err
        assert contents(tmp_path) == before
