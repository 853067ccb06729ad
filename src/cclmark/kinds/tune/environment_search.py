"""The search for the one combination of settings that is fastest over all sizes and operations.

An environment holds for a whole process: every size of every operation. So the figure of a
combination is the geometric mean of its ratios over all of them, and none may be slower by more
than LARGEST_LOSS.

The search changes one setting at a time (coordinate ascent). A *race* measures candidates next to
the default, its repetition and the best combination so far, the base, in interleaved rounds. Few
rounds decide which candidates cannot be worth more rounds, and which values of a setting are
slower than another one. The others are measured until they are significantly better than the base,
or not (the statistics of the proof, with the chance divided by the number of candidates).

1. All first values of all settings race against the base, which is the default at the beginning.
2. The best values of different settings race together, the best two, the best three, and so on.
3. The values beside those of the base race, until none is better.
4. From 1 again with the new base, without values that were significantly slower, until nothing is
   better: a setting may have an effect only together with another one.

Two settings that are slow one by one and fast together are not found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from cclmark.analysis.paired import (
    CONTROL,
    DEFAULT,
    LARGEST_CHANCE,
    Batch,
    Times,
    deviation_of,
    improves,
    log_ratio,
    order_of_round,
    paired_ratio,
    typical,
)
from cclmark.analysis.ratio import RatioEstimate
from cclmark.base.errors import UsageError
from cclmark.kinds.tune.search import LARGEST_LOSS, LEAST_COST, is_loss
from cclmark.work.libraries import library_called, listed_settings
from cclmark.work.library_settings import (
    absence_of,
    check_value,
    find_setting,
    inactive_on_one_host,
    missing_requirements,
    number_of,
    settings_of,
)
from cclmark.work.setting_fields import LibrarySetting

# The place of the value of each axis that differs from the default, by the number of the axis,
# ascending. Empty: the default.
Combination = tuple[tuple[int, int], ...]
DEFAULT_COMBINATION: Combination = ()


@dataclass(frozen=True)
class Axis:
    """One setting.

    ``values``: what can be tried, in their order if they have one (``ordered``). ``usual``: the
    place of the default among them, None if it is unknown or not among them. ``first``: the places
    with which a search begins; the others lie between or beyond these.
    """

    name: str
    values: Sequence[str]
    first: Sequence[int]
    usual: int | None = None
    ordered: bool = False


@dataclass(frozen=True)
class EnvironmentSpace:
    """``possible``: whether values can be set together, by the names of the settings."""

    axes: Sequence[Axis]
    possible: Callable[[Mapping[str, str]], bool] = lambda _: True

    def variables(self, combination: Combination) -> dict[str, str]:
        """The variables of a combination."""
        return {self.axes[axis].name: self.axes[axis].values[at] for axis, at in combination}

    def changed(self, base: Combination, changes: Iterable[tuple[int, int]]) -> Combination:
        """``base`` with other values of some axes. The default of an axis is not part of it."""
        places = {**dict(base), **dict(changes)}
        return tuple(
            (axis, at) for axis, at in sorted(places.items()) if at != self.axes[axis].usual
        )

    def changes(self, base: Combination) -> Iterator[Combination]:
        """``base`` with each first value of each axis, one changed at a time."""
        for number, axis in enumerate(self.axes):
            places = [*axis.first, *([] if axis.usual is None else [axis.usual])]
            for at in places:
                other = self.changed(base, [(number, at)])
                if other != base and self.possible(self.variables(other)):
                    yield other
            if axis.usual is None and number in dict(base):
                yield tuple(one for one in base if one[0] != number)

    def around(self, base: Combination) -> Iterator[Combination]:
        """``base`` with one of the two values before or after its own, of each axis with an order.

        Two, because adjacent values are often alike: a threshold between two measured sizes.
        """
        for number, at in base:
            axis = self.axes[number]
            for beside in (at - 1, at + 1, at - 2, at + 2) if axis.ordered else ():
                if 0 <= beside < len(axis.values):
                    other = self.changed(base, [(number, beside)])
                    if self.possible(self.variables(other)):
                        yield other


def difference(one: Combination, base: Combination) -> tuple[tuple[int, int | None], ...]:
    """The axes in which two combinations differ, with the place of ``one``, None: its default."""
    own, other = dict(one), dict(base)
    axes = sorted({*own, *other})
    return tuple((axis, own.get(axis)) for axis in axes if own.get(axis) != other.get(axis))


# The rounds of each step of a race, and how many values of a setting stay candidates after it.
_STEPS = ((2, 2), (4, 1), (8, 1), (16, 1), (24, 1))
_ROUNDS_TO_JUDGE = 8  # a candidate is accepted or refused after so many, at the earliest
_LEAST_ROUNDS_TO_KEEP = 4  # of a candidate, if the search ends early
_LEAST_VALUES = 2  # of a ratio with an interval
_DEVIATIONS = 2.0  # a candidate is dropped if so many of them do not reach a gain worth having
_MOST_TOGETHER = 4  # combinations of winners that race


Ratios = Sequence[Sequence[float]]  # for each cell the logarithms of some rounds


@dataclass(frozen=True)
class EnvironmentFound:
    """The result of a search.

    ``best``: the fastest combination, empty for the default. ``estimate``: its time over the
    default's; no proof, as the best of many is partly luck; None after one round. ``tried``: the
    number of combinations that were measured. ``failed``: those that failed at a size.
    ``harmful``: those that were faster and not accepted, because a size was slower by more than
    LARGEST_LOSS. ``complete``: whether the search ended by itself, not by a deadline.
    """

    best: Combination
    estimate: RatioEstimate | None
    tried: int
    failed: Sequence[Combination]
    harmful: Sequence[Combination]
    complete: bool


class EnvironmentSearch:
    """One search. ``cells``: the number of sizes, of all operations together."""

    def __init__(self, space: EnvironmentSpace, cells: int) -> None:
        self._space = space
        self._cells = range(cells)
        self._numbers: dict[Combination, int] = {DEFAULT_COMBINATION: DEFAULT}
        self._combinations: list[Combination] = [DEFAULT_COMBINATION]
        self._rounds: list[tuple[Times, frozenset[int]]] = []  # with those measured in full
        self._known: dict[tuple[int, int, frozenset[int]], _KnownRatios] = {}
        self._failed: dict[Combination, None] = {}
        self._harmful: dict[Combination, None] = {}
        self._slower: set[tuple[int, int | None]] = set()
        self._bases = [DEFAULT_COMBINATION]
        self._race: _Race | None = None

    def combination(self, number: int) -> Combination:
        """The combination of a variant in a batch, which is neither the default nor the control."""
        return self._combinations[number]

    def run(self) -> Generator[Batch, Times | None, EnvironmentFound]:
        """Yields rounds of cells to measure, receives their times, and returns the result.

        The caller sends None when its deadline has passed. Batches depend only on the times sent,
        so an interrupted search continues if the recorded times are sent again. A time of None
        means that the combination failed there: it is no candidate any more.
        """
        complete = True
        while True:
            try:
                yield from self._climb()
            except _EndedEarly:
                complete = False
                self._bases.append(self._best_so_far())
            except _BaseFailed:
                continue
            break
        base, estimate = self._base, None
        logs = self._logs(base, DEFAULT_COMBINATION)
        if base != DEFAULT_COMBINATION and len(logs[0]) >= _LEAST_VALUES:
            estimate = paired_ratio(logs)
        return EnvironmentFound(
            base,
            estimate,
            len(self._combinations) - 1,
            list(self._failed),
            list(self._harmful),
            complete,
        )

    @property
    def _base(self) -> Combination:
        """The best combination so far that has not failed since."""
        return next(one for one in reversed(self._bases) if one not in self._failed)

    def _climb(self) -> Generator[Batch, Times | None, None]:
        while winners := (yield from self._raced(self._space.changes(self._base))):
            self._bases.append(winners[0])
            if together := self._together(winners):
                self._bases += (yield from self._raced(together))[:1]
            while better := (yield from self._raced(self._space.around(self._base))):
                self._bases.append(better[0])

    def _raced(
        self, candidates: Iterable[Combination]
    ) -> Generator[Batch, Times | None, list[Combination]]:
        """The candidates that are significantly better than the base, the best first.

        Candidates that were measured before are not measured again: they have lost.
        """
        base = self._base
        fresh = [one for one in dict.fromkeys(candidates) if self._is_candidate(one, base)]
        race = self._race = _Race(base, len(fresh))
        left = fresh
        for rounds, values in _STEPS:
            while left and race.rounds < rounds:
                yield from self._measure(base, left)
                race.rounds += 1
                left = [one for one in left if one not in self._failed]
            left = [one for one in left if self._complete_rounds(one, base) >= _LEAST_VALUES]
            if rounds >= _ROUNDS_TO_JUDGE:
                self._judge(race, left)
                left = [one for one in left if one not in race.won and one not in race.lost]
            left = self._promising(base, left, values)
        return self._ranked(race.won, base)

    def _is_candidate(self, one: Combination, base: Combination) -> bool:
        changes = difference(one, base)
        return (
            one not in self._numbers
            and not (len(changes) == 1 and changes[0] in self._slower)
            and one != base
        )

    def _judge(self, race: _Race, candidates: Sequence[Combination]) -> None:
        for one in candidates:
            verdict = self._verdict(race, one)
            if verdict == "better":
                race.won.append(one)
            elif verdict == "harmful":
                self._harmful[one] = None
                race.lost.append(one)

    def _verdict(self, race: _Race, one: Combination) -> str:
        """better, harmful, or nothing if it is neither."""
        logs = self._logs(one, race.base)
        estimate, control = paired_ratio(logs), paired_ratio(self._control(one, race.base))
        changes = difference(one, race.base)
        if estimate.low > 1 and len(changes) == 1:
            self._slower.add(changes[0])
        if not improves(estimate, control, LARGEST_CHANCE / race.candidates):
            return ""
        to_default = self._logs(one, DEFAULT_COMBINATION)
        if any(is_loss(paired_ratio([own])) for own in to_default):
            return "harmful"
        return "better"

    def _together(self, winners: Sequence[Combination]) -> list[Combination]:
        """The best two, three, … winners of different settings together, as far as possible."""
        found: list[Combination] = []
        joined = winners[0]
        axes = {axis for axis, _ in joined}
        for one in winners[1:]:
            own = [change for change in one if change not in joined]
            if not own or any(axis in axes for axis, _ in own):
                continue
            other = self._space.changed(joined, own)
            if self._space.possible(self._space.variables(other)):
                joined = other
                axes |= {axis for axis, _ in own}
                found.append(joined)
        return found[-_MOST_TOGETHER:]

    def _promising(
        self, base: Combination, candidates: Sequence[Combination], values: int
    ) -> list[Combination]:
        """The candidates that may be worth more rounds, of each setting at most ``values``."""
        kept: list[Combination] = []
        of_axis: dict[object, int] = {}
        for one in self._ranked(candidates, base):
            changes = difference(one, base)
            key: object = changes[0][0] if len(changes) == 1 else one
            reach = self._score(one, base) - _DEVIATIONS * self._noise(one, base)
            if reach > -LEAST_COST:
                changes_alone = len(changes) == 1
                if changes_alone and self._score(one, base) > LARGEST_LOSS:
                    self._slower.add(changes[0])
                continue
            of_axis[key] = of_axis.get(key, 0) + 1
            if of_axis[key] <= values:
                kept.append(one)
        return kept

    def _best_so_far(self) -> Combination:
        """The best combination when the search ends early: the base, or a better candidate.

        Few rounds cannot show significance. If nothing is better than the default for that reason,
        it is the best combination that is likely to be faster: the proof judges it.
        """
        race = self._race
        if race is None:
            return DEFAULT_COMBINATION
        open_ones = [
            one
            for one in self._combinations[1:]
            if one not in self._failed and one not in race.won and one != race.base
        ]
        rounds = {one: self._complete_rounds(one, race.base) for one in open_ones}
        verdicts = {
            one: self._verdict(race, one) if count >= _LEAST_ROUNDS_TO_KEEP else ""
            for one, count in rounds.items()
        }
        found = [*race.won, *(one for one in open_ones if verdicts[one] == "better")]
        if not found and race.base == DEFAULT_COMBINATION:
            undecided = [one for one in open_ones if rounds[one] and not verdicts[one]]
            found = [one for one in undecided if self._is_likely(one)]
        return next(iter(self._ranked(found, race.base)), race.base)

    def _is_likely(self, one: Combination) -> bool:
        """Whether a combination appears faster than the default, and at no size slower."""
        if one in self._harmful:
            return False
        control = [log for own in self._control(one, DEFAULT_COMBINATION) for log in own]
        deviation = deviation_of(control)
        spread = abs(control[0]) if deviation is None else _DEVIATIONS * deviation
        noise = max(self._noise(one, DEFAULT_COMBINATION), abs(math.fsum(control) / len(control)))
        gain = -self._score(one, DEFAULT_COMBINATION)
        return gain > max(LEAST_COST, _DEVIATIONS * noise) and all(
            typical(own) < LARGEST_LOSS + spread for own in self._logs(one, DEFAULT_COMBINATION)
        )

    def _ranked(self, candidates: Iterable[Combination], base: Combination) -> list[Combination]:
        return sorted(candidates, key=lambda one: (self._score(one, base), self._numbers[one]))

    def _score(self, one: Combination, base: Combination) -> float:
        """The mean over all cells of the typical logarithm of the ratio to ``base``."""
        logs = self._logs(one, base)
        return math.fsum(map(typical, logs)) / len(logs)

    def _noise(self, one: Combination, base: Combination) -> float:
        """The standard error of a score, from the default and its repetition in the same rounds."""
        control = self._control(one, base)
        count = len(control[0])
        flat = [log for own in control for log in own]
        alone = (deviation_of(flat) or 0.0) / math.sqrt(len(flat))
        # All cells of a process share a part of their noise.
        means = [math.fsum(column) / len(control) for column in zip(*control, strict=True)]
        return max(alone, (deviation_of(means) or 0.0) / math.sqrt(count))

    def _logs(self, one: Combination, reference: Combination) -> Ratios:
        """For each cell the logarithms of the ratios of the rounds that measured both in full."""
        return self._ratios(self._numbers[one], self._numbers[reference])

    def _control(self, one: Combination, reference: Combination) -> Ratios:
        """The same of the default's repetition to the default, in the same rounds."""
        numbers = (self._numbers[one], self._numbers[reference])
        return self._ratios(CONTROL, DEFAULT, numbers)

    def _ratios(self, number: int, reference: int, *others: Iterable[int]) -> Ratios:
        """The caller must not keep them: they grow with the rounds."""
        wanted = frozenset({number, reference, DEFAULT, CONTROL}.union(*others))
        known = self._known.setdefault((number, reference, wanted), _KnownRatios(self._cells))
        for times, measured in self._rounds[known.rounds :]:
            if wanted <= measured:
                for cell in self._cells:
                    log = log_ratio(times, (number, cell), (reference, cell))
                    assert log is not None
                    known.logs[cell].append(log)
        known.rounds = len(self._rounds)
        return known.logs

    def _complete_rounds(self, one: Combination, base: Combination) -> int:
        return len(self._logs(one, base)[0])

    def _measure(
        self, base: Combination, candidates: Sequence[Combination]
    ) -> Generator[Batch, Times | None, None]:
        for one in (base, *candidates):
            if one not in self._numbers:
                self._numbers[one] = len(self._combinations)
                self._combinations.append(one)
        measured = {self._numbers[one] for one in (base, *candidates)} - {DEFAULT}
        order = order_of_round(measured, len(self._rounds))
        cells = tuple((number, cell) for number in order for cell in self._cells)
        times = yield Batch(len(self._rounds), cells)
        if times is None:
            raise _EndedEarly
        numbers = {number for number, _ in cells}
        missing = {number for number, cell in cells if times.get((number, cell)) is None}
        self._rounds.append((times, frozenset(numbers - missing)))
        for number, _ in cells:
            if number > DEFAULT and number in missing:
                self._failed[self._combinations[number]] = None
        if base in self._failed:
            raise _BaseFailed


class _EndedEarly(Exception):  # noqa: N818
    """The deadline has passed."""


class _BaseFailed(Exception):  # noqa: N818
    """The best combination so far has failed."""


class _KnownRatios:
    """For each cell the logarithms of a ratio in the first ``rounds`` rounds."""

    def __init__(self, cells: Sequence[int]) -> None:
        self.rounds = 0
        self.logs: list[list[float]] = [[] for _ in cells]


@dataclass
class _Race:
    """``candidates``: their number. ``won``: better than ``base``; ``lost``: judged, and not."""

    base: Combination
    candidates: int
    rounds: int = 0
    won: list[Combination] = field(default_factory=list)
    lost: list[Combination] = field(default_factory=list)


def in_words(variables: Mapping[str, str]) -> str:
    """Variables as a user sets them: ``A=1 B=2``."""
    return " ".join(f"{name}={value}" for name, value in variables.items()) or "default"


# Factors to the default of the values with which a search begins. Between and beyond them are all
# powers of two, to _REACH steps in both directions.
_FIRST_SIZES = (-4, -2, -1, 0, 1, 2, 4)
_FIRST_NUMBERS = (-2, -1, 0, 1, 2, 3)
_REACH = 8
_MOST_FIRST = 6  # values of a setting
# Of a size whose default is unknown or 0: smaller slices only cost time, larger ones are whole.
_LEAST_SIZE, _LARGEST_SIZE = 4 << 10, 1 << 30
_ENVIRONMENT = "environment"


@dataclass(frozen=True)
class EnvironmentCandidates:
    """``space``: what can be tried. ``refused``: settings that are not, with the reasons."""

    space: EnvironmentSpace
    refused: Mapping[str, str] = field(default_factory=dict)


def candidates_of(
    ccl: str,
    version: str,
    operations: Collection[str],
    environment: Mapping[str, str],
    *,
    only: Collection[str] = (),
    hosts: int = 1,
) -> EnvironmentCandidates:
    """The candidates on so many hosts.

    ``version``: the library's own text about its version. ``environment``: the variables that the
    user has set, which stay as they are. ``only``: the settings to try, all if it is empty; the
    value of one that is set counts as its default.
    """
    axes, refused = [], {}
    kept = {name: value for name, value in environment.items() if name not in only}
    for listed in settings_of(ccl):
        if only and listed.name not in only:
            continue
        value = environment.get(listed.name, listed.default)
        setting = msgspec.structs.replace(listed, default=value) if only else listed
        reason = _refusal(ccl, setting, version, operations, kept, hosts)
        words = _is_possible_alone(setting, version)
        axis = None if reason else axis_of(setting, words, listed.default)
        if axis is None:
            refused[setting.name] = reason or "without known values, or without a known default"
        else:
            axes.append(axis)
    possible = partial(_is_possible, ccl, version, dict(environment))
    return EnvironmentCandidates(EnvironmentSpace(axes, possible), refused)


def axis_of(
    setting: LibrarySetting, allowed: Sequence[str] | None = None, around: str = ""
) -> Axis | None:
    """The values of a setting, None if they are unknown or there is nothing to choose.

    ``allowed``: the words of a choice or list that may be tried, None for all. ``around``: the
    number around which to search if the default of ``setting`` is not positive.
    """
    if setting.form in ("choice", "list"):
        values = [word for word in setting.values if allowed is None or word in allowed]
        return _axis(setting, values, range(len(values)), is_ordered=False)
    if setting.form not in ("integer", "size"):
        return None
    numbers, first = _ladder(setting, around)
    return _axis(setting, [str(one) for one in numbers], first, is_ordered=True)


def _axis(
    setting: LibrarySetting, values: Sequence[str], first: Sequence[int], *, is_ordered: bool
) -> Axis | None:
    usual = next((at for at, one in enumerate(values) if _is_default(setting, one)), None)
    first = [at for at in first if at != usual]
    return Axis(setting.name, values, first, usual, is_ordered) if first else None


def _is_default(setting: LibrarySetting, value: str) -> bool:
    if setting.any_case:
        return value.lower() == setting.default.lower()
    if setting.form in ("choice", "list"):
        return value == setting.default
    return value == str(number_of(setting, setting.default))


def _ladder(setting: LibrarySetting, around: str) -> tuple[list[int], list[int]]:
    """All values of a number in ascending order, and the places of those to begin with."""
    own, other = number_of(setting, setting.default), number_of(setting, around)
    default = own if other is None or (own is not None and own > 0) else other
    low = setting.minimum if setting.minimum is not None else 1
    high = setting.maximum
    if default is None or default <= 0:
        # The library chooses by itself, or does without: all powers of two that are useful.
        if default is None and high is None:
            return [], []
        begin = max(1, low)
        if setting.form == "size" and (high is None or high > _LEAST_SIZE):
            begin = max(begin, _LEAST_SIZE)
        last = high if high is not None else begin << _REACH
        if setting.form == "size":
            last = max(begin, min(last, _LARGEST_SIZE))
        numbers = [begin]
        while numbers[-1] * 2 <= last:
            numbers.append(numbers[-1] * 2)
        step = max(1, -(-len(numbers) // _MOST_FIRST))
        return numbers, list(range((len(numbers) - 1) % step, len(numbers), step))
    steps = range(-_REACH, _REACH + 1)
    found: dict[int, int] = {}
    for step in steps:
        number = default << step if step >= 0 else default >> -step
        if number >= max(1, low) and (high is None or number <= high):
            found.setdefault(number, step)
    numbers = sorted(found)
    begin_with = _FIRST_SIZES if setting.form == "size" else _FIRST_NUMBERS
    first = [at for at, number in enumerate(numbers) if found[number] in begin_with]
    return numbers, first


def _refusal(
    ccl: str,
    setting: LibrarySetting,
    version: str,
    operations: Collection[str],
    environment: Mapping[str, str],
    hosts: int,
) -> str:
    """The reason why a setting is not tried; empty if it is."""
    library = library_called(ccl)
    own = {one.name for one in listed_settings(library)} if library is not None else set()
    missing = missing_requirements(setting, environment)
    absence = absence_of(setting, version)
    given = {name: [value] for name, value in environment.items()}
    reasons = {
        "set in the environment already, where they stay as they are": setting.name in environment,
        setting.not_tuned: bool(setting.not_tuned),
        "which cclmark never sets": bool(setting.kept_values),
        absence: bool(absence),
        "which are no variables of the environment": _ENVIRONMENT not in setting.deployed_by,
        "with an effect between hosts only": hosts == 1
        and bool(inactive_on_one_host(ccl, setting.name, given)),
        f"which affect {', '.join(setting.operations)} only": bool(setting.operations)
        and not set(setting.operations) & set(operations),
        "which are neither algorithm, protocol nor channels of the library below": (
            setting.name not in own and not setting.observed and "SMs" not in setting.costs
        ),
        f"which require {' '.join(f'{name}={one}' for name, one in missing.items())}": bool(
            missing
        ),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _is_possible_alone(setting: LibrarySetting, version: str) -> list[str]:
    """The words of a setting that may be tried.

    Words that depend on a setting that cclmark never overrides are not among them, whatever its
    value: NVLink multicast.
    """
    never = {
        word
        for conflict in setting.conflicts
        for word in conflict.values
        if (other := find_setting("nccl", conflict.variable)) is not None and other.kept_values
    }
    return [word for word in setting.values if word not in never and _fits(setting, word, version)]


def _fits(setting: LibrarySetting, value: str, version: str) -> bool:
    try:
        check_value(setting, value, version)
    except UsageError:
        return False
    return True


def _is_possible(
    ccl: str, version: str, environment: Mapping[str, str], values: Mapping[str, str]
) -> bool:
    """Whether the settings can have these values together, the others their defaults."""
    defaults = {one.name: one.default for one in settings_of(ccl) if one.default}
    together = {**defaults, **environment, **values}
    for name, value in values.items():
        setting = find_setting(ccl, name)
        assert setting is not None
        others = {other: text for other, text in together.items() if other != name}
        try:
            check_value(setting, value, version, others)
        except UsageError:
            return False
    return True


@dataclass(frozen=True)
class EnvironmentTarget:
    """``words``: what the environment is for: library, version, ranks, devices.

    ``kept``: variables of the library that the user has set: all measurements have them.
    ``replaced``: those of them whose other values are tried: what is tried is compared with them,
    not with the library's defaults.
    """

    words: str
    candidates: EnvironmentCandidates
    kept: Mapping[str, str]
    replaced: Mapping[str, str] = field(default_factory=dict)

    @property
    def comments(self) -> list[str]:
        """The conditions of the result, as lines of a comment."""
        found = [self.words]
        if self.kept:
            values = " ".join(f"{name}={value}" for name, value in self.kept.items())
            found.append(f"measured with {values}, which this file does not set")
        if self.replaced:
            values = " ".join(f"{name}={value}" for name, value in self.replaced.items())
            found.append(
                f"compared with {values} in the environment, not with the defaults of the library"
            )
        return found
