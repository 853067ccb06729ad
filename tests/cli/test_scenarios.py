"""Command lines and what they must print, in ``scenarios/NAME.txt``.

``# SENTENCE`` names a scenario, which is a test; ``(--all)`` at its end leaves it to that option.
Its commands run one after another in one directory, without the word ``cclmark``:

    [FAKES AND VARIABLES] all_reduce --devices host:2

In the brackets stand vendors of ``vendors.py`` (``RCCL``, ``RCCL:old``), ``CUDA``, ``FLAGCX``, the
fake plug-ins of torch, ``MPI:NAME``, ``compiler:RCCL``, fixtures with an environment, like
``without_torch``, or that skip the test, like ``torch``; and ``NAME=VALUE``, where ``FAKE_X``,
``X_LIBRARY`` and ``X_BYTES`` are variables of CCLMARK and ``@RCCL`` is a file.

``> FILE TEXT`` writes a file, ``>!`` a program, ``<`` copies a fake, ``;`` begins a comment.
``$NAME = WORDS`` abbreviates words, ``$HERE`` is the directory, ``$RUNS`` that of stored journals,
``$MPIS`` that of real MPIs, ``$FIRST`` and ``$SECOND`` are processors, ``$WAITS`` is the option for
a deadline of 2 s, which is ``$DEADLINE_S`` here.

Indented lines are expected in what the command prints or in the ``facts`` of its journal, behind
``! `` they must not be there, ``~ `` is a regular expression, ``2 × `` how often words are
printed, ``exit 3`` an exit code other than 0, several are alternatives, and ``= fakes/x.txt``
compares the outcome of every case with a stored text.
"""

import json
import os
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import vendors

import fake_torch_devices
from cclmark.explain.plugin_log import plugin_path
from cclmark.journal.schema import Explanation
from commands import Run
from fake_backends import find_fakes
from fake_libraries import fake_library
from goldens import outline, require_golden
from mpis import MPIS, mpi_environment
from patience import deadline_s, waits
from places import RUNS

_FOLDER = Path(__file__).with_name("scenarios")
_CODES = tuple(range(256))
#: Compilers of kernels on devices, with NVRTC's interface: the variable and the file of each.
_COMPILERS = {
    "RCCL": ("HIPRTC", "libhiprtc.so.6"),
    "MACA": ("MCRTC", "libmcrtc.so"),
    "MUSA": ("MTRTC", "libmtrtc.so"),
    "SHIM": ("NVRTC", "rtc/libnvrtc.so"),
}
_PROCESSORS = sorted(os.sched_getaffinity(0))[:2]
_CALL = re.compile(r"(?:\[(?P<given>[^\]]*)\] )?(?P<words>.*)")
TORCH_PLUG_INS = {
    one.plug_in: one
    for one in (fake_torch_devices.MUSA, fake_torch_devices.ACL, fake_torch_devices.GCU)
}


@dataclass
class Command:
    """A line of a scenario with the indented lines below it."""

    line: str
    expected: list[str]


def scenarios() -> list[object]:
    """Those of all files, as parameters of a test."""
    parameters: list[object] = []
    for file in sorted(_FOLDER.glob("*.txt")):
        short: dict[str, str] = {}
        found: dict[str, list[Command]] = {}
        for line in file.read_text(encoding="utf-8").splitlines():
            if match := re.fullmatch(r"(\$[A-Z]\w*) = (.*)", line):
                short[match[1]] = expanded(match[2], short)
            elif line.startswith("# "):
                assert line not in found, f"{file.name} has two scenarios {line!r}"
                found[line] = commands = []
            elif line.startswith("    "):
                commands[-1].expected.append(line.strip())
            elif line and not line.startswith(";"):
                commands.append(Command(expanded(line, short), []))
        for line, commands in found.items():
            marks = [pytest.mark.exhaustive] if line.endswith("(--all)") else []
            if any(re.search(r"\btorch", one.line) for one in commands):
                marks.append(pytest.mark.xdist_group("torch"))  # see conftest.py
            parameters.append(pytest.param(commands, id=f"{file.stem}: {line[2:]}", marks=marks))
    return parameters


def expanded(line: str, short: dict[str, str]) -> str:
    return re.sub(r"\$[A-Z]\w*", lambda found: short.get(found[0], found[0]), line)


class Runner:
    """Runs commands of a scenario in the directory of a test, and compares."""

    def __init__(
        self, request: pytest.FixtureRequest, cclmark: Callable[..., Run], directory: Path
    ) -> None:
        self._request = request
        self._cclmark = cclmark
        self._directory = directory

    def problems(self, command: Command) -> list[str]:
        """What a command prints otherwise than expected, each with the text or the difference."""
        if command.line[0] in "<>":
            sign, name, *text = command.line.split(" ", 2)
            file = self._directory / name
            if sign == "<":
                shutil.copy(self._here(text[0]), file)
            else:
                content = self._here("".join(text)).encode("latin-1").decode("unicode_escape")
                file.write_text(content, encoding="utf-8")
                file.chmod(0o755 if sign == ">!" else 0o644)
            return []
        call = _CALL.fullmatch(self._here(command.line))
        assert call is not None
        variables = self._variables(shlex.split(call["given"] or ""))
        codes = [int(one[5:]) for one in command.expected if one.startswith("exit ")]
        if any(codes):
            self._request.getfixturevalue("no_leaks")
        words = [one for word in shlex.split(call["words"]) for one in self._files(word)]
        run = self._cclmark(*words, env=variables, code=_CODES)
        printed = f"{run.out}\n{run.err}\n"
        text = printed + facts(run)
        problems = [] if run.code in (codes or [0]) else [f"exit {run.code}"]
        if run.code == 2 and (run.out or "cclmark: journal " in run.err):
            problems.append("a usage error with an output or a journal")
        for line in command.expected:
            if line.startswith("= "):
                require_golden(line[2:], _TEXTS[line[2:].partition("/")[0]](run))
            elif not line.startswith("exit ") and not _holds(self._here(line), printed, text):
                problems.append(line)
        if problems:
            print(command.line, text, sep="\n")
        return [f"{command.line}: {problem}" for problem in problems]

    def _files(self, word: str) -> list[str]:
        """The files in the directory that match a word with an asterisk; else the word."""
        if not (word.startswith(str(self._directory)) and "*" in word):
            return [word]
        return sorted(map(str, self._directory.glob(Path(word).name)))

    def _here(self, line: str) -> str:
        for name, value in (
            ("$HERE", self._directory),
            ("$RUNS", RUNS),
            ("$FIRST", _PROCESSORS[0]),
            ("$SECOND", _PROCESSORS[-1]),
            ("$MPIS", MPIS),
            ("$WAITS", " ".join(waits(2))),
            ("$DEADLINE_S", f"{deadline_s(2):g}"),
        ):
            line = line.replace(name, str(value))
        return re.sub(r"@[a-zA-Z][\w:.]*", lambda found: self._file(found[0]), line)

    def _variables(self, given: list[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for word in given:
            name, is_variable, value = word.partition("=")
            if is_variable:
                own = name.startswith("FAKE_") or name.endswith(("_LIBRARY", "_BYTES"))
                own = own or name in ("MPIRUN", "CACHE_DIR")
                found[f"CCLMARK_{name}" if own else name] = value
            else:
                found |= self._fake(*name.partition(":")[::2])
        return found

    def _fake(self, name: str, variant: str) -> dict[str, str]:
        """The environment of a fake, or of what is missing."""
        fixture = self._request.getfixturevalue
        found: dict[str, str] = {}
        if name in TORCH_PLUG_INS:
            fixture("torch")
            has_plug_in = variant != "none"
            found = TORCH_PLUG_INS[name].env(variant * has_plug_in, has_plug_in=has_plug_in)
        elif name == "MPI":
            found = mpi_environment(variant)
        elif name == "backends":
            find_fakes(self._directory, *variant.split(","))
        elif name == "compiler":
            variable, file = _COMPILERS[variant]
            found = {f"CCLMARK_{variable}_LIBRARY": str(fake_library(file))}
            found["CCLMARK_CACHE_DIR"] = str(fixture("fake_cuda").cache)
        elif not name.isupper():
            found = fixture(name) or {}
        elif name in ("CUDA", "FLAGCX"):
            cuda = fixture("fake_cuda")
            flagcx = cuda.nccl.parent / variant / "libflagcx.so"
            found = cuda.env(old=(name, variant) == ("CUDA", "old"), products=variant == "products")
            found |= {"CCLMARK_FLAGCX_LIBRARY": str(flagcx)} if name == "FLAGCX" else {}
        else:
            found = getattr(vendors, name).env(variant)
        return found

    def _file(self, word: str) -> str:
        """``@RCCL`` is the file of a fake library, ``@RCCL.runtime`` that of its runtime, ``@nccl``
        one of CUDA, ``@plugin`` cclmark's own and ``@other`` another plug-in of NCCL.
        """
        name, _, runtime = word[1:].partition(".")
        name, _, variant = name.partition(":")
        if name.isupper():
            vendor: vendors.Vendor = getattr(vendors, name)
            file = vendor.file(variant)
            return str(file.with_name(vendor.runtime_file) if runtime else file)
        cuda = self._request.getfixturevalue("fake_cuda")
        others = {
            "plugin": plugin_path(),
            "other": cuda.nccl.parent / "plugins" / "libnccl-profiler-other.so",
            "nvml": cuda.nccl.parent / "nvml",
        }
        return str(others.get(name) or getattr(cuda, name))


def _holds(line: str, printed: str, text: str) -> bool:
    """Whether an expected line is in the text of a run, or one that is not expected is not."""
    if match := re.fullmatch(r"(\d+) × (.*)", line):
        return printed.count(match[2]) == int(match[1])
    mark, _, words = line.partition(" ")
    if mark == "~":
        return re.search(words, text, re.MULTILINE) is not None
    squeezed = " ".join(text.split())
    if mark == "!":
        return words not in text and words not in squeezed
    return line in text or line in squeezed


def facts(run: Run) -> str:
    """What the journal of a run contains, a line for each fact; and the files of the run."""
    lines = [f"files: {', '.join(map(partial(_content, run.directory), run.written()))}."]
    if "cclmark: journal " in run.err:
        lines += _facts(run.journal)
    return "\n".join(lines)


def _content(directory: Path, name: str) -> str:
    """A file with its content, where that is a few words."""
    text = (directory / name).read_bytes()
    is_short = len(text) < _MOST_BYTES and text.isascii() and b"\n" not in text and b":" not in text
    return f"{name} ({text.decode()})" if is_short else name


def _facts(journal) -> Iterator[str]:
    header, results = journal.header, journal.results
    yield from (f"notice: {one}" for one in header.notices)
    yield from (f"{name}={value}" for name, value in header.environment.items())
    settings = {name: getattr(header.settings, name) for name in _SETTINGS}
    yield f"settings: {json.dumps(settings, default=str)}"
    yield f"devices: {' '.join(f'{one.runtime}:{one.index}' for one in header.devices)}."
    yield f"processors: {' '.join(one.processors for one in header.devices)}."
    for one in header.libraries:
        yield f"library: {one.name} {one.version} {one.memory} {one.path}"
    yield f"footer: {journal.footer.exit_code if journal.footer else ''}."
    yield f"results: {len(results)}."
    found: dict[str, list[str]] = {name: [] for name in _VALUES}
    for result in results:
        for name, value in _VALUES.items():
            found[name] += value(result)
        words = [result.status, getattr(result, "route", ""), getattr(result, "reason", "")]
        yield f"{result.item.describe()} by {result.item.ccl}: {', '.join(filter(None, words))}."
    for name, values in found.items():
        yield f"{name}: {', '.join(sorted(set(values)))}."


def _of(result: object, path: str) -> list[str]:
    """The value of an attribute of an attribute, where it is there and not None."""
    for name in path.split("."):
        result = getattr(result, name, None)
    return [] if result is None else [str(result)]


def _fastest(explanation: Explanation | None) -> str:
    """What the library expected to take the least time, where it predicts times."""
    times_s = explanation.predicted_s if explanation else None
    return min(times_s, key=lambda name: times_s[name]) if times_s else ""


_MOST_BYTES = 40
_SETTINGS = ("iterations", "warmup", "check", "bind", "gate", "through_host")
#: The values that results have, each listed once.
_VALUES: dict[str, Callable[[object], list[str]]] = {
    "statuses": lambda one: _of(one, "status"),
    "operations": lambda one: _of(one, "item.operation"),
    "clocks": lambda one: _of(one, "summary.clock"),
    "checked on": lambda one: _of(one, "verification.where"),
    "scopes": lambda one: _of(one, "transfer.scope") if _of(one, "status") == ["ok"] else [],
    "means": lambda one: _of(one, "transfer.means"),
    "methods": lambda one: _of(one, "transfer.method"),
    "blocks": lambda one: _of(one, "transfer.blocks"),
    "held by": lambda one: [{"True": "host"}.get(it, "device") for it in _of(one, "by_host")],
    "launches": lambda one: _of(one, "summary.launch_s"),
    "implementations": lambda one: _of(one, "implementation"),
    "unsupported": lambda one: _of(one, "check.name") if _of(one, "status") != ["ok"] else [],
    "buffers": lambda one: [
        f"{it.purpose} {it.place}"
        for it in getattr(one, "buffers", [])
        if it.purpose in ("input", "output")
    ],
    "trials": lambda one: [
        f"{it.case.operation} {it.case.ccl} {it.case.placement}"
        for it in (getattr(one, "trial", None),)
        if it
    ],
    "gates": lambda one: _of(one, "gate"),
    "operations per sample": lambda one: _of(one, "samples.operations_per_sample"),
    "explained by": lambda one: _of(one, "explanation.source"),
    "kernels": lambda one: _of(one, "explanation.kernel"),
    "algorithms": lambda one: _of(one, "explanation.algorithm"),
    "predicted": lambda one: [_fastest(getattr(one, "explanation", None))],
    "doubts": lambda one: _of(one, "explanation.reason"),
    "wrong": lambda one: [
        f"rank {it.rank}: {it.wrong} from {it.first_element}"
        for it in [
            *getattr(getattr(one, "verification", None), "findings", []),
            *getattr(one, "compute_findings", []),
        ]
    ],
}


def explained(run: Run) -> str:
    """The explanation of each case, and the parts of the output and the messages about them."""
    lines = []
    for result in run.journal.results:
        of = result.explanation
        texts = [of.source, of.kernel, of.algorithm, of.protocol] if of else [result.status]
        texts += [f"{of.channels} channels", of.registered, of.reason] if of else []
        pair = result.case.pair or ""
        lines.append(f"{result.case.describe()} {pair}: {', '.join(filter(None, texts))}")
    parts = [part for part in run.out.split("\n\n") if "what ran" in part.partition("\n")[0]]
    parts += re.findall("^  what ran is .*", run.out, re.MULTILINE)
    doubts = [one.removeprefix("cclmark: ") for one in run.message.splitlines()]
    assert (run.code == 3) == bool(doubts)
    assert run.code == 0 or run.journal.footer.problems[0] == doubts[0]
    return "\n".join([*sorted(lines), *parts, *run.message.splitlines()]) + "\n"


def connections(run: Run) -> str:
    """Those of the journal, and as the run prints them."""
    shown = re.findall(r"^ *(\S+, connections.*?\n)\n", run.out, re.MULTILINE | re.DOTALL)
    findings = re.findall(r"^ .*(?:communicates? through| reports: ).*\n", run.out, re.MULTILINE)
    sources = {result.case.ccl: result.explanation.source for result in run.journal.results}
    text = outline([sources, *run.journal.paths])
    return text + "".join([*shown, *findings])


def tuned(run: Run) -> str:
    """What ran for each size, why, and the lines that mention it, with their number, unless the
    failure of one rank may end another one before it writes its own.
    """
    found = [
        f"{one.case.size_bytes}: {one.explanation.choice}, {one.explanation.channels} channels, "
        f"{one.explanation.rule} {one.explanation.reason}".rstrip(", ")
        for one in run.journal.results
    ]
    mentioned = [line for line in run.err.splitlines() if re.search("plug-in|TUNER", line)]
    counted = Counter(re.sub(r"^fake\S+ \[\d\] ", "", line) for line in mentioned)
    found += sorted(line if run.code else f"{counted[line]} × {line}" for line in counted)
    text = "".join(f"{line}\n" for line in found)
    text = text.replace(str(run.directory / "table.txt"), "TABLE")
    return re.sub(r"/[^\s=]+/libnccl-profiler-other.so", "OTHER", text)


_TEXTS = {"tuner": tuned, "fakes": vendors.outcomes, "explained": explained, "paths": connections}


@pytest.mark.parametrize("commands", scenarios())
def test_commands_print_what_is_expected(request, cclmark, tmp_path, commands):
    runner = Runner(request, cclmark, tmp_path)
    problems = [problem for command in commands for problem in runner.problems(command)]
    assert not problems, "\n\n".join(problems)
