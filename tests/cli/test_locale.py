"""Files are UTF-8 wherever they are written, also where the locale knows other characters.

Also in ``scenarios/locale.txt``.
"""

import pytest

from places import RUNS

RUN_FILES = (str(RUNS / "default-1.jsonl"), str(RUNS / "ctas8.jsonl"))
# What Python makes of the C locale unless it is told otherwise is UTF-8.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
MEASURED = ("all_reduce", "--devices", "host:2", "-b", "8", "-e", "8", "-n", "1", "-w", "0")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (MEASURED, "2 × "),
        (("compare", *RUN_FILES), "before µs"),
    ],
)
def test_a_file_is_the_same_in_every_locale(cclmark, tmp_path, arguments, words):
    cclmark(*arguments, "-O", "ascii.txt", env=ASCII)
    assert words in (tmp_path / "ascii.txt").read_text(encoding="utf-8")
