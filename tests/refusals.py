"""Command lines that are refused before a rank starts, run in the process of the tests."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from goldens import require_outcomes
from in_process import run_here


def require_refusals(
    path: Path, tag: str, directory: Path, first: Sequence[str], names: Mapping[str, str] = {}
) -> None:
    """Compares the messages of refused command lines with those stored in ``path``.

    ``first``: the words before those of each line. ``names``: words of lines that stand for files.
    Fails where anything is printed or written besides.
    """

    def error(line: str) -> str:
        words = [names.get(word, word) for word in shlex.split(line)]
        run = run_here(tag, directory, *first, *words, code=(2, 3))
        assert (run.out, run.written()) == ("", [])
        text = run.err.strip().rpartition("\n\n")[2]
        for name, file in names.items():
            text = text.replace(file, name)
        return f"{run.code}: {text}"

    require_outcomes(path, error)
