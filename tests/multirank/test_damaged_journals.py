"""Journals cut short or damaged at any place: read as far as they are sound, nothing made up."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.document.exporters import exporter_of, formats_of
from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import KINDS, parse_journal, read_journal
from cclmark.work.items import COLLECTIVE
from examples import examples
from reports import case_text

MANY = settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def whole(cclmark_in, tmp_path_factory):
    """The bytes of a small journal that a real run wrote, and the journal."""
    run = cclmark_in(
        tmp_path_factory.mktemp("journal"),
        *("all_reduce", "--devices", "host:2", "-b", "64", "-e", "128", "-n", "1", "-w", "0"),
    )
    content = run.journal_path.read_bytes()
    return content, run.journal


def parse(content: bytes) -> Journal | None:
    """The journal, or None where it is refused as one. Anything else raised fails the test."""
    try:
        return parse_journal(content.splitlines(), "damaged.jsonl")
    except UsageError as error:
        assert "damaged.jsonl" in str(error)
        assert len(str(error)) < 400
        return None


def unsealed(content: bytes) -> bytes:
    """Without checksums: of who changes a journal on purpose."""
    return re.sub(rb',"crc32":"[0-9a-f]{8}"', b"", content)


def test_cut_at_every_byte(whole):
    content, journal = whole
    ends = [place + 1 for place, byte in enumerate(content) if byte == ord("\n")]
    for length in range(len(content)):
        read = parse(content[:length])
        # A line is whole when all but its line end is there.
        lines = sum(end - 1 <= length for end in ends)
        if lines == 0:
            assert read is None
            continue
        assert read is not None
        assert read.header == journal.header
        assert read.results == journal.results[: lines - 1]
        assert read.footer is None if lines < len(ends) else read.footer == journal.footer
        assert read.damaged_lines == (length not in ends and length + 1 not in ends)


def check(read: Journal | None, content: bytes, damaged: bytes, journal: Journal) -> None:
    """Lines that are as they were give what they gave; there is no result without a line."""
    lines = damaged.splitlines()
    sound = set(content.splitlines()) & set(lines)
    if read is None:
        assert content.splitlines()[0] not in lines or b"schema" in damaged
        return
    assert len(read.results) + read.damaged_lines <= len([line for line in lines if line.strip()])
    undamaged = [
        result
        for result, line in zip(journal.results, content.splitlines()[1:-1], strict=True)
        if line in sound
    ]
    # A damaged header may say in a word that is unknown how times of ranks become one.
    if read.header.settings.across_ranks == journal.header.settings.across_ranks:
        assert all(result in read.results for result in undamaged)
    changed = sum(line not in sound for line in lines if line.strip())
    assert len(read.results) <= len(undamaged) + changed


@MANY
@given(place=st.integers(0, 2**32), byte=st.integers(0, 255))
def test_one_byte_flipped(whole, place, byte):
    content, journal = whole
    damaged = bytearray(content)
    damaged[place % len(content)] = byte
    read = parse(bytes(damaged))
    check(read, content, bytes(damaged), journal)
    if read is not None:
        # Not even a digit that is another now gets through.
        assert all(result in journal.results for result in read.results)
        assert read.header == journal.header or read.damaged_lines


@MANY
@given(
    begin=st.integers(0, 2**32), length=st.integers(1, 4096), filler=st.sampled_from([b"", b"\0"])
)
def test_a_hole(whole, begin, length, filler):
    """Bytes lost, or zeroed as file systems do after a crash."""
    content, journal = whole
    begin %= len(content)
    hole = filler * len(content[begin : begin + length])
    damaged = content[:begin] + hole + content[begin + length :]
    check(parse(damaged), content, damaged, journal)


def test_what_is_no_journal_is_refused():
    """Texts of other tools and newer schemas: tests/journal/test_results.py."""
    for content in (b"{}", b'{"type":"header"' + b',"a":{' * 50_000):
        assert parse(content) is None


def test_a_newer_schema_is_refused_with_advice(whole, tmp_path):
    content = re.sub(rb'"schema_version":\d+', b'"schema_version":99', whole[0])
    with pytest.raises(UsageError, match="update cclmark"):
        parse_journal(content.splitlines(), "newer.jsonl")
    for path in (tmp_path, tmp_path / "absent.jsonl"):
        with pytest.raises(UsageError, match="cannot read"):
            read_journal(path)


def test_another_run_behind_this_one_is_not_mixed_in(whole):
    content, journal = whole
    other = unsealed(content.replace(b'"run_id":"', b'"run_id":"other-'))
    for first in (content, content[: content.rindex(b'{"type":"footer"')]):
        read = parse(first + other)
        assert read.header == journal.header
        assert read.results == journal.results
        assert read.damaged_lines == len(content.splitlines())


@MANY
@given(data=st.data())
def test_lines_in_any_order(whole, data):
    """Of lines that were lost, repeated or moved, each is itself or counted."""
    content, journal = whole
    header, *rest = content.splitlines()
    deep = b'{"type":"case","case":' + b"[" * 100_000
    others = [b"\0" * 9, b"{}", deep]
    lines = data.draw(st.lists(st.sampled_from([header, *rest, *others]), max_size=20))
    read = parse(b"\n".join([header, *lines]))
    until = lines.index(rest[-1]) if rest[-1] in lines else len(lines)
    results = dict(zip(rest[:-1], journal.results, strict=True))
    assert read.header == journal.header
    assert read.results == [results[line] for line in lines[:until] if line in results]
    assert (read.footer is not None) == (rest[-1] in lines)
    kept = len(read.results) + (read.footer is not None)
    assert read.damaged_lines == len(lines) - kept


NUMBERS = re.compile(rb"(?<=[:\[,])-?\d[\d.e-]*")
ODD_NUMBERS = [
    *(b"1e999", b"-1e999", b"NaN", b"Infinity", b"1e-400", b"-0", b"1.5", b"9e4", b"null", b"[]"),
    *(b"18446744073709551616", b"-9223372036854775809", b"1" + b"0" * 5000, b"-" + b"9" * 400),
    *(b"0." + b"0" * 5000 + b"1", b'"\\u0000"', b'"\\ud800"', b"-1", b"9223372036854775807"),
]


def test_odd_numbers_in_every_place(whole):
    """Each leaves the lines round it alone, and what is read can be shown."""
    content, journal = whole
    header, *lines, footer = content.splitlines()

    def changed(line):
        for place in NUMBERS.finditer(line):
            for number in ODD_NUMBERS:
                yield line[: place.start()] + number + line[place.end() :]

    for line in changed(lines[0]):
        read = parse(b"\n".join([header, line, *lines[1:], footer]))
        assert read.results[-len(lines) + 1 :] == journal.results[1:]
        assert len(read.results) + read.damaged_lines == len(lines)
        if read.damaged_lines == 0:
            show(read)
    for line in changed(header):
        read = parse(b"\n".join([line, *lines, footer]))
        if read is not None:
            assert read.results == journal.results
            show(read)


def show(journal: Journal) -> None:
    """Every format takes the journal, whatever its numbers say."""
    formats = [name for name in formats_of(KINDS[COLLECTIVE]) if name != "table"]
    exporters = [case_text(), *(exporter_of(KINDS[COLLECTIVE], name) for name in formats)]
    for exporter in exporters:
        exporter.begin(journal.header)
        for result in journal.results:
            exporter.add(result)
        exporter.end(journal.footer)
