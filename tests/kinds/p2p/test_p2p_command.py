"""``cclmark p2p`` on host devices and on the fake CUDA path."""

import subprocess
import sys
from itertools import permutations, product
from pathlib import Path

import pytest

from commands import completed
from refusals import require_refusals

SHORT = ("-b", "64K", "--max-time", "0.005")
ONE_WAY = (*SHORT, "-p", "uniBw", "-t", "CE")
ON_TWO = ("p2p", "--devices", "host:2")


def statuses(run):
    return {result.status for result in run.journal.transfers}


def pairs(run):
    return sorted(result.transfer.flows[0] for result in run.journal.transfers)


def all_pairs(number):
    return [*permutations(range(number), 2)]


def test_every_pair_is_measured_and_checked_by_every_means(cclmark):
    ways = ("-d", "write,read", "-p", "uniBw,biBw,latency", "-t", "CE,SM", "-k", "all")
    run = cclmark(*ON_TWO, *SHORT, *ways)
    assert statuses(run) == {"ok"}
    transfers = [one.transfer for one in run.journal.transfers]
    seen = {(one.measure, one.direction, one.means) for one in transfers}
    means = ["CE", *(f"SM {kernel}" for kernel in ("cacheCopy", "ncCopy", "bulkCopy"))]
    assert seen >= {*product(("unidirectional", "bidirectional"), ("write", "read"), means)}
    assert seen >= {("latency", "write", "SM"), ("latency", "read", "SM")}
    for one in run.journal.transfers:
        if one.transfer.measure != "latency":
            assert one.verification.wrong == 0
            assert one.summary.bytes_per_s > 0
            assert len(one.samples.device_s[0]) == len(one.transfer.flows)
    # Which way data goes and how devices are connected.
    assert "rows write: data goes from the row's device to the column's" in run.out
    assert "rows read: data goes from the column's device to the row's" in run.out
    assert "MEM: the memory of one host" in run.out
    header = run.journal.header
    assert {(one.kind, one.limit_bytes_per_s) for one in header.relations} == {("MEM", 0)}
    assert len({device.pid for device in header.devices}) == 2
    assert "half a round trip" in run.out
    assert "one load of 8 bytes that waits for the one before" in run.out


def test_many_flows_at_once_arrive_where_they_should(cclmark):
    scope = "pairs,all-pairs,all-to-one,one-to-all,local"
    run = cclmark("p2p", "--devices", "host:3", *SHORT, "-p", "uniBw", "--scope", scope)
    assert statuses(run) == {"ok"}
    assert {one.transfer.scope for one in run.journal.transfers} == {*scope.split(",")}
    assert all(one.verification.wrong == 0 for one in run.journal.transfers)
    assert "all pairs at once reach" in run.out


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [
        ("-n 4099 --buffer-offset 12 -k all", [16396]),
        ("-i 5 -y 8 -x 4000 -t CE -j 1", range(32, 16001, 4)),
        ("-b 4K -e 16K --verify 0", [4096, 8192, 16384]),
    ],
)
def test_sizes(cclmark, arguments, sizes):
    run = cclmark(*ON_TWO, "-p", "uniBw", "--max-time", "0.005", *arguments.split())
    assert statuses(run) == {"ok"}
    found = {one.transfer.size_bytes for one in run.journal.transfers}
    assert found <= {*sizes}
    assert len(found) == (len(sizes) if isinstance(sizes, list) else 5)
    assert ("against message size: median over the pairs" in run.out) == (len(found) > 1)
    unchecked = all(one.verification is None for one in run.journal.transfers)
    assert unchecked == ("--verify" in arguments)


@pytest.mark.parametrize(
    ("flags", "pair", "flow"),
    [
        ("-p uniBw", (1, 2), 0),
        ("-p biBw -j 1", (1, 0), 1),
        # In a round of all pairs each cell says only what is its own.
        ("-p uniBw --scope all-pairs", (0, 1), 0),
    ],
)
def test_corruption_of_any_flow_is_caught(cclmark, flags, pair, flow):
    fault = ("--inject", f"corrupt:pair={pair[0]}-{pair[1]},index=5")
    words = ("p2p", "--devices", "host:3", *SHORT, "-t", "CE", *flags.split(), *fault)
    run = cclmark(*words, code=1)
    (wrong,) = [one for one in run.journal.transfers if one.status == "wrong"]
    (finding,) = wrong.verification.findings
    assert wrong.transfer.flows[finding.rank] == pair
    assert (finding.rank, finding.first_element) == (flow, 5)
    if "--scope" not in flags or "all-pairs" in flags:
        assert run.out.count("WRONG") == 1
        words = f"DEV{pair[0]} → DEV{pair[1]}: 1 wrong, first element 5"
        assert run.out.count(words) == 1


def test_no_more_than_so_many_devices_are_shown(cclmark):
    run = cclmark("p2p", "--devices", "host:5", *ONE_WAY, "--max-display", "3")
    assert "2 of 5 devices are not shown" in run.out
    assert pairs(run) == all_pairs(5)
    assert statuses(run) == {"ok"}


def test_bad_input_is_one_message(tag, tmp_path):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, ["p2p"])


@pytest.fixture
def on_fakes(cclmark, fake_cuda):
    """Runs ``cclmark p2p`` on the fake CUDA path; ``fakes``: what is different there."""

    def run(*words, code=0, **fakes):
        env = fake_cuda.env(**{f"CCLMARK_FAKE_{name}": value for name, value in fakes.items()})
        return cclmark("p2p", *words, env=env, code=code)

    return run


@pytest.mark.parametrize(
    ("words", "without", "processes"),
    [
        ("-g 2 -d write,read", (), 1),
        ("-m 1 -g 3 -p uniBw,latency -d write,read", (), 3),
        # Where handles are forbidden, descriptors serve.
        ("-m 1 -g 2 -p uniBw -d write,read", ("NO_IPC",), 2),
        # The driver's call waits for the copy before it: never behind a closed gate.
        ("-a 1 -g 2 -t CE -r 5", (), 1),
    ],
)
def test_copies_of_one_process_and_of_several(on_fakes, words, without, processes):
    flags = words.split()
    run = on_fakes(*SHORT, *flags, **dict.fromkeys(without, "1"))
    assert statuses(run) == {"ok"}
    devices = run.journal.header.devices
    assert len({device.pid for device in devices}) == processes
    assert [device.rank for device in devices] == [*range(int(flags[flags.index("-g") + 1]))]
    if "-m" in flags:
        relations = run.journal.header.relations
        assert {(one.kind, one.hops) for one in relations} == {("P2P", 1)}
    is_staged = "-a" in flags
    assert {one.transfer.peer_access for one in run.journal.transfers} == {not is_staged}
    assert ("staged through the host" in run.out) == is_staged
    assert not is_staged or len(run.journal.transfers) == 6


def test_what_is_not_free_in_one_piece_is_left_out_and_the_rest_measured(on_fakes):
    sizes = ("-b", "1M", "-e", "30M", "-f", "30", "--max-time", "0.001")
    run = on_fakes("-g", "2", "-p", "uniBw", "-t", "CE", *sizes, MEMORY=str(64 << 20))
    found = {one.transfer.size_bytes: one for one in run.journal.transfers}
    assert (found[1 << 20].status, found[30 << 20].status) == ("ok", "skipped")
    assert "memory" in found[30 << 20].reason


PCCL = Path(__file__).with_name("pccl_lines.txt").read_text().splitlines()[1:]


@pytest.mark.parametrize("line", PCCL)
def test_command_lines_of_pccl_work_as_they_stand(cclmark, fake_cuda, line):
    run = cclmark("p2pBandwidthLatencyTest", "--num_gpus=2", *line.split(), env=fake_cuda.env())
    assert statuses(run) == {"ok"}
    assert "P2P Connectivity & minPath Matrix" in run.out
    assert "Matrix (" in run.out.partition("minPath")[2]
    assert "no latency to measure" not in run.err
    ignored = [word for word in line.split() if word.startswith(("--disable_vm", "--is_single"))]
    assert all(f"{word} has no effect" in run.err for word in ignored)


@pytest.mark.parametrize(
    ("line", "least", "most"), [("-i 2", 32, 32), ("-i 4 -x 64", 32, 256), ("-i 4 -y 4", 16, 32)]
)
def test_bounds_of_random_sizes_are_8_integers_as_in_pccls_guide(
    cclmark, fake_cuda, line, least, most
):
    run = cclmark("p2pBandwidthLatencyTest", "-g", "2", *line.split(), env=fake_cuda.env())
    sizes = {one.transfer.size_bytes for one in run.journal.transfers}
    assert least <= min(sizes)
    assert max(sizes) <= most
    assert ("equal ones are measured once" in run.err) == (len(sizes) < int(line.split()[1]))


def test_the_program_is_there_under_pccls_name():
    program = Path(sys.executable).parent / "p2pBandwidthLatencyTest"
    done = completed([program, "--help"], check=True)
    assert "-b, --num-thread-blocks" in done.stdout


def test_a_reader_of_everything_that_leaves_is_no_wrong_data(tmp_path):
    line = f"{sys.executable} -m cclmark p2p --devices host:2 -b 64K --max-time 0.1 2>&1"
    script = f"{line} | head -n 3 > /dev/null; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", script], cwd=tmp_path, check=False).returncode == 130


@pytest.mark.parametrize(
    ("rank", "flags", "says"),
    [(0, ("--is_multi_proc=1", "--format=pccl"), "HOST2:DEV0"), (1, ("--is_multi_proc=1",), "")],
)
def test_under_mpirun_the_first_process_measures_for_all(cclmark, fake_cuda, rank, flags, says):
    sizes = {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}
    env = {**fake_cuda.env(), **sizes, "OMPI_COMM_WORLD_RANK": str(rank)}
    run = cclmark("p2p", *flags, *ONE_WAY, env=env)
    assert says in run.out + run.err
    if rank:
        assert (run.out, run.written()) == ("", [])
    else:
        assert pairs(run) == all_pairs(3)
