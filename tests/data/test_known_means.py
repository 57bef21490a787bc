"""Bags of which only the mean or total of the labels is known: ecological regression."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import multivariate_normal, t as student

from command_line import assert_one_line
from unshuffle import METHODS, Bag, InputError, Likelihood, fit
from unshuffle.cli.app import run
from unshuffle.data.bags import join_bags
from unshuffle.data.scaling import standardise
from unshuffle.inference.diagnostics import measure_difference
from unshuffle.model.building import build_target
from unshuffle.model.settings import Settings

FLAT = {"method": Likelihood(prior="flat"), "bag_offsets": False}


def draw_bags(seed, n_bags=14, d=2, noise=0.4):
    """Return rows and labels of bags of unequal sizes."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 30, n_bags)
    parts = [rng.exponential(size=(size, d)) + rng.normal(size=d) for size in sizes]
    w = rng.normal(size=d)
    return [(X, X @ w + 1.0 + noise * rng.standard_normal(len(X))) for X in parts]


def weighted_squares(parts):
    """Return weighted least squares on the bag means with its 95 % t intervals, by NumPy."""
    n = np.array([len(y) for _, y in parts])
    A = np.column_stack([[X.mean(axis=0) for X, _ in parts], np.ones(len(parts))])
    b = np.array([y.mean() for _, y in parts])
    inverse = np.linalg.inv(A.T @ (A * n[:, None]))
    w = inverse @ (A.T @ (n * b))
    dof = len(parts) - A.shape[1]
    sd = np.sqrt(np.diagonal(inverse) * (n * (b - A @ w) ** 2).sum() / dof)
    half = student.ppf(0.975, dof) * sd
    return w, np.column_stack([w - half, w + half])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from(["mean", "total"]))
def test_flat_prior_without_effects_is_weighted_least_squares(seed, d, which):
    parts = draw_bags(seed, d=d)
    known = [{"mean": y.mean(), "total": y.sum()}[which] for _, y in parts]
    bags = [Bag(X, **{which: value}) for (X, _), value in zip(parts, known, strict=True)]
    w, ends = weighted_squares(parts)
    found = fit(bags, **FLAT)
    np.testing.assert_allclose(found.weights, w, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.conf_int(), ends[:-1], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fit(bags, method="means").weights, w, rtol=1e-7, atol=1e-9)
    full = fit([Bag(X, y) for X, y in parts], method="means")  # nothing but the means counts
    np.testing.assert_allclose(full.weights, w, rtol=1e-7, atol=1e-9)


def test_the_spread_of_labels_known_by_means_has_three_parts():
    """Between bags, inside them along the slopes, and the noise of weighted least squares."""
    statsmodels = pytest.importorskip("statsmodels.api")
    parts = draw_bags(3, n_bags=9, noise=2.0)
    n = np.array([len(y) for _, y in parts])
    b = np.array([y.mean() for _, y in parts])
    A = np.column_stack([[X.mean(axis=0) for X, _ in parts], np.ones(len(parts))])
    book = statsmodels.WLS(b, A, weights=n).fit()
    between = n @ (b - n @ b / n.sum()) ** 2 / n.sum()
    inside = sum((((X - X.mean(axis=0)) @ book.params[:2]) ** 2).sum() for X, _ in parts) / n.sum()
    bags = join_bags([Bag(X, mean=mean) for (X, _), mean in zip(parts, b, strict=True)])
    spread = standardise(bags, True, True)[1].label_scale
    assert spread == pytest.approx(np.sqrt(between + inside + book.scale), rel=1e-9)


def test_means_tell_what_full_bags_tell_of_them():
    """The likelihood of means is that of contrasts of a multivariate normal distribution."""
    parts = draw_bags(3)
    bags = join_bags([Bag(X, mean=y.mean()) for X, y in parts])
    standard, _ = standardise(bags, True, True)
    built = build_target(standard, True, None, Settings(curve_scale=0.0))
    assert built is not None
    target, rng = built[0], np.random.default_rng(0)
    m, n_bags = bags.known_means.counts, len(parts)
    contrasts = np.linalg.qr(np.column_stack([np.ones(n_bags), np.eye(n_bags)[:, 1:]]))[0][:, 1:].T
    seen, expected = [], []
    for _ in range(4):
        w, log_sigma = rng.normal(size=target.p), rng.normal()
        gaps = target.bag_labels - target.bag_rows @ w
        cov = contrasts @ np.diag(np.exp(2 * log_sigma) / m) @ contrasts.T
        expected.append(multivariate_normal.logpdf(contrasts @ gaps, cov=cov))
        seen.append(target.likelihood(w, log_sigma)[0])
    np.testing.assert_allclose(np.diff(seen), np.diff(expected), rtol=1e-9)


@pytest.mark.parametrize("differ", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("n_single", [0, 4])
def test_standard_units_are_those_of_single_labels(differ, n_single):
    """The sd of labels follows from means, whether or not the bags were formed at random."""
    rng, w, ratios = np.random.default_rng(7), np.array([1.0, -0.5]), []
    for _ in range(10):
        rows = [differ * rng.normal(size=2) + rng.normal(size=(40, 2)) for _ in range(30)]
        labels = [X @ w + 0.7 * rng.standard_normal(len(X)) for X in rows]
        bags = [
            Bag(X, y) if r < n_single else Bag(X, mean=y.mean())
            for r, (X, y) in enumerate(zip(rows, labels, strict=True))
        ]
        scale = standardise(join_bags(bags), True, True)[1].label_scale
        ratios.append(scale / np.concatenate(labels).std())
    # 30 means of bags at random know a spread to an eighth.
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)


def test_random_bags_are_taken_for_others_as_often_as_the_test_says():
    """Columns that hang together are fewer than they look (Box 1954)."""
    rng, n_alarms = np.random.default_rng(5), 0
    for _ in range(400):
        X = rng.normal(size=(300, 1)) + 0.5 * rng.normal(size=(300, 5))
        rows = np.split(X, 20)
        bags = join_bags([Bag(each, mean=float(each.sum())) for each in rows])
        built = build_target(standardise(bags, True, True)[0], True, None, Settings())
        n_alarms += measure_difference(built[0]) > 0.0
    # 2 % of 400, within four standard errors; counted as five columns they would be a fifth.
    assert n_alarms <= 8 + 4 * 2.8


def test_a_coefficient_that_is_half_of_a_spread_is_not_negligible():
    rng, bags = np.random.default_rng(0), []
    for _ in range(30):
        X = 2.0 * rng.normal(size=2) + rng.normal(size=(40, 2))
        y = X @ [0.4, 0.8] + 0.5 * rng.standard_normal(40)
        bags.append(Bag(X, mean=y.mean()))
    found = fit(bags, rng=0)
    limits = found.facts.negligible[:2]
    assert (limits < 0.2).all()  # a tenth of sd(y)/sd(x) = 2/2.2, where the means alone vary alike


def test_order_of_rows_and_bags_changes_no_bit():
    parts, rng = draw_bags(5), np.random.default_rng(0)
    known = [y.mean() for _, y in parts]
    bags = [
        Bag(X, y) if r < 4 else Bag(X, mean=mean)
        for r, ((X, y), mean) in enumerate(zip(parts, known, strict=True))
    ]
    mixed = []
    for r in rng.permutation(len(parts)):
        X, y = parts[r]
        X, y = X[rng.permutation(len(y))], y[rng.permutation(len(y))]
        mixed.append(Bag(X, y) if r < 4 else Bag(X, mean=known[r]))
    one, other = fit(bags, rng=1), fit(mixed, rng=1)
    assert one.weights.tolist() == other.weights.tolist()
    assert one.conf_int().tolist() == other.conf_int().tolist()


def test_means_beside_full_bags_add_information():
    parts = draw_bags(8, n_bags=16, noise=1.0)
    full = [Bag(X, y) for X, y in parts[:6]]
    means = [Bag(X, mean=y.mean()) for X, y in parts[6:]]
    alone, both = fit(full, rng=0), fit(full + means, rng=0)
    width = np.diff(alone.conf_int()).mean()
    assert np.diff(both.conf_int()).mean() < 0.9 * width
    assert "16 bags, 10 known by mean labels" in str(both.summary())
    assert both.summary().to_dict()["known_means"] == 10
    assert both.verdict is not None


def test_counts_of_rows_are_rows_written_out():
    parts = draw_bags(2)
    counts = [np.arange(len(y)) % 3 + 1 for _, y in parts]
    short = [Bag(X, mean=y.mean(), row_counts=c) for (X, y), c in zip(parts, counts, strict=True)]
    long = [
        Bag(np.repeat(X, c, axis=0), mean=y.mean()) for (X, y), c in zip(parts, counts, strict=True)
    ]
    np.testing.assert_allclose(fit(short, **FLAT).weights, fit(long, **FLAT).weights, rtol=1e-9)


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"auto", "likelihood", "means"}))
def test_other_methods_refuse_in_one_sentence(method):
    bags = [Bag(X, mean=y.mean()) for X, y in draw_bags(1, d=3)]
    with pytest.raises(InputError) as caught:
        fit(bags, method=method)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "one of y, mean and total"),
        ({"mean": 1.0, "total": 2.0}, "one of y, mean and total"),
        ({"y": [1.0, 2.0], "mean": 1.0}, "give y alone"),
        ({"mean": np.nan}, "finite"),
        ({"mean": 1.0, "anchors": [True, False]}, "anchors"),
        ({"total": [1.0, 2.0]}, "one finite number"),
    ],
)
def test_wrong_bags_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        Bag([[1.0], [2.0]], **given)


@pytest.mark.parametrize("same", [None, False])
def test_separate_samples_do_not_mix_with_means(same):
    bags = [Bag([[1.0], [2.0]], mean=1.0), Bag([[1.0], [2.0]], [1.0, 2.0, 3.0][: 3 - (not same)])]
    with pytest.raises(InputError, match="only the mean is known"):
        fit(bags if same is False else [*bags, Bag([[0.0]], [1.0, 2.0])], same_individuals=same)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = [(X.round(3), y) for X, y in draw_bags(4)]
    lines = [f"{a},{b},p{r}" for r, (X, _) in enumerate(parts) for a, b in X.tolist()]
    Path("rows.csv").write_text("\n".join(["a,b,pool", *lines]) + "\n")
    write("mean.csv", "pool,mean", [f"p{r},{y.mean()}" for r, (_, y) in enumerate(parts)])
    write("total.csv", "pool,total", [f"p{r},{y.sum()}" for r, (_, y) in enumerate(parts)])
    mixed = [f"p{r},,{y.mean()}" for r, (_, y) in enumerate(parts) if r >= 5]
    mixed += [f"p{r},{v}," for r, (_, y) in enumerate(parts) if r < 5 for v in y.tolist()]
    write("mixed.csv", "pool,light,mean", mixed)
    return parts


def write(name, head, lines):
    Path(name).write_text("\n".join([head, *lines]) + "\n")


def fit_file(capsys, labels, *more):
    code = run(["fit", "--rows", "rows.csv", "--labels", labels, "--bag", "pool", "--json", *more])
    assert code == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("which", ["mean", "total"])
def test_label_file_with_a_line_for_each_bag(files, capsys, which):
    found = fit_file(capsys, f"{which}.csv", "--method", "means")
    expected = weighted_squares(files)[0]
    seen = [each["estimate"] for each in found["coefficients"].values()]
    np.testing.assert_allclose(seen, expected[:-1], rtol=1e-6)
    assert found["known_means"] == len(files)


def test_label_file_with_labels_and_means(files, capsys):
    found = fit_file(capsys, "mixed.csv", "--label", "light", "--seed", "3")
    bags = [Bag(X, y) if r < 5 else Bag(X, mean=y.mean()) for r, (X, y) in enumerate(files)]
    expected = fit(bags, rng=3)
    seen = [each["estimate"] for each in found["coefficients"].values()]
    np.testing.assert_allclose(seen, expected.coef, rtol=1e-9)
    assert found["known_means"] == len(files) - 5


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--labels", "mean.csv", "--log10"], "does not follow"),
        (["--labels", "mixed.csv"], "missing value in column 'mean'"),
        (["--labels", "twice.csv"], "one line with its mean or total"),
        (["--labels", "both.csv", "--label", "light"], "both of 'light' and 'mean'"),
        (["--labels", "two.csv"], "leave one out"),
    ],
)
def test_wrong_label_files_are_refused(files, capsys, more, words):
    write("twice.csv", "pool,mean", [f"p{r},1" for r in range(14) for _ in range(2)])
    write("both.csv", "pool,light,mean", [f"p{r},1,1" for r in range(14)])
    write("two.csv", "pool,total,mean", [f"p{r},1,1" for r in range(14)])
    code = run(["fit", "--rows", "rows.csv", "--bag", "pool", "--quiet", *more])
    assert_one_line(code, capsys.readouterr(), [words])


@pytest.mark.parametrize("command", ["match", "compare"])
def test_commands_that_need_single_labels_refuse(files, capsys, command):
    assert run([command, "--rows", "rows.csv", "--labels", "mean.csv", "--bag", "pool"]) == 2
    assert "only the mean is known" in capsys.readouterr().err.splitlines()[-1]


def test_pictures_take_a_mean_for_what_it_is():
    """A known mean is no single label: its noise is that of a mean, and no histogram shows it."""
    pytest.importorskip("matplotlib")
    from unshuffle.results.pictures.bag_views import view_bags
    from unshuffle.results.pictures.report_pictures import list_drawings

    parts = draw_bags(2, n_bags=8)
    full, means = ([Bag(X, y) for X, y in parts], [Bag(X, mean=y.mean()) for X, y in parts])
    titles = []
    for bags in (full, full[:3] + means[3:], means):
        joined, found = join_bags(bags), fit(bags, method="means")
        views = view_bags(found, joined)
        assert [view.n_labels for view in views] == [len(y) for _, y in parts]
        for view, (X, y) in zip(views, parts, strict=True):
            assert view.mean_y == pytest.approx(y.mean())
            assert view.mean_z == pytest.approx((X @ found.coef).mean() + found.intercept)
        titles.append({each.title for each in list_drawings(found, views, 0.95, "y")})
    labels = {"Labels and predictions", "Goodness of fit"}
    assert labels <= titles[0] and titles[1] == titles[0] and titles[2] == titles[0] - labels
