"""The first pass over rows on a card, as in `data.blocks.first_pass` and `label_cells`."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from unshuffle.gpu.devices import LINES, Device
from unshuffle.gpu.rows import DeviceRows

# Rows of a block of threads that reads them once, ...
_TILE_ROWS = 1 << 16
# ... and of one that reads them for every moment: with five columns they stay in its cache.
_CACHED_ROWS = 1 << 12
_SIGN = np.uint64(1 << 63)


def scan_ends(device: Device, rows: DeviceRows, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the extremes of columns (d, 2), and of the labels of bags (R, 2)."""
    columns, labels = (device.send(_start_ends(k)) for k in (d, len(rows.bags)))
    tiles, n_tiles = rows.cut(device, _TILE_ROWS)
    device.run(
        "scan_ends", d, n_tiles, 0, (rows.columns, rows.n, rows.labels, tiles, columns, labels)
    )
    return _from_order(device.fetch(columns)), _from_order(device.fetch(labels))


def find_rows(
    device: Device, rows: DeviceRows, d: int, seed: int, limit: int, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return hashes, bags and rows of all rows of a hash up to the limit; None if more than most.

    In any order.
    """
    number = device.make((1,), np.int64, is_zero=True)
    places, hashes = device.make((most,), np.int64), device.make((most,), np.int64)
    tiles, n_tiles = rows.cut(device, _TILE_ROWS)
    # The kernel takes the unsigned limit as a signed number of the same bits.
    signed = limit - (1 << 64) if limit >= 1 << 63 else limit
    arguments = (rows.columns, rows.n, tiles, seed, signed, most, number, places, hashes)
    device.run("scan_hashes", d, n_tiles, 0, arguments)
    m = int(device.fetch(number)[0])
    if m > most:
        return None
    found = device.make((m, d), np.float64)
    if m:
        device.run("pick_rows", d, -(-m // LINES), 0, (rows.columns, rows.n, places, m, found))
    at = device.fetch(places[:m])
    run = np.searchsorted(rows.ends, at, side="right") - 1
    return device.fetch(hashes[:m]).view(np.uint64), rows.bags[run], device.fetch(found)


def scan_moments(
    device: Device, rows: DeviceRows, base: np.ndarray, factor: np.ndarray, unit: float, cubes: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return first, second and third moments in multiples of 1/unit: see `kernels.add_moments`."""
    d, n_bags = len(base), len(rows.bags)
    terms = [(j, -1, -1) for j in range(d)]
    terms += [(j, k, -1) for j, k in combinations_with_replacement(range(d), 2)]
    terms += list(combinations_with_replacement(range(d), 3)) if cubes else []
    sizes = ((n_bags, d), (n_bags, d, d), (d, d, d) if cubes else (1, 1, 1))
    sums = [device.make(size, np.int64, is_zero=True) for size in sizes]
    tiles, n_tiles = rows.cut(device, _CACHED_ROWS)
    device.run(
        "scan_moments", d, n_tiles, 0,
        (
            rows.columns, rows.n, tiles, device.send(base), device.send(factor),
            device.send(np.array([unit])), device.send(np.array(terms, np.int64)), len(terms),
            *sums,
        ),
    )  # fmt: skip
    first, second, third = (device.fetch(each) for each in sums)
    return first, second, third if cubes else np.zeros((0, 0, 0), np.int64)


def scan_squares(
    device: Device, rows: DeviceRows, d: int, base: float, factor: float, unit: float
) -> int:
    """Return the sum of ((y − base) factor)² in multiples of 1/unit."""
    total = device.make((1,), np.int64, is_zero=True)
    tiles, n_tiles = rows.cut(device, _TILE_ROWS)
    affine = device.send(np.array([base, factor, unit]))
    device.run("scan_squares", d, n_tiles, 0, (rows.labels, tiles, affine, total))
    return int(device.fetch(total)[0])


def scan_labels(
    device: Device,
    rows: DeviceRows,
    d: int,
    offsets: np.ndarray,
    edges: np.ndarray,
    widths: np.ndarray,
    unit: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return numbers, sums of places, least and largest labels of cells."""
    counts, sums = (device.make((len(edges),), np.int64, is_zero=True) for _ in range(2))
    ends = _start_ends(len(edges))
    lows, highs = (device.send(np.ascontiguousarray(ends[:, k])) for k in range(2))
    tiles, n_tiles = rows.cut(device, _TILE_ROWS)
    sent: list[Any] = [
        device.send(np.ascontiguousarray(each))
        for each in (edges, offsets.astype(np.int64), widths, np.array([unit]))
    ]
    device.run("scan_labels", d, n_tiles, 0, (rows.labels, tiles, *sent, counts, sums, lows, highs))
    return (
        device.fetch(counts),
        device.fetch(sums),
        _from_order(device.fetch(lows)),
        _from_order(device.fetch(highs)),
    )


def _start_ends(n: int) -> np.ndarray:
    """Return (n, 2) extremes of no numbers, as whole numbers of the same order."""
    bits = np.tile(np.array([np.inf, -np.inf]), (n, 1)).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _from_order(values: np.ndarray) -> np.ndarray:
    """Turn whole numbers of the same order back into doubles."""
    bits = values.view(np.uint64)
    return np.where(bits & _SIGN, bits ^ _SIGN, ~bits).view(np.float64)
