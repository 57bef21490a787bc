"""Whether the labels look as the model predicts, and how far to trust it if not."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
from scipy.special import ndtr

from unshuffle.kernels.coupling import EXACT_ROWS
from unshuffle.solvers.likelihood.modes import Mode, climb
from unshuffle.solvers.likelihood.target import Target

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


def choose_powers(target: Target, modes: list[Mode]) -> tuple[float, float]:
    """Return the powers of the likelihood's two parts, deviations and means.

    The first is near one for a good fit and coarse_size/n for a misfit. What the means of bags say
    holds for any mean and any noise, so that a misfit costs it little: the weights that minimise
    squares leave residuals without correlation to the features, and only their variance, larger
    than that of the best fit, is in doubt.
    """
    o = target.options
    sizes = np.diff(target.offsets)
    approximate = float(sizes[sizes > EXACT_ROWS].sum()) / target.n
    trust = 1.0 - (1.0 - o.trust) * approximate
    # Modes were found under the low-noise tilt, which moves them off the best fit: judge both.
    judged = [theta for _, theta in modes[:_N_JUDGED]]
    judged += [climb(target, theta, 0.0)[1] for theta in judged]
    misfit = min(measure_misfit(target, theta) for theta in judged)
    doubt = misfit / (misfit + o.coarse_gate)
    power = trust / (1.0 + target.n / o.coarse_size * doubt)
    return power, max(power, 1.0 / (1.0 + (o.coarse_means - 1.0) * doubt))
