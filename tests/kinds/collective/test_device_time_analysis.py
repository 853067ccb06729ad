"""Which cases are launch-bound, and which of their figures is judged."""

from functools import partial

import pytest

from cclmark.analysis.summary import (
    SHARE_OF_COMPARED_LAUNCHES,
    converged,
    judged_summary,
    launches_determine,
)
from cclmark.document.case_fields import CASE_FIELDS
from cclmark.document.naming import NamedRun
from cclmark.document.soundness import of_noise
from cclmark.journal.item_results import CaseResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceTime, Samples
from cclmark.journal.summaries import summarise
from cclmark.work.cases import Case
from samples import header_of, usual_settings

CASE = Case("all_reduce", "nccl", 2, "float32", 8, 2, False, "sum")


def samples(enqueue_us, device_us):
    """Of two ranks, the second of which takes longer."""
    device_s = [[None, None]] if device_us is None else [[device_us * 0.9e-6, device_us * 1e-6]]
    return Samples([[1e-5, 1e-5]], device_s, [[enqueue_us * 0.5e-6, enqueue_us * 1e-6]], 20)


SETTINGS = usual_settings(timing="auto", iterations=None)


def result(time_us, device_us=None):
    device = None
    if device_us is not None:
        replayed = samples(0.1, device_us)
        device = DeviceTime(replayed, summarise(CASE, replayed, SETTINGS), converged=False)
    summary = summarise(CASE, samples(time_us, time_us), SETTINGS)
    return CaseResult(0, CASE, "ok", summary=summary, device=device)


def test_launches_determine_what_the_host_enqueues_no_faster():
    assert launches_determine(samples(9.0, 9.2))
    assert launches_determine(samples(9.0, 10.0))
    assert not launches_determine(samples(5.0, 10.0))
    # One rank without device times is enough not to know.
    assert not launches_determine(samples(5.0, None))
    assert not launches_determine(Samples([[1.0, 1.0]], [[1.0, None]], [[1.0, 1.0]], 1))
    # What is compared has device times wherever launches may matter.
    compared = partial(launches_determine, share=SHARE_OF_COMPARED_LAUNCHES)
    assert compared(samples(5.0, 10.0))
    assert not compared(samples(5.0, 50.0))


def test_the_device_is_judged_where_launches_determine_the_time():
    bound, other = result(9.0, 5.7), result(9.0)
    assert judged_summary(bound).time_s == pytest.approx(5.7e-6)
    assert not converged(bound)
    assert judged_summary(other).time_s == pytest.approx(9e-6)
    assert converged(other)


def test_a_device_time_that_did_not_converge_is_named():
    """Its call did."""
    one = result(9.0, 4.0)
    one.summary.samples = 5
    journal = Journal(header_of(SETTINGS), [one, result(9.0)])
    (found,) = of_noise(journal)
    text = found.sentence
    assert text.startswith("1 case did not get to ±2 % of the median within --max-time 1 s: ")
    assert text.endswith("out-of-place, nccl (device time)")
    run = NamedRun("", Journal(header_of(SETTINGS)))
    cells = CASE_FIELDS.page_cells(run)(one)
    assert (cells["converged"], cells["device_converged"]) == (1, 0)
    assert CASE_FIELDS.page_cells(run)(result(9.0))["device_converged"] is None
    one.device.converged = True
    assert not [*of_noise(journal)]
    assert CASE_FIELDS.page_cells(run)(one)["device_converged"] == 1
