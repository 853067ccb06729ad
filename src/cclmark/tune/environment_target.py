"""A library whose settings hold for a whole process as the target of tuning: one environment."""

from __future__ import annotations

from dataclasses import dataclass

from cclmark.tune.environment_candidates import EnvironmentCandidates


@dataclass(frozen=True)
class EnvironmentTarget:
    """``words``: what the environment is for: library, version, ranks, devices.

    ``kept``: variables of the library that the user has set: all measurements have them.
    """

    words: str
    candidates: EnvironmentCandidates
    kept: dict[str, str]

    @property
    def comments(self) -> list[str]:
        """The conditions of the result, as lines of a comment."""
        found = [self.words]
        if self.kept:
            values = " ".join(f"{name}={value}" for name, value in self.kept.items())
            found.append(f"measured with {values}, which this file does not set")
        return found
