"""Commands that start no rank, run in the process of the tests.

Everything between the arguments and the exit code is that of the program. Only the handlers of
signals stay those of the tests.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from unittest.mock import patch

import pytest

from cclmark.cli import main
from commands import Run, environment

_PLANNING = ("need", "predict", "simulate")  # which write journals
_WITHOUT_RANKS = ("history", "compare", "references", "export", "report", "import", *_PLANNING)
_AT_START = ("PYTHON", "LC_", "LANG")  # read by Python when it starts


def runs_here(arguments: tuple[object, ...], options: Mapping[str, object]) -> bool:
    """Whether ``run_here`` takes such a command."""
    variables = options.get("env") or {}
    assert isinstance(variables, Mapping)
    return (
        arguments[0] in _WITHOUT_RANKS
        and options.keys() <= {"env", "code", "timeout_s"}
        and not any(name.startswith(_AT_START) for name in variables)
    )


def run_here(
    tag: str,
    directory: Path,
    *arguments: object,
    env: Mapping[str, str] | None = None,
    code: int | tuple[int, ...] = 0,
    **_: object,
) -> Run:
    """Runs ``cclmark ARGUMENTS`` in ``directory`` and checks its exit code."""
    if arguments[0] in _PLANNING and code in (0, 1) and "--journal" not in arguments:
        # Names of journals are those of processes and seconds.
        arguments += ("--journal", f"planned-{len([*directory.iterdir()])}.jsonl")
    command = ["cclmark", *map(str, arguments)]
    out, err = (TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2))
    ended: object = 0
    before = Path.cwd()
    os.chdir(directory)
    try:
        with (
            patch.dict(os.environ, environment(tag, env), clear=True),
            patch.object(sys, "argv", command),
            patch.object(main, "on_ending_signals"),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            main._run()
    except SystemExit as error:
        ended = error.code or 0
    finally:
        os.chdir(before)
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    if ended not in (code if isinstance(code, tuple) else (code,)):
        pytest.fail(f"exit code {ended}, not {code}: {texts[1][-1500:]}\n{texts[0][-1500:]}")
    return Run(command, directory, ended, *texts)
