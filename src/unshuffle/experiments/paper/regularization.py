"""L2 penalties against the number of weights that are zero."""

from __future__ import annotations

import numpy as np

from unshuffle.experiments.drawing import (
    STYLES,
    Drawing,
    Sheet,
    error_sheet,
    label_axes,
    new_figure,
    plot_mean_error,
)
from unshuffle.experiments.rows import Row, Settings, Table
from unshuffle.experiments.runner import Experiment, Scope
from unshuffle.experiments.simulations import fit_seconds, fit_simulated, simulate

ZEROS = (0, 1, 2, 3, 4, 6, 8)
PENALTIES = (0.0, 0.01, 0.1)
BAGS = (1, 5)
N, NOISE = 1000, 1.0
CURVES = {f"SM, λ₂ = {penalty:g}": ("sm", penalty) for penalty in PENALTIES}
CURVES[STYLES["auto"][0]] = ("auto", 0.0)
LOOKS = dict(zip(PENALTIES, (("#56B4E9", "o"), ("#0072B2", "s"), ("#003a5c", "^")), strict=True))


def grid(scope: Scope) -> list[Settings]:
    """List the rows: SM at every penalty, and auto without one."""
    zeros, trials = ((0, 2, 4, 6), 2) if scope.quick else (ZEROS, 10)
    return [
        {"bags": n_bags, "zeros": n_zeros, "method": method, "l2": penalty, "trial": trial}
        for n_bags in BAGS
        for n_zeros in zeros
        for method, penalty in CURVES.values()
        for trial in range(trials)
    ]


def run_one(settings: Settings, rng: np.random.Generator) -> Row:
    """Fit weights of which all but two are zero."""
    weights = np.r_[1.0, 1.0, np.zeros(settings["zeros"])]
    X = rng.normal(1.0, 1.0, (N, len(weights)))
    data = simulate(X, weights, NOISE, settings["bags"], rng)
    return fit_simulated(data, settings["method"], rng, l2=settings["l2"])


def draw(table: Table) -> Drawing:
    """Draw one panel for each number of bags, one line for each penalty, and auto."""
    figure, axes = new_figure(1, 2, (9.0, 4.2), share_y=True)
    for ax, n_bags in zip(axes[0], BAGS, strict=True):
        for name, (method, penalty) in CURVES.items():
            part = table.where(bags=n_bags, method=method, l2=penalty)
            if method == "auto":
                plot_mean_error(ax, part, "zeros", "auto")
                continue
            colour, marker = LOOKS[penalty]
            plot_mean_error(ax, part, "zeros", "sm", color=colour, marker=marker, label=name)
        ax.set_xticks(table.unique("zeros"))
        title = "one bag" if n_bags == 1 else f"{n_bags} bags"
        label_axes(ax, "number of zero weights (d − 2)", title=title)
    axes[0, 1].set_ylabel("")
    axes[0, 0].set_ylim(bottom=0)
    axes[0, 0].legend(fontsize=8.5)
    sheets = tuple(_sheet(table.where(bags=n_bags), n_bags) for n_bags in BAGS)
    return Drawing(_verdict(table), sheets, figure)


def _sheet(table: Table, n_bags: int) -> Sheet:
    return error_sheet(
        f"Mean relative error against the number of zero weights, R = {n_bags}",
        "zero weights",
        list(CURVES),
        table.unique("zeros"),
        lambda name, zeros: table.mean(method=CURVES[name][0], l2=CURVES[name][1], zeros=zeros),
        digits=3,
    )


def _verdict(table: Table) -> str:
    many = max(table.unique("zeros"))
    error = {
        (r, zeros): [table.mean(bags=r, method="sm", l2=p, zeros=zeros) for p in PENALTIES]
        for r in BAGS
        for zeros in (0, many)
    }
    # In print the error grows with the zeros, and the strong penalty helps there, not without.
    claims = {
        "the error without a penalty grows with the zeros": [
            r for r in BAGS if error[r, many][0] > error[r, 0][0]
        ],
        f"λ₂ = 0.1 helps at {many} zeros": [
            r for r in BAGS if error[r, many][2] < error[r, many][0]
        ],
        "λ₂ = 0.1 does harm at none": [r for r in BAGS if error[r, 0][2] > error[r, 0][0]],
    }
    n_true = sum(map(len, claims.values()))
    whole = len(claims) * len(BAGS)
    word = "Agrees" if n_true == whole else "Agrees in part" if n_true else "Does not agree"
    listed = "; ".join(f"{claim}: {_where(agreeing)}" for claim, agreeing in claims.items())
    numbers = "; ".join(
        f"{' / '.join(f'{e:.2f}' for e in errors)} at {zeros} zeros and R = {r}"
        for (r, zeros), errors in error.items()
    )
    return f"{word}: {listed} (λ₂ = 0 / 0.01 / 0.1: {numbers})."


def _where(agreeing: list[int]) -> str:
    if len(agreeing) == len(BAGS):
        return "yes"
    return f"only with R = {agreeing[0]}" if agreeing else "no"


EXPERIMENT = Experiment(
    name="regularization",
    title="Ridge penalties and sparse weights",
    place="Figure 8",
    caption=(
        "Two weights are one and the rest are zero. With more useless features the error of SM "
        "grows; a ridge penalty slows the growth, the stronger one more, at the price of a little "
        "bias where there are no zeros."
    ),
    choices=(
        "As printed: n = 1000, λ₂ = 0, 0.01, 0.1. The paper does not say x, σ, R or the number of "
        "trials: x ~ N(1, 1), σ = 1, one bag and five bags, mean of 10 trials (quick: 2), no "
        "intercept. SM takes its moments in units of the labels' root mean square; bands hold the "
        "middle half of the trials."
    ),
    keys=("bags", "zeros", "method", "l2", "trial"),
    grid=grid,
    run_one=run_one,
    draw=draw,
    seconds=lambda s: fit_seconds(s["method"], N, s["zeros"] + 2, s["bags"]),
    paired=("method", "l2"),
)
