"""The pieces of a page escape what they are given and say what they are to those who cannot see them."""

from __future__ import annotations

import base64

from whorl.report import page

NASTY = '<script>alert("1 & 2")</script>'
SAFE = "&lt;script&gt;alert(&quot;1 &amp; 2&quot;)&lt;/script&gt;"


def test_every_piece_escapes_its_text() -> None:
    nasty = page.Cell(NASTY, mark=NASTY, below=[NASTY], link=NASTY, name=NASTY)
    pieces = [
        page.heading(2, NASTY),
        page.paragraph(NASTY),
        page.paragraph(NASTY, soft=True),
        page.figure("<svg></svg>", NASTY, NASTY),
        page.image(b"", (1, 1), NASTY),
        page.numbers(NASTY, NASTY, [(NASTY, [NASTY])], [(NASTY, [NASTY])]),
        page.strips((NASTY, NASTY), [(NASTY, NASTY, [])]),
        page.commands([NASTY]),
        page.facts({NASTY: NASTY}),
        page.sheet(NASTY, NASTY, [(NASTY, [NASTY])], [(nasty, [nasty])]),
        page.items([NASTY]),
        page.links(NASTY, [(NASTY, NASTY)]),
        page.fold(NASTY, [], NASTY),
        page.side_by_side("", []),
    ]
    assert [piece.count(SAFE) for piece in pieces] == [1, 1, 1, 2, 1, 6, 4, 1, 2, 15, 1, 3, 2, 0]
    whole = page.page(NASTY, pieces)
    assert "<script" not in whole
    assert whole.count(SAFE) == 41


def test_the_page_says_its_language_and_keeps_dollar_signs_of_the_text() -> None:
    whole = page.page("Price", [page.paragraph("$5 and $title")])
    assert whole.startswith('<!doctype html>\n<html lang="en">')
    assert "<title>Price</title>" in whole
    assert "<p>$5 and $title</p>" in whole
    assert 'name="viewport"' in whole
    assert "prefers-color-scheme: dark" in whole


def test_a_table_of_numbers_has_headers_with_scope() -> None:
    groups = [("", ["n"]), ("One", ["a", "b"])]
    assert page.numbers("Cap", "Step", groups, [("1", ["6", "0.5", "–"])]) == (
        '<table class="numbers"><caption>Cap</caption>'
        '<thead><tr><td></td><td colspan="1"></td><th scope="colgroup" class="edge" colspan="2">One</th></tr>'
        '<tr><th scope="col">Step</th><th scope="col">n</th><th scope="col" class="edge">a</th>'
        '<th scope="col">b</th></tr></thead>'
        '<tbody><tr><th scope="row">1</th><td>6</td><td class="edge">0.5</td><td>–</td></tr></tbody></table>'
    )


def test_a_table_without_groups_has_one_row_of_headers() -> None:
    assert page.numbers("Cap", "", [("", ["a"])], [("x", ["1"])]).count("<tr>") == 2


def test_an_image_is_inside_the_page_with_its_size_and_words() -> None:
    html = page.image(b"\x89PNG", (30, 20), "three digits")
    data = base64.b64encode(b"\x89PNG").decode()
    assert html == f'<img src="data:image/png;base64,{data}" width="30" height="20" alt="three digits">'


def test_a_sheet_has_a_value_to_sort_by_only_where_there_is_a_number() -> None:
    cells = [page.Cell("0.5", value=0.5, mark="a", below=["+0.1"], link="runs-1", name="c"), page.Cell("not run")]
    made = page.sheet("Table", "Row", [("One", ["a", "b"])], [(page.Cell("x"), cells)], "sortable")
    assert (
        '<td id="c" class="edge" data-value="0.5"><a href="#runs-1">0.5</a><sup>a</sup><small>+0.1</small></td>' in made
    )
    assert "<td>not run</td>" in made
    assert '<table class="numbers sheet sortable" aria-label="Table">' in made


def test_a_script_is_inside_the_page_where_it_is_asked_for() -> None:
    assert page.page("T", [], script="sort.js").count("<script>") == 1
    assert "<script" not in page.page("T", [])
