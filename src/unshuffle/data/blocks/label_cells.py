"""Adaptive histograms of the labels of each bag, fine enough to keep ranks and means.

A few passes over the labels refine the cells. A cell with too many different labels is divided
between its extremes: evenly, or by logarithms where these are orders of magnitude apart. Each cell
keeps the number of its labels, and their sum to a part in 2³⁰ of its width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log2

import numpy as np

from unshuffle import kernels
from unshuffle.data.blocks.sources import Block, Source
from unshuffle.progress import Report, say_nothing

# No cell of different labels holds a larger share of its bag ...
RANK = 1e-4
# ... unless the bags would need more cells than this, 13 MB for a thread.
_MOST_CELLS = 400_000
# Most cells that are counted in one pass: each thread has a total of its own.
ROOM = 75_000
# Neighbouring cells with few labels are merged in pairs, this often, up to this fraction of the
# spread of the labels. It halves the memory.
_MERGES, _MERGED = 2, 512.0
# Largest width of a cell as a share of the spread of the labels, also in sparse tails.
_WIDEST = 1.0 / 256.0
# Extremes of one sign further apart than this are divided by their logarithm.
_FAR = 4.0
# Parts of a divided cell for each that is needed if labels were uniform: three passes are enough.
_MORE = 2.5
# Parts of cells that are made at a time, unless one bag has more.
_DIVIDED = 20_000
# Most passes; two are enough for normal and lognormal labels.
_MOST_PASSES = 6
# The fields with one number for each cell.
_PARTS = ("counts", "edges", "widths", "places", "lows", "highs")


@dataclass(frozen=True, eq=False)
class LabelCells:
    """The labels of all bags: cells of bag r are ``offsets[r]:offsets[r + 1]``.

    The labels of a cell lie from `lows` to `highs`; their mean is edges + widths · places.
    """

    offsets: np.ndarray
    counts: np.ndarray
    edges: np.ndarray
    widths: np.ndarray
    places: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """The mean label of every cell."""
        return self.edges + self.widths * self.places

    def moved(self, centre: float | np.ndarray, scale: float) -> np.ndarray:
        """Return the mean labels (y − centre)/scale, without the rounding of large labels."""
        return ((self.edges - centre) + self.widths * self.places) / scale

    @property
    def bag_of_cell(self) -> np.ndarray:
        """The bag of every cell."""
        return _bag_of(self.offsets)

    def divide(self, most: int = ROOM) -> Iterator[LabelCells]:
        """Yield the cells of some bags at a time, at most this many unless one bag has more."""
        start, n_bags = 0, len(self.offsets) - 1
        while start < n_bags:
            fits = np.searchsorted(self.offsets, self.offsets[start] + most, side="right")
            stop = max(start + 1, int(fits) - 1)
            own = slice(self.offsets[start], self.offsets[stop])
            offsets = self.offsets[start : stop + 1] - own.start
            yield LabelCells(offsets, *(getattr(self, name)[own] for name in _PARTS))
            start = stop


@dataclass(frozen=True, eq=False)
class _Totals:
    """Sums over the labels of every cell."""

    counts: np.ndarray
    sums: np.ndarray
    lows: np.ndarray
    highs: np.ndarray


def find_cells(
    source: Source, ends: np.ndarray, sizes: np.ndarray, spread: float, report: Report = say_nothing
) -> list[LabelCells]:
    """Return the cells of all labels in pieces, each with all cells of some bags."""
    rank = max(RANK, len(sizes) / _MOST_CELLS)
    unit = float(2 ** (62 - ceil(log2(sizes.max() + 1))))
    found = []
    for bags in _choose_bags(sizes, rank):
        for cells in _count_some(source, ends, sizes, bags, rank, spread, unit, report):
            for _ in range(_MERGES):
                cells = _merge_pairs(cells, rank * sizes, spread / _MERGED)
            found.append(cells)
    return found


def join_cells(pieces: list[LabelCells], bags: np.ndarray) -> LabelCells:
    """Return the cells of bags in this order; empties the list of pieces to save memory."""
    found = locate_bags(pieces)
    places = [found[r] for r in bags.tolist()]
    lists = {name: [getattr(piece, name) for piece in pieces] for name in _PARTS}
    pieces.clear()
    parts = []
    for name in _PARTS:
        arrays = lists.pop(name)
        parts.append(np.concatenate([arrays[k][own] for k, own in places]))
    lengths = np.array([own.stop - own.start for _, own in places])
    return LabelCells(_as_offsets(lengths), *parts)


def locate_bags(pieces: list[LabelCells]) -> dict[int, tuple[int, slice]]:
    """Return for each bag the piece with its cells, and their places in it."""
    return {
        int(r): (k, slice(piece.offsets[r], piece.offsets[r + 1]))
        for k, piece in enumerate(pieces)
        for r in np.flatnonzero(np.diff(piece.offsets))
    }


def _choose_bags(sizes: np.ndarray, rank: float) -> list[slice]:
    """Return groups of bags whose cells fit into one pass."""
    wanted = np.minimum(_MORE / rank, 2.0 * sizes)
    starts, total = [0], 0.0
    for r, cells in enumerate(wanted):
        if total > 0.0 and total + cells > ROOM:
            starts.append(r)
            total = 0.0
        total += cells
    return [slice(*ends) for ends in pairwise([*starts, len(sizes)])]


def _count_some(
    source: Source,
    ends: np.ndarray,
    sizes: np.ndarray,
    bags: slice,
    rank: float,
    spread: float,
    unit: float,
    report: Report,
) -> Iterator[LabelCells]:
    """Yield the cells of some bags, those that need fewer passes first.

    The cells of a bag do not depend on other bags.
    """
    # Each bag begins with one cell, which is divided before the first pass.
    chosen = np.zeros(len(sizes), np.int64)
    chosen[bags] = 1
    offsets, own = _as_offsets(chosen), ends[bags]
    totals = _Totals(sizes[bags], np.zeros(len(own), np.int64), own[:, 0], own[:, 1])
    for number in range(_MOST_PASSES):
        n_parts = _count_parts(offsets, totals, sizes, rank, spread)
        offsets, edges, widths = _divide(offsets, totals, n_parts)
        totals = _add_up(source, offsets, edges, widths, unit, report)
        bag = _bag_of(offsets)
        is_crowded = _count_parts(offsets, totals, sizes, rank, spread) > 1
        is_open = np.bincount(bag, is_crowded, len(sizes)) * (number + 1 < _MOST_PASSES) > 0
        kept = (totals.counts > 0) & ~is_open[bag]
        if kept.any():
            yield LabelCells(
                _as_offsets(np.bincount(bag[kept], minlength=len(sizes))),
                totals.counts[kept],
                edges[kept],
                widths[kept],
                totals.sums[kept] / unit / totals.counts[kept],
                totals.lows[kept],
                totals.highs[kept],
            )
        if not is_open.any():
            break
        left = is_open[bag]
        offsets = _as_offsets(np.bincount(bag[left], minlength=len(sizes)))
        totals = _Totals(*(getattr(totals, each)[left] for each in totals.__dataclass_fields__))


def _merge_pairs(cells: LabelCells, limits: np.ndarray, width: float) -> LabelCells:
    """Merge the first and second cell of a bag, the third and fourth, and so on.

    A pair is merged if it holds no more labels than the bag's limit and is no wider than `width`.
    """
    bag, counts = cells.bag_of_cell, cells.counts
    is_second = (np.arange(len(bag)) - cells.offsets[bag]) % 2 == 1
    at = np.flatnonzero(is_second)
    is_one = counts[at] + counts[at - 1] <= limits[bag[at]]
    is_one &= cells.highs[at] - cells.lows[at - 1] <= width
    is_first = np.ones(len(bag), bool)
    is_first[at[is_one]] = False
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(bag)) - 1
    edges, totals = cells.edges[firsts], np.add.reduceat(counts, firsts)
    widths = (cells.edges[lasts] - edges) + cells.widths[lasts]
    own = np.repeat(edges, lasts - firsts + 1)
    above = (cells.edges - own) + cells.widths * cells.places
    above = np.add.reduceat(counts * above, firsts) / totals
    lengths = np.bincount(bag[firsts], minlength=len(cells.offsets) - 1)
    return LabelCells(
        _as_offsets(lengths),
        totals,
        edges,
        widths,
        np.divide(above, widths, out=np.zeros_like(above), where=widths > 0.0),
        cells.lows[firsts],
        cells.highs[lasts],
    )


def _as_offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)])


def _bag_of(offsets: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _add_up(
    source: Source,
    offsets: np.ndarray,
    edges: np.ndarray,
    widths: np.ndarray,
    unit: float,
    report: Report,
) -> _Totals:
    if source.scanner is not None:
        return _Totals(*source.scanner.add_to_cells(offsets, edges, widths, unit))

    def start() -> _Totals:
        n = len(edges)
        return _Totals(
            np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, np.inf), np.full(n, -np.inf)
        )

    def add(total: _Totals, block: Block) -> None:
        kernels.add_to_cells(
            block.y, block.codes, edges, offsets, widths, unit,
            total.counts, total.sums, total.lows, total.highs,
        )  # fmt: skip

    def merge(total: _Totals, other: _Totals) -> _Totals:
        total.counts[:] += other.counts
        total.sums[:] += other.sums
        np.minimum(total.lows, other.lows, out=total.lows)
        np.maximum(total.highs, other.highs, out=total.highs)
        return total

    return source.map_reduce(
        start, add, merge, needs_rows=False, report=report, stage="counting labels"
    )


def _count_parts(
    offsets: np.ndarray, totals: _Totals, sizes: np.ndarray, rank: float, spread: float
) -> np.ndarray:
    """Return the number of parts of each cell: 1 for a fine cell, 0 for an empty one."""
    counts = totals.counts
    limit = rank * np.repeat(sizes, np.diff(offsets))
    with np.errstate(invalid="ignore"):  # an empty cell has no extremes
        reach = np.where(counts > 0, totals.highs - totals.lows, 0.0)
    wide = reach / (_WIDEST * spread)
    is_crowded = (reach > 0) & (counts > 1) & ((counts > limit) | (wide > 1.0))
    # No more parts than twice the labels.
    wanted = np.ceil(np.minimum(np.maximum(_MORE * counts / limit, wide), 2.0 * counts))
    return np.where(is_crowded, np.maximum(wanted, 2), counts > 0).astype(np.int64)


def _divide(
    offsets: np.ndarray, totals: _Totals, n_parts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divide cells between their extremes; return offsets of bags, left edges and widths.

    It takes some bags at a time, to save memory.
    """
    made = np.concatenate([[0], np.cumsum(n_parts)])[offsets]
    edges, widths, lengths = [np.empty(0)], [np.empty(0)], np.zeros(len(offsets) - 1, np.int64)
    start = 0
    while start < len(lengths):
        most = int(np.searchsorted(made, made[start] + _DIVIDED, side="right")) - 1
        stop = max(start + 1, most)
        part = slice(offsets[start], offsets[stop])
        if part.start < part.stop:
            bag = _bag_of(offsets[start : stop + 1] - part.start)
            own, bag_of_edge = _divide_cells(
                totals.lows[part], totals.highs[part], n_parts[part], bag
            )
            ends = np.full(stop - start, -np.inf)
            np.maximum.at(ends, bag, totals.highs[part])
            is_last = np.append(np.diff(bag_of_edge) > 0, True)
            following = np.where(is_last, ends[bag_of_edge], np.append(own[1:], 0.0))
            edges.append(own)
            widths.append(following - own)
            lengths[start:stop] = np.bincount(bag_of_edge, minlength=stop - start)
        start = stop
    return _as_offsets(lengths), np.concatenate(edges), np.concatenate(widths)


def _divide_cells(
    lows: np.ndarray, highs: np.ndarray, n_parts: np.ndarray, bag: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the left edges of all parts of cells, ascending in each bag, and their bags."""
    low, high, bag = (np.repeat(each, n_parts) for each in (lows, highs, bag))
    step = np.arange(len(low)) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
    share = step / np.repeat(n_parts, n_parts)
    edges = low + (high - low) * share
    for sign in (1.0, -1.0):
        near, far = (low, high) if sign > 0 else (-high, -low)
        is_far = (near > 0.0) & (far > _FAR * near) & (step > 0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            logs = np.log(near) + np.log(far / near) * (share if sign > 0 else 1.0 - share)
            edges = np.where(is_far, np.clip(sign * np.exp(logs), low, high), edges)
    # Parts whose edges are equal after rounding are merged.
    keep = np.append(True, (np.diff(edges) > 0) | (np.diff(bag) > 0))
    return edges[keep], bag[keep]
