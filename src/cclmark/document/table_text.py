"""Tables as lines of text, folded to the width of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cclmark.document.blocks import Severity, Table
from cclmark.document.paint import Paint

STYLES: Mapping[Severity, str] = {"bad": "red", "look": "yellow"}
_GAP = "  "
_NAME = -1  # in place of a column: the name of the group


def table_lines(table: Table, paint: Paint, width: int | None) -> tuple[list[str], list[str]]:
    """Returns the lines of the head of a table, and those of its rows.

    ``width``: of a line at most, None for any. Where it is less, columns are left out and the
    groups of a row are below each other, see Table.
    """
    layout = _Layout(table, paint, width)
    return layout.heads(), [line for row in range(len(table.rows)) for line in layout.lines(row)]


class _Layout:
    """The columns that lines have. ``_parts``: the columns of each line of a row."""

    def __init__(self, table: Table, paint: Paint, width: int | None) -> None:
        self._table = table
        self._paint = paint
        self._looks = {(row, column): look for row, column, look in table.looks}
        self._count = len(table.head) - table.is_last_below
        self._widths = self._widths_of_columns(table.rows)
        # Parts that continue a table have the columns of the first one, whatever their cells are.
        self._decisive = self._widths_of_columns([]) if table.widths else self._widths
        self._lead = table.lead
        lead = [*range(self._lead)]
        groups = [
            [*range(first, first + table.groups.width)]
            for first in range(self._lead, self._count, table.groups.width or self._count)
        ]
        self._parts = [lead + [column for group in groups for column in group]]
        if width is None or self._width(self._parts[0]) <= width:
            return
        if len(groups) > 1:
            name_width = max(map(len, (table.groups.title, *table.groups.short)))
            self._widths[_NAME] = self._decisive[_NAME] = name_width
        for column in (None, *table.optional):
            if column is not None:
                lead.remove(column)
            name = [_NAME] if len(groups) > 1 else []
            self._parts = [[*lead, *name, *group] for group in groups] or [lead]
            if self._width(self._parts[0]) <= width:
                return

    def _widths_of_columns(self, rows: Sequence[Sequence[str]]) -> dict[int, int]:
        table = self._table
        full = [table.head, *(cells for cells in rows if len(cells) == len(table.head))]
        least = table.widths or [0] * self._count
        columns = zip(least[: self._count], zip(*full, strict=True), strict=False)
        return {
            column: max(width, *map(len, cells)) for column, (width, cells) in enumerate(columns)
        }

    def _width(self, columns: Sequence[int]) -> int:
        widths = [self._decisive[column] for column in columns]
        return len(_GAP) * len(widths) + sum(widths)

    @property
    def _is_stacked(self) -> bool:
        return _NAME in self._parts[0]

    def heads(self) -> list[str]:
        """The names of columns, below those of their groups."""
        table, columns = self._table, self._parts[0]
        head = self._line(columns, table.head)
        if not table.groups.names or self._is_stacked:
            return [head]
        lead = [column for column in columns if column < self._lead]
        first = range(self._lead, self._lead + table.groups.width)
        width = self._width(first) - len(_GAP)
        names = "".join(f"{_GAP}{name:─^{width}}" for name in table.groups.names)
        return [" " * self._width(lead) + names, head]

    def lines(self, row: int) -> list[str]:
        """The lines of a row: of each group that has cells, and what is below."""
        table, cells = self._table, self._table.rows[row]
        texts = [] if not table.is_last_below else [*filter(None, cells[-1].split("\n"))]
        if len(cells) < len(table.head):
            lead = [column for column in self._parts[0] if 0 <= column < len(cells) - 1]
            reason = self._painted(row, len(table.head) - 1, cells[-1])
            return [f"{self._line(lead, cells, row)}{_GAP}{reason}"]
        found = [*self._parts_of(row)]
        if row in table.wrong:
            found = [self._paint(line, STYLES["bad"]) for line in found]
        indent = " " * (2 * len(_GAP) + self._widths[0])
        return found + [f"{indent}{self._painted(row, self._count, text)}" for text in texts]

    def _parts_of(self, row: int) -> Iterator[str]:
        cells = self._table.rows[row]
        if not self._is_stacked:
            yield self._line(self._parts[0], cells, row)
            return
        is_first = True
        for name, columns in zip(self._table.groups.short, self._parts, strict=True):
            own = columns[columns.index(_NAME) + 1 :]
            if any(cells[column] for column in own):
                lead = {} if is_first else dict.fromkeys(range(self._lead), "")
                yield self._line(columns, cells, row, {**lead, _NAME: name})
                is_first = False
        if is_first:
            yield self._line(self._parts[0], cells, row, {_NAME: ""})

    def _line(
        self,
        columns: Sequence[int],
        cells: Sequence[str],
        row: int | None = None,
        instead: Mapping[int, str] | None = None,
    ) -> str:
        """``instead``: the texts of some columns in place of their cells."""
        sides, widths = self._table.sides, self._widths
        texts = {_NAME: self._table.groups.title, **dict(enumerate(cells)), **(instead or {})}
        found = [
            f"{texts[column]:{'<' if column == _NAME else sides[column]}{widths[column]}}"
            for column in columns
        ]
        if self._looks:
            found = [self._painted(row, *one) for one in zip(columns, found, strict=True)]
        return f"{_GAP}{_GAP.join(found)}".rstrip()

    def _painted(self, row: int | None, column: int, text: str) -> str:
        look = None if row is None else self._looks.get((row, column))
        style = "" if look is None else STYLES.get(look, "")
        return self._paint(text, style) if style else text
