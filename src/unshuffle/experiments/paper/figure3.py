"""Error of SM against the number of bags, at several noise levels, with n fixed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from unshuffle.experiments.drawing import (
    Drawing,
    label_axes,
    mean_sheet,
    new_figure,
    plain_ticks,
    plot_mean_error,
)
from unshuffle.experiments.rows import Row, Settings, Table
from unshuffle.experiments.runner import Experiment, Scope
from unshuffle.experiments.simulations import fit_seconds, fit_simulated, simulate

BAGS = (1, 2, 4, 8, 16, 32, 64, 128)
LEVELS = (-20, -10, 0, 10)
N, WEIGHTS = 1000, (1.0, 1.0, 1.0, 1.0)
# One hue, darker with the noise, and a marker for each level.
LOOKS = {-20: ("#9ecae1", "o"), -10: ("#4a98c9", "s"), 0: ("#08519c", "^"), 10: ("#041f4a", "D")}


def noise_at_nsr(decibels: float, weights: tuple[float, ...]) -> float:
    """Return σ from the paper's noise-to-signal ratio 20 log₁₀(σ/|w₀|).

    >>> noise_at_nsr(20.0, (3.0, 4.0))
    50.0
    """
    return float(np.linalg.norm(weights) * 10 ** (decibels / 20))


def grid(scope: Scope) -> list[Settings]:
    """List the rows."""
    bags, levels, trials = (BAGS[::2], LEVELS[::2], 2) if scope.quick else (BAGS, LEVELS, 10)
    return [
        {"nsr": nsr, "bags": n_bags, "method": method, "trial": trial}
        for nsr in levels
        for n_bags in bags
        for method in ("sm", "auto")
        for trial in range(trials)
    ]


def run_one(settings: Settings, rng: np.random.Generator) -> Row:
    """Split one sample at random into bags and fit."""
    X = rng.normal(1.0, 1.0, (N, len(WEIGHTS)))
    noise = noise_at_nsr(settings["nsr"], WEIGHTS)
    data = simulate(X, WEIGHTS, noise, settings["bags"], rng)
    return fit_simulated(data, settings["method"], rng)


def draw(table: Table) -> Drawing:
    """Draw one panel for SM, as in the paper, and the same for auto."""
    figure, axes = new_figure(1, 2, (9.0, 4.2), share_y=True)
    for ax, method, title in zip(axes[0], ("sm", "auto"), ("SM", "auto (ours)"), strict=True):
        for nsr in table.unique("nsr"):
            colour, marker = LOOKS[nsr]
            part = table.where(method=method, nsr=nsr)
            label = f"NSR {nsr} dB"
            plot_mean_error(ax, part, "bags", method, color=colour, marker=marker, label=label)
        ax.set(xscale="log", yscale="log")
        plain_ticks(ax, table.unique("bags"))
        label_axes(ax, "number of bags R (n = 1000 in all)", title=title)
    axes[0, 1].set_ylabel("")
    axes[0, 0].legend(fontsize=8.5)
    sheets = tuple(
        mean_sheet(
            table.where(method=method),
            "nsr",
            "bags",
            f"Mean relative error of {title} against R",
            "NSR (dB) \\ R",
        )
        for method, title in (("sm", "SM"), ("auto", "auto (ours)"))
    )
    return Drawing(_verdict(table), sheets, figure)


def _verdict(table: Table) -> str:
    bags, levels = table.unique("bags"), table.unique("nsr")
    error = {(nsr, r): table.mean(method="sm", nsr=nsr, bags=r) for nsr in levels for r in bags}
    n_falling = sum(error[nsr, bags[-1]] < error[nsr, bags[0]] for nsr in levels)
    pairs = ", ".join(
        f"{error[nsr, bags[0]]:.2f} → {error[nsr, bags[-1]]:.2f} at {nsr} dB" for nsr in levels
    )
    word = "Agrees" if n_falling == len(levels) else "Agrees in part"
    return (
        f"{word}: from {bags[0]} to {bags[-1]} bags the error of SM goes {pairs}; "
        f"{_steady(error, bags, levels)}."
    )


def _steady(error: dict[tuple[int, int], float], bags: list[int], levels: list[int]) -> str:
    """Say from which number of bags on every further step lowers the error at every level."""
    falls = [all(error[nsr, b] < error[nsr, a] for nsr in levels) for a, b in pairwise(bags)]
    n_last = next((k for k, is_falling in enumerate(reversed(falls)) if not is_falling), len(falls))
    if n_last == 0:
        return "the last step does not lower it at every level"
    # With more bags than weights, bag means alone would fix the weights.
    return f"at every level each step from R = {bags[-1 - n_last]} on lowers it (d is 4)"


EXPERIMENT = Experiment(
    name="figure3",
    title="Error against the number of bags",
    place="Figure 5",
    caption=(
        "The same thousand rows, split at random into more and more bags: since labels are "
        "shuffled only inside a bag, every bag adds equations, low moments suffice, and the error "
        "of SM falls even when the noise is as strong as the signal."
    ),
    choices=(
        "As printed: d = 4, n = 1000, x ~ N(1, 1), w₀ = [1, 1, 1, 1], mean of 10 trials (quick: "
        "2), NSR = 20 log₁₀(σ/|w₀|). Ours: R from 1 to 128, NSR from −20 to 10 dB, K = ⌈d/R⌉ "
        "moments and at least 2; bands hold the middle half of the trials."
    ),
    keys=("nsr", "bags", "method", "trial"),
    grid=grid,
    run_one=run_one,
    draw=draw,
    seconds=lambda settings: fit_seconds(settings["method"], N, len(WEIGHTS), settings["bags"]),
)
