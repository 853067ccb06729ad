"""What a run of tuning says: proven rules, what was dropped, the artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from cclmark.analysis.ratio import RatioEstimate
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Block,
    Document,
    Evidence,
    Facts,
    Finding,
    HeadFigure,
    Listing,
    RunContent,
    Table,
)
from cclmark.document.finding_rules import evidence_of_speed_up, gain_of
from cclmark.document.insight_words import MOST_NAMED, amount, sentence
from cclmark.document.naming import NamedRun
from cclmark.document.text import counted
from cclmark.journal.schema import Explanation
from cclmark.kinds.experiment.document import REPORT as OF_TRIALS
from cclmark.kinds.experiment.document import document_of_experiment
from cclmark.kinds.experiment.figures import MARGIN
from cclmark.kinds.overlap.document import slow_down_text
from cclmark.kinds.overlap.figures import OverlapSummary
from cclmark.kinds.tune.environment_search import in_words
from cclmark.kinds.tune.figures import change
from cclmark.kinds.tune.result import (
    CaseCost,
    Dropped,
    EnvironmentProof,
    EnvironmentResult,
    OperationResult,
    Place,
    Proof,
    Proven,
    RulesResult,
    SmCost,
    TuneResult,
    result_of,
)
from cclmark.kinds.tune.search import LARGEST_LOSS, Rule
from cclmark.kinds.tune.targets import MIN_CTAS
from cclmark.work.cases import Case
from cclmark.work.sizes import format_size
from cclmark.work.variants import MEMORY, REGISTRATION, Assignment

# The fields of torch.distributed.ProcessGroupNCCL.NCCLConfig (torch/_C/_distributed_c10d.pyi).
_TORCH_OPTIONS = {"minCTAs": "min_ctas", "maxCTAs": "max_ctas"}
# The buffers that the program has to prepare, and the argument of torch's register_mem_pool.
_CHANGED = {
    (REGISTRATION, "symmetric"): ("in symmetric windows (NCCL 2.27, torch 2.9)", ", symm=True"),
    (REGISTRATION, "local"): ("registered (NCCL 2.19)", ""),
    (MEMORY, "library"): ("memory of ncclMemAlloc, which NCCL registers in graphs (2.19)", ""),
}
_TITLE = "Tuned settings"
_RULE_HEADS = ("from", "to", "setting", "speed-up (95 %)", "smallest", "before", "after")
_MEAN = "geometric mean of the speed-ups over all sizes"
_MOST_GAINS = 2  # operations at the top of a page


def document_of_tuning(run: RunContent) -> Document:
    """Composes the result, and that of each trial unless the run is live: trials are many."""
    trials = document_of_experiment(run)
    result = result_of(run.footer)
    if result is None:
        lacks = run.is_whole and not (run.footer and run.footer.conclusion)
        findings = [*([_no_proof()] if lacks else []), *trials.findings]
        return replace(trials, title=_TITLE, findings=findings, head_figures=[])
    own = document_of_result(result)
    if result.is_complete:
        # The proof decides what is faster, and not the trials of the search.
        checks = trials.outcome.rpartition("; ")[2]
        wrong = [one for one in trials.findings if one.severity == "bad"]
        trials = replace(trials, outcome=checks, findings=wrong)
    if trials.is_wrong:  # of some settings, so that nothing is called good
        findings = [
            replace(one, severity="note") if one.severity == "good" else one for one in own.findings
        ]
        own = replace(own, findings=findings)
    return replace(
        own,
        method=trials.method,
        outcome="; ".join(filter(None, (own.outcome, trials.outcome))),
        is_wrong=trials.is_wrong,
        blocks=[] if run.is_live else trials.blocks,
        findings=own.findings if run.is_live else [*own.findings, *trials.findings],
        notes=own.notes if run.is_live else [*own.notes, *trials.notes],
    )


def _no_proof() -> Finding:
    text = "the run ended before its proof was complete"
    return Finding("no-proof", "unknown", text, advice="continue with --resume JOURNAL")


def document_of_result(result: RulesResult | EnvironmentResult) -> Document:
    """What search and proof found, without the method and the trials."""
    if not result.is_complete:
        return Document(_TITLE, "", findings=[_no_proof()])
    parts: Sequence[OperationResult | EnvironmentResult]
    if isinstance(result, RulesResult):
        parts, own = result.operations, _document_of_rules(result)
    else:
        parts, own = [result], _document_of_environment(result)
    findings, closing, proof = [*own.findings], [*own.closing], "no proof"
    if not all(one.is_search_complete for one in parts):
        text = f"the search ended {result.search_end or 'early'}"
        advice = "more time may find more (--budget)"
        findings.append(Finding("search-ended", "note", text, advice=advice))
    if any(one.proof for one in parts):
        rounds = counted(result.proof_rounds, "round")
        proof = f"proof {result.proof_s:.0f} s ({rounds}, each in fresh processes)"
    if result.files:
        use = f"use: . {result.files[0]}    which sets {in_words(result.variables)}"
        closing.append(Listing("artifacts", [*(f"  {path}" for path in result.files), use]))
    outcome = f"search {result.search_s:.0f} s, {proof}"
    return replace(own, closing=closing, findings=findings, outcome=outcome)


def no_gain(complete: bool) -> str:
    """The conclusion without a gain. ``complete``: whether the search ended by itself."""
    return "nothing beats the default" if complete else "no gain was proven within the budget"


def speed_up_words(ratio: RatioEstimate) -> str:
    """The same, or a word where the interval contains 1."""
    verdict = ratio.verdict(MARGIN)
    return verdict if verdict in ("inconclusive", "no difference") else speed_up(ratio)


def speed_up(ratio: RatioEstimate) -> str:
    """The default's time over the other one's, with the interval."""
    return f"{1 / ratio.ratio:.3f} ({1 / ratio.high:.3f} to {1 / ratio.low:.3f})"


def what_ran(explanation: Explanation | None) -> str:
    """What the library ran, as far as it is known."""
    return (explanation and explanation.choice_with_channels) or "unknown"


def _evidence(ratio: RatioEstimate, at: str, limit: float | None = None) -> tuple[Evidence, ...]:
    """The speed-up; with a limit the end of its interval that is nearer to that."""
    end = ratio.ratio if limit is None else ratio.high if limit >= 1.0 else ratio.low
    return (Evidence.of("speed_up", 1 / end, at, limit),)


def _proven(
    ratio: RatioEstimate, at: str, text: str, result: TuneResult, subject: str = ""
) -> Finding:
    """A gain, which texts have in a table, and how the artifacts are loaded."""
    return Finding(
        "proven-gain",
        "good",
        f"{text}: {speed_up(ratio)}",
        subject,
        f"load it with `. {result.files[0]}`" if result.files else "",
        is_outcome=True,
        evidence=_evidence(ratio, at, 1.0),
        gain=gain_of(ratio, at),
    )


def _harmful(
    text: str, ratio: RatioEstimate, at: str, subject: str = "", loss: float = LARGEST_LOSS
) -> Finding:
    evidence = _evidence(ratio, at, 1 / (1 + loss))
    return Finding(
        "harmful-settings", "look", f"{text}: {speed_up(ratio)}", subject, evidence=evidence
    )


def _series(case: Case) -> str:
    return case.series().group_words()


def _document_of_rules(result: RulesResult) -> Document:
    operations = result.operations
    blocks: list[Block] = [Facts([("tuned", _series(one.case)) for one in operations])]
    figures: list[str] = []
    for one in operations:
        if one.proof is not None and one.proof.proven:
            rows = [_row(one, each) for each in one.proof.proven]
            blocks.append(Table(_series(one.case), _RULE_HEADS, rows, "<" * len(_RULE_HEADS)))
        if one.mean_gain is not None:
            name = f"{one.operation}: " if len(operations) > 1 else ""
            figures.append(f"{name}{_MEAN}: {one.mean_gain:.3f}")
    findings = [each for one in operations for each in _of_operation(one, result)]
    is_withheld = any(one.failed or one.harmed for one in operations)
    changes = [] if is_withheld else _program_changes(operations)
    blocks += map(_program_change, changes)
    if result.options:
        blocks.append(_option_change(result.options))
    if result.withheld or is_withheld:
        text = result.withheld or "no artifact is written: see above"
        findings.append(Finding("artifact-withheld", "look", text))
    elif not result.variables and not changes:
        text = no_gain(all(one.is_search_complete for one in operations))
        findings.append(Finding("no-gain", "note", text, evidence=_not_faster(operations)))
    if result.sm_cost is not None:
        blocks += _table_of_costs(result.sm_cost, operations)
        findings += _of_costs(result.sm_cost)
    wide = (
        f"{MIN_CTAS} applies to the whole program: groups of other sizes and other operations get "
        "more channels and buffers too"
    )
    notes = [wide] if MIN_CTAS in result.variables else []
    return Document(
        _TITLE,
        "",
        findings=findings,
        closing=blocks,
        figures=figures,
        head_figures=[] if is_withheld else [*_gains_of_rules(operations)],
        notes=notes,
    )


def _gains_of_rules(operations: Sequence[OperationResult]) -> Iterator[HeadFigure]:
    """The means of the proven operations, and the largest speed-up of a rule."""
    for one in operations[:_MOST_GAINS]:
        if one.mean_gain is not None:
            label = f"{one.operation}, mean speed-up"
            yield HeadFigure(label, f"{one.mean_gain:.3f}", "×", "over all sizes")
    proven = [(each, one) for one in operations if one.proof for each in one.proof.proven]
    if proven:
        best, one = min(proven, key=lambda each: each[0].estimate.ratio)
        value = f"{1 / best.estimate.ratio:.3f}"
        note = plain(f"{one.operation} {_where(best.rule)}")
        yield HeadFigure("largest speed-up", value, "×", note)
        rules = f"of {amount(len(operations), 'operation')}"
        yield HeadFigure("proven rules", str(len(proven)), "", rules)


def _of_operation(one: OperationResult, result: RulesResult) -> Iterator[Finding]:
    subject = _series(one.case)
    if not one.choices:
        text = "nothing can be selected for this operation by size (NCCL does not call a tuner for "
        advice = "tune it alone with --settings, or see --app-changes yes"
        yield Finding("nothing-to-choose", "note", f"{text}it)", subject, advice)
        return
    proof = one.proof or Proof((), ())
    for each in proof.proven:
        where = _where(each.rule)
        text = f"{where}: {one.choices[each.rule.variant].name}"
        yield _proven(each.estimate, f"{one.operation} {where}", text, result, subject)
    for lost in proof.dropped:
        text = _dropped(one, proof, lost)
        known = () if lost.estimate is None else _evidence(lost.estimate, _where(lost.rule))
        yield Finding("default-kept", "note", text, subject, evidence=known)
    if one.outside:
        worst = max(one.outside, key=lambda size: one.outside[size].ratio)
        ratio, at = one.outside[worst], format_size(worst)
        text = f"sizes without a rule: at worst {speed_up(ratio)} at {at}"
        yield Finding("sizes-without-rule", "note", text, subject, evidence=_evidence(ratio, at))
    calls = {f"{format_size(size)}, next to a rule": it for size, it in one.calls_beside.items()}
    if one.calls_outside is not None:
        size, ratio = one.calls_outside
        where = f"sizes without a rule up to {format_size(size)}, whose time launches determine"
        calls = {where: ratio, **calls}
    for where, ratio in calls.items():
        if ratio.low > 1:
            reach = f"{ratio.low - 1:+.1%} to {ratio.high - 1:+.1%}"
            text = f"{where}: a call costs {ratio.ratio - 1:+.1%} ({reach}) with the artifact"
            evidence = _evidence(ratio, where)
            yield Finding("costlier-calls", "note", text, subject, evidence=evidence)
    if one.unmeasured:
        sizes = ", ".join(map(format_size, one.unmeasured))
        text = f"the default stays, but was not measured with these files, at {sizes}"
        yield Finding("default-kept", "note", text, subject)
    for size, ratio in one.harmed.items():
        text = f"{format_size(size)} has no rule and is slower with the artifact"
        yield _harmful(text, ratio, format_size(size), subject, one.largest_loss)
    for size in one.failed:
        text = f"the artifact failed at {format_size(size)}"
        yield Finding("failing-settings", "bad", text, subject)
    if not proof.proven and len(result.operations) > 1:
        text = f"{no_gain(one.is_search_complete)} for this operation"
        yield Finding("no-gain", "note", text, subject, evidence=_not_faster([one]))


def _not_faster(operations: Sequence[OperationResult]) -> tuple[Evidence, ...]:
    """The speed-ups of rules that are not deployed, with their intervals."""
    dropped = [
        (lost.estimate, f"{one.operation} {_where(lost.rule)}")
        for one in operations
        for lost in (one.proof.dropped if one.proof is not None else ())
    ]
    known = [evidence_of_speed_up(ratio, at) for ratio, at in dropped if ratio is not None]
    return tuple(chain.from_iterable(known[:MOST_NAMED]))


def _dropped(one: OperationResult, proof: Proof, dropped: Dropped) -> str:
    """The reason why a rule is not deployed. Another one may be, at some of its sizes."""
    rule, name = dropped.rule, one.choices[dropped.rule.variant].name
    others = [each.rule for each in proof.proven]
    if any(own.low_bytes <= rule.high_bytes and rule.low_bytes <= own.high_bytes for own in others):
        return f"{name} is not used {_where(rule)}: {dropped.reason}"
    return f"the default stays {_where(rule)} instead of {name}: {dropped.reason}"


def _row(one: OperationResult, proven: Proven) -> tuple[str, ...]:
    rule = proven.rule
    worst, choice = proven.worst_bytes, one.choices[rule.variant]
    after = choice.name if choice.program_changes else _ran(one.tuned, proven)
    return (
        format_size(rule.low_bytes),
        format_size(rule.high_bytes),
        choice.name,
        speed_up(proven.estimate),
        f"{1 / proven.by_size[worst].ratio:.3f} at {format_size(worst)}",
        _ran(one.usual, proven),
        after,
    )


def _where(rule: Rule) -> str:
    low, high = format_size(rule.low_bytes), format_size(rule.high_bytes)
    return f"at {low}" if low == high else f"from {low} to {high}"


def _ran(found: Mapping[int, Explanation], proven: Proven) -> str:
    """What ran at the sizes of a rule: each different choice once."""
    ran = (what_ran(one) for size, one in sorted(found.items()) if proven.rule.covers(size))
    return ", ".join(dict.fromkeys(ran)) or "unknown"


def _program_changes(operations: Sequence[OperationResult]) -> list[Assignment]:
    """What the program has to change for proven rules."""
    found = {
        change
        for one in operations
        if one.proof is not None
        for proven in one.proof.proven
        for change in one.choices[proven.rule.variant].program_changes
    }
    return sorted(found, key=lambda change: (change.name, change.value))


def _program_change(change: Assignment) -> Listing:
    """How a program allocates or registers the buffers of its operations, in torch."""
    how, argument = _CHANGED[change.name, change.value]
    registers = f"backend.register_mem_pool(pool{argument})  # after the allocation"
    return Listing(
        f"program change: input and output have to be {how}. In torch, on all ranks:",
        [
            'backend = torch.distributed.group.WORLD._get_backend(torch.device("cuda"))',
            "pool = torch.cuda.MemPool(backend.mem_allocator)",
            "with torch.cuda.use_mem_pool(pool):",
            '    buffer = torch.empty(elements, device="cuda")  # all that the operations use',
            *([registers] if change.name == REGISTRATION else []),
        ],
    )


def _option_change(options: Mapping[str, str]) -> Listing:
    """The options that the program has to give its communicator, and how torch does it."""
    given = " ".join(f"{name}={value}" for name, value in options.items())
    return Listing(
        f"program change: create the communicator with {given} in ncclConfig_t "
        "(ncclCommInitRankConfig); other communicators keep their channels. In torch:",
        [
            "options = torch.distributed.ProcessGroupNCCL.Options()",
            *(
                f"options.config.{_TORCH_OPTIONS[name]} = {value}"
                for name, value in options.items()
            ),
            'torch.distributed.init_process_group("nccl", pg_options=options)',
            "# or, for a separate group, torch.distributed.new_group(ranks, pg_options=options)",
        ],
    )


def _table_of_costs(cost: SmCost, operations: Sequence[OperationResult]) -> Iterator[Table]:
    known = {one.operation: one for one in operations}
    rows = [
        (
            f"{one.case.operation} {one.case.size_words()}",
            summary.work.describe(),
            when,
            *_beside(summary, ran.get(one.case.size_bytes)),
        )
        for one in cost.cases
        for when, summary, ran in (
            ("before", one.before, known[one.case.operation].usual),
            ("after", one.after, known[one.case.operation].tuned),
        )
        if summary is not None
    ]
    if any(map(_has_figures, cost.cases)):
        yield Table(
            "SM cost: the slow-down of a matrix product beside the collective",
            ("case", "product", "", "channels", "product, times as long", "collective"),
            rows,
            "<<<>>>",
            [f"measured by cclmark overlap: journal {plain(cost.journal)}"],
        )


def _beside(summary: OverlapSummary, ran: Explanation | None) -> tuple[str, ...]:
    channels = str(ran.channels) if ran is not None and ran.channels else ""
    if summary.compute is None or summary.communication is None:
        return channels, f"{summary.status}: {plain(summary.reason)}"
    return channels, slow_down_text(summary.compute), slow_down_text(summary.communication)


def _has_figures(one: CaseCost) -> bool:
    return any(part is not None and part.compute is not None for part in (one.before, one.after))


def _of_costs(cost: SmCost) -> Iterator[Finding]:
    """The slow-downs before and after, which texts have in a table, or why they are unknown."""
    if not any(map(_has_figures, cost.cases)):
        parts = [part for one in cost.cases for part in (one.before, one.after) if part is not None]
        reason = cost.reason or next((part.reason for part in parts if part.reason), "unknown")
        yield Finding("sm-cost", "unknown", plain(f"SM cost: not measured: {reason}"))
    for one in cost.cases:
        at = f"{one.case.operation} {one.case.size_words()}"
        figures = {
            when: part.compute
            for when, part in (("before", one.before), ("after", one.after))
            if part is not None and part.compute is not None
        }
        if figures:
            words = ", ".join(f"{when} {slow_down_text(each)}" for when, each in figures.items())
            yield Finding(
                "sm-cost",
                "note",
                f"SM cost beside {at}: slow-down {words}",
                is_outcome=True,
                evidence=tuple(
                    Evidence.of("compute_slow_down", each.ratio, f"{at} {when}")
                    for when, each in figures.items()
                ),
            )


def _document_of_environment(result: EnvironmentResult) -> Document:
    proof = result.proof
    combinations = counted(result.combinations, "combination")
    facts = [("tuned", _series(case)) for case in result.cases]
    facts.append(("tried", f"{combinations} of {', '.join(result.tried)}"))
    if result.harmful:
        harmful = counted(result.harmful, "combination")
        words = f"but slower than the default by more than {LARGEST_LOSS:.0%} at a size"
        facts.append(("faster", f"{words}: {harmful}"))
    facts += [("failed", plain(one)) for one in result.failures]
    reasons = by_key((plain(reason), name) for name, reason in result.refused.items())
    facts += [("not tried", f"{reason}: {', '.join(names)}") for reason, names in reasons.items()]
    blocks: list[Block] = [Facts(facts)]
    findings: list[Finding] = []
    notes: list[str] = []
    if proof is not None:
        blocks += _tables_of_environment(result, proof)
        findings += _of_proof(result, proof)
    estimate = None if proof is None else proof.estimate
    if not result.files and (proof is None or not (proof.harmed or proof.failed or proof.costly)):
        known = () if estimate is None else evidence_of_speed_up(estimate, "all sizes")
        text = no_gain(result.is_search_complete)
        findings.append(Finding("no-gain", "note", text, evidence=known))
    if result.files and result.replaced:
        notes.append(
            f"compared with {plain(in_words(result.replaced))} of the environment, not with the "
            f"default of the library: unset {' and '.join(map(plain, result.replaced))} and repeat "
            "the command to compare with that"
        )
    if result.files:
        notes.append(
            "the variables apply to the whole program: operations and sizes that were not measured "
            "have them too"
        )
    is_decided = estimate is not None and not estimate.low <= 1 <= estimate.high
    figures = [f"{_MEAN}: {speed_up(estimate)}"] if estimate and is_decided else []
    is_proven = result.files and proof is not None and proof.is_proven
    return Document(
        _TITLE,
        "",
        findings=findings,
        closing=blocks,
        figures=figures,
        head_figures=[*_gains_of_environment(proof)] if proof is not None and is_proven else [],
        notes=notes,
    )


def _gains_of_environment(proof: EnvironmentProof) -> Iterator[HeadFigure]:
    """The mean speed-up, and the largest one that is certain."""
    if proof.estimate is not None:
        value = f"{1 / proof.estimate.ratio:.3f}"
        yield HeadFigure("mean speed-up", value, "×", "over all sizes")
    certain = [(ratio, place) for place, ratio in proof.by_place if ratio.high < 1]
    if certain:
        ratio, (operation, size_bytes) = min(certain, key=lambda one: one[0].ratio)
        note = f"{operation} of {format_size(size_bytes)}"
        yield HeadFigure("largest speed-up", f"{1 / ratio.ratio:.3f}", "×", note)


def _tables_of_environment(result: EnvironmentResult, proof: EnvironmentProof) -> Iterator[Table]:
    """A table for each operation, and the settings."""
    for case in result.cases if proof.by_place else ():
        rows = [
            (
                *(format_size(place[1]), speed_up_words(ratio)),
                *(what_ran(dict(side).get(place)) for side in (result.usual, result.tuned)),
            )
            for place, ratio in proof.by_place
            if place[0] == case.operation
        ]
        own = [ratio for place, ratio in proof.by_place if place[0] == case.operation]
        numbers = [(row, 1, speed_up(ratio)) for row, ratio in enumerate(own)]
        head = ("size", "speed-up (95 %)", "before", "after")
        yield Table(_series(case), head, rows, "<<<<", numbers=numbers)
    settings = [
        (f"{name}={value}", _remark(name, result)) for name, value in result.variables.items()
    ]
    # Without a proof they are only the best of the search.
    is_proven = result.proof is not None and result.proof.is_proven
    title = "the fastest settings" if is_proven else "the fastest of the search, not proven"
    yield Table(title, ("setting", "remark"), settings, "<<")


def _remark(name: str, result: EnvironmentResult) -> str:
    replaced = [f"compared with {result.replaced[name]}"] if name in result.replaced else []
    return plain("; ".join(filter(None, (*replaced, result.tried.get(name, "")))))


def _of_proof(result: EnvironmentResult, proof: EnvironmentProof) -> Iterator[Finding]:
    estimate, at_all = proof.estimate, "all sizes"
    if proof.is_proven and estimate is not None:
        yield _proven(estimate, at_all, in_words(result.variables), result)
    if proof.objection:
        known = () if estimate is None else evidence_of_speed_up(estimate, at_all)
        yield Finding("no-gain", "note", f"not proven: {proof.objection}", evidence=known)
    for place, ratio in proof.harmed.items():
        at = _words(place, result)
        yield _harmful(f"slower at {at}", ratio, at)
    for place, ratio in proof.costly:
        at = _words(place, result)
        text = f"a call costs more at {at}, because launches determine its time"
        yield _harmful(text, ratio, at)
    for place in proof.failed:
        yield Finding("failing-settings", "bad", f"failed at {_words(place, result)}")
    if proof.harmed or proof.costly or proof.failed:
        text = "no file is written: an environment applies to all sizes"
        yield Finding("artifact-withheld", "look", text)
    if proof.is_proven and proof.unguarded:
        worst = {_words(place, result): ratio for place, ratio in proof.unguarded.items()}
        where = ", ".join(f"{at}: {speed_up(ratio)}" for at, ratio in worst.items())
        text = f"a loss of {LARGEST_LOSS:.0%} is not excluded at {where}"
        figures = tuple(figure for at, ratio in worst.items() for figure in _evidence(ratio, at))
        yield Finding("loss-not-excluded", "note", text, evidence=figures)
    if proof.is_proven and proof.call is not None and proof.may_cost:
        text = f"where launches determine its time, a call costs {change(proof.call)}, which may be"
        yield Finding(
            "costlier-calls",
            "note",
            f"{text} noise",
            advice="raise --proof-rounds",
            evidence=_evidence(proof.call, "calls"),
        )


def _words(place: Place, result: EnvironmentResult) -> str:
    size = format_size(place[1])
    return size if len(result.cases) == 1 else f"{place[0]} {size}"


def _headline(run: NamedRun) -> str:
    """The main figures of the result, or what takes their place."""
    result = result_of(run.journal.footer)
    if result is None:
        return OF_TRIALS.headline(run)
    document = document_of_result(result)
    concluded = ("no-proof", "artifact-withheld", "no-gain")
    found = [one.sentence for one in document.findings if one.id in concluded and not one.subject]
    return sentence("; ".join([*document.figures, *found]))


REPORT = replace(OF_TRIALS, title="tuning", document=document_of_tuning, headline=_headline)
