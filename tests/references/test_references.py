import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.document.reference_notes import ReferenceNotes, verdict_of, verdict_text
from cclmark.journal.schema import HostDescription, Imported, Link
from cclmark.kinds.registry import read_journal
from cclmark.references.copy_matching import CopyReferences
from cclmark.references.matching import References, multicast_of
from cclmark.references.reference import Reference, Source
from cclmark.references.reference_files import parse_references, references_text
from cclmark.references.reference_store import own_references, shipped_references
from cclmark.work.device_names import UNKNOWN, kind_of
from cclmark.work.islands import Island
from cclmark.work.items import P2P
from cclmark.work.operations import OPERATIONS
from goldens import require_outcomes
from places import H200X4, TESTS

SHIPPED = shipped_references()
SWEEP = read_journal(H200X4 / "collectives.jsonl")
COPIES = read_journal(H200X4 / "p2p.jsonl")
GIB = 1 << 30


unknown = {}.get  # what nobody knows of multicast


def of(source, **fields):
    found = [one for one in SHIPPED if one.source.name == source]
    return [one for one in found if all(getattr(one, key) == v for key, v in fields.items())]


def figure(source, size_bytes, **fields):
    (one,) = of(source, size_bytes=size_bytes, **fields)
    return one.busbw_bytes_per_s / 1e9


def test_all_tables_of_the_sources_are_there():
    counts = {}
    for one in SHIPPED:
        counts[one.source.name] = counts.get(one.source.name, 0) + 1
    assert counts == {
        "a100x8": 2,
        "arxiv-2411-13055": 6,
        "azure-nhc": 4,
        "flagcx-perf": 4 * 16,
        "h200-by-count": 10,
        "h200x8-nccl": 9,
        "hccl-test-ascend": 7,
        "mi300x": 2,
        "ml-engineering-4-nodes": 20,
        "ml-engineering-torch": 3,
        "nccl-tests-h200x4": 124,
        "nccl-tests-h200x4-rounds": 140,
        "nvbandwidth-h200x4": 9,
        "nvidia-gtc24": 17,
        "p2p-spec": 3,
        "p5en-h200": 5,
        # 32 matrices of eight devices, 18 of four.
        "pccl-ppu": 32 * 56 + 18 * 12,
    }


def test_figures_that_people_know():
    assert figure("h200x8-nccl", 16 * GIB, multicast=True) == pytest.approx(482.26)
    assert figure("h200x8-nccl", 16 * GIB, multicast=False) == pytest.approx(367.61)
    assert figure("a100x8", GIB) == pytest.approx(229.04)
    assert figure("h200-by-count", 8 * GIB, devices=(("H200", 8),), multicast=True) == 473.1
    assert figure("p5en-h200", 4 * GIB, conditions="p5en, NCCL_ALGO=Ring") == 364.65
    assert figure("p5en-h200", 4 * GIB, conditions="p5en") == 364.87
    assert figure("flagcx-perf", GIB, devices=(("A800", 2),)) == pytest.approx(141.313472)
    assert figure("ml-engineering-4-nodes", 16 << 20) == pytest.approx(93.93)
    copy = {"pair": (0, 4), "engine": "CE", "direction": "write", "hosts": 1}
    (cell,) = of("pccl-ppu", **copy, measure="unidirectional")
    assert (cell.busbw_bytes_per_s / 1e9, cell.hops) == (pytest.approx(90.37), 2)
    for name in ("a100x8", "h200-by-count", "h200x8-nccl", "mi300x", "p2p-spec"):
        for one in of(name):
            assert "stas00/ml-engineering" in one.source.url
            assert one.tool


def test_bandwidths_go_with_times():
    """What a source gives twice must agree, within the digits that it prints."""
    for one in SHIPPED:
        assert one.operation in (P2P, *OPERATIONS)
        if one.operation == P2P or not one.count:
            continue
        factor = OPERATIONS[one.operation].bus_factor(one.count)
        if one.algbw_bytes_per_s is not None and one.busbw_bytes_per_s is not None:
            off = abs(one.algbw_bytes_per_s * factor - one.busbw_bytes_per_s)
            assert off <= 0.005e9 * (1 + factor) + 1e3
        if one.time_s and one.size_bytes and one.busbw_bytes_per_s is not None:
            # FlagCX prints whole microseconds, nccl-tests hundredths.
            digit_s = 0.51e-6 if one.library == "flagcx" else 0.0051e-6
            slow, fast = (one.size_bytes / (one.time_s + off) for off in (digit_s, -digit_s))
            assert slow * factor - 0.0051e9 <= one.busbw_bytes_per_s <= fast * factor + 0.0051e9


def test_a_run_reads_only_what_is_of_its_devices():
    for kind in {kind for one in SHIPPED for kind in dict(one.devices)}:
        read = [one for one in shipped_references({kind}) if kind in dict(one.devices)]
        assert read == [one for one in SHIPPED if kind in dict(one.devices)]
    assert "pccl-ppu" not in {one.source.name for one in shipped_references({"H200"})}
    assert shipped_references({"XEON"}) == []


def test_the_page_lists_every_source():
    page = (H200X4.parents[2] / "docs" / "reference" / "references.md").read_text()
    listed = set(re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE))
    assert listed == {one.source.name for one in SHIPPED}


def test_kinds_of_devices():
    def outcome(name):
        kind = kind_of(name)
        assert kind_of(kind) == kind
        return kind

    require_outcomes(TESTS / "references" / "device_names.txt", outcome)
    assert kind_of("") == kind_of("Unknown") == UNKNOWN


def case_of(operation="all_reduce", size_bytes=512 << 20, in_place=False, **changes):
    found = next(
        one
        for one in SWEEP.results
        if one.case.operation == operation and one.case.in_place == in_place and one.summary
    )
    factor = OPERATIONS[operation].bus_factor(found.case.ranks)
    busbw = 346.43e9
    summary = replace(found.summary, busbw_bytes_per_s=busbw, time_s=size_bytes * factor / busbw)
    return replace(found.case, size_bytes=size_bytes, **changes), summary


FLAGCX = Imported("FlagCX perf", "flagcx", ranks=4)
IMPORTED = {
    "flagcx": FLAGCX,
    "flagcx of a host": replace(FLAGCX, hosts=1),
    "flagcx of two hosts": replace(FLAGCX, hosts=2),
    "nccl-tests": Imported("nccl-tests", "nccl-tests", ranks=4),
}
ISLANDS = [Island(0, 1, "nccl"), Island(2, 3, "nccl")]
ROUNDS = of("nccl-tests-h200x4-rounds", operation="all_reduce")
OWN = Reference(
    *(Source("rack", "our rack", own=True), "all_reduce", (("H200", 4),)),
    size_bytes=512 << 20,
    busbw_bytes_per_s=300e9,
)
#: Sets of references by name; other names are those of sources.
REFERENCES = {
    "rounds without types": [replace(one, dtype="", reduction="") for one in ROUNDS],
    "one thread": of("nccl-tests-h200x4", operation="broadcast", launch="one thread"),
    "own": [OWN],
    "own, warm": [replace(OWN, multicast=False, conditions="by x, cache warm, root 1")],
    "own, rounds": [replace(ROUNDS[0], tool="", size_bytes=512 << 20)],
}
CASE_FIELDS = ("operation", "size_bytes", "in_place", "ccl", "dtype", "reduction")


def compared(
    *, count=4, name="NVIDIA H200", links=True, references="", imported=None, hosts=0, **changes
):
    """The reference of a case with these fields, measured with these settings.

    ``hosts``: their number, if it is not 1; None if it is unknown.
    """
    case = {field: changes.pop(field) for field in CASE_FIELDS if field in changes}
    environment = changes.pop("environment", {"NCCL_NVLS_ENABLE": "0"})
    if "islands" in changes:
        changes |= {"islands": ISLANDS, "through_host": True}
    known = (REFERENCES.get(references) or of(references)) if references else SHIPPED
    first = SWEEP.header.devices[0]
    host = "" if hosts is None else first.host
    header = replace(
        SWEEP.header,
        devices=[replace(first, rank=rank, name=name, host=host) for rank in range(count)],
        links=[Link(rank, "NVLink", 18, 25e9, "4") for rank in range(count) if links],
        environment=environment,
        imported=IMPORTED.get(imported),
        settings=replace(SWEEP.header.settings, **changes),
        hosts=[HostDescription(SWEEP.header.machine, str(one), {}) for one in range(hosts or 0)],
    )
    return References(known, header).nearest(*case_of(ranks=count, **case))


def test_our_own_sweep_is_as_nccl_tests_is():
    """4 × H200, taken by cclmark and by nccl-tests: every share from 2 MiB on is near 1."""
    shares = []
    known = References(SHIPPED, SWEEP.header)
    for one in SWEEP.results:
        if one.summary is None or one.case.size_bytes < 2 << 20:
            continue
        match = known.nearest(one.case, one.summary)
        if match is not None and match.exact:
            assert match.reference.size_bytes == one.case.size_bytes
            shares.append(match.share)
    assert len(shares) > 40
    assert 0.95 < min(shares) <= max(shares) < 1.05


def test_what_differs_is_named_and_prevents_a_verdict():
    """Nothing differs where it was measured in the same way, and much is never compared."""

    def outcome(line):
        match = compared(**json.loads(line))
        if match is None:
            return "none"
        assert match.exact == (not match.differences)
        assert match.exact or verdict_of(match) == ""
        words = f"{match.share:.1%} of {match.words}"
        verdict, *_ = verdict_text(match).split(":")
        return "\n".join([words, *(match.differences or ["exact"]), verdict])

    require_outcomes(TESTS / "references" / "compared.txt", outcome)


def test_algorithms_tell_of_multicast_by_their_whole_names():
    """The operations of which a choice switches it off."""

    def outcome(choice):
        names = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall")
        off = [one for one in names if multicast_of({"NCCL_ALGO": choice}, one) is False]
        return " ".join(off) or "none"

    require_outcomes(TESTS / "references" / "algorithms.txt", outcome)


def matches(references=SHIPPED, header=COPIES.header):
    known = CopyReferences(references, header)
    for one in COPIES.transfers:
        if one.summary is not None:
            yield one.transfer, known.nearest(one.transfer, one.summary)


def test_our_copies_are_as_nvbandwidths():
    found = [(transfer, match) for transfer, match in matches() if match is not None]
    shares = [match.share for _, match in found]
    assert len(shares) == 108
    assert 0.99 < min(shares) <= max(shares) < 1.01
    # A latency is compared with one of the same method.
    latencies = [transfer for transfer, _ in found if transfer.measure == "latency"]
    kinds = {(one.engine, one.direction, one.method) for one in latencies}
    assert kinds == {("SM", "read", "chase")}


def test_copies_are_compared_on_paths_of_the_same_length():
    far = [replace(one, hops=2) for one in COPIES.header.relations]
    header = replace(COPIES.header, relations=far)
    assert all(match is None for _, match in matches(header=header))
    unknown = replace(COPIES.header, relations=[])
    assert all(not m.exact for _, m in matches(header=unknown) if m is not None)
    devices = [replace(one, name="PPU") for one in COPIES.header.devices]
    for hops, usual in ((1, 46.44), (2, 94.275)):
        relations = [replace(one, hops=hops) for one in COPIES.header.relations]
        header = replace(COPIES.header, devices=devices, relations=relations)
        transfer, match = next(matches(header=header))
        assert (transfer.engine, transfer.direction) == ("CE", "write")
        assert match.bandwidth / 1e9 == pytest.approx(usual, abs=0.01)
        assert "the median of" in match.size


def test_what_a_link_is_specified_for():
    devices = [replace(one, name="NVIDIA H100") for one in COPIES.header.devices]
    header = replace(COPIES.header, devices=devices)
    _, match = next(matches(header=header))
    assert match.bandwidth == pytest.approx(376e9)
    assert match.differences == ("the copy method there is unknown",)
    slower = [replace(one, limit_bytes_per_s=300e9) for one in header.relations]
    narrow = replace(header, relations=slower)
    assert next(matches(header=narrow))[1] is None


def written_and_read(journal, title="x", multicast=unknown):
    """The references of a journal, after they were written to a file."""
    text = references_text(journal, title, multicast=multicast)
    return parse_references(text.encode(), "x.toml", own=True)


@pytest.mark.parametrize("journal", [SWEEP, COPIES], ids=["collectives", "copies"])
def test_a_journal_is_at_100_percent_of_itself(journal):
    own = written_and_read(journal, 'our "rack"', lambda operation: False)
    notes = ReferenceNotes(lambda kinds: own)
    measured = [one for one in journal.timed if one.summary and one.item.work != "barrier"]
    assert measured
    for result in measured:
        of_case = hasattr(result, "case")
        match = (notes.match if of_case else notes.match_transfer)(result, journal.header)
        assert match is not None, result.item.describe()
        assert match.exact
        assert match.share == pytest.approx(1.0, rel=1e-3)


def test_of_cycles_the_median_counts():
    one = next(one for one in SWEEP.results if one.summary)
    results = []
    for cycle, time_s in enumerate((1e-4, 1e-4, 2e-4)):
        rate = one.summary.busbw_bytes_per_s * one.summary.time_s / time_s
        summary = replace(one.summary, time_s=time_s, busbw_bytes_per_s=rate)
        results.append(replace(one, cycle=cycle, summary=summary))
    for cycles, expected_s in ((results, 1e-4), (results[1:], 1.5e-4)):
        (own,) = written_and_read(type(SWEEP)(SWEEP.header, cycles))
        assert own.time_s == pytest.approx(expected_s)
        bandwidth = one.summary.busbw_bytes_per_s * one.summary.time_s / expected_s
        if own.busbw_bytes_per_s is not None:
            assert own.busbw_bytes_per_s == pytest.approx(bandwidth, rel=1e-5)


def test_what_is_no_reference():
    wrong = [replace(SWEEP.results[0], status="wrong")]
    for results, said in ((wrong, "have wrong data"), ([], "contains no figures")):
        with pytest.raises(UsageError, match=said):
            written_and_read(type(SWEEP)(SWEEP.header, results))


GOOD = """
title = "ours"
[[series]]
devices = "4 x H200"
operation = "all_reduce"
figures = '''
size busbw_gbps
1G   350
'''
"""


def refused(text):
    with pytest.raises(UsageError) as caught:
        parse_references(text.encode(), "ours.toml", own=True)
    return str(caught.value)


def test_a_good_file_is_read_and_a_broken_one_says_where_and_what():
    """``mistakes.txt``: what is replaced in GOOD, and by what."""
    (one,) = parse_references(GOOD.encode(), "a/ours.toml", own=True)
    assert (one.size_bytes, one.busbw_bytes_per_s, one.source.name) == (GIB, 350e9, "ours")
    require_outcomes(
        TESTS / "references" / "mistakes.txt",
        lambda line: refused(GOOD.replace(*json.loads(line), 1)),
    )


def test_matrices():
    text = GOOD.replace("all_reduce", "p2p").replace("figures", "matrix")
    head = text.replace('operation = "p2p"', 'operation = "p2p"\nmeasure = "unidirectional"')
    assert "measure is missing" in refused(text)
    square = head.replace("size busbw_gbps\n1G   350", "x 1\n2 x").replace("4 x", "2 x")
    assert "unit is missing" in refused(square)
    good = square.replace("measure =", 'unit = "us"\nmeasure =')
    found = parse_references(good.encode(), "m.toml", own=False)
    assert [(one.pair, one.time_s) for one in found] == [
        ((0, 1), pytest.approx(1e-6)),
        ((1, 0), pytest.approx(2e-6)),
    ]
    assert "2 rows for 3 devices" in refused(good.replace("2 x H200", "3 x H200"))


@given(st.text(alphabet="0123456789GMKx-. \n#sizebuw_gptm", max_size=60))
def test_any_figures_are_read_or_refused(figures):
    text = GOOD.replace("size busbw_gbps\n1G   350\n", figures)
    try:
        found = parse_references(text.encode(), "x.toml", own=True)
    except UsageError as error:
        assert str(error).startswith("x.toml")
    else:
        assert found


def test_where_ones_own_lie(tmp_path):
    home = tmp_path / "cclmark" / "references"
    home.mkdir(parents=True)
    (home / "a.toml").write_text(GOOD)
    (home / "notes.txt").write_text("no references")
    other = tmp_path / "other.toml"
    other.write_text(GOOD)
    environment = {"XDG_DATA_HOME": str(tmp_path)}
    assert [one.source.name for one in own_references(environment=environment)] == ["a"]
    both = environment | {"CCLMARK_REFERENCES": f"{other}:{home}"}
    assert [one.source.name for one in own_references(environment=both)] == ["a", "other"]
    with pytest.raises(UsageError, match="no references at"):
        own_references(environment=environment | {"CCLMARK_REFERENCES": "/nowhere"})
    assert own_references(environment={"HOME": "/nowhere", "XDG_DATA_HOME": "/nowhere"}) == []
