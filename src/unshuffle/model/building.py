"""From standardised bags to their posterior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unshuffle.data.bags import Bags
from unshuffle.model.bag_means import AnchoredMeans, BagMeans
from unshuffle.model.kept_bags import KeptBags, KeptWithinBag
from unshuffle.model.mean_function import open_terms
from unshuffle.model.posterior import Target
from unshuffle.model.settings import LOG_SIGMA_MIN, Settings
from unshuffle.model.special_cases import Columns, split_noise
from unshuffle.model.within_bag import WithinBag, has_shaped_noise, pair_within_bag
from unshuffle.objectives.noise import Noise


def build_target(
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
    gram, means = stats.gram[np.ix_(kept, kept)], stats.row_means[:, kept]
    within_bag: WithinBag
    if bags.is_plain and not has_shaped_noise(bags, noise):
        within_bag = keep_bags(rows, bags.y, stats.label_means, bags.offsets)
        fixed = factors = np.zeros(bags.n_bags)
    else:
        within_bag = pair_within_bag(bags, noise, kept)
        fixed, factors = within_bag.spreads / within_bag.label_totals, within_bag.factors
    is_curved = options.curve_scale > 0.0 and bags.n_bags > 1
    m = np.asarray(stats.m, dtype=float)
    is_free = has_intercept and within_bag.is_centred
    given = (m, fixed, factors, is_free, means)
    return Target(
        bag_rows=np.ascontiguousarray(means),
        bag_labels=stats.label_means,
        covariance=gram,
        within_bag=within_bag,
        means=(
            BagMeans(*given)
            if bags.original_bags is None
            else AnchoredMeans(*given, original_bags=bags.original_bags)
        ),
        log_sigma=None,
        options=options,
        known_terms=open_terms(rows, bags, gram) if is_curved else (),
        has_level=has_intercept and not within_bag.is_centred,
        original_bags=bags.original_bags,
        is_mean=None if bags.known_means is None else bags.known_means.is_mean,
    )


def keep_bags(
    rows: np.ndarray, y: np.ndarray, label_means: np.ndarray, offsets: np.ndarray
) -> KeptWithinBag:
    """Return what rows (p, n) and labels of bags say under Gaussian noise."""
    centred = y - np.repeat(label_means, np.diff(offsets))
    return KeptWithinBag(KeptBags(rows, centred, np.ascontiguousarray(offsets, dtype=np.int64)))
