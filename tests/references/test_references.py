"""References: are the shipped ones sound, which is nearest, what is never compared."""

import math
import re
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.document.reference_notes import ReferenceNotes, verdict_of, verdict_text
from cclmark.journal.schema import HostDescription, Imported, Link
from cclmark.kinds.registry import read_journal
from cclmark.references.copy_matching import CopyReferences
from cclmark.references.match import bandwidth_of
from cclmark.references.matching import References, multicast_of
from cclmark.references.reference import Reference, Source
from cclmark.references.reference_files import parse_references, references_text
from cclmark.references.reference_store import own_references, shipped_references
from cclmark.work.device_names import UNKNOWN, kind_of
from cclmark.work.islands import Island
from cclmark.work.items import P2P
from cclmark.work.operations import OPERATIONS
from examples import examples
from goldens import require_golden
from patience import scaled
from places import H200X4

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


class TestShipped:
    def test_all_tables_of_the_sources_are_there(self):
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

    def test_figures_that_people_know(self):
        assert figure("h200x8-nccl", 16 * GIB, multicast=True) == pytest.approx(482.26)
        assert figure("h200x8-nccl", 16 * GIB, multicast=False) == pytest.approx(367.61)
        assert figure("a100x8", GIB) == pytest.approx(229.04)
        assert figure("h200-by-count", 8 * GIB, devices=(("H200", 8),), multicast=True) == 473.1
        assert figure("p5en-h200", 4 * GIB, conditions="p5en, NCCL_ALGO=Ring") == 364.65
        assert figure("p5en-h200", 4 * GIB, conditions="p5en") == 364.87

    def test_published_figures_name_their_source_and_tool(self):
        names = ("a100x8", "h200-by-count", "h200x8-nccl", "mi300x", "p2p-spec")
        for name in names:
            for one in of(name):
                assert "stas00/ml-engineering" in one.source.url
                assert one.tool
        assert figure("flagcx-perf", GIB, devices=(("A800", 2),)) == pytest.approx(141.313472)
        assert figure("ml-engineering-4-nodes", 16 << 20) == pytest.approx(93.93)
        (cell,) = of(
            *("pccl-ppu",),
            **{"pair": (0, 4), "engine": "CE", "direction": "write", "hosts": 1},
            measure="unidirectional",
        )
        assert (cell.busbw_bytes_per_s / 1e9, cell.hops) == (pytest.approx(90.37), 2)

    def test_bandwidths_go_with_times(self):
        """What a source gives twice must agree, within the digits that it prints."""
        for one in SHIPPED:
            if one.operation != P2P:
                assert one.operation in OPERATIONS
                if one.count:
                    self.check(one)

    def check(self, one):
        factor = OPERATIONS[one.operation].bus_factor(one.count)
        if one.algbw_bytes_per_s is not None and one.busbw_bytes_per_s is not None:
            off = abs(one.algbw_bytes_per_s * factor - one.busbw_bytes_per_s)
            assert off <= 0.005e9 * (1 + factor) + 1e3
        if one.time_s and one.size_bytes and one.busbw_bytes_per_s is not None:
            # FlagCX prints whole microseconds, nccl-tests hundredths.
            digit_s = 0.51e-6 if one.library == "flagcx" else 0.0051e-6
            slow, fast = (one.size_bytes / (one.time_s + off) for off in (digit_s, -digit_s))
            assert slow * factor - 0.0051e9 <= one.busbw_bytes_per_s <= fast * factor + 0.0051e9

    def test_a_run_reads_only_what_is_of_its_devices(self):
        for kind in {kind for one in SHIPPED for kind in dict(one.devices)}:
            read = [one for one in shipped_references({kind}) if kind in dict(one.devices)]
            assert read == [one for one in SHIPPED if kind in dict(one.devices)]
        assert "pccl-ppu" not in {one.source.name for one in shipped_references({"H200"})}
        assert shipped_references({"XEON"}) == []

    def test_the_page_lists_every_source(self):
        page = (H200X4.parents[2] / "docs" / "reference" / "references.md").read_text()
        listed = set(re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE))
        assert listed == {one.source.name for one in SHIPPED}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H200 141GB HBM3e", "H200"),
        ("H200 SXM", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIE"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("A100-PCIE-40GB", "A100 PCIE"),
        ("NVIDIA A800-SXM4-80GB", "A800"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA H200 MIG 1g.18gb", "H200 MIG 1G.18GB"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("MetaX C550", "C550"),
        ("Unknown", UNKNOWN),
        ("", UNKNOWN),
        ("NVIDIA", "NVIDIA"),
    ],
)
def test_kinds_of_devices(name, kind):
    assert kind_of(name) == kind
    assert kind_of(kind) == kind


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


def header_of(count=4, name="NVIDIA H200", environment=None, **changes):
    header = SWEEP.header
    first = header.devices[0]
    devices = [replace(first, rank=rank, name=name) for rank in range(count)]
    links = [Link(rank, "NVLink", 18, 25e9, "4") for rank in range(count)]
    return replace(
        header,
        devices=devices,
        links=links,
        environment={"NCCL_NVLS_ENABLE": "0"} if environment is None else environment,
        **changes,
    )


def found_for(count=4, references=SHIPPED, header=None, **changes):
    case, summary = case_of(ranks=count, **changes)
    return References(references, header or header_of(count)).nearest(case, summary)


FLAGCX = Imported("FlagCX perf", "flagcx", ranks=4)
NCCL_TESTS = Imported("nccl-tests", "nccl-tests", ranks=4)
ISLANDS = [Island(0, 1, "nccl"), Island(2, 3, "nccl")]
SMALL = {"operation": "broadcast", "size_bytes": 2048}
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


def compared(*, count=4, references="", environment=None, imported=None, nowhere=False, **changes):
    """The reference of a case with these fields, measured with these settings.

    ``nowhere``: the hosts of the devices are unknown.
    """
    case = {name: changes.pop(name) for name in CASE_FIELDS if name in changes}
    if "islands" in changes:
        changes["through_host"] = True
    settings = replace(SWEEP.header.settings, **changes)
    header = header_of(count, environment=environment, imported=imported, settings=settings)
    if nowhere:
        devices = [replace(one, host="") for one in header.devices]
        header = replace(header, devices=devices)
    known = (REFERENCES.get(references) or of(references)) if references else SHIPPED
    return found_for(count, known, header, **case)


class TestNearest:
    def test_our_own_sweep_is_as_nccl_tests_is(self):
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

    def test_in_words(self):
        match = found_for(size_bytes=512 << 20)
        assert match.exact
        assert match.words == (
            "4 × H200, nccl-tests 2.19.6, NCCL 2.28.9, multicast off, 512 MiB: 348.7 GB/s"
        )
        assert match.share == pytest.approx(346.43 / 348.7, abs=1e-3)

    def test_between_two_sizes_the_time_is_a_straight_line(self):
        match = found_for(size_bytes=GIB)
        assert match.size == "between 512 MiB and 2 GiB"
        low, high = (figure_of(size) for size in (512 << 20, 2 << 30))
        time_s = (2 * low + high) / 3  # 1 GiB lies a third of the way
        assert match.bandwidth == pytest.approx(1.5 * GIB / time_s)

    def test_between_figures_that_are_far_apart_nothing_is_decided(self):
        assert found_for(size_bytes=64 << 20).exact
        curve = of("nccl-tests-h200x4-rounds", operation="all_reduce")
        match = found_for(references=curve, size_bytes=4 << 20)
        assert match.size == "between 2 MiB and 8 MiB"
        assert match.differences == ("the bandwidth changes much between the two sizes there",)

    def test_interpolation_is_near_what_was_measured_there(self):
        """Against the figures of ranks that are threads, whose sizes lie between the others'."""
        curve = of("nccl-tests-h200x4", operation="all_reduce", launch="process")
        points = of("nccl-tests-h200x4", operation="all_reduce", launch="thread")
        for one in points:
            if not 1 << 20 <= one.size_bytes <= 256 << 20:
                continue
            match = found_for(references=curve, size_bytes=one.size_bytes)
            assert match.size.startswith("between")
            assert match.bandwidth == pytest.approx(bandwidth_of(one), rel=0.05)

    @pytest.mark.parametrize(
        "name", ["NVIDIA H20", "NVIDIA H200 NVL", "NVIDIA H100", "unknown", ""]
    )
    def test_other_devices_are_never_compared(self, name):
        assert found_for(header=header_of(name=name)) is None

    def test_a800_is_no_a100(self):
        a800 = found_for(2, size_bytes=GIB, ccl="flagcx", header=header_of(2, "NVIDIA A800"))
        assert a800.exact
        assert a800.bandwidth == pytest.approx(141.313472e9)
        assert found_for(2, size_bytes=GIB, header=header_of(2, "NVIDIA A100-SXM4-80GB")) is None

    def test_other_operations_are_never_compared(self):
        assert found_for(operation="reduce") is None
        assert found_for(operation="gather") is None

    def test_multicast_chooses_the_reference(self):
        size = 16 * GIB
        off = found_for(8, size_bytes=size)
        assert (off.exact, off.bandwidth) == (True, pytest.approx(367.61e9))
        default = found_for(8, size_bytes=size, header=header_of(8, environment={}))
        assert default.exact
        assert default.reference.multicast is True
        assert default.bandwidth == pytest.approx(482.26e9)

    def test_multicast_that_differs_is_named(self):
        left = found_for(header=header_of(environment={}))
        assert left.differences == ("multicast off there, left to NCCL here",)
        text = verdict_text(left)
        assert text.startswith("for comparison: 99% of the reference")
        assert "differs: multicast off there" in text

    def test_another_count_only_on_one_host_at_large_sizes_without_multicast(self):
        match = found_for(3, size_bytes=8 * GIB)
        assert match.reference.count == 4
        assert match.differences == ("4 devices there, 3 here",)
        assert not match.alike
        assert verdict_text(match) == ""
        assert found_for(3, size_bytes=64 << 20) is None
        assert found_for(2, size_bytes=8 * GIB) is None
        assert found_for(3, size_bytes=8 * GIB, header=header_of(3, environment={})) is None
        bare = replace(header_of(3), links=[])
        assert found_for(3, size_bytes=8 * GIB, header=bare) is None

    def test_another_number_of_hosts_is_never_compared(self):
        host = HostDescription(SWEEP.header.machine, "x", {})
        two = header_of(8, hosts=[host, host])
        assert found_for(8, size_bytes=16 * GIB, header=two) is None

    def test_between_hosts_others_networks_decide_nothing(self):
        hosts = [HostDescription(SWEEP.header.machine, str(number), {}) for number in range(4)]
        four = header_of(32, hosts=hosts, environment={})
        match = found_for(32, size_bytes=16 * GIB, header=four)
        assert match.bandwidth == pytest.approx(369.06e9)
        assert match.differences == ("the network between the hosts may be another one",)
        assert "p5en" in verdict_text(match)

    @pytest.mark.parametrize(
        ("found", "said"),
        [
            # There is no figure of 8 × H200 without multicast at 256 MiB.
            ({"count": 8, "size_bytes": 256 << 20}, "multicast on there, off here"),
            ({"operation": "alltoall", "in_place": True}, "out of place there, in place here"),
            ({"ccl": "torch:nccl"}, "NCCL there, torch:nccl here"),
            ({"timing": "blocking"}, "timed by blocking here"),
            ({"across_ranks": "min"}, "min over ranks here"),
            ({"across_ranks": "rank0"}, "rank0 over ranks here"),
            ({"cache": "warm"}, "cache warm here"),
            ({"group": 8}, "groups of 8 here"),
            ({"registration": "local"}, "registration local here"),
            ({"inject": ["slow:1"]}, "with faults: slow:1 here"),
            ({"timing": "graph", "graph_launches": 4}, "timed by graph here"),
            ({"dtype": "float64"}, "float32 there, float64 here"),
            ({"dtype": "float8_e4m3"}, "float32 there, float8_e4m3 here"),
            (
                {"dtype": "int32", "reduction": "prod"},
                "float32 there, int32 here; sum there, prod here",
            ),
            ({"islands": ISLANDS, "ccl": "bridge"}, "through the host here; islands 0-1=nccl,2-3"),
            ({"imported": FLAGCX, "nowhere": True}, "the number of hosts here is unknown"),
            (
                {"imported": NCCL_TESTS, "environment": {}},
                "multicast off there, unknown here",
            ),
            ({"references": "rounds without types", "dtype": "float64"}, "float64 here"),
            ({"references": "azure-nhc", "count": 8, "size_bytes": 16 * GIB}, "it is a floor, no"),
            ({"references": "one thread", **SMALL}, "one thread launched for all devices there"),
            ({"references": "own"}, "multicast left to NCCL there, off here"),
            ({"references": "own, warm"}, "cache warm there"),
            ({"references": "own, rounds", "across_ranks": "mean"}, "mean over ranks here"),
        ],
    )
    def test_what_differs_is_named_and_prevents_a_verdict(self, found, said):
        match = compared(**found)
        assert said in "; ".join(match.differences)
        assert (match.exact, verdict_of(match)) == (False, "")

    @pytest.mark.parametrize(
        "found",
        [
            {"dtype": "float32", "reduction": "sum"},
            # The type does not matter where nothing is computed.
            {"operation": "all_gather", "dtype": "float64"},
            # nccl-tests prints the mean.
            {"across_ranks": "mean"},
            # Islands are of the library bridge alone.
            {"islands": ISLANDS},
            {"imported": FLAGCX},
            {"imported": replace(FLAGCX, hosts=1), "nowhere": True},
            {"references": "rounds without types", "dtype": "bfloat16"},
            {"references": "one thread", **SMALL, "size_bytes": 8 << 20},
            {"references": "own", "environment": {}},
            {"references": "own, warm", "cache": "warm"},
        ],
    )
    def test_what_was_measured_in_the_same_way_is_exact(self, found):
        assert compared(**found).exact

    def test_an_import_of_two_hosts_is_not_compared_with_one(self):
        assert compared(imported=replace(FLAGCX, hosts=2), nowhere=True) is None

    def test_many_cases_cost_little(self):
        """A page of a run on many devices asks for thousands: what is the runs' is done once."""

        def calls_of(ranks):
            references = References(SHIPPED, header_of(ranks))
            case, summary = case_of(ranks=ranks)
            assert references.nearest(case, summary)
            seen = []
            sys.setprofile(lambda *_: seen.append(1))
            try:
                references.nearest(case, summary)
            finally:
                sys.setprofile(None)
            return len(seen)

        assert 100 < calls_of(512) <= calls_of(64)

    def test_beyond_a_curve_only_where_it_is_flat(self):
        assert found_for(size_bytes=4) is None
        assert found_for(size_bytes=4 * GIB).size in ("2 GiB", "8 GiB")
        assert found_for(size_bytes=64 * GIB) is None

    def test_ones_own_comes_first(self):
        own = replace(OWN, multicast=False)
        match = found_for(references=[*SHIPPED, own])
        assert match.share == pytest.approx(346.43 / 300)
        assert match.words.startswith('"our rack", 4 × H200')
        assert verdict_of(match) == "high"

    @settings(deadline=None, max_examples=examples(100))
    @given(size=st.integers(1, 1 << 40), count=st.integers(1, 16), off=st.booleans())
    def test_whatever_is_compared_is_comparable(self, size, count, off):
        header = header_of(count, environment={"NCCL_NVLS_ENABLE": "0"} if off else {})
        match = found_for(count, size_bytes=size, header=header)
        if match is None:
            return
        assert match.reference.operation == "all_reduce"
        assert {kind for kind, _ in match.reference.devices} == {"H200"}
        assert 0.5 <= match.reference.size_bytes / size <= 2
        assert math.isfinite(match.share)
        assert match.share > 0
        if match.exact:
            assert match.reference.count == count
            assert not (off and match.reference.multicast)


def figure_of(size_bytes):
    (one,) = of(
        "nccl-tests-h200x4-rounds", operation="all_reduce", size_bytes=size_bytes, in_place=False
    )
    return one.time_s


@pytest.mark.parametrize(
    ("choice", "off"),
    [
        ("Ring", {"all_reduce", "all_gather", "reduce_scatter"}),
        ("ring,collnetdirect", {"all_reduce", "all_gather", "reduce_scatter"}),
        ("^NVLS", {"all_reduce", "all_gather", "reduce_scatter"}),
        ("^nvls,NvlsTree", {"all_reduce", "all_gather", "reduce_scatter"}),
        ("^NVLSTree", set()),
        ("^Tree", set()),
        ("NVLS,Ring", set()),
        ("", set()),
        ("broadcast:ring", set()),
        ("broadcast:ring;reduce:tree", set()),
        ("allgather:ring", {"all_gather"}),
        ("AllReduce:tree,ring;allgather:^nvls", {"all_reduce", "all_gather"}),
        ("^nvls;allreduce:nvls", {"all_gather", "reduce_scatter"}),
        ("nvls;allreduce:ring", {"all_reduce"}),
        ("allreduce:ring;allreduce:nvls", set()),
        ("ring;tree", set()),  # NCCL refuses it
        ("^", set()),
        ("allreduce:", set()),
        (";,;", set()),
    ],
)
def test_algorithms_tell_of_multicast_by_their_whole_names(choice, off):
    told = {
        operation
        for operation in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall")
        if multicast_of({"NCCL_ALGO": choice}, operation) is False
    }
    assert told == off


def test_which_variables_tell_of_multicast():
    assert multicast_of({"NCCL_NVLS_ENABLE": "0"}, "all_reduce") is False
    assert multicast_of({"NCCL_NVLS_ENABLE": "1"}, "all_reduce") is None
    assert multicast_of({}, "all_reduce") is None
    # Between hosts NCCL has a tree of multicasts too, which only all_reduce can take.
    without = {"NCCL_ALGO": "^NVLS"}
    assert multicast_of(without, "all_reduce", hosts=2) is None
    assert multicast_of(without, "all_gather", hosts=2) is False
    assert multicast_of({"NCCL_ALGO": "^NVLS,NVLSTree"}, "all_reduce", hosts=2) is False


@given(st.text(alphabet="ringNVLSTre^:;, allreduce", max_size=30))
def test_any_choice_of_algorithms_can_be_read(choice):
    assert multicast_of({"NCCL_ALGO": choice}, "all_reduce") in (False, None)


def test_a_run_may_use_multicast_for_one_operation_alone():
    header = replace(SWEEP.header, environment={"NCCL_ALGO": "allgather:ring"})
    one = next(one for one in SWEEP.results if one.case.size_bytes == 512 << 20)
    for operation, words in (
        ("all_reduce", "multicast off there, left to NCCL here"),
        ("all_gather", ""),
    ):
        result = next(
            other
            for other in SWEEP.results
            if (other.case.operation, other.case.size_bytes) == (operation, one.case.size_bytes)
        )
        match = References(SHIPPED, header).nearest(result.case, result.summary)
        assert "; ".join(match.differences) == words


class TestCopies:
    def matches(self, references=SHIPPED, header=COPIES.header):
        known = CopyReferences(references, header)
        for one in COPIES.transfers:
            if one.summary is not None:
                yield (
                    one.transfer,
                    known.nearest(one.transfer, one.summary),
                )

    def test_ours_are_as_nvbandwidths(self):
        shares = [match.share for _, match in self.matches() if match is not None]
        assert len(shares) == 108
        assert 0.99 < min(shares) <= max(shares) < 1.01

    def test_a_latency_is_compared_with_one_of_the_same_method(self):
        kinds = {
            (transfer.engine, transfer.direction, transfer.method)
            for transfer, match in self.matches()
            if match is not None and transfer.measure == "latency"
        }
        assert kinds == {("SM", "read", "chase")}

    def test_paths_of_another_length_are_not_compared(self):
        far = [replace(one, hops=2) for one in COPIES.header.relations]
        header = replace(COPIES.header, relations=far)
        assert all(match is None for _, match in self.matches(header=header))
        unknown = replace(COPIES.header, relations=[])
        assert all(not m.exact for _, m in self.matches(header=unknown) if m is not None)

    def test_a_pair_of_ppus_is_compared_with_pairs_of_the_same_hops(self):
        devices = [replace(one, name="PPU") for one in COPIES.header.devices]
        for hops, usual in ((1, 46.44), (2, 94.275)):
            relations = [replace(one, hops=hops) for one in COPIES.header.relations]
            header = replace(COPIES.header, devices=devices, relations=relations)
            transfer, match = next(self.matches(header=header))
            assert (transfer.engine, transfer.direction) == ("CE", "write")
            assert match.bandwidth / 1e9 == pytest.approx(usual, abs=0.01)
            assert "the median of" in match.size

    def test_what_a_link_is_specified_for(self):
        devices = [replace(one, name="NVIDIA H100") for one in COPIES.header.devices]
        header = replace(COPIES.header, devices=devices)
        _, match = next(self.matches(header=header))
        assert match.bandwidth == pytest.approx(376e9)
        assert match.differences == ("the copy method there is unknown",)
        slower = [replace(one, limit_bytes_per_s=300e9) for one in header.relations]
        narrow = replace(header, relations=slower)
        assert next(self.matches(header=narrow))[1] is None


class TestManyDevices:
    """A machine with as many pairs as figures: each is looked up, not all of them searched."""

    DEVICES = 48
    PAIRS = tuple((row, column) for row in range(48) for column in range(48) if row != column)

    def header(self):
        (device, *_), (relation, *_) = COPIES.header.devices, COPIES.header.relations
        return replace(
            COPIES.header,
            devices=[replace(device, rank=rank, index=rank) for rank in range(self.DEVICES)],
            relations=[
                replace(relation, first=first, second=second) for first, second in self.PAIRS
            ],
        )

    @pytest.mark.parametrize("kind", ["copies", "collectives"])
    def test_each_finds_its_own_pair(self, kind):
        of_copies = kind == "copies"
        one = next(
            one
            for one in (COPIES.transfers if of_copies else SWEEP.results)
            if one.summary
            and (one.summary.bytes_per_s if of_copies else one.case.size_bytes == 2 << 20)
        )
        results = []
        for place, pair in enumerate(self.PAIRS):
            rate = 1e11 + 1e7 * place
            if of_copies:
                item = {"transfer": replace(one.transfer, flows=(pair,))}
                figures = {"bytes_per_s": rate, "flow_bytes_per_s": [rate]}
            else:
                item = {"case": replace(one.case, pair=pair, ranks=2)}
                figures = {"busbw_bytes_per_s": rate, "time_s": one.case.size_bytes / rate}
            summary = replace(one.summary, **figures)
            results.append(replace(one, summary=summary, **item))
        journal = type(COPIES)(self.header(), results=results)
        own = written_and_read(journal)
        begun_s = time.process_time()
        notes = ReferenceNotes(lambda kinds: own)
        match = notes.match_transfer if of_copies else notes.match
        shares = [match(result, journal.header).share for result in results]
        assert time.process_time() - begun_s < scaled(1.5)
        assert shares == pytest.approx([1.0] * len(results), rel=1e-5)
        if not of_copies:
            # Where the pair has no figure, the nearest is that of another pair.
            nearest = References(own[1:], journal.header).nearest
            assert nearest(results[0].case, results[0].summary).reference == own[1]


def written_and_read(journal, title="x", multicast=unknown):
    """The references of a journal, after they were written to a file."""
    text = references_text(journal, title, multicast=multicast)
    return parse_references(text.encode(), "x.toml", own=True)


class TestWriting:
    @pytest.mark.parametrize("journal", [SWEEP, COPIES], ids=["collectives", "copies"])
    def test_a_journal_is_at_100_percent_of_itself(self, journal):
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

    def rooted(self, *roots, pair=None):
        """A journal of broadcasts, each root half as fast as the one before."""
        one = next(
            one for one in SWEEP.results if one.case.operation == "broadcast" and one.summary
        )
        results = []
        for number, root in enumerate(roots):
            slower = {
                "time_s": one.summary.time_s * 2**number,
                "busbw_bytes_per_s": one.summary.busbw_bytes_per_s / 2**number,
            }
            case = {"root": root, "pair": pair, "ranks": 2 if pair else one.case.ranks}
            results.append(
                replace(
                    one,
                    case=replace(one.case, **case),
                    summary=replace(one.summary, **slower),
                )
            )
        return type(SWEEP)(SWEEP.header, results)

    def test_of_cycles_the_median_counts(self):
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

    def test_pairs_and_all_ranks_of_one_journal_have_tables_of_their_own(self):
        """Of two devices a pair and all of them are as many."""
        one = next(one for one in SWEEP.results if one.summary)
        header = replace(SWEEP.header, devices=SWEEP.header.devices[:2])
        results = [
            replace(one, case=replace(one.case, ranks=2, pair=pair, size_bytes=size))
            for pair, size in (((0, 1), 1024), (None, 1024), ((0, 1), 2048), (None, 4096))
        ]
        own = written_and_read(type(SWEEP)(header, results))
        assert [(one.pair, one.size_bytes) for one in own] == [
            ((0, 1), 1024),
            ((0, 1), 2048),
            (None, 1024),
            (None, 4096),
        ]

    @pytest.mark.parametrize("pair", [None, (1, 3)])
    @pytest.mark.parametrize("roots", [(0, 1), (1, 0)])
    def test_roots_are_told_apart(self, roots, pair):
        journal = self.rooted(*roots, pair=pair)
        own = written_and_read(journal)
        for result in journal.cases:
            match = References(own, journal.header).nearest(result.case, result.summary)
            assert match.share == pytest.approx(1.0, rel=1e-3), result.case.describe()
            assert match.exact
        # Where there is only one of another root, that is named.
        alone = [one for one in own if one.root == roots[0]]
        other = journal.results[1]
        match = References(alone, journal.header).nearest(other.case, other.summary)
        assert match.differences == (f"root {roots[0]} there, root {roots[1]} here",)

    @pytest.mark.parametrize(
        ("results", "said"),
        [
            ([replace(SWEEP.results[0], status="wrong")], "have wrong data"),
            ([], "contains no figures"),
        ],
    )
    def test_what_is_no_reference(self, results, said):
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


class TestFiles:
    def refused(self, text):
        with pytest.raises(UsageError) as caught:
            parse_references(text.encode(), "ours.toml", own=True)
        return str(caught.value)

    def test_a_good_one(self):
        (one,) = parse_references(GOOD.encode(), "a/ours.toml", own=True)
        assert (one.size_bytes, one.busbw_bytes_per_s, one.source.name) == (GIB, 350e9, "ours")

    #: What is replaced in GOOD, and by what.
    BROKEN = (
        ('title = "ours"', "title = "),
        ('title = "ours"', ""),
        ('title = "ours"', 'title = "  "'),
        ("operation =", "opration ="),
        ("all_reduce", "allreduce"),
        ("4 x H200", "0 x H200"),
        ("4 x H200", "4 H200"),
        ("1G   350", "1G   fast"),
        ("1G   350", "1G   -5"),
        ("1G   350", "1G   1e99"),
        ("1G   350", "1G   nan"),
        ("1G   350", "1X   350"),
        ("1G   350", "1G"),
        ("1G   350", "1G -"),
        ("1G   350", "1G 350\n1G 351"),
        ("busbw_gbps", "busbw"),
        ("size busbw", "size size busbw"),
        ("figures =", "matrix ="),
        ('operation = "', 'hosts = "2"\noperation = "'),
        ('operation = "', 'dtype = "float3"\noperation = "'),
        ('operation = "', 'size = 5\noperation = "'),
        ('operation = "all_reduce"', 'operation = "broadcast"\nroot = -1'),
        ('operation = "', 'root = 1\noperation = "'),
    )

    def test_a_broken_one_says_where_and_what(self):
        texts = [
            f"{old} -> {new!r}\n  {self.refused(GOOD.replace(old, new, 1))}\n"
            for old, new in self.BROKEN
        ]
        require_golden("texts/references-broken.txt", "\n".join(texts))

    def test_matrices(self):
        text = GOOD.replace("all_reduce", "p2p").replace("figures", "matrix")
        head = text.replace('operation = "p2p"', 'operation = "p2p"\nmeasure = "unidirectional"')
        assert "measure is missing" in self.refused(text)
        square = head.replace("size busbw_gbps\n1G   350", "x 1\n2 x").replace("4 x", "2 x")
        assert "unit is missing" in self.refused(square)
        good = square.replace("measure =", 'unit = "us"\nmeasure =')
        found = parse_references(good.encode(), "m.toml", own=False)
        assert [(one.pair, one.time_s) for one in found] == [
            ((0, 1), pytest.approx(1e-6)),
            ((1, 0), pytest.approx(2e-6)),
        ]
        assert "2 rows for 3 devices" in self.refused(good.replace("2 x H200", "3 x H200"))

    @given(st.text(alphabet="0123456789GMKx-. \n#sizebuw_gptm", max_size=60))
    def test_any_figures_are_read_or_refused(self, figures):
        text = GOOD.replace("size busbw_gbps\n1G   350\n", figures)
        try:
            found = parse_references(text.encode(), "x.toml", own=True)
        except UsageError as error:
            assert str(error).startswith("x.toml")
        else:
            assert found

    def test_where_ones_own_lie(self, tmp_path):
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
