"""Values that commands that measure steps (``train``, ``replay``) derive from common flags."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.errors import UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.options.step_options import USUAL_ROUNDS, StepFlags
from cclmark.options.varied import check_options_of, check_settings, possible_variants
from cclmark.plan.binding import Binding
from cclmark.plan.inject import Injection
from cclmark.plan.variants import (
    DEFAULT,
    LIBRARY,
    PROCESS,
    Assignment,
    Variant,
    parse_vary,
    variants_of,
)
from cclmark.results.schema import Settings


def step_variants(
    command: str, flags: StepFlags, libraries: Sequence[str], *, with_options: bool
) -> tuple[list[Variant], list[str]]:
    """Returns the default, the other libraries, the varied settings; and notices on these.

    ``with_options``: whether the command varies options of communicators besides variables of the
    environment. Raises UsageError.
    """
    varied = [parse_vary(text) for text in flags.vary]
    for name, _ in varied:
        setting = Assignment(name, "")
        if not (setting.is_variable or (with_options and setting.option)):
            options = " and options of the communicators" if with_options else ""
            raise UsageError(
                f"--vary {name}: {command} varies variables of the environment{options} only"
            )
    if varied and len(libraries) > 1:
        raise UsageError("--vary and several libraries in --ccl exclude each other")
    notices = check_settings(varied, libraries[0], allow_unknown=flags.allow_unknown_settings)
    settings = (
        variants_of(varied, lambda name: PROCESS, one_at_a_time=flags.one_at_a_time)
        if varied
        else []
    )
    check_options_of(settings, libraries[0], {})
    if settings:
        settings, impossible = possible_variants(settings, libraries[0])
        notices += impossible
    others = [Variant((Assignment(LIBRARY, name, PROCESS),)) for name in libraries[1:]]
    return [DEFAULT, *others, *settings], notices


def rounds_of(
    command: str, flags: StepFlags, variants: Sequence[Variant], coordinator: Coordinator
) -> int:
    """Returns the number of rounds. Raises UsageError if a launcher started the only ranks."""
    rounds = flags.rounds or (USUAL_ROUNDS if len(variants) > 1 else 1)
    if coordinator.placement is not None and (len(variants) > 1 or rounds > 1):
        raise UsageError(
            f"{command} starts new ranks for each variant and round: run these without "
            f"{coordinator.placement.launcher}, or one variant in one round"
        )
    return rounds


def faults_of(command: str, flags: StepFlags, ranks: int) -> dict[str, Injection]:
    """Returns the faults to inject by their texts. Raises UsageError."""
    found = {text: Injection.parse(text, ranks) for text in flags.inject}
    for text, fault in found.items():
        if fault.kind == "hang":
            raise UsageError(f"{text!r}: {command} supports only the faults corrupt and delay")
    return found


def step_settings(flags: StepFlags, ranks: int) -> Settings:
    """Returns how steps are measured. Raises UsageError."""
    return Settings(
        begin_bytes=0,
        end_bytes=0,
        step_bytes=0,
        factor=0.0,
        timing="steps",
        across_ranks="max",
        precision=flags.precision_percent / 100,
        max_time_s=flags.max_time_s,
        timeout_s=flags.timeout_s,
        iterations=flags.steps,
        warmup=flags.warmup,
        group=1,
        graph_launches=1,
        check=flags.check,
        cycles=1,
        registration="none",
        seed=flags.seed,
        inject=list(flags.inject),
        bind=str(Binding.parse(flags.bind, ranks)),
    )
