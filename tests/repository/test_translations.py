"""Pages in Chinese have the structure, code, links and figures of the English ones."""

import re
from collections import Counter
from itertools import zip_longest
from pathlib import Path

import pytest

from places import REPOSITORY

MARK = ".zh-CN"
TRANSLATIONS = sorted(
    path for folder in ("", "docs") for path in (REPOSITORY / folder).glob(f"*{MARK}.md")
)
FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) .*\n", re.MULTILINE)
TARGET = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`\n]+`")
# Not of names: H200, P2P.
FIGURE = re.compile(r"(?<![A-Za-z\d.])\d+(?:[.,]\d+)*(?![A-Za-z])")


def original_of(page: Path) -> Path:
    return page.with_name(page.name.replace(MARK, ""))


def translated(link: str, folder: Path) -> str:
    """The target that the page in the other language has: of pages in both, the other one."""
    path, mark, anchor = link.partition("#")
    if MARK in path:
        path = path.replace(MARK, "")
    elif path.endswith(".md") and (other := path.replace(".md", f"{MARK}.md")):
        path = other if (folder / other).is_file() else path
    return path + mark + anchor


def differences(english: str, chinese: str, folder: Path) -> list[str]:
    """What the pages do not have in common, by section."""
    pages = [FENCE.sub("", text) for text in (english, chinese)]
    levels = [[len(level) for level in HEADING.findall(page)] for page in pages]
    if levels[0] != levels[1]:
        return [f"levels of headings: {levels[0]}, {levels[1]}"]
    blocks = [[block[0] for block in FENCE.finditer(text)] for text in (english, chinese)]
    found = [f"code: {one!r}" for one in zip_longest(*blocks) if one[0] != one[1]]
    sections = zip(*(HEADING.split(page) for page in pages), strict=True)
    for number, (before, after) in enumerate(sections):
        links = [translated(link, folder) for link in TARGET.findall(before)]
        for name, left, right in (
            ("links", links, TARGET.findall(after)),
            ("code in sentences", CODE.findall(before), CODE.findall(after)),
            ("figures", figures_in(before), figures_in(after)),
            ("rows and items", lines_of(before), lines_of(after)),
        ):
            if Counter(left) != Counter(right):
                missing, added = Counter(left) - Counter(right), Counter(right) - Counter(left)
                found.append(f"section {number // 2}, {name}: lacks {[*missing]}, has {[*added]}")
    return found


def figures_in(section: str) -> list[str]:
    return FIGURE.findall(CODE.sub("", TARGET.sub("]", section)))


def lines_of(section: str) -> list[str]:
    """The marks of rows of tables and of items of lists."""
    return re.findall(r"^(?:\||-|\d+\.)(?= )", section, re.MULTILINE)


def test_the_readme_is_short():
    assert len((REPOSITORY / "README.md").read_text().split()) <= 1200


def test_there_are_translations():
    names = [str(page.relative_to(REPOSITORY)) for page in TRANSLATIONS]
    assert names == ["README.zh-CN.md", "docs/tutorial.zh-CN.md"]


@pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: page.name)
def test_a_translation_is_in_step(page):
    english = original_of(page).read_text()
    assert differences(english, page.read_text(), page.parent) == []


@pytest.mark.parametrize(
    ("text", "instead", "words"),
    [
        ("77 %", "78 %", "figures"),
        ("## 4. ", "### 4. ", "levels"),
        ("-b 64K -e 64K", "-b 64K -e 1M", "code"),
        ("(how-to/p2p.md)", "(how-to/pairs.md)", "links"),
        ("\n4. ", "\n", "rows and items"),
    ],
)
def test_differences_are_found(text, instead, words):
    page = REPOSITORY / "docs" / f"tutorial{MARK}.md"
    chinese = page.read_text()
    assert text in chinese
    changed = chinese.replace(text, instead, 1)
    found = differences(original_of(page).read_text(), changed, page.parent)
    assert [one for one in found if words in one]
