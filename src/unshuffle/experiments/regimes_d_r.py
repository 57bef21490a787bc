"""SM or P1? A map over the number of weights and of bags."""

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

AXES = Map("bags", "d", "number of bags R (100 rows each)", "number of weights d")
DUEL = ("sm", "p1")
BAGS = (1, 2, 4, 8, 16, 24)
DIMENSIONS = (1, 2, 3, 4, 5, 6, 7, 8)
BAG_SIZE = 100


def grid(scope: Scope) -> list[Settings]:
    """List the rows; the paper's 480 simulations are 48 cells of 10."""
    bags, dimensions = (BAGS[::2], DIMENSIONS[1::2]) if scope.quick else (BAGS, DIMENSIONS)
    pairs = [{"n": BAG_SIZE * r, "d": d, "bags": r} for d in dimensions for r in bags]
    return make_cells(pairs, (*DUEL, "auto"), 2 if scope.quick else 10)


def draw(table: Table) -> Drawing:
    """Draw the paper's map and, beside it, the error of auto."""
    figure, axes = new_figure(1, 2, (9.0, 4.8))
    plot_winners(axes[0, 0], table, AXES, DUEL, np.mean)
    plot_cells(axes[0, 1], table, AXES, lambda cell: ("auto", cell.mean(method="auto")))
    axes[0, 0].set_title("the better of SM and P1", fontsize=10)
    axes[0, 1].set_title("auto", fontsize=10)
    for ax in axes[0]:
        below = [sum(3 * d <= r for d in table.unique("d")) - 0.5 for r in table.unique("bags")]
        edges = np.arange(len(below) + 1) - 0.5
        ax.stairs(below, edges, baseline=None, color="#111111", linestyle="--", linewidth=1.5)
    add_key(figure, (*DUEL, "auto"))
    return Drawing(_verdict(table), map_sheets(table, AXES, (*DUEL, "auto")), figure)


def _verdict(table: Table) -> str:
    wins = count_wins(table, AXES, DUEL, np.mean)
    beyond = {m: sum(r >= 3 * d for d, r in cells) for m, cells in wins.items()}
    below = {m: sum(d > 2 and r < 3 * d for d, r in cells) for m, cells in wins.items()}
    agrees = beyond["sm"] > beyond["p1"] and below["p1"] > below["sm"]
    return (
        f"{'Agrees' if agrees else 'Agrees in part'}: with R ≥ 3d SM wins {beyond['sm']} of "
        f"{sum(beyond.values())} cells, and with fewer bags and d > 2 P1 wins {below['p1']} of "
        f"{sum(below.values())}; in print SM takes over at R ≥ 3d."
    )


EXPERIMENT = Experiment(
    name="regimes-d-r",
    title="Where SM and where P1 is better: weights and bags",
    place="Figure 6",
    caption=(
        "For each number of weights and of bags, the estimator with the lower mean error; the dot "
        "shows how large it is. With more bags SM takes over from P1. Below the dashed "
        "line R ≥ 3d, where the paper's rule takes SM."
    ),
    choices=(
        "As printed: 100 rows in every bag, SNR 15 dB, w₀ ~ N(0, 1), differences within 2 "
        "percentage points to the faster method. The caption says 5 simulations, the appendix 10: "
        "we take 10 (quick: 2). The paper does not say x or the grid: x ~ N(1, 1), no intercept; "
        "SM counts as faster."
    ),
    keys=("n", "d", "bags", "method", "trial"),
    grid=grid,
    run_one=run_cell,
    draw=draw,
    seconds=cell_seconds,
)
