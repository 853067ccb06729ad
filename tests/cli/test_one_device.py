"""What works with one device, and what the commands say that require two."""

import pytest

QUICK = ("--devices", "host:1", "--max-time", "0.05")


def test_a_rank_alone_has_no_bandwidth(cclmark):
    run = cclmark("all_reduce", *QUICK, "-b", "1K", "-e", "1K", "--placement", "in-place")
    (row,) = (line for line in run.out.splitlines() if "fp32" in line)
    assert row.split()[-4:-2] == ["-", "-"]
    assert "one rank: launches and copies alone, nothing is communicated" in run.out
    assert "on one rank, with nothing to communicate (" in run.out


def test_copies_of_one_device(cclmark, fake_cuda):
    run = cclmark("p2p", "-b", "64K", "-g", "1", "--max-time", "0.05", env=fake_cuda.env())
    scopes = {one.transfer.scope for one in run.journal.transfers if one.is_measured}
    assert scopes == {"local", "host"}
    assert "one device: copies within it and with the memory of the host" in run.err
    assert "The fastest copies run at " in run.out
    on_host = cclmark("p2p", *QUICK, "-b", "64K")
    assert {one.transfer.scope for one in on_host.journal.transfers} == {"local"}
    asked = cclmark("p2p", *QUICK, "--scope", "pairs", code=2)
    assert "use --scope local,host" in asked.message


@pytest.mark.parametrize("command", [("pairs",), ("tune", "all_reduce")])
def test_commands_that_require_two_devices_name_the_one_that_does_not(cclmark, command):
    run = cclmark(*command, "--devices", "host:1", code=2)
    assert "cclmark p2p" in run.message
