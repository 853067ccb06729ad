"""What libraries ran, how they connect ranks, and what they predicted, in words."""

import pytest
from msgspec.structs import replace

from cclmark.document.connection_words import (
    connection_lines,
    connections_of,
    ring_lines,
    ring_text,
    tree_lines,
    tree_text,
)
from cclmark.document.explained import ran_tables, tables_of_pairs
from cclmark.document.why import prediction_tables
from cclmark.explain.nccl_log import BY_CALL
from cclmark.explain.paths import CHUNK_BYTES, Route
from cclmark.journal.schema import (
    DeviceDescription,
    DeviceTime,
    Explanation,
    Paths,
    Relation,
    Ring,
    Tree,
)
from cclmark.kinds.registry import read_journal
from places import TESTS
from samples import header_of, usual_settings

ONE = replace(read_journal(TESTS / "golden" / "sample.jsonl").results[0], device=None)
RING = Explanation(0, "log", "ring", "RING", "SIMPLE", 4)
TREE = Explanation(0, "log", "tree", "TREE", "LL", 1)


def ran(size, explanation, **case):
    changed = replace(ONE.case, size_bytes=size, **case)
    return replace(ONE, case=changed, explanation=explanation)


def test_sizes_with_the_same_choice_are_one_row():
    results = [ran(size, RING) for size in (8, 16, 32)]
    results += [ran(64, TREE), replace(ran(128, RING), cycle=1), ran(256, None)]
    (table,) = ran_tables(results)
    assert table.title == "all_reduce float32 sum · nccl, what ran (the library's log)"
    assert table.rows == [
        ("8 B – 32 B", "ring SIMPLE, 4 channels"),
        ("64 B", "tree LL, 1 channel"),
    ]
    (table,) = ran_tables([ran(8, TREE), ran(16, RING)])
    assert [row[0] for row in table.rows] == ["8 B", "16 B"]


def test_placements_with_other_choices_have_rows_of_their_own():
    pairs = [(RING, RING), (RING, TREE)]
    results = [
        ran(8 << place, one, in_place=in_place)
        for place, both in enumerate(pairs)
        for in_place, one in zip((False, True), both, strict=True)
    ]
    (table,) = ran_tables(results)
    assert table.rows == [
        ("8 B", "ring SIMPLE, 4 channels"),
        ("16 B", "ring SIMPLE, 4 channels, out-of-place"),
        ("16 B", "tree LL, 1 channel, in-place"),
    ]


@pytest.mark.parametrize(
    ("explanation", "words"),
    [
        (Explanation(0, reason="no log"), "unknown: no log"),
        (replace(RING, channels=0), "ring SIMPLE"),
        (
            replace(RING, kernel="symmetric", algorithm="AGxLL"),
            "symmetric AGxLL SIMPLE, 4 channels",
        ),
        (replace(RING, rule="line 2"), "ring SIMPLE, 4 channels, by line 2"),
        (replace(RING, registered=BY_CALL), "ring SIMPLE, 4 channels, registered buffers"),
    ],
)
def test_a_choice_in_words(explanation, words):
    (table,) = ran_tables([ran(8, explanation)])
    assert table.rows == [("8 B", words)]


def test_reasons_name_their_sizes():
    known = replace(RING, reason="ranks differ")
    results = [ran(8, known), ran(16, RING), ran(32, known), ran(64, Explanation(0, reason="x"))]
    assert ran_tables(results)[0].notes == ["8 B – 32 B: ranks differ"]
    assert ran_tables(results[:1])[0].notes == ["8 B: ranks differ"]


@pytest.mark.parametrize(
    ("case", "title"),
    [
        ({"operation": "barrier", "reduction": None}, "barrier · nccl, what ran"),
        (
            {"operation": "broadcast", "reduction": None, "root": 1},
            "broadcast float32 root 1 · nccl",
        ),
        ({"operation": "broadcast", "reduction": None, "root": 0}, "broadcast float32 · nccl"),
    ],
)
def test_the_title_has_what_the_operation_has(case, title):
    (table,) = ran_tables([ran(8, RING, **case)])
    assert table.title.startswith(title)
    unknown = ran_tables([ran(8, Explanation(0, reason="x"), **case)])[0]
    assert unknown.title.endswith("what ran")


def pair(number, explanation, size=8):
    return ran(size, explanation, pair=(0, number))


def name_of(case):
    return f"P{case.pair[1]}"


def test_pairs_with_the_same_choices_are_one_table():
    (table,) = tables_of_pairs([pair(1, RING), pair(2, RING)], name_of)
    assert table.title.endswith("what ran (the library's log)")
    assert (table.head, table.rows) == (("size", "what ran"), [("8 B", "ring SIMPLE, 4 channels")])
    few, many = tables_of_pairs([pair(1, TREE), *(pair(n, RING) for n in range(2, 10))], name_of)[
        ::-1
    ]
    assert many.title.endswith(": 8 of 9 pairs: P2, P3, P4, P5, P6, P7 and 2 more")
    assert few.title.endswith(": 1 of 9 pairs: P1")
    assert tables_of_pairs([pair(1, None)], name_of) == []
    six = tables_of_pairs([pair(0, TREE), *(pair(n, RING) for n in range(2, 8))], name_of)[0]
    assert six.title.endswith("P6, P7")


def test_reasons_of_pairs_are_below_the_last_row_and_many_groups_are_counted():
    reason = replace(RING, reason="why")
    (table,) = tables_of_pairs([pair(1, reason), pair(1, replace(TREE, reason="x"), 16)], name_of)
    assert table.head == ("size", "what ran", "remarks")
    assert [row[-1] for row in table.rows] == ["", "8 B: why\n16 B: x"]
    groups = [pair(n, replace(RING, channels=n + 2)) for n in range(10)]
    tables = tables_of_pairs(groups, name_of)
    assert len(tables) == 8
    assert tables[-1].notes == ["2 other pairs with yet other choices: see the CSV"]
    assert not any(one.notes for one in tables_of_pairs(groups[:8], name_of))


# Predictions.


def predicted(size, explanation, time_s, predicted_s, **changes):
    explained = replace(explanation, predicted_s=predicted_s)
    result = ran(size, explained)
    return replace(result, summary=replace(result.summary, time_s=time_s), **changes)


def test_predictions_stand_beside_the_time_and_the_chosen_one_is_marked():
    results = [
        predicted(2048, TREE, 30e-6, {"RING SIMPLE": 10e-6, "TREE LL": 20e-6}),
        predicted(1024, RING, 12e-6, {"RING SIMPLE": 10e-6}),
    ]
    (table,) = prediction_tables([*results, replace(results[0], cycle=1), ran(8, RING)])
    assert table.head == ("size", "measured", "off", "RING SIMPLE", "TREE LL")
    assert table.rows == [
        ["1 KiB", "12.00", "+20%", "*10.00", "-"],
        ["2 KiB", "30.00", "+50%", "10.00", "*20.00"],
    ]
    assert table.looks == [(1, 2, "look")]
    change, summary = table.notes
    assert change.startswith("2 KiB: ")
    assert change.endswith("2 times the data takes 2.50 times as long")
    assert summary == "1 of 2 predictions are off by more than 20%"
    placements = [replace(one, case=replace(one.case, in_place=True)) for one in results]
    assert len(prediction_tables([*results, *placements])) == 2


def test_predictions_that_do_not_name_what_ran_judge_nothing():
    (table,) = prediction_tables([predicted(8, RING, 1e-6, {"TREE LL": 1e-6})])
    assert table.rows == [["8 B", "1.00", "-", "1.00"]]
    assert table.notes[-1] == "the library predicted nothing for the kernels that ran"
    below = predicted(8, RING, 7.5e-6, {"RING SIMPLE": 10e-6})
    assert prediction_tables([below])[0].looks == [(0, 2, "look")]
    device = DeviceTime(None, replace(ONE.summary, time_s=10e-6))
    exact = replace(below, device=device)
    assert prediction_tables([exact])[0].rows[0][1:3] == ["10.00", "+0%"]


# Connections.


@pytest.mark.parametrize(
    ("ranks", "channels", "text"),
    [
        ([0, 1], 12, "0 → 1 → 0 (12 channels)"),
        ([*range(16)], 1, " → 15 → 0 (1 channel)"),
        ([*range(17)], 1, " → 15 → … (1 channel)"),
    ],
)
def test_a_ring_in_words(ranks, channels, text):
    assert ring_text(Ring(ranks, channels)).endswith(text)


def test_a_tree_in_words():
    assert tree_text(Tree([-1, 0, 1, 1], 12)) == "0 ← 1; 1 ← 2, 3 (12 channels)"
    chain = [*range(-1, 16)]
    assert tree_text(Tree(chain, 1)).endswith("15 ← 16 (1 channel)")
    assert tree_text(Tree([*chain, 16], 1)).endswith("15 ← 16; … (1 channel)")
    assert len(ring_lines([Ring([0, 1])] * 4)) == 4
    assert ring_lines([Ring([0, 1])] * 6)[4:] == ["and 2 others"]
    assert tree_lines([Tree([-1, 0])] * 5)[4:] == ["and 1 others"]


def header(ranks, *relations):
    devices = [DeviceDescription(rank, "h", "cuda", rank, "", 0) for rank in range(ranks)]
    return replace(header_of(usual_settings()), devices=devices, relations=[*relations])


def all_pairs(ranks, transport="P2P", channels=2):
    return [
        Route(one, other, transport, channels)
        for one in range(ranks)
        for other in range(ranks)
        if one != other
    ]


def transports(ranks, routes, *relations):
    found = connections_of(header(ranks, *relations), Paths("nccl", "log", routes=routes))
    return [text for name, text in found.parts if name == "transport"]


def test_transports_name_their_pairs():
    assert transports(3, all_pairs(3)) == ["all 3 pairs of ranks  P2P, 2 channels"]
    assert transports(2, all_pairs(2)) == ["ranks 0–1  P2P, 2 channels"]
    mixed = [Route(1, 0, "P2P", 2), Route(0, 1, "P2P", 4), Route(1, 2, "NET", 0)]
    assert transports(3, mixed) == ["ranks 0–1  P2P, 2 to 4 channels", "ranks 1–2  NET"]
    star = [Route(0, other, "P2P") for other in range(1, 9)]
    assert transports(9, star) == ["ranks 0–1, 0–2, 0–3, 0–4, 0–5, 0–6 and 2 more pairs  P2P"]
    assert transports(9, star[:6])[0].endswith("0–6  P2P")
    known = [Relation(0, 1, "NV18"), Relation(0, 2, "NV18")]
    assert transports(3, [Route(0, 1, "P2P"), Route(0, 2, "P2P")], *known) == [
        "ranks 0–1, 0–2  P2P, devices connected by NV18"
    ]
    assert transports(2, [Route(0, 1, "P2P")], Relation(0, 1, "MEM")) == ["ranks 0–1  P2P"]
    net = [Route(0, 1, "NET", devices=("mlx5_0",))]
    assert transports(2, net) == ["ranks 0–1  NET, network devices mlx5_0"]


def test_connections_are_a_block_of_lines():
    parameters = {"NCCL_PROTO": "LL", CHUNK_BYTES: "131072", "odd": "x"}
    paths = Paths(
        *("nccl", "log"),
        rings=[Ring([0, 1], 2)],
        routes=[Route(0, 1, "P2P", 2)],
        parameters=parameters,
        messages=["slow"],
    )
    lines = connection_lines(header(2), [paths])
    assert lines[:3] == [
        "  nccl, connections (the library's log)",
        "    ranks 0–1  P2P, 2 channels",
        "    ring        0 → 1 → 0 (2 channels)",
    ]
    assert lines[3] == "    set         NCCL_PROTO=LL"
    assert "chunk of messages: 128 KiB" in lines[4]
    assert "odd: x" in lines[4]
    assert lines[-1] == "    warning: slow (message of the library)"
    assert connection_lines(header(2), [paths], warnings=False) == lines[:-1]
    assert "ring" not in str(connection_lines(header(1), [paths]))
    unknown = connection_lines(header(2), [Paths("shm", reason="no log")])
    assert unknown == ["  shm, connections: unknown: no log"]
    for odd in ("x", "²"):
        assert odd in str(connections_of(header(2), replace(paths, parameters={CHUNK_BYTES: odd})))
