"""``cclmark memory`` on the host, and on a fake NCCL whose memory is known to the byte."""

import math
import re
from pathlib import Path

import pytest

from cclmark.kinds.memory.figures import changed_meanwhile, listed_bytes, taken_in
from refusals import require_refusals

MIB = 1 << 20
PAGE = 4096  # what the fake driver rounds allocations to
CREATION, FIRST_USE = 100 * MIB, 20 * MIB
STAGES = [
    *("library loaded", "communicator created", "buffers allocated", "first operations"),
    *("outputs checked", "buffers released", "communicator destroyed"),
]
ON_HOST = ("--devices", "host:2")
ON_CUDA = ("-g", "2")


def device_bytes(result):
    """The change of the device's memory by stage."""
    return {stage.name: taken_in(stage).device_bytes for stage in result.stages}


def buffers(result, place=None, *, mapped=False):
    return {
        one.purpose: one
        for one in result.buffers
        if (place is None or one.place == place) and one.mapped == mapped
    }


@pytest.fixture
def on_fakes(cclmark, fake_cuda):
    """Runs ``cclmark memory`` on the fake NCCL, whose communicators take memory.

    ``fakes``: what is different in the fakes and, with a prefix, in the environment.
    """

    def run(operation, *words, code=0, old=False, env=None, **fakes):
        takes = {"NCCL_CREATION": str(CREATION), "NCCL_FIRST_USE": str(FIRST_USE), **fakes}
        variables = {f"CCLMARK_FAKE_{name}": value for name, value in takes.items()}
        all_variables = fake_cuda.env(old=old, **variables, **(env or {}))
        return cclmark("memory", operation, *ON_CUDA, *words, env=all_variables, code=code)

    return run


@pytest.mark.parametrize(
    ("operation", "placement", "register", "purposes"),
    # Buffers are registered one by one, whatever they are for.
    [
        ("all_reduce", "out-of-place", "2", {"input": MIB, "output": MIB}),
        ("all_reduce", "in-place", "1", {"unused in place": 0, "input and output": MIB}),
        ("alltoall", "in-place", "2", {"copy of the input": MIB, "input and output": MIB}),
        ("all_gather", "auto", "0", {"input": MIB // 2, "output": MIB}),
    ],
)
def test_buffers_are_what_the_free_memory_decreases_by(
    on_fakes, operation, placement, register, purposes
):
    run = on_fakes(operation, "-b", "1M", "--placement", placement, "-R", register)
    suffix = {"0": "", "1": ", registered", "2": ", symmetric window"}[register]
    for result in run.journal.results:
        assert (result.status, result.reason) == ("ok", "")
        own = buffers(result, "device")
        assert {name: own[name + suffix].used_bytes for name in purposes} == purposes
        assert all(own[name + suffix].size_bytes >= MIB for name in purposes)
        taken = device_bytes(result)
        allocated = sum(PAGE * math.ceil(one.size_bytes / PAGE) for one in own.values())
        assert taken["buffers allocated"] == -taken["buffers released"] == allocated
        assert {int(one.address, 16) for one in own.values()}.isdisjoint({0})
        assert len({one.address for one in own.values()}) == len(own)
    if purposes.keys() == {"input", "output"}:
        inputs, outputs = (
            {buffers(one)[name + suffix].first_values for one in run.journal.results}
            for name in ("input", "output")
        )
        assert (len(inputs), len(outputs)) == (2, 1)
        # all_gather's output begins with the first rank's input.
        assert outputs < inputs or operation != "all_gather"


def test_what_the_library_takes_is_attributed_to_its_stages(on_fakes):
    run = on_fakes("all_reduce")
    for result in run.journal.results:
        assert [stage.name for stage in result.stages] == STAGES
        taken = device_bytes(result)
        assert taken["library loaded"] == taken["outputs checked"] == 0
        assert taken["communicator created"] == CREATION
        assert taken["first operations"] == FIRST_USE
        assert taken["communicator destroyed"] == -(CREATION + FIRST_USE)
        assert changed_meanwhile(result) == {}
        stated = [stage.after.stated for stage in result.stages]
        totals = [None, CREATION, CREATION, *[CREATION + FIRST_USE] * 3, None]
        assert [one.get("GpuMemTotal") for one in stated] == totals
        assert set(stated[1]) == {
            *("GpuMemSuspend", "GpuMemSuspended", "GpuMemPersist", "GpuMemTotal")
        }
    text = " ".join(run.out.split())
    assert "gives 120 MiB back; nothing remains" in text
    assert "The library itself reports 120 MiB that it tracks (120 MiB persistent, 0 B" in text
    assert "computed: 96 MiB for a connection of all 24 channels" in text


def test_sizes_share_a_communicator(on_fakes):
    run = on_fakes("broadcast", "-b", "4M", "-e", "16M", "-f", "4", "-c", "0")
    results = sorted(run.journal.results, key=lambda one: one.index)  # ranks report in any order
    sizes = [(one.memory.size_bytes // MIB, one.memory.rank) for one in results]
    assert sizes == [(4, 0), (4, 1), (16, 0), (16, 1)]
    for result in results[:2]:
        assert [stage.name for stage in result.stages] == [*STAGES[:4], STAGES[5]]
        assert result.verification is None
    for result in results[2:]:
        names = [stage.name for stage in result.stages]
        assert names == [*STAGES[:2], "earlier sizes", *STAGES[2:4], *STAGES[5:]]
        taken = device_bytes(result)
        assert (taken["earlier sizes"], taken["first operations"]) == (FIRST_USE, 0)
        assert taken["buffers allocated"] >= 32 * MIB


def test_a_library_without_the_function_says_so(on_fakes):
    run = on_fakes("all_reduce", old=True, env={"NCCL_DEBUG": "WARN"})
    for result in run.journal.results:
        assert "has no CommMemStats" in result.not_stated
        assert all(stage.after.stated == {} for stage in result.stages)
        assert device_bytes(result)["communicator created"] == CREATION
        assert result.channels is None
    assert "nccl 2.18.5 has no CommMemStats (NCCL has it since 2.29.7)" in run.out
    assert "The number of channels is unknown" in run.out


def test_checks_on_the_host_take_a_piece_of_its_memory(cclmark, fake_cuda):
    """And nothing is compiled for the device; wrong data are found as there."""
    wanted = ("all_reduce", *ON_CUDA, "-b", "1M", "--check-on", "host")
    run = cclmark("memory", *wanted, env=fake_cuda.env())
    piece = "piece that is filled or checked on the host"
    for result in run.journal.results:
        assert buffers(result, "host")[piece].size_bytes >= MIB
        for own in (buffers(result)[name] for name in ("input", "output")):
            row = f"{own.purpose} {own.address} {own.first_values}"
            assert row in re.sub(" +", " ", run.out)
    assert "the input, the expected and the received output: 3 MiB" in " ".join(run.out.split())
    corrupt = ("--inject", "corrupt:rank=1,index=5")
    words = (*wanted, "-e", "1M", "-n", "2", "-w", "1", *corrupt)
    run = cclmark(*words, env=fake_cuda.env(), code=1)
    assert "each case's output checked on the host after timing" in run.out
    # In the head, or on standard error if it has been printed before.
    assert "outputs are checked on the host: --check-on host" in run.out + run.err
    assert "first at index 5" in run.out


def test_the_memory_of_the_built_in_library(cclmark):
    run = cclmark("memory", "all_reduce", "--devices", "host:3", "-b", "4M", "-o", "max")
    for result in run.journal.results:
        assert result.memory.case.reduction == "max"
        own = buffers(result, "shared host")
        assert own["input"].used_bytes == own["output"].used_bytes == 4 * MIB
        shared = taken_in(result.stages[2]).shared_bytes
        of_cclmark = [one for one in result.buffers if one.owner == "cclmark"]
        listed = listed_bytes(of_cclmark, "shared host")
        assert listed <= shared < listed + MIB
        mapped = [one for one in result.buffers if one.mapped]
        others = [one.size_bytes for one in mapped if one.purpose == "buffer of another rank"]
        assert others == [own["input"].size_bytes] * 4
        # The buffers of two peers are mapped with the first operations.
        assert taken_in(result.stages[3]).shared_bytes >= 16 * MIB
        boards = {"status board of all ranks", "barriers and values of all ranks"}
        assert boards <= set(buffers(result, "shared host", mapped=True))


def test_the_bridge_lists_its_slots(cclmark):
    run = cclmark(
        *("memory", "all_reduce", "--ccl", "bridge", "--devices", "host:4", "-b", "1M"),
        *("--islands", "0-1=shm,2-3=shm", "--through-host"),
        env={"CCLMARK_BRIDGE_HOST_SLOT_BYTES": "128K"},
    )
    for result in run.journal.results:
        assert result.status == "ok"
        own = buffers(result)
        slots = own["slots of this rank"]
        assert (slots.owner, slots.size_bytes) == ("library", 4 * 128 * 1024)
        assert own["flags and slots"].size_bytes == slots.size_bytes + PAGE
        peers = [one for one in result.buffers if one.purpose == "flags and slots of another rank"]
        assert len(peers) == 2
        assert all(one.mapped for one in peers)
        assert own["announcements of this rank"].owner == "library"


@pytest.mark.parametrize(
    ("sizes", "code", "statuses"),
    [
        (("-b", "256M"), 3, {256: {"skipped"}}),
        (("-b", "1M", "-e", "1G", "-f", "32"), 0, {1: {"ok"}, 32: {"ok"}, 1024: {"skipped"}}),
    ],
)
def test_a_size_that_does_not_fit_is_skipped(on_fakes, sizes, code, statuses):
    run = on_fakes("all_reduce", *sizes, MEMORY=str(256 * MIB), code=code)
    found = {}
    for result in run.journal.results:
        found.setdefault(result.memory.size_bytes // MIB, set()).add(result.status)
        if result.status == "skipped":
            needs = r"requires (512 MiB|2 GiB) of memory per rank; .* are free"
            assert re.fullmatch(needs, result.reason)
            assert "first operations" not in device_bytes(result)
            assert result.buffers == []
    assert found == statuses
    assert "ranks 0-1: skipped: requires" in run.out


def test_a_journal_is_continued(cclmark, cut):
    command = ("memory", "all_reduce", *ON_HOST, "-b", "1M", "-e", "4M", "-f", "2")
    whole = cclmark(*command)
    # Rank 1 of the second size and all ranks of the third are missing.
    again = cclmark(*command, "--resume", cut(whole, 4))
    expected = [(one.memory.size_bytes, one.memory.rank) for one in whole.journal.results]
    found = [(one.memory.size_bytes, one.memory.rank) for one in again.journal.results]
    assert sorted(found) == sorted(expected)
    assert again.journal.results[:3] == whole.journal.results[:3]
    names = [stage.name for stage in again.journal.results[3].stages]
    assert "earlier sizes" not in names, "this process has run no earlier size"


def test_invalid_options(tag, tmp_path, torch):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, ["memory"])
