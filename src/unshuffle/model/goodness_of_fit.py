"""Whether the labels look as the model predicts: PIT values and heteroscedasticity.

PIT values are those of Rosenblatt (1952) and Dawid (1984). Both checks need only the predictions
and labels of each bag as two weighted samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, sqrt

import numpy as np
from scipy.special import ndtr

from unshuffle import kernels
from unshuffle.data.products import dot, multiply, solve_rows
from unshuffle.model.nodes import SMALL_ROWS
from unshuffle.model.posterior import Target
from unshuffle.model.settings import MOST_LABELS

# Numbers of labels times atoms that are looked at together: 0.8 MB for each array of theirs.
_ROOM = 100_000
# Atoms so many sds off are wholly on one side of a label ...
_FAR = 9.0
# ... and those so many nats less likely than the nearest have no part in it.
_LEAST = 40.0


def measure_misfit(target: Target, theta: np.ndarray) -> float:
    """Return by how many nats the labels depart from the fitted distribution beyond chance.

    The place of each label in its bag's predicted mixture is uniform under the model; a likelihood
    ratio on about √n cells, less its mean and two standard deviations, measures the departure. A
    bin covers the places between those of its ends.
    """
    low, high, counts, _ = target.label_items()
    sigma = exp(target.split(theta)[1])
    places = np.empty((2, len(low)))
    small = target.small_bags(theta)
    if small is not None:
        z, offsets, ends = small
        for k, side in enumerate((low, high)):
            kernels.place_labels(z, offsets, side, ends, sigma, places[k])
    for own, atoms, shares in target.bag_distributions(theta):
        first, last = low[own] - _FAR * sigma, high[own] + _FAR * sigma
        for part, near in _cut(own, atoms, first, last):
            below = shares[: near.start].sum()
            for k, ends in enumerate((low[part], high[part])):
                inside = multiply(ndtr((ends[:, None] - atoms[near]) / sigma), shares[near])
                places[k, part] = below + inside
    n_cells = int(np.clip(sqrt(target.n), 4, 30))
    seen = _spread_over_cells(places, counts, n_cells)
    seen = seen[seen > 0.0]
    ratio = float((seen * np.log(seen * n_cells / seen.sum())).sum())
    ratio *= min(1.0, MOST_LABELS / float(counts.sum()))
    return max(0.0, ratio - 0.5 * (n_cells - 1) - 2.0 * sqrt(0.5 * (n_cells - 1)))


def _cut(
    part: slice, atoms: np.ndarray, first: np.ndarray, last: np.ndarray
) -> Iterator[tuple[slice, slice]]:
    """Yield some labels of a bag at a time, and the atoms between the least and the greatest end.

    The atoms of small bags stand in any order: there all count.
    """
    near, size = slice(0, len(atoms)), len(first)
    if len(atoms) > SMALL_ROWS:
        near = slice(*np.searchsorted(atoms, [first.min(), last.max()]).tolist())
    if size == 1 or size * (near.stop - near.start) <= _ROOM:
        yield part, near
        return
    middle = size // 2
    at = part.start + middle
    yield from _cut(slice(part.start, at), atoms, first[:middle], last[:middle])
    yield from _cut(slice(at, part.stop), atoms, first[middle:], last[middle:])


def _find_reach(y: np.ndarray, atoms: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return between which ends ascending atoms have a part in each label.

    They are at most so many nats less likely than the nearest.
    """
    right = np.searchsorted(atoms, y)
    before, after = atoms[np.maximum(right - 1, 0)], atoms[np.minimum(right, len(atoms) - 1)]
    nearest = np.minimum(np.abs(y - before), np.abs(y - after))
    reach = np.sqrt(nearest**2 + 2.0 * _LEAST * sigma**2)
    return y - reach, y + reach


def _spread_over_cells(places: np.ndarray, counts: np.ndarray, n_cells: int) -> np.ndarray:
    """Return the counts in equal cells of the unit interval; bins are spread between their ends."""
    low, high = places * n_cells
    is_point = high - low < 1e-9
    at = np.minimum(low[is_point].astype(int), n_cells - 1)
    seen = np.bincount(at, counts[is_point], n_cells).astype(float)
    low, high, counts = low[~is_point], high[~is_point], counts[~is_point]
    edges = np.arange(n_cells + 1)[:, None]
    below = np.clip((edges - low) / (high - low), 0.0, 1.0)
    seen += np.diff(multiply(below, counts))
    return seen


def _score(
    y: np.ndarray, atoms: np.ndarray, shares: np.ndarray, sigma: float, unit: float
) -> np.ndarray:
    """Return the scores (m, 4) of labels in shift, slope, noise and heteroscedasticity."""
    gap = (y[:, None] - atoms) / sigma
    logs = -0.5 * gap**2 + np.log(shares)
    owner = np.exp(logs - logs.max(axis=1, keepdims=True))
    owner /= owner.sum(axis=1, keepdims=True)
    excess, place = owner * (gap**2 - 1.0), atoms / unit
    return np.stack(
        [
            (owner * gap).sum(axis=1),
            multiply(owner * gap, place),
            excess.sum(axis=1),
            multiply(excess, place),
        ],
        axis=1,
    )


def measure_uneven(target: Target, theta: np.ndarray) -> float:
    """Return how many standard deviations of chance speak for noise that changes with z.

    The score of log σ(z) = s + h z at h = 0 in the mixture of the labels, with shift, slope and
    noise level projected out. With noise that grows as e^{.8 z} it was 3.5 at n = 150 and 4.4 at
    n = 1000, where the histogram of places showed nothing. Of 288 simulations of 5000 to 39 000
    rows that obey the model one was beyond 2.8 (`benchmarks/uneven.py --trials 8`). On 128
    quantiles of a bag's predictions, which lack the ends of their distribution, 18 were.
    """
    low, high, counts, _ = target.label_items()
    y = np.where(np.isinf(low), high, np.where(np.isinf(high), low, 0.5 * (low + high)))
    sigma = exp(target.split(theta)[1])
    unit = max(target.prediction_spread(theta), 1e-12)
    scores = np.empty((len(y), 4))
    small = target.small_bags(theta)
    if small is not None:
        z, offsets, ends = small
        kernels.score_labels(z, offsets, y, ends, sigma, unit, scores)
    for own, atoms, shares in target.bag_distributions(theta):
        for part, near in _cut(own, atoms, *_find_reach(y[own], atoms, sigma)):
            scores[part] = _score(y[part], atoms[near], shares[near], sigma, unit)
    root = np.sqrt(counts)
    known = solve_rows(scores[:, :3] * root[:, None], scores[:, 3] * root, 1e-12)[0]
    rest = scores[:, 3] - multiply(scores[:, :3], known)
    score = dot(counts, rest) / max(sqrt(dot(counts, rest * rest)), 1e-12)
    return score * sqrt(min(1.0, MOST_LABELS / float(counts.sum())))
