"""The table of kinds of work."""

import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import cclmark
from cclmark.document.document_text import document_of
from cclmark.document.naming import NamedRun
from cclmark.document.page.page import render
from cclmark.kinds.memory.plan import MEMORY, RankMemory
from cclmark.kinds.registry import KINDS, read_journal, report_kind
from cclmark.rendezvous.messages import encoded_plan
from cclmark.report.run_page import page_of
from cclmark.work.cases import Case
from cclmark.work.items import COLLECTIVE, P2P, PAIRS, PROFILE, items_of
from cclmark.work.transfers import Transfer
from cclmark_fleet.doctor.plan import DOCTOR
from cclmark_planning.need.plan import NEED
from cclmark_planning.predict.plan import PREDICT
from cclmark_planning.scaling.plan import SCALING
from cclmark_planning.simulate.plan import SIMULATE
from places import RESULTS, TESTS
from samples import usual_job

CASE = Case("broadcast", "shm", 2, "float32", 64, 16, False, root=0)
COPY = Transfer("unidirectional", "pairs", "CE", "write", ((0, 1),), 64)


def test_a_plan_of_another_kind_is_refused():
    with pytest.raises(msgspec.ValidationError):
        usual_job(kind=P2P, plan=encoded_plan([CASE])).planned(KINDS[P2P].item)
    with pytest.raises(TypeError, match="is not a Transfer"):
        items_of([COPY, CASE], Transfer)


def test_items_are_pairs_of_ranks_and_the_memory_of_every_rank():
    items = KINDS[PAIRS].items([CASE], 3)
    assert sorted(item.pair for item in items) == [(0, 1), (0, 2), (1, 2)]
    assert KINDS[COLLECTIVE].items([CASE], 3) == [CASE]
    larger = replace(CASE, size_bytes=128, count=32)
    items = KINDS[MEMORY].items([CASE, larger], 2)
    expected = [RankMemory(case, rank) for case in (CASE, larger) for rank in (0, 1)]
    assert [*items] == expected
    assert (items[1:3], items[-1]) == (expected[1:3], expected[-1])
    with pytest.raises(IndexError):
        items[4]


def test_what_is_given_up_with_a_case_of_a_pair():
    first, other = (replace(CASE, pair=pair) for pair in ((0, 1), (0, 2)))
    larger = replace(first, size_bytes=128, count=32)
    reduced = replace(first, operation="reduce", reduction="sum")
    falls_with = KINDS[PAIRS].falls_with
    assert falls_with(reduced, first, "communicator creation")
    assert falls_with(larger, first, "timing")
    assert not falls_with(reduced, first, "timing")
    assert not falls_with(other, first, "communicator creation")
    assert not KINDS[COLLECTIVE].falls_with(CASE, CASE, "timing")


def test_what_is_given_up_with_a_message_between_hosts():
    first, other = (replace(COPY, ccl="mpi", flows=(flow,)) for flow in ((0, 2), (1, 3)))
    larger = replace(first, size_bytes=2 * first.size_bytes)
    back = replace(first, flows=((2, 0),))
    kind = KINDS[P2P]
    assert [kind.forgives(one) for one in (COPY, first)] == [False, True]
    assert kind.falls_with(larger, first, "timing")
    assert not kind.falls_with(back, first, "timing")
    assert kind.falls_with(back, first, "communicator creation")
    assert not kind.falls_with(other, first, "communicator creation")
    copy = replace(COPY, flows=((0, 2),))
    assert not kind.falls_with(copy, first, "communicator creation")


def test_every_kind_that_ranks_measure_has_a_runner():
    without = (PROFILE, NEED, PREDICT, SCALING, SIMULATE, DOCTOR)
    assert all(callable(kind.runner()) for name, kind in KINDS.items() if name not in without)


# Branches on the type of an item or result, or on the name of a kind. The tables, the modules of a
# kind and the commands of a kind are about one kind and are not counted.
_TYPES = "|".join(one.__name__ for kind in KINDS.values() for one in (kind.item, kind.result))
_NAMES = "|".join(name.upper() for name in KINDS)
BRANCH = re.compile(
    rf"isinstance\(.*\b({_TYPES})\b"
    rf"|\.(kind|operation) (==|!=) ({_NAMES})\b"
    rf"|\.of\(({_TYPES})\)"
    r"|(journal|run|now|then)\.(transfers|profiled)\b"
)
OF_ONE_KIND = re.compile(
    r"^(kinds/|work/|journal/(journal_file|item_results)\.py|profile/|references/copy_|rank/measure"
    r"|cli/(trace|torch)/)"
)
MOST_BRANCHES = 11


def test_few_places_tell_kinds_apart():
    source = Path(cclmark.__file__).parent
    found = [
        f"{path.relative_to(source)}:{number}"
        for path in source.rglob("*.py")
        if not OF_ONE_KIND.match(str(path.relative_to(source)))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if BRANCH.search(line)
    ]
    assert 0 < len(found) <= MOST_BRANCHES, found


JOURNALS = sorted((TESTS / "journals").glob("*.jsonl"))


def head_figures(path):
    journal = read_journal(path)
    return document_of(report_kind(journal.kind).document, NamedRun("", journal)).head_figures


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_the_main_figures_are_at_the_top_of_a_page_unless_noise_decides(path):
    found = head_figures(path)
    few = {"experiment": 0, "overlap": 1}  # without effect; the slow-downs have no interval
    least, most = (few[path.stem],) * 2 if path.stem in few else (2, 4)
    assert least <= len(found) <= most
    assert len({one.label for one in found}) == len(found)
    page = render(page_of([NamedRun("", read_journal(path))]))
    assert page.count("<li><span>") == len(found)
    assert all(f"<b>{one.value} " in page for one in found)


def test_main_figures_are_those_of_the_document():
    """Written by hand, from the tables of these journals."""
    assert {read_journal(path).kind for path in JOURNALS} == {*KINDS}
    for name, text in {
        "pairs": "slowest pair: 284.66 GB/s (DEV0–DEV2)",
        "check": "failed: 1 of 2 checks ()",
        "replay": "step: 6.066 ms (7.291 ms in the program)",
        "replay.jsonl": "communication of a step: 2.835 ms (5.224 ms in the program)",
        "profile": "time in operations: 95.8 % (of the time of rank 0)",
        "tune": "mean speed-up: 84.311 × (over all sizes)",
    }.items():
        journals = RESULTS / "h200x4" / "report" if name == "pairs" else TESTS / "journals"
        found = head_figures(journals / f"{name.partition('.')[0]}.jsonl")
        assert text in [f"{one.label}: {one.value} {one.unit} ({one.note})" for one in found]
