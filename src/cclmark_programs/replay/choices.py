"""What a replay does with the time between calls, without what is slow to import."""

from typing import TYPE_CHECKING, Literal, TypeAlias

#: Each call begins as long as in the program after the last one that had ended before it; at its
#: moment of the program; or at once.
KEEP, FIXED, DROP = "keep", "fixed", "drop"
GAPS = (KEEP, FIXED, DROP)
#: What was chosen between the calls: communication and step are those of the program within
#: LARGE_ERROR; or nothing was, and this is the nearest.
FITTED, NEAREST = "fitted", "nearest"
LARGE_ERROR = 0.05
#: How many steps are timed at least, unless their number is given.
LEAST_STEPS = 7
#: In so many rounds ranks come to wait for each other as in the program.
WAIT_ROUNDS = 5
#: Of the most blocks of memory traffic: the shares that are measured before any is chosen.
TRAFFIC_LEVELS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
TRAFFIC_REFINEMENTS = 4
#: So many rounds of memory traffic are needed at most.
TRAFFIC_ROUNDS = 1 + len(TRAFFIC_LEVELS) + TRAFFIC_REFINEMENTS
# Of a round in which a replay is adapted to the program, and of all such rounds.
_ROUND_STEPS, _ROUNDS_S = 4, 20.0

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Gaps: TypeAlias = str
    Fit: TypeAlias = str
else:
    Gaps = Literal[GAPS]
    Fit = Literal["", FITTED, NEAREST]


def steps_of_round(rounds: int, length_s: float) -> int:
    """How many steps each of some rounds measures, besides a first one whose times are not used.

    At least one, and more as far as all rounds do not take long. ``length_s``: of a step.
    """
    within = int(_ROUNDS_S / max(rounds * length_s, 1e-9)) - 1
    return min(max(within, 1), _ROUND_STEPS)
