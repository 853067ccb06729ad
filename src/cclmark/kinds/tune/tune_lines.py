"""The result of tuning as lines: proven rules, what was dropped, the artifacts."""

from __future__ import annotations

from collections.abc import Mapping

from cclmark.analysis.ratio import RatioEstimate
from cclmark.document.paint import Paint, unpainted
from cclmark.document.text import counted
from cclmark.kinds.tune.choices import Choice
from cclmark.kinds.tune.nccl_candidates import MIN_CTAS
from cclmark.kinds.tune.prove import Dropped, Proof, Proven
from cclmark.kinds.tune.tune_result import OperationResult, TuneResult
from cclmark.plan.sizes import format_size
from cclmark.plan.variants import MEMORY, REGISTRATION, Assignment
from cclmark.printable import plain
from cclmark.results.schema import Explanation

# The fields of torch.distributed.ProcessGroupNCCL.NCCLConfig (torch/_C/_distributed_c10d.pyi).
_TORCH_OPTIONS = {"minCTAs": "min_ctas", "maxCTAs": "max_ctas"}
_HEADS = ("from", "to", "setting", "speed-up (95 %)", "smallest", "before", "after")
# The buffers that the program has to prepare, and the argument of torch's register_mem_pool.
_CHANGED = {
    (REGISTRATION, "symmetric"): ("in symmetric windows (NCCL 2.27, torch 2.9)", ", symm=True"),
    (REGISTRATION, "local"): ("registered (NCCL 2.19)", ""),
    (MEMORY, "library"): ("memory of ncclMemAlloc, which NCCL registers in graphs (2.19)", ""),
}


def tune_lines(result: TuneResult, paint: Paint = unpainted) -> list[str]:
    """Returns a block for each operation, the artifacts and the commands that load them."""
    lines: list[str] = []
    if not result.is_complete:
        return ["", "  the run ended before its proof was complete: continue with --resume JOURNAL"]
    for one in result.operations:
        lines += ["", paint(_title(one), "bold"), *_operation_lines(one, result, paint)]
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
    for change in changes:
        lines += _program_lines(change)
    lines += _option_lines(result.options)
    if result.files:
        lines += ["  artifacts", *(f"    {path}" for path in result.files)]
        names = " ".join(f"{name}={value}" for name, value in result.variables.items())
        lines.append(f"  use: . {result.files[0]}    which sets {plain(names)}")
    if MIN_CTAS in result.variables:
        lines.append(
            f"  {MIN_CTAS} applies to the whole program: groups of other sizes and other "
            "operations get more channels and buffers too"
        )
    proofs = any(one.proof is not None for one in result.operations)
    rounds = result.proof_rounds if proofs else 0
    lines.append(effort(result.search_s, result.proof_s, rounds, result.trials))
    return lines


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


def effort(search_s: float, proof_s: float, rounds: int, trials: int) -> str:
    """The time of the search and of the proof. ``rounds``: of the proof, 0 without one."""
    proof = (
        f"proof {proof_s:.0f} s ({counted(rounds, 'round')}, each in fresh processes)"
        if rounds
        else "no proof"
    )
    return f"  search {search_s:.0f} s, {proof}; {counted(trials, 'trial')}"


def _program_changes(result: TuneResult) -> list[Assignment]:
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


def _title(one: OperationResult) -> str:
    return one.case.series().group_words()


def search_end_line(search_end: str) -> str:
    """The line that the search ended early; ``search_end``: when and why."""
    return f"  the search ended {search_end or 'early'}: more time may find more (--budget)"


def _operation_lines(one: OperationResult, result: TuneResult, paint: Paint) -> list[str]:
    if not one.choices:
        return [
            "  nothing can be selected for this operation by size (NCCL does not call a tuner for "
            "it): tune it alone with --settings, or see --app-changes yes"
        ]
    lines: list[str] = []
    if not _is_complete(one):
        lines.append(search_end_line(result.search_end))
    if one.proof is not None and one.proof.proven:
        rows = [_HEADS, *(_row(one, proven) for proven in one.proof.proven)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for number, row in enumerate(rows):
            text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append(paint(f"  {text.rstrip()}", "dim") if not number else f"  {text.rstrip()}")
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
