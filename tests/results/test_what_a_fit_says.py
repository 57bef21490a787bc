"""Properties of what a fit says: intervals, verdict, table, and the noise it was given."""

import builtins
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from registry_examples import SOLVERS, fit_quietly, make_method_data, make_property_data
from unshuffle import load, pool
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
    data = make_property_data(method)
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
    # Two columns of one distribution: exchanging their coefficients explains the labels about as
    # well.
    data = make_shuffled(200, 2, noise=0.3, features="normal", weights=[1.0, 0.4], rng=0)
    model = fit_quietly("likelihood", data.X, data.y)
    summary, title = model.summary(), "Competing answers, best first:"
    # The short summary has a column for each of the different answers, the long one all of them.
    n_different = int(summary.explanation[0].split(" different")[0].split()[-1])
    assert summary.table[0][6:] == tuple(f"answer {k + 1}" for k in range(n_different))
    assert n_different >= 2 and title not in str(summary)
    best = [row[6] for row in summary.table[1:]]
    assert best == [f"{w:.4g}" for w in summary.candidates[0]["weights"]]
    long = model.summary(detail=True)
    lines = str(long).splitlines()
    rivals = [line.split() for line in lines[lines.index(title) + 1 :]]
    # Coefficients go down and answers across, so that no number of them makes a line longer.
    assert [line[0] for line in rivals] == ["1", "share", "x0", "x1", "intercept"]
    for shown, rows in ((summary, summary.table[1:]), (long, rivals[1:])):
        for name, *cells in rows:
            line = f'<th scope="row">{name}</th>' + "".join(f"<td>{c}</td>" for c in cells)
            assert line in shown._repr_html_()


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


SIZES = {"one bag": None, "four bags": 4, "bags of one row": 80}


@pytest.mark.parametrize("bags", SIZES)
def test_the_short_summary_of_three_features_has_twelve_lines_at_most(bags):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    groups = None if SIZES[bags] is None else np.arange(80) * SIZES[bags] // 80
    # A curved mean, offsets, a collinear and a constant column: everything there is to be said.
    shift = 0.0 if groups is None else rng.normal(size=80)[groups]
    for columns in (X, np.column_stack([X[:, :2], X[:, 0] + X[:, 1]]), X * [1.0, 1.0, 0.0]):
        model = fit_quietly(
            "likelihood", columns, X @ [1.0, 0.5, 0.1] + X[:, 0] ** 2 + shift, groups
        )
        summary = model.summary()
        assert len(str(summary).splitlines()) <= 12
        assert len(str(model.summary(detail=True)).splitlines()) >= len(str(summary).splitlines())
        assert repr(model.result_) == repr(summary) == str(summary)


def test_level_and_alpha_say_the_same():
    model = fit_means(6)
    np.testing.assert_array_equal(model.conf_int(0.9), model.conf_int(alpha=0.1))
    np.testing.assert_array_equal(model.conf_int(0.9, alpha=0.1), model.conf_int(0.9))
    assert str(model.summary(0.8)) == str(model.summary(alpha=0.2))
    X = np.eye(2)
    np.testing.assert_array_equal(
        model.predict_interval(X, 0.9), model.predict_interval(X, alpha=0.1)
    )
    for wrong in ({"alpha": 0.0}, {"alpha": 1.5}, {"level": 0.9, "alpha": 0.05}, {"level": 1.0}):
        with pytest.raises(InputError, match=r"alpha|level"):
            model.conf_int(**wrong)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_intervals_and_tables_are_frames_of_the_library_that_was_fitted(library, tmp_path):
    data = make_shuffled(60, 2, noise=0.1, bags=6, rng=0)
    frame = library.DataFrame({"age": data.X[:, 0], "dose": data.X[:, 1]})
    plain = fit_quietly("means", data.X, data.y, data.groups)
    model = fit_quietly("means", frame, data.y, data.groups)
    model.save(tmp_path / "model.json")
    for each in (model, load(tmp_path / "model.json")):
        for intercept in (False, True):
            ends = each.conf_int(0.9, intercept)
            assert isinstance(ends, library.DataFrame) and list(ends.columns) == ["low", "high"]
            np.testing.assert_array_equal(np.asarray(ends), plain.conf_int(0.9, intercept))
        tidy, rows = each.summary().tidy(), each.summary().rows
        assert isinstance(tidy, library.DataFrame)
        names = ["term", "estimate", "sd", "low", "high", "determined"]
        assert list(tidy.columns) == names and list(tidy["term"]) == ["age", "dose", "intercept"]
        for name in names[1:]:
            assert list(tidy[name]) == [getattr(row, name) for row in rows]
        matched = each.match(frame, data.y, data.groups)
        table = matched.to_frame()
        assert isinstance(table, library.DataFrame)
        np.testing.assert_array_equal(np.asarray(table["order"]), matched.order)
        assert list(table.columns) == ["row", "order", "label", "probability", "n_equal"]
    assert isinstance(plain.conf_int(), np.ndarray)
    if library is pd:
        assert list(model.conf_int(intercept=True).index) == ["age", "dose", "intercept"]


def test_results_print_what_a_person_wants():
    data = make_method_data("likelihood")
    model = fit_quietly("likelihood", data.X, data.y, data.groups)
    shown = repr(model.posterior_).splitlines()
    assert shown[0].startswith("Posterior: ") and [line.split()[0] for line in shown[2:]] == [
        "x0",
        "x1",
        "intercept",
    ]
    assert repr(model.solution_).startswith(f"Solution: {model.solution_.status.name}, ")
    matched = model.match(data.X, data.y, data.groups)
    assert repr(matched) == str(matched) and matched.verdict[0] in repr(matched)
    pooled = pool([[1.0], [2.0]], [[[0.25]], [[0.25]]])
    assert repr(pooled) == str(pooled)
