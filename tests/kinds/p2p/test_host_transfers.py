"""The copies within one of several hosts, from the side of a rank."""

from types import SimpleNamespace

import pytest

from cclmark.journal.item_results import TransferResult
from cclmark.kinds.p2p import host_transfers
from cclmark.kinds.p2p.host_transfers import HostTransfers
from cclmark.rank.reserved_buffers import free_on_all
from cclmark.rendezvous.messages import Job
from cclmark.work.transfers import TransferPlan

HOSTS = [7, 7, 3, 3]  # by rank; the host with the smaller number has the later ranks


class JobOfHosts(SimpleNamespace):
    """The part of a job that copies within hosts need."""

    ranks_here, host_name, _is_here = Job.ranks_here, Job.host_name, Job._is_here


def context_of(rank):
    """A rank that remembers its results and notices instead of sending them."""
    sent = SimpleNamespace(results=[], notices=[])
    settings = SimpleNamespace(inject=[], timeout_s=1.0, max_time_s=1.0)
    of_run = {"hosts": HOSTS, "pending": [], "traced_operations": 0, "settings": settings}
    job = JobOfHosts(rank=rank, ranks=len(HOSTS), **of_run)
    member = SimpleNamespace(
        job=job,
        planned=list(TransferPlan(devices=4, sizes=[4096], hosts=HOSTS, ccl="mpi").transfers()),
        report=sent.results.append,
        notice=sent.notices.append,
        enter=lambda *_, **__: None,
        leave_subgroup=lambda: None,
        rank_group=SimpleNamespace(rank=rank, gather=lambda values: values * len(HOSTS)),
    )
    return SimpleNamespace(rank=member, job=job, devices=[], inherited=set()), sent


@pytest.fixture
def hung(monkeypatch):
    """Every copy hangs."""

    def measure(_context, _runner, transfers, report):
        for index, transfer in transfers.items():
            assert {device for flow in transfer.flows for device in flow} == {0, 1}
            report(TransferResult(index, transfer, "timeout", "no data arrived from DEV0 at DEV1"))
        return {0, 1}

    monkeypatch.setattr(host_transfers, "open_transfers", lambda *_: None)
    monkeypatch.setattr(host_transfers, "measure_transfers", measure)


@pytest.mark.usefixtures("hung")
@pytest.mark.parametrize(("rank", "host"), [(0, "HOST0"), (2, "HOST1")])
def test_the_reason_for_a_missing_figure_names_the_host_as_tables_do(rank, host):
    context, sent = context_of(rank)
    HostTransfers(context)._copy_within_host(SimpleNamespace(rank=0))
    flows = [((rank, rank + 1),), ((rank + 1, rank),)]
    assert [one.transfer.flows for one in sent.results] == flows
    assert {one.reason for one in sent.results} == {f"{host}: no data arrived from DEV0 at DEV1"}


def test_ranks_share_the_memory_of_their_own_host():
    jobs = [context_of(rank)[0].job for rank in range(len(HOSTS))]
    assert [one.ranks_here for one in jobs] == [[0, 1]] * 2 + [[2, 3]] * 2
    assert [one.host_name for one in jobs] == ["HOST0"] * 2 + ["HOST1"] * 2
    alone = JobOfHosts(rank=1, ranks=3, hosts=[])
    assert (alone.ranks_here, alone.host_name) == ([0, 1, 2], "")
    info = SimpleNamespace(runtime="host", memory_bytes=1000)
    device = SimpleNamespace(info=info, free_memory_bytes=lambda: 420)
    group = SimpleNamespace(gather=lambda values: values)
    assert free_on_all(device, group, 4) == 100
