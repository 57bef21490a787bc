"""The pictures of a report as SVG in the colours of its page, or as files."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from unshuffle.errors import InputError, import_extra, quote, shorten
from unshuffle.formatting import list_names
from unshuffle.io.writing import make_folder, write_whole
from unshuffle.results.matching import Match
from unshuffle.results.pictures import bag_plots, drawing, plots
from unshuffle.results.pictures.bag_views import BagView
from unshuffle.results.pictures.drawing import render_figure
from unshuffle.results.result import Fit

ENDINGS = ("svg", "png", "pdf")
_PURPOSE = "writing a report"
_INK = "#101112"
_COLOURS = {
    _INK: "currentColor",
    drawing.GRID: "var(--grid)",
    drawing.BLUE: "var(--blue)",
    drawing.ORANGE: "var(--orange)",
    drawing.GREEN: "var(--green)",
    drawing.PURPLE: "var(--purple)",
    drawing.SKY: "var(--sky)",
    drawing.AMBER: "var(--amber)",
    drawing.BROWN: "var(--brown)",
    drawing.GREY: "var(--grey)",
}
_STYLE = {
    # Text stays text: it can be searched, read aloud, and takes little room.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


@dataclass(frozen=True, eq=False)
class Drawing:
    """What is to be drawn: a title, what draws it on axes, its size in inches, and a caption."""

    title: str
    plot: Callable[..., Any]
    size: tuple[float, float]
    caption: str


@dataclass(frozen=True)
class Picture:
    """A drawing as SVG, with what it shows in words."""

    title: str
    svg: str
    caption: str


def list_drawings(
    found: Fit,
    views: list[BagView],
    level: float,
    label: str | None,
    match: Match | None = None,
    X: Any = None,
    log_base: float | None = None,
) -> list[Drawing]:
    """Return the drawings of a model and its data: the answer first, then the search."""
    drawings = [_draw_coefficients(found, level, label, log_base)]
    if views:
        drawings += _draw_data(found, views, label)
    if match is not None:
        drawings.append(
            Drawing(
                "Predictions and matched labels",
                partial(bag_plots.plot_predictions, found, match, X, label=label),
                (4.8, 4.0),
                "Each row's prediction and the label that most probably is its own, by how "
                "probable that is. Labels are matched by rank, so that closeness to the line alone "
                "says little.",
            )
        )
    if found.posterior is not None and found.doubtful:
        drawings.append(_draw_posterior(found))
    drawings += _draw_noise(found, views, level, label)
    if len(found.competing) > 1:
        d = len(found.coef)
        drawings.append(
            Drawing(
                "Competing answers",
                partial(plots.plot_candidates, found),
                (4.8, drawing.row_height(d) + 0.5),
                "Coefficients of the best candidates, each row divided by its largest. Where the "
                "marks lie apart, the answers differ.",
            )
        )
    if len(found.start_values):
        n_starts = len(found.start_values)
        drawings.append(
            Drawing(
                "Final values of the starts",
                partial(plots.plot_starts, found),
                (4.8, 2.6),
                f"Final values of {n_starts} starts, best first. A flat beginning means that many "
                "starts found the same minimum.",
            )
        )
    return drawings


def _draw_coefficients(
    found: Fit, level: float, label: str | None, log_base: float | None
) -> Drawing:
    d = len(found.coef)
    has_intervals = any(row.low is not None for row in found.summary(level).rows[:d])
    plot = partial(
        plots.plot_coefficients, found, level=level, standardised=True, label=label,
        log_base=log_base,
    )  # fmt: skip
    return Drawing(
        "Coefficients in common units",
        plot,
        (4.8, drawing.row_height(d) + (0.6 if log_base else 0.15)),
        ("Estimate (dot) of the coefficient" if d == 1 else f"Estimates (dots) of {d} coefficients")
        + (f" with {100 * level:g} % intervals (bars)" if has_intervals else "")
        + ", times the sd of the column, so that they can be compared; the line marks zero. "
        + ("A hollow dot is undetermined. " if has_intervals else "")
        + ("The upper axis shows factors on the label itself. " if log_base else "")
        + "The table has the coefficients in their own units.",
    )


def _draw_data(found: Fit, views: list[BagView], label: str | None) -> list[Drawing]:
    """Draw labels beside what is predicted for them, bag by bag and in all."""
    single = [view for view in views if not view.is_mean]
    drawings = _draw_labels(found, single, label) if single else []
    if len(views) > 1:
        drawings.append(
            Drawing(
                "Means of the bags",
                partial(bag_plots.draw_bag_means, found, views, label=label),
                (4.8, 3.9),
                f"Mean label against mean prediction of {len(views)} bags, with 95 % bars: up and "
                "down the noise of the mean, along the uncertainty of the coefficients. If the "
                "model is right, the bars reach the line.",
            )
        )
    if single and found.noise is not None:
        drawings.append(
            Drawing(
                "Goodness of fit",
                partial(bag_plots.draw_places, found, single),
                (4.8, 2.8),
                "PIT histogram: the probability integral transform of the labels in the predictive "
                "distributions of their bags. If the model is right it is uniform, and 95 of 100 "
                "bars end in the band. High ends mean labels further out than predicted, a slope a "
                "shift, a hump less noise.",
            )
        )
    return drawings


def _draw_labels(found: Fit, views: list[BagView], label: str | None) -> list[Drawing]:
    """Draw the single labels of bags beside their predictions."""
    n_bags = len(views)
    predicted = "predictive distribution (line)" if found.noise else "predictions (outline)"
    which = (
        f"The {bag_plots.SHOWN_PANELS} largest of {n_bags} bags"
        if n_bags > bag_plots.SHOWN_PANELS
        else "Every bag"
        if n_bags > 1
        else "The bag"
    )
    return [
        Drawing(
            "Labels and predictions",
            partial(bag_plots.draw_bags, found, views, label=label)
            if n_bags > 1
            else partial(bag_plots.draw_sorted, found, views, label=label),
            bag_plots.panel_size(views) if n_bags > 1 else (4.8, 3.4),
            f"{which}: its labels (filled) and the {predicted}. A good fit lays one over the other."
            if n_bags > 1
            else "Sorted labels (marks) and sorted predictions (line). A good fit lays the line "
            "through the marks.",
        )
    ]


def _draw_noise(found: Fit, views: list[BagView], level: float, label: str | None) -> list[Drawing]:
    """Draw the posterior of the noise, and of offsets where there may be some."""
    drawings = []
    posterior, effects = found.posterior, found.effects
    if (
        posterior is not None
        and posterior.has_noise
        and posterior.sigma.min() < (posterior.sigma.max())
    ):
        drawings.append(
            Drawing(
                "Noise",
                partial(plots.plot_noise, found, level=level, label=label),
                (4.8, 2.4),
                f"Posterior of the noise's standard deviation, with its mean (line) and its "
                f"{100 * level:g} % interval (bar).",
            )
        )
    if effects is not None and len(effects.sizes) > 1:
        drawings.append(
            Drawing(
                "Size of the random bag effects",
                partial(plots.plot_offset_sd, found, label=label),
                (4.8, 2.6),
                "Posterior of how much the labels of a bag share beyond their rows (offsets): "
                "none, or one of these standard deviations, each with its probability in percent."
                if effects.sizes[0] == 0.0
                else "Posterior of the standard deviation of the offsets that were declared, over "
                "the sizes weighed, each with its probability in percent.",
            )
        )
    if views and effects is not None and effects.has_offsets:
        drawings.append(
            Drawing(
                "Offsets of the bags",
                partial(bag_plots.draw_offsets, found, views, label=label),
                bag_plots.offsets_size(len(views)),
                f"What the labels of each bag share beyond their rows, with 95 % intervals, if "
                f"bags are offset at all; the probability of that is "
                f"{effects.offset_probability:.0%}.",
            )
        )
    return drawings


def _draw_posterior(found: Fit) -> Drawing:
    """Draw the pairs of the coefficients that are determined least."""
    chosen, d = found.doubtful, len(found.coef)
    names = [shorten(found.facts.names[j]) for j in chosen]
    which = (
        "all coefficients"
        if len(chosen) == d
        else f"the coefficients determined least ({list_names(names, d)})"
    )
    n_shown = len(chosen)
    if n_shown == 1:
        return Drawing(
            "Posterior of a coefficient",
            partial(plots.plot_posterior, found, features=chosen),
            (4.8, 2.6),
            f"Posterior of the coefficient of {names[0]}; the dashed line is the estimate. "
            "Separate modes are separate answers.",
        )
    size = min(1.3 * n_shown + 1.2, 5.4)
    return Drawing(
        "Joint posterior of coefficients",
        partial(plots.plot_posterior, found, features=chosen),
        (size, 0.95 * size),
        f"Posterior of {which}: each alone on the diagonal, in pairs below; dashed lines are the "
        "estimate. A slanted cloud means that one coefficient can make up for another; separate "
        "clouds are separate answers.",
    )


def draw_picture(drawing: Drawing) -> Picture:
    """Draw as SVG for a page."""
    svg = _render(drawing, "svg", transparent=True).decode("utf-8")
    return Picture(drawing.title, _embed(svg, drawing.title, drawing.size[0]), drawing.caption)


def write_pictures(
    drawings: Sequence[Drawing], folder: str | os.PathLike[str], ending: str = "svg"
) -> list[Path]:
    """Write each drawing to a file of a folder: "svg", "png" or "pdf"."""
    import_extra("matplotlib", "report", "drawing")
    if ending not in ENDINGS:
        raise InputError(f"pictures are {', '.join(ENDINGS)} files, not {quote(ending)}")
    place = make_folder(folder)
    return [
        write_whole(place / f"{_make_name(each.title)}.{ending}", _render(each, ending, dpi=150))
        for each in drawings
    ]


def _make_name(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower())


def _render(drawing: Drawing, ending: str, **how: Any) -> bytes:
    """Draw on a figure of its own, without touching the user's figures or settings."""
    matplotlib = import_extra("matplotlib", "report", _PURPOSE)
    figures = import_extra("matplotlib.figure", "report", _PURPOSE)
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE}), warnings.catch_warnings():
        # matplotlib warns of glyphs that it lacks; the browser draws the text.
        warnings.simplefilter("ignore")
        figure = figures.Figure(figsize=drawing.size, layout="constrained")
        drawing.plot(ax=figure.add_subplot())
        return render_figure(figure, ending, **how)


def _embed(svg: str, title: str, inches: float) -> str:
    """Return an SVG for a page: unique names, colours of the page, and a description."""
    svg = svg[svg.index("<svg") :]
    prefix = _make_name(title)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    # The style sheet of the file would apply to the whole page.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for drawn, named in _COLOURS.items():
        svg = re.sub(re.escape(drawn), named, svg, flags=re.IGNORECASE)
    # A hundredth of a point is finer than any screen, and halves the file; text is left alone.
    svg = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), svg)
    # Drawings keep their size: letters of nine points are then as large as the captions in all.
    width = f"max-width: {inches * 108:.0f}px"
    head = f'<svg role="img" style="{width}" aria-labelledby="{prefix}-title {prefix}-caption"'
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", head, 1)
