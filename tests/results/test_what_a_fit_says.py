"""Laws of what a fit says: intervals, verdict, table, and the noise it was given."""

import builtins
import json

import numpy as np
import pandas as pd
import pytest

from registry_examples import SOLVERS, fit_quietly, make_law_data, make_method_data
from unshuffle.errors import InputError
from unshuffle.objectives.noise import GaussianNoise, MomentNoise, noise_from_calibration
from unshuffle.simulate import make_shuffled


def fit_means(n_bags, d=2):
    """Regress bag means; with n_bags = d + 1 nothing is left for the error."""
    data = make_shuffled(10 * n_bags, d, noise=0.1, bags=n_bags, rng=0)
    return fit_quietly("means", data.X, data.y, data.groups)


def test_means_with_as_many_bags_as_weights_are_summed_up_without_intervals():
    model = fit_means(3)
    summary = model.summary()
    assert all(row.low is None and row.high is None for row in summary.rows)
    assert "as many weights as bags" in summary.explanation[1]
    assert model.noise_ is None
    json.dumps(summary.to_dict(), allow_nan=False)
    for text in (str(summary), summary._repr_html_(), summary.to_latex()):
        assert "nan" not in text
    assert summary.to_frame().shape == (3, 6)
    with pytest.raises(InputError, match="as many weights as bags"):
        model.conf_int()


@pytest.mark.parametrize(("n_bags", "degrees"), [(4, "1 degree of"), (6, "3 degrees of")])
def test_means_with_more_bags_have_intervals(n_bags, degrees):
    model = fit_means(n_bags)
    rows = model.summary().rows
    np.testing.assert_array_equal(model.conf_int(), [(row.low, row.high) for row in rows[:2]])
    assert degrees in model.summary().explanation[1]


@pytest.mark.parametrize("method", SOLVERS)
def test_dictionary_keeps_features_and_intercept_apart(method):
    for fit_intercept in (True, False):
        check_dictionary(method, fit_intercept)


def check_dictionary(method, fit_intercept):
    data = make_law_data(method)
    frame = pd.DataFrame(data.X, columns=["dose", "intercept"])
    model = fit_quietly(method, frame, data.y, data.groups, fit_intercept=fit_intercept)
    made = json.loads(json.dumps(model.summary().to_dict(), allow_nan=False))
    assert list(made["coefficients"]) == ["dose", "intercept"]
    found = [made["coefficients"][name]["estimate"] for name in ("dose", "intercept")]
    np.testing.assert_array_equal(found, model.coef_)
    if fit_intercept:
        assert made["intercept"]["estimate"] == model.intercept_
        assert set(made["intercept"]) == {*("estimate", "sd", "low", "high", "determined", "known")}
    else:
        assert made["intercept"] is None
    assert (made["n"], made["d"]) == data.X.shape


def test_a_missing_pandas_says_how_to_get_it(monkeypatch):
    summary = fit_means(4).summary()
    plain = builtins.__import__

    def without_pandas(name, *args, **options):
        if name == "pandas":
            raise ImportError(name)
        return plain(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(InputError, match=r"to_frame needs the library pandas: pip install pandas$"):
        summary.to_frame()


def test_html_shows_the_competing_answers_of_the_text():
    # Two columns of one law: exchanging their weights explains the labels about as well.
    data = make_shuffled(200, 2, noise=0.3, features="normal", weights=[1.0, 0.4], rng=0)
    summary = fit_quietly("likelihood", data.X, data.y).summary()
    title = "Competing answers, best first:"
    lines = str(summary).splitlines()
    rivals = [line.split() for line in lines[lines.index(title) + 1 :]]
    # Weights go down and answers across, so that no number of weights makes a line longer.
    assert [line[0] for line in rivals] == ["1", "share", "x0", "x1", "intercept"]
    page = summary._repr_html_()
    assert title in page
    for name, *cells in rivals[1:]:
        assert f'<th scope="row">{name}</th>' + "".join(f"<td>{c}</td>" for c in cells) in page


def test_html_is_silent_where_nothing_competes():
    assert "Competing" not in fit_means(4).summary()._repr_html_()


def test_sd_is_taken_about_the_mean():
    assert MomentNoise((3.0, 25.0)).sd == 4.0
    assert MomentNoise((0.1, 0.1**2)).sd == 0.0
    assert GaussianNoise(1e200).sd == 1e200
    data = make_method_data("likelihood")
    model = fit_quietly("likelihood", data.X, data.y, data.groups, noise=[0.3, 0.3**2 + 0.05**2])
    assert model.noise_ == pytest.approx(0.05, rel=1e-12)
    same = fit_quietly("likelihood", data.X, data.y, data.groups, noise=model.noise_)
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-6)


def test_noise_by_moments_changes_units_where_powers_of_the_unit_do_not_fit():
    # 1e-110 cubed underflows and 1e160 squared overflows, but the quotients do neither.
    values = MomentNoise((0.0, 4e-220, 0.0)).divided_by(1e-110).values
    assert values == pytest.approx((0.0, 4.0, 0.0), rel=1e-12)
    assert MomentNoise((0.0, 1.0)).divided_by(1e160).sd < 1e-150


@pytest.mark.parametrize("labels", [[1.0, 2.0, 3.0], [4.0, 5.0, 9.0], [0.0, 1.0]])
def test_calibration_measures_the_unbiased_variance(labels):
    noise = noise_from_calibration(labels)
    # A few roundings.
    assert noise.sd == pytest.approx(np.std(labels, ddof=1), rel=1e-12)
    assert noise.moments(2)[1] == pytest.approx(np.var(labels, ddof=1), rel=1e-12)
    assert noise.atoms().std() == pytest.approx(noise.sd, rel=1e-12)


def test_the_intercept_has_its_interval_where_asked():
    data = make_method_data("means")
    model = fit_quietly("means", data.X, data.y, data.groups)
    ends = model.conf_int(intercept=True)
    np.testing.assert_array_equal(ends[:-1], model.conf_int())
    assert ends[-1, 0] < model.intercept_ < ends[-1, 1]
