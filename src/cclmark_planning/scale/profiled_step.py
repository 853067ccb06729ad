"""The step of a profiled program on more devices, by what one of its steps communicated."""

from __future__ import annotations

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.counts import AtLeastOne, Count, Elapsed, Positive
from cclmark.work.operations import OPERATIONS
from cclmark_planning.scale.layout import Group
from cclmark_planning.scale.step import Network, StepTime, time_of
from cclmark_planning.scale.traffic import GroupTraffic


class ProfiledMessages(msgspec.Struct, frozen=True, omit_defaults=True):
    """Equal messages of one device in a measured step.

    ``ranks``: of the group, each ``stride`` after the one before. ``size_bytes``: of a message as
    nccl-tests counts it. ``messages``: their number, a
    mean where steps differ. ``time_s``: of all of them together; ``exposed_s``: while nothing
    computed. ``grows``: whether the group has a rank of each replica, of which there will be more.
    """

    operation: str
    ranks: AtLeastOne
    stride: AtLeastOne
    size_bytes: Count
    messages: Positive
    time_s: Elapsed
    exposed_s: Elapsed
    grows: bool = False


class ProfiledStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A measured step of a program on ``devices`` devices, ``per_node`` of them on a node.

    ``step_s``: the step. ``knows_compute``: whether it is known what of ``messages`` compute hides;
    their ``exposed_s`` are 0 otherwise. ``tokens``: of a step, 0 if unknown.
    """

    name: str
    devices: AtLeastOne
    per_node: AtLeastOne
    step_s: Positive
    knows_compute: bool
    messages: tuple[ProfiledMessages, ...]
    tokens: Count = 0

    @property
    def rest_s(self) -> float:
        """What of the step is no exposed communication: compute, and time in which nothing runs."""
        return max(0.0, self.step_s - sum(one.exposed_s for one in self.messages))


class GrownStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """That program with ``copies`` times as many replicas, on nodes of ``per_node`` devices.

    ``same_batch``: whether the replicas divide the batch of the measured step; otherwise it grows
    with them.
    """

    measured: ProfiledStep
    copies: AtLeastOne
    per_node: AtLeastOne
    same_batch: bool = False

    @property
    def devices(self) -> int:
        """The number of devices."""
        return self.measured.devices * self.copies

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return -(-self.devices // self.per_node)

    @property
    def tokens(self) -> int:
        """The tokens of a step, 0 if unknown."""
        return self.measured.tokens * (1 if self.same_batch else self.copies)

    @property
    def divisor(self) -> int:
        """By which the work of a device in a step is smaller than the measured one."""
        return self.copies if self.same_batch else 1

    def describe(self) -> str:
        """The program in words."""
        return f"{self.measured.name} on {self.devices} GPUs"


def traffic_of_messages(one: ProfiledMessages, copies: int, per_node: int) -> GroupTraffic:
    """The messages in a group with ``copies`` times as many ranks.

    Raises UsageError if the nodes differ in the ranks of a group that they have.
    """
    group = Group(one.ranks * copies, one.stride)
    return GroupTraffic(
        group="dp",
        ranks=group.size,
        on_node=group.on_node(min(per_node, group.size * group.stride)),
        operation=one.operation,
        purpose="replicas",
        size_bytes=one.size_bytes,
        messages=one.messages,
    )


class Unknowns(msgspec.Struct, frozen=True):
    """What a profile does not say.

    ``hidden``: 1 if compute hides the same share of messages as measured, as far as there is
    compute, 0 if it hides the same seconds, so that all that messages take longer is exposed; in
    between both are weighed. ``crossed``: how far what messages took longer than by the model
    within the measured node holds between nodes, too, as an exponent. ``growth``: exponent of the
    growth of messages. ``slowness``: factor of the time without communication.
    """

    hidden: float = 0.5
    crossed: float = 0.5
    growth: float = 1.0
    slowness: float = 1.0


_MIDDLE = Unknowns()


def grown_time_s(
    one: ProfiledMessages, grown: GrownStep, network: Network, unknowns: Unknowns
) -> float:
    """The seconds of the messages on more devices.

    The alpha-beta model (see step.time_of) times what they took longer than by it. Messages of
    groups that stay as they are and of operations without a law take as long as measured.
    """
    if not one.grows:
        return one.time_s / grown.divisor
    if grown.copies == 1 or one.operation not in OPERATIONS or not one.time_s:
        return one.time_s
    before = traffic_of_messages(one, 1, grown.measured.per_node)
    after = traffic_of_messages(one, grown.copies, grown.per_node)
    expected_s = time_of(before, network)
    if not expected_s:
        return max(one.time_s, time_of(after, network))
    factor = one.time_s / expected_s
    crossed = factor if before.nodes > 1 else factor**unknowns.crossed
    calibrated = Network(
        network.node_bps / factor,
        *(network.latency_s * crossed, network.node_latency_s * factor),
        efficiency=network.efficiency,
        bps=network.bps / crossed,
    )
    ratio = max(1.0, time_of(after, calibrated) / one.time_s)
    grown_s: float = one.time_s * ratio**unknowns.growth
    return grown_s


def grown_step(grown: GrownStep, network: Network, unknowns: Unknowns = _MIDDLE) -> StepTime:
    """The step on more devices; its ``compute_s`` contains all that is no communication."""
    measured, divisor = grown.measured, grown.divisor
    rest_s = measured.rest_s / divisor * unknowns.slowness
    times_s = [grown_time_s(one, grown, network, unknowns) for one in measured.messages]
    communication_s = sum(times_s)
    same_share_s = same_seconds_s = 0.0
    for one, time_s in zip(measured.messages, times_s, strict=True):
        exposed = one.exposed_s / one.time_s if one.time_s else 0.0
        same_share_s += exposed * time_s
        hidden_s = (one.time_s - one.exposed_s) / (1 if one.grows else divisor)
        same_seconds_s += max(0.0, time_s - hidden_s)
    same_share_s = min(same_seconds_s, max(same_share_s, communication_s - rest_s))
    exposed_s = unknowns.hidden * same_share_s + (1 - unknowns.hidden) * same_seconds_s
    return StepTime(rest_s, 0.0, communication_s, exposed_s)


def check_growth(measured: ProfiledStep, devices: int, per_node: int) -> GrownStep:
    """The program on so many devices. Raises UsageError if that is not possible."""
    if devices % measured.devices:
        raise UsageError(
            f"{devices} GPUs are no multiple of the {measured.devices} of the profile: replicas "
            "grow by whole numbers"
        )
    grown = GrownStep(measured, devices // measured.devices, per_node)
    for one in measured.messages:
        if one.grows:
            traffic_of_messages(one, 1, measured.per_node)
            traffic_of_messages(one, grown.copies, per_node)
    return grown
