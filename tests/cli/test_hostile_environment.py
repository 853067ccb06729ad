"""What the environment, the directory and the arguments may hold: nothing of it is executed, shown
as it is, or betrayed, and none of it ends a run.
"""

import os
import re
import subprocess

import pytest

from cclmark.base.printable import plain
from cclmark.kinds.registry import read_journal
from commands import PROGRAM, environment
from patience import scaled

SWEEP = ("all_reduce", "-b", "64", "-e", "64", "-n", "1", "-w", "0")
ON_HOST = ("--devices", "host:2")
LONG = "x" * 120_000  # the kernel takes 128 KiB in one variable, 2 MiB in all
SECRETS = {
    "CCLMARK_SECRET": "rosebud-rosebud-rosebud",
    "HF_TOKEN": "hf_rosebudrosebudrosebud",
    "NCCL_API_TOKEN": "rosebud",
    "UCX_PASSWORD": "rosebud",
    "UCX_PROXY": "http://user:rosebud@host:80",
    "HCCL_OPTIONS": "level=1;password=rosebud",
    "AWS_SECRET_ACCESS_KEY": "rosebud",
}
HOSTILE = {
    "NCCL_TITLE": "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
    "UCX_MARKUP": "[bold red]x[/bold red] [link=file:///etc/passwd]y[/link] [/]",
    "FLAGCX_HTML": "<script>alert(1)</script>",
    "HCCL_SHELL": "$(touch owned) `touch owned` ; touch owned | touch owned && touch owned",
    "MPICH_LINES": 'a\nb\r\n{"type":"footer","exit_code":0}\n',
    "OMPI_MCA_FORMAT": "%s%n%x {0} {self.__class__} {{ 7*7 }}",
    **{f"CUDA_LONG_{number}": LONG for number in range(12)},
    **SECRETS,
}
BYTES = {b"MPICH_BYTES": b"\xff\xfe\x80", b"UCX_\xff": b"name", b"HCCL_CUT": b"half \xe2\x82"}

pytestmark = pytest.mark.usefixtures("no_leaks")


def run_in(directory, tag, *arguments, env=None):
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=directory,
        env={**{os.fsencode(k): os.fsencode(v) for k, v in environment(tag, env).items()}, **BYTES},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=scaled(60),
        check=False,
    )


def check(ended, directory):
    out, err = ended.stdout.decode(), ended.stderr.decode()
    assert ended.returncode == 0, err
    assert "Traceback" not in err
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", out + err), "control characters"
    assert "rosebud" not in out + err
    assert not list(directory.rglob("owned"))
    (path,) = directory.rglob("*.jsonl")
    assert b"rosebud" not in path.read_bytes()
    journal = read_journal(path)
    assert journal.damaged_lines == 0
    assert journal.footer.exit_code == 0
    assert {result.status for result in journal.results} == {"ok"}
    return journal


def test_whatever_variables_hold(tag, tmp_path):
    journal = check(run_in(tmp_path, tag, *SWEEP, *ON_HOST, env=HOSTILE), tmp_path)
    kept = journal.header.environment
    assert kept["NCCL_TITLE"] == plain(HOSTILE["NCCL_TITLE"])
    (path,) = tmp_path.rglob("*.jsonl")
    written = read_journal(path, as_written=True).header.environment
    assert written["NCCL_TITLE"] == HOSTILE["NCCL_TITLE"]
    assert kept["MPICH_BYTES"] == r"\udcff\udcfe\udc80"
    assert kept[r"UCX_\udcff"] == "name"
    assert kept["CUDA_LONG_0"] == LONG
    assert not {"CCLMARK_SECRET", "HF_TOKEN", "NCCL_API_TOKEN", "UCX_PASSWORD"} & set(kept)
    assert kept["UCX_PROXY"] == "http://***@host:80"
    assert kept["HCCL_OPTIONS"] == "level=1;password=***"
    # It is text in a page, and no secret is.
    ended = run_in(tmp_path, tag, "report", path, "-o", "page.html", env=HOSTILE)
    assert ended.returncode == 0, ended.stderr.decode()
    text = (tmp_path / "page.html").read_text()
    assert "rosebud" not in text
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\x1b" not in text
    assert LONG not in text
    assert not list(tmp_path.rglob("owned"))


def test_the_terminal_may_be_anything_and_the_directory_may_have_any_name(tag, tmp_path):
    odd = {"COLUMNS": "-5", "LINES": "x", "TERM": "\x1b[2J", "LC_ALL": "zz_ZZ", "TZ": "nowhere"}
    names = (b"\xff\xfe", b"a\nb", b"\x1b[2J", b"$(touch owned)", b"[red]")
    directory = tmp_path.joinpath(*map(os.fsdecode, names))
    directory.mkdir(parents=True)
    check(run_in(directory, tag, *SWEEP, *ON_HOST, env=odd), tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--journal", b"j\xff.jsonl"), b"is not UTF-8"),
        (("--devices", "host:2\x1b[2J"), b""),
        (("--devices", "host:\x9b2J"), b""),
    ],
)
def test_arguments_that_are_no_text_or_steer_terminals_are_refused(
    tag, tmp_path, arguments, message
):
    ended = run_in(tmp_path, tag, *SWEEP, *ON_HOST, *arguments)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", ended.stderr.decode())
    assert list(tmp_path.iterdir()) == []
