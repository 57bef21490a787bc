"""Pictures of a fit: ``plot_*(…, ax=None)`` draws on the given axes, or new ones, and returns them.

Nothing is computed here that is not already in the model; only curves of many points are thinned.
Colours are those of Okabe and Ito, which differ for every kind of colour vision, and no meaning
rests on colour alone: markers, line styles and positions carry it as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unshuffle.answers.fit import Fit, as_fit
from unshuffle.core.bags import Bags
from unshuffle.core.products import predict_rows
from unshuffle.errors import InputError, import_extra, shorten

BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY)
MARKERS = "osD^v"
GRID = "#c8c9ca"

# Room for a long name beside the picture; the table holds it in full.
_NAME_LENGTH = 34
# A line of more points looks the same and makes the file large.
_CURVE_POINTS = 200
_SHOWN_BAGS = 5
_SHOWN_DRAWS = 400


def plot_coefficients(model: Any, *, level: float = 0.95, ax: Any = None) -> Any:
    """Draw the weights of a fitted model with their intervals, one line each.

    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(200, 2, bags=4, rng=0)
    >>> model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, data.groups)
    >>> plot_coefficients(model).get_xlabel()
    'weight'
    """
    found = as_fit(model)
    rows = found.summary(level).rows[: len(found.coef)]
    ax = _prepare(ax, (6.4, _row_height(len(rows))))
    places = np.arange(len(rows))
    estimates = np.array([row.estimate for row in rows])
    for place, row in zip(places, rows, strict=True):
        if row.low is not None and row.high is not None:
            ax.plot([row.low, row.high], [place, place], color=BLUE, lw=2.5, solid_capstyle="butt")
    ax.plot(estimates, places, "o", color=BLUE, ms=6)
    ax.axvline(0.0, color=GRID, lw=1, zorder=0)
    _name_rows(ax, [row.name for row in rows])
    ax.set_xlabel("weight")
    return ax


def plot_sorted(model: Any, X: Any, y: Any, groups: Any = None, *, ax: Any = None) -> Any:
    """Draw sorted labels against sorted predictions, bag by bag: what the loss compares.

    Where the model knows the noise, predictions are spread by it, as labels are. The largest bags
    are shown when there are many.
    """
    found = as_fit(model)
    ax = _prepare(ax, (6.4, 4.0))
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    z = X @ found.coef + found.intercept
    names = [""] * len(y) if groups is None else list(groups)
    for place, (name, members) in enumerate(_largest_bags(names).items()):
        text = "labels" if groups is None else f"labels, bag {shorten(name, 20)}"
        _draw_bag(ax, place, text, y[members], _spread(z[members], found.noise))
    return _finish_sorted(ax)


def draw_sorted_bags(model: Any, bags: Bags, *, ax: Any = None) -> Any:
    """Draw what `plot_sorted` draws, of bags whose rows and labels have numbers of their own.

    Bins are drawn as points, and bags, which have no names here, by their numbers of rows.
    """
    found = as_fit(model)
    ax = _prepare(ax, (6.4, 4.0))
    z = predict_rows(bags.X, found.coef) + found.intercept
    labels, n = bags.labels.points, bags.rows.totals
    for place, r in enumerate(np.argsort(-n, kind="stable")[:_SHOWN_BAGS]):
        rows = slice(bags.rows.offsets[r], bags.rows.offsets[r + 1])
        items = slice(labels.offsets[r], labels.offsets[r + 1])
        predictions = _spread(_thin(z[rows], bags.rows.masses[rows]), found.noise)
        text = f"labels, bag of {n[r]:g} rows"
        _draw_bag(ax, place, text, _thin(labels.values[items], labels.masses[items]), predictions)
    return _finish_sorted(ax)


def _draw_bag(ax: Any, place: int, text: str, labels: np.ndarray, predictions: np.ndarray) -> None:
    """Draw the sorted labels of a bag as marks, and its sorted predictions as a line."""
    share, marks = _curve(labels)
    _, line = _curve(predictions)
    colour, marker = PALETTE[place], MARKERS[place]
    step = max(1, len(share) // 25)
    ax.plot(share[::step], marks[::step], marker, color=colour, ms=4, label=_plain(text))
    ax.plot(np.linspace(0, 1, len(line)), line, "-", color=colour, lw=1.5, alpha=0.8)


def _finish_sorted(ax: Any) -> Any:
    ax.set_xlabel("share of the bag, smallest first (lines: predictions)")
    ax.set_ylabel("label")
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    return ax


def plot_starts(model: Any, *, ax: Any = None) -> Any:
    """Draw the final value of every start, best first: how sure the minimum is."""
    found = as_fit(model)
    values = np.sort(np.asarray(found.start_values, dtype=float))
    if len(values) == 0:
        raise InputError(f"method '{found.method}' makes no starts, so there is nothing to draw")
    ax = _prepare(ax, (6.4, 3.2))
    ax.plot(np.arange(1, len(values) + 1), values, "o", color=BLUE, ms=4, alpha=0.8)
    ax.axhline(values[0], color=ORANGE, lw=1.2, ls="--", label="best value")
    if values[0] > 0 and values[-1] > 20 * values[0]:
        ax.set_yscale("log")
    ax.set_xlabel("start, best first")
    ax.set_ylabel("final value")
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_candidates(model: Any, *, ax: Any = None) -> Any:
    """Draw the weights of the best candidates side by side, each row divided by its largest."""
    found = as_fit(model)
    d = len(found.coef)
    candidates = found.competing
    ax = _prepare(ax, (6.4, _row_height(d) + 0.5))
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
    _name_rows(ax, _feature_names(found))
    ax.set_xlim(-1.1, 1.1)
    ax.set_xlabel("weight, over the largest of its row")
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def plot_posterior(model: Any, *, features: Sequence[int] | None = None, ax: Any = None) -> Any:
    """Draw the posterior of every pair of weights, and of each weight on the diagonal.

    Without `features` (positions) the weights known least are shown, those that the verdict names,
    and none of which the data say nothing. `ax` becomes the frame of the grid.
    """
    found = as_fit(model)
    posterior = found.posterior
    if posterior is None:
        raise InputError(
            f"method '{found.method}' has no posterior to draw: use method='likelihood'"
        )
    chosen = list(found.doubtful if features is None else features)
    if not chosen:
        raise InputError("the data say nothing about the weights, so there is nothing to draw")
    ax = _prepare(ax, (1.6 * len(chosen) + 0.8, 1.6 * len(chosen) + 0.4))
    ax.axis("off")
    names = [_plain(shorten(_feature_names(found)[j], 18)) for j in chosen]
    n_shown = len(chosen)
    size = 0.94 / n_shown
    draws = _equal_draws(posterior)
    for i, row in enumerate(chosen):
        for j, column in enumerate(chosen[: i + 1]):
            place = (j / n_shown + 0.02, 1 - (i + 1) / n_shown + 0.02, size, size)
            pane = ax.inset_axes(place)
            pane.tick_params(labelsize=7)
            _draw_pane(pane, draws[:, column], draws[:, row], row == column)
            if i == n_shown - 1:
                pane.set_xlabel(names[j], fontsize=8)
            if j == 0 and i > 0:
                pane.set_ylabel(names[i], fontsize=8)
            pane.set_xticks(pane.get_xticks()[1:-1:2] if i == n_shown - 1 else [])
            pane.set_yticks(pane.get_yticks()[1:-1:2] if j == 0 and i > 0 else [])
    return ax


def _draw_pane(pane: Any, first: np.ndarray, second: np.ndarray, is_diagonal: bool) -> None:
    if is_diagonal:
        pane.hist(first, bins=24, color=BLUE, alpha=0.6, histtype="stepfilled")
    else:
        pane.plot(first, second, ".", color=BLUE, ms=3, alpha=0.4, mew=0)


def _equal_draws(posterior: Any) -> np.ndarray:
    """Return some hundred draws of equal weight, at even steps of the cumulated weights."""
    total = np.cumsum(posterior.draw_weights)
    n_shown = min(len(total), _SHOWN_DRAWS)
    steps = (np.arange(n_shown) + 0.5) / n_shown * total[-1]
    chosen: np.ndarray = posterior.draws[np.searchsorted(total, steps)]
    return chosen


def plot_matches(match: Any, *, ax: Any = None) -> Any:
    """Draw how sure the matches are: the probabilities of all rows, largest first."""
    if match.probability is None:
        raise InputError("these matches have no probabilities: use method='likelihood'")
    ax = _prepare(ax, (6.4, 3.2))
    share, values = _curve(match.probability)
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

    >>> ax = plot_error_by_bags([1, 2, 4], {"ls": [0.5, 0.2, 0.1]})
    >>> ax.get_xscale()
    'log'
    """
    ax = _prepare(ax, (6.4, 4.0))
    for place, (name, values) in enumerate(errors.items()):
        colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
        ax.plot(n_bags, values, marker=marker, color=colour, lw=1.5, label=_plain(shorten(name)))
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(list(n_bags), [str(n) for n in n_bags])
    ax.minorticks_off()
    ax.set_xlabel("number of bags")
    ax.set_ylabel("error of the weights")
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_plan(plan: Any, *, ax: Any = None) -> Any:
    """Draw the error to be expected of random and designed bags against the number of runs."""
    ax = _prepare(ax, (6.4, 4.0))
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
        ax.errorbar(
            [each.n_runs for each in found], [each.error for each in found],
            yerr=[each.error_mc for each in found], color=colour, marker=marker, ms=5, lw=1.5,
            ls="--" if has_offsets else "-", capsize=3,
            label=f"{kind} bags" + (", offsets between runs" if has_offsets else ""),
        )  # fmt: skip
    ticks = sorted({each.n_runs for each in plan.expectations})
    ax.set_xscale("log")
    ax.set_xticks(ticks, [str(each) for each in ticks])
    ax.minorticks_off()
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("number of runs")
    ax.set_ylabel("expected error of the weights")
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_exposure(audit: Any, *, ax: Any = None) -> Any:
    """Draw the share of rows matched to their own label in each release, beside guessing."""
    found = audit.exposures
    ax = _prepare(ax, (6.4, _row_height(len(found))))
    places = np.arange(len(found))
    ax.barh(places, [100 * each.right for each in found], 0.6, color=BLUE, label="outsider")
    for values, colour, marker, text in (
        ([each.guess for each in found], ORANGE, "|", "guessing"),
        ([each.known for each in found], GREEN, "D", "knowing the weights"),
    ):
        style = {"color": colour, "marker": marker, "ms": 14 if marker == "|" else 6, "mew": 2}
        ax.plot(100 * np.array(values), places, ls="none", label=text, **style)
    _name_rows(ax, [each.release.name for each in found])
    ax.set_xlim(left=0.0)
    ax.set_xlabel("rows matched to their own label, %")
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def plot_calibration(audit: Any, *, ax: Any = None) -> Any:
    """Draw how often matches are right against the probability that was claimed for them."""
    bins = audit.planned.calibration
    if not bins:
        raise InputError("these matches have no probabilities: use method='likelihood'")
    ax = _prepare(ax, (4.6, 3.6))
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


def _prepare(ax: Any, size: tuple[float, float]) -> Any:
    """Return the given axes, or new ones, without the frame's upper and right side."""
    if ax is None:
        pyplot = import_extra("matplotlib.pyplot", "plots", "drawing")
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _row_height(n_rows: int) -> float:
    return 0.9 + 0.28 * max(n_rows, 2)


def _name_rows(ax: Any, names: Sequence[str]) -> None:
    """Write the names at the left, the first on top."""
    ax.set_yticks(np.arange(len(names)), [_plain(shorten(name, _NAME_LENGTH)) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(axis="y", color=GRID, lw=0.5)
    ax.set_axisbelow(True)
    ax.tick_params(axis="y", length=0)


def _plain(text: str) -> str:
    """Keep matplotlib from reading dollar signs as mathematics."""
    return text.replace("$", r"\$")


def _feature_names(found: Fit) -> list[str]:
    return list(found.facts.names[: len(found.coef)])


def _largest_bags(names: Sequence[Any]) -> dict[Any, np.ndarray]:
    """Return the rows of the largest bags by name, in the order of their first rows."""
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    largest = set(sorted(rows, key=lambda name: -len(rows[name]))[:_SHOWN_BAGS])
    return {name: np.array(places) for name, places in rows.items() if name in largest}


def _thin(values: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Return values at even shares of their mass: so many that a curve loses nothing."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(masses[order])
    shares = (np.arange(_CURVE_POINTS) + 0.5) / _CURVE_POINTS
    return values[order][np.searchsorted(sums, shares * sums[-1])]


def _curve(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most some hundred points of a sorted sample, with the shares they stand at."""
    ordered = np.sort(np.asarray(values, dtype=float))
    places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), _CURVE_POINTS)).round())
    share = places / max(len(ordered) - 1, 1)
    return share, ordered[places.astype(int)]


def _spread(z: np.ndarray, noise: float | None) -> np.ndarray:
    """Return predictions spread by Gaussian noise, as the labels of so many rows would be."""
    if not noise:
        return z
    from unshuffle.core.noise import GaussianNoise

    everything = np.sort((z[:, None] + GaussianNoise(noise).atoms()).ravel())
    # One value of each slice: as many as there are rows.
    n_atoms = len(everything) // len(z)
    return everything[n_atoms // 2 :: n_atoms]
