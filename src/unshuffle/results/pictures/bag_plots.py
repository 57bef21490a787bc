"""Pictures of a fit with its data: predictions and labels of bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from unshuffle.errors import InputError, shorten
from unshuffle.results.pictures.bag_views import (
    BagView,
    estimate_offsets,
    find_label_name,
    find_offset,
    largest,
    mean_ends,
    transform_labels,
    view_table,
)
from unshuffle.results.pictures.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    MARKERS,
    ORANGE,
    PALETTE,
    curve,
    make_panes,
    name_label,
    name_rows,
    plain,
    prepare,
    row_height,
    shorten_apart,
    space_pane_ticks,
    space_ticks,
    spread,
    take_quantiles,
)
from unshuffle.results.result import Fit, as_fit

# Bags in one picture, and panels; the largest are shown.
SHOWN_BAGS, SHOWN_PANELS = len(PALETTE), 12
# Bags that are named beside an axis, and letters of a name above one of four or three panels.
_NAMED_BAGS, _LONG_NAME = 40, 20
# Classes of the match probability: least probability, words, colour and mark.
_CERTAINTY = (
    (0.95, "0.95 or more", BLUE, "o"),
    (0.5, "0.5 to 0.95", GREEN, "^"),
    (0.0, "below 0.5", ORANGE, "x"),
)


def plot_sorted(
    model: Any, X: Any, y: Any, groups: Any = None, *, label: str | None = None, ax: Any = None
) -> Any:
    """Draw sorted labels against sorted predictions, bag by bag: what the loss compares.

    Where the model knows the noise, predictions are spread by it, as labels are. The eight largest
    bags are shown when there are more; `plot_bags` has a panel for each.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    X : array-like of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        The labels.
    groups : sequence of n hashable labels, optional
        The bag of each row and of each label.
    label : str, optional
        Name of the label for the axes; that of `y` without it.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, data.groups)
    >>> len(plot_sorted(model, data.X, data.y, data.groups).lines)
    12
    """
    found = as_fit(model)
    return draw_sorted(
        found, view_table(found, X, y, groups), label=label or find_label_name(y), ax=ax
    )


def draw_sorted(
    found: Fit, views: list[BagView], *, label: str | None = None, ax: Any = None
) -> Any:
    """Draw what `plot_sorted` draws."""
    ax = prepare(ax, (6.4, 4.0))
    for place, view in enumerate(largest(views, SHOWN_BAGS)):
        text = "labels" if len(views) == 1 else f"labels, bag {shorten(view.name, _LONG_NAME)}"
        share, marks = curve(_expand(view.y, view.y_masses))
        line = spread(_expand(view.z, view.z_masses), found.noise)
        colour, step = PALETTE[place], max(1, len(share) // 25)
        ax.plot(share[::step], marks[::step], MARKERS[place], color=colour, ms=4, label=plain(text))
        _, line = curve(line)
        ax.plot(np.linspace(0, 1, len(line)), line, "-", color=colour, lw=1.5, alpha=0.8)
    space_ticks(ax)
    ax.set_xlabel("share of the bag, smallest first (lines: predictions)")
    ax.set_ylabel(name_label(label))
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    return ax


def plot_bag_means(
    model: Any, X: Any, y: Any, groups: Any = None, *, label: str | None = None, ax: Any = None
) -> Any:
    """Draw the mean label of each bag against the mean prediction, with 95 % bars for both.

    Bars along are those of the prediction, where the model has intervals; bars up and down are the
    noise of a mean of so many labels, and offsets between bags where they are probable.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    X : array-like of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        The labels.
    groups : sequence of n hashable labels, optional
        The bag of each row and of each label.
    label : str, optional
        Name of the label for the axes; that of `y` without it.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, data.groups)
    >>> plot_bag_means(model, data.X, data.y, data.groups).get_xlabel()
    'mean prediction of a bag, label'
    """
    found = as_fit(model)
    return draw_bag_means(
        found, view_table(found, X, y, groups), label=label or find_label_name(y), ax=ax
    )


def draw_bag_means(
    found: Fit, views: list[BagView], *, label: str | None = None, ax: Any = None
) -> Any:
    """Draw what `plot_bag_means` draws."""
    ax = prepare(ax, (5.0, 4.6))
    predicted = np.array([view.mean_z for view in views])
    observed = np.array([view.mean_y for view in views])
    ends = mean_ends(found, views)
    along = None if ends is None else np.abs(ends.T - predicted)
    aside = 1.96 * np.sqrt([_mean_variance(found, view) for view in views])
    low = min(predicted.min(), observed.min())
    high = max(predicted.max(), observed.max())
    ax.plot([low, high], [low, high], color=GRID, lw=1.2, zorder=0)
    has_bars = bool(aside.max() > 0)
    ax.errorbar(
        predicted, observed, yerr=aside if has_bars else None, xerr=along, fmt="o", color=BLUE,
        ms=4.5, lw=1.2, capsize=2, ecolor=BLUE, elinewidth=0.9,
    )  # fmt: skip
    space_ticks(ax)
    ax.set_xlabel(f"mean prediction of a bag, {name_label(label, 32)}")
    ax.set_ylabel(f"mean of its labels, {name_label(label, 24)}")
    return ax


def _mean_variance(found: Fit, view: BagView) -> float:
    """Return the predictive variance of a bag's mean label: noise, and offsets."""
    offsets = found.effects
    tau = offsets.offset_sd if offsets is not None and offsets.has_offsets else 0.0
    return (found.noise or 0.0) ** 2 / view.n_labels + tau**2


def plot_places(model: Any, X: Any, y: Any, groups: Any = None, *, ax: Any = None) -> Any:
    """Draw the PIT histogram of the labels: goodness of fit (Dawid 1984).

    Each label has a place between 0 (below all that is predicted) and 1; if the model is right,
    all places are as likely. Bars are the number of labels over that expected, and the band is what
    chance does to 95 of 100 bars.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    X : array-like of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        The labels.
    groups : sequence of n hashable labels, optional
        The bag of each row and of each label.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    InputError
        For methods without noise.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression("ls", noise=0.1, random_state=0)
    >>> model = model.fit(data.X, data.y, data.groups)
    >>> len(plot_places(model, data.X, data.y, data.groups).patches) > 0
    True
    """
    found = as_fit(model)
    return draw_places(found, view_table(found, X, y, groups), ax=ax)


def draw_places(found: Fit, views: list[BagView], *, ax: Any = None) -> Any:
    """Draw what `plot_places` draws."""
    if found.noise is None:
        raise InputError(
            f"method '{found.method}' has no noise, so that it predicts no distribution of the "
            "labels: give noise, or use method='likelihood'"
        )
    ax = prepare(ax, (6.4, 3.4))
    parts = [transform_labels(found, view) for view in views]
    places, masses = (np.concatenate(each) for each in zip(*parts, strict=True))
    n = float(masses.sum())
    n_cells = int(np.clip(np.sqrt(n), 4, 30))
    seen, edges = np.histogram(np.clip(places, 0, 1), bins=n_cells, range=(0, 1), weights=masses)
    expected = n / n_cells
    chance = 1.96 * np.sqrt((1 - 1 / n_cells) / expected)
    ax.axhspan(1 - chance, 1 + chance, color=GREY, alpha=0.18, lw=0)
    ax.axhline(1.0, color=GREY, lw=1)
    ax.stairs(seen / expected, edges, color=BLUE, fill=True, alpha=0.45)
    ax.stairs(seen / expected, edges, color=BLUE, lw=1.2)
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("probability integral transform (PIT) of a label")
    ax.set_ylabel("labels, over those expected")
    return ax


def plot_bags(
    model: Any, X: Any, y: Any, groups: Any = None, *, label: str | None = None, ax: Any = None
) -> Any:
    """Draw a panel for each bag: its labels (filled) and the predictive distribution (line).

    All panels have the same axes. The twelve largest bags are shown when there are more; `ax`
    becomes their frame.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    X : array-like of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        The labels.
    groups : sequence of n hashable labels, optional
        The bag of each row and of each label.
    label : str, optional
        Name of the label for the axes; that of `y` without it.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression("ls", noise=0.1, random_state=0)
    >>> model = model.fit(data.X, data.y, data.groups)
    >>> len(plot_bags(model, data.X, data.y, data.groups).child_axes)
    6
    """
    found = as_fit(model)
    return draw_bags(
        found, view_table(found, X, y, groups), label=label or find_label_name(y), ax=ax
    )


def panel_size(views: list[BagView]) -> tuple[float, float]:
    """Return width and height of a picture with a panel for each bag."""
    n_shown = min(len(views), SHOWN_PANELS)
    return 4.8, 0.8 + 1.15 * -(-n_shown // _count_columns(largest(views, SHOWN_PANELS)))


def _count_columns(shown: list[BagView]) -> int:
    """Return how many panels stand side by side: fewer below long names."""
    longest = max(len(view.name) for view in shown)
    return min(len(shown), 4 if longest <= 14 else 3)


def _title_panels(views: list[BagView]) -> list[str]:
    """Return the names above panels; a number alone says nothing."""
    names = shorten_apart([view.name for view in views], _LONG_NAME)
    return [plain(f"bag {name}" if name.isdigit() else name) for name in names]


def draw_bags(found: Fit, views: list[BagView], *, label: str | None = None, ax: Any = None) -> Any:
    """Draw what `plot_bags` draws."""
    shown = largest(views, SHOWN_PANELS)
    ax = prepare(ax, panel_size(views))
    n_columns = _count_columns(shown)
    panes = make_panes(ax, len(shown), n_columns)
    everything = np.concatenate([each for view in shown for each in (view.y, view.z)])
    low, high = float(everything.min()), float(everything.max())
    room = 0.04 * (high - low) or abs(low) or 1.0
    edges = np.linspace(low - room, high + room, 29)
    heights = []
    titles = _title_panels(shown)
    for place, (pane, view) in enumerate(zip(panes, shown, strict=True)):
        heights.append(_draw_panel(pane, found, view, edges))
        pane.set_title(titles[place], fontsize=8, pad=3)
        pane.set_xlim(edges[0], edges[-1])
        space_pane_ticks(pane)
        pane.set_yticks([])
        pane.spines["left"].set_visible(False)
        is_last = place + n_columns >= len(shown)
        pane.tick_params(labelsize=8, labelbottom=is_last)
    panes[-1 - (len(panes) - 1) % n_columns // 2].set_xlabel(name_label(label), fontsize=9)
    for pane in panes:
        pane.set_ylim(0, 1.08 * max(heights))
    return ax


def _draw_panel(pane: Any, found: Fit, view: BagView, edges: np.ndarray) -> float:
    """Draw one bag; return the height that it reaches."""
    heights, _ = np.histogram(view.y, edges, weights=view.y_masses, density=True)
    pane.stairs(heights, edges, color=BLUE, fill=True, alpha=0.4)
    if found.noise:
        atoms = view.atoms + find_offset(found, view)
        grid = np.linspace(edges[0], edges[-1], 120)
        gaps = (grid[:, None] - atoms) / found.noise
        density = np.exp(-0.5 * gaps**2).mean(axis=1) / (found.noise * np.sqrt(2 * np.pi))
        pane.plot(grid, density, color=ORANGE, lw=1.5)
    else:
        density, _ = np.histogram(view.z, edges, weights=view.z_masses, density=True)
        pane.stairs(density, edges, color=ORANGE, lw=1.5)
    # A density far narrower than the bars may exceed the frame; otherwise the bars would be flat.
    highest = float(heights.max())
    return max(highest, min(float(density.max()), 2.5 * highest))


def plot_offsets(
    model: Any, X: Any, y: Any, groups: Any = None, *, label: str | None = None, ax: Any = None
) -> Any:
    """Draw the offset of each bag with its 95 % interval, if bags are offset at all.

    The posterior given the spread of offsets and the noise; `summary()` says how probable offsets
    are.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    X : array-like of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        The labels.
    groups : sequence of n hashable labels, optional
        The bag of each row and of each label.
    label : str, optional
        Name of the label for the axes; that of `y` without it.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    InputError
        Where there are no offsets.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression(bag_offsets="estimate", random_state=0)
    >>> model = model.fit(data.X, data.y + data.groups, data.groups)
    >>> plot_offsets(model, data.X, data.y + data.groups, data.groups).get_xlabel()
    'offset, label'
    """
    found = as_fit(model)
    return draw_offsets(
        found, view_table(found, X, y, groups), label=label or find_label_name(y), ax=ax
    )


def draw_offsets(
    found: Fit, views: list[BagView], *, label: str | None = None, ax: Any = None
) -> Any:
    """Draw what `plot_offsets` draws."""
    found_offsets = estimate_offsets(found, views)
    if not found_offsets:
        raise InputError("there are no offsets between bags in this fit: nothing is to be drawn")
    ax = prepare(ax, offsets_size(len(views)))
    estimates = np.array([each.estimate for each in found_offsets])
    bars = np.array([each.high - each.estimate for each in found_offsets])
    style = {"fmt": "o", "color": BLUE, "ms": 4.5, "lw": 1.2, "capsize": 3}
    if len(views) <= _NAMED_BAGS:
        ax.axvline(0.0, color=GRID, lw=1, zorder=0)
        ax.errorbar(estimates, np.arange(len(views)), xerr=bars, **style)
        space_ticks(ax, n_x=5)
        name_rows(ax, [view.name for view in views])
        ax.set_xlabel(f"offset, {name_label(label)}")
        return ax
    ax.axhline(0.0, color=GRID, lw=1, zorder=0)
    ax.errorbar(np.arange(1, len(views) + 1), estimates, yerr=bars, **style)
    space_ticks(ax)
    ax.set_xlabel("bag, in the order of the data")
    ax.set_ylabel(f"offset, {name_label(label, 24)}")
    return ax


def offsets_size(n_bags: int) -> tuple[float, float]:
    """Return width and height of a picture of the offsets of so many bags."""
    return 4.8, row_height(n_bags) * 0.7 + 0.3 if n_bags <= _NAMED_BAGS else 3.0


def plot_predictions(
    model: Any, match: Any, X: Any, *, label: str | None = None, ax: Any = None
) -> Any:
    """Draw the label matched to each row against its prediction, by how sure the match is.

    `match` is what ``model.match(X, y, groups)`` returned. On the line both agree; where labels are
    matched by rank a narrow band says nothing by itself, and the colours and marks say how probable
    each match is.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    match : Match
        What ``model.match(X, y, groups)`` returned.
    X : array-like of shape (n, d)
        The rows matched.
    label : str, optional
        Name of the label for the axes.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, data.groups)
    >>> plot_predictions(model, model.match(data.X, data.y, data.groups), data.X).get_xlabel()
    'prediction, label'
    """
    found = as_fit(model)
    ax = prepare(ax, (5.4, 4.6))
    z = found.predict(np.asarray(X, dtype=float))
    given, labels = match.probability, np.asarray(match.labels, dtype=float)
    # More points look the same and make the file large.
    step = max(1, len(z) // 600)
    order = np.argsort(z, kind="stable")[::step]
    low, high = float(min(z.min(), labels.min())), float(max(z.max(), labels.max()))
    ax.plot([low, high], [low, high], color=GRID, lw=1.2, zorder=0)
    sure = np.full(len(z), np.nan) if given is None else given
    if given is None:
        ax.plot(z[order], labels[order], "o", color=BLUE, ms=3.5, mew=0, alpha=0.6)
    above = np.inf
    for least, words, colour, marker in () if given is None else _CERTAINTY:
        chosen = order[(sure[order] >= least) & (sure[order] < above)]
        share = float(np.mean((sure >= least) & (sure < above)))
        above = least
        style = {"mew": 1.0, "ms": 4.5} if marker == "x" else {"mew": 0.0, "ms": 4.5}
        ax.plot(z[chosen], labels[chosen], marker, color=colour, alpha=0.75, **style,
                label=f"{words} ({share:.0%} of the rows)")  # fmt: skip
    if given is not None:
        ax.legend(title="probability of the match", frameon=False, fontsize="small",
                  title_fontsize="small")  # fmt: skip
    space_ticks(ax)
    ax.set_xlabel(f"prediction, {name_label(label)}")
    ax.set_ylabel(f"matched {name_label(label, 30)}")
    return ax


def _expand(values: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Return a sample in which each value counts by its mass."""
    return values if bool((masses == 1.0).all()) else take_quantiles(values, masses)
