"""Launches of copies that are not held: ``scenarios/copies.txt`` has what else is copied."""

import re

import pytest
from vendors import ECCL, MACA

COPIES = ("p2p", "-b", "64K", "-t", "CE", "--max-time", "0.02")
COPY_US = 2000


@pytest.mark.parametrize("copy_us", [0, COPY_US])
def test_launches_bound_the_time_of_copies_that_are_not_held(cclmark, copy_us) -> None:
    only = ("-p", "uniBw", "-j", "1", "-r", "20", "--gate", "events")
    env = MACA.env(CCLMARK_FAKE_COPY_US=str(copy_us))
    run = cclmark(*COPIES, "--devices", "maca:0-1", *only, env=env)
    [found] = run.journal.transfers
    summary = found.summary
    if copy_us:
        # A launch takes microseconds: it is hidden behind the copy before.
        assert summary.launch_s < 0.1 * summary.time_s
    least_s = min(
        one - other
        for rows in zip(found.samples.device_s, found.samples.launch_s, strict=True)
        for one, other in zip(*rows, strict=True)
    )
    assert summary.time_s >= copy_us * 1e-6
    assert least_s <= summary.time_s
    assert run.journal.header.settings.gate == "events"
    if not copy_us:
        assert "launches are at most" in run.out
        assert "≥: a bound" in run.out
        table = run.out.partition("all matrices in a line each")[2]
        assert re.search(r"\n  Unidirectional .+ ≥\S+ GB/s +≥\S+ \(DEV0, DEV1\)", table)


def test_a_launch_takes_no_longer_than_its_copy(cclmark) -> None:
    env = ECCL.env(CCLMARK_FAKE_HOST_FUNCTIONS="beside")
    run = cclmark(*COPIES, "--devices", "tops:0-1", env=env)
    assert all(0 <= one.summary.launch_s <= one.summary.time_s for one in run.journal.transfers)
