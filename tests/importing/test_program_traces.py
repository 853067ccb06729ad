"""Traces of programs: of torch.profiler, of torch's execution observer, of NCCL Inspector.

Real ones of gloo, and such with the fields that torch and NCCL's plug-in write; whole and damaged.
"""

import gzip
import json
from contextlib import suppress
from io import BytesIO
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark_importers import trace_events
from cclmark_importers.importers import import_traces, trace_format
from cclmark_importers.kineto import read_kineto
from cclmark_importers.trace_events import read_events
from examples import examples
from foreign_texts import TRACE_CASES, TRACES, trace_file, trace_outcome
from kineto_events import collective, trace

ALL_CASES = [json.loads(line) for line in TRACE_CASES.read_text().splitlines()]
KINETO, EXECUTED, INSPECTOR = (
    (TRACES / name).read_bytes()
    for name in ("nccl-kineto-0.json", "nccl-execution-0.json", "nccl-inspector-0.log")
)
COMPRESSED = (TRACES / "gloo-0.json.gz").read_bytes()


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case["what"])
def test_traces(case):
    assert trace_outcome(case) == {key: case[key] for key in ("refused", "lines") if key in case}


def test_damaged_compression_is_refused():
    damaged = COMPRESSED[:30] + b"\0" * 40 + COMPRESSED[70:]
    for format, content, problem in (
        ("kineto", COMPRESSED[:-9], "the compressed file is cut off"),
        ("kineto", damaged, "the compressed file is damaged"),
        ("execution-trace", gzip.compress(EXECUTED, mtime=0)[:-9], "cut off"),
    ):
        with pytest.raises(UsageError, match=problem):
            import_traces([trace_file(content)], format)


TRICKY = st.sampled_from(['},{"', "} , {", "\\", '"', "]}", '"traceEvents": [', "é"])
ARGUMENTS = st.dictionaries(
    TRICKY, TRICKY | st.lists(st.dictionaries(TRICKY, st.integers(0, 9), max_size=2), max_size=3)
)


@given(
    st.lists(ARGUMENTS, max_size=6),
    st.lists(st.integers(1, 40), min_size=1),
    st.sampled_from([None, 1]),
)
def test_a_trace_is_the_same_in_pieces_of_any_size(arguments, sizes, indent):
    events = [{"ph": "X", "name": str(n), "args": one} for n, one in enumerate(arguments)]
    members = {"host_name": '"traceEvents": [', "deviceProperties": [{"id": 0}, {"id": 1}]}
    whole = {**members, "traceEvents": events, "distributedInfo": {"rank": 3}, "x": [{}, {}]}
    content = json.dumps(whole, indent=indent).encode()
    found = []

    def keep(batch):
        found.extend((one.name, json.loads(bytes(one.args))) for one in batch)

    def pieces():
        at = 0
        while at < len(content):
            size = sizes[at % len(sizes)]
            yield content[at : at + size]
            at += size

    read = read_events(pieces(), "trace.json", keep)
    assert found == [(str(n), one) for n, one in enumerate(arguments)]
    assert read.distributedInfo == {"rank": 3}
    assert read.host_name == '"traceEvents": ['
    assert len(read.deviceProperties) == 2


def read_whole(content):
    return read_kineto(BytesIO(content), "trace.json", 0)


def test_damage_behind_the_first_piece_is_located(monkeypatch):
    monkeypatch.setattr(trace_events, "_PIECE_BYTES", 1000)
    content = KINETO
    place = content.rindex(b'"ts"')
    damaged = content[:place] + b"ts" + content[place:]
    with pytest.raises(UsageError, match=rf"the trace is damaged: .*\(byte {place}\)"):
        read_whole(damaged)
    cut = gzip.compress(content)
    assert read_whole(cut) == read_whole(content)
    with pytest.raises(UsageError, match=f"cut off after {len(cut) - 9} bytes"):
        read_whole(cut[:-9])


def test_what_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(trace_events, "_PIECE_BYTES", 1000)
    monkeypatch.setattr(trace_events, "_MOST_WITHOUT_END", 5000)
    content = trace([collective("allreduce" * 1000, 1, 2, 64)])
    with pytest.raises(UsageError, match="contain no complete event"):
        read_whole(content)


def delimited(content):
    """A message of protobuf with its length before it, as Chakra's converter writes them."""
    number, length = len(content), bytearray()
    while number >= 0x80:
        length.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*length, number]) + content


def field(number, content):
    return bytes([number << 3 | 2]) + delimited(content)


VERSION = delimited(field(1, b"0.0.4"))
ATTRIBUTES = delimited(field(2, field(1, b"schema") + b"\xea\x01" + delimited(b"1.1.1" * 60)))
NODE = delimited(b"\x08\x87\x02" + field(2, b"[pytorch|profiler|execution_trace]") + b"\x18\x01")
FIRST_NODE = delimited(field(2, b"record_param_comms") + b"\x18\x07")  # id 0 is left out
CONVERTED = [
    VERSION + NODE,
    VERSION + FIRST_NODE + NODE,
    ATTRIBUTES + NODE,
    delimited(b"") + NODE,
    gzip.compress(VERSION + NODE, mtime=0),
]


def test_the_form_of_protobuf_is_recognised_and_refused():
    for content in CONVERTED:
        assert trace_format(content) == "execution-trace"
        with pytest.raises(UsageError, match=r"t\.et is a Chakra trace in protobuf form.*JSON"):
            import_traces([trace_file(content, "t.et")], "execution-trace")


def test_other_files_are_no_traces():
    for content in (
        *(b"", b"{}", b"[]", b'{"header": 1}', gzip.compress(b"text", mtime=0)),
        *(b"\x1f\x8bnonsense", b"\x80", VERSION, VERSION[:4], NODE + NODE, VERSION + b"\x05"),
        VERSION + delimited(b"\x08\x01"),
        delimited(b"\x0a\x0aab") + NODE,  # a text that is longer than its message
    ):
        assert trace_format(content) == ""


@given(st.integers(0, len(KINETO) - 1))
def test_a_trace_that_is_cut_off_anywhere_is_refused(length):
    with pytest.raises(UsageError):
        read_whole(KINETO[:length])


def faulty(content, random):
    """``content`` with up to four faults in its bytes."""
    for _ in range(random.randint(1, 4)):
        place, length = random.randrange(len(content)), random.choice((1, 2, 8, 60))
        put = bytes(random.choices(b'0123456789-.e{}[]":,\n truen\xff\x00', k=length))
        put = random.choice((put, b"", b"9" * 30, b"-1", b"null"))
        content = content[:place] + put + content[place + random.choice((0, 1, length)) :]
    return content


@pytest.mark.parametrize(
    ("format", "content"),
    [("kineto", KINETO), ("execution-trace", EXECUTED), ("nccl-inspector", INSPECTOR)],
)
def test_thousands_of_faults(format, content):
    for seed in range(examples(3000)):
        damaged = faulty(content, Random(seed))
        trace_format(damaged)
        with suppress(UsageError):
            journal = import_traces([trace_file(damaged)], format)
            assert journal.results
            for result in journal.results:
                assert str(result.profiled.size_bytes)
                assert result.profiled.count >= 0
                assert all((one.total_s or 0) >= 0 for one in result.figures)
