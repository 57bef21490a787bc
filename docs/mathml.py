"""Formulas as MathML, made by docutils at build time: pages need no script and no network.

What docutils writes of accents is set right: bars that browsers draw, and indices beside a letter
with an accent, where it puts them below.
"""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

SPACE = "http://www.w3.org/1998/Math/MathML"
NAMED = re.compile(r"&(?!lt;|gt;|amp;|quot;|apos;)[A-Za-z]\w*;")
# As written → as browsers have it in their fonts. The low line is docutils' overline.
ACCENTS = {"ˉ": "‾", "_": "‾", "~": "˜", "ˆ": "^"}


def make_formula(tex: str, is_block: bool = False) -> str:
    """Return a formula as MathML."""
    text = "".join(line.strip() for line in tex2mathml(tex, as_block=is_block).splitlines())
    text = NAMED.sub(lambda found: unescape(found[0]), text)  # XML knows no &ApplyFunction;
    ElementTree.register_namespace("", SPACE)
    root = ElementTree.fromstring(text)  # noqa: S314 - docutils made it of our own pages
    for element in root.iter():
        _mend(element)
    return ElementTree.tostring(root, encoding="unicode")


def _mend(element: ElementTree.Element) -> None:
    """Give an accent its sign, and an index of an accented letter its place.

    An accent to MathML may touch its letter, where a font has no place for it: it stands above.
    """
    kind = element.tag.rpartition("}")[2]
    if kind not in ("mover", "munderover") or element[-1].text not in ACCENTS:
        return
    accent = element[-1]
    is_wide = accent.text == "_"
    accent.text = ACCENTS[accent.text]
    accent.attrib = {"stretchy": "true" if is_wide else "false"}
    if kind == "mover":
        element.attrib = {"accent": "false"}
        return
    base, index, _ = list(element)
    letter = ElementTree.Element(f"{{{SPACE}}}mover", accent="false")
    letter.extend([base, accent])
    element.tag = f"{{{SPACE}}}msub"
    element[:] = [letter, index]


def visit_math(translator, node) -> None:
    """Write a formula inside a line."""
    translator.body.append(make_formula(node.astext()))
    raise nodes.SkipNode


def visit_displaymath(translator, node) -> None:
    """Write a formula of its own."""
    formula = make_formula(node.astext(), is_block=True)
    translator.body.append(f"<div class='formula'>{formula}</div>")
    raise nodes.SkipNode


def setup(app) -> dict[str, bool]:
    """Offer the renderer to Sphinx."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
