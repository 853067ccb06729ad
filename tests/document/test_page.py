"""The page: whatever a journal holds, it can run nothing but its own script."""

import base64
import dataclasses
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.document.blocks import Table
from cclmark.document.naming import NamedRun
from cclmark.document.page import page as page_module
from cclmark.document.page.drawings import DiagramLayout, DiagramLine, stage_bars
from cclmark.document.page.page import harmless, packed, render, shortened
from cclmark.explain.paths import Route
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceDescription, Paths, Relation, Ring, Trace, TracedStage
from cclmark.kinds.registry import read_journal
from cclmark.report.run_page import device_map, diagrams_of, page_of
from examples import examples
from places import TESTS
from reports import COLLECTIVES, explained, page_data

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")

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


def render_journal(journal, name="run"):
    return render(page_of([NamedRun(name, journal)]))


def test_the_policy_lets_just_the_pages_script_and_style_be_used():
    html = render_journal(SAMPLE)
    parsed = Parsed(html)
    allowed = set(re.findall(r"'sha256-([^']+)'", parsed.policy))
    (script,) = (text for kind, text in parsed.scripts if kind == "")
    (style,) = re.findall("<style>(.*?)</style>", html, re.DOTALL)
    assert allowed == {
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (script, style)
    }
    assert parsed.policy.startswith("default-src 'none'; ")
    for word in ("http", "unsafe", "connect-src", "*"):
        assert word not in parsed.policy
    assert parsed.handlers == []
    assert {*parsed.ids.values()} == {1}


def drawings_in(data):
    """The further views of charts."""
    return [svg for views in data["views"].values() for _, svg, _ in views[1:]]


def test_large_pages_have_the_drawings_of_folded_sections_compressed(monkeypatch):
    whole = render_journal(SAMPLE)
    inline = re.findall(r'data-chart="([^"]+)">(<svg.*?</svg>)</div>', whole)
    assert len(inline) > 1 and "drawings" not in page_data(whole)
    monkeypatch.setattr("cclmark.document.page.page._MOST_DRAWN", len(inline[0][1]))
    html = render_journal(SAMPLE)
    assert re.findall(r'data-chart="([^"]+)">(<svg.*?</svg>)</div>', html) == inline[:1]
    assert page_data(html)["drawings"] == dict(inline[1:])


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_strings_stay_text(text):
    html = render_journal(hostile_journal(text), text)
    usual, parsed = Parsed(render_journal(SAMPLE)), Parsed(html)
    for tag in ("script", "img", "style", "iframe"):
        assert parsed.tags[tag] == usual.tags[tag], tag
    assert parsed.handlers == []
    assert all(address.startswith("#") for address in parsed.addresses)
    assert [kind for kind, _ in parsed.scripts] == [kind for kind, _ in usual.scripts]
    assert parsed.policy == usual.policy
    assert not [body for kind, body in parsed.scripts if kind != "" and "<" in body]
    drawn = Parsed("".join(drawings_in(page_data(html))))
    assert drawn.tags.keys() <= {"svg", "g", "path", "text"}
    assert drawn.handlers == []


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60))
@example("<>&\u2028\u2029\x7f")
def test_any_string_can_stand_in_a_script(text):
    encoded = harmless(json.dumps({"text": [text]}, ensure_ascii=False))
    for character in "<>&\u2028\u2029":
        assert character not in encoded
    assert json.loads(encoded)["text"] == [text]


def test_a_lone_surrogate_can_be_packed():
    assert packed("a\ud800b").isascii()


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
def test_numbers_have_six_digits(value, short):
    assert shortened(value) == short


NUMBERS = st.sampled_from((0.0, -1.0, 1e100, 1e-100, 1e-6, 12.5))
SIZES = st.sampled_from((-8, 0, 1, 8, 1 << 62))


@st.composite
def absurd_results(draw):
    """A result with impossible numbers, as in a journal that was written by hand."""
    base = draw(st.sampled_from([one for one in SAMPLE.results if one.summary is not None]))
    names = ("time_s", "min_s", "p95_s", "p99_s", "max_s", "spread", "busbw_bytes_per_s")
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


def test_cells_that_stand_out_have_a_class():
    table = Table("ratios", ("a", "b"), [("1", "slower\n2"), ("3", "")], "<>", is_last_below=True)
    table = dataclasses.replace(table, looks=[(0, 1, "bad")])
    page = render(dataclasses.replace(page_of([NamedRun("", SAMPLE)]), peaks=table))
    rows = re.findall("<tr>(<th scope=.row.*)</tr>", page)
    assert rows[:3] == [
        '<th scope="row">1</th><td class="number bad">slower</td>',
        '<th scope="row"></th><td class="number bad">2</td>',
        '<th scope="row">3</th><td class="number"></td>',
    ]
    assert "<span>Ratios</span>" in page


def test_commands_in_advice_are_code_and_nothing_else_is_html():
    assert page_module._coded("look: `cclmark <p2p>` & `x`") == (
        "look: <code>cclmark &lt;p2p&gt;</code> &amp; <code>x</code>"
    )
    assert "`cclmark" not in render(page_of([NamedRun("", SAMPLE)])).split("<script")[0]


def test_hosts_are_apart_and_everything_is_within_the_drawing():
    layout = DiagramLayout({rank: f"node{rank // 8}" for rank in range(40)})
    ring = [DiagramLine(rank, (rank + 1) % 40, arrow=True) for rank in range(40)]
    drawn = layout.drawn("t", "s", ring)
    assert [box.label for box in drawn.boxes] == [f"node{number}" for number in range(5)]
    for node, box in zip(drawn.nodes, [box for box in drawn.boxes for _ in range(8)], strict=True):
        assert box.x < node.x - drawn.radius
        assert node.x + drawn.radius < box.x + box.width <= drawn.width
        assert box.y < node.y - drawn.radius
        assert node.y + drawn.radius < box.y + box.height <= drawn.height


@pytest.mark.parametrize("ranks", [1, 65])
def test_one_rank_and_very_many_are_not_drawn(ranks):
    devices = [DeviceDescription(rank, "a", "cuda", rank, "d", 1) for rank in range(ranks)]
    header = replace(COLLECTIVES.header, devices=devices, relations=[])
    routes = [Route(rank, (rank + 1) % ranks, "P2P/CUMEM") for rank in range(ranks)]
    paths = Paths("nccl", "log", routes=routes, rings=[Ring(list(range(ranks)), 1)])
    assert diagrams_of(header, paths) == []


def test_a_route_of_an_unknown_rank_is_left_out():
    paths = Paths("nccl", "log", routes=[Route(0, 9, "P2P/CUMEM"), Route(0, 1, "P2P/CUMEM")])
    (drawn,) = diagrams_of(COLLECTIVES.header, paths)
    assert len(drawn.edges) == 1


def with_text(text):
    """Journals with what ran and with a trace, of which all texts are ``text``."""
    trace = Trace(text, text, 1, {0: [TracedStage(text, 0.0, 1.0)]}, [text])
    return (
        explained(text, text, parameters={text: text}, messages=[text]),
        dataclasses.replace(COLLECTIVES, traces=[trace]),
    )


@pytest.mark.parametrize("text", ["<svg onload=alert(1)>", "</pre></script><script>alert(1)"])
def test_texts_of_libraries_and_traces_stay_text(text):
    for hostile, usual in zip(with_text(text), with_text("usual"), strict=True):
        page = render_journal(hostile)
        for tag in ("<svg", "<script", "</script", "</pre"):
            assert page.count(tag) == render_journal(usual).count(tag)
        assert not re.search(r"onload=alert\(1\)>", page)


STAGE = TracedStage("tracing", 0.02, 0.08, 1 << 20)


def test_very_many_ranks_are_not_all_drawn():
    drawn = stage_bars("Stages", "rank", {rank: [STAGE] for rank in range(100)})
    assert len(drawn.rows) == 64
    assert drawn.note.startswith("36 more")


def relations(*kinds):
    pairs = [(0, 1), (0, 2), (1, 2)]
    return [Relation(*pair, kind) for pair, kind in zip(pairs, kinds, strict=True)]


@pytest.mark.parametrize(("kinds", "legend"), [(["NV4"] * 3, None), (["NV4", "SYS", "SYS"], 2)])
def test_connections_of_devices_are_drawn_unless_all_are_alike(kinds, legend):
    header = replace(
        COLLECTIVES.header, devices=COLLECTIVES.header.devices[:3], relations=relations(*kinds)
    )
    drawn = device_map(header)
    assert [len(one.legend) for one in drawn] == ([] if legend is None else [legend])
    html = render_journal(dataclasses.replace(COLLECTIVES, header=header))
    assert ("NV4 between all 3 pairs" in html) == (legend is None)
