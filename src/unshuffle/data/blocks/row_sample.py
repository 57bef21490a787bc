"""A bottom-k sample (Cohen and Kaplan 2007): the distinct rows of lowest hash.

It is the same for every order and division of the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unshuffle.data.blocks.sources import Block, ScanningSource, Source, collect_rows

# Distinct rows for the mode search. With many bags their means help: more rows find no better
# start, and the climb uses all rows. With few bags the within-bag likelihood has dozens of
# modes, and telling them apart needs a larger sample.
SAMPLE_ROWS, FEW_BAGS, SAMPLE_ROWS_OF_FEW = 20_000, 8, 1 << 17
# Number of rows furthest from the centre that a sample of few bags always holds, and the parts of a
# row in which masses are counted.
FAR_ROWS, PARTS_OF_ROW = 1 << 15, 16
# Expected rows below the first limit in sizes of the sample; the most rows that a source lists.
_AMPLE, MOST_LISTED = 1.25, 1 << 19
_HIGHEST = 2**64 - 1


@dataclass(frozen=True, eq=False)
class RowSample:
    """Distinct rows with the lowest hashes, their bags, and their frequencies in the data."""

    hashes: np.ndarray
    codes: np.ndarray
    rows: np.ndarray
    counts: np.ndarray


def count_sampled(n_bags: int) -> int:
    """Return the size of the sample for a number of bags.

    >>> [count_sampled(n_bags) for n_bags in (1, 20)]
    [131072, 20000]
    """
    return SAMPLE_ROWS_OF_FEW if n_bags < FEW_BAGS else SAMPLE_ROWS


def guess_limit(n: int, wanted: int) -> int:
    """Return a limit with slightly more than the wanted number of hashes below it."""
    return min(int(_AMPLE * wanted / n * 2.0**64), _HIGHEST)


def is_complete(sample: RowSample, wanted: int, limit: int) -> bool:
    """Whether a sample of rows below a limit is that of all rows."""
    return len(sample.hashes) >= wanted or limit == _HIGHEST


def sample_listed_rows(source: ScanningSource, seed: int, wanted: int) -> RowSample | None:
    """Return the sample of a source that lists rows of low hashes; None where too many are equal.

    The lowest hashes do not depend on the limit.
    """
    limit = guess_limit(source.n, wanted)
    while True:
        found = source.find_rows(seed, limit, MOST_LISTED)
        if found is None:
            return None
        sample = keep_lowest([RowSample(*found, np.ones(len(found[0]), np.int64))], wanted)
        if is_complete(sample, wanted, limit):
            return sample
        limit = min(4 * limit, _HIGHEST)


def add_far(sample: RowSample, source: Source, centre: np.ndarray, factor: np.ndarray) -> RowSample:
    """Return the sample with all rows far from the centre, with counts in 1/16 of a row.

    A random sample lacks the tails of the rows, so labels in the tails are far from any prediction.
    With little noise a few of them cost hundreds of nats each, which biases the noise upwards.
    """
    apart = _measure(sample.rows, centre, factor)
    limit = float(np.quantile(apart, max(0.0, 1.0 - FAR_ROWS / source.n)))

    def find_far(block: Block) -> np.ndarray:
        return np.flatnonzero(_measure(block.X, centre, factor) > limit)

    codes, rows, _ = collect_rows(source, find_far, needs_labels=False)
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
    """Return the squared distance of rows from a centre, summed column by column."""
    apart = np.zeros(len(rows))
    for j in range(rows.shape[1]):
        apart += ((rows[:, j] - centre[j]) * factor[j]) ** 2
    return apart


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
        # Twice as many as wanted are enough unless rows repeat.
        few = 2 * wanted
        if len(hashes) > few:
            lowest = np.partition(hashes, few)[:few]
            if len(np.unique(lowest)) >= wanted:
                highest = lowest.max()
    keep = np.flatnonzero(hashes <= highest)
    return RowSample(hashes[keep], codes[keep], rows[keep], np.ones(len(keep), np.int64))


def keep_lowest(parts: list[RowSample], wanted: int) -> RowSample:
    """Merge samples: equal rows of a bag are counted together, and the lowest hashes are kept."""
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
    # All rows of one hash are kept, or none.
    kept = len(hashes)
    if kept > wanted:
        kept = int(np.searchsorted(hashes, hashes[wanted - 1], side="right"))
    return RowSample(hashes[:kept], codes[:kept], rows[:kept], counts[:kept])


def _order_rows(hashes: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the order of rows by hash, then bag, then content."""
    order = np.argsort(hashes, kind="stable")
    if (np.diff(hashes[order]) > 0).all():
        return order
    # Ten times as slow; needed only where rows repeat.
    return np.lexsort([*rows.T[::-1], codes, hashes])


def renumber(sample: RowSample, numbers: np.ndarray) -> RowSample:
    """Return the sample with other numbers of bags, in the order of these."""
    codes = numbers[sample.codes]
    order = _order_rows(sample.hashes, codes, sample.rows)
    return RowSample(sample.hashes[order], codes[order], sample.rows[order], sample.counts[order])
