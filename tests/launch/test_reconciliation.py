"""One explanation out of what the ranks observed."""

from cclmark.explain.operation import Operation
from cclmark.launch.rank_messages import explanation_of
from cclmark.rendezvous.messages import Explained
from goldens import outline, require_golden

RING = Operation("AllReduce", "Float32", 256, -1, "ring", "RING", "LL", 4)
SEND = Operation("Send", "Float32", 64, 1, "send/recv", "", "", 2)


def part(rank, *operations, source="plug-in", reason="", is_silent=False):
    return Explained(
        *(source, reason, list(operations), {"RING LL": 7e-6}),
        **{"rank": rank, "token": b"", "index": 3, "is_silent": is_silent},
    )


TREE = Operation("AllReduce", "Float32", 256, -1, "tree", "TREE", "LL", 1)
RECEIVED = Operation("Recv", "Float32", 64, 0, "send/recv", "", "", 4)
LOGGED = [Operation("allreduce", "", 0, -1, one, one, "", 0) for one in ("ring", "tree")]
IGNORED = part(0, source="unknown", reason="r"), part(1, source="unknown", reason="r")
IGNORED[0].ignored = {"A": "it requires B", "C": "no file"}
IGNORED[1].ignored = {"A": "it requires B"}
PARTS = {
    "ranks that agree": [part(0, RING), part(1, RING)],
    "a rank that ran something else": [part(0, RING), part(1, TREE)],
    "a rank that reported nothing": [part(0, RING), part(1, reason="the log is full")],
    # The log lines of rank 0 do not hide that only the plug-in of rank 1 has reported.
    "a silent first rank": [
        part(0, RING, source="log", is_silent=True),
        *(part(1, RING), part(2, RING)),
    ],
    "settings that no rank uses": IGNORED,
    "silent ranks": [part(0, reason="other"), part(1, reason="no event", is_silent=True)],
    "a reason of ranks that know": [part(rank, RING, reason="not called") for rank in (0, 1)],
    "messages, which may differ": [part(0, SEND), part(1, RECEIVED)],
    "the log of one rank": [
        part(0, RING, source="log"),
        part(1, source="unknown", reason="none"),
    ],
    "logs that differ": [part(rank, one, source="log") for rank, one in enumerate(LOGGED)],
    "what is selected": [
        part(rank, RING, source="variables", reason="a setting") for rank in (0, 1)
    ],
    "nothing known": [part(rank, source="unknown", reason="no interface") for rank in (0, 1)],
}


def test_explanations():
    found = {name: explanation_of(parts) for name, parts in PARTS.items()}
    doubtful = [name for name, one in found.items() if one.is_doubtful]
    require_golden("explanations.txt", outline({**found, "doubtful": doubtful}))
