"""Names of the work beside collectives, without what is slow to import."""

from typing import TYPE_CHECKING, Literal, TypeAlias

#: Chosen by measuring, so that the communication takes as long as in the program.
FIT = "fit"
#: Memory traffic beside the calls that took longer in the program than alone.
OF_PROFILE = "profile"
#: The product of two square matrices; the triad of the STREAM benchmark; nothing.
MATMUL, TRIAD, NO_COMPUTE = "matmul", "memory", "none"

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Work: TypeAlias = str
else:
    Work = Literal[MATMUL, TRIAD]
