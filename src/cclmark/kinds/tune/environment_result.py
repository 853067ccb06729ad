"""The result of tuning an environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cclmark.kinds.tune.environment_proof import EnvironmentProof, Place
from cclmark.kinds.tune.environment_search import EnvironmentFound
from cclmark.plan.cases import Case
from cclmark.plan.setting_fields import LibrarySetting
from cclmark.results.schema import Explanation


@dataclass
class EnvironmentResult:
    """The result of tuning the environment of a library.

    ``cases``: the first one of each operation's sweep. ``tried``: the settings that were varied;
    ``refused``: those that were not, with the reasons. ``found``: of the search. ``variables``:
    its best combination. ``replaced``: values of the environment that they are compared with.
    ``failures``: combinations in words that failed. ``usual`` and ``tuned``:
    what ran by default and with the variables. ``proof``: None if nothing was to be proven.
    ``files``: none if nothing beats the default. ``is_complete``: search and proof have ended.
    ``search_end``: when and why the search ended early, in words.
    """

    cases: Sequence[Case]
    tried: Sequence[LibrarySetting] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    found: EnvironmentFound | None = None
    variables: dict[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    failures: Sequence[str] = ()
    proof: EnvironmentProof | None = None
    usual: Mapping[Place, Explanation] = field(default_factory=dict)
    tuned: Mapping[Place, Explanation] = field(default_factory=dict)
    files: Sequence[Path] = ()
    search_s: float = 0.0
    search_end: str = ""
    proof_s: float = 0.0
    trials: int = 0
    proof_rounds: int = 0
    is_complete: bool = False
