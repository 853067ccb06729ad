"""Commands in a row with what they print, compared with stored texts. UPDATE_GOLDEN=1 rewrites."""

import re
import shlex
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

from cclmark import __version__
from commands import Run
from goldens import require_golden

_CODES = (0, 1, 2, 3)
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
        words = shlex.split(line)
        own = [word.split("=", 1) for word in takewhile(re.compile("[A-Z_]+=").match, words)]
        told = cclmark(*words[len(own) :], env={"COLUMNS": "100", **env, **dict(own)}, code=_CODES)
        texts = (*told.err.splitlines(), *_shown(told.out.splitlines()))
        parts += [f"$ {line}", *([f"[exit code {told.code}]"] if told.code else []), *texts, ""]
    text = "\n".join(parts)
    shown = {hidden or "\0": "PLACE", str(directory): "HERE", "\x1b": "\\x1b"}
    for written, stored in {**shown, f"cclmark {__version__}": "cclmark VERSION"}.items():
        text = text.replace(written, stored)
    require_golden(f"transcripts/{name}.txt", text)


def _shown(lines: list[str]) -> list[str]:
    left_out = len(lines) - _BEGIN - _END
    if left_out <= 1:
        return lines
    return [*lines[:_BEGIN], f"… {left_out} more lines …", *lines[-_END:]]
