"""Fit the power of the within-bag likelihood and the prior of bag effects on real tables.

    python benchmarks/calibrate.py record [--jobs 2]
    python benchmarks/calibrate.py fit [--write]

`record` fits every table of both corpora (bags of seed 1000) and restates estimate and intervals
over a grid of powers and a few priors of bag effects, from draws that all powers share. `fit`
chooses the coefficients of `inference.calibration` that minimise, over the eight cells (corpus ×
bags), the interval score and the mean and RMS error relative to those of version 0.1.0, with a
penalty on coverage below 95 %. Folds are whole R packages: numbers of a fold are fitted without its
tables, and all figures printed are out of fold. `--write` writes
src/unshuffle/inference/calibration.json.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from real_tables import (
    BAGS,
    CORPORA,
    N_FOLDS,
    bootstrap_error,
    judge,
    load_tables,
    package_fold,
    relative_error,
    split,
)
from rows import run_jobs
from scipy.optimize import minimize
from scipy.special import logsumexp

from unshuffle import ShuffledLinearRegression
from unshuffle.core.solution import Solution
from unshuffle.core.uncertainty import Posterior
from unshuffle.data.products import multiply
from unshuffle.inference.answer import mix_modes
from unshuffle.inference.calibration import describe, full_power, load_calibration, prior_share
from unshuffle.inference.diagnostics import diagnose, measure_difference
from unshuffle.inference.importance import find_centre, reweigh, sample_posterior
from unshuffle.inference.likelihood import Likelihood, search
from unshuffle.inference.proposals import flatten
from unshuffle.model.bag_means import CONTEXTS
from unshuffle.model.special_cases import nothing_to_learn

SEED = 1000
TARGET = Path(__file__).parents[1] / "src" / "unshuffle" / "inference" / "calibration.json"
RECORD = Path(__file__).parent / "results" / "calibration.pkl"
# Numbers of labels c that the within-bag likelihood counts for, and the priors of bag effects:
# probability of random effects and of contextual effects, for random bags and for others.
COUNTS = 8.0 * 1.8 ** np.arange(12)
PRIORS = (
    (0.05, 0.5, 0.05, 0.9), (0.05, 0.9, 0.05, 0.9), (0.05, 0.9, 0.1, 0.95), (0.2, 0.5, 0.2, 0.9),
    (0.3, 0.7, 0.3, 0.95),
)  # fmt: skip
# A sample with this effective size serves another power too.
ENOUGH = 300.0
TERMS = ("base", "bags", "rows", "misfit", "uneven", "noise")
CELLS = [(corpus, bags) for corpus in CORPORA for bags in BAGS]


@dataclass(frozen=True)
class Recorder(Likelihood):
    """A likelihood that keeps estimate and intervals over powers and priors of its last fit."""

    def solve(self, problem, rng, effort):
        """Search once, sample at every power, restate at every prior."""
        LAST.clear()
        found = search(problem, self, rng, effort)
        if isinstance(found, Solution):
            return found
        target, _, modes = found
        signs = diagnose(target, modes)
        n, n_bags = target.n_shuffled, target.n_effective
        full = full_power(target.within_bag.approximate, self.approximate_power)
        counts = [c for c in COUNTS if c < full * n] + [full * n]
        difference = measure_difference(target)
        curves = np.empty((len(PRIORS), len(counts), 3 * target.p))
        sizes = np.zeros(len(counts))
        sample = None
        for k, count in enumerate(counts):
            at = replace(target, power=count / n)
            if sample is not None:
                sample = reweigh(at, sample)
            if sample is None or sample.effective_draws < ENOUGH:
                sample = sample_posterior(at, mix_modes(at, modes), ENOUGH, rng, sample)
            sizes[k] = sample.effective_draws
            curves[:, k] = restate(at, sample, difference, np.random.default_rng(k))
        LAST.update(
            terms=describe(signs, n, n_bags), counts=np.array(counts), curves=curves,
            sizes=sizes, full=full * n, n=n,
        )  # fmt: skip
        return nothing_to_learn(problem.bags, problem.has_intercept, problem.noise)


LAST: dict = {}


def restate(target, sample, difference, rng) -> np.ndarray:
    """Return estimate and ends of 95 % intervals from a sample under every prior, (prior, 3p)."""
    points = target.read_points(sample.x)
    base = reweigh(target, sample).log_weights
    draw = _effects_by_prior(target, sample, points, rng) if target.n_effective > 1 else None
    found = []
    for ol, oh, cl, ch in PRIORS:
        logs, slopes = base, sample.slopes
        if draw is not None:
            change, contexts = draw(
                prior_share(ol, oh, difference), prior_share(cl, ch, difference)
            )
            logs = logs + change
            slopes = slopes + multiply(contexts, target.between_share.T)
        shares = flatten(logs, 100.0)
        keep = shares > 1e-6 * shares.max()
        shares, slopes = shares[keep] / shares[keep].sum(), slopes[keep]
        ends = Posterior(slopes, shares, np.ones(len(shares))).interval(0.95)
        found.append(np.concatenate([find_centre(slopes, shares), ends[:, 0], ends[:, 1]]))
    return np.array(found)


def _effects_by_prior(target, sample, points, rng):
    """Return a function from the prior of effects to log ratios of densities and draws of δ."""
    levels = sample.x[:, -1] if target.has_level else np.zeros(len(sample.x))
    z = target._predict_many(points, levels)
    averages = target._average(z)
    gaps, variances = target.bag_labels - averages, target._variances(z, averages)
    # All sizes are open here, whatever the target's own prior.
    means = target.with_effects(0.5, None, 0.5).means
    sums = means._add_up(gaps, means._precisions(variances, points.log_sigmas)[1])
    logs, axes, values, pulls = means._condition(sums)
    n, n_sizes, n_contexts = logs.shape
    taus = np.where(CONTEXTS > 0.0, CONTEXTS, 1.0)
    scale = values[:, :, None] + (taus**-2)[:, None]  # (n, T, C, p)
    along = pulls[:, :, None] / scale + rng.standard_normal((n, 1, 1, target.p)) / np.sqrt(scale)
    deltas = np.einsum("ntjk,ntck->ntcj", axes, along) * (CONTEXTS > 0.0)[:, None]
    uniforms, own = rng.random((n, 1)), sample.parts[:, 1]

    def draw(offset_share, context_share):
        prior = replace(means, offset_share=offset_share, context_share=context_share)._log_prior
        joint = (logs + prior).reshape(n, -1)
        density = logsumexp(joint, axis=1)
        ends = np.exp(joint - density[:, None]).cumsum(axis=1)
        place = np.minimum((ends < uniforms).sum(axis=1), ends.shape[1] - 1)
        return density - own, deltas.reshape(n, n_sizes * n_contexts, -1)[np.arange(n), place]

    return draw


def record_one(job: tuple[str, str, str]) -> dict | None:
    """Return the curves of one fit."""
    corpus, name, bags = job
    made = split(corpus, name, bags, SEED)
    truth = load_tables(corpus)[name].truth
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ShuffledLinearRegression(Recorder(), random_state=SEED)
        model.fit(made.X, made.y, made.groups)
    if not LAST:
        return None
    d = len(truth)
    shape = LAST["curves"].shape[:2]
    measures = np.empty((*shape, 3))
    for j in range(shape[0]):
        for k in range(shape[1]):
            row = LAST["curves"][j, k]
            ends = np.stack([row[d : 2 * d], row[2 * d :]], axis=1)
            measures[j, k] = relative_error(row[:d], truth), *judge(ends, truth)
    return dict(corpus=corpus, table=name, bags=bags, measures=measures, **{
        key: LAST[key] for key in ("terms", "counts", "sizes", "full", "n")
    })  # fmt: skip


def record(n_jobs: int) -> None:
    """Record every fit of both corpora."""
    jobs = [
        (corpus, name, bags) for corpus in CORPORA for name in load_tables(corpus)
        for bags in BAGS if split(corpus, name, bags, SEED) is not None
    ]  # fmt: skip
    rows = [row for row in run_jobs(record_one, jobs, n_jobs, "fits") if row is not None]
    with RECORD.open("wb") as file:
        pickle.dump(rows, file)


class Curves:
    """The recorded fits as arrays: measures of each over a common grid of log c."""

    def __init__(self, rows: list[dict]) -> None:
        self.rows = rows
        self.grid = np.linspace(np.log(10.0), np.log(COUNTS[-1]), 40)
        self.terms = np.array([[row["terms"][name] for name in TERMS] for row in rows])
        self.folds = np.array([package_fold(row["table"]) for row in rows])
        self.cells = np.array([CELLS.index((row["corpus"], row["bags"])) for row in rows])
        self.measures = np.empty((len(PRIORS), len(rows), len(self.grid), 3))
        for i, row in enumerate(rows):
            logs = np.log(row["counts"])
            for j in range(len(PRIORS)):
                for k in range(3):
                    self.measures[j, i, :, k] = np.interp(self.grid, logs, row["measures"][j, :, k])

    def at(self, j: int, theta: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return error, coverage and score of some fits with coefficients and a prior."""
        logs = np.clip(self.terms[chosen] @ theta, self.grid[0], self.grid[-1])
        place = (logs - self.grid[0]) / (self.grid[1] - self.grid[0])
        left = np.minimum(place.astype(int), len(self.grid) - 2)
        part = (place - left)[:, None]
        own = self.measures[j][chosen]
        rows = np.arange(len(left))
        return (1.0 - part) * own[rows, left] + part * own[rows, left + 1]


def summarise(values: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return mean error, RMS error, coverage and score of every cell, (8, 4)."""
    found = []
    for cell in range(len(CELLS)):
        error, covered, score = values[cells == cell].T
        found.append([error.mean(), np.sqrt((error**2).mean()), covered.mean(), score.mean()])
    return np.array(found)


# Base figures that errors and scores are divided by, so that every cell counts alike: mean error,
# RMS error and interval score of version 0.1.0 on the same tables.
BASE = np.array([
    [0.853, 1.056, 2.23], [0.468, 0.681, 1.39], [0.292, 0.429, 0.84], [0.575, 0.819, 1.96],
    [1.337, 1.532, 1.99], [1.129, 1.367, 1.77], [0.745, 0.928, 1.77], [0.939, 1.186, 2.40],
])  # fmt: skip
# Where targets conflict: coverage, then interval score, then errors.
COVERAGE_WEIGHT, SCORE_WEIGHT, ERROR_WEIGHT, RIDGE = 12.0, 1.0, 0.6, 0.01
# Where the simplex begins, and the centre of the ridge.
PRIOR_CENTRE = np.array([3.3, 0.4, 0.5, -0.8, -0.5, 0.3])


def loss(curves: Curves, j: int, theta: np.ndarray, chosen: np.ndarray) -> float:
    """Return the calibration's objective on some fits."""
    found = summarise(curves.at(j, theta, chosen), curves.cells[chosen])
    short = np.maximum(0.95 - found[:, 2], 0.0)
    errors = (found[:, :2] / BASE[:, :2]).mean(axis=1)
    value = SCORE_WEIGHT * found[:, 3] / BASE[:, 2] + ERROR_WEIGHT * errors
    value += COVERAGE_WEIGHT * short
    return float(value.mean()) + RIDGE * float(((theta - PRIOR_CENTRE) ** 2).sum())


def fit_rule(curves: Curves, chosen: np.ndarray) -> tuple[int, np.ndarray, float]:
    """Return prior and coefficients with the least objective on some fits.

    A short search ranks the priors; the best few are searched on.
    """
    first = [(*_search(curves, j, PRIOR_CENTRE, chosen, 150), j) for j in range(len(PRIORS))]
    found = []
    for _, theta, j in sorted(first, key=lambda each: each[0])[:3]:
        value, theta = _search(curves, j, theta, chosen, 1000)
        found.append((value, j, theta))
    value, j, theta = min(found, key=lambda each: each[0])
    return j, theta, value


def _search(
    curves: Curves, j: int, theta: np.ndarray, chosen: np.ndarray, n: int
) -> tuple[float, np.ndarray]:
    """Return the least objective near some coefficients, by Nelder and Mead's simplex."""
    best = minimize(
        lambda t: loss(curves, j, t, chosen), theta, method="Nelder-Mead",
        options=dict(maxfev=n, initial_simplex=_simplex(theta), xatol=1e-3, fatol=1e-5),
    )  # fmt: skip
    return float(best.fun), best.x


def _simplex(theta: np.ndarray) -> np.ndarray:
    return np.vstack([theta, theta + 0.25 * np.eye(len(theta))])


def fit(is_written: bool) -> None:
    """Fit the numbers without each fold and with all, and print out-of-fold figures."""
    with RECORD.open("rb") as file:
        curves = Curves(pickle.load(file))  # noqa: S301
    everything = np.arange(len(curves.rows))
    out, folds = np.empty((len(everything), 3)), []
    for fold in range(N_FOLDS):
        inside = np.flatnonzero(curves.folds != fold)
        j, theta, _ = fit_rule(curves, inside)
        outside = np.flatnonzero(curves.folds == fold)
        out[outside] = curves.at(j, theta, outside)
        folds.append(_numbers(j, theta))
        print(f"without fold {fold}: prior {PRIORS[j]}", theta.round(2), flush=True)
    j, theta, value = fit_rule(curves, everything)
    print(f"all tables: prior {PRIORS[j]}", theta.round(2), f"objective {value:.4f}")
    inside = summarise(curves.at(j, theta, everything), curves.cells)
    outside = summarise(out, curves.cells)
    lines = ["| corpus | bags | fits | mean error | RMS error | coverage | interval score |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for cell, (corpus, bags) in enumerate(CELLS):
        own = out[curves.cells == cell]
        se = [bootstrap_error(own[:, k]) for k in range(3)]
        mean, rms, covered, score = outside[cell]
        lines.append(
            f"| {corpus} | {bags} | {len(own)} | {mean:.3f} ± {se[0]:.3f} | {rms:.3f} | "
            f"{covered:.3f} ± {se[1]:.3f} | {score:.2f} ± {se[2]:.2f} |"
        )
    print("\n".join(lines))
    print("in sample:\n", inside.round(3))
    if is_written:
        old = json.loads(TARGET.read_text()) if TARGET.exists() else {"numbers": {}}
        numbers = {**old["numbers"], **_numbers(j, theta)}
        text = json.dumps(
            {
                "fitted_by": "python benchmarks/calibrate.py fit --write",
                "numbers": numbers,
                "folds": [{**numbers, **each} for each in folds],
                "out_of_fold": {
                    f"{corpus}, {bags} bags": dict(zip(
                        ("mean_error", "rms_error", "coverage", "score"),
                        [round(float(v), 3) for v in outside[cell]], strict=True,
                    ))
                    for cell, (corpus, bags) in enumerate(CELLS)
                },
            },
            indent=2,
        )  # fmt: skip
        TARGET.write_text(text + "\n")


def _numbers(j: int, theta: np.ndarray) -> dict[str, float]:
    """Return the calibrated numbers by name."""
    names = ("offset_low", "offset_high", "context_low", "context_high")
    numbers = dict(zip(TERMS, (round(float(v), 3) for v in theta), strict=True))
    return {**numbers, **dict(zip(names, PRIORS[j], strict=True))}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=["record", "fit"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    load_calibration()
    if args.command == "record":
        record(args.jobs)
    else:
        fit(args.write)


if __name__ == "__main__":
    sys.exit(main())
