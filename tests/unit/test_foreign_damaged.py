"""Texts as mails, documents and faulty hands pass them on: read right, or refused with the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cclmark.errors import UsageError
from foreign_texts import TEXTS, notices, read, stored

CASES = (Path(__file__).parent / "foreign_damage.jsonl").read_text().splitlines()


def damaged(case):
    """The stored text of a case with ``old`` replaced by ``new``: once, or everywhere."""
    text, old, new = (TEXTS / case["file"]).read_text(), case["old"], case["new"]
    assert old in text
    if "all" in case:
        return text.replace(old, new)
    parts = text.split(old)
    place = case.get("occurrence", 0) + 1
    return old.join(parts[:place]) + new + old.join(parts[place:]) + case.get("end", "")


@pytest.mark.parametrize(
    "line", CASES, ids=lambda line: "{file}: {refused:.60}".format(**json.loads(line))
)
def test_damage_is_refused_with_its_line(line):
    case = json.loads(line)
    with pytest.raises(UsageError) as error:
        read(damaged(case), **case.get("given", {}))
    assert str(error.value).startswith(case["refused"])


RANKS = 16
SETUP = (
    "# Collective test starting: {0}_perf\n"
    "# nThread 1 nGpus {1} minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 1 "
    "iters: 20 agg iters: 1 validation: 1 graph: 0\n# Using devices\n"
)
HEAD = (
    "#                             out-of-place                   in-place\n"
    "#  size  count  type  redop  root" + "  time  algbw  busbw  #wrong" * 2 + "\n"
)


def rank_line(rank):
    return (
        f"#  Rank {rank:2} Group  0 Pid {rank} on node{rank // 8} device {rank % 8} [0x1a] H200\n"
    )


def table(factor, reduction="sum"):
    """Two rows of the sizes above, 8 digits before the point: the factor is exact."""
    rows = ""
    for size_bytes, time_us in ((1 << 20, 50.0), (1 << 21, 80.0)):
        rate = size_bytes / time_us / 1e3
        half = f"  {time_us:.2f}  {rate:.4f}  {rate * factor:.4f}  0"
        rows += f"  {size_bytes}  {size_bytes // 4}  float  {reduction}  -1{half}{half}\n"
    return HEAD + rows


def text_of(lines, operation="all_reduce", factor=2 * (RANKS - 1) / RANKS, per_process=1):
    return SETUP.format(operation, per_process) + "".join(lines) + table(factor)


WHOLE = [rank_line(rank) for rank in range(RANKS)]


class TestListsOfRanks:
    def test_a_line_that_lost_its_sign_is_a_line_of_the_list(self):
        lines = [WHOLE[0].removeprefix("#"), *WHOLE[1:]]
        journal = read(text_of(lines))
        assert journal.results == read(text_of(WHOLE)).results
        assert {one.case.ranks for one in journal.results} == {RANKS}
        assert [one.rank for one in journal.header.devices] == list(range(RANKS))

    @pytest.mark.parametrize("lost", [0, 7, RANKS - 1])
    def test_a_line_that_is_missing_is_noticed(self, lost):
        lines = [line for rank, line in enumerate(WHOLE) if rank != lost]
        if lost == RANKS - 1:  # the rest looks complete, and the bandwidths contradict it
            with pytest.raises(
                UsageError, match=r"a\.txt:4: this list has 15 ranks, but .* match 16: "
            ):
                read(text_of(lines))
            journal = read(text_of(lines), ranks=RANKS)
            assert "16 ranks as given: the list of ranks on line 4" in notices(journal)
        else:
            journal = read(text_of(lines))
            assert "16 ranks: the only number that fits" in notices(journal)
            assert f"does not contain rank {lost}" in notices(journal)
        assert {one.case.ranks for one in journal.results} == {RANKS}
        # Neither the host of the missing rank nor the number of hosts is made up.
        assert journal.header.devices[lost].host == ""
        assert journal.header.devices[lost].name == "H200"
        assert journal.header.imported.hosts == 0

    @pytest.mark.parametrize("lost", [0, 7])
    def test_a_gap_that_the_bandwidths_do_not_fill_is_refused(self, lost):
        lines = [line for rank, line in enumerate(WHOLE) if rank != lost]
        text = text_of(lines, "broadcast", 1.0)
        with pytest.raises(
            UsageError, match=rf"a\.txt:4: .* does not contain rank {lost}: set --ranks N"
        ):
            read(text)
        assert {one.case.ranks for one in read(text, ranks=RANKS).results} == {RANKS}
        with pytest.raises(UsageError, match="the text lists at least 16 ranks, not --ranks 15"):
            read(text, ranks=15)

    def test_processes_have_all_of_their_ranks(self):
        text = text_of(WHOLE[:-1], "broadcast", 1.0, per_process=8)
        with pytest.raises(UsageError, match=r"ends with rank 14, but each process has 8 ranks"):
            read(text)

    def test_bandwidths_of_another_number_are_refused(self):
        text = text_of(WHOLE, factor=2 * 31 / 32)
        with pytest.raises(
            UsageError, match=r"a\.txt:4: this list has 16 ranks, .*line 22 on match 32: "
        ):
            read(text)
        assert {one.case.ranks for one in read(text, ranks=32).results} == {32}
        with pytest.raises(UsageError, match=r"match 32, not --ranks 64"):
            read(text, ranks=64)

    def test_tables_of_other_numbers_without_lists(self):
        """Each part of the text is imported with its own head and settings."""
        parts = [text_of([], factor=2 * (ranks - 1) / ranks) for ranks in (2, 4)]
        plain = [part.partition("\n")[2] for part in parts]  # without the program's name
        for first, second in (parts, plain):
            line = first.count("\n") + 1
            with pytest.raises(
                UsageError,
                match=rf"^a\.txt:{line}: the bandwidths above match 2 ranks of all_reduce, the "
                rf"ones here 4, so the text has several runs: split it before line {line} and impo",
            ):
                read(first + second, operation="all_reduce")
            journals = [read(part, operation="all_reduce") for part in (first, second)]
            assert [one.results[0].case.ranks for one in journals] == [2, 4]

    def test_a_repeated_line_counts_once(self):
        assert read(text_of([*WHOLE, WHOLE[3]])).results == read(text_of(WHOLE)).results
        other = WHOLE[3].replace("node0", "node9")
        with pytest.raises(UsageError, match=r"a\.txt:20: rank 3 is listed twice"):
            read(text_of([*WHOLE, other]))

    def test_a_rank_that_no_run_has(self):
        text = text_of([*WHOLE, WHOLE[3].replace("Rank  3", "Rank 9999999")])
        with pytest.raises(UsageError, match=r"a\.txt:20: 10000000 ranks: expected 1 to 1048576"):
            read(text)

    @pytest.mark.parametrize("sign", ["# ...\n", "...\n", "#  [...]\n", "# … 13 more\n"])
    def test_an_ellipsis_stands_for_ranks(self, sign):
        first = text_of([*WHOLE[:3], sign], "broadcast", 1.0)
        with pytest.raises(UsageError, match=r"a\.txt:4: .* is shortened: set --ranks N"):
            read(first)
        assert {one.case.ranks for one in read(first, ranks=RANKS).results} == {RANKS}
        # Up to the last rank the list is complete again.
        both = read(text_of([*WHOLE[:3], sign, WHOLE[-1]], "broadcast", 1.0))
        assert {one.case.ranks for one in both.results} == {RANKS}

    def test_the_first_ranks_alone_with_ranks_given(self):
        journal = read(text_of(WHOLE[:8]), ranks=RANKS)
        assert {one.case.ranks for one in journal.results} == {RANKS}
        with pytest.raises(UsageError, match=r"the text lists 8 ranks, not --ranks 16"):
            read(text_of(WHOLE[:8], "broadcast", 1.0), ranks=RANKS)

    def test_a_shortened_list_without_any_sign(self):
        journal = stored("nccl-tests-shortened.txt", ranks=1024)
        assert {one.case.ranks for one in journal.results} == {1024}
        assert len(journal.results) == 4
        assert len(journal.header.devices) == 1024
        with pytest.raises(UsageError, match=r"is shortened: set --ranks N"):
            stored("nccl-tests-shortened.txt")

    @pytest.mark.parametrize(
        "text",
        [
            "# all_reduce float32 sum, nccl, 0 ranks\nComm size: 8 bytes; Elapsed time: 0.1 sec; "
            "Algo bandwidth: 0.1 GB/s; Bus bandwidth: 0.1 GB/s\n",
            "# all_reduce float32 sum, hccl, 0 ranks\n"
            "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s):\n8 | 1.0 | 0.1\n",
            "# Collective test starting: all_reduce_perf (cclmark 0.1.0, nccl, 0 ranks)\n"
            + table(1.0),
            "The average bandwidth of all_reduce over 0 ranks (5 warmups / 20 trials):\n"
            "| payload | busbw | algbw |\n| 32KiB | 0.9GBps | 0.5GBps |\n",
        ],
        ids=["flagcx", "hccl", "nccl-tests", "ml-engineering"],
    )
    def test_no_ranks_are_refused(self, text):
        with pytest.raises(UsageError, match=r"^a\.txt:1: 0 ranks: expected 1 to 1048576$"):
            read(text)


class TestLines:
    def test_a_header_without_times_is_refused(self):
        text = text_of(WHOLE).replace("  time", "      ")
        with pytest.raises(UsageError, match=r"a\.txt:21: cannot read the columns of this header"):
            read(text)
        with pytest.raises(UsageError, match=r"cannot read the columns of this header"):
            read(text_of(WHOLE).replace("  time", "  xcputime"))

    @pytest.mark.parametrize("sign", ["#", " ", "> #"])
    @pytest.mark.parametrize(
        ("old", "new", "unit", "due"),
        [
            ("(us)", "(ms)", "ms", "us"),
            ("(us)", "(s)", "s", "us"),
            ("(GB/s)", "(MB/s)", "MB/s", "GB/s"),
            ("(GB/s)", "(Gb/s)", "Gb/s", "GB/s"),
            ("(GB/s)", "(GiB/s)", "GiB/s", "GB/s"),
            ("(B)", "(KiB)", "KiB", "B"),
        ],
    )
    def test_other_units_below_the_head_are_refused(self, sign, old, new, unit, due):
        text = text_of(WHOLE)
        units = f"{sign} (B) (elements)" + "  (us)  (GB/s)  (GB/s)" * 2 + "\n"
        printed = text.replace(HEAD, HEAD + units)
        assert printed != text
        assert read(printed).results == read(text).results
        assert read(printed.replace("(us)", "(µs)")).results == read(text).results
        with pytest.raises(
            UsageError, match=rf"^a\.txt:22: the unit \({unit}\), but .* prints \({due}\): copy"
        ):
            read(printed.replace(old, new))

    def test_a_table_without_any_sign(self):
        text = text_of(WHOLE)
        end = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 44.2368\n"
        bare = (
            (text + end).replace("#wrong", "?wrong").replace("#", " ").replace("?wrong", "#wrong")
        )
        assert "\n#" not in bare
        journal, plain = read(bare), read(text + end)
        assert journal.results == plain.results
        assert journal.header.devices == plain.header.devices
        assert journal.header.settings == plain.header.settings
        assert journal.footer is not None

    @pytest.mark.parametrize(
        "prefix",
        [
            *("> ", ">> ", "> > ", "| ", "  | ", "│ ", "[1,0]<stdout>:   ", "  [1,0]<stdout>: "),
            *("[1,0] <stdout>:", "> [1,0]<stdout>:  ", "> 2026-01-02 03:04:05 [1,0]<stdout>: "),
        ],
    )
    def test_what_stands_before_lines(self, prefix):
        text = text_of(WHOLE)
        quoted = "".join(f"{prefix}{line}\n" for line in text.splitlines())
        assert read(quoted).results == read(text).results

    def test_a_box_around_a_table(self):
        text = text_of(WHOLE)
        width = max(map(len, text.splitlines()))
        lines = [f"│ {line:<{width}} │\n" for line in text.splitlines()]
        rule = "─" * (width + 2)
        boxed = f"┌{rule}┐\n{''.join(lines)}└{rule}┘\n"
        assert read(boxed).results == read(text).results

    def test_a_mail_that_quotes_a_run(self):
        journal = stored("nccl-tests-quoted.txt")
        assert {(one.case.operation, one.case.ranks) for one in journal.results} == {
            ("all_reduce", 4)
        }
        assert len(journal.results) == 6
        assert journal.footer.exit_code == 0
        assert notices(journal) == "a time is the mean of the tool's iterations"

    def test_a_blank_reduction(self):
        journal = stored("nccl-tests-blank-redop.txt")
        assert [one.summary.time_s for one in journal.results] == pytest.approx(
            [40.25e-6, 40.65e-6, 60.5e-6, 61.1e-6], rel=1e-3
        )
        assert {(one.case.operation, one.case.reduction) for one in journal.results} == {
            ("alltoall", None)
        }
        assert "cut off" not in notices(journal)
        blank = text_of(WHOLE, "alltoall", (RANKS - 1) / RANKS).replace("  sum  ", "       ")
        printed = text_of(WHOLE, "alltoall", (RANKS - 1) / RANKS).replace("  sum  ", "  none  ")
        assert read(blank).results == read(printed).results

    def test_exponents_that_no_tool_prints_are_no_numbers(self):
        text = text_of(WHOLE).replace("50.00", "0e999", 1)
        with pytest.raises(UsageError, match=r"a\.txt:22: the time '0e999' is not a number"):
            read(text)
