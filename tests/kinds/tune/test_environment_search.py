"""What an environment can be tuned with, the search for one without noise, and its proof."""

import math
import random
import re

import msgspec
import pytest

from cclmark.analysis.paired import CONTROL, DEFAULT
from cclmark.kinds.tune import environment_search as environments
from cclmark.kinds.tune.figures import Trio, prove_environment
from cclmark.work.setting_fields import LibrarySetting
from goldens import require_golden
from simulated_trials import driven

LADDER = environments.Axis("LADDER", ("1", "2", "4", "8", "16"), (0, 4), usual=2, ordered=True)
SWITCH = environments.Axis("SWITCH", ("0", "1"), (1,), usual=0)
WORD = environments.Axis("WORD", ("a", "b"), (0, 1))
SPACE = environments.EnvironmentSpace([LADDER, SWITCH, WORD])


def run(truth, *, stop=math.inf, seed=1, fails=""):
    """The result; ``truth``: the logarithm of the ratio to the default by variables and cell.
    ``fails``: a variable with which no trial ends well.
    """
    draw, search = random.Random(seed), environments.EnvironmentSearch(SPACE, 2)

    def times_of(batch):
        times = {}
        for number, cell in batch.cells:
            combination = () if number in (DEFAULT, CONTROL) else search.combination(number)
            values = SPACE.variables(combination)
            log = truth(values, cell) + draw.gauss(0, 1e-3)
            times[number, cell] = None if fails in values else 1e-5 * math.exp(log)
        return times

    return *driven(search.run(), times_of, stop), search


def test_a_gain_over_all_sizes_counts_unless_one_is_harmed():
    def found(*logs):
        return run(lambda values, cell: logs[cell] * ("SWITCH" in values))[0]

    assert found(0.1, -0.11).best == ()
    assert SPACE.variables(found(0.015, -0.11).best) == {"SWITCH": "1"}
    harmful = found(0.05, -0.3)
    assert harmful.best == ()
    assert [SPACE.variables(one) for one in harmful.harmful] == [{"SWITCH": "1"}]


def test_what_fails_is_no_candidate_any_more():
    found, batches, search = run(
        lambda v, _: -0.5 * ("SWITCH" in v) - 0.1 * ("WORD" in v), fails="SWITCH"
    )
    assert set(SPACE.variables(found.best)) == {"WORD"}
    [failed, *others] = found.failed
    assert SPACE.variables(failed) == {"SWITCH": "1"}
    cells = [(one.number, number) for one in batches for number, cell in one.cells if cell == 0]
    tried = [(at, search.combination(one)) for at, one in cells if one > DEFAULT]
    assert [at for at, one in tried if one == failed] == [0]
    assert all("SWITCH" in SPACE.variables(one) for one in others)


def test_a_default_that_fails_ends_the_search():
    process = environments.EnvironmentSearch(SPACE, 1).run()
    batch = next(process)
    with pytest.raises(StopIteration) as end:
        for _ in range(500):
            times = {cell: None if cell[0] == DEFAULT else 1e-5 for cell in batch.cells}
            batch = process.send(times)
    assert end.value.value.best == ()


def test_a_deadline_keeps_what_is_better_so_far_and_leaves_the_likely_best_to_the_proof():
    def truth(values, _cell):
        return -0.3 * ("SWITCH" in values) - 0.1 * (values.get("WORD") == "b")

    found, _, _ = run(lambda values, _: -0.3 * ("SWITCH" in values), stop=6)
    assert (SPACE.variables(found.best), found.complete) == ({"SWITCH": "1"}, False)
    assert found.estimate.difference == pytest.approx(-0.3, abs=0.002)
    found, batches, _ = run(truth, stop=1)
    assert (SPACE.variables(found.best), found.complete) == ({"SWITCH": "1"}, False)
    assert (found.estimate, len(batches)) == (None, 1)
    for seed in range(20):  # a difference within the noise, of 0.1 %, and a loss of one size
        assert run(lambda v, _: -0.001 * ("SWITCH" in v), stop=1, seed=seed)[0].best == ()
        assert run(lambda v, at: (0.1, -0.5)[at] * ("SWITCH" in v), stop=1, seed=seed)[0].best == ()


def test_batches_follow_from_the_times_with_the_default_at_both_ends():
    first, again = (run(lambda v, _: -0.1 * ("SWITCH" in v), seed=5)[1] for _ in range(2))
    assert first == again
    for batch in run(lambda *_: 0.0)[1]:
        numbers = list(dict.fromkeys(number for number, _ in batch.cells))
        assert {numbers[0], numbers[-1]} == {DEFAULT, CONTROL}
        assert len(batch.cells) == 2 * len(numbers)


def rounds_of(ratio):
    draw = random.Random(3)

    def time(log=0.0):
        return 1e-5 * math.exp(log + draw.gauss(0, 0.002))

    return [
        {("all_reduce", 1 << size): Trio(time(), time(), time(ratio(size))) for size in range(4)}
        for _ in range(7)
    ]


@pytest.mark.parametrize(
    ("log", "of_one_size", "objection", "harmed", "unguarded"),
    [
        (0.05, 0.05, "not faster", 4, 0),
        (-0.0005, -0.0005, "noise|not faster", 0, 0),
        # A size that loses more than 2 % withholds it, and one whose loss is not excluded does not.
        (-0.3, 0.05, "", 1, 0),
        (-0.3, 0.0195, "", 0, 1),
    ],
)
def test_losses_of_all_sizes_and_of_one(log, of_one_size, objection, harmed, unguarded):
    proof = prove_environment(rounds_of(lambda size: of_one_size if size == 2 else log))
    assert bool(proof.objection) == bool(objection)
    assert re.search(objection, proof.objection)
    assert (len(proof.harmed), len(proof.unguarded)) == (harmed, unguarded)
    assert {*proof.harmed, *proof.unguarded} <= {("all_reduce", 1 << size) for size in range(4)}
    assert proof.is_proven == (not objection and not harmed)


def test_an_environment_that_fails_is_refused_and_rounds_without_the_default_do_not_count():
    rounds = rounds_of(lambda _: -0.1)
    rounds[3]["all_reduce", 4] = Trio(1e-5, 1e-5, None)
    proof = prove_environment(rounds)
    assert (proof.failed, proof.is_proven) == ([("all_reduce", 4)], False)
    rounds[3]["all_reduce", 4] = Trio(None, 1e-5, 1e-5)
    assert "6 complete rounds, 7 are required" in prove_environment(rounds).objection


def candidates(ccl, operations=("all_reduce",), environment=None, version="", **options):
    return environments.candidates_of(ccl, version, operations, environment or {}, **options)


def first_values(axis):
    return [axis.values[at] for at in axis.first]


def integer(**fields):
    base = {"name": "MINE", "effect": "x.", "form": "integer", "deployed_by": ["environment"]}
    return msgspec.convert({**base, **fields}, LibrarySetting)


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({"default": "16"}, [4, 8, 32, 64, 128]),
        ({"default": "16", "minimum": 8, "maximum": 32}, [8, 32]),
        ({"form": "size", "default": "0", "maximum": 512}, [2, 8, 32, 128, 512]),
        ({"form": "size", "default": "0"}, [4096, 16384, 65536, 262144, 1048576]),
        ({"default": "-2"}, [1, 4, 16, 64, 256]),
        ({"minimum": 1, "maximum": 32}, [1, 2, 4, 8, 16, 32]),
        ({"form": "size", "default": "65536"}, [4096, 16384, 32768, 131072, 262144, 1048576]),
        # Without known values there is nothing to try.
        *((one, None) for one in ({}, {"minimum": 1}, {"form": "text"})),
        ({"default": "4", "minimum": 4, "maximum": 4}, None),
    ],
)
def test_ladders_are_around_the_default_and_within_the_limits(fields, first):
    axis = environments.axis_of(integer(**fields))
    if first is None:
        assert axis is None
        return
    values, default = [int(one) for one in axis.values], fields.get("default", "")
    assert [int(one) for one in first_values(axis)] == first
    assert axis.ordered and len(first) <= 6
    assert values == sorted(set(values))
    is_tried = default.isdecimal() and int(default) > 0
    usual = "" if axis.usual is None else axis.values[axis.usual]
    assert usual == (default if is_tried else "")


def test_values_that_conflict_with_the_defaults_of_others_are_tried_once_these_have_changed():
    space = candidates("hccl").space
    pcie, roce = {"HCCL_INTRA_PCIE_ENABLE": "0"}, {"HCCL_INTRA_ROCE_ENABLE": "1"}
    tried = [space.variables(one) for one in space.changes(())]
    assert pcie in tried and roce not in tried
    at = [axis.name for axis in space.axes].index("HCCL_INTRA_PCIE_ENABLE")
    off = ((at, list(space.axes[at].values).index("0")),)
    assert pcie | roce in [space.variables(one) for one in space.changes(off)]


@pytest.mark.parametrize("environment", [{}, {"NCCL_NVLS_ENABLE": "0"}, {"NCCL_NVLS_ENABLE": "1"}])
@pytest.mark.parametrize("only", [(), ("NCCL_ALGO", "NCCL_NVLS_ENABLE")])
@pytest.mark.parametrize("ccl", ["flagcx", "nccl", "rccl"])
def test_multicast_is_never_tried(ccl, environment, only):
    operations = ["all_reduce", "all_gather", "reduce_scatter"]
    axes = candidates(ccl, operations, environment, only=only).space.axes
    values = [f"{one.name}={value}" for one in axes for value in one.values]
    assert values
    assert not [one for one in values if "NVLS" in one.upper()]


INLINE = "CCLMARK_SHM_INLINE_BYTES"
#: Libraries, operations, and other conditions.
CANDIDATES = [
    # Between hosts more settings have an effect.
    *(("hccl", "all_reduce", {"hosts": hosts}) for hosts in (1, 2)),
    # With the settings of the library below it; some are of one operation.
    ("flagcx", "all_reduce", {}),
    ("flagcx", "all_gather", {"only": ("FLAGCX_UNIRUNNER_USE_RINGAG",)}),
    ("oneccl", "all_reduce", {}),
    *((ccl, "all_reduce", {}) for ccl in ("maca-mccl", "musa-mccl")),  # no known values
    ("shm", "all_reduce", {}),
    *(("bridge", operation, {}) for operation in ("all_reduce", "all_gather")),
    *(
        ("nccl", "all_reduce", {"version": version, "only": ("NCCL_ALGO",)})
        for version in ("2.12.12", "2.28.9")
    ),
    # A variable that is set stays, unless it is named: then it is the default.
    ("shm", "all_reduce", {"environment": {INLINE: "1K"}}),
    ("shm", "all_reduce", {"environment": {INLINE: "1K"}, "only": (INLINE,)}),
    # A threshold that is off is searched around the default of the library.
    ("shm", "all_reduce", {"environment": {INLINE: "0"}, "only": (INLINE,)}),
]


def test_what_is_tried_and_what_is_not():
    lines = []
    for ccl, operation, options in CANDIDATES:
        found = candidates(ccl, [operation], **options)
        lines.append(f"{ccl}, {operation}, {options}")
        for axis in found.space.axes:
            usual = "unknown" if axis.usual is None else axis.values[axis.usual]
            order = "in order" if axis.ordered else "without order"
            first = " ".join(first_values(axis))
            lines.append(f"  {axis.name}: {' '.join(axis.values)}")
            lines.append(f"    first {first}; default {usual}; {order}")
        lines += [f"  not {name}: {reason}" for name, reason in found.refused.items()]
    require_golden("texts/tune-candidates.txt", "\n".join([*lines, ""]))
