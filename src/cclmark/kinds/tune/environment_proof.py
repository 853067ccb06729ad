"""The proof of an environment, from rounds that the search has not seen, and the result of both.

The environment is measured as it will be used, in fresh processes, next to the default and the
default once more (the control), at all sizes of all operations. It is *proven* if it is faster
over all of them, beyond the noise floor, and by chance with at most FALSE_SHARE. It is *harmful*
at a size whose whole 95 % interval is a loss of more than LARGEST_LOSS, or where it failed and the
default did not. It applies to all sizes, so a harmful one withholds it.

Where the judged times are those of the device, a call must not cost more either, as in the proof of
rules. A loss of more than LARGEST_LOSS over all these sizes together, by more than its standard
deviation, withholds the environment. (The estimate alone does not decide, as it does about a single
size of a rule: launches differ between processes, and this noise would decide about all sizes.) At
a single size, the whole interval of a loss of more than LARGEST_LOSS withholds it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cclmark.analysis.paired import (
    LEAST_ROUNDS,
    at_least_as_uncertain,
    chance_of_gain,
    noise_floor,
    paired_ratio,
)
from cclmark.analysis.ratio import RatioEstimate
from cclmark.kinds.tune.environment_search import EnvironmentFound
from cclmark.kinds.tune.prove import (
    FALSE_SHARE,
    Trio,
    call_objection,
    joint_ratio,
    objection,
    ratios_of,
)
from cclmark.kinds.tune.rules import LARGEST_LOSS, is_loss
from cclmark.plan.cases import Case
from cclmark.plan.setting_fields import LibrarySetting
from cclmark.results.schema import Explanation

# An operation and a size in bytes.
Place = tuple[str, int]


@dataclass(frozen=True)
class EnvironmentProof:
    """The verdict on an environment.

    ``estimate``: its time over the default's, over all places; None if there are too few rounds.
    ``chance``: the probability that no gain appears as large. ``noise_floor``: the largest
    logarithm of a ratio of the default to itself. ``objection``: the reason why it is no gain,
    empty if it is one. ``by_place``: the ratio at each size of each operation. ``failed``: where
    it failed and the default did not. ``call``: the ratio of the costs of a call over all sizes
    where launches determine them; None if there are none. ``costly``: the sizes of these at which
    the loss exceeds LARGEST_LOSS with its whole interval.
    """

    estimate: RatioEstimate | None = None
    chance: float = 1.0
    noise_floor: float = 0.0
    objection: str = ""
    by_place: Mapping[Place, RatioEstimate] = field(default_factory=dict)
    failed: Sequence[Place] = ()
    call: RatioEstimate | None = None
    costly: Mapping[Place, RatioEstimate] = field(default_factory=dict)

    @property
    def harmed(self) -> dict[Place, RatioEstimate]:
        """Where the loss exceeds LARGEST_LOSS with its whole interval."""
        return {place: one for place, one in self.by_place.items() if one.low > 1 + LARGEST_LOSS}

    @property
    def unguarded(self) -> dict[Place, RatioEstimate]:
        """Where a loss of LARGEST_LOSS is not excluded, and not certain either."""
        return {
            place: one
            for place, one in self.by_place.items()
            if not one.excludes_slower_by(LARGEST_LOSS) and place not in self.harmed
        }

    @property
    def may_cost(self) -> bool:
        """Whether calls are estimated to cost more by LARGEST_LOSS, which may be noise."""
        return self.call is not None and self.call.ratio > 1 + LARGEST_LOSS

    @property
    def is_proven(self) -> bool:
        """Whether it is a gain that harms no size."""
        return not (self.objection or self.harmed or self.failed or self.costly)


def prove_environment(
    rounds: Sequence[Mapping[Place, Trio]],
    calls: Sequence[Mapping[Place, Trio]] = (),
    false_share: float = FALSE_SHARE,
) -> EnvironmentProof:
    """Judges an environment by LEAST_ROUNDS rounds or more, each with the same places.

    ``calls``: the costs of a call in the same rounds, at the places whose times in ``rounds`` are
    those of the device.

    Rounds without the default or its repetition at a place do not count.
    """
    places = sorted({place for one in rounds for place in one})
    failed = [place for place in places if any(_is_failure(one.get(place)) for one in rounds)]
    if failed:
        return EnvironmentProof(objection="it failed where the default did not", failed=failed)
    tuned: dict[Place, list[float]] = {place: [] for place in places}
    control: dict[Place, list[float]] = {place: [] for place in places}
    complete = 0
    for times in rounds:
        trios = [times.get(place) for place in places]
        if any(one is None or None in (one.default_s, one.control_s, one.tuned_s) for one in trios):
            continue
        complete += 1
        for place in places:
            one = times[place]
            assert one.default_s and one.control_s and one.tuned_s
            tuned[place].append(math.log(one.tuned_s / one.default_s))
            control[place].append(math.log(one.control_s / one.default_s))
    if complete < LEAST_ROUNDS:
        return EnvironmentProof(
            objection=f"{complete} complete rounds, {LEAST_ROUNDS} are required"
        )
    ratio, floor = paired_ratio(list(tuned.values())), paired_ratio(list(control.values()))
    certain = at_least_as_uncertain(ratio, floor)
    _, call = joint_ratio(calls) or (None, None)
    reason = objection(ratio, floor, false_share)
    if not reason and call is not None and is_loss(call):
        reason = call_objection(ratio, call)
    return EnvironmentProof(
        certain,
        chance_of_gain(certain),
        noise_floor(floor),
        reason,
        {place: paired_ratio([logs]) for place, logs in tuned.items()},
        call=call,
        costly={
            place: one for place, one in ratios_of(calls).items() if one.low > 1 + LARGEST_LOSS
        },
    )


def _is_failure(trio: Trio | None) -> bool:
    return (
        trio is not None and trio.tuned_s is None and None not in (trio.default_s, trio.control_s)
    )


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
