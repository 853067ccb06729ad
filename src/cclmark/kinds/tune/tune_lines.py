"""The result of tuning as lines: proven rules, what was dropped, the artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.ratio import RatioEstimate
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.document.paint import Paint, unpainted
from cclmark.document.text import aligned, counted
from cclmark.journal.schema import Explanation
from cclmark.kinds.tune.environment_search import in_words
from cclmark.kinds.tune.nccl_target import MIN_CTAS
from cclmark.kinds.tune.prove import Dropped, EnvironmentProof, Place, Proof, Proven, change
from cclmark.kinds.tune.search import LARGEST_LOSS
from cclmark.kinds.tune.target import Choice
from cclmark.kinds.tune.tune_result import (
    EnvironmentResult,
    OperationResult,
    RulesResult,
    TuneResult,
)
from cclmark.work.cases import Case
from cclmark.work.setting_fields import LibrarySetting
from cclmark.work.sizes import format_size
from cclmark.work.variants import MEMORY, REGISTRATION, Assignment

# The fields of torch.distributed.ProcessGroupNCCL.NCCLConfig (torch/_C/_distributed_c10d.pyi).
_TORCH_OPTIONS = {"minCTAs": "min_ctas", "maxCTAs": "max_ctas"}
_RULE_HEADS = ("from", "to", "setting", "speed-up (95 %)", "smallest", "before", "after")
# The buffers that the program has to prepare, and the argument of torch's register_mem_pool.
_CHANGED = {
    (REGISTRATION, "symmetric"): ("in symmetric windows (NCCL 2.27, torch 2.9)", ", symm=True"),
    (REGISTRATION, "local"): ("registered (NCCL 2.19)", ""),
    (MEMORY, "library"): ("memory of ncclMemAlloc, which NCCL registers in graphs (2.19)", ""),
}


def tune_lines(result: RulesResult | EnvironmentResult, paint: Paint = unpainted) -> list[str]:
    """Returns a block for each operation, the artifacts and the commands that load them."""
    if not result.is_complete:
        return ["", "  the run ended before its proof was complete: continue with --resume JOURNAL"]
    if isinstance(result, RulesResult):
        lines, is_proven = _rules_lines(result, paint), any(one.proof for one in result.operations)
    else:
        lines, is_proven = _environment_lines(result, paint), result.proof is not None
    proof = "no proof"
    if is_proven:
        rounds = counted(result.proof_rounds, "round")
        proof = f"proof {result.proof_s:.0f} s ({rounds}, each in fresh processes)"
    trials = counted(result.trials, "trial")
    return [*lines, f"  search {result.search_s:.0f} s, {proof}; {trials}"]


def _rules_lines(result: RulesResult, paint: Paint) -> list[str]:
    lines: list[str] = []
    for one in result.operations:
        lines += ["", _title(one.case, paint), *_operation_lines(one, result, paint)]
        if one.choices and not (one.proof and one.proof.proven) and len(result.operations) > 1:
            lines.append(f"  {no_gain(_is_complete(one))} for this operation")
    changes = _program_changes(result)
    deployed = bool(result.variables) or bool(changes)
    lines.append("")
    if result.withheld:
        lines.append(paint(f"  {result.withheld}", "red"))
    elif any(one.failed or one.harmed for one in result.operations):
        lines.append(paint("  no artifact is written: see above", "bold"))
    elif not deployed:
        complete = all(map(_is_complete, result.operations))
        lines.append(paint(f"  {no_gain(complete)}", "bold"))
    for each in changes:
        lines += _program_lines(each)
    lines += [*_option_lines(result.options), *_artifact_lines(result)]
    if MIN_CTAS in result.variables:
        lines.append(
            f"  {MIN_CTAS} applies to the whole program: groups of other sizes and other "
            "operations get more channels and buffers too"
        )
    return lines


def _artifact_lines(result: TuneResult) -> list[str]:
    if not result.files:
        return []
    names = plain(in_words(result.variables))
    paths = [f"    {path}" for path in result.files]
    return ["  artifacts", *paths, f"  use: . {result.files[0]}    which sets {names}"]


def _table(rows: Sequence[Sequence[str]], paint: Paint) -> list[str]:
    lines = aligned(rows, "<" * len(rows[0]))
    return [paint(lines[0], "dim"), *lines[1:]]


def _program_lines(change: Assignment) -> list[str]:
    """How a program allocates or registers the buffers of its operations, in torch."""
    how, argument = _CHANGED[change.name, change.value]
    registers = f"      backend.register_mem_pool(pool{argument})  # after the allocation"
    return [
        f"  program change: input and output have to be {how}. In torch, on all ranks:",
        '      backend = torch.distributed.group.WORLD._get_backend(torch.device("cuda"))',
        "      pool = torch.cuda.MemPool(backend.mem_allocator)",
        "      with torch.cuda.use_mem_pool(pool):",
        '          buffer = torch.empty(elements, device="cuda")  # all that the operations use',
        *([registers] if change.name == REGISTRATION else []),
    ]


def _option_lines(options: Mapping[str, str]) -> list[str]:
    """The options that the program has to give its communicator, and how torch does it."""
    if not options:
        return []
    given = " ".join(f"{name}={value}" for name, value in options.items())
    fields = [
        f"      options.config.{_TORCH_OPTIONS[name]} = {value}" for name, value in options.items()
    ]
    return [
        f"  program change: create the communicator with {given} in ncclConfig_t "
        "(ncclCommInitRankConfig);",
        "    other communicators keep their channels. In torch:",
        "      options = torch.distributed.ProcessGroupNCCL.Options()",
        *fields,
        '      torch.distributed.init_process_group("nccl", pg_options=options)',
        "    or, for a group of its own, torch.distributed.new_group(ranks, pg_options=options)",
    ]


def no_gain(complete: bool) -> str:
    """The conclusion without a gain. ``complete``: whether the search ended by itself."""
    return "nothing beats the default" if complete else "no gain was proven within the budget"


def _program_changes(result: RulesResult) -> list[Assignment]:
    """What the program has to change, if anything was deployed."""
    if not any(one.proof for one in result.operations) or any(
        one.failed or one.harmed for one in result.operations
    ):
        return []
    found = {
        change
        for one in result.operations
        if one.proof is not None
        for proven in one.proof.proven
        for change in one.choices[proven.rule.variant].program_changes
    }
    return sorted(found, key=lambda change: (change.name, change.value))


def _is_complete(one: OperationResult) -> bool:
    """Whether the search ended by itself."""
    return one.found is None or one.found.complete


def _title(case: Case, paint: Paint) -> str:
    return paint(case.series().group_words(), "bold")


def search_end_line(search_end: str) -> str:
    """The line that the search ended early; ``search_end``: when and why."""
    return f"  the search ended {search_end or 'early'}: more time may find more (--budget)"


def _operation_lines(one: OperationResult, result: RulesResult, paint: Paint) -> list[str]:
    if not one.choices:
        return [
            "  nothing can be selected for this operation by size (NCCL does not call a tuner for "
            "it): tune it alone with --settings, or see --app-changes yes"
        ]
    lines: list[str] = []
    if not _is_complete(one):
        lines.append(search_end_line(result.search_end))
    if one.proof is not None and one.proof.proven:
        lines += _table([_RULE_HEADS, *(_row(one, each) for each in one.proof.proven)], paint)
        if one.mean_gain is not None:
            lines.append(f"  geometric mean of the speed-ups over all sizes: {one.mean_gain:.3f}")
    if one.proof is not None:
        lines += [f"  {_dropped(one, one.proof, each)}" for each in one.proof.dropped]
    if one.outside:
        worst = max(one.outside, key=lambda size: one.outside[size].ratio)
        speed = speed_up(one.outside[worst])
        lines.append(f"  sizes without a rule: at worst {speed} at {format_size(worst)}")
    if one.calls_outside is not None and one.calls_outside[1].low > 1:
        size, ratio = one.calls_outside
        lines.append(
            f"  sizes without a rule up to {format_size(size)}, whose time launches determine: a "
            f"call costs {ratio.ratio - 1:+.1%} ({ratio.low - 1:+.1%} to {ratio.high - 1:+.1%}) "
            "with the artifact"
        )
    lines += [
        f"  {format_size(size)}, next to a rule: a call costs {ratio.ratio - 1:+.1%} "
        f"({ratio.low - 1:+.1%} to {ratio.high - 1:+.1%}) with the artifact"
        for size, ratio in one.calls_beside.items()
        if ratio.low > 1
    ]
    if one.unmeasured:
        lines.append(
            "  the default stays, but was not measured with these files, at "
            f"{', '.join(map(format_size, one.unmeasured))}"
        )
    problems = [
        f"{format_size(size)} has no rule and is slower with the artifact: {speed_up(ratio)}"
        for size, ratio in one.harmed.items()
    ]
    problems += [f"the artifact failed at {format_size(size)}" for size in one.failed]
    return [*lines, *(paint(f"  {text}", "red") for text in problems)]


def _row(one: OperationResult, proven: Proven) -> tuple[str, ...]:
    rule = proven.rule
    worst = proven.worst_bytes
    return (
        format_size(rule.low_bytes),
        format_size(rule.high_bytes),
        one.choices[rule.variant].name,
        speed_up(proven.estimate),
        f"{1 / proven.by_size[worst].ratio:.3f} at {format_size(worst)}",
        _ran(one.usual, rule.low_bytes, rule.high_bytes),
        _after(one, rule.low_bytes, rule.high_bytes, one.choices[rule.variant]),
    )


def _after(one: OperationResult, low: int, high: int, choice: Choice) -> str:
    return choice.name if choice.program_changes else _ran(one.tuned, low, high)


def _ran(found: Mapping[int, Explanation], low: int, high: int) -> str:
    """What ran at the sizes of a range: each different choice once."""
    choices = dict.fromkeys(
        what_ran(one) for size, one in sorted(found.items()) if low <= size <= high
    )
    return ", ".join(choices) or "unknown"


def what_ran(explanation: Explanation | None) -> str:
    """What the library ran, as far as it is known."""
    return (explanation and explanation.choice_with_channels) or "unknown"


def speed_up(ratio: RatioEstimate) -> str:
    """The default's time over the other one's, with the interval."""
    return f"{1 / ratio.ratio:.3f} ({1 / ratio.high:.3f} to {1 / ratio.low:.3f})"


def _dropped(one: OperationResult, proof: Proof, dropped: Dropped) -> str:
    """The reason why a rule is not deployed. Another one may be, at some of its sizes."""
    rule, name = dropped.rule, one.choices[dropped.rule.variant].name
    where = f"at {format_size(rule.low_bytes)}"
    if rule.high_bytes != rule.low_bytes:
        where = f"from {format_size(rule.low_bytes)} to {format_size(rule.high_bytes)}"
    others = [one.rule for one in proof.proven]
    if any(own.low_bytes <= rule.high_bytes and rule.low_bytes <= own.high_bytes for own in others):
        return f"{name} is not used {where}: {dropped.reason}"
    return f"the default stays {where} instead of {name}: {dropped.reason}"


_ENVIRONMENT_HEADS = ("size", "speed-up (95 %)", "before", "after")


def _environment_lines(result: EnvironmentResult, paint: Paint) -> list[str]:
    """The settings, a table for each operation, the file and the command that loads it."""
    lines: list[str] = []
    proof = result.proof
    for case in result.cases:
        lines += ["", _title(case, paint)]
        if proof is not None and proof.by_place:
            rows = [
                (
                    *(format_size(place[1]), speed_up(ratio)),
                    *(what_ran(side.get(place)) for side in (result.usual, result.tuned)),
                )
                for place, ratio in proof.by_place.items()
                if place[0] == case.operation
            ]
            lines += _table([_ENVIRONMENT_HEADS, *rows], paint)
    lines.append("")
    if proof is not None:
        lines += _verdict(result, proof, paint)
    if not result.files and (proof is None or not (proof.harmed or proof.failed or proof.costly)):
        complete = result.found is None or result.found.complete
        lines.append(paint(f"  {no_gain(complete)}", "bold"))
    if result.found is not None and not result.found.complete:
        lines.append(search_end_line(result.search_end))
    lines += _search(result)
    if result.files:
        if compared := _compared_with(result):
            lines.append(compared)
        lines += [
            *_artifact_lines(result),
            "  the variables apply to the whole program: operations and sizes that were not "
            "measured have them too",
        ]
    return lines


def _verdict(result: EnvironmentResult, proof: EnvironmentProof, paint: Paint) -> list[str]:
    known = {one.name: one for one in result.tried}
    lines = [
        f"  {plain(name)}={plain(value)}{_remark(known.get(name), result.replaced.get(name))}"
        for name, value in result.variables.items()
    ]
    if proof.estimate is not None:
        lines.append(
            f"  geometric mean of the speed-ups over all sizes: {speed_up(proof.estimate)}"
        )
    if proof.objection:
        lines.append(f"  not proven: {proof.objection}")
    problems = [
        f"slower at {_words(place, result)}: {speed_up(ratio)}"
        for place, ratio in proof.harmed.items()
    ]
    problems += [
        f"a call costs more at {_words(place, result)}, because launches determine its time: "
        f"{speed_up(ratio)}"
        for place, ratio in proof.costly.items()
    ]
    problems += [f"failed at {_words(place, result)}" for place in proof.failed]
    if proof.harmed or proof.failed or proof.costly:
        problems.append("no file is written: an environment applies to all sizes")
    lines += [paint(f"  {text}", "red") for text in problems]
    if proof.is_proven and proof.unguarded:
        worst = ", ".join(
            f"{_words(place, result)}: {speed_up(ratio)}"
            for place, ratio in proof.unguarded.items()
        )
        lines.append(f"  a loss of {LARGEST_LOSS:.0%} is not excluded at {worst}")
    if proof.is_proven and proof.call is not None and proof.may_cost:
        lines.append(
            f"  where launches determine its time, a call costs {change(proof.call)}, which may be "
            "noise: raise --proof-rounds"
        )
    return lines


def _compared_with(result: EnvironmentResult) -> str:
    """A line on values of the environment that took the place of defaults; empty without one."""
    if not result.replaced:
        return ""
    names = plain(in_words(result.replaced))
    return (
        f"  compared with {names} of the environment, not with the default of the library: unset "
        f"{' and '.join(map(plain, result.replaced))} and repeat the command to compare with that"
    )


def _remark(setting: LibrarySetting | None, replaced: str | None) -> str:
    if setting is None:
        return ""
    words = [] if replaced is None else [f"compared with {plain(replaced)}"]
    words += [f"default {setting.default or 'of the library'}"]
    if setting.costs:
        words.append(f"costs {', '.join(setting.costs)}")
    return f" ({'; '.join(words)})"


def _words(place: Place, result: EnvironmentResult) -> str:
    size = format_size(place[1])
    return size if len(result.cases) == 1 else f"{place[0]} {size}"


def _search(result: EnvironmentResult) -> list[str]:
    found = result.found
    if found is None:
        return []
    lines = [
        f"  tried: {counted(found.tried, 'combination')} of "
        f"{', '.join(one.name for one in result.tried)}"
    ]
    if found.harmful:
        lines.append(
            f"  faster, but slower than the default by more than {LARGEST_LOSS:.0%} at a size: "
            f"{counted(len(found.harmful), 'combination')}"
        )
    lines += [f"  failed: {plain(one)}" for one in result.failures]
    reasons = by_key((reason, name) for name, reason in result.refused.items())
    lines += [
        f"  not tried, {plain(reason)}: {', '.join(names)}" for reason, names in reasons.items()
    ]
    return lines
