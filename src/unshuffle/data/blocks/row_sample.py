"""A bottom-k sample (Cohen and Kaplan 2007): the distinct rows of lowest hash.

It is the same for every order and division of the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unshuffle.data.blocks.histogram_source import ScanningSource
from unshuffle.data.blocks.sources import Block, Source

# Distinct rows that the search for answers works on. Where the means of bags help, more find no
# better start, and the climb on all rows decides. The within-bag likelihood alone has dozens of
# modes, which are told apart, and sampled at the power of intervals, on a larger sample.
SAMPLE_ROWS, FEW_BAGS, SAMPLE_ROWS_OF_FEW = 20_000, 8, 1 << 17
# Rows furthest from the middle that stand in a sample of few bags one and all, about so many, and
# the parts of a row that masses are counted in.
FAR_ROWS, PARTS_OF_ROW = 1 << 15, 16
# How many more rows than wanted have hashes below the limit that is tried first; and the most that
# a source lists at once.
_AMPLE, MOST_LISTED = 1.25, 1 << 19
_HIGHEST = 2**64 - 1


@dataclass(frozen=True, eq=False)
class RowSample:
    """Distinct rows with the lowest hashes: their bags, and how often each stands in the data."""

    hashes: np.ndarray
    codes: np.ndarray
    rows: np.ndarray
    counts: np.ndarray


def count_sampled(n_bags: int) -> int:
    """Return how many rows are sampled of so many bags.

    >>> [count_sampled(n_bags) for n_bags in (1, 20)]
    [131072, 20000]
    """
    return SAMPLE_ROWS_OF_FEW if n_bags < FEW_BAGS else SAMPLE_ROWS


def guess_limit(n: int, wanted: int) -> int:
    """Return a hash that a few more rows than wanted lie below, unless rows repeat."""
    return min(int(_AMPLE * wanted / n * 2.0**64), _HIGHEST)


def is_whole(sample: RowSample, wanted: int, limit: int) -> bool:
    """Whether a sample of rows below a limit is that of all rows."""
    return len(sample.hashes) >= wanted or limit == _HIGHEST


def sample_at_once(source: ScanningSource, seed: int, wanted: int) -> RowSample | None:
    """Return the sample of a source that lists rows of low hashes; None where too many are equal.

    Whatever the limit, the lowest hashes are the same.
    """
    limit = guess_limit(source.n, wanted)
    while True:
        found = source.find_rows(seed, limit, MOST_LISTED)
        if found is None:
            return None
        sample = keep_lowest([RowSample(*found, np.ones(len(found[0]), np.int64))], wanted)
        if is_whole(sample, wanted, limit):
            return sample
        limit = min(4 * limit, _HIGHEST)


def add_far(sample: RowSample, source: Source, centre: np.ndarray, factor: np.ndarray) -> RowSample:
    """Return the sample with all rows that are far from the middle, in counts of 1/16 of a row.

    A sample lacks the ends of its distribution, so labels there are far from any prediction. With
    little noise a few in a million cost hundreds of nats each, and pass for more noise. (One bag of
    10⁶ rows, five lognormal columns, 1661 labels: halving the noise erred by 6 nats, now by .4.)
    """
    apart = _measure(sample.rows, centre, factor)
    limit = float(np.quantile(apart, max(0.0, 1.0 - FAR_ROWS / source.n)))
    codes, rows = _find_far(source, centre, factor, limit)
    near = np.flatnonzero(apart <= limit)
    n_near = int(sample.counts[near].sum())
    mass = round(PARTS_OF_ROW * (source.n - len(rows)) / n_near)
    return RowSample(
        np.append(sample.hashes[near], np.full(len(rows), sample.hashes[-1])),
        np.append(sample.codes[near], codes),
        np.concatenate([sample.rows[near], rows]),
        np.append(mass * sample.counts[near], np.full(len(rows), PARTS_OF_ROW)),
    )


def _measure(rows: np.ndarray, centre: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return the squared distance of rows from a centre, column by column: the same bits always."""
    apart = np.zeros(len(rows))
    for j in range(rows.shape[1]):
        apart += ((rows[:, j] - centre[j]) * factor[j]) ** 2
    return apart


def _find_far(
    source: Source, centre: np.ndarray, factor: np.ndarray, limit: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return bags and rows beyond a squared distance, in an order that no block decides."""
    d = source.d

    def start() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(np.empty(0, np.int64), np.empty((0, d)))]

    def add(total: list[tuple[np.ndarray, np.ndarray]], block: Block) -> None:
        far = np.flatnonzero(_measure(block.X, centre, factor) > limit)
        total.append((block.codes[far].astype(np.int64), block.X[far] + 0.0))

    def merge(
        total: list[tuple[np.ndarray, np.ndarray]], other: list[tuple[np.ndarray, np.ndarray]]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        return total + other

    parts = source.map_reduce(start, add, merge, needs_labels=False)
    codes, rows = (np.concatenate([part[k] for part in parts]) for k in range(2))
    order = np.lexsort([*rows.T[::-1], codes])
    return codes[order], rows[order]


def select_rows(
    sample: RowSample,
    hashes: np.ndarray,
    codes: np.ndarray,
    rows: np.ndarray,
    wanted: int,
    limit: int,
) -> RowSample:
    """Return the rows of a block that may belong to the sample, whose hashes are below a limit."""
    highest = np.uint64(limit)
    if len(sample.hashes) >= wanted:
        highest = min(highest, sample.hashes[-1])
    elif limit == _HIGHEST:
        # Twice as many as wanted are enough unless rows repeat; then all are looked at.
        few = 2 * wanted
        if len(hashes) > few:
            lowest = np.partition(hashes, few)[:few]
            if len(np.unique(lowest)) >= wanted:
                highest = lowest.max()
    keep = np.flatnonzero(hashes <= highest)
    return RowSample(hashes[keep], codes[keep], rows[keep], np.ones(len(keep), np.int64))


def keep_lowest(parts: list[RowSample], wanted: int) -> RowSample:
    """Merge samples: equal rows of a bag are one, and the lowest hashes stay."""
    hashes = np.concatenate([part.hashes for part in parts])
    codes = np.concatenate([part.codes for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    order = _order_rows(hashes, codes, rows)
    hashes, codes, rows, counts = hashes[order], codes[order], rows[order], counts[order]
    is_new = np.ones(len(hashes), dtype=bool)
    is_new[1:] = (hashes[1:] != hashes[:-1]) | (codes[1:] != codes[:-1])
    is_new[1:] |= (rows[1:] != rows[:-1]).any(axis=1)
    firsts = np.flatnonzero(is_new)
    counts = np.add.reduceat(counts, firsts) if len(firsts) else counts
    hashes, codes, rows = hashes[firsts], codes[firsts], rows[firsts]
    # A hash stays or goes as a whole, whatever bags its rows lie in.
    kept = len(hashes)
    if kept > wanted:
        kept = int(np.searchsorted(hashes, hashes[wanted - 1], side="right"))
    return RowSample(hashes[:kept], codes[:kept], rows[:kept], counts[:kept])


def _order_rows(hashes: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the order of hashes; bags and rows decide where these are equal."""
    order = np.argsort(hashes, kind="stable")
    if (np.diff(hashes[order]) > 0).all():
        return order
    # Ten times as slow, and needed only where rows repeat.
    return np.lexsort([*rows.T[::-1], codes, hashes])


def renumber(sample: RowSample, numbers: np.ndarray) -> RowSample:
    """Return the sample in an order that no name of a bag decides."""
    codes = numbers[sample.codes]
    order = _order_rows(sample.hashes, codes, sample.rows)
    return RowSample(sample.hashes[order], codes[order], sample.rows[order], sample.counts[order])
