"""How many ranks each kind of parallelism has, and which rank has which place."""

from __future__ import annotations

import math

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.counts import AtLeastOne

TENSOR, PIPELINE, REPLICAS, SHARDS = "tp", "pp", "dp", "fsdp"
#: The dimensions of a layout and what they are in torch, in the order in which users write them.
DIMENSIONS = {
    TENSOR: "tensor parallel (parallelize_module)",
    PIPELINE: "pipeline parallel (Schedule1F1B)",
    REPLICAS: "data parallel (DistributedDataParallel)",
    SHARDS: "data parallel, parameters sharded (fully_shard)",
}
#: The dimensions of the mesh: the place in the last one changes fastest from rank to rank.
MESH = (PIPELINE, REPLICAS, SHARDS, TENSOR)
#: The group of the first and the last stage of a pipeline, which share the embedding.
TIED = "embedding"


class MeshLayout(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ranks of each dimension; their product is the number of all ranks.

    ``tp``: ranks that share each matrix. ``pp``: stages of layers. ``dp``: replicas with different
    sequences, ``fsdp``: the same with a part of the parameters each; one of both is 1.
    """

    tp: AtLeastOne = 1
    pp: AtLeastOne = 1
    dp: AtLeastOne = 1
    fsdp: AtLeastOne = 1

    @property
    def sizes(self) -> dict[str, int]:
        """The dimensions with more than one rank, in the order of DIMENSIONS."""
        return {name: size for name in DIMENSIONS if (size := int(getattr(self, name))) > 1}

    @property
    def ranks(self) -> int:
        """The number of all ranks."""
        return math.prod(self.sizes.values())

    @property
    def replicas(self) -> int:
        """The number of groups of ranks that work on different sequences."""
        return self.dp * self.fsdp

    def describe(self) -> str:
        """The layout as users write it: ``tp=2,pp=2,dp=2``."""
        return ",".join(f"{name}={size}" for name, size in self.sizes.items())

    def place_of(self, rank: int) -> tuple[int, int, int]:
        """The stage, the replica and the tensor rank of a rank.

        As in Megatron, the ranks of a tensor group are neighbours, and those of a pipeline are
        farthest from each other.
        """
        rest, part = divmod(rank, self.tp)
        stage, replica = divmod(rest, self.replicas)
        return stage, replica, part

    def rank_at(self, stage: int, replica: int, part: int) -> int:
        """The rank with a place, see place_of."""
        return (stage * self.replicas + replica) * self.tp + part


def parse_layout(text: str) -> MeshLayout:
    """Reads ``tp=2,pp=2,dp=2``. Raises UsageError."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, equals, size = (word.strip() for word in part.partition("="))
        if not (equals and size.isascii() and size.isdecimal() and 0 < len(size) < 6 and int(size)):
            raise UsageError(
                f"{part.strip()!r} is not DIMENSION=RANKS: write a layout as tp=2,pp=2,dp=2"
            )
        if name not in DIMENSIONS:
            raise UsageError(f"{name!r} is no dimension: choose from {', '.join(DIMENSIONS)}")
        if name in sizes:
            raise UsageError(f"{text!r} contains {name} twice")
        sizes[name] = int(size)
    found = MeshLayout(**sizes)
    if found.dp > 1 and found.fsdp > 1:
        raise UsageError(
            f"{text!r}: dp and fsdp are both data parallel: choose dp={found.replicas} or "
            f"fsdp={found.replicas}"
        )
    return found


def require_ranks(layout: MeshLayout, ranks: int) -> None:
    """Raises UsageError unless the layout has as many ranks as there are."""
    if layout.ranks == ranks:
        return
    text = f"--layout {layout.describe() or 'of one rank'} has {layout.ranks} ranks, "
    text += f"but there are {ranks}"
    more, rest = divmod(ranks, layout.ranks)
    if rest or layout.replicas > 1:
        raise UsageError(f"{text}: the product of its numbers must be {ranks}, or see -g")
    raise UsageError(f"{text}: add dp={more} or fsdp={more}, or see -g")
