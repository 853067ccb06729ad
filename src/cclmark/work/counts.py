"""Numbers with a lower bound, which msgspec checks when it decodes a file."""

from __future__ import annotations

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
#: A rate, a size or a share.
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
#: Seconds that something takes: journals with other values are rejected.
Duration = Annotated[float, msgspec.Meta(gt=0)]
#: Seconds that may be 0: below the resolution of a clock, or unknown.
Elapsed = Annotated[float, msgspec.Meta(ge=0)]
