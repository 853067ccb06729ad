"""Files that select MPICH's algorithms: rules in their ranges, MPICH's own choice elsewhere."""

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.base.errors import MissingError, UsageError
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule
from cclmark.kinds.tune.mpich_selection import (
    MOST_SIZE_BYTES,
    algorithm_name,
    algorithms_of,
    builtin_trees,
    leaves_of,
    read,
    resolved,
    selection,
)
from cclmark.work.library_settings import find_setting
from examples import examples
from goldens import require_golden

COLLECTIVES = {
    **{"all_gather": "allgather", "all_reduce": "allreduce", "alltoall": "alltoall"},
    **{"broadcast": "bcast", "reduce": "reduce", "reduce_scatter": "reduce_scatter_block"},
}


def leaf(algorithm):
    return {f"algorithm=MPIR_{algorithm}": {}}


# Of the shape of MPICH's own trees, with all kinds of their conditions.
GENERAL = {
    "collective=bcast": {
        "comm_type=intra": {
            "comm_size<8": {
                "comm_hierarchy=parent": leaf("Bcast_intra_smp"),
                "comm_hierarchy=any": leaf("Bcast_intra_binomial"),
            },
            "comm_size=pow2": {
                "avg_msg_size<=524288": leaf("Bcast_intra_scatter_recursive_doubling_allgather"),
                "avg_msg_size=any": leaf("Bcast_intra_scatter_ring_allgather"),
            },
            "comm_size=any": {"algorithm=MPIR_Bcast_intra_tree": {"k=3": {}}},
        },
        "comm_type=inter": leaf("Bcast_inter_remote_send_local_bcast"),
    },
    "collective=allreduce": {
        "comm_type=intra": {
            "avg_msg_size<=8": leaf("Allreduce_intra_recursive_doubling"),
            "avg_msg_size=any": {
                "is_op_built_in=no": leaf("Allreduce_intra_recursive_doubling"),
                "is_op_built_in=yes": {
                    "count<pow2": leaf("Allreduce_intra_recursive_doubling"),
                    "count=any": leaf("Allreduce_intra_reduce_scatter_allgather"),
                },
            },
        }
    },
    "collective=allgather": {
        "comm_type=intra": {
            "comm_size=pow2": leaf("Allgather_intra_recursive_doubling"),
            "comm_size=any": leaf("Allgather_intra_brucks"),
        }
    },
    "collective=alltoall": {
        "comm_type=intra": {
            "is_sendbuf_inplace=yes": leaf("Alltoall_intra_pairwise_sendrecv_replace"),
            "is_sendbuf_inplace=no": {
                "comm_size<8": leaf("Alltoall_intra_scattered"),
                "comm_size=any": leaf("Alltoall_intra_brucks"),
            },
        }
    },
    "collective=reduce": {"comm_type=intra": leaf("Reduce_intra_binomial")},
    "collective=reduce_scatter_block": {
        "comm_type=intra": {
            "is_commutative=yes": leaf("Reduce_scatter_block_intra_pairwise"),
            "is_commutative=no": leaf("Reduce_scatter_block_intra_recursive_doubling"),
        }
    },
}
SHARED = {
    "collective=bcast": {
        "comm_type=intra": {
            "is_multi_threaded=no": {"algorithm=MPIDI_POSIX_mpi_bcast_release_gather": {}}
        }
    },
    "collective=allreduce": {
        "comm_type=intra": {
            "is_multi_threaded=no": {
                "is_commutative=yes": {"algorithm=MPIDI_POSIX_mpi_allreduce_release_gather": {}}
            }
        }
    },
}
COMPOSITIONS = {"collective=bcast": {"composition=MPIDI_Bcast_intra_composition_alpha": {}}}
LIBRARY = b"\x7fELF\0" + b"\0".join(
    json.dumps(tree, separators=(",", ":")).encode() for tree in (SHARED, COMPOSITIONS, GENERAL)
)
FLAGS = ("is_commutative", "is_builtin", "is_in_place", "is_multi_threaded")
BUILTIN = builtin_trees(LIBRARY + b"\0")


def made(*rules, version=""):
    files = selection(rules, BUILTIN, library_version=version)
    return read(files.general, "general"), read(files.shared_memory, "shared memory")


@dataclass(frozen=True)
class Call:
    """A call on one host; ``block_bytes``, ``total_bytes``: MPICH's avg_ and total_msg_size."""

    collective: str
    ranks: int
    block_bytes: int
    total_bytes: int
    count: int
    is_commutative: bool = True
    is_builtin: bool = True
    is_in_place: bool = False
    is_multi_threaded: bool = False


@cache
def limit_of(key):
    return re.fullmatch(
        r"(comm_size|comm_avg_ppn|avg_msg_size|total_msg_size|count)(<=?)(\d+)", key
    )


def holds(key, call, is_search):
    """Whether a condition holds (MPIR_Csel_search, MPIR_Csel_prune)."""
    name, _, value = key.partition("=")
    if limit := limit_of(key):
        number = {
            **dict.fromkeys(("comm_size", "comm_avg_ppn"), call.ranks),
            **{"avg_msg_size": call.block_bytes, "total_msg_size": call.total_bytes},
            "count": call.count,
        }[limit[1]]
        or_equal = limit[2] == "<=" or (is_search and limit[1] == "comm_size")
        return number < int(limit[3]) + or_equal
    if value == "any" or key == "any":
        return True
    if value == "pow2":
        return call.ranks & (call.ranks - 1) == 0
    if key == "count<pow2":
        return call.count < 1 << (call.ranks.bit_length() - 1)
    flags = {"is_op_built_in": call.is_builtin, "is_sendbuf_inplace": call.is_in_place}
    flags |= {name: getattr(call, name) for name in ("is_commutative", "is_multi_threaded")}
    if name in flags:
        return flags[name] == (value == "yes")
    return key in (f"collective={call.collective}", "comm_type=intra", "comm_hierarchy=flat")


def algorithm_of(tree, call):
    """The name of the algorithm that a tree selects, None where it selects nothing."""
    is_search = False
    while tree is not None:
        [*leaves] = (key for key in tree if key.startswith(("algorithm=", "composition=")))
        if leaves:
            return leaves[0].partition("=")[2]
        for key, below in tree.items():
            of_communicator = ("collective", "comm_", "any", "is_node_consecutive")
            is_search = is_search or not (key.startswith(of_communicator) or key.endswith("=any"))
            if holds(key, call, is_search):
                tree = below
                break
        else:
            tree = None
    return None


def what_runs(general, shared, call):
    """MPICH on one host: the tree for shared memory first."""
    return algorithm_of(shared, call) or algorithm_of(general, call)


@st.composite
def rule_sets(draw):
    found = []
    for operation in draw(st.sets(st.sampled_from(sorted(COLLECTIVES)), min_size=1, max_size=3)):
        for ranks in draw(st.sets(st.integers(2, 17), min_size=1, max_size=4)):
            is_power = ranks & (ranks - 1) == 0
            names = [
                name
                for name in algorithms_of(operation)
                if is_power
                or (operation, name)
                not in (("all_gather", "recursive_doubling"), ("reduce_scatter", "noncommutative"))
            ]
            sizes = st.one_of(st.integers(0, 200), st.integers(0, MOST_SIZE_BYTES))
            edges = sorted(draw(st.sets(sizes, min_size=2, max_size=8)))
            for start, end in zip(edges[::2], edges[1::2], strict=False):
                limit = None if end == edges[-1] and draw(st.booleans()) else end
                found.append(
                    AlgorithmRule(operation, ranks, start, limit, draw(st.sampled_from(names)))
                )
    return draw(st.permutations(found))


def can_run(rule, call):
    """MPICH's conditions: src/mpi/coll/coll_algorithms.txt of 5.0."""
    needs_enough = rule.algorithm in ("reduce_scatter_allgather", "reduce_scatter_gather")
    if needs_enough:
        largest_power = max(1 << place for place in range(6) if 1 << place <= call.ranks)
        return call.is_builtin and call.count >= largest_power
    if rule.operation == "all_reduce":
        free = ("recursive_doubling", "tree", "recexch")
        return call.is_commutative or rule.algorithm in free
    if rule.operation == "reduce_scatter":
        free = ("recursive_doubling", "noncommutative")
        return call.is_commutative or rule.algorithm in free
    if rule.operation == "alltoall":
        return call.is_in_place == (rule.algorithm == "pairwise_sendrecv_replace")
    return True


def called(operation, ranks, size_bytes, count, flags):
    """A call with one of cclmark's sizes."""
    has_blocks = operation in ("all_reduce", "broadcast", "reduce")
    return Call(
        *(COLLECTIVES[operation], ranks),
        block_bytes=size_bytes if has_blocks else size_bytes // ranks,
        total_bytes=size_bytes * ranks if has_blocks else size_bytes,
        count=count,
        **flags,
    )


def expected(rules, operation, size_bytes, call):
    """The algorithm of the rule that is met, else MPICH's own choice."""
    for rule in rules:
        is_met = (rule.operation, rule.ranks) == (operation, call.ranks)
        end = 1 << 62 if rule.largest_bytes is None else rule.largest_bytes
        if is_met and rule.smallest_bytes <= size_bytes <= end and can_run(rule, call):
            return algorithm_name(operation, rule.algorithm)
    return what_runs(BUILTIN.general, BUILTIN.shared_memory, call)


@settings(max_examples=examples(400))
@given(rule_sets(), st.data())
def test_rules_apply_in_their_ranges_and_mpichs_choice_elsewhere(rules, data):
    general, shared = made(*rules)
    near = data.draw(st.sampled_from(rules))
    operation = data.draw(st.sampled_from([near.operation, "broadcast", "alltoall"]))
    ranks = data.draw(st.one_of(st.just(near.ranks), st.integers(2, 18)))
    edges = {near.smallest_bytes, near.smallest_bytes - 1, near.largest_bytes or 1 << 40}
    edges |= {edge + 1 for edge in edges}
    sizes = st.sampled_from(sorted(edge for edge in edges if edge >= 0))
    size_bytes = data.draw(st.one_of(sizes, st.integers(0, 1 << 40)))
    flags = {name: data.draw(st.booleans(), name) for name in FLAGS}
    call = called(operation, ranks, size_bytes, data.draw(st.integers(0, 20)), flags)
    assert what_runs(general, shared, call) == expected(rules, operation, size_bytes, call)


@pytest.mark.parametrize(
    ("operation", "algorithm"),
    [(operation, name) for operation in COLLECTIVES for name in algorithms_of(operation)],
)
def test_at_its_edges_every_algorithm_runs_where_it_can(operation, algorithm):
    for rule_ranks in (4, 8):
        rules = [AlgorithmRule(operation, rule_ranks, 100, 200, algorithm)]
        general, shared = made(*rules)
        cases = product(
            *((rule_ranks - 1, rule_ranks, rule_ranks + 1), (99, 100, 200, 201), (3, 4, 7, 8)),
            product((False, True), repeat=len(FLAGS)),
        )
        for ranks, size_bytes, count, flags in cases:
            call = called(operation, ranks, size_bytes, count, dict(zip(FLAGS, flags, strict=True)))
            assert what_runs(general, shared, call) == expected(rules, operation, size_bytes, call)


@settings(max_examples=examples(100))
@given(rule_sets())
def test_the_files_are_valid_and_end_inside_a_page(rules):
    files = selection(rules, BUILTIN, library_version="")
    for text in (files.general, files.shared_memory):
        read(text, "file")
        assert len(text) % 4096
    general = read(files.general, "file")
    assert set(general) == set(BUILTIN.general)
    assert general["collective=bcast"]["comm_type=inter"]


def test_a_full_page_gets_another_byte(monkeypatch):
    rule = AlgorithmRule("reduce", 4, 0, None, "binomial")
    length = len(selection([rule], BUILTIN, library_version="").general)
    monkeypatch.setattr("cclmark.kinds.tune.mpich_selection._PAGE_BYTES", length)
    text = selection([rule], BUILTIN, library_version="").general
    assert len(text) == length + 1
    assert text.endswith("}\n\n")


def test_all_algorithms_are_values_of_mpichs_variables():
    for operation, collective in COLLECTIVES.items():
        setting = find_setting("mpi", f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM")
        others = {"auto", "nb", "smp", "ccl"}
        assert set(algorithms_of(operation)) == set(setting.values) - others


def test_parameters_are_written_with_their_defaults():
    rule = AlgorithmRule("all_reduce", 4, 0, None, "tree", (("k", 4), ("tree_type", "kary")))
    general, _ = made(rule)
    leaf = general["collective=allreduce"]["comm_type=intra"]["comm_size<=4"]["avg_msg_size=any"]
    assert list(leaf["algorithm=MPIR_Allreduce_intra_tree"]) == [
        *("tree_type=kary", "k=4", "chunk_size=0", "buffer_per_child=0")
    ]


@pytest.mark.parametrize(
    ("change", "version", "message"),
    [
        ({"operation": "gather"}, "", "MPICH's selection has no sizes in bytes for it"),
        ({"algorithm": "rings"}, "", "rings"),
        ({"algorithm": "auto"}, "", "'auto' is not among recursive_doubling,"),
        ({"algorithm": "smp"}, "", "'smp' is not among"),
        ({"algorithm": "recursive_multiplying"}, "MPICH Version: 4.2.0", "recursive_multiplying"),
        (
            {"operation": "all_gather", "algorithm": "recursive_doubling", "ranks": 3},
            *("", "requires a power of two of ranks"),
        ),
        ({"largest_bytes": MOST_SIZE_BYTES + 1}, "", f"at most {MOST_SIZE_BYTES} bytes"),
        ({"smallest_bytes": 1 << 31, "largest_bytes": None}, "", "sizes are at most"),
        ({"parameters": (("k", 2),)}, "", "ring has no parameter k"),
        ({"algorithm": "recexch", "parameters": (("k", 0),)}, "", "k is not a possible number"),
        ({"algorithm": "recexch", "parameters": (("k", "2"),)}, "", "k is not a possible number"),
        (
            {"algorithm": "tree", "parameters": (("tree_type", "topology_wave"),)},
            *("", "tree_type is not among kary"),
        ),
    ],
)
def test_a_rule_that_the_files_cannot_express_is_refused(change, version, message):
    rule = replace(AlgorithmRule("all_reduce", 4, 0, 1024, "ring"), **change)
    with pytest.raises(UsageError) as error:
        made(rule, version=version)
    assert message in str(error.value)


def test_no_rules_and_a_selection_without_the_operation_are_refused():
    with pytest.raises(UsageError, match="there is no rule for MPICH's selection"):
        made()
    rule = AlgorithmRule("reduce", 4, 0, None, "binomial")
    other = replace(BUILTIN, general={"collective=bcast": BUILTIN.general["collective=bcast"]})
    with pytest.raises(UsageError, match="MPICH's own selection has no collective=reduce"):
        selection([rule], other, library_version="")


def test_mpich_compares_the_ranks_in_two_ways():
    """``comm_size<8`` holds for 8 ranks behind a condition on calls, and otherwise not."""
    call = Call("alltoall", 8, block_bytes=1, total_bytes=8, count=1)
    assert algorithm_of(BUILTIN.general, call) == "MPIR_Alltoall_intra_scattered"
    own = BUILTIN.general["collective=alltoall"]["comm_type=intra"]
    scattered = {"algorithm=MPIR_Alltoall_intra_scattered": {}}
    assert resolved(own, 8)["is_sendbuf_inplace=no"] == scattered
    call = replace(call, collective="bcast")
    assert algorithm_of(BUILTIN.general, call).endswith("_recursive_doubling_allgather")
    own = BUILTIN.general["collective=bcast"]["comm_type=intra"]
    assert list(resolved(own, 8)) == ["avg_msg_size<=524288", "avg_msg_size=any"]
    assert list(resolved(own, 7)) == ["comm_hierarchy=parent", "comm_hierarchy=any"]
    mixed = {"comm_size=node_comm_size": {"a": {}}, "comm_size=any": {"comm_size<8": {"b": {}}}}
    assert resolved(mixed, 4) == {"comm_size=node_comm_size": {"a": {}}, "comm_size=any": {"b": {}}}


def test_a_library_without_selections_is_missing_something():
    with pytest.raises(MissingError, match="contains no selection of algorithms of MPICH"):
        builtin_trees(b"\x7fELF" + json.dumps(COMPOSITIONS, separators=(",", ":")).encode())


def test_the_trees_are_found_in_the_library():
    assert BUILTIN.general == GENERAL
    assert BUILTIN.shared_memory == SHARED
    assert next(leaves_of(BUILTIN.general)) == "algorithm=MPIR_Bcast_intra_smp"


LEAF = '{"algorithm=A": {}}'


MALFORMED = (
    "",
    "{\n1}",
    "[]",
    "{}",
    f'{{"bcast": {LEAF}}}',
    '{"collective=bcast": 1}',
    f'{{"collective=bcast": {{"size<1": {LEAF}}}}}',
    f'{{"collective=bcast": {{"comm_size<=4": {LEAF}}}}}',
    f'{{"collective=bcast": {{"any": {LEAF}, "comm_type=intra": {LEAF}}}}}',
    f'{{"collective=bcast": {{"count<=2147483648": {LEAF}, "any": {LEAF}}}}}',
    '{"collective=bcast": {"algorithm=A": {}, "any": {}}}',
    '{"collective=bcast": {"algorithm=A": {"k": {}}}}',
    '{"collective=bcast": {"algorithm=A": {"k=1": 2}}}',
    '{"collective=bcast": {"algorithm=A": 1}}',
    f'{{"collective=bcast": {LEAF}, "collective=bcast": {LEAF}}}',
    '{"collective=bcast":' * 100000,
)


def refusal(function, *arguments, **options):
    with pytest.raises(UsageError) as error:
        function(*arguments, **options)
    return str(error.value)


def test_a_malformed_tree_is_refused():
    refusals = [refusal(read, text, "file") for text in MALFORMED]
    require_golden("texts/mpich-malformed.txt", "\n".join([*refusals, ""]))


@settings(max_examples=examples(200))
@given(
    st.recursive(
        st.just({}),
        lambda it: st.dictionaries(
            st.sampled_from(
                [
                    "collective=bcast",
                    "comm_type=intra",
                    "any",
                    "comm_size<=2",
                    "algorithm=A",
                    "k=1",
                    "x",
                ]
            ),
            it,
            max_size=3,
        ),
        max_leaves=8,
    )
)
def test_any_tree_is_read_or_refused(tree):
    text = json.dumps(tree)
    try:
        assert read(text, "file") == tree
    except UsageError as error:
        assert str(error).startswith("file: ")
