"""The files of the installed package: descriptions of libraries, suites, references."""

from __future__ import annotations

from pathlib import Path

# The engine is a shared library, so the package is a directory and never an archive;
# importlib.resources supports archives, and takes as long to import as everything else here.
_PACKAGE = Path(__file__).parent


def shipped_toml_files(folder: str) -> list[Path]:
    """The TOML files in a folder of the package, sorted by name."""
    return sorted((_PACKAGE / folder).glob("*.toml"))
