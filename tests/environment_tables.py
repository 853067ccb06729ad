"""Simulated responses of environments, whose truth is known, and the noise of measuring them."""

import math
import random
from dataclasses import dataclass

from cclmark.analysis.paired import CONTROL, DEFAULT
from cclmark.kinds.tune.environment_search import Axis, EnvironmentSearch, EnvironmentSpace
from cclmark.kinds.tune.figures import Trio, prove_environment
from simulated_trials import driven

CELLS = 12  # sizes of all operations
LAUNCH_BOUND = 4  # of them, the smallest, whose calls launches set
NOISE = 0.0065
OUTLIERS = 0.05
CALL_NOISE = 0.02
COSTLY = 0.06  # a true logarithm of the cost of a call that the proof must not miss
LADDER = [str(1 << step) for step in range(11)]
AXES = [
    Axis("LADDER_A", LADDER, (1, 3, 4, 6, 7, 9), usual=5, ordered=True),
    Axis("LADDER_B", LADDER, (1, 3, 4, 6, 7, 9), usual=5, ordered=True),
    Axis("LADDER_C", LADDER[:6], (0, 1, 2, 3, 4, 5), ordered=True),
    Axis("CHOICE_A", ("x", "y", "z"), (0, 1, 2)),
    Axis("CHOICE_B", ("0", "1"), (1,), usual=0),
    Axis("CHOICE_C", ("0", "1"), (0,), usual=1),
]
SPACE = EnvironmentSpace(AXES)


class Table:
    """The response ``name``, drawn with ``seed``.

    ``truth(combination, cell)``: the logarithm of the true ratio to the default. ``best``: the
    combination that is truly the best. ``level``: how much longer launches take in every second
    process. ``per_setting``: of the logarithm of the cost of a call, where launches set it; the
    times are those of the device then. None: only calls are timed.
    """

    def __init__(self, name, seed, *, drift=0.0, level=0.0, per_setting=None):
        self.draw = random.Random(f"{name} {seed}")
        self.truth, self.best = RESPONSES[name](self.draw)
        self.drift, self.clock = drift, 0
        self.level, self.per_setting = level, per_setting

    def mean(self, combination):
        return sum(self.truth(combination, cell) for cell in range(CELLS)) / CELLS

    def call_ratio(self, combination):
        return (self.per_setting or 0.0) * len(combination)

    def calls(self, combination):
        """The costs of a call in one process, by cell, where launches set them."""
        if self.per_setting is None:
            return []
        log = self.call_ratio(combination) + self.draw.choice((0.0, self.level))
        return [1e-4 * math.exp(log + self.draw.gauss(0, CALL_NOISE)) for _ in range(LAUNCH_BOUND)]

    def time(self, combination, cell):
        self.clock += 1
        log = self.truth(combination, cell) + self.draw.gauss(0, NOISE) + self.drift * self.clock
        if self.draw.random() < OUTLIERS:
            log += math.log(self.draw.uniform(1, 3))
        return 1e-4 * 1.8**cell * math.exp(log)


def _sum_of(effects):
    """Independent settings: ``effects`` are functions of place and cell, by axis."""
    return lambda combination, cell: sum(
        effects[axis](place, cell) for axis, place in combination if axis in effects
    )


def _bowl(best, gain, width=0.02):
    """A ladder with one peak; its default is the place 5."""
    at_default = width * (5 - best) ** 2
    scale = gain / at_default if at_default else 0.0

    def effect(place, _cell):
        return scale * width * ((place - best) ** 2 - (5 - best) ** 2)

    return effect


def nothing(_draw):
    """No setting has any effect."""
    return _sum_of({}), ()


def no_gain(draw):
    """Every setting is slower than the default, or has no effect."""
    slower = {
        (axis, place): draw.choice((0.0, draw.uniform(0.0, 0.6)))
        for axis, one in enumerate(AXES)
        for place in range(len(one.values))
    }
    return _sum_of(
        {axis: lambda place, _, axis=axis: slower[axis, place] for axis in range(len(AXES))}
    ), ()


def planted(draw):
    """Peaks of both ladders and one word; all other values are slower."""
    peaks = [draw.choice((1, 2, 3, 7, 8, 9)) for _ in range(2)]
    word, gain = draw.randrange(3), draw.uniform(0.03, 0.1)
    effects = {0: _bowl(peaks[0], draw.uniform(0.05, 0.2)), 1: _bowl(peaks[1], 0.08)}
    effects[3] = lambda place, cell: -gain * cell / 6 if place == word else 0.1
    effects[4] = lambda place, cell: 0.05
    return _sum_of(effects), ((0, peaks[0]), (1, peaks[1]), (3, word))


def harmful(draw):
    """One setting is the fastest on average and slower by 22 % at one size; another one is safe."""
    cell = draw.randrange(CELLS)
    safe = draw.choice((3, 7))
    effects = {
        4: lambda _, at: 0.2 if at == cell else -0.15,
        0: _bowl(safe, 0.06),
    }
    return _sum_of(effects), ((0, safe),)


def together(draw):
    """A setting has an effect only while another one is set, which gains a little by itself."""
    at, gain = draw.choice((2, 8)), draw.uniform(0.1, 0.3)
    inner = _bowl(at, gain)

    def truth(combination, cell):
        places = dict(combination)
        enabled = places.get(4) == 1
        return -0.03 * enabled + (inner(places[1], cell) if enabled and 1 in places else 0.0)

    return truth, ((1, at), (4, 1))


def rivals(draw):
    """Two settings that gain one by one and cancel each other."""
    gains = draw.sample((0.12, 0.06), 2)

    def truth(combination, _cell):
        places = dict(combination)
        first, second = places.get(4) == 1, places.get(5) == 0
        return 0.04 if first and second else -gains[0] * first - gains[1] * second

    return truth, ((4, 1),) if gains[0] > gains[1] else ((5, 0),)


RESPONSES = {one.__name__: one for one in (nothing, no_gain, planted, harmful, together, rivals)}


@dataclass(frozen=True)
class Judged:
    """``found``: the search's best is within 1 % of the truly best combination. ``false_gain``: a
    combination was proven whose true gain is none. ``slow``: it is truly slower by more than 2 % at
    a size. ``costly``: its calls truly cost more by COSTLY. ``proven``: whether anything was.
    ``gain`` and ``possible``: the true logarithms.
    """

    found: bool
    false_gain: bool
    slow: bool
    costly: bool
    proven: bool
    gain: float
    possible: float
    arms: int


def searched(table, rounds=None):
    """The result of a search; with ``rounds`` the deadline passes after so many."""
    search = EnvironmentSearch(SPACE, CELLS)

    def times_of(batch):
        return {
            (variant, cell): table.time(
                () if variant in (DEFAULT, CONTROL) else search.combination(variant), cell
            )
            for variant, cell in batch.cells
        }

    found, batches = driven(search.run(), times_of, math.inf if rounds is None else rounds)
    return found, sum(len({variant for variant, _ in one.cells}) for one in batches)


def judged(table, *, proof_rounds=10, rounds=None):
    """Searches, proves, and compares the outcome with the truth."""
    found, arms = searched(table, rounds)
    proof = None
    if found.best:
        arms_of_proof = ((), (), found.best)
        times, calls = [], []
        for _ in range(proof_rounds):
            times.append(
                {
                    ("all_reduce", cell): Trio(*(table.time(one, cell) for one in arms_of_proof))
                    for cell in range(CELLS)
                }
            )
            launched = zip(*(table.calls(one) for one in arms_of_proof), strict=True)
            calls.append({("all_reduce", cell): Trio(*trio) for cell, trio in enumerate(launched)})
        proof = prove_environment(times, calls)
    proven = proof is not None and proof.is_proven
    true = [table.truth(found.best, cell) for cell in range(CELLS)]
    return Judged(
        table.mean(found.best) <= table.mean(table.best) + 0.01,
        proven and sum(true) >= 0,
        proven and max(true) > math.log(1.02),
        proven and table.call_ratio(found.best) > COSTLY,
        proven,
        sum(true) / CELLS if proven else 0.0,
        table.mean(table.best),
        arms,
    )
