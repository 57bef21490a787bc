"""A report of a fit: one HTML file that needs neither network nor scripts.

The pictures are drawn by `plots` as SVG and put into the page, with their colours replaced by
names that the page's style sheet gives a light and a dark value.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from unshuffle import __version__
from unshuffle.answers import plots
from unshuffle.answers.fit import Fit, as_fit
from unshuffle.answers.limits import LIMITS
from unshuffle.core.bags import Bags
from unshuffle.core.options import ESTIMATE
from unshuffle.errors import import_extra, shorten
from unshuffle.files.writing import check_writable, write_whole
from unshuffle.registry import METHODS
from unshuffle.wording import list_names, show_number

_PURPOSE = "writing a report"
_INK = "#101112"
_COLOURS = {
    _INK: "currentColor",
    plots.GRID: "var(--grid)",
    plots.BLUE: "var(--blue)",
    plots.ORANGE: "var(--orange)",
    plots.GREEN: "var(--green)",
    plots.PURPLE: "var(--purple)",
    plots.SKY: "var(--sky)",
}
_STYLE = {
    # Text stays text: it can be searched, read aloud, and takes little room.
    "svg.fonttype": "none",
    # Names of parts follow from their content, so that the same fit gives the same file.
    "svg.hashsalt": "unshuffle",
    "font.family": "sans-serif",
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
# Without these the file would carry the time and matplotlib's address.
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}

# Of an inch, so that the usual drawing of seven inches fills the page.
_PIXELS = 120

_LONGEST_NAME = 120


@dataclass(frozen=True)
class Picture:
    """A drawing as SVG, with what it shows in words."""

    title: str
    svg: str
    caption: str


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    groups: Any = None,
    *,
    bags: Bags | None = None,
    level: float = 0.95,
    source: str | None = None,
    notes: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> Path:
    """Write a report of a fitted model to an HTML file, whole or not at all.

    With the data the report also shows what the loss compares, and how many rows and bags there
    were; `bags` stands for X, y and groups where rows and labels have numbers of their own.
    `source` names the data, `notes` are sentences on how they were read, `provenance` says
    what repeats the fit.

    Examples
    --------
    >>> import tempfile
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(200, 2, bags=4, rng=0)
    >>> model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, data.groups)
    >>> folder = tempfile.mkdtemp()
    >>> write_report(model, folder + "/fit.html", data.X, data.y, data.groups).name
    'fit.html'
    """
    target = check_report(path)
    found = as_fit(model)
    data = _describe_data(X, y, groups, source, notes)
    if bags is not None:
        data["facts"] += _describe_bags(bags)
    seed = getattr(model, "random_state", None)
    origin = dict(_default_provenance(seed, X, y), **(provenance or {}))
    pictures = _draw_pictures(found, X, y, groups, bags, level)
    write_whole(target, _render(found, level, data, origin, pictures))
    return Path(path)


def check_report(path: str | os.PathLike[str]) -> Path:
    """Refuse a report that cannot be written or drawn, before any work is done for it."""
    import_extra("matplotlib", "report", _PURPOSE)
    import_extra("jinja2", "report", _PURPOSE)
    return check_writable(path)


def _render(
    found: Fit,
    level: float,
    data: Mapping[str, str],
    origin: Mapping[str, Any],
    pictures: Sequence[Picture],
) -> str:
    summary = found.summary(level)
    d = len(found.coef)
    return fill_template(
        "report.html",
        summary=summary,
        headline=_headline(found),
        has_intervals=summary.has_intervals,
        percent=f"{100 * level:g}",
        rows=summary.rows,
        candidates=found.competing,
        n_candidates=len(found.candidates),
        limits=LIMITS,
        has_evidence=any(c.evidence is not None for c in found.candidates),
        # A posterior's verdict has said already how far it can be trusted.
        advice=found.status.value if summary.identified is None else "",
        remarks=found.remarks,
        method=_describe_method(found),
        d=d,
        data=data,
        origin=origin,
        pictures=pictures,
    )


def fill_template(name: str, **content: Any) -> str:
    """Return a page of the package's templates, with the style that all of them share."""
    jinja2 = import_extra("jinja2", "report", _PURPOSE)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = show_number
    environment.filters["percent"] = lambda share: "–" if share is None else f"{share:.1%}"
    environment.filters["name"] = lambda text: shorten(text, _LONGEST_NAME)
    folder = resources.files("unshuffle") / "templates"
    template = environment.from_string((folder / name).read_text(encoding="utf-8"))
    style = (folder / "report.css").read_text(encoding="utf-8")
    page: str = template.render(style=style, **content)
    return page


def _headline(found: Fit) -> tuple[str, str]:
    """Return the verdict in a few words, and the class of its colour.

    Good is only what is identified by a model that was seen to fit.
    """
    identified, fits = found.identified, found.model_fits
    if identified is None:
        return "Not judged", "unknown"
    is_thin = found.posterior is not None and found.posterior.is_thin
    words = "Identified" if identified else "Not established" if is_thin else "Not identified"
    if fits is False:
        joint = "but" if identified else "and"
        return f"{words}, {joint} the model does not fit", "doubtful"
    if not identified:
        return words, "doubtful"
    return (words, "good") if fits else (f"{words}, if the model fits", "unknown")


def _describe_method(found: Fit) -> list[tuple[str, str]]:
    name = str(found.method)
    asked = found.options.method
    asked = asked if isinstance(asked, str) else type(asked).__name__
    lines = [("Method", name + (f" (chosen by '{asked}')" if asked != name else ""))]
    if name in METHODS:
        lines.append(("What it does", METHODS[name].summary))
    lines.append(("Intercept", "fitted" if found.options.fit_intercept else "none"))
    if found.options.l1 or found.options.l2:
        lines.append(("Penalties", f"l1 = {found.options.l1:g}, l2 = {found.options.l2:g}"))
    noise = "estimated from the data" if found.options.noise is None else "given"
    if found.noise is None:
        noise = "not part of this method" if found.posterior is None else "not seen in the labels"
    lines.append(("Noise", noise))
    return lines + _describe_proofs(found)


def _describe_proofs(found: Fit) -> list[tuple[str, str]]:
    """Say what of the links was known, and what was proved."""
    summary, lines = found.summary(), []
    if summary.n_anchors:
        lines.append(("Known pairs", f"{summary.n_anchors} of {summary.n} rows"))
    if summary.mislinked is not None:
        how = "estimated" if found.options.mislinked == ESTIMATE else "given"
        lines.append(("Wrong links", f"{summary.mislinked:.1%} of the labels, {how}"))
    if summary.certificate is not None:
        lines.append(("Certificate", summary.certificate.describe(found.value)))
    return lines


def _describe_data(
    X: Any, y: Any, groups: Any, source: str | None, notes: Sequence[str]
) -> dict[str, Any]:
    facts: list[tuple[str, str]] = []
    if source is not None:
        facts.append(("Source", shorten(source, 200)))
    if X is not None:
        n, d = np.shape(X)
        facts += [("Rows", f"{n}"), ("Features", f"{d}"), ("Bags", _count_bags(groups))]
    if y is not None:
        labels = np.asarray(y, dtype=float)
        facts.append(("Labels", f"from {labels.min():.4g} to {labels.max():.4g}"))
    return {"facts": facts, "notes": [shorten(note, 2000) for note in notes]}


def _describe_bags(bags: Bags) -> list[tuple[str, str]]:
    """Say how many rows, labels and bags there are, and how they belong together."""
    n, m = bags.rows.totals, bags.labels.totals
    return [
        ("Rows", f"{n.sum():.0f}"),
        ("Labels", f"{m.sum():.0f}" + ("" if bags.labels.is_raw else ", in bins")),
        ("Features", f"{bags.d}"),
        (
            "Bags",
            f"{bags.n_bags}, of {n.min():.0f} to {n.max():.0f} rows and {m.min():.0f} to "
            f"{m.max():.0f} labels",
        ),
        ("Pairing", bags.pairing.sentence),
    ]


def _count_bags(groups: Any) -> str:
    if groups is None:
        return "1"
    sizes = list(_bag_sizes(groups).values())
    smallest, largest = min(sizes), max(sizes)
    span = f"{smallest} rows each" if smallest == largest else f"{smallest} to {largest} rows"
    return f"{len(sizes)}, of {span}"


def _bag_sizes(groups: Any) -> dict[Any, int]:
    sizes: dict[Any, int] = {}
    for name in list(groups):
        sizes[name] = sizes.get(name, 0) + 1
    return sizes


def _default_provenance(seed: Any, X: Any, y: Any) -> dict[str, Any]:
    shown = seed if isinstance(seed, int) else "not fixed"
    origin = {"version": __version__, "seed": shown, "data_sha256": None, "command": None}
    if X is not None and y is not None:
        content = np.ascontiguousarray(X, dtype=float).tobytes()
        content += np.ascontiguousarray(y, dtype=float).tobytes()
        origin["data_sha256"] = sha256(content).hexdigest()
    return origin


def _draw_pictures(
    found: Fit, X: Any, y: Any, groups: Any, bags: Bags | None, level: float
) -> list[Picture]:
    """Draw what this model and these data allow to be drawn."""
    d = len(found.coef)
    rows = 0.9 + 0.28 * max(d, 2)
    has_intervals = any(row.low is not None for row in found.summary(level).rows[:d])
    pictures = [
        draw_picture(
            "The weights",
            partial(plots.plot_coefficients, found, level=level),
            (7.0, rows),
            f"Estimates (dots) of {d} weights"
            + (f" with {100 * level:g} % intervals (bars)" if has_intervals else "")
            + "; the line marks zero. The intercept is in the table.",
        )
    ]
    if X is not None and y is not None:
        pictures.append(_draw_sorted(partial(plots.plot_sorted, found, X, y, groups)))
    elif bags is not None:
        pictures.append(_draw_sorted(partial(plots.draw_sorted_bags, found, bags)))
    if len(found.start_values):
        pictures.append(_draw_starts(found))
    if len(found.competing) > 1:
        pictures.append(
            draw_picture(
                "The best candidates",
                partial(plots.plot_candidates, found),
                (8.0, rows + 0.5),
                "Weights of the best candidates, each row divided by its largest. Where the marks "
                "lie apart, the answers differ.",
            )
        )
    if found.posterior is not None and found.doubtful:
        pictures.append(_draw_posterior(found))
    return pictures


def _draw_sorted(plot: Callable[..., Any]) -> Picture:
    return draw_picture(
        "What is compared",
        plot,
        (7.0, 4.2),
        "Sorted labels (marks) and sorted predictions (lines) of each bag, the largest bags only. "
        "A good fit lays the lines through the marks.",
    )


def _draw_starts(found: Fit) -> Picture:
    n_starts = len(found.start_values)
    return draw_picture(
        "How sure the minimum is",
        partial(plots.plot_starts, found),
        (7.0, 3.2),
        f"Final values of {n_starts} starts, best first. A flat beginning means that many starts "
        "found the same minimum.",
    )


def _draw_posterior(found: Fit) -> Picture:
    """Draw the pairs of the weights that the verdict names as known least."""
    chosen, d = found.doubtful, len(found.coef)
    names = [shorten(found.facts.names[j]) for j in chosen]
    which = (
        "all weights" if len(chosen) == d else f"the weights known least ({list_names(names, d)})"
    )
    n_shown = len(chosen)
    return draw_picture(
        "Which weights hang together",
        partial(plots.plot_posterior, found, features=chosen),
        (1.7 * n_shown + 0.9, 1.7 * n_shown + 0.5),
        f"Posterior of {which}: each alone on the diagonal, in pairs below. A slanted cloud means "
        "that one weight can make up for another; separate clouds are separate answers.",
    )


def draw_picture(
    title: str, plot: Callable[..., Any], size: tuple[float, float], caption: str
) -> Picture:
    """Draw on a figure of its own, without touching the user's figures or settings."""
    matplotlib = import_extra("matplotlib", "report", _PURPOSE)
    figures = import_extra("matplotlib.figure", "report", _PURPOSE)
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE}), warnings.catch_warnings():
        # Glyphs missing here are the browser's business: text stays text.
        warnings.simplefilter("ignore")
        figure = figures.Figure(figsize=size, layout="constrained")
        plot(ax=figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    return Picture(title, _embed(buffer.getvalue(), title, size[0]), caption)


def _embed(svg: str, title: str, inches: float) -> str:
    """Make a drawing fit to stand in a page: own names, the page's colours, a description."""
    svg = svg[svg.index("<svg") :]
    prefix = re.sub(r"\W+", "-", title.lower())
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    # Its style sheet would reach the whole page, and repeats what the page says once.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for drawn, named in _COLOURS.items():
        svg = re.sub(re.escape(drawn), named, svg, flags=re.IGNORECASE)
    # Small drawings stay small: letters are of the same size in all of them.
    width = f"max-width: {inches * _PIXELS:.0f}px"
    head = f'<svg role="img" style="{width}" aria-labelledby="{prefix}-title {prefix}-caption"'
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", head, 1)
