"""From standardised bags to their posterior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unshuffle.data.bags import Bags
from unshuffle.model.bag_means import AnchoredMeans, BagMeans
from unshuffle.model.posterior import Target
from unshuffle.model.settings import LOG_SIGMA_MIN, Settings
from unshuffle.model.special_cases import Columns, split_noise
from unshuffle.model.within_bag import PairedShapes, Shapes, make_shapes
from unshuffle.objectives.noise import Noise


def pose(
    bags: Bags,
    has_intercept: bool,
    noise: Noise | None,
    options: Settings,
    n_jobs: int | None = None,
) -> tuple[Target, Columns, Bags] | None:
    """Return the posterior of standardised bags, its columns, and the bags less the noise's mean.

    With an intercept the last column of the bags is ones. None where no column or no label varies.
    """
    p = bags.d - has_intercept
    is_kept = np.asarray(bags.X[:, :p].any(axis=0))
    if not is_kept.any() or (has_intercept and np.ptp(bags.y) == 0):
        return None
    known, shift = split_noise(noise, LOG_SIGMA_MIN)
    if not has_intercept:
        bags = bags.mapped(bags.X, shift, 1.0)
    target = make_target(bags, np.flatnonzero(is_kept), has_intercept, noise, options)
    return (
        replace(target, log_sigma=known, n_jobs=n_jobs),
        Columns(is_kept, has_intercept, shift),
        bags,
    )


def make_target(
    bags: Bags,
    kept: np.ndarray,
    has_intercept: bool,
    noise: Noise | None,
    options: Settings,
) -> Target:
    """Split standardised data into bag means and deviations from them; the noise is unknown."""
    stats = bags.statistics
    rows = np.ascontiguousarray(bags.columns[kept])
    masses = np.ascontiguousarray(bags.rows.masses)
    shapes = make_shapes(bags, noise)
    weights = np.full(bags.n, 1.0 / bags.n) if stats.row_weights is None else stats.row_weights
    third = np.empty((0, 0, 0))
    if options.curve_scale > 0.0 and bags.n_bags > 1:
        # cov(x, x xᵀ): without an intercept the rows have a mean.
        gram, mean = stats.gram[np.ix_(kept, kept)], (rows * weights).sum(axis=1)
        third = np.einsum("ji,ki,li->jkl", rows * weights, rows, rows)
        third -= mean[:, None, None] * gram
    return Target(
        rows=rows,
        masses=masses,
        offsets=np.ascontiguousarray(bags.offsets, dtype=np.int64),
        bag_rows=np.ascontiguousarray(stats.row_means[:, kept]),
        bag_labels=stats.label_means,
        covariance=stats.gram[np.ix_(kept, kept)],
        shapes=shapes,
        means=_make_means(bags, shapes, has_intercept, kept),
        log_sigma=None,
        options=options,
        third=third,
        has_level=has_intercept and not shapes.is_centred,
        original_bags=bags.original_bags,
        is_mean=None if bags.known_means is None else bags.known_means.is_mean,
    )


def _make_means(bags: Bags, shapes: Shapes, has_intercept: bool, kept: np.ndarray) -> BagMeans:
    """Return the distribution of the bag means."""
    m, n = (np.asarray(each, dtype=float) for each in (bags.statistics.m, bags.statistics.n))
    fixed, factors = np.zeros(len(m)), np.zeros(len(m))
    if isinstance(shapes, PairedShapes):
        fixed, factors = shapes.spreads / m, bags.pairing.row_factors(n, m)
    is_free = has_intercept and shapes.is_centred
    rows = bags.statistics.row_means[:, kept]
    if bags.original_bags is None:
        return BagMeans(m, fixed, factors, is_free, rows)
    return AnchoredMeans(m, fixed, factors, is_free, rows, original_bags=bags.original_bags)
