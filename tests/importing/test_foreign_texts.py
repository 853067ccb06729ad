"""Texts of other tools: every figure at its place with the tool's definition, or refused."""

import json
import math
import re
import time
from datetime import datetime

import pytest

from cclmark.base.errors import UsageError
from cclmark.history.history_model import stored_moment
from cclmark.journal.journal_file import JournalWriter
from cclmark.kinds.p2p.figures import MatrixCollector
from cclmark.kinds.registry import read_journal
from cclmark.profile.observed import nccl_version
from cclmark.references.copy_matching import CopyReferences
from cclmark.references.reference_store import shipped_references
from cclmark.report.exports import replayed
from cclmark_importers.importers import IMPORTERS
from cclmark_importers.nvbandwidth import test_of as meaning_of
from foreign_texts import (
    CASES,
    LACKING,
    MADE,
    TEXTS,
    changed,
    contents_of,
    expected_of,
    notices,
    outcome,
    read,
    stored,
)

FILES = sorted([*TEXTS.iterdir(), *MADE.iterdir()])
ALL_CASES = [json.loads(line) for line in CASES.read_text().splitlines()]
SIXTEEN = (MADE / "nccl-tests-16-ranks.txt").read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_journal_of_a_text(file, tmp_path):
    journal = read(file.read_bytes(), **LACKING.get(file.name, {}))
    assert contents_of(journal) == expected_of(file.name)
    path = tmp_path / "journal.jsonl"  # has every field that readers require
    writer = JournalWriter(path)
    for line in journal.lines:
        writer.write(line)
    writer.close(keep=True)
    back = read_journal(path)
    assert (back.results, back.damaged_lines) == (journal.results, 0)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case["what"])
def test_a_text_with_changes(case):
    assert outcome(case) == {key: case[key] for key in ("refused", "changes") if key in case}


def test_every_importer_is_documented():
    page = (TEXTS.parents[1] / "docs" / "reference" / "imports.md").read_text()
    assert [name for name in IMPORTERS if f"`{name}`" not in page] == []


def test_what_is_no_text_of_a_tool():
    journal = (TEXTS.parent / "golden" / "sample.jsonl").read_bytes()
    for content, message in (
        *((b"", "is empty"), (b" \n\t\n", "is empty"), (b"\x7fELF\0\0\0\1", "is binary")),
        (journal, "already a journal of cclmark"),
    ):
        with pytest.raises(UsageError, match=message):
            read(content)


# Texts as launchers, mails and documents pass them on.


@pytest.mark.parametrize("file", sorted(TEXTS.glob("*.txt")), ids=lambda file: file.name)
def test_line_ends_of_windows_are_no_matter(file):
    plain, given = file.read_bytes(), LACKING.get(file.name, {})
    assert read(plain.replace(b"\n", b"\r\n"), **given).results == read(plain, **given).results


@pytest.mark.parametrize(
    "prefix",
    [
        *("[1,0]<stdout>:", "[1,0]<stdout>: ", "[1,0]<stdout>:   ", "  [1,0]<stdout>: "),
        *("[1,0] <stdout>:", "0: ", "[default0]:", "worker-0: ", "\x1b[32m", "| ", "  | ", "│ "),
        *("2026-01-02T03:04:05.678Z ", "[2026-01-02 03:04:05] ", "03:04:05 | "),
        *("> ", ">> ", "> > ", "> [1,0]<stdout>:  ", "2026-01-02 03:04:05 [1,0]<stdout>:"),
        "> 2026-01-02 03:04:05 [1,0]<stdout>: ",
    ],
)
def test_what_stands_before_lines_is_no_matter(prefix):
    quoted = "".join(f"{prefix}{line}\n" for line in SIXTEEN.splitlines())
    assert read(quoted).results == read(SIXTEEN).results


def test_what_stands_around_a_table_is_no_matter():
    width = max(map(len, SIXTEEN.splitlines()))
    lines = [f"│ {line:<{width}} │\n" for line in SIXTEEN.splitlines()]
    rule = "─" * (width + 2)
    for text in (f"┌{rule}┐\n{''.join(lines)}└{rule}┘\n", SIXTEEN.encode("utf-16")):
        assert read(text).results == read(SIXTEEN).results


def test_a_table_without_any_sign():
    text = SIXTEEN + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 44.2368\n"
    bare = text.replace("#wrong", "?wrong").replace("#", " ").replace("?wrong", "#wrong")
    assert contents_of(read(bare)) == contents_of(read(text))
    assert contents_of(read(bare))[-1] == "end"


@pytest.mark.parametrize("sign", ["#", " ", "> #"])
def test_other_units_below_the_head_are_refused(sign):
    head = SIXTEEN[: SIXTEEN.index("  1048576  262144")]
    units = f"{sign} (B) (elements)" + "  (us)  (GB/s)  (GB/s)" * 2 + "\n"
    printed = SIXTEEN.replace(head, head + units)
    for text in (printed, printed.replace("(us)", "(µs)")):
        assert read(text).results == read(SIXTEEN).results
    changes = [("us", "ms"), ("us", "s"), ("B", "KiB")]
    for due, unit in changes + [("GB/s", unit) for unit in ("MB/s", "Gb/s", "GiB/s")]:
        with pytest.raises(
            UsageError, match=rf"^a\.txt:22: the unit \({unit}\), but .* prints \({due}\): copy"
        ):
            read(printed.replace(f"({due})", f"({unit})"))


@pytest.mark.parametrize(
    ("name", "due"),
    [("internode", "4416.37 us"), ("low-latency", "315.50 us"), ("elastic", "187.500 us")],
)
def test_other_units_of_deepep_are_refused(name, due):
    head, _, rest = (TEXTS / f"deepep-{name}.txt").read_text().partition(due)
    number = head.count("\n") + 1
    for unit in ("ms", "s", "ns"):
        other = f"{head}{due.replace('us', unit)}"
        for changed_text in (other + rest, other):
            with pytest.raises(UsageError, match=rf"^a\.txt:{number}: a figure in {unit}, but "):
                read(changed_text, ranks=8)


@pytest.mark.parametrize("format", [".6g", ".5g", ".4g", ".3g", ".3f", ".2f", ".1f"])
def test_rounded_figures_of_mscclpp(format):
    text = (TEXTS / "mscclpp.jsonl").read_text()
    rounded = re.sub(
        r'"(time|algBw|busBw)":([\d.]+)',
        lambda found: f'"{found[1]}":{float(f"{float(found[2]):{format}}")}',
        text,
    )
    assert rounded != text
    journal, whole = read(rounded), read(text)
    assert "fit" not in notices(journal)
    assert [one.case for one in journal.cases] == [one.case for one in whole.cases]
    assert [one.summary.time_s for one in journal.cases] == pytest.approx(
        [one.summary.time_s for one in whole.cases], rel=6e-3
    )


# What is derived from a text beside its figures.


def test_versions_and_testcases_are_not_taken_for_others():
    """Versions as the library numbers them; testcases of nvbandwidth that are not read."""
    for code, text in ((22809, "2.28.9"), (2804, "2.8.4"), (21100, "2.11.0")):
        assert nccl_version(code) == text
    for name in (
        *("host_to_device_bidirectional_memcpy_sm", "host_to_all_memcpy_ce"),
        *("all_to_host_bidirectional_memcpy_sm", "multinode_device_to_device_memcpy_read_ce"),
        *("multinode_bisect_write_ce", "device_local_write_sm", "device_to_device_latency_tma"),
    ):
        assert isinstance(meaning_of(name), str)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone cannot be changed here")
def test_local_time_is_no_utc(monkeypatch):
    began = datetime.fromisoformat(stored("nccl-tests.json").header.started_at)
    assert began == datetime(2026, 9, 1, 10, 11, 12).astimezone()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        began = stored("nccl-tests.json").header.started_at
    finally:
        monkeypatch.undo()
        time.tzset()
    assert stored_moment(began) == "2026-09-01T01:11:12.000Z"


def test_json_of_nccl_tests_is_read_as_far_as_it_goes():
    whole = (TEXTS / "nccl-tests.json").read_text()
    numbers = set()
    for end in range(whole.index('"results":['), len(whole) - 1, 7):
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
    ("place", "value", "damaged"),
    [
        (("cases", 1, "summary", "time_s"), math.inf, r"cases\[1\]"),
        (("cases", 2, "case", "pair"), [0, 99], r"cases\[2\]"),
        (("header", "settings", "max_time_s"), math.nan, "header"),
    ],
)
def test_json_of_ours_with_what_no_journal_can_hold_is_refused_whole(place, value, damaged):
    """It would be left out by whoever reads the journal."""
    sample = read_journal(TEXTS.parent / "golden" / "sample.jsonl")
    document = json.loads("".join(replayed(sample, "json")))
    assert len(read(json.dumps(document)).results) == len(sample.results)
    *path, last = place
    parent = document
    for key in path:
        parent = parent[key]
    parent[last] = value
    with pytest.raises(UsageError, match=f"damaged: {damaged} contain"):
        read(json.dumps(document))


def test_figures_of_superbench_are_in_the_cells_of_their_devices():
    """GPU 0, adapter 0 and process 0 of a host are three devices."""
    journal = stored("superbench-copies.jsonl")
    collector = MatrixCollector(journal.header, shares=False)
    matrices = [one for result in journal.transfers for one in collector.add(result)]
    matrices += collector.finish()
    cells = {
        (matrix.series.means, matrix.series.direction, matrix.series.measure, *place): cell.value
        for matrix in matrices
        for place, cell in matrix.cells.items()
    }
    assert len(cells) == len(journal.transfers)
    for means, row, column, value in (
        ("SM", "HOST0:GPU0", "HOST0:GPU1", 383.397),
        ("RDMA write", "local", "HOST0:adapter1", 48.34286),
        ("RDMA write gpu-to-gpu", "HOST0:process0", "HOST1:process0", 48.9125),
    ):
        found = cells[means, "write", "unidirectional", row, column]
        assert found == pytest.approx(value)
    (local,) = [one for one in matrices if one.series.means == "RDMA read"]
    assert local.columns == ["HOST0:adapter0", "HOST0:adapter1"]


# PCCL's matrices: cclmark writes them too, and their paths select references.


OF_PCCL = [one for one in ALL_CASES if one["what"].startswith("Pccl")]
READ_OF_PCCL = [one for one in OF_PCCL if "text" in one and "changes" in one]


@pytest.mark.parametrize("case", READ_OF_PCCL, ids=lambda case: case["what"])
def test_a_text_of_pccl_comes_back(case):
    journal = read(changed(case))
    back = read("".join(replayed(journal, "pccl")))
    assert [(one.transfer, one.status) for one in back.transfers] == [
        (one.transfer, one.status) for one in journal.transfers
    ]


def test_matrices_of_ours_come_back():
    ours = read_journal(TEXTS.parents[1] / "benchmarks" / "results" / "h200x4" / "p2p.jsonl")

    def by_place(results):
        pairs = [(one.transfer, one.summary) for one in results if one.transfer.scope == "pairs"]
        return {(it.measure, it.engine, it.direction, it.flows): own for it, own in pairs}

    back, were = by_place(read("".join(replayed(ours, "pccl"))).transfers), by_place(ours.transfers)
    assert back.keys() == were.keys()
    for place, summary in back.items():
        assert summary.bytes_per_s == pytest.approx(were[place].bytes_per_s, abs=0.006e9)
        if place[0] == "latency":
            assert summary.time_s == pytest.approx(were[place].time_s, rel=0.01)


@pytest.mark.parametrize(("hops", "usual_gbps"), [(1, 89.555), (2, 176.975)])
def test_the_length_of_paths_selects_the_reference(hops, usual_gbps):
    text = (TEXTS / "pccl-p2p.txt").read_text()
    text = text.replace("DEV0      0         1  ", f"DEV0      0         {hops}  ", 1)
    journal = read(text.replace("--kernel=ncCopy", "--kernel=bulkCopy"), device="PPU")
    known = CopyReferences(shipped_references(), journal.header)
    (one,) = [
        one
        for one in journal.transfers
        if (one.transfer.measure, one.transfer.engine) == ("bidirectional", "CE")
        and one.transfer.flows[0] == (0, 1)
    ]
    match = known.nearest(one.transfer, one.summary)
    assert match.exact, match.differences
    assert match.bandwidth / 1e9 == pytest.approx(usual_gbps, abs=0.01)


def test_devices_of_unknown_hosts_are_not_compared_with_those_of_one():
    match = {}
    for hosts in (None, 1, 3):
        journal = stored("pccl-p2p-processes.txt", device="PPU", hosts=hosts)
        assert journal.header.imported.hosts == (hosts or 0)
        known = CopyReferences(shipped_references(), journal.header)
        match[hosts] = known.nearest(journal.transfers[0].transfer, journal.transfers[0].summary)
    words = "whether the two devices are on one host is unknown"
    assert match[None].differences == (*match[1].differences, words)
    assert match[3] is None
