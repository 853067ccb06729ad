import base64
import json
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.journal.sample_times import rounded, with_short_figures
from cclmark.journal.schema import SCHEMA_VERSION, Samples, TransferSamples
from cclmark.kinds.registry import parse_journal, read_journal
from measured_results import each_journal
from places import TESTS

ANY = st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.one_of(ANY, st.floats(0, 100), st.integers(0, 10**9).map(lambda ns: ns / 1e9))


def rows_of(times):
    """[sample][place], mostly with the same number of places."""
    columns = st.lists(st.lists(times, min_size=2, max_size=2), max_size=5)
    return st.one_of(columns, st.lists(st.lists(times, max_size=3), max_size=3))


def packed(divisor, unit, clocks):
    """The text of schema 5."""
    content = json.dumps([divisor, unit, clocks]).encode()
    return base64.b64encode(zlib.compress(content, 9, -15)).decode()


def code(number, order=0):
    """An exponential-Golomb code: the zeros with the first digit, and the other digits."""
    digits = f"{number + (1 << order):b}"
    return "0" * (len(digits) - 1 - order) + "1", digits[1:]


def coded(*numbers, times=()):
    """A text of numbers, and of times with their orders."""
    bits = "".join("".join(code(one)) for one in numbers)
    bits += "".join("".join(part) for part in zip(*(code(*one) for one in times), strict=True))
    return text_of(bits)


def text_of(bits):
    bits += "0" * (-len(bits) % 8)
    return base64.b64encode(int(bits or "0", 2).to_bytes(len(bits) // 8, "big")).decode()


def read(kind, fields):
    return msgspec.json.decode(msgspec.json.encode(fields), type=kind)


@given(rows_of(TIMES), rows_of(st.none() | TIMES), rows_of(TIMES), st.integers(0, 10**6))
def test_samples_are_read_as_they_were_written(host_s, device_s, enqueue_s, operations):
    for each in (lambda rows: rows, lambda rows: rounded(rows, operations)):
        samples = Samples(each(host_s), each(device_s), each(enqueue_s), operations)
        assert read(Samples, samples.stored()) == samples
    copies = TransferSamples(rounded(host_s, 3), [], 3, rounded(enqueue_s, 3))
    assert read(TransferSamples, copies.stored()) == copies


def test_the_text_has_differences_in_units_by_clock_and_rank():
    ns = [[4000, 4010], [4200, 4220]]
    samples = Samples(
        rounded([[one / 1e9 / 5 for one in row] for row in ns], 5),
        rounded([[3990 / 1e9 / 5, None], [4192 / 1e9 / 5, None]], 5),
        [],
        5,
    )
    # Units of 2 ns: of rank 0 2000 and 2100, of rank 1 5 and 10 more; of the device 5 and 4 less.
    # Each column has its order + 1 and twice its upper median, or twice its depth less 1.
    expected = coded(
        *(5, 1, 3),
        *(2, 2, 7 + 1, 4200, 3 + 1, 20),
        *(2, 2, 0 + 1, 2 * 4 - 1, 0),
        *(0, 0),
        times=[(2 * 100 - 1, 7), (0, 7), (2 * 5 - 1, 3), (0, 3), (1, 0), (0, 0)],
    )
    assert samples.stored() == {"coded": expected}
    assert read(Samples, {"coded": expected}) == samples
    old = packed(5, 2, [[[2000, 2100], [5, 10]], [[-5, -4], [None, None]], []])
    assert read(Samples, {"packed": old}) == samples


def test_impossible_times_are_errors():
    last = (0, 0, 0, 0)
    for text in (
        *("?", "AAAA", text_of("0" * 400)),
        coded(0, 0, 3, 1, 1, 1, 2, *last, times=[(0, 0)]),
        coded(1, 0, 3, 1, 1, 1, 1, *last, times=[(0, 0)]),
        coded(1, 65, 3, 1, 1, 1, 2, *last, times=[(0, 0)]),
        coded(1, 0, 3, 1, 1, 66, 2, *last, times=[(0, 0)]),
        coded(1, 53, 3, 1, 1, 1, 4, *last, times=[(0, 0)]),
        coded(1, 0, 2, 1, 1, 1, 2, 0, 0, times=[(0, 0)]),
        coded(1, 0, 3, 1, 1, 0, *last),
        coded(1, 0, 3, 1, 2, 1, 2, *last, times=[(0, 0)]),
        coded(1, 0, 3, 1, 1, 13, 2, *last, times=[(0, 0)]),
        coded(1, 0, 3, 1, 1 << 40, 1, 2, *last, times=[(0, 0)]),
        coded(1, 0, 3, 1, 1, 1, 2, 0, 0, 1, 1 << 30, 0, times=[(0, 0)]),
        coded(1 << 70, 0, 3, 1, 1, 1, 2, *last, times=[(0, 0)]),
        coded(1, 0, 3, 1, 1, 1, 2, *last, times=[(0, 0)]) + "AAAA",
    ):
        with pytest.raises(msgspec.ValidationError):
            read(Samples, {"coded": text})
            pytest.fail(f"{text} is read")


def test_times_that_are_cut_off_are_errors():
    rows = [[(1000 + 37 * n % 101) / 1e9, (1100 + 41 * n % 101) / 1e9] for n in range(20)]
    text = Samples(rows, rows, rows, 1).stored()["coded"]
    whole = base64.b64decode(text)
    for end in range(len(whole)):
        with pytest.raises(msgspec.ValidationError):
            read(Samples, {"coded": base64.b64encode(whole[:end]).decode() or "?"})


def test_impossible_times_of_schema_5_are_errors():
    endless = base64.b64encode(zlib.compress(bytes(100 << 20), 9, -15)).decode()
    clocks = ([[-1]], [["1"]], [[None]], [[1, 2], [1]], [[10**30]])
    for text in (
        *("?", "AAAA", endless, packed(0, 1, [[[1]], [], []]), packed(1, 2, [[[1 << 53]], [], []])),
        *(packed(1, 1, [one, [], []]) for one in clocks),
        *(packed(1, 1, [[[1]], []]), packed(1, 1, [[[1]], [], []])[:-4]),
    ):
        with pytest.raises(msgspec.ValidationError):
            read(Samples, {"packed": text})
            pytest.fail(f"{text[:100]} is read")


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


SCHEMA_5 = TESTS / "journals" / "schema5.jsonl"


def test_lines_have_the_median_alone_where_the_rest_follows_from_samples():
    journal = read_journal(SCHEMA_5)
    was = [json.loads(line) for line in SCHEMA_5.read_text().splitlines()]
    content = journal.encoded()
    lines = [json.loads(line) for line in content.splitlines()]
    assert lines[0]["schema_version"] == SCHEMA_VERSION
    assert len(content) < 0.7 * SCHEMA_5.stat().st_size
    for line, before in zip(lines[1:-1], was[1:-1], strict=True):
        summary = {name: before["summary"][name] for name in ("clock", "time_s")}
        assert line["summary"] == summary
        assert line.keys() == before.keys() - {"route"}
    again = parse_journal(content.splitlines(), "again")
    assert again.results == journal.results
    # They are those that schema 5 has.
    for result, before in zip(again.results, was[1:-1], strict=True):
        found = json.loads(msgspec.json.encode(result.summary))
        assert {name: found[name] for name in before["summary"]} == before["summary"]


@pytest.mark.parametrize("field", ["time_s", "clock"])
def test_a_median_that_is_not_that_of_its_samples_is_damaged(field):
    lines = read_journal(SCHEMA_5).encoded().splitlines()
    line = json.loads(lines[1])
    del line["crc32"]
    line["summary"][field] = {"time_s": line["summary"]["time_s"] * 1.01, "clock": "host"}[field]
    lines[1] = json.dumps(line).encode()
    journal = parse_journal(lines, "changed")
    assert (journal.damaged_lines, [one.index for one in journal.results]) == (1, [1, 2, 3, 4, 5])


def test_figures_that_do_not_follow_from_samples_are_stored():
    journal = read_journal(SCHEMA_5)
    first, second, *_ = journal.results
    first.summary.late_rank = 1
    second.samples = None
    again = parse_journal(journal.encoded().splitlines(), "again")
    assert again.results == journal.results
