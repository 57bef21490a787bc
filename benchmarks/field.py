"""Published comparisons run here: ours beside the printed values.

    python benchmarks/field.py run [--only survey] [--trials 100] [--jobs 2]
    python benchmarks/field.py page

`run` adds one line per fit to results/field.csv and skips what is there already, so that it can be
stopped and started at will. `page` writes docs/field-comparisons.md from it and from
results/accuracy.csv (Table 2 of the paper).

Data are simulated as the authors' own programs do. Printed values are the means of the trials that
the authors stored beside their programs; their figures show the same numbers.

- Wang, Ben-David and Slawski (AISTATS 2023): github.com/bruce1edward/exp_prior_shuffled_data,
  `simluation/Hamming_LR`, `simluation/Block_LR` and `real/hamming ISD`.
- Tsakiris and Peng (ICML 2019): github.com/liangzu/HomomorphicSensing,
  `Figure1_UnlabeledSensing`, figures 1a and 1d.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from accuracy import BAGS, NAMES, PRINTED
from rows import head_commit, run_jobs, write_rows

from unshuffle import Bag, ShuffledLinearRegression, fit as fit_bags

HERE = Path(__file__).parent
ROWS = HERE / "results" / "field.csv"
TABLE_2 = HERE / "results" / "accuracy.csv"
PAGE = HERE.parent / "docs" / "field-comparisons.md"
FIELDS = (
    "comparison", "cell", "trial", "method", "error", "to_linked", "covered", "seconds", "commit",
)  # fmt: skip
KNOWN, ESTIMATED, SHUFFLED = "unshuffle (rate known)", "unshuffle (rate estimated)", "unshuffle"
# These data obey the model, which a user may declare.
DECLARED = "unshuffle (model_holds=True)"
LINKED = (KNOWN, ESTIMATED, "Lahiri–Larsen", "Chambers", "Huber", "least squares", "true links")
SHARES = (0.2, 0.3, 0.4)
B, SIGMA = 3.0, 1.0
N, N_SLOPES, BLOCK = 1000, 19, 50


class Data(NamedTuple):
    """Rows, labels, true labels, blocks, what errors refer to (intercept first), and their unit."""

    X: np.ndarray
    y: np.ndarray
    linked: np.ndarray
    groups: np.ndarray | None
    truth: np.ndarray
    unit: float


@dataclass(frozen=True)
class Comparison:
    """One published comparison.

    `printed` are its values by method and cell, `better_known` says which of its methods know the
    mismatch rate.
    """

    title: str
    source: str
    protocol: str
    cells: tuple[float, ...]
    cell_name: Callable[[float], str]
    make: Callable[[float, int], Data]
    methods: tuple[str, ...]
    printed: dict[str, tuple[float, ...]]
    n_printed: int


def permute_first(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Return labels of which the first k are permuted among each other."""
    k = int(np.floor(share * len(y)))
    return np.concatenate([y[rng.permutation(k)], y[k:]])


def draw_model(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, labels and coefficients (intercept first) of norm 3; noise sd 1."""
    X = rng.standard_normal((N, N_SLOPES))
    beta = rng.standard_normal(N_SLOPES + 1)
    beta *= B / np.linalg.norm(beta)
    return X, beta[0] + X @ beta[1:] + SIGMA * rng.standard_normal(N), beta


def make_simulation(share: float, trial: int) -> Data:
    """Return n = 1000 rows, d = 20, of which the labels of the first are permuted."""
    rng = np.random.default_rng([2023, trial, round(100 * share)])
    X, y, beta = draw_model(rng)
    return Data(X, permute_first(y, share, rng), y, None, beta, B)


def make_blocks(share: float, trial: int) -> Data:
    """Return 20 blocks of 50 rows, d = 20; in each a share of the labels is permuted."""
    rng = np.random.default_rng([2024, trial, round(100 * share)])
    X, y, beta = draw_model(rng)
    mixed = y.copy()
    for start in range(0, N, BLOCK):
        some = start + np.sort(rng.choice(BLOCK, round(share * BLOCK), replace=False))
        mixed[some] = y[rng.permutation(some)]
    return Data(X, mixed, y, np.arange(N) // BLOCK, beta, B)


def make_survey(share: float, trial: int) -> Data:
    """Return the Italian household survey; the truth is least squares on the true links."""
    path = Path(os.environ["UNSHUFFLE_DATA"]) / "links" / "italian_survey.csv.gz"
    with gzip.open(path, "rt") as lines:
        rows = list(csv.DictReader(lines))
    x, y = (
        np.array([float(row[name]) for row in rows]) for name in ("income_before", "income_after")
    )
    truth = solve_ols(x[:, None], y)
    rng = np.random.default_rng([2025, trial, round(100 * share)])
    mixed = permute_first(y, share, rng)
    return Data(x[:, None], mixed, y, None, truth, float(np.linalg.norm(truth)))


def make_shuffled_rows(noise: float, trial: int) -> Data:
    """Return 100 rows of three columns, all labels shuffled, no intercept."""
    rng = np.random.default_rng([2019, trial, round(1000 * noise)])
    w, X = rng.standard_normal(3), rng.standard_normal((100, 3))
    y = rng.permutation(X @ w) + noise * rng.standard_normal(100)
    return Data(X, y, y, None, w, float(np.linalg.norm(w)))


def make_missing(noise: float, trial: int) -> Data:
    """Return the same, of whose labels 80 are kept."""
    rng = np.random.default_rng([2020, trial, round(1000 * noise)])
    w, X = rng.standard_normal(3), rng.standard_normal((100, 3))
    y = rng.permutation(X @ w)[:80] + noise * rng.standard_normal(80)
    return Data(X, y, y, None, w, float(np.linalg.norm(w)))


def solve_ols(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return least squares, intercept first."""
    return np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]


def solve_huber(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return Huber's M-estimate with the constants of MATLAB's robustfit, intercept first."""
    import statsmodels.api as sm

    rows = np.column_stack([np.ones(len(y)), X])
    return sm.RLM(y, rows, sm.robust.norms.HuberT(1.345)).fit().params


def share_percent(share: float) -> str:
    """Return the name of a cell that is a share of wrong links."""
    return f"{share:.0%} wrong"


def noise_sd(noise: float) -> str:
    """Return the name of a cell that is a noise sd."""
    return f"noise {noise:g}"


WANG = "Wang, Ben-David and Slawski (2023)"
TSAKIRIS = "Tsakiris and Peng (2019)"
COMPARISONS = {
    "survey": Comparison(
        "Italian household survey",
        f"{WANG}, `real/hamming ISD`",
        "Income of 2211 people in two waves; regression of the second on the first. The labels of "
        "the first k rows are permuted among each other. Error of [intercept, slope] relative to "
        "least squares on the true links.",
        SHARES, share_percent, make_survey, LINKED,
        {
            "EM with a Mallows prior (rate known)": (0.056, 0.036, 0.324),
            "Lahiri–Larsen": (0.060, 0.049, 0.043),
            "Chambers": (0.060, 0.049, 0.043),
            "Huber": (0.095, 0.331, 0.611),
            "mixture (rate estimated)": (0.624, 0.618, 0.629),
            "least squares": (0.407, 0.574, 0.724),
        },
        100,
    ),
    "simulation": Comparison(
        "Normal columns, n = 1000, d = 20",
        f"{WANG}, `simluation/Hamming_LR`",
        "Coefficients of norm 3 (d counts the intercept), noise sd 1. The labels of the first k "
        "rows are permuted among each other. Error |ŵ − w|/|w| with the intercept.",
        SHARES, share_percent, make_simulation, LINKED,
        {
            "EM with a Mallows prior (rate known)": (0.067, 0.076, 0.092),
            "mixture (rate estimated)": (0.059, 0.063, 0.077),
            "Huber": (0.101, 0.165, 0.261),
            "least squares": (0.208, 0.307, 0.396),
            "true links": (0.046, 0.047, 0.047),
        },
        20,
    ),
    "blocks": Comparison(
        "Twenty blocks of 50, d = 20",
        f"{WANG}, `simluation/Block_LR`",
        "The same model. In every block a share of the labels is permuted.",
        SHARES, share_percent, make_blocks, LINKED,
        {
            "EM with a Mallows prior (rate known)": (0.060, 0.062, 0.072),
            "Lahiri–Larsen": (0.121, 0.146, 0.194),
            "Chambers": (0.122, 0.148, 0.196),
            "least squares": (0.194, 0.289, 0.390),
            "true links": (0.047, 0.045, 0.046),
        },
        20,
    ),
    "shuffled": Comparison(
        "All labels shuffled, d = 3",
        f"{TSAKIRIS}, figure 1a",
        "100 rows, w and X standard normal, no intercept, noise sd 0.01. Error |ŵ − w|/|w|.",
        (0.01,), noise_sd, make_shuffled_rows, (SHUFFLED,),
        {
            "branch and bound (Algorithm-A)": (0.00153,),
            "Algorithm-B": (0.0105,),
            "Tsakiris18": (0.0041,),
            "Slawski19": (0.999,),
            "Abid18": (1.143,),
        },
        1000,
    ),
    "missing": Comparison(
        "80 labels of 100 rows, d = 3",
        f"{TSAKIRIS}, figure 1d",
        "The same, and 20 of the shuffled labels are missing.",
        (0.01, 0.05, 0.10), noise_sd, make_missing, (SHUFFLED, DECLARED),
        {
            "branch and bound (Algorithm-A)": (0.00335, 0.0757, 0.288),
            "Algorithm-B": (0.0115, 0.0993, 0.316),
            "Haghighatshoar18": (1.135, 1.129, 1.132),
        },
        1000,
    ),
}  # fmt: skip


def solve(method: str, data: Data, share: float) -> tuple[np.ndarray, np.ndarray | None]:
    """Return estimates (intercept first where there is one) and 95 % intervals, None for none."""
    X, y = data.X, data.y
    if method in ("least squares", "true links"):
        return solve_ols(X, data.linked if method == "true links" else y), None
    if method == "Huber":
        return solve_huber(X, y), None
    if method in (SHUFFLED, DECLARED):
        found = fit_bags(
            [Bag(X, y)], fit_intercept=False, same_individuals=True, rng=0,
            model_holds=method == DECLARED,
        )  # fmt: skip
        return found.coef, np.asarray(found.conf_int())
    name = {"Lahiri–Larsen": "ll", "Chambers": "chambers"}.get(method, "auto")
    known = "estimate" if method == ESTIMATED else share
    model = ShuffledLinearRegression(name, mislinked=known, random_state=0).fit(X, y, data.groups)
    ends = np.asarray(model.conf_int(intercept=True))
    return np.append(model.intercept_, model.coef_), np.roll(ends, 1, axis=0)


def run_one(job: tuple[str, float, int, str]) -> dict:
    """Return the error of a fit, the share of covered coefficients, and its processor time."""
    comparison, cell, trial, method = job
    data = COMPARISONS[comparison].make(cell, trial)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        w, ends = solve(method, data, cell)
    seconds = time.process_time() - start
    covered = ""
    if ends is not None:
        covered = f"{np.mean((ends[:, 0] <= data.truth) & (data.truth <= ends[:, 1])):.4f}"
    error = np.linalg.norm(w - data.truth) / data.unit
    apart = ""
    if method in LINKED:
        apart = f"{np.linalg.norm(w - solve_ols(data.X, data.linked)) / data.unit:.5g}"
    return dict(
        comparison=comparison, cell=f"{cell:g}", trial=trial, method=method,
        error=f"{error:.5g}", to_linked=apart, covered=covered, seconds=f"{seconds:.3f}",
    )  # fmt: skip


def read_rows() -> list[dict]:
    """Return the rows that are there."""
    return list(csv.DictReader(ROWS.read_text("utf-8").splitlines())) if ROWS.exists() else []


def run(only: list[str], n_trials: int, n_jobs: int) -> None:
    """Compute the rows that are missing, trial by trial."""
    rows, commit = read_rows(), head_commit()
    done = {(r["comparison"], float(r["cell"]), int(r["trial"]), r["method"]) for r in rows}
    jobs = [
        (name, cell, trial, method)
        for trial in range(n_trials)
        for name in only
        for cell in COMPARISONS[name].cells
        for method in COMPARISONS[name].methods
    ]
    missing = [job for job in jobs if job not in done]
    write_rows(ROWS, FIELDS, sorted(rows, key=_order))
    with ROWS.open("a", encoding="utf-8") as file:
        for row in run_jobs(run_one, missing, n_jobs, "fits"):
            file.write(",".join(str({**row, "commit": commit}[name]) for name in FIELDS) + "\n")
            file.flush()
    write_rows(ROWS, FIELDS, sorted(read_rows(), key=_order))


def _order(row: dict) -> tuple:
    names = list(COMPARISONS)
    return names.index(row["comparison"]), float(row["cell"]), row["method"], int(row["trial"])


def show(value: float) -> str:
    """Return an error to three digits."""
    return f"{value:.4f}" if value < 0.01 else f"{value:.3f}"


def table(name: str, rows: list[dict]) -> list[str]:
    """Return the lines of one comparison."""
    asked = COMPARISONS[name]
    own = [row for row in rows if row["comparison"] == name]
    head = ["method", *map(asked.cell_name, asked.cells), "coverage", "trials", "CPU s a fit"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for method in asked.methods:
        cells, covered, seconds, trials = [], [], [], []
        for cell in asked.cells:
            found = [r for r in own if r["method"] == method and float(r["cell"]) == cell]
            errors = np.array([float(r["error"]) for r in found])
            trials.append(len(found))
            if not found:
                cells.append("–")
                continue
            spread = errors.std(ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else 0.0
            cells.append(f"{show(errors.mean())} ± {show(spread)}")
            covered += [float(r["covered"]) for r in found if r["covered"]]
            seconds += [float(r["seconds"]) for r in found]
        if not seconds:
            continue
        shown = f"{np.mean(covered):.3f}" if covered else "–"
        least = f"{min(trials)}" if len(set(trials)) == 1 else f"{min(trials)}–{max(trials)}"
        ending = [shown, least, f"{np.mean(seconds):.2g}"]
        lines.append(f"| {' | '.join([method, *cells, *ending])} |")
    for method, values in asked.printed.items():
        printed = [*map(show, values), "–", str(asked.n_printed), "–"]
        lines.append(f"| *in print:* {method} | {' | '.join(printed)} |")
    return lines


def table_2() -> list[str]:
    """Return Table 2 of the paper: the default beside the printed value, one line per data set."""
    with TABLE_2.open(encoding="utf-8") as lines:
        rows = [r for r in csv.DictReader(lines) if r["seed"] == "0" and r["method"] == "auto"]
    head = ["data", *(f"R = {b}" for b in BAGS)]
    found = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    logs, n_better = [], 0
    for name in NAMES:
        cells = []
        for n_bags, printed in zip(BAGS, PRINTED[name], strict=True):
            own = [float(r["error"]) for r in rows if (r["data"], int(r["bags"])) == (name, n_bags)]
            cells.append(f"{np.mean(own):.3f} / {printed:.2f}" if own else f"– / {printed:.2f}")
            if own:
                logs.append(np.log(np.mean(own) / printed))
                n_better += np.mean(own) <= printed
        found.append(f"| {name} | {' | '.join(cells)} |")
    seconds = np.mean([float(r["seconds"]) for r in rows])
    ending = (
        f"Geometric mean of the ratios: {np.exp(np.mean(logs)):.2f}. Ours is no higher in "
        f"{n_better} of {len(logs)} cells. Mean time of a fit: {seconds:.1f} s."
    )
    return [*found, "", ending]


HEAD = """# Published comparisons

<!-- Written by benchmarks/field.py from benchmarks/results: change that, not this. -->

Every published comparison that can be run here, ours beside the printed value. Data follow the
authors' own programs. Printed values are the means of the trials that the authors stored beside
their programs. Ours are means ± standard errors over our trials, on data drawn anew. Lines without
*in print* were all computed here, on the same data. Coverage is the share of coefficients inside
their 95 % intervals. [Benchmarks](benchmarks.md) has the other figures.
"""


def page() -> str:
    """Return the page."""
    rows = read_rows()
    parts = [HEAD]
    for name, asked in COMPARISONS.items():
        own = [row for row in rows if row["comparison"] == name]
        commits = ", ".join(sorted({row["commit"] for row in own}))
        parts += [
            f"## {asked.title}\n",
            f"Source: {asked.source}. {asked.protocol} Commit {commits}.\n",
            "\n".join(table(name, rows)) + "\n",
            NOTES.get(name, ""),
        ]
    parts += [
        "## Table 2 of the paper\n",
        "Source: Abid, Poon and Zou (2017), Table 2. Thirteen data sets in R random bags of equal "
        "size, ten splits. Mean relative error, ours / in print. "
        "`python benchmarks/accuracy.py run` computes it, and shows the other methods and "
        "shuffled_stats.\n",
        "\n".join(table_2()) + "\n",
    ]
    return "\n".join(part for part in parts if part).rstrip() + "\n"


NOTES = {
    "survey": "The numbers of the link model were chosen on this survey among other data, with "
    "other permutations: it is no test of them.\n",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("task", choices=("run", "page"))
    parser.add_argument("--only", default=",".join(COMPARISONS))
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    if asked.task == "run":
        run(asked.only.split(","), asked.trials, asked.jobs)
    text = page()
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
