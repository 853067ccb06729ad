"""What is taken of memory, what explains it, and how ranks that are alike become one."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

import samples
from cclmark.document.exporters import exporter_of
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Footer, LibraryDescription, Verification, WrongOutput
from cclmark.kinds.memory import figures
from cclmark.kinds.memory.document import memory_sentences
from cclmark.kinds.memory.plan import MEMORY, RankMemory
from cclmark.kinds.memory.result import (
    LibraryChannels,
    MemoryBuffer,
    MemoryReading,
    MemoryResult,
    MemoryStage,
)
from cclmark.kinds.memory.run import channels_in, memory_in, process_memory
from cclmark.kinds.registry import KINDS
from cclmark.report.exports import export_content
from cclmark.work.cases import Case
from goldens import require_golden, require_outcomes

MIB = 1 << 20
CASE = Case("all_reduce", "nccl", 4, "float32", MIB, MIB // 4, False, reduction="sum")
FREE = 1024 * MIB


def reading(taken_mib, rss_mib=50, pss_mib=20, **stated):
    return MemoryReading(FREE - taken_mib * MIB, rss_mib * MIB, 0, pss_mib * MIB, stated)


def stage(name, owner, before, after, **stated):
    """A stage; ``before`` and ``after``: the MiB of device memory in use."""
    return MemoryStage(name, owner, reading(before), reading(after, **stated))


def buffers_of(rank, *, values=()):
    first, expected = values or ("", "")
    return [
        MemoryBuffer("cclmark", "input", "device", 4 * MIB, MIB, first, f"{0x1000 + rank:#x}"),
        MemoryBuffer("cclmark", "output", "device", 4 * MIB, MIB, expected, "0x9000"),
        MemoryBuffer("library", "slots of another rank", "device", MIB, 0, "", "0x1", mapped=True),
        MemoryBuffer("library", "slots of another rank", "device", MIB, 0, "", "0x2", mapped=True),
    ]


def result_of(rank, *, created=100, end=True, drift=0, case=CASE, **changes):
    taken = 1 + created + drift
    stages = [
        stage("library loaded", "library", 0, 1),
        stage("communicator created", "library", 1, taken - drift),
        stage("buffers allocated", "cclmark", taken, taken + 8),
        stage("first operations", "library", taken + 8, taken + 18),
        stage("buffers released", "cclmark", taken + 18, taken + 10),
    ]
    if end:
        stages.append(stage("communicator destroyed", "library", taken + 10, 5 + drift))
    whole = MemoryResult(
        rank, RankMemory(case, rank), "ok", stages=stages, buffers=buffers_of(rank)
    )
    return replace(whole, **changes)


def header_of(devices=4, runtime="cuda", **environment):
    library = LibraryDescription("nccl", "2.30.3", "/libnccl.so.2")
    common = {"devices": devices, "runtime": runtime, "planned_cases": 4}
    return samples.header_of(samples.usual_settings(), library, **common, environment=environment)


CHANNELS = LibraryChannels(24, 32, 8)
STATUS = "Name:\tpython\nVmHWM:\t  900 kB\nVmRSS:\t  800 kB\nRssAnon:\t 500 kB\nRssShmem:\t 64 kB\n"
ROLLUP = "5555-7fff ---p 00000000 00:00 0 [rollup]\nRss:  801 kB\nPss:   400 kB\nPss_Anon: 3 kB\n"


def test_the_kernels_texts_are_read():
    assert memory_in(STATUS, ROLLUP) == (800 * 1024, 64 * 1024, 400 * 1024)
    assert memory_in(STATUS, "") == (800 * 1024, 64 * 1024, None)
    assert memory_in("", ROLLUP) == (0, 0, 400 * 1024)


def test_memory_that_is_allocated_is_resident():
    before = process_memory()
    kept = b"x" * (64 * MIB)
    after = process_memory()
    assert after.rss_bytes - before.rss_bytes > len(kept) // 2


def channels(text):
    """Those in a log that ends with the text."""
    prefix = "h:1:1 [0] NCCL INFO "
    return channels_in(f"{prefix}Using network Socket\n{prefix}{text}\n")


def documented(text):
    """What is documented of the buffers of a library, with the variables of its environment."""
    ccl, *words = text.split()
    known = CHANNELS if "channels" in words else None
    environment = dict(word.split("=") for word in words if "=" in word)
    one = result_of(0, case=replace(CASE, ccl=ccl), channels=known)
    return figures.expected_of(one, environment)


def of_hccl_test(text):
    found = []
    for word in text.split():
        name, _, size = word.replace("+", " ").partition("=")
        found.append(MemoryBuffer("cclmark", name, "device", 100 * MIB, int(size) * MIB))
    return figures.hccl_test_host_bytes(result_of(0, buffers=found)) / MIB


def test_logs_and_documented_buffers():
    read = {"log": channels, "buffers": documented, "hccl_test": of_hccl_test}

    def outcome(line):
        subject, _, text = line.partition(" ")
        return str(read[subject](text))

    require_outcomes(Path(__file__).with_name("inputs.txt"), outcome)


def printed(format, header, results):
    table = exporter_of(KINDS[MEMORY], format)
    return table.begin(header) + "".join(map(table.add, results)) + table.end(Footer("", 0, 1.0))


def changed(at, **changes):
    """Rank 0 with changes of one of its stages."""
    result = result_of(0)
    result.stages[at] = replace(result.stages[at], **changes)
    return result


def reported():
    """The last report of the library counts."""
    result = result_of(0)
    result.stages[1].after.stated.update(GpuMemTotal=100 * MIB)
    later = {"GpuMemTotal": 120 * MIB, "GpuMemPersist": 90 * MIB, "GpuMemSuspend": 30 * MIB}
    result.stages[4].after.stated.update(later)
    return result


def resumed():
    """A rank that has measured an earlier size: with --resume the others may not have."""
    result = result_of(0)
    result.stages.insert(2, stage("earlier sizes", "library", 101, 108))
    return result


FULL = [buffers_of(rank, values=("1 2", "3")) for rank in range(9)]
SKIPPED = {"status": "skipped", "reason": "no \x1b room", "buffers": []}
WRONG = Verification(3, [WrongOutput(1, 3, 7, "1", "2")])
REASONS = ("alone in its island", "it is old", "it is old")
TABLES = {
    "unlike-reasons": [result_of(rank, not_stated=text) for rank, text in enumerate(REASONS)],
    "last-report": [reported()],
    # No size is negative: other processes may release memory meanwhile.
    "released-11": [result_of(0, created=-11)],
    "both-directions": [result_of(0), result_of(1, created=-50)],
    "range-of-ranks": [result_of(0), result_of(1, created=50)],
    "resumed": [resumed(), *map(result_of, range(1, 4))],
    "drift": [result_of(0), result_of(1, drift=3)],
    "without-an-end": [result_of(0, end=False)],
    "without-stages": [result_of(rank, stages=[], buffers=[]) for rank in range(4)],
    "skipped-and-wrong": [
        result_of(0, **SKIPPED),
        result_of(1, status="wrong", verification=WRONG),
        result_of(2),
        result_of(3, **SKIPPED),
    ],
}
#: The format, the runtime, and the results.
TEXTS = {
    **{
        f"computed.{format}": (
            *(format, "cuda"),
            [
                replace(result_of(rank, channels=CHANNELS, not_stated="it is old"), buffers=own)
                for rank, own in enumerate(FULL[:4])
            ],
        )
        for format in ("table", "markdown", "csv")
    },
    **{name: ("table", "cuda", results) for name, results in TABLES.items()},
    "host.csv": ("csv", "host", [result_of(0)]),
    **{
        f"host-{pss_mib}": ("table", "host", [changed(0, after=reading(1, pss_mib=pss_mib))])
        for pss_mib in (20, 5, 21)
    },
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    format, runtime, results = TEXTS[name]
    text = printed(format, header_of(runtime=runtime), results)
    below = text if format == "csv" else text[text.index("\n\n") :]
    require_golden(f"texts/memory-{name}.txt", below)


def test_ranks_that_share_a_device_are_named():
    header = header_of()
    header.devices[1].index = 0
    assert figures.sharing_devices(header.devices) == [[0, 1]]
    sentences = [text for text, _ in memory_sentences([result_of(0)], header)]
    assert "Ranks 0-1 share a device" in "\n".join(sentences)
    assert figures.sharing_devices(header_of(runtime="host").devices) == []
    # Results of unknown devices are printed.
    header.devices.clear()
    assert "all_reduce 1 MiB" in printed("markdown", header, [result_of(0, stages=[], buffers=[])])


def test_addresses_are_listed_of_at_most_eight_ranks():
    for ranks, row in ((8, r"0 +input +0x1000 +1 2\n"), (9, r"0-8 +input +1 2\n")):
        case, owned = replace(CASE, ranks=ranks), enumerate(FULL[:ranks])
        results = [result_of(rank, case=case, buffers=own) for rank, own in owned]
        assert re.search(f"^  {row}", printed("table", header_of(ranks), results), re.MULTILINE)


def test_ranks_of_two_cases_may_arrive_mixed():
    larger = replace(CASE, size_bytes=2 * MIB, count=MIB // 2)
    table = exporter_of(KINDS[MEMORY], "table")
    table.begin(header_of())
    texts = [
        table.add(result_of(rank, case=case))
        for case, rank in [(CASE, 0), (CASE, 1), (larger, 0), (CASE, 2), (CASE, 3)]
    ]
    assert [bool(text) for text in texts] == [False] * 4 + [True]
    rest = table.end(Footer("", 4, 1.0, "rank 1 died\nand more"))
    assert "stages of rank 0: all_reduce 2 MiB" in rest
    assert "buffers: all_reduce 1 MiB" not in rest
    assert "all_reduce 1 MiB float32 sum out-of-place:\n    Before the library" in rest
    assert "ranks 1-3 reported nothing" in rest
    assert "ended early: rank 1 died" in rest


def test_ranks_of_the_host_have_no_device_memory():
    """The free memory of a host device is that of the whole host, which other programs change."""
    journal = Journal(header_of(runtime="host"), [result_of(0)])
    gauges = export_content([("run", journal)], "prometheus", "cases").decode()
    assert "cclmark_memory_resident_taken_bytes{" in gauges
    assert "cclmark_memory_device_taken_bytes{" not in gauges


def test_a_check_on_the_host_is_compared_with_hccl_tests():
    piece = MemoryBuffer("cclmark", figures.HOST_PIECE, "host", 64 * MIB)
    results = [result_of(rank, buffers=[*result_of(rank).buffers, piece]) for rank in range(2)]
    sentences = dict(memory_sentences(results, header_of(2)))
    (text,) = [one for one in sentences if "hccl_test" in one]
    assert "takes 64 MiB of host memory per rank" in text
    assert text.endswith("received output: 3 MiB.")
    assert [one.value for one in sentences[text]] == [64 * MIB]
    plain = dict(memory_sentences([result_of(0)], header_of(1)))
    assert not any("hccl_test" in one for one in plain)
