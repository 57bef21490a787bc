"""Properties of planning: designs are near the best, keep their limits, are simulated fairly."""

import numpy as np
import pytest

import oracles
from unshuffle import design, kernels
from unshuffle.design import assess_bags, assess_runs, assign_runs, choose_spread, plan_runs
from unshuffle.design.simulation import Expectation, Scenario
from unshuffle.design.sizes import make_limits
from unshuffle.design.words import compare_errors
from unshuffle.errors import InputError


@pytest.mark.parametrize(("seed", "is_grouped"), [(0, False), (1, True), (2, False), (3, True)])
def test_exchanges_equal_those_assessed_by_the_whole_determinant(seed, is_grouped):
    rng = np.random.default_rng(seed)
    n, q, n_runs = 14, 3, 4
    rows = rng.standard_normal((n, q))
    sizes = rng.integers(1, 4, n).astype(float) if is_grouped else np.ones(n)
    bag = rng.permutation(np.arange(n) % n_runs)
    totals = np.stack([rows[bag == r].sum(0) for r in range(n_runs)])
    counts = np.bincount(bag, weights=sizes)
    low, high = (counts - 2, counts + 2) if is_grouped else (counts.copy(), counts.copy())
    low = np.maximum(low, 1.0)
    partners = np.hstack([np.tile(np.arange(n), (n, 1)), np.tile(-1 - np.arange(n_runs), (n, 1))])
    matrix = 0.01 * np.eye(q) + (totals / counts[:, None]).T @ totals
    known, gained = oracles.exchange_plainly(rows, sizes, bag, low, high, 0.01, partners)
    found, inverse = bag.copy(), np.linalg.inv(matrix)
    gain = kernels.exchange_units(rows, sizes, found, totals, counts, low, high, inverse, partners)
    np.testing.assert_array_equal(found, known)
    # Determinants of 3 × 3 by elimination against a rank-three update: rounding, a hundred times.
    assert gain == pytest.approx(gained, rel=1e-9)
    np.testing.assert_allclose(counts, np.bincount(found, weights=sizes, minlength=n_runs))
    np.testing.assert_allclose(totals, [rows[found == r].sum(0) for r in range(n_runs)], atol=1e-12)


def make_small_case(seed):
    """Return rows of at most ten samples, and sizes of at least two runs."""
    rng = np.random.default_rng([seed, 5])
    n = int(rng.integers(4, 11))
    X = rng.standard_normal((n, int(rng.integers(1, 4)))) ** int(rng.integers(1, 4))
    n_runs = int(rng.integers(2, 4))
    cuts = np.sort(rng.choice(np.arange(1, n), n_runs - 1, replace=False))
    is_equal = rng.random() < 0.5
    sizes = make_limits(n, n_runs, None, None).sizes if is_equal else np.diff([0, *cuts, n])
    return X, sizes


def test_a_design_is_within_a_percent_of_the_best_partition():
    for seed in range(40):
        X, sizes = make_small_case(seed)
        found = assign_runs(X, sizes=sizes.tolist(), rng=seed)
        centred = X - X.mean(0)
        values, vectors = np.linalg.eigh(centred.T @ centred)
        rows = centred @ vectors / np.sqrt(values)
        best = oracles.best_partition(rows, sizes, 0.01)
        assert found.sizes.tolist() == sizes.tolist()
        # The determinant itself within one percent, which is more than its logarithm.
        assert best + np.log(0.99) < found.value < best + 1e-8, f"seed {seed}"


def test_a_design_does_not_depend_on_order_or_units():
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(60, 3))
    runs = assign_runs(X, 4, rng=1).runs
    order = rng.permutation(60)
    np.testing.assert_array_equal(assign_runs(X[order], 4, rng=1).runs, runs[order])
    value = assign_runs(X, 4, rng=1).value
    other = assess_runs(X * [1e6, -1e-6, 3.0] + [0, 5.0, 1e4], runs).value
    # Columns are measured in digits that a shift of 1e4 leaves: twelve.
    assert other == pytest.approx(value, rel=1e-6)


def test_the_same_partition_has_the_same_numbers_from_every_start():
    X = np.repeat([3.0, 1.0, 2.0], 4)[:, None] + 0.01 * np.arange(12)[:, None]
    for seed in range(8):
        # Three clusters, numbered by their smallest value.
        assert assign_runs(X, 3, rng=seed).runs.tolist() == [2] * 4 + [0] * 4 + [1] * 4
        # Only runs of one size can change places.
        sized = assign_runs(X, sizes=[4, 3, 5], rng=seed).runs
        limited = assign_runs(X, capacities=[2, 5, 5], rng=seed).runs
        assert np.bincount(sized).tolist() == [4, 3, 5]
        assert np.bincount(limited).tolist() == [2, 5, 5]
        first = [X[limited == r].min() for r in (1, 2)]
        assert first == sorted(first)


def test_designed_runs_lie_further_apart_than_random_ones():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 4))
    found = assign_runs(X, 8, rng=0)
    random = assess_runs(X, rng.permutation(found.runs))
    assert found.shares.min() > 0.3 > 0.1 > random.shares.max()
    assert found.sizes.tolist() == [50] * 8


def test_many_samples_are_designed_as_well_as_few_of_them():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((6_000, 3))
    many, few = assign_runs(X, 6, rng=0), assign_runs(X[:500], 6, rng=0)
    # The distribution of the rows is the same; 500 of them know their shares to a few percent.
    np.testing.assert_allclose(many.shares, few.shares, atol=0.08)


def test_runs_may_differ_in_their_spreads_besides():
    X = np.random.default_rng(11).standard_normal((200, 2))
    plain, wide = (assign_runs(X, 2, spread=spread, rng=0).runs for spread in (0.0, 2.0))
    ratios = [
        np.ptp([np.linalg.slogdet(np.cov(X[runs == r].T))[1] for r in (0, 1)])
        for runs in (plain, wide)
    ]
    # Two halves of a round cloud are alike in shape; its core and its rim are not.
    assert ratios[1] > 1.0 > 0.7 > ratios[0]
    assert assign_runs(np.sign(X), 2, spread=2.0, rng=0).sizes.tolist() == [100, 100]
    assert choose_spread(X, 4) > 0 == choose_spread(X, 5)


def test_columns_that_say_nothing_new_change_no_design():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 2))
    more = np.column_stack([X, X[:, 0] - X[:, 1], np.full(40, 7.0)])
    assert assess_runs(more, assign_runs(X, 4, rng=0).runs).value == pytest.approx(
        assign_runs(X, 4, rng=0).value, abs=1e-6
    )


def test_samples_that_stay_together_do():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 2))
    names = np.array([f"donor {i}" for i in rng.integers(0, 17, 60)])
    found = assign_runs(X, 4, together=names, rng=0)
    for name in set(names.tolist()):
        assert len(set(found.runs[names == name].tolist())) == 1
    assert found.n_runs == 4 and found.sizes.max() <= 20
    limited = assign_runs(X, 4, together=names, capacities=18, rng=0)
    assert limited.sizes.max() <= 18
    random = assess_runs(X, rng.permutation(np.arange(60) % 4))
    assert found.value > random.value


def test_capacities_are_kept():
    X = np.random.default_rng(5).standard_normal((30, 2))
    assert assign_runs(X, capacities=[4, 20, 20], rng=0).sizes.tolist() == [4, 13, 13]
    assert assign_runs(X, 3, capacities=10, rng=0).sizes.tolist() == [10, 10, 10]
    assert assign_runs(X, sizes=[5, 25], rng=0).sizes.tolist() == [5, 25]


X = np.random.default_rng(6).exponential(size=(12, 2))
WRONG = {
    "more runs than samples": (lambda: assign_runs(X, 13), "13 runs are more than the 12 samples"),
    "no runs": (lambda: assign_runs(X, 0), "whole number from 1"),
    "capacities too small": (lambda: assign_runs(X, 3, capacities=3), "add up to 9 .* 12 samples"),
    "sizes do not add up": (lambda: assign_runs(X, sizes=[5, 5]), "add up to 10 .* 12 samples"),
    "both": (lambda: assign_runs(X, 2, sizes=[6, 6], capacities=6), "not both"),
    "sizes for others": (lambda: assign_runs(X, 3, sizes=[6, 6]), "2 sizes for 3 runs"),
    "fractions": (lambda: assign_runs(X, 2, capacities=[6.5, 7]), "whole numbers"),
    "group larger than a run": (
        lambda: assign_runs(X, 4, capacities=4, together=[0] * 6 + list(range(1, 7))),
        "6 samples must stay together but the largest run takes 4",
    ),
    "fewer groups than runs": (
        lambda: assign_runs(X, 3, together=[0] * 6 + [1] * 6), "2 groups .* 3 runs"
    ),
    "a puzzle without solution": (
        lambda: assign_runs(X, sizes=[5, 7], together=[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
        "no way was found",
    ),
    "no spread": (lambda: assign_runs(X, 2, spread=-1.0), "spread must be a number of at least 0"),
    "no numbers": (lambda: assign_runs([["a"]], 1), "numbers"),
    "not finite": (lambda: assign_runs([[1.0], [np.nan]], 2), "row 1, column 0"),
    "all the same": (lambda: assign_runs(np.ones((4, 2)), 2), "same features"),
    "no noise": (lambda: plan_runs(X, [2], noise=0.0), "positive sd, got 0"),
    "negative noise": (lambda: assess_bags(X, [0, 1] * 6, noise=-1.0), "positive sd, got -1"),
    "more noise than label": (lambda: plan_runs(X, [2], noise=2.0, label_sd=1.0), "larger than"),
    "two signals": (
        lambda: plan_runs(X, [2], noise=1.0, label_sd=2.0, weights=[1, 1]), "not both"
    ),
    "weights of others": (lambda: plan_runs(X, [2], noise=1.0, weights=[1.0]), "1 weights for 2"),
    "no signal": (lambda: plan_runs(X, [2], noise=1.0, weights=[0.0, 0.0]), "no signal"),
    "one trial": (lambda: plan_runs(X, [2], noise=1.0, trials=1), "at least 2"),
    "no numbers of runs": (lambda: plan_runs(X, [], noise=1.0), "no number of runs"),
    "sizes for many": (lambda: plan_runs(X, [2, 3], noise=1.0, sizes=[6, 6]), "one number"),
    "bags of others": (lambda: assess_bags(X, [0, 1], noise=1.0), "2 entries .* 12 samples"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_said_in_one_line(call, words):
    with pytest.raises(InputError, match=words) as error:
        call()
    assert "\n" not in str(error.value)


def plan_small(**more):
    return plan_runs(X, [1, 2], noise=0.1, label_sd=1.0, trials=3, method="ls", rng=0, **more)


def test_a_plan_is_the_same_for_any_number_of_threads_and_order_of_rows():
    one, two = plan_small(n_jobs=1), plan_small(n_jobs=2)
    assert one.to_dict() == two.to_dict()
    order = np.random.default_rng(0).permutation(len(X))
    turned = plan_runs(X[order], [1, 2], noise=0.1, label_sd=1.0, trials=3, method="ls", rng=0)
    assert turned.to_dict() == one.to_dict()
    np.testing.assert_array_equal(turned.assignments[2].runs, one.assignments[2].runs[order])


def test_every_kind_of_bags_is_simulated_with_and_without_offsets():
    found = plan_small()
    kinds = [(each.n_runs, each.kind, each.has_offsets) for each in found.expectations]
    assert kinds == [
        (1, "random", False),
        *((2, kind, has) for kind in ("random", "designed") for has in (False, True)),
        # Twice as many random runs, to compare the designed ones with.
        (4, "random", False),
        (4, "random", True),
    ]
    text = str(found)
    assert "offsets between runs" in text and "±" in text
    with pytest.raises(InputError, match="not simulated"):
        found.find(3, "designed")


def test_progress_ends_with_everything_done():
    told = []
    plan_small(report=lambda stage, share: told.append((stage, share)))
    assert told[0][0] == "designing" and told[-1] == ("simulating", 1.0)


def test_kinds_of_bags_are_compared_over_the_same_trials_until_errors_are_known():
    rows = np.random.default_rng(3).exponential(size=(40, 2))
    found = plan_runs(
        rows, [2, 8], noise=0.02, label_sd=1.0, trials=40, method="ls", rng=0, offset=0.0
    )
    for n_runs in (2, 8):
        random, designed = (found.find(n_runs, kind) for kind in ("random", "designed"))
        assert random.trials == designed.trials == len(random.errors)
        assert random.trials >= 8
    ended = [each for each in found.expectations if each.trials < 40]
    assert ended and all(each.error_mc <= 0.15 * each.error for each in ended)
    assert f"{min(each.trials for each in found.expectations)} to" in found.notes[1]


def test_errors_are_compared_trial_by_trial():
    def expect(errors):
        return Expectation(2, "random", False, np.array(errors))

    steady = expect([0.1, 0.11, 0.1, 0.12])
    # One error of a long tail doubles the mean and says nothing.
    assert compare_errors(expect([0.1, 0.1, 0.11, 0.9]), steady) == 0
    assert compare_errors(expect([0.2, 0.23, 0.19, 0.25]), steady) == 1
    assert compare_errors(steady, expect([0.2, 0.23, 0.19, 0.25])) == -1
    # Of unequal numbers the trials that both have count, but the means shown must say the same.
    assert compare_errors(steady, expect([0.2, 0.23, 0.19, 0.25, 0.2])) == -1
    assert compare_errors(steady, expect([0.2, 0.23, 0.19, 0.25, 0.01])) == 0


def test_without_a_signal_the_prior_is_used_and_said():
    found = plan_runs(X, [2], noise=0.1, trials=2, method="ls", rng=0)
    assert "drawn from the prior, Beta(0.5, 1)" in found.notes[0]
    assert "prior" not in plan_small().notes[0]
    rng = np.random.default_rng(0)
    rows = rng.exponential(size=(500, 3))
    weights = np.array([Scenario(1.0).draw_weights(rows, rng) for _ in range(2000)])
    share = 1.0 / (1.0 + (rows @ weights.T).var(axis=0))
    # Beta(1/2, 1) has mean 1/3 and sd 0.3: 2000 draws are off by more than 0.03 once in 10⁵.
    assert share.mean() == pytest.approx(1 / 3, abs=0.03)


def test_labels_have_the_sd_that_was_asked_for():
    rng = np.random.default_rng(1)
    rows = rng.exponential(size=(300, 2))
    scenario = Scenario(0.3, label_sd=2.0)
    spreads = [np.std(rows @ scenario.draw_weights(rows, rng)) for _ in range(20)]
    np.testing.assert_allclose(spreads, np.sqrt(2.0**2 - 0.3**2), rtol=1e-9)


def test_bags_that_exist_are_assessed_beside_others_of_their_sizes():
    rng = np.random.default_rng(7)
    rows = rng.exponential(size=(80, 2))
    found = assess_bags(
        rows, np.arange(80) % 8, noise=0.05, label_sd=1.0, trials=4, method="means", rng=0,
        names=["dose", "age"],
    )  # fmt: skip
    assert {each.kind for each in found.expectations} == {"given", "random", "designed"}
    assert "This design will work" in found.verdict[0]
    given, designed = found.find(8, "given"), found.find(8, "designed")
    # Bag means are all that this method uses: designed ones spread five times as much.
    assert designed.error < given.error and (designed.width < given.width).all()
    assert "sign" in found.verdict[1] and "dose" in found.verdict[1]
    renamed = assess_bags(
        rows, [f"bag {i % 8}" for i in range(80)], noise=0.05, label_sd=1.0, trials=4,
        method="means", rng=0, names=["dose", "age"],
    )  # fmt: skip
    assert renamed.to_dict() == found.to_dict()


def test_offsets_hurt_designed_bags():
    rows = np.random.default_rng(8).exponential(size=(60, 2))
    found = plan_runs(
        rows, [6], noise=0.02, label_sd=1.0, offset=0.5, trials=8, method="means", rng=0
    )
    plain, offset = found.find(6, "designed"), found.find(6, "designed", True)
    assert offset.error > plain.error + 2 * offset.error_mc
    assert "With offsets between runs (0.5 of the labels' sd)" in found.verdict[2]


def test_many_rows_are_sampled_with_a_note():
    rows = np.random.default_rng(9).exponential(size=(1500, 1))
    found = plan_runs(rows, [2], noise=0.1, label_sd=1.0, trials=2, method="means", rng=0,
                      fit_intercept=True)  # fmt: skip
    assert "1000 of the 1500 rows" in found.notes[-1]
    assert len(found.assignments[2].runs) == 1500


def test_the_package_is_reached_by_name():
    import unshuffle

    assert unshuffle.design is design and "design" in dir(unshuffle)


@pytest.mark.parametrize(("old", "new"), [("judge_bags", assess_bags), ("judge_runs", assess_runs)])
def test_old_names_still_work_and_warn(old, new):
    with pytest.warns(FutureWarning, match=new.__name__):
        assert getattr(design, old) is new
