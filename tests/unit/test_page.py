"""The page: whatever a journal holds, it can run nothing but its own two scripts."""

import base64
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cclmark.comparison.comparison_page import comparison_page
from cclmark.comparison.figures import Side, compare
from cclmark.comparison.words import Comparison
from cclmark.document.naming import NamedRun
from cclmark.document.page import page as page_module
from cclmark.document.page.page import for_script, render, shortened
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.errors import MissingError
from cclmark.kinds.collective.peaks import peaks_of
from cclmark.kinds.registry import read_journal
from cclmark.report.run_page import page_of
from cclmark.results.journal import Journal
from examples import examples

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "h200x4"
SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")
COPIES = read_journal(RESULTS / "report" / "p2p.jsonl")
replace = msgspec.structs.replace

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "'\"><svg/onload=alert(1)>",
    "<!--<script>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "\u2028alert(1)\u2029",
    "\ud800\x00\x1b[2J",
    "&lt;b&gt;",
)


class Parsed(HTMLParser):
    """What a browser would find: tags, the attributes that can run something, scripts, texts."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags = Counter()
        self.ids = Counter()
        self.handlers = []
        self.addresses = []
        self.scripts = []
        self.policy = ""
        self.texts = []
        self._script = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        attributes = dict(attrs)
        if "id" in attributes:
            self.ids[attributes["id"]] += 1
        self.handlers += [name for name in attributes if name.startswith("on") or name == "style"]
        self.addresses += [attributes[name] for name in ("href", "src") if name in attributes]
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        if tag == "script":
            self._script = (attributes.get("type", ""), [])

    def handle_endtag(self, tag):
        if tag == "script":
            kind, parts = self._script
            self.scripts.append((kind, "".join(parts)))
            self._script = None

    def handle_data(self, data):
        (self._script[1] if self._script else self.texts).append(data)


def hostile_journal(text):
    header = SAMPLE.header
    device = replace(header.devices[0], name=text, host=text, driver_version=text)
    header = replace(
        header,
        command=[text, text],
        machine=replace(header.machine, hostname=text, processor=text, system=text, kernel=text),
        devices=[device, *header.devices[1:]],
        libraries=[replace(header.libraries[0], name=text, version=text, path=text)],
        environment={text: text, "NCCL_DEBUG": text},
        notices=[text],
        started_at=text,
        run_id=text,
        launcher=text,
    )
    results = []
    for result in SAMPLE.results:
        case = replace(result.case, operation=text, ccl=text, dtype=text)
        if case.reduction is not None:
            case = replace(case, reduction=text)
        results.append(replace(result, case=case, reason=text, route=text))
    return Journal(header, results, footer=SAMPLE.footer)


@pytest.fixture(autouse=True)
def small_plotly(monkeypatch):
    """Five megabytes for each page would make these tests slow; the browser's tests have them."""
    monkeypatch.setattr(page_module, "plotly_script", lambda: "window.Plotly = {};")


def render_journal(journal, name="run"):
    return render(page_of([NamedRun(name, journal)]))


def test_the_policy_lets_just_the_pages_scripts_run():
    parsed = Parsed(render_journal(SAMPLE))
    allowed = set(re.findall(r"'sha256-([^']+)'", parsed.policy))
    run = [text for kind, text in parsed.scripts if kind in ("", "text/plain")]
    hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run}
    assert allowed == hashes
    assert len(run) == 2
    assert parsed.policy.startswith("default-src 'none'; ")
    for word in ("http", "unsafe-eval", "connect-src", "*"):
        assert word not in parsed.policy
    assert "script-src 'unsafe" not in parsed.policy
    assert parsed.handlers == []


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_strings_stay_text(text):
    usual, parsed = (
        Parsed(render_journal(SAMPLE)),
        Parsed(render_journal(hostile_journal(text), text)),
    )
    for tag in ("script", "img", "svg", "style", "iframe", "a"):
        assert parsed.tags[tag] - usual.tags[tag] in ((0,) if tag != "a" else range(-3, 3)), tag
    assert parsed.handlers == []
    assert all(address.startswith("#") for address in parsed.addresses)
    assert [kind for kind, _ in parsed.scripts] == [kind for kind, _ in usual.scripts]
    assert parsed.policy == usual.policy
    data = next(body for kind, body in parsed.scripts if kind == "application/json")
    assert "<" not in data
    json.loads(data)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60))
def test_any_string_can_stand_in_a_script(text):
    encoded = for_script({"text": text, text: [text]})
    for character in "<>&\u2028\u2029":
        assert character not in encoded
    assert json.loads(encoded)["text" if text != "text" else text] == (
        text if text != "text" else ["text"]
    )


def test_a_lone_surrogate_can_be_written():
    for_script("a\ud800b").encode()


@pytest.mark.parametrize(
    ("value", "short"),
    [
        (1.23456789, 1.23457),
        (12345678.9, 12345700),
        (2.0, 2),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_numbers_have_as_many_digits_as_anyone_sees(value, short):
    assert shortened(value) == short


NUMBERS = st.sampled_from((0.0, -1.0, 1e100, 1e-100, 1e-6, 12.5))
SIZES = st.sampled_from((-8, 0, 1, 8, 1 << 62))


@st.composite
def absurd_results(draw):
    """A result whose numbers nobody can have measured, as in a journal that somebody made."""
    base = draw(st.sampled_from([one for one in SAMPLE.results if one.summary is not None]))
    names = ("time_s", "min_s", "p95_s", "p99_s", "max_s", "cv", "busbw_bytes_per_s")
    summary = replace(base.summary, **{name: draw(NUMBERS) for name in names})
    rows = st.lists(st.lists(NUMBERS, max_size=3), max_size=3)
    samples = base.samples and replace(base.samples, host_s=draw(rows), device_s=draw(rows))
    case = replace(base.case, size_bytes=draw(SIZES), ranks=draw(st.integers(-1, 3)))
    if draw(st.booleans()):
        case = replace(case, pair=draw(st.tuples(st.integers(0, 3), st.integers(0, 3))), root=None)
    return replace(base, case=case, summary=summary, samples=samples, cycle=draw(st.integers(0, 2)))


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(absurd_results(), min_size=1, max_size=8), st.sampled_from(("max", "min", "?")))
def test_absurd_numbers_make_a_page_all_the_same(results, across):
    header = replace(SAMPLE.header, settings=replace(SAMPLE.header.settings, across_ranks=across))
    Parsed(render_journal(Journal(header, results)))


def test_the_tables_rows_are_the_cases():
    page = page_of([NamedRun("run", SAMPLE)])
    assert len(page.rows.rows) == len(SAMPLE.results)
    column = list(page.rows.columns).index("size_bytes")
    assert [row[column] for row in page.rows.rows] == [
        one.case.size_bytes for one in SAMPLE.results
    ]
    copies = page_of([NamedRun("copies", COPIES)])
    assert "bandwidth_gbps" in copies.rows.columns
    assert len(copies.rows.rows) == 240
    both = page_of([NamedRun("a", SAMPLE), NamedRun("b", COPIES)])
    assert both.rows.columns[0] == "run"
    assert {row[0] for row in both.rows.rows} == {"a", "b"}


def test_all_that_there_is_to_know_of_the_machine_is_there():
    text = " ".join(Parsed(render_journal(COPIES)).texts)
    for known in ("NVIDIA H200", "580.159.04", "18 × NVLink 4", "NCCL_NVLS_ENABLE", "cclmark p2p"):
        assert known in text


def test_runs_of_other_types_share_the_barrier_and_no_place_has_two_names():
    journal = read_journal(RESULTS / "report" / "collectives.jsonl")
    others = [
        replace(result, case=replace(result.case, dtype="float16")) for result in journal.results
    ]
    runs = [NamedRun("a", journal), NamedRun("b", Journal(journal.header, others))]
    page = page_of(runs)
    assert [section.key for section in page.sections].count("barrier") == 1
    assert set(Parsed(render(page)).ids.values()) == {1}


def test_of_several_runs_a_reference_is_said_to_be_whose():
    def notes(name):
        found = ReferenceNotes()
        match = SimpleNamespace(name_and_differences=name, share=1.0)
        found.match = lambda result, header: match
        return found

    journal = read_journal(RESULTS / "report" / "nccl_and_torch.jsonl")
    runs = [NamedRun(name, journal, notes(of)) for name, of in (("a", "X"), ("b", "Y"), ("c", "X"))]
    assert peaks_of(runs).notes == [
        "Link limit: 450 GB/s.",
        "Reference of all_reduce · nccl, all_reduce · torch:nccl (a, c): X.",
        "Reference of all_reduce · nccl, all_reduce · torch:nccl (b): Y.",
    ]
    assert peaks_of(runs[:1]).notes == [
        "Link limit: 450 GB/s.",
        "Reference of all_reduce · nccl, all_reduce · torch:nccl: X.",
    ]


def test_many_runs_alike_are_told_of_once():
    runs = [
        NamedRun(name, read_journal(RESULTS / "runs" / f"{name}.jsonl"))
        for name in ("default-1", "default-2", "default-3", "ctas8")
    ]
    (lead,) = page_of(runs).lead
    assert lead.startswith("4 runs, of each: 26 cases of all_reduce on 4 × NVIDIA H200")
    copies = read_journal(RESULTS / "report" / "p2p.jsonl")
    assert len(page_of([*runs, NamedRun("copies", copies)]).lead) == 2
    assert [one.partition(":")[0] for one in page_of(runs[:3]).lead] == [
        "default-1",
        "default-2",
        "default-3",
    ]


def test_no_heading_is_there_twice():
    for runs in ([NamedRun("run", COPIES)], [NamedRun("run", COPIES), NamedRun("other", COPIES)]):
        for section in page_of(runs).sections:
            assert section.title not in [facts.title for facts in section.facts]
    headings = re.findall(r"<h[23][^>]*>([^<]+)</h", render_journal(COPIES))
    assert headings.count("Environment") == headings.count("Method") == 1
    assert "" not in headings


def test_the_slower_rows_of_a_comparison_come_first():
    before, after = (
        Side(name, [read_journal(RESULTS / "runs" / f"{name}.jsonl")])
        for name in ("default-1", "ctas8")
    )
    page = comparison_page([Comparison(before, after, [], compare(before, after))])
    verdict = page.rows.columns.index("verdict")
    verdicts = [row[verdict] for row in page.rows.rows]
    assert verdicts == ["slower"] * 8 + ["inconclusive"] * 18
    assert [row[1] for row in page.sections[0].tables[0].rows] == [
        *("slower", "inconclusive", "inconclusive"),
    ]
    assert '<tr class="slower"><th scope="row">all_reduce · nccl, above 1 MiB' in render(page)


def test_a_comparison_is_a_page_too():
    runs = [read_journal(RESULTS / "runs" / f"{name}.jsonl") for name in ("default-1", "ctas8")]
    before, after = Side("default-1.jsonl", [runs[0]]), Side("ctas8.jsonl", [runs[1]])
    comparison = Comparison(
        before, after, ["NCCL_MAX_CTAS: not set before, 8 after"], compare(before, after)
    )
    page = comparison_page([comparison])
    assert page.title == "ctas8 against default-1"
    ratios = page.sections[0].charts[0]
    assert max(ratios.series[0].y) == pytest.approx(2.25, abs=0.05)
    assert {one.name for one in page.sections[1].charts[0].series} >= {
        "default-1 in-place",
        "ctas8 in-place",
    }
    text = " ".join(Parsed(render(page)).texts)
    assert "NCCL_MAX_CTAS: not set before, 8 after" in text
    assert "8 slower beyond noise" in text
    verdicts = [row[page.rows.columns.index("verdict")] for row in page.rows.rows]
    assert verdicts.count("slower") == 8


def test_what_cannot_be_judged_is_not_called_the_same():
    run = read_journal(RESULTS / "runs" / "default-1.jsonl")
    unsure = [replace(one, summary=replace(one.summary, half_width=None)) for one in run.results]
    wrong = [replace(one, status="wrong") for one in run.results]
    good = Side("a.jsonl", [run])
    for results, kind, words in (
        (unsure, "unknown", "No case could be judged"),
        (wrong, "bad", "Wrong data in 26 cases"),
    ):
        other = Side("b.jsonl", [Journal(run.header, results)])
        page = comparison_page([Comparison(good, other, [], compare(good, other))])
        found = page.insights[0][1]
        assert any(one.severity == kind and words in one.sentence for one in found)
        assert not any("Nothing differs" in one.sentence for one in found)


def test_how_devices_are_connected_is_a_table():
    section = next(one for one in page_of([NamedRun("run", COPIES)]).sections if one.key == "p2p")
    table = section.tables[0]
    assert table.rows[0] == ["DEV0", "X", "NV18", "NV18", "NV18"]
    assert "link limit of a pair, one direction: 450 GB/s" in table.notes


def test_without_plotly_it_is_said_what_to_install(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(page_module, "files", lambda name: Path("/nonexistent"))
    page_module.plotly_script.cache_clear()
    with pytest.raises(MissingError, match="pip install 'plotly"):
        page_module.plotly_script()
    page_module.plotly_script.cache_clear()


class TestDeviceTimes:
    """Where launches set the cost of a call, the page has the time that devices need too."""

    AUTO = read_journal(RESULTS.parent / "h200x2" / "all_reduce.jsonl")

    def test_are_in_the_summary_and_in_the_table_of_peaks(self):
        page = page_of([NamedRun("", self.AUTO)])
        texts = [one.sentence for _, found in page.insights for one in found]
        launches = (
            "Launches determine the time up to 512 KiB: at 8 B a call costs 8.66 µs, the device "
            "needs 5.77 µs."
        )
        assert launches in texts
        cells = dict(zip(page.peaks.head, page.peaks.rows[0], strict=True))
        assert (cells["smallest message µs"], cells["device µs"]) == ("8.66", "5.77")
        assert "device µs" not in page_of([NamedRun("", SAMPLE)]).peaks.head

    def test_are_curves_of_their_own_in_the_chart_of_times(self):
        page = page_of([NamedRun("", self.AUTO)])
        (chart,) = [
            one for section in page.sections for one in section.charts if one.key.endswith("-time")
        ]
        devices = [one for one in chart.series if one.name.endswith("device")]
        assert [one.name for one in devices] == ["out-of-place: device", "in-place: device"]
        assert all(one.dashed for one in devices)
        assert devices[0].x[-1] == 512 << 10
        assert devices[0].y[0] == pytest.approx(5.77, abs=0.005)
        looks = [(one.colour, one.dashed) for one in chart.series]
        assert len(set(looks)) == len(looks)


def method_words(journal):
    page = page_of([NamedRun("", journal)])
    (method,) = [section for section in page.sections if section.key == "method"]
    return " ".join([*method.words, *(" ".join(row) for one in method.facts for row in one.rows)])


def test_the_method_is_that_of_the_run():
    """Copies have no bus bandwidth, and those between host devices no gate."""
    copies = method_words(COPIES)
    assert "device events behind a gate" in copies
    assert "Bus bandwidth" not in copies
    host = [replace(one, runtime="host") for one in COPIES.header.devices]
    on_host = method_words(Journal(replace(COPIES.header, devices=host), results=COPIES.transfers))
    assert "host clock after a barrier" in on_host
    assert "gate" not in on_host.replace("measured gated", "")
    assert "Bus bandwidth" in method_words(SAMPLE)


def test_ranks_on_processors_have_no_clock_of_a_device():
    auto = TestDeviceTimes.AUTO
    host = [replace(one, runtime="host") for one in auto.header.devices]
    on_host = Journal(replace(auto.header, devices=host), auto.results)
    notes = [
        note
        for journal in (on_host, auto)
        for section in page_of([NamedRun("", journal)]).sections
        for chart in section.charts
        if chart.key.endswith("-ranks")
        for note in chart.notes
        if "a rank that comes late" in note
    ]
    assert [note.partition(":")[0] for note in notes] == [
        "of each rank's own work",
        "by the device's clock",
    ]


def test_commands_in_advice_are_code_and_nothing_else_is_html():
    assert page_module._coded("look: `cclmark <p2p>` & `x`") == (
        "look: <code>cclmark &lt;p2p&gt;</code> &amp; <code>x</code>"
    )
    assert (
        "`cclmark" not in render(page_of([NamedRun("", TestDeviceTimes.AUTO)])).split("<script")[0]
    )


def test_wide_intervals_have_no_exponent():
    results = [
        replace(one, summary=replace(one.summary, cv=0.5, half_width=1.93))
        for one in SAMPLE.results
        if one.summary is not None
    ]
    texts = [
        one.sentence
        for _, found in page_of([NamedRun("", Journal(SAMPLE.header, results))]).insights
        for one in found
    ]
    assert any("> ±100 %" in text for text in texts)
    assert not any("e+0" in text for text in texts)
