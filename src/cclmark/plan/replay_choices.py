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

# Enumerations for msgspec, texts for the type checker: see plan.items.
if TYPE_CHECKING:
    Gaps: TypeAlias = str
    Fit: TypeAlias = str
else:
    Gaps = Literal[GAPS]
    Fit = Literal["", FITTED, NEAREST]
