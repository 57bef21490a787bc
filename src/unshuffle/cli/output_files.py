"""Output files: checks of their places, coefficients and draws as CSV, and the figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.tables import format_csv
from unshuffle.errors import InputError, import_extra, quote

if TYPE_CHECKING:
    from unshuffle.cli.dataset import Dataset
    from unshuffle.results.fit import Fit
    from unshuffle.results.summary import Summary

_COLUMNS = ("estimate", "sd", "low", "high", "determined")


def check_outputs(options: dict[str, Any]) -> None:
    """Refuse outputs that cannot be written or drawn, before anything is read."""
    from unshuffle.io.writing import check_writable, make_folder

    figure = options.get("figure")
    if figure and Path(figure).suffix.lower() not in (".svg", ".png", ".pdf"):
        raise click.UsageError(f"--figure {quote(figure)}: its name must end in .svg, .png or .pdf")
    if figure:
        import_extra("matplotlib", "plots", "drawing")
    if options["report"] or options["pictures"]:
        from unshuffle.results.report import check_report

        check_report(options["report"] or "pictures.html")
    if options["pictures"]:
        make_folder(options["pictures"])
    for name in ("out", "draws", "figure", "save", "exposed"):
        if options.get(name):
            check_writable(options[name])


def write_files(found: Fit, summary: Summary, data: Dataset, options: dict[str, Any]) -> None:
    """Write coefficients, draws and figure; a failure leaves no partial file."""
    from unshuffle.io.writing import write_whole
    from unshuffle.model.special_cases import N_DRAWS

    # All contents are made before the first is written: a failure leaves no file.
    made: list[tuple[str, str, str | bytes]] = []
    if options["out"]:
        rows = [(each.name, *(getattr(each, name) for name in _COLUMNS)) for each in summary.rows]
        table = format_csv(["coefficient", *_COLUMNS], rows)
        made.append((options["out"], "coefficients", table))
    if options["draws"]:
        draws = _list_draws(found, options["seed"])
        made.append((options["draws"], f"{N_DRAWS} draws from the posterior", draws))
    if options["figure"]:
        made.append((options["figure"], "figure", _draw(found, data, options)))
    for path, what, content in made:
        write_whole(path, content)
        console.print_messages([f"{what} written to {path}"], options["quiet"])


def _list_draws(found: Fit, seed: int) -> str:
    """Return draws of equal weight from the posterior as CSV, one column for each parameter."""
    from unshuffle.model.special_cases import N_DRAWS

    if found.posterior is None:
        raise InputError(
            f"method '{found.method}' has no posterior to draw from; use method 'likelihood', or "
            "leave the draws out"
        )
    draws = found.posterior.sample(N_DRAWS, seed)
    return format_csv(list(draws), zip(*(each.tolist() for each in draws.values()), strict=True))


def _draw(found: Fit, data: Dataset, options: dict[str, Any]) -> bytes:
    """Return the figure of the coefficients with their intervals.

    Where log10 of a label is fitted, a second axis has the factors by which it changes.
    """
    from matplotlib.figure import Figure

    from unshuffle.results.pictures.drawing import render_figure, row_height
    from unshuffle.results.pictures.plots import plot_coefficients

    height = row_height(len(found.coef)) + (0.5 if data.is_log10 else 0.0)
    figure = Figure(figsize=(6.4, height), layout="constrained")
    ax = plot_coefficients(found, level=options["level"], ax=figure.add_subplot())
    ax.set_xlabel(f"change of {data.shown_label} per unit")
    if data.is_log10:
        upper = ax.secondary_xaxis("top", functions=(lambda w: 10.0**w, _take_log10))
        upper.set_xlabel("factor per unit")
    return render_figure(figure, Path(options["figure"]).suffix.lower()[1:], dpi=150)


def _take_log10(factor: Any) -> Any:
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log10(factor)
