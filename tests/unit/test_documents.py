"""What documents list is what the program has.

Documents mark values of the program, within a line: ``<!-- value MODULE:NAME -->...<!-- end -->``.
After a change, UPDATE_DOCUMENTS=1 .venv/bin/pytest tests/unit/test_documents.py writes them anew.
"""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path

import pytest

from cclmark.plan.libraries import shipped

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = [
    path
    for path in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
    if "<!-- value " in path.read_text()
]
VALUE = re.compile(r"(<!-- value ([\w.]+):(\w+) -->)(.*?)(<!-- end -->)")
QUOTED = re.compile(r'"(CCLMARK_[A-Z0-9_]+)"')


def test_every_variable_is_listed_and_no_other():
    rooms = (("src", "*.py"), ("engine", "*.cpp"), ("engine", "*.hpp"))
    files = [file for room, kind in rooms for file in (REPOSITORY / room).rglob(kind)]
    read = {name for file in files for name in QUOTED.findall(file.read_text())}
    read |= {library.variable for library in shipped().values() if library.is_loaded}
    page = (REPOSITORY / "docs" / "reference" / "environment.md").read_text()
    listed = set(re.findall(r"`(CCLMARK_[A-Z0-9_]+)`", page))
    assert read - listed == set()
    assert listed - read == set()


def written(name: str, value: object) -> str:
    """A value as documents write it: seconds with their unit, names as code, one after another."""
    if isinstance(value, (int, float)):
        return f"{value:g} s" if name.endswith("_S") else f"{value:g}"
    if isinstance(value, tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(f"`{one}`" for one in sorted(value))
    pytest.fail(f"{name} is {value!r}: say in written() how documents write that")


def generated(text: str) -> str:
    """``text`` with the values that the program has now."""

    def replaced(match: re.Match[str]) -> str:
        begin, module, name, _, end = match.groups()
        try:
            value = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            pytest.fail(f"{begin}: unknown, so name there what has its place now")
        return f"{begin}{written(name, value() if callable(value) else value)}{end}"

    return VALUE.sub(replaced, text)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_values_are_those_of_the_program(path):
    text = path.read_text()
    assert text.count("<!-- value ") == len(VALUE.findall(text)), "a mark is not closed"
    # At the beginning of a line Markdown takes a comment for a paragraph.
    assert not re.search(r"^\s*<!-- (value|end)", text, re.MULTILINE), "a mark begins a line"
    current = generated(text)
    if os.environ.get("UPDATE_DOCUMENTS"):
        path.write_text(current)
    else:
        assert text == current, "UPDATE_DOCUMENTS=1 pytest tests/unit/test_documents.py updates it"


def test_the_documents_that_have_values_are_found():
    assert {"journal", "architecture", "several-hosts"} <= {path.stem for path in DOCUMENTS}
