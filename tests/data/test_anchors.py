"""Known pairs: linked residuals for every method, and nothing else changes."""

import json
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, t as student_t
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_validate

from command_line import assert_one_line
from oracles import best_matching_fit, central_differences
from registry_examples import fit_quietly
from targets import PLAIN, build_from_bags
from unshuffle import Bag, Histogram, ShuffledLinearRegression, fit, load
from unshuffle.cli.app import run
from unshuffle.data.anchors import find_links
from unshuffle.data.bags import make_bags
from unshuffle.errors import InputError
from unshuffle.model.bag_means import OFFSETS, AnchoredMeans


def make_linked(n=60, d=2, n_bags=3, noise=0.5, seed=0):
    """Return rows, linked labels and groups."""
    rng = np.random.default_rng(seed)
    X = rng.exponential(size=(n, d))
    y = X @ np.arange(1.0, d + 1) + 1.0 + noise * rng.normal(size=n)
    return X, y, np.arange(n) % n_bags


def shuffle_rest(y, groups, anchors, seed=0):
    """Shuffle the labels that are no anchors inside their groups."""
    rng, y = np.random.default_rng(seed), y.copy()
    for group in np.unique(groups):
        some = np.flatnonzero((groups == group) & ~anchors)
        y[some] = y[rng.permutation(some)]
    return y


FORMS = {
    "booleans": [True, False, False, True],
    "numpy": np.array([True, False, False, True]),
    "rows": [0, 3],
    "rows in any order": np.array([3, 0]),
    "labels of rows": [0, -1, -1, 3],
    "pandas": pd.Series([True, False, False, True], index=[7, 8, 9, 10]),
    "polars": pl.Series([True, False, False, True]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_name_pairs_means_the_same(form):
    assert find_links(FORMS[form], 4).tolist() == [0, -1, -1, 3]


@pytest.mark.parametrize("method", ["likelihood", "ls", "means", "sm", "p1"])
@pytest.mark.parametrize("nothing", [np.zeros(60, dtype=bool), [], np.full(60, -1)])
def test_no_known_pair_is_the_shuffled_fit_bit_for_bit(method, nothing):
    if method == "likelihood" and len(nothing) == 0:
        pytest.skip("a fit by likelihood takes a second, and two of three say the same")
    X, y, groups = make_linked()
    plain = fit_quietly(method, X, y, groups, random_state=0)
    model = ShuffledLinearRegression(method, random_state=0)
    model.fit(X, y, groups, anchors=nothing)
    assert_array_equal(model.coef_, plain.coef_)
    assert model.intercept_ == plain.intercept_


@pytest.mark.parametrize("has_groups", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_every_pair_known_is_the_textbook_regression(has_groups, fit_intercept):
    X, y, groups = make_linked(n=100, d=3)
    groups = groups if has_groups else None
    model = ShuffledLinearRegression(fit_intercept=fit_intercept)
    model.fit(X, y, groups, anchors=np.ones(100, dtype=bool))
    design = np.column_stack([X, np.ones(100)]) if fit_intercept else X
    w, rest, *_ = np.linalg.lstsq(design, y, rcond=None)
    dof = 100 - design.shape[1]
    errors = np.sqrt(rest[0] / dof * np.diag(np.linalg.inv(design.T @ design)))[:3]
    assert_allclose(model.coef_, w[:3], rtol=1e-9)
    widths = np.ptp(model.conf_int(), axis=1)
    assert_allclose(widths, 2 * student_t.ppf(0.975, dof) * errors, rtol=1e-9)
    assert "Every pair is known" in model.summary().explanation[1]


def test_the_likelihood_of_known_pairs_is_near_the_textbook():
    X, y, groups = make_linked(n=200, d=3, noise=1.0)
    model = ShuffledLinearRegression("likelihood", random_state=0)
    model.fit(X, y, groups, anchors=np.ones(200, dtype=bool))
    linked = ShuffledLinearRegression().fit(X, y, anchors=np.ones(200, dtype=bool))
    width = np.ptp(linked.conf_int(), axis=1)
    # In standard errors. The model has a curve, which the textbook has not: without it they differ
    # by 0.06, with it by 0.25 (four seeds).
    assert np.abs((model.coef_ - linked.coef_) / (width / 3.95)).max() < 0.35
    assert_allclose(np.ptp(model.conf_int(), axis=1), width, rtol=0.12)


@pytest.mark.parametrize("method", ["exact", "ls"])
def test_least_squares_with_anchors_is_the_best_matching_that_keeps_them(method):
    X, y, groups = make_linked(n=8, d=1, n_bags=2, seed=3)
    anchors = np.zeros(8, dtype=bool)
    anchors[[1, 2, 5]] = True
    shuffled = shuffle_rest(y, groups, anchors)
    model = fit([_bag_of(X, shuffled, groups, anchors, g) for g in (0, 1)], method=method, rng=0)
    rows = np.column_stack([X, np.ones(8)])
    parts = [(rows[i : i + 1], shuffled[i : i + 1]) for i in np.flatnonzero(anchors)]
    parts += [(rows[(groups == g) & ~anchors], shuffled[(groups == g) & ~anchors]) for g in (0, 1)]
    assert_allclose(model.value, best_matching_fit(parts), rtol=1e-6)


def _bag_of(X, y, groups, anchors, group):
    return Bag(X[groups == group], y[groups == group], anchors=anchors[groups == group])


def test_the_likelihood_sums_over_the_matchings_that_keep_the_anchors():
    """Differences between points: what does not depend on the weights is left out."""
    X, y, _ = make_linked(n=6, d=2, n_bags=1, seed=5)
    target, *_, scaling = build_from_bags(
        make_bags(X, y, None, [True, False, False, True, False, False]), PLAIN, False
    )
    rows, labels = X / scaling.scale, y / scaling.label_scale

    def log_density(w, log_sigma):
        z, rest = rows @ w, [1, 2, 4, 5]
        logs = []
        for order in permutations(rest):
            owner = np.arange(6)
            owner[rest] = order
            gaps = labels[owner] - z
            logs.append(-0.5 * np.exp(-2 * log_sigma) * gaps @ gaps - 6 * log_sigma)
        return logsumexp(logs)

    points = [(np.array([0.5, 0.2]), -0.3), (np.array([-0.4, 0.9]), -1.0)]
    found = [target.likelihood(w, s)[0] for w, s in points]
    expected = [log_density(w, s) for w, s in points]
    assert_allclose(found[0] - found[1], expected[0] - expected[1], rtol=1e-9)


@pytest.mark.parametrize("has_intercept", [False, True])
def test_offsets_are_shared_by_a_bag_and_its_anchors(has_intercept):
    original_bags, m = np.array([0, 0, 1, 1, 1]), np.array([1.0, 4.0, 1.0, 1.0, 6.0])
    means = AnchoredMeans(
        m,
        np.zeros(5),
        np.zeros(5),
        has_intercept,
        np.zeros((5, 1)),
        0.4,
        original_bags=original_bags,
    )
    rng = np.random.default_rng(0)

    def log_density(gaps, log_sigma):
        s2, logs = np.exp(2 * log_sigma), []
        for size in OFFSETS:
            prior = 0.6 if size == 0 else 0.4 / (len(OFFSETS) - 1)
            shared = size**2 * s2 * (original_bags[:, None] == original_bags)
            # A level integrated out is one of a variance without bound.
            level = 1e5 * has_intercept * np.ones((5, 5))
            density = multivariate_normal(np.zeros(5), np.diag(s2 / m) + shared + level)
            logs.append(np.log(prior) + density.logpdf(gaps))
        return logsumexp(logs)

    points = [(rng.normal(size=5), -0.5), (rng.normal(size=5), 0.2)]
    found = [means.evaluate(gaps, np.zeros(5), s) for gaps, s in points]
    expected = [log_density(gaps, s) for gaps, s in points]
    assert_allclose(found[0][0] - found[1][0], expected[0] - expected[1], rtol=1e-4)
    for (gaps, s), (value, by_gap, _, slope) in zip(points, found, strict=True):
        many = means.evaluate_many(gaps[None], np.zeros((1, 5)), np.array([s]))
        assert_allclose(many[0], value, rtol=1e-12)
        at = np.append(gaps, s)
        numeric = central_differences(
            lambda x: means.evaluate(x[:5], np.zeros(5), x[5])[0], at, 1e-6
        )
        assert_allclose(np.append(by_gap, slope), numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["ls", "likelihood"])
def test_order_counts_for_anchors_only(method):
    X, y, groups = make_linked(n=40)
    anchors = np.arange(40) % 5 == 0
    first = ShuffledLinearRegression(method, random_state=0)
    second = ShuffledLinearRegression(method, random_state=0)
    order = np.random.default_rng(1).permutation(40)
    mixed = shuffle_rest(y, groups, anchors)
    first.fit(X, y, groups, anchors=anchors)
    second.fit(X[order], mixed[order], -groups[order], anchors=anchors[order])
    assert_array_equal(first.coef_, second.coef_)
    # The same pairs, told by where the labels stand.
    places = np.where(anchors[order], np.arange(40), -1)
    third = ShuffledLinearRegression(method, random_state=0)
    third.fit(X[order], mixed[order], groups[order], anchors=places)
    assert_array_equal(first.coef_, third.coef_)


def test_anchors_are_matched_to_their_labels_for_sure():
    X, y, groups = make_linked(n=40)
    # Rows 0 and 3, of one bag, have each other's label; row 1 its own.
    y[[0, 3]] = y[[3, 0]]
    anchors = np.full(40, -1)
    anchors[[0, 1, 3]] = 3, 1, 0
    model = ShuffledLinearRegression(random_state=0).fit(X, y, groups, anchors=anchors)
    found = model.match(X, y, groups, anchors=anchors)
    assert found.order[[0, 1, 3]].tolist() == [3, 1, 0]
    assert found.probability[[0, 1, 3]].tolist() == [1.0, 1.0, 1.0]
    assert sorted(found.order) == list(range(40))


def test_anchors_are_no_bags_of_their_own():
    X, y, groups = make_linked(n=60)
    anchors = np.arange(60) < 9
    target = build_from_bags(make_bags(X, y, groups, anchors))[0]
    assert target.n_original_bags == 3 and target.n_bags == 12 and target.n_shuffled == 51
    model = ShuffledLinearRegression("ls").fit(X, y, groups, anchors=anchors)
    assert "60 rows · 2 features · 3 bags · 9 pairs known" in str(model.summary())
    assert model.summary().to_dict()["anchors"] == 9 and model.result_.remarks == ()


def test_known_pairs_sharpen_the_answer():
    """One bag of little noise leaves its weights open; 30 pairs of 150 do not."""
    X, y, _ = make_linked(n=150, d=3, n_bags=1, noise=1.0)
    anchors = np.arange(150) < 30
    mixed = shuffle_rest(y, np.zeros(150), anchors)
    model = ShuffledLinearRegression(random_state=0).fit(X, mixed, anchors=anchors)
    pairs = ShuffledLinearRegression().fit(X[:30], y[:30], anchors=np.ones(30, dtype=bool))
    assert (np.ptp(model.conf_int(), axis=1) < 1.1 * np.ptp(pairs.conf_int(), axis=1)).all()
    low, high = model.conf_int(0.999).T
    assert ((low < [1, 2, 3]) & (high > [1, 2, 3])).all()


def test_anchors_follow_their_rows_through_cross_validation():
    X, y, _ = make_linked(n=60, n_bags=1)
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_validate(
            ShuffledLinearRegression(),
            X,
            y,
            params={"anchors": np.ones(60, dtype=bool)},
            cv=KFold(3),
        )["test_score"]
    expected = cross_validate(LinearRegression(), X, y, cv=KFold(3))["test_score"]
    # Scored order-blind, which is at least as good.
    assert (scores >= expected - 1e-12).all() and (scores < 1).all()


def test_a_kept_model_knows_how_many_pairs_there_were(tmp_path):
    X, y, groups = make_linked()
    model = ShuffledLinearRegression("ls").fit(X, y, groups, anchors=[0, 1, 2])
    model.save(tmp_path / "model.json")
    assert str(load(tmp_path / "model.json").summary()) == str(model.summary())


WRONG = {
    "too short": (np.ones(5, dtype=bool), ["5 entries", "60 rows"]),
    "another bag": (np.where(np.arange(60) == 0, 1, -1), ["row 0", "label 1", "another bag"]),
    "a label twice": (np.where(np.arange(60) < 4, 3, -1), ["label 3", "twice"]),
    "a row twice": ([4, 4], ["row 4", "twice"]),
    "outside": ([3, 60], ["60", "0 to 59"]),
    "negative": ([-2], ["-2", "outside"]),
    "zeros and ones": (np.arange(60) % 2, ["twice", "astype(bool)"]),
    "numbers with a fraction": ([0.5], ["0.5", "no pair"]),
    "texts": (["yes"] * 60, ["'yes'", "no pair"]),
    "a table": (np.ones((60, 2), dtype=bool), ["one row", "(60, 2)"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_anchor_is_one_line(case):
    X, y, groups = make_linked()
    anchors, words = WRONG[case]
    with pytest.raises(InputError) as caught:
        ShuffledLinearRegression("ls").fit(X, y, groups, anchors=anchors)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_anchors_need_pairs_of_rows_and_labels():
    X, y, _ = make_linked(n=6, d=1)
    with pytest.raises(InputError, match="anchors"):
        Bag(X, Histogram([0.0, 9.0], [6]), anchors=[0])
    with pytest.raises(InputError, match="anchors"):
        Bag(X, y[:4], anchors=[0])
    with pytest.raises(InputError, match="separate samples"):
        fit([Bag(X, y, anchors=[0])], method="ls", same_individuals=False)
    with pytest.raises(InputError, match="bag 1, "):
        fit([Bag(X, y), Bag(X, y, anchors=[7])], method="ls")


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y, groups = make_linked()
    anchors = np.arange(60) % 4 == 0
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "bag": groups, "known": anchors, "y": y})
    frame.to_csv("data.csv", index=False)
    return X, y, groups, anchors


ARGS = ["data.csv", "--label", "y", "--bag", "bag", "--anchor", "known"]


def test_the_command_line_reads_anchors_from_a_column(table, capsys):
    assert run(["fit", *ARGS, "--method", "ls", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    X, y, groups, anchors = table
    model = ShuffledLinearRegression("ls", random_state=0).fit(X, y, groups, anchors=anchors)
    assert found["anchors"] == 15 and found["bags"] == 3 and list(found["coefficients"]) == [*"ab"]
    assert_allclose([w["estimate"] for w in found["coefficients"].values()], model.coef_, 1e-12)


def test_match_on_the_command_line_keeps_anchors(table, capsys):
    assert run(["match", *ARGS, "--method", "likelihood", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for place in np.flatnonzero(table[3]):
        row, label, probability, _ = lines[place + 1].split(",")
        assert int(row) == place + 1 and float(probability) == 1.0
        assert_allclose(float(label), table[1][place])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--anchor", "a"], ["data.csv, row 1", "'a'", "say 1"]),
        (["--anchor", "knwon"], ["'knwon'", "did you mean 'known'"]),
        (["--anchor", "y"], ["'y'", "both label and anchor"]),
        (["--separate", "-q"], ["anchors", "separate samples"]),
    ],
)
def test_a_wrong_anchor_column_is_one_line(table, capsys, change, words):
    code = run(["fit", *ARGS, *change])
    assert_one_line(code, capsys.readouterr(), words)
