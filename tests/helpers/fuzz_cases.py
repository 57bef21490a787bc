"""What a fuzzed fit is like: data of every kind and size, options, and what may be wrong.

A case is a dict of plain words and numbers, so that a failure prints what it takes to repeat it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import strategies as st

from registry_examples import LENGTHY, SOLVERS
from unshuffle import (
    Bag,
    GridNoise,
    Histogram,
    Likelihood,
    Moments,
    OrderInvariant,
    Projection,
    Sampler,
    SmallD,
    StudentNoise,
    noise_from_calibration,
)


def multiply_by_slope(z, s):
    """The product of a slope with the Jacobian of arcsinh."""
    return s / np.hypot(1.0, z)


OBJECTS = {
    "Moments(4)": Moments(4),
    "Moments(3, f)": Moments(3, f=lambda k: k**-2.0),
    "Projection(3)": Projection(3),
    "SmallD(3)": SmallD(3),
    "OrderInvariant": OrderInvariant(np.arcsinh, 2.0, multiply_by_slope),
    "Sampler(2 runs)": Sampler(n_runs=2, n_sweeps=200),
    "Likelihood()": Likelihood(),
}
# They take a second, the others a hundredth.
SLOW = (*LENGTHY, "auto", "Sampler(2 runs)", "Likelihood()")
QUICK = (*(name for name in [*SOLVERS, *OBJECTS] if name not in SLOW), "paper")
# "exact" goes over every permutation, "certified" over cones of up to four weights.
MOST_ROWS = {"exact": 8, "certified": 30}

COLUMNS = (
    "normal", "normal", "normal", "normal", "normal", "normal", "ties", "binary", "ties", "binary",
    "constant", "twin", "sum", "heavy", "huge",
    "tiny", "vast", "subnormal", "far", "zeros", "steps", "by bag", "outlier",
)  # fmt: skip
LABELS = (
    "linear", "linear", "linear", "linear", "exact", "exact", "noisy", "ties", "constant", "zero",
    "apart", "huge", "tiny", "vast", "subnormal", "far", "two", "heavy", "offset",
)  # fmt: skip
BAGS = (
    "none", "one", "random", "random", "random", "single", "uneven", "words", "mixed", "pairs",
)  # fmt: skip
MANY_BAGS = ("random", "single", "words", "mixed", "pairs")
SCALE = {"huge": 1e150, "tiny": 1e-150, "vast": 1e305, "subnormal": 1e-310}

TABLES = ("array", "array", "list", "float32", "integers", "pandas", "polars")
BAG_FORMS = (
    "bags", "counts", "row counts", "subset", "subset of same", "more labels", "separate", "bins",
    "open bins",
)  # fmt: skip
NOISES = {
    "none": None,
    "small": 0.1,
    "zero": 0.0,
    "tiny": 1e-200,
    "huge": 1e200,
    "moments": (0.0, 0.01, 0.0, 3e-4),
    "student": StudentNoise(0.2, 5.0),
    "grid": GridNoise([-0.5, 0.0, 1.5], [0.0, 1.0, 0.0]),
    "sample": noise_from_calibration([0.0, 0.1, 0.3, 1.0]),
}
# What may be wrong with the data or with the options: every one is refused.
BAD_DATA = (
    "nan", "inf", "minus inf", "label nan", "label inf", "text", "label text", "category", "dates",
    "short y", "short groups", "missing group", "complex", "two columns called alike",
)  # fmt: skip
BAD_OPTIONS = {
    "l1 below 0": {"l1": -1.0},
    "l2 is nan": {"l2": np.nan},
    "l1 is text": {"l1": "much"},
    "noise below 0": {"noise": -0.1},
    "noise is nan": {"noise": np.nan},
    "noise is text": {"noise": "loud"},
    "impossible moments": {"noise": (1.0, 0.5)},
    "no starts": {"n_starts": 0},
    "half a start": {"n_starts": 1.5},
    "tol is nan": {"tol": np.nan},
    "offsets below 0": {"bag_offsets": -1.0},
    "offsets are text": {"bag_offsets": "some"},
    "a share of 2": {"mislinked": 2.0},
    "a share of text": {"mislinked": "few"},
    "a method misspelt": {"method": "lss"},
    "a method that is a number": {"method": 3},
    "a device misspelt": {"device": "gpu"},
    "a seed below 0": {"random_state": -1},
    "no threads": {"n_jobs": 0},
}
BAD_ANCHORS = ("too many", "twice", "another bag", "halves", "text")


@st.composite
def cases(draw):
    """Draw what a fit is like; mostly such as can be fitted, one in ten with something wrong."""
    method = draw(st.sampled_from(SLOW if draw(st.integers(0, 15)) == 5 else QUICK))
    kind = draw(st.sampled_from(("table",) * 5 + ("bags",) * 5 + ("blocks",) * 2 + ("file",)))
    columns = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=5))
    case = dict(
        method=method,
        kind=kind,
        form=draw(st.sampled_from(_list_forms(method, kind))),
        n=draw(_choose_size(method, kind, len(columns))),
        columns=columns[: 3 if method == "certified" else 5],
        labels=draw(st.sampled_from(LABELS)),
        bags=draw(st.sampled_from(MANY_BAGS if method == "means" else BAGS)),
        repeats=draw(st.sampled_from((False, False, False, True))),
        bad=None,
        fit_intercept=draw(st.sampled_from((True, True, False))),
        seed=draw(st.integers(0, 2**32 - 1)),
    )
    if draw(st.integers(0, 9)) == 7:
        case["bad"] = draw(st.sampled_from((*BAD_DATA, *BAD_OPTIONS, *BAD_ANCHORS)))
    return case | {name: draw(choices) for name, choices in _list_options(method, kind).items()}


def _list_forms(method, kind):
    """Return the forms of data that a method takes, and now and then one that it does not."""
    if kind != "bags":
        return TABLES
    has_pairs = method in ("small-d", "SmallD(3)", "OrderInvariant", "exact", "certified")
    return ("bags",) * 20 + BAG_FORMS if has_pairs else BAG_FORMS


def _choose_size(method, kind, d):
    """Return numbers of rows: one in ten has as few as there are weights, or none."""
    if kind == "blocks":
        return st.integers(60, 150)
    most = MOST_ROWS.get(method, 60 if method in QUICK else 30)
    usual = st.integers(min(d + 2, most), most)
    few = st.sampled_from((*range(1, d + 3), 0))
    return st.integers(0, 9).flatmap(lambda k: few if k == 5 else usual)


def _list_options(method, kind):
    """Return what may be asked of a method; what it refuses is asked seldom."""
    has_prior, has_links = method in SLOW, method in ("auto", "sampler") and kind == "table"
    has_penalty = not has_prior and method not in ("means", "exact", "certified")
    seldom = 30
    return {
        "anchors": st.sampled_from((None,) * 6 + ("some", "numbers", "places", "all")),
        "l1": st.sampled_from((0.0,) * (6 if has_penalty else seldom) + (1e-300, 0.1, 1e6)),
        "l2": st.sampled_from((0.0,) * (6 if has_penalty else seldom) + (1e-300, 0.1, 1e6)),
        "noise": st.sampled_from(("none",) * 8 + tuple(NOISES)),
        "bag_offsets": st.sampled_from(
            ("auto",) * (8 if has_prior else 3 * seldom) + (False, True, 0.5, 1e-200, 1e200)
        ),
        "mislinked": st.sampled_from(
            (None,) * (4 if has_links else 3 * seldom) + (0.0, 0.3, 1.0, "estimate")
        ),
        # Numbers of starts and tolerances: a search to the last bit, or as long as it takes, or
        # of a g in Python, is given one start.
        "search": st.sampled_from(
            ((1, 1e-6), (1, 1e3))
            if method == "OrderInvariant"
            else ((1, 1e-6), (3, 1e-6), (None, 1e-3), (1, 0.0), (2, 1e3))
        ),
    }


def draw_column(kind, groups, earlier, rng):
    """Return a column of a kind; `earlier` are those before it."""
    n = len(groups)
    z = rng.normal(size=n)
    made = {
        "ties": lambda: rng.integers(0, 3, n).astype(float),
        "binary": lambda: (z > 0).astype(float),
        "constant": lambda: np.full(n, 7.0),
        "twin": lambda: earlier[-1].copy() if earlier else z,
        "sum": lambda: np.sum(np.array(earlier) / 8, axis=0) if earlier else z,
        "heavy": lambda: rng.standard_cauchy(n),
        "far": lambda: 1e9 + z,
        "zeros": lambda: np.where(z > 0, 0.0, -0.0),
        "steps": lambda: np.arange(n) // max(n // 3, 1) * 1.0,
        "by bag": lambda: groups.astype(float),
        "outlier": lambda: np.where(np.arange(n) == 0, 1e12, z),
    }
    return made[kind]() if kind in made else np.clip(z, -1, 1) * SCALE.get(kind, 1.0)


def draw_labels(kind, X, groups, rng):
    """Return labels of a kind."""
    n = len(X)
    size = np.abs(X).max(axis=0, initial=0.0)
    z = (X / np.where(size > 0, size, 1.0)) @ rng.normal(size=X.shape[1])
    noise = rng.normal(size=n)
    made = {
        "exact": lambda: z,
        "noisy": lambda: noise,
        "ties": lambda: np.round(z),
        "constant": lambda: np.full(n, -3.0),
        "zero": lambda: np.zeros(n),
        "apart": lambda: np.where(noise > 0, 1e6, -1e6) + z,
        "far": lambda: 1e9 + z,
        "two": lambda: (z > 0).astype(float),
        "heavy": lambda: z + rng.standard_cauchy(n),
        "offset": lambda: z + groups,
    }
    if kind in made:
        return made[kind]()
    return np.clip(z + 0.1 * noise, -1, 1) * SCALE.get(kind, 1.0)


def draw_codes(kind, n, rng):
    """Return the number of the bag of every row."""
    if kind == "single":
        return np.arange(n)
    if kind == "uneven":
        return (np.arange(n) == 0).astype(int)
    if kind == "pairs":
        return np.arange(n) // 2
    return np.zeros(n, dtype=int) if kind in ("none", "one") else rng.integers(0, 4, n)


def name_groups(kind, codes):
    """Return the names of the bags as a user may write them."""
    if kind == "none":
        return None
    if kind == "words":
        return np.array(["a", "b", "ü", "a b"])[codes]
    if kind == "mixed":
        return [("1", 1, (2, "x"), 2.5)[code] for code in codes]
    return codes


def draw_data(case):
    """Return rows, labels, the number of each row's bag, and the generator for what follows."""
    rng = np.random.default_rng(case["seed"])
    codes = draw_codes(case["bags"], case["n"], rng)
    columns: list[np.ndarray] = []
    for kind in case["columns"]:
        columns.append(draw_column(kind, codes, columns, rng))
    X = np.column_stack(columns)
    y = draw_labels(case["labels"], X, codes, rng)
    if case["repeats"]:
        half = len(X) // 2
        X[half : 2 * half], y[half : 2 * half] = X[:half], y[:half]
    return X, y, codes, rng


def draw_anchors(case, codes, rng):
    """Return known pairs in one of the forms, or such as cannot be."""
    n, kind = len(codes), case["bad"] if case["bad"] in BAD_ANCHORS else case["anchors"]
    if kind in BAD_ANCHORS and n < 4:
        return np.zeros(n + 1, dtype=bool)
    if kind is None:
        return None
    # For each row a label of its own bag, as places are.
    places = np.lexsort((rng.random(n), codes))[np.argsort(np.argsort(codes, kind="stable"))]
    some = rng.random(n) < 0.4
    return {
        "some": lambda: some,
        "numbers": lambda: np.flatnonzero(some),
        "places": lambda: np.where(some, places, -1),
        "all": lambda: np.ones(n, dtype=bool),
        "too many": lambda: np.ones(n + 1, dtype=bool),
        "twice": lambda: np.array([1, 1]),
        "another bag": lambda: np.full(n, n),
        "halves": lambda: np.array([0.5, 1.5]),
        "text": lambda: ["yes"] * n,
    }[kind]()


def spoil(bad, X, y, groups):
    """Put something into the data that no fit can use; return rows, labels and groups."""
    last = len(y) - 1
    if bad in ("nan", "inf", "minus inf"):
        X[0, 0] = {"nan": np.nan, "inf": np.inf, "minus inf": -np.inf}[bad]
    elif bad in ("label nan", "label inf"):
        y[last] = np.nan if bad == "label nan" else np.inf
    elif bad in ("text", "label text"):
        X, y = X.astype(object), y.astype(object)
        (X if bad == "text" else y)[last] = "tall"
    elif bad == "category":
        X = pd.DataFrame(X).assign(sex=pd.Categorical(np.where(X[:, 0] > 0, "f", "m")))
        X.columns = [str(name) for name in X.columns]
    elif bad == "dates":
        X = np.full(X.shape, np.datetime64("2020"))
    elif bad == "complex":
        X = X.astype(complex) + 1j
    elif bad == "short y":
        y = y[:-1]
    elif bad == "short groups":
        groups = np.zeros(last)
    elif bad == "missing group":
        groups = [*([0] * last), None]
    elif bad == "two columns called alike":
        X = pd.DataFrame(np.column_stack([X, X]), columns=[str(j) for j in range(X.shape[1])] * 2)
    return X, y, groups


def shape_table(form, X, y, groups):
    """Return a table in the form in which somebody may hold it."""
    if not isinstance(X, np.ndarray) or X.dtype != float or y.dtype != float:
        return X, y, groups
    names = [("größe", "x 1", "[b]", "a,b", "1")[j] for j in range(X.shape[1])]
    if form == "list":
        return X.tolist(), y.tolist(), groups
    if form == "float32" and np.abs(X).max(initial=0.0) < 1e38:
        return X.astype(np.float32), y, groups
    if form == "integers" and np.abs(X).max(initial=0.0) < 1e9:
        return X.round().astype(int), y, groups
    if form == "pandas":
        return pd.DataFrame(X, columns=names), pd.Series(y), groups
    if form == "polars":
        return pl.DataFrame(X, schema=names), pl.Series(y), groups
    return X, y, groups


def make_bags(form, X, y, codes, rng):
    """Return the data as bags, and whether both sides are the same individuals."""
    bags = []
    for name in dict.fromkeys(codes.tolist()):
        rows, labels = X[codes == name], rng.permutation(y[codes == name])
        if form == "counts":
            values, counts = np.unique(labels, return_counts=True)
            bags.append(Bag(rows, values, label_counts=counts))
        elif form == "row counts":
            bags.append(Bag(rows, labels, row_counts=rng.integers(1, 4, len(rows))))
        elif form.startswith("subset"):
            bags.append(Bag(rows, labels[: max(1, len(labels) // 2)]))
        elif form == "more labels":
            bags.append(Bag(rows, np.append(labels, labels[:1])))
        elif form.endswith("bins"):
            bags.append(Bag(rows, _count_in_bins(labels, is_open=form == "open bins")))
        else:
            bags.append(Bag(rows, labels))
    same = {"subset of same": True, "separate": False}
    return bags, same.get(form)


def _count_in_bins(labels, is_open):
    """Return labels as counts between edges, the outer of which may be open."""
    edges = np.unique(np.quantile(labels, [0.0, 0.4, 1.0]))
    if len(edges) < 2:
        return Histogram([labels[0], labels[0]], [len(labels)])
    counts = np.histogram(labels, edges)[0]
    if is_open and len(edges) > 2:
        edges[[0, -1]] = -np.inf, np.inf
    return Histogram(edges, counts)
