"""What the intervals determine of each coefficient, and what the data cannot separate."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from registry_examples import fit_quietly
from unshuffle import ModelMisfitWarning, ShuffledLinearRegression, make_shuffled
from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.uncertainty import Posterior, StudentT
from unshuffle.inference import diagnostics
from unshuffle.results.determined import (
    DETERMINED_RULE,
    KNOWN_RULE,
    assess_coefficients,
    assess_known,
    doubtful_weights,
    find_collinear_pairs,
)
from unshuffle.results.fit import warn_once
from unshuffle.results.summary import summarise
from unshuffle.results.verdict import Facts

NAMES = ("a", "b", "c", "intercept")


def make_solution(draws, estimate=None, status=Status.POSTERIOR, misfits=(), **options):
    draws = np.asarray(draws, dtype=float)
    posterior = Posterior(draws, np.ones(len(draws)), np.ones(len(draws)), **options)
    estimate = posterior.mean if estimate is None else np.asarray(estimate, dtype=float)
    best = Candidate(estimate, 0.0, share=1.0)
    return Solution((best,), status, estimate=estimate, uncertainty=posterior, misfits=misfits)


def summary_of(solution, names=NAMES, scales=None, sources=None, **facts):
    scales = np.ones(len(names) - 1) if scales is None else scales
    told = Facts("likelihood", names, scales, 60, 6, 1.0, sources=sources, **facts)
    return summarise(solution, told, 0.95)


def assess_by_counting(draws, estimate, limit):
    """Return what is determined, and what was known, by sorting and counting draws."""
    ordered = sorted(draws)
    n_tail = len(ordered) // 40
    low, high = ordered[n_tail], ordered[-1 - n_tail]
    n_negative, n_positive = sum(x <= 0 for x in draws), sum(x >= 0 for x in draws)
    has_sign = min(n_negative, n_positive) <= n_tail
    if has_sign and high - low <= abs(estimate):
        return "sign and magnitude", "sign and size"
    if max(-low, high) <= limit:
        return "negligible", "sign" if has_sign else "no"
    return ("sign", "sign") if has_sign else ("no", "no")


@pytest.mark.parametrize("seed", range(8))
def test_what_is_determined_agrees_with_counting_draws(seed):
    rng = np.random.default_rng(seed)
    # Skewed, heavy-tailed, bimodal and plain; far from zero and near it, on either side.
    parts = np.column_stack(
        [
            rng.exponential(size=4000) - 1.0,
            rng.standard_t(3, size=4000),
            rng.choice([-1.0, 1.0], 4000) + 0.3 * rng.normal(size=4000),
            rng.normal(size=4000),
        ]
    )
    centre = rng.choice([-1.0, 1.0], 4) * rng.uniform(0.2, 9.0, 4)
    draws, limits = parts + centre, rng.uniform(0.1, 8.0, 4)
    solution = make_solution(draws)
    expected = tuple(map(assess_by_counting, draws.T, solution.weights, limits))
    assessed = assess_coefficients(solution, limits)
    assert tuple(zip(assessed, assess_known(solution), strict=True)) == expected
    # Units and sign of a column change nothing.
    units = np.array([1e-9, -3.0, 1e150, -1.0])
    assert assess_coefficients(make_solution(draws * units), limits * np.abs(units)) == assessed


def test_every_kind_is_met_above():
    found = set()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        draws = rng.normal(size=(4000, 4)) + rng.uniform(0.2, 9.0, 4)
        found |= set(assess_coefficients(make_solution(draws), rng.uniform(0.1, 8.0, 4)))
    assert found == {"sign and magnitude", "sign", "negligible", "no"}


def test_a_posterior_that_was_not_sampled_well_determines_nothing():
    draws, limits = 5.0 + 0.01 * np.random.default_rng(0).normal(size=(500, 3)), np.full(3, 99.0)
    both = "sign and magnitude"
    assert assess_coefficients(make_solution(draws), limits) == (both,) * 3
    assert assess_coefficients(make_solution(draws, is_thin=True), limits) == ("no",) * 3
    assert assess_known(make_solution(draws, is_thin=True)) == ("no",) * 3
    one_unknown = make_solution(draws, unknown=(1,))
    assert assess_coefficients(one_unknown, limits) == (both, "no", both)


def test_an_interval_that_its_estimate_lies_outside_of_determines_nothing():
    draws = 5.0 + 0.01 * np.random.default_rng(0).normal(size=(500, 1))
    for estimate in (-5.0, 9.0):
        solution = make_solution(draws, estimate=[estimate])
        assert assess_coefficients(solution, np.array([99.0])) == ("no",)


def test_t_intervals_are_assessed_by_the_same_rule_and_methods_without_intervals_not_at_all():
    # With 30 degrees of freedom a 95 % interval reaches 2.04 sd.
    weights, limits = np.array([1.0, 1.0, 1.0, 0.01]), np.array([0.0, 0.0, 0.0, 0.1])
    spreads = np.diag([0.5 / 2.05, 0.98 / 2.04, 1.02 / 2.04, 0.04])
    best = (Candidate(weights, 0.0),)
    expected = ("sign and magnitude", "sign", "no", "negligible")
    for dof, assessed in ((30, expected), (0, (None,) * 4)):
        unsure = StudentT(weights, spreads, dof, 1.0)
        solution = Solution(best, Status.EXACT, uncertainty=unsure)
        assert assess_coefficients(solution, limits) == assessed
    assert assess_coefficients(Solution(best, Status.EXACT), limits) == (None,) * 4


def test_table_frame_dictionary_and_latex_say_the_same():
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    draws = np.array([5.0, 2.0, 0.1, 3.0]) + np.array([0.1, 0.8, 1.0, 0.1]) * rng.normal(
        size=(4000, 4)
    )
    draws = np.insert(draws, 3, 0.02 * rng.normal(size=4000), axis=1)
    names = ("a", "b", "c", "d", "intercept")
    summary = summary_of(make_solution(draws), names, label_spread=2.0)
    determined = ["sign and magnitude", "sign", "no", "negligible", "sign and magnitude"]
    known = ["sign and size", "sign", "no", "no", "sign and size"]
    assert [row.determined for row in summary.rows] == determined
    frame = summary.to_frame()
    assert list(frame) == ["estimate", "sd", "low", "high", "determined", "known"]
    assert frame["determined"].tolist() == determined and frame["known"].tolist() == known
    assert frame["sd"].to_numpy() == pytest.approx(draws.std(axis=0), rel=1e-9)
    entries = summary.to_dict()
    told = [*entries["coefficients"].values(), entries["intercept"]]
    assert [entry["determined"] for entry in told] == determined
    assert [entry["known"] for entry in told] == known
    assert [entry["sd"] for entry in told] == pytest.approx(draws.std(axis=0), rel=1e-9)
    assert entries["known_rule"] == KNOWN_RULE and entries["determined_rule"] == DETERMINED_RULE
    for name, kind in zip(names, determined, strict=True):
        (line,) = [x for x in str(summary).splitlines() if x.startswith(f"{name} ")]
        assert line.endswith(f"  {kind}")
        (line,) = [x for x in summary.to_latex().splitlines() if x.startswith(f"{name} &")]
        assert line.endswith(rf"& {kind} \\")
    assert summary.explanation[0] == (
        "Partly identified: sign and magnitude of a are determined; only the sign of b is "
        "determined; c is undetermined; d is negligible."
    )


def test_rules_are_told_where_details_are_asked_for():
    draws = 5.0 + 0.1 * np.random.default_rng(0).normal(size=(400, 2))
    solution, facts = make_solution(draws), Facts("likelihood", NAMES[2:], np.ones(1), 60, 6, 1.0)
    short, long = (str(summarise(solution, facts, 0.95, detail)) for detail in (False, True))
    assert DETERMINED_RULE in long and DETERMINED_RULE not in short


def test_what_is_determined_does_not_change_with_the_level_shown():
    rng = np.random.default_rng(0)
    solution = make_solution(2.2 + rng.normal(size=(4000, 2)))
    facts = Facts("likelihood", ("a", "intercept"), np.ones(1), 60, 6, 1.0)
    shown = [summarise(solution, facts, level) for level in (0.5, 0.95, 0.999)]
    assert len({summary.rows[0].low for summary in shown}) == 3
    assert {summary.rows[0].determined for summary in shown} == {"sign"}
    assert {summary.verdict for summary in shown} == {"partly identified"}


# ---- collinear pairs ---------------------------------------------------------------------------


def slanted(rng, together, width=1.0):
    """Return draws of two weights whose sum is 2 and whose difference is open."""
    step = width * rng.normal(size=(4000, 1)) * [1.0, -1.0]
    return 1.0 + step + together * rng.normal(size=(4000, 2))


def separate(draws, scales=None, sources=NAMES, **options):
    scales = np.ones(draws.shape[1] - 1) if scales is None else scales
    return find_collinear_pairs(make_solution(draws, **options), scales, NAMES, sources)


def test_two_weights_of_which_only_the_sum_is_known_are_not_separated():
    rng = np.random.default_rng(0)
    rest = np.column_stack([5.0 + 0.1 * rng.normal(size=4000), rng.normal(size=4000)])
    draws = np.column_stack([slanted(rng, 0.1), rest])
    assert separate(draws) == (("a", "b"),)
    assert "Cannot separate a from b: " in " ".join(summary_of(make_solution(draws)).explanation)
    # Units of the columns change nothing, nor does the sign of one.
    units = np.array([1e6, 1e-3, -1.0])
    assert separate(draws * [*(1 / units), 1.0], np.abs(units)) == (("a", "b"),)
    # Levels of one category go by its name, and by their own only against each other.
    assert separate(draws, sources=("sex", "kind", "kind")) == (("sex", "kind"),)
    assert separate(draws, sources=("kind", "kind", "c")) == (("a", "b"),)


def test_what_is_determined_or_merely_wide_is_no_collinear_pair():
    rng = np.random.default_rng(0)
    rest = rng.normal(size=(4000, 2))
    # Correlated, but each known in sign and size.
    assert separate(np.column_stack([slanted(rng, 0.01, 0.1), rest])) == ()
    # Both unknown, and unrelated.
    assert separate(rng.normal(size=(4000, 4)) + 1.0) == ()
    # One far wider than the other is unknown by itself.
    wide = np.column_stack([slanted(rng, 0.01) * [20.0, 1.0], rest])
    assert separate(wide) == ()
    # An answer and its mirror image: what is open is the sign, and the two are told apart.
    mirrored = rng.choice([-1.0, 1.0], (4000, 1)) * [1.0, 2.0] + 0.1 * rng.normal(size=(4000, 2))
    assert separate(np.column_stack([mirrored, rest])) == ()
    # Not explored.
    assert separate(np.column_stack([slanted(rng, 0.1), rest]), is_thin=True) == ()


def test_two_answers_that_exchange_their_weights_are_not_separated():
    rng = np.random.default_rng(0)
    pairs = np.array([[1.0, 0.2], [0.2, 1.0]])[rng.integers(2, size=4000)]
    draws = np.column_stack([pairs + 0.02 * rng.normal(size=(4000, 2)), rng.normal(size=(4000, 2))])
    assert separate(draws) == (("a", "b"),)


def test_collinear_columns_are_not_separated_and_apart_they_are():
    """Two columns that differ by 0.03 of their sd, and two that have next to nothing in common."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=200)
    found = []
    for own in (0.03, 10.0):
        X = np.column_stack([shared + own * rng.normal(size=200) for _ in range(2)])
        X = np.column_stack([X / X.std(axis=0), rng.exponential(size=200)])
        y = X @ [1.0, 0.5, 0.7] + 0.3 * rng.normal(size=200)
        model = ShuffledLinearRegression(random_state=0).fit(X, y, np.arange(200) % 20)
        found.append(model.summary().collinear_pairs)
    assert found == [(("x0", "x1"),), ()]


# ---- the coefficients determined least ----------------------------------------------------------


def test_the_widest_intervals_are_shown():
    rng = np.random.default_rng(0)
    sd = 1e-3 * np.arange(1, 9)
    draws = 1.0 + sd * rng.normal(size=(3000, 8))
    assert doubtful_weights(make_solution(draws), np.ones(8)) == [3, 4, 5, 6, 7]
    # In units of w sd(x), whatever the spread of the columns; and nothing of what is unknown.
    assert doubtful_weights(make_solution(draws), 1 / sd**2) == [0, 1, 2, 3, 4]
    assert doubtful_weights(make_solution(draws, unknown=(6, 7)), np.ones(8)) == [1, 2, 3, 4, 5]
    # What is determined in sign and magnitude comes last.
    draws[:, [0, 1]] = 3.0 * rng.normal(size=(3000, 2))
    assert doubtful_weights(make_solution(draws), np.ones(8)) == [0, 1]


# ---- misfit --------------------------------------------------------------------------------------


def test_a_misfit_is_told_in_the_summary_and_is_no_doubt_of_the_search(recwarn):
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(600, 2))
    groups = np.arange(600) % 10
    y = X @ [1.0, -0.6] + 0.3 * rng.normal(size=600) + rng.normal(size=10)[groups]
    model = ShuffledLinearRegression("likelihood", random_state=0).fit(X, y, groups)
    assert not issubclass(ModelMisfitWarning, ConvergenceWarning)
    assert not recwarn.list
    assert model.model_fits_ is False and model.result_.is_converged
    (told,) = [line for line in model.summary().explanation if "does not fit" in line]
    assert "offsets between bags" in told
    assert told.endswith("What may help: a column that says what the bags differ in.")


@pytest.mark.parametrize(
    ("status", "misfits", "warned", "expected"),
    [
        (Status.POSTERIOR, (), ("a curved mean",), []),
        (Status.POSTERIOR, None, ("a curved mean",), []),
        (Status.POSTERIOR, ("a curved mean",), (), []),
        (Status.POSTERIOR, ("a curved mean",), ("heteroscedastic noise",), []),
        (Status.POSTERIOR, ("a curved mean",), ("a curved mean",), [ModelMisfitWarning]),
        (Status.THIN_POSTERIOR, (), (), [ConvergenceWarning]),
        (
            Status.THIN_POSTERIOR,
            ("heteroscedastic noise", "a curved mean"),
            ("a curved mean",),
            [ConvergenceWarning, ModelMisfitWarning],
        ),
    ],
)
def test_convergence_and_misfit_are_two_facts(status, misfits, warned, expected, monkeypatch):
    from unshuffle.options import FitOptions
    from unshuffle.results.fit import Fit

    monkeypatch.setattr(diagnostics, "WARNED_MISFITS", warned)
    draws = 1.0 + 0.01 * np.random.default_rng(0).normal(size=(100, 2))
    solution = make_solution(draws, status=status, misfits=misfits)
    facts = Facts("likelihood", ("a", "intercept"), np.ones(1), 60, 6, 1.0)
    found = Fit(solution, facts, FitOptions())
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warn_once(found, stacklevel=1)
    assert [w.category for w in heard] == expected
    assert found.is_converged is (ConvergenceWarning not in expected)
    assert found.model_fits is (None if misfits is None else not misfits)
    assert found.summary().to_dict()["misfits"] == list(misfits or ())


def test_methods_that_do_not_check_the_fit_of_the_model_say_so():
    data = make_shuffled(40, 1, noise=0.1, bags=8, rng=0)
    fits = {}
    for method in ("ls", "means", "sampler"):
        model = ShuffledLinearRegression(method, random_state=0).fit(data.X, data.y, data.groups)
        fits[method] = model.model_fits_, "was not checked" in str(model.summary())
    assert fits == {"ls": (None, False), "means": (None, False), "sampler": (None, True)}


# ---- estimates and their intervals ---------------------------------------------------------------


@pytest.mark.parametrize("method", ["likelihood", "sampler"])
def test_no_estimate_lies_on_the_edge_of_its_interval_the_intercept_included(method):
    for seed, (n, d, n_bags, snr_db) in enumerate([(60, 2, 4, -5), (60, 3, 1, 5)]):
        data = make_shuffled(n, d, snr_db=snr_db, bags=n_bags, rng=seed)
        # Columns far from zero: the intercept then depends on every weight.
        X = data.X + 10.0 * np.arange(1, d + 1)
        model = fit_quietly(method, X, data.y, data.groups)
        low, high = model.conf_int(intercept=True).T
        estimate = np.append(model.coef_, model.intercept_)
        assert np.minimum(estimate - low, high - estimate).min() > 0
