"""Logistic model of link quality: logit qᵢ = a + cᵢᵀγ with columns c that explain it.

As in Slawski et al. (2023). The constant a follows the mismatch rate. γ has a normal prior of mean
0, so that separated columns stay finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from unshuffle.data.products import multiply, predict_rows
from unshuffle.linkage.given_pairs import weighted_gram, weighted_sum

# Newton's method has converged to six digits after so many steps.
_MOST_STEPS, _LEAST_STEP = 20, 1e-6


@dataclass(frozen=True)
class LinkQualitySettings:
    """The prior of the logistic model.

    Attributes
    ----------
    prior_sd : float
        Sd of the change of the logit with one sd of a column. At two sds odds change by 50.
    """

    prior_sd: float = 2.0


LINK_QUALITY = LinkQualitySettings()


def standardise_quality(columns: np.ndarray, is_known: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and sd 1 over the pairs that may be wrong; constants become 0."""
    free = columns[~is_known] if not is_known.all() else columns
    sd = free.std(axis=0)
    is_constant = sd <= 1e-12 * np.abs(free).max(axis=0)
    return np.asarray(
        np.where(is_constant, 0.0, (columns - free.mean(axis=0)) / np.where(is_constant, 1.0, sd))
    )


def log_prior(gamma: np.ndarray) -> float:
    """Return the log prior density of γ but for a constant."""
    return -0.5 * float((gamma * gamma).sum()) / LINK_QUALITY.prior_sd**2


def fit_logistic(columns: np.ndarray, wrong: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """Return the posterior mode of γ, where pairs are wrong with these probabilities.

    Newton's method from `gamma`; the constant is fitted beside it and dropped.
    """
    rows = np.column_stack([columns, np.ones(len(columns))])
    mean = float(np.clip(wrong.mean(), 1e-6, 1.0 - 1e-6))
    w = np.append(gamma, np.log(mean / (1.0 - mean)))
    precision = np.append(np.full(len(gamma), LINK_QUALITY.prior_sd**-2.0), 1e-8)
    for _ in range(_MOST_STEPS):
        p = expit(predict_rows(rows, w))
        slope = weighted_sum(rows, wrong - p) - precision * w
        curvature = weighted_gram(rows, p * (1.0 - p), rows) + np.diag(precision)
        step = multiply(np.linalg.inv(curvature), slope)
        size = float(np.abs(step).max())
        # Far from the mode a full step can overshoot.
        w = w + step * min(1.0, 2.0 / size) if size > 0.0 else w
        if size < _LEAST_STEP:
            break
    return np.asarray(w[:-1])
