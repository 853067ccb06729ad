"""A journal of every kind with one value changed: every command reads it, or refuses it."""

import json
import random
import traceback
import zlib
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import click
import pytest

from cclmark.base.errors import CclmarkError, UsageError
from cclmark.cli.main import app
from cclmark.document.exporters import formats_of
from cclmark.kinds.registry import KINDS, read_journal
from cclmark.recording.resuming import Repetition
from cclmark_programs.replay.program_step import ranks_of, step_of
from places import TESTS

pytestmark = pytest.mark.simulated

# Written by runs on two ranks of the host or with the fakes, or, for kinds that need torch, from
# results as such runs have them; shortened.
JOURNALS = {path.stem: path for path in sorted((TESTS / "journals").iterdir())}
FEW = 6
CODES = (0, 1, 2)
NUMBERS = (-1, 0, 1, 2**31, 2**63 - 1, 2**63, 10**30, -(2**63), 1e300, -1e300, 0.5)
WORDS = ("zz", "", "\x1b[31m", "9" * 5000)
OTHERS = (None, True, [], {}, [[]], {"zz": 1})


def leaves(value, path=()):
    """The paths of all values in a line, lists and objects with them."""
    is_list = isinstance(value, list)
    parts = enumerate(value) if is_list else value.items() if isinstance(value, dict) else ()
    for key, part in parts:
        yield (*path, key), part
        yield from leaves(part, (*path, key))


def others_for(value):
    """What a value is replaced with."""
    yield from (one for one in (*OTHERS, *NUMBERS, *WORDS) if one != value)
    if isinstance(value, list) and value:
        yield value[:-1]
        yield [*value, value[-1]]
        yield value * 3
    if isinstance(value, dict) and value:
        yield dict(list(value.items())[:-1])
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield -value
        yield value * 1000


def lines_of(name):
    lines = [json.loads(line) for line in JOURNALS[name].read_text().splitlines()]
    for one in lines:
        one.pop("crc32", None)
    return lines


def places(lines):
    """Every value of a journal: the number of its line, its path in it, and the value."""
    return [(number, *leaf) for number, line in enumerate(lines) for leaf in leaves(line)]


def replacement(choose, path, value):
    """What a value is replaced with; nothing to leave a field out."""
    found = [[other] for other in others_for(value)]
    return choose.choice([*found, []] if isinstance(path[-1], str) else found)


def content_of(lines, number, path, values, *, sealed):
    """The journal with the value of a line at ``path`` replaced by that of ``values``, if any."""
    line = json.loads(json.dumps(lines[number]))
    *before, last = path
    place = line
    for key in before:
        place = place[key]
    if values:
        place[last] = values[0]
    else:
        del place[last]
    return b"".join(
        written(line if own == number else one, sealed=sealed) for own, one in enumerate(lines)
    )


def written(line, *, sealed):
    content = json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode()
    if not sealed:
        return content + b"\n"
    return b'%s,"crc32":"%08x"}\n' % (content[:-1], zlib.crc32(content))


class Readers:
    """Runs every command that reads journals, without another process."""

    def __init__(self, directory, monkeypatch):
        self.directory, self.err, self.already_read = directory, StringIO(), set()
        monkeypatch.chdir(directory)
        monkeypatch.setenv("XDG_DATA_HOME", str(directory / "data"))
        # The command of the journal is planned, and not executed.
        invoke = click.Command.invoke
        monkeypatch.setattr(
            click.Command,
            "invoke",
            lambda command, context: (
                0 if isinstance(context.obj, Repetition) else invoke(command, context)
            ),
        )

    def run(self, *words):
        """Runs a command. Returns what is wrong with its end, empty for nothing."""
        self.err = StringIO()
        words = [str(word) for word in words]
        try:
            with redirect_stdout(StringIO()), redirect_stderr(self.err):
                app(words, prog_name="cclmark", standalone_mode=False)
        except SystemExit as ended:
            return "" if ended.code in CODES else f"{words[0]}: code {ended.code}"
        except (CclmarkError, click.ClickException) as error:
            return "" if len(str(error)) < 12000 else f"{words[0]}: a message without an end"
        except Exception:
            return f"{' '.join(words)}: {traceback.format_exc()}"
        return ""

    def read(self, path, original):
        """Yields what is wrong, by command."""
        try:
            journal = read_journal(path)
            if repr(journal) in self.already_read:  # a damaged line is left out, however damaged
                return
            self.already_read.add(repr(journal))
            yield from filter(
                None, (self.run(*it) for it in self.commands(path, original, journal))
            )
            if ranks_of(journal, str(path)):
                step_of(journal, str(path))
        except CclmarkError:
            pass
        except Exception:
            yield traceback.format_exc()

    def commands(self, path, original, journal):
        page, exported = self.directory / "page.html", self.directory / "exported"
        yield from (("report", path), ("report", path, "-O", page))
        for name in (*formats_of(KINDS[journal.kind]), "prometheus", "markdown"):
            yield "export", path, "--format", name, "-O", exported
        for table in ("samples", "steps"):
            yield "export", path, "--format", "csv", "--table", table, "-O", exported
        yield from (("compare", path, original), ("compare", original, path))
        yield from (("history", "add", path, "--replace"), ("references", "check", path))
        yield "references", "add", path, "--name", "ours"
        yield "rerun", path, "--elsewhere"


@pytest.fixture
def readers(tmp_path, monkeypatch):
    return Readers(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", JOURNALS)
def test_every_command_reads_the_journals(readers, name):
    journal = read_journal(JOURNALS[name])
    assert journal.results
    assert not journal.damaged_lines
    assert [*readers.read(JOURNALS[name], JOURNALS[name])] == []


@pytest.mark.parametrize("name", JOURNALS)
def test_one_value_changed(request, readers, name, tmp_path):
    """Each of its values, with --all, and otherwise some, the same in every run."""
    choose = random.Random(name)
    lines = lines_of(name)
    found = places(lines)
    wrong = []
    chosen = found if request.config.getoption("--all") else choose.sample(found, FEW)
    for number, path, value in chosen:
        values = replacement(choose, path, value)
        mutated = tmp_path / "mutated.jsonl"
        mutated.write_bytes(content_of(lines, number, path, values, sealed=choose.random() < 0.5))
        place = f"line {number + 1}, {'.'.join(map(str, path))} = {str(values)[:80]}"
        wrong += [f"{place}: {one}" for one in readers.read(mutated, JOURNALS[name])]
    assert not wrong, "\n\n".join(wrong[:5])


def stored(tmp_path, lines):
    path = tmp_path / "changed.jsonl"
    path.write_bytes(b"".join(written(one, sealed=True) for one in lines))
    return path


def changed(name, tmp_path, change):
    """The journal, in which ``change`` has changed the first result."""
    lines = lines_of(name)
    change(lines[1])
    return stored(tmp_path, lines)


@pytest.mark.parametrize(
    ("name", "item", "field"),
    [
        *(("train", "training", field) for field in ("parallel", "dtype", "optimizer")),
        *(("replay", "replay", "gaps"), ("objects", "call", "operation")),
        ("collective", None, "status"),
    ],
)
def test_a_word_of_a_newer_version_is_reported(readers, name, item, field, tmp_path):
    def change(line):
        (line[item] if item else line)[field] = "zz"

    path = changed(name, tmp_path, change)
    journal = read_journal(path)
    assert journal.damaged_lines == 0
    assert journal.unknown_words == [f"{field} 'zz'"]
    assert len(journal.results) == len(read_journal(JOURNALS[name]).results) - 1
    if journal.results:
        assert readers.run("report", path) == ""
        assert f"left out: 1 ({field} 'zz')" in readers.err.getvalue()


TIMELINE = {name: [1.0] for name in ("communication_s", "exposed_s", "compute_s")}
TIMELINE |= {"step_s": [1.0, 1.0], "steps": 1}
SAMPLES = {name: [[1.0]] for name in ("host_s", "device_s", "enqueue_s")}
SAMPLES |= {"operations_per_sample": 1}


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        *(("train", "step_s", one) for one in ([[0.1, 0.1], [0.1]], [[0.1]])),
        *(("train", "alone_s", [[], []]), ("train", "peak_reserved_bytes", [1])),
        *(("train", "timeline", TIMELINE), ("collective", "samples", SAMPLES)),
        *(("replay", "span_s", [[0.1], [0.1, 0.2]]), ("replay", "communication_s", [])),
        *(("overlap", "together", None), ("p2p", "hung", [7])),
        ("pieces", "rows", [{"division": {"form": "one", "pieces": 1}, "status": "ok"}]),
        ("objects", "findings", [{"rank": 9, "of": "objects", "text": "x"}]),
    ],
)
def test_fields_that_contradict_each_other_are_damage(name, field, value, tmp_path):
    path = changed(name, tmp_path, lambda line: line.update({field: value}))
    assert read_journal(path).damaged_lines == 1


def test_a_second_profile_and_impossible_groups_and_steps_are_damage(tmp_path):
    lines = lines_of("profile")
    first = {one["type"]: one for one in reversed(lines)}
    assert read_journal(stored(tmp_path, [*lines[:-1], first["profile"], lines[-1]])).damaged_lines
    for change in (
        lambda lines: lines["profiled"]["profiled"].update(group_ranks=1 << 31),
        lambda lines: lines["profile"]["processes"][0].update(step_s=-1.0),
        lambda lines: lines["profile"]["processes"].pop(),
    ):
        lines = lines_of("profile")
        change({one["type"]: one for one in reversed(lines)})
        journal = read_journal(stored(tmp_path, lines))
        assert journal.damaged_lines == 1
        with pytest.raises(UsageError):
            step_of(journal, "p")
