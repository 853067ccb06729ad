"""What documents list is what the program has, and files that documents and docstrings name exist.

Documents mark values of the program, within a line: ``<!-- value MODULE:NAME -->...<!-- end -->``.
After a change, UPDATE_DOCUMENTS=1 .venv/bin/pytest FILE writes them anew.
"""

import ast
import importlib
import io
import os
import re
import tokenize
from pathlib import Path

import pytest

from cclmark.work.libraries import shipped
from places import PAGES, REPOSITORY

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
        assert text == current, "UPDATE_DOCUMENTS=1 pytest FILE updates it"


def test_the_documents_that_have_values_are_found():
    assert {"journal", "architecture", "several-hosts"} <= {path.stem for path in DOCUMENTS}


SOURCE = REPOSITORY / "src" / "cclmark"
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
ROOMS = sorted(path.parent.name for path in SOURCE.glob("kinds/*/__init__.py"))
#: Packages that documents and comments named once; a path that begins so is checked too.
_GONE = ("plan", "recording", "results", "run", "tune")
_FOLDERS = {"src": "*.py", "tests": "*.py", "benchmarks": "*.py", "engine": "*.?pp"}
CODE_FILES = [
    path
    for folder, pattern in _FOLDERS.items()
    for path in sorted((REPOSITORY / folder).rglob(pattern))
]
# Of other programs: their sources and tests.
_FOREIGN = re.compile(
    r"^src/(?!cclmark)|^tests/elastic/"  # NCCL's, nccl-tests', MPICH's and DeepEP's
)
PARTS = tuple(sorted(path.name for path in SOURCE.parent.glob("cclmark_*")))
_FIRST = "|".join([*PACKAGES, *_GONE, *PARTS, "engine", "tests", "benchmarks", "docs", "src"])
PATH = re.compile(
    rf"(?<![\w./<*{{-])((?:{_FIRST})/(?:[\w.-]+/)*(?:\w[\w-]*(?:\.\w+(?:-\w+(?=\.))?)+|(?=[`\s,;.)])))"
)
DOTTED = re.compile(
    rf"(?<![\w./`])((?:{'|'.join([*PACKAGES, *_GONE, *ROOMS])})(?:\.\w+)+)(?![\w/])"
)
IMPORT = re.compile(r"^ *from (cclmark[\w.]*) import \(?([\w, ]+)\)?$", re.MULTILINE)
# What a page creates, in the sections that test_extensions.py applies.
CREATED = re.compile(r"^## \d\. .*?`(src/[^`]+)`$", re.MULTILINE)


def is_file(name: str, place: Path) -> bool:
    """Whether a path that ``place`` names exists, as written or below a root of sources."""
    below = (REPOSITORY / folder for folder in ("", "engine", "docs"))
    return any((root / name).exists() for root in (*below, SOURCE, SOURCE.parent, place.parent))


def texts_of(path: Path) -> str:
    """The comments and docstrings of a file with code."""
    text = path.read_text()
    if path.suffix != ".py":
        return "\n".join(re.findall(r"//.*", text))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = [token.string for token in tokens if token.type == tokenize.COMMENT]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented):
            found.append(ast.get_docstring(node) or "")
    return "\n".join(found)


def missing_paths(text: str, place: Path) -> list[str]:
    """The paths in ``text`` that do not exist. Capitals, as in NAME.cpp, stand for any name."""
    created = set(CREATED.findall(text))
    return [
        name
        for name in PATH.findall(text)
        if not _FOREIGN.match(name)
        and name not in created
        and not re.search(r"\bNAME\b", name)
        and not is_file(name, place)
    ]


def test_a_path_that_does_not_exist_is_found():
    text = "``tune/search.py``, kinds/tune/search.py, `src/cclmark/gone/`, engine/ccl/NAME.cpp"
    assert missing_paths(text, REPOSITORY / "README.md") == ["tune/search.py", "src/cclmark/gone/"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_paths_in_documents_exist(path):
    assert missing_paths(path.read_text(), path) == []


def is_defined(name: str) -> bool:
    """Whether ``package.module.Name`` names a package, a module or something in a module."""
    place, *rest = name.split(".")
    folder = SOURCE / place if (SOURCE / place).is_dir() else SOURCE / "kinds" / place
    while rest and (folder / rest[0]).is_dir():
        folder /= rest.pop(0)
    if not rest:
        return folder.is_dir()
    module = folder / f"{rest[0]}.py"
    if not module.exists():
        return False
    return len(rest) == 1 or bool(re.search(rf"\b{rest[1]}\b", module.read_text()))


PROSE = re.compile(r'#.*|"""(?:.|\n)*?"""')  # comments and docstrings, and a little more


def undefined_in(text: str, _: Path) -> list[str]:
    """The names with dots, as in work.items, that are neither defined nor those of files; what is
    in backquotes is code.
    """
    return [
        name
        for name in DOTTED.findall(re.sub(r"``.*?``", "", text, flags=re.DOTALL))
        if not re.search(r"\.(py|toml|md|json|html|css|hpp|cpp)$", name) and not is_defined(name)
    ]


@pytest.mark.parametrize("missing_in", [missing_paths, undefined_in])
def test_paths_and_modules_in_comments_and_docstrings_exist(missing_in):
    assert is_defined("work.items.Item")
    assert not is_defined("recording.tuning")
    found = []
    for path in CODE_FILES:
        if path == Path(__file__) or (path.suffix != ".py" and missing_in is undefined_in):
            continue
        text = path.read_text()
        prose = "\n".join(PROSE.findall(text)) if missing_in is undefined_in else text
        if missing_in(prose, path):  # else not worth parsing
            found += [
                f"{path.relative_to(REPOSITORY)}: {one}" for one in missing_in(texts_of(path), path)
            ]
    assert found == []


@pytest.mark.parametrize(
    "path",
    [path for path in PAGES if IMPORT.search(path.read_text())],
    ids=lambda path: path.stem,
)
def test_what_documents_import_exists(path):
    text = path.read_text()
    created = {
        name.removeprefix("src/").removesuffix(".py").replace("/", ".")
        for name in CREATED.findall(text)
    }
    packages = {name.rpartition(".")[0] for name in created}
    missing = [
        f"{module}: {name}"
        for module, names in IMPORT.findall(text)
        if module not in created | packages
        for name in names.replace(" ", "").split(",")
        if not has_name(module, name)
    ]
    assert missing == []


def has_name(module: str, name: str) -> bool:
    """Whether ``from module import name`` works, without importing what only ranks can."""
    try:
        return hasattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        return not str(error.name).startswith("cclmark")  # an optional package is missing


@pytest.mark.parametrize(
    "path", sorted(SOURCE.parent.rglob("__init__.py")), ids=lambda path: path.parent.name
)
def test_the_docstring_of_a_package_names_its_modules(path):
    """Names without a folder are modules of the package, of one below it, or of every room."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert text
    names = re.findall(r"``([\w]+\.\w+(?:\.\w+)?)``", text)
    names = [name for name in names if re.search(r"\.(py|j2|css|js)$", name)]
    assert [name for name in names if not any(path.parent.rglob(name))] == []
