"""The result of tuning an environment as lines: its variables, their proof, the file."""

from __future__ import annotations

from cclmark.document.paint import Paint, unpainted
from cclmark.document.text import aligned, counted
from cclmark.kinds.tune.environment_proof import EnvironmentProof, EnvironmentResult, Place
from cclmark.kinds.tune.environment_search import in_words
from cclmark.kinds.tune.prove import change
from cclmark.kinds.tune.rules import LARGEST_LOSS
from cclmark.kinds.tune.tune_lines import effort, no_gain, search_end_line, speed_up, what_ran
from cclmark.plan.cases import Case
from cclmark.plan.setting_fields import LibrarySetting
from cclmark.plan.sizes import format_size
from cclmark.printable import plain

_HEADS = ("size", "speed-up (95 %)", "before", "after")


def environment_lines(result: EnvironmentResult, paint: Paint = unpainted) -> list[str]:
    """Returns the settings, a table for each operation, the file and the command that loads it."""
    if not result.is_complete:
        return ["", "  the run ended before its proof was complete: continue with --resume JOURNAL"]
    lines: list[str] = []
    proof = result.proof
    for case in result.cases:
        lines += ["", paint(case.series().group_words(), "bold")]
        if proof is not None and proof.by_place:
            lines += _table(case, result, proof, paint)
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
        names = plain(in_words(result.variables))
        if compared := _compared_with(result):
            lines.append(compared)
        lines += ["  artifacts", *(f"    {path}" for path in result.files)]
        lines += [
            f"  use: . {result.files[0]}    which sets {names}",
            "  the variables apply to the whole program: operations and sizes that were not "
            "measured have them too",
        ]
    rounds = 0 if proof is None else result.proof_rounds
    lines.append(effort(result.search_s, result.proof_s, rounds, result.trials))
    return lines


def _table(
    case: Case, result: EnvironmentResult, proof: EnvironmentProof, paint: Paint
) -> list[str]:
    rows: list[tuple[str, ...]] = [_HEADS]
    for place, ratio in proof.by_place.items():
        if place[0] != case.operation:
            continue
        before, after = result.usual.get(place), result.tuned.get(place)
        rows.append((format_size(place[1]), speed_up(ratio), what_ran(before), what_ran(after)))
    lines = aligned(rows, "<" * len(_HEADS))
    return [paint(lines[0], "dim"), *lines[1:]]


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
    reasons: dict[str, list[str]] = {}
    for name, reason in result.refused.items():
        reasons.setdefault(reason, []).append(name)
    lines += [
        f"  not tried, {plain(reason)}: {', '.join(names)}" for reason, names in reasons.items()
    ]
    return lines
