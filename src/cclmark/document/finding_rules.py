"""The rules of findings, by their ids, and evidence that several kinds have."""

from __future__ import annotations

from collections.abc import Mapping

from cclmark.document.blocks import Evidence
from cclmark.document.reference_notes import NORMAL_FROM, NORMAL_TO, verdict_of
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
    "cost-of-flags": "objects: what options of the process group cost",
    "cost-of-objects": "objects: the time of an object beside that of a tensor of its size",
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
    "expected-of-links": "the peak beside what is expected of this kind of link",
    "failed-cases": "cases failed, with the most frequent reason",
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
    "no-case-judged": "pairs of runs: no case could be judged",
    "no-gain": "tuning: nothing is proven to be faster than the default",
    "no-proof": "adaptive runs: the run ended before its result was certain",
    "no-device-times": "times are the host's, though those of the device were requested",
    "noise-between-runs": "pairs of runs: the noise from run to run",
    "normal-copies": "copies are within the normal range of their reference",
    "normal-peaks": "peaks are within the normal range of their reference",
    "not-converged": "medians that are less precise than requested",
    "not-measured": "ranks without figures, with the reason",
    "nothing-faster": "experiments: sizes at which nothing is faster than the default",
    "nothing-to-choose": "tuning: nothing can be selected for an operation by size",
    "nothing-found": "nothing needs attention, of what could be compared",
    "pairs-alike": "no pair of devices stands out among those with the same kind of link",
    "nothing-to-compare-with": "figures could not be judged: no limit, no reference",
    "notice": "what the run itself noted",
    "overlap-of-largest": "the overlap of the largest message",
    "pairs-at-once": "all pairs at once beside each alone",
    "pieces-beside-whole": "a message in pieces beside the whole",
    "placements-differ": "in-place and out-of-place take different times",
    "plausible-latencies": "small messages take about as long as in the reference",
    "program-failed": "profiles: the program ended with a failure",
    "proven-gain": "tuning: settings that are proven to be faster, with their gain",
    "reference-not-comparable": "a reference differs, so that its figure judges nothing",
    "replay-beside-program": "replays: the step beside that of the program",
    "restricted-by-environment": "a variable restricts the library's choice",
    "shared-processors": "figures could not be judged: ranks share processors",
    "search-ended": "tuning: the search ended early",
    "share-of-communication": "profiles: how much of the program is communication",
    "sizes-without-rule": "tuning: the largest loss of a size that no rule applies to",
    "skipped-cases": "cases were skipped, with the most frequent reason",
    "sm-cost": "tuning: the slow-down of a matrix product beside the tuned collective",
    "smallest-value": "bisections: the smallest value that keeps the share",
    "slow-pair": "a pair of devices is slower than those with the same kind of link",
    "slow-rank": "a rank is slower than the others in most cases",
    "slow-size": "a size takes longer than its neighbours suggest",
    "slow-size-as-reference": "the same, and the reference has that figure, too",
    "slower": "pairs of runs: cases that became slower beyond noise",
    "steps-of-variants": "training: the steps of variants beside the default's",
    "too-noisy": "experiments: the default differs from itself by more than the variants",
    "uncertain-value": "bisections: why the smallest value is not certain",
    "uncertain-medians": "medians that are not known precisely enough to compare",
    "unknown-choice": "what the library ran is unknown, with the reason",
    "unreported-calls": "profiles: calls without a report of what was executed",
    "unusual-path": "the library connects ranks in an unusual way",
    "variant-without-effect": "experiments: a variant had no effect, or failed",
    "varying-samples": "samples of a case differ by more than 10 %",
    "waiting-ranks": "profiles: ranks that wait for others",
    "wrong-data": "an output was wrong",
}

#: The rule on a figure by the verdict of its reference, see verdict_of.
RULES_OF_REFERENCES: Mapping[str, str] = {
    "low": "below-reference",
    "high": "above-reference",
    "": "reference-not-comparable",
}


def evidence_of_share(match: Match, at: str) -> Evidence:
    """Returns the share of a reference, and the limit that it misses or exceeds, if one does."""
    verdict, name, percent = verdict_of(match), "of_reference_percent", 100 * match.share
    if verdict == "low":
        return Evidence(name, percent, "%", at, "<", 100 * NORMAL_FROM)
    if verdict == "high":
        return Evidence(name, percent, "%", at, ">", 100 * NORMAL_TO)
    return Evidence(name, percent, "%", at)
