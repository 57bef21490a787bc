"""Whether the labels look as the model predicts, and how far to trust it if not."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
from scipy.special import ndtr

from unshuffle.kernels.coupling import EXACT_ROWS
from unshuffle.posterior.model import Target
from unshuffle.posterior.modes import Mode, climb_all

# Atoms that represent a bag's predictions far below the noise width.
_N_ATOMS = 256
# The best few modes are judged; the model stands if one of them explains the labels.
_N_JUDGED = 5


def measure_misfit(target: Target, theta: np.ndarray) -> float:
    """Return by how many nats the labels depart from the fitted law beyond chance.

    The place of each label in its bag's predicted mixture is uniform under the model; a likelihood
    ratio on about √n cells, less its mean and two standard deviations, measures the departure.
    """
    w, log_sigma = target.split(theta)
    bag = target.bag_of_row
    z = target.within @ w + (target.bag_rows @ w)[bag]
    y = target.labels + target.bag_labels[bag]
    place = np.empty(target.n)
    middles = (np.arange(_N_ATOMS) + 0.5) / _N_ATOMS
    for start, stop in zip(target.offsets[:-1], target.offsets[1:], strict=True):
        part = z[start:stop]
        atoms = part if len(part) <= _N_ATOMS else np.quantile(part, middles)
        place[start:stop] = ndtr((y[start:stop, None] - atoms) / exp(log_sigma)).mean(axis=1)
    n_cells = int(np.clip(sqrt(target.n), 4, 30))
    seen = np.histogram(place, n_cells, (0.0, 1.0))[0].astype(float)
    seen = seen[seen > 0.0]
    ratio = float((seen * np.log(seen * n_cells / target.n)).sum())
    return max(0.0, ratio - 0.5 * (n_cells - 1) - 2.0 * sqrt(0.5 * (n_cells - 1)))


def measure_scatter(target: Target, theta: np.ndarray) -> tuple[float, float]:
    """Return by how much bag means scatter beyond the noise, and on how many degrees of freedom.

    Residual squares of the regression of bag means, in units of the fitted noise: one where bags
    are random samples, more where they share something that the model leaves out.
    """
    root = np.sqrt(np.diff(target.offsets))
    rows, labels = target.bag_rows * root[:, None], target.bag_labels * root
    w, _, rank, _ = np.linalg.lstsq(rows, labels, rcond=None)
    dof = target.dof - target.n + len(root) - float(rank)
    if dof < 1.0:
        return 1.0, 0.0
    squares = float(((labels - rows @ w) ** 2).sum())
    return squares / dof / exp(2.0 * target.split(theta)[1]), dof


def choose_powers(target: Target, modes: list[Mode]) -> tuple[float, float]:
    """Return the powers of the likelihood's two parts, deviations and means.

    The first is near one for a good fit and coarse_size/n for a misfit. What the means of random
    bags say holds for any curve and any noise, since least squares leaves residuals that do not
    correlate with the features. So the means lose as much only until their own scatter shows, with
    more bags than weights, how far they can be trusted.
    """
    o = target.options
    sizes = np.diff(target.offsets)
    approximate = float(sizes[sizes > EXACT_ROWS].sum()) / target.n
    trust = 1.0 - (1.0 - o.trust) * approximate
    # Modes were found under the low-noise tilt, which moves them off the best fit: judge both.
    judged = [theta for _, theta in modes[:_N_JUDGED]]
    judged += [theta for _, theta in climb_all(target, judged, 0.0)]
    misfits = [measure_misfit(target, theta) for theta in judged]
    misfit, best = min(misfits), judged[int(np.argmin(misfits))]
    doubt = misfit / (misfit + o.coarse_gate)
    coarsening = 1.0 + target.n / o.coarse_size * doubt
    scatter, dof = measure_scatter(target, best)
    known = doubt * dof * log(max(scatter, 1.0)) + o.coarse_bags * log(coarsening)
    return trust / coarsening, exp(-known / (dof + o.coarse_bags))
