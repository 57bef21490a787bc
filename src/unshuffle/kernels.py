"""Every compiled function of the library, and nothing else.

Each kernel has a plain, slow twin in ``tests/oracles.py``. All release the GIL, none draws
random numbers, and none allocates more than a few arrays of the length of its bag, so that
memory stays O(n) and threads neither wait for nor disturb one another.

``X`` comes as ``columns``, shape (d, n) and C-contiguous: a projection is then d passes over
contiguous memory, which the compiler vectorises; rows would be gathered one by one.
"""

import numpy as np
from numba import njit

# Codes of the losses that have a compiled form; `unshuffle.losses` gives each its code.
SQUARED, ABSOLUTE, SMALL_D, KOLMOGOROV_SMIRNOV = 0, 1, 2, 3

# Below this many elements insertion sort beats the passes over the digit counters.
_INSERTION_LENGTH = 24
# Two digits of 8 bits tell short arrays apart almost everywhere and their counters stay in the
# first-level cache; longer arrays take 11 bits. Measured: they cross above 10 000 elements.
_SHORT_LENGTH = 16384
# Moves per element that the finishing insertion pass may spend before the array counts as
# clustered (an outlier swallowed the resolution of the key).
_MOVES_PER_ELEMENT = 12

# The low half of a pair is the row, the high half its key.
_ROW = np.uint64(0xFFFFFFFF)

# Line search: the usual constants of weak Wolfe conditions (Lewis and Overton 2013), which
# also hold for losses with kinks.
_SUFFICIENT_DECREASE, _CURVATURE = 1e-4, 0.9
_MAX_HALVINGS = 30

_OPTIONS = {"cache": True, "nogil": True}
# Sums may be reordered (they vectorise), but nothing may assume away NaN or infinity.
_SUMS = {**_OPTIONS, "fastmath": {"reassoc", "contract", "nsz"}}


@njit(**_OPTIONS)
def _insertion_finish(z, pairs, ordered, budget):
    """Bring almost sorted pairs into the exact order of `z`, writing the values to `ordered`.

    Returns False, with the pairs in some order, when that needs over `budget` moves.
    """
    moves = 0
    last = -np.inf
    for k in range(pairs.size):
        pair = pairs[k]
        value = z[pair & _ROW]
        if value >= last:
            ordered[k] = value
            last = value
            continue
        m = k
        while m > 0 and ordered[m - 1] > value:
            ordered[m] = ordered[m - 1]
            pairs[m] = pairs[m - 1]
            m -= 1
        ordered[m] = value
        pairs[m] = pair
        moves += k - m
        if moves > budget:
            return False
    return True


@njit(**_OPTIONS)
def _radix_pass(source, target, counts, shift, mask):
    """Scatter `source` into `target` by one digit, stably; `counts` holds the digit counts."""
    total = np.uint32(0)
    for digit in range(mask + 1):
        count = counts[digit]
        counts[digit] = total
        total += count
    for k in range(source.size):
        item = source[k]
        digit = (item >> shift) & mask
        place = counts[digit]
        target[place] = item
        counts[digit] = place + np.uint32(1)


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _range(z):
    """Return the least and the largest value (unspecified when there is a NaN)."""
    low, high = z[0], z[0]
    for i in range(z.size):
        value = z[i]
        low = value if value < low else low
        high = value if value > high else high
    return low, high


@njit(**_OPTIONS)
def _radix_order(z, low, high, bits, n_passes, pairs, spare, counts):
    """Order the rows by a fixed-point key of `n_passes` digits; return the array that holds it.

    Key and row share one 64-bit word. NaN gives some order, never a bad address: digits are
    masked before they are used.
    """
    n = z.size
    mask = np.uint64((1 << bits) - 1)
    # A hair below the top, so that rounding cannot carry the largest key over it.
    scale = ((1 << min(32, bits * n_passes)) - 1) * (1 - 1e-12) / (high - low)
    counts[:n_passes, : 1 << bits] = 0
    second = np.uint64(bits)
    third = np.uint64(2 * bits)
    for i in range(n):
        key = np.uint64((z[i] - low) * scale)
        pairs[i] = (key << np.uint64(32)) | np.uint64(i)
        counts[0, key & mask] += np.uint32(1)
        counts[1, (key >> second) & mask] += np.uint32(1)
    if n_passes == 3:
        for i in range(n):
            counts[2, (pairs[i] >> (np.uint64(32) + third)) & mask] += np.uint32(1)
    _radix_pass(pairs[:n], spare, counts[0], np.uint64(32), mask)
    _radix_pass(spare[:n], pairs, counts[1], np.uint64(32) + second, mask)
    if n_passes == 2:
        return pairs
    _radix_pass(pairs[:n], spare, counts[2], np.uint64(32) + third, mask)
    return spare


@njit(**_OPTIONS)
def sort_rows(z, ordered, pairs, spare, counts):
    """Sort `z` into `ordered`; return the pairs whose low 32 bits are the rows, ties in row order.

    A radix sort of short fixed-point keys brings nearly all into place and an insertion pass
    over the full values makes the order exact. Clustered values get longer keys, then merge sort.
    """
    n = z.size
    if n <= _INSERTION_LENGTH:
        for i in range(n):
            pairs[i] = np.uint64(i)
        _insertion_finish(z, pairs[:n], ordered, n * n)
        return pairs
    low, high = _range(z)
    spread = high - low
    if spread > 0.0 and spread < np.inf:
        for n_passes in (2, 3):
            bits = 8 if n <= _SHORT_LENGTH and n_passes == 2 else 11
            out = _radix_order(z, low, high, bits, n_passes, pairs, spare, counts)
            if _insertion_finish(z, out[:n], ordered, _MOVES_PER_ELEMENT * n):
                return out
    by_value = np.argsort(z, kind="mergesort")
    for k in range(n):
        pairs[k] = np.uint64(by_value[k])
        ordered[k] = z[by_value[k]]
    return pairs


@njit(**_OPTIONS)
def largest_step_gap(z, y):
    """Return the largest distance between the step functions of two sorted samples."""
    n, m = z.size, y.size
    i, j, largest = 0, 0, 0.0
    while i < n and j < m:
        point = min(z[i], y[j])
        while i < n and z[i] <= point:
            i += 1
        while j < m and y[j] <= point:
            j += 1
        largest = max(largest, abs(i / n - j / m))
    return largest


@njit(**_SUMS)
def compare_sorted(code, extent, z, y, slope):
    """Return the loss of two sorted samples (mean over them) and fill its slope in `z`."""
    n = z.size
    value = 0.0
    if code == SQUARED:
        twice = 2.0 / n
        for k in range(n):
            gap = z[k] - y[k]
            value += gap * gap
            slope[k] = twice * gap
        return value / n
    if code == ABSOLUTE:
        for k in range(n):
            gap = z[k] - y[k]
            value += abs(gap)
            slope[k] = np.sign(gap) / n
        return value / n
    slope[:n] = 0.0
    if code == SMALL_D:
        m = min(extent, n)
        for k in range(m):
            gap = z[k] - y[k]
            value += gap * gap
            slope[k] = 2 * gap / m
        return value / m
    return largest_step_gap(z, y)


@njit(**_SUMS)
def _project(columns, w, start, stop, z):
    """Write the predictions of rows start … stop into `z`, two columns a pass."""
    m = stop - start
    d = w.size
    first = d % 2
    if first == 1:
        weight = w[0]
        column = columns[0, start:stop]
        for i in range(m):
            z[i] = weight * column[i]
    else:
        z[:m] = 0.0
    for j in range(first, d, 2):
        one, two = w[j], w[j + 1]
        left, right = columns[j, start:stop], columns[j + 1, start:stop]
        for i in range(m):
            z[i] += one * left[i] + two * right[i]


@njit(**_SUMS)
def _add_chain(columns, slope, start, stop, factor, gradient):
    """Add factor · Xᵀ slope of rows start … stop to `gradient`."""
    for j in range(gradient.size):
        total = 0.0
        column = columns[j, start:stop]
        for i in range(stop - start):
            total += column[i] * slope[i]
        gradient[j] += factor * total


@njit(**_OPTIONS)
def _spread(z, atoms, spread):
    """Write every prediction plus every atom, row by row."""
    if atoms.size == 1:
        for i in range(z.size):
            spread[i] = z[i] + atoms[0]
        return
    for i in range(z.size):
        for a in range(atoms.size):
            spread[i * atoms.size + a] = z[i] + atoms[a]


@njit(**_OPTIONS)
def _collect(sorted_slope, pairs, n_atoms, slope):
    """Bring the slopes of sorted places back to their rows, summed over the atoms."""
    if n_atoms == 1:
        for k in range(sorted_slope.size):
            slope[pairs[k] & _ROW] = sorted_slope[k]
        return
    slope[:] = 0.0
    for k in range(sorted_slope.size):
        slope[(pairs[k] & _ROW) // np.uint64(n_atoms)] += sorted_slope[k]


@njit(**_OPTIONS)
def evaluate_sorted(weights, columns, y, offsets, atoms, code, extent, values, gradients):
    """Fill value and gradient of a sorted loss for every start (a row of `weights`).

    Bags count by their size. `y` holds every label once per atom, sorted inside its bag.
    """
    n = columns.shape[1]
    n_atoms = atoms.size
    longest = np.max(np.diff(offsets))
    z = np.empty(longest)
    slope = np.empty(longest)
    spread = z if n_atoms == 1 else np.empty(longest * n_atoms)
    ordered = np.empty(longest * n_atoms)
    sorted_slope = np.empty(longest * n_atoms)
    pairs = np.empty(longest * n_atoms, np.uint64)
    spare = np.empty(longest * n_atoms, np.uint64)
    counts = np.empty((3, 2048), np.uint32)
    for s in range(weights.shape[0]):
        values[s] = 0.0
        gradients[s] = 0.0
        for r in range(offsets.size - 1):
            start, stop = offsets[r], offsets[r + 1]
            m = stop - start
            length = m * n_atoms
            _project(columns, weights[s], start, stop, z)
            _spread(z[:m], atoms, spread)
            rows = sort_rows(spread[:length], ordered, pairs, spare, counts)
            labels = y[start * n_atoms : stop * n_atoms]
            share = m / n
            values[s] += share * compare_sorted(
                code, extent * n_atoms, ordered[:length], labels, sorted_slope
            )
            _collect(sorted_slope[:length], rows, n_atoms, slope[:m])
            _add_chain(columns, slope, start, stop, share, gradients[s])


@njit(**_OPTIONS)
def _moment_residual(raw, raw_gradient, mixing, factors, targets, gradient):
    """Return Σ f(k)(Mₖ − Nₖ)² from the moments of Xw, adding its gradient.

    `mixing[k, j]` says how much of the j-th moment of Xw the k-th moment of Xw + e holds.
    """
    value = 0.0
    n_moments = targets.size
    for k in range(n_moments):
        moment = mixing[k, 0]
        for j in range(k + 1):
            moment += mixing[k, j + 1] * raw[j]
        gap = moment - targets[k]
        value += factors[k] * gap * gap
        for j in range(k + 1):
            change = 2 * factors[k] * gap * mixing[k, j + 1]
            for i in range(gradient.size):
                gradient[i] += change * raw_gradient[j, i]
    return value


@njit(**_SUMS)
def evaluate_moments(weights, columns, offsets, mixing, factors, targets, values, gradients):
    """Fill value and gradient of the moment loss for every start, from the rows themselves."""
    d = columns.shape[0]
    n_moments = factors.size
    longest = np.max(np.diff(offsets))
    z = np.empty(longest)
    power = np.empty(longest)
    raw = np.empty(n_moments)
    raw_gradient = np.empty((n_moments, d))
    for s in range(weights.shape[0]):
        values[s] = 0.0
        gradients[s] = 0.0
        for r in range(offsets.size - 1):
            start, stop = offsets[r], offsets[r + 1]
            m = stop - start
            _project(columns, weights[s], start, stop, z)
            power[:m] = 1.0
            raw_gradient[:] = 0.0
            for k in range(n_moments):
                _add_chain(columns, power, start, stop, (k + 1) / m, raw_gradient[k])
                total = 0.0
                for i in range(m):
                    power[i] *= z[i]
                    total += power[i]
                raw[k] = total / m
            values[s] += _moment_residual(
                raw, raw_gradient, mixing, factors, targets[r], gradients[s]
            )


@njit(**_OPTIONS)
def evaluate_tensors(
    weights,
    tensors,
    children,
    parents,
    degrees,
    coefficients,
    mixing,
    factors,
    targets,
    values,
    gradients,
):
    """Fill value and gradient of the moment loss for every start, from moment tensors.

    ∂Mₖ/∂wⱼ = k Σ_β c(β) T(β + eⱼ) w^β over the monomials β of degree k − 1, and by Euler's
    rule Mₖ = (1/k) Σⱼ wⱼ ∂Mₖ/∂wⱼ: one pass gives both, whatever n.
    """
    d = weights.shape[1]
    n_moments = factors.size
    n_inner = children.shape[0]
    monomials = np.empty(n_inner)
    raw = np.empty(n_moments)
    raw_gradient = np.empty((n_moments, d))
    for s in range(weights.shape[0]):
        values[s] = 0.0
        gradients[s] = 0.0
        monomials[0] = 1.0
        for b in range(1, n_inner):
            monomials[b] = monomials[parents[b, 0]] * weights[s, parents[b, 1]]
        for r in range(tensors.shape[0]):
            raw_gradient[:] = 0.0
            for b in range(n_inner):
                k = degrees[b]
                factor = (k + 1) * coefficients[b] * monomials[b]
                for j in range(d):
                    raw_gradient[k, j] += factor * tensors[r, children[b, j]]
            for k in range(n_moments):
                raw[k] = 0.0
                for j in range(d):
                    raw[k] += weights[s, j] * raw_gradient[k, j]
                raw[k] /= k + 1
            values[s] += _moment_residual(
                raw, raw_gradient, mixing, factors, targets[r], gradients[s]
            )


@njit(**_OPTIONS)
def accumulate_tensors(columns, start, stop, parents, out):
    """Fill the mean of every monomial over rows start … stop (a block at a time)."""
    block = 256
    n_monomials = parents.shape[0]
    products = np.empty((n_monomials, block))
    out[:] = 0.0
    for first in range(start, stop, block):
        m = min(block, stop - first)
        products[0, :m] = 1.0
        for b in range(1, n_monomials):
            parent, j = parents[b, 0], parents[b, 1]
            total = 0.0
            for i in range(m):
                products[b, i] = products[parent, i] * columns[j, first + i]
                total += products[b, i]
            out[b] += total
        out[0] += m
    out /= stop - start


@njit(**_OPTIONS)
def _pseudo_gradient(w, gradient, l1, out):
    """Fill the steepest-descent slope of f + Σ l1|w|, zero where a weight rests at its kink."""
    for j in range(w.size):
        if w[j] != 0.0 or l1[j] == 0.0:
            out[j] = gradient[j] + l1[j] * np.sign(w[j])
        elif gradient[j] > l1[j]:
            out[j] = gradient[j] - l1[j]
        elif gradient[j] < -l1[j]:
            out[j] = gradient[j] + l1[j]
        else:
            out[j] = 0.0


@njit(**_OPTIONS)
def _aim(w, slope, inverse, l1, direction):
    """Fill the quasi-Newton direction; return the slope along it (non-negative: no descent)."""
    d = w.size
    along = 0.0
    for i in range(d):
        total = 0.0
        for j in range(d):
            total -= inverse[i, j] * slope[j]
        # Orthant-wise rule: a penalised weight moves only downhill of its own slope.
        if l1[i] > 0.0 and total * slope[i] >= 0.0:
            total = 0.0
        direction[i] = total
        along += total * slope[i]
    return along


@njit(**_OPTIONS)
def _place_trial(w, slope, l1, direction, step, trial):
    """Fill the trial point; a penalised weight that would cross zero stops at zero."""
    for j in range(w.size):
        trial[j] = w[j] + step * direction[j]
        if l1[j] > 0.0:
            side = np.sign(w[j]) if w[j] != 0.0 else -np.sign(slope[j])
            if trial[j] * side <= 0.0:
                trial[j] = 0.0


@njit(**_OPTIONS)
def _update_inverse(inverse, move, change, is_first):
    """Apply the BFGS update in place; skipped where the curvature is not positive."""
    d = move.size
    curvature = 0.0
    size = 0.0
    for j in range(d):
        curvature += move[j] * change[j]
        size += change[j] * change[j]
    image = np.zeros(d)
    spread = 0.0
    for i in range(d):
        for j in range(d):
            image[i] += inverse[i, j] * change[j]
        spread += image[i] * change[i]
    if not (curvature > 1e-12 * np.sqrt(size) * np.sqrt(np.sum(move * move))) or spread <= 0.0:
        return
    if is_first:
        # Shanno and Phua: the first curvature seen sets the scale of the first guess.
        ratio = curvature / spread
        for i in range(d):
            image[i] *= ratio
            for j in range(d):
                inverse[i, j] *= ratio
        spread *= ratio
    for i in range(d):
        for j in range(d):
            inverse[i, j] += (1 + spread / curvature) * move[i] * move[j] / curvature - (
                image[i] * move[j] + move[i] * image[j]
            ) / curvature


@njit(**_OPTIONS)
def advance_descent(
    weights,
    values,
    gradients,
    inverses,
    directions,
    slopes,
    trials,
    scalars,
    counts,
    l1,
    trial_values,
    trial_gradients,
    tol,
    max_iter,
):
    """Move every running start one evaluation ahead; return how many still run.

    Reverse communication: the caller evaluates the smooth part at `trials`, this function
    judges the result and proposes the next trial. `scalars` holds step, low, high and the
    slope along the direction; `counts` holds state (0 running, 1 converged, 2 stuck, 3 out of
    iterations), iterations, halvings and evaluations.
    """
    running = 0
    d = weights.shape[1]
    change = np.empty(d)
    move = np.empty(d)
    has_kinks = np.any(l1 > 0.0)
    for s in range(weights.shape[0]):
        if counts[s, 0] != 0:
            continue
        counts[s, 3] += 1
        value = trial_values[s]
        for j in range(d):
            value += l1[j] * abs(trials[s, j])
        if counts[s, 1] == 0:  # the very first evaluation of this start
            accepted, drop = True, np.inf
        else:
            step, low, high, along = scalars[s]
            drop = values[s] - value
            slope_there = 0.0
            expected = 0.0
            for j in range(d):
                slope_there += trial_gradients[s, j] * directions[s, j]
                expected += slopes[s, j] * (trials[s, j] - weights[s, j])
            if not (value <= values[s] + _SUFFICIENT_DECREASE * expected):
                high = step
                accepted = False
            elif not has_kinks and slope_there < _CURVATURE * along and counts[s, 2] < 10:
                low = step
                accepted = False
            else:
                accepted = True
            if not accepted:
                counts[s, 2] += 1
                step = 0.5 * (low + high) if high < np.inf else 2.0 * step
                scalars[s, 0], scalars[s, 1], scalars[s, 2] = step, low, high
                if counts[s, 2] > _MAX_HALVINGS:
                    counts[s, 0] = 2
                    continue
                _place_trial(weights[s], slopes[s], l1, directions[s], step, trials[s])
                running += 1
                continue
        if not np.isfinite(value):
            counts[s, 0] = 2
            values[s] = np.inf
            continue
        if counts[s, 1] > 0:
            for j in range(d):
                move[j] = trials[s, j] - weights[s, j]
                change[j] = trial_gradients[s, j] - gradients[s, j]
            _update_inverse(inverses[s], move, change, counts[s, 1] == 1)
        weights[s] = trials[s]
        values[s] = value
        gradients[s] = trial_gradients[s]
        counts[s, 1] += 1
        _pseudo_gradient(weights[s], gradients[s], l1, slopes[s])
        along = _aim(weights[s], slopes[s], inverses[s], l1, directions[s])
        if drop < tol or not (along < 0.0):
            counts[s, 0] = 1
            continue
        if counts[s, 1] > max_iter:
            counts[s, 0] = 3
            continue
        scalars[s, 0], scalars[s, 1], scalars[s, 2] = 1.0, 0.0, np.inf
        scalars[s, 3] = along
        counts[s, 2] = 0
        _place_trial(weights[s], slopes[s], l1, directions[s], 1.0, trials[s])
        running += 1
    return running
