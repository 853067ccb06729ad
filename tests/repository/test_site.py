"""The site of the documents has every page, and its pages load nothing from the network.

make site builds it, and refuses broken links.
"""

import importlib.util
from pathlib import Path

from places import PAGES, REPOSITORY

DOCS = REPOSITORY / "docs"


def load_make():
    spec = importlib.util.spec_from_file_location("make_site", DOCS / "site" / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKE = load_make()


def test_every_page_has_one_place_in_the_navigation():
    listed = list(MAKE.pages_of(MAKE.navigation()))
    assert [page for page in listed if not (REPOSITORY / page).is_file()] == []
    assert sorted(listed) == sorted(set(listed))
    pages = {str(page.relative_to(REPOSITORY)) for page in DOCS.rglob("*.md")}
    assert pages - set(listed) == set()


def test_links_lead_to_every_page():
    pages = set(DOCS.rglob("*.md"))
    assert pages - MAKE.reachable(DOCS / "index.md") == set()
    assert {*PAGES} - MAKE.reachable(REPOSITORY / "README.md") == set()


def test_sections_are_those_of_the_index():
    sections = [next(iter(section)) for section in MAKE.navigation()]
    assert sections[0] == "Start"
    assert "How to" in sections and "Reference" in sections
    how_to = list(MAKE.pages_of(MAKE.navigation()[sections.index("How to")]))
    assert len(how_to) == len(list((DOCS / "how-to").glob("*.md")))


def test_lists_and_tables_are_those_of_github():
    lists = "- one\n  two\n  - three\n\n  ```sh\n  four \\| five\n    six\n  ```\n"
    deeper = "- one\n    two\n    - three\n\n    ```sh\n    four \\| five\n      six\n    ```\n"
    numbered = "1. seven\n{}- eight\n"
    page = lists + numbered.format(" " * 3)
    assert MAKE.for_mkdocs(page) == deeper + numbered.format(" " * 4)
    others = "| `a {} b` | c |\n\n```text\n  nine\n```\n"
    assert MAKE.for_mkdocs(others.format("\\|")) == others.format("|")


def test_what_is_loaded_from_the_network_is_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<a href="https://example.org/">read</a><img src="own.svg"><link href="own.css">'
        '<script src="https://example.org/code.js"></script><link href="//example.org/x.css">'
    )
    (tmp_path / "own.css").write_text("@import 'https://example.org/y.css'; a {b: url(own.png)}")
    assert MAKE.foreign_resources(Path(tmp_path)) == [
        "index.html: https://example.org/code.js",
        "index.html: //example.org/x.css",
        "own.css: https://example.org/y.css",
    ]
