"""Figures: what was drawn, and how it fits into a page."""

from __future__ import annotations

import re

import pytest

from whorl.report.plots import COLOURS, MARKERS, STYLES, Line, curves, floor, inline, png, svg

LINES = [Line("with labels", [1, 2, 3], [0.98, 0.9, 0.85]), Line("without <labels>", [1, 2, 3], [0.98, 0.8, 0.71])]


def test_every_line_is_drawn_with_its_values_and_its_own_colour_marker_and_style() -> None:
    axes = curves(LINES, "Step", "ACC").axes[0]
    drawn = axes.get_lines()
    assert [list(line.get_xydata()[:, 1]) for line in drawn] == [line.y for line in LINES]
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert len({getattr(line, look)() for line in drawn}) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["with labels", "without <labels>"]
    assert axes.get_xlabel() == "Step"
    assert axes.get_ylabel() == "ACC"
    assert list(axes.get_xticks()) == [1, 2, 3]


def test_six_lines_can_be_told_apart_without_colour() -> None:
    assert len(set(MARKERS)) == len(set(STYLES)) == len(set(COLOURS)) == 6


@pytest.mark.parametrize(("values", "begin"), [([0.91, 0.98], 0.7), ([0.8], 0.6), ([0.15], 0.0), ([], 0.0)])
def test_the_scale_begins_at_a_round_tenth_below_the_lowest_value(values: list[float], begin: float) -> None:
    assert floor(values) == begin


def test_svg_is_the_same_each_time_and_names_no_tool_or_date() -> None:
    first, second = (svg(curves(LINES, "Step", "ACC")) for _ in range(2))
    assert first == second
    assert "<metadata>" not in first
    assert "<text" not in first  # letters are outlines


def test_png_has_the_asked_size() -> None:
    data = png(curves(LINES, "Step", "ACC", size=(4, 2)), dpi=100)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")) == (400, 200)


def test_inline_svg_takes_its_colours_from_the_page_and_keeps_its_ids_to_itself() -> None:
    text = inline(svg(curves(LINES, "Step", "ACC")), "accuracy")
    assert text.startswith('<svg aria-hidden="true"')
    assert "http" not in text
    assert "currentColor" in text
    assert f"var(--curve-1, {COLOURS[0]})" in text
    assert f"var(--curve-2, {COLOURS[1]})" in text
    assert f"var(--curve-3, {COLOURS[2]})" not in text
    ids = set(re.findall(r'\bid="([^"]*)"', text))
    assert all(name.startswith("accuracy-") for name in ids)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', text)) <= ids
