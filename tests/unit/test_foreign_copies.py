"""Texts of tools that measure copies between devices: every figure at its place, or refused."""

from __future__ import annotations

import json
import re

import pytest

from cclmark.errors import UsageError
from cclmark.importing.nvbandwidth import test_of as meaning_of
from cclmark.kinds.registry import read_journal
from cclmark.references.copy_matching import CopyReferences
from cclmark.references.reference_store import shipped_references
from cclmark.report.exports import replayed
from foreign_texts import TEXTS, notices, read, stored


def chosen(journal, **fields):
    """The results whose transfers have these fields, by their first flow."""
    return {
        one.transfer.flows[0]: one.summary
        for one in journal.transfers
        if all(getattr(one.transfer, name) == value for name, value in fields.items())
    }


def gbps(found):
    return {flow: round(summary.bytes_per_s / 1e9, 4) for flow, summary in found.items()}


def printed(text, title, row_word=r"\s*\d+"):
    """The cells of the matrix after a title, by row and column."""
    lines = iter(text[text.index(title) :].splitlines()[2:])
    rows = []
    for line in lines:
        words = line.split()
        if not words or not re.match(row_word, line):
            break
        rows.append(words[1:])
    return {
        (row, column): float(word)
        for row, cells in enumerate(rows)
        for column, word in enumerate(cells)
        if re.fullmatch(r"[\d.]+", word)
    }


class TestNvbandwidth:
    text = (TEXTS / "nvbandwidth-0.8.txt").read_text()

    def after(self, name, title=""):
        """The matrix of a testcase."""
        start = self.text.index(f"Running {name}.\n")
        title = title or "GPU(column)"
        return (
            printed(self.text[start:], self.text[start:].splitlines()[1])
            if not title
            else (printed(self.text[self.text.index(title, start) :], title))
        )

    def test_the_head(self):
        header = stored("nvbandwidth-0.8.txt").header
        assert header.imported.source == "nvbandwidth 0.8"
        assert [one.name for one in header.devices] == ["NVIDIA H100 80GB HBM3"] * 4
        assert [one.pci_bus_id for one in header.devices][:2] == [
            "00000000:1B:00.0",
            "00000000:43:00.0",
        ]
        assert {one.host for one in header.devices} == {"node17"}
        assert {one.driver_version for one in header.devices} == {"12.8"}
        assert header.machine.vendor_driver == "575.31.02"
        assert header.imported.ranks == 4

    def test_writes_go_from_the_row_to_the_column(self):
        found = gbps(
            chosen(
                stored("nvbandwidth-0.8.txt"),
                measure="unidirectional",
                scope="pairs",
                engine="CE",
                direction="write",
            )
        )
        assert len(found) == 12
        assert found == self.after("device_to_device_memcpy_write_ce")

    def test_reads_go_from_the_column_to_the_row(self):
        found = gbps(
            chosen(
                stored("nvbandwidth-0.8.txt"),
                measure="unidirectional",
                scope="pairs",
                direction="read",
            )
        )
        cells = self.after("device_to_device_memcpy_read_ce")
        assert found == {(column, row): value for (row, column), value in cells.items()}

    @pytest.mark.parametrize(
        ("way", "first", "second"), [("read", "Read1", "Read2"), ("write", "Write2", "Write1")]
    )
    def test_both_ways_have_their_bandwidths_and_the_tools_total(self, way, first, second):
        found = chosen(stored("nvbandwidth-0.8.txt"), measure="bidirectional", direction=way)
        name = f"device_to_device_bidirectional_memcpy_{way}_ce"
        one, two, total = (
            self.after(name, f"GPU(column) {part} bandwidth") for part in (first, second, "Total")
        )
        assert len(found) == 12
        for (row, column), value in total.items():
            summary = found[(column, row) if way == "read" else (row, column)]
            assert summary.bytes_per_s == pytest.approx(value * 1e9)
            rates = [one[row, column], two[row, column]]
            assert [rate / 1e9 for rate in summary.flow_bytes_per_s] == pytest.approx(rates)
            assert summary.time_s == pytest.approx((512 << 20) / min(rates) / 1e9)

    @pytest.mark.parametrize(
        ("name", "scope", "direction"),
        [
            ("all_to_one_write_ce", "all-to-one", "write"),
            ("all_to_one_read_ce", "one-to-all", "read"),
            ("one_to_all_write_ce", "one-to-all", "write"),
            ("one_to_all_read_ce", "all-to-one", "read"),
        ],
    )
    def test_many_at_once_by_the_flow_of_data(self, name, scope, direction):
        journal = stored("nvbandwidth-0.8.txt")
        found = [
            one
            for one in journal.transfers
            if (one.transfer.scope, one.transfer.direction) == (scope, direction)
        ]
        cells = self.after(name)
        assert len(found) == 4
        for device, one in enumerate(found):
            flows = one.transfer.flows
            assert {flow[1 if scope == "all-to-one" else 0] for flow in flows} == {device}
            assert len(flows) == 3
            assert one.summary.bytes_per_s == pytest.approx(cells[0, device] * 1e9)
            assert one.summary.time_s == pytest.approx(3 * (512 << 20) / one.summary.bytes_per_s)

    def test_host_local_and_latency(self):
        journal = stored("nvbandwidth-0.8.txt")
        for name, to_host, engine in (
            ("host_to_device_memcpy_ce", False, "CE"),
            ("device_to_host_memcpy_ce", True, "CE"),
            ("host_to_device_memcpy_sm", False, "SM"),
        ):
            found = gbps(chosen(journal, scope="host", to_host=to_host, engine=engine))
            cells = self.after(name)
            assert found == {(device, device): cells[0, device] for device in range(4)}
        local = gbps(chosen(journal, scope="local"))
        assert local == {
            (device, device): value
            for (_, device), value in self.after("device_local_copy").items()
        }
        latencies = chosen(journal, measure="latency", method="chase", direction="read")
        cells = self.after("device_to_device_latency_sm")
        assert {flow: round(one.time_s * 1e9, 2) for flow, one in latencies.items()} == {
            (column, row): value for (row, column), value in cells.items()
        }

    def test_what_is_left_out_is_said(self):
        said = notices(stored("nvbandwidth-0.8.txt"))
        for name in ("host_to_device_bidirectional_memcpy_ce", "all_to_host_memcpy_ce"):
            assert f"{name} is left out: the figure is of one copy beside others" in said
        assert (
            "host_device_latency_sm is left out: cclmark p2p does not measure the latency" in said
        )
        assert "512 MiB, the default of nvbandwidth 0.8, is assumed; --size sets another" in said
        assert "does not fit" not in said

    def test_sizes(self):
        old = self.text.replace("Version: v0.8", "Version: v0.6")
        assert {one.transfer.size_bytes for one in read(old).transfers} == {64 << 20}
        assert "before version 0.8 it is the latency of host memory" in notices(read(old))
        given = stored("nvbandwidth-0.8.txt", size_bytes=1 << 20)
        sizes = {one.transfer.size_bytes for one in given.transfers if not one.transfer.method}
        assert sizes == {1 << 20}
        unknown = self.text.partition("\n")[2]
        with pytest.raises(
            UsageError, match=r"a\.txt:\d+: the size of a copy is unknown, because no line"
        ):
            read(unknown)

    def test_of_version_0_10(self):
        journal = stored("nvbandwidth-0.10.txt")
        assert gbps(chosen(journal, kernel="tma")) == {(0, 1): 26.31, (1, 0): 26.28}
        assert "the tool waived a testcase" in notices(journal)
        assert "device_local_read_sm is left out" in notices(journal)
        assert {one.driver_version for one in journal.header.devices} == {"12.8"}

    def test_json(self):
        journal = stored("nvbandwidth.json")
        assert gbps(chosen(journal, scope="host")) == {(0, 0): 55.3117, (1, 1): 55.2984}
        assert gbps(chosen(journal, measure="unidirectional", direction="read")) == {
            (1, 0): 142.117,
            (0, 1): 141.905,
        }
        both = chosen(journal, measure="bidirectional")
        assert gbps(both) == {(0, 1): 262.0, (1, 0): 262.625}
        # Write2 is the write of the row's device.
        assert both[0, 1].flow_bytes_per_s == pytest.approx([130.75e9, 131.25e9])
        latencies = chosen(journal, measure="latency")
        assert {flow: one.time_s for flow, one in latencies.items()} == pytest.approx(
            {(1, 0): 713.52e-9, (0, 1): 709.88e-9}
        )
        assert [one.host for one in journal.header.devices] == ["node19", "node19"]
        assert "all_to_one_write_ce is left out: it has no figures, status Waived" in notices(
            journal
        )

    def test_json_without_its_version(self):
        """The default size depends on it: 64 MiB before 0.7, and the document has no other size."""
        text = (TEXTS / "nvbandwidth.json").read_text()
        without = text.replace('],\n\t\t"version" : "v0.8"', "]")
        assert without != text
        journal = read(without)
        assert journal.transfers == read(text).transfers
        assert 'the document has no "version": "git_version" is v0.8' in notices(journal)
        old = read(without.replace('"git_version" : "v0.8"', '"git_version" : "v0.6"'))
        sizes = {one.transfer.size_bytes for one in old.transfers if not one.transfer.method}
        assert sizes == {64 << 20}
        message = (
            "the size of a copy is unknown, because the document that begins on line 1 has no "
            '"version" with a number: the tool\'s default is 64 MiB before version 0.7 and 512 MiB '
            "since: set it with --size SIZE"
        )
        for unknown in ('"git_version" : "v0.6-12-g0a45985"', '"git_version" : "0a45985"'):
            less = without.replace('"git_version" : "v0.8"', unknown)
            with pytest.raises(UsageError, match=rf"^a\.txt:\d+: {re.escape(message)}$"):
                read(less)
            sized = read(less, size_bytes=512 << 20)
            assert [one.summary for one in sized.transfers] == [
                one.summary for one in journal.transfers
            ]

    def test_json_within_other_lines(self):
        text = (TEXTS / "nvbandwidth.json").read_text()
        noisy = f"WARNING: {{ a lock\n{text}\nWARNING: }}}}\n"
        assert read(noisy).transfers == read(text).transfers

    def test_json_that_is_cut_off_names_the_line(self):
        text = (TEXTS / "nvbandwidth.json").read_text()
        with pytest.raises(UsageError, match=r"a\.txt:\d+: this JSON is truncated or damaged"):
            read(text[: len(text) // 2])
        wrong = text.replace('"142.117"', '"fast"')
        with pytest.raises(UsageError, match=r"a\.txt:40: 'fast' in the matrix of .* not a number"):
            read(wrong)

    def test_figures_of_0_are_counted(self):
        text = (TEXTS / "nvbandwidth.json").read_text()
        zero = text.replace('"55.2984"', '"0"').replace('"142.117"', '"0"')
        assert len(read(zero).transfers) == len(read(text).transfers) - 2
        number = 1 + text[: text.index('"host_to_device_memcpy_ce"')].count("\n")
        said = notices(read(zero))
        assert (
            f"figures of 0 of host_to_device_memcpy_ce are left out: 1, on line {number}\n" in said
        )
        assert "figures of 0 of device_to_device_memcpy_read_ce are left out: 1, on line " in said

    def test_a_failed_check_fails_the_run(self):
        cut = self.text[: self.text.index("SUM device_to_device_memcpy_write_ce")]
        journal = read(cut + "ASSERT in expression h_errorFlag == 0 in memcmpPatternHelper() : m\n")
        assert journal.footer.exit_code == 1
        assert "h_errorFlag" in journal.footer.message

    def test_a_cut_text_has_its_complete_rows_and_no_footer(self):
        cut = self.text[: self.text.index("SUM device_to_device_memcpy_write_ce") - 20]
        journal = read(cut)
        assert journal.footer is None
        found = chosen(journal, scope="pairs", direction="write", measure="unidirectional")
        assert len(found) == 9
        assert "the text ends within a testcase" in notices(journal)

    def test_a_sum_that_does_not_fit(self):
        line = "SUM device_to_device_memcpy_read_ce "
        start = self.text.index(line) + len(line)
        said = notices(read(self.text[:start] + "9" + self.text[start:]))
        assert re.search(r"line 43: does not fit: the sum is 9\d+", said)

    def test_another_run_is_refused_with_its_line(self):
        line = self.text.count("\n") + 1
        with pytest.raises(UsageError, match=rf"^a\.txt:{line}: nvbandwidth 0\.8 starts here"):
            read(self.text + self.text)

    def test_options_of_collectives_are_refused(self):
        with pytest.raises(UsageError, match=r"--ranks applies only to operations of ranks"):
            read(self.text, ranks=4)

    def test_no_testcase_is_taken_for_another(self):
        for name in (
            "host_to_device_bidirectional_memcpy_sm",
            "host_to_all_memcpy_ce",
            "all_to_host_bidirectional_memcpy_sm",
            "multinode_device_to_device_memcpy_read_ce",
            "multinode_bisect_write_ce",
            "device_local_write_sm",
            "device_to_device_latency_tma",
        ):
            assert isinstance(meaning_of(name), str)


class TestCudaSamples:
    text = (TEXTS / "cuda-samples-p2p.txt").read_text()

    def test_devices(self):
        header = stored("cuda-samples-p2p.txt").header
        assert [one.name for one in header.devices] == ["NVIDIA A40"] * 3
        assert header.devices[2].pci_bus_id == "00000000:D8:00.0"

    @pytest.mark.parametrize(
        ("title", "fields"),
        [
            (
                "Unidirectional P2P=Disabled",
                {"measure": "unidirectional", "peer_access": False},
            ),
            (
                "Unidirectional P2P=Enabled",
                {"measure": "unidirectional", "peer_access": True},
            ),
            ("Bidirectional P2P=Disabled", {"measure": "bidirectional", "peer_access": False}),
            ("Bidirectional P2P=Enabled", {"measure": "bidirectional", "peer_access": True}),
        ],
    )
    def test_bandwidths(self, title, fields):
        found = gbps(chosen(stored("cuda-samples-p2p.txt"), **fields))
        expected = {}
        for (row, column), value in printed(self.text, title).items():
            linked = {row, column} == {0, 1} or not fields["peer_access"]
            if row == column and fields["measure"] == "unidirectional":
                expected[row, column] = value / 2
            elif row != column and linked:
                expected[row, column] = value
        assert found == pytest.approx(expected)

    def test_times(self):
        journal = stored("cuda-samples-p2p.txt")
        for one in journal.transfers:
            if one.transfer.measure != "latency":
                assert one.transfer.size_bytes == 160_000_000
                assert one.summary.time_s == pytest.approx(
                    160e6 * len(one.transfer.flows) / one.summary.bytes_per_s
                )

    def test_latencies_with_the_calls(self):
        found = chosen(stored("cuda-samples-p2p.txt"), measure="latency", peer_access=False)
        start = self.text.index("P2P=Disabled Latency")
        for head, name in (("   GPU", "time_s"), ("   CPU", "call_s")):
            text = "\n" + self.text[self.text.index(head, start) :]
            cells = printed(text, "\n")
            assert {flow: getattr(one, name) * 1e6 for flow, one in found.items()} == (
                pytest.approx(cells)
            )

    def test_the_commands_options(self):
        journal = read("./p2pBandwidthLatencyTest --sm_copy --numElems=1000000\n" + self.text)
        found = {one.transfer.engine: one for one in journal.transfers if one.transfer.flows}
        assert found.keys() == {"CE", "SM"}
        for one in journal.transfers:
            inside = one.transfer.flows[0][0] == one.transfer.flows[0][1]
            by_kernel = one.transfer.peer_access and not inside
            assert one.transfer.engine == ("SM" if by_kernel else "CE")
            assert one.transfer.size_bytes in (16, 4_000_000)
        assert "--sm_copy was given" not in notices(journal)
        assert "is assumed; --size" not in notices(journal)

    def test_old_versions_are_refused(self):
        old = self.text.replace(" (P2P Writes)", "")
        with pytest.raises(UsageError, match=r"^a\.txt:25: this is the output of CUDA samples bef"):
            read(old)


class TestPccl:
    text = (TEXTS / "pccl-p2p.txt").read_text()

    def test_figures(self):
        journal = stored("pccl-p2p.txt")
        row = r"DEV\d"
        cells = printed(self.text, "P2P Unidirectional Bandwidth", row)
        assert gbps(chosen(journal, measure="unidirectional")) == {
            (column, row): value for (row, column), value in cells.items()
        }
        assert {
            (one.engine, one.kernel, one.direction, one.size_bytes)
            for one in (result.transfer for result in journal.transfers)
            if one.measure == "unidirectional"
        } == {("SM", "ncCopy", "read", 268435456)}
        both = chosen(journal, measure="bidirectional", engine="CE", direction="write")
        assert gbps(both) == printed(self.text, "P2P Bidirectional Bandwidth", row)
        for one in both.values():
            assert one.time_s == pytest.approx(2 * 268435456 / one.bytes_per_s)
        latencies = chosen(journal, measure="latency")
        for clock, name in (("GPU", "time_s"), ("CPU", "call_s")):
            cells = printed(self.text, f"{clock} P2P Transmission", row)
            cells = {place: value for place, value in cells.items() if value}
            assert {flow: getattr(one, name) * 1e6 for flow, one in latencies.items()} == (
                pytest.approx(cells)
            )

    def test_matrices_of_shares_are_left_out_with_a_notice(self):
        assert "line 17: matrices of shares of the limit are left out" in notices(
            stored("pccl-p2p.txt")
        )
        assert "matrices of shares" not in notices(stored("pccl-p2p-processes.txt"))

    def test_devices_of_processes(self):
        journal = stored("pccl-p2p-processes.txt")
        assert [one.index for one in journal.header.devices] == [0, 1, 2]
        assert {one.transfer.engine for one in journal.transfers} == {"SM"}
        assert {one.transfer.kernel for one in journal.transfers} == {"cacheCopy"}
        said = notices(journal)
        assert "the title names CE, but the preceding command SM; using SM" in said
        assert "the text does not contain the hosts of the devices: --hosts sets their" in said
        assert journal.header.imported.hosts == 0
        assert "hosts" not in notices(stored("pccl-p2p-processes.txt", hosts=3))

    def test_text_of_ours_comes_back(self):
        ours = read_journal(TEXTS.parents[1] / "benchmarks" / "results" / "h200x4" / "p2p.jsonl")
        back = read("".join(replayed(ours, "pccl")))
        were = {
            (
                one.transfer.measure,
                one.transfer.engine,
                one.transfer.direction,
                one.transfer.flows,
            ): one.summary
            for one in ours.transfers
            if one.transfer.scope == "pairs"
        }
        assert len(back.transfers) == len(were)
        for one in back.transfers:
            was = were[
                one.transfer.measure,
                one.transfer.engine,
                one.transfer.direction,
                one.transfer.flows,
            ]
            assert one.summary.bytes_per_s == pytest.approx(was.bytes_per_s, abs=0.006e9)
            if one.transfer.measure == "latency":
                assert one.summary.time_s == pytest.approx(was.time_s, rel=0.01)

    def test_the_same_matrix_again_is_another_run(self):
        again = self.text.count("\n") + 12  # its first row of figures
        with pytest.raises(UsageError, match=rf"^a\.txt:{again}: .* 256 MiB .*is another run"):
            read(self.text + self.text)
        latencies = self.text[self.text.rindex("(EnabledP2P CE WRITE) GPU") :]
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: latency write CE device 0 to 1 is on"):
            read(latencies + latencies)

    def test_the_length_of_paths_selects_the_reference(self):
        for hops, usual in ((1, 89.555), (2, 176.975)):
            text = self.text.replace("DEV0      0         1  ", f"DEV0      0         {hops}  ", 1)
            journal = read(text.replace("--kernel=ncCopy", "--kernel=bulkCopy"), device="PPU")
            assert journal.header.imported.hosts == 1
            known = CopyReferences(shipped_references(), journal.header)
            (one,) = [
                one
                for one in journal.transfers
                if (one.transfer.measure, one.transfer.engine) == ("bidirectional", "CE")
                and one.transfer.flows[0] == (0, 1)
            ]
            match = known.nearest(one.transfer, one.summary)
            assert match.exact, match.differences
            assert match.bandwidth / 1e9 == pytest.approx(usual, abs=0.01)
            assert {one.hops for one in journal.header.relations} == {1, hops}
        with pytest.raises(UsageError, match=r"^a\.txt:4: 'far' is not the length of a path"):
            read(self.text.replace("DEV0      0         1  ", "DEV0      0         far", 1))

    def test_devices_of_unknown_hosts_are_not_compared_with_those_of_one(self):
        text = (TEXTS / "pccl-p2p-processes.txt").read_text()
        match = {}
        for hosts in (None, 1, 3):
            journal = read(text, device="PPU", hosts=hosts)
            assert journal.header.imported.hosts == (hosts or 0)
            known = CopyReferences(shipped_references(), journal.header)
            one = journal.transfers[0]
            match[hosts] = known.nearest(one.transfer, one.summary)
        words = "whether the two devices are on one host is unknown"
        assert match[None].differences == (*match[1].differences, words)
        assert match[3] is None
        with pytest.raises(UsageError, match="lists 1 host, not --hosts 2"):
            read(self.text, hosts=2)

    def test_messages_between_hosts_of_one_device_each(self):
        text = (
            "p2pBandwidthLatencyTest --is_multi_proc=1 --p2p_type=SM\n"
            "(EnabledP2P CCL WRITE Unidirectional)\n"
            "P2P Unidirectional Bandwidth Transport Bandwidth Matrix (64 Bytes) (GB/s)\n"
            "           HOST0:DEV0 HOST1:DEV0\n"
            "HOST0:DEV0 x          2.00\n"
            "HOST1:DEV0 3.00       x\n"
        )
        journal = read(text)
        assert gbps(chosen(journal, engine="CCL", kernel="")) == {(0, 1): 2.0, (1, 0): 3.0}
        again = "".join(replayed(journal, "pccl"))
        assert "(EnabledP2P CCL WRITE Unidirectional)\n" in again

    def test_the_kernels_of_a_text_of_ours(self):
        head = "P2P Unidirectional Bandwidth Transport Bandwidth Matrix (64 Bytes) (GB/s)\n"
        rows = "DEV0 DEV1\nDEV0 x 1.00\nDEV1 1.00 x\n"
        matrix = "(EnabledP2P SM WRITE Unidirectional)\n" + head + rows
        named = matrix.join(["", "kernel ncCopy, 4 blocks\n", "kernel bulkCopy, 1 block\n", ""])
        for text, kernels in (
            (matrix, [("", 0)]),  # of another program, perhaps with -k
            (named, [("bulkCopy", 0), ("ncCopy", 4), ("bulkCopy", 1)]),
        ):
            found = [(one.transfer.kernel, one.transfer.blocks) for one in read(text).transfers]
            assert list(dict.fromkeys(found)) == kernels
        journal = read(named)
        again = "".join(replayed(journal, "pccl"))
        assert [line for line in again.splitlines() if line.startswith("kernel")] == [
            "kernel ncCopy, 4 blocks",
            "kernel bulkCopy, 1 block",
        ]
        assert [one.transfer for one in read(again).transfers] == [
            one.transfer for one in journal.transfers
        ]

    def test_wrong_data_stays_wrong(self):
        """In a cell of ours, in place of a bandwidth or of a latency."""
        text = (
            "(EnabledP2P CE WRITE Unidirectional)\n"
            "P2P Unidirectional Bandwidth Transport Bandwidth Matrix (64 Bytes) (GB/s)\n"
            "DEV0 DEV1\nDEV0 x WRONG\nDEV1 1.00 x\n"
            "(EnabledP2P CE WRITE) GPU P2P Transmission Latency Matrix (US)\n"
            "DEV0 DEV1\nDEV0 0.00 1.50\nDEV1 WRONG 0.00\n"
            "(EnabledP2P CE WRITE) CPU P2P Transmission Latency Matrix (US)\n"
            "DEV0 DEV1\nDEV0 0.00 2.50\nDEV1 WRONG 0.00\nTotal: 1.00 s\n"
        )
        journal = read(text)
        assert [(one.transfer.flows[0], one.status) for one in journal.transfers] == [
            ((0, 1), "wrong"),
            ((1, 0), "ok"),
            ((0, 1), "ok"),
            ((1, 0), "wrong"),
        ]
        assert [one.summary is None for one in journal.transfers] == [True, False, False, True]
        assert journal.footer.exit_code == 1
        again = "".join(replayed(journal, "pccl"))
        assert again.count("WRONG") == 3
        assert [one.status for one in read(again).transfers] == [
            one.status for one in journal.transfers
        ]

    @pytest.mark.parametrize("method", ["ping-pong", "chase", "half-round-trip"])
    def test_the_method_of_latencies_of_a_text_of_ours(self, method):
        text = (
            f"method {method}, 16 bytes\n"
            "(EnabledP2P SM WRITE) GPU P2P Transmission Latency Matrix (US)\n"
            "DEV0 DEV1\nDEV0 0.00 0.05\nDEV1 0.06 0.00\n"
        )
        # The next matrix is that of PCCL's tool again.
        journal = read(text + text.partition("\n")[2].replace("SM", "CE"))
        assert [one.transfer.method for one in journal.transfers] == [method] * 2 + ["copy"] * 2
        assert {one.transfer.kernel for one in journal.transfers} == {""}
        assert "kernel" not in notices(journal)
        again = "".join(replayed(journal, "pccl"))
        assert again.count(f"method {method}, 16 bytes\n") == 1
        assert [one.transfer for one in read(again).transfers] == [
            one.transfer for one in journal.transfers
        ]


class TestPerftest:
    @staticmethod
    def rows(text, title):
        lines = iter(text[text.index(f"{title} Test") :].splitlines())
        for line in lines:
            if line.startswith(" #bytes"):
                break
        found = []
        for line in lines:
            if line.startswith("---"):
                break
            found.append([float(word) for word in line.split()])
        assert found
        return found

    @staticmethod
    def by_size(journal, **fields):
        return {
            one.transfer.size_bytes: one
            for one in journal.transfers
            if all(getattr(one.transfer, name) == value for name, value in fields.items())
        }

    def test_mebibytes(self):
        text = (TEXTS / "perftest-write-bw.txt").read_text()
        found = self.by_size(read(text), measure="unidirectional", kernel="write", engine="RDMA")
        rows = self.rows(text, "RDMA_Write BW")
        assert len(found) == len(rows)
        for size, _, _, average, _ in rows:
            one = found[size]
            assert one.summary.bytes_per_s == pytest.approx(average * 1024 * 1024)
            assert one.summary.time_s == pytest.approx(size / (average * 1024 * 1024))
            assert one.transfer.flows == ((0, 1),)
        # The same figures under their old name, which was MB for the same bytes.
        assert read(text.replace("MiB/sec", "MB/sec")).transfers == read(text).transfers

    def test_gigabits_and_both_directions(self):
        text = (TEXTS / "perftest-gbit.txt").read_text()
        journal = read(text)
        reads = self.by_size(journal, kernel="read", direction="read")
        for size, _, _, average, _ in self.rows(text, "RDMA_Read BW"):
            assert reads[size].summary.bytes_per_s == pytest.approx(average * 1e9 / 8)
            assert reads[size].transfer.flows == ((1, 0),)
        both = self.by_size(journal, kernel="send", measure="bidirectional")
        for size, _, _, average, _ in self.rows(text, "Send Bidirectional BW"):
            assert both[size].summary.bytes_per_s == pytest.approx(average * 1e9 / 8)
            assert both[size].summary.time_s == pytest.approx(2 * size / (average * 1e9 / 8))
        assert journal.header.devices[0].name == "mlx5_2"
        assert "TX depth 128, Mtu 4096[B], Link type IB" in notices(journal)

    def test_latencies_are_the_typical_ones(self):
        text = (TEXTS / "perftest-write-lat.txt").read_text()
        found = self.by_size(read(text), measure="latency", method="half-round-trip")
        rows = self.rows(text, "RDMA_Write Latency")
        assert len(found) == len(rows) == 6
        for size, iterations, least, most, typical, *_ in rows:
            summary = found[size].summary
            assert summary.time_s == pytest.approx(typical * 1e-6)
            assert (summary.min_s, summary.max_s) == pytest.approx((least * 1e-6, most * 1e-6))
            assert summary.samples == iterations - 1
        of_reads = read(text.replace("RDMA_Write Latency", "RDMA_Read Latency"))
        assert {one.transfer.method for one in of_reads.transfers} == {"round-trip"}

    def test_atomics_and_averages_over_a_time(self):
        text = (TEXTS / "perftest-write-lat.txt").read_text()
        more = text.replace("RDMA_Write Latency", "Atomic FETCH_AND_ADD Latency") + text
        assert "is left out: cclmark has no such copy" in notices(read(more))
        assert read(more).transfers == read(text).transfers
        lasting = text.replace("t_typical[usec]", "t_other[usec]")
        with pytest.raises(UsageError, match=r"a\.txt:\d+: the table has no typical latency"):
            read(lasting)

    def test_averages_above_peaks_that_tools_print(self):
        """A peak that was not measured, and one without the last messages, which is an old one."""
        text = (TEXTS / "perftest-write-bw.txt").read_text()
        row = next(line for line in text.splitlines() if "46484.74" in line)
        found = read(text).transfers
        assert read(text.replace("46670.68", "0.00")).transfers == found
        uneven = row.replace("5000", "5050").replace("46670.68", "46370.68")
        assert read(text.replace(row, uneven)).transfers == found
        each = text.replace("CQ Moderation   : 100", "CQ Moderation   : 1")
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: BW average 46484\.7 is above BW peak"):
            read(each.replace(row, uneven))

    def test_old_versions_count_the_messages_of_one_direction(self):
        text = (TEXTS / "perftest-gbit.txt").read_text()
        old = text.replace("7.257080", "3.628540")
        assert read(old).transfers == read(text).transfers
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: BW average 122\.04 does not fit Msg"):
            read(text.replace("3.724365", "1.862183"))

    def test_another_device_is_another_run(self):
        text = (TEXTS / "perftest-write-bw.txt").read_text()
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: device mlx5_7 here, mlx5_2 above"):
            read(text + text.replace("mlx5_2", "mlx5_7"))
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: TX depth is 8 here, 128 above"):
            read(text + text.replace("TX depth        : 128", "TX depth        : 8"))
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: .* this is another run"):
            read(text + text)


def test_a_journal_has_every_field_that_readers_require(tmp_path):
    from cclmark.kinds.registry import read_journal
    from cclmark.results.journal import JournalWriter

    for name in ("nvbandwidth-0.8.txt", "nvbandwidth.json", "cuda-samples-p2p.txt", "pccl-p2p.txt"):
        journal = stored(name)
        path = tmp_path / f"{name}.jsonl"
        writer = JournalWriter(path)
        for line in (journal.header, *journal.results, journal.footer):
            writer.write(line)
        writer.close(keep=True)
        back = read_journal(path)
        assert back.transfers == journal.transfers
        assert back.damaged_lines == 0
        assert json.dumps(back.header.notices)
