"""What ran between every two devices, as tables."""

from cclmark.document.explained import tables_of_pairs
from cclmark.plan.cases import Case
from cclmark.results.item_results import CaseResult
from cclmark.results.schema import Explanation


def result(pair, size, *, kernel="ring", channels=4, reason="", operation="all_reduce", root=None):
    case = Case(operation, "nccl", 2, "float32", size, size // 4, False, root=root, pair=pair)
    source = "plug-in" if kernel else "unknown"
    found = Explanation(0, source, kernel, "RING", "LL", channels, reason)
    return CaseResult(0, case, "ok", explanation=found)


def name(case):
    first, second = case.pair
    if case.root is None:
        return f"D{first}–D{second}"
    return f"D{first} → D{second}" if case.root == 0 else f"D{second} → D{first}"


HEAD = "all_reduce float32 · nccl, what ran (the library's plug-in interface)"


def test_pairs_that_agree_share_the_rows():
    results = [result(pair, size) for pair in ((0, 1), (0, 2), (1, 2)) for size in (64, 128)]
    (table,) = tables_of_pairs(results, name)
    assert (table.title, [*table.head]) == (HEAD, ["size", "what ran"])
    assert [*table.rows] == [("64 B – 128 B", "ring LL, 4 channels")]


def test_pairs_that_differ_are_named_the_usual_choice_first():
    results = [
        result(pair, size, channels=2 if pair == (0, 1) and size == 128 else 4)
        for pair in ((1, 2), (0, 1), (0, 2))
        for size in (64, 128)
    ]
    usual, other = tables_of_pairs(results, name)
    assert usual.title == f"{HEAD}: 2 of 3 pairs: D0–D2, D1–D2"
    assert [*usual.rows] == [("64 B – 128 B", "ring LL, 4 channels")]
    assert other.title == f"{HEAD}: 1 of 3 pairs: D0–D1"
    assert [*other.rows] == [("64 B", "ring LL, 4 channels"), ("128 B", "ring LL, 2 channels")]


def test_directions_and_operations_are_apart():
    results = [
        result((0, 1), 64, operation="broadcast", root=root, channels=1 + root) for root in (0, 1)
    ]
    titles = [one.title for one in tables_of_pairs([*results, result((0, 1), 64)], name)]
    assert [title.split(" ")[0] for title in titles] == ["broadcast", "broadcast", "all_reduce"]
    assert titles[0].endswith(": 1 of 2 pairs: D0 → D1")
    assert titles[1].endswith(": 1 of 2 pairs: D1 → D0")


def test_a_pair_whose_ranks_differ_has_its_own_remark():
    reason = "rank 2 ran AllReduce by tree LL, rank 0 by ring LL"
    odd = [result((0, 2), size, reason=reason * (size == 64)) for size in (64, 128)]
    usual, other = tables_of_pairs([result((0, 1), 64), result((0, 1), 128), *odd], name)
    assert [*usual.head] == ["size", "what ran"]
    assert other.is_last_below
    assert [*other.rows] == [("64 B – 128 B", "ring LL, 4 channels", f"64 B: {reason}")]


def test_many_pairs_and_many_choices_are_counted():
    pairs = [(first, second) for first in range(6) for second in range(first + 1, 6)]
    alike, _ = tables_of_pairs(
        [result(pair, 64, channels=1 + (pair == (0, 1))) for pair in pairs], name
    )
    assert alike.title.endswith(
        ": 14 of 15 pairs: D0–D2, D0–D3, D0–D4, D0–D5, D1–D2, D1–D3 and 8 more"
    )
    different = tables_of_pairs(
        [result(pair, 64, channels=1 + number) for number, pair in enumerate(pairs)], name
    )
    assert len(different) == 8
    assert [*different[-1].notes] == ["7 other pairs with yet other choices: see the CSV"]


def test_without_explanations_there_is_nothing():
    bare = result((0, 1), 64)
    bare.explanation = None
    assert tables_of_pairs([bare], name) == []
