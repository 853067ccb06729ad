"""Finds library features that the environment of a run switches off or limits.

Which values of which variables do so is data of the library's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cclmark.plan.library_settings import settings_of
from cclmark.references.match import Match
from cclmark.results.schema import Header

_MULTICAST = "NCCL_NVLS_ENABLE"


@dataclass(frozen=True)
class Restriction:
    """A restriction, in ``words``, and its ``setting``, for example ``NCCL_NVLS_ENABLE=0``."""

    words: str
    setting: str

    def beside(self, match: Match) -> str:
        """Whether the reference was measured under the same restriction, in words."""
        if not self.setting.startswith(_MULTICAST) or match.reference.multicast is None:
            return "the reference does not report this setting"
        if match.reference.multicast:
            return "the reference was measured with it on"
        return "the reference was measured with it off too"


def restrictions(header: Header, operation: str, ccl: str) -> list[Restriction]:
    """The restrictions of a library's operation by the environment on any host of the run."""
    environments: list[Mapping[str, str]] = [
        header.environment,
        *(host.environment for host in header.hosts),
    ]
    found: dict[Restriction, None] = {}
    for setting in settings_of(ccl):
        if setting.between_hosts and len(header.hosts) < 2:
            continue
        for restricts in setting.restricts:
            if restricts.operations and operation not in restricts.operations:
                continue
            for environment in environments:
                value = environment.get(setting.name, "")
                if value and (value.upper() in restricts.values or not restricts.values):
                    found[Restriction(restricts.words, f"{setting.name}={value}")] = None
    return list(found)
