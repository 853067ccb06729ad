"""Copies of the package to which a page of docs/extend is applied."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import cclmark
from commands import completed
from places import REPOSITORY

_SECTION = re.compile(r"^## \d+\. .*?`(src/[^`]+)`$", re.MULTILINE)
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# An editable install of the package would be found before the copy.
_SITE = """
import sys
sys.meta_path = [one for one in sys.meta_path if "Redirecting" not in type(one).__name__]
"""


def blocks_of(page: Path) -> list[tuple[str, list[str]]]:
    """The file of each numbered section of the page, and the blocks of code in it."""
    parts = _SECTION.split(re.split(r"^## [^\d]", page.read_text(), flags=re.MULTILINE)[0])[1:]
    return [
        (path, [match[1] for match in _BLOCK.finditer(text)])
        for path, text in zip(parts[::2], parts[1::2], strict=True)
    ]


def copy_of_package(root: Path) -> Path:
    """Copies the package below ``root``, which is returned."""
    from cclmark import _engine

    source = Path(cclmark.__file__).parent.parent
    for package in sorted(path.parent.name for path in source.glob("cclmark*/__init__.py")):
        # What was compiled serves the copy too: files keep their times.
        ignored = shutil.ignore_patterns("_engine*.so")
        shutil.copytree(source / package, root / package, ignore=ignored)
    (root / "cclmark" / Path(_engine.__file__).name).symlink_to(_engine.__file__)
    (root / "sitecustomize.py").write_text(_SITE)
    return root


def run_copy(root: Path, directory: Path, *arguments: str, code: int = 0) -> str:
    """Runs the copied program in ``directory``; returns what it printed on both streams."""
    done = completed(
        [sys.executable, "-m", "cclmark", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def require_style(root: Path, paths: Sequence[str], *tests: str) -> None:
    """Ruff accepts these files of the copy, and these tests pass with it."""
    ours = ("--config", 'lint.isort.known-first-party=["cclmark"]')  # they are not below src
    run = [sys.executable, "-m"]
    for path in paths:
        text = (root / path.removeprefix("src/")).read_text()
        for check in (("check", *ours), ("format", "--diff")):
            command = [*run, "ruff", *check, "--stdin-filename", path, "-"]
            done = completed(command, input=text, cwd=REPOSITORY)
            assert done.returncode == 0, done.stdout + done.stderr
    done = completed(
        [*run, "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stdout
