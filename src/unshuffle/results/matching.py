"""Matches of labels to rows: the most likely order, and the probability of each match.

With Gaussian noise the most likely order matches ranks (DeGroot, Feder and Goel 1971).
Probabilities of matches come from Gibbs sampling of the order (Wu 1998).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from math import fsum
from typing import Any

import numpy as np

from unshuffle import kernels
from unshuffle.core.uncertainty import Posterior
from unshuffle.data.anchors import find_beside
from unshuffle.data.bags import Bags
from unshuffle.data.products import multiply, predict_rows
from unshuffle.errors import InputError
from unshuffle.formatting import SHOWN_ROWS, align, show_number, show_probability
from unshuffle.results.frames import make_frame

# Posterior draws for match probabilities, whose Monte Carlo error is 0.5/√draws at most: 0.065 with
# 60 draws, 0.02 with 600. Small data get more draws, which are cheap there.
_MIN_DRAWS, _MAX_DRAWS, _DRAWN_ROWS = 60, 600, 30_000
N_BURNT, N_KEPT = 20, 40
# Most candidate labels of a row: more than matches of notable probability need.
WINDOW = 512
# Equal data must give equal probabilities: the sampler has its own seed.
SEED = 0


@dataclass(frozen=True, eq=False)
class Match:
    """Which label belongs to which row, and how sure each match is.

    Attributes
    ----------
    order : ndarray of shape (n,)
        ``order[i]`` is the index in `y` of the label matched to row i.
    probability : ndarray of shape (n,) or None
        Probability that row i has a label of the value matched: equal labels of a bag are one
        label. None for methods without a posterior.
    labels : ndarray of shape (n,)
        The values matched.
    n_equal : ndarray of shape (n,)
        How many labels of this value stand in the bag.
    verdict : tuple of str
        In sentences how sure the matches are.
    library : str or None
        The library of the frame fitted.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression
    >>> X, y = [[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]
    >>> match = ShuffledLinearRegression("ls", random_state=0).fit(X, y).match(X, y)
    >>> match.order.tolist(), match.labels.tolist()
    ([0, 2, 1], [1.0, 3.0, 7.0])
    """

    order: np.ndarray
    probability: np.ndarray | None
    labels: np.ndarray
    n_equal: np.ndarray
    verdict: tuple[str, ...]
    library: str | None = None

    def to_frame(self) -> Any:
        """Return the matches as a frame, one line for each row.

        Returns
        -------
        frame
            Columns row, order, label, probability and n_equal, in a polars frame where one was
            fitted, otherwise of pandas. Without a posterior probability is missing.

        Raises
        ------
        InputError
            Where the library of frames is not installed.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression
        >>> X, y = [[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]
        >>> match = ShuffledLinearRegression("ls", random_state=0).fit(X, y).match(X, y)
        >>> match.to_frame()["label"].tolist()
        [1.0, 3.0, 7.0]
        """
        n, known = len(self.order), self.probability
        return make_frame(
            {
                "row": np.arange(n),
                "order": self.order,
                "label": self.labels,
                "probability": np.full(n, np.nan) if known is None else known,
                "n_equal": self.n_equal,
            },
            self.library,
        )

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        n, given = len(self.order), self.probability
        cells = [("row", "label", "probability")] + [
            (
                str(i),
                show_number(float(self.labels[i])),
                show_probability(None if given is None else float(given[i])),
            )
            for i in range(min(n, SHOWN_ROWS))
        ]
        more = [f"… and {n - SHOWN_ROWS} more rows"] if n > SHOWN_ROWS else []
        return "\n".join([*self.verdict, "", *align(cells, n_left=0), *more])


def fingerprint(bags: Bags, has_links: bool = False) -> str:
    """Return a digest of rows, labels and bags in their canonical order, and of links if any."""
    parts = [bags.X, bags.rows.masses, bags.y, bags.labels.masses, bags.offsets]
    if has_links and bags.is_plain:  # others have no label beside a row, and are refused
        parts.append(find_beside(bags.rows.order, bags.labels.order))
    digest = sha256()
    for part in parts:
        digest.update(f"{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def match_labels(
    bags: Bags,
    w: np.ndarray,
    intercept: float,
    posterior: Posterior | None,
    *,
    tables: Sequence[np.ndarray] | None = None,
    method: str = "",
) -> Match:
    """Return the match of ranks: the most likely order of the labels given the weights.

    With a posterior, each match gets its probability, averaged over draws of weights and noise
    and, for each, over permutations drawn from the exact model; `tables`, one for each bag (rows ×
    labels), stand for these where they are known already. The result refers to rows and labels as
    the user gave them.
    """
    if not bags.is_plain:
        raise InputError(
            "match needs one label for each row, of the same individuals: separate samples, bins "
            "and missing labels leave nothing to match"
        )
    order, n_equal = np.empty(bags.n, dtype=int), np.empty(bags.n, dtype=int)
    labels, probability, guess = np.empty(bags.n), np.empty(bags.n), np.empty(bags.n)
    z = predict_rows(bags.X, w) + intercept
    table_of = _choose_tables(bags, posterior, tables)
    for r, (start, stop) in enumerate(pairwise(bags.offsets)):
        by_rank = np.argsort(z[start:stop], kind="stable")
        rows, y = bags.rows.order[start + by_rank], bags.y[start:stop]
        kind, counts = number_values(y)
        order[rows], labels[rows] = bags.labels.order[start:stop], y
        n_equal[rows], guess[rows] = counts[kind], counts[kind] / len(y)
        if table_of is not None:
            table, first = table_of(r, slice(start, stop), kind, by_rank)
            probability[rows] = look_up(table[by_rank], kind - first[by_rank])
    if posterior is None:
        return Match(order, None, labels, n_equal, _describe_ranks(n_equal, method))
    verdict = describe_matches(probability, guess, n_equal, tables is not None, posterior.is_thin)
    return Match(order, probability, labels, n_equal, verdict)


def look_up(table: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return one entry of each row of a table, 0 outside of it."""
    is_seen = (place >= 0) & (place < table.shape[1])
    seen = table[np.arange(len(table)), np.where(is_seen, place, 0)]
    # A sum of shares passes one by rounding.
    return np.where(is_seen, np.minimum(seen, 1.0), 0.0)


def _choose_tables(
    bags: Bags, posterior: Posterior | None, tables: Sequence[np.ndarray] | None
) -> Callable[[int, slice, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]] | None:
    """Return what makes the probabilities of a bag: of its number, place, kinds and matching."""
    if posterior is None:
        return None
    if tables is not None:
        return lambda r, place, kind, by_rank: (
            add_equal(tables[r], kind),
            np.zeros(len(kind), np.int64),
        )
    rng = np.random.default_rng(SEED)
    draws, sigma = posterior.draw(choose_n_draws(bags.n), rng)
    return lambda r, place, kind, by_rank: match_bag(
        bags.X[place], bags.y[place], kind, by_rank, draws, sigma, rng
    )


def predict_draws(X: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return the predictions (draws, rows) of draws of the weights, the intercept last if any."""
    d = X.shape[1]
    z = multiply(draws[:, :d], X.T)
    return np.asarray(z + draws[:, d:]) if draws.shape[1] > d else z


def choose_candidates(kind: np.ndarray, matched: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the number of candidates of each row, and the first: a window around its match."""
    width = min(int(kind[-1]) + 1, WINDOW)
    return width, np.clip(matched - width // 2, 0, kind[-1] + 1 - width)


def choose_n_draws(n: int) -> int:
    """Return how many draws of weights and noise are averaged over."""
    return int(np.clip(_DRAWN_ROWS // n, _MIN_DRAWS, _MAX_DRAWS))


def swap_reach(scaled: np.ndarray) -> float:
    """Return the natural length of a swap: labels within one sigma of a prediction, on average."""
    return max(1.0, len(scaled) / max(float(np.ptp(scaled)), 1.0))


def number_values(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each sorted label among the different ones, and how often each stands.

    >>> kind, counts = number_values(np.array([1.0, 2.0, 2.0]))
    >>> kind.tolist(), counts.tolist()
    ([0, 1, 1], [1, 2])
    """
    kind = np.concatenate([[0], np.cumsum(y[1:] != y[:-1])]).astype(np.int64)
    return kind, np.bincount(kind)


def add_equal(table: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Add the probabilities (rows × labels) of equal labels.

    >>> add_equal(np.array([[0.5, 0.25, 0.25]]), np.array([0, 1, 1])).tolist()
    [[0.5, 0.5]]
    """
    starts = np.flatnonzero(np.diff(kind, prepend=-1))
    return np.asarray(np.add.reduceat(table, starts, axis=1))


def _describe_ranks(n_equal: np.ndarray, method: str) -> tuple[str, ...]:
    """Return the sentences on matches without probabilities."""
    named = f"method '{method}'" if method else "this method"
    return (
        f"Labels go to rows by rank, without probabilities: {named} has no posterior. Use method "
        "'likelihood' to learn how sure each match is.",
        *_describe_equal(n_equal, "."),
    )


def describe_matches(
    probability: np.ndarray, guess: np.ndarray, n_equal: np.ndarray, is_exact: bool, is_thin: bool
) -> tuple[str, ...]:
    """Say how many matches are right, what rests on what, and what was taken as one label."""
    n_likely, n_sure = (int((probability >= level).sum()) for level in (0.5, 0.95))
    sentences = [
        f"About {_percent(probability)} of these matches are right, where guessing "
        f"inside bags gives {_percent(guess)}: {n_likely} of {len(guess)} rows have "
        f"a probability of at least 0.5, and {n_sure} of at least 0.95.",
        *_describe_equal(n_equal, ", and their probabilities are added."),
    ]
    if is_thin:
        sentences.append("The posterior was hard to sample, so that probabilities are rough.")
    if is_exact:
        sentences.append("Probabilities are those of the matchings that the sampler walked over.")
    return tuple(sentences)


def _describe_equal(n_equal: np.ndarray, end: str) -> list[str]:
    """Say how many labels share their value, where any do."""
    n_alike = int((n_equal > 1).sum())
    start = f"{n_alike} of {len(n_equal)} labels stand more than once in their bag"
    return [f"{start}; equal labels are one label{end}"] if n_alike else []


def _percent(shares: np.ndarray) -> str:
    # An exact sum: the words must not depend on the order of the rows.
    mean = fsum(shares.tolist()) / len(shares)
    return "less than 1 %" if mean < 0.005 else f"{100 * mean:.0f} %"


def match_bag(
    X: np.ndarray,
    y: np.ndarray,
    kind: np.ndarray,
    by_rank: np.ndarray,
    draws: np.ndarray,
    sigma: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the match probabilities of one bag (rows × candidates) and each row's first candidate.

    `y` is sorted; candidates are a window of different labels (`kind` numbers them) around the one
    that is matched (`by_rank` are the rows in the labels' order): draws may order rows otherwise,
    but the match must be among the candidates.
    """
    n = len(X)
    if n == 1:
        return np.ones((1, 1)), np.zeros(1, dtype=np.int64)
    z = predict_draws(X, draws)
    rank = np.argsort(by_rank, kind="stable")
    width, first = choose_candidates(kind, kind[rank])
    counts, totals = np.zeros((n, width)), np.zeros(n)
    # Noise below the resolution of the labels would divide by zero and decide nothing.
    size = float(np.ptp(y)) or float(np.abs(z).max()) or 1.0
    floor = max(1e-12 * size, np.finfo(float).smallest_subnormal)
    for predictions, sd in zip(z, np.maximum(sigma, floor), strict=True):
        order = np.argsort(predictions, kind="stable")
        # In units of the noise, whose square could overflow.
        scaled = predictions / sd
        uniforms = rng.random((N_BURNT + N_KEPT, n, 2))
        kernels.swap_counts(
            scaled, y / sd, kind, order, first, 1.0, swap_reach(scaled), uniforms, N_BURNT,
            counts, totals,
        )  # fmt: skip
    return counts / np.maximum(totals, 1e-300)[:, None], first
