"""MPICH's trees that select algorithms of collectives, as JSON: docs/reference/artifacts.md.

An object contains conditions, tried in order, and under each what follows from it; a leaf names an
algorithm and its parameters (src/mpi/coll/src/csel.c, csel_container.c)::

    {"collective=allreduce": {"comm_type=intra": {
        "avg_msg_size<=1024": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
        "avg_msg_size=any": {"algorithm=MPIR_Allreduce_intra_ring": {}}}}}

A file replaces all of MPICH's own tree, which the library contains as text. A collective that is
missing in the general tree ends the process when it is called; in the tree for shared memory it is
left to the general tree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, NoReturn

from cclmark.errors import MissingError, UsageError

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


@dataclass(frozen=True)
class Call:
    """A collective call on one host, as far as conditions depend on it.

    ``block_bytes`` and ``total_bytes``: MPICH's ``avg_msg_size`` and ``total_msg_size``.
    """

    collective: str
    ranks: int
    block_bytes: int
    total_bytes: int
    count: int
    is_commutative: bool = True
    is_builtin: bool = True
    is_in_place: bool = False
    is_multi_threaded: bool = False


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
    _check(tree, source, [])
    return tree  # type: ignore[no-any-return]


def algorithm_of(tree: Tree, call: Call) -> str | None:
    """The name of the algorithm that a tree selects, None where it selects nothing."""
    node: Tree | None = tree
    is_search = False
    while node is not None:
        following = None
        for key, below in node.items():
            if leaf := _LEAF.fullmatch(key):
                return leaf[1]
            is_search = is_search or not _OF_COMMUNICATOR.fullmatch(key)
            if _holds(key, call, is_search):
                following = below
                break
        node = following
    return None


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


def _check(node: object, source: str, path: list[str]) -> None:
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
        _check(node[key], source, [*path, key])


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
    limit = _limit_of(key)
    if limit is None or limit.name != "comm_size":
        return None
    return limit.holds_for(ranks, or_equal=is_search)


def _holds(key: str, call: Call, is_search: bool) -> bool:
    """Whether a condition holds for a call among ranks on one host."""
    holds = _holds_for(key, call.ranks, is_search)
    if holds is not None:
        return holds
    if _ANY.fullmatch(key):
        return True
    if key == "count<pow2":
        return call.count < 1 << (call.ranks.bit_length() - 1)
    if limit := _limit_of(key):
        return limit.holds_for(
            {
                "avg_msg_size": call.block_bytes,
                "total_msg_size": call.total_bytes,
                "count": call.count,
                "comm_avg_ppn": call.ranks,
            }[limit.name]
        )
    return key in _kinds_of(call)


class _Limit(NamedTuple):
    name: str
    operator: str
    number: int

    def holds_for(self, value: int, *, or_equal: bool = False) -> bool:
        return value < self.number or (value == self.number and (or_equal or self.operator == "<="))


@lru_cache(maxsize=1024)
def _limit_of(key: str) -> _Limit | None:
    """The number to which a condition compares another one, None for another condition."""
    found = _LIMIT.fullmatch(key)
    if found is None or not found["name"]:
        return None
    return _Limit(found["name"], found["operator"], int(found["number"]))


@lru_cache(maxsize=16)
def _kinds_of(call: Call) -> frozenset[str]:
    """The conditions without a number that hold for a call among ranks on one host."""
    return frozenset(
        (
            f"collective={call.collective}",
            "comm_type=intra",
            "comm_size=node_comm_size",
            "comm_hierarchy=node_roots",
            "comm_hierarchy=node",
            "comm_hierarchy=flat",
            "is_block_regular=yes",
            "is_node_consecutive=yes",
            f"is_multi_threaded={_yes(call.is_multi_threaded)}",
            f"is_commutative={_yes(call.is_commutative)}",
            f"is_op_built_in={_yes(call.is_builtin)}",
            f"is_sendbuf_inplace={_yes(call.is_in_place)}",
        )
    )


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"
