"""Charts as pictures for papers and chats, drawn with matplotlib."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cclmark.base.errors import MissingError
from cclmark.document.chart_model import Boxes, BoxSeries, Chart, ChartCurve, Heat, Lines
from cclmark.document.ticks import byte_ticks, log_ticks
from cclmark.work.sizes import format_size

# As on the page: Okabe and Ito's colours, distinguishable with any colour vision.
_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#b0468c"),
    *("#a07400", "#3b8fc4", "#444444", "#7a4fb5"),
)
_MARKS = ("o", "s", "D", "^", "P", "v", "p", "*")
_Dash = str | tuple[int, tuple[float, ...]]
_FULL: tuple[_Dash, ...] = ("-", (0, (6, 2, 1, 2)), (0, (8, 3)))
_DASHED: tuple[_Dash, ...] = ("--", (0, (4, 2, 1, 2, 1, 2)), (0, (2, 2)))
_FAINT: tuple[_Dash, ...] = (":", (0, (5, 2, 1, 2)))
_FAINT_COLOURS = ("#56606e", "#1c2430")
_WIDTH, _HEIGHT = 7.0, 4.4  # inches
_MOST_WITHIN = 9  # names inside the axes
_LEGEND_COLUMNS, _LEGEND_NAME, _LEGEND_LINE = 3, 30, 0.17  # below the axes; characters, inches
_NOTE = 98  # characters of a line below the axes
_DPI = 160
_MOST_TICKS = 9
_HEADROOM = 1.04  # above the highest value of an axis that begins at 0, a factor
_MOST_CELLS_WITH_TEXT = (32, 16)


def picture(chart: Chart, format: str) -> bytes:
    """The chart as ``png`` or ``svg``, reproducible. Raises MissingError without matplotlib."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingError(
            "pictures require matplotlib, which is not installed: pip install 'cclmark[pictures]', "
            "or pip install matplotlib"
        ) from None
    height = _HEIGHT
    parts = chart.parts if isinstance(chart, Lines) and chart.panels else [chart]
    if isinstance(chart, Lines | Boxes):
        height *= (1 + len(parts)) / 2
        height += _legend_inches(chart)
        height += _LEGEND_LINE * sum(note.count("\n") + 1 for note in _notes(chart))
    if isinstance(chart, Heat):
        height = min(14.0, max(3.0, 1.6 + 0.32 * len(chart.rows)))
    settings: Any = {"svg.hashsalt": "cclmark", "font.size": 9, "svg.fonttype": "none"}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # A font without a character draws a box for it, and warns for each such character.
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        panels = figure.subplots(len(parts), sharex=True, squeeze=False)[:, 0]
        axes = panels[0]
        if isinstance(chart, Lines):
            _panels(panels, parts)
        elif isinstance(chart, Boxes):
            _boxes(axes, chart)
        else:
            assert isinstance(chart, Heat)
            _heat(figure, axes, chart)
        axes.set_title(_literal(chart.title), fontsize=10, loc="left")
        content = io.BytesIO()
        metadata = {"Date": None} if format == "svg" else {"Software": None}
        figure.savefig(content, format=format, dpi=_DPI, metadata=metadata)
    return content.getvalue()


def _panels(axes: Any, parts: Sequence[Any]) -> None:
    """Axes of values below each other, which share that of places."""
    *others, last = parts
    shown = [*(replace(one, x_title="", notes=()) for one in others), last]
    for own, part in zip(axes, shown, strict=True):
        draw_lines(own, part)
        for begin, end in part.spans:
            own.axvspan(begin, end, color="#56606e", alpha=0.14, linewidth=0.5, zorder=0)


def _literal(text: str) -> str:
    """Escapes characters that matplotlib would read as a formula."""
    return text.replace("$", r"\$")


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def draw_lines(axes: Any, chart: Lines) -> None:
    """Draws curves, bands and levels with their legend into matplotlib's ``axes``."""
    for one in chart.series:
        colour = _FAINT_COLOURS[one.colour % 2] if one.faint else _colour(one.colour)
        _band(axes, one, colour)
        axes.plot(
            one.x,
            one.y,
            linestyle=_dash(one),
            color=colour,
            marker="" if one.faint else _MARKS[one.colour // 4 % len(_MARKS)],
            # Hollow markers over larger filled ones: both are visible if two points coincide.
            markersize=3.2 if one.dashed else 4.5,
            markerfacecolor="white" if one.dashed else colour,
            linewidth=1.6,
            # Markers at the ends of the axes, for example at 0, are drawn in full.
            clip_on=False,
            zorder=1.5 if one.faint else 2.1 if one.dashed else 2,
            label=_literal(one.name),
        )
    if chart.x_kind == "bytes":
        axes.set_xscale("log", base=2)
        ticks = byte_ticks([size for one in chart.series for size in one.x])
        axes.set_xticks(ticks, [format_size(tick) for tick in ticks])
        axes.minorticks_off()
    elif chart.x_kind == "log":
        axes.set_xscale("log")
    for level in chart.levels:
        axes.axhline(level.value, color="#56606e", linestyle=":", linewidth=1.2)
        axes.annotate(
            _literal(level.name),
            (0.01, level.value),
            xycoords=("axes fraction", "data"),
            va="bottom",
            color="#56606e",
        )
    _draw_marks(axes, chart)
    if chart.y_log:
        axes.set_yscale("log")
        _dress_logarithmic(axes, chart)
    elif chart.zero_based:
        # Chosen for values that are nearly equal, the upper end could be at the values themselves.
        highest = max((value for one in chart.series for value in one.y), default=0.0)
        axes.set_ylim(0, max(axes.get_ylim()[1], highest * _HEADROOM))
    _dress(axes, "\n".join([chart.x_title, *_notes(chart)]), chart.y_title)
    _legend(axes, len(chart.series))


def _notes(chart: Lines | Boxes) -> list[str]:
    """Returns the notes as sentences, with line breaks."""
    return [textwrap.fill(f"{note[0].upper()}{note[1:]}.", _NOTE) for note in chart.notes]


def _draw_marks(axes: Any, chart: Lines) -> None:
    """Draws lines with their names one below the other, on the side with more room."""
    values = [value for series in chart.series for value in series.x]
    least, most = min(values), max(values)
    middle = (least * most) ** 0.5 if chart.x_kind != "number" else (least + most) / 2
    for number, mark in enumerate(chart.marks):
        is_left = mark.x < middle
        axes.axvline(mark.x, color="#56606e", linestyle="--", linewidth=0.8, zorder=1)
        axes.annotate(
            _literal(mark.name),
            (mark.x, 0.99),
            xycoords=("data", "axes fraction"),
            xytext=(2 if is_left else -2, -9 * number),
            textcoords="offset points",
            ha="left" if is_left else "right",
            va="top",
            fontsize=7.5,
            color="#56606e",
        )


def _legend(axes: Any, curves: int) -> None:
    """Places the legend inside the axes if it has few names, otherwise below them."""
    if curves > _MOST_WITHIN:
        handles, names = axes.get_legend_handles_labels()
        axes.figure.legend(
            handles,
            [textwrap.fill(name, _LEGEND_NAME) for name in names],
            loc="outside lower left",
            ncols=_LEGEND_COLUMNS,
            frameon=False,
            fontsize=7.5,
            handlelength=3.2,
        )
    elif curves > 1:
        axes.legend(frameon=False, fontsize=8, handlelength=3.2)


def _legend_inches(chart: Lines | Boxes) -> float:
    """Returns the additional height of the figure for a legend below it, in inches."""
    if len(chart.series) <= _MOST_WITHIN:
        return 0.0
    lines = sum(len(textwrap.wrap(one.name, _LEGEND_NAME)) or 1 for one in chart.series)
    return _LEGEND_LINE * -(-lines // _LEGEND_COLUMNS)


def _dash(one: ChartCurve | BoxSeries) -> _Dash:
    if isinstance(one, ChartCurve) and one.faint:
        return _FAINT[one.colour % 2]
    return (_DASHED if one.dashed else _FULL)[one.colour // len(_COLOURS) % len(_FULL)]


def _band(axes: Any, one: ChartCurve, colour: str) -> None:
    """Fills the band between points that have one; draws a bar if the neighbours have none."""
    if not (one.low and one.high):
        return
    low, high = (
        [float("nan") if at is None else at for at in ends] for ends in (one.low, one.high)
    )
    axes.fill_between(one.x, low, high, color=colour, alpha=0.16, linewidth=0)
    known = [False, *(at is not None for at in one.low), False]
    for place, x in enumerate(one.x):
        if known[place : place + 3] == [False, True, False]:
            axes.vlines(x, low[place], high[place], color=colour, alpha=0.5, linewidth=1.2)


def _dress_logarithmic(axes: Any, chart: Lines) -> None:
    """Sets ticks with plain numbers, also if the values are less than a power of ten apart."""
    from matplotlib.ticker import LogLocator, NullFormatter

    values = [
        value
        for one in chart.series
        for value in (*one.y, *one.low, *one.high)
        if value is not None and value > 0
    ]
    if not values:
        return
    found = log_ticks(values)
    if found is None:
        axes.yaxis.set_major_locator(LogLocator(numticks=_MOST_TICKS))
    else:
        ticks, limits = found
        if limits is not None:
            axes.set_ylim(*limits)
        low, high = axes.get_ylim()
        axes.set_yticks([tick for tick in ticks if low <= tick <= high])
        axes.yaxis.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.12g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _boxes(axes: Any, chart: Boxes) -> None:
    number = len(chart.series)
    width = 0.8 / number
    for place, one in enumerate(chart.series):
        stats, positions = [], []
        for column, box in enumerate(one.boxes):
            if box is not None:
                low, first, middle, third, high = box
                stats.append(
                    {"whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high}
                )
                positions.append(column + (place - (number - 1) / 2) * width)
        colour = _colour(one.colour)
        axes.bxp(
            stats,
            positions=positions,
            widths=width * 0.85,
            showfliers=False,
            patch_artist=True,
            boxprops={
                "facecolor": "white" if one.dashed else colour,
                "edgecolor": colour,
                "alpha": 0.75,
            },
            medianprops={"color": "black", "linewidth": 1},
            whiskerprops={"color": colour},
            capprops={"color": colour},
        )
        axes.plot([], [], color=colour, linestyle=_dash(one), label=_literal(one.name))
    step = max(1, -(-len(chart.columns) // _MOST_TICKS))
    places = list(range(0, len(chart.columns), step))
    axes.set_xticks(places, [_literal(chart.columns[place]) for place in places])
    _dress(axes, "\n".join([chart.x_title, *_notes(chart)]), chart.y_title)
    if chart.limits:
        axes.set_ylim(*chart.limits)
    _legend(axes, number)


def _heat(figure: Any, axes: Any, chart: Heat) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    low, high = chart.scale
    if chart.centred:
        colours = ["#7a4fb5", "#f7f7f7", "#a07400"]
    else:
        colours = ["#f4f7fb", "#0b5cad" if chart.higher_is_better else "#c2410c"]
    values = [[float("nan") if value is None else value for value in row] for row in chart.values]
    shown = axes.imshow(
        values,
        cmap=LinearSegmentedColormap.from_list("cclmark", colours),
        vmin=low,
        vmax=high,
        aspect="auto",
    )
    figure.colorbar(shown, ax=axes, label=_literal(chart.unit), shrink=0.8)
    step = max(1, -(-len(chart.columns) // _MOST_TICKS))
    places = list(range(0, len(chart.columns), step))
    axes.set_xticks(places, [_literal(chart.columns[place]) for place in places])
    axes.set_yticks(range(len(chart.rows)), [_literal(name) for name in chart.rows])
    axes.tick_params(length=0)
    axes.set_xlabel(_literal(chart.column_title))
    for side in axes.spines.values():
        side.set_visible(False)
    if (
        len(chart.rows) <= _MOST_CELLS_WITH_TEXT[0]
        and len(chart.columns) <= _MOST_CELLS_WITH_TEXT[1]
    ):
        _cell_texts(axes, chart, low, high)


def _cell_texts(axes: Any, chart: Heat, low: float, high: float) -> None:
    for row, line in enumerate(chart.values):
        for column, value in enumerate(line):
            text = chart.texts[row][column] if chart.texts else f"{value:.3g}" if value else ""
            share = 0.0 if value is None or high <= low else (value - low) / (high - low)
            dark = abs(share - 0.5) > 0.35 if chart.centred else share > 0.55
            colour = "white" if dark and value is not None else "#1c2430"
            axes.text(
                column, row, _literal(text), ha="center", va="center", color=colour, fontsize=7.5
            )


def _dress(axes: Any, x_title: str, y_title: str) -> None:
    axes.set_xlabel(_literal(x_title))
    axes.set_ylabel(_literal(y_title))
    axes.grid(visible=True, color="#e3e7ec", linewidth=0.6)
    axes.set_axisbelow(True)
    for name in ("top", "right"):
        axes.spines[name].set_visible(False)
