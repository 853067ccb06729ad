"""Runs ``cclmark predict``."""

from __future__ import annotations

import importlib.util
import time

from cclmark.base.errors import MissingError, UsageError
from cclmark.base.printable import plain
from cclmark.recording.recorder import Recorded
from cclmark.recording.whole_run import record_whole
from cclmark_planning.predict.command import PredictFlags
from cclmark_planning.predict.kind import KIND
from cclmark_planning.scaling.request import scale_job

_PACKAGES = ("numpy", "scipy")


def predict_times(flags: PredictFlags) -> Recorded:
    """Predicts times on more nodes than the runs of ``flags`` had, or the steps of a job.

    Raises UsageError, and MissingError without numpy and scipy.
    """
    if flags.model or flags.programs:
        if flags.runs:
            option = "--model" if flags.model else "--job"
            raise UsageError(
                f"{plain(str(flags.runs[0]))}: runs of collectives and {option} are two "
                "predictions: give one of them"
            )
        return scale_job(flags, flags)
    absent = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if absent:
        raise MissingError(
            f"predictions require {' and '.join(absent)}: pip install 'cclmark[scale]'"
        )
    from cclmark_planning.predict.predictions import predictions_of

    began_s = time.monotonic()
    results, notices = predictions_of(flags)
    return record_whole(KIND, results, flags, "predict", began_s, notices=notices)
