from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.cli.trace.summary import step_lines
from cclmark.explain.algorithm_steps import INPUT, OUTPUT
from cclmark.explain.paths import RankPaths, Route
from cclmark.explain.plugin_log import PluginEvent
from cclmark.trace.case_steps import DERIVED, OBSERVED, UNKNOWN, steps_of
from cclmark.trace.log_events import Channel, Task
from cclmark.trace.rank_trace import RankTrace, StepSources
from cclmark.work.cases import Case
from goldens import outline, require_golden
from step_simulation import Memory, by_chunk, execute

AB = ([0, 1, 2, 3], [0, 2, 1, 3])


def case_of(ranks=4, **more):
    values = {"operation": "all_reduce", "ccl": "nccl", "dtype": "float32", "reduction": "sum"}
    values |= {"size_bytes": 4096, "count": 1024, "in_place": False}
    return Case(ranks=ranks, **{**values, **more})


def task(channels=(0,), *, number=1, peer=-1, **more):
    """An operation that the plug-in reports, which ran on these channels."""
    kind = "collective" if peer < 0 else "point-to-point"
    values = {"number": number, "kind": kind, "root": max(peer, 0), "channels": len(channels)}
    values |= {"rank": 0, "communicator": 7, "time_ns": 0, "parent": 0, "sequence": 0, "warps": 16}
    values |= {"count": 1024, "device_ns": 0, "datatype": "ncclFloat32"}
    values |= {"function": "AllReduce", "algorithm": "RING", "protocol": "LL"}
    return Task(PluginEvent(**{**values, **more}), [Channel(one, 0, 1) for one in channels])


def traces_of(rings=(), *, trees=(), operations=1, **more):
    """Ranks whose logs contain these rings and trees, one for each channel."""
    found = []
    for rank in range(4):
        paths = RankPaths(
            routes=[Route(rank, to, "P2P/CUMEM") for to in range(4) if to != rank],
            ring_next={
                channel: (rank, ring[(ring.index(rank) + 1) % 4])
                for channel, ring in enumerate(rings)
            },
            tree_parent={channel: (rank, tree[rank]) for channel, tree in enumerate(trees)},
        )
        sources = StepSources(paths, **more)
        trace = RankTrace(rank, "node", "GPU", "cuda", call_begin_ns=[0] * operations)
        found.append(replace(trace, step_sources=sources))
    return found


def everywhere(*tasks):
    return {rank: [*tasks] for rank in range(4)}


def broken_ring():
    """Logs in which rank 3 is in no circle."""
    traces = traces_of(([0, 1, 2, 3],))
    traces[2].step_sources.paths.ring_next[0] = (2, 0)
    return traces


@given(st.lists(st.permutations(range(4)), min_size=1, max_size=5), st.booleans())
def test_all_rings_together_reduce_everything(rings, in_place):
    channels = tuple(range(len(rings)))
    case = case_of(in_place=in_place)
    found = steps_of(case, traces_of(rings), everywhere(task(channels)), {})
    parts = {(step.path, step.chunk) for step in found.steps}
    assert len(parts) == 4 * len(found.carriers)
    memory = Memory()
    for rank in range(4):
        for part in parts:
            memory[rank, INPUT, part] = Counter({(rank, part): 1})
    execute(found.steps, memory, by_chunk)
    for rank in range(4):
        for part in parts:
            assert memory[rank, OUTPUT, part] == Counter({(other, part): 1 for other in range(4)})
    sizes = {(step.path, step.chunk): step.size_bytes for step in found.steps}
    assert sum(sizes.values()) == case.size_bytes


def unknown(case, traces, tasks):
    found = steps_of(case, traces, tasks, {})
    assert found.origin == UNKNOWN
    assert found.steps == []
    assert step_lines(found, {}) == [f"  steps of the algorithm: unknown: {found.reason}"]
    return found.reason


THREE = everywhere(task((0, 1, 2)))
TWO_TASKS = everywhere(task(number=1), task(number=2))
OTHER_ROOT = everywhere(task(function="Broadcast")) | {3: [task(function="Broadcast", root=2)]}
UNKNOWN_STEPS = {
    **{
        algorithm or "no name": (case_of(), traces_of(AB), everywhere(task(algorithm=algorithm)))
        for algorithm in ("NVLS", "COLLNET_CHAIN", "PAT", "NOVEL", "")
    },
    "copy engine": (
        *(case_of(), traces_of(AB)),
        everywhere(task(kind="copy-engine collective", function="AllGather")),
    ),
    "no ring of a channel": (case_of(), traces_of(AB), THREE),
    "no ring": (case_of(), traces_of(), THREE),
    "no circle": (case_of(), broken_ring(), THREE),
    "no log of rings": (case_of(), traces_of(AB, paths_reason="the log is empty"), THREE),
    "no tree": (
        *(case_of(), traces_of(trees=([-1, 2, 1, 0],))),
        everywhere(task((0,), algorithm="TREE")),
    ),
    "split": (case_of(), traces_of(AB), TWO_TASKS),
    "fewer operations": (case_of(), traces_of(AB, operations=3), TWO_TASKS),
    "unknown type": (case_of(), traces_of(AB), everywhere(task(datatype="ncclFloat3"))),
    "no log": (
        case_of(ccl="oneccl"),
        [replace(one, log_reason="no plug-in") for one in traces_of()],
        {},
    ),
    "many": (case_of(ranks=1024), traces_of(AB), everywhere(task())),
    "other root": (case_of(operation="broadcast"), traces_of(AB), OTHER_ROOT),
}


def test_why_steps_are_unknown():
    found = {name: unknown(*given) for name, given in UNKNOWN_STEPS.items()}
    require_golden("unknown_steps.txt", outline(found))


def test_where_little_is_missing_steps_are_derived():
    assert steps_of(case_of(), traces_of(AB, operations=2), TWO_TASKS, {}).origin == DERIVED
    same = steps_of(case_of(), traces_of(AB[:1]), THREE, {})
    assert same.notes[0].startswith("the log contains no ring of channels 1-2: it is taken to be")


def test_messages_of_ranks_with_a_log():
    tasks = {
        0: [task(peer=1, function="Send", number=1), task(peer=3, function="Recv", number=2)],
        1: [task(peer=0, function="Recv", number=1, count=512)],
    }
    found = steps_of(case_of(operation="sendrecv"), traces_of(), tasks, {})
    assert found.origin == OBSERVED
    assert [(s.source, s.destination, s.size_bytes) for s in found.steps] == [
        (0, 1, 4096),
        (3, 0, 4096),
    ]
    assert found.notes[1:] == [
        "the sends of rank 0 to rank 1 differ from its receives",
        "ranks 2-3 reported no operation",
    ]
