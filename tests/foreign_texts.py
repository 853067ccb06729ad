"""Texts of other tools, and the journals that importers create from them.

``golden/imports/`` has the journal of each stored text as lines. ``importing/foreign_cases.jsonl``
has changed texts, with what their journals have other, or the message that refuses them;
``importing/trace_cases.jsonl`` has traces of programs, with the lines of their journals. ``python
tests/foreign_texts.py`` writes all again, for review.
"""

import json
import re
from difflib import SequenceMatcher
from pathlib import Path

import msgspec

from cclmark.base.errors import UsageError
from cclmark_importers.importers import TraceFile, import_text, import_traces, trace_format
from cclmark_importers.run import Given, Origin

TEXTS = Path(__file__).parent / "foreign"
TRACES = Path(__file__).parent / "traces"
MADE = Path(__file__).parent / "foreign_made"  # texts that only cases begin with
JOURNALS = Path(__file__).parent / "golden" / "imports"
CASES = Path(__file__).parent / "importing" / "foreign_cases.jsonl"
TRACE_CASES = Path(__file__).parent / "importing" / "trace_cases.jsonl"
ORIGIN = Origin("a.txt", "0" * 64, 1.7e9, ["cclmark", "import", "a.txt"], "0.1.0")
#: What stored texts do not contain, for import_text's ``given``.
LACKING = {
    "osu-5.3.txt": {"ranks": 16},
    "deepep-internode.txt": {"ranks": 16},
    "hccl-test.txt": {"ranks": 8},
    "hccl-test-rank-failed.txt": {"ranks": 4},
    "nccl-tests-shortened.txt": {"ranks": 1024},
} | {
    name: {"operation": "all_reduce"}
    for name in (
        *("flagcx-a800.txt", "flagcx-a800-c550.txt", "flagcx-c550.txt", "flagcx-p800.txt"),
        *("nccl-tests-2017.txt", "rccl-tests.txt", "nccom-test.json"),
        *("flagcx-2-ranks.txt", "flagcx-4-ranks.txt"),
    )
}


def read(content, format=None, **given):
    """The journal of a text."""
    if isinstance(content, str):
        content = content.encode()
    return import_text(content, "a.txt", format, Given(**given), ORIGIN)[1]


def stored(name, **given):
    """The journal of a stored text."""
    return read((TEXTS / name).read_bytes(), **given)


def notices(journal):
    """All notices of a journal as one text."""
    return "\n".join(journal.header.notices)


# Fields of a journal that are not of the text, but of the import; notices are lines of their own.
_OF_THE_IMPORT = {
    *("type", "schema_version", "cclmark_version", "started_at", "ended_at", "command", "run_id"),
    *("notices", "file", "file_date", "figure", "planned_cases"),
}
_FROM_0 = {"root", "wrong", "rank", "index", "first", "second", "peer_access"}


def _words(value, name=""):
    """The fields of a value as words, without those that are empty or 0 unless that is a value."""
    if name in _OF_THE_IMPORT:
        return
    if isinstance(value, dict):
        if name == "settings" and (value["group"], value["graph_launches"]) == (1, 1):
            value = {**value, "group": 0, "graph_launches": 0}
        for key, one in value.items():
            key = key if isinstance(key, str) else f"{name} {key}"  # noqa: PLW2901
            if key == "time_s" or not key.endswith("_s") or one != value.get("time_s"):
                yield from _words(one, key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for one in value:
            yield f"\n  {name}:"
            yield from _words(one)
        yield "\n "
    elif isinstance(value, list) and value and isinstance(value[0], list):
        for number, one in enumerate(value):
            yield from _words(one, f"{name} {number}")
    elif isinstance(value, list) and value and isinstance(value[0], str):
        yield f"{name}={'; '.join(value)}"
    elif isinstance(value, list | tuple) and value:
        yield f"{name}={','.join(map(_number, value))}".replace(" ", "")
    elif value or (name in _FROM_0 and value == 0):
        yield f"{name}={_number(value)}"


def _number(value):
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def contents_of(journal):
    """All that a journal contains of its text, as lines."""
    lines = [*lines_of("run", journal.header), *journal.header.notices]
    if journal.profile is not None:
        lines += lines_of("profile", journal.profile)
    for place, result in enumerate(journal.results):
        first, *others = lines_of("", result)
        # The number of a result, unless it is its place: other cycles have the number of a case.
        lines += [first.removeprefix(f"index={place} "), *others]
    lines += ["no end"] if journal.footer is None else lines_of("end", journal.footer)
    return [re.sub(r"^the run began at \S+:", "the run began:", one) for one in lines]


def lines_of(name, part):
    """The fields of a struct as lines; ``name`` begins the first one."""
    text = " ".join(filter(None, (name, *_words(msgspec.to_builtins(part)))))
    return [line.strip() for line in text.split("\n") if line.strip()]


def expected_of(names):
    """The lines of the journal of the first of stored texts; none without a text."""
    return (JOURNALS / f"{names.split()[0]}.txt").read_text().splitlines() if names else []


def changed(case):
    """The text of a case: a whole one, or stored ones in a row with other lines or words."""
    if "text" in case:
        return case["text"]
    text = "".join(_text_of(name) for name in case["file"].split())
    lines = text.splitlines(keepends=True)
    for first, last, new in reversed(case.get("lines", ())):  # from 1; last: of the replaced ones
        lines[first - 1 : last] = new
    text = "".join(lines)
    if "old" in case:
        old, new = case["old"], case["new"]
        assert old in text
        parts = text.split(old)
        place = len(parts) if "all" in case else case.get("occurrence", 0) + 1
        text = (
            new.join(parts[:place])
            if "all" in case
            else (old.join(parts[:place]) + new + old.join(parts[place:]))
        )
    return text + case.get("end", "")


def _text_of(name):
    return next(one for one in (TEXTS / name, MADE / name) if one.exists()).read_text()


def trace_file(content, name="trace.json"):
    """A file of a trace."""
    return TraceFile(name, content, Origin(name, f"digest of {name}", 0.0, ["cclmark"], "0"))


def traces_of(case):
    """The files of a case: each a whole text, or a stored one with other words."""
    files = []
    for name, text in case["files"].items():
        if isinstance(text, str):
            content = text.encode()
        else:
            stored_name, *changes = text
            content = (TRACES / stored_name).read_bytes()
            for old, new in changes:
                assert old.encode() in content
                content = content.replace(old.encode(), new.encode(), 1)
        files.append(trace_file(content, name))
    return files


def trace_outcome(case):
    """What importing the files of a case gives: a message, or the lines of the journal."""
    files = traces_of(case)
    assert {trace_format(file.content) for file in files} <= {case["format"], ""}
    try:
        return {"lines": contents_of(import_traces(files, case["format"]))}
    except UsageError as error:  # without the words of the JSON reader
        decoder = re.compile(r"(?:Expected `|JSON is malformed|Input data was).*", re.DOTALL)
        return {"refused": decoder.sub("…", str(error))}


def outcome(case):
    """What reading the text of a case gives: a message, or the lines that are other."""
    try:
        journal = read(changed(case), case.get("format"), **case.get("given", {}))
    except UsageError as error:
        return {"refused": str(error)}
    return {"changes": [*_changes(expected_of(case.get("file", "")), contents_of(journal))]}


def _changes(before, after):
    """The lines that are removed (by number), added, or have other words."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind == "equal":
            continue
        if last - first == end - begin:
            pairs = zip(before[first:last], after[begin:end], strict=True)
            for number, (old, new) in enumerate(pairs, start=first + 1):
                yield f"{number}: {_without(old, new)} -> {_without(new, old)}"
            continue
        if last > first:
            yield f"-{first + 1}..{last}"
        yield from (f"+{line}" for line in after[begin:end])


def _without(line, other):
    """The words of a line that are not in the other one."""
    return " ".join(word for word in line.split(" ") if word not in other.split(" "))


def _update():
    JOURNALS.mkdir(exist_ok=True)
    for path in (*TEXTS.iterdir(), *MADE.iterdir()):
        lines = contents_of(read(path.read_bytes(), **LACKING.get(path.name, {})))
        (JOURNALS / f"{path.name}.txt").write_text("\n".join(lines) + "\n")
    for path, outcome_of in ((CASES, outcome), (TRACE_CASES, trace_outcome)):
        lines = []
        for line in path.read_text().splitlines():
            case = json.loads(line)
            kept = {
                key: one for key, one in case.items() if key not in ("refused", "changes", "lines")
            }
            kept |= {key: case[key] for key in ("lines",) if key in case and path == CASES}
            lines.append(json.dumps(kept | outcome_of(case), ensure_ascii=False) + "\n")
        path.write_text("".join(lines))


if __name__ == "__main__":
    _update()
