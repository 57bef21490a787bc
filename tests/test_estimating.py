"""Laws of the point estimate: what it hears besides the posterior, and what it never does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unshuffle import Likelihood, ShuffledLinearRegression, make_shuffled
from unshuffle.core.uncertainty import Posterior
from unshuffle.posterior import likelihood
from unshuffle.posterior.estimating import Draws, keep_inside
from unshuffle.posterior.trust import Signs, share_least_squares

FITS = Signs(
    misfit=0.0, curve=0.0, noise=0.1, spread=1.0, uneven=0.0, offset_probability=0.0, offset_sd=0.0
)
NEAR = np.array([0.1, -0.1])


def test_least_squares_of_a_lone_bag_is_not_heard():
    signs = replace(FITS, spread=50.0, uneven=9.0)
    assert share_least_squares(signs, 1, NEAR, 0.0) == 0.0


@pytest.mark.parametrize("change", [dict(spread=10.0), dict(uneven=5.0), dict(uneven=-5.0)])
def test_least_squares_is_heard_more_where_bags_differ_or_noise_is_uneven(change):
    plain = share_least_squares(FITS, 4, NEAR, 0.0)
    more = share_least_squares(replace(FITS, **change), 4, NEAR, 0.0)
    assert 0.0 < plain < more < 1.0


def test_least_squares_is_heard_less_where_it_is_far_off_or_the_curve_is_sure():
    plain = share_least_squares(FITS, 4, NEAR, 0.0)
    assert share_least_squares(FITS, 4, 10.0 * NEAR, 0.0) < 0.5 * plain
    assert share_least_squares(FITS, 4, NEAR, 15.0) < 0.2 * plain
    # However far off it is, it moves the estimate by half a standard unit at most: share · gap is
    # below gap/(1 + gap²), whose largest value is a half.
    for length in (0.5, 1.0, 2.0, 100.0):
        signs = replace(FITS, uneven=50.0, spread=1e6)
        gap = np.array([length, 0.0])
        assert share_least_squares(signs, 1000, gap, 0.0) * length <= 0.5


def test_estimate_lies_between_the_posterior_and_least_squares():
    """Uneven noise in twenty bags: the answer of least squares counts, and is not taken over."""
    rng = np.random.default_rng(3)
    X, groups = rng.normal(size=(400, 2)), np.arange(400) % 20
    z = X @ [1.0, -0.5]
    y = z + 0.1 * np.exp(0.8 * z) * rng.normal(size=400)
    for r in range(20):
        y[groups == r] = rng.permutation(y[groups == r])
    auto, least = (
        ShuffledLinearRegression(method, random_state=0).fit(X, y, groups)
        for method in (Likelihood(), "ls")
    )
    deaf = ShuffledLinearRegression(Likelihood(bets_in_full=True), random_state=0)
    centre = deaf.fit(X, y, groups).coef_
    way = least.coef_ - centre
    share = (auto.coef_ - centre) @ way / (way @ way)
    assert 0.0 < share < 1.0


def test_an_estimate_outside_its_intervals_is_moved_inside_and_one_inside_stays():
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(4000, 2))
    draws = Draws(slopes, slopes, np.full(4000, 1 / 4000))
    inside = np.array([0.3, -0.2])
    assert np.array_equal(keep_inside(inside, draws), inside)
    moved = keep_inside(np.array([30.0, 0.0]), draws)
    # 0.9 of the way to the end of a standard normal's interval, known to 5 % from 4000 draws.
    assert moved[0] == pytest.approx(0.9 * 1.96, rel=0.05)


def test_least_squares_is_not_heard_where_pairs_are_known(monkeypatch):
    """It sorts labels that are linked, and would answer another question."""

    def refuse(*_):
        raise AssertionError("least squares was heard")

    monkeypatch.setattr(likelihood, "hear", refuse)
    data = make_shuffled(60, 2, snr_db=15, bags=6, rng=5)
    model = ShuffledLinearRegression("likelihood", random_state=0)
    model.fit(data.X, data.y, data.groups, anchors=np.arange(60) < 10)
    with pytest.raises(AssertionError, match="was heard"):
        model.fit(data.X, data.y, data.groups)


def test_an_intercept_outside_its_interval_brings_all_weights_inside_together():
    """Slopes inside may imply an intercept outside; those inside are not touched."""
    rng = np.random.default_rng(0)
    slopes = rng.normal(1.0, 0.1, size=(4000, 2))
    level = rng.normal(0.0, 0.05, size=4000)
    centre = np.array([5.0, 7.0])
    draws = np.column_stack([slopes, level - slopes @ centre])
    posterior = Posterior(draws, np.full(4000, 1 / 4000), np.ones(4000))
    inside = np.array([1.1, 0.9, -centre @ [1.1, 0.9]])
    assert posterior.hold(inside) is inside
    # Both slopes 1.6 sd up, 2.2 sd of the intercept down: each slope is inside, it is not.
    outside = np.array([1.16, 1.16, -centre @ [1.16, 1.16]])
    low, high = posterior.interval(0.95).T
    assert outside[2] < low[2] and ((low < outside) & (outside < high))[:2].all()
    held = posterior.hold(outside)
    assert ((low < held) & (held < high)).all()
    # Predictions at the middle of the rows stay where they are: 0 but for 4000 draws' error.
    assert abs(held @ [*centre, 1.0]) < 4 * 0.05 / np.sqrt(4000)
