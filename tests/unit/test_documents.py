"""What documents list is what the program has."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
QUOTED = re.compile(r'"(CCLMARK_[A-Z0-9_]+)"')


def test_every_variable_is_listed_and_no_other():
    rooms = (("src", "*.py"), ("engine", "*.cpp"), ("engine", "*.hpp"))
    files = [file for room, kind in rooms for file in (REPOSITORY / room).rglob(kind)]
    read = {name for file in files for name in QUOTED.findall(file.read_text())}
    page = (REPOSITORY / "docs" / "reference" / "environment.md").read_text()
    listed = set(re.findall(r"`(CCLMARK_[A-Z0-9_]+)`", page))
    assert read - listed == set()
    assert listed - read == set()
