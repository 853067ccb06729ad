"""Journals cut short or damaged at any place: read as far as they are sound, nothing made up."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cclmark.errors import UsageError
from cclmark.results.journal import Journal, parse_journal, read_journal

MANY = settings(
    max_examples=300,
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
    for result in undamaged:
        assert result in read.results
    changed = sum(line not in sound for line in lines if line.strip())
    assert len(read.results) <= len(undamaged) + changed


@MANY
@given(place=st.integers(0, 2**32), byte=st.integers(0, 255))
def test_one_byte_flipped(whole, place, byte):
    content, journal = whole
    damaged = bytearray(content)
    damaged[place % len(content)] = byte
    check(parse(bytes(damaged)), content, bytes(damaged), journal)


@MANY
@given(
    hits=st.lists(st.tuples(st.integers(0, 2**32), st.integers(1, 255)), min_size=2, max_size=40)
)
def test_many_bits_flipped(whole, hits):
    content, journal = whole
    damaged = bytearray(content)
    for place, flip in hits:
        damaged[place % len(content)] ^= flip
    check(parse(bytes(damaged)), content, bytes(damaged), journal)


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


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=400))
def test_anything_at_all(content):
    assert parse(content) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"{}",
        b"[" * 100_000,
        b'{"type":"header"' + b',"a":{' * 50_000,
        b'{"type":"footer","ended_at":"","exit_code":0,"duration_s":0}',
        b"\x00" * 4096,
        b"\xff\xfe",
    ],
    ids=["empty", "blank", "object", "deep", "deeper", "footer", "zeros", "binary"],
)
def test_what_is_no_journal_is_refused(content):
    assert parse(content) is None


def test_results_after_a_deep_line_are_still_read(whole):
    content, journal = whole
    lines = content.splitlines()
    lines.insert(2, b'{"type":"case","case":' + b"[" * 100_000)
    read = parse(b"\n".join(lines))
    assert read.results == journal.results
    assert read.damaged_lines == 1


def test_a_newer_schema_is_refused_with_advice(whole):
    content = re.sub(rb'"schema_version":\d+', b'"schema_version":99', whole[0])
    with pytest.raises(UsageError, match="update cclmark"):
        parse_journal(content.splitlines(), "newer.jsonl")


@pytest.mark.parametrize("what", ["absent", "directory"])
def test_a_file_that_cannot_be_read(tmp_path, what):
    with pytest.raises(UsageError, match="cannot read"):
        read_journal(tmp_path if what == "directory" else tmp_path / "absent.jsonl")
