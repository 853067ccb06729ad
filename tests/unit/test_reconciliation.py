"""One explanation out of what the ranks observed."""

from cclmark.explain.operation import Operation
from cclmark.launch.reconciliation import explanation_of
from cclmark.rendezvous.messages import Explained

RING = Operation("AllReduce", "Float32", 256, -1, "ring", "RING", "LL", 4)
SEND = Operation("Send", "Float32", 64, 1, "send/recv", "", "", 2)


def part(rank, *operations, source="plug-in", reason=""):
    return Explained(rank, b"", 3, source, reason, list(operations), {"RING LL": 7e-6})


def test_ranks_that_agree():
    found = explanation_of([part(0, RING), part(1, RING)])
    assert (found.index, found.source, found.kernel, found.algorithm, found.protocol) == (
        *(3, "plug-in", "ring"),
        *("RING", "LL"),
    )
    assert (found.channels, found.reason, found.predicted_s) == (4, "", {"RING LL": 7e-6})


def test_a_rank_that_ran_something_else_is_named():
    tree = Operation("AllReduce", "Float32", 256, -1, "tree", "TREE", "LL", 1)
    found = explanation_of([part(0, RING), part(1, tree)])
    assert found.reason == (
        "rank 1 ran AllReduce by tree LL on 1 channel, rank 0 AllReduce by ring LL on 4 channels"
    )


def test_a_rank_that_reported_nothing_is_named():
    found = explanation_of([part(0, RING), part(1, reason="the log is full")])
    assert found.reason == "rank 1 reported no operation: the log is full"


def test_messages_may_differ_between_ranks():
    other = Operation("Recv", "Float32", 64, 0, "send/recv", "", "", 4)
    found = explanation_of([part(0, SEND), part(1, other)])
    assert (found.kernel, found.reason) == ("send/recv", "")


def test_the_log_of_one_rank_is_enough():
    found = explanation_of([part(0, RING, source="log"), part(1, source="unknown", reason="none")])
    assert (found.source, found.kernel, found.reason) == ("log", "ring", "")


def test_nothing_known_has_a_reason():
    parts = [part(rank, source="unknown", reason="no interface") for rank in (0, 1)]
    found = explanation_of(parts)
    assert (found.source, found.kernel, found.reason) == ("unknown", "", "no interface")
