"""Transfers of several hosts: copies within one from the side of a rank, messages between them."""

from itertools import permutations
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from test_copies import COPIES

from cclmark.document.blocks import RunContent
from cclmark.journal.item_results import CaseResult, TransferResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Relation, TransferSummary, Verification, WrongOutput
from cclmark.kinds.p2p import host_transfers
from cclmark.kinds.p2p.document import document_of_transfers
from cclmark.kinds.p2p.figures import MatrixCollector, checks_of
from cclmark.kinds.p2p.host_transfers import HostTransfers, MessageCases
from cclmark.rank.measure import CaseRunner, batches_of, least_batch_s
from cclmark.rank.reserved_buffers import free_on_all
from cclmark.rendezvous.messages import Job
from cclmark.work.transfers import MEASURES, TransferPlan
from reports import insights_on

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


TRANSFERS = list(
    TransferPlan(
        devices=4, sizes=[4096], measures=MEASURES, hosts=[0, 0, 1, 1], ccl="mpi"
    ).messages()
)
INDICES = {(one.measure, one.flows[0]): index for index, one in enumerate(TRANSFERS)}


def result_with_wrong_data(measure, flow, rank):
    """The result of a message whose data are wrong on a rank of the run."""
    cases = MessageCases(TRANSFERS)
    index, pair = INDICES[measure, flow], tuple(sorted(flow))
    places = range(len(cases.of_two))
    (place,) = [place for place in places if cases.index_of(pair, place) == index]
    found = Verification(1, [WrongOutput(rank, 1, 7, "1", "2")])
    one = CaseResult(index, cases.case_of(pair, place), "wrong", verification=found)
    return cases.result_of(one)


@pytest.mark.parametrize(
    ("measure", "flow", "rank", "number"),
    [
        ("unidirectional", (3, 0), 0, 0),
        ("bidirectional", (0, 3), 3, 0),
        ("bidirectional", (0, 3), 0, 1),
        ("latency", (0, 3), 3, 0),
        ("latency", (0, 3), 0, 0),
    ],
)
def test_wrong_data_belong_to_the_flow_that_ends_there(measure, flow, rank, number):
    result = result_with_wrong_data(measure, flow, rank)
    assert result.status == "wrong"
    assert [one.rank for one in result.verification.findings] == [number]
    assert number < len(result.transfer.flows)


def test_a_round_trip_with_wrong_data_is_in_the_verdict_and_among_the_checks():
    latency = result_with_wrong_data("latency", (0, 3), 0)
    assert latency.is_checkable
    assert checks_of([latency]).copies == checks_of([latency]).wrong == 1
    summary = TransferSummary(1e-5, 1e-5, 1e-5, 6)
    results = [*COPIES.transfers[:4], replace(latency, summary=summary)]
    first = insights_on(Journal(COPIES.header, results))[0]
    assert first.severity == "bad"
    assert first.sentence.startswith("Wrong data in 1 case")


def job_on(hosts, rank=0):
    required = Job.__struct_fields__[: -len(Job.__struct_defaults__)]
    return Job(**(dict.fromkeys(required) | {"rank": rank, "ranks": 4, "hosts": hosts}))


def test_batches_of_ranks_on_several_hosts_are_as_long():
    apart = [0, 0, 1, 1]
    for hosts, least_s in ((apart, 5e-3), ([], 100e-6), ([0, 0, 0, 0], 100e-6)):
        assert batches_of(job_on(hosts=hosts)).least_s == least_s
    # Pairs are judged by their own hosts, alike on both ranks.
    for pair, least_s in (((0, 1), 100e-6), ((0, 2), 5e-3)):
        assert [least_batch_s(job_on(apart, rank), pair) for rank in pair] == [least_s] * 2


@pytest.mark.parametrize(
    ("time_s", "iterations"),
    [
        (1e-6, 1000),  # as many as without -r, of the shortest
        (0.01, 900),
        (0.02, 750),  # as many as fit into a quarter of the deadline
        (30.0, 1),
    ],
)
def test_repeated_messages_fit_into_the_deadline_of_a_phase(time_s, iterations):
    runner = object.__new__(CaseRunner)
    changes = {"iterations": 900, "timeout_s": 60.0, "timing": "throughput"}
    runner._settings = replace(COPIES.header.settings, **changes)
    runner._batches = MessageCases([]).batches_of(job_on(hosts=[0, 0, 1, 1]), (0, 2))
    assert runner._iterations(time_s) == iterations


def header_on(hosts, **changes):
    """The header of a run with a device for each host in the list."""
    first = COPIES.header.devices[0]
    devices = [
        replace(first, rank=rank, index=hosts[:rank].count(host), host=f"host{host}")
        for rank, host in enumerate(hosts)
    ]
    return replace(COPIES.header, devices=devices, **changes)


@pytest.mark.parametrize("hosts", [(0, 1), (0, 1, 2), (0, 0, 1), (0, 1, 1)])
@pytest.mark.parametrize("local_too", [False, True])
@pytest.mark.parametrize("triangle", [False, True])
def test_every_matrix_has_the_pairs_that_were_measured(hosts, local_too, triangle):
    """All of them, or the upper triangle, with and without copies in the same matrix."""
    ways = {"directions": ("write", "read"), "latency_method": "copy", "measures": MEASURES}
    flags = {"local_too": local_too, "triangle": triangle, "hosts": hosts, "ccl": "mpi"}
    plan = TransferPlan(devices=len(hosts), sizes=[4096], **ways, **flags)
    settings = replace(COPIES.header.settings, triangle=triangle)
    header = header_on(hosts, settings=settings, relations=[])
    collector = MatrixCollector(header, shares=False)
    summary = TransferSummary(1e-5, 1e-5, 1e-5, 6, bytes_per_s=1e9)
    for index, transfer in enumerate(plan.transfers()):
        assert collector.add(TransferResult(index, transfer, "ok", summary=summary)) == []
    matrices = [one for one in collector.finish() if one.figure != "call"]
    assert {one.series.measure for one in matrices} == set(MEASURES)
    names = matrices[0].rows
    wanted = {
        (names[row], names[column])
        for row, column in permutations(range(len(hosts)), 2)
        if row < column or not triangle
    }
    for matrix in matrices:
        assert {place for place in matrix.cells if place[0] != place[1]} == wanted, matrix.title


def test_both_cells_of_a_pair_that_stands_out_have_its_colour():
    hosts = tuple(range(6))
    of = {"measures": ("bidirectional",), "hosts": hosts, "ccl": "mpi"}
    plan = TransferPlan(devices=6, sizes=[1 << 20], **of)
    relations = [Relation(*pair, "NET", 0) for pair in permutations(hosts, 2)]
    header = header_on(hosts, relations=relations)
    results = []
    for index, transfer in enumerate(plan.transfers()):
        rate = 1e9 if transfer.flows[0] == (1, 4) else 10e9
        summary = TransferSummary(1e-3, 1e-3, 1e-3, 6, bytes_per_s=rate)
        results.append(TransferResult(index, transfer, "ok", summary=summary))
    document = document_of_transfers(RunContent(header, results, None))
    assert not document.in_parts
    (found,) = [one for one in document.findings if "usual for" in one.sentence]
    assert found.sentence.startswith("HOST1:DEV0 → HOST4:DEV0: 1.00 GB/s")
    heat, share = document.blocks
    assert share.is_detail
    assert heat.title.startswith("Bidirectional bandwidth")
    assert heat.texts[1][4] == heat.texts[4][1] == "1.00 ▼"
    places = permutations(range(6), 2)
    assert {place for place in places if "▼" in heat.texts[place[0]][place[1]]} == {(1, 4), (4, 1)}
