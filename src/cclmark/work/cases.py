"""Cases: complete descriptions of single measurements of collectives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

import msgspec

from cclmark.base.errors import UsageError
from cclmark.base.files import read_regular
from cclmark.work.counts import AtLeastOne, Count
from cclmark.work.items import COLLECTIVE, PAIRS
from cclmark.work.libraries import in_place_only
from cclmark.work.operations import (
    DTYPE_BYTES,
    OPERATIONS,
    count_for_size,
    least_size,
    moves_data,
    size_for_count,
)
from cclmark.work.sizes import format_size

_MOST_MATRIX_BYTES = 16 << 20  # 1024 ranks with 15 characters for each weight


class Case(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measurement of one collective.

    ``size_bytes`` is the size to which the figures refer (see work.operations), ``count`` the
    number of elements passed to the library. ``reduction`` and ``root`` are None for operations
    without one. ``matrix`` holds the number of elements that rank i sends to rank j at
    [i * ranks + j], for alltoallv only. ``pair``: the two participating ranks of the run, None
    where all ranks take part; ``root`` is then 0 for the first rank of the pair and 1 for the
    second.
    """

    operation: str
    ccl: str
    ranks: AtLeastOne
    dtype: str
    size_bytes: Count
    count: Count
    in_place: bool
    reduction: str | None = None
    root: Count | None = None
    matrix: tuple[Count, ...] = ()
    pair: tuple[int, int] | None = None

    @property
    def placement(self) -> str:
        """``in-place`` or ``out-of-place``."""
        return "in-place" if self.in_place else "out-of-place"

    @property
    def work(self) -> str:
        """The operation, or the command that performs the work."""
        return self.operation

    @property
    def library(self) -> str:
        """The library, backend or engine that performs it."""
        return self.ccl

    @property
    def kind(self) -> str:
        """The kind of work, see work.items."""
        return COLLECTIVE if self.pair is None else PAIRS

    def group_words(self) -> str:
        """The case in words, without its size."""
        moves = moves_data(self.operation)
        words = [self.operation, self.dtype if moves else "", self.reduction or ""]
        words.append("" if self.root is None else f"root {self.root}")
        words.append(self.placement if moves else "")
        pair = "" if self.pair is None else f" between ranks {self.pair[0]} and {self.pair[1]}"
        ranks = "1 rank" if self.ranks == 1 else f"{self.ranks:,} ranks"
        return " ".join(filter(None, words)) + f"{pair} · {self.ccl}, {ranks}"

    def operation_words(self) -> str:
        """The operation and its library, whatever the type and the size."""
        return f"{self.operation} · {self.ccl}"

    def size_words(self) -> str:
        """The size for a table; a barrier has none."""
        return format_size(self.size_bytes) if moves_data(self.operation) else "-"

    def flow_words(self) -> str:
        """Empty: a case has no flows."""
        return ""

    def is_between(self, least_bytes: int | None, most_bytes: int | None) -> bool:
        """Whether the size is within the bounds, which are rounded as the size was."""
        if not moves_data(self.operation):
            return False
        least, most = (
            None if bound is None else count_for_size(self.operation, bound, self.dtype, self.ranks)
            for bound in (least_bytes, most_bytes)
        )
        return (least is None or self.count >= least) and (most is None or self.count <= most)

    def is_within(self, devices: int) -> bool:
        """Whether both devices of a pair are among the first ``devices`` devices."""
        return all(0 <= place < devices for place in self.pair or ())

    @property
    def ends(self) -> tuple[int, int] | None:
        """The two ranks of a pair, None where all ranks take part."""
        return self.pair

    def across_libraries(self) -> Case:
        """The case without its library: the key that the cases of two libraries share."""
        return msgspec.structs.replace(self, ccl="")

    def series(self) -> Case:
        """The case without its size, and without its pair: the key that a sweep's cases share."""
        root = self.root if self.pair is None else None
        return msgspec.structs.replace(self, size_bytes=0, count=0, matrix=(), pair=None, root=root)

    def output_elements(self, rank: int) -> int:
        """The number of elements in the output of ``rank``, all of which are checked."""
        row = OPERATIONS[self.operation]
        if row.uneven:
            return sum(self.matrix[rank :: self.ranks])
        return row.outputs(self.count, self.ranks, rank == self.root)

    def describe(self) -> str:
        """The case in words, for messages."""
        words = [self.operation]
        if moves_data(self.operation):
            words += [format_size(self.size_bytes), self.dtype]
        if self.reduction is not None:
            words.append(self.reduction)
        if self.root is not None:
            words.append(f"root {self.root}")
        if moves_data(self.operation):
            words.append(self.placement)
        if self.pair is not None:
            words.append(f"between ranks {self.pair[0]} and {self.pair[1]}")
        return " ".join(words)


@dataclass(frozen=True)
class Sweep:
    """The sweep that the options describe; ``cases`` expands it.

    ``placements``: whether cases are in place, empty for one case of each size: out-of-place if the
    library supports it.
    """

    operations: Sequence[str]
    ccls: Sequence[str]
    ranks: int
    sizes: Sequence[int]
    dtypes: Sequence[str]
    reductions: Sequence[str]
    roots: Sequence[int]
    placements: Sequence[bool]
    uneven: UnevenPattern

    def cases(self) -> Iterator[Case]:
        """Yields every case once, with the placements of one size next to each other.

        Sizes that round to the same count yield one case, sizes that round to a count of 0 none.
        """
        for operation in self.operations:
            row = OPERATIONS[operation]
            for ccl in self.ccls:
                for dtype in self.dtypes if moves_data(operation) else self.dtypes[:1]:
                    for reduction in self.reductions if row.reduces else (None,):
                        for root in self.roots if row.rooted else (None,):
                            yield from self._sizes(operation, ccl, dtype, reduction, root)

    def _sizes(
        self, operation: str, ccl: str, dtype: str, reduction: str | None, root: int | None
    ) -> Iterator[Case]:
        seen: set[int] = set()
        for requested in self.sizes:
            count = count_for_size(operation, requested, dtype, self.ranks)
            if count in seen or (count == 0 and moves_data(operation)):
                continue
            seen.add(count)
            matrix: tuple[int, ...] = ()
            size = size_for_count(operation, count, dtype, self.ranks)
            if OPERATIONS[operation].uneven:
                matrix = self.uneven.matrix(count * self.ranks, self.ranks, DTYPE_BYTES[dtype])
                size = heaviest_row(matrix, self.ranks) * DTYPE_BYTES[dtype]
            for in_place in self._placements_of(operation, ccl):
                yield Case(
                    operation=operation,
                    ccl=ccl,
                    ranks=self.ranks,
                    dtype=dtype,
                    size_bytes=size,
                    count=count,
                    in_place=in_place,
                    reduction=reduction,
                    root=root,
                    matrix=matrix,
                )

    def left_out(self) -> list[str]:
        """A notice for each reason why sizes of the sweep have no case."""
        operations: dict[str, dict[str, None]] = {}
        for operation, dtype in product(filter(moves_data, self.operations), self.dtypes):
            least = least_size(operation, dtype, self.ranks)
            small = [format_size(size) for size in self.sizes if size < least]
            whole = f"an element of {dtype} has"
            if OPERATIONS[operation].spans_ranks:
                whole = f"{self.ranks} parts of at least 16 B, as in nccl-tests, have"
            if small:
                sizes = " to ".join(dict.fromkeys((small[0], small[-1])))
                text = f"{sizes} left out: {whole} {format_size(least)}"
                operations.setdefault(text, {})[operation] = None
        return [f"{', '.join(names)}: {text}" for text, names in operations.items()]

    def rounding(self) -> list[str]:
        """Notices on the sizes that are left out, and one if sizes are no whole elements."""
        if not any(moves_data(name) for name in self.operations):
            return []
        rounded = (
            "sizes are rounded down to whole elements, as in nccl-tests: "
            f"{format_size(size)} is {format_size(size - size % DTYPE_BYTES[dtype])} of {dtype}"
            for dtype in self.dtypes
            for size in self.sizes
            if size > DTYPE_BYTES[dtype] and size % DTYPE_BYTES[dtype]
        )
        return [*self.left_out(), *islice(rounded, 1)]

    def _placements_of(self, operation: str, ccl: str) -> Sequence[bool]:
        """Whether the cases of an operation are in place: one or both placements."""
        if not moves_data(operation):
            return self.placements[:1] or (False,)
        if len(self.placements) == 1:
            return self.placements
        if in_place_only(ccl, operation):
            return (True,)
        return self.placements or (False,)


def heaviest_row(matrix: Sequence[int], ranks: int) -> int:
    """The number of elements sent by the rank that sends most."""
    return max(sum(matrix[i * ranks : (i + 1) * ranks]) for i in range(ranks))


@dataclass(frozen=True)
class UnevenPattern:
    """The distribution of an alltoallv message over the peers.

    ``weights`` contains one row of relative shares per rank, or is empty for ``skew``: the peer at
    distance ``k`` to the right gets 1 + (skew - 1) * k / (ranks - 1) shares, so the largest part is
    ``skew`` times the smallest. A skew of 1 is uniform.
    """

    skew: float = 1.0
    weights: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def parse(cls, text: str) -> UnevenPattern:
        """Parses ``uniform``, ``skew:F``, ``matrix:FILE``, ``rows:1,2;3,4``. Raises UsageError."""
        if text == "uniform":
            return cls()
        kind, _, value = text.partition(":")
        if kind == "skew":
            try:
                skew = float(value)
            except ValueError:
                raise UsageError(f"cannot read the factor in {text!r}: write skew:4") from None
            if not 1 <= skew < float("inf"):
                raise UsageError(f"the skew must be 1 or more, not {value}")
            return cls(skew=skew)
        if kind == "matrix":
            return cls(weights=_read_weights(Path(value)))
        if kind == "rows":
            return cls(weights=_weights(value.split(";"), "rows"))
        raise UsageError(
            f"unknown pattern {text!r}: write uniform, skew:4, matrix:FILE or rows:1,2;3,4"
        )

    def check(self, ranks: int) -> None:
        """Raises UsageError if the matrix does not have the shape ``ranks`` x ``ranks``."""
        if not self.weights:
            return
        widths = {len(row) for row in self.weights}
        if len(self.weights) != ranks or widths != {ranks}:
            shape = f"{len(self.weights)} rows of {', '.join(map(str, sorted(widths)))} numbers"
            raise UsageError(
                f"the alltoallv matrix has {shape}; {ranks} ranks require {ranks} x {ranks}"
            )

    def matrix(self, elements: int, ranks: int, width_bytes: int) -> tuple[int, ...]:
        """The number of elements from each rank to each rank, in row-major order.

        The largest row sum is about ``elements``. Parts of 16 bytes or more are rounded down to a
        multiple of 16 bytes.
        """
        rows = self.weights or tuple(
            tuple(self._share((to - frm) % ranks, ranks) for to in range(ranks))
            for frm in range(ranks)
        )
        heaviest = max(sum(row) for row in rows)
        step = max(1, 16 // width_bytes)
        parts = [int(weight / heaviest * elements) for row in rows for weight in row]
        return tuple(part // step * step if part >= step else part for part in parts)

    def _share(self, distance: int, ranks: int) -> float:
        return 1.0 if ranks == 1 else 1 + (self.skew - 1) * distance / (ranks - 1)


def rows_pattern(weights: Sequence[Sequence[float]]) -> str:
    """The pattern ``rows:...`` with these weights, exactly."""
    return "rows:" + ";".join(",".join(map(repr, row)) for row in weights)


def _read_weights(path: Path) -> tuple[tuple[float, ...], ...]:
    try:
        text = read_regular(path, _MOST_MATRIX_BYTES).decode()
    except OSError as error:
        raise UsageError(f"cannot read the alltoallv matrix {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"cannot read the alltoallv matrix {path}: not UTF-8 text") from None
    except ValueError:  # a NUL in the path
        raise UsageError("cannot read the alltoallv matrix: not a path") from None
    return _weights(text.splitlines(), str(path))


def _weights(lines: Sequence[str], name: str) -> tuple[tuple[float, ...], ...]:
    rows: list[tuple[float, ...]] = []
    for number, line in enumerate(lines, start=1):
        cells = line.split("#")[0].replace(",", " ").split()
        if not cells:
            continue
        # The file may be unrelated, so messages do not quote its content.
        row = tuple(
            _weight(cell, f"{name}: line {number}, column {column}")
            for column, cell in enumerate(cells, start=1)
        )
        rows.append(row)
    if not rows or max(sum(row) for row in rows) <= 0:
        raise UsageError(f"{name}: the alltoallv matrix is empty or all zeros")
    return tuple(rows)


def _weight(cell: str, place: str) -> float:
    try:
        weight = float(cell)
    except ValueError:
        raise UsageError(f"{place}: not a number; write one row of numbers per rank") from None
    if not 0 <= weight < float("inf"):
        raise UsageError(f"{place}: weights must be finite and not negative")
    return weight


class OfCase:
    """The properties that work.items requires, from the case of an item."""

    __slots__ = ()

    case: Case

    @property
    def work(self) -> str:
        """The operation."""
        return self.case.operation

    @property
    def library(self) -> str:
        """The library that performs it."""
        return self.case.ccl

    @property
    def ccl(self) -> str:
        """The CCL that performs it."""
        return self.case.ccl

    @property
    def size_bytes(self) -> int:
        """The size of the whole message."""
        return self.case.size_bytes

    @property
    def ranks(self) -> int:
        """The number of ranks that take part."""
        return self.case.ranks

    def is_within(self, devices: int) -> bool:
        """Whether the ranks are among so many devices."""
        return self.case.is_within(devices)
