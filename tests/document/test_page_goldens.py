"""Charts and pages against stored outlines that contain every text and figure."""

import dataclasses
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from cclmark.comparison.comparison_page import comparison_page
from cclmark.comparison.figures import Side, compare
from cclmark.comparison.words import Comparison
from cclmark.document.chart_model import Chart
from cclmark.document.document_text import document_of
from cclmark.document.naming import NamedRun, group_titles, groups_of
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.journal.schema import Explanation, Trace, TracedStage
from cclmark.kinds.collective.charts import collective_charts
from cclmark.kinds.experiment.plan import PROOF, SEARCH
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.report.run_page import page_of
from cclmark.work.variants import CONTROL, DEFAULT
from experiments import NOISY, QUIET, RULES, journal_of_trials, numbered
from goldens import outline, require_golden
from places import H200X4, TESTS
from reports import COLLECTIVES, explained

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")
COPIES = read_journal(H200X4 / "report" / "p2p.jsonl")
LIBRARIES = read_journal(H200X4 / "report" / "nccl_and_torch.jsonl")
AUTO = read_journal(H200X4.parent / "h200x2" / "all_reduce.jsonl")


def of_cases(change, keep=lambda one: True, of=COLLECTIVES, **header):
    """The journal with some of its results, each changed."""
    results = [change(one) for one in of.results if keep(one)]
    return dataclasses.replace(of, header=replace(of.header, **header), results=results)


def reduced(change=lambda one: one, operation="all_reduce", of=COLLECTIVES, **header):
    """The same with the results of an operation."""
    return of_cases(change, lambda one: one.case.operation == operation, of, **header)


def summarised(one, **figures):
    return replace(one, summary=replace(one.summary, **figures))


def with_times(change):
    """The journal with the times of each sample changed: ``change`` gets the result and a row."""

    def changed(one):
        rows = [change(one, row) for row in one.samples.device_s]
        return replace(one, samples=replace(one.samples, device_s=rows))

    return reduced(changed)


def late(one):
    rows = [[*row[:2], row[2] / 4, row[3]] for row in one.samples.device_s]
    samples = replace(one.samples, device_s=rows)
    return summarised(replace(one, samples=samples), late_rank=2)


def at_one_size(one, row):
    factor = 6 if one.case.size_bytes == 8 << 20 else 1
    return [row[0] * (factor if rank == 17 else 1) for rank in range(300)]


def notes(name):
    found = ReferenceNotes()
    match = SimpleNamespace(name=name, name_and_differences=name, share=1.0, bandwidth=3e11)
    found.match = lambda result, header: match
    return found


FIRST = COLLECTIVES.results[0]
OF_SIZE = replace(FIRST.case, size_bytes=2 << 20, in_place=True)
OTHER_RANKS = dataclasses.replace(
    COLLECTIVES,
    results=[
        summarised(replace(FIRST, case=replace(OF_SIZE, ranks=ranks)), time_s=ranks * 5e-6)
        for ranks in (2, 4)
    ],
)
CYCLES = dataclasses.replace(
    COLLECTIVES,
    results=[
        summarised(replace(FIRST, cycle=cycle), time_s=time_s)
        for cycle, time_s in enumerate((1e-5, 3e-5, 2e-5))
    ],
)


def named(**journals):
    return [NamedRun(name, journal) for name, journal in journals.items()]


def on_processors(journal):
    return [replace(one, runtime="host") for one in journal.header.devices]


def twice(first, second):
    both = (("here", COLLECTIVES, first), ("there", LIBRARIES, second))
    return [NamedRun(name, journal, notes(of)) for name, journal, of in both]


WRONG_FIRST = reduced(lambda one: replace(one, status="wrong") if one.case == FIRST.case else one)
SKIPPED = reduced(lambda one: replace(one, status="skipped", summary=None))
ONE_SLOW = with_times(lambda _, row: [*row[:2], row[2] * 1.25, row[3]])
#: Runs of collectives, and the charts of them that are shown.
COLLECTIVE_CHARTS = {
    "usual": (named(run=reduced()), "bandwidth time spread ranks"),
    # The network between the hosts is unknown.
    "two-hosts": (named(run=reduced(hosts=[None, None])), "bandwidth"),
    "wrong": (named(run=WRONG_FIRST), "bandwidth"),
    "skipped": (named(run=SKIPPED), "bandwidth ranks"),
    "slow-rank": (named(run=ONE_SLOW), "ranks"),
    "slow-at-one-size": (named(run=with_times(at_one_size)), "ranks"),
    "late-rank": (named(run=reduced(late)), "ranks"),
    "gather": (named(run=reduced(operation="gather")), "ranks"),
    "on-processors": (named(run=reduced(of=AUTO, devices=on_processors(AUTO))), "ranks"),
    "device-times": (named(run=AUTO), "time ranks"),
    "numbers-of-ranks": (named(run=OTHER_RANKS), "time"),
    "cycles": (named(run=CYCLES), "time"),
    "libraries": (named(run=LIBRARIES), "bandwidth ratio"),
    "two-runs": (named(monday=COLLECTIVES, tuesday=LIBRARIES), "bandwidth"),
    "references": (twice("A", "B"), "bandwidth"),
    "explained": (named(run=explained()), "bandwidth time"),
}


@pytest.mark.parametrize("name", COLLECTIVE_CHARTS)
def test_charts_of_collectives(name):
    runs, wanted = COLLECTIVE_CHARTS[name]
    groups = groups_of(runs)
    charts = collective_charts(groups[0], group_titles(groups)[0], runs)
    shown = [one for one in charts if one.key.endswith((*wanted.split(),))]
    require_golden(f"charts/{name}.txt", outline(shown, hover=name == "usual"))


def slow_link():
    first = COPIES.transfers[0]
    rate = first.summary.bytes_per_s / 2
    slow = summarised(first, bytes_per_s=rate, flow_bytes_per_s=[rate])
    return dataclasses.replace(COPIES, results=[slow, *COPIES.results[1:60]])


DOCUMENT_CHARTS = {
    "slow-link": slow_link(),
    "swept-copies": read_journal(H200X4 / "p2p_blocks.jsonl"),
    "pairs": read_journal(H200X4 / "report" / "pairs.jsonl"),
}


@pytest.mark.parametrize("name", DOCUMENT_CHARTS)
def test_charts_of_documents(name):
    journal = DOCUMENT_CHARTS[name]
    document = document_of(report_kind(journal.kind).document, NamedRun("run", journal))
    blocks = (*document.blocks, *document.closing)
    charts = [one for one in blocks if isinstance(one, Chart)]
    assert len({one.key for one in charts}) == len(charts)
    require_golden(f"charts/{name}.txt", outline(charts, hover=True))


def sides(change=lambda one: one, names=("default-1", "ctas8")):
    before, after = (read_journal(H200X4 / "runs" / f"{name}.jsonl") for name in names)
    after = dataclasses.replace(after, results=[change(one) for one in after.results])
    return Side(f"{names[0]}.jsonl", [before]), Side(f"{names[1]}.jsonl", [after])


def unsure(one):
    return summarised(one, half_width=None)


ALIKE = ("default-1",) * 2
COMPARISONS = {
    "comparison": sides(),
    "comparison-unsure": sides(unsure, ALIKE),
    "comparison-wrong": sides(lambda one: replace(one, status="wrong"), ALIKE),
}


def with_names(page):
    """The page with only the names of its columns, whose other properties are those of fields."""
    names = [column.name for column in page.rows.columns]
    return dataclasses.replace(page, rows=dataclasses.replace(page.rows, columns=names))


@pytest.mark.parametrize("name", COMPARISONS)
def test_pages_of_comparisons(name):
    compared = COMPARISONS[name]
    differences = ["NCCL_MAX_CTAS: not set before, 8 after"]
    page = comparison_page([Comparison(*compared, differences, compare(*compared))])
    require_golden(f"pages/{name}.txt", outline(with_names(page)))


STAGES = {
    0: [TracedStage("start-up", 0.0, 0.02), TracedStage("tracing", 0.02, 0.08, 1 << 20)],
    1: [TracedStage("start-up", 0.01, 0.01), TracedStage("tracing", 0.02, 0.06, 1 << 20)],
}
TRACE = Trace("runs/t.pftrace", "perfetto", 20, STAGES, ["a summary", "  indented"])
TRACED = dataclasses.replace(reduced(), traces=[TRACE])


def loud():
    """Paths worse than the links, a rank that ran something else, and a case that is unknown."""
    journal = explained(parameters={"NCCL_P2P_DISABLE": "1"}, messages=["a text of the library"])
    first, second, *_ = journal.cases
    first.explanation = replace(first.explanation, reason="rank 1 ran tree")
    second.explanation = Explanation(second.index, reason="the log is full")
    return journal


def changed_in_place():
    journal = explained("P2P/CUMEM")
    for result in journal.cases:
        if result.case.in_place and result.case.size_bytes < 8 << 20:
            result.explanation = replace(result.explanation, protocol="LL")
    return journal


def runs_of(*names):
    return [NamedRun(name, read_journal(H200X4 / "runs" / f"{name}.jsonl")) for name in names]


WIDE = of_cases(
    lambda one: summarised(one, spread=0.5, half_width=1.93),
    lambda one: one.summary is not None,
    SAMPLE,
)
ON_HOST = dataclasses.replace(
    COPIES,
    header=replace(COPIES.header, devices=on_processors(COPIES)),
    results=COPIES.results[:12],
)
FAST = ([0.5, 0.501, 0.5], [0.05, 8.0, 0.1])
RAN = {DEFAULT: "ring", CONTROL: "ring", numbered(8): "tree"}
ALIKE_TIMES = ([1.0] * 3, [1.0] * 3)
SMALLEST = [
    *("", "NCCL_MAX_CTAS: share", "  NCCL_MAX_CTAS=8 is the smallest value that keeps 99 %"),
]
MEAN = ["", "all_reduce", "  geometric mean of the speed-ups over all sizes: 1.200"]


def trials(times, of=None, **more):
    """``of``: the times of variants by their number."""
    numbers = {numbered(number): own for number, own in (of or {}).items()}
    return named(run=journal_of_trials({**times, **numbers}, **more))


PAGES = {
    "sample": named(run=SAMPLE),
    "copies": named(run=COPIES),
    "copies-on-host": named(run=ON_HOST),
    "two-kinds": named(a=SAMPLE, b=ON_HOST),
    "device-times": named(run=AUTO),
    "wide-intervals": named(run=WIDE),
    # Of one command, two are before and after, and three are one curve.
    "two-runs": runs_of("default-1", "default-2"),
    "three-runs": runs_of("default-1", "default-2", "default-3"),
    "many-runs": runs_of("default-1", "default-2", "default-3", "ctas8"),
    "explained": named(a=explained(), bare=reduced(), b=loud()),
    "changed-in-place": named(run=changed_in_place()),
    "traced": named(run=TRACED),
    "two-traces": named(a=TRACED, b=TRACED),
    "experiment": trials(QUIET, {8: FAST}, ran=RAN),
    "experiment-noisy": trials(NOISY, {8: ([0.9] * 3, [0.5, 1.0, 0.5])}),
    "experiment-undecided": trials(NOISY),
    "bisection": trials(QUIET, dict.fromkeys((32, 8, 16), ALIKE_TIMES), conclusion=SMALLEST),
    "tuning": trials({**QUIET, RULES: ([0.8] * 3, [0.9] * 3)}, stage=PROOF, conclusion=MEAN),
    "tuning-interrupted": trials({**QUIET, RULES: ALIKE_TIMES}, stage=SEARCH),
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_of_runs(name):
    page = page_of(PAGES[name])
    headings = [section.title for section in page.sections]
    assert not {""} & {*headings}
    assert len({section.key for section in page.sections}) == len(page.sections)
    keys = [chart.key for section in page.sections for chart in section.charts]
    assert len({*keys}) == len(keys)
    require_golden(f"pages/{name}.txt", outline(with_names(page)))
