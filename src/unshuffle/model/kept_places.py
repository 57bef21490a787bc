"""The labels of held bags under their predictions, all at once: see `model.goodness_of_fit`."""

from __future__ import annotations

from math import exp

import numpy as np

from unshuffle import kernels
from unshuffle.model.block_target import BlockTarget
from unshuffle.model.posterior import Target

# What was asked of the target: how its labels lie, one number each.
_Bags = tuple[np.ndarray, np.ndarray, np.ndarray]


def place_held(
    target: Target, theta: np.ndarray, ends: tuple[np.ndarray, np.ndarray], places: np.ndarray
) -> None:
    """Fill the places of both ends of labels (2, n) in bags that `bag_laws` leaves out."""
    bags = _find_bags(target, theta)
    if bags is None:
        return
    z, offsets, label_offsets = bags
    sigma = exp(target.split(theta)[1])
    low, high = ends
    kernels.place_labels(z, offsets, low, label_offsets, sigma, places[0])
    stop = label_offsets[-1]
    if np.array_equal(low[:stop], high[:stop]):
        places[1, :stop] = places[0, :stop]
        return
    kernels.place_labels(z, offsets, high, label_offsets, sigma, places[1])


def score_held(
    target: Target, theta: np.ndarray, y: np.ndarray, unit: float, scores: np.ndarray
) -> None:
    """Fill the scores (n, 4) of labels in bags that `bag_laws` leaves out."""
    bags = _find_bags(target, theta)
    if bags is not None:
        z, offsets, label_offsets = bags
        sigma = exp(target.split(theta)[1])
        kernels.score_labels(z, offsets, y, label_offsets, sigma, unit, scores)


def _find_bags(target: Target, theta: np.ndarray) -> _Bags | None:
    """Return predictions of small held bags, and where those and their labels begin."""
    if not isinstance(target, BlockTarget) or target.held is None:
        return None
    n_bags = target.held.n_small
    z = target.predict_held(theta, slice(0, n_bags))
    return z, target.held.offsets[: n_bags + 1], target.label_bins[3][: n_bags + 1]
