"""Draws for others: equal weights, the user's names, and the layout of ArviZ."""

import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from registry_examples import fit_quietly
from unshuffle import ShuffledLinearRegression, load, make_shuffled
from unshuffle.core.uncertainty import Posterior
from unshuffle.errors import InputError
from unshuffle.inference.likelihood import Likelihood

LIGHT = Likelihood(
    n_starts=8, n_refined=4, n_components=4, n_draws=100, max_rounds=2, least_draws=30.0
)


def make_posterior(m=500, seed=0, **options):
    """Return draws that are far wider than their weights allow, as importance sampling has them."""
    rng = np.random.default_rng(seed)
    draws = 30.0 * rng.standard_normal((m, 3))
    weights = np.exp(-0.5 * ((draws / [3.0, 6.0, 9.0]) ** 2).sum(axis=1))
    return Posterior(draws, weights, rng.uniform(0.5, 2.0, m), **options)


@pytest.fixture(scope="module")
def fitted():
    """A fit of six bags with offsets, from a frame."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    groups = np.array([f"pool {name}" for name in "cafebd"])[rng.permutation(np.arange(120) % 6)]
    X = pandas.DataFrame(rng.gamma(2.0, size=(120, 2)), columns=["dose", "age"])
    offsets = dict(zip(np.unique(groups), 0.5 * rng.standard_normal(6), strict=True))
    y = X.to_numpy() @ [1.0, -2.0] + 0.2 * rng.standard_normal(120)
    y += [offsets[name] for name in groups]
    return fit_quietly(LIGHT, X, y, groups, bag_offsets="estimate"), X, y, groups


# ---- moments -------------------------------------------------------------------------------------


def test_moments_are_those_of_the_weighted_draws():
    posterior = make_posterior()
    # NumPy's weighted covariance, by its own formula.
    expected = np.cov(posterior.draws.T, aweights=posterior.draw_weights, ddof=0)
    assert_allclose(posterior.cov, expected, rtol=1e-10)
    assert_allclose(posterior.sd, np.sqrt(np.diag(expected)), rtol=1e-10)
    assert_allclose(posterior.mean, np.average(posterior.draws.T, axis=1, weights=posterior.shares))
    # Draws taken all alike are several times too wide.
    assert (posterior.draws.std(axis=0) > 2 * posterior.sd).all()


def test_what_the_data_say_nothing_about_has_no_moments():
    posterior = make_posterior(unknown=(1,), names=("a", "b", "c"))
    assert posterior.sd[1] == np.inf and np.isnan(posterior.cov[1]).all()
    assert np.isfinite(posterior.sd[[0, 2]]).all()
    sample = posterior.sample(50, rng=0)
    assert np.isnan(sample["b"]).all() and np.isfinite(sample["a"]).all()


# ---- samples -------------------------------------------------------------------------------------


def test_a_sample_has_equal_weights():
    posterior = make_posterior()
    for n in (7, 1000):
        chosen = np.bincount(posterior.resample(n, np.random.default_rng(1)), minlength=500)
        # Systematic resampling: up or down to a whole number.
        assert (np.abs(chosen - n * posterior.shares) < 1.0 + 1e-9).all() and chosen.sum() == n
    sample = posterior.sample(4000, rng=0)
    drawn = np.column_stack([sample[f"x{j}"] for j in range(3)])
    assert_allclose(drawn.std(axis=0), posterior.sd, rtol=0.03)
    assert_allclose(drawn.mean(axis=0), posterior.mean, atol=0.05 * posterior.sd.min())
    assert sample["noise"].mean() == pytest.approx(posterior.noise, rel=0.02)
    # In random order: halves are alike.
    assert_allclose(drawn[:2000].std(axis=0), drawn[2000:].std(axis=0), rtol=0.15)


def test_a_sample_is_repeatable_by_its_seed():
    posterior = make_posterior()
    one, same, other = (posterior.sample(20, rng=seed)["x0"] for seed in (1, 1, 2))
    assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize("n", [0, -3])
def test_no_draws_are_refused(n):
    with pytest.raises(InputError, match="number of draws above 0"):
        make_posterior().sample(n)


def test_samples_have_the_names_of_the_user(fitted):
    model, _, _, groups = fitted
    sample = model.posterior_.sample(300, rng=0)
    bags = [f"bag[{name}]" for name in np.unique(groups)]
    assert {"dose", "age", "intercept", "noise", "bag_sd", *bags} <= set(sample)
    assert set(sample) - {"dose", "age", "intercept", "noise", "bag_sd", *bags} <= {"curvature"}
    assert all(values.shape == (300,) for values in sample.values())
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(sample)
    assert_allclose(frame[["dose", "age"]].std(ddof=0), model.posterior_.sd[:2], rtol=0.1)


def test_bags_of_a_sample_are_what_known_bags_are_predicted_with(fitted):
    model, X, _, groups = fitted
    sample = model.posterior_.sample(4000, rng=0)
    middle = X.mean().to_frame().T
    for name in np.unique(groups):
        gap = model.predict(middle, groups=[name])[0] - model.posterior_.mean[2]
        gap -= float(middle.to_numpy()[0] @ model.posterior_.mean[:2])
        # The prediction bends where the mean does; here it hardly does.
        assert sample[f"bag[{name}]"].mean() == pytest.approx(gap, abs=0.05)


def test_parameters_give_way_to_features_of_their_name():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((50, 3))
    names = ("noise", "intercept", "intercept")
    posterior = Posterior(draws, np.ones(50), np.ones(50), names=names, has_intercept=True)
    sample = posterior.sample(50, rng=0)
    assert list(sample) == ["noise", "intercept", "(intercept)", "(noise)"]
    assert sorted(sample["(intercept)"]) == sorted(draws[:, 2])


def test_a_kept_posterior_samples_alike(fitted, tmp_path):
    model, *_ = fitted
    model.save(tmp_path / "m.json")
    kept = load(tmp_path / "m.json").posterior_.sample(40, rng=3)
    own = model.posterior_.sample(40, rng=3)
    assert list(kept) == list(own)
    assert all(kept[name].tobytes() == own[name].tobytes() for name in own)


def test_neither_files_nor_pickles_hold_the_data(fitted, tmp_path):
    model, X, y, _ = fitted
    model.save(tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text()
    assert not any(repr(float(value)) in text for value in (*X.to_numpy().ravel(), *y))
    assert model.posterior_.data is not None
    again = pickle.loads(pickle.dumps(model))
    assert again.posterior_.data is None and load(tmp_path / "m.json").posterior_.data is None
    assert_array_equal(again.predict(X), model.predict(X))


def test_data_of_many_rows_are_not_kept(monkeypatch):
    monkeypatch.setattr("unshuffle.results.fit.KEPT_ROWS", 19)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 1)), rng.normal(size=20)
    model = fit_quietly("sampler", X, y, np.arange(20) // 5, noise=0.5)
    assert model.posterior_.data is None


# ---- ArviZ ---------------------------------------------------------------------------------------


def test_arviz_gets_draws_of_equal_weight_with_predictions_and_data(fitted):
    arviz = pytest.importorskip("arviz")
    model, _, y, groups = fitted
    posterior = model.posterior_
    found = posterior.to_arviz(2000, rng=0)
    drawn = found["posterior"]
    assert drawn["coefficients"].dims == ("chain", "draw", "feature")
    assert drawn["coefficients"].shape == (1, 2000, 2)
    assert drawn["feature"].values.tolist() == ["dose", "age"]
    sds = drawn["coefficients"].std(("chain", "draw")).values
    assert_allclose(sds, posterior.sd[:2], rtol=0.04)
    assert float(drawn["intercept"].std()) == pytest.approx(posterior.sd[2], rel=0.04)
    assert float(drawn["noise"].mean()) == pytest.approx(posterior.noise, rel=0.03)
    assert drawn["bag_name"].values.tolist() == list(posterior.bag_names)
    # The summary of ArviZ itself.
    table = arviz.summary(found, var_names=["coefficients"])
    assert_allclose(table["sd"].astype(float), posterior.sd[:2], rtol=0.05, atol=0.01)
    # Labels, sorted inside each bag, beside what is predicted for them.
    observed = found["observed_data"]["y"].values
    predicted = found["posterior_predictive"]["y"].values[0]
    assert predicted.shape == (2000, 120)
    bags = np.arange(0, 120, 20)
    expected = sorted(tuple(np.sort(y[groups == name])) for name in np.unique(groups))
    assert sorted(tuple(observed[start : start + 20]) for start in bags) == expected
    assert all((np.diff(predicted[:, start : start + 20]) >= 0).all() for start in bags)
    low, high = np.quantile(predicted, [0.025, 0.975], axis=0)
    assert np.mean((low <= observed) & (observed <= high)) > 0.9


def test_a_kept_model_gives_arviz_its_posterior_alone(fitted, tmp_path):
    pytest.importorskip("arviz")
    model, *_ = fitted
    model.save(tmp_path / "m.json")
    found = load(tmp_path / "m.json").posterior_.to_arviz(50, rng=0)
    assert "coefficients" in found["posterior"]
    # A property of a DataTree, and a method of InferenceData.
    groups = found.groups() if callable(found.groups) else found.groups
    assert {name.strip("/") for name in groups} - {""} == {"posterior"}


def test_without_arviz_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(InputError, match=r"unshuffle\[arviz\]"):
        make_posterior().to_arviz(10)


def test_effects_of_bags_are_ordered_by_name():
    data = make_shuffled(120, 2, noise=0.2, bags=12, rng=0)
    groups = [f"pool {group}" for group in data.groups]
    model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, groups)
    names = [name for name in model.posterior_.sample(5, rng=0) if name.startswith("bag[")]
    assert names == [f"bag[pool {k}]" for k in range(12)]
