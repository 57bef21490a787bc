"""Fit the numbers of the link model on real tables with a share of their links permuted.

    python benchmarks/calibrate_links.py record [--seeds 1] [--rows 420] [--jobs 2]
    python benchmarks/calibrate_links.py fit [--keep-known] [--write]
    python benchmarks/calibrate_links.py probabilities [--rows 1000] [--write]
    python benchmarks/calibrate_links.py check [--seeds 1] [--rows 420]

Both corpora (see `real_tables.py`): 0, 10, 30 and 50 % of the labels permuted among each other, in
one block, and inside natural blocks where a table has them. The truth is least squares on the true
links. Beside them: a Gaussian simulation (n = 1000, d = 20) and the Italian household survey.

`record` keeps, for every table and every rate of the grid, the two estimates with their
covariances, and the likelihood of the rate. `fit` chooses the numbers of
`linkage.calibration` that minimise error and interval score with a penalty on coverage below
95 %. Folds are whole R packages: the numbers of a fold are fitted without its tables, and the
figures printed are out of fold. `--keep-known` leaves the numbers for a known rate as they are,
`--write` writes src/unshuffle/linkage/calibration.json.
`probabilities` fits the recalibration of the probabilities of links to be right, by logistic
regression on their logits (Platt 2000), with the other numbers as they are; all tables count alike.
`check` fits every table through the public interface, as other tables would be: error, coverage and
score, and the calibration of the probabilities of links.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import os
import pickle
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from real_tables import CORPORA, N_FOLDS, judge, load_tables, package_fold, relative_error
from scipy.special import expit, gammaincc, logit, stdtr, stdtrit
from sklearn.linear_model import HuberRegressor

from unshuffle import ShuffledLinearRegression
from unshuffle.data.bags import make_bags
from unshuffle.linkage import regression
from unshuffle.linkage.adjusted_equations import add_clusters, solve_lahiri_larsen
from unshuffle.linkage.calibration import LinkCalibration, load_link_calibration
from unshuffle.linkage.given_pairs import read_pairs
from unshuffle.linkage.mismatch_rate import RATES, RateLikelihood, measure_rates
from unshuffle.linkage.scale_mixture import fit_mixture, measure_influence
from unshuffle.linkage.within_blocks import split_blocks

TARGET = Path(__file__).parents[1] / "src" / "unshuffle" / "linkage" / "calibration.json"
RECORD = Path("/tmp/unshuffle-links.pkl")  # noqa: S108
SHARES = (0.0, 0.1, 0.3, 0.5)
REAL = ("clean", "noisy")
# Where the numbers are looked for.
RATE_GRID = {
    "pairs": (100.0, 130.0, 160.0),
    "pairs_alike": (400.0,),
    "none_wrong": (0.4, 0.5),
    "decay": (2.0, 2.5, 3.0),
    "agreement_estimated": (0.005,),
    "ratio": (0.5,),
}
KNOWN_GRID = {
    "agreement": (0.005, 0.02, 0.05, 0.1, 0.2),
    "agreement_loose": (0.1, 0.2, 0.3),
    "bias": (0.5, 0.75, 1.0),
}
LEVEL, LEAST_COVERAGE = 0.975, 0.95
# Huber's error of [intercept, slope] in the survey, as Wang, Ben-David and Slawski (2023) print it,
# and how much larger this error is than that of the slope.
HUBER_PRINTED, INTERCEPT = {0.2: 0.095, 0.3: 0.331, 0.4: 0.611}, 1.8


def permute(y, groups, share, rng):
    """Return labels of which a share was permuted, inside their groups."""
    mixed, some = y.copy(), rng.permutation(len(y))[: round(share * len(y))]
    for group in np.unique(groups):
        rows = some[groups[some] == group]
        mixed[rows] = y[rng.permutation(rows)]
    return mixed


def list_cases(seeds: int):
    """Yield (corpus, name, share, has_blocks, X, y, groups, truth, linked)."""
    for corpus, seed in itertools.product(CORPORA, range(seeds)):
        tables = load_tables(corpus)
        for place, (name, table) in enumerate(tables.items()):
            for has_blocks, share in itertools.product((False, True), SHARES):
                if has_blocks and table.natural is None:
                    continue
                groups = np.zeros(len(table.y), dtype=int)
                if has_blocks:
                    groups = np.unique(table.natural, return_inverse=True)[1]
                rng = np.random.default_rng([seed, place, round(100 * share), has_blocks])
                y = permute(table.y, groups, share, rng)
                yield corpus, name, share, has_blocks, table.X, y, groups, table.truth, table.y


def simulate(share: float, trial: int):
    """Return a Gaussian simulation in standard units."""
    rng = np.random.default_rng([trial, round(100 * share)])
    X, w = rng.standard_normal((1000, 20)), rng.standard_normal(20)
    y = X @ (w / np.linalg.norm(w)) + 0.25 * rng.standard_normal(1000)
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    first = np.arange(round(share * 1000))
    mixed = y.copy()
    mixed[first] = y[rng.permutation(first)]
    return X, mixed, slopes(X, y), y


def load_survey() -> tuple[np.ndarray, np.ndarray]:
    """Return income before and after, standardised."""
    path = Path(os.environ["UNSHUFFLE_DATA"]) / "links" / "italian_survey.csv.gz"
    with gzip.open(path, "rt") as lines:
        rows = list(csv.DictReader(lines))
    names = ("income_before", "income_after")
    x, y = (np.array([float(row[name]) for row in rows]) for name in names)
    return ((x - x.mean()) / x.std())[:, None], (y - y.mean()) / y.std()


def mix_survey(share: float, trial: int):
    """Return the survey with the labels of its first rows permuted."""
    X, y = load_survey()
    rng = np.random.default_rng([trial, round(100 * share)])
    first = np.arange(round(share * len(y)))
    mixed = y.copy()
    mixed[first] = y[rng.permutation(first)]
    return X, mixed, slopes(X, y), y


def slopes(X, y):
    """Return the slopes of least squares."""
    return np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), y, rcond=None)[0][:-1]


def huber(X, y):
    """Return the slopes of Huber's regression."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return HuberRegressor(alpha=0.0, max_iter=2000).fit(X, y).coef_


def measure(X, y, groups, truth) -> dict:
    """Return everything that the numbers under calibration act on."""
    bags = make_bags(np.column_stack([X, np.ones(len(y))]), y, groups)
    pairs, d = read_pairs(bags, True), X.shape[1]
    parts, kept = split_blocks(pairs), []
    for rate in RATES:
        wrong = np.where(pairs.is_known, 0.0, rate)
        inner = wrong[parts.places]
        adjusted = solve_lahiri_larsen(parts.inner, inner)
        model = fit_mixture(parts.inner, inner, adjusted.w)
        own = adjusted.by_pair * parts.lost
        apart = measure_influence(parts.inner, model) * parts.lost - own
        stack = np.zeros((len(y), 3 * d))
        stack[:, :d] = parts.lift_influence(0.0 * own, parts.complete(adjusted.w))[:, :d]
        stack[parts.places, d:] = np.column_stack([own, apart])
        sums = [add_clusters(pairs, stack[:, k : k + d], parts.is_clustered)
                for k in (0, d, 2 * d)]  # fmt: skip
        gram = np.column_stack(sums).T @ np.column_stack(sums)
        kept.append((solve_lahiri_larsen(pairs, wrong).w[:d], adjusted.w, model.w, gram))
    names = ("ll", "within", "mixture", "gram")
    found = dict(zip(names, (np.array(part) for part in zip(*kept, strict=True)), strict=True))
    others = {"ols": slopes(X, y), "huber": huber(X, y)}
    errors = {name: relative_error(w, truth) for name, w in others.items()}
    rates = {ratio: measure_rates(pairs, ratio) for ratio in RATE_GRID["ratio"]}
    way = dict(lift=parts.lift[:d], base=parts.base[:d])
    return dict(found, rates=rates, n=len(y), truth=truth, **way, **errors)


def measure_case(case: tuple) -> dict:
    """Return the record of one table, simulation or trial of the survey."""
    corpus, name, share, has_blocks, X, y, groups, truth, _ = case
    key = dict(corpus=corpus, name=name, share=share, has_blocks=has_blocks)
    return dict(measure(X, y, groups, truth), **key)


def list_trials():
    """Yield simulations and trials of the survey, like the tables."""
    for kind, make, n in (("simulated", simulate, 6), ("survey", mix_survey, 12)):
        for share, trial in itertools.product((0.2, 0.3, 0.4), range(n)):
            X, y, truth, linked = make(share, trial)
            groups = np.zeros(len(y), dtype=int)
            yield kind, f"{kind}/{trial}", share, False, X, y, groups, truth, linked


def record(seeds: int, most_rows: int, n_jobs: int) -> None:
    """Fit everything at every rate; tables come in random order, so that a part is a sample."""
    tables = [case for case in list_cases(seeds) if len(case[5]) <= most_rows]
    order = np.random.default_rng(0).permutation(len(tables) // len(SHARES))
    places = (order[:, None] * len(SHARES) + np.arange(len(SHARES))).ravel()
    cases = [*list_trials(), *(tables[k] for k in places)]
    start, records = time.perf_counter(), []
    with ProcessPoolExecutor(n_jobs) as pool:
        for found in pool.map(measure_case, cases):
            records.append(found)
            if len(records) % 40 == 0 or len(records) == len(cases):
                RECORD.write_bytes(pickle.dumps(records))
                seconds = time.perf_counter() - start
                print(f"{len(records)} of {len(cases)}, {seconds:.0f} s", flush=True)


def restate(
    record: dict, agreement: float, bias: float, places, *, by_direction: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the combined estimates and their variances at some rates, as `regression.combine`."""
    centres, variances, lift = [], [], record["lift"]
    d = len(lift)
    for k in places:
        w, gram = record["mixture"][k], record["gram"][k]
        gap, share = w - record["within"][k], np.zeros((d, d))
        spread, cross = gram[2 * d :, 2 * d :], gram[d : 2 * d, 2 * d :]
        along = np.outer(w, w) / max(float(w @ w), 1e-300) if by_direction else np.eye(d)
        for part in (along, np.eye(d) - along) if RATES[k] > 0.0 else ():
            gain = -float(np.trace(part @ cross @ part))
            share += weigh(part @ gap, part @ spread @ part, gain, agreement) * part
        step = share @ gap
        centres.append(record["base"] + lift @ (record["within"][k] + step))
        way = np.vstack([np.eye(d), lift.T, share @ lift.T])
        variances.append(np.diagonal(way.T @ gram @ way) + bias * (lift @ step) ** 2)
    return np.array(centres), np.array(variances)


def weigh(gap: np.ndarray, spread: np.ndarray, gain: float, agreement: float) -> float:
    """Return the weight of the mixture in some directions, as `regression._weigh_mixture`."""
    mean, size = float(np.trace(spread)), float((spread**2).sum())
    if mean <= 0.0 or size <= 0.0:
        return 1.0
    dof = mean * mean / size
    p = float(gammaincc(0.5 * dof, 0.5 * dof * float(gap @ gap) / mean))
    return min(1.0, p / agreement) * min(max(gain / mean, 0.0), 1.0)


def interval(centres, variances, mass, dof) -> np.ndarray:
    """Return 95 % intervals of a mixture of t distributions, by halving."""
    sds = np.sqrt(np.maximum(variances, 1e-16))
    reach = stdtrit(dof, 0.9999) * sds
    ends = []
    for level in (1.0 - LEVEL, LEVEL):
        low, high = (centres - reach).min(axis=0), (centres + reach).max(axis=0)
        for _ in range(40):
            middle = 0.5 * (low + high)
            above = (mass[:, None] * stdtr(dof, (middle - centres) / sds)).sum(axis=0) > level
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        ends.append(0.5 * (low + high))
    return np.stack(ends, axis=1)


def judge_known(
    record: dict, agreement: float, agreement_loose: float, bias: float
) -> tuple[float, float, float]:
    """Return error, coverage and score where the rate is known."""
    place = int(np.argmin(np.abs(RATES - record["share"])))
    (rates,) = record["rates"].values()
    gain = rates.loose[place] - rates.values[place]
    agreement += (agreement_loose - agreement) * expit(gain - 0.5 * np.log(rates.n))
    centres, variances = restate(record, agreement, bias, [place], by_direction=False)
    dof = max(record["n"] - len(record["truth"]) - 1, 1)
    ends = interval(centres, variances, np.ones(1), dof)
    return relative_error(centres[0], record["truth"]), *judge(ends, record["truth"])


def judge_estimated(record: dict, numbers: LinkCalibration) -> tuple[float, float, float]:
    """Return error, coverage and score where the rate is estimated."""
    rates: RateLikelihood = record["rates"][numbers.ratio]
    mass, sharp = rates.posterior(numbers), regression.find_point_posterior(rates, numbers)
    kept = np.flatnonzero(np.maximum(mass, sharp) > 1e-3)
    mass, sharp = (each[kept] / each[kept].sum() for each in (mass, sharp))
    agreement = numbers.agree(rates.loose_weight, is_known=False)
    centres, variances = restate(record, agreement, numbers.bias, kept, by_direction=True)
    dof = max(record["n"] - len(record["truth"]) - 1, 1)
    w = regression.find_centre(centres, sharp, len(record["truth"]))
    ends = interval(centres, variances, mass, dof)
    return relative_error(w, record["truth"]), *judge(ends, record["truth"])


def combinations(grid: dict) -> list[dict]:
    """Return every choice from a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def pick(records, corpus: str, share: float) -> list[int]:
    """Return the places of the records of a corpus ("real": of both) and share."""
    corpora = REAL if corpus == "real" else (corpus,)
    return [k for k, r in enumerate(records) if r["share"] == share and r["corpus"] in corpora]


def mean_error(records, places: list[int], name: str) -> float:
    """Return the mean error of "ll" or "mixture" at the rate that is true."""
    errors = []
    for k in places:
        one = records[k]
        at = int(np.argmin(np.abs(RATES - one["share"])))
        w = one[name][at] if name == "ll" else one["base"] + one["lift"] @ one[name][at]
        errors.append(relative_error(w, one["truth"]))
    return float(np.mean(errors))


def assess(records, found: np.ndarray, is_known: bool) -> float:
    """Return the loss of some records: relative errors, scores, missing coverage.

    The simulation must come near the mixture at the true rate, within 10 %, or 5 % where the rate
    is estimated. The survey must come within 5 % of Lahiri and Larsen where the rate is known, and
    below Huber where it is estimated.
    """
    total = 0.0
    for corpus, share in itertools.product(("real", "simulated", "survey"), (*SHARES, 0.2, 0.4)):
        own = pick(records, corpus, share)
        if not own:
            continue
        error, coverage, score = found[own].mean(axis=0)
        missing = max(LEAST_COVERAGE - coverage, 0.0)
        if corpus == "real":
            ols, other = (np.mean([records[k][name] for k in own]) for name in ("ols", "huber"))
            scale = 0.5 * other if share == 0.0 else min(ols, other)
            total += error / scale + 0.5 * score + 50.0 * missing
        elif corpus == "simulated":
            slack = 1.1 if is_known else 1.05
            total += 4.0 * max(error / mean_error(records, own, "mixture") - slack, 0.0)
        elif corpus == "survey" and is_known:
            total += 4.0 * max(error / mean_error(records, own, "ll") - 1.05, 0.0)
        elif corpus == "survey":
            total += 10.0 * missing + 4.0 * max(INTERCEPT * error / HUBER_PRINTED[share] - 1.0, 0.0)
    return total


def fit(keep_known: bool, write: bool) -> None:
    """Choose the numbers, out of fold and for good."""
    before = json.loads(TARGET.read_text())
    records = pickle.loads(RECORD.read_bytes())  # noqa: S301
    folds = np.array([package_fold(r["name"]) if r["corpus"] in REAL else -1 for r in records])
    known = [r for r in records if r["share"] > 0.0]
    known_folds = folds[[r["share"] > 0.0 for r in records]]
    choices = combinations(KNOWN_GRID)
    if keep_known:
        choices = [{name: before[name] for name in KNOWN_GRID}]
    table = np.array([[judge_known(r, **c) for r in known] for c in choices])
    best, out, known_by_fold = choose(known, known_folds, choices, table, True)
    print("rate known, out of fold")
    report(known, out)
    rate_choices = combinations(RATE_GRID)
    table = np.array(
        [
            [judge_estimated(r, replace(load_link_calibration(), **c, **best)) for r in records]
            for c in rate_choices
        ]
    )
    rates, estimated, by_fold = choose(records, folds, rate_choices, table, False)
    print("rate estimated, out of fold")
    report(records, estimated)
    numbers = {**rates, **best}
    print(numbers)
    if write:
        figures = {"known": summarise(known, out), "estimated": summarise(records, estimated)}
        if keep_known:
            figures["known"] = before["out_of_fold"]["known"]
        kept = [
            {**old, **a, **b}
            for old, a, b in zip(before["folds"], by_fold, known_by_fold, strict=True)
        ]
        text = json.dumps({**before, **numbers, "folds": kept, "out_of_fold": figures}, indent=1)
        TARGET.write_text(text + "\n")


def choose(records, folds, choices, table, is_known) -> tuple[dict, np.ndarray, list[dict]]:
    """Return the best choice on all records, figures of choices without each fold, and these."""
    out, by_fold = np.empty((len(records), 3)), []
    for fold in range(N_FOLDS):
        train = np.flatnonzero(folds != fold)
        losses = [assess([records[k] for k in train], each[train], is_known) for each in table]
        place = int(np.argmin(losses))
        print("fold", fold, choices[place], f"{losses[place]:.3f}", flush=True)
        out[folds == fold] = table[place][folds == fold]
        by_fold.append(choices[place])
    losses = [assess(records, each, is_known) for each in table]
    place = int(np.argmin(losses))
    out[folds == -1] = table[place][folds == -1]
    return choices[place], out, by_fold


def summarise(records, found) -> list[dict]:
    """Return error, coverage and score by corpus and share, beside OLS, Huber and Lahiri-Larsen."""
    lines = []
    for corpus in ("clean", "noisy", "real", "simulated", "survey"):
        for share in sorted({r["share"] for r in records}):
            own = pick(records, corpus, share)
            if not own:
                continue
            values = dict(zip(("error", "coverage", "score"), found[own].mean(axis=0), strict=True))
            values |= {c: np.mean([records[k][c] for k in own]) for c in ("ols", "huber")}
            values["ll"] = mean_error(records, own, "ll")
            shown = {name: round(float(value), 3) for name, value in values.items()}
            lines.append(dict(corpus=corpus, share=share, tables=len(own), **shown))
    return lines


def report(records, found) -> None:
    """Print the figures."""
    for line in summarise(records, found):
        print("  ".join(f"{key} {value}" for key, value in line.items()), flush=True)


def list_links(seeds: int, most_rows: int) -> list[tuple]:
    """Return (is_known, fold, share, probabilities, which are right) of every fit.

    Fits have the numbers of their fold, and probabilities are not recalibrated.
    """
    folds, found = json.loads(TARGET.read_text())["folds"], []
    for _, name, share, has_blocks, X, y, groups, _, linked in list_cases(seeds):
        fold = package_fold(name)
        plain = dict(shift_known=0.0, slope_known=1.0, shift_estimated=0.0, slope_estimated=1.0)
        numbers = LinkCalibration(**{**folds[fold], **plain})
        regression.load_link_calibration = lambda numbers=numbers: numbers
        for is_known in (True, False) if len(y) <= most_rows else ():
            if is_known and share == 0.0:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = ShuffledLinearRegression(
                    mislinked=share if is_known else "estimate", random_state=0
                ).fit(X, y, groups if has_blocks else None)
            found.append((is_known, fold, share, model.link_probability_, y == linked))
    return found


def fit_platt(links: list[tuple]) -> np.ndarray:
    """Return shift and slope of the logits of least log loss."""
    x = np.concatenate([logit(np.clip(p, 1e-6, 1.0 - 1e-6)) for *_, p, _ in links])
    z = np.concatenate([is_right for *_, is_right in links])
    mass = np.concatenate([np.full(len(p), 1.0 / len(p)) for *_, p, _ in links]) / len(links)
    rows, w = np.column_stack([np.ones(len(x)), x]), np.array([0.0, 1.0])
    for _ in range(20):
        p = expit(rows @ w)
        curvature = (rows * (mass * p * (1.0 - p))[:, None]).T @ rows
        w = w + np.linalg.solve(curvature, rows.T @ (mass * (z - p)))
    return w


def judge_links(links: list[tuple]) -> float:
    """Return the calibration error over deciles; all tables count alike."""
    p, z = (np.concatenate([each[k] for each in links]) for k in (3, 4))
    mass = np.concatenate([np.full(len(each[3]), 1.0 / len(each[3])) for each in links])
    gap, decile = mass * (p - z) / len(links), np.minimum((10 * p).astype(int), 9)
    return float(sum(abs(gap[decile == k].sum()) for k in range(10)))


def fit_probabilities(seeds: int, most_rows: int, write: bool) -> None:
    """Fit the recalibration out of fold and for good, and print the errors of both."""
    links, text = list_links(seeds, most_rows), json.loads(TARGET.read_text())
    for is_known, name in ((True, "known"), (False, "estimated")):
        own = [each for each in links if each[0] == is_known]
        numbers = [fit_platt([each for each in own if each[1] != k]) for k in range(N_FOLDS)]
        new = []
        for known, fold, share, p, is_right in own:
            shift, slope = numbers[fold]
            new.append((known, fold, share, expit(shift + slope * logit(p)), is_right))
        for share in SHARES[is_known:]:
            errors = [judge_links([e for e in some if e[2] == share]) for some in (own, new)]
            print(f"{name} {share:.0%}: error {errors[0]:.3f}, recalibrated {errors[1]:.3f}")
        for kept, (shift, slope) in zip(
            (text, *text["folds"]), (fit_platt(own), *numbers), strict=True
        ):
            kept[f"shift_{name}"], kept[f"slope_{name}"] = round(shift, 3), round(slope, 3)
        print(name, {key: value for key, value in text.items() if key.endswith(name)})
    if write:
        TARGET.write_text(json.dumps(text, indent=1) + "\n")


def check(seeds: int, most_rows: int) -> None:
    """Fit every table through the public interface."""
    start, rows, links = time.perf_counter(), [], []
    for _, _, share, has_blocks, X, y, groups, truth, linked in list_cases(seeds):
        if len(y) > most_rows:
            continue
        for how, mislinked in (("estimated", "estimate"), ("known", share)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = ShuffledLinearRegression(mislinked=mislinked, random_state=0)
                model.fit(X, y, groups if has_blocks else None)
            figures = (relative_error(model.coef_, truth), *judge(model.conf_int(), truth))
            rows.append(dict(share=share, how=how, path=model.method_, figures=figures))
            if how == "estimated":
                links.append((model.link_probability_, y == linked))
    for how, share in itertools.product(("estimated", "known"), SHARES):
        own = [r["figures"] for r in rows if r["share"] == share and r["how"] == how]
        error, coverage, score = np.mean(own, axis=0)
        print(f"{how} {share:.0%}: error {error:.3f} coverage {coverage:.3f} score {score:.2f}")
    print("links by deciles of their probability; all tables count alike")
    gaps, masses = [], []
    for decile in range(10):
        sums = np.zeros(3)
        for p, is_right in links:
            own = np.minimum((10 * p).astype(int), 9) == decile
            sums += np.array([own.sum(), p[own].sum(), is_right[own].sum()]) / (len(p) * len(links))
        mass, said, right = sums[0], sums[1] / sums[0], sums[2] / sums[0]
        gaps.append(abs(said - right))
        masses.append(mass)
        print(f"{decile / 10:.1f}: {mass:.3f} of all, mean {said:.3f}, right {right:.3f}")
    error = np.average(gaps, weights=masses)
    print(f"calibration error {error:.3f}; {time.perf_counter() - start:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("task", choices=("record", "fit", "probabilities", "check"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=10_000, help="tables of more are left out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep-known", action="store_true")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.task == "record":
        record(asked.seeds, asked.rows, asked.jobs)
    elif asked.task == "fit":
        fit(asked.keep_known, asked.write)
    elif asked.task == "probabilities":
        fit_probabilities(asked.seeds, asked.rows, asked.write)
    else:
        check(asked.seeds, asked.rows)


if __name__ == "__main__":
    main()
