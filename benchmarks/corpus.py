"""Error, coverage and verdicts of the default fit, and of every feature, on real tables.

    python benchmarks/corpus.py run [--parts bags,links] [--jobs 2] [--seed 0] [--fresh]
    python benchmarks/corpus.py table

The tables are those of both corpora (`real_tables.py`). `run` adds one line per fit to
results/corpus.csv and skips what is there; `table` sums up and writes results/corpus.md. The
calibrated numbers of a fit are those of its fold, fitted without the tables of its R package.
The public API alone is used, so that another version can be measured beside this one:
PYTHONPATH=/other/src python benchmarks/corpus.py run --label other. The label "ls" stands for least
squares in this version.

Parts:
  bags      random bags (1, 4, 10) and natural bags: error, coverage, interval score, verdicts
  features  six bags, clean tables: anchors (15 % of pairs), separate samples (every second row;
            the labels of the others), histograms (15 cells), half of the labels missing
  means     20 and 40 random bags and natural bags of which only the mean label is known; the label
            "wls" stands for weighted least squares on the means (method "means")
  pairs     four and ten bags: predictive intervals (fitted on 70 % of the rows, labels of the
            others) and the probabilities of matches, by deciles
  links     a share of the links permuted, in one block and in natural blocks, with the rate known
            and estimated; at 30 % the probabilities of links to be right, by deciles
  pooled    least squares pooled over 20 sampled pairings: ten bags, and 30 % wrong links with the
            rate estimated
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from real_tables import (
    BAGS,
    CORPORA,
    bootstrap_error,
    judge,
    load_tables,
    package_fold,
    relative_error,
    split,
)
from rows import head_commit, run_jobs, write_rows

import unshuffle
from unshuffle import Bag, Histogram, ShuffledLinearRegression, pool

RESULTS = Path(__file__).parent / "results"
FIELDS = (
    "label", "seed", "corpus", "table", "part", "case", "n", "d", "error", "covered", "score",
    "verdict", "signs", "wrong_signs", "misfits", "low_probability", "low_right", "power", "draws",
    "seconds", "commit",
)  # fmt: skip
MEANS = ("20", "40", "natural")
FEATURES = ("anchors", "separate samples", "histograms", "half missing")
LINKS = tuple(
    f"{share} % / {blocks} blocks / rate {rate}"
    for rate in ("estimated", "known")
    for share in (0, 10, 30, 50)
    for blocks in ("no", "natural")
    if (rate, share) != ("known", 0)
)
RELIABLE = "30 %"
POOLED, N_PAIRINGS = ("10 bags", "30 % wrong links"), 20
N_FEATURE_BAGS, N_CELLS, ANCHORED = 6, 15, 0.15
TRAINED = 0.7
WRONG, RIGHT = 0.3, 0.1


def use_fold(table: str) -> None:
    """Let the likelihood take the numbers that were fitted without a table's R package."""
    try:
        from unshuffle.inference import answer, calibration, likelihood
        from unshuffle.linkage import calibration as links, linked_pairings, regression
    except ImportError:  # versions before 0.2 have no calibrated numbers
        return
    folds = json.loads(Path(calibration.__file__).with_name("calibration.json").read_text())
    numbers = calibration.Calibration(**folds["folds"][package_fold(table)])
    # The module that reads the numbers is another in older versions.
    replace_reader((answer, likelihood), "load_calibration", numbers)
    folds = json.loads(Path(links.__file__).with_name("calibration.json").read_text())
    others = links.LinkCalibration(**folds["folds"][package_fold(table)])
    replace_reader((regression, linked_pairings), "load_link_calibration", others)


def replace_reader(modules: tuple, name: str, numbers) -> None:
    """Let a function of this name return other numbers; one of the modules must have it."""
    found = [module for module in modules if hasattr(module, name)]
    if not found:
        raise SystemExit(f"no module reads {name}: the figures would not be out of fold")
    for module in found:
        setattr(module, name, lambda: numbers)


def describe_fit(found, truth: np.ndarray) -> dict:
    """Return error, coverage, score and verdicts of a fit with intervals."""
    ends = np.asarray(found.conf_int())
    covered, score = judge(ends, truth)
    low, high = ends.T
    has_sign = (low > 0) | (high < 0)
    stats = found.stats
    return dict(
        error=relative_error(found.coef, truth), covered=covered, score=score,
        verdict=getattr(found, "verdict", found.identified), signs=float(has_sign.mean()),
        wrong_signs=float((has_sign & (np.sign(low) != np.sign(truth))).mean()),
        misfits=";".join(found.misfits), power=stats.get("likelihood_power", ""),
        draws=stats.get("effective_draws", ""),
    )  # fmt: skip


def fit_bags(made, label: str, truth: np.ndarray, seed: int) -> dict:
    """Fit shuffled labels by the default, or by least squares, and describe the fit."""
    method = "ls" if label == "ls" else "auto"
    model = ShuffledLinearRegression(method, random_state=seed).fit(made.X, made.y, made.groups)
    if method == "ls":
        return dict(error=relative_error(model.coef_, truth))
    return describe_fit(model.result_, truth)


def fit_means(made, label: str, truth: np.ndarray, seed: int) -> list[dict]:
    """Fit bags by their mean labels; nothing where they are too few for weighted least squares."""
    own = [made.groups == r for r in np.unique(made.groups)]
    bags = [Bag(made.X[rows], mean=made.linked[rows].mean()) for rows in own]
    if len(bags) <= made.X.shape[1] + 1:
        return []
    try:
        squares = unshuffle.fit(bags, method="means")
    except unshuffle.InputError:
        return []
    if label == "wls":
        return [describe_fit(squares, truth)]
    return [describe_fit(unshuffle.fit(bags, rng=seed), truth)]


def fit_feature(made, case: str, seed: int):
    """Fit a table with a feature beside bags."""
    rng = np.random.default_rng([seed, len(made.y)])
    if case == "anchors":
        known = rng.random(len(made.y)) < ANCHORED
        y = made.y.copy()
        for r in np.unique(made.groups):
            rows = np.flatnonzero(made.groups == r)
            y[rows[known[rows]]] = made.linked[rows[known[rows]]]
            y[rows[~known[rows]]] = rng.permutation(made.linked[rows[~known[rows]]])
        model = ShuffledLinearRegression(random_state=seed)
        return model.fit(made.X, y, made.groups, anchors=known).result_
    bags = []
    for r in np.unique(made.groups):
        rows = rng.permutation(np.flatnonzero(made.groups == r))
        half = len(rows) // 2
        if case == "separate samples":
            bags.append(Bag(made.X[rows[:half]], made.linked[rows[half:]]))
        elif case == "half missing":
            bags.append(Bag(made.X[rows], made.linked[rows[:half]]))
        else:
            edges = np.linspace(made.linked.min(), made.linked.max(), N_CELLS + 1)
            bags.append(Bag(made.X[rows], Histogram(edges, np.histogram(made.y[rows], edges)[0])))
    is_same = {"separate samples": False, "half missing": True}.get(case)
    return unshuffle.fit(bags, same_individuals=is_same, rng=seed)


def describe_pairs(made, seed: int) -> list[dict]:
    """Return coverage of new labels, and how often matches of each probability are right."""
    rng = np.random.default_rng([seed, len(made.y)])
    is_used = rng.random(len(made.y)) < TRAINED
    y = made.linked.copy()
    for r in np.unique(made.groups):
        rows = np.flatnonzero(is_used & (made.groups == r))
        y[rows] = rng.permutation(y[rows])
    model = ShuffledLinearRegression(random_state=seed)
    model.fit(made.X[is_used], y[is_used], made.groups[is_used])
    low, high = model.predict_interval(made.X[~is_used], new_label=True).T
    seen = made.linked[~is_used]
    over = np.maximum(low - seen, 0.0) + np.maximum(seen - high, 0.0)
    score = float(np.mean(high - low + 40.0 * over))
    rows = [dict(part="predictive", covered=float(np.mean(over == 0.0)), score=score)]
    found = model.match(made.X[is_used], y[is_used], made.groups[is_used])
    order, probability = np.asarray(found.order), np.asarray(found.probability)
    is_right = y[is_used][order] == made.linked[is_used]
    return rows + by_decile("matches", probability, is_right)


def permute(y: np.ndarray, groups: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return labels of which a share was permuted, inside their groups."""
    rng = np.random.default_rng([seed, len(y), round(100 * share)])
    mixed, some = y.copy(), rng.permutation(len(y))[: round(share * len(y))]
    for group in np.unique(groups):
        rows = some[groups[some] == group]
        mixed[rows] = y[rng.permutation(rows)]
    return mixed


def describe_links(table, case: str, seed: int) -> list[dict]:
    """Return the fit of links of which a share is wrong, and how often links are right."""
    percent, blocks, rate = case.split(" / ")
    share = float(percent.removesuffix(" %")) / 100.0
    groups = np.zeros(len(table.y), dtype=int)
    if blocks == "natural blocks":
        groups = np.unique(table.natural, return_inverse=True)[1]
    y = permute(table.y, groups, share, seed)
    known = "estimate" if rate == "rate estimated" else share
    model = ShuffledLinearRegression(mislinked=known, random_state=seed)
    model.fit(table.X, y, groups)
    rows = [describe_fit(model.result_, table.truth)]
    if percent == RELIABLE:
        rows += by_decile("link probability", model.link_probability_, y == table.y)
    return rows


def describe_pooled(table, made, case: str, seed: int) -> list[dict]:
    """Return coverage by least squares that is pooled over sampled pairings."""
    known, y, groups = None, permute(table.y, np.zeros(len(table.y)), 0.3, seed), None
    if case == POOLED[0]:
        y, groups = made.y, made.groups
    else:
        known = "estimate"
    model = ShuffledLinearRegression(mislinked=known, random_state=seed).fit(table.X, y, groups)
    rows = np.column_stack([table.X, np.ones(len(y))])
    inverse, dof = np.linalg.inv(rows.T @ rows), len(y) - rows.shape[1]
    points, covariances = [], []
    for pairing in model.sample_pairings(N_PAIRINGS, seed):
        w = inverse @ (rows.T @ y[pairing])
        points.append(w[:-1])
        covariances.append(inverse[:-1, :-1] * np.sum((y[pairing] - rows @ w) ** 2) / dof)
    found = pool(points, covariances, dof=dof)
    covered, score = judge(found.interval, table.truth)
    error = relative_error(found.estimate, table.truth)
    return [dict(error=error, covered=covered, score=score)]


def by_decile(part: str, probability: np.ndarray, is_right: np.ndarray) -> list[dict]:
    """Return mean probability and share of right ones in every decile."""
    decile = np.minimum((10 * probability).astype(int), 9)
    return [
        dict(part=part, n=int(own.sum()), low_probability=float(probability[own].mean()),
             low_right=float(is_right[own].mean()))
        for own in (decile == k for k in np.unique(decile))
    ]  # fmt: skip


def run_one(job: tuple) -> list[dict]:
    """Fit one case and return its rows."""
    label, part, corpus, name, case, seed = job
    if label == "head":
        use_fold(name)
    bags = {"features": str(N_FEATURE_BAGS), "links": "1", "pooled": "10"}.get(part, case)
    table = load_tables(corpus)[name]
    made, truth = split(corpus, name, bags, seed), table.truth
    base = dict(label=label, seed=seed, corpus=corpus, table=name, part=part, case=case,
                n=len(made.y), d=len(truth))  # fmt: skip
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if part == "pairs":
            rows = describe_pairs(made, seed)
        elif part == "links":
            rows = describe_links(table, case, seed)
        elif part == "pooled":
            rows = describe_pooled(table, made, case, seed)
        elif part == "means":
            rows = fit_means(made, label, truth, seed)
        elif part == "bags":
            rows = [fit_bags(made, label, truth, seed)]
        else:
            rows = [describe_fit(fit_feature(made, case, seed), truth)]
    seconds = round(time.process_time() - start, 4)
    empty = dict.fromkeys(FIELDS, "")
    return [{**empty, **base, **row, "seconds": seconds} for row in rows]


def plan_jobs(label: str, parts: list[str], seed: int, largest: int) -> list[tuple]:
    """Return the fits to make, small tables first."""
    jobs = []
    for corpus in CORPORA:
        for name, table in load_tables(corpus).items():
            for part in parts:
                cases = {"bags": BAGS, "features": FEATURES, "means": MEANS, "pairs": ("4", "10"),
                         "links": LINKS, "pooled": POOLED}[part]  # fmt: skip
                if part == "features" and corpus != "clean":
                    continue
                for case in cases:
                    bags = {"features": str(N_FEATURE_BAGS), "links": "1", "pooled": "10"}.get(
                        part, case
                    )
                    if part == "links" and "natural" in case:
                        bags = "natural"
                    least = 0 if bags == "natural" else 3 * int(bags)
                    if part == "features":
                        least = 60
                    if len(table.y) < least or len(table.y) > largest:
                        continue
                    if bags == "natural" and table.natural is None:
                        continue
                    jobs.append((len(table.y), (label, part, corpus, name, case, seed)))
    return [job for _, job in sorted(jobs)]


def read_rows(path: Path) -> list[dict]:
    """Read the whole rows; a last line without its end was cut off and does not count."""
    if not path.exists():
        return []
    text = path.read_text()
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))


def run(path: Path, jobs: list[tuple], n_jobs: int, is_fresh: bool) -> None:
    """Compute the rows that are missing, and all of these jobs where `is_fresh`."""
    keys, wanted = ("label", "part", "corpus", "table", "case", "seed"), set(map(_key, jobs))

    def key_of(row: dict) -> tuple:
        part = {"predictive": "pairs", "matches": "pairs", "link probability": "links"}.get(
            row["part"], row["part"]
        )
        return _key(tuple({**row, "part": part}[name] for name in keys))

    rows = [row for row in read_rows(path) if not (is_fresh and key_of(row) in wanted)]
    done, commit = {key_of(row) for row in rows}, head_commit()
    write_rows(path, FIELDS, rows)
    with path.open("a") as file:
        missing = [job for job in jobs if _key(job) not in done]
        for found in run_jobs(run_one, missing, n_jobs, "fits"):
            for row in found:
                row["commit"] = commit if row["label"] in ("head", "ls") else row["label"]
                file.write(",".join(str(row[field]) for field in FIELDS) + "\n")
            file.flush()


def _key(job: tuple) -> tuple:
    return tuple(map(str, job))


def column(rows: list[dict], name: str) -> np.ndarray:
    """Return one column as numbers."""
    return np.array([float(row[name]) for row in rows])


def is_identified(rows: list[dict]) -> np.ndarray:
    """Return which fits are called identified, in this version's words or in those of 0.1.0."""
    return np.array([row["verdict"] in ("identified", "True") for row in rows])


def table_of_fits(rows: list[dict], part: str) -> list[str]:
    """Return one line for every corpus, case and version."""
    lines = [
        "| corpus | bags | version | fits | mean error | RMS error | errors > 1 | coverage "
        "| interval score | identified | of these wrong | of errors < .1 identified | signs given "
        "| of these wrong | CPU s |",
        "|---" * 15 + "|",
    ]
    for corpus in CORPORA:
        for case in {"bags": BAGS, "means": MEANS}.get(part, FEATURES):
            for label in dict.fromkeys(row["label"] for row in rows):
                own = [row for row in rows if (row["part"], row["corpus"], row["case"],
                       row["label"]) == (part, corpus, case, label)]  # fmt: skip
                if own:
                    lines.append(_line(corpus, case, label, own))
    return lines


def _line(corpus: str, case: str, label: str, own: list[dict]) -> str:
    error = column(own, "error")
    shown = [f"{error.mean():.3f} ± {bootstrap_error(error):.3f}",
             f"{np.sqrt((error**2).mean()):.3f}", f"{(error > 1).mean():.2f}"]  # fmt: skip
    seconds = f"{column(own, 'seconds').mean():.2f}"
    if not own[0]["covered"]:
        cells = [corpus, case, label, len(own), *shown, *["–"] * 7, seconds]
        return "| " + " | ".join(map(str, cells)) + " |"
    covered, score = column(own, "covered"), column(own, "score")
    good, sure = error < RIGHT, is_identified(own)
    signs, wrong = column(own, "signs").mean(), column(own, "wrong_signs").mean()
    cells = [
        corpus, case, label, len(own), *shown,
        f"{covered.mean():.3f} ± {bootstrap_error(covered):.3f}",
        f"{score.mean():.2f} ± {bootstrap_error(score):.2f}", sure.sum(),
        (sure & (error > WRONG)).sum(), f"{(sure & good).sum() / max(good.sum(), 1):.2f}",
        f"{signs:.2f}", f"{wrong / max(signs, 1e-9):.3f}", seconds,
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def table_of_pairs(rows: list[dict]) -> list[str]:
    """Return coverage of new labels, and the reliability of match probabilities."""
    lines = ["| corpus | bags | version | predictive coverage | predictive score | match "
             "probability | share right |", "|---" * 7 + "|"]  # fmt: skip
    for corpus in CORPORA:
        for case in ("4", "10"):
            for label in dict.fromkeys(row["label"] for row in rows):
                own = [r for r in rows if (r["corpus"], r["case"], r["label"]) ==
                       (corpus, case, label)]  # fmt: skip
                new = [r for r in own if r["part"] == "predictive"]
                pairs = [r for r in own if r["part"] == "matches"]
                if not new:
                    continue
                n, p, right = (column(pairs, k) for k in ("n", "low_probability", "low_right"))
                place = np.minimum((10 * p).astype(int), 9)
                deciles = [
                    f"{np.average(p[place == k], weights=n[place == k]):.2f} → "
                    f"{np.average(right[place == k], weights=n[place == k]):.2f}"
                    for k in np.unique(place)
                ]
                covered, score = column(new, "covered"), column(new, "score")
                lines.append(
                    f"| {corpus} | {case} | {label} | {covered.mean():.3f} ± "
                    f"{bootstrap_error(covered):.3f} | {score.mean():.2f} | {'; '.join(deciles)} | "
                    f"{np.average(p, weights=n):.3f} → {np.average(right, weights=n):.3f} |"
                )
    return lines


def table_of_links(rows: list[dict]) -> list[str]:
    """Return error and coverage where a share of the links is wrong."""
    lines = ["| case | version | fits | mean error | coverage | interval score | CPU s |",
             "|---" * 7 + "|"]  # fmt: skip
    for case in (*LINKS, *POOLED):
        for label in dict.fromkeys(row["label"] for row in rows):
            own = [r for r in rows if r["part"] in ("links", "pooled")
                   and (r["case"], r["label"]) == (case, label)]  # fmt: skip
            if own:
                error, covered, score = (column(own, k) for k in ("error", "covered", "score"))
                name = f"{case}, least squares pooled" if case in POOLED else case
                lines.append(
                    f"| {name} | {label} | {len(own)} | {error.mean():.3f} ± "
                    f"{bootstrap_error(error):.3f} | {covered.mean():.3f} ± "
                    f"{bootstrap_error(covered):.3f} | {score.mean():.2f} | "
                    f"{column(own, 'seconds').mean():.2f} |"
                )
    return lines


def table_of_reliability(rows: list[dict]) -> list[str]:
    """Return how often links of each probability are right; all tables count alike."""
    lines = ["| 30 % wrong, rate | version | links | mean probability | share right |",
             "|---" * 5 + "|"]  # fmt: skip
    for rate in ("estimated", "known"):
        for label in dict.fromkeys(row["label"] for row in rows):
            own = [r for r in rows if r["part"] == "link probability" and r["label"] == label
                   and r["case"].endswith(f"rate {rate}")]  # fmt: skip
            if not own:
                continue
            n, p, right = (column(own, k) for k in ("n", "low_probability", "low_right"))
            keys = [(r["corpus"], r["table"], r["case"]) for r in own]
            sizes: dict[tuple, float] = {}
            for key, count in zip(keys, n, strict=True):
                sizes[key] = sizes.get(key, 0.0) + count
            mass = n / np.array([sizes[key] for key in keys]) / len(sizes)
            place, gaps = np.minimum((10 * p).astype(int), 9), 0.0
            for k in np.unique(place):
                at = place == k
                said, seen = (np.average(x[at], weights=mass[at]) for x in (p, right))
                gaps += float(mass[at].sum() * abs(said - seen))
                lines.append(
                    f"| {rate} | {label} | {mass[at].sum():.3f} | {said:.3f} | {seen:.3f} |"
                )
            lines.append(f"| {rate}, calibration error | {label} | 1.000 | {gaps:.3f} | – |")
    return lines


def table_of_misfits(rows: list[dict]) -> list[str]:
    """Return the coverage of fits by the kinds of misfit that were found."""
    own = [row for row in rows if row["part"] == "bags" and row["label"] == "head"]
    kinds = sorted({kind for row in own for kind in row["misfits"].split(";") if kind})
    lines = ["| misfit | fits | coverage | interval score |", "|---|---|---|---|"]
    for kind in ["none", *kinds]:
        these = [r for r in own if (kind in r["misfits"].split(";") if kind != "none"
                 else not r["misfits"])]  # fmt: skip
        if these:
            covered = column(these, "covered")
            score = column(these, "score").mean()
            lines.append(
                f"| {kind} | {len(these)} | {covered.mean():.3f} ± {bootstrap_error(covered):.3f} "
                f"| {score:.2f} |"
            )
    return lines


def table(rows: list[dict]) -> str:
    """Return all tables."""
    blocks = []
    if any(row["part"] == "bags" for row in rows):
        blocks += ["## Bags", *table_of_fits(rows, "bags"), "", "## Misfit (version head)",
                   *table_of_misfits(rows), ""]  # fmt: skip
    if any(row["part"] == "features" for row in rows):
        blocks += ["## Features, six bags", *table_of_fits(rows, "features"), ""]
    if any(row["part"] == "means" for row in rows):
        blocks += ["## Bags of which only the mean is known", *table_of_fits(rows, "means"), ""]
    if any(row["part"] in ("links", "pooled") for row in rows):
        blocks += ["## Wrong links", *table_of_links(rows), ""]
        blocks += ["## Probabilities of links to be right", *table_of_reliability(rows), ""]
    if any(row["part"] == "predictive" for row in rows):
        blocks += ["## Predictions and matches", *table_of_pairs(rows), ""]
    return "\n".join(blocks) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--parts", default="bags,features,pairs,links,pooled")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--label", default="head", help="name of the version that is measured")
    parser.add_argument("--rows", type=Path, default=RESULTS / "corpus.csv")
    parser.add_argument("--largest", type=int, default=10**9, help="leave out longer tables")
    parser.add_argument("--fresh", action="store_true", help="compute these fits anew")
    args = parser.parse_args()
    if args.command == "run":
        jobs = plan_jobs(args.label, args.parts.split(","), args.seed, args.largest)
        run(args.rows, jobs, args.jobs, args.fresh)
    text = table(read_rows(args.rows))
    args.rows.with_suffix(".md").write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
