"""Disks that are full or not mounted, directories without write permission, too little memory.

What was written is kept and readable, the message says what to do, and the ranks are gone.
"""

import resource
import subprocess
from functools import partial

import pytest

from cclmark.kinds.registry import read_journal
from commands import PROGRAM, completed, environment

SWEEP = ("all_reduce", "--devices", "host:2", "-b", "64", "-e", "1K", "-f", "2", "-n", "5")
ENDLESS = (*SWEEP, "-w", "1", "-N", "0")
LIMIT_BYTES = 1 << 16

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture
def mounts(tmp_path):
    """Mounts a disk in memory, as root alone may, which is unmounted with the test."""
    mounted = []

    def mount(options):
        place = tmp_path / "mounted"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "none", place]
        made = subprocess.run(command, capture_output=True, check=False)
        if made.returncode != 0:
            pytest.skip(f"this user may not mount: {made.stderr.decode().strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", place], check=True)


def run_limited(tag, directory, *arguments, limit):
    """Starts a process and runs it to its end; the process calls ``limit`` first."""
    return completed(
        [*PROGRAM, *map(str, arguments)],
        cwd=directory,
        env=environment(tag, None),
        stdin=subprocess.DEVNULL,
        preexec_fn=limit,
    )


def test_a_disk_that_fills_up_while_it_measures(cclmark_in, tmp_path, mounts):
    journal = mounts(f"size={LIMIT_BYTES}") / "run.jsonl"
    ended = cclmark_in(tmp_path, *ENDLESS, "--journal", journal, code=3)
    assert f"cannot write the journal {journal}: No space left on device" in ended.err
    assert "choose another place with --journal" in ended.err
    read = read_journal(journal)
    assert read.results
    assert read.damaged_lines <= 1, "more is lost than the line in flight"
    assert {result.status for result in read.results} == {"ok"}


def test_a_disk_that_is_full_from_the_start(cclmark_in, tmp_path, mounts):
    disk = mounts("size=4096")
    (disk / "filler").write_bytes(bytes(4096))
    journal = disk / "run.jsonl"
    ended = cclmark_in(tmp_path, *SWEEP, "--journal", journal, code=3)
    assert f"cannot write the journal {journal}: No space left on device" in ended.err
    assert "It holds" not in ended.err
    # A header that does not fit: it is longer than the page that is left.
    subprocess.run(["mount", "-o", "remount,size=8192", disk], check=True)
    ended = cclmark_in(
        *(tmp_path, *SWEEP, "--journal", journal), code=3, env={"NCCL_X": "x." * 3000}
    )
    assert "No space left on device. Choose another place with --journal FILE" in ended.err
    assert not list(disk.glob("*.jsonl"))


def test_a_directory_that_cannot_be_written_to(cclmark_in, mounts):
    ended = cclmark_in(mounts("ro"), *SWEEP, code=2)
    assert "Read-only file system" in ended.err
    assert "--journal FILE" in ended.err


def test_files_that_may_not_be_opened(tag, tmp_path):
    """For the control plane, for the board, for the ranks: one message, wherever it comes from."""
    limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (20, 20))
    ended = run_limited(tag, tmp_path, *SWEEP, "-N", "2", limit=limit)
    if ended.returncode == 0:
        pytest.skip("this Python gets by with so few")
    assert ended.returncode == 3, ended.stderr
    assert "Too many open files" in ended.stderr
    assert "ulimit -a" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_rank_whose_memory_exceeds_the_limit_on_files_reports_the_reason(tag, tmp_path):
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (4096, 4096))
    ended = run_limited(tag, tmp_path, *SWEEP, limit=limit)
    assert ended.returncode == 4
    assert "fallocate(rank group memory) failed: File too large" in ended.stderr
    assert "refused" not in ended.stderr


def test_memory_that_does_not_suffice(tag, tmp_path):
    """A limit for each process, as batch systems set it: what does not fit is skipped."""
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (1 << 30, 1 << 30))
    ended = run_limited(
        *(tag, tmp_path, "all_reduce", "--devices", "host:2", "-b", "64", "-e", "1G"),
        *("-f", "16777216", "-n", "1", "-w", "0", "-c", "0"),
        limit=limit,
    )
    assert ended.returncode == 0, ended.stderr
    (path,) = tmp_path.rglob("*.jsonl")
    journal = read_journal(path)
    assert [result.status for result in journal.results] == ["ok", "ok", "skipped", "skipped"]
    reason = journal.results[-1].reason
    assert "requires 1 GiB of memory per rank" in reason
    assert "Cannot allocate memory" in reason
    assert "skipped: requires" in ended.stdout
    assert "Traceback" not in ended.stderr


def test_a_trace_that_does_not_fit_leaves_its_summary(cclmark_in, tmp_path, mounts):
    disk = mounts(f"size={LIMIT_BYTES}")
    path, journal = disk / "t.json", tmp_path / "run.jsonl"
    command = ("trace", "all_reduce", "--devices", "host:2", "-b", "1M", "-n", "300")
    options = ("--format", "chrome", "--steps", "-O", path, "--journal", journal)
    ended = cclmark_in(tmp_path, *command, *options, code=3)
    why = f"cannot write the trace {path}: No space left on device"
    assert f"{why}: choose another file with -O FILE" in ended.err
    assert f"cclmark: journal {journal}" in ended.err
    assert "outputs checked: 0 wrong elements" in ended.out
    assert not list(disk.glob("t.json*"))
    read = read_journal(journal)
    (trace,) = read.traces
    assert (trace.file, bool(trace.stages)) == ("", True)
    assert "\n".join(trace.summary) in ended.out
    assert read.footer.exit_code == 3


WITHOUT_MOUNTS = """set -e
mount -t tmpfs none /proc
mount --rbind /dev "$0"; mount -t tmpfs none /dev
for name in null zero urandom; do : >/dev/$name; mount --bind "$0/$name" /dev/$name; done
exec "$@"
"""
ADVICE = {
    "/proc": "mount -t proc proc /proc, for a chroot at DIR before it is entered: mount -t proc",
    "/dev/shm": "Mount it: mkdir -p /dev/shm; mount -t tmpfs tmpfs /dev/shm",
}


def test_what_is_not_mounted_is_named_with_the_command_that_mounts_it(tmp_path, tag):
    able = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if able.returncode != 0:
        pytest.skip(f"this user may not mount: {able.stderr.decode().strip()}")
    outside = tmp_path / "dev"
    outside.mkdir()
    command = ["unshare", "-m", "sh", "-c", WITHOUT_MOUNTS, outside, *PROGRAM, *SWEEP]
    done = completed(command, env=environment(tag, None), cwd=tmp_path)
    assert done.returncode == 4
    assert "opening another rank's memory at /proc/" in done.stderr
    for place, advice in ADVICE.items():
        assert f"{place} is " in done.stderr
        assert advice in done.stderr
