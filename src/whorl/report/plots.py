"""Figures as pure functions: values in, a matplotlib figure out, then SVG or PNG. No pyplot, no state that stays."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

# Okabe and Ito's colours, told apart with any colour vision; black is left to the axes. Markers and line styles
# differ too, so that a print in grey can be read.
COLOURS = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
MARKERS = "o", "s", "^", "D", "v", "P"
STYLES = "-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1))
INK, FAINT = "#24292f", "#8c959f"


@dataclass(frozen=True)
class Line:
    """One curve and its name in the legend."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float | None] = ()
    """A standard deviation for each place, drawn as a band; None or nothing where there is none."""


@dataclass(frozen=True)
class Panel:
    """One of several plots side by side. A curve has the same place in each, and so the same look."""

    title: str
    lines: Sequence[Line]


def curves(lines: Sequence[Line], x_label: str, y_label: str, size: tuple[float, float] = (5.2, 3.1)) -> Any:
    """Curves of shares (0 to 1) over whole numbers, as a figure of ``size`` inches on a transparent ground."""
    figure = _figure(size, layout="constrained")
    axes = figure.add_subplot(facecolor="none")
    _draw(axes, lines)
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    axes.set_ylim(floor([y for line in lines for y in line.y]), 1.02)
    axes.legend(frameon=False, labelcolor=INK, loc="lower left", handlelength=3.5)
    return figure


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
    """Plots of ``size`` inches, two abreast, with one scale.

    ``key`` puts one legend above them, ``note`` a line on top of all; ``limits`` are those of the scale where other
    plots share it.
    """
    (wide, high), across = size, min(2, len(found))
    down = -(-len(found) // across)
    width, height = wide * across, high * down
    said = wrap(note, int(width * 15))
    whole = height + (_key_height(found, width) if key else 0) + 0.16 * len(said)
    figure = _figure((width, whole), ground)
    # Margins in inches, not by a solver: plots that stand side by side have the same frame, and it is quick.
    left, right, bottom, top = 0.7, 0.15, 0.5, 0.3
    for number, panel in enumerate(found):
        column, row = number % across, number // across
        x, y = column * wide + left, height - (row + 1) * high + bottom
        box = x / width, y / whole, (wide - left - right) / width, (high - bottom - top) / whole
        axes = figure.add_axes(box, facecolor="none")
        _draw(axes, panel.lines, size=4)
        axes.set_ylim(limits or scale([line for panel in found for line in panel.lines]))
        axes.set_title(panel.title, color=INK, fontsize=10, loc="left")
        if number + across >= len(found):  # nothing is below it
            axes.set_xlabel(x_label, color=INK)
        if column == 0:
            axes.set_ylabel(y_label, color=INK)
    if key:
        _legend(figure, found, (0.5, 1 - 0.16 * len(said) / whole), "upper center")
    figure.text(0.5, 1 - 0.04 / whole, "\n".join(said), color=INK, fontsize=8, ha="center", va="top")
    return figure


def key(found: Sequence[Panel]) -> Any:
    """The legend of some plots alone, as wide as one of them, for a page that lays the plots out itself."""
    figure = _figure((3.7, _key_height(found, 3.7)))
    _legend(figure, found, (0.5, 0.5), "center")
    return figure


def scale(lines: Sequence[Line]) -> tuple[float, float]:
    """From a round tenth below all curves and their bands to one above them."""
    lows, highs = list[float](), list[float]()
    for line in lines:
        spread = [s or 0.0 for s in line.spread] or [0.0] * len(line.y)
        lows += [y - s for y, s in zip(line.y, spread, strict=True)]
        highs += [y + s for y, s in zip(line.y, spread, strict=True)]
    low, high = math.floor(min(lows, default=0.0) * 10) / 10, math.ceil(max(highs, default=1.0) * 10) / 10
    return low - 0.01, max(high, low + 0.1) + 0.01


def floor(values: Sequence[float]) -> float:
    """Where a scale of shares begins: two tenths below the lowest value, at a round tenth, which leaves room."""
    return max(0, math.floor(min(values, default=0.0) * 10 + 1e-9) - 2) / 10


def _figure(size: tuple[float, float], ground: str = "none", **options: Any) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=size, facecolor=ground, **options)


def _draw(axes: Any, lines: Sequence[Line], size: float = 6) -> None:
    from matplotlib.ticker import MaxNLocator, MultipleLocator

    for number, line in enumerate(lines):
        look = _look(number, size)
        axes.plot(line.x, line.y, linewidth=2, label=line.label, **look)
        if any(line.spread):
            spread = [s or 0.0 for s in line.spread]
            edges = ([y + side * s for y, s in zip(line.y, spread, strict=True)] for side in (-1, 1))
            if len(line.x) > 1:
                axes.fill_between(line.x, *edges, color=look["color"], alpha=0.2, linewidth=0)
            else:  # a band over one place has no width
                axes.vlines(line.x, *edges, color=look["color"], alpha=0.5, linewidth=2)
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


def _look(number: int, size: float) -> dict[str, Any]:
    again, number = divmod(number, len(COLOURS))  # beyond six, a colour has another marker and style
    colour = COLOURS[number]
    marker, style = (options[(number + again) % len(options)] for options in (MARKERS, STYLES))
    return {"color": colour, "marker": marker, "linestyle": style, "markersize": size}


def _labels(found: Sequence[Panel]) -> dict[int, str]:
    """The curves that are drawn anywhere, by their place."""
    drawn = {number: line.label for panel in found for number, line in enumerate(panel.lines) if len(line.x)}
    return dict(sorted(drawn.items()))


def _abreast(labels: Iterable[str], width: float) -> int:
    """How many names of a legend stand in a row: a letter takes about 0.08 inches, and a line stands before each."""
    return max(1, min(3, int(width / (0.08 * max(map(len, labels), default=0) + 0.7))))


def _key_height(found: Sequence[Panel], width: float) -> float:
    labels = _labels(found).values()
    return 0.15 + 0.2 * -(-len(labels) // _abreast(labels, width))


def _legend(figure: Any, found: Sequence[Panel], place: tuple[float, float], corner: str) -> None:
    from matplotlib.lines import Line2D

    labels = _labels(found)
    lines = [Line2D([], [], linewidth=2, **_look(number, 5)) for number in labels]
    across = _abreast(labels.values(), figure.get_figwidth())
    options = {"frameon": False, "labelcolor": INK, "handlelength": 3.2, "fontsize": 9, "borderaxespad": 0.2}
    figure.legend(lines, list(labels.values()), loc=corner, bbox_to_anchor=place, ncols=across, **options)


def svg(figure: Any) -> str:
    """The figure as SVG. Letters are outlines: it looks the same wherever it is shown, and the same each time."""
    import matplotlib

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
    """An SVG to stand inside a page: its ids are its own (``name``), and its colours follow the page.

    Ink becomes the colour of the text around it, and each colour of a curve can be set by the page as ``--curve-N``.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = text.replace(INK, "currentColor").replace("<svg", '<svg aria-hidden="true" focusable="false"', 1)
    for number, colour in enumerate(COLOURS, 1):
        text = text.replace(colour, f"var(--curve-{number}, {colour})")
    return text.strip()
