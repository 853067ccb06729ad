"""Messages that take longer than their neighbours suggest, and what would have been faster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.analysis.irregularities import alternatives, kinks
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Samples
from cclmark.journal.summaries import summarise
from cclmark.kinds.registry import read_journal
from cclmark.work.cases import Case
from cclmark.work.sizes import format_size
from places import RESULTS
from samples import usual_settings

MIB = 1 << 20
# Journals with a kink, and where it is; all others have none.
KNOWN = {
    "h200x2/all_reduce.jsonl": ["all_reduce 2 MiB"],
    "h200x4/collectives.jsonl": ["sendrecv 128 MiB"],
    "h200x4/report/collectives.jsonl": ["sendrecv 128 MiB"],
    "h200x4/runs/ctas8.jsonl": ["all_reduce 2 MiB"],
}


def curve(times_s):
    """Results of one operation by size in bytes."""
    results = []
    for size, time_s in times_s.items():
        case = Case("sendrecv", "nccl", 4, "float32", size, size // 4, False)
        host_s = [[time_s] * 4] * 6
        samples = Samples(host_s=host_s, device_s=host_s, enqueue_s=host_s, operations_per_sample=1)
        summary = summarise(case, samples, usual_settings())
        results.append(CaseResult(len(results), case, "ok", summary=summary))
    return results


def test_a_message_that_takes_too_long_is_found_with_the_better_choices():
    results = curve({32 * MIB: 224e-6, 128 * MIB: 826e-6, 512 * MIB: 1517e-6})
    (kink,) = kinks(results)
    assert (kink.at, kink.below, kink.above) == (results[1], results[0], results[2])
    assert kink.expected_s == pytest.approx(224e-6 + (1517e-6 - 224e-6) * 96 / 480)
    assert kink.share == pytest.approx(1 - kink.expected_s / 826e-6)
    (larger,) = alternatives(kink.at, results)
    assert (larger.result, larger.number) == (results[2], 0.25)
    assert larger.time_s == pytest.approx(1517e-6 / 4)


def test_several_smaller_messages_can_be_the_better_choice():
    results = curve({4 * MIB: 20e-6, 16 * MIB: 200e-6, 64 * MIB: 320e-6})
    smaller, larger = alternatives(results[1], results)
    assert (smaller.result, smaller.number) == (results[0], 4)
    assert smaller.time_s == pytest.approx(80e-6)
    assert larger.result is results[2]


@given(
    latency_s=st.floats(1e-6, 1e-4),
    rate=st.floats(1e8, 1e12),
    jitter=st.lists(st.floats(0.85, 1.15), min_size=10, max_size=10),
)
def test_a_latency_and_a_bandwidth_have_no_kink_with_any_ordinary_jitter(latency_s, rate, jitter):
    sizes = [8 << 2 * step for step in range(14)][-10:]
    times_s = {
        size: (latency_s + size / rate) * part for size, part in zip(sizes, jitter, strict=True)
    }
    assert kinks(curve(times_s)) == []


def test_noisy_and_small_messages_and_wide_steps_are_not_judged():
    times_s = {32 * MIB: 224e-6, 128 * MIB: 826e-6, 512 * MIB: 1517e-6}
    results = curve(times_s)
    noisy = replace(results[1], summary=replace(results[1].summary, spread=0.2))
    assert kinks([results[0], noisy, results[2]]) == []
    assert kinks(curve({size >> 10: time_s for size, time_s in times_s.items()})) == []
    assert kinks(curve({8 * MIB: 56e-6, 128 * MIB: 826e-6, 512 * MIB: 1517e-6})) == []


@pytest.mark.parametrize(
    "path", sorted(RESULTS.rglob("*.jsonl")), ids=lambda path: str(path.relative_to(RESULTS))
)
def test_of_all_stored_journals_few_have_a_kink(path):
    results = [one for one in read_journal(path).cases if one.case.pair is None]
    found = [f"{one.at.case.operation} {format_size(one.at.case.size_bytes)}"
             for one in kinks(results)]  # fmt: skip
    assert found == KNOWN.get(str(path.relative_to(RESULTS)), [])
