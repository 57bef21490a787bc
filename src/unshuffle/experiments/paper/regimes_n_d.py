"""SM or P1? A map over the number of rows and of weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unshuffle.experiments.drawing import Drawing
from unshuffle.experiments.paper.regimes import Map, make_experiment
from unshuffle.experiments.rows import Settings, Table
from unshuffle.experiments.runner import Scope

AXES = Map("n", "d", "sample size n", "number of weights d", ("sm", "p1"))
SIZES = (20, 50, 100, 200, 500, 1000, 2000)
DIMENSIONS = (1, 2, 3, 4, 5, 6)


def cells(scope: Scope) -> tuple[Sequence[Settings], int]:
    """List the cells."""
    sizes, dimensions = (SIZES[1::2], DIMENSIONS[:5]) if scope.quick else (SIZES, DIMENSIONS)
    return [{"n": n, "d": d, "bags": 1} for d in dimensions for n in sizes], 2 if scope.quick else 5


def draw(table: Table) -> Drawing:
    """Draw the paper's map and, beside it, the error of auto."""
    figure, _ = AXES.draw_panels(table, {"mean": np.mean}, np.mean, (9.0, 4.4))
    return Drawing(_verdict(table), AXES.sheets(table), figure)


def _verdict(table: Table) -> str:
    winners = AXES.winners(table, np.mean)
    low = [winner for (d, _), (winner, _) in winners.items() if d <= 2]
    high = [winner for (d, _), (winner, _) in winners.items() if d > 2]
    n_low, n_high = low.count("sm"), high.count("p1")
    agrees = 2 * n_low > len(low) and 2 * n_high > len(high)
    far = sum(error > 0.3 for _, error in winners.values())
    return (
        f"{'Agrees' if agrees else 'Agrees in part'}: SM wins {n_low} of {len(low)} cells at d ≤ 2 "
        f"and P1 {n_high} of {len(high)} above; in {far} of {len(winners)} cells even the better "
        "one is more than 30 % off, and there the winner says little."
    )


EXPERIMENT = make_experiment(
    AXES,
    cells,
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
    draw=draw,
)
