"""A soak on the screen: one table, a few lines, the drift; not a row for every cycle."""

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cclmark.document.exporter import Observer
from cclmark.document.report_kind import View
from cclmark.kinds.collective.document import CaseView, table_of_cases
from cclmark.kinds.registry import read_journal
from cclmark.printable import printable
from cclmark.results.schema import Condition, Verification, WrongOutput
from reports import case_text

SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")
OK = SAMPLE.results[0]
HEADER = msgspec.structs.replace(
    SAMPLE.header,
    settings=msgspec.structs.replace(SAMPLE.header.settings, cycles=0, duration_s=5400.0),
)


def table(every_s=0.0):
    return table_of_cases(View(), CaseView(), is_soak=True, summary_every_s=every_s)


def result(cycle, time_s=1e-5, at_s=0.0, **changes):
    summary = msgspec.structs.replace(OK.summary, time_s=time_s)
    changes = {"cycle": cycle, "summary": summary, "started_at_s": 1e9 + at_s} | changes
    return msgspec.structs.replace(OK, duration_s=1.0, samples=None, **changes)


def soak(results, every_s=0.0, conditions=()):
    exporter = table(every_s)
    text = exporter.begin(HEADER)
    text += "".join(exporter.add(printable(it)) for it in results)
    for condition in conditions:
        exporter.observe(printable(condition))
    return text, exporter.end(SAMPLE.footer)


def test_the_first_cycle_is_a_table_and_the_others_are_not():
    text, end = soak([result(cycle, at_s=cycle * 0.1) for cycle in range(50)])
    assert "soak       1:30:00" in text
    rows = [line for line in text.splitlines() if "1 KiB " in line and "fp32" in line]
    assert len(rows) == 1
    assert "cycle" not in text
    assert "50 of 50 results checked, 0 wrong" in end


def test_summaries_come_ever_less_often_or_as_told():
    results = [result(cycle, at_s=10.0 * cycle) for cycle in range(400)]
    text, _ = soak(results)
    times = [line.split()[0] for line in text.splitlines() if " cycle " in line]
    assert times[:5] == ["0:11", "0:31", "1:11", "2:31", "5:11"]
    assert len(times) == 11
    text, _ = soak(results, every_s=600.0)
    assert sum(" cycle " in line for line in text.splitlines()) == 6


def test_summaries_compare_with_the_first():
    results = [result(cycle, 1e-5 * (1 + (cycle > 20)), cycle) for cycle in range(60)]
    text, _ = soak(results)
    last = [line for line in text.splitlines() if " cycle " in line][-1]
    assert "time over that at first: median 2.000, most 2.000 (all_reduce 1 KiB" in last


def test_drift_is_told_with_the_worst_cycle():
    times_s = [1e-5] * 20 + [5e-5] + [1e-5] * 19 + [1.2e-5] * 20
    _, end = soak([result(cycle, time_s) for cycle, time_s in enumerate(times_s)])
    assert "the first and the last 20 cycles" in end
    (line,) = [line for line in end.splitlines() if "1 KiB" in line]
    assert line.split()[-9:] == [
        "10.00",
        "12.00",
        "1.200",
        "×",
        "5.00",
        "in",
        "cycle",
        "20",
        "slower",
    ]
    assert "1 slower and 0 faster" in end


def test_few_cycles_say_nothing():
    _, end = soak([result(0), result(1, 9e-5)])
    assert "1 with too few cycles" in end
    assert "× 1.80 in cycle 1" in end


def test_many_cases_of_few_cycles_have_one_line():
    def cases(cycle, numbers):
        return [
            result(cycle, case=msgspec.structs.replace(OK.case, size_bytes=1024 * number))
            for number in numbers
        ]

    few = [it for cycle in range(2) for it in cases(cycle, range(1, 45))]
    _, end = soak(few)
    assert "  drift: 44 cases, all with too few cycles\n" in end
    assert "KiB" not in end.partition("drift:")[2].partition("results checked")[0]
    _, end = soak([*few, *(it for cycle in range(2, 12) for it in cases(cycle, [1]))])
    (line,) = [line for line in end.splitlines() if "× " in line]
    assert "1 KiB" in line
    assert "0 slower and 0 faster beyond their 95 % intervals, 43 with too few cycles" in end


def test_wrong_data_is_told_at_once_and_safely():
    finding = WrongOutput(1, 3, 5, "2\x1b[2J", "7")
    wrong = result(4, status="wrong", verification=Verification(3, [finding]))
    text, end = soak([result(0), wrong])
    assert "cycle 4, all_reduce 1 KiB" in text
    assert "rank 1: 3 elements, first at index 5" in text
    assert "\x1b" not in text
    assert "1 wrong" in end


def test_libraries_one_after_the_other_have_a_table_each():
    other = msgspec.structs.replace(OK.case, ccl="shm")
    results = [result(0), result(1), result(0, case=other), result(1, case=other)]
    text, end = soak(results)
    assert text.count("all_reduce · nccl") == text.count("all_reduce · shm") == 1
    assert text.count("peak bus bandwidth") == 2
    assert "needs a look" not in text
    assert "4 of 4 results checked" in end


def test_devices():
    def condition(clock_hz, temperature_c, reasons):
        return Condition(
            1, 0, 0, 0.0, clock_hz, 3.2e9, temperature_c, 400.0, reasons, int(temperature_c)
        )

    assert isinstance(table(), Observer)
    assert not isinstance(case_text(), Observer)
    _, end = soak(
        [result(0)],
        conditions=[condition(1.98e9, 30.0, []), condition(1.3e9, 67.0, ["power cap\x1b"])],
    )
    assert (
        "  rank 1: clock 1300–1980 MHz, memory 3200 MHz, 30–67 °C, 400 W, power cap\\x1b 50 %, "
        "throttled 37 times for heat" in end.replace("50%", "50 %")
    )


@given(
    st.lists(st.tuples(st.integers(-3, 9), st.floats(-1, 1e9), st.floats(-1e9, 1e10)), max_size=30)
)
def test_whatever_a_journal_holds_is_shown(entries):
    text, end = soak([result(cycle, time_s, at_s) for cycle, time_s, at_s in entries])
    assert f"of {len(entries)} results checked" in end
    assert all(character == "\n" or character.isprintable() for character in text + end)


def test_single_cycles_at_both_ends_are_named_as_such():
    assert (
        "drift: the first and the last cycle, medians"
        in soak([result(cycle, 1e-5, cycle) for cycle in range(2)])[1]
    )
