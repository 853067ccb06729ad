"""One explanation out of what the ranks observed."""

from cclmark.explain.operation import Operation
from cclmark.launch.rank_messages import explanation_of
from cclmark.rendezvous.messages import Explained

RING = Operation("AllReduce", "Float32", 256, -1, "ring", "RING", "LL", 4)
SEND = Operation("Send", "Float32", 64, 1, "send/recv", "", "", 2)


def part(rank, *operations, source="plug-in", reason="", is_silent=False):
    return Explained(
        *(source, reason, list(operations), {"RING LL": 7e-6}),
        **{"rank": rank, "token": b"", "index": 3, "is_silent": is_silent},
    )


def test_ranks_that_agree():
    found = explanation_of([part(0, RING), part(1, RING)])
    assert (found.index, found.source, found.kernel, found.algorithm, found.protocol) == (
        *(3, "plug-in", "ring"),
        *("RING", "LL"),
    )
    assert (found.channels, found.reason, found.predicted_s) == (4, "", {"RING LL": 7e-6})
    assert not found.is_doubtful


def test_a_rank_that_ran_something_else_is_named():
    tree = Operation("AllReduce", "Float32", 256, -1, "tree", "TREE", "LL", 1)
    found = explanation_of([part(0, RING), part(1, tree)])
    assert found.reason == (
        "rank 1 ran AllReduce by tree LL on 1 channel, rank 0 AllReduce by ring LL on 4 channels"
    )
    assert found.is_doubtful


def test_a_rank_that_reported_nothing_is_named():
    found = explanation_of([part(0, RING), part(1, reason="the log is full")])
    assert found.reason == "rank 1 reported no operation: the log is full"
    assert found.is_doubtful


def test_a_silent_first_rank_is_named():
    """The log lines of rank 0 do not hide that only the plug-in of rank 1 has reported."""
    parts = [part(0, RING, source="log", is_silent=True), part(1, RING), part(2, RING)]
    found = explanation_of(parts)
    assert (found.source, found.is_doubtful) == ("plug-in", True)
    assert found.reason == (
        "rank 0 reported no operation to its plug-in; its log has AllReduce by ring LL on 4 "
        "channels"
    )


def test_settings_that_no_rank_uses_are_ignored():
    parts = [part(rank, source="unknown", reason="r") for rank in (0, 1)]
    parts[0].ignored = {"A": "it requires B", "C": "no file"}
    parts[1].ignored = {"A": "it requires B"}
    assert explanation_of(parts).ignored == {"A": "it requires B"}


def test_ranks_that_are_all_silent_are_doubtful():
    parts = [part(0, reason="other"), part(1, reason="no event", is_silent=True)]
    found = explanation_of(parts)
    assert (found.source, found.reason, found.is_doubtful) == ("unknown", "no event", True)


def test_reasons_of_ranks_that_know_are_kept_once():
    parts = [part(rank, RING, reason="the tuner plug-in is not called") for rank in (0, 1)]
    assert explanation_of(parts).reason == "the tuner plug-in is not called"


def test_messages_may_differ_between_ranks():
    other = Operation("Recv", "Float32", 64, 0, "send/recv", "", "", 4)
    found = explanation_of([part(0, SEND), part(1, other)])
    assert (found.kernel, found.reason) == ("send/recv", "")


def test_the_log_of_one_rank_is_enough():
    found = explanation_of([part(0, RING, source="log"), part(1, source="unknown", reason="none")])
    assert (found.source, found.kernel, found.reason) == ("log", "ring", "")
    assert not found.is_doubtful


def test_logs_of_ranks_that_differ():
    ring, tree = (Operation("allreduce", "", 0, -1, one, one, "", 0) for one in ("ring", "tree"))
    found = explanation_of([part(0, ring, source="log"), part(1, tree, source="log")])
    assert found.reason == "rank 1 ran allreduce by tree, rank 0 allreduce by ring"


def test_the_reason_of_what_is_known_is_kept():
    selected = [part(rank, RING, source="variables", reason="a setting") for rank in (0, 1)]
    assert explanation_of(selected).reason == "a setting"


def test_nothing_known_has_a_reason():
    parts = [part(rank, source="unknown", reason="no interface") for rank in (0, 1)]
    found = explanation_of(parts)
    assert (found.source, found.kernel, found.reason) == ("unknown", "", "no interface")
    assert not found.is_doubtful
