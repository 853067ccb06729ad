"""Commands of the pages in docs/from on host devices print what the pages show."""

import re
import shlex

import pytest

from places import REPOSITORY

FENCE = re.compile(r"^```(?:text|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A page leaves out what is here, and noise decides the verdicts.
LEFT_OUT = ("…", "faster than the default", "is the smallest value")
# Parts of lines that depend on the machine: figures with their units, and marks of precision.
VARIES = re.compile(
    r"[~*]|0x[0-9a-f]+|[-+]?\d[\d.,e+]*(?: ?(?:[KMG]i)?B\b| µs\b| GB/s\b| %|%)?|\((?:DEV\d[^)]*)\)"
)


def shown_commands():
    """Each command on host devices that nothing else has to precede, with the lines below it."""
    for page in sorted((REPOSITORY / "docs" / "from").glob("*.md")):
        for block in FENCE.findall(page.read_text()):
            joined = re.sub(r"\\\n *", "", block)
            for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
                line, _, below = part.partition("\n")
                if (
                    line.startswith("cclmark ")
                    and "--devices host:" in line
                    and "torch" not in line
                ):
                    yield pytest.param(
                        line, below, id=f"{page.stem}: {' '.join(line.split()[1:3])}"
                    )


COMMANDS = list(shown_commands())


def words_of(line: str) -> list[str]:
    """The words of a line that are the same on every machine."""
    return [word for word in VARIES.sub(" ", line).split() if re.search(r"[a-zA-Zµ]{2}", word)]


def test_pages_have_such_commands():
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize(("line", "shown"), COMMANDS)
def test_a_shown_command_prints_its_lines(cclmark, line, shown):
    words = shlex.split(line)[1:]
    # On a busy machine a share of 90 % takes dozens of rounds to prove. The last value counts.
    words += ["--keep", "10%"] if "--bisect" in words else []
    run = cclmark(*words, timeout_s=240)
    printed = [words_of(one) for one in (run.out + run.err).splitlines()]
    missing = [
        one
        for one in shown.splitlines()
        if one.strip()
        and not any(left_out in one for left_out in LEFT_OUT)
        and not set(re.findall(r"\w+", one)) <= {"DEV0", "DEV1"}
        and words_of(one) not in printed
    ]
    assert missing == []
