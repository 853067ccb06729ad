"""What holds for every text: ours come back as they were, and none makes an importer fall."""

import re
import time
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.document.exporters import exporter_of
from cclmark.journal.schema import Footer, Verification
from cclmark.kinds.registry import KINDS, read_journal
from cclmark.report.exports import replayed
from cclmark.work.items import COLLECTIVE
from cclmark.work.operations import OPERATIONS
from cclmark_importers.importers import IMPORTERS, import_text
from cclmark_importers.run import Given
from examples import examples
from foreign_texts import LACKING, ORIGIN
from measured_results import each_journal
from patience import scaled
from places import H200X4, TESTS

ALL = Given("all_reduce", None, 4, None, "float32", "sum")
PATIENCE_S = 5.0


def read(content, format=None, given=Given()):  # noqa: B008 - it does not change
    return import_text(content, "a.txt", format, given, ORIGIN)[1]


MEASURED = read_journal(H200X4 / "collectives.jsonl")


@pytest.mark.parametrize(
    ("format", "half_digit_s"), [("nccl-tests", 5e-7), ("flagcx", 5e-7), ("hccl", 5e-9)]
)
@pytest.mark.parametrize(("exit_code", "back_code"), [(None, None), (0, 1), (4, 4)])
def test_text_of_ours_comes_back(format, half_digit_s, exit_code, back_code):
    """With a wrong result; of a row with both placements flagcx and hccl show the first."""
    left_out = ("barrier", "alltoallv")  # texts do not tell how uneven parts are
    results = [one for one in MEASURED.results if one.case.operation not in left_out]
    results[4] = replace(results[4], status="wrong", verification=Verification(77))
    assert not results[4].case.in_place
    footer = None if exit_code is None else Footer("", exit_code, 0.0, "a rank died")
    exporter = exporter_of(KINDS[COLLECTIVE], format)
    lines = [exporter.begin(MEASURED.header), *map(exporter.add, results), exporter.end(footer)]
    journal = read("".join(lines).encode())
    shown = {}
    for one in results:
        case = one.case if format == "nccl-tests" else replace(one.case, in_place=False)
        shown.setdefault(case, one)
    assert {one.case for one in journal.results} == {one.case for one in shown.values()}
    for now in journal.results:
        was = shown[now.case]
        assert now.summary.time_s == pytest.approx(was.summary.time_s, abs=half_digit_s, rel=1e-3)
        assert now.status == was.status
        assert now.verification is None or now.verification.wrong == was.verification.wrong
    if format != "nccl-tests":
        assert (journal.footer and journal.footer.exit_code) == back_code
        assert back_code != 4 or journal.footer.message == "a rank died"


@each_journal
def test_json_of_ours_is_the_journal_again(file):
    journal = read_journal(file)
    assert read("".join(replayed(journal, "json")).encode()) == journal


NUMBERS = (
    *("0", "-1", "1e999", "0e999", "1e-99", "9" * 30, "0.0", "nan", "inf", "-inf", "N/A", "1e18"),
    *("4294967296", "9223372036854775807", "1.7976931348623157e308", "5e-324", "٣", "null", ""),
)


def _lines(text, random):
    lines = text.splitlines(keepends=True) or [""]
    one, other = (random.randrange(len(lines)) for _ in range(2))
    what = random.randrange(5)
    if what == 0:
        del lines[one]
    elif what == 1:
        lines.insert(other, lines[one])
    elif what == 2:
        lines[one], lines[other] = lines[other], lines[one]
    elif what == 3:
        del lines[one : one + random.randrange(1, 12)]
    elif random.random() < 0.1:
        random.shuffle(lines)
    return "".join(lines)


def _characters(text, random):
    place, length = random.randrange(len(text) + 1), random.choice((1, 1, 2, 8, 60))
    put = "".join(random.choices('0123456789.-+eENA|#:;,{}[]"> \n\t\r\x1b…│é', k=length))
    return random.choice(
        (
            text[:place] + text[place + length :],
            text[:place] + put + text[place:],
            text[:place] + put + text[place + length :],
            text[: place + length] + text[place:],
        )
    )


def _fields(text, random):
    found = list(re.finditer(random.choice((r"[^\s|]+", r"\d+(?:\.\d*)?")), text))
    if not found:
        return text
    word = random.choice(found)
    put = random.choice(("", f"{word[0]} {word[0]}", random.choice(found)[0]))
    if random.random() < 0.5:
        put = random.choice(NUMBERS)
    return text[: word.start()] + put + text[word.end() :]


def faulty(text, random):
    for _ in range(random.randint(1, 6)):
        text = random.choice((_lines, _characters, _fields, _fields))(text, random)
    return text


def size_in(text, size_bytes):
    """Whether the text has that number, or the same with a unit."""
    if str(size_bytes) in text:
        return True
    gigabytes = re.findall(r"(\d+(?:\.\d+)?)GB", text)
    if any(round(float(number) * 1e9) == size_bytes for number in gigabytes):
        return True
    powers = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
    found = re.findall(r"(\d+)\s*([KMGTPE]?)i?B", text)
    return any(int(number) * 1024 ** powers[unit] == size_bytes for number, unit in found)


def require_sound(text, format, given):
    """A text is refused, or what is read of it stands in it. Nothing else is raised."""
    began_s = time.process_time()
    try:
        journal = read(text.encode(errors="surrogatepass"), format, given)
    except UsageError as error:
        assert str(error)
        return
    finally:
        assert time.process_time() - began_s < scaled(PATIENCE_S)
    numbers = numbers_in(text) if journal.transfers else set()
    for result in journal.transfers:
        require_sound_copy(numbers, journal, result)
    for result in journal.cases:
        if journal.header.imported is None:  # a whole journal
            continue
        rounded = any("rounds this size up" in one for one in journal.header.notices)
        if journal.header.imported.format == "all-gather-object":  # which always has one element
            assert result.case.size_bytes in (4, 4 * result.case.ranks)
            continue
        if journal.header.imported.format == "deepep":  # which prints bandwidths, seldom sizes
            shown = (result.summary.algbw_bytes_per_s / 1e9, result.summary.time_s * 1e6)
            assert any(round(figure, 9) in numbers_in(text) for figure in shown)
            continue
        part_bytes, rest = divmod(result.case.size_bytes, result.case.ranks)
        in_parts = any("are per rank in the input" in one for one in journal.header.notices)
        assert (
            rounded
            or size_in(text, result.case.size_bytes)
            or (in_parts and not rest and size_in(text, part_bytes))
        )
        assert result.summary.time_s > 0
        even = result.summary.algbw_bytes_per_s * OPERATIONS[result.case.operation].bus_factor(
            result.case.ranks
        )
        uneven = any("parts are uneven" in one for one in journal.header.notices)
        if not (uneven and result.case.operation == "alltoallv"):
            assert result.summary.busbw_bytes_per_s == pytest.approx(even)
    # What was read can be written.
    msgspec.json.encode(journal.header)


def numbers_in(text):
    found = re.findall(r"\d{1,30}(?:\.\d*)?(?:e\+?\d\d?)?", text)
    return {round(float(word), 9) for word in found}


def require_sound_copy(numbers, journal, result):
    """The figures of a copy are in the text, in the units of tools, or are half of one."""
    if journal.header.imported is None:
        return
    transfer, summary = result.transfer, result.summary
    assert transfer.is_within(len(journal.header.devices))
    assert summary.time_s > 0
    if transfer.measure == "latency":
        figures = (summary.time_s * 1e6, summary.time_s * 1e9)
    else:
        figures = tuple(summary.bytes_per_s / one for one in (1e9, 5e8, 1e6, 1 << 20, 1.25e8))
        rate = min(summary.flow_bytes_per_s or [summary.bytes_per_s / len(transfer.flows)])
        assert transfer.size_bytes / summary.time_s == pytest.approx(rate)
    assert any(round(float(f"{figure:.12g}"), 9) in numbers for figure in figures)


FILES = sorted((TESTS / "foreign").iterdir())
MUTATIONS = 5000 if examples(5000) == 5000 else 40
each_file = pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)


def given_for(file):
    return Given(**LACKING.get(file.name, {}))


@each_file
def test_thousands_of_faults(file):
    text, given = file.read_text(), given_for(file)
    assert read(text.encode(), None, given).results
    for seed in range(MUTATIONS):
        require_sound(faulty(text, Random(f"{file.name} {seed}")), None, given)


def measured(journal):
    """What was measured: cases or copies, each with its figures, without the times of calls."""
    return {
        (one.item.describe(), one.cycle, one.summary and replace_call(one.summary))
        for one in journal.results
    }


def replace_call(summary):
    fields = {"call_s": None} if hasattr(summary, "call_s") else {}
    return msgspec.json.encode(replace(summary, **fields))


# Of these each rank prints its own figures, and the slowest of those in the text counts.
BY_RANKS = ("all-gather-object", "all-reduce-latency", "deepep-elastic", "deepep-low-latency")


@each_file
def test_every_beginning_is_read_as_far_as_it_goes_or_refused(file):
    lines, given = file.read_text().splitlines(keepends=True), given_for(file)
    whole = measured(read("".join(lines).encode(), None, given))
    read_lengths = 0
    for length in range(1, len(lines)):
        try:
            part = read("".join(lines[:length]).encode(), None, given)
        except UsageError:
            continue
        read_lengths += 1
        if not file.name.startswith(BY_RANKS):
            assert measured(part) <= whole
    is_whole = file.suffix == ".json" or file.name.startswith(BY_RANKS) or len(lines) < 10
    assert read_lengths or is_whole


UNITS = (
    *(("GB/s", "MB/s"), ("GB/s", "GiB/s"), ("GB/s)", "Gb/s)"), ("GBps", "MBps"), ("(us)", "(ms)")),
    *(("[usec]", "[msec]"), ("(usec)", "(msec)"), ("MB/s)", "KB/s)"), ("(GB/Sec)", "(MB/Sec)")),
    *(("MiB/sec", "KiB/sec"), ("Gb/sec", "Mb/sec"), (" us", " ms"), ("(US)", "(MS)")),
)


@pytest.mark.parametrize(("old", "new"), UNITS)
def test_other_units_than_the_tools_are_refused(old, new):
    tried = 0
    for file in FILES:
        text = file.read_text()
        if old in text:
            tried += 1
            with pytest.raises(UsageError):
                read(text.replace(old, new).encode(), None, given_for(file))
                pytest.fail(f"{file.name} is read with {new}")
    assert tried


@settings(max_examples=examples(60), deadline=None)
@given(st.one_of(st.binary(max_size=400), st.text(max_size=400).map(str.encode)))
def test_what_no_tool_wrote_is_refused(content):
    for format in (None, *IMPORTERS):
        with pytest.raises(UsageError):
            read(content, format, ALL)


@pytest.mark.parametrize("piece", [" ", "a", "|", "1 ", "\x1b[", "Comm size: "])
@pytest.mark.parametrize("start", ["", "#  size  count  type  time  time\n"])
def test_long_texts_take_no_long_time(piece, start):
    content = (start + piece * (60_000 // len(piece))).encode()
    for format in (None, *IMPORTERS):
        began_s = time.process_time()
        with pytest.raises(UsageError):
            read(content, format, ALL)
        assert time.process_time() - began_s < scaled(PATIENCE_S)
