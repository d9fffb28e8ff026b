"""The templates escape all text, and their tables are labelled for screen readers."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from whorl.report.page import PAGES

NASTY = '<script>alert("1 & 2")</script>'
SAFE = "&lt;script&gt;alert(&#34;1 &amp; 2&#34;)&lt;/script&gt;"
MACROS: Any = PAGES.get_template("macros.html").module


def rendered(text: str, **values: Any) -> str:
    return PAGES.from_string('{% import "macros.html" as m %}' + text).render(values)


def test_every_macro_escapes_its_text() -> None:
    n = NASTY
    pieces = [
        MACROS.heads(n, [(n, [n])]),
        MACROS.cell(n, id=n, link=n, mark=n, below=[n]),
        MACROS.row([n, n], [(n, [n])]),
        rendered("{% call m.numbers(n, n, [(n, [n])]) %}{{ m.row([n, n], [(n, [n])]) }}{% endcall %}", n=n),
        rendered("{% call m.sheet(n, n, [(n, [n])], n) %}{{ m.row([n, n], [(n, [n])]) }}{% endcall %}", n=n),
        MACROS.links(n, [(n, n)]),
        MACROS.remarks([n]),
        MACROS.figure(Markup("<svg></svg>"), n, n),
        MACROS.code([n]),
    ]
    assert [piece.count(SAFE) for piece in pieces] == [3, 5, 2, 6, 8, 3, 1, 2, 1]
    assert not any("<script" in piece for piece in pieces)
    assert "<svg></svg>" in pieces[7]
    assert "<svg" not in MACROS.figure("<svg></svg>", "", "")  # only text that is marked as HTML stays HTML


def test_the_page_has_a_language_a_title_and_both_colour_schemes() -> None:
    blocks = "{% block title %}{{ t }}{% endblock %}{% block body %}<p>{{ t }}</p>{% endblock %}"
    whole = PAGES.from_string('{% extends "base.html" %}' + blocks).render(t="A & B")
    assert whole.startswith('<!doctype html>\n<html lang="en">')
    assert "<title>A &amp; B</title>" in whole
    assert "<p>A &amp; B</p>" in whole
    assert 'name="viewport"' in whole
    assert "prefers-color-scheme: dark" in whole
    assert "<script" not in whole


def numbers(corner: str, groups: Any, row: list[str]) -> str:
    text = "{% call m.numbers('Cap', corner, groups) %}{{ m.row(row, groups) }}{% endcall %}"
    return rendered(text, corner=corner, groups=groups, row=row)


def test_a_table_of_numbers_has_headers_with_scope() -> None:
    groups = [("", ["n"]), ("One", ["a", "b"])]
    assert numbers("Step", groups, ["1", "6", "0.5", "–"]) == (
        '<table class="numbers"><caption>Cap</caption>'
        '<thead><tr><td></td><td colspan="1"></td><th scope="colgroup" class="edge" colspan="2">One</th></tr>'
        '<tr><th scope="col">Step</th><th scope="col">n</th><th scope="col" class="edge">a</th>'
        '<th scope="col">b</th></tr></thead>'
        '<tbody><tr><th scope="row">1</th><td>6</td><td class="edge">0.5</td><td>–</td></tr></tbody></table>'
    )


def test_a_table_without_groups_has_one_row_of_headers() -> None:
    assert numbers("", [("", ["a"])], ["x", "1"]).count("<tr>") == 2


def test_a_cell_has_a_value_to_sort_by_only_where_there_is_a_number() -> None:
    assert MACROS.cell("0.5", True, "c", 0.5, "runs-1", "a", ["+0.1", ""]) == (
        '<td id="c" class="edge" data-value="0.5"><a href="#runs-1">0.5</a><sup>a</sup><small>+0.1</small></td>'
    )
    assert MACROS.cell("not run") == "<td>not run</td>"


def test_a_wide_sortable_sheet_may_be_wider_than_the_text() -> None:
    sheet = "{% call m.sheet('Table', 'Row', [('One', names)], 'sortable') %}{% endcall %}"
    narrow, wide = (rendered(sheet, names=["a"] * count) for count in (8, 9))
    assert '<table class="numbers sheet sortable" aria-label="Table">' in narrow
    assert ('class="scroll"' in narrow, 'class="scroll wide"' in wide) == (True, True)
