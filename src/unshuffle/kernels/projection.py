"""From weights to predictions, and from slopes back to gradients."""

from numba import njit

from unshuffle.kernels.compiling import SUMS


@njit(**SUMS)
def project(columns, w, start, stop, z):
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


@njit(**SUMS)
def add_chain(columns, slope, start, stop, factor, gradient):
    """Add factor · Xᵀ slope of rows start … stop to `gradient`."""
    for j in range(gradient.size):
        total = 0.0
        column = columns[j, start:stop]
        for i in range(stop - start):
            total += column[i] * slope[i]
        gradient[j] += factor * total


@njit(**SUMS)
def add_up(values, m):
    """Return the sum of the first m values."""
    total = 0.0
    for i in range(m):
        total += values[i]
    return total
