"""Figures as pure functions: values in, a matplotlib figure out, then SVG or PNG. No pyplot, no state that stays."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
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


def curves(lines: Sequence[Line], x_label: str, y_label: str, size: tuple[float, float] = (5.2, 3.1)) -> Any:
    """Curves of shares (0 to 1) over whole numbers, as a figure of ``size`` inches on a transparent ground."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MultipleLocator

    figure = Figure(figsize=size, layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot(facecolor="none")
    for number, line in enumerate(lines):
        colour, marker, style = (options[number % len(options)] for options in (COLOURS, MARKERS, STYLES))
        axes.plot(line.x, line.y, color=colour, marker=marker, linestyle=style, linewidth=2, label=line.label)
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    axes.set_xticks(sorted({x for line in lines for x in line.x}))
    axes.set_ylim(floor([y for line in lines for y in line.y]), 1.02)
    axes.yaxis.set_major_locator(MultipleLocator(0.1))
    axes.grid(axis="y", color=FAINT, alpha=0.3, linewidth=0.8)
    axes.tick_params(colors=INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)
    axes.legend(frameon=False, labelcolor=INK, loc="lower left", handlelength=3.5)
    return figure


def floor(values: Sequence[float]) -> float:
    """Where a scale of shares begins: two tenths below the lowest value, at a round tenth, which leaves room."""
    return max(0, math.floor(min(values, default=0.0) * 10 + 1e-9) - 2) / 10


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
