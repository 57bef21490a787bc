"""From the first pass over blocks to posteriors: of all rows, and of a sample that is searched."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unshuffle.core.mean_function import TERMS
from unshuffle.data.blocks.first_pass import FirstPass
from unshuffle.data.blocks.label_cells import LabelCells
from unshuffle.data.blocks.row_sample import RowSample
from unshuffle.data.blocks.sources import ArraySource, collect_rows
from unshuffle.data.scaling import Scaling
from unshuffle.model.bag_means import BagMeans
from unshuffle.model.block_likelihood import BlockWithinBag
from unshuffle.model.kept_bags import KeptBags
from unshuffle.model.mean_function import OpenTerm
from unshuffle.model.posterior import Target
from unshuffle.model.settings import LOG_SIGMA_MIN, MOST_LABELS, Settings
from unshuffle.model.special_cases import Columns, split_noise
from unshuffle.model.within_bag import SAMPLED
from unshuffle.objectives.noise import Noise

# Larger bags are counted in cells, smaller ones are kept: 5000 rows take 130 μs a point, as their
# cells do, and their values are smooth. (In cells all steps of a climb were taken at 50 000 rows:
# at full power a mode's last steps gain less than values waver.) A histogram of
# hundreds of cells for each of thousands of bags would cost more than their rows.
KEPT_ROWS = 8192
# Bytes of all rows and labels that are kept: bags beyond, the largest, are counted in cells.
KEPT_BYTES = 240e6


@dataclass(frozen=True)
class BuildingSettings:
    """Labels and sampled rows of data in blocks.

    Attributes
    ----------
    same_label : float
        Labels closer than this, in sds of all labels, are one: far below any noise that so many
        labels leave unknown, and a few thousand are left of a bag.
    least_sampled : int
        A bag with fewer rows in the sample has no within-bag likelihood there.
    """

    same_label: float = 1.0 / 512.0
    least_sampled: int = 20


BUILDING = BuildingSettings()


def build_blocks(
    first: FirstPass,
    scaling: Scaling,
    noise: Noise | None,
    options: Settings,
    n_jobs: int | None = None,
) -> tuple[Target, BlockWithinBag, Columns] | None:
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
    terms: tuple[OpenTerm, ...] = ()
    if options.curve_scale > 0.0 and len(sizes) > 1:
        third = _find_third(first, scaling, cubes, kept)
        third = third - np.einsum("r,rj->j", shares, means)[:, None, None] * covariance
        # A pass adds up moments of no higher order.
        squared = [each for each in TERMS if each.degree == 2]
        terms = tuple(OpenTerm(each, squares, covariance, third) for each in squared)
    values, masses, offsets = _merge_near(first.cells, scaling, BUILDING.same_label)
    values -= np.repeat(label_means, np.diff(offsets))
    within_bag = BlockWithinBag(
        source=first.source,
        columns=kept,
        centre=scaling.centre,
        factor=np.where(is_kept, 1.0 / np.where(is_kept, scaling.scale, 1.0), 0.0),
        covariance=covariance,
        values=values,
        masses=masses,
        cell_offsets=offsets,
        sizes=sizes,
        counts=(sizes > 1).astype(float),
        row_means=means,
        row_squares=squares,
        label_bins=_bin_labels(first.cells, scaling),
        kept=_keep_small(first, scaling, label_means, kept),
    )
    target = Target(
        bag_rows=means,
        bag_labels=label_means - (0.0 if has_intercept else shift),
        covariance=covariance,
        within_bag=within_bag,
        means=BagMeans(sizes, np.zeros(len(sizes)), np.zeros(len(sizes)), has_intercept, means),
        log_sigma=known,
        options=options,
        known_terms=terms,
        power=min(1.0, MOST_LABELS / first.n),
        n_jobs=n_jobs,
    )
    return target, within_bag, Columns(is_kept, has_intercept, shift)


def build_sample(target: Target, all_rows: BlockWithinBag, sample: RowSample) -> Target:
    """Return the posterior of the sampled rows: at a lower power, with exact means of bags.

    Rows of a sample stand for others, so that their distribution is known only as well as they tell
    it: they count as separate samples do.
    """
    rows = (sample.rows - all_rows.centre) * all_rows.factor
    rows = rows[:, all_rows.columns]
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
    is_told = (n_rows >= BUILDING.least_sampled) & (all_rows.counts > 0)
    source = ArraySource(
        sample.rows, np.zeros(len(rows)), sample.codes, n_bags, None, sample.counts
    )
    within_bag = replace(
        all_rows,
        source=source,
        kept=_keep_none(p),
        counts=np.where(is_told, all_rows.sizes / per, 0.0),
        row_means=means / per[:, None],
        row_squares=(squares / per[:, None]).reshape(n_bags, p, p),
    )
    return replace(target, within_bag=within_bag, power=min(1.0, SAMPLED * len(rows) / target.n))


def _keep_none(p: int) -> KeptBags:
    """Return no bags."""
    return KeptBags(np.empty((p, 0)), np.empty(0), np.zeros(1, np.int64))


def _keep_small(
    first: FirstPass, scaling: Scaling, label_means: np.ndarray, kept: np.ndarray
) -> KeptBags:
    """Return the small bags, which are the first, with their rows and labels."""
    sizes = first.sizes
    is_kept = (sizes <= KEPT_ROWS) & (8.0 * (first.source.d + 1) * np.cumsum(sizes) <= KEPT_BYTES)
    n_kept = int(is_kept.sum())
    if n_kept == 0:
        return _keep_none(len(kept))
    _, rows, labels = collect_rows(first.source, lambda block: np.flatnonzero(block.codes < n_kept))
    rows = (rows[:, kept] - scaling.centre[kept]) / scaling.scale[kept]
    labels = (labels - scaling.label_centre) / scaling.label_scale
    labels -= np.repeat(label_means[:n_kept], sizes[:n_kept])
    offsets = np.concatenate([[0], np.cumsum(sizes[:n_kept])]).astype(np.int64)
    return KeptBags(np.ascontiguousarray(rows.T), labels, offsets)


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
    """Return ends and counts of standardised labels, in bins as wide as labels are told apart."""
    lows, highs, counts, lengths = [], [], [], [np.zeros(1, np.int64)]
    for some in cells.divide():
        values = some.moved(scaling.label_centre, scaling.label_scale)
        firsts, offsets = _group(some, np.floor(values / BUILDING.same_label))
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
