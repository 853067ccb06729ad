import pytest
from msgspec.structs import replace

from cclmark.document.reference_notes import ReferenceNotes
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceTime, HostDescription
from cclmark.kinds.registry import read_journal
from cclmark.references.match import restrictions
from cclmark.references.reference_store import shipped_references
from places import H200X4
from reports import case_text, exported, insights_on

COLLECTIVES = read_journal(H200X4 / "collectives.jsonl")
UNCHECKED = read_journal(H200X4 / "runs" / "collectives" / "a-3.jsonl")
SIMPLE = read_journal(H200X4 / "runs" / "simple.jsonl")


def times_as_long(summary, factor):
    """The figures of an operation that takes ``factor`` times as long."""
    rate = summary.busbw_bytes_per_s / factor
    return replace(summary, time_s=summary.time_s * factor, busbw_bytes_per_s=rate)


def test_what_is_normal_by_a_reference_is_not_worth_a_look():
    severities = []
    for notes in (ReferenceNotes(shipped_references), None):
        found = insights_on(UNCHECKED, notes)
        (one,) = [one for one in found if one.sentence.startswith("Less than 60% of the 450 GB/s")]
        severities.append(one.severity)
        assert (", as in the reference: sendrecv 36% (grouped" in one.sentence) == bool(notes)
    assert severities == ["note", "look"]


PLAUSIBLE, SLOW = "latencies are plausible: time of the device", "latency slow: the device needs"


@pytest.mark.parametrize(("factor", "words"), [(0.25, PLAUSIBLE), (0.7, SLOW)])
def test_the_time_of_the_device_is_judged_where_it_is_known(factor, words):
    # The call itself takes 2.43 times as long as the reference's.
    smallest = min(
        (one for one in SIMPLE.results if one.summary is not None),
        key=lambda one: (one.case.size_bytes, one.summary.time_s),
    )
    device = DeviceTime(smallest.samples, times_as_long(smallest.summary, factor))
    results = [replace(one, device=device) if one is smallest else one for one in SIMPLE.results]
    journal = Journal(SIMPLE.header, results, footer=SIMPLE.footer)
    text = exported(case_text(references=ReferenceNotes(shipped_references)), journal)
    assert words in text
    assert "up to 1.5 times counts as plausible" in text


def test_what_the_environment_switches_off():
    for variable, words in (
        ("NCCL_P2P_DISABLE=1", ["direct access between devices (P2P) is off"]),
        ("NCCL_P2P_LEVEL=loc", ["direct access between devices (P2P) is off"]),
        *(("NCCL_P2P_LEVEL=NVL", []), ("NCCL_P2P_DISABLE=0", []), ("NCCL_IB_DISABLE=1", [])),
        ("NCCL_PROTO=Simple", ["the choice of protocols is limited"]),
    ):
        header = replace(COLLECTIVES.header, environment=dict([variable.split("=")]))
        assert [one.words for one in restrictions(header, "sendrecv", "torch:nccl")] == words
        assert restrictions(header, "sendrecv", "mpi") == []
    # What only matters between hosts.
    variables = {"a": {"NCCL_IB_DISABLE": "1"}, "b": {"NCCL_NET_GDR_LEVEL": "LOC"}}
    machine = COLLECTIVES.header.machine
    hosts = [HostDescription(machine, name, own) for name, own in variables.items()]
    header = replace(COLLECTIVES.header, environment={}, hosts=hosts)
    settings = [one.setting for one in restrictions(header, "all_reduce", "nccl")]
    assert settings == ["NCCL_IB_DISABLE=1", "NCCL_NET_GDR_LEVEL=LOC"]
