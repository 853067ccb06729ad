"""The sentences on top of a report: right, in order of gravity, and none without a reason."""

import dataclasses

import pytest
from msgspec.structs import replace

from cclmark.analysis.outliers import TIMES_MEAN_LITTLE
from cclmark.document.blocks import Finding
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Explanation, Footer, Verification, WrongOutput
from cclmark.kinds.registry import read_journal
from cclmark.references.reference_store import shipped_references
from cclmark.report.overview import measured_words, of_methods, together
from cclmark.report.run_page import page_of
from goldens import require_golden
from places import H200X4
from reports import headline_of, insights_on

COLLECTIVES = read_journal(H200X4 / "report" / "collectives.jsonl")
COPIES = read_journal(H200X4 / "report" / "p2p.jsonl")
PAIRS = read_journal(H200X4 / "report" / "pairs.jsonl")


def changed(journal, at, **changes):
    results = list(journal.results)
    results[at] = replace(results[at], **changes)
    return Journal(journal.header, results, footer=journal.footer)


def place_of(operation, size_bytes):
    cases = [(one.case.operation, one.case.size_bytes) for one in COLLECTIVES.results]
    return cases.index((operation, size_bytes))


LIBRARIES = read_journal(H200X4 / "libraries.jsonl")
WRONG = Verification(wrong=3, findings=[WrongOutput(1, 3, 0, "1", "2")])


def of(results, header=COLLECTIVES.header, footer=COLLECTIVES.footer):
    return Journal(header, list(results), footer=footer)


def each(change, journal=COLLECTIVES):
    """All results of a journal, each with what ``change`` returns for it."""
    results = [replace(one, **change(one)) for one in journal.results]
    return of(results, journal.header, journal.footer)


def figures(one, **changes):
    return {"summary": replace(one.summary, **changes)}


def at(operation, size_bytes, *, status="ok", verification=None, **changes):
    """The journal with other figures of one case."""
    place = place_of(operation, size_bytes)
    one = COLLECTIVES.results[place]
    own = {"verification": verification or one.verification, **figures(one, **changes)}
    return changed(COLLECTIVES, place, status=status, **own)


def busbw(operation, size_bytes):
    return COLLECTIVES.results[place_of(operation, size_bytes)].summary.busbw_bytes_per_s


def slow_pairs():
    """Small messages of one pair, whose times have the two levels of a processor's launches."""

    def change(one):
        is_slow = (one.case.pair, one.case.size_bytes) == ((0, 1), 8)
        return figures(one, time_s=1e-4) if is_slow else {}

    return each(change, PAIRS)


def noisy():
    """Every second result has half the bandwidth, and all medians are uncertain."""
    places = {id(one): place for place, one in enumerate(COLLECTIVES.results)}

    def change(one):
        place, rate = places[id(one)], one.summary.busbw_bytes_per_s
        widths = {"spread": 0.5, "half_width": 0.06 + place / 1e4}
        return figures(one, **widths, busbw_bytes_per_s=rate / (1 + place % 2))

    return each(change)


def faster():
    """The all-reduces, a fifth faster than they were."""

    def change(one):
        rate, time_s = one.summary.busbw_bytes_per_s * 1.2, one.summary.time_s / 1.2
        return figures(one, busbw_bytes_per_s=rate, time_s=time_s)

    found = [one for one in COLLECTIVES.results if one.case.operation == "all_reduce"]
    return of(each(change, of(found)).results, footer=None)


def without_limits(**header):
    """Quiet figures, without the operation that has a kink."""
    quiet = [
        one
        for one in COLLECTIVES.results
        if one.summary.spread < 0.1 and one.case.operation != "sendrecv"
    ]
    return of(quiet, replace(COLLECTIVES.header, **header))


CROWDED = {"notices": [f"4 ranks share 2: {TIMES_MEAN_LITTLE}"]}
HUNG = {"status": "timeout", "summary": None}
SKIPPED = {**HUNG, "status": "skipped", "verification": None, "converged": False}
UNEXPLAINED = each(
    lambda one: {"explanation": Explanation(one.index, reason=f"reason {one.index % 5}")}
)
WRONG_PEAK = {
    "verification": Verification(1, [WrongOutput(3, 1, 7, "1", "2")]),
    **{"status": "wrong", "busbw_bytes_per_s": 9e11},
}
RATE = COPIES.transfers[0].summary.bytes_per_s / 3
A_THIRD = {"bytes_per_s": RATE, "flow_bytes_per_s": [RATE]}
STOPPED = Footer("x", 130, 1.0, "interrupted by SIGINT")
DIED = Footer("x", 4, 1.0, "rank 2 died\n  s")
#: Compared with the references that commands use.
WITH_REFERENCES = {
    # Of a good machine nothing stands out.
    **{"collectives": COLLECTIVES, "copies": COPIES},
    # A dip, a slow rank, and bandwidth far below that of the links.
    "dip": at("all_reduce", 128 << 20, busbw_bytes_per_s=busbw("all_reduce", 128 << 20) / 2),
    "slow-rank": each(
        lambda one: figures(one, slowest_rank=2) if one.case.operation == "all_gather" else {}
    ),
    "below-the-links": read_journal(H200X4 / "runs" / "ctas8.jsonl"),
    "above-the-reference": faster(),
    "crowded": without_limits(links=[], relations=[], **CROWDED),
}
JOURNALS = {
    **WITH_REFERENCES,
    **{"pairs": PAIRS, "nothing": Journal(COPIES.header)},
    # Wrong data comes first and is no peak, and unchecked data is no right data.
    "wrong": changed(COLLECTIVES, 5, status="wrong", verification=WRONG),
    "wrong-peak": at("all_reduce", 512 << 20, **WRONG_PEAK),
    "unchecked": each(lambda _: {"verification": None}),
    "skipped": each(lambda _: SKIPPED),
    "above-the-links": at("all_reduce", 512 << 20, busbw_bytes_per_s=9e11),
    "slow-copy": changed(COPIES, 0, **figures(COPIES.results[0], **A_THIRD)),
    "slow-pairs": slow_pairs(),
    # Runs that ended early, and parts that did.
    "no-end": of(COLLECTIVES.results[:10], footer=None),
    "interrupted": of(COLLECTIVES.results[:10], footer=STOPPED),
    "died": of(COLLECTIVES.results[:10], footer=DIED),
    "one-hung": changed(COLLECTIVES, 0, **HUNG, reason="rank 1 hung\nlong"),
    # Nothing stands out only where something was measured, and could be compared.
    "hung-pairs": of([replace(one, **HUNG) for one in PAIRS.results], PAIRS.header),
    "one-pair": of([one for one in PAIRS.results if one.case.pair == (0, 1)], PAIRS.header),
    "without-limits": without_limits(links=[], relations=[]),
    # Noise: of medians, and of samples.
    **{"noisy": noisy(), "scattered": each(lambda one: figures(one, spread=0.5))},
    # Each library's own peak is judged, however small the message that it was at.
    "libraries": LIBRARIES,
    "two-libraries": read_journal(H200X4 / "report" / "nccl_and_torch.jsonl"),
    "unexplained": UNEXPLAINED,
}


@pytest.mark.parametrize("name", JOURNALS)
def test_statements_about_a_run(name):
    journal = JOURNALS[name]
    has_references = name in WITH_REFERENCES
    found = insights_on(journal, ReferenceNotes(shipped_references) if has_references else None)
    lines = [measured_words(journal), headline_of(journal)]
    for one in found:
        lines += [f"{one.severity}: {one.sentence}", *([f"  {one.advice}"] * bool(one.advice))]
    require_golden(f"texts/run-{name}.txt", "\n".join([*lines, ""]))


def test_what_several_runs_say_alike_is_said_once():
    same, other = (
        Finding("data-not-checked", "look", "No output was checked.", advice="-c 1"),
        Finding("notice", "note", "Odd."),
    )
    both = dataclasses.replace(same, sentence="Both runs: No output was checked.")
    assert together([("", [same, other])]) == [("", [same, other])]
    assert together([("a", [same]), ("b", [same, other])]) == [("", [both]), ("b", [other])]
    names = [f"run{number}" for number in range(11)]
    found = [(name, [same] if number < 8 else [other]) for number, name in enumerate(names)]
    groups = dict(together(found))
    assert list(groups) == [""]
    assert [one.sentence for one in groups[""]] == [
        "8 of 11 runs (run0, run1, run2 and 5 more): No output was checked.",
        "3 of 11 runs (run8, run9 and run10): Odd.",
    ]


def test_runs_that_were_measured_differently_are_named():
    settings = replace(COLLECTIVES.header.settings, barrier="library", clock="host")
    by_host = of(COLLECTIVES.results, replace(COLLECTIVES.header, settings=settings), None)
    names = ("a", "b", "c", "pairs", "copies")
    runs = [*zip(names, (COLLECTIVES, by_host, by_host, PAIRS, COPIES), strict=True)]
    found = of_methods(runs)
    assert [(one.severity, one.sentence) for one in found] == [
        (
            "look",
            "Measured differently from a (there): b and c (here). --barrier: own there, library "
            "here; --clock: auto there, host here.",
        )
    ]
    assert of_methods([runs[0], runs[0], *runs[3:]]) == []
    page = page_of([NamedRun(name, journal) for name, journal in runs[:2]])
    assert found[0].advice in [one.advice for _, group in page.insights for one in group]
