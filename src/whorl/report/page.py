"""Pages as one file each: pieces that escape what they are given, and the template that holds them.

Every function here takes plain text and gives HTML; only arguments named ``…_html`` or ``body`` are HTML already.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template

Row = tuple[str, Sequence[str]]
"""A table's row: its header and its cells."""
Groups = Sequence[tuple[str, Sequence[str]]]
"""Neighbouring columns under one name; a group without a name has none above it."""


@dataclass(frozen=True)
class Cell:
    """A cell with more than a text to it."""

    text: str
    value: float | None = None
    """What the table is sorted by; a cell without one comes last."""
    mark: str = ""
    below: Sequence[str] = ()
    """Smaller lines under the text."""
    link: str = ""
    name: str = ""
    """For links to the cell."""


def page(title: str, body: Iterable[str], script: str = "") -> str:
    """A whole page. It loads nothing: style, figures and images are inside, and so is the package's ``script``."""
    inside = f"<script>\n{_file(script)}</script>\n" if script else ""
    return Template(_file("page.html")).substitute(title=escape(title), body="\n".join(body), script=inside)


def heading(level: int, text: str, name: str = "") -> str:
    """A heading; a ``name`` is for links to it."""
    return f"<h{level}{_id(name)}>{escape(text)}</h{level}>"


def paragraph(text: str, soft: bool = False) -> str:
    """A paragraph; ``soft`` for what stands in the second row."""
    return f'<p class="soft">{escape(text)}</p>' if soft else f"<p>{escape(text)}</p>"


def figure(svg_html: str, alt: str, caption: str) -> str:
    """An SVG (from :func:`whorl.report.plots.inline`) with the words for those who cannot see it."""
    picture = f'<div role="img" aria-label="{escape(alt)}">{svg_html}</div>'
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def image(png: bytes, size: tuple[int, int], alt: str) -> str:
    """A PNG inside the page; ``size`` is the width and height at which it is shown."""
    uri = "data:image/png;base64," + base64.b64encode(png).decode()
    return f'<img src="{uri}" width="{size[0]}" height="{size[1]}" alt="{escape(alt)}">'


def numbers(caption: str, corner: str, groups: Groups, rows: Iterable[Row]) -> str:
    """A table of numbers."""
    edges = _edges(groups)
    body = [
        _cell("th", head, False, "row") + "".join(_cell("td", v, edge) for v, edge in zip(values, edges, strict=True))
        for head, values in rows
    ]
    return (
        f'<table class="numbers"><caption>{escape(caption)}</caption>{_heads(corner, groups)}'
        f"<tbody>{''.join(f'<tr>{row}</tr>' for row in body)}</tbody></table>"
    )


def sheet(label: str, corner: str, groups: Groups, rows: Iterable[tuple[Cell, Sequence[Cell]]], kind: str = "") -> str:
    """A table that may be wider than the page and scrolls in a box of its own; ``kind`` is how it looks and sorts."""
    edges = _edges(groups)
    body = [
        f"<tr>{_rich('th', head, False)}{''.join(_rich('td', c, e) for c, e in zip(values, edges, strict=True))}</tr>"
        for head, values in rows
    ]
    box = "scroll wide" if kind == "sortable" and len(edges) > 8 else "scroll"
    return (
        f'<div class="{box}" role="region" tabindex="0" aria-label="{escape(label)}">'
        f'<table class="{f"numbers sheet {kind}".strip()}" aria-label="{escape(label)}">{_heads(corner, groups)}'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def strips(head: tuple[str, str], rows: Iterable[tuple[str, str, Sequence[str]]]) -> str:
    """A table of pictures: each row has a name, a line about it, and images (HTML) that wrap where it is narrow."""
    body = [
        f'<tr><th scope="row"><b>{escape(name)}</b>{escape(about)}</th>'
        f'<td><div class="strips">{"".join(images_html)}</div></td></tr>'
        for name, about, images_html in rows
    ]
    heads = "".join(_cell("th", name, False, "col") for name in head)
    top = f"<colgroup><col><col></colgroup><thead><tr>{heads}</tr></thead>"
    return f'<table class="clusters">{top}<tbody>{"".join(body)}</tbody></table>'


def commands(lines: Iterable[str]) -> str:
    """Commands to copy."""
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"


def items(lines: Iterable[str]) -> str:
    """A list of remarks."""
    return f'<ul class="soft">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>'


def links(words: str, targets: Iterable[tuple[str, str]]) -> str:
    """A line of links within the page, each a text and the name it leads to."""
    made = ", ".join(f'<a href="#{escape(name)}">{escape(text)}</a>' for text, name in targets)
    return f'<p class="soft">{escape(words)} {made}</p>'


def fold(summary: str, body: Iterable[str], name: str = "") -> str:
    """What is shown when it is asked for."""
    return f"<details{_id(name)}><summary>{escape(summary)}</summary>{''.join(body)}</details>"


def side_by_side(key_html: str, pieces_html: Iterable[str]) -> str:
    """Plots, as many abreast as fit, under one legend."""
    plots = "".join(f"<div>{piece}</div>" for piece in pieces_html)
    return f'<div class="key">{key_html}</div><div class="abreast">{plots}</div>'


def facts(pairs: Mapping[str, str]) -> str:
    """Names and values."""
    return f"<dl>{''.join(f'<dt>{escape(k)}</dt><dd>{escape(v)}</dd>' for k, v in pairs.items())}</dl>"


def _file(name: str) -> str:
    return files("whorl.report").joinpath(name).read_text(encoding="utf-8")


def _id(name: str) -> str:
    return f' id="{escape(name)}"' if name else ""


def _edges(groups: Groups) -> list[bool]:
    """A line stands before the first column of each named group."""
    return [number == 0 and bool(name) for name, columns in groups for number in range(len(columns))]


def _heads(corner: str, groups: Groups) -> str:
    edges, names = _edges(groups), [column for _, columns in groups for column in columns]
    above = "".join(_over(name, len(columns)) for name, columns in groups)
    heads = "".join(_cell("th", name, edge, "col") for name, edge in zip(names, edges, strict=True))
    top = f"<tr><td></td>{above}</tr>" if any(edges) else ""
    return f"<thead>{top}<tr>{_cell('th', corner, False, 'col')}{heads}</tr></thead>"


def _rich(tag: str, cell: Cell, edge: bool) -> str:
    scope, kind = (' scope="row"' if tag == "th" else ""), (' class="edge"' if edge else "")
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    text = f'<a href="#{escape(cell.link)}">{escape(cell.text)}</a>' if cell.link else escape(cell.text)
    mark = f"<sup>{escape(cell.mark)}</sup>" if cell.mark else ""
    below = "".join(f"<small>{escape(line)}</small>" for line in cell.below)
    return f"<{tag}{_id(cell.name)}{scope}{kind}{value}>{text}{mark}{below}</{tag}>"


def _cell(tag: str, text: str, edge: bool, scope: str = "") -> str:
    attributes = (f' scope="{scope}"' if scope else "") + (' class="edge"' if edge else "")
    return f"<{tag}{attributes}>{escape(text)}</{tag}>"


def _over(name: str, columns: int) -> str:
    if not name:
        return f'<td colspan="{columns}"></td>'
    return f'<th scope="colgroup" class="edge" colspan="{columns}">{escape(name)}</th>'
