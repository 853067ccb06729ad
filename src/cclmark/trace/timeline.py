"""A timeline as values: tracks with slices and counters, independent of a file format.

Also the time of an operation or a copy in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

Argument = str | int | float


@dataclass(frozen=True)
class Span:
    """When an operation or a copy ran, in nanoseconds of the common clock."""

    begin_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.begin_ns


@dataclass(frozen=True)
class Slice:
    """A period of a track, in nanoseconds of the common clock.

    ``flows_from``, ``flows_to``: numbers of flows that begin or end here.
    """

    name: str
    begin_ns: int
    end_ns: int
    category: str = ""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    flows_from: tuple[int, ...] = ()
    flows_to: tuple[int, ...] = ()


@dataclass
class Track:
    """A row of the timeline. Writers divide it into ``lanes``."""

    name: str
    slices: list[Slice] = field(default_factory=list)

    def lanes(self) -> list[Track]:
        """The same slices in tracks in which they are nested or apart, as viewers require.

        The first has the name of this track. Slices are in the order of their begin, the longer
        first.
        """
        lanes: list[Track] = []
        ends: list[list[int]] = []  # of the open slices of each lane, the outermost first
        for slice in sorted(self.slices, key=lambda one: (one.begin_ns, -one.end_ns)):
            for lane, open_ends in zip(lanes, ends, strict=True):
                while open_ends and open_ends[-1] <= slice.begin_ns:
                    open_ends.pop()
                if not open_ends or slice.end_ns <= open_ends[-1]:
                    lane.slices.append(slice)
                    open_ends.append(slice.end_ns)
                    break
            else:
                number = len(lanes) + 1
                name = self.name if number == 1 else f"{self.name} ({number})"
                lanes.append(Track(name, [slice]))
                ends.append([slice.end_ns])
        return lanes


@dataclass
class Counter:
    """A number over time: ``values`` are pairs of nanoseconds and a value in ``unit``."""

    name: str
    unit: str
    values: list[tuple[int, float]] = field(default_factory=list)


@dataclass
class RankTracks:
    """The tracks of one rank."""

    name: str
    number: int
    tracks: list[Track] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    _by_name: dict[str, Track] = field(default_factory=dict)

    def track(self, name: str) -> Track:
        """The track ``name``, created at its first use."""
        track = self._by_name.get(name)
        if track is None:
            track = self._by_name[name] = Track(name)
            self.tracks.append(track)
        return track

    def count_bytes(self, name: str, periods: Sequence[Span], size_bytes: int) -> None:
        """Adds a counter of the bytes of complete periods, each of ``size_bytes``."""
        if periods:
            values = [(periods[0].begin_ns, 0.0)]
            values += [
                (one.end_ns, float(size_bytes * number)) for number, one in enumerate(periods, 1)
            ]
            self.counters.append(Counter(name, "bytes", values))


@dataclass
class Timeline:
    """The groups of all ranks. ``facts``: what a reader must know, by name."""

    groups: list[RankTracks] = field(default_factory=list)
    facts: dict[str, Argument] = field(default_factory=dict)

    @property
    def slices(self) -> int:
        """The number of slices of all tracks."""
        return sum(len(track.slices) for group in self.groups for track in group.tracks)


_LEAST_BATCHES = 5  # a difference between fewer of them is mostly noise


@dataclass(frozen=True)
class BatchTime:
    """The time of an operation or a copy in each of several batches of ``number``."""

    times_s: Sequence[float]
    number: int

    @property
    def time_s(self) -> float:
        """The median over the batches."""
        return median(self.times_s)

    def change_from(self, untraced_s: float) -> float | None:
        """The relative difference from ``untraced_s``; None if there are too few batches."""
        if len(self.times_s) < _LEAST_BATCHES or untraced_s <= 0:
            return None
        return self.time_s / untraced_s - 1
