"""Links of unknown quality: adjusted equations, the mixture, and what is known of each link."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

from linked_data import SLOPES, fit, make_links
from unshuffle import InputError, Links, ShuffledLinearRegression, methods
from unshuffle.data.bags import make_bags
from unshuffle.linkage import scale_mixture
from unshuffle.linkage.adjusted_equations import solve_lahiri_larsen
from unshuffle.linkage.calibration import load_link_calibration
from unshuffle.linkage.given_pairs import read_pairs
from unshuffle.linkage.link_quality import fit_logistic
from unshuffle.linkage.mismatch_rate import RATES, measure_loose, measure_rates
from unshuffle.linkage.regression import combine, find_centre, find_point_posterior
from unshuffle.linkage.scale_mixture import fit_mixture, measure_influence
from unshuffle.linkage.within_blocks import split_blocks


def heavy(rng, n):
    """Noise with two degrees of freedom."""
    return rng.standard_t(2, size=n)


def dense_mixing(groups, wrong):
    """Return E[permutation matrix]: row i keeps its label, or takes one of its block."""
    Q = np.diag(1.0 - wrong)
    for i, q in enumerate(wrong):
        pool = np.where((groups == groups[i]) & (np.arange(len(wrong)) != i), wrong, 0.0)
        Q[i] += q * pool / pool.sum()
    return Q


@pytest.mark.parametrize("blocks", [1, 8])
def test_lahiri_and_larsen_regress_on_the_expected_rows(blocks):
    X, y, groups, _ = make_links(120, blocks=blocks)
    design = np.column_stack([X, np.ones(120)])
    Z = dense_mixing(groups, np.full(120, 0.3)) @ design
    w = np.linalg.lstsq(Z, y, rcond=None)[0]
    bread = np.linalg.inv(Z.T @ Z)
    sandwich = bread @ ((Z * (y - Z @ w)[:, None] ** 2).T @ Z) @ bread * 120 / 117
    f = design @ w
    blocks_of = [f[groups == group] for group in groups]
    extra = [
        0.3 * (0.7 * (z - own.mean()) ** 2 + own.var()) for z, own in zip(f, blocks_of, strict=True)
    ]
    variances = np.array(extra) + np.mean((y - Z @ w) ** 2 - extra)
    expected = bread @ ((Z * variances[:, None]).T @ Z) @ bread
    # Traces are compared in standard units, which weigh the intercept by what it is there.
    units = np.diag([*X.std(axis=0), 1.0])
    units[2, :2] = X.mean(axis=0)
    sizes = [np.trace(units @ each @ units.T) for each in (sandwich, expected)]
    sd = np.sqrt(np.diag(sandwich) * max(sizes[1] / sizes[0], 1.0))
    model = fit(X, y, groups, method="ll", mislinked=0.3)
    assert model.method_ == "ll"
    assert_allclose([*model.coef_, model.intercept_], w, rtol=1e-8)
    # 1.98 standard errors at 117 degrees of freedom.
    assert_allclose(np.ptp(model.conf_int(intercept=True), axis=1), 2 * 1.98045 * sd, rtol=1e-4)


def test_one_block_has_a_closed_form():
    """In one block the slopes are those of least squares over 1 − q n/(n − 1)."""
    X, y, _, _ = make_links(100)
    ols = np.linalg.lstsq(np.column_stack([X, np.ones(100)]), y, rcond=None)[0]
    model = fit(X, y, method="ll", mislinked=0.2)
    assert_allclose(model.coef_, ols[:2] / (1.0 - 0.2 * 100 / 99), rtol=1e-8)


def test_the_estimator_of_chambers_weighs_by_the_variance_of_each_label():
    X, y, groups, _ = make_links(150, blocks=3)
    design, q = np.column_stack([X, np.ones(150)]), 0.3
    Q = dense_mixing(groups, np.full(150, q))
    w = np.linalg.lstsq(Q @ design, y, rcond=None)[0]
    for _ in range(50):
        f = design @ w
        extra = np.empty(150)
        for i in range(150):
            own = f[groups == groups[i]]
            extra[i] = q * ((1 - q) * (f[i] - own.mean()) ** 2 + own.var())
        sigma2 = np.mean((y - Q @ f) ** 2 - extra)
        inverse = 1.0 / (sigma2 + extra)
        Z = Q @ design
        w = np.linalg.solve((Z * inverse[:, None]).T @ Z, (Z * inverse[:, None]).T @ y)
    model = fit(X, y, groups, method="chambers", mislinked=q)
    assert_allclose([*model.coef_, model.intercept_], w, rtol=1e-4)


def test_errors_are_clustered_where_there_are_enough_blocks():
    """Offsets shared by five labels make errors of the intercept larger."""
    X, y, groups, _ = make_links(400, share=0.05, blocks=80)
    shifted = y + 5.0 * np.random.default_rng(1).normal(size=80)[groups]
    wide = fit(X, shifted, groups, method="ll", mislinked=0.05).conf_int(intercept=True)[2]
    narrow = fit(X, shifted, None, method="ll", mislinked=0.05).conf_int(intercept=True)[2]
    assert np.ptp(wide) > 1.4 * np.ptp(narrow)


def as_pairs(X, y):
    return read_pairs(make_bags(np.column_stack([X, np.ones(len(y))]), y), True)


def test_the_mixture_solves_least_squares_of_the_links_as_far_as_they_are_right():
    X, y, _, _ = make_links(300)
    pairs = as_pairs(X, y)
    found = fit_mixture(pairs, np.full(300, 0.3), np.array([0.7, -1.4, 1.3]))
    rest = pairs.y - pairs.X @ found.w
    noise = sum(
        share * norm.pdf(rest, scale=scale)
        for share, scale in zip(found.shares, found.scales, strict=True)
    )
    right = 0.7 * noise / (0.7 * noise + 0.3 * np.exp(pairs.log_reference))
    assert_allclose(found.right, right, atol=1e-3)
    scores = pairs.X * (right * rest)[:, None]
    sizes = np.sqrt((scores**2).sum(axis=0))
    assert (np.abs(scores.sum(axis=0)) < 0.01 * sizes).all()


def test_many_pairs_are_fitted_as_by_em_on_all(monkeypatch):
    """Labels of heavy tails, a fifth of the links wrong: within a fifth of a standard error."""
    X, y, _, _ = make_links(24_000, share=0.2, draw=heavy)
    pairs, wrong = as_pairs(X, y), np.full(24_000, 0.2)
    start = np.array([0.8, -1.6, 1.2])
    found = fit_mixture(pairs, wrong, start)
    influence = measure_influence(pairs, found)
    whole = replace(scale_mixture.SCALE_MIXTURE, most_pairs=10**9)
    monkeypatch.setattr(scale_mixture, "SCALE_MIXTURE", whole)
    slowly = fit_mixture(pairs, wrong, start)
    sds = np.sqrt((influence**2).sum(axis=0))
    assert (np.abs(found.w - slowly.w) < 0.2 * sds).all()
    assert abs(found.log_likelihood - slowly.log_likelihood) < 3.0


def test_influences_are_those_of_the_jackknife():
    X, y, _, _ = make_links(150)
    pairs, wrong = as_pairs(X, y), np.full(150, 0.3)
    start = np.array([1.0, -2.0, 1.0])
    found = fit_mixture(pairs, wrong, start)
    influence = measure_influence(pairs, found)
    left = []
    for i in range(0, 150, 3):
        kept = np.arange(150) != i
        part = as_pairs(pairs.X[kept, :2], pairs.y[kept])
        left.append(found.w - fit_mixture(part, wrong[kept], start).w)
    left = np.array(left)
    for j in range(3):
        assert np.corrcoef(left[:, j], influence[::3, j])[0, 1] > 0.9
        # The shares of the noise's components, kept by one and fitted anew by the other.
        assert_allclose(left[:, j].std(), influence[::3, j].std(), rtol=0.5)


# A fit that estimates the rate takes 0.15 s. `make test` has six with wrong probabilities and eight
# with heavy tails, all intervals of which must cover.
@pytest.mark.parametrize("share", [0.3, pytest.param("estimate", marks=pytest.mark.slow)])
def test_intervals_cover_whatever_the_noise(share):
    """50 intervals of 95 % with two degrees of freedom: honest ones cover 42 in all but 1e-3."""
    n_covered = 0
    for seed in range(25):
        X, y, _, _ = make_links(150, seed=seed, draw=heavy)
        low, high = fit(X, y, mislinked=share).conf_int().T
        n_covered += int(((low < SLOPES) & (high > SLOPES)).sum())
    assert n_covered >= 42


def test_heavy_tails_are_not_taken_for_wrong_links():
    for seed in range(8):
        X, y, _, linked = make_links(200, share=0.0, seed=seed, draw=heavy)
        model = fit(X, y, mislinked="estimate")
        ols = np.linalg.lstsq(np.column_stack([X, np.ones(200)]), linked, rcond=None)[0][:2]
        low, high = model.conf_int().T
        assert ((low < ols) & (ols < high)).all()
        assert np.linalg.norm(model.coef_ - ols) < 0.1 * np.linalg.norm(ols)


def test_a_rate_that_data_leave_open_is_said_with_what_helps():
    X, y, _, _ = make_links(60, share=0.2, draw=heavy)
    model = fit(X, y, mislinked="estimate")
    text = " ".join(model.summary().explanation)
    assert "cover both readings" in text and "audit" in text
    low, high = model.result_.stats["mislinked_interval"]
    assert low <= 0.2 <= high


def test_an_audit_carries_its_sampling_error():
    X, y, _, _ = make_links(400)
    known, large, small = (
        np.ptp(fit(X, y, links=links, method="ll").conf_int(), axis=1)
        for links in (Links(rate=0.3), Links(audit=(5000, 1500)), Links(audit=(20, 6)))
    )
    assert_allclose(large, known, rtol=0.1)
    # By the delta method the error of 1/(1 − q) is that of q, 0.1, over 0.7, of each slope.
    extra = 2 * 1.96 * 0.1 / 0.7 * np.abs(SLOPES)
    # Beyond it, 1/(1 − q) is convex.
    assert_allclose(small, np.hypot(known, extra), rtol=0.4)


def test_rates_by_block_are_those_of_their_rows():
    X, y, groups, _ = make_links(200, share=0.0, blocks=4)
    rng = np.random.default_rng(3)
    mixed = np.flatnonzero(groups >= 2)
    for block in (2, 3):
        own = np.flatnonzero(groups == block)
        y[own] = y[rng.permutation(own)]
    names = np.array(["a", "b", "c", "d"])[groups]
    rates = {"a": 0.0, "b": 0.0, "c": 0.98, "d": 0.98}
    model = fit(X, y, names, Links(rate=rates))
    probability = model.link_probability_
    assert (probability[groups < 2] == 1.0).all() and probability[mixed].mean() < 0.1
    assert_allclose(model.coef_, SLOPES, atol=0.3)


def test_match_probabilities_weigh_each_pair():
    X, y, _, linked = make_links(300)
    is_wrong = y != linked
    sharp = Links(probability=np.where(is_wrong, 0.02, 0.98))
    blunt = Links(probability=np.full(300, 0.7))
    one, other = (fit(X, y, links=links) for links in (sharp, blunt))
    width = [np.ptp(model.conf_int(), axis=1) for model in (one, other)]
    assert (width[0] < width[1]).all()
    assert_allclose(one.coef_, SLOPES, atol=0.15)
    # A rate besides shifts their logits: of one probability nothing else is left.
    shifted = fit(X, y, links=Links(probability=np.full(300, 0.5), rate=0.3))
    assert_allclose(shifted.coef_, other.coef_, rtol=1e-6)


def make_explained(seed, n=300):
    """Return rows, labels, columns of which the first explains link quality, and true labels."""
    X, _, _, linked = make_links(n, share=0.0, seed=seed)
    rng = np.random.default_rng([seed, 1])
    columns = rng.normal(size=(n, 2))
    wrong = np.flatnonzero(rng.random(n) < expit(1.5 * columns[:, 0] - 1.2))
    y = linked.copy()
    y[wrong] = linked[rng.permutation(wrong)]
    return X, y, columns, linked


def test_match_probabilities_that_are_too_sure_are_calibrated_by_the_fit():
    """Half of the links are wrong where 0.99 is claimed for the best of them."""
    errors = []
    for seed in range(6):
        X, y, _, linked = make_links(300, share=0.5, seed=seed)
        rng, is_wrong = np.random.default_rng(seed), y != linked
        claimed = expit(3.5 - 1.2 * is_wrong + 0.5 * rng.normal(size=300))
        given = Links(probability=claimed)
        fits = [fit(X, y, links=given, **how) for how in ({}, {"mislinked": "estimate"})]
        errors.append([np.linalg.norm(model.coef_ - SLOPES) for model in fits])
        low, high = fits[1].conf_int().T
        assert (low < SLOPES).all() and (high > SLOPES).all()
        gaps = [abs(model.link_probability_.mean() - np.mean(~is_wrong)) for model in fits]
        assert gaps[1] < 0.15 < gaps[0]
    assert np.mean(errors, axis=0)[1] < np.mean(errors, axis=0)[0]


@pytest.mark.parametrize("rate", [None, "known"])
def test_columns_that_explain_link_quality_tell_wrong_links_better(rate):
    """The Brier score falls in each data set; idle columns cost less than 2 %."""
    for seed in range(4 if rate else 2):
        X, y, columns, linked = make_explained(seed)
        known = None if rate is None else float(np.mean(y != linked))
        frame = pd.DataFrame(columns, columns=["distance", "unrelated"])
        scores = []
        for each in (None, frame[["unrelated"]], frame):
            said = fit(X, y, links=Links(rate=known, columns=each)).link_probability_
            scores.append(np.mean((said - (y == linked)) ** 2))
        assert scores[2] < 0.95 * scores[0]
        assert scores[1] < scores[0] + 0.02


def test_the_logistic_model_of_link_quality_is_a_penalised_maximum():
    rng = np.random.default_rng(0)
    columns, wrong = rng.normal(size=(200, 2)), rng.random(200)

    def loss(w):
        z = columns @ w[:2] + w[2]
        return np.sum(np.logaddexp(0.0, z) - wrong * z) + 0.5 * (w[:2] @ w[:2]) / 2.0**2

    best = minimize(loss, np.zeros(3)).x
    assert_allclose(fit_logistic(columns, wrong, np.zeros(2)), best[:2], atol=1e-4)


def test_columns_of_link_quality_have_no_units_and_constants_say_nothing():
    X, y, columns, _ = make_explained(0)
    one = fit(X, y, links=Links(rate=0.3, columns=columns))
    scaled = columns * [100.0, 0.01] + 5.0
    other = fit(X, y, links=Links(rate=0.3, columns=np.column_stack([scaled, np.ones(300)])))
    assert_allclose(one.link_probability_, other.link_probability_, atol=1e-5)
    flat = fit(X, y, links=Links(rate=0.3, columns=np.ones(300)))
    assert_allclose(flat.coef_, fit(X, y, links=Links(rate=0.3)).coef_, rtol=1e-9)


def test_columns_go_with_an_audit_rates_of_blocks_and_safe_pairs():
    X, y, columns, linked = make_explained(1)
    blocks, safe = np.repeat(["a", "b"], 150), (y == linked) & (np.arange(300) < 50)
    told = (
        Links(audit=(50, 15), columns=columns),
        Links(rate={"a": 0.25, "b": 0.3}, columns=columns),
        Links(rate=0.3, safe=safe, columns=columns),
    )
    for links in told:
        model = fit(X, y, blocks, links)
        low, high = model.conf_int().T
        assert ((low < SLOPES) & (high > SLOPES)).all()
        right = model.link_probability_
        assert right[columns[:, 0] < -1].mean() > right[columns[:, 0] > 1].mean() + 0.3


def test_safe_pairs_are_right():
    X, y, _, linked = make_links(200)
    safe = (y == linked) & (np.arange(200) % 2 == 0)
    model = fit(X, y, links=Links(safe=safe))
    assert (model.link_probability_[safe] == 1.0).all()
    by_probability = fit(X, y, links=Links(probability=np.where(safe, 1.0, 0.5)))
    assert (by_probability.link_probability_[safe] == 1.0).all()


@pytest.mark.parametrize("draw", [None, pytest.param(heavy, marks=pytest.mark.slow)])
def test_probabilities_of_links_are_as_often_right_as_they_say(draw):
    said, right = [], []
    for seed in range(6):
        X, y, _, linked = make_links(300, seed=seed, draw=draw)
        said.append(fit(X, y, mislinked="estimate").link_probability_)
        right.append(y == linked)
    said, right = np.concatenate(said), np.concatenate(right)
    decile, error = np.minimum((10 * said).astype(int), 9), 0.0
    for k in np.unique(decile):
        own = decile == k
        error += own.mean() * abs(said[own].mean() - right[own].mean())
    # Links of one fit hang together: chance alone gives about 0.03.
    assert error < 0.08


def test_links_are_fitted_in_memory_at_every_size(monkeypatch):
    X, y, groups, _ = make_links(120, blocks=3)
    links = Links(rate=0.3, columns=X[:, 0])
    expected = fit(X, y, groups, links)
    monkeypatch.setattr(methods, "BLOCKS_ABOVE", 100)
    found = fit(X, y, groups, links)
    assert_array_equal(found.coef_, expected.coef_)
    assert "exchangeable inside blocks" in " ".join(found.summary().explanation)


def test_the_order_of_pairs_moves_no_bit():
    X, y, groups, _ = make_links(90, blocks=3)
    links = np.linspace(0.2, 0.9, 90)
    order = np.random.default_rng(0).permutation(90)
    one = fit(X, y, groups, Links(probability=links))
    two = fit(X[order], y[order], groups[order], Links(probability=links[order]))
    assert_array_equal(one.coef_, two.coef_)
    assert_array_equal(one.link_probability_[order], two.link_probability_)


def test_the_centre_has_the_least_expected_relative_error():
    rng = np.random.default_rng(0)
    centres, mass = rng.normal(size=(6, 3)) + 3.0, rng.dirichlet(np.ones(6) * 5)

    def loss(w):
        gaps = np.linalg.norm(centres[:, :2] - w[:2], axis=1)
        return float((mass * gaps / np.linalg.norm(centres[:, :2], axis=1)).sum())

    best = find_centre(centres, mass, 2)
    for step in rng.normal(scale=0.01, size=(20, 3)):
        assert loss(best) <= loss(best + step) + 1e-9


def test_links_are_routed_to_the_last_step_of_a_pipeline():
    import sklearn
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, _, _ = make_links(80)
    with sklearn.config_context(enable_metadata_routing=True):
        piped = make_pipeline(StandardScaler(), ShuffledLinearRegression())
        model = piped.fit(X, y, links=Links(rate=0.3))[-1]
    scaled = StandardScaler().fit_transform(X)
    assert_allclose(model.coef_, fit(scaled, y, mislinked=0.3).coef_, rtol=1e-9)


def test_cross_validation_cuts_links_with_the_rows():
    """Probabilities, safe pairs and columns are of rows, and follow the rows of each fold."""
    import sklearn
    from sklearn.model_selection import KFold, cross_val_score

    X, y, groups, linked = make_links(120, blocks=3)
    links = Links(probability=np.where(y == linked, 0.95, 0.05), safe=np.arange(120) % 120 == 0)
    y[0] = linked[0]
    model = ShuffledLinearRegression(random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_val_score(
            model, X, y, cv=KFold(3), params={"links": links, "groups": groups}
        )
    expected = []
    for train, test in KFold(3).split(X):
        part = Links(probability=links.probability[train], safe=links.safe[train])
        model.fit(X[train], y[train], groups[train], links=part)
        expected.append(model.score(X[test], y[test], groups[test]))
    assert_allclose(scores, expected, rtol=1e-9)


BAD = {
    "probability above one": (Links(probability=[1.2] * 20), {}, "row 0.*from 0 to 1"),
    "too few probabilities": (Links(probability=[0.5] * 3), {}, "there are 20 rows"),
    "no numbers": (Links(probability=["high"] * 20), {}, "a number for every row"),
    "safe and impossible": (
        Links(probability=[0.0] * 20, safe=[True] * 20), {}, "row 0 is safe"
    ),
    "safe of two rows": (Links(safe=[True, False]), {}, "each of 20 rows"),
    "unknown block": (Links(rate={"x": 0.1, 0: 0.1}), {}, "block .x., which groups do not have"),
    "too few columns' rows": (Links(columns=np.ones((3, 2))), {}, "there are 20 rows"),
    "text in columns": (Links(columns=["near"] * 20), {}, "must be numbers"),
    "a column with a hole": (Links(columns=[np.nan] * 20), {}, "column 0.*row 0"),
    "rate given twice": (Links(rate=0.1), {"mislinked": 0.2}, "given twice"),
    "no known rate": (Links(), {"method": "ll"}, "known mismatch rate"),
    "no links": (None, {"method": "chambers"}, "known mismatch rate"),
    "no Links object": ([0.5] * 20, {}, "give a Links object"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_wrong_links_are_refused_in_one_line(case):
    links, options, words = BAD[case]
    X, y, groups, _ = make_links(20)
    with pytest.raises(InputError, match=words) as told:
        fit(X, y, groups, links, **options)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"rate": 1.5}, "rate=1.5.*0 to 1"),
        ({"rate": {"a": -0.1}}, "block \"a\"|block 'a'"),
        ({"audit": (10, 11)}, "finds 11 wrong of 10"),
        ({"audit": (0, 0)}, "finds 0 wrong of 0"),
        ({"audit": 0.1}, "links checked, links wrong"),
        ({"rate": 0.1, "audit": (10, 1)}, "give one of them"),
        ({"probability": [0.5], "columns": [1.0]}, "give one of them"),
    ],
)
def test_links_that_cannot_be_are_refused(how, words):
    with pytest.raises(InputError, match=words):
        Links(**how)


def test_a_rate_of_zero_is_ordinary_least_squares():
    X, y, groups, _ = make_links(100, blocks=2)
    ols = fit(X, y, mislinked=0.0)
    for links in (Links(rate=0.0), Links(rate={0: 0.0, 1: 0.0}), Links(probability=np.ones(100))):
        for method in ("auto", "ll", "chambers"):
            model = fit(X, y, groups, links, method=method)
            assert_allclose(model.coef_, ols.coef_, rtol=1e-12)
            assert_allclose(model.conf_int(), ols.conf_int(), rtol=1e-9)


def test_a_frame_may_hold_the_probabilities():
    X, y, _, _ = make_links(60)
    frame = pd.DataFrame({"p": np.full(60, 0.7)})
    assert_allclose(
        fit(X, y, links=Links(probability=frame["p"])).coef_, fit(X, y, mislinked=0.3).coef_
    )


def test_a_formula_finds_what_is_known_of_links_in_its_frame():
    X, y, groups, linked = make_links(200, blocks=4)
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "village": groups})
    frame["match"], frame["sure"] = np.where(y == linked, 0.9, 0.2), (y == linked) & (X[:, 0] > 1)
    frame["distance"] = np.exp((y != linked) + rng.normal(size=200))
    frame["source"] = np.where((y != linked) | (rng.random(200) < 0.4), "new", "old")
    explaining = np.column_stack([np.log(frame["distance"]), frame["source"] == "old"])
    cases = [
        (Links(probability="match"), Links(probability=frame["match"])),
        (Links(rate=0.3, safe="sure"), Links(rate=0.3, safe=frame["sure"])),
        (Links(columns="log(distance) + C(source)"), Links(columns=explaining)),
    ]
    rest = {"match", "sure", "distance", "source"}
    for named, given in cases:
        used = {value for value in (named.probability, named.safe) if value is not None}
        left = rest - (used if named.columns is None else {"distance", "source"})
        formula = " - ".join(["y ~ .", *sorted(left)])
        model = ShuffledLinearRegression.from_formula(formula, frame, "village", links=named)
        assert model.feature_names_in_.tolist() == ["a", "b"]
        assert_allclose(model.coef_, fit(X, y, groups, given).coef_, rtol=1e-6)


@pytest.mark.parametrize(
    ("links", "words"),
    [
        (Links(columns="y ~ distance"), "without a label"),
        (Links(columns="distanse"), "did you mean 'distance'"),
        (Links(probability="mach"), "did you mean 'match'"),
    ],
)
def test_names_that_the_frame_does_not_have_are_refused(links, words):
    frame = {"a": [1.0, 2.0], "y": [1.0, 3.0], "match": [0.5, 0.5], "distance": [1.0, 2.0]}
    with pytest.raises(InputError, match=words):
        ShuffledLinearRegression.from_formula("y ~ a", frame, links=links)


def test_only_a_formula_finds_columns_by_name():
    X, y, _, _ = make_links(20)
    with pytest.raises(InputError, match="give the values"):
        fit(X, y, links=Links(probability="match"))


def make_loose(seed, n=600):
    """Return one column and labels, a third of which depend half as much on it; no wrong link."""
    rng = np.random.default_rng(seed)
    x, is_loose = rng.normal(size=n), rng.random(n) < 0.35
    y = np.where(is_loose, 0.5 * x + 0.8 * rng.normal(size=n), x + 0.05 * rng.normal(size=n))
    return x[:, None], y


def test_labels_that_depend_less_on_their_row_are_not_taken_for_wrong_links():
    calibrated = load_link_calibration()
    for seed in range(2):
        X, y = make_loose(seed)
        rates = measure_rates(as_pairs(X, y), calibrated.ratio)
        strict = replace(rates, loose=rates.values)
        means = [float(each.posterior(calibrated) @ RATES) for each in (rates, strict)]
        assert rates.gain > 3.0 and means[0] < 0.75 * means[1]
        ols = np.polyfit(X[:, 0], y, 1)[0]
        model = fit(X, y, mislinked="estimate")
        low, high = model.conf_int()[0]
        assert low < ols < high


def test_a_known_rate_tells_labels_that_depend_less_on_their_row():
    """With the criterion of Schwarz: near 1 with such labels, near 0 where links are wrong."""
    ratio = load_link_calibration().ratio
    for seed in range(4):
        X, y = make_loose(seed)
        assert measure_loose(as_pairs(X, y), np.full(len(y), 0.02), ratio) > 0.9
        X, y, _, _ = make_links(400, seed=seed)
        assert measure_loose(as_pairs(X, y), np.full(400, 0.3), ratio) < 0.5


def test_the_estimate_takes_the_rate_as_better_known_where_all_labels_are_alike():
    """The posterior behind the intervals is wider: these hold where the model does not."""
    calibrated = load_link_calibration()
    X, y, _, _ = make_links(600, share=0.4)
    rates = measure_rates(as_pairs(X, y), calibrated.ratio)
    wide, sharp = rates.posterior(calibrated), find_point_posterior(rates, calibrated)
    means = [mass @ RATES for mass in (wide, sharp)]
    sds = [np.sqrt(mass @ (RATES - m) ** 2) for mass, m in zip((wide, sharp), means, strict=True)]
    assert sds[1] < 0.8 * sds[0] and abs(means[1] - 0.4) < abs(means[0] - 0.4)
    uneven = replace(rates, loose=rates.values + 20.0)
    assert_allclose(
        find_point_posterior(uneven, calibrated), uneven.posterior(calibrated), atol=1e-4
    )


def test_a_free_slope_never_loses_likelihood_where_links_are_wrong():
    """The models are nested; EM stops within a nat of the maximum."""
    for seed in range(4):
        X, y, _, _ = make_links(200, seed=seed)
        rates = measure_rates(as_pairs(X, y), load_link_calibration().ratio)
        assert rates.gain > -1.0 and rates.loose_weight < 0.9


def test_agreement_by_direction_keeps_the_size_of_one_and_the_direction_of_the_other():
    """At a rate that is wrong the two differ in size; along one column nothing else can differ."""
    X, y, _, _ = make_links(1000, share=0.4)
    pairs = as_pairs(X, y)
    wrong = np.full(1000, 0.1)
    one, other = (
        combine(split_blocks(pairs), wrong, 0.05, 1.0, None, by_direction=how)
        for how in (True, False)
    )
    adjusted = solve_lahiri_larsen(pairs, wrong).w[:2]
    mixture = fit_mixture(pairs, wrong, solve_lahiri_larsen(pairs, wrong).w).w[:2]
    unit = mixture / np.linalg.norm(mixture)
    # The size along the mixture is that of the adjusted equations.
    assert_allclose(one.w[:2] @ unit, adjusted @ unit, rtol=0.02)
    across = np.linalg.norm(one.w[:2] - (one.w[:2] @ unit) * unit)
    assert across <= np.linalg.norm(other.w[:2] - (other.w[:2] @ unit) * unit) + 1e-9
    line = as_pairs(X[:, :1], y)
    same = [
        combine(split_blocks(line), wrong, 0.05, 1.0, None, by_direction=how).w
        for how in (True, False)
    ]
    assert_allclose(same[0][0], same[1][0], rtol=1e-9)
