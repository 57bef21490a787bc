"""Error against n at d = 3: neither LS nor SM converges."""

from __future__ import annotations

from unshuffle.experiments.drawing import Drawing, mean_sheet
from unshuffle.experiments.paper.figure2 import grid_of, plot_against_n, run_one, seconds
from unshuffle.experiments.rows import Table
from unshuffle.experiments.runner import Experiment


def draw(table: Table) -> Drawing:
    """Draw the errors; the paper has no theory here."""
    figure, ax = plot_against_n(table)
    ax.legend(fontsize=8.5)
    return Drawing(_verdict(table), (mean_sheet(table, "n", "method \\ n"),), figure)


def _verdict(table: Table) -> str:
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


EXPERIMENT = Experiment(
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
    draw=draw,
    seconds=seconds,
)
