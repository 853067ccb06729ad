"""What libraries ran, how they connect ranks, and what they predicted, in words."""

import pytest
from msgspec.structs import replace

from cclmark.document import connection_words
from cclmark.document.explained import ran_tables, tables_of_pairs
from cclmark.explain.nccl_log import BY_CALL
from cclmark.explain.paths import CHUNK_BYTES, Route
from cclmark.journal.schema import (
    DeviceDescription,
    Explanation,
    Paths,
    Relation,
    Ring,
    Tree,
)
from cclmark.kinds.registry import read_journal
from goldens import require_stated
from places import TESTS
from samples import header_of, usual_settings

ONE = replace(read_journal(TESTS / "golden" / "sample.jsonl").results[0], device=None)
RING = Explanation(0, "log", "ring", "RING", "SIMPLE", 4)
TREE = Explanation(0, "log", "tree", "TREE", "LL", 1)
UNKNOWN = Explanation(0, reason="no log")
WHY = replace(RING, reason="ranks differ")


def ran(size, explanation, **case):
    changed = replace(ONE.case, size_bytes=size, **case)
    return replace(ONE, case=changed, explanation=explanation)


def placed(size, out, inside):
    return [ran(size, out), ran(size, inside, in_place=True)]


def rooted(operation, root=None):
    return {"operation": operation, "reduction": None, "root": root}


def pair(number, explanation=RING, size=8):
    return ran(size, explanation, pair=(0, number))


def lines_of(tables):
    """The title, the head and the rows, and the notes of each table."""
    found = []
    for table in tables:
        found += [table.title, *(f"  {'  '.join(row)}" for row in (table.head, *table.rows))]
        found += [f"  - {note}" for note in table.notes]
    return found


RAN = {
    "same choice, later cycle, and none": [
        *(ran(size, RING) for size in (8, 16, 32)),
        *(ran(64, TREE), replace(ran(128, RING), cycle=1), ran(256, None)),
    ],
    "other choices": [ran(8, TREE), ran(16, RING)],
    "placements": [*placed(8, RING, RING), *placed(16, RING, TREE)],
    "unknown": [ran(8, UNKNOWN)],
    "without channels": [ran(8, replace(RING, channels=0))],
    "kernel of another name": [ran(8, replace(RING, kernel="symmetric", algorithm="AGxLL"))],
    "by a rule": [ran(8, replace(RING, rule="line 2"))],
    "registered": [ran(8, replace(RING, registered=BY_CALL))],
    "reasons": [ran(8, WHY), ran(16, RING), ran(32, WHY), ran(64, UNKNOWN)],
    "barrier": [ran(8, RING, **rooted("barrier"))],
    "broadcast from 1": [ran(8, RING, **rooted("broadcast", 1))],
    "broadcast from 0": [ran(8, RING, **rooted("broadcast", 0))],
    "unknown broadcast": [ran(8, UNKNOWN, **rooted("broadcast", 1))],
}
#: Choices of pairs, one for each pair.
GROUPS = [pair(n, replace(RING, channels=n + 2)) for n in range(10)]
PAIRS = {
    "same choice": [pair(1), pair(2)],
    "one and eight": [pair(1, TREE), *(pair(n) for n in range(2, 10))],
    "one and six": [pair(0, TREE), *(pair(n) for n in range(2, 8))],
    "none": [pair(1, None)],
    "reasons": [pair(1, WHY), pair(1, replace(TREE, reason="x"), 16)],
    "eight groups": GROUPS[:8],
    "ten groups": GROUPS,
}


def test_what_ran_in_words():
    """Sizes of one choice are a row, pairs of one choice a table, and reasons name their sizes."""
    found = {name: lines_of(ran_tables(own)) for name, own in RAN.items()}
    for name, own in PAIRS.items():
        tables = tables_of_pairs(own, lambda case: f"P{case.pair[1]}")
        found[f"pairs: {name}"] = lines_of(tables)
    require_stated("words/ran.txt", found)


CHAIN = [*range(-1, 16)]


def test_rings_and_trees_in_words():
    ring, tree = connection_words.ring_text, connection_words.tree_text
    found = {
        "two ranks": [ring(Ring([0, 1], 12)), tree(Tree([-1, 0, 1, 1], 12))],
        "16 ranks": [ring(Ring([*range(16)], 1)), tree(Tree(CHAIN, 1))],
        "17 ranks": [ring(Ring([*range(17)], 1)), tree(Tree([*CHAIN, 16], 1))],
        "four rings": connection_words.ring_lines([Ring([0, 1])] * 4),
        "six rings": connection_words.ring_lines([Ring([0, 1])] * 6),
        "five trees": connection_words.tree_lines([Tree([-1, 0])] * 5),
    }
    require_stated("words/rings.txt", found)


def header(ranks, *relations):
    devices = [DeviceDescription(rank, "h", "cuda", rank, "", 0) for rank in range(ranks)]
    return replace(header_of(usual_settings()), devices=devices, relations=[*relations])


def all_pairs(ranks):
    pairs = [(one, other) for one in range(ranks) for other in range(ranks) if one != other]
    return [Route(*both, "P2P", 2) for both in pairs]


P2P = [Route(0, other, "P2P") for other in range(1, 9)]
NV18 = [Relation(0, 1, "NV18"), Relation(0, 2, "NV18")]
TRANSPORTS = [
    (3, all_pairs(3), [], "all 3 pairs of ranks  P2P, 2 channels"),
    (3, [Route(1, 0, "P2P", 2), Route(0, 1, "P2P", 4)], [], "ranks 0–1  P2P, 2 to 4 channels"),
    (3, [Route(1, 2, "NET", 0)], [], "ranks 1–2  NET"),
    (9, P2P, [], "ranks 0–1, 0–2, 0–3, 0–4, 0–5, 0–6 and 2 more pairs  P2P"),
    (3, P2P[:2], NV18, "ranks 0–1, 0–2  P2P, devices connected by NV18"),
    (2, P2P[:1], [Relation(0, 1, "MEM")], "ranks 0–1  P2P"),
    (
        *(2, [Route(0, 1, "NET", devices=("mlx5_0",))], []),
        "ranks 0–1  NET, network devices mlx5_0",
    ),
]


@pytest.mark.parametrize(("ranks", "routes", "relations", "text"), TRANSPORTS)
def test_transports_name_their_pairs(ranks, routes, relations, text):
    paths = Paths("nccl", "log", routes=routes)
    found = connection_words.connections_of(header(ranks, *relations), paths)
    assert [own for name, own in found.parts if name == "transport"] == [text]


def test_connections_are_a_block_of_lines():
    parameters = {"NCCL_PROTO": "LL", CHUNK_BYTES: "131072", "odd": "x"}
    paths = Paths("nccl", "log", parameters=parameters, messages=["slow"])
    paths = replace(paths, rings=[Ring([0, 1], 2)], routes=[Route(0, 1, "P2P", 2)])
    lines_of = connection_words.connection_lines
    lines = lines_of(header(2), [paths])
    assert lines_of(header(2), [paths], warnings=False) == lines[:-1]
    for odd in ("x", "²"):
        strange = replace(paths, parameters={CHUNK_BYTES: odd})
        assert odd in str(connection_words.connections_of(header(2), strange))
    found = {
        "two ranks": lines,
        "one rank": lines_of(header(1), [paths]),
        "unknown": lines_of(header(2), [Paths("shm", reason="no log")]),
    }
    require_stated("words/connections.txt", found)
