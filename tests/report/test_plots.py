"""Figures: what was drawn, and how it fits into a page."""

from __future__ import annotations

import re

import pytest

from whorl.report.plots import (
    COLOURS,
    MARKERS,
    STYLES,
    Line,
    Panel,
    inline,
    key,
    panels,
    png,
    scale,
    svg,
)

LINES = [Line("with labels", [1, 2, 3], [0.98, 0.9, 0.85]), Line("without <labels>", [1, 2, 3], [0.98, 0.8, 0.71])]


def test_every_line_is_drawn_with_its_values_and_its_own_colour_marker_and_style() -> None:
    axes = panels([Panel("", LINES)], "Step", "ACC").axes[0]
    drawn = axes.get_lines()
    assert [list(line.get_xydata()[:, 1]) for line in drawn] == [line.y for line in LINES]
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert len({getattr(line, look)() for line in drawn}) == 2
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["with labels", "without <labels>"]
    assert axes.get_xlabel() == "Step"
    assert axes.get_ylabel() == "ACC"
    assert list(axes.get_xticks()) == [1, 2, 3]


def test_six_lines_can_be_told_apart_without_colour() -> None:
    assert len(set(MARKERS)) == len(set(STYLES)) == len(set(COLOURS)) == 6


def test_svg_is_the_same_each_time_and_names_no_tool_or_date() -> None:
    first, second = (svg(panels([Panel("", LINES)], "Step", "ACC")) for _ in range(2))
    assert first == second
    assert "<metadata>" not in first
    assert "<text" not in first  # letters are outlines


def test_png_has_the_asked_size() -> None:
    data = png(panels([Panel("", LINES)], "Step", "ACC", key=False, size=(4, 2)), dpi=100)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")) == (400, 200)


def test_inline_svg_takes_its_colours_from_the_page_and_keeps_its_ids_to_itself() -> None:
    text = inline(svg(panels([Panel("", LINES)], "Step", "ACC")), "accuracy")
    assert text.startswith('<svg aria-hidden="true"')
    assert "http" not in text
    assert "currentColor" in text
    assert f"var(--curve-1, {COLOURS[0]})" in text
    assert f"var(--curve-2, {COLOURS[1]})" in text
    assert f"var(--curve-3, {COLOURS[2]})" not in text
    ids = set(re.findall(r'\bid="([^"]*)"', text))
    assert all(name.startswith("accuracy-") for name in ids)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', text)) <= ids


BANDS = [Line("one", [10, 20], [0.5, 0.4], [0.1, 0.05]), Line("two", [], [])]
PANELS = [Panel("A", BANDS), Panel("B", [Line("one", [10], [0.71]), Line("two", [10, 20], [0.9, 0.2], [None, None])])]


def test_panels_share_one_scale_one_legend_and_the_look_of_each_curve() -> None:
    figure = panels(PANELS, "classes", "ACC", note="said above")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["A", "B"]
    assert {axes.get_ylim() for axes in figure.axes} == {scale([line for panel in PANELS for line in panel.lines])}
    drawn = [axes.get_lines() for axes in figure.axes]
    assert [line.get_color() for line in drawn[0]] == [line.get_color() for line in drawn[1]] == list(COLOURS[:2])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]
    assert figure.texts[0].get_text() == "said above"
    assert [axes.get_xlabel() for axes in figure.axes] == ["classes", "classes"]
    assert [axes.get_ylabel() for axes in figure.axes] == ["ACC", ""]


def test_a_band_is_one_deviation_to_either_side() -> None:
    axes = panels([Panel("A", BANDS)], "x", "y").axes[0]
    (band,) = axes.collections
    assert {(x, round(y, 9)) for x, y in band.get_paths()[0].vertices} == {(10, 0.4), (10, 0.6), (20, 0.35), (20, 0.45)}
    assert panels(PANELS[1:], "x", "y").axes[0].collections[:] == []  # one seed: nothing to show
    (bar,) = panels([Panel("A", [Line("one", [10], [0.5], [0.1])])], "x", "y").axes[0].collections
    assert bar.get_segments()[0].ravel().tolist() == pytest.approx([10, 0.4, 10, 0.6])


def test_the_scale_holds_every_band_between_round_tenths() -> None:
    assert scale(BANDS) == pytest.approx((0.29, 0.61))
    assert scale([Line("", [1], [-0.02])])[0] == pytest.approx(-0.11)
    assert scale([]) == pytest.approx((-0.01, 1.01))


def test_a_legend_alone_names_only_what_is_drawn_and_long_names_stand_below_each_other() -> None:
    assert [text.get_text() for text in key([PANELS[0]]).legends[0].get_texts()] == ["one"]
    long = [Panel("", [Line("a rather long name of a curve", [1], [0.5])] * 4)]
    assert key(long).get_figheight() > key([Panel("", [Line("a", [1], [0.5])] * 4)]).get_figheight()


def test_no_two_of_many_curves_look_the_same() -> None:
    drawn = panels([Panel("", [Line(f"{n}", [1, 2], [0.1, 0.5]) for n in range(36)])], "x", "y").axes[0].get_lines()
    assert len({(line.get_color(), line.get_marker()) for line in drawn}) == 36


def test_many_places_have_few_ticks() -> None:
    many = [Line("", list(range(5, 105, 5)), [0.5] * 20)]
    assert len(panels([Panel("", many)], "x", "y").axes[0].get_xticks()) < 10
