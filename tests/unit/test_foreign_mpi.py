"""Texts of benchmarks of MPI: every figure with the tool's definition, or refused."""

from __future__ import annotations

import re

import pytest

from cclmark.errors import UsageError
from foreign_texts import TEXTS, notices, read, stored


def table(text, title, columns="size"):
    """The rows after a title as lists of numbers."""
    lines = iter(text[text.index(title) :].splitlines())
    for line in lines:
        if line.lower().lstrip("# ").startswith((columns, "bytes")):
            break
    rows = []
    for line in lines:
        if not re.match(r"\s*\d", line):
            break
        rows.append([float(word) for word in line.split() if re.fullmatch(r"[\d.]+", word)])
    return rows


def times_us(journal, operation, ranks=None):
    return {
        one.case.size_bytes: round(one.summary.time_s * 1e6, 4)
        for one in journal.cases
        if one.case.operation == operation and ranks in (None, one.case.ranks)
    }


class TestOsu:
    text = (TEXTS / "osu-collectives.txt").read_text()

    def test_sizes_and_times(self):
        journal = stored("osu-collectives.txt")
        assert times_us(journal, "all_reduce") == {
            int(row[0]): row[1] for row in table(self.text, "Allreduce Latency")
        }
        # The size is the part of a rank, which cclmark multiplies by their number.
        assert times_us(journal, "all_gather") == {
            int(row[0]) * 8: row[1] for row in table(self.text, "Allgather Latency")
        }
        assert times_us(journal, "reduce_scatter") == {
            int(row[0]): row[1] for row in table(self.text, "Reduce_scatter Latency")
        }
        assert "sizes of all_gather are per rank in the input" in notices(journal)
        assert "Barrier Latency is left out: it has no sizes" in notices(journal)

    def test_what_a_case_is(self):
        journal = stored("osu-collectives.txt")
        assert journal.header.imported.source == "OSU micro-benchmarks 7.4"
        assert {one.case.ranks for one in journal.cases} == {8}
        assert {
            (one.case.operation, one.case.dtype, one.case.reduction) for one in journal.cases
        } == {
            ("all_reduce", "float32", "sum"),
            ("all_gather", "int8", None),
            ("reduce_scatter", "float32", "sum"),
        }
        assert {one.case.ccl for one in journal.cases} == {"mpi"}
        assert {one.summary.clock for one in journal.cases} == {"host"}
        checked = [one.case.operation for one in journal.cases if one.verification is not None]
        assert set(checked) == {"all_reduce"}
        settings = journal.header.settings
        assert (settings.timing, settings.across_ranks) == ("blocking", "mean")
        assert "the mean over ranks of each rank's mean" in journal.header.imported.figure

    def test_types_of_old_versions_and_the_missing_number_of_ranks(self):
        with pytest.raises(UsageError, match=r"^a\.txt:3: the text does not contain the number of"):
            stored("osu-5.3.txt")
        journal = stored("osu-5.3.txt", ranks=16)
        assert {(one.case.ranks, one.case.dtype) for one in journal.cases} == {(16, "float32")}
        assert "an accelerator was selected (-d): CUDA" in notices(journal)

    def test_latency_is_a_ping_pong(self):
        text = (TEXTS / "osu-latency.txt").read_text()
        journal = read(text)
        assert times_us(journal, "ping_pong", 2) == {
            int(row[0]): row[1] for row in table(text, "Latency Test")
        }
        assert "Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)" in notices(journal)
        assert journal.header.imported.figure.startswith("half a round trip")

    def test_bandwidths_are_streams_in_mb_of_10_to_the_6(self):
        text = (TEXTS / "osu-bandwidth.txt").read_text()
        journal = read(text)
        for title, measure, ways in (
            ("MPI Bandwidth Test", "unidirectional", 1),
            ("Bi-Directional Bandwidth", "bidirectional", 2),
        ):
            found = {
                one.transfer.size_bytes: one.summary
                for one in journal.transfers
                if one.transfer.measure == measure
            }
            rows = table(text, title)
            assert len(found) == len(rows) == 12
            for size, rate in rows:
                assert found[size].bytes_per_s == pytest.approx(rate * 1e6)
                assert found[size].time_s == pytest.approx(ways * size / rate / 1e6)
        assert {one.transfer.engine for one in journal.transfers} == {"MPI"}
        assert "windows of 64 messages" in journal.header.imported.figure

    def test_a_failed_check_is_wrong(self):
        place = self.text.index("Pass")
        failed = self.text[:place] + "Fail" + self.text[place + 4 :]
        journal = read(failed + "DATA VALIDATION ERROR: ./osu_allreduce exited with status 1 on\n")
        assert [one.status for one in journal.cases].count("wrong") == 1
        assert journal.footer.exit_code == 1

    def test_latencies_beside_bandwidths_are_split(self):
        both = (TEXTS / "osu-latency.txt").read_text() + (TEXTS / "osu-bandwidth.txt").read_text()
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: copies between devices and operations"):
            read(both)

    def test_nccl(self):
        text = (TEXTS / "osu-5.3.txt").read_text().replace("MPI-CUDA", "NCCL-CUDA")
        assert {one.case.ccl for one in read(text, ranks=8).cases} == {"nccl"}

    def test_others_are_left_out(self):
        text = self.text.replace("Allgather Latency", "Non-blocking Allgather Latency").replace(
            "Avg Latency(us)\n1  ", "Overall(us)\n1  "
        )
        journal = read(text)
        assert "Non-blocking Allgather Latency is left out: cclmark has no such" in notices(journal)
        assert times_us(journal, "all_gather") == {}

    def test_a_cut_row_is_left_out(self):
        cut = self.text[: self.text.index("mpirun -np 8 ./osu_allgather")].rstrip()
        journal = read(cut[: cut.rindex("15.82")].rstrip())
        assert journal.footer is None
        assert len(journal.cases) == 10
        assert "truncated, omitted" in notices(journal)

    @pytest.mark.parametrize("left", ["402", "402.", "402.8"])
    def test_a_figure_that_is_cut_is_left_out(self, left):
        text = (
            "# OSU MPI Latency Test v5.3\n# Size          Latency (us)\n"
            f"2097152               200.44\n4194304               {left}"
        )
        journal = read(text)
        assert [one.case.size_bytes for one in journal.cases] == [2097152]
        assert journal.footer is None
        assert "line 4: truncated, omitted" in notices(journal)


class TestImb:
    text = (TEXTS / "imb-mpi1.txt").read_text()

    def test_one_way_times_of_pingpong(self):
        journal = stored("imb-mpi1.txt")
        rows = [row for row in table(self.text, "Benchmarking PingPong") if row[0]]
        assert times_us(journal, "ping_pong", 2) == {int(row[0]): row[2] for row in rows}
        assert "does not fit" not in notices(journal)

    def test_the_slowest_ranks_times_of_each_number_of_processes(self):
        journal = stored("imb-mpi1.txt")
        start = self.text.index("Benchmarking Allreduce")
        second = self.text.index("Benchmarking Allreduce", start + 9)
        for ranks, place in ((4, start), (8, second)):
            rows = [row for row in table(self.text[place:], "Benchmarking Allreduce") if row[0]]
            assert times_us(journal, "all_reduce", ranks) == {int(row[0]): row[3] for row in rows}
        rows = table(self.text, "Benchmarking Sendrecv")
        assert times_us(journal, "sendrecv", 8) == {int(row[0]): row[3] for row in rows}

    def test_parts_of_a_rank(self):
        rows = table(self.text, "Benchmarking Allgather")
        journal = stored("imb-mpi1.txt")
        assert times_us(journal, "all_gather", 8) == {int(row[0]) * 8: row[3] for row in rows}
        assert "sizes of all_gather are per rank" in notices(journal)

    def test_types_and_what_is_left_out(self):
        journal = stored("imb-mpi1.txt")
        types = {(one.case.operation, one.case.dtype, one.case.root) for one in journal.cases}
        assert ("all_reduce", "float32", None) in types
        assert ("broadcast", "uint8", 0) in types
        assert "Exchange is left out: cclmark has no such operation" in notices(journal)
        assert journal.header.settings.across_ranks == "max"
        assert journal.footer.exit_code == 0
        double = read(self.text.replace("MPI_FLOAT", "MPI_DOUBLE"))
        assert {one.case.dtype for one in double.cases if one.case.reduction} == {"float64"}

    def test_megabytes_of_both_definitions_fit(self):
        old = re.sub(
            r"(?m)^( +\d+ +\d+ +[\d.]+ +)([\d.]+)$",
            lambda found: f"{found[1]}{float(found[2]) / 1.048576:.2f}",
            self.text,
        )
        assert old != self.text
        assert "does not fit" not in notices(read(old))
        wrong = self.text.replace("10536.33", "20536.33")
        assert "does not fit: 20536.3 Mbytes/sec, but size and time give 10536.33" in notices(
            read(wrong)
        )

    def test_defects(self):
        head = "Benchmarking Bcast"
        start = self.text.index(head)
        end = self.text.index("#-", self.text.index("#bytes", start))
        lines = self.text[start:end].splitlines(keepends=True)
        shown = "".join(
            line.rstrip("\n") + ("      defects\n" if "#bytes" in line else "         0.00\n")
            if re.match(r"\s+[#\d]", line)
            else line
            for line in lines
        )
        journal = read(self.text[:start] + shown + self.text[end:])
        found = [one for one in journal.cases if one.case.operation == "broadcast"]
        assert [one.verification.wrong for one in found] == [0, 0, 0]
        bad = shown[::-1].replace("00.0", "50.0", 1)[::-1]
        journal = read(self.text[:start] + bad + self.text[end:])
        assert [one.status for one in journal.cases].count("wrong") == 1
        assert journal.footer.exit_code == 1

    def test_a_text_without_its_end(self):
        cut = self.text[: self.text.index("# All processes")]
        assert read(cut).footer is None

    def test_times_that_are_equal_when_they_are_rounded(self):
        text = self.text.replace("2.73         3.00         2.88", "2.89         2.88         2.88")
        journal = read(text)
        assert times_us(journal, "all_reduce", 4)[4] == 2.88
        assert len(journal.cases) == len(read(self.text).cases)

    def test_another_run(self):
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: a second head: this is another run"):
            read(self.text + self.text)

    def test_rows_that_the_tool_could_not_measure(self):
        text = self.text.replace(
            "      2097152          640       191.70     10939.76",
            '      2097152 out-of-mem.; needed X=   9.000 GB; use flag "-mem X" or MAX',
        )
        journal = read(text)
        assert 2097152 not in times_us(journal, "ping_pong")
        assert "omitted: 2097152 out-of-mem." in notices(journal)


class TestScriptsOfMachineLearningEngineering:
    text = (TEXTS / "all-reduce-latency-comp.txt").read_text()

    def test_one_large_against_many_small(self):
        journal = stored("all-reduce-latency-comp.txt")
        found = {one.case.size_bytes: one.summary for one in journal.cases}
        assert found.keys() == {4_000_000_000, 4_000_000}
        # Of the slowest rank: its bits per second, not its rounded duration.
        slowest = {
            4_000_000_000: min(self.rates("1x 4.0GB", "1000x")),
            4_000_000: min(self.rates("1000x 0.004GB", "")),
        }
        for size, gigabits in slowest.items():
            assert found[size].algbw_bytes_per_s == pytest.approx(gigabits * 1e9 / 8)
            assert found[size].time_s == pytest.approx(size / (gigabits * 1e9 / 8))
            assert found[size].busbw_bytes_per_s == pytest.approx(gigabits * 1e9 / 8 * 1.5)
        assert {one.case.ranks for one in journal.cases} == {4}
        assert [(one.host, one.index) for one in journal.header.devices] == [
            ("node7", rank) for rank in range(4)
        ]
        assert "1000 operations of 4000000 bytes" in notices(journal)
        assert "fit" not in notices(journal)

    def rates(self, title, end):
        part = self.text[self.text.index(title) :]
        part = part[: part.index(end, 10)] if end else part
        return [float(found) for found in re.findall(r"algbw: (\S+) Gbps", part)]

    def test_a_duration_that_does_not_fit(self):
        said = notices(read(self.text.replace("0.027 sec", "0.029 sec")))
        assert "does not fit: 0.029 s, but size and bandwidth give 0.02652" in said

    def test_a_cut_section(self):
        journal = read(self.text[: self.text.rindex(" busbw")])
        assert [one.case.size_bytes for one in journal.cases] == [4_000_000_000]
        assert journal.footer is None

    def test_calls_beside_calls_with_objects(self):
        journal = stored("all-gather-object.txt")
        (one,) = journal.cases
        assert (one.case.operation, one.case.size_bytes, one.case.ranks) == ("all_reduce", 4, 2)
        assert one.summary.time_s == pytest.approx(12.384119999479504e-6)
        assert "all_gather_object is left out: it takes 258.9 µs for a call" in notices(journal)
        assert "without waiting for the devices" in journal.header.imported.figure
        text = (TEXTS / "all-gather-object.txt").read_text()
        gather = read(text.replace("all_reduce ", "all_gather "))
        assert [(one.case.operation, one.case.size_bytes) for one in gather.cases] == [
            ("all_gather", 8)
        ]
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: every rank prints all times, but the"):
            read(text.replace("all_reduce       =0.012160350000339328\n", ""))


class TestNccom:
    text = (TEXTS / "nccom-test.txt").read_text()

    def test_gibibytes_medians_and_the_commands_ranks(self):
        journal = stored("nccom-test.txt")
        for operation, command in (("all_reduce", "allr"), ("all_gather", "allg")):
            rows = table(self.text, f"-w 5 {command}", "size(b)")
            # Of few digits: a time is computed from the bandwidth if that has more.
            printed = {int(row[0]): row[2] for row in rows}
            assert times_us(journal, operation, 8) == pytest.approx(printed, abs=0.51)
            assert len(rows) > 3
        assert {(one.case.operation, one.case.dtype) for one in journal.cases} == {
            ("all_reduce", "float32"),
            ("all_gather", "bfloat16"),
        }
        settings = journal.header.settings
        assert (settings.iterations, settings.warmup) == (50, 5)
        assert "does not fit" not in notices(journal)
        assert journal.header.imported.figure.startswith("the median")

    def test_bandwidths_that_are_not_gibibytes_do_not_fit(self):
        decimal = re.sub(
            r"(?m)( +[\d.]+)( +[\d.]+)$",
            lambda found: f"   {float(found[1]) * 1.074:.2f}   {float(found[2]) * 1.074:.2f}",
            self.text,
        )
        assert "does not fit: algorithm bandwidth" in notices(read(decimal))

    def test_means(self):
        # Versions that print means have GB of 10^9 bytes: 37.52 for 33554432 bytes in 894.24 us.
        def row_of(found, factor):
            rate = int(found[2]) / int(found[3]) / 1e3
            return f"{found[1]}  {rate:.2f}  {rate * factor:.2f}"

        row = re.compile(r"(?m)^( +(\d+) +\d+ +\w+ +(\d+)) +[\d.]+ +[\d.]+$")
        place = self.text.index("nccom-test", 10)
        decimal = row.sub(lambda found: row_of(found, 1.75), self.text[:place])
        decimal += row.sub(lambda found: row_of(found, 0.875), self.text[place:])
        journal = read(decimal.replace("time(us)", "time:avg(us)"))
        assert journal.header.imported.figure.startswith("the mean")
        assert "does not fit: algorithm bandwidth" not in notices(journal)
        assert "does not fit: algorithm bandwidth" in notices(
            read(self.text.replace("time(us)", "time:avg(us)"))
        )
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: times of two kinds, medians and means"):
            read(self.text.replace("time(us)", "time:avg(us)", 1))

    def test_ranks_without_a_command(self):
        rows = self.text[self.text.index("\n") + 1 : self.text.index("nccom-test", 10)]
        with pytest.raises(UsageError, match="the operation is unknown: set it with --operation"):
            read(rows)
        assert {one.case.ranks for one in read(rows, operation="all_reduce").cases} == {8}

    def test_sizes_of_no_whole_number_of_elements(self):
        text = self.text.replace(
            "     1024             256     fp32", "     1026             256     fp32"
        )
        assert text != self.text
        assert 1026 in times_us(read(text), "all_reduce", 8)
        unknown = self.text.replace("bf16", "fp4x")
        assert "cclmark does not support this element type" in notices(read(unknown))

    def test_a_failure(self):
        row = self.text.splitlines()[2]
        broken = self.text.replace(row, f"{row.split()[0]}    Failure running neuron-bench - log")
        journal = read(broken + "1 errors found - test failed\n")
        assert journal.footer.exit_code == 1
        assert "omitted: 1024    Failure running" in notices(journal)


class TestMscclpp:
    text = (TEXTS / "mscclpp.jsonl").read_text()

    def test_figures(self):
        import json

        journal = stored("mscclpp.jsonl")
        lines = [json.loads(line) for line in self.text.splitlines()]
        assert len(journal.cases) == len(lines) == 5
        for line, one in zip(lines, journal.cases, strict=True):
            assert one.summary.time_s == pytest.approx(line["time"] * 1e-6)
            assert one.summary.busbw_bytes_per_s == pytest.approx(line["busBw"] * 1e9)
            assert one.case.size_bytes == line["size"]
            assert one.case.ranks == line["ranks"]
            assert one.case.ccl == f"mscclpp:kernel{line['kernel']}"
            outside = (line["name"], line["kernel"]) in (
                *(("alltoall", 0), ("allreduce", 2), ("allreduce", 6)),
            )
            assert one.case.in_place != outside
        assert "does not fit" not in notices(journal)

    @pytest.mark.parametrize("format", [".6g", ".5g", ".4g", ".3g", ".3f", ".2f", ".1f"])
    def test_rounded_figures(self, format):
        rounded = re.sub(
            r'"(time|algBw|busBw)":([\d.]+)',
            lambda found: f'"{found[1]}":{float(f"{float(found[2]):{format}}")}',
            self.text,
        )
        assert rounded != self.text
        journal = read(rounded)
        assert "fit" not in notices(journal)
        assert [one.case for one in journal.cases] == [one.case for one in read(self.text).cases]
        found = [one.summary.time_s for one in journal.cases]
        whole = [one.summary.time_s for one in read(self.text).cases]
        assert found == pytest.approx(whole, rel=6e-3)

    @pytest.mark.parametrize("format", ["", ".6g", ".5g", ".2f"])
    def test_changed_figures_do_not_fit(self, format):
        rounded = re.sub(
            r'"(time|algBw|busBw)":([\d.]+)',
            lambda found: f'"{found[1]}":{float(f"{float(found[2]):{format}}")}',
            self.text,
        )
        lines = rounded.splitlines()
        changed = re.sub(r'"time":[\d.]+', '"time":7900.5', lines[2])
        assert "line 3: does not fit: algorithm bandwidth 137.47" in notices(
            read("\n".join([*lines[:2], changed, *lines[3:]]))
        )
        other = re.sub(r'"busBw":[\d.]+', '"busBw":241.9', lines[2])
        with pytest.raises(UsageError, match=r"^a\.txt:3: this line has 8 ranks, but its"):
            read("\n".join([*lines[:2], other, *lines[3:]]))

    def test_a_cut_last_line(self):
        journal = read(self.text[:-20])
        assert len(journal.cases) == 4
        assert journal.footer is None


class TestUcc:
    text = (TEXTS / "ucc-perftest.txt").read_text()

    def rows(self, name):
        part = self.text[self.text.index(f"Collective:             {name}") :]
        part = part[: part.index("Total time")]
        return [line.split() for line in part.splitlines() if re.match(r" +\d+ +\d+ ", line)]

    def test_the_slowest_ranks_times_and_sizes(self):
        journal = stored("ucc-perftest.txt")
        for name, operation, parts in (
            ("Allreduce", "all_reduce", 1),
            ("Allgather", "all_gather", 4),
            ("Alltoall", "alltoall", 1),
        ):
            rows = self.rows(name)
            assert len(rows) >= 4
            assert times_us(journal, operation, 4) == {
                int(row[1]) * parts: float(row[4]) for row in rows
            }
        assert {
            (one.case.operation, one.case.dtype, one.case.reduction, one.case.in_place)
            for one in journal.cases
        } == {
            ("all_reduce", "float32", "sum", True),
            ("all_gather", "float32", None, False),
            ("alltoall", "int8", None, False),
        }
        assert journal.header.settings.across_ranks == "max"
        assert "memory: cuda" in notices(journal)

    @pytest.mark.parametrize("name", ["Bus Bandwidth", "Bandwidth"])
    def test_columns_of_bandwidths_by_both_names(self, name):
        """-F adds them; the times are the same."""
        first = self.text[: self.text.index("Total time")]
        full = re.sub(r"(Time, us)$", rf"\1                   {name}, GB/s", first, flags=re.M)
        full = re.sub(r"^( +avg .*)$", r"\1         avg         max         min", full, flags=re.M)
        full = re.sub(
            r"^( +\d+ +\d+ .*)$", r"\1        1.00        2.00        3.00", full, flags=re.M
        )
        assert times_us(read(full), "all_reduce") == times_us(read(first), "all_reduce")

    def test_sizes_whose_meaning_depends_on_the_version(self):
        old = re.sub(r"Iteration mode:.*\n", "", self.text)
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: the size of alltoall is that of one"):
            read(old)
        before = old[: old.index("mpirun -np 4 ucc_perftest -c alltoall")]
        assert times_us(read(before), "all_gather", 4) == times_us(read(self.text), "all_gather", 4)

    def test_streaming_is_another_method(self):
        streamed = self.text.replace("isolated", "streaming")
        journal = read(streamed)
        assert journal.header.settings.timing == ""
        assert "without a barrier" in journal.header.imported.figure
        with pytest.raises(UsageError, match=r"^a\.txt:\d+: the iteration mode is not that of the"):
            read(self.text.replace("isolated", "streaming", 1))

    def test_others_are_left_out(self):
        journal = read(self.text.replace("Alltoall\n", "Alltoallv\n"))
        assert "Alltoallv is left out" in notices(journal)
        assert times_us(journal, "alltoall") == {}

    def test_without_ranks(self):
        alone = self.text[self.text.index("Collective") :].replace("mpirun -np 4 ", "")
        with pytest.raises(UsageError, match="set --ranks N"):
            read(alone)
        assert {one.case.ranks for one in read(alone, ranks=16).cases} == {16}
