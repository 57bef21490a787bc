"""SM or P1? A map over the number of rows and of weights."""

from __future__ import annotations

import numpy as np

from unshuffle.experiments.drawing import Drawing, new_figure
from unshuffle.experiments.regimes import (
    Map,
    add_key,
    cell_seconds,
    count_wins,
    make_cells,
    map_sheets,
    plot_cells,
    plot_winners,
    run_cell,
)
from unshuffle.experiments.rows import Settings, Table
from unshuffle.experiments.runner import Experiment, Scope

AXES = Map("n", "d", "sample size n", "number of weights d")
DUEL = ("sm", "p1")
SIZES = (20, 50, 100, 200, 500, 1000, 2000)
DIMENSIONS = (1, 2, 3, 4, 5, 6)


def grid(scope: Scope) -> list[Settings]:
    """List the rows."""
    sizes, dimensions = (SIZES[1::2], DIMENSIONS[:5]) if scope.quick else (SIZES, DIMENSIONS)
    pairs = [{"n": n, "d": d, "bags": 1} for d in dimensions for n in sizes]
    return make_cells(pairs, (*DUEL, "auto"), 2 if scope.quick else 5)


def draw(table: Table) -> Drawing:
    """Draw the paper's map and, beside it, the error of auto."""
    figure, axes = new_figure(1, 2, (9.0, 4.4))
    plot_winners(axes[0, 0], table, AXES, DUEL, np.mean)
    plot_cells(axes[0, 1], table, AXES, lambda cell: ("auto", cell.mean(method="auto")))
    axes[0, 0].set_title("the better of SM and P1", fontsize=10)
    axes[0, 1].set_title("auto", fontsize=10)
    add_key(figure, (*DUEL, "auto"))
    return Drawing(_verdict(table), map_sheets(table, AXES, (*DUEL, "auto")), figure)


def _verdict(table: Table) -> str:
    wins = count_wins(table, AXES, DUEL, np.mean)["sm"]
    n_sizes = len(table.unique("n"))
    low = sum(d <= 2 for d, _ in wins)
    high = [d for d in table.unique("d") if d > 2]
    n_high = sum(d > 2 for d, _ in wins)
    word = (
        "Agrees" if low >= 1.5 * n_sizes and n_high <= len(high) * n_sizes / 2 else "Agrees in part"
    )
    return (
        f"{word}: SM wins {low} of {2 * n_sizes} cells at d ≤ 2 and {n_high} of "
        f"{len(high) * n_sizes} above; where both are far off the winner is often chance, and x "
        "~ N(1, 1) is our guess."
    )


EXPERIMENT = Experiment(
    name="regimes-n-d",
    title="Where SM and where P1 is better: rows and weights",
    place="Figure 4",
    caption=(
        "For each sample size and number of weights, the estimator with the lower mean error; the "
        "dot shows how large that error is. SM is best with few weights, P1 with many."
    ),
    choices=(
        "As printed: SNR 15 dB (mean power of x w₀ over that of the noise), w₀ ~ N(0, 1), 5 "
        "simulations (quick: 2), differences within 2 percentage points to the faster method. The "
        "paper does not say x or the grid: x ~ N(1, 1), one bag, no intercept; SM counts as faster."
    ),
    keys=("n", "d", "bags", "method", "trial"),
    grid=grid,
    run_one=run_cell,
    draw=draw,
    seconds=cell_seconds,
)
