"""Pages as one file each: pieces that escape what they are given, and the template that holds them.

Every function here takes plain text and gives HTML; only arguments named ``…_html`` or ``body`` are HTML already.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

Row = tuple[str, Sequence[str]]
"""A table's row: its header and its cells."""


def page(title: str, body: Iterable[str]) -> str:
    """A whole page. It loads nothing: style, figures and images are inside."""
    template = Template(files("whorl.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title), body="\n".join(body))


def heading(level: int, text: str) -> str:
    """A heading."""
    return f"<h{level}>{escape(text)}</h{level}>"


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


def numbers(caption: str, corner: str, groups: Sequence[tuple[str, Sequence[str]]], rows: Iterable[Row]) -> str:
    """A table of numbers. ``groups`` names neighbouring columns; a group without a name has none above it."""
    # A line stands before the first column of each named group.
    edges = [number == 0 and bool(name) for name, columns in groups for number in range(len(columns))]
    names = [column for _, columns in groups for column in columns]
    above = "".join(_over(name, len(columns)) for name, columns in groups)
    heads = "".join(_cell("th", name, edge, "col") for name, edge in zip(names, edges, strict=True))
    top = f"<tr><td></td>{above}</tr>" if any(edges) else ""
    body = [
        _cell("th", head, False, "row") + "".join(_cell("td", v, edge) for v, edge in zip(values, edges, strict=True))
        for head, values in rows
    ]
    return (
        f'<table class="numbers"><caption>{escape(caption)}</caption>'
        f"<thead>{top}<tr>{_cell('th', corner, False, 'col')}{heads}</tr></thead>"
        f"<tbody>{''.join(f'<tr>{row}</tr>' for row in body)}</tbody></table>"
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


def facts(pairs: Mapping[str, str]) -> str:
    """Names and values."""
    return f"<dl>{''.join(f'<dt>{escape(k)}</dt><dd>{escape(v)}</dd>' for k, v in pairs.items())}</dl>"


def _cell(tag: str, text: str, edge: bool, scope: str = "") -> str:
    attributes = (f' scope="{scope}"' if scope else "") + (' class="edge"' if edge else "")
    return f"<{tag}{attributes}>{escape(text)}</{tag}>"


def _over(name: str, columns: int) -> str:
    if not name:
        return f'<td colspan="{columns}"></td>'
    return f'<th scope="colgroup" class="edge" colspan="{columns}">{escape(name)}</th>'
