"""What a run says about the conditions of its devices, and soaks over time."""

import dataclasses
import re

from msgspec.structs import replace

from cclmark.analysis.device_conditions import ConditionFigures
from cclmark.document.blocks import Document, Finding, RunContent
from cclmark.document.conditions import with_conditions
from cclmark.document.naming import NamedRun
from cclmark.document.page.chart_svg import views_of
from cclmark.journal.schema import Condition
from cclmark.kinds.collective.soak import over_time
from goldens import outline, require_stated
from reports import COLLECTIVES, finding_lines

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


# Over time.


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
