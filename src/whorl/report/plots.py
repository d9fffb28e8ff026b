"""Figures as pure functions: values in, a matplotlib figure out, then SVG or PNG. No pyplot, no global state."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, MultipleLocator

# Okabe and Ito's colours, which can be distinguished with any colour vision; black is left to the axes. Markers and
# line styles differ too, for prints in grey.
COLOURS = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
MARKERS = "o", "s", "^", "D", "v", "P"
STYLES = "-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1))
INK, FAINT = "#24292f", "#8c959f"


@dataclass(frozen=True)
class Line:
    """A curve and its name in the legend."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float | None] = ()
    """A standard deviation for each point, drawn as a band; empty or None for no band."""

    @property
    def edges(self) -> tuple[list[float], list[float]]:
        """The lower and the upper edge of the band."""
        spread = [s or 0.0 for s in self.spread] or [0.0] * len(self.y)
        both = list(zip(self.y, spread, strict=True))
        return [y - s for y, s in both], [y + s for y, s in both]


@dataclass(frozen=True)
class Panel:
    """One of several plots side by side. A curve has the same index in each, and so the same colour and marker."""

    title: str
    lines: Sequence[Line]


def panels(
    found: Sequence[Panel],
    x_label: str,
    y_label: str,
    key: bool = True,
    limits: tuple[float, float] | None = None,
    size: tuple[float, float] = (3.7, 2.6),
    ground: str = "none",
    note: str = "",
) -> Any:
    """Plots of ``size`` inches, two per row, with one scale.

    ``key`` draws one legend above them, ``note`` a line above everything; ``limits`` replaces the scale of these plots
    where others share it.
    """
    (wide, high), across = size, min(2, len(found))
    width, height = wide * across, high * -(-len(found) // across)
    lines = wrap(note, int(width * 15))
    whole = height + (_key_height(found, width) if key else 0) + 0.16 * len(lines)
    figure = Figure(figsize=(width, whole), facecolor=ground)
    # Margins in inches instead of a layout solver: plots side by side get the same frame, and it is fast.
    left, right, bottom, top = 0.7, 0.15, 0.5, 0.3
    for number, panel in enumerate(found):
        row, column = divmod(number, across)
        x, y = column * wide + left, height - (row + 1) * high + bottom
        box = x / width, y / whole, (wide - left - right) / width, (high - bottom - top) / whole
        axes = figure.add_axes(box, facecolor="none")
        _draw(axes, panel.lines)
        axes.set_ylim(limits or scale([line for panel in found for line in panel.lines]))
        axes.set_title(panel.title, color=INK, fontsize=10, loc="left")
        if number + across >= len(found):  # the lowest panel of its column
            axes.set_xlabel(x_label, color=INK)
        if column == 0:
            axes.set_ylabel(y_label, color=INK)
    if key:
        _legend(figure, found, (0.5, 1 - 0.16 * len(lines) / whole), "upper center")
    figure.text(0.5, 1 - 0.04 / whole, "\n".join(lines), color=INK, fontsize=8, ha="center", va="top")
    return figure


def key(found: Sequence[Panel]) -> Any:
    """The legend of some plots alone, as wide as one of them, for a page that arranges the plots itself."""
    figure = Figure(figsize=(3.7, _key_height(found, 3.7)), facecolor="none")
    _legend(figure, found, (0.5, 0.5), "center")
    return figure


def scale(lines: Sequence[Line]) -> tuple[float, float]:
    """From a multiple of 0.1 below all curves and their bands to one above them."""
    lows, highs = ([value for line in lines for value in line.edges[side]] for side in (0, 1))
    low, high = math.floor(min(lows, default=0.0) * 10) / 10, math.ceil(max(highs, default=1.0) * 10) / 10
    return low - 0.01, max(high, low + 0.1) + 0.01


def _draw(axes: Any, lines: Sequence[Line]) -> None:
    for number, line in enumerate(lines):
        style = _style(number, 4)
        axes.plot(line.x, line.y, linewidth=2, label=line.label, **style)
        if any(line.spread):
            if len(line.x) > 1:
                axes.fill_between(line.x, *line.edges, color=style["color"], alpha=0.2, linewidth=0)
            else:  # a band at a single point has no width
                axes.vlines(line.x, *line.edges, color=style["color"], alpha=0.5, linewidth=2)
    places = sorted({x for line in lines for x in line.x})
    if len(places) > 8:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    else:
        axes.set_xticks(places)
    axes.yaxis.set_major_locator(MultipleLocator(0.1))
    axes.grid(axis="y", color=FAINT, alpha=0.3, linewidth=0.8)
    axes.tick_params(colors=INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)


def _style(number: int, size: float) -> dict[str, Any]:
    again, number = divmod(number, len(COLOURS))  # beyond six curves, a colour has another marker and line style
    marker, style = (options[(number + again) % len(options)] for options in (MARKERS, STYLES))
    return {"color": COLOURS[number], "marker": marker, "linestyle": style, "markersize": size}


def _labels(found: Sequence[Panel]) -> dict[int, str]:
    """The curves with points in any panel, by index."""
    drawn = {number: line.label for panel in found for number, line in enumerate(panel.lines) if len(line.x)}
    return dict(sorted(drawn.items()))


def _per_row(labels: Iterable[str], width: float) -> int:
    """How many names fit in a row of the legend: a letter takes about 0.08 inches, the line before it 0.7."""
    return max(1, min(3, int(width / (0.08 * max(map(len, labels), default=0) + 0.7))))


def _key_height(found: Sequence[Panel], width: float) -> float:
    labels = _labels(found).values()
    return 0.15 + 0.2 * -(-len(labels) // _per_row(labels, width))


def _legend(figure: Any, found: Sequence[Panel], place: tuple[float, float], corner: str) -> None:
    labels = _labels(found)
    lines = [Line2D([], [], linewidth=2, **_style(number, 5)) for number in labels]
    across = _per_row(labels.values(), figure.get_figwidth())
    options = {"frameon": False, "labelcolor": INK, "handlelength": 3.2, "fontsize": 9, "borderaxespad": 0.2}
    figure.legend(lines, list(labels.values()), loc=corner, bbox_to_anchor=place, ncols=across, **options)


def svg(figure: Any) -> str:
    """The figure as SVG. Letters are outlines, so it looks the same everywhere and is the same text each time."""
    out = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "whorl"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return out.getvalue().decode()


def png(figure: Any, dpi: int = 200) -> bytes:
    """The figure as PNG."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dpi)
    return out.getvalue()


def inline(text: str, name: str) -> str:
    """An SVG for use inside a page: its ids begin with ``name``, and its colours follow the page.

    Ink becomes the colour of the surrounding text, and the page can set the colour of curve N as ``--curve-N``.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = text.replace(INK, "currentColor").replace("<svg", '<svg aria-hidden="true" focusable="false"', 1)
    for number, colour in enumerate(COLOURS, 1):
        text = text.replace(colour, f"var(--curve-{number}, {colour})")
    return text.strip()
