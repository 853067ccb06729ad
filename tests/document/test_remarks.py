"""What is said of a case besides its figures, of devices and soaks, and whether a run is sound."""

import dataclasses
import re

from msgspec.structs import replace

from cclmark.analysis.device_conditions import ConditionFigures
from cclmark.document import remarks, soundness
from cclmark.document.blocks import Document, Finding, RunContent
from cclmark.document.conditions import with_conditions
from cclmark.document.naming import NamedRun
from cclmark.document.page.chart_svg import views_of
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import (
    Condition,
    DeviceTime,
    Footer,
    Imported,
    Verification,
    WrongOutput,
)
from cclmark.kinds.collective.soak import over_time
from cclmark.kinds.registry import read_journal
from goldens import outline, require_stated
from places import TESTS
from reports import COLLECTIVES, finding_lines

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
OK = replace(SAMPLE.results[0], converged=True, device=None, device_reason="")
WRONG = WrongOutput(1, 3, 5, "2", "7")
END = Footer("", 0, 0.0)
DIED = Footer("", 4, 0.0, message="rank 1 died\nits report")
OTHER_TOOL = Imported("x", "")


def header(*, planned=0, imported=None, **settings):
    changed = replace(SAMPLE.header.settings, **{"cycles": 1, **settings})
    return replace(
        SAMPLE.header, planned_cases=planned, settings=changed, notices=[], imported=imported
    )


def journal(*results, footer=END, of=None, **fields):
    return Journal(of or header(), [*results], footer=footer, **fields)


def with_status(status, reason=""):
    return replace(OK, status=status, reason=reason, summary=None, verification=None)


def with_summary(result=OK, **changes):
    return replace(result, summary=replace(result.summary, **changes))


def wrong(verification=None, **changes):
    return replace(OK, status="wrong", verification=verification, **changes)


UNCHECKED = replace(OK, verification=None)
SKIPPED = with_status("skipped")


PLANNED_2 = header(planned=2)
JOURNALS = {
    "complete": journal(OK, of=header(planned=1)),
    "unknown plan": journal(OK),
    "no end": journal(OK, footer=None),
    "incomplete": journal(OK, of=PLANNED_2),
    "incomplete, with an error": journal(OK, of=PLANNED_2, footer=DIED),
    "interrupted": journal(OK, of=PLANNED_2, footer=replace(DIED, exit_code=130)),
    "of another tool": journal(OK, footer=DIED, of=header(imported=OTHER_TOOL)),
    "damaged, with a notice": journal(
        OK, of=replace(header(), notices=["a"]), damaged_lines="3, 5"
    ),
    "of a newer version": journal(OK, unknown_words=["a", "b", "a", "c", "d"]),
}


def test_what_a_journal_lacks_and_an_early_end_are_stated():
    found = {}
    for name, one in JOURNALS.items():
        early = [*soundness.of_completeness(one, [])]
        without_end = [*soundness.of_completeness(one, [], with_end=False)]
        assert without_end == [own for own in early if own.id != "ended-early"]
        found[name] = [*remarks.lacking(one), *remarks.left_out(one), *finding_lines(early)]
    require_stated("words/completeness.txt", found)


FAILED = with_status("failed")
FOUR_WRONG = [
    wrong(Verification(size, [WRONG]), case=replace(OK.case, size_bytes=size))
    for size in (4, 8, 16, 32)
]
#: Of data: the results, the header, and the options.
DATA = {
    "all checked": ([OK, OK], None, {}),
    "one skipped": ([OK, SKIPPED], None, {}),
    "one failed": ([OK, FAILED], None, {}),
    "incomplete": ([OK, OK], header(planned=3), {}),
    "one unchecked": ([OK, UNCHECKED], None, {"unverifiable": "; x"}),
    "none": ([FAILED], None, {}),
    "-c 0": ([UNCHECKED], header(check=0), {}),
    "unchecked": ([UNCHECKED], header(check=1), {}),
    "unchecked by another tool": ([UNCHECKED], header(check=0, imported=OTHER_TOOL), {}),
    "wrong": ([OK, *FOUR_WRONG], None, {}),
    "wrong, without elements": (FOUR_WRONG, None, {"with_elements": False}),
    "wrong on request": (FOUR_WRONG[:1], header(inject=["x"]), {}),
}


def test_data_is_good_only_if_every_output_was_checked():
    require_stated(
        "words/data.txt",
        {
            name: finding_lines(soundness.of_data(journal(*results, of=of), results, **options))
            for name, (results, of, options) in DATA.items()
        },
    )
    assert soundness.wrong_elements([("a", None), ("b", Verification(0))]) == ()
    known = [Finding("wrong-data", "bad", "x")]
    assert soundness.or_unlocated(known, FOUR_WRONG) == known
    assert len(soundness.or_unlocated([], [OK, *FOUR_WRONG])) == 4


def test_checks_are_good_if_none_is_missing():
    assert soundness.of_checked([OK, SKIPPED], "fine").severity == "good"
    one = soundness.of_checked([OK, UNCHECKED], "fine")
    assert (one.severity, one.sentence[-26:]) == ("note", "were checked: 1 of 2 were not"[-26:])


def test_results_without_figures_are_counted_with_the_usual_reason():
    failed = [with_status("failed", f"{why}\nreport") for why in ("b", "a", "a")]
    found = [*soundness.of_statuses([OK, *failed, SKIPPED])]
    assert [(one.id, one.severity, one.sentence, bool(one.advice)) for one in found] == [
        ("failed-cases", "bad", "3 cases failed: a (2 of them)", True),
        ("skipped-cases", "note", "1 case skipped: skipped", False),
    ]


def judged(*found, of=None, **options):
    options = {"compared": True, "lacking": "no limit", **options}
    return [
        f"{one.id}: {one.sentence}"
        for one in soundness.nothing_wrong(of or journal(OK), found, **options)
    ]


def test_nothing_needs_a_look_only_without_findings_and_unknown_figures():
    found = {
        "not compared": judged(compared=False),
        "some not compared": judged(unjudged=["a", "b", "c", "d"]),
        "failed": judged(of=journal(FAILED)),
        "incomplete": judged(of=journal(OK, of=header(planned=5))),
        "cut": judged(of=Journal(header(planned=5), [OK])),
        "damaged": judged(of=journal(OK, damaged_lines="2")),
    }
    for severity in ("bad", "look", "unknown", "note", "good"):
        found[f"finding: {severity}"] = judged(Finding("notice", severity, "x"))
    require_stated("words/nothing-found.txt", found)


def noise(*results, traces=(), **settings):
    of = header(**{"precision": 0.02, "iterations": None, **settings})
    return [*soundness.of_noise(journal(*results, of=of, traces=[*traces]))]


def spread(half_width, share=0.01):
    return with_summary(half_width=half_width, spread=share)


QUIET, UNSURE, LOUD = spread(0.01), spread(0.06), spread(0.031, 0.3)
SURER, LATE = spread(0.01, 0.2), replace(QUIET, converged=False)
TRACED = {"traces": [object()]}
NOISE = {
    "quiet": ([QUIET, QUIET], {}),
    "one of two": ([QUIET, UNSURE], {}),
    "at the limit": ([QUIET, spread(0.05, 0.0)], {}),
    "one very": ([QUIET, QUIET, spread(0.51)], {}),
    "one at the limit of very": ([QUIET, QUIET, spread(0.5)], {}),
    "traced": ([UNSURE], TRACED),
    "one loud": ([QUIET, LOUD], {}),
    "two loud": ([LOUD, SURER], {}),
    "loud, at the limit": ([spread(0.05, 0.3), SURER], {}),
    "late": ([LATE], {}),
    "late by the device": ([replace(QUIET, device=DeviceTime(None, QUIET.summary, False))], {}),
    "late, traced": ([LATE], TRACED),
    "late, of so many iterations": ([LATE], {"iterations": 5}),
    "late, by another tool": ([LATE], {"imported": OTHER_TOOL}),
}


def test_uncertain_medians_noisy_samples_and_precision_that_was_not_reached():
    found = {name: finding_lines(noise(*own, **of)) for name, (own, of) in NOISE.items()}
    require_stated("words/noise.txt", found)


def test_outliers_are_stated_with_their_number_length_and_when_they_came():
    times = {"max_s": 3e-6, "p99_s": 3e-6, "time_s": 1e-6}
    for span, when in (
        ((0.0, 0.03), " at the beginning"),
        ((0.4, 0.44), " together, 40% into the measurement"),
        (None, ""),
    ):
        one = with_summary(outliers=2, samples=100, outlier_span=span, **times)
        (found,) = soundness.of_tails(journal(QUIET, one))
        assert found.id == "outlying-samples"
        assert f": 2 of 100{when}, p99 3.00 µs, the longest 3 × the median" in found.sentence
    assert [*soundness.of_tails(journal(with_summary(one, samples=201)))] == []


FIRST = COLLECTIVES.results[0]


def document_with(*conditions, runtime="cuda", whole=True):
    """The document of a run of collectives with these conditions."""
    devices = [replace(one, runtime=runtime) for one in COLLECTIVES.header.devices]
    header = replace(COLLECTIVES.header, devices=devices)
    seen = ConditionFigures()
    for one in conditions:
        seen.add(one)
    content = RunContent(
        header, COLLECTIVES.results, COLLECTIVES.footer, conditions=seen, is_whole=whole
    )
    good = Finding("data-checked", "good", "every output was checked")
    return with_conditions(Document("Collectives", "", findings=[good]), content)


def reading(share, rank=0, index=0, **traffic):
    return Condition(rank, index, 0, 1.7e9, busy_share=share, **traffic)


def nvlink(sent, received):
    return {"nvlink_sent_bytes": sent, "nvlink_received_bytes": received}


def test_a_table_with_what_is_known():
    (table,) = document_with(
        reading(0.5, clock_hz=1.98e9, **nvlink(2 * 10**9, 10**9)),
        reading(0.97, clock_hz=1.755e9, **nvlink(10**9, 0)),
        reading(1.0, rank=1, reasons=["power cap"]),
    ).closing
    assert table.head == ["device", "clock MHz", "busy %", "NVLink GB out/in", "limited by"]
    assert table.rows == [
        ["0", "1755–1980", "50–97", "3.0/1.0", ""],
        ["1", "", "100", "", "power cap 100%"],
    ]
    assert document_with().closing == ()
    assert document_with(reading(0.5), whole=False).closing == ()


PCIE = {"pcie_sent_bytes": 10**9}
#: Of idle devices.
TRAFFIC = {
    "unknown": {},
    "PCIe": {**PCIE, "pcie_received_bytes": 5 * 10**8},
    "NVLink, and as much of PCIe": {**PCIE, **nvlink(10**8, 10**9)},
    "little over NVLink": {**PCIE, "nvlink_sent_bytes": 2 * 10**8},
    "none over NVLink": {"pcie_sent_bytes": 1 << 27, "nvlink_sent_bytes": 0},
    "only NVLink": {"nvlink_sent_bytes": 10**6},
}


def test_idle_devices():
    found = {}
    for name, traffic in TRAFFIC.items():
        document = document_with(reading(0.02, **traffic), reading(0.099, rank=1))
        found[name] = finding_lines(document.findings)  # by severity
    one_works, of_no_result = (reading(0.02), reading(0.1, rank=1)), reading(0.02, index=10**6)
    for known in (one_works, [reading(None)], [of_no_result]):
        assert [one.id for one in document_with(*known).findings] == ["data-checked"]
    assert len(document_with(reading(0.02), runtime="host").findings) == 1
    require_stated("words/idle-devices.txt", found)


def soak(cycles, **condition):
    results, conditions = [], []
    for cycle in range(cycles):
        at_s = 1e9 + 60.0 * cycle
        summary = replace(FIRST.summary, time_s=1e-5 * (1 + cycle % 2))
        results.append(replace(FIRST, cycle=cycle, started_at_s=at_s, summary=summary))
        for rank in (0, 1):
            own = {"clock_hz": 1.9e9, "temperature_c": 50.0 + cycle, **condition}
            conditions.append(Condition(rank, 0, cycle, at_s + 1, **own))
    changed = {"results": results, "conditions": conditions}
    return NamedRun("soak", dataclasses.replace(COLLECTIVES, **changed))


def rising():
    """A soak in which a count of throttling of rank 1 rises."""
    run = soak(10)
    for number, one in enumerate(run.journal.conditions):
        one.throttle_count = 7 + (number >= 10) * (one.rank == 1)
    return run


def test_cases_clocks_and_temperatures_have_one_time_axis_with_the_moments_of_heat():
    without = soak(10)
    without.journal.conditions.clear()
    found = {
        "usual": over_time(soak(10)),
        "thermal slowdown": over_time(soak(10, reasons=["thermal slowdown"])),
        "power cap": over_time(soak(10, reasons=["power cap"])),
        "rising count": over_time(rising()),
        "without readings": over_time(without),
        "one of several runs": over_time(soak(10), "-1", " (night)"),
    }
    shown = {name: outline([one])[:-1] for name, one in found.items()}
    require_stated("words/over-time.txt", shown)
    assert over_time(soak(3)) is None
    assert over_time(NamedRun("run", COLLECTIVES)) is None


PANELS = ["time / median", "clock [MHz]", "temperature [°C]"]


def test_panels_are_one_drawing_with_one_axis_of_time():
    run = soak(30)
    for number in (20, 21, 40, 41):
        run.journal.conditions[number].reasons = ["thermal slowdown"]
    section = over_time(run)
    (chart,) = section.charts
    (view,) = views_of(chart)
    for text in ('class="axis"', "time since the start", *PANELS):
        assert view.svg.count(text) == 1
    box = [float(one) for one in re.search(r'viewBox="([^"]+)', view.svg)[1].split()]
    heights = [*map(float, re.findall(r'class="curve[^>]* d="M[-\d.]+ ([-\d.]+)', view.svg))]
    assert len(heights) == len(chart.series)
    assert box[1] < heights[0] < heights[1] < heights[3] < box[1] + box[3]
    assert view.svg.count("<rect") == len(chart.spans) == 2
    spans = re.findall(r'<rect[^>]* y="[-\d.]+" width="[\d.]+" height="([\d.]+)"', view.svg)
    assert float(spans[0]) > 300
    assert "Shaded" in section.words[1]
