"""The rules of findings, by their ids, and evidence that several kinds have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.ratio import LEAST_RUNS, RatioEstimate
from cclmark.document.blocks import Evidence, Gain, Severity
from cclmark.document.reference_notes import NORMAL_FROM, NORMAL_TO, verdict_of
from cclmark.document.text import counted
from cclmark.references.match import Match

#: What each rule of findings says, by its id.
FINDINGS: Mapping[str, str] = {
    "above-link-limit": "the bandwidth is higher than the links can carry",
    "above-reference": "a figure is far above its reference",
    "artifact-withheld": "tuning: proven settings are not deployed, with the reason",
    "below-link-limit": "large messages reach little of what the links can carry",
    "below-link-limit-as-reference": "the same, and the reference has that figure, too",
    "below-reference": "a figure is below its reference",
    "cases-not-compared": "pairs of runs: cases that one side lacks, or that were wrong",
    "cases-not-judged": "pairs of runs: cases that are on both sides, but not judged",
    "choice-of-library": "why the library chose what ran",
    "cost-of-flags": "objects: the time of a flag of each rank beside that of a reduced one",
    "cost-of-objects": "objects: the time of an object beside that of a tensor of its size",
    "cost-on-the-network": "simulations: what slow links, placement, traffic or other jobs cost",
    "checks-passed": "every check of a backend of torch.distributed passed",
    "checks-undecided": "checks of a backend that gave no verdict, or are missing",
    "costlier-calls": "tuning: a call costs more where launches determine its time",
    "data-checked": "all checked data were correct",
    "data-not-checked": "no output was checked",
    "default-kept": "tuning: sizes at which the default stays, with the reason",
    "definitions-differ": "several runs: their tools define a time differently",
    "differences": "pairs of runs: what differs between them",
    "drift": "soaks: cases that became slower or faster, or that cannot be judged",
    "ended-early": "the run, its journal or its program ended early",
    "fleet-budget": "scans: rounds that the budget did not permit",
    "fleet-dip": "scans: a size at which most pairs are slower than at a smaller one",
    "fleet-marginal": "scans: nodes a little below the others",
    "fleet-early": "scans: rounds that were not measured, because the verdict was certain",
    "fleet-narrowed": "scans: the slow part of the devices, from collectives of parts",
    "fleet-once": "scans: pairs that were slow in a single test",
    "fleet-under-load": "scans: a collective beside other traffic, and without",
    "fleet-verdict": "scans: what is slow, or that nothing is",
    "fleet-without-floors": "scans: nothing says how fast healthy devices are",
    "exposed-within-nodes": "plans: communication within nodes alone takes too much of a step",
    "no-rate-enough": "plans: latencies between nodes lengthen a step too much at any line rate",
    "expected-of-links": "the peak beside what is expected of this kind of link",
    "failed-cases": "cases failed, with the most frequent reason",
    "failed-host-check": "hosts: a check failed, with what was seen and how to fix it",
    "hosts-differ": "hosts: facts that are not the same on all of them",
    "harmful-difference": "hosts: facts that are not the same and cost communication",
    "no-fault-found": "hosts: no check failed, or none could tell",
    "failed-checks": "checks of a backend of torch.distributed failed",
    "failing-settings": "tuning: settings failed where the default did not",
    "falling-bandwidth": "larger messages have less bandwidth than smaller ones",
    "falling-bandwidth-as-reference": "the same, and the reference has that figure, too",
    "fast-pair": "a pair of devices is faster than those with the same kind of link",
    "faster": "pairs of runs: cases that became faster beyond noise",
    "faster-variant": "experiments: the fastest variant of a size, with its gain",
    "figures-left-out": "results that lists and figures leave out",
    "harmful-settings": "tuning: settings are slower than the default at a size",
    "high-latency": "small messages take longer than the reference makes plausible",
    "idle-devices": "the devices ran hardly any kernels while a library moved data",
    "inconclusive-cases": "pairs of runs: intervals too wide to judge",
    "last-rank": "profiles: a rank arrives last, and the others wait for it",
    "late-rank": "a rank comes late in most cases",
    "launch-bound": "the host's launches determine the time of small messages",
    "libraries-differ": "libraries take different times for the same",
    "library-message": "what the library itself reports on its connections",
    "limited-figures": "why items have no figures, or what limits them",
    "loss-not-excluded": "tuning: sizes at which the settings may be slower than the default",
    "margin": "pairs of runs: the largest difference that does not matter",
    "memory-of-library": "the memory that a library takes",
    "methods-differ": "several runs: the same was measured with different methods",
    "missing-calls": "profiles: why calls of the program are missing",
    "more-pairs": "further pairs stand out, which are not listed",
    "needed-network": "plans: the line rate that the GPUs of a job need between nodes",
    "network-enough": "plans: the given network is enough for the job",
    "network-not-enough": "plans: the given network lengthens a step of the job too much",
    "network-not-used": "plans: the job sends nothing between nodes",
    "no-case-judged": "pairs of runs: no case could be judged",
    "no-gain": "tuning: nothing is proven to be faster than the default",
    "no-proof": "adaptive runs: the run ended before its result was certain",
    "no-device-times": "times are the host's, though those of the device were requested",
    "noise-between-runs": "pairs of runs: the noise from run to run",
    "normal-copies": "copies are within the normal range of their reference",
    "normal-peaks": "peaks are within the normal range of their reference",
    "not-converged": "medians that are less precise than requested",
    "not-measured": "ranks without figures, with the reason",
    "nothing-faster": "experiments: sizes at which no variant is proven to be faster",
    "nothing-to-choose": "tuning: nothing can be selected for an operation by size",
    "nothing-found": "nothing needs attention, of what could be compared",
    "algorithm-not-seen": "predictions: an algorithm is expected that no run used at that size",
    "does-not-fit": "plans and predictions: a job takes more memory than a GPU has",
    "communication-exposed": "predictions: from how many GPUs on communication is exposed",
    "fastest-layout": "predictions: the layout with the shortest step",
    "faster-algorithm": "predictions: an algorithm that the models find faster than the library's",
    "nothing-said": "predictions: cases without a figure, with the reason",
    "pairs-alike": "no pair of devices stands out among those with the same kind of link",
    "nothing-to-compare-with": "figures could not be judged: no limit, no reference",
    "notice": "what the run itself noted",
    "outlying-samples": "at least 1 % of the samples of a case are outliers: how many, when",
    "overlap-of-largest": "the overlap of the largest message",
    "pairs-at-once": "all pairs at once beside each alone",
    "pieces-beside-whole": "a message in pieces beside the whole",
    "placements-differ": "in-place and out-of-place take different times",
    "plausible-latencies": "small messages take about as long as in the reference",
    "predicted-step": "predictions: the step on most GPUs, with its interval",
    "predicted-time": "predictions: the time on most nodes, with its interval",
    "prediction-error": "predictions: the error of measured numbers of nodes, beside the baseline",
    "program-failed": "profiles: the program ended with a failure",
    "proven-gain": "tuning: settings that are proven to be faster, with their gain",
    "reference-not-comparable": "a reference differs, so that its figure judges nothing",
    "replay-beside-program": "replays: the step beside that of the program",
    "restricted-by-environment": "a variable restricts the library's choice",
    "shared-processors": "figures could not be judged: ranks share processors",
    "search-ended": "tuning: the search ended early",
    "share-of-communication": "profiles: how much of the program is communication",
    "sizes-without-rule": "tuning: the largest loss of a size that no rule applies to",
    "simulated-collective": "simulations: the fastest algorithm, its time and what determines it",
    "skipped-cases": "cases were skipped, with the most frequent reason",
    "sm-cost": "tuning: the slow-down of a matrix product beside the tuned collective",
    "smallest-value": "bisections: the smallest value that keeps the share",
    "slow-pair": "a pair of devices is slower than those with the same kind of link",
    "slow-rank": "a rank is slower than the others in most cases",
    "slow-size": "a size takes longer than its neighbours suggest",
    "slow-size-as-reference": "the same, and the reference has that figure, too",
    "slower": "pairs of runs: cases that became slower beyond noise",
    "steps-of-variants": "training: the steps of variants beside the default's",
    "two-nodes-alone": "predictions: runs on two nodes alone, where trees send less",
    "too-noisy": "experiments: the default differs from itself by more than the variants",
    "uncertain-value": "bisections: why the smallest value is not certain",
    "uncertain-medians": "medians that are not known precisely enough to compare",
    "unknown-choice": "what the library ran is unknown, with the reason",
    "unreported-calls": "profiles: calls without a report of what was executed",
    "unusual-path": "the library connects ranks in an unusual way",
    "variant-without-effect": "experiments: a variant had no effect, or failed",
    "varying-samples": "half of the samples of a case differ by more than 10 % of the median",
    "waiting-ranks": "profiles: ranks that wait for others",
    "wrong-data": "an output was wrong",
}

# With the ends of the 95 % interval.
_SPEED_UP = ("speed_up", "least_speed_up", "most_speed_up")
#: The figures that are the evidence of each rule, by its id; other rules state none. A number of
#: cases or checks is no evidence.
FIGURES: Mapping[str, Sequence[str]] = {
    "fleet-narrowed": ("ratio",),
    "fleet-under-load": ("rate_gbps",),
    "fleet-verdict": ("ratio",),
    "above-link-limit": ["of_link_limit_percent"],
    "above-reference": ["of_reference_percent"],
    "below-link-limit": ["of_link_limit_percent"],
    "below-link-limit-as-reference": ["of_link_limit_percent"],
    "below-reference": ["of_reference_percent"],
    "cost-of-flags": ["objects_us", "pickling_us"],
    "cost-of-objects": ["objects_us", "pickling_us"],
    "costlier-calls": ["speed_up"],
    "default-kept": ["speed_up"],
    "drift": ["time_us", "ratio"],
    "expected-of-links": ["busbw_gbps"],
    "falling-bandwidth": ["busbw_gbps"],
    "falling-bandwidth-as-reference": ["busbw_gbps"],
    "fast-pair": ["time_us", "total_gbps"],
    "faster": ["ratio"],
    "faster-variant": ["speed_up"],
    "harmful-settings": ["speed_up"],
    "high-latency": ["latency_of_reference"],
    "idle-devices": ["busy_percent", "pcie_bytes", "nvlink_bytes"],
    "last-rank": ["last"],
    "late-rank": ["of_cases_percent"],
    "launch-bound": ["time_us"],
    "libraries-differ": ["time_us"],
    "limited-figures": ["evaluated", "combined_rate", "idle_percent", "profiled_ms"],
    "loss-not-excluded": ["speed_up"],
    "margin": ["margin_percent"],
    "memory-of-library": [
        *("device_free_bytes", "library_device_bytes", "library_pss_bytes", "library_rss_bytes"),
        *("given_back_device_bytes", "allocated_bytes", "device_bytes", "stated_bytes"),
        *("changed_bytes", "check_host_bytes"),
    ],
    "needed-network": ["needed_gbit", "ample_gbit"],
    "simulated-collective": ["time_us", "busbw_gbps"],
    "cost-on-the-network": ["time_us"],
    "network-enough": ["slow_down_percent"],
    "network-not-enough": ["slow_down_percent"],
    "exposed-within-nodes": ["exposed_percent"],
    "no-rate-enough": ["slow_down_percent"],
    "no-gain": [*_SPEED_UP],
    "normal-copies": ["of_reference_percent"],
    "normal-peaks": ["of_reference_percent"],
    "not-converged": ["half_width", "spread"],
    "nothing-faster": [*_SPEED_UP, "noise_percent"],
    "outlying-samples": ["outliers"],
    "overlap-of-largest": ["slow_down", "compute_slow_down"],
    "pairs-at-once": ["at_once_ratio", "of_alone_percent"],
    "pieces-beside-whole": ["ratio"],
    "placements-differ": ["time_us"],
    "plausible-latencies": ["latency_of_reference"],
    "communication-exposed": ["exposed_percent"],
    "fastest-layout": ["step_ms"],
    "predicted-step": ["step_ms"],
    "predicted-time": ["predicted_us"],
    "prediction-error": ["error_percent"],
    "proven-gain": ["speed_up"],
    "reference-not-comparable": ["of_reference_percent"],
    "replay-beside-program": ["ratio", "communication_ms", "step_ms", "above_reference_ms"],
    "share-of-communication": ["communication_percent", "exposed_percent"],
    "sizes-without-rule": ["speed_up"],
    "slow-pair": ["time_us", "total_gbps"],
    "slow-rank": ["of_cases_percent"],
    "slow-size": ["busbw_gbps"],
    "slow-size-as-reference": ["busbw_gbps"],
    "slower": ["ratio"],
    "sm-cost": ["compute_slow_down"],
    "smallest-value": ["share_percent"],
    "steps-of-variants": ["ratio", "loss_difference"],
    "too-noisy": ["noise_percent"],
    "uncertain-medians": ["half_width", "spread"],
    "unreported-calls": ["unreported"],
    "varying-samples": ["spread"],
    "waiting-ranks": ["wait_us"],
    "wrong-data": ["wrong", "compute_wrong", "different_ranks"],
}

_SMALL_DIFFERENCE = 0.02  # of the times of steps, a share that does not matter
#: The rule on a figure by the verdict of its reference, see verdict_of.
RULES_OF_REFERENCES: Mapping[str, str] = {
    "low": "below-reference",
    "high": "above-reference",
    "": "reference-not-comparable",
}


def gain_of(ratio: RatioEstimate | None, at: str, rounds: int = LEAST_RUNS) -> Gain | None:
    """Returns what a variant is worth by the ratio of times; None unless rounds prove a gain."""
    if ratio is None or ratio.runs < rounds:
        return None
    return Gain.of(1 / ratio.ratio, 1 / ratio.high, 1 / ratio.low, at)


def ratio_to_default(ratio: RatioEstimate | None) -> str:
    """The time over the default's, with its 95 % interval where the rounds determine one."""
    if ratio is None:
        return "-"
    if ratio.runs < LEAST_RUNS:
        return f"{ratio.ratio:.3f}"
    return f"{ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def step_against(ratio: RatioEstimate, name: str, default: str) -> tuple[str, Severity]:
    """How a step with ``name`` compares with one with ``default``: a sentence and its severity.

    No difference is stated that the rounds do not prove.
    """
    if ratio.runs < LEAST_RUNS:
        rounds = f"in {counted(ratio.runs, 'round')}, too few to say"
        found = f"a step with {name} took {ratio.ratio:.3f} times as long as with {default}"
        return f"{rounds}, {found}", "unknown"
    text = f"with {name} a step takes {ratio_to_default(ratio)} times as long as with {default}"
    found = ratio.verdict(_SMALL_DIFFERENCE)
    if found == "inconclusive":
        return f"{text}; --rounds measures more", "unknown"
    return f"{text}: no difference" if found == "no difference" else text, "note"


def evidence_of_speed_up(ratio: RatioEstimate, at: str) -> tuple[Evidence, ...]:
    """Returns the speed-up of a ratio of times and the ends of its 95 % interval, beside 1."""
    speed_ups = (1 / ratio.ratio, 1 / ratio.high, 1 / ratio.low)
    pairs = zip(_SPEED_UP, speed_ups, strict=True)
    return tuple(Evidence.of(name, speed_up, at, 1) for name, speed_up in pairs)


def evidence_of_share(match: Match, at: str) -> Evidence:
    """Returns the share of a reference, and the limit that it misses or exceeds, if one does."""
    limit = {"low": NORMAL_FROM, "high": NORMAL_TO}.get(verdict_of(match))
    return Evidence.of("of_reference_percent", match.share, at, limit)
