"""Which file a library's name stands for in this process."""

from __future__ import annotations

from pathlib import Path

from cclmark.run.torch_backend import _file_behind


def test_a_library_that_is_loaded_is_found_by_its_name():
    assert Path(_file_behind("libc.so.6", "getpid")).name == "libc.so.6"


def test_one_that_is_not_loaded_or_has_no_such_function_is_not():
    assert _file_behind("libcclmark-none.so.1", "getpid") == ""
    assert _file_behind("libc.so.6", "ncclGetVersion") == ""
