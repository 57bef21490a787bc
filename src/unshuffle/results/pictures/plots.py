"""Pictures of a fit: ``plot_*(…, ax=None)`` draws on the given axes, or new ones, and returns them.

They show numbers of the model as they are; only curves of many points are thinned.
Pictures that need the data are in `bag_plots`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unshuffle.core.uncertainty import Posterior
from unshuffle.errors import InputError, import_extra, shorten
from unshuffle.results.determined import UNDETERMINED
from unshuffle.results.pictures.drawing import (
    BLUE,
    GREEN,
    GRID,
    MARKERS,
    ORANGE,
    PALETTE,
    PURPLE,
    curve,
    draw_interval,
    name_label,
    name_rows,
    plain,
    prepare,
    row_height,
    shorten_apart,
    space_pane_ticks,
    space_ticks,
)
from unshuffle.results.result import Fit, as_fit

# A grid with more panes a side than this has smaller letters.
_WIDE_PANES = 3
# Ticks of an axis beside long names.
_FEW_TICKS = 5


def plot_coefficients(
    model: Any,
    *,
    level: float = 0.95,
    standardised: bool = False,
    label: str | None = None,
    log_base: float | None = None,
    ax: Any = None,
) -> Any:
    """Draw the coefficients of a fitted model with their intervals, one line each.

    `standardised` multiplies each coefficient by the sd of its column, so that those of columns in
    different units can be compared; all are then in units of the `label`. A hollow mark is an
    undetermined coefficient. For labels that are logarithms to `log_base` an axis at the upper edge
    shows the factors by which the label changes.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    level : float, default=0.95
        Probability of the intervals.
    standardised : bool, default=False
        Whether to multiply each coefficient by the sd of its column, so that columns in different
        units can be compared.
    label : str, optional
        Name of the label for the axes.
    log_base : float, optional
        For labels that are logarithms to this base: a second axis shows the factors by which the
        label changes.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(200, 2, bags=4, rng=0)
    >>> model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, data.groups)
    >>> plot_coefficients(model).get_xlabel()
    'coefficient'
    """
    found = as_fit(model)
    rows = found.summary(level).rows[: len(found.coef)]
    ax = prepare(ax, (6.4, row_height(len(rows))))
    scales = found.facts.scales if standardised else np.ones(len(rows))
    estimates = np.array([row.estimate for row in rows]) * scales
    for place, (row, scale) in enumerate(zip(rows, scales, strict=True)):
        if row.low is not None and row.high is not None:
            draw_interval(ax, (row.low * scale, row.high * scale), place)
    is_open = np.array([row.determined == UNDETERMINED for row in rows])
    for chosen, filling in ((~is_open, BLUE), (is_open, "none")):
        if chosen.any():
            places = np.flatnonzero(chosen)
            ax.plot(estimates[chosen], places, "o", color=BLUE, mfc=filling, ms=5.5)
    ax.axvline(0.0, color=GRID, lw=1, zorder=0)
    space_ticks(ax, n_x=_FEW_TICKS)
    name_rows(ax, [row.name for row in rows])
    per = "sd of the column" if standardised else "unit of the column"
    if log_base is not None:
        _add_factors(ax, log_base, per)
    ax.set_xlabel(
        f"coefficient × sd of its column\n(in units of {name_label(label)})"
        if standardised
        else "coefficient"
    )
    return ax


def _add_factors(ax: Any, base: float, per: str) -> None:
    """Show at the upper edge by which factor the label changes."""
    ticker = import_extra("matplotlib.ticker", "plots", "drawing")
    low, high = ax.get_xlim()
    # A wide range of factors has ticks at powers; beyond the largest exponent none are shown.
    if max(abs(low), abs(high)) * np.log(base) > 50.0:
        return
    upper = ax.secondary_xaxis(
        "top",
        functions=(
            lambda x: base ** np.asarray(x, dtype=float),
            lambda x: np.log(np.maximum(x, 1e-300)) / np.log(base),
        ),
    )
    ends = base**low, base**high
    if ends[1] / ends[0] > 20.0:
        upper.xaxis.set_major_locator(ticker.LogLocator(numticks=_FEW_TICKS))
        upper.xaxis.set_minor_locator(ticker.NullLocator())
    else:
        upper.xaxis.set_major_locator(ticker.MaxNLocator(_FEW_TICKS, steps=[1, 2, 5, 10]))
    upper.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:.4g}"))
    upper.set_xlabel(f"factor on the label for one {per}")


def plot_noise(model: Any, *, level: float = 0.95, label: str | None = None, ax: Any = None) -> Any:
    """Draw the posterior of the noise sd, with its mean (line) and its interval (bar).

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    level : float, default=0.95
        Probability of the intervals.
    label : str, optional
        Name of the label for the axes.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    InputError
        For methods without a posterior, and where the noise is given.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    >>> plot_noise(model).get_xlabel()
    'sd of the noise\\n(in units of label)'
    """
    found = as_fit(model)
    posterior = _need_posterior(found)
    if not posterior.has_noise or np.ptp(posterior.sigma) == 0.0:
        raise InputError("the noise is given, or not seen in the labels: there is nothing to draw")
    ax = prepare(ax, (6.4, 3.2))
    low, high = posterior.quantiles(posterior.sigma, (0.002, 0.998))
    tails = (0.5 - level / 2, 0.5 + level / 2)
    heights, _, _ = ax.hist(
        posterior.sigma, bins=40, range=(low, high), weights=posterior.shares, color=BLUE,
        alpha=0.45, histtype="stepfilled",
    )  # fmt: skip
    ends = posterior.quantiles(posterior.sigma, tails)
    draw_interval(ax, (float(ends[0]), float(ends[1])), -0.06 * float(np.max(heights)))
    ax.axvline(posterior.noise, color=ORANGE, lw=1.4, ls="--")
    space_ticks(ax)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(f"sd of the noise\n(in units of {name_label(label)})")
    return ax


def plot_offset_sd(model: Any, *, label: str | None = None, ax: Any = None) -> Any:
    """Draw the posterior of the sd of offsets between bags, over the sizes that were weighed.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    label : str, optional
        Name of the label for the axes.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    InputError
        Where no sizes of offsets were weighed.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    >>> plot_offset_sd(model).get_ylabel()
    'probability, %'
    """
    effects = as_fit(model).effects
    if effects is None or len(effects.sizes) < 2:
        raise InputError(
            "no sizes of offsets between bags were weighed in this fit: it takes two bags or more, "
            "method='likelihood', and bag_offsets='auto' or 'estimate'"
        )
    ax = prepare(ax, (6.4, 3.2))
    places = np.arange(len(effects.sizes))
    bars = ax.bar(places, 100 * np.array(effects.shares), 0.7, color=BLUE, alpha=0.6)
    shown = ["<1" if 0.0 < share < 0.01 else f"{100 * share:.0f}" for share in effects.shares]
    ax.bar_label(bars, shown, fontsize=9, padding=2)
    names = ["none" if size == 0.0 else f"{size:.2g}" for size in effects.sizes]
    ax.set_xticks(places, names)
    ax.set_ylim(0, 110)
    ax.set_yticks([0, 50, 100])
    ax.set_xlabel(f"sd of the offsets between bags\n(in units of {name_label(label)})")
    ax.set_ylabel("probability, %")
    return ax


def plot_starts(model: Any, *, ax: Any = None) -> Any:
    """Draw the final value of every start, best first: how sure the minimum is.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    InputError
        For methods without starts.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, data.groups)
    >>> plot_starts(model).get_ylabel()
    'final value'
    """
    found = as_fit(model)
    values = np.sort(np.asarray(found.start_values, dtype=float))
    if len(values) == 0:
        raise InputError(f"method '{found.method}' makes no starts, so there is nothing to draw")
    ax = prepare(ax, (6.4, 3.2))
    ax.plot(np.arange(1, len(values) + 1), values, "o", color=BLUE, ms=4, alpha=0.8)
    ax.axhline(values[0], color=ORANGE, lw=1.2, ls="--", label="best value")
    if values[0] > 0 and values[-1] > 20 * values[0]:
        ax.set_yscale("log")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("start, best first")
    ax.set_ylabel("final value")
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_candidates(model: Any, *, ax: Any = None) -> Any:
    """Draw the coefficients of the best candidates side by side, each row divided by its largest.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
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
    >>> len(plot_candidates(model).lines) > 1
    True
    """
    found = as_fit(model)
    d = len(found.coef)
    candidates = found.competing
    ax = prepare(ax, (6.4, row_height(d) + 0.5))
    weights = np.array([c.weights[:d] for c in candidates])
    largest = np.abs(weights).max(axis=0)
    scaled = weights / np.where(largest > 0, largest, 1.0)
    for place, row in enumerate(scaled):
        share = candidates[place].share
        size = f"value {candidates[place].value:.3g}" if share is None else f"share {share:.0%}"
        text = f"{place + 1}. {size}"
        style = {"color": PALETTE[place], "marker": MARKERS[place], "ms": 9 - 1.2 * place}
        ax.plot(row, np.arange(d), ls="none", label=text, alpha=0.85, **style)
    ax.axvline(0.0, color=GRID, lw=1, zorder=0)
    name_rows(ax, _feature_names(found))
    ax.set_xlim(-1.1, 1.1)
    ax.set_xlabel("coefficient, over the largest of its row")
    ax.legend(frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.4, 1.0),
              ncols=min(len(candidates), 3), handletextpad=0.2, columnspacing=1.0)  # fmt: skip
    return ax


def plot_posterior(model: Any, *, features: Sequence[int] | None = None, ax: Any = None) -> Any:
    """Draw the posterior of every pair of coefficients, and of each on the diagonal.

    Without `features` (positions) those determined least are shown, and none of which the data say
    nothing. `ax` becomes the frame of the grid; the estimate is marked by lines.

    Parameters
    ----------
    model : ShuffledLinearRegression or Fit
        The fitted model.
    features : sequence of int, optional
        Positions of the coefficients shown; those determined least without it.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    InputError
        For methods without a posterior, and where the data say nothing.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    >>> len(plot_posterior(model).child_axes)
    3
    """
    found = as_fit(model)
    posterior = _need_posterior(found)
    chosen = list(found.doubtful if features is None else features)
    if not chosen:
        raise InputError("the data say nothing about the coefficients, so there is nothing to draw")
    n_shown = len(chosen)
    ax = prepare(ax, (1.6 * n_shown + 0.8, 1.6 * n_shown + 0.4))
    ax.axis("off")
    n_letters = 13 if n_shown > _WIDE_PANES else 18
    names = shorten_apart([_feature_names(found)[j] for j in chosen], n_letters)
    names = [plain(name) for name in names]
    n_pairs = n_shown * (n_shown - 1) // 2
    # Most draws in a pane, and in all panes: more look the same and make the file large.
    draws = _equal_draws(posterior, min(400, 3000 // max(n_pairs, 1)))
    limits = [_limits(draws[:, j], float(found.coef[j])) for j in chosen]
    for i, row in enumerate(chosen):
        for j, column in enumerate(chosen[: i + 1]):
            place = (j / n_shown + 0.01, 1 - (i + 1) / n_shown + 0.01, 0.93 / n_shown)
            pane = ax.inset_axes((*place, 0.93 / n_shown))
            pane.spines[["top", "right"]].set_visible(False)
            pane.axvline(found.coef[column], color=ORANGE, lw=1, ls="--", zorder=3)
            if i == j:
                pane.hist(draws[:, column], bins=24, range=limits[j], color=BLUE, alpha=0.5,
                          histtype="stepfilled")  # fmt: skip
            else:
                pane.plot(draws[:, column], draws[:, row], ".", color=BLUE, ms=3, alpha=0.5, mew=0)
                pane.axhline(found.coef[row], color=ORANGE, lw=1, ls="--", zorder=3)
                pane.set_ylim(limits[i])
            pane.set_xlim(limits[j])
            _name_pane(pane, names, i, j)
    return ax


def _name_pane(pane: Any, names: Sequence[str], i: int, j: int) -> None:
    """Write names and few ticks at the outer panes of a grid, and nothing between them."""
    space_pane_ticks(pane)
    size = 8.0 if len(names) > _WIDE_PANES else 9.0
    pane.tick_params(labelsize=size - 0.5)
    if i == len(names) - 1:
        pane.set_xlabel(names[j], fontsize=size)
    else:
        pane.tick_params(labelbottom=False)
    if j == 0 and i > 0:
        pane.set_ylabel(names[i], fontsize=size)
    else:
        pane.tick_params(labelleft=False, left=i != j)


def _limits(values: np.ndarray, estimate: float) -> tuple[float, float]:
    """Return ends that hold nearly all draws and the estimate, with some room."""
    low, high = np.quantile(values, (0.003, 0.997))
    low, high = min(float(low), estimate), max(float(high), estimate)
    room = 0.06 * (high - low) or abs(high) or 1.0
    return low - room, high + room


def _need_posterior(found: Fit) -> Posterior:
    if found.posterior is None:
        raise InputError(
            f"method '{found.method}' has no posterior to draw: use method='likelihood'"
        )
    return found.posterior


def _equal_draws(posterior: Any, most: int) -> np.ndarray:
    """Return some hundred draws of equal weight, at even steps of the cumulated weights."""
    total = np.cumsum(posterior.draw_weights)
    n_shown = min(len(total), most)
    steps = (np.arange(n_shown) + 0.5) / n_shown * total[-1]
    chosen: np.ndarray = posterior.draws[np.searchsorted(total, steps)]
    return chosen


def plot_matches(match: Any, *, ax: Any = None) -> Any:
    """Draw how sure the matches are: the probabilities of all rows, largest first.

    Parameters
    ----------
    match : Match
        What `ShuffledLinearRegression.match` returned.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    InputError
        For matches without probabilities.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    >>> plot_matches(model.match(data.X, data.y, data.groups)).get_ylabel()
    'probability of the match'
    """
    if match.probability is None:
        raise InputError("these matches have no probabilities: use method='likelihood'")
    ax = prepare(ax, (6.4, 3.2))
    share, values = curve(match.probability)
    ax.fill_between(share, values[::-1], color=BLUE, alpha=0.35, linewidth=0)
    ax.plot(share, values[::-1], color=BLUE, lw=1.5)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("share of the rows, surest first")
    ax.set_ylabel("probability of the match")
    return ax


def plot_error_by_bags(
    n_bags: Sequence[int], errors: Mapping[str, Sequence[float]], *, ax: Any = None
) -> Any:
    """Draw the error of each method against the number of bags, both on log scales.

    Parameters
    ----------
    n_bags : sequence of int
        Numbers of bags.
    errors : mapping of str to sequence of float
        The errors of each method, one for each number of bags.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> ax = plot_error_by_bags([1, 2, 4], {"ls": [0.5, 0.2, 0.1]})
    >>> ax.get_xscale()
    'log'
    """
    ax = prepare(ax, (6.4, 4.0))
    for place, (name, values) in enumerate(errors.items()):
        colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
        ax.plot(n_bags, values, marker=marker, color=colour, lw=1.5, label=plain(shorten(name)))
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(list(n_bags), [str(n) for n in n_bags])
    ax.minorticks_off()
    ax.set_xlabel("number of bags")
    ax.set_ylabel("error of the coefficients")
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_plan(plan: Any, *, ax: Any = None) -> Any:
    """Draw the error to be expected of random and designed bags against the number of runs.

    Parameters
    ----------
    plan : Plan
        What `design.plan_runs` or `design.assess_bags` returned.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from unshuffle.design import plan_runs
    >>> X = np.random.default_rng(0).exponential(size=(24, 2))
    >>> plan = plan_runs(X, [2], noise=0.1, label_sd=1.0, trials=2, method="ls", rng=0)
    >>> plot_plan(plan).get_xlabel()
    'number of runs'
    """
    ax = prepare(ax, (6.4, 4.0))
    kinds = dict.fromkeys((each.kind, each.has_offsets) for each in plan.expectations)
    for place, (kind, has_offsets) in enumerate(kinds):
        found = sorted(
            (
                each
                for each in plan.expectations
                if (each.kind, each.has_offsets) == (kind, has_offsets)
            ),
            key=lambda each: each.n_runs,
        )
        colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
        # Kinds of bags with one number of runs stand beside each other, 4.5 % apart on a log scale.
        aside = 1.045 ** (place - (len(kinds) - 1) / 2)
        ax.errorbar(
            [each.n_runs * aside for each in found], [each.error for each in found],
            yerr=[each.error_mc for each in found], color=colour, marker=marker, ms=5, lw=1.5,
            ls="--" if has_offsets else "-", capsize=3,
            label=f"{kind} bags" + (", offsets between runs" if has_offsets else ""),
        )  # fmt: skip
    ticks = sorted({each.n_runs for each in plan.expectations})
    ax.set_xscale("log")
    ax.set_xticks(ticks, [str(each) for each in ticks])
    ax.minorticks_off()
    errors = [each.error for each in plan.expectations]
    # A wide range of errors has a log scale.
    if min(errors) > 0 and max(errors) > 10.0 * min(errors):
        ax.set_yscale("log", nonpositive="clip")
        ax.set_ylim(bottom=0.5 * min(errors))
        ticker = import_extra("matplotlib.ticker", "plots", "drawing")
        ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
        ax.yaxis.set_minor_locator(ticker.NullLocator())
    else:
        ax.set_ylim(bottom=0.0)
    ax.set_xlabel("number of runs")
    ax.set_ylabel("expected error of the coefficients")
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_exposure(audit: Any, *, ax: Any = None) -> Any:
    """Draw the share of rows matched to their own label in each release, beside guessing.

    Below each bar stands the risk with its 95 % interval.

    Parameters
    ----------
    audit : Audit
        What `unshuffle.audit` returned.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from unshuffle import audit, make_shuffled
    >>> data = make_shuffled(60, 1, noise=0.02, bags=6, rng=0)
    >>> found = audit(data.X, data.linked_y, data.groups, rng=0, method="ls")
    >>> len(plot_exposure(found).get_yticks()) == len(found.exposures)
    True
    """
    found = audit.exposures
    ax = prepare(ax, (6.4, 0.8 + row_height(len(found))))
    places = np.arange(len(found))
    ax.barh(places, [100 * each.right for each in found], 0.4, color=BLUE, alpha=0.55, lw=0,
            label="outsider")  # fmt: skip
    for values, colour, marker, text in (
        ([each.guess for each in found], ORANGE, "|", "guessing"),
        ([each.known for each in found], GREEN, "D", "knowing the coefficients"),
    ):
        style = {"color": colour, "marker": marker, "ms": 13 if marker == "|" else 4.5, "mew": 2}
        ax.plot(100 * np.array(values), places, ls="none", label=text, **style)
    for place, each in zip(places, found, strict=True):
        risk = each.risk
        ends = [100 * risk.low, 100 * risk.high]
        # The interval of the risk is below the bar of its release.
        below = [place + 0.36] * 2
        label = "risk, 95 % interval" if place == 0 else None
        ax.plot(ends, below, "-", color=PURPLE, lw=2.2, label=label, solid_capstyle="butt")
        ax.plot([100 * risk.value], below[:1], "o", color=PURPLE, ms=4)
    name_rows(ax, [each.release.name for each in found])
    ax.set_xlim(left=0.0)
    ax.set_xlabel("share of the rows, %")
    ax.legend(frameon=False, fontsize="small", loc="lower center", ncols=2,
              bbox_to_anchor=(0.3, 1.0), columnspacing=1.2, handletextpad=0.5)  # fmt: skip
    return ax


def plot_calibration(audit: Any, *, ax: Any = None) -> Any:
    """Draw how often matches are right against the probability that was claimed for them.

    Parameters
    ----------
    audit : Audit
        What `unshuffle.audit` returned.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; new ones without it.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    InputError
        For matches without probabilities.

    Examples
    --------
    >>> from unshuffle import audit, make_shuffled
    >>> data = make_shuffled(60, 1, noise=0.02, bags=6, rng=0)
    >>> found = audit(data.X, data.linked_y, data.groups, rng=0)
    >>> plot_calibration(found).get_ylabel()
    'share that is right'
    """
    bins = audit.planned.calibration
    if not bins:
        raise InputError("these matches have no probabilities: use method='likelihood'")
    ax = prepare(ax, (4.6, 3.6))
    ax.plot([0, 1], [0, 1], color=GRID, lw=1, zorder=0)
    ax.plot([b.claimed for b in bins], [b.right for b in bins], "o-", color=BLUE, ms=6, lw=1.5)
    for b in bins:
        ax.annotate(f"{b.n_rows}", (b.claimed, b.right), (5, -9), textcoords="offset points",
                    fontsize=8)  # fmt: skip
    ax.set_xlim(0, 1.02)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("probability claimed (beside the marks: rows)")
    ax.set_ylabel("share that is right")
    return ax


def _feature_names(found: Fit) -> list[str]:
    return list(found.facts.names[: len(found.coef)])
