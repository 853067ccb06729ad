"""The Python API: runs as values, and the examples of its page."""

import contextlib
import io
import json
import re
import sys
from pathlib import Path

import pytest

import cclmark
import cclmark as api  # beside the fixture of this name
from cclmark.base.errors import MissingError, UsageError
from commands import completed
from examples import exhaustive
from places import REPOSITORY
from ports import free_port
from samples import edited

PAGE = REPOSITORY / "docs" / "reference" / "python.md"
EXPLAINED = 'cclmark.measure_options("all_reduce") explains all'
HOST = {"devices": "host:2"}
SMALL = {"sizes": "64:512:8", "devices": "host:2", "max_time_s": 0.05}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("api") / "run.jsonl"
    return cclmark.measure("all_reduce", journal=place, **SMALL)


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"(?<!-->\n)```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 5
    printed = io.StringIO()
    for block in blocks:
        with contextlib.redirect_stdout(printed):
            exec(block, names)
    assert "cases of all_reduce on 2 ×" in printed.getvalue()
    assert "all_gather bfloat16" in printed.getvalue()
    assert "['p2p', 'pairs', 'experiment', 'memory']" in printed.getvalue()


def test_the_page_names_every_member():
    page = PAGE.read_text()
    members = [name for name in vars(cclmark.Run) if not name.startswith("_")]
    fields = [*cclmark.Run.__dataclass_fields__]
    missing = [name for name in (*members, *fields, *cclmark.__all__) if name not in page]
    assert missing == ["RunComparison", "Session", "__version__"]


def test_a_run_has_its_rows_its_verdict_and_its_texts(run, cclmark):
    assert [row.case.size_bytes for row in run.rows] == [64, 64, 512, 512]
    assert all(row.summary.time_s > 0 for row in run.rows)
    assert (run.kind, run.partial) == ("collective", False)
    first, *rest = repr(run).splitlines()
    assert first.startswith("4 cases of all_reduce on 2 ×")
    assert any("none was wrong" in line for line in rest)
    assert "good" in {one.severity for one in run.findings}
    assert run.header.command[:2] == ["cclmark", "all_reduce"]
    words = " ".join(run.header.command)
    assert all(one in words for one in ("-b 64 -e 512 -f 8", "--devices host:2", "--max-time 0.05"))
    assert cclmark("export", str(run.path), "--format", "csv").out.count("\n") == 5
    assert "nccl-tests" in run.formats
    assert run.text("csv").count("\n") == 5
    with pytest.raises(UsageError, match="no format 'pccl': choose from table"):
        run.text("pccl")
    table = run.to_arrow()
    assert table.num_rows == 4
    assert {"operation", "size_bytes", "time_us"} <= set(table.column_names)
    assert run.to_arrow("samples").num_rows > 4
    shown = run._repr_html_()
    assert shown.startswith("<p><b>4 cases of all_reduce")
    assert "<pre>" in shown and "512 B" in shown
    assert "<script" not in shown


def test_runs_are_compared(run):
    again = cclmark.open(run.path)
    found = run.compare(again)
    assert {one.ratio for one in found.rows} == {1.0}
    assert repr(found).startswith("run against run\n")
    with pytest.raises(UsageError, match="at least one run"):
        cclmark.compare([], run)
    with pytest.raises(MissingError, match="libcuda"):
        cclmark.measure("all_reduce", devices="cuda:0")


def test_an_interrupted_journal_is_partial(run, tmp_path):
    lines = Path(run.path).read_bytes().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_bytes(b"".join(lines[:3]))
    cut = cclmark.open(tmp_path / "cut.jsonl")
    assert cut.partial
    assert len(cut.rows) == 2
    assert any(one.severity != "good" for one in cut.findings)
    failed = Path(run.path).read_bytes().replace(b'"status":"ok"', b'"status":"timeout"', 1)
    (tmp_path / "failed.jsonl").write_bytes(edited(failed, lambda entry: True))
    assert cclmark.open(tmp_path / "failed.jsonl").partial


JOURNALS = REPOSITORY / "tests" / "journals"
TINY = {**HOST, "max_time_s": 0.05}
TUNED = {
    "settings": "CCLMARK_SHM_INLINE_BYTES",
    "budget": "1s",
    "output": "tuned",
    "max_time_s": 0.01,
}
TRAINED = {"model": "tiny", "sequence": 16, "steps": 2, "warmup": 1, **HOST}
OF_OTHER_KINDS = [
    ("all_reduce", {"sizes": "64", "pieces": "1,2", **TINY}, "pieces"),
    ("p2p", {"sizes": "64K", "perf": "uniBw", "kernel": "ca-wb-x", "warmup": 0, **TINY}, "p2p"),
    ("tune all_reduce", {"sizes": "64", **TUNED, **HOST}, "tune"),
    (f"replay {JOURNALS / 'profile.jsonl'}", {"gaps": "drop", "steps": 2, "warmup": 1}, "replay"),
    exhaustive("train", TRAINED, "train"),  # its ranks import torch for seconds
]


@pytest.mark.parametrize(("line", "options", "kind"), OF_OTHER_KINDS)
def test_every_kind_is_measured_in_silence(capfd, monkeypatch, tmp_path, line, options, kind):
    if line == "train":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    found = cclmark.measure(*line.split(), journal="run.jsonl", **options)
    assert (found.kind, found.name, found.path) == (kind, "run", Path("run.jsonl"))
    assert any(row.is_measured for row in found.rows)
    assert found.header.command[: 1 + len(line.split())] == ["cclmark", *line.split()]
    out, err = capfd.readouterr()
    assert out == ""
    assert not re.sub("cclmark: another cclmark run is active on this host.*\n", "", err)
    assert repr(cclmark.open("run.jsonl")) == repr(found)
    assert not (tmp_path / "cclmark-runs").exists()


def test_a_run_without_figures_raises_the_error_of_its_exit_code(tmp_path):
    """What is missing is said, in the journal too."""
    with pytest.raises(MissingError, match="no process of the program had loaded"):
        cclmark.measure("profile", sys.executable, "-c", "", journal=tmp_path / "run.jsonl")
    assert "had loaded" in str(cclmark.open(tmp_path / "run.jsonl").journal.footer)


LAUNCHED = {
    **{"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"},
    **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "x"},
}


def test_under_a_launcher_it_says_what_to_do(monkeypatch):
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=r"started by a launcher: use cclmark\.session"):
        cclmark.measure("all_reduce")
    pytest.importorskip("torch")
    wanted = r"call torch\.distributed\.init_process_group before"
    with pytest.raises(UsageError, match=wanted), cclmark.session():
        pass


def test_importing_it_imports_nothing_else():
    code = "import sys, cclmark; print([n for n in sys.modules if n.startswith('cclmark.')])"
    done = completed([sys.executable, "-c", code], check=True)
    assert done.stdout == "['cclmark.base', 'cclmark.base.errors', 'cclmark.base.version']\n"
    assert {"measure", "open", "compare"} <= set(dir(cclmark))


WITH_ERRORS = """
import json
small = {"sizes": "64", "devices": "host:1", "max_time_s": 0.05}
with cclmark.session() as session:
    runs = [session.measure("all_reduce", journal=f"{n}.jsonl", **small) for n in range(2)]
    errors = []
    other = {"nope": 1} if session.rank else {}
    unlike = {"sizes": 8 << session.rank}
    kinds = [session.measure("memory", "all_reduce", sizes=64, devices="host:1").kind]
    kinds += [session.measure("p2p", sizes="64K", devices="host:2", max_time_s=0.05).kind]
    varied = {"vary": ["CCLMARK_SHM_INLINE_BYTES=0"], "rounds": 2, "max_time_s": 0.02}
    kinds += [session.measure("experiment", "reduce", sizes=64, devices="host:1", **varied).kind]
    try:
        session.measure("profile", "true")
    except cclmark.UsageError as error:
        kinds.append(str(error))
    for wrong in ({"devices": "cuda:0"}, {"colour": 1}, other, unlike, {"placement": "x"}):
        try:
            session.measure("all_reduce", **wrong)
        except cclmark.CclmarkError as error:
            errors.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")
times = [[row.summary.time_s for row in run.rows] for run in runs]
found = times, [run.header.run_id for run in runs]
with open(f"answer-{session.rank}.json", "w") as file:
    json.dump([session.rank, *found, errors, [str(run.path) for run in runs], kinds], file)
total = [None, None]
dist.all_gather_object(total, session.rank)
assert total == [0, 1], "the default group works as before"
dist.destroy_process_group()
"""


def test_the_program_of_the_page_and_one_with_errors_run_under_torchrun(tmp_path):
    """Every process gets the same run or error."""
    pytest.importorskip("torch")
    (program,) = re.findall(r"<!-- torchrun -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    # A second group of the same processes may find addresses of the first one in torch's store.
    destroyed = "dist.destroy_process_group()\n"
    assert program.endswith(destroyed)
    (tmp_path / "program.py").write_text(program.removesuffix(destroyed) + WITH_ERRORS)
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    done = completed(
        [*torchrun, "--master-port", str(free_port()), "program.py"], cwd=tmp_path, timeout_s=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("8 cases of all_reduce on 2 ×")
    first, second = (
        json.loads((tmp_path / f"answer-{rank}.json").read_text()) for rank in range(2)
    )
    assert first[0:1] + second[0:1] == [0, 1]
    assert first[1:4] == second[1:4]  # times, runs and errors
    assert len(set(first[2])) == 2
    assert first[3][0].startswith("MissingError: process 0 on ")
    assert first[3][1:] == [
        "UsageError: process 0: measure has no option colour. " + EXPLAINED,
        "UsageError: process 1: measure has no option nope. " + EXPLAINED,
        "UsageError: process 1 called measure with other arguments than process 0: call it alike "
        "in all processes",
        "UsageError: process 0: placement='x': 'x' is not one of 'both', 'out-of-place', "
        "'in-place'.",
    ]
    assert (first[4], second[4]) == (["0.jsonl", "1.jsonl"], ["None", "None"])
    assert (tmp_path / "0.jsonl").exists()
    assert first[5] == second[5]
    assert first[5] == [
        *("memory", "p2p", "experiment"),
        "profile runs a program itself: cclmark.session has no part in it",
    ]


def test_a_session_of_one_process_measures_as_usual():
    with cclmark.session() as session:
        found = session.measure("all_reduce", **SMALL)
    assert (session.rank, session.size, len(found.rows)) == (0, 1, 4)


def test_an_interruption_ends_the_program(tmp_path):
    (tmp_path / "program.py").write_text(
        """
import cclmark, os, pathlib, signal, threading, time
def interrupt_when_there_are_results():
    while not any(one.read_bytes().count(b"\\n") > 2 for one in pathlib.Path().glob("*.jsonl")):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt_when_there_are_results).start()
try:
    for number in range(1000):
        cclmark.measure("all_reduce", sizes="8:64K", devices="host:2", journal=f"{number}.jsonl")
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
print(len(cclmark.measure("all_reduce", sizes="8", devices="host:2", max_time_s=0.05).rows))
"""
    )
    done = completed([sys.executable, "program.py"], cwd=tmp_path, check=True)
    assert done.stdout == "interrupted\nTrue\n2\n"
    assert [cclmark.open(path) for path in tmp_path.glob("*.jsonl")]


def test_the_printed_call_measures_the_same(cclmark):
    sizes = ("-b", "1K", "-e", "2K", "-i", "1K", "--max-time", "0.05")
    arguments = ("alltoallv", *sizes, "--pattern", "skew:4", "--seed", "7", "--devices", "host:2")
    printed = cclmark(*arguments, "--print-plan")
    assert printed.out.startswith("cclmark.measure(")
    assert not printed.written()
    found = eval(printed.out, {"cclmark": api})
    measured = cclmark(*arguments).journal
    assert [row.case for row in found.rows] == [row.case for row in measured.results]
    assert found.header.settings == measured.header.settings
    assert found.header.plan == measured.header.plan
