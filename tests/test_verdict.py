"""Laws of the verdict: what is called identified, what is said of the rest, and what would help."""

import json
import warnings

import numpy as np
import pytest
from scipy.stats import t as student_t

from registry_examples import fit_quietly, make_method_data
from unshuffle import ShuffledLinearRegression, make_shuffled
from unshuffle.answers.summary import Facts, is_identified, summarise
from unshuffle.cli.wording import speak
from unshuffle.core.pairing import Draws
from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.uncertainty import Posterior

ESTIMATE = np.array([4.0, 0.03, 7.0])
# Columns of unequal spread: in units of w sd(x) the estimate is (4, 3), of length 5.
SCALES = np.array([1.0, 100.0])
IDENTIFIES = "The data identify the weights: the posterior stays close to the estimate."
DOES_NOT = "The data do not identify the weights: other answers explain them about as well."


def make_solution(share, gap, status=Status.POSTERIOR, estimate=ESTIMATE, rivals=(1.0,), **options):
    """Return a posterior with a share of its mass at estimate + gap, and the rest at the estimate.

    The intercepts are far off everywhere.
    """
    draws = np.array([estimate, estimate + gap])
    draws[:, -1] += 1e6
    posterior = Posterior(draws, np.array([1 - share, share]), np.ones(2), **options)
    candidates = tuple(Candidate(estimate, -r, share=r) for r in rivals)
    return Solution(candidates, status, estimate=estimate, uncertainty=posterior)


def say(solution, scales=SCALES, names=("a", "b", "intercept"), n=60, n_bags=6, given=False):
    facts = Facts("likelihood", names, scales, n, n_bags, 1.0, is_noise_given=given)
    return summarise(solution, facts, 0.95)


# The radius is 0.3 · 5 = 1.5 in units of w sd(x), along either column.
@pytest.mark.parametrize("gap", [(1.0, 0.0, 0.0), (0.0, 0.01, 0.0)], ids=["a", "b"])
@pytest.mark.parametrize(
    ("share", "reach", "identified"),
    [(0.049, 1.51, True), (0.051, 1.51, False), (0.051, 1.49, True), (0.99, 1.49, True)],
)
def test_verdict_counts_the_mass_beyond_the_radius(share, reach, identified, gap):
    solution = make_solution(share, reach * np.array(gap))
    assert is_identified(solution, SCALES) is identified
    summary = say(solution)
    assert summary.identified is identified
    assert summary.verdict[0] == (IDENTIFIES if identified else DOES_NOT)
    assert any("What would help" in line for line in summary.verdict) is not identified


def test_a_posterior_that_was_not_explored_is_no_evidence_either_way():
    for share in (0.0, 0.5):
        solution = make_solution(
            share, np.array([3.0, 0, 0]), Status.THIN_POSTERIOR, rivals=(0.5, 0.5), is_thin=True
        )
        summary = say(solution)
        assert summary.identified is False
        assert summary.verdict[0].startswith("It could not be established whether")
        assert "about as well" not in str(summary)
        assert summary.verdict[-1] == Status.THIN_POSTERIOR.value
        assert ("2 distinct answers compete" in str(summary)) is (share == 0.5)


@pytest.mark.parametrize(
    ("d", "n_bags", "said", "unsaid"),
    [
        (25, 40, ["fewer features (the posterior of 25 ", "method='means'"], "more bags"),
        (25, 26, ["fewer features (the posterior of 25 ", "more bags"], "method='means'"),
        (3, 2, ["more bags"], "fewer features"),
    ],
)
def test_what_could_not_be_sampled_is_no_finding_and_has_ways_out(d, n_bags, said, unsaid):
    weights, names = np.ones(d + 1), [*(f"x{j}" for j in range(d)), "intercept"]
    solution = make_solution(
        0.0, 0 * weights, Status.THIN_POSTERIOR, estimate=weights, is_thin=True
    )
    verdict = say(solution, np.ones(d), tuple(names), n=400, n_bags=n_bags).verdict
    assert "no finding about the data" in verdict[0] and "no evidence" in verdict[0]
    (advice,) = [line for line in verdict if line.startswith("What would help")]
    assert all(words in advice for words in (*said, "a known noise level"))
    assert unsaid not in advice
    assert "another --seed and --method ls" in speak(verdict[-1])


def test_a_direction_is_told_with_its_unit_and_the_distance_that_95_percent_keep():
    # Ten percent of the mass 3 units along (0.8, -0.6): 60 % of the length 5 of the estimate.
    line = next(x for x in say(make_solution(0.1, np.array([2.4, -0.018, 0]))).verdict if "±" in x)
    assert line.startswith("Known least: 0.80 a - 0.60 b (±")
    assert "weights times the sd of their columns" in line and "95% of the posterior" in line
    assert "relative to the size of all weights" in line and "Not fixed" not in line
    posterior = make_normal(np.array([5.0, 0.0]), sd=(0.2, 2.0))
    line = next(x for x in say(posterior, np.ones(2), ("a", "b")).verdict if "±" in x)
    # 1.96 · 2 / 5 along b; a is known to 8 %, within the radius.
    assert "1.00 b (±78%)" in line.replace("±79%", "±78%").replace("±77%", "±78%")
    assert ";" not in line.split("(for")[0]


def make_normal(estimate, sd, **options):
    """Return a normal posterior of independent weights."""
    rng = np.random.default_rng(0)
    draws = estimate + np.array(sd) * rng.standard_normal((20_000, len(estimate)))
    posterior = Posterior(draws, np.ones(len(draws)), np.ones(len(draws)), **options)
    candidate = Candidate(estimate, 0.0, share=1.0)
    return Solution((candidate,), Status.POSTERIOR, estimate=estimate, uncertainty=posterior)


def test_a_direction_of_many_small_parts_has_words():
    # One axis of 16 equal parts, each 0.25 of it.
    estimate = np.full(16, 1.0)
    axis = np.where(np.arange(16) % 2, -0.25, 0.25)
    draws = estimate + 4.0 * np.random.default_rng(0).standard_normal((4000, 1)) * axis
    posterior = Posterior(draws, np.ones(4000), np.ones(4000))
    solution = Solution(
        (Candidate(estimate, 0.0),), Status.POSTERIOR, estimate=estimate, uncertainty=posterior
    )
    names = tuple(f"x{j}" for j in range(16))
    line = next(x for x in say(solution, np.ones(16), names).verdict if "±" in x)
    assert line.count("0.25 x") == 4 and " … (±" in line


def test_an_estimate_of_zero_has_no_size_to_compare_with():
    text = str(say(make_normal(np.zeros(2), sd=(1.0, 1.0)), np.ones(2), ("a", "b")))
    assert "inf" not in text and "nan" not in text
    assert "in units of the label" in text and "(±2)" in text


@pytest.mark.parametrize(
    ("n", "n_bags", "given", "said", "unsaid"),
    [
        (60, 6, False, ["more bags", "linked pairs", "known noise"], ["more rows"]),
        (60, 6, True, ["more bags", "linked pairs"], ["known noise", "more rows"]),
        (60, 60, False, ["more rows", "less noise", "known noise"], ["bags", "linked"]),
        (60, 60, True, ["more rows", "less noise"], ["bags", "linked", "known noise"]),
        (3, 1, True, ["more rows", "more bags"], ["known noise"]),
    ],
)
def test_advice_is_nothing_that_the_data_have_already(n, n_bags, given, said, unsaid):
    solution = make_solution(0.5, np.array([3.0, 0, 0]))
    verdict = say(solution, n=n, n_bags=n_bags, given=given).verdict
    (advice,) = [line for line in verdict if line.startswith("What would help")]
    assert all(words in advice for words in said)
    assert not any(words in advice for words in unsaid)


def test_advice_for_separate_samples_is_not_about_individuals():
    solution = make_solution(0.5, np.array([3.0, 0, 0]))
    facts = Facts(
        "likelihood", ("a", "b", "intercept"), SCALES, 6, 6, 1.0, n_labels=60, pairing=Draws()
    )
    summary = summarise(solution, facts, 0.95)
    (advice,) = [line for line in summary.verdict if line.startswith("What would help")]
    assert "larger samples of rows and of labels" in advice and "linked" not in advice
    assert "6 rows and 60 labels in 6 bags" in str(summary) and Draws.sentence in str(summary)


def test_a_fit_knows_whether_its_noise_was_given():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), 3.0 * rng.normal(size=20)
    model = fit_quietly("likelihood", X, y, np.arange(20), noise=3.0)
    assert "What would help: more rows, or labels with less noise." in model.summary().verdict


# ---- nothing to learn from -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["likelihood", "sampler"])
@pytest.mark.parametrize("n", [2, 3, 20])
def test_without_a_column_that_varies_the_intercept_has_the_textbook_interval(method, n):
    y = np.random.default_rng(0).normal(5.0, 1.0, n)
    model = fit_quietly(method, np.full((n, 1), 3.0), y)
    row = model.summary().rows[-1]
    reach = student_t.ppf(0.975, n - 1) * y.std(ddof=1) / np.sqrt(n)
    assert row.estimate == pytest.approx(y.mean(), rel=1e-12)
    # Thousands of draws in even steps.
    assert row.high - row.estimate == pytest.approx(reach, rel=0.02)
    assert row.estimate - row.low == pytest.approx(reach, rel=0.02)
    assert model.noise_ > y.std(ddof=1)


def test_without_a_column_that_varies_noise_that_is_given_is_used():
    y = np.random.default_rng(0).normal(5.0, 1.0, 20)
    # With a mean of 0.5 and an sd of 2.
    model = fit_quietly("likelihood", np.ones((20, 2)), y, noise=[0.5, 4.25])
    row = model.summary().rows[-1]
    assert row.estimate == pytest.approx(y.mean() - 0.5, rel=1e-12)
    assert (row.high - row.low) / 2 == pytest.approx(1.96 * 2 / np.sqrt(20), rel=0.02)
    assert model.noise_ == pytest.approx(2.0)


BLANK = {
    "one row": (np.ones((1, 2)), np.array([2.0])),
    "one label again and again": (np.random.default_rng(0).normal(3, 1, (20, 2)), np.full(20, 3.0)),
    "both": (np.ones((20, 2)), np.full(20, 3.0)),
}


@pytest.mark.parametrize("method", ["likelihood", "sampler"])
@pytest.mark.parametrize("case", BLANK)
def test_labels_that_show_no_noise_give_no_interval_at_all(case, method):
    model = fit_quietly(method, *BLANK[case])
    summary = model.summary()
    assert all(row.low is None and row.high is None for row in summary.rows)
    assert model.noise_ is None and model.identified_ is False
    assert (model.conf_int() == [-np.inf, np.inf]).all()
    json.dumps(summary.to_dict(), allow_nan=False)


@pytest.mark.parametrize("method", ["likelihood", "sampler"])
@pytest.mark.parametrize("case", [*BLANK, "constant X"])
def test_where_nothing_varies_nothing_is_said_that_is_not_so(case, method):
    X, y = BLANK.get(case, (np.ones((20, 2)), np.arange(20.0)))
    text = str(fit_quietly(method, X, y).summary())
    # Between the two stand the sizes.
    lines = text.splitlines()
    assert lines[0] == "The data do not identify the weights."
    assert lines[2].startswith("No label or no column varies")
    for words in ("about as well", "What would help", "Prior:", "low noise", "±", "inf", "nan"):
        assert words not in text


def test_without_an_intercept_labels_that_are_the_same_still_say_something():
    X = 1.0 + 0.1 * np.random.default_rng(0).normal(size=(50, 1))
    model = ShuffledLinearRegression("likelihood", fit_intercept=False, random_state=0)
    with pytest.warns(UserWarning, match=r"every label is the same\.$"):
        model.fit(X, np.full(50, 3.0))


# ---- columns that do not vary --------------------------------------------------------------------


@pytest.mark.parametrize("method", ["likelihood", "sampler"])
def test_a_constant_column_has_no_interval_and_no_part_in_the_verdict(method):
    pd = pytest.importorskip("pandas")
    data = make_method_data(method)
    frame = pd.DataFrame({"a": data.X[:, 0], "batch": 7.0, "b": data.X[:, 1]})
    model = ShuffledLinearRegression(method, random_state=0)
    with pytest.warns(UserWarning, match="column 'batch' is constant .* has no interval"):
        model.fit(frame, data.y, data.groups)
    plain = fit_quietly(method, data.X, data.y, data.groups)
    assert model.identified_ is plain.identified_ is True
    assert model.conf_int()[1].tolist() == [-np.inf, np.inf]
    assert np.isfinite(model.conf_int()[[0, 2]]).all()
    summary = model.summary()
    assert summary.verdict[0].startswith("The data identify the weights of the columns that vary:")
    entry = json.loads(json.dumps(summary.to_dict(), allow_nan=False))["coefficients"]["batch"]
    assert entry == {"estimate": 0.0, "low": None, "high": None, "known": "no"}
    assert "batch & 0 & – & – & no" in summary.to_latex()
    assert summary.to_frame().loc["batch", ["low", "high"]].isna().all()
    assert (
        '<th scope="row">batch</th><td>0</td><td>–</td><td>–</td><td>no</td>'
        in summary._repr_html_()
    )


def test_a_constant_column_that_serves_as_the_intercept_is_judged():
    rng = np.random.default_rng(0)
    X = np.ones((20, 1))
    for level, identified in ((50.0, True), (0.0, False)):
        y = level + rng.normal(size=20)
        model = fit_quietly("likelihood", X, y, np.arange(20), fit_intercept=False)
        assert model.identified_ is identified
        assert np.isfinite(model.conf_int()).all()


def test_collinear_columns_are_explained_by_what_the_method_does():
    data = make_shuffled(40, 1, noise=0.1, bags=8, rng=0)
    X = np.column_stack([data.X, 2 * data.X])
    said = {}
    for method in ("ls", "likelihood", "sampler"):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            ShuffledLinearRegression(method, random_state=0).fit(X, data.y, data.groups)
        said[method] = " ".join(str(each.message) for each in heard)
        assert "collinear (rank 2 of 3)" in said[method]
    assert "the smallest among all" in said["ls"]
    for method in ("likelihood", "sampler"):
        assert "only the prior" in said[method] and "smallest" not in said[method]
