"""Drawings of experiments: a figure, sheets of numbers and a verdict, and their files."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unshuffle.errors import import_extra
from unshuffle.experiments.rows import Table
from unshuffle.io.writing import write_whole
from unshuffle.results.pictures.drawing import render_figure

# Okabe and Ito's colours, told apart by every common kind of colour vision; each method also has
# its own marker, so that nothing depends on colour alone.
STYLES: dict[str, tuple[str, str, str]] = {
    "ols": ("OLS (linked labels)", "#000000", "s"),
    "ls": ("LS", "#D55E00", "o"),
    "sm": ("SM", "#0072B2", "^"),
    "na-sm": ("NA-SM (noise known)", "#CC79A7", "D"),
    "p1": ("P1", "#E69F00", "v"),
    "emd": ("EMD", "#E69F00", "v"),
    "ks": ("KS", "#56B4E9", "P"),
    "small-d": ("small-D", "#7F7F7F", "X"),
    "auto": ("auto (ours)", "#009E73", "*"),
    "paper": ("the paper's rule", "#0072B2", "^"),
    "control": ("negative control", "#7F7F7F", "X"),
}
FAILED = "failed"
# The paper's shades, and a mark that survives where there are no shades.
COLOURS = {"green": ("#d9f2d9", "🟩"), "yellow": ("#fff6c2", "🟨"), "red": ("#fbd9d9", "🟥")}


@dataclass(frozen=True)
class Cell:
    """A piece of a sheet: its text, and a colour from `COLOURS` or none."""

    text: str
    colour: str | None = None


@dataclass(frozen=True)
class Sheet:
    """A table to be read: its title, its column names and its rows, the first cell a heading."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def to_csv(self) -> str:
        """Return the sheet as CSV, without colours."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.header, *([cell.text for cell in row] for row in self.rows)])
        return text.getvalue()

    def to_markdown(self) -> str:
        """Return the sheet as Markdown, the colours as squares."""
        lines = ["| " + " | ".join(self.header) + " |", "|---" * len(self.header) + "|"]
        for row in self.rows:
            cells = [
                cell.text + (f" {COLOURS[cell.colour][1]}" if cell.colour else "") for cell in row
            ]
            lines.append("| " + " | ".join(cells) + " |")
        return f"**{self.title}**\n\n" + "\n".join(lines) + "\n"

    def to_html(self) -> str:
        """Return the sheet as a piece of HTML that carries its own colours."""
        # Words stand to the left, numbers to the right; a fit that failed is a number that is not.
        is_text = [
            any(cells[k].text[:1].isalpha() and cells[k].text != FAILED for cells in self.rows)
            for k in range(len(self.header))
        ]
        head = "".join(
            f'<th scope="col"{_side(left)}>{html.escape(name)}</th>'
            for name, left in zip(self.header, is_text, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(_cell_html(cell, k, is_text[k]) for k, cell in enumerate(cells))
            + "</tr>\n"
            for cells in self.rows
        )
        return (
            f"<table><caption>{html.escape(self.title)}</caption>\n"
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>\n"
        )


@dataclass(frozen=True)
class Drawing:
    """What is shown: sheets, a figure if there is one, and where it agrees with the paper."""

    verdict: str
    sheets: tuple[Sheet, ...] = ()
    figure: Any = None


def _side(is_text: bool, more: str = "") -> str:
    style = ("text-align:left;" if is_text else "") + more
    return f' style="{style}"' if style else ""


def _cell_html(cell: Cell, column: int, is_text: bool) -> str:
    # The ink comes with the shade: a page around it may be dark.
    shade = f"background:{COLOURS[cell.colour][0]};color:#1a1c1e" if cell.colour else ""
    tag = "td" if column else "th"
    scope = "" if column else ' scope="row"'
    return f"<{tag}{scope}{_side(is_text, shade)}>{html.escape(cell.text)}</{tag}>"


def error_cell(error: float, digits: int = 2) -> Cell:
    """Show a relative error in the paper's colours: green below 0.3, yellow up to 1, else red.

    >>> error_cell(0.299).colour, error_cell(1.0).colour, error_cell(1.01).colour
    ('green', 'yellow', 'red')
    """
    if not math.isfinite(error):
        return Cell(FAILED)
    colour = "green" if error < 0.3 else "yellow" if error <= 1 else "red"
    return Cell(f"{error:.{digits}f}", colour)


def error_sheet(
    title: str,
    corner: str,
    rows: Sequence[Any],
    columns: Sequence[Any],
    error: Callable[..., float],
    digits: int = 2,
) -> Sheet:
    """Lay out error(row, column) as a sheet."""
    return Sheet(
        title,
        (corner, *(f"{column:g}" for column in columns)),
        tuple(
            (
                Cell(STYLES[r][0] if r in STYLES else str(r)),
                *(error_cell(error(r, c), digits) for c in columns),
            )
            for r in rows
        ),
    )


def mean_sheet(
    table: Table, rows: str, columns: str, title: str, corner: str, digits: int = 3
) -> Sheet:
    """Lay out the mean error by two settings."""
    return error_sheet(
        title,
        corner,
        table.unique(rows),
        table.unique(columns),
        lambda row, column: table.mean(**{rows: row, columns: column}),
        digits,
    )


def new_figure(
    n_rows: int = 1,
    n_columns: int = 1,
    size: tuple[float, float] = (6.4, 4.2),
    share_y: bool = False,
) -> Any:
    """Return a figure and its axes; nothing global is touched."""
    matplotlib_figure = import_extra("matplotlib.figure", "report", "drawing figures")
    with figure_style():
        figure = matplotlib_figure.Figure(figsize=size, layout="constrained")
        return figure, figure.subplots(n_rows, n_columns, squeeze=False, sharey=share_y)


@contextmanager
def figure_style() -> Iterator[None]:
    """Apply our look for as long as the context lasts."""
    matplotlib = import_extra("matplotlib", "report", "drawing figures")
    look = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "svg.fonttype": "path",
    }
    with matplotlib.rc_context(look):
        yield


def plot_mean_error(ax: Any, table: Table, column: str, name: str, **options: Any) -> None:
    """Draw the mean error against one setting, with a band that holds the middle half."""
    label, colour, marker = STYLES[name]
    options = {"label": label, "color": colour, "marker": marker, **options}
    places = table.unique(column)
    errors = [table.values(**{column: place}) for place in places]
    # Ours lies underneath and is wider, so that a method it agrees with is seen on top of it.
    width, under = (3.2, 1.9) if name == "auto" else (1.5, 2.0)
    means = [e.mean() for e in errors]
    ax.plot(
        places,
        means,
        markersize=9 if name == "auto" else 5,
        linewidth=width,
        zorder=under,
        **options,
    )
    low, high = np.array([np.quantile(e, [0.25, 0.75]) for e in errors]).T
    ax.fill_between(places, low, high, color=options["color"], alpha=0.12, linewidth=0)


def label_axes(ax: Any, x: str, title: str = "") -> None:
    """Name both axes, and the panel where there are several."""
    ax.set_xlabel(x)
    ax.set_ylabel("relative error |ŵ − w₀| / |w₀|")
    if title:
        ax.set_title(title, fontsize=10)


def plain_ticks(ax: Any, places: Iterable[float]) -> None:
    """Put the ticks of a logarithmic x axis where the data are, as plain numbers."""
    places = list(places)
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.tick_params(axis="x", which="minor", bottom=False)


def save_drawing(drawing: Drawing, name: str, folder: Path) -> list[Path]:
    """Write a figure as SVG and PNG, and sheets as CSV, Markdown and HTML; return the files."""
    written = []
    for kind in ("figures", "tables"):
        (folder / kind).mkdir(exist_ok=True)
    if drawing.figure is not None:
        for ending in ("svg", "png"):
            written.append(folder / "figures" / f"{name}.{ending}")
            save_figure(drawing.figure, name, written[-1])
    for number, sheet in enumerate(drawing.sheets, start=1):
        stem = name if len(drawing.sheets) == 1 else f"{name}-{number}"
        for ending, text in (
            ("csv", sheet.to_csv()),
            ("md", sheet.to_markdown()),
            ("html", sheet.to_html()),
        ):
            written.append(folder / "tables" / f"{stem}.{ending}")
            write_whole(written[-1], text)
    return written


def save_figure(figure: Any, name: str, target: Path) -> None:
    """Save a figure so that the same table gives the same bytes."""
    with figure_style():
        write_whole(target, render_figure(figure, target.suffix[1:], name, dpi=150))
