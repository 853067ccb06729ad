"""Simulated responses of settings: true times by variant and size, and the noise of measuring them.

Twelve sizes; a variant is one of three algorithms, three protocols and sixteen numbers of channels.
The noise is what was seen on devices: log-normal with 0.65 %, and five of a hundred times up to
three times as long. The cost of a call, where launches set it, varies by 2 %.
"""

import itertools
import math
import random
from dataclasses import dataclass

from cclmark.analysis.paired import CONTROL, DEFAULT
from cclmark.kinds.tune.figures import Trio, prove, ratios_of
from cclmark.kinds.tune.search import Space, rules_of, search
from simulated_trials import driven

LAUNCH_BOUND = 4  # the number of sizes, the smallest, whose times launches set
SIZES = [1 << (16 + place) for place in range(12)]
CHANNELS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64)
COARSE = (0, 1, 3, 5, 8, 10, 12, 14, 15)  # places of CHANNELS
COORDINATES = dict(
    enumerate(itertools.product(range(3), range(3), range(len(CHANNELS))), DEFAULT + 1)
)
SPACE = Space(COORDINATES, (False, False, True))
FIRST = [variant for variant, place in COORDINATES.items() if place[2] in COARSE]
NOISE = 0.0065
OUTLIERS = 0.05
CALL_NOISE = 0.02
COSTLY = 0.06  # a true logarithm of the cost of a call that the proof must not miss


class Table:
    """The response ``name``, drawn with ``seed``, and the noise of measuring it.

    ``drift``: of the logarithm of the time, from cell to cell. ``level``: how much longer launches
    take in every second process. ``per_channel``: of the logarithm of the cost of a call, where
    launches set it; the times are those of the device then. None: only calls are timed.
    """

    def __init__(self, name, seed, *, drift=0.0, level=0.0, per_channel=None):
        self.draw = random.Random(f"{name} {seed}")
        self.truth = RESPONSES[name](self.draw)
        self.drift, self.level, self.clock = drift, level, 0
        self.per_channel = per_channel

    def ratio(self, variant, size):
        return 0.0 if variant in (DEFAULT, CONTROL) else self.truth[variant, size]

    def best(self, size):
        return min(0.0, *(self.truth[variant, size] for variant in COORDINATES))

    def call_ratio(self, variant, size):
        if variant in (DEFAULT, CONTROL) or size >= LAUNCH_BOUND or not self.per_channel:
            return 0.0
        return self.per_channel * CHANNELS[COORDINATES[variant][2]]

    def calls(self, cells):
        """The costs of a call in one process, where launches set them."""
        if self.per_channel is None:
            return {}
        level = self.draw.choice((0.0, self.level))
        return {
            (variant, size): 1e-4
            * math.exp(self.call_ratio(variant, size) + level + self.draw.gauss(0, CALL_NOISE))
            for variant, size in cells
            if size < LAUNCH_BOUND
        }

    def times(self, cells, *, one_process=False):
        """Of one process for each variant, or of one for all cells."""
        found, levels = {}, {}
        for variant, size in cells:
            process = 0 if one_process else variant
            level = levels.setdefault(process, self.draw.choice((0.0, self.level)))
            level *= size < LAUNCH_BOUND and self.per_channel is None
            self.clock += 1
            log = self.ratio(variant, size) + level + self.draw.gauss(0, NOISE)
            log += self.drift * self.clock
            if self.draw.random() < OUTLIERS:
                log += math.log(self.draw.uniform(1, 3))
            found[variant, size] = 1e-4 * 1.8**size * math.exp(log)
        return found


def _bowl(channels, best, width):
    """How much slower another number of channels than the best one is."""
    return width * math.log2(CHANNELS[channels] / CHANNELS[best]) ** 2


def _by_size(response):
    return {
        (variant, size): response(size, *place)
        for variant, place in COORDINATES.items()
        for size in range(len(SIZES))
    }


def nothing(draw):
    """No setting has any effect."""
    return _by_size(lambda *_: 0.0)


def no_gain(draw):
    """Some settings have no effect, the others are slower, down to half of the speed."""
    slower = {place: draw.choice((0.0, draw.uniform(0, 0.7))) for place in COORDINATES.values()}
    return _by_size(lambda size, *place: slower[place])


def planted(draw):
    """One peak; the best number of channels grows with the size, and the gain does too."""
    algorithm, protocol = draw.randrange(3), draw.randrange(3)
    first, gain = draw.randrange(6), draw.uniform(0.08, 0.3)

    def response(size, a, p, c):
        other = 0.15 * (a != algorithm) + 0.1 * (p != protocol)
        return other + _bowl(c, min(15, first + size), 0.03) - gain * size / 11

    return _by_size(response)


def peaks(draw):
    """Three peaks over the channels, the best of them anywhere."""
    places = draw.sample(range(len(CHANNELS)), 3)
    gains = draw.sample((0.2, 0.15, 0.1), 3)
    algorithm = draw.randrange(3)

    def response(size, a, p, c):
        peak = min(_bowl(c, at, 0.4) - gain for at, gain in zip(places, gains, strict=True))
        return min(peak, 0.3) + 0.2 * (a != algorithm) + 0.04 * p

    return _by_size(response)


def interaction(draw):
    """Two settings that are slow one by one and fast together, from some size on."""
    algorithm, protocol = draw.randrange(3), draw.randrange(3)
    start, best = draw.randrange(3, 9), draw.randrange(len(CHANNELS))

    def response(size, a, p, c):
        agreed = (a == algorithm) + (p == protocol)
        together = -0.12 if size >= start else 0.05
        return (0.06, 0.1, together)[agreed] + min(_bowl(c, best, 0.02), 0.3)

    return _by_size(response)


def small_symmetric(draw):
    """One protocol is 40 % faster for small messages; large ones gain a little from channels."""
    protocol = draw.randrange(3)
    return _by_size(
        lambda size, a, p, c: (
            (-0.5 if p == protocol else 0.02) if size < LAUNCH_BOUND else 0.004 * (15 - c) - 0.03
        )
    )


RESPONSES = {
    one.__name__: one for one in (nothing, no_gain, planted, peaks, interaction, small_symmetric)
}


@dataclass(frozen=True)
class Judged:
    """``missed``: the share of sizes whose best variant of the search is more than 1 % slower than
    the truly best one. ``false_gain``: whether a rule was proven whose true gain is none.
    ``slow``: whether a proven rule contains a size that is truly slower by more than 2 %.
    ``costly``: whether it contains a size whose calls truly cost more by COSTLY.
    ``gain``, ``possible``: means over sizes of the true logarithms with proven rules and at best.
    """

    missed: float
    false_gain: bool
    slow: bool
    costly: bool
    proven: int
    cells: int
    gain: float
    possible: float


def judged(table, *, rounds=10, budget=None, first_size=0):
    """Searches, proves, and compares the outcome with the truth. ``first_size``: of ``missed``."""
    found = searched(table, budget)
    rules = rules_of(found, SIZES)
    measured, calls = proof_rounds(table, rules, rounds)
    proof = prove(rules, measured, ratios_of(calls))
    judged_sizes = range(first_size, len(SIZES))
    missed = sum(table.ratio(found.best[at], at) > table.best(at) + 0.01 for at in judged_sizes)
    true = [
        [table.ratio(rule.variant, at) for at, size in enumerate(SIZES) if rule.covers(size)]
        for rule in proof.rules
    ]
    return Judged(
        missed / len(judged_sizes),
        any(sum(logs) >= 0 for logs in true),
        any(max(logs) > math.log(1.02) for logs in true),
        any(
            table.call_ratio(rule.variant, at) > COSTLY
            for rule in proof.rules
            for at, size in enumerate(SIZES)
            if rule.covers(size)
        ),
        len(true),
        found.measured,
        sum(map(sum, true)) / len(SIZES),
        sum(map(table.best, range(len(SIZES)))) / len(SIZES),
    )


def searched(table, budget=None):
    """The result of a search in the table, which ends before it measures more cells than that."""
    cells = 0

    def times_of(batch):
        nonlocal cells
        cells += len(batch.cells)
        return table.times(batch.cells) if budget is None or cells <= budget else None

    return driven(search(SPACE, FIRST, len(SIZES)), times_of)[0]


def proof_rounds(table, rules, rounds):
    """Fresh rounds of the default, its repetition and all rules, every one in turn first.

    Returns the judged times and the costs of calls.
    """
    found, calls = [], []
    for number in range(rounds):
        used = [
            next((rule.variant for rule in rules if rule.covers(size)), DEFAULT) for size in SIZES
        ]
        arms = {
            "default_s": [DEFAULT] * len(SIZES),
            "control_s": [CONTROL] * len(SIZES),
            "tuned_s": used,
        }
        order = sorted(arms, reverse=bool(number % 2))
        measured, launched = {}, {}
        for arm in order:
            cells = [(variant, size) for size, variant in enumerate(arms[arm])]
            measured[arm] = list(table.times(cells, one_process=True).values())
            launched[arm] = list(table.calls(cells).values())
        for times, rows in ((measured, found), (launched, calls)):
            rows.append(
                {
                    SIZES[place]: Trio(**{arm: times[arm][place] for arm in arms})
                    for place in range(len(times["default_s"]))
                }
            )
    return found, calls
