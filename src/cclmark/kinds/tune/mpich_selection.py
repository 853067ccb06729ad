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
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from cclmark.base.errors import MissingError, UsageError
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule, check_algorithm, groups_of

Tree = dict[str, "Tree"]

_EMBEDDED = re.compile(rb'\{"collective=[ -~]+\}')
_LEAF = re.compile(r"(?:algorithm|composition)=([A-Za-z0-9_]+)", re.ASCII)
_PARAMETER = re.compile(r"[a-z_]+=[A-Za-z0-9_-]+", re.ASCII)
_COLLECTIVE = re.compile(r"collective=[a-z_]+", re.ASCII)
# Conditions without which MPICH has nothing to try: another one must follow them.
_LIMIT = re.compile(
    r"(?P<name>comm_size|comm_avg_ppn|avg_msg_size|total_msg_size|count)"
    r"(?P<operator><=?)(?P<number>0|[1-9][0-9]{0,9})"
    r"|comm_size=pow2|comm_size=node_comm_size|count<pow2",
    re.ASCII,
)
_KIND = re.compile(
    r"comm_type=(?:intra|inter)|comm_hierarchy=(?:parent|node_roots|node|flat)"
    r"|(?:is_multi_threaded|is_commutative|is_sendbuf_inplace|is_op_built_in|is_block_regular"
    r"|is_node_consecutive)=(?:yes|no)",
    re.ASCII,
)
# What MPICH evaluates when a communicator is created, if nothing else is before it.
_OF_COMMUNICATOR = re.compile(
    r"(?:collective|comm_type|comm_size|comm_hierarchy|comm_avg_ppn|is_node_consecutive)[=<].*"
    r"|any|[a-z_]+=any",
    re.ASCII,
)
_ANY = re.compile(r"any|[a-z_]+=any", re.ASCII)
_MOST_INT = (1 << 31) - 1
_MOST_SHOWN = 60  # characters of a condition in a message


@dataclass(frozen=True)
class Builtin:
    """MPICH's own trees: the general one, and the one for the shared memory of a host."""

    general: Tree
    shared_memory: Tree


def builtin_trees(library: bytes) -> Builtin:
    """The trees in a library file of MPICH. Raises MissingError if it does not contain them."""
    by_kind: dict[str, Tree] = {}
    for match in _EMBEDDED.finditer(library):
        tree = read(match.group().decode("ascii"), "MPICH's own selection")
        name = next(leaves_of(tree))
        by_kind["shared" if "=MPIDI_POSIX_" in name else name.partition("_")[0]] = tree
    general, shared = by_kind.get("algorithm=MPIR"), by_kind.get("shared")
    if general is None or shared is None:
        raise MissingError(
            "the library contains no selection of algorithms of MPICH: name the file of MPICH's "
            "libmpi.so"
        )
    return Builtin(general, shared)


def leaves_of(tree: Tree) -> Iterator[str]:
    """The keys that name algorithms, in order."""
    for key, below in tree.items():
        if _LEAF.fullmatch(key):
            yield key
        else:
            yield from leaves_of(below)


def read(text: str, source: str) -> Tree:
    """Reads a tree. ``source`` is for messages.

    Raises UsageError with the line, or with the conditions down to the place, for a tree at which
    MPICH ends the process.
    """
    try:
        tree = json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, source))
    except json.JSONDecodeError as error:
        raise UsageError(f"{source}: line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise UsageError(f"{source}: too many conditions in each other") from None
    _check_node(tree, source, [])
    return tree  # type: ignore[no-any-return]


def resolved(tree: Tree, ranks: int, *, is_search: bool = False) -> Tree:
    """A tree without its conditions on the number of ranks, for a known number.

    Conditions on the ranks of a host remain. A tree that is moved below a condition on messages
    must not contain the others, because of ``comm_size<``: MPICH evaluates the conditions up to the
    first one on a call when a communicator is created (prune_tree), the other ones (``is_search``)
    at each call, and there compares with ``<=`` (MPIR_Csel_search).
    """
    found: Tree = {}
    for key, below in tree.items():
        is_search = is_search or not _OF_COMMUNICATOR.fullmatch(key)
        holds = _holds_for(key, ranks, is_search)
        if holds is False:
            continue
        part = resolved(below, ranks, is_search=is_search)
        if holds:
            if not found:
                return part
            found["comm_size=any"] = part
            break
        found[key] = part
    return found


def _object(pairs: list[tuple[str, object]], source: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise UsageError(f"{source}: '{key[:_MOST_SHOWN]}' is in one object twice")
        found[key] = value
    return found


def _check_node(node: object, source: str, path: list[str]) -> None:
    def fail(problem: str) -> NoReturn:
        place = f"{' / '.join(path)}: " if path else ""
        raise UsageError(f"{source}: {place}{problem}")

    if not isinstance(node, dict):
        fail("it is not an object")
    if not node:
        fail("there is no condition and no algorithm")
    keys = list(node)
    if any(_LEAF.fullmatch(key) for key in keys):
        _check_leaf(node, fail)
        return
    for key in keys:
        is_last = key == keys[-1]
        if not path and not _COLLECTIVE.fullmatch(key):
            fail(f"'{key[:_MOST_SHOWN]}' is not a collective")
        if path and _LIMIT.fullmatch(key):
            number = _LIMIT.fullmatch(key)["number"]  # type: ignore[index]
            if number and int(number) > _MOST_INT:
                fail(f"'{key}' is more than {_MOST_INT}")
            if is_last:
                fail(f"no condition follows '{key}'")
        elif path and _ANY.fullmatch(key):
            if not is_last:
                fail(f"'{key}' is not the last condition")
        elif path and not _KIND.fullmatch(key):
            fail(f"'{key[:_MOST_SHOWN]}' is not a condition of MPICH")
        _check_node(node[key], source, [*path, key])


def _check_leaf(node: dict[str, object], fail: Callable[[str], NoReturn]) -> None:
    if len(node) != 1:
        fail("there is something besides an algorithm")
    [parameters] = node.values()
    if not isinstance(parameters, dict):
        fail("the parameters are not an object")
    for key, value in parameters.items():
        if not _PARAMETER.fullmatch(key) or value != {}:
            fail(f"'{key[:_MOST_SHOWN]}' is not a parameter")


def _holds_for(key: str, ranks: int, is_search: bool) -> bool | None:
    """Whether a condition on the number of ranks holds, None for another condition."""
    if key == "comm_size=any":
        return True
    if key == "comm_size=pow2":
        return ranks & (ranks - 1) == 0
    limit = _LIMIT.fullmatch(key)
    if limit is None or limit["name"] != "comm_size":
        return None
    number = int(limit["number"])
    return ranks < number or (ranks == number and (is_search or limit["operator"] == "<="))


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
        _check_rule(rule, library_version)
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


def _check_rule(rule: AlgorithmRule, version: str) -> None:
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
