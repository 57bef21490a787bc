"""Kernels of log densities and bags for tests of couplings."""

from math import lgamma

import numpy as np

from unshuffle.data.labels import Labels
from unshuffle.kernels.transport import densities, pairings
from unshuffle.kernels.transport.partial_transport import make_problems
from unshuffle.kernels.transport.vectors import LANES
from unshuffle.model.paired_bags import PairedBags, couple as couple_problems

NO_TABLES = np.empty((3, 0))


def draw_kernel(n_rows, n_labels, sigma, seed=0):
    """Return the log densities of labels that come from some of the rows."""
    rng = np.random.default_rng(seed)
    z = np.sort(rng.exponential(size=n_rows))
    y = np.sort(rng.choice(z, n_labels, replace=False) + sigma * rng.normal(size=n_labels))
    return -0.5 * ((y - z[:, None]) / sigma) ** 2 - np.log(sigma * np.sqrt(2 * np.pi))


def couple_all(problems, tolerance=1e-12):
    """Return values, slopes in log kernels and slopes in masses of problems side by side.

    A problem is a log kernel and the masses of rows and labels; other rows go to the slack column.
    """
    n_rows, n_labels = np.max([kernel.shape for kernel, _, _ in problems], axis=0)
    given = make_problems(n_rows, n_labels, has_logs=True)
    logs = given.logs.reshape(n_rows, n_labels, LANES)
    for k, (kernel, row_masses, label_masses) in enumerate(problems):
        n, m = kernel.shape
        logs[:n, :m, k], given.mz[:n, k], given.my[:m, k] = kernel, row_masses, label_masses
        rest = row_masses.sum() - label_masses.sum()
        given.slack[0, k] = rest if rest > 0.5 else 0.0
    given.y[:] = np.arange(float(n_labels))[:, None]
    found = couple_problems(given, 0.0, tolerance, wants_slopes=True)
    return [
        (
            found.values[k],
            _write_out(found, n_rows, n_labels)[:n, :m, k],
            found.duals.potential_z[:n, k],
            found.duals.potential_y[:m, k],
        )
        for k, (n, m) in enumerate(kernel.shape for kernel, _, _ in problems)
    ]


def _write_out(found, n_rows, n_labels):
    """Return the slopes in log kernels, of which the band has those that are not zero."""
    slopes = np.zeros((n_rows, n_labels, LANES))
    for i in range(n_rows):
        lines = found.band[found.ptr[i] : found.ptr[i + 1]]
        slopes[i, found.first[i] : found.first[i] + len(lines)] = lines
    return slopes


def couple(log_kernel, row_masses=None, label_masses=None):
    """Return log(permanent/n!), its slopes in the log kernel, and in the masses of the rows."""
    n, m = log_kernel.shape
    masses = np.ones(n) if row_masses is None else row_masses
    label_masses = np.ones(m) if label_masses is None else label_masses
    value, slopes, by_row, _ = couple_all([(log_kernel, masses, label_masses)])[0]
    return value - lgamma(masses.sum() + 1.0), slopes, by_row


def draw_bag(n, n_cells, sigma, seed=0, share=1.0):
    """Return predictions and labels as bins with masses that add up to a share of the rows."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    y = z[: round(share * n)] + sigma * rng.normal(size=round(share * n))
    edges = np.linspace(y.min() - 1e-9, y.max() + 1e-9, n_cells + 1)
    counts = np.histogram(y, edges)[0].astype(float)
    keep = counts > 0
    return z, np.ones(n), edges[:-1][keep], edges[1:][keep], counts[keep]


def score_bags(
    z, sizes, masses, labels, pairing, noise, tables=NO_TABLES, points=None, wants_slopes=True
):
    """Return values, slopes in log sigma and in predictions (m, n) of bags at points."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    bags = PairedBags(masses, offsets, labels, points, pairing, tables)
    noises = np.repeat(np.array([noise], dtype=float), len(z), axis=0)
    return bags.score(z, noises, 2.25, wants_slopes, 1e-6, None)


def score_bag(
    z, masses, low, high, label_masses, pairing, sigma, tables=NO_TABLES, place=(0.0, 1.0)
):
    """Return the log likelihood of one bag, and its slopes in log sigma and in predictions."""
    m = len(low)
    labels = Labels(low, high, label_masses, np.array([0, m]), np.arange(m))
    given = [len(z)], masses, labels, pairing, (sigma, *place), tables
    found = score_bags(z[None], *given)
    plain = score_bags(z[None], *given, wants_slopes=False)
    np.testing.assert_allclose(found.values, plain.values, atol=1e-5)
    return found.values[0, 0], found.by_sigmas[0, 0], found.slopes[0]


def score_without_grid(
    z, masses, low, high, label_masses, pairing, sigma, tables=NO_TABLES, place=(0.0, 1.0)
):
    """Return the same from the whole matrix of log densities."""
    order, shape = np.argsort(z), (len(z), len(low))
    kernel, in_z, in_sigma, slopes = (np.zeros(shape) for _ in range(4))
    at = z[order], low, high, sigma, *place, tables
    densities.fill_log_kernel(*at, kernel, in_z, in_sigma)
    if pairing == pairings.DRAWS:
        value, _ = pairings.mixture_terms(kernel, masses, label_masses, True, slopes)
    else:
        value, slopes, _ = couple(kernel, masses, label_masses)
    by_row = np.empty(len(z))
    by_row[order] = (slopes * in_z).sum(axis=1)
    return value, (slopes * in_sigma).sum(), by_row
