import os
import time

import pytest

from cclmark import _engine as engine
from cclmark.kinds.registry import KINDS
from cclmark.rank.all_or_none import in_step
from cclmark.rank.rank import Rank
from cclmark.rendezvous.messages import Arrived
from patience import scaled
from samples import usual_job, usual_settings


class LonelyClient:
    """A way to a first process at which nobody else arrives."""

    def __init__(self):
        self.sent = []

    def send(self, message):
        self.sent.append(message)

    def gather(self, key, part, parts, value, waiting):
        while True:
            waiting()
            time.sleep(0.01)


def test_what_one_host_alone_refuses_is_its_failure_soon():
    """Of a rank whose only peer is on another host and does something else."""
    files = {name: os.memfd_create(name) for name in ("rank_group_fd", "board_fd")}
    for file in files.values():
        os.truncate(file, 1 << 20)
    job = usual_job(hosts=[0, 1], settings=usual_settings(timeout_s=30.0), **files)
    rank = Rank(job, LonelyClient(), KINDS["collective"])
    assert rank.client.sent == [Arrived(0, b"")], "it is heard as soon as it has a connection"
    rank.enter("preparing")

    def refuse():
        raise engine.UnsupportedError("there is no such thing")

    begin_s = time.monotonic()
    with pytest.raises(engine.EngineError, match="there is no such thing") as caught:
        in_step(rank.agreement, refuse, grace_s=0.3)
    assert not isinstance(caught.value, engine.UnsupportedError)
    assert time.monotonic() - begin_s < scaled(10)
    rank.rank_group = rank.agreement = None  # which hold it in turn
    for file in files.values():
        os.close(file)
