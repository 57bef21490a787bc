"""Links of which a share is wrong: between regression and the shuffled fit."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gaussian_kde
from sklearn.linear_model import LinearRegression

from command_line import assert_one_line, write_linked
from registry_examples import fit_quietly
from unshuffle import Bag, ShuffledLinearRegression, choose_method, fit, load
from unshuffle.cli.app import run
from unshuffle.errors import InputError
from unshuffle.linkage.given_pairs import estimate_density

WEIGHTS = np.array([1.0, -2.0])


def make_links(n=200, share=0.3, noise=0.5, seed=0):
    """Return rows, labels of which a share was shuffled, and which of them are another's."""
    rng = np.random.default_rng(seed)
    X = rng.exponential(size=(n, 2))
    linked = X @ WEIGHTS + 1.0 + noise * rng.normal(size=n)
    y, some = linked.copy(), rng.permutation(n)[: round(share * n)]
    y[some] = linked[rng.permutation(some)]
    return X, y, y != linked


def test_every_link_wrong_is_the_shuffled_fit_bit_for_bit():
    X, y, _ = make_links(60)
    plain = fit_quietly("auto", X, y, None, random_state=0)
    model = fit_quietly("auto", X, y, None, random_state=0, mislinked=1.0)
    assert_array_equal(model.coef_, plain.coef_)
    assert model.method_ == plain.method_ == choose_method(60, 3).method


def test_no_link_wrong_is_the_textbook_regression():
    X, y, _ = make_links(100, share=0.0)
    model = ShuffledLinearRegression(mislinked=0.0).fit(X, y)
    linked = ShuffledLinearRegression().fit(X, y, anchors=np.ones(100, dtype=bool))
    assert_allclose(model.coef_, LinearRegression().fit(X, y).coef_, rtol=1e-9)
    assert_allclose(model.conf_int(), linked.conf_int(), rtol=1e-9)
    assert "Every link is right" in model.summary().explanation[1]


def test_nearly_no_link_wrong_is_nearly_the_textbook_regression():
    """Within a quarter of a standard error: a label or two of 200 may pass for another's."""
    X, y, _ = make_links(200, share=0.0)
    model = ShuffledLinearRegression(mislinked="estimate").fit(X, y)
    linked = ShuffledLinearRegression().fit(X, y, anchors=np.ones(200, dtype=bool))
    width = np.ptp(linked.conf_int(), axis=1)
    assert (np.abs(model.coef_ - linked.coef_) < 0.25 * width / 3.9).all()
    assert_allclose(np.ptp(model.conf_int(), axis=1), width, rtol=0.2)
    assert model.summary().mislinked < 0.02


def test_the_density_of_labels_is_a_kernel_estimate():
    values = np.random.default_rng(0).exponential(size=300)
    spread = min(values.std(), np.subtract(*np.quantile(values, [0.75, 0.25])) / 1.34)
    width = 0.9 * spread * 300**-0.2
    expected = gaussian_kde(values, width / values.std(ddof=1))(values)
    # A grid of 2048 cells, and a kernel cut at four widths.
    assert_allclose(np.exp(estimate_density(values)), expected, rtol=2e-3)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_the_share_is_found_and_wrong_links_are_told(share):
    X, y, is_wrong = make_links(400, share=share)
    model = ShuffledLinearRegression(mislinked="estimate", random_state=0).fit(X, y)
    # The standard error of the share is below 0.04 here.
    assert abs(model.summary().mislinked - is_wrong.mean()) < 0.12
    probability = model.solution_.stats["link_probability"]
    assert probability[~is_wrong].mean() > probability[is_wrong].mean() + 0.3
    error = np.linalg.norm(model.coef_ - WEIGHTS)
    assert error < 0.7 * np.linalg.norm(LinearRegression().fit(X, y).coef_ - WEIGHTS)


def test_a_share_that_is_right_does_as_well_as_its_estimate():
    X, y, is_wrong = make_links(400)
    given = ShuffledLinearRegression(mislinked=float(is_wrong.mean()), random_state=0).fit(X, y)
    found = ShuffledLinearRegression(mislinked="estimate", random_state=0).fit(X, y)
    assert given.summary().mislinked == pytest.approx(is_wrong.mean())
    half = np.ptp(found.conf_int(), axis=1) / 2
    assert (np.abs(given.coef_ - found.coef_) < 0.3 * half).all()


@pytest.mark.slow
def test_intervals_cover():
    """60 intervals of 95 %: fewer than 50 cover in one of ten thousand runs of honest ones."""
    n_covered = 0
    for seed in range(30):
        X, y, _ = make_links(150, seed=seed)
        model = ShuffledLinearRegression(mislinked="estimate", n_starts=4, random_state=0).fit(X, y)
        low, high = model.conf_int().T
        n_covered += int(((low < WEIGHTS) & (high > WEIGHTS)).sum())
    assert n_covered >= 50


def test_links_that_say_nothing_are_told():
    X, y, _ = make_links(60, share=1.0)
    model = fit_quietly("auto", X, y, None, mislinked="estimate", random_state=0)
    text = " ".join(model.summary().explanation)
    assert "No sign is seen" in text and model.verdict_ == "not identified"
    right = fit_quietly("auto", *make_links(60, share=0.1)[:2], None, mislinked="estimate")
    assert "No sign is seen" not in " ".join(right.summary().explanation)


def test_labels_of_links_known_to_be_wrong_are_matched():
    X, y, is_wrong = make_links(100, share=0.5, noise=0.01)
    model = fit_quietly("auto", X, y, None, mislinked="estimate", random_state=0)
    assert model.method_ == "mixture" and model.posterior_ is not None
    probability = model.solution_.stats["link_probability"]
    assert ((probability < 0.5) == is_wrong).mean() > 0.96
    assert np.abs(model.coef_ - WEIGHTS).max() < 0.01


def test_intervals_are_wide_where_links_say_nothing():
    """All links may be wrong: intervals of ordinary least squares would give a size away."""
    n_told = 0
    for seed in range(6):
        X, y, _ = make_links(300, share=1.0, noise=0.2, seed=seed)
        model = fit_quietly("auto", X, y, None, mislinked="estimate", random_state=0)
        linear = fit_quietly("auto", X, y, None, mislinked=0.0, random_state=0)
        if model.solution_.stats["links_say_nothing"]:
            n_told += 1
            widths = [np.ptp(each.conf_int(), axis=1) for each in (model, linear)]
            assert (widths[0] > 1.5 * widths[1]).all() and model.verdict_ == "not identified"
    assert n_told >= 3


def test_an_overfit_of_few_labels_is_not_taken_for_the_right_links():
    """At high rates a plane through some six of 36 labels leaves no noise: that is an overfit."""
    for seed in (0, 1, 3, 6, 8, 11):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(36, 3))
        y = X @ [1.0, 0.5, 0.3] + 0.8 * rng.normal(size=36)
        some = rng.permutation(36)[:18]
        y[some] = y[rng.permutation(some)]
        model = fit_quietly("auto", X, y, None, mislinked="estimate", random_state=0)
        assert model.solution_.stats["likelihood_power"] is None  # nothing was matched anew


def test_only_pairs_and_bags_count_not_the_order_of_the_table():
    X, y, _ = make_links(80)
    X[5], y[5] = X[4], y[4] + 1.0  # equal rows of different labels
    groups = np.arange(80) % 2
    order = np.random.default_rng(1).permutation(80)
    first, second = (
        ShuffledLinearRegression(mislinked="estimate", random_state=0).fit(*data)
        for data in ((X, y, groups), (X[order], y[order], 1 - groups[order]))
    )
    assert_array_equal(first.coef_, second.coef_)
    stats = first.solution_.stats["link_probability"]
    assert_array_equal(stats[order], second.solution_.stats["link_probability"])


def test_bags_are_as_good_as_a_table():
    X, y, _ = make_links(80)
    groups = np.arange(80) % 2
    model = ShuffledLinearRegression(mislinked=0.3, random_state=0).fit(X, y, groups)
    bags = [Bag(X[groups == g], y[groups == g]) for g in (0, 1)]
    assert_array_equal(fit(bags, mislinked=0.3, rng=0).coef, model.coef_)


def test_known_pairs_are_right_whatever_the_share():
    X, y, is_wrong = make_links()
    anchors = (np.arange(200) % 4 == 0) & ~is_wrong
    model = ShuffledLinearRegression(mislinked=0.5, random_state=0).fit(X, y, anchors=anchors)
    assert (model.solution_.stats["link_probability"][anchors] == 1.0).all()


def test_given_noise_is_used():
    X, y, _ = make_links(noise=0.5)
    model = ShuffledLinearRegression(noise=0.5, mislinked="estimate", random_state=0).fit(X, y)
    assert model.noise_ == 0.5
    assert np.abs(model.coef_ - WEIGHTS).max() < 0.2


def test_a_kept_model_is_the_same(tmp_path):
    X, y, _ = make_links()
    model = ShuffledLinearRegression(mislinked="estimate", random_state=0).fit(X, y)
    model.save(tmp_path / "model.json")
    loaded = load(tmp_path / "model.json")
    assert str(loaded.summary()) == str(model.summary()) and loaded.mislinked == "estimate"
    assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))


@pytest.mark.parametrize("share", [-0.1, 1.5, np.nan, "some", True, [0.1]])
def test_a_share_that_is_none_is_refused(share):
    X, y, _ = make_links(20)
    with pytest.raises(InputError, match="no share of wrong links"):
        ShuffledLinearRegression(mislinked=share).fit(X, y)


def test_what_does_not_go_with_wrong_links_is_refused():
    X, y, _ = make_links(20)
    with pytest.raises(InputError, match="leave method at 'auto'"):
        ShuffledLinearRegression("ls", mislinked=0.1).fit(X, y)
    with pytest.raises(InputError, match="no penalties"):
        ShuffledLinearRegression(l2=1.0, mislinked=0.1).fit(X, y)
    with pytest.raises(InputError, match="separate samples"):
        fit([Bag(X, y)], mislinked=0.1, same_individuals=False)
    moved = np.full(20, -1)
    moved[0] = 1
    with pytest.raises(InputError, match="True or False for every row"):
        ShuffledLinearRegression(mislinked=0.1).fit(X, y, anchors=moved)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y, _ = make_links()
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv("data.csv", index=False)
    return X, y


def test_the_command_line_estimates_the_share(table, capsys):
    assert run(["fit", "data.csv", "--label", "y", "--mislinked", "estimate", "-q"]) == 0
    text = capsys.readouterr().out
    model = ShuffledLinearRegression(mislinked="estimate", random_state=0).fit(*table)
    share = f"{model.summary().mislinked:.0%}"
    assert f"About {share} of the links are wrong" in text and f"{share} of links wrong" in text


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["data.csv", "--mislinked", "1.5"], ["1.5", "0 to 1"]),
        (["data.csv", "--mislinked", "much"], ["--mislinked much", "estimate"]),
        (["data.csv", "--mislinked", "0.1", "--method", "ls"], ["'ls'", "auto"]),
        (["--rows", "data.csv", "--labels", "data.csv", "--mislinked", "0.1"], ["one table"]),
    ],
)
def test_a_wrong_share_on_the_command_line_is_one_line(table, capsys, args, words):
    code = run(["fit", "--label", "y", "-q", *args])
    assert_one_line(code, capsys.readouterr(), words)


def test_fits_with_wrong_links_say_what_they_assume(folder, capsys):
    write_linked()
    told = "exchangeable inside blocks"
    fit_linked = ["fit", "linked.csv", "--label", "y", "--bag", "bag", "-q"]
    for share, is_told in (("estimate", True), ("0.2", True), ("0", False)):
        assert run([*fit_linked, "--mislinked", share]) == 0
        assert (told in capsys.readouterr().out) is is_told
    assert run([*fit_linked, "--mislinked", "0.2", "--json", "--report", "r.html"]) == 0
    assert told in " ".join(json.loads(capsys.readouterr().out)["explanation"])
    assert told in (folder / "r.html").read_text(encoding="utf-8")
    compare = ["compare", *fit_linked[1:], "--methods", "auto,ls", "--mislinked", "0.2"]
    assert run(compare) == 0
    assert told in capsys.readouterr().out
