"""The report of a fit: one HTML file without scripts or links to a network."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from unshuffle import __version__
from unshuffle.data.bags import Bags, make_bags
from unshuffle.errors import import_extra, shorten
from unshuffle.formatting import show_number
from unshuffle.io.writing import check_page, write_whole
from unshuffle.options import ESTIMATE
from unshuffle.registry import METHODS
from unshuffle.results.limits import LIMITS
from unshuffle.results.matching import Match
from unshuffle.results.paper_text import find_log_base, show_factor, write_paper_text
from unshuffle.results.pictures.bag_views import BagView, find_label_name, view_bags, view_table
from unshuffle.results.pictures.report_pictures import (
    Drawing,
    Picture,
    draw_picture,
    list_drawings,
    write_pictures,
)
from unshuffle.results.result import Fit, as_fit
from unshuffle.results.summary import Summary, SummaryRow

__all__ = ["check_report", "fill_template", "today", "write_report", "write_report_pictures"]

_PURPOSE = "writing a report"


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    groups: Any = None,
    *,
    bags: Bags | None = None,
    bag_names: Sequence[object] | None = None,
    level: float = 0.95,
    label: str | None = None,
    base_levels: Mapping[str, str] | None = None,
    source: str | None = None,
    notes: Sequence[str] = (),
    columns: Sequence[Sequence[str]] = (),
    provenance: Mapping[str, Any] | None = None,
    written: date | None = None,
    words: Callable[[str], str] = str,
) -> Path:
    """Write a report of a fitted model to an HTML file, whole or not at all.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    path : str or path-like
        The file, replaced where it exists.
    X : array-like of shape (n, d), optional
        The rows fitted. With the data the report shows what each bag predicts beside its labels.
    y : array-like of shape (n,), optional
        The labels fitted.
    groups : sequence of n hashable labels, optional
        The bags fitted.
    bags : Bags, optional
        In place of X, y and groups, where rows and labels have numbers of their own.
    bag_names : sequence, optional
        Names of the bags, in the order of the data.
    level : float, default=0.95
        Probability of the intervals.
    label : str, optional
        Name of the label for title and axes; that of `y` without it. If it begins with log10, log2,
        log or ln, coefficients are shown as factors too.
    base_levels : mapping of str to str, optional
        The level of each category that has no coefficient of its own.
    source : str, optional
        Name of the data.
    notes : sequence of str, optional
        Sentences on how the data were read.
    columns : sequence of sequences of str, optional
        A table of the columns, its head first.
    provenance : mapping of str to object, optional
        What repeats the fit: version, seed, hash of the data, command.
    written : date, optional
        The date shown; today in UTC without it, or that of SOURCE_DATE_EPOCH.
    words : callable, optional
        Puts each sentence into the words of the reader, such as options in place of parameters.

    Returns
    -------
    Path
        The file.

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
        data["facts"] += _describe_bags(bags, found.facts.n)
    label = find_label_name(y) if label is None else label
    data["source"] = None if source is None else shorten(source, 200)
    data["columns"] = [[shorten(cell) for cell in line] for line in columns]
    data["label"], data["written"] = label, (written or today()).isoformat()
    seed = getattr(model, "random_state", None)
    origin = dict(_default_provenance(seed, X, y), **(provenance or {}))
    drawings = _list_drawings(found, X, y, groups, bags, bag_names, level, label)
    pictures = [draw_picture(each) for each in drawings]
    write_whole(target, _render(found, level, data, origin, pictures, base_levels or {}, words))
    return Path(path)


def write_report_pictures(
    model: Any,
    folder: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    groups: Any = None,
    *,
    bags: Bags | None = None,
    bag_names: Sequence[object] | None = None,
    level: float = 0.95,
    label: str | None = None,
    ending: str = "svg",
) -> list[Path]:
    """Write each picture of the report to a file of a folder: "svg", "png" or "pdf".

    The other parameters are those of `write_report`.

    Examples
    --------
    >>> import tempfile
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(200, 2, bags=4, rng=0)
    >>> model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, data.groups)
    >>> [path.name for path in write_report_pictures(model, tempfile.mkdtemp())]
    ['coefficients-in-common-units.svg', 'final-values-of-the-starts.svg']
    """
    label = find_label_name(y) if label is None else label
    drawings = _list_drawings(as_fit(model), X, y, groups, bags, bag_names, level, label)
    return write_pictures(drawings, folder, ending)


def _list_drawings(
    found: Fit,
    X: Any,
    y: Any,
    groups: Any,
    bags: Bags | None,
    bag_names: Sequence[object] | None,
    level: float,
    label: str | None,
) -> list[Drawing]:
    """List the pictures of a fit and its data; without data there are none of bags."""
    views: list[BagView] = []
    match: Match | None = None
    if X is not None and y is not None:
        views = view_table(found, X, y, groups)
        # Matching up to so many rows for a picture takes a second, as their fit does.
        if len(y) <= 1000 and not found.facts.n_anchors:
            names = None if groups is None else list(groups)
            match = found.match(make_bags(np.asarray(X, float), np.asarray(y, float), names))
    elif bags is not None:
        views = view_bags(found, bags, bag_names)
    return list_drawings(found, views, level, label, match, X, find_log_base(label))


def today() -> date:
    """Return the date of today, or that of SOURCE_DATE_EPOCH, which makes files repeatable."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)
    return moment.date()


def check_report(path: str | os.PathLike[str]) -> Path:
    """Refuse a report that cannot be written or drawn, before any work is done for it."""
    target = check_page(path)
    import_extra("matplotlib", "report", _PURPOSE)
    import_extra("jinja2", "report", _PURPOSE)
    return target


def _render(
    found: Fit,
    level: float,
    data: Mapping[str, Any],
    origin: Mapping[str, Any],
    pictures: Sequence[Picture],
    base_levels: Mapping[str, str],
    words: Callable[[str], str],
) -> str:
    summary = found.summary(level)
    paper = write_paper_text(found, level, data["label"], origin["seed"])
    return fill_template(
        "report.html",
        summary=summary,
        verdict=[words(each) for each in (summary.reason, *summary.explanation[1:]) if each],
        headline=summary.headline,
        has_intervals=summary.has_intervals,
        percent=f"{100 * level:g}",
        rows=summary.rows,
        table=_list_coefficients(summary, base_levels),
        factors=_list_factors(summary, data["label"]),
        paper=paper,
        candidates=found.competing,
        n_candidates=len(found.candidates),
        limits=LIMITS,
        has_evidence=any(c.evidence is not None for c in found.candidates),
        # The verdict already grades the answer.
        advice=words(found.status.value) if summary.verdict is None else "",
        remarks=[words(remark) for remark in found.remarks],
        method=_describe_method(found),
        sizes=_describe_sizes(summary),
        effects=summary.describe_effects(),
        data=data,
        origin=origin,
        pictures=pictures,
    )


def _list_factors(summary: Summary, label: str | None) -> list[tuple[str, ...]]:
    """Return name, factor per unit, its ends, and factor per sd; none but for logarithms."""
    base = find_log_base(label)
    if base is None:
        return []
    return [
        (
            row.name,
            *(show_factor(each, base, row.estimate) for each in (row.estimate, row.low, row.high)),
            show_factor(row.standardised, base),
        )
        for row in summary.rows[: summary.d]
    ]


def _list_coefficients(
    summary: Summary, base_levels: Mapping[str, str]
) -> list[tuple[str, SummaryRow | None]]:
    """Return the table's rows; a base level, without a coefficient, precedes its category."""
    table: list[tuple[str, SummaryRow | None]] = []
    left = dict(base_levels)
    # The longest names first: one name may begin another.
    bases = sorted(base_levels, key=len, reverse=True)
    for row in summary.rows:
        base = next((each for each in bases if row.name.startswith(f"{each}=")), None)
        if base in left:
            table.append((f"{base}={left.pop(base)}", None))
        table.append((row.name, row))
    return table


def _describe_sizes(summary: Summary) -> str:
    """Say how many rows, labels and bags there are, in a few words."""
    labels = "" if summary.n_labels == summary.n else f", {summary.n_labels} labels"
    bags = "one bag" if summary.n_bags == 1 else f"{summary.n_bags} bags"
    rows = "1 row" if summary.n == 1 else f"{summary.n} rows"
    return f"{rows}{labels} in {bags}, {summary.d} feature{'' if summary.d == 1 else 's'}"


def fill_template(name: str, **content: Any) -> str:
    """Return a page of the package's templates, with the style that all of them share."""
    jinja2 = import_extra("jinja2", "report", _PURPOSE)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("unshuffle", "templates"), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["number"] = show_number
    environment.filters["percent"] = lambda share: "–" if share is None else f"{share:.1%}"
    environment.filters["name"] = lambda text: shorten(text, 120)
    style = (resources.files("unshuffle") / "templates" / "page.css").read_text(encoding="utf-8")
    page: str = environment.get_template(name).render(style=style, **content)
    return page


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


def _describe_bags(bags: Bags, n_rows: int) -> list[tuple[str, str]]:
    """Say how many rows, labels and bags there are, and how they belong together.

    Where weights are shares their sum is not the number of rows, and says nothing of a bag.
    """
    known, n, m = bags.known_means, bags.rows.totals, bags.labels.totals
    labels = f"{m.sum():.0f}" + ("" if bags.labels.is_raw else ", in bins")
    if known is not None:
        is_single = ~known.is_mean
        labels = f"{known.n_bags} means"
        labels += f" and {m[is_single].sum():.0f} single labels" if is_single.any() else ""
        span = [_describe_span(known.counts, "rows")]
    else:
        span = [_describe_span(m, "labels")]
        if n.sum() == n_rows:
            span.insert(0, _describe_span(n, "rows"))
    return [
        ("Rows", f"{n_rows}"),
        ("Labels", labels),
        ("Features", f"{bags.d}"),
        ("Bags", f"{bags.n_bags}, of {' and '.join(span)}"),
        ("Pairing", bags.pairing.sentence),
    ]


def _describe_span(sizes: np.ndarray, what: str) -> str:
    low, high = sizes.min(), sizes.max()
    return f"{low:.0f} {what} each" if low == high else f"{low:.0f} to {high:.0f} {what}"


def _count_bags(groups: Any) -> str:
    if groups is None:
        return "one"
    sizes = list(Counter(groups).values())
    if len(sizes) == 1:
        return f"one, of {sizes[0]} rows"
    return f"{len(sizes)}, of {_describe_span(np.array(sizes), 'rows')}"


def _default_provenance(seed: Any, X: Any, y: Any) -> dict[str, Any]:
    shown = seed if isinstance(seed, int) else "not fixed"
    origin = {"version": __version__, "seed": shown, "data_sha256": None, "command": None}
    if X is not None and y is not None:
        content = np.ascontiguousarray(X, dtype=float).tobytes()
        content += np.ascontiguousarray(y, dtype=float).tobytes()
        origin["data_sha256"] = sha256(content).hexdigest()
    return origin
