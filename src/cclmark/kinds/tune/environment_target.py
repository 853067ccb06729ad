"""A library whose settings hold for a whole process as the target of tuning: one environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cclmark.kinds.tune.environment_candidates import EnvironmentCandidates


@dataclass(frozen=True)
class EnvironmentTarget:
    """``words``: what the environment is for: library, version, ranks, devices.

    ``kept``: variables of the library that the user has set: all measurements have them.
    ``replaced``: those of them whose other values are tried: what is tried is compared with them,
    not with the library's defaults.
    """

    words: str
    candidates: EnvironmentCandidates
    kept: Mapping[str, str]
    replaced: Mapping[str, str] = field(default_factory=dict)

    @property
    def comments(self) -> list[str]:
        """The conditions of the result, as lines of a comment."""
        found = [self.words]
        if self.kept:
            values = " ".join(f"{name}={value}" for name, value in self.kept.items())
            found.append(f"measured with {values}, which this file does not set")
        if self.replaced:
            values = " ".join(f"{name}={value}" for name, value in self.replaced.items())
            found.append(
                f"compared with {values} in the environment, not with the defaults of the library"
            )
        return found
