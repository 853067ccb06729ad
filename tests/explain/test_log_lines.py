"""Lines of logs about algorithms and connections, and what a rank wrote about itself, as read.

``log_lines.jsonl`` has lines of NCCL, RCCL, FlagCX, oneCCL and HCCL, and answers of ranks with
their stacks, with what is read of them. UPDATE_GOLDEN=1 writes the latter again, for review.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.explain.nccl_log import operations_in, paths_in
from cclmark.launch.debugging import _Map, render
from cclmark.rank.instruments import operations_of_log
from cclmark.work.libraries import log_of
from commands import completed
from foreign_texts import lines_of

FILE = Path(__file__).parent / "log_lines.jsonl"
CASES = [json.loads(line) for line in FILE.read_text().splitlines()]
READERS = {
    "connections": lambda text: lines_of("", paths_in(text)),
    "choices": lambda text: [*map(_words, operations_in(text))],
    "oneccl": lambda text: [*map(_words, operations_of_log(text, log_of("oneccl")))],
    "hccl": lambda text: [*map(_words, operations_of_log(text, log_of("hccl")))],
    "stack": render,
}


def _words(operation):
    return " ".join([*lines_of("", operation), f"choice={operation.choice}"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_lines(case):
    text = "\n".join(case["text"])
    found = READERS[case["reader"]](text)
    if os.environ.get("UPDATE_GOLDEN"):
        case["found"] = found
        FILE.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in CASES))
    assert found == case["found"]


# Logs that are cut off or are not what they seem.

ON_ONE_HOST = "\n".join(next(one["text"] for one in CASES if one["what"] == "lines of one host"))


@given(st.integers(0, len(ON_ONE_HOST)))
def test_a_log_that_is_cut_off_contains_nothing_else(end):
    whole, part = paths_in(ON_ONE_HOST), paths_in(ON_ONE_HOST[:end])
    for route in part.routes:
        assert (route.first, route.second) == (0, 1)
        assert route.channels <= 2
    assert set(part.ring_next) <= set(whole.ring_next)
    assert set(part.parameters) <= set(whole.parameters)


def test_standard_output_of_c_is_read_by_case():
    program = """
import ctypes, os, sys
from cclmark.work.libraries import log_of
from cclmark.rank.instruments import LibraryLog
c = ctypes.CDLL(None)
print("before")
c.printf(b"before in C\\n")
log = LibraryLog(["oneccl", "shm"])
assert os.environ["CCL_LOG_LEVEL"] == "debug"
c.printf(b"|CCL_DEBUG| selected algo: coll reduce, count 1, algo while_loading\\n")
for name in ("ring", "tree"):
    log.begin()
    c.printf(f"|CCL_DEBUG| selected algo: coll reduce, count 1, algo {name}\\n".encode())
    print([one.algorithm for one in log.operations(log_of("oneccl"))], file=sys.stderr)
"""
    run = completed([sys.executable, "-c", program], check=True)
    assert run.stderr.splitlines() == ["['ring']", "['tree']"]
    assert sorted(run.stdout.splitlines()) == ["before", "before in C"]


# Stacks

PYTHON = """Current thread 0x00007f (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/cclmark/rank/measure.py", line 103 in _batch
  File "/opt/venv/lib/python3.11/site-packages/cclmark/rank/worker.py", line 210 in run
  File "/opt/venv/lib/python3.11/site-packages/cclmark/rank/worker.py", line 311 in run_rank
  File "/opt/venv/lib/python3.11/site-packages/cclmark/rank_process.py", line 32 in main
  File "/opt/venv/lib/python3.11/site-packages/cclmark/rank_process.py", line 36 in <module>
  File "<frozen runpy>", line 88 in _run_code
  File "<frozen runpy>", line 198 in _run_module_as_main
"""


def test_an_answer_that_ends_before_the_names_still_tells_the_modules():
    """As where another thread of the rank holds the loader's lock for ever."""
    memory = _Map(os.getpid())
    pc = ctypes.cast(ctypes.CDLL(None).poll, ctypes.c_void_p).value + 4
    lines = render(f"begin\n{PYTHON}address {pc:#x}\naddress 0x10\n", memory)
    assert lines[0].startswith("libc.so.6+0x")
    assert lines[1] == "unknown code+0x10"
    assert lines[2] == "python: _batch (cclmark/rank/measure.py:103)"
