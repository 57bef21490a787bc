"""SM and noise-adjusted SM against the noise-to-signal ratio, d = 2."""

from __future__ import annotations

import numpy as np

from unshuffle.experiments.drawing import (
    Drawing,
    label_axes,
    mean_sheet,
    new_figure,
    plot_mean_error,
)
from unshuffle.experiments.paper.figure3 import noise_at_nsr
from unshuffle.experiments.rows import Row, Settings, Table
from unshuffle.experiments.runner import Experiment, Scope
from unshuffle.experiments.simulations import fit_seconds, fit_simulated, simulate

LEVELS = (-30, -25, -20, -15, -10, -5, 0, 5, 10)
N, WEIGHTS = 1000, (1.0, -1.0)
COLUMNS = {"alike": "both columns N(1, 1)", "unlike": "columns N(1, 1) and Exp(1)"}


def grid(scope: Scope) -> list[Settings]:
    """List the rows."""
    levels, trials = (LEVELS[::2], 3) if scope.quick else (LEVELS, 20)
    return [
        {"columns": columns, "nsr": nsr, "method": method, "trial": trial}
        for columns in COLUMNS
        for nsr in levels
        for method in ("sm", "na-sm", "auto")
        for trial in range(trials)
    ]


def run_one(settings: Settings, rng: np.random.Generator) -> Row:
    """Fit one sample; NA-SM is SM that knows σ."""
    X = rng.normal(1.0, 1.0, (N, 2))
    if settings["columns"] == "unlike":
        X[:, 1] = rng.exponential(1.0, N)
    noise = noise_at_nsr(settings["nsr"], WEIGHTS)
    data = simulate(X, WEIGHTS, noise, 1, rng)
    if settings["method"] == "na-sm":
        return fit_simulated(data, "sm", rng, noise=noise)
    return fit_simulated(data, settings["method"], rng)


def draw(table: Table) -> Drawing:
    """Draw one panel for each kind of columns."""
    figure, axes = new_figure(1, 2, (9.0, 4.2), share_y=True)
    for ax, (columns, title) in zip(axes[0], COLUMNS.items(), strict=True):
        for method in table.unique("method"):
            plot_mean_error(ax, table.where(method=method, columns=columns), "nsr", method)
        ax.axvline(0, color="#999999", linewidth=0.8)
        ax.set_yscale("log")
        label_axes(ax, "noise-to-signal ratio (dB)", title=title)
    axes[0, 1].set_ylabel("")
    axes[0, 1].legend(fontsize=8.5)
    sheets = tuple(
        mean_sheet(
            table.where(columns=columns),
            "method",
            "nsr",
            f"Mean relative error, {title}",
            "method \\ NSR (dB)",
        )
        for columns, title in COLUMNS.items()
    )
    return Drawing(_verdict(table), sheets, figure)


def _verdict(table: Table) -> str:
    levels = table.unique("nsr")
    error = {
        (c, m, nsr): table.mean(columns=c, method=m, nsr=nsr)
        for c in COLUMNS
        for m in ("sm", "na-sm")
        for nsr in levels
    }
    loudest = max(levels)
    agrees = all(error[c, "na-sm", loudest] < error[c, "sm", loudest] for c in COLUMNS)
    shown = " and ".join(
        f"{error[c, 'sm', loudest]:.2f} to {error[c, 'na-sm', loudest]:.2f} ({title})"
        for c, title in COLUMNS.items()
    )
    apart = [
        nsr for nsr in levels if error["unlike", "sm", nsr] > 2 * error["unlike", "na-sm", nsr]
    ]
    if apart:
        place = "before 0 dB, where" if min(apart) < 0 else "as"
        since = f"NA-SM is first twice as good at {min(apart)} dB, {place} print has them part"
    else:
        since = "NA-SM is nowhere twice as good"
    return (
        f"{'Agrees' if agrees else 'Agrees in part'}: at {loudest} dB knowing the noise takes the "
        f"error from {shown}; on the right {since}."
    )


EXPERIMENT = Experiment(
    name="figure4",
    title="Adjusting for known noise",
    place="Figure 7",
    caption=(
        "Noise adds its variance to the second moment of the labels, which SM mistakes for larger "
        "weights. Taking that variance off (NA-SM) makes no difference while the noise is small, "
        "and a large one once it is as strong as the signal (0 dB)."
    ),
    choices=(
        "As printed: d = 2, n = 1000, w₀ = [1, −1], no intercept. The paper does not say what x "
        "is: left both columns N(1, 1), where w₀ and −w₀ give labels of one distribution, so that "
        "every method may take the wrong sign; right the second column exponential with the same "
        "mean and sd, which tells them apart. NSR from −30 to 10 dB, mean of 20 trials (quick: 3); "
        "auto does not know σ."
    ),
    keys=("columns", "nsr", "method", "trial"),
    grid=grid,
    run_one=run_one,
    draw=draw,
    seconds=lambda settings: fit_seconds(settings["method"], N, 2),
)
