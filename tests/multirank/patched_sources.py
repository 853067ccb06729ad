"""Forks of the program in which a ``sitecustomize.py`` patches it, and that a launcher has."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from forked import _LAUNCHERS, Forked, Source, Sources

_PATCHES = str(Path(__file__).with_name("patches"))
_PATH = "PYTHONPATH"


class PatchedSource(Source):
    """Its forks run the ``sitecustomize.py`` of their PYTHONPATH, and may be below a launcher."""

    def __init__(self) -> None:
        super().__init__(path=_joined(_PATCHES, os.environ.get(_PATH, "")))

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether they differ from a process that was started in these alone."""
        kept = {name: text for name, text in environment.items() if not name.startswith(_LAUNCHERS)}
        return super().suits(_translated(kept))

    def start(
        self, arguments: list[str], directory: Path, environment: Mapping[str, str]
    ) -> Forked:
        return super().start(arguments, directory, _translated(environment))


class PatchedSources(Sources):
    """The sources of a session, and a patched one for what needs it."""

    def __init__(self, others: Sources) -> None:
        super().__init__()
        self._others = others
        self._patched: PatchedSource | None = None

    def of(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Source:
        """The patched one for environments that have a ``sitecustomize.py`` or a launcher."""
        variables = environment or {}
        launched = any(name.startswith(_LAUNCHERS) for name in variables)
        if not launched and not _customizes(variables.get(_PATH, "")):
            return self._others.of(arguments, environment)
        if self._patched is None:
            self._patched = PatchedSource()
        return self._patched

    def living(self) -> dict[int, list[str]]:
        own = {} if self._patched is None else self._patched.living()
        return self._others.living() | own

    def close(self) -> None:
        if self._patched is not None:
            self._patched.close()


def _customizes(path: str) -> bool:
    """Whether its first directory has that module alone: others would have to be imported."""
    first = Path(path.partition(":")[0] or "/")
    return [one.name for one in first.glob("*.py")] == ["sitecustomize.py"]


def _joined(first: str, others: str) -> str:
    return f"{first}:{others}" if others else first


def _translated(environment: Mapping[str, str]) -> dict[str, str]:
    """With the patches on its PYTHONPATH instead of the test's module."""
    first, _, others = environment.get(_PATH, "").partition(":")
    if not _customizes(first):
        return {**environment, _PATH: _joined(_PATCHES, environment.get(_PATH, ""))}
    return {
        **environment,
        _PATH: _joined(_PATCHES, others or os.environ.get(_PATH, "")),
        "SITECUSTOMIZE_OF_TEST": str(Path(first) / "sitecustomize.py"),
    }
