"""From the first pass over blocks to posteriors: of all rows, and of a sample that is searched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unshuffle.data.blocks.first_pass import FirstPass
from unshuffle.data.blocks.kept_rows import hold_rows
from unshuffle.data.blocks.label_cells import LabelCells
from unshuffle.data.blocks.row_sample import RowSample
from unshuffle.data.blocks.sources import ArraySource
from unshuffle.data.scaling import Scaling
from unshuffle.model.bag_means import BagMeans
from unshuffle.model.block_target import BlockTarget
from unshuffle.model.histogram_labels import HistogramShapes
from unshuffle.model.kept_bags import HeldBags, count_held, hold_bags
from unshuffle.model.settings import LOG_SIGMA_MIN, MOST_LABELS, Settings
from unshuffle.model.special_cases import Columns, split_noise
from unshuffle.model.within_bag import SAMPLED
from unshuffle.objectives.noise import Noise

# Labels closer than this (in spreads of all labels) are one: far below any noise that so many
# labels leave unknown, and a few thousand are left of a bag.
_SAME_LABEL = 1.0 / 512.0
# Bins of a bag's labels in the checks of the fit.
_BIN = 1.0 / 128.0
# A bag with fewer rows in the sample has no shape there.
_LEAST_SAMPLED = 20


def pose_blocks(
    first: FirstPass,
    scaling: Scaling,
    noise: Noise | None,
    options: Settings,
    n_jobs: int | None = None,
) -> tuple[BlockTarget, Columns] | None:
    """Return the posterior of all rows in standard units; None where no column or label varies."""
    has_intercept = scaling.has_intercept
    is_kept = scaling.scale > 0
    if not is_kept.any() or (has_intercept and np.ptp(first.label_ends) == 0):
        return None
    known, shift = split_noise(noise, LOG_SIGMA_MIN)
    means, squares, cubes = first.moments(scaling.centre, scaling.scale)
    kept = np.flatnonzero(is_kept)
    means, squares = means[:, kept], squares[:, kept][:, :, kept]
    shares, sizes = first.sizes / first.n, first.sizes.astype(float)
    covariance = np.einsum("r,rjk->jk", shares, squares)
    label_means = first.label_means(scaling.label_centre) / scaling.label_scale
    held = _hold(first, scaling, label_means, kept)
    third = np.empty((0, 0, 0))
    if options.curve_scale > 0.0 and len(sizes) > 1:
        third = _find_third(first, scaling, cubes, kept)
        third = third - np.einsum("r,rj->j", shares, means)[:, None, None] * covariance
    target = BlockTarget(
        rows=np.empty((len(kept), 0)),
        masses=np.empty(0),
        offsets=np.zeros(len(sizes) + 1, np.int64),
        bag_rows=means,
        bag_labels=label_means - (0.0 if has_intercept else shift),
        covariance=covariance,
        shapes=_lay_shapes(first, scaling, label_means, (means, squares), held),
        means=BagMeans(sizes, np.zeros(len(sizes)), np.zeros(len(sizes)), has_intercept, means),
        log_sigma=known,
        options=options,
        third=third,
        power=min(1.0, MOST_LABELS / first.n),
        n_jobs=n_jobs,
        source=first.source,
        kept=kept,
        centre=scaling.centre,
        factor=np.where(is_kept, 1.0 / np.where(is_kept, scaling.scale, 1.0), 0.0),
        bag_squares=squares,
        label_bins=_bin_labels(first.cells, scaling),
        held=held,
    )
    return target, Columns(is_kept, has_intercept, shift)


def _lay_shapes(
    first: FirstPass,
    scaling: Scaling,
    label_means: np.ndarray,
    moments: tuple[np.ndarray, np.ndarray],
    held: HeldBags | None,
) -> HistogramShapes:
    """Return the labels of all bags, centred in each, beside what is known of their rows."""
    values, masses, offsets = _merge_near(first.cells, scaling, _SAME_LABEL)
    values -= np.repeat(label_means, np.diff(offsets))
    sizes, n_held = first.sizes.astype(float), 0 if held is None else len(held)
    factors = (sizes > 1).astype(float)
    return HistogramShapes(values, masses, offsets, sizes, factors, *moments, n_held)


def pose_sample(target: BlockTarget, sample: RowSample) -> BlockTarget:
    """Return the posterior of the sampled rows: shapes count less, the means of bags are exact.

    Rows of a sample stand for others, so that their law is known only as well as they tell it: they
    count as separate samples do.
    """
    rows = (sample.rows - target.centre) * target.factor
    rows = rows[:, target.kept]
    n_bags, counts = target.n_bags, sample.counts.astype(float)
    totals = np.bincount(sample.codes, counts, n_bags)
    n_rows = np.bincount(sample.codes, minlength=n_bags)
    per = np.maximum(totals, 1.0)
    means = np.stack(
        [np.bincount(sample.codes, counts * column, n_bags) for column in rows.T], axis=1
    )
    squares = np.stack(
        [
            np.bincount(sample.codes, counts * left * right, n_bags)
            for left in rows.T
            for right in rows.T
        ],
        axis=1,
    )
    p = rows.shape[1]
    shapes = target.shapes
    is_told = (n_rows >= _LEAST_SAMPLED) & (shapes.factors > 0)
    source = ArraySource(
        sample.rows, np.zeros(len(rows)), sample.codes, n_bags, None, sample.counts
    )
    return replace(
        target,
        source=source,
        held=None,
        power=min(1.0, SAMPLED * len(rows) / target.n),
        shapes=replace(
            shapes,
            n_held=0,
            factors=np.where(is_told, shapes.sizes / per, 0.0),
            row_means=means / per[:, None],
            row_squares=(squares / per[:, None]).reshape(n_bags, p, p),
        ),
    )


def _hold(
    first: FirstPass, scaling: Scaling, label_means: np.ndarray, kept: np.ndarray
) -> HeldBags | None:
    """Return the small bags with their rows and labels; None where there are none."""
    n_held = count_held(first.sizes, first.source.d)
    if n_held == 0:
        return None
    rows, labels = hold_rows(first.source, np.arange(len(first.sizes)) < n_held)
    sizes = first.sizes[:n_held]
    rows = (rows[:, kept] - scaling.centre[kept]) / scaling.scale[kept]
    labels = (labels - scaling.label_centre) / scaling.label_scale
    return hold_bags(rows, labels - np.repeat(label_means[:n_held], sizes), sizes)


def _merge_near(
    cells: LabelCells, scaling: Scaling, width: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return standardised labels with masses, those closer than a width as one, and offsets."""
    means, counts, lengths = [], [], [np.zeros(1, np.int64)]
    for some in cells.divide():
        values = some.moved(scaling.label_centre, scaling.label_scale)
        firsts, offsets = _group(some, np.floor(values / width))
        masses = np.add.reduceat(some.counts, firsts).astype(float)
        means.append(np.add.reduceat(values * some.counts, firsts) / masses)
        counts.append(masses)
        lengths.append(np.diff(offsets))
    return np.concatenate(means), np.concatenate(counts), np.cumsum(np.concatenate(lengths))


def _bin_labels(
    cells: LabelCells, scaling: Scaling
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ends and counts of standardised labels, in bins a 128th of a spread wide."""
    lows, highs, counts, lengths = [], [], [], [np.zeros(1, np.int64)]
    for some in cells.divide():
        values = some.moved(scaling.label_centre, scaling.label_scale)
        firsts, offsets = _group(some, np.floor(values / _BIN))
        lasts = np.append(firsts[1:], len(values)) - 1
        lows.append(some.lows[firsts])
        highs.append(some.highs[lasts])
        counts.append(np.add.reduceat(some.counts, firsts).astype(float))
        lengths.append(np.diff(offsets))
    low, high = (
        (np.concatenate(ends) - scaling.label_centre) / scaling.label_scale
        for ends in (lows, highs)
    )
    return low, high, np.concatenate(counts), np.cumsum(np.concatenate(lengths))


def _group(cells: LabelCells, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where runs of equal keys inside bags begin, and the bags' offsets among the runs."""
    bag = cells.bag_of_cell
    firsts = np.flatnonzero(np.append(True, (np.diff(keys) != 0) | (np.diff(bag) != 0)))
    n_bags = len(cells.offsets) - 1
    return firsts, np.concatenate([[0], np.cumsum(np.bincount(bag[firsts], minlength=n_bags))])


def _find_third(
    first: FirstPass, scaling: Scaling, cubes: np.ndarray, kept: np.ndarray
) -> np.ndarray:
    """Return the pooled third moments, of many columns those of the sample."""
    if cubes.size:
        return cubes[np.ix_(kept, kept, kept)]
    sample = first.sample
    rows = ((sample.rows - scaling.centre)[:, kept]) / scaling.scale[kept]
    shares = sample.counts / sample.counts.sum()
    return np.stack([np.einsum("i,ik,il->kl", shares * column, rows, rows) for column in rows.T])
