"""``cclmark export --format chakra``, read back by protobuf's own parser."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.errors import OutputError, UsageError
from cclmark.journal.item_results import CaseResult, ProfileResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import (
    HostDescription,
    Link,
    Machine,
    NetworkInterface,
    Profile,
    ProfiledCall,
    ProfileFigures,
    ProfileGroup,
    ProfileProcess,
    Summary,
)
from cclmark.kinds.registry import read_journal
from cclmark.work.cases import Case
from cclmark.work.operations import DTYPE_BYTES
from cclmark.work.profiled import ProfiledOperation
from cclmark_programs.chakra import network, traces_of
from goldens import require_stated
from places import H200X4, TESTS
from samples import header_of, usual_settings
from transcripts import require_transcript, stored_commands

US = 1e-6
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
NAMES = {COMPUTE: "compute", SEND: "send", RECEIVE: "receive", COLLECTIVE: "collective"}


def _messages():
    file = descriptor_pb2.FileDescriptorProto()
    text_format.Parse((Path(__file__).parent / "et_def.txtpb").read_text(), file)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}"))
        for name in ("GlobalMetadata", "Node")
    ]


METADATA, NODE = _messages()
VALUES = {
    "is_cpu_op": "bool_val",
    "pg_name": "string_val",
    **dict.fromkeys(("comm_type", "comm_size"), "int64_val"),
    **dict.fromkeys(("comm_src", "comm_dst", "comm_tag"), "int32_val"),
}


def read(content):
    """The metadata and the nodes of a file, of which every byte and every field is known."""
    parts, place = [], 0
    while place < len(content):
        size = shift = 0
        while True:
            byte = content[place]
            size |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if byte < 0x80:
                break
        assert place + size <= len(content)
        parts.append(content[place : place + size])
        place += size
    metadata = METADATA.FromString(parts[0])
    nodes = [NODE.FromString(one) for one in parts[1:]]
    for message in (metadata, *nodes):
        known = message.SerializeToString()
        message.DiscardUnknownFields()
        assert message.SerializeToString() == known
    return metadata, nodes


def attributes(node):
    """The attributes with the types of values that Chakra's feeders read."""
    found = {}
    for one in node.attr:
        assert one.WhichOneof("value") == VALUES[one.name]
        assert one.name not in found
        found[one.name] = getattr(one, one.WhichOneof("value"))
    assert found.pop("is_cpu_op") is False
    return found


def nodes_of(journal):
    """The nodes of each rank, and the communicators."""
    files = dict(traces_of(journal, "run").files("run"))
    ranks = sum(name.endswith(".et") for name in files)
    return (
        [read(files[f"run.{rank}.et"])[1] for rank in range(ranks)],
        json.loads(files["comm_group.json"]),
    )


def profile_of(operations, windows, groups=None):
    """A journal of a profile: ``operations`` as (name, group, count)."""
    groups = groups or [[*range(len(windows))]]
    results = []
    for number, (name, group, count) in enumerate(operations):
        ranks = len(groups[group])
        size_bytes = count * 4 * (ranks if name in SPANNING else 1)
        one = ProfiledOperation(name, "nccl", group, ranks, "float32", count, size_bytes)
        results.append(ProfileResult(number, one, [ProfileFigures(0, 1, size_bytes)]))
    profile = Profile(
        "kineto",
        groups=[ProfileGroup("", str(number), own) for number, own in enumerate(groups)],
        processes=[
            ProfileProcess(rank, "host", 1, 9, 9, step_calls=len(own))
            for rank, own in enumerate(windows)
        ],
        window=[[ProfiledCall(*one) for one in own] for own in windows],
    )
    return Journal(header_of(usual_settings()), results=results, profile=profile)


SPANNING = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")


SMALL_REDUCE = [("all_reduce", 0, 4)]
#: Rank 0 of ranks 1 and 2, a group, sends 8 elements and receives 16 in one kernel.
MESSAGES = [("send", 1, 8), ("recv", 1, 16), ("recv", 1, 8), ("send", 1, 16), ("all_reduce", 0, 4)]
OF_ALL = (4, 50 * US, 5 * US, 0)
PROFILES = {
    # all_reduce 10-30, 12 us of compute beside it, then 5 us until the all_gather. Aligned at the
    # end of the first common call, rank 1 begins as rank 0 does.
    "times between and beside calls": profile_of(
        [("all_reduce", 0, 256), ("all_gather", 0, 8)],
        [
            [(0, 10 * US, 20 * US, 0, -1, 12 * US), (1, 35 * US, 4 * US, 0, -1, 0.0)],
            [(0, 0.0, 20 * US, 0, -1, 0.0), (1, 25 * US, 4 * US, 0, -1, 0.0)],
        ],
    ),
    "unknown beside calls": profile_of(
        [("all_reduce", 0, 256)], [[(0, 0.0, 20 * US, 0), (0, 30 * US, 20 * US, 0)]] * 2
    ),
    "without times": profile_of(
        [("all_reduce", 0, 256), ("alltoall", 0, 8)],
        [[(0, 0.0, 0.0, 0), (1, 0.0, 0.0, 0), (0, 0.0, 0.0, 0)]] * 2,
    ),
    "messages": profile_of(
        MESSAGES,
        [
            [OF_ALL],
            [(0, 0.0, 10 * US, 0, 1), (1, 0.0, 10 * US, 0, 1), OF_ALL],
            [(2, 0.0, 10 * US, 0, 0), (3, 0.0, 10 * US, 0, 0), OF_ALL],
        ],
        [[0, 1, 2], [1, 2]],
    ),
    # ASTRA-sim ends with an error if a trace has no node.
    "rank without calls": profile_of(
        SMALL_REDUCE, [[(0, 0.0, US, 0)], [(0, 0.0, US, 0)], []], [[0, 1]]
    ),
}


def test_nodes_of_steps():
    """Calls, the time between and beside them, and the ends of messages in the program."""
    found = {}
    for name, journal in PROFILES.items():
        ranks, groups = nodes_of(journal)
        found[name] = [f"groups: {groups}", *traces_of(journal, "run").remarks]
        for rank, nodes in enumerate(ranks):
            found[f"{name}, rank {rank}"] = [
                f"{one.id} after {[*one.data_deps]}: {NAMES[one.type]} {one.name}, "
                f"{one.start_time_micros} + {one.duration_micros} us, {attributes(one)}"
                for one in nodes
            ]
    require_stated("texts/chakra-nodes.txt", found)


#: Calls on three streams: the pause before each, and its time, in microseconds.
STREAMS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=12
)


@settings(max_examples=200)
@given(STREAMS)
def test_dependencies_give_the_order_and_the_times_of_the_program(drawn):
    """Calls wait for those that ended before; one compute node at a time gives the same begins."""
    free, calls = [0, 0, 0], []
    for stream, pause, time in drawn:
        begin = free[stream] + pause
        free[stream] = begin + time
        calls.append((begin, begin + time, stream))
    start = min(begin for begin, _, _ in calls)
    calls = [(begin - start, end - start, stream) for begin, end, stream in calls]
    windows = [[(0, a * US, (b - a) * US, stream, -1, (b - a) * US) for a, b, stream in calls]] * 2
    (nodes, _), _ = nodes_of(profile_of([("all_reduce", 0, 256)], windows))
    by_id = {one.id: one for one in nodes}
    assert len(by_id) == len(nodes)
    finished, before = {}, {}

    def finish(number):
        if number not in finished:
            node = by_id[number]
            begin = max(map(finish, node.data_deps), default=0)
            before[number] = {number}.union(*(before[one] for one in node.data_deps))
            assert begin == node.start_time_micros
            finished[number] = begin + node.duration_micros
        return finished[number]

    for number in by_id:
        finish(number)
    communication = [one for one in nodes if one.type == COLLECTIVE]
    assert [(one.start_time_micros, finished[one.id]) for one in communication] == [
        (a, b) for a, b, _ in calls
    ]
    for one in communication:
        for other in communication:
            is_earlier = finished[other.id] <= one.start_time_micros
            assert (other.id in before[one.id] - {one.id}) == is_earlier
    alone = [(a, b) for a, b, _ in calls if sum(c < b and a < d for c, d, _ in calls) == 1]
    assert sorted(alone) == sorted(
        (one.start_time_micros, finished[one.id]) for one in nodes if one.name == "compute beside"
    )
    busy = sorted((one.start_time_micros, finished[one.id]) for one in nodes if one.type == COMPUTE)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(busy))


TYPES = {
    **{"all_reduce": 0, "reduce": 1, "all_gather": 2, "gather": 3, "scatter": 4, "broadcast": 5},
    **{"alltoall": 6, "reduce_scatter": 7, "barrier": 9},
}


def nodes_of_case(case, rank):
    """The type, the ends or the collective, and the bytes of each node of a case of four ranks."""
    width = DTYPE_BYTES.get(case.dtype, 0)
    if case.operation == "sendrecv":
        size = case.count * width
        return [(SEND, rank, (rank + 1) % 4, size), (RECEIVE, (rank - 1) % 4, rank, size)]
    if case.operation == "alltoallv":
        sent, received = case.matrix[4 * rank : 4 * rank + 4], case.matrix[rank::4]
        ends = [(SEND, rank, peer, one * width) for peer, one in enumerate(sent)]
        ends += [(RECEIVE, peer, rank, one * width) for peer, one in enumerate(received)]
        return [one for one in ends if one[3] and one[1] != one[2]]
    parts = 4 if case.operation in ("reduce_scatter", "alltoall", "scatter") else 1
    return [(COLLECTIVE, TYPES[case.operation], "1", parts * case.count * width)]


def test_every_measured_case_is_a_collective_of_each_rank(cclmark, tmp_path):
    path = H200X4 / "collectives.jsonl"
    told = cclmark("export", str(path), "--format", "chakra", "-O", "traces")
    assert "ASTRA-sim 2.2 ends with an error at barrier, gather, reduce, scatter" in told.err
    assert sorted(one.name for one in (tmp_path / "traces").iterdir()) == sorted(
        [*(f"collectives.{rank}.et" for rank in range(4)), "comm_group.json", "network.yml"]
    )
    journal = read_journal(path)
    cases = list(dict.fromkeys(one.case for one in journal.cases if one.summary is not None))
    for rank in range(4):
        metadata, nodes = read((tmp_path / "traces" / f"collectives.{rank}.et").read_bytes())
        assert metadata.version == "1.0.0"
        run_id = [("cclmark_run_id", journal.header.run_id)]
        assert [(one.name, one.string_val) for one in metadata.attr] == run_id
        found, known = [], set()
        for node in nodes:
            own = attributes(node)
            ends = ("comm_type", "pg_name") if node.type == COLLECTIVE else ("comm_src", "comm_dst")
            found.append((node.type, *(own[one] for one in ends), own["comm_size"]))
            assert known.issuperset(node.data_deps)
            known.add(node.id)
        assert found == [one for case in cases for one in nodes_of_case(case, rank)]
        assert all(node.data_deps for node in nodes[2:])


def cases_of(*operations, ranks=2):
    header = header_of(usual_settings(), devices=ranks)
    summary = Summary("device", 10 * US)
    results = [
        CaseResult(index, Case(name, "nccl", ranks, "float32", 64, 8, False), "ok", summary=summary)
        for index, name in enumerate(operations)
    ]
    return Journal(header, results=results)


def test_a_case_that_repeats_is_one_node():
    (first, _), _ = nodes_of(cases_of("all_reduce", "all_reduce", "all_gather"))
    assert [one.duration_micros for one in first] == [10, 10]


ALL_REDUCE = cases_of("all_reduce").results
TWO_CALLS = [[(0, 0.0, US, 0)], [(0, 0.0, US, 0)]]


def of_results(results):
    return Journal(header_of(usual_settings()), results=results)


@pytest.mark.parametrize(
    ("journal", "reason"),
    [
        (cases_of("all_reduce", ranks=1), "a single rank"),
        (cases_of("alltoallv"), "alltoallv: not part of Chakra's collectives"),
        (of_results(ALL_REDUCE + cases_of("all_reduce", ranks=4).results), "2 and 4 ranks"),
        (of_results([replace(ALL_REDUCE[0], summary=None)]), "no case was measured"),
        (of_results([replace(ALL_REDUCE[0], status="wrong")]), "cases have wrong data"),
        (profile_of([("send", 0, 4)], TWO_CALLS), "does not contain its peer"),
        (profile_of([("all_reduce", 0, 4)], TWO_CALLS, [[0, 1, None]]), "2 of 3 ranks of group 0"),
    ],
)
def test_what_cannot_be_a_trace_is_refused_with_the_reason(journal, reason):
    with pytest.raises(UsageError, match=re.escape(reason)):
        traces_of(journal, "run")


def test_the_network_has_the_devices_of_a_host_and_the_hosts():
    kinds = [("NVLink", 18, 25e9), ("PCIe", 16, 4e9)]
    links = [Link(rank, *kind) for rank in range(4) for kind in kinds]
    port = NetworkInterface("mlx5_0", "InfiniBand", rate_bits_per_s=400e9, state="active")
    down = replace(port, name="mlx5_1", state="down")
    machine = Machine("a", "", "", "", 1, 0, interfaces=[port, port, down])
    one_host = header_of(usual_settings(), devices=4, links=links)
    known = replace(one_host, hosts=[HostDescription(machine, name, {}) for name in "ab"])
    found = {f"ranks on {hosts}": network(one_host, [*hosts], 4) for hosts in ("aaaa", "aabb")}
    for hosts in ("aabb", "ab", "abab", "abb"):
        found[f"ranks on known hosts {hosts}"] = network(known, [*hosts], len(hosts))
    found["unknown hosts"] = network(known, [""] * 4, 4)
    require_stated("texts/chakra-network.txt", found)


RUN = str(TESTS / "journals" / "profile.jsonl")


def test_a_wrong_input_or_output_leaves_nothing(cclmark, tmp_path):
    (tmp_path / "run.jsonl").symlink_to(RUN)
    (tmp_path / "cases.jsonl").symlink_to(H200X4 / "all_reduce.jsonl")
    (tmp_path / "copies.jsonl").symlink_to(TESTS / "journals" / "p2p.jsonl")
    (tmp_path / "file").write_text("kept")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "other").touch()
    before = sorted(tmp_path.rglob("*"))
    require_transcript("export-chakra", stored_commands("export-chakra"), cclmark, tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("is_new", [True, False])
def test_a_write_that_fails_leaves_nothing(cclmark, tmp_path, monkeypatch, is_new):
    from cclmark.cli.export import run

    directory, real, written = tmp_path / "new", run.write_whole, []

    def write_whole(path, content):
        if len(written) == 2:
            raise OutputError("No space left on device")
        written.append(path)
        real(path, content)

    monkeypatch.setattr(run, "write_whole", write_whole)
    if not is_new:
        directory.mkdir()
    cclmark("export", RUN, "--format", "chakra", "-O", "new", code=3)
    assert len(written) == 2
    assert directory.exists() != is_new
    assert is_new or not any(directory.iterdir())
