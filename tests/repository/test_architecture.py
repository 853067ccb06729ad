"""The packages import each other as the page on the architecture says, and never in a circle."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from places import REPOSITORY

SOURCE = REPOSITORY / "src" / "cclmark"
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text()
pytestmark = pytest.mark.xdist_group("architecture")  # a process parses each file once
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
ROOMS = sorted(path.parent.name for path in SOURCE.glob("kinds/*/__init__.py"))


class Imports(NamedTuple):
    """What a file imports: in all, those of functions and of type checks too, modules with names
    and modules alone; at once; and late, in functions.
    """

    named: list[tuple[str, str]]
    modules: set[str]
    at_once: list[str]
    late: set[str]


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def statements_in(node: ast.AST, *, is_late: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """All statements, each with whether it is one of a function: expressions import nothing."""
    is_late = is_late or isinstance(node, FUNCTIONS)
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(node, block, ()):
            yield statement, is_late
            yield from statements_in(statement, is_late=is_late)


def names_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """The modules that statements import, with each name that is imported from one."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", one.name) for one in node.names)


@cache
def imports_in(path: Path) -> Imports:
    tree = ast.parse(path.read_text())
    statements = [*statements_in(tree)]
    named = [*names_in(statement for statement, _ in statements)]
    modules = {
        f"cclmark.{name}" if module == "cclmark" and name else module for module, name in named
    }
    at_once = [
        one
        for module, name in names_in(tree.body)
        for one in (module, f"{module}.{name}")
        if module.startswith("cclmark")
    ]
    late = {name for name, _ in names_in(statement for statement, late in statements if late)}
    return Imports(named, modules, at_once, late)


def imports_of(package: str) -> set[str]:
    """The other packages that one imports, and ``_engine``."""
    modules = [one for path in (SOURCE / package).rglob("*.py") for one in imports_in(path).modules]
    found = {one.split(".")[1] for one in modules if one.startswith("cclmark.")}
    return (found & {*PACKAGES, "_engine"}) - {package}


@cache
def imports() -> dict[str, set[str]]:
    """Those of every package."""
    return {package: imports_of(package) for package in PACKAGES}


def test_the_picture_has_every_package_above_what_it_imports():
    picture = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1]
    levels = {}
    for number, line in enumerate(picture.splitlines()):
        for name in re.split(r"\s{3,}", line.strip())[0].split():
            levels[name] = number
    assert sorted(levels) == PACKAGES
    upward = [
        (package, other)
        for package, others in imports().items()
        for other in others - {"_engine"}
        if levels[other] <= levels[package]
    ]
    assert upward == []


def test_the_table_and_the_docstring_of_each_package_list_its_imports():
    for package in PACKAGES:
        [line] = re.findall(rf"^\| `src/cclmark/{package}/` \|(.*)\|$", PAGE, re.MULTILINE)
        listed = {word.strip() for word in line.rpartition("|")[2].split(",")} - {"nothing"}
        imported = imports()[package] - {"_engine"}
        assert package == "cli" or listed == listed_in(package, "Imports") == imported, package


def module_graph() -> dict[str, set[str]]:
    """The modules that each module imports, those that its functions import too."""
    paths = [path for ending in ("py", "pyi") for path in SOURCE.parent.rglob(f"*.{ending}")]
    parts = {path: path.relative_to(SOURCE.parent).with_suffix("").parts for path in paths}
    names = {".".join(parts[path]).removesuffix(".__init__"): path for path in paths}
    graph = {}
    for name, path in names.items():
        inner = imports_in(path).named
        found = {it if (it := f"{module}.{one}") in names else module for module, one in inner}
        graph[name] = found & {*names}
    return graph


def test_no_module_imports_itself_through_others():
    graph = module_graph()
    assert graph["cclmark.api"] and "cclmark.api" in graph["cclmark"]
    while leaves := {name for name, imported in graph.items() if not imported}:
        graph = {name: imported - leaves for name, imported in graph.items() if name not in leaves}
    assert graph == {}


def listed_in(package: str, words: str) -> set[str]:
    """What the docstring of a package lists after ``words``, up to the next stop or remark."""
    tree = ast.parse((SOURCE / package / "__init__.py").read_text())
    text = " ".join((ast.get_docstring(tree) or "").split())
    [found] = re.findall(rf"{words}: ([^.;]*)[.;]", text)
    names = re.sub(r"\([^)]*\)", "", found).replace(" ", "").split(",")
    return {*names} - {"nothing", "none"}


def rooms_imported_by(folder: Path) -> set[str]:
    """The other rooms that one imports."""
    found = set()
    for path in folder.rglob("*.py"):
        for module in imports_in(path).modules:
            names = module.split(".")
            if names[:2] == ["cclmark", "kinds"] and len(names) > 2:
                found.add(names[2])
            elif names[0] == folder.parent.name and names[0] in PARTS and len(names) > 1:
                found.add(names[1])
    return found - {folder.name, "registry", *SHARED}


#: What the rooms of a part share, which are no rooms.
SHARED = ("hosts", "job_options", "scale")
PARTS = {
    "cclmark_fleet": {"cli/commands.py", "kinds/registry.py"},
    "cclmark_importers": {"cli/imports/run.py", "cli/trace/command.py"},
    "cclmark_planning": {"cli/commands.py", "kinds/registry.py"},
    "cclmark_programs": {"cli/commands.py", "cli/export/run.py", "kinds/registry.py"},
    "cclmark_serve": {"cli/commands.py"},
    "cclmark_training": {"cli/commands.py", "kinds/registry.py"},
}
ROOMS_OF_PARTS = sorted(path.parent for path in SOURCE.parent.glob("cclmark_*/**/kind.py"))
PATHS_OF_ROOMS = [
    *(f"kinds/{room}" for room in ROOMS),
    *(f"../{path.relative_to(SOURCE.parent)}" for path in ROOMS_OF_PARTS),
]


@pytest.mark.parametrize("room", [one for one in PATHS_OF_ROOMS if "training/" not in one])
def test_the_docstring_of_a_room_lists_the_rooms_that_it_imports(room):
    assert listed_in(room, "Rooms imported") == rooms_imported_by(SOURCE / room)


def loaded_by(path: Path):
    """The modules that a file imports or names in a text, as the table of commands does."""
    yield from imports_in(path).modules
    yield from re.findall(r"""["'](cclmark[\w.]*)["']""", path.read_text())


@pytest.mark.parametrize("part", PARTS)
def test_the_core_imports_a_part_only_where_it_is_listed_and_parts_no_commands(part):
    places = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for module in loaded_by(path)
        if module.split(".")[0] == part
    }
    assert places == PARTS[part]
    found = {
        module
        for path in (SOURCE.parent / part).rglob("*.py")
        for module in loaded_by(path)
        if module.startswith(("cclmark.cli", "cclmark.kinds."))
        or module.split(".")[0] in {*PARTS} - {part}
    }
    assert found <= {"cclmark.kinds.registry"}  # which reads journals of any kind


def test_ranks_alone_import_the_engine():
    users = {package for package, others in imports().items() if "_engine" in others}
    assert users == {"rank", "kinds"}


def imported_at_once(module: str, found: set[str]) -> set[str]:
    """The modules of cclmark that importing ``module`` imports, without those of functions."""
    if module in found:
        return found
    found.add(module)
    path = SOURCE.parent / Path(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.exists():
        return found  # a name of a module, or the engine
    for name in imports_in(path).at_once:
        imported_at_once(name, found)
    return found


MEASURING = ("cclmark._engine", "cclmark.rank", "cclmark.launch", "cclmark.rendezvous")
PURE = ("kind", "plan", "result", "figures", "document")
PURE_MODULES = sorted(
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for folder in (*(SOURCE / "kinds" / room for room in ROOMS), *ROOMS_OF_PARTS)
    for path in folder.glob("*.py")
    if path.stem in PURE
)


def test_what_reads_and_reports_imports_nothing_that_measures():
    assert len(PURE_MODULES) > 50
    for module in PURE_MODULES:
        found = imported_at_once(module, set())
        assert len(found) > 1
        assert [one for one in found if one.startswith(MEASURING)] == [], module


def test_standard_output_is_written_in_one_way():
    """``print`` fails with a traceback, or silently, where standard output is full or closed."""
    found = [
        f"{path}:{node.lineno}"
        for path in SOURCE.parent.rglob("*.py")
        if path.parent.name != "rank"  # ranks, whose standard output is no user's
        if re.search(r"\bprint\(", text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
        and not any(one.arg == "file" for one in node.keywords)
    ]
    assert found == []


#: Packages that are installed only with an extra, or that take time and are needed seldom.
OPTIONAL = (
    *("pandas", "polars", "pyarrow", "matplotlib", "torch", "perfetto", "uvicorn", "jinja2"),
    *("markupsafe", "networkx", "numpy", "pynvml", "scipy"),
)
#: Modules with imports in functions, by what they keep short: ``late_imports.txt``.
LATE = {
    line
    for line in Path(__file__).with_name("late_imports.txt").read_text().splitlines()
    if not line.startswith("#")
}


def late_imports(path: Path) -> set[str]:
    """What functions of a module import, without optional packages."""
    return {name for name in imports_in(path).late if name.split(".")[0] not in OPTIONAL}


def test_functions_import_only_where_it_is_listed():
    """Elsewhere an import in a function hides an arrow, and often a cycle."""
    found = {
        str(path.relative_to(SOURCE.parent).with_suffix(""))
        for path in SOURCE.parent.rglob("*.py")
        if path.name != "kind.py" and late_imports(path)
    }
    assert found == LATE
