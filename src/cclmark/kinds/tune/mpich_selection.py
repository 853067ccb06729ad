"""Files that select MPICH's algorithms on one host: docs/reference/artifacts.md.

MPICH asks the tree for shared memory first, which selects the algorithms of shared memory or
nothing, and then the general tree (MPIDI_POSIX_mpi_allreduce, src/mpid/ch4/shm/posix/posix_coll.h).
So a rule has a place in both files, and everything else in them is MPICH's own selection.

A selected algorithm runs without a check that it can: the files repeat MPICH's conditions for it
(src/mpi/coll/coll_algorithms.txt), and MPICH's own selection applies where one is not met. They
contain all parameters of an algorithm: MPICH initialises none that is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cclmark.errors import UsageError
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule, check_algorithm, groups_of
from cclmark.kinds.tune.mpich_tree import Builtin, Tree, leaves_of, read, resolved

VARIABLES = {
    "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": "general",
    "MPIR_CVAR_CH4_POSIX_COLL_SELECTION_TUNING_JSON_FILE": "shared_memory",
}
"""The variables that deploy the files: each is the absolute path of one part of a Selection."""
MOST_SIZE_BYTES = (1 << 31) - 2
"""The largest limit of a size: MPICH reads it, and the next number, as an int."""

_PAGE_BYTES = 4096
_INTRA = "comm_type=intra"


@dataclass(frozen=True)
class Selection:
    """The texts of the two files."""

    general: str
    shared_memory: str


@dataclass(frozen=True)
class _Algorithm:
    """MPICH's conditions for an algorithm, and its parameters with the variables' defaults."""

    conditions: tuple[str, ...] = ()
    parameters: Mapping[str, int | str] = field(default_factory=dict)


_K: Mapping[str, int | str] = {"k": 2}
_EXCHANGE: Mapping[str, int | str] = {"k": 2, "single_phase_recv": 0}
_NOT_IN_PLACE = ("not in place",)
_TREE_TYPES = ("kary", "knomial_1", "knomial_2")
_ALGORITHMS: dict[str, dict[str, _Algorithm]] = {
    "all_gather": {
        "brucks": _Algorithm(),
        "k_brucks": _Algorithm(parameters=_K),
        "recursive_doubling": _Algorithm(("power of two",)),
        "ring": _Algorithm(),
        "recexch_doubling": _Algorithm(parameters=_EXCHANGE),
        "recexch_halving": _Algorithm(parameters=_EXCHANGE),
    },
    "all_reduce": {
        "recursive_doubling": _Algorithm(),
        "recursive_multiplying": _Algorithm(("commutative",), _K),
        "reduce_scatter_allgather": _Algorithm(("built-in", "enough elements")),
        "tree": _Algorithm(
            parameters={"tree_type": "knomial_1", "k": 2, "chunk_size": 0, "buffer_per_child": 0}
        ),
        "recexch": _Algorithm(parameters=_EXCHANGE),
        "ring": _Algorithm(("commutative",)),
        "k_reduce_scatter_allgather": _Algorithm(("commutative",), _EXCHANGE),
    },
    "alltoall": {
        "brucks": _Algorithm(_NOT_IN_PLACE),
        "k_brucks": _Algorithm(_NOT_IN_PLACE, _K),
        "pairwise": _Algorithm(_NOT_IN_PLACE),
        "pairwise_sendrecv_replace": _Algorithm(("in place",)),
        "scattered": _Algorithm(_NOT_IN_PLACE),
    },
    "broadcast": {
        "binomial": _Algorithm(),
        "scatter_recursive_doubling_allgather": _Algorithm(),
        "scatter_ring_allgather": _Algorithm(),
        "tree": _Algorithm(parameters={"tree_type": "kary", "k": 2, "is_non_blocking": 1}),
        "pipelined_tree": _Algorithm(
            parameters={
                **{"tree_type": "kary", "k": 2, "is_non_blocking": 1},
                **{"chunk_size": 8192, "recv_pre_posted": 0},
            }
        ),
    },
    "reduce": {
        "binomial": _Algorithm(),
        "reduce_scatter_gather": _Algorithm(("built-in", "enough elements")),
    },
    "reduce_scatter": {
        "noncommutative": _Algorithm(("power of two",)),
        "recursive_doubling": _Algorithm(),
        "pairwise": _Algorithm(("commutative",)),
        "recursive_halving": _Algorithm(("commutative",)),
    },
}
_CONDITIONS = {
    "commutative": ("is_commutative=yes", "is_commutative=no"),
    "built-in": ("is_op_built_in=yes", "is_op_built_in=no"),
    "in place": ("is_sendbuf_inplace=yes", "is_sendbuf_inplace=no"),
    "not in place": ("is_sendbuf_inplace=no", "is_sendbuf_inplace=yes"),
}
_COLLECTIVES = {
    "all_gather": "allgather",
    "all_reduce": "allreduce",
    "alltoall": "alltoall",
    "broadcast": "bcast",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter_block",
}
# cclmark's size in MPICH's conditions: MPICH multiplies the total of these three by the ranks.
_WITH_BLOCKS = ("all_reduce", "broadcast", "reduce")


def selection(
    rules: Sequence[AlgorithmRule], builtin: Builtin, *, library_version: str
) -> Selection:
    """The files for MPICH's own selection, ``builtin``, with rules in place of parts of it.

    ``library_version``: MPICH's own text about its version; empty: unknown. Raises UsageError for
    rules that the files cannot express.
    """
    groups = groups_of(rules)
    if not groups:
        raise UsageError("there is no rule for MPICH's selection")
    for rule in rules:
        _check(rule, library_version)
    general, shared = dict(builtin.general), dict(builtin.shared_memory)
    for operation, by_ranks in groups.items():
        collective = f"collective={_COLLECTIVES[operation]}"
        general[collective] = _replaced(general, collective, by_ranks, _leaf)
        if collective in shared:
            leaf = _left_to_general(shared[collective])
            shared[collective] = _replaced(shared, collective, by_ranks, leaf)
    return Selection(_text(general), _text(shared))


def algorithms_of(operation: str) -> tuple[str, ...]:
    """The algorithms that rules can select, none for an operation without rules."""
    return tuple(_ALGORITHMS.get(operation, ()))


def algorithm_name(operation: str, algorithm: str) -> str:
    """The name of an algorithm of rules in the files, ``MPIR_Allreduce_intra_ring``."""
    return f"MPIR_{_COLLECTIVES[operation].capitalize()}_intra_{algorithm}"


def _check(rule: AlgorithmRule, version: str) -> None:
    if rule.operation not in _ALGORITHMS:
        raise UsageError(f"{rule.label}: MPICH's selection has no sizes in bytes for it")
    collective = _COLLECTIVES[rule.operation].upper()
    check_algorithm(rule, f"MPIR_CVAR_{collective}_INTRA_ALGORITHM", version)
    algorithm = _ALGORITHMS[rule.operation].get(rule.algorithm)
    if algorithm is None:
        names = ", ".join(algorithms_of(rule.operation))
        raise UsageError(f"{rule.label}: '{rule.algorithm}' is not among {names}")
    if "power of two" in algorithm.conditions and rule.ranks & (rule.ranks - 1):
        raise UsageError(f"{rule.label}: {rule.algorithm} requires a power of two of ranks")
    if max(rule.smallest_bytes, rule.largest_bytes or 0) > MOST_SIZE_BYTES:
        raise UsageError(f"{rule.label}: MPICH's sizes are at most {MOST_SIZE_BYTES} bytes")
    for name, value in rule.parameters:
        _check_parameter(rule, algorithm, name, value)


def _check_parameter(
    rule: AlgorithmRule, algorithm: _Algorithm, name: str, value: int | str
) -> None:
    if name not in algorithm.parameters:
        raise UsageError(f"{rule.label}: {rule.algorithm} has no parameter {name}")
    if name == "tree_type":
        if value not in _TREE_TYPES:
            raise UsageError(f"{rule.label}: tree_type is not among {', '.join(_TREE_TYPES)}")
    elif not isinstance(value, int) or not (name == "k") <= value <= MOST_SIZE_BYTES:
        raise UsageError(f"{rule.label}: {name} is not a possible number")


def _replaced(
    tree: Tree,
    collective: str,
    by_ranks: Mapping[int, Sequence[AlgorithmRule]],
    leaf: Callable[[AlgorithmRule], Tree],
) -> Tree:
    """The part of a tree for a collective, with rules."""
    before = tree.get(collective, {})
    own = before.get(_INTRA)
    if own is None:
        raise UsageError(f"MPICH's own selection has no {collective} / {_INTRA}")
    sized: Tree = {}
    for ranks, rules in by_ranks.items():
        if f"comm_size<={ranks - 1}" not in sized:
            sized[f"comm_size<={ranks - 1}"] = own
        sized[f"comm_size<={ranks}"] = _by_size(rules, resolved(own, ranks), leaf)
    sized["comm_size=any"] = own
    return {**before, _INTRA: sized}


def _by_size(
    rules: Sequence[AlgorithmRule], own: Tree, leaf: Callable[[AlgorithmRule], Tree]
) -> Tree:
    size = "avg_msg_size" if rules[0].operation in _WITH_BLOCKS else "total_msg_size"
    found: Tree = {}
    next_bytes = 0
    for rule in rules:
        if next_bytes < rule.smallest_bytes:
            found[f"{size}<={rule.smallest_bytes - 1}"] = own
        tree = _guarded(rule, leaf(rule), own)
        if rule.largest_bytes is None:
            return {**found, f"{size}=any": tree}
        found[f"{size}<={rule.largest_bytes}"] = tree
        next_bytes = rule.largest_bytes + 1
    return {**found, f"{size}=any": own}


def _guarded(rule: AlgorithmRule, leaf: Tree, own: Tree) -> Tree:
    """A leaf below the conditions for its algorithm, with MPICH's own selection otherwise."""
    for condition in _ALGORITHMS[rule.operation][rule.algorithm].conditions:
        if condition == "enough elements":
            leaf = {"count<pow2": own, "count=any": leaf}
        elif condition in _CONDITIONS:
            holds, fails = _CONDITIONS[condition]
            leaf = {holds: leaf, fails: own}
    return leaf


def _leaf(rule: AlgorithmRule) -> Tree:
    parameters = {**_ALGORITHMS[rule.operation][rule.algorithm].parameters, **dict(rule.parameters)}
    name = algorithm_name(rule.operation, rule.algorithm)
    return {f"algorithm={name}": {f"{key}={value}": {} for key, value in parameters.items()}}


def _left_to_general(tree: Tree) -> Callable[[AlgorithmRule], Tree]:
    """What selects nothing in a part of the tree for shared memory.

    That tree has no algorithm that stands for the general tree. But a condition on the kind of the
    communicator may be the last one, and selects nothing where it does not hold.
    """
    nothing: Tree = {"comm_type=inter": {next(leaves_of(tree)): {}}}
    return lambda _: nothing


def _text(tree: Tree) -> str:
    text = json.dumps(tree, indent=1) + "\n"
    read(text, "MPICH's selection")
    # MPICH maps the file and parses it up to a zero, which a full last page does not have.
    return text if len(text) % _PAGE_BYTES else text + "\n"
