"""Journals of trials, of which variants are compared with the default."""

from pathlib import Path

from msgspec.structs import replace

from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Explanation, Footer, Summary
from cclmark.kinds.experiment.plan import Trial
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.registry import read_journal
from cclmark.work.cases import Case
from cclmark.work.variants import CONTROL, DEFAULT, Assignment, Variant

HEADER = read_journal(Path(__file__).parent / "golden" / "sample.jsonl").header
CASES = [
    Case("all_reduce", "nccl", 4, "float32", size, size // 4, False, reduction="sum")
    for size in (1024, 65536)
]
RULES = Variant(
    (
        Assignment("OMPI_MCA_coll_tuned_use_dynamic_rules", "true"),
        Assignment(
            "OMPI_MCA_coll_tuned_dynamic_rules_filename",
            "/home/user/tuned/candidates/deployment-0/coll_tuned.rules",
        ),
    )
)


def numbered(value):
    return Variant((Assignment("NCCL_MAX_CTAS", str(value)),))


def journal_of_trials(times_s, *, stage="", conclusion=(), ran=None):
    """A journal of trials. ``times_s``: for each variant its times by case, a list by round."""
    results = []
    for variant, by_case in times_s.items():
        for case, own in zip(CASES, by_case, strict=True):
            for number, time_s in enumerate(own):
                summary = Summary("host", *[time_s] * 5, 9, 1.0, 1.0)
                trial = Trial(variant, number, case, stage)
                explanation = None
                if number == 0 and ran is not None:
                    explanation = Explanation(len(results), source="log", kernel=ran[variant])
                results.append(
                    TrialResult(
                        len(results),
                        trial,
                        "ok",
                        duration_s=0.1,
                        summary=summary,
                        explanation=explanation,
                    )
                )
    header = replace(HEADER, planned_cases=len(results))
    footer = Footer("", 0, 1.0, conclusion=list(conclusion))
    return Journal(header, results, footer=footer)


QUIET = {
    DEFAULT: ([1.0, 1.0, 1.0], [1.0, 1.01, 0.99]),
    CONTROL: ([1.0, 1.001, 1.0], [1.01, 1.0, 1.0]),
}


NOISY = {DEFAULT: ([1.0, 1.0, 1.0], [1.0, 2.0, 1.0]), CONTROL: ([1.0, 1.0, 1.0], [9.0, 1.0, 1.0])}
