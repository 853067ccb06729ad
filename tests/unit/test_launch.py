from pathlib import Path

import pytest

from cclmark.errors import MissingError, UsageError
from cclmark.launch.devices import choose_devices, quick_cuda_count
from cclmark.launch.diagnosis import RankState, diagnose, exit_kind
from cclmark.plan.cases import Case
from cclmark.rendezvous.board import PHASES, Board, Status
from cclmark.rendezvous.messages import Failed

CASE = Case("all_reduce", "nccl", 2, "float32", 8, 2, False, reduction="sum")


def four(runtime):
    return 4


def none(runtime):
    raise MissingError("no driver")


@pytest.mark.parametrize(
    ("text", "count", "runtime", "indices"),
    [
        ("", None, "cuda", (0, 1, 2, 3)),
        ("", 2, "cuda", (0, 1)),
        ("0,2,3", None, "cuda", (0, 2, 3)),
        ("cuda:1-2", None, "cuda", (1, 2)),
        ("hip:1,3", None, "hip", (1, 3)),
        ("musa", 2, "musa", (0, 1)),
        ("host:3", None, "host", (0, 1, 2)),
        ("host", 5, "host", (0, 1, 2, 3, 4)),
    ],
)
def test_devices_are_chosen(text, count, runtime, indices):
    choice = choose_devices(text, count, four)
    assert (choice.runtime, choice.indices) == (runtime, indices)


def test_without_accelerators_the_host_is_taken():
    assert choose_devices("", None, none).runtime == "host"


@pytest.mark.parametrize("text", ["0,0", "x:1:2", "1-", "cuda:a", "host:0"])
def test_devices_that_cannot_be_read_are_refused(text):
    with pytest.raises((UsageError, MissingError)):
        choose_devices(text, None, four)


def test_devices_that_are_not_there_are_missing():
    with pytest.raises(MissingError, match="4 cuda devices"):
        choose_devices("0,4", None, four)
    with pytest.raises(MissingError, match="5 devices asked for"):
        choose_devices("", 5, four)
    with pytest.raises(MissingError):
        choose_devices("0", None, none)


def test_the_first_accelerators_that_there_are_get_taken(monkeypatch):
    monkeypatch.setattr("cclmark.launch.devices._expected", lambda runtime: True)

    def only(*present):
        def probe(runtime):
            return 2 if runtime in present else 0

        return probe

    assert choose_devices("", None, only("musa")).runtime == "musa"
    assert choose_devices("", None, only("tops", "hip")).runtime == "hip"
    assert choose_devices("", None, only("cnrt", "tang")).runtime == "cnrt"
    # What only goes by another's name has to be asked for.
    assert choose_devices("", None, only("cudart", "tang")).runtime == "host"


def test_a_runtime_that_somebody_named_is_missed(monkeypatch):
    monkeypatch.setenv("CCLMARK_MUSA_LIBRARY", "/nowhere/libmusart.so")
    choice = choose_devices("", None, none)
    assert choice.runtime == "host"
    assert choice.notice.startswith("the Moore Threads devices of this machine cannot be used: no")
    with pytest.raises(MissingError, match="no driver"):
        choose_devices("", 2, none)


@pytest.fixture
def two_nodes(monkeypatch):
    """A machine with /dev/nvidia0 and /dev/nvidia1, and nothing in the environment."""
    monkeypatch.delenv("CCLMARK_CUDA_LIBRARY", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nodes = [Path("/dev/nvidia0"), Path("/dev/nvidia1")]
    monkeypatch.setattr("cclmark.launch.devices._cuda_nodes", lambda: nodes)


@pytest.fixture
def loads(monkeypatch):
    """Says whether the driver's library can be loaded."""

    def set_to(answer):
        monkeypatch.setattr("cclmark.launch.devices._cuda_driver_loads", lambda: answer)

    return set_to


def test_the_quick_count_never_guesses(monkeypatch, two_nodes, loads):
    loads(True)
    assert quick_cuda_count() == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert quick_cuda_count() == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1234,MIG-5")
    assert quick_cuda_count() is None
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    loads(False)
    assert quick_cuda_count() is None
    loads(True)
    monkeypatch.setenv("CCLMARK_CUDA_LIBRARY", "/fake")
    assert quick_cuda_count() is None


def test_devices_without_a_driver_leave_the_host_and_a_notice(two_nodes):
    choice = choose_devices("", None, none)
    assert choice.runtime == "host"
    assert "no driver" in choice.notice
    assert "host is measured" in choice.notice


@pytest.mark.parametrize(("text", "count"), [("", 2), ("cuda", None), ("0", None), ("cuda:0", 1)])
def test_who_asks_for_devices_without_a_driver_gets_none(two_nodes, text, count):
    with pytest.raises(MissingError, match="no driver"):
        choose_devices(text, count, none)


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_devices_that_are_hidden_are_not_missed(monkeypatch, two_nodes, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    choice = choose_devices("", 2, none)
    assert (choice.runtime, choice.indices, choice.notice) == ("host", (0, 1), "")


def state(rank, **changes):
    values = {
        "rank": rank,
        "device": f"cuda:{rank}",
        "pid": 100 + rank,
        "status": Status("timing", 0, 3, 10.0, 70.0),
        "exit_status": None,
        "stopped": False,
        "failure": None,
    }
    return RankState(**{**values, **changes})


def failed(rank, kind, message="text"):
    return Failed(rank, b"", kind, message, "timing", 0)


def test_a_killed_rank_is_named_with_phase_and_case():
    states = [state(0, failure=failed(0, "aborted")), state(1, exit_status=-9)]
    text = diagnose(states, [CASE])
    assert text.startswith(
        "rank 1 (cuda:1, pid 101) was killed by SIGKILL during timing of all_reduce"
    )
    assert "rank 0 (cuda:0, pid 100): timing" in text
    assert exit_kind(states) == "died"


def test_a_stopped_rank_is_blamed_and_not_those_that_waited_for_it():
    states = [state(0, failure=failed(0, "timeout", "waited 3 s")), state(1, stopped=True)]
    assert diagnose(states, [CASE]).startswith("rank 1 (cuda:1, pid 101) is stopped")


def test_a_rank_that_reports_an_error_is_quoted():
    states = [state(0, failure=failed(0, "aborted")), state(1, failure=failed(1, "error", "ECC"))]
    text = diagnose(states, [CASE])
    assert text.startswith("rank 1")
    assert "ECC" in text
    assert exit_kind(states) == "error"


def test_the_rank_that_is_furthest_behind_is_blamed_for_a_hang():
    behind = Status("preparing", 0, 0, 5.0, 65.0)
    states = [state(0, failure=failed(0, "timeout")), state(1, status=behind)]
    assert diagnose(states, [CASE]).startswith(
        "rank 1 (cuda:1, pid 101) did not get any further than"
    )


def test_a_missing_library_is_reported_as_such():
    assert exit_kind([state(0, failure=failed(0, "missing"))]) == "missing"


def test_the_board_says_where_a_rank_is():
    import os

    fd = os.memfd_create("board")
    try:
        writer, reader = Board(fd, 3), Board(fd, 3)
        assert reader.read(2).phase == PHASES[0]
        writer.enter(2, "timing", 7, 5, 60.0)
        status = reader.read(2)
        assert (status.phase, status.case_index, status.batches) == ("timing", 7, 5)
        assert status.deadline_s == pytest.approx(status.since_s + 60)
        assert reader.read(1).phase == PHASES[0]
    finally:
        os.close(fd)


def test_of_several_that_failed_the_first_to_say_so_is_named():
    states = [
        state(0, failure=failed(0, "error", "connection closed"), heard=1),
        state(1, failure=failed(1, "error", "out of luck"), heard=0),
    ]
    text = diagnose(states, [CASE])
    assert text.startswith("rank 1 (cuda:1, pid 101) failed during")
    assert "out of luck" in text
