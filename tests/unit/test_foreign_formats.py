"""What importers make of the tools' own texts."""

from __future__ import annotations

import json
import math
import re
import time
from datetime import datetime

import pytest

from cclmark.errors import UsageError
from cclmark.history.history_model import stored_moment
from cclmark.importing.importers import IMPORTERS
from cclmark.importing.nccl_tests_head import nccl_version
from cclmark.kinds.registry import read_journal
from cclmark.report.exports import replayed
from foreign_texts import LACKING, TEXTS, notices, read, stored


def figures(journal):
    return {
        (one.case.operation, one.case.size_bytes, one.case.in_place): one for one in journal.results
    }


ROW = "  1048576  262144  float  sum  -1  50.00  20.97  20.97  0  51.00  20.56  20.56  0\n"
DEVICES = """\
#  Rank  0 Group  0 Pid  10 on node device  0 [0000:18:00] NVIDIA H200
#  Rank  1 Group  0 Pid  10 on node device  1 [0000:2a:00] NVIDIA H200
"""
NAMES = "     time   algbw   busbw  #wrong" * 2
HEAD = f"""\
#                                          out-of-place                       in-place
#       size         count      type   redop    root{NAMES}
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)
"""
START = "# Collective test starting: all_reduce_perf\n"
WHOLE = (
    "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n"
    f"{START}"
    "# nThread 1 nGpus 2 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 1 iters: 20 "
    "agg iters: 1 validation: 1 graph: 0\n"
    f"{DEVICES}{HEAD}{ROW}"
)


class TestNcclTests:
    def test_the_newest_text_in_full(self):
        journal = stored("nccl-tests-2.19.txt")
        header = journal.header
        assert header.imported.source == "nccl-tests 2.19.6"
        assert header.imported.format == "nccl-tests"
        assert [device.name for device in header.devices] == ["NVIDIA H200"] * 4
        assert header.devices[3].pci_bus_id == "0000:5d:00"
        assert header.machine.hostname == "h200-host"
        assert [(one.name, one.version) for one in header.libraries] == [("nccl", "2.28.9")]
        settings = header.settings
        assert (settings.begin_bytes, settings.end_bytes, settings.factor) == (8, 1 << 31, 4.0)
        assert (settings.iterations, settings.warmup, settings.check) == (20, 1, 1)
        assert notices(journal) == "a time is the mean of the tool's iterations"
        assert journal.footer.exit_code == 0
        found = figures(journal)
        assert len(found) == len(journal.results) == 56
        one = found["all_reduce", 1 << 31, False]
        assert one.case.count == 1 << 29
        assert one.summary.time_s == pytest.approx(8958.18e-6)
        assert one.summary.busbw_bytes_per_s == pytest.approx(359.58e9, rel=1e-4)
        assert (one.summary.samples, one.summary.half_width, one.samples) == (1, None, None)
        assert one.summary.min_s == one.summary.max_s == one.summary.time_s
        assert one.verification.wrong == 0
        assert found["all_reduce", 1 << 31, True].verification is None
        gathered = found["all_gather", 1 << 31, False].case
        assert (gathered.count, gathered.reduction, gathered.root) == (1 << 27, None, None)

    def test_every_figure_is_that_of_the_reference(self):
        reference = TEXTS.parents[1] / "tests" / "foreign" / "nccl-tests-2.19.txt"
        printed = [line.split() for line in reference.read_text().splitlines() if "float" in line]
        found = stored("nccl-tests-2.19.txt").results
        for row, (out_of_place, in_place) in zip(
            printed, zip(found[::2], found[1::2], strict=True), strict=True
        ):
            for words, result in ((row[5:9], out_of_place), (row[9:], in_place)):
                summary = result.summary
                assert f"{summary.time_s * 1e6:.2f}" == words[0]
                assert summary.algbw_bytes_per_s / 1e9 == pytest.approx(float(words[1]), abs=0.006)
                assert summary.busbw_bytes_per_s / 1e9 == pytest.approx(
                    float(words[2]), abs=0.01, rel=3e-4
                )

    def test_of_2019_no_reduction_and_a_deviation_for_a_check(self):
        journal = stored("nccl-tests-2019.txt")
        found = figures(journal)
        assert {one.case.operation for one in journal.results} == {"all_gather"}
        assert found["all_gather", 1 << 20, False].verification.wrong == 0
        # A deviation of 1e-7 may be rounding or not: nobody knows how many elements are wrong.
        assert found["all_gather", 2 << 20, True].verification is None
        assert found["all_gather", 4 << 20, True].verification is None
        assert journal.header.devices[0].pci_bus_id == ""

    def test_of_2017_milliseconds(self):
        journal = stored("nccl-tests-2017.txt", operation="all_reduce")
        one = figures(journal)["all_reduce", 1 << 20, False]
        assert one.summary.time_s == pytest.approx(84e-6, rel=6e-3)
        assert one.summary.algbw_bytes_per_s == pytest.approx(12.48e9)
        assert "more digits than the printed time" in notices(journal)
        assert journal.footer is not None

    def test_an_old_text_without_its_operation_asks_for_it(self):
        with pytest.raises(UsageError, match=r"a.txt:8: the operation is unknown.* --operation"):
            stored("nccl-tests-2017.txt")

    def test_of_rccl_in_place_only(self):
        journal = stored("rccl-tests.txt", operation="all_reduce")
        assert journal.header.imported.source == "rccl-tests ae3e635"
        assert {one.case.ccl for one in journal.results} == {"rccl"}
        assert {one.case.in_place for one in journal.results} == {True}
        assert {one.runtime for one in journal.header.devices} == {"hip"}
        wrong = figures(journal)["all_reduce", 32 << 20, True]
        assert (wrong.status, wrong.verification.wrong) == ("wrong", 7)
        assert journal.footer.exit_code == 1

    def test_under_mpirun_with_nccls_log_between_and_within_rows(self):
        journal = stored("nccl-tests-debug.txt")
        assert [host.machine.hostname for host in journal.header.hosts] == ["gpu-a", "gpu-b"]
        assert len(journal.results) == 6
        assert figures(journal)["all_reduce", 8, False].summary.time_s == pytest.approx(20.51e-6)
        assert "cut off" not in notices(journal)

    @pytest.mark.parametrize(
        "prefix",
        [
            "[1,0]<stdout>:",
            "[1,0]<stdout>: ",
            "0: ",
            "[default0]:",
            "2026-01-02T03:04:05.678Z ",
            "[2026-01-02 03:04:05] ",
            "03:04:05 | ",
            "worker-0: ",
            "2026-01-02 03:04:05 [1,0]<stdout>:",
            "\x1b[32m",
        ],
    )
    def test_what_launchers_put_before_lines_is_no_matter(self, prefix):
        plain = START + DEVICES + HEAD + ROW
        text = "".join(f"{prefix}{line}\n" for line in plain.splitlines())
        assert read(text).results == read(plain).results

    def test_times_of_day_behind_rows(self):
        stamped = HEAD.replace("#wrong\n", "#wrong            timestamp\n", 1)
        row = ROW.rstrip() + "  2026-01-02 03:04:05\n"
        text = START + DEVICES + stamped + row
        assert read(text).results == read(START + DEVICES + HEAD + ROW).results

    def test_columns_of_single_iterations(self):
        row = "  1048576  262144  float  sum  -1" + (
            "  50.00  20.97  20.97  0  48.00  55.00  54.00  3.20" * 2
        )
        names = "  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%"
        head = (
            "# out-of-place (+ per-iteration)   in-place (+ per-iteration)\n"
            f"#  size  count  type  redop  root{names}{names}\n"
        )
        results = read(START + DEVICES + head + row).results
        assert [one.case.in_place for one in results] == [False, True]
        assert [one.summary.time_s for one in results] == pytest.approx([50e-6, 50e-6])

    def test_a_blank_half_is_the_out_of_place_one(self):
        row = "  1048576  262144  float  sum  -1" + " " * 32 + "  51.00  20.56  20.56  0\n"
        (one,) = read(START + DEVICES + HEAD + row).results
        assert one.case.in_place
        assert one.summary.time_s == pytest.approx(51e-6)

    def test_two_layouts_in_one_text(self):
        first = (TEXTS / "nccl-tests-2017.txt").read_text()
        second = (TEXTS / "nccl-tests-2019.txt").read_text()
        devices = [line for line in second.splitlines(keepends=True) if "#   Rank" in line]
        text = second + "".join(devices) + first[first.index("#                    ") :]
        with pytest.raises(UsageError, match="the operation is unknown"):
            read(text)  # the second table is not of the first one's operation
        command = "./build/all_reduce_perf -g 2\n"
        journal = read(second + command + text[len(second) :])
        assert len(journal.results) == 10
        assert {one.case.operation for one in journal.results} == {"all_gather", "all_reduce"}
        assert {one.case.ranks for one in journal.results} == {2}

    def test_repeated_sweeps_are_cycles(self):
        journal = read(START + DEVICES + HEAD + ROW + "# Testing 2 cycle.\n" + ROW)
        assert [one.cycle for one in journal.results] == [0, 0, 1, 1]
        assert [one.index for one in journal.results] == [0, 1, 0, 1]
        assert journal.header.settings.cycles == 2
        assert journal.header.planned_cases == 2

    @pytest.mark.parametrize(
        ("old", "new", "what"),
        [
            (" on node ", " on other ", "devices 2 × NVIDIA H200 on node there, 2 × NVIDIA H200"),
            ("[0000:2a:00]", "[0000:3a:00]", "devices rank 1 on node 1 NVIDIA H200 0000:2a:00"),
            ("version 2.17.6", "version 2.16.0", "the tool nccl-tests 2.17.6 there, nccl-tests"),
            (" iters: 20", " iters: 5", "settings throughput -n 20 -w 1 there, throughput -n 5"),
            ("graph: 0", "graph: 10", "settings throughput -n 20 -w 1 there, graph -n 20 -w 1 -G"),
            (
                "nccl-library=22809",
                "nccl-library=22707",
                "are of nccl 2.28.9, but line 10 reports 2.27.7",
            ),
        ],
    )
    def test_another_run_in_the_same_text_is_refused(self, old, new, what):
        """As of a loop over nodes into one file: its rows would be of the last one's devices."""
        assert old in WHOLE
        with pytest.raises(UsageError) as error:
            read(WHOLE + WHOLE.replace(old, new))
        assert f"a.txt:{WHOLE.count(chr(10)) + 1}: " in str(error.value)
        assert what in str(error.value)
        assert "Split the text before this line" in str(error.value)
        # After a run that gave no row there is but one.
        assert len(read(WHOLE.replace(ROW, "") + WHOLE.replace(old, new)).results) == 2

    def test_the_library_may_tell_its_version_in_its_log(self):
        log = "node:10:12 [0] NCCL INFO NCCL version 2.27.7+cuda12.9\n"
        with pytest.raises(UsageError, match=r"nccl 2\.28\.9, but line 10 reports 2\.27\.7"):
            read(WHOLE + log + START + DEVICES + HEAD + ROW)
        same = log.replace("2.27.7", "2.28.9")
        assert len(read(WHOLE + same + START + DEVICES + HEAD + ROW).results) == 4

    def test_tables_of_one_run_with_other_sizes_are_one(self):
        other = WHOLE.replace("minBytes 8 ", "minBytes 4096 ").replace("all_reduce", "broadcast")
        other = other.replace("maxBytes 1048576", "maxBytes 1073741824").replace("Pid  10", "Pid 7")
        journal = read(WHOLE + other.replace("step: 2(factor)", "step: 4096(bytes)"))
        assert {one.case.operation for one in journal.results} == {"all_reduce", "broadcast"}
        settings = journal.header.settings
        assert (settings.begin_bytes, settings.end_bytes) == (8, 1 << 30)
        assert (settings.factor, settings.step_bytes, settings.iterations) == (0.0, 0, 20)
        assert len(journal.header.devices) == 2

    def test_a_table_that_failed_has_wrong_rows(self):
        """Where deviations are printed, the count at the end alone says that data was wrong."""
        text = (TEXTS / "nccl-tests-2019.txt").read_text()
        assert "0 OK" in text
        fine = read(text)
        assert fine.footer.exit_code == 0
        failed = read(text.replace("0 OK", "1 FAILED"))
        wrong = [one for one in failed.results if one.status == "wrong"]
        assert {one.case.size_bytes for one in wrong} == {2 << 20}  # 4 MiB was not checked
        assert "without the number of wrong elements" in wrong[0].reason
        assert failed.footer.exit_code == 1

    def test_a_deviation_that_the_tool_allows_is_not_wrong_beside_one_that_it_does_not(self):
        text = (TEXTS / "nccl-tests-2017.txt").read_text().replace("0 OK", "1 FAILED")
        text = text.replace("0e+00", "1e-06", 1).replace("0e+00", "3e+02", 1)
        found = read(text, operation="all_reduce").results
        assert [one.status for one in found] == ["ok", "wrong", "ok", "ok"]
        assert found[0].verification is None

    def test_a_table_that_failed_without_a_row_that_says_so_fails_the_run(self):
        bounds = "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 20.765\n"
        journal = read(START + DEVICES + HEAD + ROW + bounds)
        assert {one.status for one in journal.results} == {"ok"}
        assert "line 8: the tool counted wrong data" in notices(journal)
        assert journal.footer.exit_code == 1
        named = read(START + DEVICES + HEAD + ROW.replace("20.97  0 ", "20.97  5 ") + bounds)
        assert [one.status for one in named.results] == ["wrong", "ok"]
        assert "wrong data" not in notices(named)

    def test_a_text_cut_off_within_a_row(self):
        text = (TEXTS / "nccl-tests-2.19.txt").read_text()
        cut = text[: text.index("33554432") + 40]
        journal = read(cut)
        assert journal.footer is None
        assert "line 26: truncated after" in notices(journal)
        assert len(journal.results) == 22

    def test_rows_that_are_missing_show_in_the_average(self):
        text = (TEXTS / "nccl-tests-2.19.txt").read_text().splitlines(keepends=True)
        without = [line for line in text if "  134217728  " not in line[:16]]
        assert len(without) < len(text)
        assert "rows are missing" in notices(read("".join(without)))
        assert "missing" not in notices(read("".join(text)))

    def test_a_bandwidth_that_does_not_fit_is_told(self):
        journal = read(START + DEVICES + HEAD + ROW.replace("20.97  20.97", "20.97  41.94"))
        assert "line 7: does not fit: bus bandwidth 41.94 GB/s" in notices(journal)
        assert "20.97" in notices(journal)
        assert "fit" not in notices(read(START + DEVICES + HEAD + ROW))

    def test_processes_that_ran_alone_are_no_run(self):
        each = START + DEVICES.splitlines(keepends=True)[0] + HEAD + ROW
        text = "".join(
            f"[1,{rank}]<stdout>:{line}\n" for line in each.splitlines() for rank in (0, 1)
        )
        with pytest.raises(UsageError, match=r"processes ran alone.* without MPI=1"):
            read(text)

    def test_processes_that_ran_alone_are_none_without_prefixes_either(self):
        setup = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 1048576(bytes) warmup iters: 5\n"
        alone = setup + "# Using devices\n" + DEVICES.splitlines(keepends=True)[0]
        with pytest.raises(UsageError, match=r"a.txt:11: a second header .* ran alone"):
            read(alone * 2 + HEAD * 2 + ROW * 2)
        # A run that ended before its first row, and the next one.
        whole = START + setup + "# Using devices\n" + DEVICES + HEAD
        assert len(read(whole + whole + ROW).results) == 2

    def test_of_rccl_with_the_algorithm_behind(self):
        head = HEAD.replace("#wrong\n", "#wrong     algo     proto   nchannels\n", 1)
        row = ROW.rstrip() + "  RING    SIMPLE          32\n"
        text = START + DEVICES.replace("NVIDIA H200", "AMD Instinct MI350X") + head + row
        journal = read("RCCL version : 2.27.7-develop:29e1567\n" + text)
        assert [one.summary.time_s for one in journal.results] == pytest.approx([50e-6, 51e-6])
        assert [(one.name, one.version) for one in journal.header.libraries] == [("rccl", "2.27.7")]
        (half,) = read(text.replace("50.00  20.97  20.97  0", " " * 32)).results
        assert half.case.in_place

    def test_a_version_with_its_commit(self):
        first = "# nccl-tests version 2.20.0 (b4d5bee) nccl-headers=23102 nccl-library=23102\n"
        header = read(first + START + DEVICES + HEAD + ROW).header
        assert header.imported.source == "nccl-tests 2.20.0"
        assert header.libraries[0].version == "2.31.2"

    def test_rows_without_any_figure_are_counted(self):
        nothing = "  8  2  float  sum  -1  N/A  N/A  N/A  N/A  N/A  N/A  N/A  N/A\n"
        half = "  16  4  float  sum  -1  5.70  0.00  0.00  0  N/A  N/A  N/A  N/A\n"
        journal = read(START + DEVICES + HEAD + nothing + half + ROW)
        assert len(journal.results) == 3
        assert "rows without a figure are left out: 1, on line 7" in notices(journal)
        document = json.loads((TEXTS / "nccl-tests.json").read_text())
        whole = len(read(json.dumps(document)).results)
        lost = sum(
            document["results"][0].get(name) is not None for name in ("out_of_place", "in_place")
        )
        document["results"][0] |= {"out_of_place": None, "in_place": None}
        journal = read(json.dumps(document))
        assert len(journal.results) == whole - lost
        assert "results without a figure are left out: 1, on line 1" in notices(journal)

    def test_sizes_that_round_to_nothing_are_left_out(self):
        nothing = "  0  0  float  sum  -1  5.70  0.00  0.00  0  5.54  0.00  0.00  0\n"
        journal = read(START + DEVICES + HEAD + nothing + ROW)
        assert len(journal.results) == 2
        assert "line 7: omitted: no data" in notices(journal)

    def test_an_operation_that_we_lack_is_left_out_with_a_word(self):
        hypercube = START.replace("all_reduce", "hypercube") + DEVICES + HEAD + ROW
        journal = read(hypercube + START + DEVICES + HEAD + ROW)
        assert len(journal.results) == 2
        assert "rows of hypercube are omitted" in notices(journal)
        with pytest.raises(UsageError, match="hypercube is not an operation of cclmark"):
            read(hypercube)

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            (ROW.replace("50.00", "fast"), "a.txt:7: the time 'fast' is not a number"),
            (ROW.replace("20.56  20.56", "20.56  --"), "a.txt:7: the busbw '--' is not a number"),
            (ROW.replace("1048576", "1O48576"), "a.txt:7: the size and count '1O48576 262144'"),
            (ROW.rstrip() + "  1  2\n", "a.txt:7: 15 columns, but the header has 13"),
        ],
    )
    def test_a_row_that_cannot_be_read_is_named(self, row, message):
        with pytest.raises(UsageError) as error:
            read(START + DEVICES + HEAD + row)
        assert message in str(error.value)

    def test_what_is_said_against_the_text(self):
        text = START + DEVICES + HEAD + ROW
        with pytest.raises(UsageError, match=r"a.txt:7: the text lists 2 ranks"):
            read(text, ranks=4)
        with pytest.raises(UsageError, match=r"this is all_reduce, not --operation all_gather"):
            read(text, operation="all_gather")

    def test_operations_that_do_not_fit_what_was_given(self):
        text = HEAD + ROW.replace("20.97  20.97", "20.97  31.45").replace(
            "20.56  20.56", "20.56  30.84"
        )
        assert {one.case.ranks for one in read(text, operation="all_reduce").results} == {4}
        with pytest.raises(UsageError, match=r"2 of 2 rows do not fit"):
            read(text, operation="all_reduce", ranks=8)
        with pytest.raises(UsageError, match=r"no number of ranks of all_gather"):
            read(text, operation="all_gather")

    @pytest.mark.parametrize(
        ("code", "text"), [(22809, "2.28.9"), (2804, "2.8.4"), (21100, "2.11.0")]
    )
    def test_versions_as_the_library_numbers_them(self, code, text):
        assert nccl_version(code) == text


class TestJson:
    def test_a_whole_document(self):
        journal = stored("nccl-tests.json")
        header = journal.header
        assert header.environment == {"NCCL_ALGO": "Ring"}
        # It tells no zone: that of this machine is meant.
        began = datetime.fromisoformat(header.started_at)
        assert began == datetime(2026, 9, 1, 10, 11, 12).astimezone()
        assert (
            "the document contains no time zone, so the zone of this machine is assumed"
        ) in notices(journal)
        assert header.imported.command[0] == "./build/all_reduce_perf"
        assert [one.version for one in header.libraries] == ["2.28.9"]
        assert {one.case.ranks for one in journal.results} == {2}
        assert "1 of the 2 devices" in notices(journal)
        first, second, third, fourth = journal.results
        assert first.summary.time_s == pytest.approx(19.876543e-6)
        assert first.summary.clock == "host"
        assert second.verification is None
        assert (third.status, third.verification.wrong) == ("wrong", 3)
        assert fourth.status == "ok"

    @pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone cannot be changed here")
    def test_local_time_is_no_utc(self, monkeypatch):
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        try:
            began = stored("nccl-tests.json").header.started_at
        finally:
            monkeypatch.undo()
            time.tzset()
        assert stored_moment(began) == "2026-09-01T01:11:12.000Z"

    def test_our_own_with_what_no_journal_can_hold_is_refused_whole(self):
        """It would be left out by whoever reads the journal."""
        sample = read_journal(TEXTS.parent / "golden" / "sample.jsonl")
        text = "".join(replayed(sample, "json"))
        assert len(read(text.encode()).results) == len(sample.results)
        document = json.loads(text)
        document["cases"][1]["summary"]["time_s"] = math.inf
        document["cases"][2]["case"]["pair"] = [0, 99]
        with pytest.raises(UsageError, match=r"damaged: cases\[1\], cases\[2\] contain"):
            read(json.dumps(document).encode())
        run = json.loads(text)
        run["header"]["settings"]["max_time_s"] = math.nan
        with pytest.raises(UsageError, match="damaged: header"):
            read(json.dumps(run).encode())

    def test_times_of_single_iterations(self):
        summary = stored("nccl-tests.json").results[2].summary
        assert (summary.samples, summary.clock) == (3, "device")
        assert summary.time_s == pytest.approx(26.7e-6)
        assert summary.max_s == pytest.approx(31.5e-6)
        assert summary.cv == pytest.approx(0.044)
        assert summary.algbw_bytes_per_s == pytest.approx(16384 / 26.7e-6)

    def test_every_beginning_is_read_as_far_as_it_goes_or_refused(self):
        whole = (TEXTS / "nccl-tests.json").read_text()
        start = whole.index('"results":[')
        numbers = set()
        for end in range(start, len(whole) - 1, 7):
            try:
                journal = read(whole[:end], "nccl-tests-json")
            except UsageError:
                numbers.add(0)
                continue
            assert journal.footer is None
            assert "truncated after" in notices(journal)
            numbers.add(len(journal.results))
        assert numbers == {0, 2, 4}

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('"time":19.876543', '"time":"soon"', "the time of out_of_place is 'soon'"),
            ('"size":8', '"size":-8', "a result has no size and count"),
            ('"results":[{', '"results":[7,{', "a result is not an object"),
        ],
    )
    def test_wrong_values_are_named(self, old, new, message):
        text = (TEXTS / "nccl-tests.json").read_text()
        with pytest.raises(UsageError) as error:
            read(text.replace(old, new, 1))
        assert message in str(error.value)
        assert "a.txt:1" in str(error.value)


class TestFlagcx:
    @pytest.mark.parametrize(
        ("name", "ranks", "largest_gbps"),
        [
            ("a800", 2, 144.176214),
            ("c550", 2, 47.333872),
            ("p800", 2, 20.027448),
            ("a800-c550", 4, None),
        ],
    )
    def test_lines_as_documents_hold_them(self, name, ranks, largest_gbps):
        journal = stored(f"flagcx-{name}.txt", operation="all_reduce")
        assert len(journal.results) == 16
        assert {one.case.ranks for one in journal.results} == {ranks}
        sizes = [one.case.size_bytes for one in journal.results]
        assert sizes == [131072 << n for n in range(16)]
        if largest_gbps is not None:
            rate = journal.results[-1].summary.busbw_bytes_per_s
            assert rate == pytest.approx(largest_gbps * 1e9, rel=1e-4)
        assert "2 ranks: the only number" in notices(journal) or ranks == 4
        assert "float32 sum, the default of" in notices(journal)
        assert all(one.verification is None for one in journal.results)

    def test_a_short_time_is_taken_from_the_bandwidth(self):
        first = stored("flagcx-a800.txt", operation="all_reduce").results[0].summary
        assert first.time_s == pytest.approx(131072 / 8.731905e9)
        assert first.algbw_bytes_per_s == pytest.approx(8.731905e9)

    @staticmethod
    def rows_of(ranks, first=1 << 20):
        lines = []
        for step in range(5):
            size, time_us = first << step, 20 + 10 * step
            rate = size / time_us / 1e3
            lines.append(
                f"Comm size: {size} bytes; Elapsed time: {time_us / 1e6:.6f} sec; Algo bandwidth: "
                f"{rate:.6f} GB/s; Bus bandwidth: {rate * 2 * (ranks - 1) / ranks:.6f} GB/s"
            )
        return lines

    @pytest.mark.parametrize(
        ("between", "first", "line"),
        [
            ([], 1 << 20, 6),  # sizes start again
            (["another run"], 1 << 20, 7),
            (["", "./test_allreduce -b 1M", ""], 1 << 20, 7),  # before the command
            ([], 1 << 25, 6),  # sizes go on
        ],
    )
    def test_several_runs_in_one_text(self, between, first, line):
        text = "\n".join([*self.rows_of(2), *between, *self.rows_of(4, first)])
        with pytest.raises(
            UsageError,
            match=rf"^a\.txt:{line}: the bandwidths above match 2 ranks of all_reduce, the ones "
            rf"here 4, so the text has several runs: split it before line {line} and import the pa",
        ):
            read(text, operation="all_reduce")
        above, below = (
            "\n".join(part) for part in (text.split("\n")[: line - 1], text.split("\n")[line - 1 :])
        )
        for part, ranks in ((above, 2), (below, 4)):
            journal = read(part, operation="all_reduce")
            assert {one.case.ranks for one in journal.results} == {ranks}

    def test_several_runs_in_one_line(self):
        text = " ".join([*self.rows_of(2), *self.rows_of(4), *self.rows_of(8)])
        with pytest.raises(
            UsageError, match=r"^a\.txt:1: .* 2 ranks .* here 4, so this line has s"
        ):
            read(text, operation="all_reduce")

    @pytest.mark.parametrize("place", range(5))
    def test_the_row_that_disagrees(self, place):
        lines = self.rows_of(4)
        lines[place] = self.rows_of(8)[place]
        with pytest.raises(
            UsageError,
            match=rf"^a\.txt:{place + 1}: bus bandwidth .* match 4 ranks .* 4 other rows do: ",
        ):
            read("\n".join(lines), operation="all_reduce")

    def test_the_command_tells_the_operation(self):
        line = (TEXTS / "flagcx-a800.txt").read_text()
        text = f"mpirun -np 2 ./test_allgather -b 128K -e 4G -f 2 -p 1\n{line}"
        with pytest.raises(UsageError, match="no number of ranks of all_gather"):
            read(text)
        assert (
            read(text.replace("allgather", "allreduce")).results[0].case.operation == "all_reduce"
        )

    def test_ranks_that_do_not_show_are_asked_for(self):
        line = "Comm size: 8 bytes; Elapsed time: 0.000010 sec; Algo bandwidth: 0.000800 GB/s; "
        line += "Bus bandwidth: 0.000800 GB/s\n"
        with pytest.raises(UsageError, match=r"a.txt:1: .*set --ranks N"):
            read(line, operation="broadcast")
        assert read(line, operation="broadcast", ranks=3).results[0].case.ranks == 3

    def test_a_line_that_is_not_whole(self):
        line = "Comm size: 8 bytes; Elapsed time: 0.000010 sec; Algo bandwidth: 0.000800 GB/s; "
        whole = line + "Bus bandwidth: 0.000800 GB/s\n"
        journal = read(whole + line, operation="broadcast", ranks=2)
        assert len(journal.results) == 1
        assert journal.footer is None
        with pytest.raises(UsageError, match=r"a.txt:1: cannot read"):
            read(line + "\n" + whole, operation="broadcast", ranks=2)
        with pytest.raises(UsageError, match=r"a.txt:1: no number in"):
            read(whole.replace("0.000010", "-0.1"), operation="broadcast", ranks=2)


class TestHccl:
    def test_a_table(self):
        journal = stored("hccl-test.txt", ranks=8)
        assert {one.case.operation for one in journal.results} == {"all_reduce"}
        fine, failed = journal.results
        assert fine.verification.wrong == 0
        # How many are wrong is not told, so it is not made up.
        assert (failed.status, failed.verification) == ("wrong", None)
        assert "without the number of wrong elements" in failed.reason
        assert fine.summary.clock == "device"
        assert fine.summary.busbw_bytes_per_s == pytest.approx(8192 / 764.55e-6 * 1.75)
        assert journal.header.settings.iterations == 20

    def test_a_rank_whose_check_failed_makes_its_row_wrong(self):
        """The row tells of the root's check alone; the others print for themselves, anywhere."""
        journal = stored("hccl-test-rank-failed.txt", ranks=4)
        assert [one.status for one in journal.results] == ["wrong", "ok", "wrong"]
        assert journal.results[0].verification is None
        assert journal.results[1].verification.wrong == 0
        assert journal.footer.exit_code == 1
        text = (TEXTS / "hccl-test-rank-failed.txt").read_text()
        again = read(text.replace("local rank_id", "rank id"), ranks=4)
        assert again.results == journal.results

    def test_a_rank_that_does_not_say_where_its_check_failed(self):
        text = (TEXTS / "hccl-test.txt").read_text().replace("| failed", "| success")
        rows = text.splitlines(keepends=True)
        for place, status in ((2, ["wrong", "ok"]), (4, ["ok", "wrong"]), (5, ["ok", "wrong"])):
            said = [*rows[:place], "rank id 5, check result failed\n", *rows[place:]]
            journal = read("".join(said), ranks=8)
            assert [one.status for one in journal.results] == status
            assert "any row of this table may be wrong" in notices(journal)

    def test_a_check_that_failed_for_a_row_that_is_not_here_fails_the_run(self):
        text = (TEXTS / "hccl-test-rank-failed.txt").read_text()
        text = text.replace("failed, 8388608", "failed, 1048576").replace("| failed", "| success")
        journal = read(text, ranks=4)
        assert [one.status for one in journal.results] == ["wrong", "ok", "ok"]
        assert ("the check of rank 0 failed, but the text has no row of 1048576 bytes") in notices(
            journal
        )
        only = read(text.replace("failed, 8 ", "failed, 3 "), ranks=4)
        assert {one.status for one in only.results} == {"ok"}
        assert only.footer.exit_code == 1

    def test_a_failure_is_of_its_own_table(self):
        one = (TEXTS / "hccl-test-rank-failed.txt").read_text()
        other = one.replace("all_gather", "all_reduce").replace("failed, 8 ", "failed, 8192 ")
        other = other.replace("0.00032", "0.00016")
        found = figures(read(one + other, ranks=4))
        assert found["all_gather", 16, False].status == "wrong"
        assert found["all_reduce", 8, False].status == "ok"
        assert found["all_gather", 8192, False].status == "ok"
        assert found["all_reduce", 8192, False].status == "wrong"

    def test_sizes_are_those_that_the_tool_measured(self):
        """It gives each rank a whole element at least: 4 × 4 bytes of the 8 that it prints."""
        journal = stored("hccl-test-rank-failed.txt", ranks=4)
        first = journal.results[0]
        assert (first.case.size_bytes, first.case.count) == (16, 1)
        assert first.summary.algbw_bytes_per_s == pytest.approx(16 / 50e-6)
        assert "line 5: the tool rounds this size up" in notices(journal)
        assert "fit" not in notices(journal)
        # A text whose bandwidth is of the printed size tells of nothing that was moved.
        text = (TEXTS / "hccl-test-rank-failed.txt").read_text().replace("0.00032", "0.00016")
        journal = read(text, ranks=4)
        assert [one.case.size_bytes for one in journal.results] == [8192, 8388608]
        assert "line 5: omitted: less than one element for each rank" in notices(journal)

    def test_two_runs_with_other_settings_are_refused(self):
        text = (TEXTS / "hccl-test.txt").read_text()
        with pytest.raises(UsageError, match=r"a.txt:7: .*-n 20 -w 5 there, .*-n 9 -w 5 here"):
            read(text + text.replace("iters is 20", "iters is 9"), ranks=8)

    def test_columns_may_stand_in_another_order(self):
        text = (
            "check_result: | data_size(Bytes): | avg_time(us): | alg_bandwidth(GB/s):\n"
            "success | 1024 | 10.50 | 0.09752\n"
        )
        (one,) = read(text, operation="broadcast", ranks=2).results
        assert (one.case.size_bytes, one.summary.time_s) == (1024, pytest.approx(10.5e-6))

    def test_wrong_rows(self):
        text = (TEXTS / "hccl-test.txt").read_text()
        with pytest.raises(UsageError, match=r"a.txt:4: cannot read the row"):
            read(text.replace("764.55", "7b4.55"), ranks=8)
        with pytest.raises(UsageError, match=r"a.txt:4: 3 columns, but the header has 4"):
            read(text.replace("| success", ""), ranks=8)
        assert len(read(text.replace("failed", "fai"), ranks=8).results) == 1
        with pytest.raises(UsageError, match=r"a.txt:4: .*set --ranks"):
            read(text)


class TestMlEngineering:
    def test_the_table_of_the_book(self):
        journal = stored("all-reduce-bench.txt")
        # 4 nodes of 8, as the plot below that table says; the table does not.
        assert {one.case.ranks for one in journal.results} == {32}
        assert "32 ranks: the only number" in notices(journal)
        largest = journal.results[-1]
        assert largest.case.size_bytes == 16 << 30
        assert largest.summary.time_s == pytest.approx((16 << 30) / 47.32e9)
        assert largest.summary.busbw_bytes_per_s == pytest.approx(91.69e9, rel=2e-4)
        assert largest.case.ccl == "torch:nccl"
        assert journal.header.devices == []
        assert journal.header.settings.barrier == "library"  # torch's, before each operation

    @pytest.mark.parametrize("place", [3, 10, 18, 22])
    def test_the_row_that_disagrees(self, place):
        lines = (TEXTS / "all-reduce-bench.txt").read_text().split("\n")
        busbw = float(re.findall(r"([\d.]+)GBps", lines[place - 1])[0])
        lines[place - 1] = lines[place - 1].replace(f"{busbw:.2f}GBps", f"{busbw * 0.9:.2f}GBps", 1)
        message = (
            f"bus bandwidth {busbw * 0.9:.2f} and algorithm bandwidth [\\d.]+ GB/s do not match "
            "32 ranks of all_reduce; 19 other rows do: copy the text again, or set --ranks 32"
        )
        with pytest.raises(UsageError, match=rf"^a\.txt:{place}: {message}$"):
            read("\n".join(lines))
        journal = read("\n".join(lines), ranks=32)
        assert f"line {place}: does not fit: bus bandwidth {busbw * 0.9:.2f} GB/s" in notices(
            journal
        )

    def test_the_names_of_the_newest_version(self):
        text = """\
 32KiB: 1\r 32KiB: 20
Environment:
- software: torch=2.9.0, cuda=12.8, nccl=(2, 27, 5)
- hardware: _CudaDeviceProperties(name='NVIDIA H200')

The average bandwidth of all_reduce over 8 ranks (5 warmups / 20 trials):

| payload |    busbw   |    algbw   |
| ------: | ---------: | ---------: |
|   32KiB |   0.92GBps |   0.53GBps |
Legend: 1KiB = 2**10 Bytes, 1MiB = 2**20 Bytes, 1GiB = 2**30 Bytes
Elapsed time: 0:00:11
"""
        journal = read(text)
        assert journal.results[0].case.ranks == 8
        assert journal.header.settings.warmup == 5
        versions = [(one.name, one.version) for one in journal.header.libraries]
        assert versions == [("torch", "2.9.0"), ("nccl", "2.27.5")]
        with pytest.raises(UsageError, match=r"a.txt:10: cannot read the row"):
            read(text.replace("0.53GBps", "0.53Gbps"))

    @pytest.mark.parametrize(
        "sentence",
        [
            "The average bandwidth of all_reduce with a 4.0GB payload (5 trials, 4 ranks):",
            "all_reduce 在 4.0GB 有效载荷下的平均带宽 (5 次试验, 4 个 rank):",
        ],
    )
    def test_the_sentence_of_older_versions_and_of_a_translation(self, sentence):
        text = f"1\n2\n{sentence}\n algbw: 47.523 GBps (380.2 Gbps)\n"
        journal = read(text + " busbw: 71.285 GBps (570.3 Gbps)\n\n")
        (one,) = journal.results
        assert (one.case.ranks, one.case.size_bytes, one.case.in_place) == (4, 4_000_000_000, True)
        assert one.summary.time_s == pytest.approx(4e9 / 47.523e9)
        assert journal.header.settings.iterations == 5
        assert "fit" not in notices(journal)
        with pytest.raises(UsageError, match="contains no row"):
            read(text)
        with pytest.raises(UsageError, match=r"a.txt:4: the algbw 'x' is not a number"):
            read(text.replace("47.523", "x"))


class TestWhatItIs:
    def test_nothing_known(self):
        with pytest.raises(UsageError, match="no table of a supported tool"):
            read("Once upon a time\n")

    @pytest.mark.parametrize("content", [b"", b" \n\t\n"])
    def test_nothing_at_all(self, content):
        with pytest.raises(UsageError, match="is empty"):
            read(content)

    def test_no_text(self):
        with pytest.raises(UsageError, match="is binary"):
            read(b"\x7fELF\0\0\0\1")

    @pytest.mark.parametrize("file", sorted(TEXTS.glob("*.txt")), ids=lambda file: file.name)
    def test_line_ends_of_windows_are_no_matter(self, file):
        plain, given = file.read_bytes(), LACKING.get(file.name, {})
        assert read(plain.replace(b"\n", b"\r\n"), **given).results == read(plain, **given).results

    def test_what_windows_redirects(self):
        text = START + DEVICES + HEAD + ROW
        assert read(text.encode("utf-16")).results == read(text).results

    def test_two_tools_in_one_text(self):
        text = START + DEVICES + HEAD + ROW + (TEXTS / "hccl-test.txt").read_text()
        with pytest.raises(UsageError, match=r"nccl-tests \(line 5\) and hccl \(line 10\)"):
            read(text)
        assert len(read(text, "nccl-tests").results) == 2

    def test_a_head_without_rows(self):
        with pytest.raises(UsageError, match="contains no row"):
            read(START + DEVICES + HEAD)

    def test_a_journal_is_one_already(self):
        with pytest.raises(UsageError, match="is already a journal of cclmark"):
            read((TEXTS.parent / "golden" / "sample.jsonl").read_bytes())

    def test_the_devices_name_and_the_library_are_as_given(self):
        journal = stored("all-reduce-bench.txt", device="NVIDIA A100", ccl="nccl")
        assert [one.name for one in journal.header.devices] == ["NVIDIA A100"] * 32
        assert {one.case.ccl for one in journal.results} == {"nccl"}

    def test_of_an_uneven_alltoallv_the_bus_bandwidth_is_the_texts_own(self):
        text = b"Comm size: 1048576 bytes; Elapsed time: 0.001000 sec; Algo bandwidth: %s GB/s; "
        text += b"Bus bandwidth: %s GB/s\n"
        for bus, factor in ((b"0.943718", 0.9), (b"0.786432", 0.75)):
            journal = read(text % (b"1.048576", bus), operation="alltoallv", ranks=4)
            (result,) = journal.results
            summary = result.summary
            assert summary.busbw_bytes_per_s == pytest.approx(
                factor * summary.algbw_bytes_per_s, rel=1e-5
            )
            assert any("parts are uneven" in one for one in journal.header.notices) == (
                factor == 0.9
            )
        with pytest.raises(UsageError, match="parts of alltoallv may be uneven: set --ranks N"):
            read(text % (b"1.048576", b"0.943718"), operation="alltoallv")

    def test_on_how_many_hosts_is_told_by_the_text_or_by_the_user(self):
        def hosts(name, **given):
            return stored(name, **given).header.imported.hosts

        bench = {"device": "NVIDIA A100", "ccl": "nccl"}
        assert hosts("all-reduce-bench.txt", **bench) == 0
        assert hosts("all-reduce-bench.txt", **bench, hosts=4) == 4
        assert hosts("nccl-tests-2.19.txt") == hosts("nccl-tests-2.19.txt", hosts=1) == 1
        for number in (5, 64):
            with pytest.raises(
                UsageError, match=rf"is of 32 ranks, which --hosts {number} does not d"
            ):
                hosts("all-reduce-bench.txt", **bench, hosts=number)
        with pytest.raises(UsageError, match="is of 2 devices, which --hosts 3 does not divide"):
            hosts("nixlbench.txt", hosts=3)
        assert hosts("nixlbench.txt", hosts=2) == 2
        with pytest.raises(UsageError, match="lists 1 host, not --hosts 3"):
            hosts("nccl-tests-2.19.txt", hosts=3)

    def test_every_importer_is_documented(self):
        page = (TEXTS.parents[1] / "docs" / "reference" / "imports.md").read_text()
        assert [name for name in IMPORTERS if f"`{name}`" not in page] == []


def test_the_reference_of_a_machine_comes_out_as_it_went_in():
    """Times of nccl-tests on 4 × H200, by size: written, read and compared one by one."""
    rows = [line.split() for line in (TEXTS / "nccl-tests-2.19.txt").read_text().splitlines()]
    table = {(int(row[0]), row[3]): float(row[5]) for row in rows if len(row) == 13}
    for result in stored("nccl-tests-2.19.txt").results:
        key = (result.case.size_bytes, result.case.reduction or "none")
        assert result.summary.time_s == pytest.approx(table[key] * 1e-6)
