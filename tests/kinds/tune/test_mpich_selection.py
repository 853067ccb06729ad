"""Files that select MPICH's algorithms: rules in their ranges, MPICH's own choice elsewhere."""

import json
import re
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

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
from goldens import refusal, require_outcomes

COLLECTIVES = {
    **{"all_gather": "allgather", "all_reduce": "allreduce", "alltoall": "alltoall"},
    **{"broadcast": "bcast", "reduce": "reduce", "reduce_scatter": "reduce_scatter_block"},
}


# Of the shape of MPICH's own trees, with all kinds of their conditions.
TREES = json.loads(Path(__file__).with_name("mpich_trees.json").read_text())
LIBRARY = b"\x7fELF\0" + b"\0".join(
    json.dumps(TREES[name], separators=(",", ":")).encode()
    for name in ("shared", "compositions", "general")
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
    if "any" in (key, value):
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


ONLY_POWERS = (("all_gather", "recursive_doubling"), ("reduce_scatter", "noncommutative"))


@st.composite
def rule_sets(draw):
    found = []
    for operation in draw(st.sets(st.sampled_from(sorted(COLLECTIVES)), min_size=1, max_size=3)):
        for ranks in draw(st.sets(st.integers(2, 17), min_size=1, max_size=4)):
            is_power, names = ranks & (ranks - 1) == 0, algorithms_of(operation)
            names = [it for it in names if is_power or (operation, it) not in ONLY_POWERS]
            sizes = st.one_of(st.integers(0, 200), st.integers(0, MOST_SIZE_BYTES))
            edges = sorted(draw(st.sets(sizes, min_size=2, max_size=8)))
            for start, end in zip(edges[::2], edges[1::2], strict=False):
                limit = None if end == edges[-1] and draw(st.booleans()) else end
                name = draw(st.sampled_from(names))
                found.append(AlgorithmRule(operation, ranks, start, limit, name))
    return draw(st.permutations(found))


def can_run(rule, call):
    """MPICH's conditions: src/mpi/coll/coll_algorithms.txt of 5.0."""
    if rule.algorithm in ("reduce_scatter_allgather", "reduce_scatter_gather"):
        largest_power = max(1 << place for place in range(6) if 1 << place <= call.ranks)
        return call.is_builtin and call.count >= largest_power
    free = {
        "all_reduce": ("recursive_doubling", "tree", "recexch"),
        "reduce_scatter": ("recursive_doubling", "noncommutative"),
    }
    if rule.operation in free:
        return call.is_commutative or rule.algorithm in free[rule.operation]
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


@settings(max_examples=examples(200))
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


def test_a_rule_that_the_files_cannot_express_is_refused():
    def outcome(line):
        """Of a rule with these changes, and for a version."""
        changes, end = json.JSONDecoder().raw_decode(line)
        changes["parameters"] = tuple(map(tuple, changes.get("parameters", ())))
        rule = replace(AlgorithmRule("all_reduce", 4, 0, 1024, "ring"), **changes)
        return refusal(partial(made, rule, version=line[end:].strip()))

    require_outcomes(Path(__file__).with_name("mpich_rules.txt"), outcome)
    with pytest.raises(UsageError, match="there is no rule for MPICH's selection"):
        made()
    rule = AlgorithmRule("reduce", 4, 0, None, "binomial")
    other = replace(BUILTIN, general={"collective=bcast": BUILTIN.general["collective=bcast"]})
    with pytest.raises(UsageError, match="MPICH's own selection has no collective=reduce"):
        selection([rule], other, library_version="")


def test_mpich_compares_the_ranks_in_two_ways():
    """``comm_size<8`` holds for 8 ranks behind a condition on calls, and otherwise not."""
    own = BUILTIN.general["collective=alltoall"]["comm_type=intra"]
    scattered = {"algorithm=MPIR_Alltoall_intra_scattered": {}}
    assert resolved(own, 8)["is_sendbuf_inplace=no"] == scattered
    own = BUILTIN.general["collective=bcast"]["comm_type=intra"]
    assert list(resolved(own, 8)) == ["avg_msg_size<=524288", "avg_msg_size=any"]
    mixed = {"comm_size=node_comm_size": {"a": {}}, "comm_size=any": {"comm_size<8": {"b": {}}}}
    assert resolved(mixed, 4) == {"comm_size=node_comm_size": {"a": {}}, "comm_size=any": {"b": {}}}


def test_the_trees_are_found_in_the_library():
    assert BUILTIN.general == TREES["general"]
    assert BUILTIN.shared_memory == TREES["shared"]
    assert next(leaves_of(BUILTIN.general)) == "algorithm=MPIR_Bcast_intra_smp"
    with pytest.raises(MissingError, match="contains no selection of algorithms of MPICH"):
        builtin_trees(LIBRARY[:4] + json.dumps(TREES["compositions"]).replace(" ", "").encode())


def test_a_malformed_tree_is_refused():
    outcome = partial(refusal, partial(read, source="file"))
    require_outcomes(Path(__file__).with_name("mpich_malformed.txt"), outcome)
    others = {
        "": "line 1: Expecting value",
        "{\n1}": "line 2: Expecting property name enclosed in double quotes",
        '{"collective=bcast":' * 100000: "too many conditions in each other",
    }
    for text, message in others.items():
        assert outcome(text) == f"UsageError: file: {message}"
