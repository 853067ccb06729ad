"""Findings as data: ids, evidence, gains and commands, the same in JSON, on pages and in Python."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import cclmark
from cclmark.analysis.findings import comparisons, findings, is_staged, measured, settled
from cclmark.document.finding_rules import FINDINGS
from cclmark.document.naming import NamedRun
from cclmark.document.peaks import peaks_of
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.remarks import staged_mark
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceTime, Imported
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.references.reference_store import shipped_references
from cclmark.work.operations import OPERATIONS
from experiments import QUIET, journal_of_trials, numbered
from goldens import outline, require_stated
from places import H200X4, TESTS
from reports import finding_lines, insights_on

REPORTS = H200X4 / "report"
DEVICE_TIMES = H200X4.parent / "h200x2" / "all_reduce.jsonl"


def findings_of(journal):
    return insights_on(journal, ReferenceNotes(shipped_references))


def test_the_list_has_every_rule_and_no_other():
    texts: set[str] = set()
    first: set[str] = set()
    for path in Path(cclmark.__file__).parent.parent.glob("cclmark*/**/*.py"):
        source = path.read_text()
        listed = r'^    "[a-z-]+":' if path.name == "finding_rules.py" else r"^$"
        texts |= {*re.findall('"([a-z-]+)"', re.sub(listed, "", source, flags=re.MULTILINE))}
        if "Finding(" not in source:
            continue
        for call in ast.walk(ast.parse(source)):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Finding":
                first |= set(re.findall(r"'([a-z-]+)'", ast.unparse(call.args[0])))
    assert first <= set(FINDINGS)
    composed = {f"{one}-as-reference" for one in ("slow-size", "falling-bandwidth")}
    assert set(FINDINGS) - composed <= texts


def collectives(keep=lambda one: True, change=lambda one, place: {}):
    """Of H200s: the results that ``keep`` takes, with other figures."""
    run = read_journal(REPORTS / "collectives.jsonl")
    run.results[:] = [
        replace(one, summary=replace(one.summary, **change(one, place)))
        for place, one in enumerate(filter(keep, run.results))
    ]
    return run


def slower(one, place):
    return {"busbw_bytes_per_s": 0.3 * one.summary.busbw_bytes_per_s}


def all_gathers(field):
    """Of just more than half of its cases rank 2 stands out."""
    return collectives(
        lambda one: one.case.operation == "all_gather",
        lambda one, place: {field: 2 if place < 13 else None},
    )


def without_large(*others):
    """The run of quiet cases in which only these operations have large messages."""
    return collectives(
        lambda one: (
            one.summary.spread < 0.1
            and one.case.operation != "sendrecv"
            and (one.case.size_bytes < 64 << 20 or one.case.operation in others)
        )
    )


def tried(*times):
    """An experiment with a variant of these times at both sizes."""
    variants = {numbered(8): (times, times)} if times else {}
    return journal_of_trials({**QUIET, **variants})


def pairs(name, kind=None):
    """``kind``: of the link of the first two devices."""
    run = read_journal(REPORTS / f"{name}.jsonl")
    run.results[:] = [one for one in run.results if one.item.size_bytes > 32 << 20 or name == "p2p"]
    run.header.relations = [
        replace(one, kind=kind if kind and {one.first, one.second} == {0, 1} else one.kind)
        for one in run.header.relations
    ]
    return run


UNJUDGED = ("nothing-to-compare-with", "nothing-found", "pairs-alike")


def test_evidence_and_gains_are_those_of_the_sentences():
    """Small messages are not called good by a limit for large ones, nor links by other links."""
    compared = {
        "slow collectives": (collectives(change=slower), ["below-reference"]),
        "slowest rank": (all_gathers("slowest_rank"), ["slow-rank"]),
        "late rank": (all_gathers("late_rank"), ["late-rank"]),
    }
    without_references = {
        "launches": (read_journal(DEVICE_TIMES), ["launch-bound"]),
        "small messages": (without_large(), UNJUDGED),
        "small messages, and large all-reduces": (without_large("all_reduce"), UNJUDGED),
        "faster variant": (tried(0.5, 0.501, 0.5), ["faster-variant"]),
        "one round": (tried(0.5), ["nothing-faster"]),
        "no variant": (tried(), ["nothing-faster"]),
        "slower variant": (tried(2.0, 2.0, 2.0), ["nothing-faster"]),
        "pairs": (pairs("pairs"), UNJUDGED),
        "pairs of two links": (pairs("pairs", "SYS"), UNJUDGED),
        "copies": (pairs("p2p"), UNJUDGED),
        "copies over two links": (pairs("p2p", "SYS"), UNJUDGED),
    }
    found = {}
    for named, judge in ((compared, findings_of), (without_references, insights_on)):
        for name, (run, rules) in named.items():
            found[name] = finding_lines(one for one in judge(run) if one.id in rules)
    require_stated("words/findings.txt", found)


@pytest.mark.parametrize("path", [DEVICE_TIMES, REPORTS / "collectives.jsonl"])
def test_a_figure_of_a_case_is_that_of_its_row(path):
    run = read_journal(path)
    layout = report_kind(run.kind).csv
    names = [column.name for column in layout.columns]
    rows_of = layout.rows_of(run.header, None)
    rows = {
        one.item.describe(): dict(zip(names, row, strict=True))
        for one in run.results
        for row in rows_of(one)
    }
    evidence = [figure for one in findings_of(run) for figure in one.evidence]
    found = [(one, rows.get(one.at.split(", ")[0])) for one in evidence if one.name in names]
    assert any(row for _, row in found)
    for figure, row in found:
        assert row is None or figure.value == pytest.approx(row[figure.name])


# Main figures of collectives: peaks, latencies, ranks that stand out, libraries, cycles.


SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
ONE = replace(SAMPLE.results[0], status="ok", device=None, route="native", converged=True)


def of(size=8, time_s=1e-6, busbw=1e9, *, cycle=0, rank=None, status="ok", **case):
    figures = {"time_s": time_s, "busbw_bytes_per_s": busbw}
    summary = replace(ONE.summary, slowest_rank=rank, late_rank=rank, **figures)
    changed = replace(ONE.case, **{"in_place": False, "size_bytes": size, **case})
    return replace(ONE, case=changed, cycle=cycle, summary=summary, status=status)


def wrong(*figures, **case):
    return of(*figures, status="wrong", **case)


def test_the_peak_is_the_highest_and_the_latency_the_shortest_of_the_smallest_size():
    results = [
        of(8, 3e-6, 1e9),
        of(8, 2e-6, 1.5e9, in_place=True),
        of(16, 1e-6, 9e9),
        of(32, 5e-6, 8e9),
        wrong(64, 1e-9, 99e9),
        replace(of(4), summary=None),
    ]
    (one,) = findings(results)
    assert one.peak is results[2]
    assert one.latency is results[1]
    assert (one.largest_bytes, one.cycles, one.half_peak_bytes) == (32, 1, 16)
    assert [result for result, _ in measured(results)] == results[:4]
    assert findings([wrong()]) == []


@pytest.mark.parametrize(
    ("rates", "half"),
    [
        ([1, 4, 10], 32),
        ([5, 4, 10], 32),
        ([5, 6, 10], None),
        ([1, 10, 4], None),
        ([10, 4, 8], None),
    ],
)
def test_half_of_the_peak_is_reached_from_a_size_on(rates, half):
    results = [of(8 << place, busbw=rate * 1e9) for place, rate in enumerate(rates)]
    others = [of(4, busbw=1e9, in_place=True), of(2, busbw=1e9, dtype="int8")]
    assert findings([*results, *others])[0].half_peak_bytes == half


@given(st.lists(st.floats(1e-6, 1e-3), min_size=1, max_size=9, unique=True))
def test_of_several_cycles_the_lower_median_counts(times):
    results = [of(time_s=time_s, cycle=cycle) for cycle, time_s in enumerate(times)]
    (one,) = settled(results)
    assert one.summary.time_s == sorted(times)[(len(times) - 1) // 2]
    assert settled([replace(one, status="wrong") for one in results]) == []
    assert findings(results)[0].cycles == len(times)


@pytest.mark.parametrize(
    ("ranks", "found"),
    [([2, 2, None], (2, 2 / 3)), ([2, None], None), ([None], None), ([2, 3], None), ([1], (1, 1))],
)
def test_a_rank_stands_out_in_more_than_half_of_the_cases(ranks, found):
    (one,) = findings([of(8 << place, rank=rank) for place, rank in enumerate(ranks)])
    assert one.late == one.slowest == (found and pytest.approx(found))


def test_a_copy_of_the_input_is_no_main_figure_where_there_is_another():
    staged = of(operation="alltoall", in_place=True, busbw=9e9)
    plain = of(operation="alltoall")
    assert is_staged(staged)
    for other in (plain, replace(staged, route=""), replace(staged, summary=None)):
        assert not is_staged(other)
    assert not is_staged(of(in_place=True))
    assert findings([staged, plain])[0].peak is plain
    assert findings([staged])[0].peak is staged


def test_libraries_are_compared_where_both_were_measured_alike():
    results = [
        *(of(8, 1e-6), of(8, 3e-6, cycle=1), of(8, 2e-6, cycle=2), of(16, 5e-6)),
        *(of(8, 4e-6, ccl="shm"), wrong(16, ccl="shm"), of(8, ccl="shm", dtype="int8")),
    ]
    (one,) = comparisons(results)
    assert one.ccls == ["nccl", "shm"]
    assert one.rows == [(8, [2e-6, 4e-6]), (16, [5e-6, None])]
    assert comparisons(results[:4]) == []


# Tables and names of several runs.


def run(name, *results, **header):
    return NamedRun(name, Journal(replace(SAMPLE.header, links=[], **header), [*results]))


def test_the_table_of_peaks():
    results = [of(8, 2e-6, 1e9), of(16, 4e-6, 9.5e9), of(32, 5e-6, 6e9)]
    barrier = of(operation="barrier", time_s=7e-6, reduction=None)
    timed = replace(results[0], device=DeviceTime(None, replace(ONE.summary, time_s=1e-6)))
    other = {"imported": Imported("nccl-tests", "", figure="the mean")}
    first = run("a", of())
    cycles = [replace(barrier, cycle=cycle) for cycle in range(3)]
    found = {
        "one run": [run("a", *results, barrier)],
        "one of several cycles": [run("a", *cycles)],
        "several cycles": [run("a", *cycles[:2]), run("b", *cycles)],
        "one with device times": [run("a", timed), run("b", *results[1:])],
        "tools with other definitions": [first, run("b", of(), **other)],
        "tools of which one measured nothing": [first, run("b", wrong(), **other)],
    }
    shown = {name: outline(peaks_of(own))[:-1] for name, own in found.items()}
    require_stated("words/peaks.txt", shown)
    assert peaks_of([run("a", wrong())]) is None


COLLECTIVES = read_journal(H200X4 / "collectives.jsonl")
PAIRS = read_journal(H200X4 / "report" / "pairs.jsonl")


def test_the_table_of_operations_agrees_with_what_the_engine_did():
    for result in [*COLLECTIVES.results, *PAIRS.results]:
        staged = result.case.in_place and OPERATIONS[result.case.operation].staged_in_place
        assert result.route.startswith("copy aside") == staged, result.case.describe()
        assert (staged_mark(result) == "*") == staged
        for other in (replace(result, route=""), replace(result, summary=None)):
            assert staged_mark(other) == ""
