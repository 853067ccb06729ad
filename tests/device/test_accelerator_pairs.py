"""Collectives of pairs of real accelerators: ``pytest -m device tests/device``."""

import pytest

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("two_devices")]


def test_every_operation_of_every_pair_is_right_in_both_placements(measured):
    flags = ["-b", "100", "-e", "20M", "-f", "50", "--placement", "both", "--max-time", "0.02"]
    _, journal = measured("pairs", *flags, "-d", "float32,bfloat16", "-o", "sum,max")
    devices = len(journal.header.devices)
    assert {result.status for result in journal.results} == {"ok"}
    assert {result.verification.where for result in journal.results} == {"device"}
    assert len({result.case.pair for result in journal.results}) == devices * (devices - 1) / 2
    assert len(journal.results) == journal.header.planned_cases


def test_large_messages_of_disjoint_pairs_do_not_disturb_each_other(measured):
    flags = ["-b", "8M", "-e", "256M", "-f", "2", "--only", "all_reduce,broadcast,sendrecv"]
    _, journal = measured("pairs", *flags, "--max-time", "0.3")
    if len(journal.header.devices) < 4:
        pytest.skip("disjoint pairs take four devices")
    ratios = [result.at_once_ratio for result in journal.results if result.beside]
    assert ratios, "nothing was measured at once"
    assert max(ratios) <= 1.02


def test_corruption_is_found_at_its_pair(measured):
    flags = ["-b", "1M", "-e", "1M", "--inject", "corrupt:pair=0-1,index=9", "--max-time", "0.02"]
    _, journal = measured("pairs", *flags, code=1)
    wrong = [result for result in journal.results if result.status == "wrong"]
    assert {result.case.pair for result in wrong} == {(0, 1)}
    assert all(finding.first_element == 9 for one in wrong for finding in one.verification.findings)
