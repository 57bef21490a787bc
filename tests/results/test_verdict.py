"""The verdict: three grades that agree with the table, their sentences, what would help."""

import json
import re
import warnings
from collections import Counter

import numpy as np
import pytest
from scipy.stats import t as student_t

from registry_examples import fit_quietly, make_method_data
from unshuffle import ShuffledLinearRegression, make_shuffled
from unshuffle.cli.wording import rephrase
from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.uncertainty import Posterior, StudentT
from unshuffle.data.pairing import Draws
from unshuffle.results.summary import Facts, summarise

GRADES = ("identified", "partly identified", "not identified")


def make_posterior(draws, shares=(1.0,), status=Status.POSTERIOR, stats=None, **options):
    """Return a posterior of draws in equal parts, one for each share: an answer each."""
    parts = np.split(draws, len(shares))
    weights = np.repeat(np.array(shares) / len(parts[0]), len(parts[0]))
    posterior = Posterior(draws, weights, np.ones(len(draws)), **options)
    answers = [
        Candidate(part.mean(axis=0), -share, share=share)
        for part, share in zip(parts, shares, strict=True)
    ]
    answers.sort(key=lambda each: each.value)
    return Solution(
        tuple(answers), status, stats or Stats(), estimate=posterior.mean, uncertainty=posterior
    )


def summary_of(solution, n=60, n_bags=6, given=False, label_spread=None, scales=None, **facts):
    d = len(solution.weights) - 1
    names = (*(f"x{j}" for j in range(d)), "intercept")
    scales = np.ones(d) if scales is None else scales
    told = Facts(
        "likelihood", names, scales, n, n_bags, 1.0, is_noise_given=given,
        label_spread=label_spread, **facts,
    )  # fmt: skip
    return summarise(solution, told, 0.95)


def draw_normal(centre, sd, rng, m=2000):
    return np.array(centre) + np.array(sd) * rng.standard_normal((m, len(centre)))


def draw_anything(rng):
    """Return a posterior of one to three answers, wide or narrow, of large and small weights."""
    d, n_answers = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    first = rng.choice([-1.0, 1.0], d + 1) * 10.0 ** rng.uniform(-2.0, 1.0, d + 1)
    centres = [first]
    for _ in range(n_answers - 1):
        moved = first.copy()
        some = rng.random(d + 1) < 0.5
        moved[some] *= rng.choice([-1.0, 0.2, 0.8, 1.3, 4.0], int(some.sum()))
        centres.append(moved)
    sd = 10.0 ** rng.uniform(-2.5, 0.5, d + 1)
    draws = np.concatenate([draw_normal(centre, sd, rng, 200) for centre in centres])
    options = {"is_thin": bool(rng.random() < 0.1)}
    if rng.random() < 0.1:
        options["unknown"] = (int(rng.integers(d)),)
    return make_posterior(draws, tuple(rng.dirichlet(np.ones(n_answers))), **options)


def test_verdict_and_table_never_contradict_each_other():
    grades = Counter()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        solution = draw_anything(rng)
        if seed % 5 == 0:  # t intervals are assessed by the same table
            w, d = solution.weights, len(solution.weights)
            unsure = StudentT(w, np.diag(10.0 ** rng.uniform(-2.5, 0.5, d)), 20, 1.0)
            best = (Candidate(w, 0.0),)
            solution = Solution(best, Status.EXACT, estimate=w, uncertainty=unsure)
        summary = summary_of(solution, label_spread=rng.choice([None, 0.3, 3.0]))
        unknown = getattr(solution.uncertainty, "unknown", ())
        rows = [row for j, row in enumerate(summary.rows[:-1]) if j not in unknown]
        kinds = [row.determined for row in rows]
        is_thin = getattr(solution.uncertainty, "is_thin", False)
        grades[summary.verdict] += 1
        assert (summary.verdict == "identified") == (
            bool(kinds) and set(kinds) <= {"sign and magnitude", "negligible"}
        )
        if summary.verdict == "partly identified":
            assert set(kinds) - {"no"} and set(kinds) & {"no", "sign"}
        if is_thin or set(kinds) <= {"no"}:
            assert summary.verdict == "not identified"
        assert not is_thin or set(kinds) <= {"no"}
        assert summary.identified is (summary.verdict == "identified")
        assert summary.headline[0].startswith(summary.verdict.capitalize())
        sentence = summary.explanation[0]
        assert sentence.startswith(summary.verdict.capitalize())
        assert any("What would help" in x for x in summary.explanation) == (
            summary.verdict != "identified" and isinstance(solution.uncertainty, Posterior)
        )
        if summary.verdict == "partly identified":
            for part in sentence.removesuffix(".").split(": ")[1].split("; "):
                kind = (
                    "sign and magnitude" if part.startswith("sign and magnitude")
                    else "sign" if "the sign of" in part
                    else "negligible" if part.endswith("negligible") else "no"
                )  # fmt: skip
                told = {word.strip(",") for word in part.split() if word.startswith("x")}
                assert told == {row.name for row in rows if row.determined == kind}
    assert all(grades[grade] >= 20 for grade in GRADES), grades


def test_a_method_without_intervals_has_no_verdict():
    data = make_shuffled(40, 2, noise=0.1, bags=8, rng=0)
    model = fit_quietly("ls", data.X, data.y, data.groups)
    assert model.verdict_ is None and model.identified_ is None
    assert model.summary().explanation[0].startswith("Not assessed: method 'ls' has no intervals")
    assert model.summary().to_dict()["verdict"] is None


def test_as_many_bags_as_weights_leave_nothing_to_assess():
    model = fit_quietly("means", [[0.0], [1.0], [3.0]], [1.0, 2.0, 4.0], [0, 1, 1])
    assert model.verdict_ is None and "add a bag" in str(model.summary())


@pytest.mark.parametrize(
    ("sd", "n_bags", "verdict"),
    [(0.05, 40, "identified"), (0.8, 40, "partly identified"), (9.0, 6, "not identified")],
)
def test_bag_means_get_a_grade_from_their_table(sd, n_bags, verdict):
    rng = np.random.default_rng(1)
    X, groups = rng.normal(size=(400, 2)), np.arange(400) % n_bags
    X += rng.normal(size=(40, 2))[groups]
    y = X @ [1.0, 0.1] + sd * rng.normal(size=400)
    model = fit_quietly("means", X, y, groups)
    assert model.verdict_ == verdict and model.identified_ is (verdict == "identified")
    assert model.summary().explanation[1].startswith("Bag means are regressed on bag means")


# ---- several answers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "other", "verdict"),
    [
        ((0.6, 0.4), (1.0, -2.0), "not identified"),  # another sign
        ((0.6, 0.4), (1.0, 0.3), "not identified"),  # another magnitude
        ((0.95, 0.05), (1.0, -2.0), "partly identified"),  # far less probable
        ((0.6, 0.4), (1.0, 1.9), "identified"),  # the same in all that counts
    ],
)
def test_different_answers_that_are_as_probable_are_not_identified(shares, other, verdict):
    rng = np.random.default_rng(0)
    draws = np.concatenate(
        [draw_normal((*w, 0.0), (0.05, 0.05, 0.1), rng) for w in ((1.0, 2.0), other)]
    )
    summary = summary_of(make_posterior(draws, shares), label_spread=2.0)
    assert summary.verdict == verdict
    heads = [name for name in summary.table[0] if name.startswith("answer")]
    assert heads == (["answer 1", "answer 2"] if verdict == "not identified" else [])
    if heads:
        assert "Not identified: 2 different answers" in summary.explanation[0]
        assert "answer 1 60%; answer 2 40%" in summary.explanation[0]


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ((0.6, 0.4), "answer 1 60%; answer 2 40%."),
        ((0.6, 0.3, 0.1), "answer 1 60%; answer 2 30%; answer 3 10%."),
        ((0.64, 0.21, 0.05, 0.05, 0.05), "answer 1 64%; answer 2 21%; others 15%."),
    ],
)
def test_shares_of_different_answers_and_of_all_others_add_to_all(shares, told):
    rng = np.random.default_rng(0)
    seconds = (2.0, -2.0, 9.0, -9.0, 30.0)[: len(shares)]
    draws = np.concatenate([draw_normal((1.0, b, 0.0), (0.05, 0.05, 0.1), rng) for b in seconds])
    text = summary_of(make_posterior(draws, shares)).explanation[0]
    assert f"Posterior shares: {told} " in text
    assert sum(map(int, re.findall(r"(\d+)%", text))) == 100


def test_differences_that_are_negligible_are_none():
    rng = np.random.default_rng(0)
    draws = np.concatenate(
        [draw_normal((1.0, b, 0.0), (0.02, 0.2, 0.1), rng) for b in (0.05, -0.05)]
    )
    solution = make_posterior(draws, (0.5, 0.5))
    # 0.1 · 2 is more than half the gap of the two; without a scale of the labels it counts.
    assert summary_of(solution, label_spread=2.0).verdict == "partly identified"
    assert summary_of(solution, label_spread=0.1).verdict == "not identified"


# ---- low effective sample sizes ------------------------------------------------------------------


def test_a_low_effective_sample_size_is_not_identified_for_that_reason():
    draws = draw_normal((1.0, 2.0, 0.0), (0.01, 0.01, 0.1), np.random.default_rng(0))
    stats = Stats(effective_draws=37.2)
    solution = make_posterior(draws, status=Status.THIN_POSTERIOR, stats=stats, is_thin=True)
    summary = summary_of(solution)
    assert summary.verdict == "not identified" and summary.identified is False
    assert "effective sample size 37" in summary.explanation[0]
    assert "no finding about the data" in summary.explanation[0]
    assert summary.explanation[-1] == Status.THIN_POSTERIOR.value
    assert {row.determined for row in summary.rows} == {"no"}


@pytest.mark.parametrize(
    ("d", "n_bags", "said", "unsaid"),
    [
        (25, 40, ["fewer features (the posterior of 25 ", "method='means'"], "more bags"),
        (25, 26, ["fewer features (the posterior of 25 ", "more bags"], "method='means'"),
        (3, 2, ["more bags"], "fewer features"),
    ],
)
def test_what_could_not_be_sampled_has_ways_out(d, n_bags, said, unsaid):
    draws = draw_normal(np.ones(d + 1), np.ones(d + 1), np.random.default_rng(0))
    solution = make_posterior(draws, status=Status.THIN_POSTERIOR, is_thin=True)
    told = summary_of(solution, n=400, n_bags=n_bags).explanation
    (advice,) = [line for line in told if line.startswith("What would help")]
    assert all(words in advice for words in (*said, "a known noise level"))
    assert unsaid not in advice
    assert "another --seed and --method ls" in rephrase(told[-1])


# ---- advice --------------------------------------------------------------------------------------


def make_doubtful():
    return make_posterior(draw_normal((1.0, 0.0, 0.0), (0.1, 2.0, 1.0), np.random.default_rng(0)))


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
def test_nothing_is_advised_that_the_data_have_already(n, n_bags, given, said, unsaid):
    told = summary_of(make_doubtful(), n=n, n_bags=n_bags, given=given).explanation
    (advice,) = [line for line in told if line.startswith("What would help")]
    assert all(words in advice for words in said)
    assert not any(words in advice for words in unsaid)


def test_advice_for_separate_samples_is_not_about_individuals():
    summary = summary_of(make_doubtful(), n=6, n_labels=60, pairing=Draws())
    (advice,) = [line for line in summary.explanation if line.startswith("What would help")]
    assert "larger samples of rows and of labels" in advice and "linked" not in advice
    assert "6 rows · 60 labels" in str(summary) and Draws.sentence in str(summary)


def test_a_fit_knows_whether_its_noise_was_given():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), 3.0 * rng.normal(size=20)
    model = fit_quietly("likelihood", X, y, np.arange(20), noise=3.0)
    told = model.summary().explanation
    assert "What would help: more rows, or labels with less noise." in told


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
def test_where_nothing_varies_the_summary_claims_nothing(case, method):
    X, y = BLANK.get(case, (np.ones((20, 2)), np.arange(20.0)))
    text = str(fit_quietly(method, X, y).summary())
    lines = text.splitlines()
    assert lines[0] == "Not identified."
    assert any(line.startswith("No label or no column varies") for line in lines)
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
    ends = np.asarray(model.conf_int())
    assert ends[1].tolist() == [-np.inf, np.inf] and np.isfinite(ends[[0, 2]]).all()
    summary = model.summary()
    assert summary.explanation[0] == (
        "Identified (columns that vary): sign and magnitude of every coefficient are determined."
    )
    entry = json.loads(json.dumps(summary.to_dict(), allow_nan=False))["coefficients"]["batch"]
    nothing = {"sd": None, "low": None, "high": None, "determined": "no", "known": "no"}
    assert entry == {"estimate": 0.0, **nothing}
    assert "batch & 0 & – & – & – & no" in summary.to_latex()
    assert summary.to_frame().loc["batch", ["low", "high"]].isna().all()
    assert (
        '<th scope="row">batch</th><td>0</td><td>–</td><td>–</td><td>–</td><td>no</td>'
        in summary._repr_html_()
    )


def test_a_constant_column_that_serves_as_the_intercept_is_assessed():
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
