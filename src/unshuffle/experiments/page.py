"""One offline page with every figure and table that was drawn."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from unshuffle.errors import import_extra
from unshuffle.experiments.drawing import Drawing, save_figure
from unshuffle.experiments.origin import library_version
from unshuffle.experiments.rows import Table
from unshuffle.experiments.runner import Experiment


@dataclass(frozen=True)
class Item:
    """One experiment with its rows and what was drawn from them."""

    experiment: Experiment
    table: Table
    drawing: Drawing


def write_page(
    path: Path, items: Sequence[Item], seed: int, quick: bool, left_out: Sequence[str]
) -> None:
    """Write the page; everything it needs is inside it."""
    jinja2 = import_extra("jinja2", "report", "the page")
    text = files("unshuffle.experiments").joinpath("page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.from_string(text).render(
        items=[_describe(item) for item in items],
        seed=seed,
        quick=quick,
        version=library_version(),
        left_out=left_out,
    )
    path.write_text(page, encoding="utf-8")


def _describe(item: Item) -> dict[str, Any]:
    experiment, drawing = item.experiment, item.drawing
    return {
        "name": experiment.name,
        "title": experiment.title,
        "place": experiment.place,
        "caption": experiment.caption,
        "choices": experiment.choices,
        "verdict": drawing.verdict,
        "svg": _inline_svg(drawing.figure, experiment.name),
        "sheets": [sheet.to_html() for sheet in drawing.sheets],
        "n_rows": len(item.table),
        "minutes": show_duration(sum(row["seconds"] for row in item.table)),
    }


def _inline_svg(figure: Any, name: str) -> str:
    """Return a figure as SVG without its XML head, which has no place inside HTML."""
    if figure is None:
        return ""
    buffer = io.StringIO()
    save_figure(figure, name, buffer)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def show_duration(seconds: float) -> str:
    """Show a time in the unit that fits.

    >>> show_duration(5), show_duration(300), show_duration(9000)
    ('5 s', '5 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
