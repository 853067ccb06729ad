"""Files are UTF-8 wherever they are written, also where the locale knows other characters.

Also in ``scenarios/locale.txt``.
"""

import pytest

from places import RUNS

TWO = (str(RUNS / "default-1.jsonl"), str(RUNS / "ctas8.jsonl"))
# What Python makes of the C locale unless it is told otherwise is UTF-8.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
MEASURED = ("all_reduce", "--devices", "host:2", "-b", "8", "-e", "8", "-n", "1", "-w", "0")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (MEASURED, "2 × "),
        (("compare", *TWO), "before µs"),
        (("export", TWO[0], "--format", "table"), "time µs"),
        (("references",), "×"),
    ],
)
def test_a_file_is_the_same_in_every_locale(cclmark, tmp_path, arguments, words):
    cclmark(*arguments, "-O", "ascii.txt", env=ASCII)
    assert words in (tmp_path / "ascii.txt").read_text(encoding="utf-8")


def test_a_trend_in_a_file(cclmark, tmp_path):
    place = ("--db", "history.sqlite")
    cclmark("history", "add", *(str(RUNS / f"default-{n}.jsonl") for n in range(1, 4)), *place)
    (tmp_path / "plain.txt").write_text("old")
    cclmark("history", "trend", "--all", "-O", "plain.txt", *place)
    cclmark("history", "trend", "--all", "-O", "ascii.txt", *place, env=ASCII)
    texts = [(tmp_path / name).read_bytes() for name in ("plain.txt", "ascii.txt")]
    assert texts[0] == texts[1]
    assert "·" in texts[0].decode()
