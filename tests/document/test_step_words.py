"""Words on the steps of programs."""

from cclmark.analysis.steps import StepFigures, StepRun
from cclmark.document.case_fields import PAIR_FIELDS
from cclmark.document.step_words import notes_of_steps


def steps(reason="", variant=""):
    return StepRun(variant, "program", "nccl", 2, "ok", StepFigures(reason=reason))


def test_notes_of_several_runs_name_them_and_those_of_one_do_not():
    unknown = steps("the profile lists no steps")
    assert notes_of_steps([("a", unknown)]) == ["The profile lists no steps."]
    assert notes_of_steps([("a", unknown), ("b", steps())]) == ["a: the profile lists no steps."]
    both = notes_of_steps([("a", unknown), ("b", steps(unknown.figures.reason, "with all"))])
    assert both == ["a, b: with all: the profile lists no steps."]


def test_pages_of_pairs_have_no_columns_of_what_ran_beside():
    columns = {one.name for one in PAIR_FIELDS.page_columns}
    assert {"first", "second"} <= columns
    assert not {"beside", "at_once_ratio"} & columns
