"""Kernels of log densities and bags for tests of couplings."""

import numpy as np

from unshuffle.kernels.transport import pairings


def draw_kernel(n_rows, n_labels, sigma, seed=0):
    """Return the log densities of labels that come from some of the rows."""
    rng = np.random.default_rng(seed)
    z = np.sort(rng.exponential(size=n_rows))
    y = np.sort(rng.choice(z, n_labels, replace=False) + sigma * rng.normal(size=n_labels))
    return -0.5 * ((y - z[:, None]) / sigma) ** 2 - np.log(sigma * np.sqrt(2 * np.pi))


def couple(log_kernel, row_masses=None, label_masses=None):
    """Return value, slopes in the log kernel and slopes in the masses of the rows."""
    slopes = np.full(log_kernel.shape, np.nan)
    masses = [
        np.ones(size) if given is None else given
        for size, given in zip(log_kernel.shape, (row_masses, label_masses), strict=True)
    ]
    value, by_mass = pairings.coupling_terms(log_kernel, *masses, True, slopes)
    return value, slopes, by_mass


def add_joker(log_kernel):
    """Return the kernel with a label that suits any row, and the labels' masses."""
    n_rows, n_labels = log_kernel.shape
    wider = np.concatenate([log_kernel, np.zeros((n_rows, 1))], axis=1)
    return wider, np.append(np.ones(n_labels), float(n_rows - n_labels))


def draw_bag(n, n_cells, sigma, seed=0, share=1.0):
    """Return predictions and labels as bins with masses that add up to a share of the rows."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    y = z[: round(share * n)] + sigma * rng.normal(size=round(share * n))
    edges = np.linspace(y.min() - 1e-9, y.max() + 1e-9, n_cells + 1)
    counts = np.histogram(y, edges)[0].astype(float)
    keep = counts > 0
    return z, np.ones(n), edges[:-1][keep], edges[1:][keep], counts[keep]
