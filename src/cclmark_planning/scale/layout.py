"""The parallelism of a job: its groups of devices, and where they are."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.accelerators import MOST_DEVICES
from cclmark.work.counts import AtLeastOne, Count

_SIZES = ("tp", "cp", "dp", "ep", "pp", "shard", "vp")
_FLAGS = ("zero", "sp")
_WORDS = (*_SIZES, *_FLAGS, "fsdp")


class JobLayout(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a job's devices divide the work.

    ``tp``: devices that share each matrix. ``cp``: those that share each sequence (ring attention).
    ``dp``: replicas, which have different sequences; 0 if it follows from the number of devices.
    ``ep``: devices that share the experts, among those of tp, cp and dp. ``pp``: stages of layers,
    each with ``vp`` parts (interleaved schedule). ``zero``: what replicas share: 0 nothing, 1 the
    state of the optimizer, 2 gradients too, 3 parameters too (FSDP). ``shard``: with zero 2 or 3,
    the devices among which they are divided, all of dp and cp by default; the others hold copies
    (HSDP). ``sp``: devices of tp share the sequence between matrices.
    """

    tp: AtLeastOne = 1
    cp: AtLeastOne = 1
    dp: Count = 0
    ep: AtLeastOne = 1
    pp: AtLeastOne = 1
    vp: AtLeastOne = 1
    zero: Count = 0
    shard: Count = 0
    sp: bool = False

    @property
    def devices(self) -> int:
        """The number of all devices."""
        return self.tp * self.cp * self.dp * self.pp

    @property
    def replicas(self) -> int:
        """The devices that hold equal parameters, or share them: those of dp and cp."""
        return self.cp * self.dp

    def describe(self) -> str:
        """The layout as users write it: ``tp=8,pp=2,dp=64,zero=1``."""
        usual = JobLayout()
        return ",".join(
            f"{name}={int(value)}"
            for name in (*_SIZES, *_FLAGS)
            if (value := getattr(self, name)) != getattr(usual, name)
        )

    def on(self, devices: int) -> JobLayout:
        """The layout on so many devices, with the replicas that they have room for.

        Raises UsageError if the numbers contradict each other.
        """
        text, inner = self.describe() or "one device", self.tp * self.cp * self.pp
        if devices % inner:
            raise UsageError(
                f"{text}: tp x cp x pp = {inner} does not divide {devices} GPUs: choose a multiple "
                f"of {inner}"
            )
        found = self if self.dp else msgspec.structs.replace(self, dp=devices // inner)
        if found.devices != devices:
            raise UsageError(
                f"{text}: tp x cp x pp x dp = {found.devices} GPUs, but there are {devices}: "
                f"leave dp out, which is then {devices // inner}, or choose --gpus {found.devices}"
            )
        found._check()
        return found

    def _check(self) -> None:
        text = self.describe()
        if (self.tp * self.replicas) % self.ep:
            raise UsageError(
                f"{text}: ep={self.ep} does not divide the {self.tp * self.replicas} devices of a "
                "stage (tp x cp x dp)"
            )
        if self.shard and self.zero < 2:
            raise UsageError(f"{text}: shard divides parameters or gradients: add zero=3 or zero=2")
        if self.shard and self.replicas % self.shard:
            raise UsageError(
                f"{text}: shard={self.shard} does not divide the {self.replicas} devices of dp x cp"
            )
        if self.sp and self.tp == 1:
            raise UsageError(f"{text}: sp=1 divides sequences over devices of tp, which is 1")
        if self.vp > 1 and self.pp == 1:
            raise UsageError(f"{text}: vp={self.vp} divides the stages of pp, which is 1")

    def groups(self) -> dict[str, Group]:
        """The groups that communicate, by name, see traffic.GroupTraffic.

        Neighbours are those of tp, then cp, dp and pp, as in Megatron and torchtitan; ep counts
        from the first device of a stage on.
        """
        shard = self.shard or self.replicas
        stage = self.tp * self.replicas
        return {
            "tp": Group(self.tp, 1),
            "cp": Group(self.cp, self.tp),
            "dp": Group(shard, self.tp),
            "copies": Group(self.replicas // shard, self.tp * shard),
            "ep": Group(self.ep, 1),
            "experts": Group(stage // self.ep, self.ep),
            "pp": Group(self.pp, stage),
        }


@dataclass(frozen=True)
class Group:
    """Devices that communicate: ``size`` of them, each ``stride`` after the one before."""

    size: int
    stride: int

    def on_node(self, per_node: int) -> int:
        """How many devices of the group a node has, with so many devices per node.

        Raises UsageError if the nodes differ in it.
        """
        near = 1 if self.stride >= per_node else per_node // self.stride
        fits = self.stride >= per_node or per_node % self.stride == 0
        fits = fits and (self.size % near == 0 or near % self.size == 0)
        if self.size == 1 or fits:
            return min(near, self.size)
        raise UsageError(
            f"groups of {self.size} devices, each {self.stride} after the one before, are not "
            f"alike on nodes of {per_node} GPUs, which is not supported"
        )


def parse_job_layout(text: str) -> JobLayout:
    """Reads ``tp=8,pp=1,dp=64,zero=3``; fsdp=N means dp=N,zero=3. Raises UsageError."""
    found: dict[str, int] = {}
    for part in text.split(",") if text.strip() else ():
        name, _, value = (word.strip().lower() for word in part.partition("="))
        number = int(value) if value.isascii() and value.isdecimal() and len(value) < 8 else -1
        if name not in _WORDS:
            raise UsageError(
                f"{part.strip()!r}: choose from {', '.join(_WORDS)}: tp=8,dp=64,zero=1"
            )
        least, most = {"zero": (0, 3), "sp": (0, 1)}.get(name, (1, MOST_DEVICES))
        if not least <= number <= most:
            raise UsageError(f"{part.strip()!r}: {name} is a whole number from {least} to {most}")
        names = {"dp": number, "zero": 3} if name == "fsdp" else {name: number}
        if twice := found.keys() & names:
            raise UsageError(f"{text!r} contains {' and '.join(sorted(twice))} twice")
        found |= names
    has_sp = bool(found.pop("sp", 0))
    return JobLayout(**found, sp=has_sp)
