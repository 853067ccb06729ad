"""Lets forks run the ``sitecustomize.py`` of a test: see ``patched_sources``.

It is run where a started process runs it, before the program begins, and has the same command in
``sys.orig_argv`` and the same environment there. A fork is no launcher's child, either.
"""

import os
import runpy
from pathlib import Path

from cclmark.base import signals
from cclmark.rank import worker

_run_module, _rank = runpy.run_module, worker.run_rank


def _customize():
    if path := os.environ.get("SITECUSTOMIZE_OF_TEST"):
        exec(Path(path).read_text(), {"__name__": "sitecustomize"})


def _run_program(*arguments, **options):
    signals._PARENT_PID = os.getppid()
    _customize()
    return _run_module(*arguments, **options)


def _run_rank(*arguments):
    _customize()
    _rank(*arguments)


runpy.run_module, worker.run_rank = _run_program, _run_rank
