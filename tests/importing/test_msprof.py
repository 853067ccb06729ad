import gzip
from collections import Counter
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.trace.timeline_files import write_perfetto
from cclmark_importers.device_tasks import assemble_tasks, stages_of
from cclmark_importers.importers import import_traces, trace_format
from cclmark_importers.msprof import read_msprof
from cclmark_importers.msprof_timeline import operations_of, stage_lines, task_lines
from foreign_texts import trace_file
from msprof_files import BEGIN_NS, MESH, ROOTED, content, timeline


def read(data, number=0):
    return read_msprof(BytesIO(data), "msprof.json", number)


def only(data):
    found = read(data)
    assert found.notes == []
    [trace] = found.traces
    return trace


SMALL = content(timeline(1, ranks=2, operations=["broadcast", "allReduce"]))


def test_what_a_timeline_contains():
    trace = only(content(timeline(2, operations=["allReduce"], size=8 << 20)))
    assert (trace.rank, trace.device) == (2, "NPU 2")
    [one] = trace.operations
    assert one.name == "hcom_allReduce__674_0_1"
    assert (one.dtype, one.count, one.ranks) == ("FP32", 2 << 20, 4)
    assert (one.algorithm, one.group) == ("MESH-RING-NHR", "16898834563344171674")
    # A float of microseconds since 1970 would round this to a quarter of a microsecond.
    assert one.begin_ns == BEGIN_NS
    assert Counter(task.name for task in one.tasks) == {
        **{"Memcpy": 5, "Reduce_Inline": 3, "Notify_Record": 6, "Notify_Wait": 6}
    }
    reduction = next(task for task in one.tasks if task.reduces)
    assert (reduction.link, reduction.transport, reduction.size_bytes) == ("HCCS", "SDMA", 2 << 20)
    assert reduction.peer in (0, 1, 3)
    assert {task.plane for task in one.tasks if task.peer is None} == {0}
    read_rates = {one.name: one.values[0] for one in trace.counters}
    assert read_rates["HBM 255/Read"] == (BEGIN_NS, 1000.0)
    assert read_rates["HCCS Tx"] == (BEGIN_NS, 512.5)


@pytest.mark.parametrize("operation", [*MESH, *ROOTED])
@pytest.mark.parametrize("slices", [1, 5])
def test_stages(operation, slices):
    """As the document of hccl_test's traces lists them, and once more for each slice."""
    size = 8 << 20
    data = content(timeline(0, ranks=8, operations=[operation], size=size, buffer=size // slices))
    [one] = only(data).operations
    stages = stages_of(one)
    whole, part = size // slices, size // slices // 8
    copies, reductions = {"Memcpy"}, {"Reduce_Inline"}
    own, reduced = (1, part, copies), (7, part, reductions)
    expected = {
        "allGather": [own, (8, part, copies)],
        "allReduce": [own, reduced, own, (7, part, copies)],
        "reduceScatter": [own, reduced, own],
        "alltoall": [(1, whole, copies), own, (7, part, copies)],
        "broadcast": [(1, whole, copies), (7, part, copies)],
        "reduce": [(1, whole, copies), reduced, own, (7, part, copies), (1, whole, copies)],
    }[operation]
    found = [(len(one), one[0].size_bytes, {task.name for task in one}) for one in stages]
    times = len(found) // len(expected)
    assert found[: len(expected) * slices] == expected * slices
    # What does not divide evenly is a last slice.
    assert times in (slices, slices + 1)


def test_arrows_lead_from_signals_to_waits():
    traces = [only(content(timeline(rank, operations=["allReduce"]))) for rank in range(4)]
    groups = assemble_tasks(traces).groups
    ends = {
        kind: {
            number: (group.number, one)
            for group in groups
            for track in group.tracks
            for one in track.slices
            for number in getattr(one, kind)
        }
        for kind in ("flows_from", "flows_to")
    }
    # Two stages in which each of 4 ranks signals 3 others.
    assert len(ends["flows_from"]) == 24
    assert ends["flows_from"].keys() == ends["flows_to"].keys()
    for number, (rank, signal) in ends["flows_from"].items():
        other, wait = ends["flows_to"][number]
        assert signal.arguments["other rank"] == other
        assert wait.arguments["other rank"] == rank
        assert wait.end_ns >= signal.begin_ns


def test_a_file_cut_off_at_any_byte_is_refused():
    """Whatever is missing, figures of a part would be wrong."""
    for length in range(len(SMALL)):
        with pytest.raises(UsageError, match=r"msprof\.json") as caught:
            read(SMALL[:length])
        text = str(caught.value)
        assert "cut off" in text, (length, text)
        assert f"after {length} bytes" in text
    for length in range(1, len(SMALL), 97):
        with pytest.raises(UsageError, match=r"cut off|no JSON|is not a trace"):
            import_traces([trace_file(SMALL[:length])], "msprof")


def test_other_forms_of_the_same():
    events = timeline(1, ranks=2, operations=["broadcast", "allReduce"])
    whole = read(SMALL)
    assert read(b"\n  " + content(events, indent=2) + b"\n") == whole
    assert read(gzip.compress(SMALL)) == whole
    # CANN 7 has another name for the row, and quotes numbers.
    old = timeline(1, ranks=2, operations=["broadcast", "allReduce"], row="HCCL")
    for one in old:
        arguments = one["args"]
        if "notify_id" in arguments:
            arguments["notify id"] = arguments.pop("notify_id")
            arguments["size(Byte)"] = str(arguments["size(Byte)"])
    assert read(content(old)) == whole
    compressed = gzip.compress(SMALL)
    with pytest.raises(UsageError, match="the compressed file is cut off"):
        read(compressed[:-9])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[]", "contains no communication"),
        (b'{"traceEvents":[]}', "is no JSON array"),
        (b'[{"ph":"X","ts":"one"}]', "is not a trace of msprof"),
        (SMALL + b"x", "the trace is damaged"),
    ],
)
def test_other_files_are_refused(data, words):
    with pytest.raises(UsageError, match=words):
        read(data)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)  # JSON has no others
    | st.text(max_size=5),
    lambda one: st.lists(one, max_size=2) | st.dictionaries(st.text(max_size=3), one, max_size=2),
    max_leaves=4,
)
KEYS = ("src rank", "dst rank", "size(Byte)", "notify_id", "link type", "bandwidth(GB/s)")


@given(st.sampled_from(KEYS), VALUES, st.data())
def test_a_damaged_value_changes_no_other_task(key, value, data):
    events = timeline(1, ranks=2)
    tasks = [one for one in events if "src rank" in one["args"]]
    place = data.draw(st.integers(0, len(tasks) - 1))
    tasks[place]["args"][key] = value
    found = read(content(events))
    whole = only(content(timeline(1, ranks=2)))
    [one] = found.traces
    write_perfetto(assemble_tasks(found.traces), BytesIO())
    for ranks in operations_of(found.traces):
        assert stage_lines(ranks, [0, 1])
        assert task_lines(ranks)
    left_out = len(whole.tasks) - len(one.tasks)
    assert left_out in (0, 1)
    assert (found.notes != []) == bool(left_out)
    same = [task for task in one.tasks if task in whole.tasks]
    assert len(same) >= len(whole.tasks) - 1


def test_the_files_of_ranks_become_a_profile():
    names = ["allReduce", "allGather", "reduceScatter", "alltoall", "broadcast", "reduce"]
    files = [
        trace_file(content(timeline(rank, operations=names)), f"{rank}.json") for rank in range(4)
    ]
    assert {trace_format(one.content) for one in files} == {"msprof"}
    run = import_traces(files, "msprof")
    assert run.header.imported.format == "msprof"
    results = {one.item.operation: one for one in run.results}
    # Elements are those of one rank for all_gather and reduce_scatter, as HCCL counts them.
    assert {name: one.item.size_bytes for name, one in results.items()} == {
        **{"all_reduce": 1 << 20, "broadcast": 1 << 20, "reduce": 1 << 20},
        **{"all_gather": 4 << 20, "reduce_scatter": 4 << 20, "alltoall": 0},
    }
    assert {one.item.dtype for one in run.results} == {"float32"}


def test_a_row_of_another_name_is_reported():
    """Its operations may be those of the host: tasks alone make no calls of a program."""
    renamed = SMALL.replace(b'"Communication"', b'"Communicatiom"')
    with pytest.raises(UsageError, match=r"no row is named Communication or HCCL .rows: .*Comm"):
        import_traces([trace_file(renamed)], "msprof")
