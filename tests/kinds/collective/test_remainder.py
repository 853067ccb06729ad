"""What a journal lacks of a plan: nothing twice, nothing forgotten, no other plan."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.journal.item_results import CaseResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.resume import differences, outline_of, remainder_of
from cclmark.work.cases import Sweep, UnevenPattern
from goldens import refusal, require_outcomes
from samples import header_of, usual_settings

SETTINGS = usual_settings(begin_bytes=64, end_bytes=256, cycles=3)


def sweep(**changes):
    usual = {
        **{"operations": ["all_reduce"], "ccls": ["shm"], "ranks": 2, "sizes": [64, 128, 256]},
        **{"dtypes": ["float32"], "reductions": ["sum"], "roots": [0]},
        **{"placements": (False, True), "uneven": UnevenPattern()},
    }
    return list(Sweep(**{**usual, **changes}).cases())


CASES = sweep()


def header(*, old=False):
    plan = None if old else outline_of(CASES, 2, 2)
    changes = {"schema_version": 3 if old else 4, "planned_cases": len(CASES), "plan": plan}
    return header_of(SETTINGS, **changes)


def left(journal, things=CASES, settings=SETTINGS):
    return remainder_of(journal, "a.jsonl", outline_of(things, 2, 2), settings, things)


places = st.sets(st.integers(0, 3 * len(CASES) - 1))


@given(ok=places, given_up=places, old=st.booleans())
def test_every_case_is_either_carried_over_or_still_to_be_measured(ok, given_up, old):
    def result(place, status):
        cycle, index = divmod(place, len(CASES))
        return CaseResult(index, CASES[index], status, cycle=cycle)

    died = [result(place, "died") for place in sorted(given_up)]
    kept = [result(place, ("ok", "wrong", "skipped")[place % 3]) for place in sorted(ok)]
    remainder = left(Journal(header(old=old), [*died, *kept]))
    assert set(remainder.pending) == set(range(3 * len(CASES))) - ok
    assert remainder.pending == sorted(set(remainder.pending))
    assert (remainder.carried, remainder.misplaced) == (kept, 0)


def test_what_is_not_of_its_place_is_measured_again():
    places = ((0, 1, 0), (len(CASES), 0, 0), (-1, -1, 0), (1, 1, 3), (2, 2, -1), (3, 3, 0))
    results = [CaseResult(at, CASES[case], "ok", cycle=cycle) for at, case, cycle in places]
    remainder = left(Journal(header(), results))
    assert remainder.misplaced == 5
    assert remainder.carried == results[-1:]


def test_another_plan_and_other_settings_are_refused_with_what_differs():
    def outcome(line):
        """Of a command with these changes of the plan or of settings."""
        changes = json.loads(line)
        own = {it: changes.pop(it) for it in {*changes} & {*SETTINGS.__struct_fields__}}
        return refusal(left, Journal(header()), sweep(**changes), replace(SETTINGS, **own))

    require_outcomes(Path(__file__).with_name("other_plans.txt"), outcome)
    found = differences(outline_of(CASES, 2, 2), outline_of(sweep(ranks=4), 4, 4))
    assert found[:2] == [
        "devices (--devices, -g): 2 only in the journal, 4 only in this command",
        "processes (of the launcher; p2p: -m): 2 only in the journal, 4 only in this command",
    ]
    patient = replace(SETTINGS, timeout_s=600)  # is no other plan
    assert left(Journal(header()), settings=patient).carried == []


def test_an_older_journal_shows_its_plan_by_what_was_measured():
    journal = Journal(header(old=True), [CaseResult(0, CASES[1], "ok")])
    message = "case 0 in the journal is all_reduce 64 B float32 sum in-place"
    with pytest.raises(UsageError, match=message):
        left(journal)
    with pytest.raises(UsageError, match="cases: 6 in the journal, 4 in this command"):
        left(Journal(header(old=True)), sweep(sizes=[64, 128]))
