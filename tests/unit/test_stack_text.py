"""What a rank wrote about itself, made readable: also when it did not get to the end."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from cclmark.launch.stacks import render

PYTHON = """Current thread 0x00007f (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/cclmark/run/measure.py", line 103 in _batch
  File "/opt/venv/lib/python3.11/site-packages/cclmark/run/worker.py", line 210 in run
  File "/opt/venv/lib/python3.11/site-packages/cclmark/run/worker.py", line 311 in run_rank
  File "/opt/venv/lib/python3.11/site-packages/cclmark/rank_process.py", line 32 in main
  File "/opt/venv/lib/python3.11/site-packages/cclmark/rank_process.py", line 36 in <module>
  File "<frozen runpy>", line 88 in _run_code
  File "<frozen runpy>", line 198 in _run_module_as_main
"""


def frame(pc, path, offset, symbol=""):
    return f"frame\t{pc:#x}\t{path}\t{offset:#x}\t{symbol}\n"


def answer(*frames):
    """All that a rank writes whose native frames are ``frames``: address, path, offset, symbol."""
    addresses = "".join(f"address {one[0]:#x}\n" for one in frames)
    return f"begin\n{PYTHON}{addresses}{''.join(frame(*one) for one in frames)}end\n"


def test_native_frames_come_first_and_the_interpreters_own_are_left_out():
    assert render(
        answer(
            (0x10, "/lib/libc.so.6", 0xE10, "poll+0x4f"),
            (0x20, "/opt/libnccl.so.2", 0x5A30),
            (0x21, "/opt/libnccl.so.2", 0x5A99),
            (0x22, "/opt/libnccl.so.2", 0x5B00),
            (0x30, "/opt/libnccl.so.2", 0x900, "ncclAllReduce+0x12"),
            (0x40, "/opt/venv/lib/cclmark/_engine.cpython-311-x86_64-linux-gnu.so", 0x77),
            (0x50, "/usr/bin/python3.11", 0x1, "_PyEval_EvalFrameDefault+0x1"),
            (0x60, "/lib/libc.so.6", 0x2, "__libc_start_main+0x85"),
        )
    ) == [
        "poll+0x4f (libc.so.6)",
        "libnccl.so.2+0x5a30",
        "  2 more in libnccl.so.2",
        "ncclAllReduce+0x12 (libnccl.so.2)",
        "_engine+0x77",
        "python: _batch (cclmark/run/measure.py:103)",
        "python: run (cclmark/run/worker.py:210)",
    ]


def test_symbols_of_cpp_are_shown_as_in_the_source():
    name = "_ZN7cclmark12_GLOBAL__N_17Mailbox4waitEmRKNS_9RankGroupE+0x1f"
    (line, *_) = render(answer((1, "/lib/libx.so", 1, name)))
    assert line == "cclmark::{anonymous}::Mailbox::wait+0x1f (libx.so)"
    (line, *_) = render(answer((1, "/lib/libx.so", 1, "_Znonsense+0x1f")))
    assert line == "_Znonsense+0x1f (libx.so)"


def test_long_stacks_are_cut_to_what_is_innermost():
    deep = [(n, "/lib/libx.so", n, f"f{n}+0x1") for n in range(1, 50)]
    python = "".join(f'  File "/a/b/c.py", line {n} in g{n}\n' for n in range(40))
    lines = render(answer(*deep).replace(PYTHON, python))
    assert lines[0] == "f1+0x1 (libx.so)"
    assert lines[7] == "... 42 more"
    assert lines[8] == "python: g0 (b/c.py:0)"
    assert lines[14] == "python: ... 34 more"
    assert len(lines) == 15


def test_an_answer_that_ends_before_the_names_still_tells_the_modules():
    """As where another thread of the rank holds the loader's lock for ever."""
    from cclmark.launch.stacks import _Map

    memory = _Map(os.getpid())
    import ctypes

    pc = ctypes.cast(ctypes.CDLL(None).poll, ctypes.c_void_p).value + 4
    lines = render(f"begin\n{PYTHON}address {pc:#x}\naddress 0x10\n", memory)
    assert lines[0].startswith("libc.so.6+0x")
    assert lines[1] == "unknown code+0x10"
    assert lines[2] == "python: _batch (cclmark/run/measure.py:103)"


@given(st.text(alphabet=st.sampled_from('frame\taddress 0x1f\n("_ZN'), max_size=300))
def test_nothing_that_a_rank_writes_upsets_the_reader(text):
    render(text)


@given(st.integers(min_value=0))
def test_an_answer_may_end_anywhere(length):
    whole = answer((0x10, "/lib/libc.so.6", 0xE10, "poll+0x4f"), (0x20, "/opt/libnccl.so.2", 0x5))
    render(whole[: length % (len(whole) + 1)])
