"""The card of a fit in a notebook: HTML with its own style, for light and dark pages."""

from __future__ import annotations

import html
from collections.abc import Sequence

# These colours are legible on white and on dark grey; all others are the page's. The cards of one
# page share a style, and a class gives the kind of verdict.
_STYLE = """<style>
.unshuffle-card { border-left: .35em solid #7a828a; background: rgba(127, 127, 127, .08);
  padding: .6em 1em; max-width: 56em; line-height: 1.45; }
.unshuffle-card .head { font-weight: 600; font-size: 1.1em; }
.unshuffle-card.good { border-color: #12936f; }
.unshuffle-card.good .head { color: #12936f; }
.unshuffle-card.doubtful { border-color: #c8620a; }
.unshuffle-card.doubtful .head { color: #c8620a; }
.unshuffle-card p { margin: .35em 0; }
.unshuffle-card .scroll { overflow-x: auto; max-width: 100%; }
.unshuffle-card table { border-collapse: collapse; margin: .5em 0; border: none;
  font-variant-numeric: tabular-nums; }
.unshuffle-card th, .unshuffle-card td { text-align: right; padding: .15em .7em; border: none;
  border-bottom: 1px solid rgba(127, 127, 127, .35); background: none; white-space: nowrap; }
.unshuffle-card th:first-child { text-align: left; font-weight: 400; }
.unshuffle-card thead th { font-weight: 600; }
.unshuffle-card .small { opacity: .8; font-size: .92em; }
</style>"""


def make_card(
    headline: tuple[str, str],
    sentences: Sequence[str],
    tables: Sequence[tuple[str, Sequence[Sequence[str]]]],
    facts: Sequence[str],
    title: str = "",
) -> str:
    """Return a card: verdict, tables (a caption and lines, the head first) and facts.

    >>> "<b>" in make_card(("Identified", "good"), ["<b>"], [], [])
    False
    """
    words, tone = headline
    parts = [_STYLE]
    if title:
        parts.append(f'<p class="small"><code>{html.escape(title)}</code></p>')
    parts.append(f'<p class="head">{html.escape(words)}</p>')
    parts += [f"<p>{html.escape(line)}</p>" for line in sentences]
    parts += [_make_table(caption, lines) for caption, lines in tables]
    parts += [f'<p class="small">{html.escape(line)}</p>' for line in facts]
    return f'<div class="unshuffle-card {tone}">{"".join(parts)}</div>'


def _make_table(caption: str, lines: Sequence[Sequence[str]]) -> str:
    first, *rest = lines
    head = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in first)
    body = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rest
    )
    above = f"<p>{html.escape(caption)}</p>" if caption else ""
    return (
        f'{above}<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
