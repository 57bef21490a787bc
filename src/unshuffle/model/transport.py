"""The log permanent of matrices exp(−(y_j − z_i)²/2): entropic transport on a line, corrected.

Sinkhorn's dual value (Cuturi 2013) plus a local correction of rows and columns by their collision
probabilities (see `kernels.transport.correction`), less the first-order effect of spreading values
over nodes. Gradients come from the adjoint of the margins. Small problems stand side by side in the
lanes of vectors (`kernels.transport.bags` says up to which size). A larger one is solved alone, on
a band by diagonals. Python calls the compiled steps one by one: a kernel with all of them would
compile each once more.
"""

from __future__ import annotations

import numpy as np

from unshuffle import kernels
from unshuffle.kernels.transport.correction import C1, C2, C3
from unshuffle.kernels.transport.coupling import LEAST, PRECISE, ROUNDED
from unshuffle.kernels.transport.diagonals import BLOCK, MARGIN, make_band
from unshuffle.kernels.transport.lanes import (
    N_FEW,
    NOWHERE,
    make_band as make_lane_band,
    make_ends,
    make_rows,
)

# Values, slopes in log sigma with the points fixed, and slopes in the points of rows.
Solved = tuple[np.ndarray, np.ndarray, np.ndarray]


def spread_variances(
    per_sigma: np.ndarray | float, lanes: int, per_sigma_before: np.ndarray | float = np.inf
) -> np.ndarray:
    """Return the variance that a grid adds to columns, and the ratio of that of rows to it.

    `per_sigma` is the number of nodes per sigma of the cubic B-splines, which add a third of a
    squared distance of nodes. `per_sigma_before` is that of cells in which rows were counted
    before, each on the two nodes beside it, which adds a sixth. An infinite number adds nothing.
    """
    per, before = np.asarray(per_sigma, float), np.asarray(per_sigma_before, float)
    spreads = make_rows(2) if lanes > 1 else np.empty((2, 1))
    spreads[0] = 1.0 / (3.0 * per**2)
    spreads[1] = 1.0 + per**2 / (2.0 * before**2) if np.isfinite(per).all() else 1.0
    return spreads


def log_permanents(
    sides: np.ndarray,
    sizes: np.ndarray,
    spreads: np.ndarray,
    tolerance: float,
    wants_slopes: bool,
) -> Solved:
    """Return log permanents of problems side by side, and slopes in log sigma and in their points.

    ``sides`` (6, m, lanes) and ``sizes`` are those of `kernels.fill_gauge`, `spreads` those of
    `spread_variances`. Scaling ends where a step gains less than `tolerance`, in nats. On grids the
    slopes in the masses of nodes take the place of the potentials in ``sides``.
    """
    m = sides.shape[1]
    ends, tolerance = make_ends(m), PRECISE if wants_slopes else tolerance
    kernels.fill_gauge(sides, sizes, np.empty_like(ends), ends)
    solve = _solve_band if sides.shape[2] == 1 else _solve_lanes
    # With predictions a billion sigmas off, rounding leaves no correct digit of the potentials.
    with np.errstate(all="ignore"):
        return solve(sides, sizes, ends, spreads, tolerance, wants_slopes)


def _solve_lanes(
    sides: np.ndarray,
    sizes: np.ndarray,
    ends: np.ndarray,
    spreads: np.ndarray,
    tolerance: float,
    wants_slopes: bool,
) -> Solved:
    """Solve problems that stand side by side."""
    m, band = sides.shape[1], make_lane_band(ends)
    # One array in few calls: small bags are solved thousands of times.
    rows, few = make_rows(20, m), make_rows(N_FEW + 2, 1)
    room, found, out, slopes = rows[:8], rows[8:15], rows[15:19], rows[19]
    values, by_sigmas, few = few[0], few[1], few[2:, 0]
    by_sigmas[:] = 0.0
    kernels.fill_kernel(sides, *band)
    u, v = kernels.scale_lanes(*band, sides, tolerance, room, few)
    kernels.form_couplings(*band, u, v, sides, values[0])
    kernels.correct_lanes(sides, *band, spreads, values, found)
    if wants_slopes:
        kernels.slope_corrections(sides, *band, found, spreads, out)
        kept_z, kept_y = kernels.solve_lane_adjoint(*band, sides, found[0], *out[:2], room, few)
        if spreads[0, 0] > 0.0:
            sides[4] += out[2] + kept_z
            sides[5] += out[3] + kept_y
        else:
            kernels.point_slopes(
                *band, sides, found[2], found[3], kept_z, kept_y, slopes, by_sigmas
            )
    return values[0], by_sigmas[0], slopes


def _solve_band(
    sides: np.ndarray,
    sizes: np.ndarray,
    ends: np.ndarray,
    spreads: np.ndarray,
    tolerance: float,
    wants_slopes: bool,
) -> Solved:
    """Solve one problem on a band by diagonals.

    Arrays have padded rows first and padded columns then: see `kernels.transport.diagonals`.
    """
    (n_z, n), (spread, ratio) = sizes[:, 0].tolist(), spreads[:, 0].tolist()
    band = make_band(ends[:, :n_z])
    split = BLOCK * len(band[2])
    rows, columns = slice(0, n_z), slice(split + BLOCK, split + BLOCK + n)
    points, masses, potentials = room = np.zeros((3, split + n + MARGIN))
    potentials[:] = NOWHERE
    room[:2, rows], room[:2, columns] = sides[:2, :n_z, 0], sides[2:4, :n, 0]
    potentials[rows], potentials[columns] = sides[4, :n_z, 0], sides[5, :n, 0]
    z, y, mz, my = points[:split], points[split:], masses[:split], masses[split:]
    row_room, column_room = np.empty((4, len(z))), np.empty((7, len(y)))
    scalings, found, q, gradients = np.empty((4, len(points)))
    kernels.fill_band(*band, z, y, potentials[:split], potentials[split:])
    total = float(my.sum())
    u, v = scalings[:split], scalings[split:]
    tolerance = max(tolerance, ROUNDED * total)
    kernels.scale_band(*band, mz, y, my, n, tolerance, u, v, row_room, column_room)
    kernels.multiply_band(*band, u, v)
    value = kernels.move_potentials(masses, scalings, potentials)
    per = np.divide(1.0, masses, out=np.zeros_like(masses), where=masses > 0.0)
    kernels.square_sums(*band, per[:split], per[split:], q[:split], q[split:])
    q *= per * per
    # Rows and columns have different collision probabilities: their corrections are averaged.
    corrections = np.where(q > 1.0, 0.25 * (q - 1.0), 0.5 * (-1.0 + q * (C1 + q * (C2 + q * C3))))
    value += float((masses * corrections).sum())
    # Sums of B along rows and columns, and barycentres.
    sums, centres = masses.copy(), found
    kernels.column_sums(*band, np.ones(split), sums[split:])
    if spread > 0.0:
        kernels.row_sums(*band, y, centres[:split])
        kernels.column_sums(*band, z, centres[split:])
        centres /= np.maximum(sums, LEAST)
        # Second moments of points, and of the barycentres across.
        squares, across = sums * points * points, sums * centres * centres
        given_rows = float(squares[split:].sum() - across[:split].sum())
        given_columns = float(squares[:split].sum() - across[split:].sum())
        value -= 0.5 * spread * (ratio * (given_rows - total) + (given_columns - total))
    values, slopes, by_sigmas = np.array([value]), np.empty((sides.shape[1], 1)), np.zeros(1)
    if not wants_slopes:
        return values, by_sigmas, slopes
    bends = np.where(q > 1.0, 0.5, C1 + q * (2.0 * C2 + q * 3.0 * C3))
    weights = bends * per
    kernels.square_sums(
        *band, weights[:split], weights[split:], gradients[:split], gradients[split:]
    )
    own, other = bends * q, gradients * per
    gradients = own * masses + other
    if spread > 0.0:
        kernels.add_spread_slopes(
            *band, z, y, centres[:split], centres[split:], ratio * spread, spread,
            gradients[:split], gradients[split:],
        )  # fmt: skip
    # The gap that scaling left in the margins of columns is corrected, too: the slope of the dual
    # is then right to second order in it.
    path, residual = column_room[6], np.empty_like(y)
    kernels.column_sums(*band, (gradients * per)[:split], residual)
    residual = gradients[split:] + (sums - masses)[split:] - residual
    scalings[:] = 1.0
    kernels.conductances(*band, u, v, y, my, n, path, row_room, column_room)
    kept = scalings
    kernels.solve_adjoint(
        *band, per[:split], sums[split:], residual, path, n, kept[:split], kept[split:], column_room
    )
    kept[:split] = ((gradients - kept) * per)[:split]
    if spread > 0.0:
        by_mass = potentials + corrections - own - 0.5 * other * per + kept
        sides[4, :n_z, 0], sides[5, :n, 0] = by_mass[rows], by_mass[columns]
    else:
        by_point, parts = np.empty_like(z), np.empty(BLOCK)
        kernels.band_point_slopes(
            *band, z, y, bends[:split], bends[split:], kept[:split], kept[split:], by_point, parts
        )
        slopes[:n_z, 0], by_sigmas[0] = by_point[rows], parts.sum()
    return values, by_sigmas, slopes
