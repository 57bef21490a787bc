"""Rows and the labels beside them, as links of unknown quality are fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unshuffle.data.bags import Bags
from unshuffle.errors import InputError

# Cells of the kernel density, and its reach in kernel widths.
_N_CELLS, _MARGIN = 2048, 4.0
# Beyond this, and below its inverse, values in the user's units are rescaled before squaring.
_LARGEST_LABEL = float(np.cbrt(np.finfo(float).max))


@dataclass(frozen=True, eq=False)
class GivenPairs:
    """Rows and the labels beside them, in an order that depends on their content alone.

    Attributes
    ----------
    X, y : rows (n, d) and labels (n,).
    codes : (n,) number of the block of each pair.
    is_known : (n,) whether a pair cannot be wrong.
    place : (n,) where each pair stood in the data as given.
    log_reference : (n,) log density of each label among the labels of its block.
    has_intercept : whether the last column of X is the intercept.
    quality : (n, k) columns that explain link quality, in standard units; None for none.
    """

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    is_known: np.ndarray
    place: np.ndarray
    log_reference: np.ndarray
    has_intercept: bool
    quality: np.ndarray | None = None

    @property
    def n_slopes(self) -> int:
        """Number of coefficients but for the intercept."""
        return self.X.shape[1] - self.has_intercept

    def take(self, some: slice | np.ndarray) -> GivenPairs:
        """Return some of the pairs; labels keep their density among all."""
        cut = {name: getattr(self, name)[some] for name in ("y", "codes", "is_known", "place")}
        quality = None if self.quality is None else self.quality[some]
        X = np.asfortranarray(self.X[some])
        return replace(self, X=X, quality=quality, log_reference=self.log_reference[some], **cut)

    def restore(self, values: np.ndarray) -> np.ndarray:
        """Return one value for each pair in the order of the data as given."""
        found = np.empty(len(values))
        found[self.place] = values
        return found


def read_pairs(bags: Bags, has_intercept: bool) -> GivenPairs:
    """Return the pairs as they were given, in an order of their own content."""
    unit = np.repeat(np.arange(bags.n_bags), bags.sizes)
    rows = np.lexsort((bags.rows.order, bags.sizes[unit] > 1))
    labels = np.lexsort((bags.labels.order, bags.sizes[unit] > 1))
    n_single = int((bags.sizes == 1).sum())
    # Bags of one row come first, and are pairs whatever stood beside them.
    rows[:n_single] = labels[:n_single] = np.flatnonzero(bags.sizes[unit] == 1)
    beside = bags.rows.order[rows] == bags.labels.order[labels]
    if not (beside[n_single:] & (unit[rows] == unit[labels])[n_single:]).all():
        raise InputError(
            "anchors give away the label beside another row, whose link is then unknown: with "
            "mislinked give anchors as True or False for every row"
        )
    original_bags = unit if bags.original_bags is None else bags.original_bags[unit]
    X, y, codes, place = bags.X[rows], bags.y[labels], original_bags[rows], bags.rows.order[rows]
    is_known = np.arange(len(y)) < n_single
    order = np.lexsort([codes, is_known, *X.T[::-1], y])
    X, y, codes = np.asfortranarray(X[order]), y[order], codes[order]
    reference = estimate_density(y - block_means(y, codes))
    return GivenPairs(X, y, codes, is_known[order], place[order], reference, has_intercept)


def block_means(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return for every pair the mean of its block."""
    counts = np.bincount(codes)
    return np.asarray((np.bincount(codes, values) / np.maximum(counts, 1))[codes])


def estimate_density(values: np.ndarray) -> np.ndarray:
    """Return the log density of each value: a kernel estimate with Silverman's (1986) width."""
    size = float(np.abs(values).max(initial=0.0))
    if size > _LARGEST_LABEL or 0.0 < size < 1.0 / _LARGEST_LABEL:
        # Squares would overflow or vanish; a power of two changes no digit.
        exponent = int(np.frexp(size)[1])
        return estimate_density(np.ldexp(values, -exponent)) - exponent * np.log(2.0)
    low, high = np.quantile(values, [0.25, 0.75])
    sd = float(values.std())
    spread = min(sd, (high - low) / 1.34) if high > low else sd
    if spread == 0.0:
        return np.zeros(len(values))
    width = 0.9 * spread * len(values) ** -0.2
    start, stop = values.min() - _MARGIN * width, values.max() + _MARGIN * width
    step = (stop - start) / (_N_CELLS - 1)
    at = (values - start) / step
    left = np.floor(at).astype(int)
    masses = np.bincount(left, 1.0 - (at - left), _N_CELLS)
    masses += np.bincount(left + 1, at - left, _N_CELLS)[:_N_CELLS]
    from scipy.ndimage import gaussian_filter1d  # slow to import, and seldom needed

    density = gaussian_filter1d(masses, width / step, mode="constant", truncate=_MARGIN)
    density /= len(values) * step
    # No label is impossible: the least density is relative to that of the spread.
    return np.log(np.maximum(np.interp(at, np.arange(_N_CELLS), density), 1e-4 / spread))


def weighted_gram(left: np.ndarray, weights: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return leftᵀ diag(weights) right, by sums whose order does not depend on the processor."""
    return np.asarray(np.einsum("ni,nj->ij", left * weights[:, None], right))


def weighted_sum(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return Xᵀ weights."""
    return np.asarray(np.einsum("ni,n->i", X, weights))
