"""Properties of every method: what each promises, over the whole registry."""

import threading
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import oracles
from pairs import cover_pairs
from registry_examples import (
    CHOOSERS,
    LENGTHY,
    LIGHT,
    SOLVERS,
    all_weights,
    fit_quietly,
    fit_shared,
    make_method_data,
    make_property_data,
)
from unshuffle import Bag, ShuffledLinearRegression, fit
from unshuffle.core.solution import Status
from unshuffle.errors import DataWarning
from unshuffle.methods import METHODS, choose_method, choose_paper_method
from unshuffle.objectives.losses import Moments, OrderInvariant, Squared
from unshuffle.simulate import make_shuffled, shuffle_labels
from unshuffle.solvers.projection import Projection

solvers = pytest.mark.parametrize("method", SOLVERS)
# Methods for data of any size and any number of bags.
BROAD = [method for method in SOLVERS if method not in ("exact", "means")]


@solvers
def test_weights_are_near_the_truth_on_easy_data(method):
    data = make_method_data(method, noise=0.02)
    model = fit_quietly(method, data.X, data.y, data.groups)
    truth = np.append(data.weights, data.intercept)
    error = np.linalg.norm(all_weights(model) - truth) / np.linalg.norm(truth)
    # Ordinary regression is within 1 % here. Small-D, which sees a tenth of the labels, and bag
    # means, which see six numbers, are the weakest at a noise of a fiftieth.
    assert error < (0.25 if method in ("small-d", "means", "ks") else 0.05)


@solvers
def test_candidates_come_best_first_with_counts_and_advice(method):
    data = make_method_data(method)
    solution = fit_shared(method, data.X, data.y, data.groups).solution_
    values = [c.value for c in solution.candidates]
    assert all(np.isfinite(values))
    weights = np.array([c.weights for c in solution.candidates])
    assert np.isfinite(weights).all() and weights.shape == (len(values), 3)
    assert isinstance(solution.status, Status) and solution.status.value.endswith(".")
    if solution.stats["n_starts"]:
        assert values == sorted(values)
    if len(solution.start_values):
        assert sum(c.n_starts for c in solution.candidates) <= solution.stats["n_starts"]
        assert solution.value <= solution.start_values.min() + 1e-12 * abs(solution.value)


@pytest.mark.parametrize("method", ["ls", "p1", "p2", "emd", "ks", "sm"])
def test_candidates_are_distinct_answers(method):
    data = make_shuffled(120, 4, noise=0.3, features="normal", rng=0)
    candidates = fit_quietly(method, data.X, data.y, n_starts=40).solution_.candidates
    assert len(candidates) > 1  # one bag of Gaussian columns has many minima
    X = np.column_stack([data.X, np.ones(120)])
    fitted = np.array([X @ c.weights for c in candidates]) / data.y.std()
    gaps = np.sqrt(((fitted[:, None] - fitted) ** 2).mean(-1)) + np.eye(len(fitted))
    # Documented: closer than 0.01 label spreads is one answer (a hair less, for rounding).
    assert gaps.min() > 0.0099


@solvers
def test_same_seed_gives_the_same_bits_and_method_name(method):
    data = make_method_data(method)
    one = fit_shared(method, data.X, data.y, data.groups)
    two = fit_quietly(method, data.X, data.y, data.groups)
    assert all_weights(one).tobytes() == all_weights(two).tobytes()
    assert one.method_ == two.method_ == method


CHOICES = {
    "auto": ("auto", {}, "likelihood"),
    "auto with noise": ("auto", {"noise": 0.1}, "likelihood"),
    "auto with a penalty": ("auto", {"l2": 0.1}, "p1"),
    "auto with a penalty, no intercept": ("auto", {"l1": 0.1, "fit_intercept": False}, "sm"),
    "paper": ("paper", {}, "p1"),
    "paper, no intercept": ("paper", {"fit_intercept": False}, "sm"),
    "paper with noise": ("paper", {"noise": 0.1, "n_starts": 5}, "p1"),
}


@pytest.mark.parametrize("case", CHOICES)
def test_a_chooser_gives_what_the_method_it_chooses_gives(case):
    chooser, options, chosen = CHOICES[case]
    data = make_property_data("likelihood")
    one = fit_quietly(chooser, data.X, data.y, data.groups, **options)
    two = fit_shared(chosen, data.X, data.y, data.groups, **options)
    assert chooser in CHOOSERS and one.method_ == two.method_ == chosen
    assert all_weights(one).tobytes() == all_weights(two).tobytes()
    for ours, theirs in zip(one.solution_.candidates, two.solution_.candidates, strict=True):
        assert ours.weights.tobytes() == theirs.weights.tobytes() and ours.value == theirs.value
    assert one.solution_.status is two.solution_.status
    assert one.noise_ == two.noise_ and one.identified_ == two.identified_
    assert str(one.summary()) == str(two.summary())


def test_every_chooser_is_seen_to_choose():
    assert {chooser for chooser, _, _ in CHOICES.values()} == set(CHOOSERS)


@solvers
def test_result_is_the_same_for_every_number_of_threads(method):
    data = make_property_data(method)
    # One run of the sampler would have one thread.
    options = {"n_starts": 3} if method == "sampler" else {}
    one = fit_shared(method, data.X, data.y, data.groups, n_jobs=1, **options)
    values = [c.value for c in one.solution_.candidates]
    # What -1 stands for is tested with the counting of jobs.
    for n_jobs in (2, 3):
        many = fit_quietly(method, data.X, data.y, data.groups, n_jobs=n_jobs, **options)
        assert all_weights(one).tobytes() == all_weights(many).tobytes()
        assert [c.value for c in many.solution_.candidates] == values


def test_two_fits_in_two_threads_do_not_disturb_each_other():
    jobs = [
        (method, make_shuffled(400, 3, noise=0.1, bags=bags, rng=bags))
        for method, bags in (("ls", 2), ("emd", 3), ("sm", 5), ("p2", 4))
    ]
    expected = [all_weights(fit_quietly(m, d.X, d.y, d.groups)).tobytes() for m, d in jobs]
    found: dict[tuple[int, int], bytes] = {}
    barrier = threading.Barrier(len(jobs))

    def work(i):
        method, data = jobs[i]
        barrier.wait()
        for trial in range(5):
            model = ShuffledLinearRegression(method, random_state=3)
            model.fit(data.X, data.y, data.groups)
            found[i, trial] = all_weights(model).tobytes()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {(i, t): expected[i] for i in range(len(jobs)) for t in range(5)}


@pytest.mark.parametrize("sizes", [[6], [3, 3], [2, 2, 3]], ids=str)
def test_least_squares_finds_the_best_of_all_matchings(sizes):
    for seed in range(8):
        # Noisy on purpose: then the best matching is not the true one, and minima abound.
        data = make_shuffled(sum(sizes), 1, noise=1.0, bags=sizes, rng=seed)
        parts = [
            (np.column_stack([data.X[data.groups == r], np.ones(size)]), data.y[data.groups == r])
            for r, size in enumerate(sizes)
        ]
        expected = oracles.best_matching_fit(parts)
        for method in ("exact", "ls"):
            model = fit_quietly(method, data.X, data.y, data.groups, n_starts=100)
            # Six squares of order one, at a minimum found to rounding.
            assert model.solution_.value == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_exact_lists_the_runners_up_in_order():
    data = make_method_data("exact", noise=0.5)
    values = [
        c.value for c in fit_quietly("exact", data.X, data.y, data.groups).solution_.candidates
    ]
    assert len(values) == 10
    assert values == sorted(values)


@pytest.mark.parametrize(
    ("method", "d", "features"),
    cover_pairs(["ls", "p1", "p2"], [1, 2, 3, 4], ["exponential", "lognormal", "uniform"]),
)
def test_noiseless_data_are_recovered(method, d, features):
    for seed in range(3):
        data = make_shuffled(200, d, noise=0.0, features=features, rng=10 * d + seed)
        model = fit_quietly(method, data.X, data.y, fit_intercept=False)
        error = np.linalg.norm(model.coef_ - data.weights) / np.linalg.norm(data.weights)
        # The value is a square with its root at the truth: rounding of 1e-32 in the value
        # allows weights to 1e-16; the bound is the one promised.
        assert error < 1e-6


@pytest.mark.parametrize("method", ["ls", "p1", "p2"])
def test_noiseless_data_are_recovered_with_an_intercept_and_bags(method):
    data = make_shuffled(200, 3, noise=0.0, bags=[50, 150], intercept=-4.0, rng=7)
    model = fit_quietly(method, data.X, data.y, data.groups)
    np.testing.assert_allclose(model.coef_, data.weights, atol=1e-6)
    assert model.intercept_ == pytest.approx(-4.0, abs=1e-6)


def test_estimator_and_function_give_the_same():
    data = make_method_data("ls")
    model = fit_quietly("ls", data.X, data.y, data.groups)
    bags = [Bag(data.X[data.groups == r], data.y[data.groups == r]) for r in range(6)]
    assert fit(bags, method="ls", rng=3).weights.tobytes() == all_weights(model).tobytes()


# The paper's rule, row by row; d counts the intercept.
RULE = [
    (1, 1, "sm"),
    (2, 1, "sm"),
    (2, 5, "sm"),
    (3, 1, "p1"),
    (3, 8, "p1"),
    (3, 9, "sm"),
    (5, 14, "p1"),
    (5, 15, "sm"),
]


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e-3, 1e150, 1e200])
def test_value_of_the_likelihood_is_minus_its_evidence_in_every_unit(scale):
    data = make_property_data("likelihood")
    model = fit_quietly("likelihood", data.X, scale * data.y, data.groups)
    for candidate in model.solution_.candidates:
        assert candidate.value == -candidate.evidence
    plain = fit_shared("likelihood", data.X, data.y, data.groups)
    assert model.solution_.value == pytest.approx(plain.solution_.value, rel=1e-6)


@pytest.mark.parametrize("method", ["means", "exact", "ls", "p1"])
def test_value_in_squares_grows_with_the_square_of_the_labels(method):
    data = make_method_data(method, noise=0.5)
    plain = fit_quietly(method, data.X, data.y, data.groups).solution_.value
    moved = fit_quietly(method, data.X, 8.0 * data.y, data.groups).solution_.value
    assert moved == pytest.approx(64.0 * plain, rel=1e-9)


@pytest.mark.parametrize("method", ["likelihood", "emd", "ks", "sm"])
def test_values_without_squares_allow_labels_of_any_size(method):
    # What does not square the labels goes on beyond 1e154, where squares overflow.
    data = make_property_data(method)
    model = fit_shared(method, data.X, data.y, data.groups)
    moved = fit_quietly(method, data.X, 2.0**600 * data.y, data.groups)
    np.testing.assert_array_equal(all_weights(moved), 2.0**600 * all_weights(model))
    assert moved.identified_ == model.identified_
    assert moved.verdict_ == model.verdict_
    assert moved.summary().explanation == model.summary().explanation


def test_an_unidentified_answer_stays_so_at_any_size():
    data = make_shuffled(30, 2, noise=1.0, features="normal", rng=0)
    for scale in (1.0, 2.0**600, 2.0**-600):
        model = fit_quietly("likelihood", data.X, scale * data.y)
        assert model.verdict_ == "not identified"


@pytest.mark.parametrize("kind", ["l1", "l2"])
@pytest.mark.parametrize("method", ["ls", "emd"])
def test_penalties_keep_their_meaning_for_large_labels(method, kind):
    # λ₂|w|² and a squared loss grow alike, so that the shrinkage stays; the others are matched by
    # a factor on λ.
    data = make_method_data(method)
    degree, power = (2 if method == "ls" else 1), (1 if kind == "l1" else 2)
    c = 2.0**450
    plain = fit_quietly(method, data.X, data.y, data.groups, **{kind: 0.1})
    moved = fit_quietly(
        method, data.X, c * data.y, data.groups, **{kind: 0.1 * c ** float(degree - power)}
    )
    np.testing.assert_allclose(all_weights(moved) / c, all_weights(plain), rtol=1e-6)


def test_fit_of_bags_warns_as_the_estimator_does():
    data = make_method_data("ls")
    X = np.column_stack([data.X, np.ones(60)])
    bags = [Bag(X[data.groups == r], data.y[data.groups == r]) for r in range(6)]
    with pytest.warns(UserWarning, match="column 2 is constant") as heard:
        fit(bags, method="ls", rng=3)
    assert len(heard) == 1 and heard[0].filename == __file__
    hopeless = HARD["hopeless"]()
    with pytest.warns(ConvergenceWarning) as heard:
        fit([Bag(hopeless.X, hopeless.y)], method="ls", n_starts=4, rng=0)
    assert [str(w.message) for w in heard] == [Status.LONELY.value]


def test_choice_says_what_auto_does_with_a_penalty():
    for n in (1000, 10**6):
        choice = choose_method(n, 5, penalty=True)
        assert choice.method == choose_paper_method(n, 5).method == "p1"
        assert "penalty" in choice.reason and choose_paper_method(n, 5).reason in choice.reason
    assert choose_method(1000, 2, None, 0.1, penalty=True).method == "sm"


def test_auto_takes_the_likelihood_at_every_size_unless_a_penalty_forbids_it():
    assert choose_method(50_000, 5).method == "likelihood"
    assert choose_method(10**9, 5).method == "likelihood"
    assert "given" in choose_method(100, 5, noise=0.1).reason
    data = make_shuffled(40, 2, bags=4, rng=0)
    assert fit_quietly("auto", data.X, data.y, data.groups).method_ == "likelihood"
    assert fit_quietly("auto", data.X, data.y, data.groups, l2=0.1).method_ == "p1"


@pytest.mark.parametrize(("d", "n_bags", "expected"), RULE)
def test_rule_of_the_paper_row_by_row(d, n_bags, expected):
    choice = choose_paper_method(20 * n_bags, d, [20] * n_bags)
    assert choice.method == expected
    assert str(d) in choice.reason
    # "auto" follows the same rule where a penalty leaves the likelihood out.
    asked = choose_method(20 * n_bags, d, [20] * n_bags, penalty=True)
    assert asked.method == expected and choice.reason in asked.reason
    data = make_shuffled(20 * n_bags, d, bags=n_bags, rng=0)
    model = fit_quietly("paper", data.X, data.y, data.groups, fit_intercept=False, n_starts=5)
    assert model.method_ == expected
    if d > 1:
        with_intercept = fit_quietly("paper", data.X[:, 1:], data.y, data.groups, n_starts=5)
        assert with_intercept.method_ == expected


@pytest.mark.parametrize(
    ("given", "named"),
    [(Squared(), "ls"), (Moments(2), "sm"), (Projection(1), "p1"), (Projection(2), "p2")],
    ids=["ls", "sm", "p1", "p2"],
)
def test_method_object_equals_its_name(given, named):
    data = make_shuffled(60, 2, noise=0.1, bags=2, rng=0)
    one = fit_quietly(given, data.X, data.y, data.groups)
    two = fit_quietly(named, data.X, data.y, data.groups)
    assert one.method_ == named
    np.testing.assert_array_equal(all_weights(one), all_weights(two))


def test_every_method_has_one_line_on_it():
    for name, method in METHODS.items():
        assert method.name == name
        assert "\n" not in method.summary and len(method.summary) < 90, name


def test_all_starts_are_counted():
    data = make_shuffled(100, 3, noise=0.5, features="normal", rng=0)
    for n_starts in (1, 2, 17):
        solution = fit_quietly("ls", data.X, data.y, n_starts=n_starts).solution_
        assert solution.stats["n_starts"] == n_starts == len(solution.start_values)
        assert sum(c.n_starts for c in solution.candidates) == n_starts


def test_more_starts_never_end_higher():
    # A seed draws the same starts in the same order, so that a longer search contains a shorter
    # one, up to the polish.
    data = make_shuffled(100, 5, noise=1.0, features="normal", rng=0)
    values = [
        np.mean(
            [
                fit_quietly("ls", data.X, data.y, n_starts=n, random_state=seed).solution_.value
                for seed in range(5)
            ]
        )
        for n in (1, 10, 200)
    ]
    assert values[0] > values[1] > values[2]


def test_smaller_tolerance_ends_no_higher():
    data = make_shuffled(100, 3, noise=0.3, features="normal", rng=0)
    loose, tight = (
        np.sort(fit_quietly("ls", data.X, data.y, n_starts=40, tol=tol).solution_.start_values)
        for tol in (1e-2, 1e-10)
    )
    assert tight.mean() < loose.mean()


def fit_and_listen(method, X, y, groups=None, **options):
    options = {**LIGHT.get(method, {}), **options}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = ShuffledLinearRegression(method, random_state=0, **options).fit(X, y, groups)
    return model, heard


HARD = {
    "hopeless": lambda n=200, d=8: make_shuffled(n, d, noise=1.0, features="normal", rng=0),
    "constant label": lambda n=30, d=2: make_shuffled(
        n, d, noise=0.0, weights=np.zeros(d), bags=5, rng=0
    ),
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("method", BROAD)
def test_at_most_one_convergence_warning_with_advice(method, case):
    # What takes a second on easy data takes twenty on 200 hopeless rows.
    # "certified" takes four weights at most.
    data = HARD[case](30, 3) if method in (*LENGTHY, "certified") else HARD[case]()
    n_starts = 2 if method == "sampler" else 8
    _, heard = fit_and_listen(method, data.X, data.y, data.groups, n_starts=n_starts)
    doubts = [w for w in heard if issubclass(w.category, ConvergenceWarning)]
    assert len(doubts) <= 1
    assert len(heard) == len({w.category for w in heard})  # on convergence, model and data
    assert all(str(w.message) in {status.value for status in Status} for w in doubts)
    assert {w.filename for w in heard} <= {__file__}  # they point at the line of the caller


def test_a_lonely_minimum_is_said():
    data = HARD["hopeless"]()
    _, heard = fit_and_listen("ls", data.X, data.y, n_starts=4)
    assert [str(w.message) for w in heard] == [Status.LONELY.value]


def test_easy_data_are_fitted_in_silence():
    data = make_method_data("ls")
    assert fit_and_listen("ls", data.X, data.y, data.groups)[1] == []


# Handled, and said once: what the data lack, and a word of the remark.
REMARKS = {
    "constant column": (
        lambda X, y, g: (np.column_stack([X, np.full(len(y), 7.0)]), y, g),
        "constant",
    ),
    "collinear columns": (
        lambda X, y, g: (np.column_stack([X, X[:, 0] - X[:, 1]]), y, g),
        "collinear",
    ),
    "constant label": (lambda X, y, g: (X, np.full(len(y), 2.5), g), "every label is the same"),
    "bags of one row": (
        lambda X, y, g: (X, y, np.where(np.arange(len(y)) < 3, -np.arange(len(y)), 9)),
        "one row",
    ),
}


@pytest.mark.parametrize("case", REMARKS)
@pytest.mark.parametrize("method", BROAD)
def test_odd_data_are_handled_and_said_once(method, case):
    data = make_property_data(method)
    change, words = REMARKS[case]
    X, y, groups = change(data.X, data.y, data.groups)
    model, heard = fit_and_listen(method, X, y, groups)
    said = [w for w in heard if w.category is DataWarning]
    assert len(said) == 1 and words in str(said[0].message)
    assert np.isfinite(all_weights(model)).all()
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("method", ["ls", "emd", "p1", "p2", "sm", "ks"])
def test_constant_column_gets_no_weight_and_changes_nothing(method):
    data = make_method_data(method)
    plain = fit_quietly(method, data.X, data.y, data.groups)
    extra = np.column_stack([data.X, np.full(60, 1e6 / 3)])
    model = fit_quietly(method, extra, data.y, data.groups)
    assert model.coef_[2] == 0.0
    if method in ("sm", "ks"):  # one more column changes K, and the random basis of the search
        gap = np.abs(all_weights(model)[[0, 1, 3]] - all_weights(plain)).max()
        assert gap < 0.1
    else:
        # Another random start, the same minimum, to the root of rounding.
        np.testing.assert_allclose(model.coef_[:2], plain.coef_, rtol=1e-6)


@pytest.mark.parametrize("method", ["ls", "emd", "p1", "p2"])
def test_collinear_columns_share_the_weight_and_predict_the_same(method):
    data = make_method_data(method)
    plain = fit_quietly(method, data.X, data.y, data.groups)
    model = fit_quietly(method, np.column_stack([data.X, data.X[:, 0]]), data.y, data.groups)
    # The smallest weights among all that predict the same: equal halves.
    np.testing.assert_allclose(model.coef_[[0, 2]], plain.coef_[0] / 2, rtol=1e-5)
    np.testing.assert_allclose(model.coef_[1], plain.coef_[1], rtol=1e-5)


@pytest.mark.parametrize("method", ["ls", "emd", "ks", "p1", "p2", "sm"])
def test_a_constant_label_is_predicted(method):
    data = make_method_data(method)
    model = fit_quietly(method, data.X, np.full(60, 2.5), data.groups)
    # The best prediction of a constant is that constant, for every row; KS is a count, which
    # ends within its last compass step.
    np.testing.assert_allclose(model.predict(data.X), 2.5, atol=0.1 if method == "ks" else 1e-6)


@pytest.mark.parametrize("method", [m for m in SOLVERS if m != "exact"])
def test_other_number_types_are_fitted_as_floats(method):
    size = 4 if method in LENGTHY else 10
    groups = np.repeat(np.arange(6), size)
    # Numbers become floats before any method sees them.
    some = [np.float32, bool]
    for dtype in some if method in LENGTHY else [*some, np.int64, np.int8, np.uint8]:
        rng = np.random.default_rng(0)
        X = rng.integers(0, 2 if dtype is bool else 100, (6 * size, 2)).astype(dtype)
        y = (X.astype(float) @ [1.0, 2.0]).round()
        expected = fit_shared(method, X.astype(float), y, groups)
        found = fit_quietly(method, X, y.astype(np.float32 if dtype is bool else int), groups)
        assert all_weights(found).tobytes() == all_weights(expected).tobytes()
        assert found.coef_.dtype == float


def test_partly_linked_data_are_used_as_linked():
    # 30 of 60 rows are alone in their bags: ordinary regression on these alone is the yardstick.
    data = make_shuffled(60, 2, noise=0.2, bags=[1] * 30 + [30], rng=1)
    model = fit_quietly("ls", data.X, data.y, data.groups)
    linked = data.groups < 30
    design = np.column_stack([data.X[linked], np.ones(30)])
    alone = np.linalg.lstsq(design, data.linked_y[linked], rcond=None)[0]
    truth = np.append(data.weights, data.intercept)
    # The other half can only be matched because of the first; both errors are of order 0.05.
    assert np.linalg.norm(all_weights(model) - truth) < 0.3
    assert np.linalg.norm(all_weights(model) - alone) < 0.3


def test_interruption_reaches_the_user():
    calls = []

    def g(z):
        calls.append(len(z))
        if len(calls) > 20:
            raise KeyboardInterrupt
        return z

    data = make_shuffled(40, 2, rng=0)
    for n_jobs in (1, 2):
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            fit_quietly(OrderInvariant(g, 2.0), data.X, data.y, n_jobs=n_jobs)


def test_errors_of_the_users_function_reach_the_user():
    def g(z):
        raise ZeroDivisionError("mine")

    data = make_shuffled(40, 2, rng=0)
    with pytest.raises(ZeroDivisionError, match="mine"):
        fit_quietly(OrderInvariant(g, 2.0), data.X, data.y, n_jobs=2)


@pytest.mark.parametrize("method", ["ls", "sm", "p2"])
def test_the_order_of_labels_inside_groups_is_never_used(method):
    # Not merely unchanged: linked data, too, are treated as if they were shuffled.
    data = make_method_data(method)
    y = shuffle_labels(data.linked_y, data.groups, rng=8)
    linked = fit_quietly(method, data.X, data.linked_y, data.groups)
    shuffled = fit_quietly(method, data.X, y, data.groups)
    assert all_weights(linked).tobytes() == all_weights(shuffled).tobytes()
