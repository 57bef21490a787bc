"""Entropic transport of one large problem on a band by diagonals: scaling, and its adjoint.

Sinkhorn's scaling (Cuturi 2013) with a preconditioned step, and the adjoint of its margins by
conjugate gradients. `model.transport` calls these steps; `lanes` and `lane_slopes` have the same
algorithm for many small problems side by side, where a vector has one number of each problem. Here
a vector has neighbouring rows of one problem, and logarithms need no bound.
"""

from math import asinh, exp, log

from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.correction import (
    ADJOINT_STEPS,
    ADJOINT_TOLERANCE,
    LEAST_CONDUCTANCE,
)
from unshuffle.kernels.transport.coupling import (
    LEAST,
    LONGEST,
    LONGEST_DROP,
    MAX_PASSES,
    ROUNDING,
    STEP_SHARE,
)
from unshuffle.kernels.transport.diagonals import BLOCK, column_sums, conductances, row_sums

# Below this the logarithms and exponentials of a step are short series, with relative errors of
# 1e-7. These affect single steps and not the solution. Exact ones took a third of the time.
_SMALL = 0.02


@njit(**INNER)
def _find_step(gaps, path, my, n, total, step):
    """Fill the step in log v that removes most of the columns' gaps; return the slope along it.

    `diagonals.conductances` defines S, the curvature in log v, and the path. Where an eigenvalue of
    the path is e, that of S is about 1 - exp(-e), and 1 + 1/e inverts it within a third. The one is
    Sinkhorn's step, 1/e a flow along the path. The flow over a weak link grows exponentially with
    the difference of log v, hence asinh.
    """
    flow, height, mean = 0.0, 0.0, 0.0
    for j in range(BLOCK, BLOCK + n):
        gap = gaps[j] / my[j]
        own = gap * (1.0 - gap * (0.5 - gap * (1.0 / 3.0 - 0.25 * gap)))
        if abs(gap) > _SMALL:
            own = log(max(1.0 + gap, LEAST))
        step[j] = height - own
        mean += my[j] * step[j]
        flow += gaps[j]
        if path[j] > 0.0 and abs(flow) > ROUNDING * total:
            drop = flow / path[j]
            drop = asinh(drop) if abs(drop) > _SMALL else drop * (1.0 - drop * drop / 6.0)
            height += min(max(drop, -LONGEST_DROP), LONGEST_DROP)
    mean /= total
    along = 0.0
    for j in range(BLOCK, BLOCK + n):
        step[j] = min(max(STEP_SHARE * (step[j] - mean), -LONGEST), LONGEST)
        along += gaps[j] * step[j]
    return along


@njit(**OPTIONS)
def scale_band(band, ptr, at, mz, y, my, n, tolerance, u, v, by_row, by_column):
    """Fill u and v for which the margins of u K v are the masses (Sinkhorn; Cuturi 2013).

    Those of rows are exact, those of n columns within the tolerance: nats that the last step may
    gain. With rows right, the value is a convex function of log v whose slopes are the columns'
    gaps. Rows and columns are padded, masses of padding are zero; ``by_row`` (3, …) and
    ``by_column`` (6, …) are work arrays.
    """
    rows, gaps, step, path, before = (
        by_row[2], by_column[2], by_column[3], by_column[4], by_column[5],
    )  # fmt: skip
    column_sums(band, ptr, at, mz, v)
    total = 0.0
    for j in range(v.size):
        v[j] = my[j] / max(v[j], LEAST)
        before[j], step[j] = v[j], 0.0
        total += my[j]
    expected, share = 0.0, 1.0
    for passes in range(MAX_PASSES + 1):
        row_sums(band, ptr, at, v, rows)
        for i in range(u.size):
            u[i] = mz[i] / max(rows[i], LEAST)
        if passes == MAX_PASSES or (share == 1.0 and passes > 0 and expected > -tolerance):
            break
        column_sums(band, ptr, at, u, gaps)
        along = 0.0
        for j in range(BLOCK, BLOCK + n):
            gaps[j] = gaps[j] * v[j] - my[j]
            along += gaps[j] * step[j]
        if along <= -0.5 * expected:
            if passes % 3 == 0 or share < 1.0:  # conductances change slowly
                conductances(band, ptr, at, u, v, y, my, n, path, by_row, by_column)
            expected, share = _find_step(gaps, path, my, n, total, step), 1.0
            for j in range(BLOCK, BLOCK + n):
                before[j] = v[j]
        else:  # the step went far beyond the minimum along it
            share *= 0.5
        for j in range(BLOCK, BLOCK + n):
            x = share * step[j]
            power = 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x / 24.0)))
            v[j] = before[j] * (exp(x) if abs(x) > _SMALL else power)


@njit(**OPTIONS)
def move_potentials(masses, scalings, potentials):
    """Turn potentials of the gauge into those of the coupling; return their sum times the masses.

    The potentials are the slopes of the transport's value in the masses, the sum is the value.
    """
    total = 0.0
    for i in range(masses.size):
        if masses[i] > 0.0:
            potentials[i] = -(potentials[i] + log(scalings[i] / masses[i]))
            total += masses[i] * potentials[i]
    return total


@njit(**INNER)
def _precondition(path, cols, residual, n, out):
    """Write an approximate inverse times the residual; return the inner product of both.

    See `diagonals.conductances`.
    """
    flow, height, size = 0.0, 0.0, 0.0
    for j in range(BLOCK, BLOCK + n):
        # A label that no prediction reaches has a sum of zero, by which nothing can be divided.
        out[j] = height + (residual[j] / cols[j] if cols[j] > 1e-200 else 0.0)
        size += residual[j] * out[j]
        flow += residual[j]
        if path[j] > LEAST_CONDUCTANCE:
            height -= flow / path[j]
    return size


@njit(**OPTIONS)
def solve_adjoint(band, ptr, at, per_mz, cols, residual, path, n, rows, found, by_column):
    """Fill the columns' multipliers of the margins, and B times these, one number for each row.

    Multipliers are the slopes in the masses of a value with known gradients in log u and log v. B
    is the coupling. The derivatives of the margins in (log u, log v) are H = [diag(mz) B; B'
    diag(cols)], and H times the multipliers of rows and columns is the gradients. It is solved by
    conjugate gradients on the Schur complement of the columns, with the residual as right-hand
    side, which is overwritten. ``by_column`` (3, …) is a work array.
    """
    image, work, direction = by_column[0], by_column[1], by_column[2]
    for j in range(found.size):
        found[j], direction[j] = 0.0, 0.0
    size = _precondition(path, cols, residual, n, work)
    goal, share = ADJOINT_TOLERANCE * ADJOINT_TOLERANCE * size, 0.0
    for _ in range(ADJOINT_STEPS):
        if not size > goal:
            break
        for j in range(BLOCK, BLOCK + n):
            direction[j] = work[j] + share * direction[j]
        row_sums(band, ptr, at, direction, rows)
        for i in range(rows.size):
            rows[i] *= per_mz[i]
        column_sums(band, ptr, at, rows, image)
        bend = 0.0
        for j in range(BLOCK, BLOCK + n):
            image[j] = cols[j] * direction[j] - image[j]
            bend += direction[j] * image[j]
        if not bend > 0.0:
            break
        for j in range(BLOCK, BLOCK + n):
            found[j] += size / bend * direction[j]
            residual[j] -= size / bend * image[j]
        before, size = size, _precondition(path, cols, residual, n, work)
        share = size / before
    row_sums(band, ptr, at, found, rows)
