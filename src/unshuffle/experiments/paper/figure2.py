"""Error against n: at d = 1 LS does not converge and SM does; at d = 3 neither converges."""

from __future__ import annotations

from typing import Any

import numpy as np

from unshuffle.experiments.drawing import (
    Drawing,
    Sheet,
    label_axes,
    mean_sheet,
    new_figure,
    plain_ticks,
    plot_mean_error,
)
from unshuffle.experiments.rows import Row, Settings, Table
from unshuffle.experiments.runner import Experiment, Scope
from unshuffle.experiments.simulations import fit_seconds, fit_simulated, simulate

SIZES = (10, 30, 100, 300, 1000, 3000, 10000)
METHODS = ("ols", "sm", "ls", "auto")


def limit_of_ls(mean: float, spread: float, noise: float, weight: float = 1.0) -> float:
    """Return Theorem 1's limit of the LS weight at d = 1 for x ~ N(mean, spread²).

    >>> round(limit_of_ls(1.0, 1.0, 1.0), 4)
    1.2071
    """
    amplified = spread * np.sqrt(spread**2 + noise**2 / weight**2)
    return float(weight * (mean**2 + amplified) / (mean**2 + spread**2))


def grid_of(d: int, scope: Scope) -> list[Settings]:
    """List the rows: every method at every n, the same data for all methods of a trial."""
    sizes, trials = (SIZES[::2], 4) if scope.quick else (SIZES, 20)
    return [
        {"d": d, "n": n, "method": method, "trial": trial}
        for n in sizes
        for method in METHODS
        for trial in range(trials)
    ]


def run_one(settings: Settings, rng: np.random.Generator) -> Row:
    """Draw x ~ N(1, 1), w₀ = ones, σ = 1, one bag; fit."""
    n, d = settings["n"], settings["d"]
    data = simulate(rng.normal(1.0, 1.0, (n, d)), np.ones(d), 1.0, 1, rng)
    return fit_simulated(data, settings["method"], rng)


def seconds(settings: Settings) -> float:
    """Estimate the time of one row."""
    return fit_seconds(settings["method"], settings["n"], settings["d"])


def plot_against_n(table: Table) -> tuple[Any, Any]:
    """Draw the mean error of every method against n, both on logarithmic axes."""
    figure, axes = new_figure()
    ax = axes[0, 0]
    for method in table.unique("method"):
        plot_mean_error(ax, table.where(method=method), "n", method)
    ax.set(xscale="log", yscale="log")
    plain_ticks(ax, table.unique("n"))
    label_axes(ax, "sample size n")
    return figure, ax


def _lay_out(table: Table) -> Sheet:
    """Lay out the mean error of every method at every n."""
    return mean_sheet(table, "method", "n", "Mean relative error against n", "method \\ n")


def draw(table: Table) -> Drawing:
    """Draw the errors with the two lines that theory gives."""
    figure, ax = plot_against_n(table)
    sizes = np.array(table.unique("n"), dtype=float)
    limit = limit_of_ls(1.0, 1.0, 1.0) - 1
    ax.axhline(limit, color="#D55E00", linestyle=":", label=f"Theorem 1: LS → {limit:.3f}")
    ax.plot(sizes, 1 / np.sqrt(sizes), color="#0072B2", linestyle=":", label="σ/√n: sd of SM")
    ax.legend(fontsize=8.5)
    return Drawing(_verdict(table, limit), (_lay_out(table),), figure)


def _verdict(table: Table, limit: float) -> str:
    largest = max(table.unique("n"))
    error = {m: table.mean(method=m, n=largest) for m in table.unique("method")}
    agrees = error["sm"] < 0.2 * error["ls"] and abs(error["ls"] - limit) < 0.1 * limit
    return (
        f"{'Agrees' if agrees else 'Does not agree'}: at n = {largest} LS is {error['ls']:.3f} off "
        f"(Theorem 1 says {limit:.3f}), SM {error['sm']:.4f}, OLS with the links "
        f"{error['ols']:.4f} and auto {error['auto']:.4f}."
    )


EXPERIMENT = Experiment(
    name="figure2",
    title="Error against sample size, one weight",
    place="Figure 2",
    caption=(
        "With a single weight, least squares over matchings (LS) settles on a wrong answer however "
        "many rows there are, because it explains noise by a steeper line. The ratio of means (SM) "
        "has no such bias and is nearly as good as ordinary least squares with the links known."
    ),
    choices=(
        "As printed: σ² = 1, w₀ = [1], x ~ N(1, 1), no intercept. Ours: n from 10 to 10 000, mean "
        "of 20 trials (quick: 4), bands hold the middle half of the trials. Mean |error| of SM is "
        "√(2/π) ≈ 0.8 times its sd, so it lies just below the dotted line."
    ),
    keys=("d", "n", "method", "trial"),
    grid=lambda scope: grid_of(1, scope),
    run_one=run_one,
    draw=draw,
    seconds=seconds,
)


def _draw_three_weights(table: Table) -> Drawing:
    """Draw the errors; the paper has no theory here."""
    figure, ax = plot_against_n(table)
    ax.legend(fontsize=8.5)
    return Drawing(_verdict_three_weights(table), (_lay_out(table),), figure)


def _verdict_three_weights(table: Table) -> str:
    largest = max(table.unique("n"))
    error = {m: table.mean(method=m, n=largest) for m in table.unique("method")}
    similar = 1 / 3 < error["ls"] / error["sm"] < 3
    stuck = min(error["ls"], error["sm"]) > 10 * error["ols"]
    return (
        f"{'Agrees' if similar and stuck else 'Agrees in part'}: at n = {largest} LS "
        f"({error['ls']:.2f}) and SM ({error['sm']:.2f}) are "
        f"{'about equally' if similar else 'not equally'} far off while OLS with the links is at "
        f"{error['ols']:.3f}; auto is at {error['auto']:.3f}."
    )


THREE_WEIGHTS = Experiment(
    name="figure2b",
    title="Error against sample size, three weights",
    place="Figure 3",
    caption=(
        "With three weights SM needs the third moment, in which noise counts, so that neither SM "
        "nor LS finds the truth however many rows there are; their errors are alike."
    ),
    choices=(
        "As printed: σ² = 1, w₀ = [1, 1, 1], x ~ N(1, 1), no intercept. Ours: n from 10 to 10 000, "
        "mean of 20 trials (quick: 4), bands hold the middle half of the trials. SM uses K = 3 "
        "moments."
    ),
    keys=("d", "n", "method", "trial"),
    grid=lambda scope: grid_of(3, scope),
    run_one=run_one,
    draw=_draw_three_weights,
    seconds=seconds,
)
