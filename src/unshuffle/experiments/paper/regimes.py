"""Maps of regimes: which of two estimators has the lower error in each cell of two settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from unshuffle.experiments.drawing import STYLES, Drawing, Sheet, mean_sheet, new_figure
from unshuffle.experiments.rows import Row, Settings, Table
from unshuffle.experiments.runner import Experiment, Scope
from unshuffle.experiments.simulations import (
    fit_seconds,
    fit_simulated,
    noise_at_snr,
    simulate,
)

SNR_DB = 15.0
BAG_SIZE = 100
# Differences within two percentage points go to the faster method, as in the paper.
TIE = 0.02
# Pale fills, so that the dots stay readable; hatches tell them apart without colour.
FILLS = {
    "sm": ("#a6cbe6", ""),
    "p1": ("#f6d8a0", "//"),
    "ls": ("#efb79a", ".."),
    "auto": ("#a9dccb", ""),
}
# The largest error, the size and the meaning of every dot.
DOTS = ((0.05, 12, "< 5 %"), (0.30, 60, "5–30 %"), (np.inf, 190, "> 30 %"))


Summary = Callable[[np.ndarray], float]
# What a map says of one cell: a method, and the size of its error.
Winner = Callable[[Table], tuple[str, float]]


@dataclass(frozen=True)
class Map:
    """The two settings that span a map, the names of its axes, and the methods that compete.

    `full` and `quick` are the values across and up, and the number of trials in a cell. A tie goes
    to the first method in `duel`. That is the faster one; the paper timed them, here the order is
    fixed, and no map depends on the load of the machine.
    """

    across: str
    up: str
    across_label: str
    up_label: str
    duel: tuple[str, str]
    full: tuple[tuple[int, ...], tuple[int, ...], int]
    quick: tuple[tuple[int, ...], tuple[int, ...], int]

    @property
    def methods(self) -> tuple[str, ...]:
        """The two methods of the paper, and ours."""
        return (*self.duel, "auto")

    def grid(self, scope: Scope) -> list[Settings]:
        """List the rows: bags of 100 rows each, or one bag."""
        across, up, trials = self.quick if scope.quick else self.full
        has_bags = self.across == "bags"
        return [
            {
                **{"n": BAG_SIZE * u if has_bags else u, "d": d, "bags": u if has_bags else 1},
                **{"method": method, "trial": trial},
            }
            for d in up
            for u in across
            for method in self.methods
            for trial in range(trials)
        ]

    def find_winner(self, cell: Table, summary: Summary) -> tuple[str, float]:
        """Return the better of the two methods in one cell, and its error."""
        first, second = self.duel
        errors = {m: float(summary(cell.values(method=m))) for m in self.duel}
        winner = second if errors[second] < errors[first] - TIE else first
        return winner, errors[winner]

    def winners(self, table: Table, summary: Summary) -> dict[tuple[Any, Any], tuple[str, float]]:
        """Return winner and error of every cell, by (up, across)."""
        return {
            (v, u): self.find_winner(table.where(**{self.across: u, self.up: v}), summary)
            for v in table.unique(self.up)
            for u in table.unique(self.across)
        }

    def sheets(self, table: Table) -> tuple[Sheet, ...]:
        """Lay out the mean error of each method, one sheet each."""
        return tuple(
            mean_sheet(
                table.where(method=method),
                self.up,
                self.across,
                f"Mean relative error of {STYLES[method][0]}",
                f"{self.up} \\ {self.across}",
                digits=2,
            )
            for method in self.methods
        )

    def draw_panels(
        self, table: Table, panels: dict[str, Summary], of_auto: Summary, size: tuple[float, float]
    ) -> tuple[Any, Any]:
        """Draw one map of the duel for each summary of the errors, then the error of auto."""
        names = " or ".join(STYLES[method][0] for method in self.duel)
        winners: dict[str, Winner] = {
            f"{names}: {name}": partial(self.find_winner, summary=summary)
            for name, summary in panels.items()
        }
        last = list(panels)[-1]
        winners[f"auto: {last}"] = lambda cell: ("auto", of_auto(cell.values(method="auto")))
        figure, axes = new_figure(len(winners) // 2, 2, size)
        for ax, (title, winner) in zip(axes.flat, winners.items(), strict=True):
            self._plot_cells(ax, table, winner)
            ax.set_title(title, fontsize=10)
        _add_key(figure, self.methods)
        return figure, axes

    def _plot_cells(self, ax: Any, table: Table, winner: Winner) -> None:
        """Draw a map of cells: the fill says which method, the dot how large its error is."""
        across, up = table.unique(self.across), table.unique(self.up)
        for i, u in enumerate(across):
            for j, v in enumerate(up):
                method, error = winner(table.where(**{self.across: u, self.up: v}))
                colour, hatch = FILLS[method]
                ax.bar(
                    i, 1, 1, j - 0.5, color=colour, hatch=hatch, edgecolor="white", linewidth=1.5
                )
                size = next((size for limit, size, _ in DOTS if error <= limit), 0)
                ax.scatter(i, j, s=size, color="#111111", zorder=3)
        ax.set_xticks(range(len(across)), [f"{u:g}" for u in across])
        ax.set_yticks(range(len(up)), [f"{v:g}" for v in up])
        ax.set(xlim=(-0.5, len(across) - 0.5), ylim=(-0.5, len(up) - 0.5))
        ax.grid(visible=False)
        ax.set_xlabel(self.across_label)
        ax.set_ylabel(self.up_label)


def _add_key(figure: Any, methods: Sequence[str]) -> None:
    """Explain fills and dots below all panels."""
    # Imported here: drawing needs the extra, computing does not.
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    fills = [
        Patch(facecolor=FILLS[m][0], hatch=FILLS[m][1], edgecolor="white", label=STYLES[m][0])
        for m in methods
    ]
    dots = [
        Line2D([], [], color="#111111", marker="o", linestyle="", markersize=s**0.5, label=label)
        for _, s, label in DOTS
    ]
    figure.legend(handles=[*fills, *dots], loc="outside lower center", ncols=6, fontsize=8.5)


def run_cell(settings: Settings, rng: np.random.Generator) -> Row:
    """Draw x ~ N(1, 1) and w₀ ~ N(0, 1), add noise at 15 dB, fit."""
    n, d = settings["n"], settings["d"]
    weights = rng.standard_normal((d,))
    X = rng.normal(1.0, 1.0, (n, d))
    noise = noise_at_snr(X @ weights, SNR_DB)
    data = simulate(X, weights, noise, settings["bags"], rng)
    return fit_simulated(data, settings["method"], rng)


def make_experiment(axes: Map, draw: Callable[[Table], Drawing], **described: Any) -> Experiment:
    """Return a map as an experiment."""
    return Experiment(
        keys=("n", "d", "bags", "method", "trial"),
        grid=axes.grid,
        run_one=run_cell,
        draw=draw,
        seconds=lambda s: fit_seconds(s["method"], s["n"], s["d"], s["bags"]),
        **described,
    )


BY_ROWS_MAP = Map(
    "n",
    "d",
    "sample size n",
    "number of weights d",
    ("sm", "p1"),
    full=((20, 50, 100, 200, 500, 1000, 2000), (1, 2, 3, 4, 5, 6), 5),
    quick=((50, 200, 1000), (1, 2, 3, 4, 5), 2),
)


def _draw_rows(table: Table) -> Drawing:
    """Draw the paper's map and, beside it, the error of auto."""
    figure, _ = BY_ROWS_MAP.draw_panels(table, {"mean": np.mean}, np.mean, (9.0, 4.4))
    return Drawing(_verdict_rows(table), BY_ROWS_MAP.sheets(table), figure)


def _verdict_rows(table: Table) -> str:
    winners = BY_ROWS_MAP.winners(table, np.mean)
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


BY_ROWS = make_experiment(
    BY_ROWS_MAP,
    _draw_rows,
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
)


BY_BAGS_MAP = Map(
    "bags", "d", "number of bags R (100 rows each)", "number of weights d", ("sm", "p1"),
    # The paper's 480 simulations are 48 cells of 10.
    full=((1, 2, 4, 8, 16, 24), (1, 2, 3, 4, 5, 6, 7, 8), 10),
    quick=((1, 4, 16), (2, 4, 6, 8), 2),
)  # fmt: skip


def _draw_bags(table: Table) -> Drawing:
    """Draw the paper's map and, beside it, the error of auto."""
    figure, axes = BY_BAGS_MAP.draw_panels(table, {"mean": np.mean}, np.mean, (9.0, 4.8))
    for ax in axes[0]:
        below = [sum(3 * d <= r for d in table.unique("d")) - 0.5 for r in table.unique("bags")]
        edges = np.arange(len(below) + 1) - 0.5
        ax.stairs(below, edges, baseline=None, color="#111111", linestyle="--", linewidth=1.5)
    return Drawing(_verdict_bags(table), BY_BAGS_MAP.sheets(table), figure)


def _verdict_bags(table: Table) -> str:
    winners = BY_BAGS_MAP.winners(table, np.mean)
    beyond = [winner for (d, r), (winner, _) in winners.items() if r >= 3 * d]
    below = [winner for (d, r), (winner, _) in winners.items() if d > 2 and r < 3 * d]
    n_sm, n_p1 = beyond.count("sm"), below.count("p1")
    agrees = 2 * n_sm > len(beyond) and 2 * n_p1 > len(below)
    return (
        f"{'Agrees' if agrees else 'Agrees in part'}: with R ≥ 3d SM wins {n_sm} of "
        f"{len(beyond)} cells, and with fewer bags and d > 2 P1 wins {n_p1} of {len(below)}; in "
        "print SM takes over at R ≥ 3d."
    )


BY_BAGS = make_experiment(
    BY_BAGS_MAP,
    _draw_bags,
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
)


BY_SPREAD_MAP = Map(
    "n",
    "d",
    "sample size n",
    "number of weights d",
    ("ls", "p1"),
    full=((20, 50, 100, 200, 500, 1000), (1, 2, 3, 4, 5, 6), 10),
    quick=((50, 200, 1000), (1, 2, 3, 4), 3),
)
SUMMARIES: dict[str, Summary] = {
    "mean": lambda errors: float(np.mean(errors)),
    "mean + sd": lambda errors: float(np.mean(errors) + np.std(errors)),
    "worst case": lambda errors: float(np.max(errors)),
}


def _draw_spread(table: Table) -> Drawing:
    """Draw the paper's three maps, and the worst case of auto."""
    figure, _ = BY_SPREAD_MAP.draw_panels(table, SUMMARIES, np.max, (9.0, 7.2))
    return Drawing(_verdict_spread(table), BY_SPREAD_MAP.sheets(table), figure)


def _verdict_spread(table: Table) -> str:
    n_p1 = {
        name: sum(winner == "p1" for winner, _ in BY_SPREAD_MAP.winners(table, summary).values())
        for name, summary in SUMMARIES.items()
    }
    n_cells = len(BY_SPREAD_MAP.winners(table, np.mean))
    # In print: no trend on average, and P1 in most cells by the worst case.
    safer, trend = n_p1["worst case"] > n_cells / 2, n_p1["mean"] > 0.7 * n_cells
    gaps = np.abs(table.values(method="ls") - table.values(method="p1"))
    return (
        f"{'Agrees' if safer and not trend else 'Agrees in part'}: P1 is clearly better than LS in "
        f"{n_p1['mean']} of {n_cells} cells by the mean, {n_p1['mean + sd']} by the mean plus one "
        f"sd and {n_p1['worst case']} by the worst case (most, in print); in "
        f"{np.mean(gaps <= TIE):.0%} of the trials the two err alike to within {TIE:g}."
    )


BY_SPREAD = make_experiment(
    BY_SPREAD_MAP,
    _draw_spread,
    name="regimes-ls-p1",
    title="LS against P1: mean, spread and worst case",
    place="Figure 9 (appendix C)",
    caption=(
        "LS and P1 compared at every sample size and number of weights by the mean error, by the "
        "mean plus one standard deviation and by the worst of the trials. The first two show no "
        "trend; in the worst case P1 tends to be the safer one."
    ),
    choices=(
        "As printed: 10 trials (quick: 3), SNR 15 dB, w₀ ~ N(0, 1). The paper does not say x or "
        "the grid: x ~ N(1, 1), one bag, no intercept; differences within 2 percentage points "
        "go to LS."
    ),
)
