"""Lines of journals hold the times of samples in one text, and are read as they were."""

import base64
import json
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.journal.sample_times import ROUNDED_BITS, rounded, with_short_figures
from cclmark.journal.schema import SCHEMA_VERSION, Samples, TransferSamples
from cclmark.kinds.registry import parse_journal, read_journal
from measured_results import each_journal

ANY = st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.one_of(ANY, st.floats(0, 100), st.integers(0, 10**9).map(lambda ns: ns / 1e9))


def rows_of(times):
    """[sample][place], mostly with the same number of places."""
    columns = st.lists(st.lists(times, min_size=2, max_size=2), max_size=5)
    return st.one_of(columns, st.lists(st.lists(times, max_size=3), max_size=3))


def packed(divisor, unit, clocks):
    content = json.dumps([divisor, unit, clocks]).encode()
    return base64.b64encode(zlib.compress(content, 9, -15)).decode()


def read(kind, fields):
    return msgspec.json.decode(msgspec.json.encode(fields), type=kind)


@given(rows_of(TIMES), rows_of(st.none() | TIMES), rows_of(TIMES), st.integers(0, 10**6))
def test_samples_are_read_as_they_were_written(host_s, device_s, enqueue_s, operations):
    for each in (lambda rows: rows, lambda rows: rounded(rows, operations)):
        samples = Samples(each(host_s), each(device_s), each(enqueue_s), operations)
        assert read(Samples, samples.stored()) == samples
    copies = TransferSamples(rounded(host_s, 3), [], 3, rounded(enqueue_s, 3))
    assert read(TransferSamples, copies.stored()) == copies


@given(st.floats(1e-9, 1e3), st.integers(1, 10**6))
def test_rounded_samples_are_near(sample_s, operations):
    [[found]] = rounded([[sample_s / operations]], operations)
    near = max(0.5e-9, sample_s / 2**ROUNDED_BITS)
    assert found * operations == pytest.approx(sample_s, abs=near * 1.000001)
    assert rounded([[found]], operations) == [[found]]  # once
    assert "packed" in Samples([[found]], [[None]], [[found]], operations).stored()


def test_the_text_has_differences_in_units_by_clock_and_rank():
    ns = [[4000, 4010], [4200, 4220]]
    samples = Samples(
        rounded([[one / 1e9 / 5 for one in row] for row in ns], 5),
        rounded([[3990 / 1e9 / 5, None], [4192 / 1e9 / 5, None]], 5),
        [],
        5,
    )
    content = base64.b64decode(samples.stored()["packed"])
    assert json.loads(zlib.decompress(content, -15)) == [
        5,
        2,
        [[[2000, 2100], [5, 10]], [[-5, -4], [None, None]], []],
    ]


@pytest.mark.parametrize(
    "text",
    [
        "?",
        "AAAA",
        packed(0, 1, [[[1]], [], []]),
        packed(1, 1, [[[-1]], [], []]),
        packed(1, 2, [[[1 << 53]], [], []]),
        packed(1, 1, [[["1"]], [], []]),
        packed(1, 1, [[[None]], [], []]),
        packed(1, 1, [[[1, 2], [1]], [], []]),
        packed(1, 1, [[[1]], []]),
        packed(1, 1, [[[10**30]], [], []]),
        packed(1, 1, [[[1]], [], []])[:-4],
    ],
)
def test_impossible_times_are_errors(text):
    with pytest.raises(msgspec.ValidationError):
        read(Samples, {"packed": text})


def test_times_that_inflate_without_end_are_errors():
    text = base64.b64encode(zlib.compress(bytes(100 << 20), 9, -15)).decode()
    with pytest.raises(msgspec.ValidationError):
        read(Samples, {"packed": text})


@each_journal
def test_journals_of_every_kind_are_read_as_they_were_written(file):
    journal = read_journal(file, as_written=True)
    journal.header.schema_version = SCHEMA_VERSION
    content = journal.encoded()
    again = parse_journal(content.splitlines(), file.name, as_written=True)
    assert (again.results, again.damaged_lines) == (journal.results, 0)


@each_journal
def test_figures_of_results_get_five_digits_and_items_stay(file):
    for result in read_journal(file).results:
        shorter = with_short_figures(result)
        assert shorter.item == result.item
        assert shorter.started_at_s == pytest.approx(result.started_at_s, abs=0.001)
        assert shorter.duration_s == pytest.approx(result.duration_s, rel=5e-5)
        assert with_short_figures(shorter) == shorter
        samples, summary = (getattr(result, name, None) for name in ("samples", "summary"))
        assert getattr(shorter, "samples", None) == samples
        if summary is not None:
            expected = msgspec.to_builtins(summary, str_keys=True)
            found = msgspec.to_builtins(shorter.summary, str_keys=True)
            assert found.pop("clock", None) == expected.pop("clock", None)
            for name, value in expected.items():
                assert found[name] == pytest.approx(value, rel=5e-5)
