"""The head of every text and the verdict: hosts, devices, links, the method, and the answer."""

from msgspec.structs import replace

from cclmark.document import head
from cclmark.document.blocks import Evidence, Finding
from cclmark.document.paint import unpainted
from cclmark.document.verdict import verdict_on
from cclmark.journal.schema import (
    DeviceDescription,
    HostDescription,
    Imported,
    LibraryDescription,
)
from goldens import require_stated
from samples import header_of, usual_settings

HEADER = header_of(usual_settings())
OTHER_TOOL = Imported("x", "")


def of_settings(**settings):
    return header_of(usual_settings(**settings))


def device(rank=0, host="h0", runtime="cuda", name="GPU", index=None, **changes):
    index = rank if index is None else index
    return replace(DeviceDescription(rank, host, runtime, index, name, 1 << 30), **changes)


def on_nodes(*nodes):
    return [device(rank, runtime="host", numa_node=node) for rank, node in enumerate(nodes)]


OF_HOSTS = [device(rank, f"h{rank}") for rank in range(10)]
NAMELESS = device(3, runtime="", memory_bytes=0)
#: Devices, and the version of the driver.
DEVICES = {
    "two alike": ([device(0), device(1)], "1.2"),
    "processors": ([device(runtime="host", name="CPU")], "1.2"),
    "without a number": ([replace(NAMELESS, index=-1)], ""),
    "one without a number": ([device(index=-1), device(1)], ""),
    "on one node": (on_nodes(0, 0), ""),
    "on two nodes": (on_nodes(0, 1), ""),
    "one on an unknown node": (on_nodes(0, -1), ""),
    "of eight hosts": (OF_HOSTS[:8], ""),
    "of ten hosts": (OF_HOSTS, ""),
}


def test_a_line_for_each_kind_of_device_up_to_a_limit():
    found = {name: head.device_lines(*given) for name, given in DEVICES.items()}
    require_stated("words/head-devices.txt", found)


def test_buffers_are_stated_unless_all_are_plain():
    def lines(asked, *memories):
        libraries = [LibraryDescription(name, "", "", memory=name) for name in memories]
        return head.buffer_lines(header_of(usual_settings(memory=asked), *libraries))

    for asked, memory in (("", ["plain"]), ("auto", ["plain"]), ("", []), ("auto", ["strange"])):
        assert lines(asked, *memory) == []
    found = {
        "plain on request": lines("plain", "plain"),
        "virtual memory": lines("auto", "vmm", "vmm"),
        "of two libraries": lines("auto", "torch", "plain"),
    }
    require_stated("words/head-buffers.txt", found)


def test_processors_of_ranks_are_stated_up_to_a_limit():
    def bound(*processors, mode="numa"):
        devices = [device(rank, processors=one) for rank, one in enumerate(processors)]
        return head.binding_lines(replace(of_settings(bind=mode), devices=devices))

    four = "numa: rank 0 → 0; rank 1 → 1; rank 2 → 2; rank 3 → 3"
    assert bound("0-3", mode="") == []
    assert bound("0-3", "0-3", "4-7") == ["numa: ranks 0-1 → 0-3; rank 2 → 4-7"]
    assert bound("", "") == ["numa"]
    assert bound(*"0123") == [four]
    assert bound(*"012345") == [f"{four}; … and 2 more lists of processors"]


def hosts(number, **changes):
    machines = [replace(HEADER.machine, hostname=f"h{one}") for one in range(number)]
    return replace(HEADER, hosts=[HostDescription(one, "", {}) for one in machines], **changes)


TWO = replace(HEADER, cclmark_version="1", devices=[device(0), device(1)])
NOTICED = replace(HEADER, notices=["long words " * 9])
#: The header, the noun of its processes, and the width.
OPENINGS = {
    "one host": (hosts(0, machine=replace(HEADER.machine, hostname="one")), "rank", None),
    "two hosts": (hosts(2, launcher="srun"), "rank", None),
    "six hosts": (hosts(6), "rank", None),
    "unknown host": (HEADER, "rank", None),
    "processes": (TWO, "process", None),
    "ranks of another tool": (replace(TWO, imported=replace(OTHER_TOOL, ranks=8)), "rank", None),
    "notice": (NOTICED, "rank", None),
    "notice in 60 columns": (NOTICED, "rank", 60),
}


def test_the_head_counts_devices_and_names_hosts_up_to_a_limit():
    found = {
        name: head.opening_lines(of, noun, "m", unpainted, width)
        for name, (of, noun, width) in OPENINGS.items()
    }
    require_stated("words/head-openings.txt", found)


#: Settings that differ from the default.
METHODS = [
    {},
    {"iterations": 1},
    {"iterations": 2},
    {"precision": 0.025},
    {"check": 0},
    {"check": 3, "check_on": "host"},
    {"cache": "warm"},
    {"across_ranks": "mean"},
    {"across_ranks": "0"},
    {"across_ranks": ""},
    {"timing": "auto"},
    {"timing": "graph", "iterations": 20},
    {"timing": "", "clock": "device"},
    {"barrier": "library", "clock": "host"},
    {"config": {"a": "1", "b": "2"}},
]


def test_the_method_says_what_differs_from_the_default_or_what_another_tool_says():
    found = {}
    for settings in METHODS:
        of = of_settings(**settings)
        imported = replace(of, imported=OTHER_TOOL)
        found[str(settings)] = [head.method_of(of), f"imported: {head.method_of(imported)}"]
    require_stated("words/head-methods.txt", found)


# The verdict: the answer, what is most notable, and the next command.


CHECKED = Finding("data-checked", "good", "every output was checked in full; none was wrong")
NORMAL = Finding("normal-peaks", "good", "peaks are normal: all_reduce 99% of the reference")
WRONG = Finding(
    "wrong-data", "bad", "wrong data in 1 case: all_reduce", advice="Use `cclmark p2p`."
)
EARLY = Finding("ended-early", "bad", "early")
MEMORY = Evidence.of("library_device_bytes", 1 << 30)
INCOMPLETE = Finding("slow-size", "look", "odd", advice="See `cclmark compare`.")

#: The findings of runs, in no order.
FINDINGS = {
    "normal": [CHECKED, NORMAL],
    "below reference": [NORMAL, Finding("below-reference", "look", "slow")],
    "perhaps below reference": [NORMAL, Finding("below-reference", "unknown", "maybe")],
    "early and wrong": [EARLY, WRONG],
    "wrong": [WRONG],
    "early": [EARLY, NORMAL],
    "overlap": [Finding("overlap-of-largest", "note", "2.0")],
    "drift": [Finding("drift", "look", "slower")],
    "gain": [Finding("proven-gain", "good", "1.2"), NORMAL],
    "memory": [
        Finding("memory-of-library", "note", "free"),
        Finding("memory-of-library", "note", "nccl takes 1 GiB", evidence=(MEMORY,)),
    ],
    "interrupted": [NORMAL, Finding("ended-early", "look", "interrupted")],
    "unchecked data": [NORMAL, Finding("data-not-checked", "look", "no output was checked")],
    "late rank": [Finding("late-rank", "look", "rank 3 comes late"), NORMAL, CHECKED],
    "incomplete command": [INCOMPLETE, NORMAL],
    "only checked": [CHECKED],
    "shared processors": [Finding("shared-processors", "unknown", "ranks share processors")],
    # A note on a pair is about sizes that say nothing of links.
    "slow pair": [Finding("slow-pair", "note", "8 B take longer")],
    "nothing": [],
}


def test_the_answer_what_is_notable_and_the_next_command():
    """Whatever the order of findings; what is the answer is not notable once more."""
    found = {}
    for name, own in FINDINGS.items():
        headline = "all_reduce of 1 KiB takes 1 µs."
        one = verdict_on(own, headline)
        assert verdict_on([*reversed(own)], headline).answer == one.answer
        found[name] = [
            f"{one.severity}, {one.word}: {one.answer}",
            f"notable: {one.outstanding}",
            f"command: {one.command}",
        ]
    found["nothing, without a headline"] = verdict_on([], "").answer
    for name in ("normal", "nothing", "interrupted"):
        one = verdict_on(FINDINGS[name])
        for options in (
            {},
            {"on_page": True},
            {"can_rerun": False},
            {"can_rerun": False, "on_page": True},
        ):
            found[f"rows: {name}, {options}"] = [*map(": ".join, one.rows("a.jsonl", **options))]
    require_stated("words/verdicts.txt", found)
