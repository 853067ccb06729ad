"""Writes the documents as a site with search: make site.

python docs/site/make.py SITE PAGES

PAGES receives the pages and the files that they link to, in the folders of the repository, and a
configuration whose order of pages is that of docs/index.md. MkDocs builds SITE from it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
INDEX = REPOSITORY / "docs" / "index.md"
#: Pages that begin the site; index.md lists the others.
FIRST = ("README.md", "docs/index.md")
CHINESE = ({"简介": "README.zh-CN.md"}, {"教程": "docs/tutorial.zh-CN.md"})

_FENCED = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
_ITEM = re.compile(r"^- \[([^\]]+)\]\(([^)#]+)\)")


def links_in(page: Path) -> Iterator[Path]:
    """The files of the repository to which a page links."""
    for link in _LINK.findall(_FENCED.sub("", page.read_text())):
        if not re.match(r"[a-z]+:", link):
            yield (page.parent / link).resolve()


def reachable(first: Path) -> set[Path]:
    """A page, and all pages and files to which links lead from it."""
    found: set[Path] = set()
    waiting = [first]
    while waiting:
        there = waiting.pop()
        if there in found:
            continue
        found.add(there)
        if there.suffix == ".md" and there.is_file():
            waiting.extend(links_in(there))
    return found


def navigation() -> list[dict[str, object]]:
    """The order of pages: a section for each heading of index.md, a page for each of its items."""
    start: list[object] = [*FIRST]
    sections: list[dict[str, object]] = [{"Start": start}]
    section = place = start
    for line in INDEX.read_text().splitlines():
        if line.startswith("## "):
            section = place = []
            sections.append({line.removeprefix("## "): section})
        elif line.startswith("### "):
            place = []
            section.append({line.removeprefix("### "): place})
        elif item := _ITEM.match(line):
            title, link = item.groups()
            page = (INDEX.parent / link).resolve().relative_to(REPOSITORY)
            place.append({title.replace("`", ""): str(page)})
    return [*sections, {"简体中文": [*CHINESE]}]


def pages_of(nav: object) -> Iterator[str]:
    """The pages of a navigation, in order."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for one in nav.values():
            yield from pages_of(one)
    elif isinstance(nav, list):
        for one in nav:
            yield from pages_of(one)


def for_mkdocs(text: str) -> str:
    """A page of GitHub's Markdown as Python-Markdown reads it.

    What belongs to an item of a list is indented by 4 columns there, and a ``|`` in the code of a
    table has no backslash.
    """
    text = re.sub(r"`[^`\n]*`", lambda code: code[0].replace("\\|", "|"), text)
    parts: list[str] = []
    place = 0
    for block in _FENCED.finditer(text):
        parts += [_indented(text[place : block.start()]), _shifted(block)]
        place = block.end()
    return "".join([*parts, _indented(text[place:])])


def _indented(text: str) -> str:
    return re.sub(r"^ {2,}(?=\S)", lambda found: _columns(len(found[0])), text, flags=re.MULTILINE)


def _shifted(block: re.Match[str]) -> str:
    before = len(block[1])
    added = " " * (len(_columns(before)) - before)
    return re.sub(r"^(?=.)", added, block[0], flags=re.MULTILINE)


def _columns(spaces: int) -> str:
    return "    " * (spaces // 2)


class _Resources(HTMLParser):
    """What a browser loads for a page from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Links that a reader follows are no resources."""
        values = dict(attrs)
        loads = values.get("href") if tag == "link" else values.get("src")
        if loads and re.match(r"(https?:)?//", loads):
            self.foreign.append(loads)


def foreign_resources(site: Path) -> list[str]:
    """What pages and styles of a site load from the network."""
    found = []
    for page in site.rglob("*.html"):
        parser = _Resources()
        parser.feed(page.read_text())
        found += [f"{page.relative_to(site)}: {one}" for one in parser.foreign]
    for style in site.rglob("*.css"):
        loads = re.findall(r"(?:@import|url\()\s*['\"]?((?:https?:)?//[^'\")]+)", style.read_text())
        found += [f"{style.relative_to(site)}: {one}" for one in loads]
    return found


def with_pages_of_folders(text: str, folder: Path) -> str:
    """Replaces links to folders by links to a page in the folder."""

    def link(found: re.Match[str]) -> str:
        is_folder = (folder / found[1]).is_dir()
        return f"]({found[1].rstrip('/')}/README.md)" if is_folder else found[0]

    return _LINK.sub(link, text)


def list_of(folder: Path) -> str:
    """A page with links to the files of a folder."""
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    links = "".join(f"- [{name}]({name})\n" for name in files)
    return f"# {folder.relative_to(REPOSITORY)}\n\n{links}"


def write_pages(directory: Path) -> None:
    """The pages, the files they link to, and the configuration."""
    shutil.rmtree(directory, ignore_errors=True)
    linked = {path for path in reachable(REPOSITORY / FIRST[0]) if path.is_relative_to(REPOSITORY)}
    folders = {path for path in linked if path.is_dir() and not (path / "README.md").exists()}
    files = {path for path in linked if path.is_file()}
    for folder in (*folders, REPOSITORY / "docs" / "images"):
        files |= {path for path in folder.rglob("*") if path.is_file()}
    for source in files:
        copy = directory / "pages" / source.relative_to(REPOSITORY)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            copy.write_text(for_mkdocs(with_pages_of_folders(source.read_text(), source.parent)))
        else:
            shutil.copy(source, copy)
    for folder in folders:
        page = directory / "pages" / folder.relative_to(REPOSITORY) / "README.md"
        page.write_text(list_of(folder))
    for source in (HERE / "assets").iterdir():
        copy = directory / "pages" / "assets" / source.name
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(source, copy)
    nav = json.dumps(navigation(), ensure_ascii=False, indent=2)
    (directory / "mkdocs.yml").write_text(f"{(HERE / 'mkdocs.yml').read_text()}\nnav: {nav}\n")


def main(site: str, pages: str) -> int:
    """Builds the site; 1 if a link is broken or a page loads something from the network."""
    write_pages(Path(pages))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]  # with --quiet it is not strict
    places = ["--config-file", f"{pages}/mkdocs.yml", "--site-dir", str(Path(site).resolve())]
    built = subprocess.run([*command, *places], capture_output=True, text=True, check=False)
    if built.returncode:
        print(built.stderr, file=sys.stderr)
        return 1
    if foreign := foreign_resources(Path(site)):
        print("loaded from the network:", *foreign, sep="\n  ", file=sys.stderr)
        return 1
    print(f"{site}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
