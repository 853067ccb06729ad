"""The results of ``cclmark predict`` in journals."""

from __future__ import annotations

from cclmark.journal.item_results import UncheckedResult
from cclmark.work.counts import Count, Elapsed, NotNegative
from cclmark.work.items import Status
from cclmark_planning.predict.plan import Prediction


class PredictResult(UncheckedResult[Prediction], tag="prediction", omit_defaults=True):
    """A time on a number of nodes. ``status``: ok, or skipped if nothing can be said, with the
    ``reason`` and the measurement that would help (``advice``).

    ``measured_s``: the median of the runs on that many nodes, None if there are none, and
    ``measured_noise`` its standard error as a share. ``time_s``: predicted from the runs on fewer
    nodes; ``low_s`` and ``high_s``: 5 % of the expected times are below or above. ``baseline_s``:
    the time with the bus bandwidth of the largest of these runs. ``growing``: the share of the time
    that grows with the nodes. ``hypotheses``: the time by each hypothesis alone, and ``weights``
    how much each counts; ``algorithms``: the time of each modelled algorithm. ``unseen``: the
    algorithm that is expected here, if no run used it at this size.
    """

    index: Count
    prediction: Prediction
    status: Status
    reason: str = ""
    advice: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    measured_s: Elapsed | None = None
    measured_noise: NotNegative = 0.0
    time_s: Elapsed | None = None
    low_s: Elapsed | None = None
    high_s: Elapsed | None = None
    baseline_s: Elapsed | None = None
    growing: NotNegative = 0.0
    hypotheses: dict[str, Elapsed] = {}
    weights: dict[str, NotNegative] = {}
    algorithms: dict[str, Elapsed] = {}
    unseen: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether there are figures."""
        return self.time_s is not None or self.measured_s is not None

    @property
    def is_consistent(self) -> bool:
        """Whether a prediction has an interval around it and a baseline, and times are above 0."""
        times = (self.low_s, self.time_s, self.high_s, self.baseline_s)
        if self.time_s is None:
            return all(one is None for one in times[:3])
        if any(one is None or one <= 0 for one in times):
            return False
        low, middle, high = (one or 0.0 for one in times[:3])
        return low <= middle <= high and self.prediction.is_measured == bool(self.measured_s)
