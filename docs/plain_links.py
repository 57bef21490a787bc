"""Write the links between pages as links of Markdown, which a code host shows as well.

The roles of Sphinx, ``{doc}`start` `` and ``{term}`bag` ``, become ``[Quick start](start.md)`` and
``[bag](glossary.md#bag)``. `site_figures.py` calls this for every page.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ROLE = re.compile(r"\{(doc|term|download)\}`(?:([^`<]+?)\s*<([^`>]+)>|([^`<>]+))`", re.DOTALL)
GALLERY = "auto_gallery"  # written by the build from the scripts in `gallery`


def link_page(text: str, page: Path) -> str:
    """Return the text of a page with its roles as links."""

    def link(found: re.Match[str]) -> str:
        role, title, target, alone = found.groups()
        goal = " ".join((target or alone).split())
        if role == "term":
            place, words = HERE / "glossary.md", title or goal
            return f"[{words}]({'' if page == place else _go(page, place)}#{slug(goal)})"
        place = HERE / goal[1:] if goal.startswith("/") else page.parent / goal
        if role == "doc":
            place = _find_page(place)
        return f"[{title or read_title(place)}]({_go(page, place)})"

    return ROLE.sub(link, text)


def slug(words: str) -> str:
    """Return the anchor of a heading, as code hosts and MyST make it."""
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


def _go(page: Path, place: Path) -> str:
    return Path(os.path.relpath(place, page.parent)).as_posix()


def _find_page(place: Path) -> Path:
    """Return the file of a page; a page of the gallery is its script."""
    place = Path(os.path.normpath(place))
    if place.parent.name == GALLERY:
        is_index = place.name == "index"
        return HERE / "gallery" / ("GALLERY_HEADER.rst" if is_index else f"{place.name}.py")
    return place.with_name(place.name + ".md")


@cache
def read_title(page: Path) -> str:
    """Return the title of a page."""
    if page.suffix == ".py":
        return page.read_text(encoding="utf-8").splitlines()[1]
    found = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, page
    return re.sub(r"^\d+\. ", "", found[1])
