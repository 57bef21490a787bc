"""The first pass over data in blocks: moments, extremes, label cells and a sample of rows.

Moments are sums of whole numbers (shares of a column's reach in units of 2⁻⁴² at a million rows).
They are as exact as sums of doubles, and the same for any order, blocks and number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import ceil, log2

import numpy as np

from unshuffle import kernels
from unshuffle.data.blocks.label_cells import LabelCells, find_cells, join_cells, locate_bags
from unshuffle.data.blocks.row_sample import (
    RowSample,
    count_sampled,
    guess_limit,
    is_complete,
    keep_lowest,
    renumber,
    sample_listed_rows,
    select_rows,
)
from unshuffle.data.blocks.sources import Block, Source
from unshuffle.errors import InputError
from unshuffle.progress import Report, say_nothing

# The smallest normal number: 1/size of anything less overflows, or has lost its digits.
_LEAST_REACH = float(np.finfo(float).tiny)
# Rows that are hashed at a time, to keep intermediate arrays small.
_HASHED_ROWS = 1 << 13
# Most waiting rows, in sizes of the sample: more than lie below the limit tried first.
_MOST_WAITING = 1.5


@dataclass(frozen=True, eq=False)
class FirstPass:
    """The results of the first pass: bags in canonical order, in the user's units.

    Moments are of t = (x − base)/reach: `first` (R, d) and `second` (R, d, d) means of each bag,
    `third` (d, d, d) of all. `source` has the bags in this order.
    """

    source: Source
    sizes: np.ndarray
    column_ends: np.ndarray
    base: np.ndarray
    reach: np.ndarray
    first: np.ndarray
    second: np.ndarray
    third: np.ndarray
    label_ends: np.ndarray
    cells: LabelCells
    label_mean: float
    label_base: float
    label_square: float
    sample: RowSample
    # The place here of each bag of the original source.
    numbers: np.ndarray

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.sizes.sum())

    @property
    def mean(self) -> np.ndarray:
        """The mean of every column."""
        return self.base + self.reach * self._pool(self.first)

    def label_means(self, centre: float) -> np.ndarray:
        """Return the mean label of every bag, less a centre."""
        below = self.cells.moved(centre, 1.0) * self.cells.counts
        return np.add.reduceat(below, self.cells.offsets[:-1]) / self.sizes

    def spreads(self, centre: np.ndarray) -> np.ndarray:
        """Return the root mean square of every column about a centre."""
        gap = np.divide(self.base - centre, self.reach, where=self.reach > 0, out=0 * self.reach)
        square = np.einsum("jj->j", self._pool(self.second))
        square = square + 2.0 * gap * self._pool(self.first) + gap**2
        return self.reach * np.sqrt(np.maximum(square, 0.0))

    def label_spread(self, centre: float) -> float:
        """Return the root mean square of the labels about a centre."""
        reach = self.label_reach
        if reach == 0.0:
            return abs(self.label_base - centre)
        gap = (self.label_base - centre) / reach
        middle = (self.label_mean - self.label_base) / reach
        return reach * float(np.sqrt(max(self.label_square + 2.0 * gap * middle + gap**2, 0.0)))

    def without_labels(self) -> FirstPass:
        """Return the same without label cells, which take a third of the memory of the data."""
        nothing = np.empty(0)
        offsets = np.zeros(len(self.sizes) + 1, np.int64)
        return replace(self, cells=LabelCells(offsets, *[nothing] * 6))

    @property
    def label_reach(self) -> float:
        """How far labels lie from their base."""
        return float(np.abs(self.label_ends - self.label_base).max())

    def moments(
        self, centre: np.ndarray, scale: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return moments of s = (x − centre)/scale: means and squares of bags, cubes of all.

        Columns of scale zero have none.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            grow = np.where(scale > 0, self.reach / scale, 0.0)
            move = np.where(scale > 0, (self.base - centre) / scale, 0.0)
        mean = grow * self.first + move
        cross = grow * self.first
        square = grow[:, None] * grow * self.second
        square += cross[:, :, None] * move + move[:, None] * cross[:, None, :]
        square += move[:, None] * move
        return mean, square, self._cube(grow, move)

    def _cube(self, grow: np.ndarray, move: np.ndarray) -> np.ndarray:
        if not self.third.size:
            return self.third
        one, two = grow * self._pool(self.first), grow[:, None] * grow * self._pool(self.second)
        cube = np.einsum("j,k,l,jkl->jkl", grow, grow, grow, self.third)
        for pair, single in (("jk", "l"), ("jl", "k"), ("kl", "j")):
            cube += np.einsum(f"{pair},{single}->jkl", two, move)
        for single, left, right in (("j", "k", "l"), ("k", "j", "l"), ("l", "j", "k")):
            cube += np.einsum(f"{single},{left},{right}->jkl", one, move, move)
        return cube + np.einsum("j,k,l->jkl", move, move, move)

    def _pool(self, means: np.ndarray) -> np.ndarray:
        """Return the mean over all rows of means over bags."""
        shares = self.sizes / self.n
        return np.einsum("r,r...->...", shares, means)


def make_first_pass(
    source: Source, seed: int, report: Report = say_nothing, has_cubes: bool = True
) -> FirstPass:
    """Make the first pass: two passes over all rows, and a few over the labels.

    Without cubes there are no third moments, which take most of the second pass.
    """
    ends = _find_ends(source, seed, report)
    sample = ends.sample
    base = np.median(sample.rows, axis=0)
    reach = np.abs(ends.columns - base[:, None]).max(axis=1)
    label_base = float(0.5 * (ends.labels.min() + ends.labels.max()))
    _check_reach(reach, float(np.abs(ends.labels - label_base).max()))
    unit = float(2 ** (62 - ceil(log2(source.n + 1))))
    # Third moments of more columns cost more than the rest of the pass; the sample serves then.
    has_cubes = has_cubes and source.d <= 12
    sums = _add_up(source, base, reach, label_base, ends.labels, unit, has_cubes, report)
    label_square = sums.label_squares[0] / unit / source.n
    label_reach = float(np.abs(ends.labels - label_base).max())
    spread = label_reach * float(np.sqrt(label_square)) or 1.0
    pieces = find_cells(source, ends.labels, ends.counts, spread, report)
    order = _order_bags(ends.counts, sums, pieces)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    per = ends.counts[order].astype(float) * unit
    second = sums.second[order] / per[:, None, None]
    second = second + np.triu(second, 1).transpose(0, 2, 1)
    cells = join_cells(pieces, order)
    below = float((cells.moved(label_base, 1.0) * cells.counts).sum())
    return FirstPass(
        source=source.renumbered(numbers),
        sizes=ends.counts[order],
        column_ends=ends.columns,
        base=base,
        reach=reach,
        first=sums.first[order] / per[:, None],
        second=second,
        third=_mirror(sums.third / (unit * source.n)),
        label_ends=ends.labels[order],
        cells=cells,
        label_mean=label_base + below / source.n,
        label_base=label_base,
        label_square=label_square,
        sample=renumber(sample, numbers),
        numbers=numbers,
    )


@dataclass(eq=False)
class _Ends:
    """Bag sizes, extremes and the sample so far; `waiting` rows are merged into it later."""

    counts: np.ndarray
    columns: np.ndarray
    labels: np.ndarray
    sample: RowSample
    waiting: list[RowSample] = field(default_factory=list)

    def merge_if_many(self, wanted: int) -> None:
        """Merge the waiting rows into the sample once they are more than a sample needs."""
        if sum(len(each.hashes) for each in self.waiting) > _MOST_WAITING * wanted:
            self.merge_waiting(wanted)

    def merge_waiting(self, wanted: int) -> None:
        """Merge the waiting rows into the sample."""
        self.sample, self.waiting = keep_lowest([self.sample, *self.waiting], wanted), []


def _find_ends(source: Source, seed: int, report: Report) -> _Ends:
    wanted = count_sampled(source.n_bags)
    scanner = source.scanner
    if scanner is not None:
        sample = sample_listed_rows(scanner, seed, wanted)
        if sample is not None:
            return _Ends(*scanner.find_ends(), sample)
    limit = guess_limit(source.n, wanted)
    ends = _take_ends(source, seed, wanted, limit, report)
    if is_complete(ends.sample, wanted, limit):
        return ends
    # Rows repeat, so too few distinct ones lie below the limit: another pass without a limit.
    return _take_ends(source, seed, wanted, 2**64 - 1, report)


def _take_ends(source: Source, seed: int, wanted: int, limit: int, report: Report) -> _Ends:
    """Return numbers, extremes and the sample of rows whose hashes are no higher than a limit."""
    n_bags, d = source.n_bags, source.d

    def start() -> _Ends:
        nothing = RowSample(
            np.empty(0, np.uint64), np.empty(0, np.int64), np.empty((0, d)), np.empty(0, np.int64)
        )
        return _Ends(
            np.zeros(n_bags, np.int64),
            np.tile([np.inf, -np.inf], (d, 1)),
            np.tile([np.inf, -np.inf], (n_bags, 1)),
            nothing,
        )

    def add(total: _Ends, block: Block) -> None:
        kernels.widen_extremes(
            block.X, block.y, block.codes, total.columns, total.labels, total.counts
        )
        for first in range(0, len(block.y), _HASHED_ROWS):
            part = slice(first, first + _HASHED_ROWS)
            rows, codes = block.X[part] + 0.0, block.codes[part]
            hashes = np.empty(len(rows), np.uint64)
            kernels.hash_rows(rows.view(np.uint64), np.uint64(seed), hashes)
            total.waiting.append(select_rows(total.sample, hashes, codes, rows, wanted, limit))
            total.merge_if_many(wanted)

    def merge(total: _Ends, other: _Ends) -> _Ends:
        total.counts += other.counts
        for mine, theirs in ((total.columns, other.columns), (total.labels, other.labels)):
            np.minimum(mine[:, 0], theirs[:, 0], out=mine[:, 0])
            np.maximum(mine[:, 1], theirs[:, 1], out=mine[:, 1])
        total.waiting += [*other.waiting, other.sample]
        total.merge_if_many(wanted)
        return total

    found = source.map_reduce(start, add, merge, report=report, stage="reading")
    found.merge_waiting(wanted)
    return found


@dataclass(frozen=True, eq=False)
class _Sums:
    """Moments in whole numbers."""

    first: np.ndarray
    second: np.ndarray
    third: np.ndarray
    label_squares: np.ndarray


def _add_up(
    source: Source,
    base: np.ndarray,
    reach: np.ndarray,
    label_base: float,
    label_ends: np.ndarray,
    unit: float,
    has_cubes: bool,
    report: Report,
) -> _Sums:
    n_bags, d = source.n_bags, source.d
    factor = _invert(reach)
    label_factor = float(_invert(np.abs(label_ends - label_base).max()))
    cubes = (d, d, d) if has_cubes else (0, 0, 0)
    scanner = source.scanner
    if scanner is not None:
        squares = scanner.add_label_squares(label_base, label_factor, unit)
        moments = scanner.add_moments(base, factor, unit, has_cubes)
        return _Sums(*moments, np.array([squares]))

    def start() -> _Sums:
        return _Sums(
            np.zeros((n_bags, d), np.int64),
            np.zeros((n_bags, d, d), np.int64),
            np.zeros(cubes, np.int64),
            np.zeros(1, np.int64),
        )

    def add(total: _Sums, block: Block) -> None:
        kernels.add_moments(
            block.X, block.codes, base, factor, unit, total.first, total.second, total.third
        )
        total.label_squares[0] += kernels.add_label_squares(block.y, label_base, label_factor, unit)

    def merge(total: _Sums, other: _Sums) -> _Sums:
        for name in ("first", "second", "third", "label_squares"):
            mine = getattr(total, name)
            mine += getattr(other, name)
        return total

    return source.map_reduce(start, add, merge, report=report, stage="adding up")


def _check_reach(columns: np.ndarray, labels: float) -> None:
    """Refuse columns and labels of so small a spread that its inverse overflows."""
    named = [(f"column {j}", float(size)) for j, size in enumerate(columns)]
    for name, size in [*named, ("y", labels)]:
        if 0.0 < size < _LEAST_REACH:
            raise InputError(
                f"{name} varies by only {size:.1e}, below what numbers are told apart by: rescale "
                f"it, for instance divide it by {size:.0e}"
            )


def _invert(sizes: np.ndarray | float) -> np.ndarray:
    """Return 1/size, and zero for zero; slightly less, so that no share exceeds one."""
    sizes = np.asarray(sizes, dtype=float)
    return np.divide(1.0 - 1e-15, sizes, out=np.zeros_like(sizes), where=sizes > 0)


def _mirror(third: np.ndarray) -> np.ndarray:
    """Fill a symmetric tensor from its entries j ≤ k ≤ l."""
    if not third.size:
        return third
    d = len(third)
    places = np.sort(np.stack(np.meshgrid(*[np.arange(d)] * 3, indexing="ij")), axis=0)
    return third[tuple(places)]


def _order_bags(counts: np.ndarray, sums: _Sums, pieces: list[LabelCells]) -> np.ndarray:
    """Order bags by size and content, never by name."""
    places = locate_bags(pieces)

    def content(r: int) -> tuple[int, bytes, bytes, bytes]:
        k, part = places[r]
        cells = pieces[k]
        values = cells.edges[part] + cells.widths[part] * cells.places[part]
        # A digest of the labels, which take megabytes.
        labels = sha256(values.tobytes() + cells.counts[part].tobytes()).digest()
        return int(counts[r]), sums.first[r].tobytes(), sums.second[r].tobytes(), labels

    return np.array(sorted(range(len(counts)), key=content), dtype=int)
