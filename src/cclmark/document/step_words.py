"""The steps of trainings and profiles: the columns that they share, as fields and in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cclmark.analysis.steps import StepFigures, StepRun
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.document.case_fields import status_fields
from cclmark.document.fields import Field

#: The time of a step.
STEP = "step ms (95 %)"
#: The parts of a step, in milliseconds.
PARTS = ("compute", "exposed", "idle", "hidden", "communication")
#: What each part of a profiled step is.
PARTS_HELP = {
    "profiled": "Time of a profiled step: compute, exposed and idle together.",
    "compute": "Time in which something computes.",
    "exposed": "Communication beside which nothing computes.",
    "idle": "Time in which the device does nothing.",
    "hidden": "Communication beside which something computes.",
    "communication": "Time in which something communicates.",
}
STEPS_TITLE = "steps, parts in ms"
STEPS_HEAD = ("run", "program or model", "ranks", STEP, *PARTS)
_MS_PER_S = 1e3
_LARGE_DIFFERENCE = 0.05  # of the mean step to the median one


def _end_of_interval(end: int) -> Callable[[StepFigures], float | None]:
    return lambda one: None if one.interval_s is None else one.interval_s[end]


#: Of StepFigures.
STEP_FIELDS = (
    Field("step_ms", "Median time of a step, of the slowest rank.", "step_s"),
    Field("step_low_ms", "Lower end of the 95 % interval of step_ms.", _end_of_interval(0)),
    Field("step_high_ms", "Upper end of the 95 % interval of step_ms.", _end_of_interval(1)),
    *(Field(f"{name}_ms", help, f"{name}_s") for name, help in PARTS_HELP.items()),
    Field("timed_steps", "Steps that were timed.", lambda one: one.steps or None, "int"),
)


def _of_figures(of: Callable[[Any], Any]) -> Callable[[StepRun], Any]:
    return lambda one: of(one.figures)


#: Of a StepRun.
STEP_RUN_FIELDS = (
    Field("variant", "Settings that differ from the default.", "variant", "text"),
    Field("work", "Model and parallelism, or the program or the imported file.", "work", "text"),
    Field("ccl", "Library that communicates.", "ccl", "text"),
    Field("ranks", "Ranks of the run.", "ranks", "int"),
    *status_fields("figures.reason", help="Why figures are unknown."),
    *(replace(one, of=_of_figures(one.value)) for one in STEP_FIELDS),
)


def ms_text(time_s: float | None) -> str:
    """A time in milliseconds with four digits."""
    return "-" if time_s is None else f"{time_s * _MS_PER_S:.4g}"


def interval_text(time_s: float | None, interval_s: tuple[float, float] | None) -> str:
    """The time of a step with its interval, in milliseconds."""
    if time_s is None or interval_s is None:
        return ms_text(time_s)
    return f"{ms_text(time_s)} ({' to '.join(map(ms_text, interval_s))})"


def part_texts(one: StepFigures) -> list[str]:
    """The cells of PARTS."""
    parts = (one.compute_s, one.exposed_s, one.idle_s, one.hidden_s, one.communication_s)
    return [ms_text(part) for part in parts]


def program_row(one: StepFigures) -> list[str]:
    """The cells of the steps of one program: their number, STEP and PARTS."""
    return [str(one.steps or "-"), interval_text(one.step_s, one.interval_s), *part_texts(one)]


PROGRAM_HEAD = ("steps", STEP, *PARTS)


def steps_row(name: str, one: StepRun) -> list[str]:
    """The cells of STEPS_HEAD."""
    figures = one.figures
    step = interval_text(figures.step_s, figures.interval_s)
    if figures.step_s is None and one.status != "ok":
        step = one.status
    run = f"{name}: {one.variant}" if one.variant else name
    cells = [run, one.work, str(one.ranks or "-"), step, *part_texts(figures)]
    return [plain(cell) for cell in cells]


def step_notes(one: StepFigures) -> list[str]:
    """Why figures are unknown, and whether the parts are those of usual steps."""
    notes = [one.reason] if one.reason else []
    difference = one.profile_difference
    if difference is not None and abs(difference) > _LARGE_DIFFERENCE:
        notes.append(
            f"compute, exposed and idle add up to {ms_text(one.profiled_s)} ms, "
            f"{difference * 100:+.0f} % compared with the step"
        )
    return notes


def notes_of_steps(named: Sequence[tuple[str, StepRun]]) -> list[str]:
    """The notes of several runs, each once, with the runs to which it applies."""
    found = by_key(
        (note, f"{name}: {one.variant}" if one.variant else name)
        for name, one in named
        for note in step_notes(one.figures)
    )
    return [
        plain(f"{', '.join(names)}: {note}." if len(named) > 1 else f"{_sentence(note)}.")
        for note, names in found.items()
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
