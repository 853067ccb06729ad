"""Texts of benchmarks of transports and of expert parallelism: every figure, or refused."""

from __future__ import annotations

import json
import re

import pytest

from cclmark.document.matrix import MatrixCollector
from cclmark.errors import UsageError
from foreign_texts import TEXTS, notices, read


class TestUcx:
    text = (TEXTS / "ucx-perftest.txt").read_text()
    by_mpi = (TEXTS / "ucx-perftest-mpi.txt").read_text()

    @staticmethod
    def finals(text):
        rows = [line.split() for line in text.splitlines() if line.startswith("Final:")]
        return [[float(word.replace(",", "")) for word in row[1:]] for row in rows]

    def test_totals_of_final_rows(self):
        found = read(self.text).transfers
        rows = self.finals(self.text)
        assert len(found) == len(rows) == 5
        for one, row in zip(found, rows, strict=True):
            if one.transfer.measure == "latency":
                assert one.transfer.method == "half-round-trip"
                assert one.summary.time_s == pytest.approx(row[3] * 1e-6)
            else:
                assert one.summary.bytes_per_s == pytest.approx(row[5] * 1024 * 1024)
            assert (one.transfer.engine, one.transfer.kernel) == ("UCX", "tag")
        sizes = [one.transfer.size_bytes for one in found]
        assert sizes == [8, 1024, 1048576, 8, 65536]
        assert "settings of the tool (UCX): memory cuda" in notices(read(self.text))

    def test_boxes_of_one_process_and_of_mpi(self):
        journal = read(self.by_mpi)
        found = {
            (one.transfer.kernel, one.transfer.measure): one.transfer for one in journal.transfers
        }
        assert {
            key: (one.engine, one.method, one.flows[0], one.size_bytes)
            for key, one in found.items()
        } == {
            ("put", "latency"): ("UCT", "half-round-trip", (0, 1), 8),
            ("put", "unidirectional"): ("UCT", "", (0, 1), 4096),
            ("get", "latency"): ("UCT", "round-trip", (1, 0), 8),
        }
        assert "an atomic operation is left out" in notices(journal)

    def test_the_servers_box_below_the_clients_head(self):
        lines = self.text.splitlines()
        client = lines[2:7]
        box = [line for line in self.by_mpi.splitlines()[:8] if "Window" not in line]
        box = [line.replace("transport", "protocol") for line in box]
        (one,) = read("\n".join([*client, *box, lines[7]])).transfers
        assert (one.transfer.engine, one.transfer.kernel) == ("UCX", "put")

    def test_final_numbers_only_and_batches(self):
        final = self.text.replace("Stage", " Test").replace("Final:    ", "          ")
        final = "\n".join(line for line in final.splitlines() if not line.startswith("[thread"))
        assert read(final).transfers == read(self.text).transfers
        lines = self.text.splitlines()
        dashes = "-" * 40
        batch = [
            *lines[2:7],
            f"+ucp_contig_tag_bw/8{dashes}+{dashes}+",
            lines[7],
            f"+ucp_contig_tag_bw/1024{dashes}+",
            lines[15],
        ]
        assert read("\n".join(batch)).transfers == read(self.text).transfers[:2]

    def test_old_tables_mark_no_final_row(self):
        old = re.sub(r"\|    Stage     (?=\|)", "", self.text)
        old = old.replace("Final:    ", "").replace("[thread 0]", "")
        assert "Final" not in old
        assert read(old).transfers == read(self.text).transfers

    def test_all_threads_together(self):
        row = next(line for line in self.text.splitlines() if line.startswith("Final:"))
        short = "Final:    " + f"{2000000:18} {0.062:29} {123.66:22} {16207456:23}"
        one = read(self.text.replace(row, short)).transfers[0]
        assert one.summary.bytes_per_s == pytest.approx(123.66 * 1024 * 1024)

    def test_unknown_tests_and_sizes(self):
        alone = "\n".join(line for line in self.text.splitlines() if "$ UCX" not in line)
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: the test of these figures is unknown"):
            read(alone)
        first = "\n".join(self.text.splitlines()[:8])
        unsized = first.replace("-s 8 ", "-s $SIZE ")
        with pytest.raises(UsageError, match="set it with --size"):
            read(unsized)
        assert read(unsized, size_bytes=8).transfers[0].transfer.size_bytes == 8

    def test_sizes_that_do_not_fit(self):
        other = self.text.replace("-s 1024 ", "-s 4096 ")
        assert "4096 bytes, but time and bandwidth give" in notices(read(other))

    def test_other_settings_are_another_run(self):
        other = self.text.replace("-m cuda -s 1048576", "-m host -s 1048576")
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: the settings \(memory"):
            read(other)
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: .* this is another run"):
            read(self.text + self.text)

    def test_interrupted(self):
        place = self.text.rindex("Final:")
        journal = read(self.text[:place])
        assert journal.footer is None
        assert len(journal.transfers) == 4
        assert "has no final row" in notices(journal)
        assert read(self.text[: place + 40]).footer is None


class TestSuperBench:
    text = (TEXTS / "superbench.jsonl").read_text()
    copies = (TEXTS / "superbench-copies.jsonl").read_text()
    figures = json.loads(text)

    def test_collectives(self):
        journal = read(self.text)
        found = {
            (one.case.ccl, one.case.operation, one.case.size_bytes): one for one in journal.cases
        }
        assert len(found) == 6
        names = {"allreduce": "all_reduce", "alltoall": "alltoall"}
        for note in ("nvlink", "ib"):
            for name, operation in names.items():
                for size in (8, 1048576, 1073741824):
                    key = f"nccl-bw:{note}/{name}_{size}_"
                    one = found.get((f"nccl:{note}", operation, size))
                    time_us = self.figures.get(f"{key}time:0")
                    assert (one is None) == (
                        time_us is None or (operation, size) == ("alltoall", 8)
                    )
                    if one is not None:
                        assert one.summary.time_s == pytest.approx(time_us * 1e-6)
                        assert one.case.ranks == 8
        assert not any("fit: " in one for one in journal.header.notices)

    def test_one_annotation_is_not_part_of_the_library(self):
        one_kind = {
            key: value for key, value in self.figures.items() if not key.startswith("nccl-bw:ib")
        }
        assert {one.case.ccl for one in read(json.dumps(one_kind)).cases} == {"nccl"}

    def test_what_is_left_out_is_named(self):
        said = notices(read(self.text))
        for words in (
            "gemm-flops (1)",
            "the size is not in the file: mem-bw (1)",
            "import them with --format superbench-copies: gpu-copy-bw (8), ib-loopback (4)",
            "of groups of nodes that the file does not name: nccl-bw (1)",
        ):
            assert words in said

    def test_copies(self):
        journal = read(self.copies)
        fields = ("engine", "direction", "scope", "measure", "to_host")
        named = {
            (*(getattr(one.transfer, name) for name in fields), one.transfer.flows[0]): one
            for one in journal.transfers
        }
        figure = {
            key.partition("/")[2]: value
            for key, value in self.figures.items()
            if "correctness" not in key
        }
        alone, both = "unidirectional", "bidirectional"
        gpu = {
            ("CE", "write", "host", alone, False, (0, 0)): "cpu_to_gpu0_by_dma_under_numa0",
            ("SM", "write", "host", alone, True, (0, 0)): "gpu0_to_cpu_by_sm_under_numa0",
            ("SM", "write", "pairs", alone, False, (0, 1)): "gpu0_to_gpu1_write_by_sm",
            ("CE", "read", "pairs", alone, False, (0, 1)): "gpu0_to_gpu1_read_by_dma",
            ("CE", "write", "pairs", both, False, (0, 1)): "gpu0_and_gpu1_write_by_dma",
        }
        for key, name in gpu.items():
            summary = named[key].summary
            assert summary.bytes_per_s == pytest.approx(figure[f"{name}_bw"] * 1e9)
            assert named[key].transfer.size_bytes == 256 << 20
        local = named["SM", "write", "local", "unidirectional", False, (0, 0)]
        assert local.summary.bytes_per_s == pytest.approx(2682.66e9 / 2)
        devices = journal.header.devices
        by_verbs = [one for one in journal.transfers if one.transfer.engine == "RDMA"]
        loops = {
            (one.transfer.kernel, devices[one.transfer.flows[0][0]].name): one.summary.bytes_per_s
            for one in by_verbs
            if one.transfer.scope == "local"
        }
        assert loops == {
            (verb, f"adapter {number}"): pytest.approx(
                figure[f"ib_{verb}_bw_8388608:{number}"] * 1e9
            )
            for verb in ("write", "read")
            for number in (0, 1)
        }
        (between,) = [one for one in by_verbs if one.transfer.kernel == "write gpu-to-gpu"]
        assert between.summary.bytes_per_s == pytest.approx(48.9125e9)
        ends = [devices[number].host for number in between.transfer.flows[0]]
        assert ends == ["gpu-node-18", "gpu-node-17"]  # the client writes to the server
        (latency,) = [one for one in by_verbs if one.transfer.measure == "latency"]
        assert latency.summary.time_s == pytest.approx(3.61e-6)
        assert latency.transfer.method == "round-trip"

    def test_every_figure_is_in_the_cell_of_its_devices(self):
        """GPU 0, adapter 0 and process 0 of a host are three devices."""
        journal = read(self.copies)
        collector = MatrixCollector(journal.header, shares=False)
        matrices = [one for result in journal.transfers for one in collector.add(result)]
        matrices += collector.finish()
        cells = {
            (matrix.series.means, matrix.series.direction, matrix.series.measure, *place): cell
            for matrix in matrices
            for place, cell in matrix.cells.items()
        }
        assert len(cells) == len(journal.transfers)
        alone = "unidirectional"
        gpus = cells["SM", "write", alone, "HOST0:GPU0", "HOST0:GPU1"]
        assert gpus.value == pytest.approx(383.397)
        loop = cells["RDMA write", "write", alone, "local", "HOST0:adapter1"]
        assert loop.value == pytest.approx(48.34286)
        hosts = cells["RDMA write gpu-to-gpu", "write", alone, "HOST0:process0", "HOST1:process0"]
        assert hosts.value == pytest.approx(48.9125)
        (local,) = [one for one in matrices if one.series.means == "RDMA read"]
        assert local.columns == ["HOST0:adapter0", "HOST0:adapter1"]

    def test_the_size_of_copies_that_lack_one(self):
        journal = read(self.copies, size_bytes=1 << 20)
        sizes = {one.transfer.engine: set() for one in journal.transfers}
        for one in journal.transfers:
            sizes[one.transfer.engine].add(one.transfer.size_bytes)
        assert sizes == {"CE": {1 << 20}, "SM": {1 << 20}, "RDMA": {8388608, 2}}

    def test_old_names_of_loopback(self):
        old = '{"node": "a", "ib-loopback/IB_write_8388608_Avg_3:0": 23869.58}'
        (one,) = read(old).transfers
        assert one.summary.bytes_per_s == pytest.approx(23869.58 * 1024 * 1024)

    def test_a_benchmark_that_failed(self):
        failed = self.text.replace('nvlink/return_code": 0', 'nvlink/return_code": 3')
        footer = read(failed).footer
        assert (footer.exit_code, footer.message) == (1, "nccl-bw:nvlink/return_code is 3")

    def test_several_nodes_are_refused(self):
        with pytest.raises(UsageError, match=r"^a\.txt:2: node gpu-node-18 here, gpu-node-17 abo"):
            read(self.text + self.text.replace('"node": "gpu-node-17"', '"node": "gpu-node-18"'))


class TestDeepEp:
    between = (TEXTS / "deepep-internode.txt").read_text()
    low_latency = (TEXTS / "deepep-low-latency.txt").read_text()
    elastic = (TEXTS / "deepep-elastic.txt").read_text()

    @staticmethod
    def figures(journal):
        return {
            (one.case.ccl, one.case.dtype): (
                round(one.summary.time_s * 1e6, 3),
                round(one.summary.algbw_bytes_per_s / 1e9, 2),
            )
            for one in journal.cases
        }

    def test_the_best_of_several_nodes(self):
        journal = read(self.between, ranks=16)
        assert {one.case.operation for one in journal.cases} == {"alltoallv"}
        found = self.figures(journal)
        lines = [line for line in self.between.splitlines() if "Best" in line]
        assert len(found) == 2 * len(lines) == 6
        for line in lines:
            phase = re.search(r"Best (\w+)", line)[1]
            dtype = "fp8e4m3" if "FP8" in line else "bfloat16"
            time_us = float(re.search(r"\+ ([\d.]+) us", line)[1])
            for rate, link in re.findall(r"([\d.]+) GB/s \((\w+)\)", line):
                key = (f"deepep:{phase}:{link.lower()}", dtype)
                assert found[key] == (time_us, pytest.approx(float(rate), abs=0.01))
        for one in journal.cases:  # the logical bandwidth is the only one of the tool
            assert one.summary.busbw_bytes_per_s == one.summary.algbw_bytes_per_s
            rate = one.case.size_bytes / one.summary.time_s
            assert one.summary.algbw_bytes_per_s == pytest.approx(rate)
        assert "num_topk=8" in notices(journal)
        with pytest.raises(UsageError, match="set --ranks N"):
            read(self.between)

    def test_other_versions_have_the_times_elsewhere(self):
        lines = (
            "[tuning] Best dispatch (BF16): SMs 24, NVL chunk 32, RDMA chunk 16, transmit: "
            "4011.25 us, notify: 42.10 us, BW: 56.22 GB/s (RDMA), 117.47 GB/s (NVL)",
            "[tuning] Best combine: SMs 24, NVL chunk 6: 321.50 GB/s (NVL), t: 812.25 us",
            "[tuning] Best dispatch (FP8): SMs 24, NVL chunk 20, 301.25 GB/s (NVL), t: 440.50 us",
        )
        assert self.figures(read("\n".join(lines), ranks=8)) == {
            ("deepep:dispatch:rdma", "bfloat16"): (4011.25, 56.22),
            ("deepep:dispatch:nvl", "bfloat16"): (4011.25, 117.47),
            ("deepep:combine:nvl", "bfloat16"): (812.25, 321.5),
            ("deepep:dispatch:nvl", "fp8e4m3"): (440.5, 301.25),
        }

    def test_versions_without_times(self):
        line = (
            "[tuning] Best dispatch ({}): SMs 24, NVL chunk 32, RDMA chunk 16: 55.49 GB/s (RDMA), "
            "180.25 GB/s (NVL)"
        )
        text = "\n".join(line.format(name) for name in ("FP8", "BF16"))
        journal = read(text, ranks=32)
        sizes = {one.case.dtype: one.case.size_bytes for one in journal.cases}
        assert sizes == {"fp8e4m3": 4096 * (7168 + 224), "bfloat16": 4096 * 7168 * 2}
        one = journal.cases[0]
        assert one.summary.algbw_bytes_per_s == pytest.approx(55.49e9)
        assert one.summary.time_s == pytest.approx(4096 * 7392 / 55.49e9)
        assert "4096 of 7168 elements (the tests' default)" in notices(journal)
        told = "[config] num_tokens=128, hidden=2048, num_topk=8\n"
        assert "128 of 2048 elements (this text)" in notices(read(told + text, ranks=32))

    def test_the_slowest_rank_of_low_latency(self):
        journal = read(self.low_latency)
        assert self.figures(journal) == {
            ("deepep:low-latency-dispatch", "fp8e4m3"): (172.99, 43.85),
            ("deepep:low-latency-combine", "bfloat16"): (318.2, 46.13),
        }
        assert {one.case.ranks for one in journal.cases} == {8}
        without = "\n".join(
            line for line in self.low_latency.splitlines() if "[rank 3] Dispatch b" not in line
        )
        with pytest.raises(UsageError, match="lacks rank 3"):
            read(without)
        assert {one.case.ranks for one in read(without, ranks=8).cases} == {8}

    def test_lines_of_elastic_buffers(self):
        journal = read(self.elastic)
        assert {one.case.ranks for one in journal.cases} == {4}
        pattern = r"EP: +3/4 \| ([a-z ]+): 0 GB/s \(SO\), (\d+) GB/s \(SU\), ([\d.]+) us, (\d+) by"
        expected = {
            (f"deepep:{phase.replace(' ', '-')}:scale-up", int(size), float(time_us))
            for phase, _, time_us, size in re.findall(pattern, self.elastic)
        }
        assert {
            (one.case.ccl, one.case.size_bytes, round(one.summary.time_s * 1e6, 3))
            for one in journal.cases
        } == expected
        assert len(expected) == 10
        both = read(self.elastic.replace(" 0 GB/s (SO)", " 88 GB/s (SO)"))
        over = [one for one in both.cases if one.case.ccl.endswith(":scale-out")]
        assert {round(one.summary.algbw_bytes_per_s / 1e9) for one in over} == {88}

    one_node = (
        "[tuning] SMs 24, NVL chunk 4: 301.25 GB/s (NVL), 560.20 us\n"
        "[tuning] Best combine: SMs 24, NVL chunk 6: 321.50 GB/s (NVL), t: 547.10 us"
    )

    def test_a_cut_line_is_not_one_of_a_version_without_times(self):
        best = self.one_node.splitlines()[1]
        assert list(self.figures(read(best, ranks=8)).values()) == [(547.1, 321.5)]
        for text, last in ((self.one_node, 2), (best, 1)):
            for end in (", t: 547.10", ", t: 5", ", t:", ","):
                cut = text[: text.index(", t: 547") + len(end)]
                with pytest.raises(UsageError, match=rf"^a\.txt:{last}: this line is cut: copy"):
                    read(cut, ranks=8)
                with pytest.raises(UsageError, match=rf"^a\.txt:{last}: cannot read '"):
                    read(f"{cut}\n{best}", ranks=8)
        cut = self.one_node[: self.one_node.index(", t: 547")]
        with pytest.raises(
            UsageError, match=r"^a\.txt:2: this line has no time, but line 1 has one, so it is cut"
        ):
            read(cut, ranks=8)

    @pytest.mark.parametrize("end", ["(RDMA)", "(RDMA),", "(RDMA), 106.69 GB/s"])
    def test_a_cut_line_lacks_a_link(self, end):
        cut = self.between[: self.between.rindex(" (RDMA)") + 1] + end
        number = cut.count("\n") + 1
        with pytest.raises(UsageError, match=rf"^a\.txt:{number}: this line is cut: copy the text"):
            read(cut, ranks=16)

    @pytest.mark.parametrize("unit", ["ms", "s", "ns"])
    def test_other_units_are_refused(self, unit):
        for text, old in (
            (self.one_node, "547.10 us"),
            (self.between, "4416.37 us"),
            (self.low_latency, "315.50 us"),
            (self.elastic, "187.500 us"),
        ):
            head = text[: text.index(old)]
            other = f"{head}{old.replace('us', unit)}"
            number = head.count("\n") + 1
            for changed in (f"{other}{text[len(head) + len(old) :]}", other):
                with pytest.raises(
                    UsageError, match=rf"^a\.txt:{number}: a figure in {unit}, but "
                ):
                    read(changed, ranks=8)
        rate = self.one_node.replace("GB/s (NVL), t", "MB/s (NVL), t")
        with pytest.raises(UsageError, match=r"^a\.txt:2: a figure in MB/s, but DeepEP prints us"):
            read(rate, ranks=8)

    def test_other_tokens_are_another_run(self):
        other = self.between.replace("num_tokens=4096", "num_tokens=128")
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: other numbers of tokens than above"):
            read(self.between + other, ranks=16)


class TestNixlbench:
    text = (TEXTS / "nixlbench.txt").read_text()
    old = (TEXTS / "nixlbench-0.1.txt").read_text()

    @staticmethod
    def rows(text):
        lines = text[text.index("Block Size (B)") :].splitlines()[2:]
        return [[float(word) for word in line.split()] for line in lines]

    def test_bandwidths_and_times_of_requests(self):
        journal = read(self.text)
        rows = self.rows(self.text)
        assert len(journal.transfers) == 2 * len(rows) == 16
        found = {
            (one.transfer.size_bytes, one.transfer.kernel, one.transfer.measure): one.summary
            for one in journal.transfers
        }
        for size, batch, rate, *times in rows:
            means = "UCX" if batch == 1 else f"UCX batch {batch:.0f}"
            assert found[size, means, "unidirectional"].bytes_per_s == pytest.approx(rate * 1e9)
            assert found[size, means, "latency"].time_s == pytest.approx(times[5] * 1e-6)
        transfer = journal.transfers[0].transfer
        assert (transfer.engine, transfer.direction, transfer.flows) == ("NIXL", "read", ((1, 0),))
        assert "Initiator seg type VRAM, Target seg type VRAM" in notices(journal)

    def test_the_columns_of_old_versions(self):
        journal = read(self.old)
        rows = self.rows(self.old)
        assert [one.summary.bytes_per_s for one in journal.transfers] == pytest.approx(
            [row[5] * 1e9 for row in rows]
        )
        assert {one.transfer.kernel for one in journal.transfers} == {"UCX batch 64"}
        assert {one.transfer.direction for one in journal.transfers} == {"write"}
        assert "WRITE by UCX, its default, is assumed" in notices(journal)

    def test_several_pairs(self):
        lines = self.old.splitlines()
        head = lines[2].rstrip() + "  Aggregate B/W (GB/Sec)   Network Util (%)"
        many = "\n".join([head, *(f"{line} 361.2  90.1" for line in lines[4:])])
        journal = read(many)
        assert journal.transfers[0].summary == read(self.old).transfers[0].summary
        assert "the aggregate one is not imported" in notices(journal)

    def test_storage_is_left_out(self):
        stored = self.text.replace("AZURE_BLOB]): UCX", "AZURE_BLOB]): POSIX")
        assert stored != self.text
        with pytest.raises(UsageError, match=r"no row of nixlbench; line .* backend POSIX is left"):
            read(stored)
        assert "backend POSIX is left out" in notices(read(stored + self.text))

    def test_other_settings_are_another_run(self):
        other = self.text.replace(": VRAM", ": DRAM", 1)
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: the settings differ from the tab"):
            read(self.text + other)

    def test_a_failed_check(self):
        footer = read(self.text + "Consistency check failed\n").footer
        assert (footer.exit_code, footer.message) == (1, "Consistency check failed")

    def test_bandwidths_fit_the_times_of_blocks(self):
        found = read(self.text).transfers
        row = next(
            line for line in self.text.splitlines() if line.startswith("16777216            16")
        )
        number = self.text.splitlines().index(row) + 1
        many = re.sub(r"(Num threads .*): 1\n", r"\1: 4\n", self.text)
        assert many != self.text
        since = row.replace("359.8 ", "1439.0")  # the time of one of four threads
        assert [one.summary for one in read(many).transfers] == [one.summary for one in found]
        assert [one.summary for one in read(many.replace(row, since)).transfers] == [
            one.summary for one in found
        ]
        for text, old, new in (
            (self.text, "46.635095", "46.535095"),
            (self.text, "46.635095", "47.635095"),
            (self.text, " 359.8", " 395.8"),
            (self.text, " 359.8 ", " 1439.0"),
            (many, "46.635095", "46.535095"),
        ):
            damaged = text.replace(row, row.replace(old, new))
            with pytest.raises(
                UsageError, match=rf"^a\.txt:{number}: B/W \(GB/Sec\) 4\S+ does not fit Avg Lat\. "
            ):
                read(damaged)
        unknown = self.old.replace("90.2656", "91.2656")  # the number of threads is not printed
        assert read(unknown).transfers[-1].summary.bytes_per_s == pytest.approx(91.2656e9)


class TestPerftestJson:
    bandwidth = (TEXTS / "perftest-bw.json").read_text()
    latency = (TEXTS / "perftest-lat-2022.json").read_text()

    def test_gigabits_and_mebibytes_are_told_apart_by_the_rate_of_messages(self):
        journal = read(self.bandwidth)
        (one,) = journal.transfers
        assert journal.header.imported.format == "perftest-json"
        assert one.summary.bytes_per_s == pytest.approx(386.13e9 / 8)
        transfer = one.transfer
        assert (transfer.kernel, transfer.flows, transfer.size_bytes) == (
            "write",
            ((0, 1),),
            1 << 20,
        )
        mebibytes = self.bandwidth.replace("386.13", "46030.24").replace("386.42", "46065.12")
        assert read(mebibytes).transfers[0].summary.bytes_per_s == pytest.approx(46030.24 * 2**20)
        assert journal.header.devices[0].name == "mlx5_4"
        assert "Number of qps 4, Connection type RC" in notices(journal)
        unclear = self.bandwidth.replace("386.13", "4000.25")
        with pytest.raises(UsageError, match=r"^a\.txt:2: BW_average 4000.25 does not fit MsgRate"):
            read(unclear)

    def test_documents_without_quotation_marks(self):
        (one,) = read(self.latency).transfers
        assert one.summary.time_s == pytest.approx(5.02e-6)
        assert (one.summary.min_s, one.summary.max_s) == pytest.approx((4.81e-6, 11.94e-6))
        assert one.summary.samples == 999
        assert (one.transfer.method, one.transfer.kernel) == ("round-trip", "read")
        quoted = re.sub(r"(?m)^([\w. ]+?) ?:", r'"\1":', self.latency)
        assert quoted.count('"t_typical": 5.02') == 1
        assert read(quoted).transfers == read(self.latency).transfers

    def test_several_documents_of_one_test(self):
        other = self.bandwidth.replace("1048576", "2097152").replace("0.046030", "0.023015")
        assert [one.transfer.size_bytes for one in read(self.bandwidth + other).transfers] == [
            1 << 20,
            2 << 20,
        ]
        moved = other.replace("mlx5_4", "mlx5_5")
        with pytest.raises(UsageError, match=r"^a\.txt:31: the device or the settings differ"):
            read(self.bandwidth + moved)

    def test_both_directions_and_others(self):
        both = self.bandwidth.replace("RDMA_Write_BW", "Send_Bidirectional_BW")
        (one,) = read(both).transfers
        assert (one.transfer.kernel, one.transfer.flows) == ("send", ((0, 1), (1, 0)))
        atomic = self.bandwidth.replace("RDMA_Write_BW", "Atomic_FETCH_AND_ADD_BW")
        with pytest.raises(UsageError, match="no row of perftest; line 2: Atomic FETCH AND ADD BW"):
            read(atomic)

    def test_cut_off(self):
        with pytest.raises(UsageError, match=r"^a\.txt:2: this JSON is cut off"):
            read(self.bandwidth[: self.bandwidth.index('"results"')])


class TestNccomJson:
    text = (TEXTS / "nccom-test.json").read_text()

    def test_figures_and_derived_ranks(self):
        journal = read(self.text, operation="all_reduce")
        assert journal.header.imported.format == "nccom-test-json"
        assert {
            one.case.size_bytes: round(one.summary.time_s * 1e6, 4) for one in journal.cases
        } == {row["size(B)"]: row["time:avg(us)"] for row in json.loads(self.text)["results"]}
        assert {(one.case.ranks, one.case.dtype) for one in journal.cases} == {(32, "bfloat16")}
        assert journal.header.imported.figure.startswith("the mean")
        assert "fit: " not in notices(journal)  # GB of 10^9 bytes

    def test_what_the_document_lacks(self):
        with pytest.raises(UsageError, match=r"^a\.txt:4: the operation is unknown"):
            read(self.text)
        more = self.text.replace('"results"', '"config": {"iters": 20}, "results"')
        assert "not read: config" in notices(read(more, operation="all_reduce"))
