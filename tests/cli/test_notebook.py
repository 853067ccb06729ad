"""The Python API in a notebook: a real kernel, with an event loop, executes the cells."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import nbclient
import nbformat
import pytest

from patience import scaled

MEASURE = (
    'run = cclmark.measure("all_reduce", sizes="64:512:8", devices="host:2", max_time_s=0.05)\nrun'
)
ENDLESS = """
import os, signal, threading
threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    cclmark.measure("all_reduce", sizes="8:16M:2", devices="host:2", max_time_s=60.0)
    print("complete")
except KeyboardInterrupt:
    print("interrupted")
"""


def executed(tmp_path, *cells: str) -> list[nbformat.NotebookNode]:
    """The outputs of each cell: a list for each one. Fails if a cell raises."""
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)])
    client = nbclient.NotebookClient(
        notebook,
        timeout=scaled(60),
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    # In a thread without an event loop, which tests of browsers leave in this one.
    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, client.async_execute()).result()
    return [cell.outputs for cell in notebook.cells]


@pytest.fixture(autouse=True)
def no_files_of_the_user(tmp_path, monkeypatch) -> Iterator[None]:
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    yield


def test_runs_are_shown_and_an_interrupted_cell_leaves_a_kernel_that_measures(tmp_path):
    compare = "cclmark.compare(run, run)"
    _, (printed,), (run,), (compared,) = executed(
        tmp_path, "import cclmark", ENDLESS, MEASURE, compare
    )
    assert printed.text == "interrupted\n"
    shown = run.data["text/html"]
    assert shown.startswith("<p><b>4 cases of all_reduce on 2 ×")
    assert "<li>✓ Every output was checked in full; none was wrong.</li>" in shown
    assert run.data["text/plain"].startswith("4 cases of all_reduce on 2 ×")
    assert "ratio" in compared.data["text/html"]
    assert compared.data["text/plain"].startswith("all_reduce against all_reduce\n")
