from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.cli.trace.summary import step_lines
from cclmark.explain.algorithm_steps import INPUT, OUTPUT, MeshMessage, mesh_steps
from cclmark.trace.case_steps import DOCUMENTED, UNKNOWN, steps_of
from cclmark.trace.rank_trace import RankTrace
from cclmark.work.cases import Case
from cclmark.work.sizes import format_size
from goldens import require_outcomes
from places import REPOSITORY
from step_simulation import Memory, by_granule, execute

SIZES = st.integers(2, 7).flatmap(
    lambda ranks: st.tuples(
        st.lists(st.integers(0, 3), min_size=ranks, max_size=ranks), st.integers(0, ranks - 1)
    )
)


def computed(operation, message, input_sizes, *, in_place=False):
    """What every output holds, byte by byte, if a symbol is a byte of an input."""

    def alias(cell):
        rank, buffer, byte = cell
        if not in_place or buffer != INPUT:
            return cell
        begin = message.begins_bytes[rank] if operation == "all_gather" else 0
        return (rank, OUTPUT, begin + byte)

    memory = Memory(alias)
    for rank in message.ranks:
        for byte in range(input_sizes[rank]):
            memory[rank, INPUT, byte] = Counter({(rank, byte): 1})
    execute(mesh_steps(operation, message), memory, by_granule(1))
    return lambda rank, byte: memory[rank, OUTPUT, byte]


def total(message, byte):
    return Counter({(rank, byte): 1 for rank in message.ranks})


def expected(operation, message, rank):
    """The symbols of each byte of the output of a rank; None for an output that is not defined."""
    whole = range(sum(message.parts_bytes))
    begin, size = message.begins_bytes[rank], message.parts_bytes[rank]
    own = {other: range(message.parts_bytes[other]) for other in message.ranks}
    return {
        "all_reduce": [total(message, byte) for byte in whole],
        "reduce_scatter": [total(message, begin + byte) for byte in range(size)],
        "all_gather": [Counter({(it, byte): 1}) for it in message.ranks for byte in own[it]],
        "broadcast": [Counter({(message.root, byte): 1}) for byte in whole],
        "reduce": [total(message, byte) for byte in whole] if rank == message.root else [],
    }[operation]


@pytest.mark.parametrize(
    "operation", ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"]
)
@given(SIZES, st.booleans())
def test_operations_compute_what_they_are_defined_as(operation, sizes, in_place):
    message = MeshMessage(*sizes, in_place=in_place and operation != "reduce_scatter")
    inputs = [sum(message.parts_bytes)] * len(message.ranks)
    if operation == "all_gather":
        inputs = message.parts_bytes
    elif operation == "broadcast":
        inputs = [size if rank == message.root else 0 for rank, size in enumerate(inputs)]
    output = computed(operation, message, inputs, in_place=message.in_place)
    for rank in message.ranks:
        for byte, symbols in enumerate(expected(operation, message, rank)):
            assert output(rank, byte) == symbols


@given(st.integers(2, 5), st.data(), st.sampled_from(["alltoall", "alltoallv"]))
def test_alltoall(ranks, data, operation):
    rows = [[data.draw(st.integers(0, 3)) for _ in range(ranks)] for _ in range(ranks)]
    message = MeshMessage([0] * ranks, sent_bytes=rows)
    output = computed(operation, message, [sum(row) for row in rows])
    for to in range(ranks):
        at = 0
        for source in range(ranks):
            for byte in range(rows[source][to]):
                assert output(to, at) == Counter({(source, sum(rows[source][:to]) + byte): 1})
                at += 1


GIB = 2 << 30


def case_of(operation, ranks=8, count=None, **more):
    elements = GIB // 4
    per_rank = elements // ranks
    spans = operation in ("all_gather", "reduce_scatter", "alltoall", "alltoallv")
    values = {
        "ccl": "hccl",
        "dtype": "float32",
        "size_bytes": GIB,
        "count": count or (per_rank if spans else elements),
        "in_place": operation == "broadcast",
        "root": 0 if operation in ("broadcast", "reduce") else None,
        "matrix": (per_rank,) * ranks**2 if operation == "alltoallv" else (),
    }
    return Case(operation, ranks=ranks, **{**values, **more})


def traces(ranks=8, hosts=("node",)):
    return [
        RankTrace(rank, hosts[rank % len(hosts)], "Ascend910B3", "acl", call_begin_ns=[0])
        for rank in range(ranks)
    ]


def test_stages_of_each_rank_are_those_of_the_documents():
    """Of 2 GiB on 8 ranks: the steps within a rank and with others, and the size of each."""

    def stages(line):
        operation, rank = line.split(" on rank ")
        steps = steps_of(case_of(operation), traces(), {}, {})
        assert steps.origin == DOCUMENTED
        found = defaultdict(list)
        for step in steps.steps:
            if step.destination == int(rank):
                found[step.stage, step.size_bytes, step.action].append(step.is_local)
        return "\n".join(
            f"{stage}: {action} {format_size(size)}, {sum(own)} within, {own.count(False)} others"
            for (stage, size, action), own in found.items()
        )

    require_outcomes(Path(__file__).with_name("mesh_stages.txt"), stages)


def test_the_table_has_a_row_for_each_role_and_the_slices():
    """As the document's: 00, 02 of the root and 11, 12 of the others. The page shows it."""

    def lines(buffer_mb, **more):
        found = steps_of(case_of("broadcast", **more), traces(), {}, {"HCCL_BUFFSIZE": buffer_mb})
        shown = step_lines(found, {})
        return shown[shown.index("") + 1 :]

    page = (REPOSITORY / "docs" / "from" / "hccl-test.md").read_text()
    assert "\n".join(lines("10", size_bytes=16 << 20, count=4 << 20)) in page
    for buffer_mb, slices in (("10", "205"), ("2048", "1")):
        assert {line.split("  ")[-2].strip() for line in lines(buffer_mb)[1:]} == {slices}


@pytest.mark.parametrize(
    ("case", "hosts", "reason"),
    [
        (case_of("all_reduce"), ("a", "b"), "HCCL selects an algorithm between hosts by itself"),
        (case_of("gather"), ("a",), "describe no steps of gather"),
        (case_of("all_reduce", ranks=1), ("a",), "one rank exchanges no data"),
    ],
)
def test_unknown(case, hosts, reason):
    found = steps_of(case, traces(case.ranks, hosts), {}, {})
    assert found.origin == UNKNOWN
    assert reason in found.reason
