"""Trainings as other programs configure them, and how one of ours differs from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cclmark.work.models import MODELS
from cclmark_training.choices import ADAMW, MIXED
from cclmark_training.layout import DIMENSIONS, REPLICAS, SHARDS, MeshLayout
from cclmark_training.plan import Training


@dataclass(frozen=True)
class Recipe:
    """The numbers of a training. ``source``: the file that states them.

    ``layout``: without data parallelism, which takes the other ranks. ``others``: what the source
    has besides, and this product has not.
    """

    source: str
    model: str
    layout: MeshLayout
    by_sequence: bool
    global_batch: int
    micro_batch: int
    sequence: int
    dtype: str
    optimizer: str
    learning_rate: float
    others: str


RECIPES = {
    "flagscale-llama3-8b": Recipe(
        source="FlagScale, examples/llama3/conf/train/8b.yaml",
        model="llama3-8b",
        layout=MeshLayout(tp=4, pp=2),
        by_sequence=True,
        global_batch=2048,
        micro_batch=1,
        sequence=4096,
        dtype=MIXED,
        optimizer=ADAMW,
        learning_rate=1e-5,
        others="a schedule of the learning rate, clipping of gradients, weight decay of 0.01 "
        "(here 0.1), loaded weights, sums in float32 outside of the type mixed",
    )
}


def differences(one: Training) -> Iterator[str]:
    """How a training differs from its recipe."""
    recipe = RECIPES[one.recipe]
    own, whole = one.degrees, MODELS[recipe.model]
    if one.model.layers != whole.layers:
        yield f"{one.model.layers} of {whole.layers} layers"
    # The recipe leaves the number of ranks open, and with it data parallelism.
    for name in DIMENSIONS:
        mine, theirs = getattr(own, name), getattr(recipe.layout, name)
        if mine != theirs and name not in (REPLICAS, SHARDS):
            yield f"{name}={mine} instead of {theirs}"
    for name, mine, theirs in (
        ("vocabulary", one.model.vocabulary, whole.vocabulary),
        ("sequence parallel", one.by_sequence, recipe.by_sequence),
        ("global batch", one.global_batch, recipe.global_batch),
        ("micro-batch", one.micro_batch, recipe.micro_batch),
        ("sequence", one.sequence, recipe.sequence),
        ("type", one.dtype, recipe.dtype),
        ("optimizer", one.optimizer, recipe.optimizer),
        ("learning rate", one.learning_rate, recipe.learning_rate),
    ):
        if mine != theirs:
            yield f"{name} {_word(mine)} instead of {_word(theirs)}"


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
