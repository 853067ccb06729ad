"""Decides when the search of a tuning run ends, so that the proof still fits into the budget."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from cclmark.kinds.experiment.plan import PROOF, Trial
from cclmark.plan.cases import Case
from cclmark.plan.variants import CONTROL, DEFAULT, PROCESS, Assignment, Variant
from cclmark.recording.trial_measuring import Measuring

# Of the budget for the search, as long as nothing is known about the time of a trial.
_USUAL_SHARE = 0.62
# The search has this share even if the proof does not fit into the rest: a search that ended after
# one round would leave the proof nothing worth proving.
_LEAST_SHARE = 0.3
# Observing what runs, before and after, takes about as long as a round of the proof.
_MORE_ROUNDS = 1
_DEPLOYED = Variant((Assignment("deployed", "", PROCESS),))  # with its own processes, like a proof


class Budget:
    """The time of search and proof. It begins when this is created."""

    def __init__(
        self, measuring: Measuring, budget_s: float, cases: Iterable[Case], rounds: int
    ) -> None:
        """``cases`` and ``rounds``: of the proof."""
        self._measuring = measuring
        self._budget_s = budget_s
        self._begin_s = time.monotonic()
        #: Why the search ended without its next round, with its times; empty if it did not.
        self.end_reason = ""
        self._rounds = rounds
        self._round = [
            Trial(one, 0, case, PROOF) for case in cases for one in (DEFAULT, CONTROL, _DEPLOYED)
        ]

    @property
    def elapsed_s(self) -> float:
        """The seconds since the beginning."""
        return time.monotonic() - self._begin_s

    def proof_s(self) -> float | None:
        """The estimated time of the proof; None before anything was measured."""
        round_s = self._measuring.expected_s(self._round)
        return None if round_s is None else (self._rounds + _MORE_ROUNDS) * round_s

    def ends_search(self, following: Sequence[Trial]) -> bool:
        """Whether the search must end without its next round, which would measure these trials.

        The proof is complete in any case: it may take longer than estimated, and is repeated if it
        drops rules.
        """
        proof_s, next_s = self.proof_s(), self._measuring.expected_s(following)
        if proof_s is None or next_s is None:
            ends = self.elapsed_s > _USUAL_SHARE * self._budget_s
            reason = f"the rest of the {self._budget_s:.0f} s is for the proof"
        else:
            search_s = max(self._budget_s - proof_s, _LEAST_SHARE * self._budget_s)
            ends = self.elapsed_s + next_s > search_s
            reason = (
                f"its next round (about {next_s:.1f} s) and the proof (about {proof_s:.1f} s) "
                f"would exceed the {self._budget_s:.0f} s"
            )
        if ends:
            self.end_reason = f"after {self.elapsed_s:.1f} s, because {reason}"
        return ends
