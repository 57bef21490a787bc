"""The bytes of every method's answer on twenty data sets, to see that a change moves none of them.

    python benchmarks/record.py write FILE      # before
    python benchmarks/record.py compare FILE    # after: every answer that has other bytes

Bytes are those of one machine and one set of libraries: write and compare in one place. Weights,
candidates, intervals, draws and the words of the summary all count.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import unshuffle
from unshuffle import (
    InputError,
    Moments,
    OrderInvariant,
    Projection,
    ShuffledLinearRegression,
    make_shuffled,
    noise_from_calibration,
)

# The methods by name that stand on their own, and objects and options that take other paths.
_ROOT = (OrderInvariant(np.cbrt, 2.0, lambda z, s: s / (3 * np.cbrt(z) ** 2)), {})
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (name, {}) for name, m in unshuffle.METHODS.items() if name not in ("auto", "paper")},
    "projection on three moments": (Projection(3), {}),
    "four moments": (Moments(4), {}),
    "order-invariant": _ROOT,
    "likelihood, noise given": ("likelihood", {"noise": 0.2}),
    "ls, noise given": ("ls", {"noise": 0.2}),
    "sm, noise given": ("sm", {"noise": 0.2}),
    "ls, calibration": ("ls", {"noise": noise_from_calibration([0.0, 0.1, 0.3, 0.9])}),
    "ls, penalties": ("ls", {"l1": 0.01, "l2": 0.01}),
    "p2, penalties": ("p2", {"l1": 0.01, "l2": 0.01}),
    "ls, no intercept": ("ls", {"fit_intercept": False}),
    "likelihood, no intercept": ("likelihood", {"fit_intercept": False}),
}


def make_data() -> dict[str, tuple[np.ndarray, np.ndarray, Any]]:
    """Return twenty data sets: sizes, bags, features, ties, units, a constant column."""
    found = {}
    sizes_of = [
        (7, 1, [7]), (8, 2, [2, 3, 3]), (24, 1, [24]), (30, 2, [10, 20]), (40, 3, [5] * 8),
        (60, 2, [7, 8, 9, 10, 12, 14]), (60, 4, [15] * 4), (90, 3, [90]), (120, 5, [30] * 4),
        (150, 2, [1, 149]), (200, 3, [20] * 10), (260, 4, [130, 130]),
    ]  # fmt: skip
    for k, (n, d, sizes) in enumerate(sizes_of):
        data = make_shuffled(n, d, noise=0.2, bags=sizes, intercept=0.5, rng=k)
        found[f"n{n} d{d} r{len(sizes)}"] = (data.X, data.y, data.groups)
    for features in ("exponential", "lognormal", "uniform"):
        data = make_shuffled(80, 2, noise=0.1, bags=4, features=features, rng=77)
        found[features] = (data.X, data.y, data.groups)
    data = make_shuffled(100, 3, noise=0.3, bags=5, rng=50)
    found["ties"] = (data.X.round(), data.y.round(), data.groups)
    found["tiny units"] = (data.X * 1e-6, data.y * 1e-8, data.groups)
    found["far off"] = (data.X + 1e4, data.y + 1e5, data.groups)
    X = np.column_stack([data.X[:, :2], np.full(len(data.y), 3.0)])
    found["constant column"] = (X, data.y, data.groups)
    found["collinear"] = (np.column_stack([data.X, data.X @ [1.0, 1.0, 0.0]]), data.y, data.groups)
    return found


def digest(model: ShuffledLinearRegression) -> str:
    """Return a hash of every number and word of a fit."""
    solution = model.solution_
    numbers = [model.coef_, [model.intercept_], solution.start_values]
    numbers += [part for c in solution.candidates for part in (c.weights, [c.value, c.n_starts])]
    unsure = solution.uncertainty
    if unsure is not None and unsure.has_interval:
        numbers.append(unsure.interval(0.95).ravel())
    if model.posterior_ is not None:
        posterior = model.posterior_
        numbers += [posterior.draws.ravel(), posterior.draw_weights, posterior.sigma]
    content = b"".join(np.asarray(part, dtype=float).tobytes() for part in numbers)
    words = f"{model.method_} {model.noise_} {model.identified_} {solution.status.name}"
    return sha256(content + words.encode() + str(model.summary()).encode()).hexdigest()[:16]


def record(wanted: str) -> dict[str, str]:
    """Return the hash of every fit; a refusal is recorded by its words."""
    found = {}
    for place, (X, y, groups) in make_data().items():
        for name, (method, options) in METHODS.items():
            if wanted not in name or (name == "sampler" and len(y) > 100):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    model = ShuffledLinearRegression(method, random_state=3, **options)
                    found[f"{name} | {place}"] = digest(model.fit(X, y, groups))
                except InputError as exc:
                    found[f"{name} | {place}"] = f"refused: {exc}"
    return found


def main() -> int:
    """Write a record, or compare with one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="methods whose name holds this text")
    args = parser.parse_args()
    begin = time.perf_counter()
    found = record(args.only)
    if args.action == "write":
        args.file.write_text(json.dumps(found, indent=1), encoding="utf-8")
        print(f"{len(found)} answers in {time.perf_counter() - begin:.0f} s")
        return 0
    expected = json.loads(args.file.read_text(encoding="utf-8"))
    moved = [key for key, value in found.items() if expected.get(key) != value]
    for key in moved:
        print(f"moved: {key}\n   was {expected.get(key)}\n   is  {found[key]}")
    print(f"{len(moved)} of {len(found)} answers moved")
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
