"""Rubin's rules against the formulas written out, and against simulation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t

from unshuffle import InputError, pool


def test_the_rules_of_rubin_and_of_barnard_and_rubin():
    rng = np.random.default_rng(0)
    m, d, dof = 7, 3, 40
    points = rng.normal(size=(m, d))
    roots = rng.normal(size=(m, d, d))
    within = np.einsum("kij,klj->kil", roots, roots)
    found = pool(points, within, dof=dof, level=0.9, names=["a", "b", "c"])
    B, W = np.cov(points.T, ddof=1), within.mean(axis=0)
    T = W + (1 + 1 / m) * B
    share = (1 + 1 / m) * np.diag(B) / np.diag(T)
    old = (m - 1) / share**2
    observed = (dof + 1) / (dof + 3) * dof * (1 - share)
    df = old * observed / (old + observed)
    r = (1 + 1 / m) * np.diag(B) / np.diag(W)
    assert_allclose(found.estimate, points.mean(axis=0))
    assert_allclose(found.covariance, T)
    assert_allclose(found.sd, np.sqrt(np.diag(T)))
    assert_allclose(found.df, df)
    assert_allclose(found.missing_information, (r + 2 / (df + 3)) / (r + 1))
    half = t.ppf(0.95, df) * np.sqrt(np.diag(T))
    assert_allclose(np.ptp(found.interval, axis=1), 2 * half)
    assert_allclose(pool(points, within).df, old)
    assert str(found).splitlines()[1].startswith("a")


def test_equal_analyses_are_that_analysis():
    found = pool([[2.0]] * 5, [[[4.0]]] * 5)
    assert found.estimate == 2.0 and found.sd == 2.0 and found.missing_information == 0.0
    assert_allclose(found.interval, [[2 - 1.959964 * 2, 2 + 1.959964 * 2]], rtol=1e-5)
    assert pool([2.0, 2.0], [4.0, 4.0]).sd == 2.0


def test_intervals_cover_a_mean_with_values_missing_at_random():
    rng, covered = np.random.default_rng(1), 0
    for _ in range(400):
        y = rng.normal(size=30)
        estimates, covariances = [], []
        for _ in range(10):
            # Proper imputation of 15 further values: draw variance and mean, then the values.
            variance = y.var(ddof=1) * 29 / rng.chisquare(29)
            mean = rng.normal(y.mean(), np.sqrt(variance / 30))
            full = np.append(y, rng.normal(mean, np.sqrt(variance), 15))
            estimates.append([full.mean()])
            covariances.append([[full.var(ddof=1) / 45]])
        low, high = pool(estimates, covariances, dof=44).interval[0]
        covered += low <= 0.0 <= high
    assert 0.925 <= covered / 400 <= 0.98


@pytest.mark.parametrize(
    ("estimates", "covariances", "how", "words"),
    [
        ([[1.0]], [[[1.0]]], {}, "two or more"),
        ([[1.0]] * 2, [[[1.0]]], {}, "2 estimates but 1 covariances"),
        ([[1.0, 2.0]] * 2, [[[1.0]]] * 2, {}, "d × d"),
        ([[1.0], [1.0, 2.0]], [[[1.0]]] * 2, {}, "same coefficients"),
        ([["a"]] * 2, [[[1.0]]] * 2, {}, "must be numbers"),
        ([[np.nan]] * 2, [[[1.0]]] * 2, {}, "not finite"),
        ([[1.0]] * 2, [[[-1.0]]] * 2, {}, "negative variance"),
        ([[1.0]] * 2, [[[1.0]]] * 2, {"level": 95}, "level=95"),
        ([[1.0]] * 2, [[[1.0]]] * 2, {"dof": 0}, "dof=0"),
        ([[1.0]] * 2, [[[1.0]]] * 2, {"names": ["a", "b"]}, "names has 2"),
    ],
)
def test_what_cannot_be_pooled_is_refused_in_one_line(estimates, covariances, how, words):
    with pytest.raises(InputError, match=words) as told:
        pool(estimates, covariances, **how)
    assert "\n" not in str(told.value)
