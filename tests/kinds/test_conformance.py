"""What holds for every kind of work: a new one is tested here without another line."""

import csv
import json
import re

import msgspec
import pytest

from cclmark.base.errors import UsageError
from cclmark.comparison.comparison_document import comparison_document
from cclmark.comparison.figures import Side
from cclmark.comparison.words import comparison_of
from cclmark.document.blocks import SEVERITY_ORDER
from cclmark.document.columns import Layout
from cclmark.document.exporters import formats_of
from cclmark.document.finding_rules import FIGURES, FINDINGS
from cclmark.document.naming import NamedRun
from cclmark.document.page.page import render
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.report_kind import View
from cclmark.journal.schema import Verification, WrongOutput
from cclmark.kinds.registry import KINDS, parse_journal, read_journal, report_kind
from cclmark.references.reference_store import shipped_references
from cclmark.rendezvous.messages import Job, encoded_plan
from cclmark.report.exports import replayed
from cclmark.report.overview import headline, insights, measured_words
from cclmark.report.run_page import page_of
from cclmark.work.items import COLLECTIVE, P2P, PAIRS
from cclmark_importers.cclmark_output import read_cclmark_json
from cclmark_importers.cleaned_text import Text
from cclmark_training.objects.result import ObjectFinding
from evidence import WITHOUT_FIGURES, require_evidence
from experiments import NOISY, QUIET, journal_of_trials, numbered
from places import REPOSITORY, RUNS, TESTS
from reports import insights_on
from samples import usual_job

JOURNALS = TESTS / "journals"
SOURCE = REPOSITORY / "src"
ROOMS = {
    name: SOURCE.joinpath(*kind.report.__module__.split(".")[:-1]) for name, kind in KINDS.items()
}


def lines_of(kind):
    """The lines of a stored journal of the kind, without checksums."""
    for path in sorted(JOURNALS.iterdir()):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line.pop("crc32", None)
        if journal_of(lines).kind == kind and any(map(is_result, lines)):
            return lines
    raise AssertionError(f"no journal of {kind} in {JOURNALS}")


def journal_of(lines):
    return parse_journal([json.dumps(line).encode() for line in lines], "run")


def is_result(line):
    return "index" in line and line["type"] != "explanation"


def whole(lines):
    return lines


def empty(lines):
    """A run that ended before its first result."""
    return [line for line in lines if not is_result(line) and line["type"] != "explanation"]


def cut(lines):
    """The journal of a process that was killed."""
    results = [number for number, line in enumerate(lines) if is_result(line)]
    return lines[: results[len(results) // 2] + 1]


def interrupted(lines):
    end = {"type": "footer", "ended_at": lines[0]["started_at"], "exit_code": 130}
    header, *rest = cut(lines)
    end |= {"duration_s": 1.0, "message": "interrupted by SIGINT"}
    return [header | {"planned_cases": 1000}, *rest, end]


def died(lines):
    """No result has figures, and the run failed."""
    end = {"type": "footer", "ended_at": lines[0]["started_at"], "exit_code": 4}
    kept = {"type", "index", "status", "reason"}
    result = KINDS[journal_of(lines).kind].result
    required = [one.encode_name for one in msgspec.structs.fields(result) if one.required]
    failed = [
        {name: line[name] for name in {*kept, *required} if name in line}
        | {"status": "died", "reason": "rank 1 died"}
        for line in lines
        if is_result(line)
    ]
    others = [line for line in empty(lines) if line["type"] != "footer"]
    return [*others, *failed, {**end, "duration_s": 1.0, "message": "rank 1 died"}]


STATES = (whole, empty, cut, interrupted, died)
by_kind = pytest.mark.parametrize("kind", KINDS)


FILES = ("kind", "plan", "result", "run", "figures", "document", "command", "request")
UNMEASURED = {"run": "nothing is measured"}
# What a room does not have, and why.
WITHOUT = {
    COLLECTIVE: {
        "plan": "cases are in work/, because other kinds measure them too",
        "result": "results of cases are in journal/, because they are compared with other runs",
    },
    PAIRS: {"result": "that of a case"},
    P2P: {"result": "in journal/, because copies are compared with other runs"},
    "check": {"figures": "a verdict has none"},
    "pieces": {"command": "of collectives, with an option", "request": "that of collectives"},
    "profile": {
        "plan": "the program decides what is executed",
        "result": "in journal/, because imported traces have it too",
        "run": "the program is the user's",
    },
    "tune": {"run": "ranks measure the trials of an experiment"},
    **dict.fromkeys(("need", "predict", "simulate"), UNMEASURED),
    "scaling": {**UNMEASURED, "command": "predict, with --model"},
    "doctor": {"run": "no rank takes part"},
}


#: Kinds without an output that could be wrong.
NOT_CHECKED = ("check", "profile", "need", "predict", "scaling", "simulate", "doctor")


@by_kind
def test_a_room_has_the_files_of_all_rooms(kind):
    present = {path.stem for path in ROOMS[kind].glob("*.py")}
    assert {*FILES} - present == {*WITHOUT.get(kind, ())}
    assert (ROOMS[kind] / "__init__.py").read_text().startswith('"""')


@by_kind
def test_results_begin_alike_and_come_back(kind):
    record = KINDS[kind]
    first, second, third, *_ = record.result.__struct_fields__
    assert (first, third in ("status", "figures")) == ("index", True)
    assert second not in ("status", "reason")
    assert record.result.__struct_config__.tag
    journal = journal_of(lines_of(kind))
    assert journal.results
    for result in journal.results:
        assert isinstance(result, record.result)
        assert result.item.kind == kind
        assert result.is_consistent
        assert msgspec.json.decode(msgspec.json.encode(result), type=record.result) == result
        packed = msgspec.msgpack.encode(result)
        assert msgspec.msgpack.decode(packed, type=record.result) == result


@by_kind
def test_a_job_carries_its_plan(kind):
    planned = [one.item for one in journal_of(lines_of(kind)).results]
    if not isinstance(planned[0], KINDS[kind].item):
        planned = [one.case for one in planned]  # of which each rank has a result
    sent = msgspec.msgpack.encode(usual_job(kind=kind, plan=encoded_plan(planned)))
    assert msgspec.msgpack.decode(sent, type=Job).planned(KINDS[kind].item) == planned


@by_kind
def test_json_of_a_run_is_imported_as_the_same_run(kind):
    journal = journal_of(lines_of(kind))
    text = "".join(replayed(journal, "json"))
    assert json.loads(text)[KINDS[kind].listed_as]
    again = read_cclmark_json(Text("run.json", text))
    assert again.results == journal.results
    assert again.header.settings == journal.header.settings


WRONG = {"wrong": 1, "findings": [WrongOutput(0, 3, 7, "10", "7.5")]}
TEXT = "3 elements, first at index 7: expected 10, got 7.5"


def wrong(result):
    """The result with wrong data on rank 0."""
    replace, tag = msgspec.structs.replace, result.__struct_config__.tag
    if tag == "pieces":
        return replace(result, status="wrong", rows=[wrong(row) for row in result.rows])
    if tag == "object":
        return replace(result, status="wrong", findings=[ObjectFinding(0, "tensors", TEXT)])
    return replace(result, status="wrong", verification=Verification(**WRONG))


def reason_in_csv(journal, result):
    journal.results = [result]
    rows = [*csv.DictReader("".join(replayed(journal, "csv")).splitlines())]
    return rows[0]["reason"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        *((kind, f"rank 0: {TEXT}") for kind in (COLLECTIVE, PAIRS, "memory", "pieces", "overlap")),
        (P2P, f"0→1: {TEXT}"),
        ("objects", f"rank 0, tensors: {TEXT}"),
    ],
)
def test_the_reason_of_wrong_data_is_its_first_wrong_element(kind, reason):
    """In a table of rows that a program reads."""
    journal = journal_of(lines_of(kind))
    one = next(wrong(one) for one in journal.results if one.is_measured)
    assert reason_in_csv(journal, one) == reason
    if kind == "overlap":
        findings = {"verification": Verification(0), "compute_findings": WRONG["findings"]}
        compute = msgspec.structs.replace(one, **findings)
        assert reason_in_csv(journal, compute) == f"rank 0, the compute: {TEXT}"


@pytest.mark.parametrize("kind", [one for one in KINDS if one not in NOT_CHECKED])
def test_wrong_data_without_a_known_element_is_bad(kind):
    journal = journal_of(lines_of(kind))
    for place, one in enumerate(journal.results):
        of = {"verification": Verification(3), "findings": [], "rows": []}
        own = {name: value for name, value in of.items() if name in one.__struct_fields__}
        journal.results[place] = msgspec.structs.replace(one, status="wrong", **own)
    found = {one.severity: one.id for one in insights_on(journal)}
    assert found["bad"] == "wrong-data"
    assert "good" not in found


@by_kind
@pytest.mark.parametrize("state", STATES)
def test_every_state_is_written_in_every_format(kind, state):
    journal = journal_of(state(lines_of(kind)))
    assert not journal.damaged_lines
    for format in formats_of(KINDS[journal.kind]):  # of collectives where there is no result
        text = "".join(replayed(journal, format, View(columns=100)))
        silent = state is empty and format in ("flagcx", "hccl")  # as the programs without cases
        assert text.endswith("\n") or silent
        assert "object at 0x" not in text
        if format == "json":
            json.loads(text)
    page = render(page_of([NamedRun("run", journal)]))
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
    assert measured_words(journal).endswith(".")


@by_kind
@pytest.mark.parametrize("state", STATES)
def test_what_is_unknown_makes_no_verdict_good(kind, state):
    journal = journal_of(state(lines_of(kind)))
    run = NamedRun("run", journal)
    found = insights(run)
    severities = [one.severity for one in found]
    assert severities == sorted(severities, key=list(SEVERITY_ORDER).index)
    if {"bad", "look", "unknown"} & set(severities):
        assert "Nothing needs a look." not in {one.sentence for one in found}
    assert all(re.search(r"[.!?…)]$", one.sentence.rstrip()) for one in found), found
    if state in (cut, interrupted, died):
        assert set(severities) & {"bad", "look"}, found
    if state is died and kind != "profile":
        assert not headline(run), headline(run)
    # With references, findings have the figures that they state.
    insights_on(journal, ReferenceNotes(shipped_references))


#: Fields without a unit: shares, ratios, and the ends of their intervals.
PLAIN = re.compile(
    r"spread|share|.*half_width|(.*_)?ratio(_low|_high)?|(.*_)?slow_down|(.*_)?evaluated|\w+_loss"
)


#: Rules with figures that none of the journals triggers; tests of rooms do, with the same checks.
NOT_IN_JOURNALS = {
    *("above-link-limit", "above-reference", "falling-bandwidth-as-reference", "late-rank"),
    *("slow-rank", "uncertain-medians", "cost-of-flags", "unreported-calls", "costlier-calls"),
    *("default-kept", "harmful-settings", "loss-not-excluded", "no-gain", "sizes-without-rule"),
    *("sm-cost", "smallest-value", "drift", "idle-devices", "fleet-narrowed"),
}


def test_every_rule_states_its_figures_or_is_listed_as_one_without():
    assert {*FINDINGS} - {*FIGURES} == WITHOUT_FIGURES
    assert {*FIGURES} - {*FINDINGS} == set()
    paths = [
        *JOURNALS.glob("*.jsonl"),
        *(TESTS / "golden").glob("*.jsonl"),
        *(REPOSITORY / "benchmarks" / "results").rglob("*.jsonl"),
    ]
    found: set[str] = set()
    times_s = ([0.5, 0.5, 0.5], [1.0, 1.0, 1.0])
    trials = [journal_of_trials({**usual, numbered(8): times_s}) for usual in (QUIET, NOISY)]
    for journal in [*map(read_journal, paths), *trials]:
        found |= {one.id for one in insights_on(journal, ReferenceNotes(shipped_references))}
    sides = [Side(name, [read_journal(RUNS / f"{name}.jsonl")]) for name in ("default-1", "ctas8")]
    for before, after in (sides, sides[::-1]):
        compared = comparison_document(comparison_of(before, after)).findings
        require_evidence(compared, {"time_us": "µs"})
        found |= {one.id for one in compared}
    assert {*FIGURES} - found == NOT_IN_JOURNALS


@by_kind
def test_fields_are_named_once_with_their_units(kind):
    report = report_kind(kind)
    page = Layout(report.page_columns, lambda header: lambda result: [])
    for layout in (report.csv, report.exported_layout, report.samples, page):
        if layout is not None:
            for column in layout.columns:
                assert re.fullmatch(r"\S[^|`]*\.", column.help), column
                assert not re.search(r"^Its |[Tt]he same|that time|below", column.help)
                assert column.kind != "float" or column.unit or PLAIN.fullmatch(column.name), column
            names = [column.name for column in layout.columns]
            assert len(names) == len(set(names))
            assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names)
            assert not [name for name in names if name.endswith(("_time", "_size", "_duration"))]
    metrics = report.fields.metrics
    assert len({one.name for one in metrics}) == len(metrics)
    for metric in metrics:
        assert re.fullmatch(r"cclmark_[a-z0-9_]+[a-z0-9]", metric.name)
        assert metric.name.endswith(metric.unit)


@by_kind
@pytest.mark.parametrize("state", STATES)
def test_chosen_columns_are_those_of_csv(kind, state):
    journal = journal_of(state(lines_of(kind)))
    columns = report_kind(journal.kind).csv.columns  # of collectives without a result
    names = [one.name for one in columns][::-3]
    rows = [*csv.DictReader("".join(replayed(journal, "csv")).splitlines())]
    chosen = [*csv.reader("".join(replayed(journal, "csv", View(fields=names))).splitlines())]
    assert chosen == [names, *([row[name] for name in names] for row in rows)]
    text = "".join(replayed(journal, "markdown", View(fields=names)))
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == (len(rows) + 2 if rows else 0)
    assert all(line.count("|") == len(names) + 1 for line in table)
    for format in {*formats_of(KINDS[journal.kind])} - {"csv", "table", "markdown"}:
        with pytest.raises(UsageError, match="--columns"):
            "".join(replayed(journal, format, View(fields=names)))


@by_kind
def test_a_failed_item_is_a_result(kind):
    record = KINDS[kind]
    if not (record.in_rounds or record.forgiven):
        pytest.skip("every failure ends the run")
    item = journal_of(lines_of(kind)).results[0].item
    failed = record.failed(3, item, "timeout", "rank 1 hangs", "rank 1: timing")
    assert (failed.index, failed.item, failed.status) == (3, item, "timeout")
    assert not failed.is_measured
