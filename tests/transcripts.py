"""Commands in a row with what they print, compared with stored texts. UPDATE_GOLDEN=1 rewrites."""

import re
import shlex
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

from cclmark import __version__
from commands import Run
from goldens import GOLDEN, require_golden

STORED = GOLDEN / "transcripts"
_CODES = (0, 1, 2, 3)
_WHOLE = ("cclmark: journal", "cclmark: written ")  # lines that programs look for
_BEGIN, _END = 8, 8  # shown lines of a longer output


def require_transcript(
    name: str,
    lines: Sequence[str],
    cclmark: Callable[..., Run],
    directory: Path,
    *,
    hidden: str = "",
    **env: str,
) -> None:
    """Runs commands in ``directory`` as a shell would; variables may stand before the arguments.

    The stored text has their exit codes, errors and outputs, without ``hidden``.
    """
    parts = []
    for line in lines:
        if line.startswith("#"):
            parts.append(f"$ {line}")
            continue
        words = shlex.split(line)
        own = [word.split("=", 1) for word in takewhile(re.compile("[A-Z_]+=").match, words)]
        told = cclmark(*words[len(own) :], env={"COLUMNS": "100", **env, **dict(own)}, code=_CODES)
        wide = [one for one in (*told.out.splitlines(), *told.lines_of_err) if _is_wide(one)]
        assert not wide or "--format" in words, wide
        texts = (*told.err.splitlines(), *_shown(told.out.splitlines()))
        parts += [f"$ {line}", *([f"[exit code {told.code}]"] if told.code else []), *texts, ""]
    text = "\n".join(parts)
    shown = {hidden or "\0": "PLACE", str(directory): "HERE", "\x1b": "\\x1b"}
    for written, stored in {**shown, f"cclmark {__version__}": "cclmark VERSION"}.items():
        text = text.replace(written, stored)
    require_golden(f"transcripts/{name}.txt", text)


def _is_wide(line: str) -> bool:
    """Whether a line has more than 100 columns, and not because of the name of a file here."""
    if line.startswith(_WHOLE) or len(max(line.split(), key=len, default="")) > 60:
        return False
    return len(line) > 100


def stored_names(beginning: str) -> list[str]:
    """The names of the stored transcripts that begin so."""
    return sorted(path.stem for path in STORED.glob(f"{beginning}*.txt"))


def stored_commands(name: str) -> list[str]:
    """The commands of a stored transcript; ``$ # text`` is a comment."""
    commands: list[str] = []
    is_open = False  # a quoted text of several lines
    for line in (STORED / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if is_open:
            commands[-1] += f"\n{line}"
        elif line.startswith("$ "):
            commands.append(line[2:])
        else:
            continue
        try:
            shlex.split(commands[-1])
        except ValueError:
            is_open = not commands[-1].startswith("#")
        else:
            is_open = False
    return [one.replace("\\x1b", "\x1b") for one in commands]


def _shown(lines: list[str]) -> list[str]:
    left_out = len(lines) - _BEGIN - _END
    if left_out <= 1:
        return lines
    return [*lines[:_BEGIN], f"… {left_out} more lines …", *lines[-_END:]]
