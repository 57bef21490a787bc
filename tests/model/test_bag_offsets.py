"""Properties of offsets that the labels of a bag share: declared, estimated, told, or refused."""

import dataclasses
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from command_line import FIT, assert_one_line
from registry_examples import fit_quietly
from unshuffle import ShuffledLinearRegression, load, methods
from unshuffle.cli.app import run
from unshuffle.core.solution import Status
from unshuffle.inference.likelihood import Likelihood
from unshuffle.options import BagOffsets, as_bag_offsets

LIGHT = Likelihood(
    n_starts=8, n_refined=4, n_components=4, n_draws=100, max_rounds=2, least_draws=30.0
)


def make_offset_data(sd, noise=0.2, n=160, n_bags=16, seed=0):
    """Return rows, labels with an offset for each bag, and groups; the weights are 1 and -2."""
    rng = np.random.default_rng(seed)
    X, groups = rng.gamma(2.0, size=(n, 2)), np.arange(n) % n_bags
    y = X @ [1.0, -2.0] + noise * rng.standard_normal(n)
    y = y + (sd * rng.standard_normal(n_bags))[groups]
    return X, y, groups


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("auto", BagOffsets()),
        (None, BagOffsets()),
        ("none", BagOffsets(0.0)),
        (False, BagOffsets(0.0)),
        (0, BagOffsets(0.0)),
        (np.float64(0.0), BagOffsets(0.0)),
        ("estimate", BagOffsets(1.0)),
        (True, BagOffsets(1.0)),
        (np.bool_(True), BagOffsets(1.0)),
        (2, BagOffsets(1.0, 2.0)),
        (np.float32(0.5), BagOffsets(1.0, 0.5)),
    ],
    ids=repr,
)
def test_offsets_are_named_or_given_by_their_sd(value, expected):
    assert as_bag_offsets(value) == expected


@pytest.mark.parametrize("value", ["some", -1.0, np.nan, np.inf, [0.1], 1j], ids=repr)
def test_other_offsets_are_refused_in_fit_and_not_before(value):
    X, y, groups = make_offset_data(0.1, n=32)
    model = ShuffledLinearRegression(bag_offsets=value)
    assert model.get_params()["bag_offsets"] is value
    with pytest.raises(ValueError, match='bag_offsets must be "auto"'):
        model.fit(X, y, groups)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("sd", [0.1, 0.4, 2.0])
def test_the_sd_of_simulated_offsets_is_found(sd, seed):
    """Sixteen bags know their sd to 18 %, and sizes are a grid in steps of two: a factor of two."""
    X, y, groups = make_offset_data(sd, seed=seed)
    model = fit_quietly(LIGHT, X, y, groups, bag_offsets="estimate")
    assert model.bag_offset_probability_ == pytest.approx(1.0)
    assert sd / 2 < model.bag_offset_sd_ < 2 * sd
    # Declared offsets are no misfit.
    assert "offsets between bags" not in model.solution_.misfits
    assert_allclose(model.coef_, [1.0, -2.0], atol=0.1)


def test_the_data_decide_unless_told_otherwise():
    X, y, groups = make_offset_data(0.4)
    found = {
        value: fit_quietly(LIGHT, X, y, groups, bag_offsets=value)
        for value in ("auto", None, "none", False, 0.4)
    }
    assert found["auto"].bag_offset_probability_ > 0.95
    assert 0.2 < found["auto"].bag_offset_sd_ < 0.8
    default = fit_quietly(LIGHT, X, y, groups)
    for same in (found["auto"], found[None]):
        assert same.posterior_.draws.tobytes() == default.posterior_.draws.tobytes()
    assert found[False].posterior_.draws.tobytes() == found["none"].posterior_.draws.tobytes()
    assert (found["none"].bag_offset_probability_, found["none"].bag_offset_sd_) == (0.0, 0.0)
    # What the offsets may not explain is noise.
    assert found["none"].noise_ > 1.5 * found[0.4].noise_
    assert found[0.4].bag_offset_sd_ == pytest.approx(0.4, rel=1e-12)


def test_without_offsets_their_probability_is_small():
    X, y, groups = make_offset_data(0.0)
    model = fit_quietly(LIGHT, X, y, groups)
    # The prior of random bags is 5 %, and nothing here raises it to a half.
    assert model.bag_offset_probability_ < 0.5 and model.bag_offset_sd_ < 0.1


def test_offsets_follow_the_units_of_the_labels():
    X, y, groups = make_offset_data(0.4)
    for value, scaled in (("estimate", "estimate"), (0.3, 2.4), ("auto", "auto")):
        one = fit_quietly(LIGHT, X, y, groups, bag_offsets=value)
        eight = fit_quietly(LIGHT, X, 8.0 * y, groups, bag_offsets=scaled)
        assert_array_equal(eight.coef_, 8.0 * one.coef_)
        assert eight.bag_offset_sd_ == 8.0 * one.bag_offset_sd_
        assert eight.bag_offset_probability_ == one.bag_offset_probability_


def test_without_effects_the_answer_is_that_of_a_declared_sd_near_zero_in_random_bags():
    X, y, groups = make_offset_data(0.0)
    none = fit_quietly(LIGHT, X, y, groups, bag_offsets="none")
    tiny = fit_quietly(LIGHT, X, y, groups, bag_offsets=1e-9)
    # Contextual effects are left, with the small probability of random bags.
    width = np.ptp(none.conf_int(), axis=1)
    assert (np.abs(tiny.coef_ - none.coef_) < 0.1 * width).all()
    assert none.result_.effects.context_probability == 0.0
    assert tiny.result_.effects.context_probability < 0.1


def test_declared_offsets_widen_the_intercept():
    X, y, groups = make_offset_data(2.0)
    low, high = fit_quietly(LIGHT, X, y, groups, bag_offsets=2.0).conf_int(intercept=True)[2]
    assert low < 0.0 < high
    # The mean of sixteen offsets of sd 2 has sd 0.5, and 95 % are four of it.
    assert 1.5 < high - low < 3.0


@pytest.mark.parametrize("method", ["ls", "sm", "p1", "means", "sampler", "ks"])
def test_methods_without_offsets_refuse_what_they_would_ignore(method):
    X, y, groups = make_offset_data(0.4, n=48, n_bags=6)
    for value in ("estimate", 0.4):
        with pytest.raises(ValueError, match=f"'{method}' has no offsets.*method 'likelihood'"):
            ShuffledLinearRegression(method, bag_offsets=value).fit(X, y, groups)


def test_methods_without_offsets_assume_that_there_are_none():
    X, y, groups = make_offset_data(0.4, n=48, n_bags=6)
    plain = fit_quietly("ls", X, y, groups)
    same = fit_quietly("ls", X, y, groups, bag_offsets=False)
    assert same.coef_.tobytes() == plain.coef_.tobytes()
    assert same.bag_offset_sd_ is None and same.bag_offset_probability_ is None


def test_one_bag_has_no_offsets_to_estimate():
    X, y, _ = make_offset_data(0.0, n=32)
    with pytest.raises(ValueError, match="needs several bags"):
        ShuffledLinearRegression(LIGHT, bag_offsets="estimate").fit(X, y)
    model = fit_quietly(LIGHT, X, y, bag_offsets=0.5)
    assert model.bag_offset_sd_ is None
    plain = fit_quietly(LIGHT, X, y, bag_offsets="none")
    # With an intercept the offset of one bag is part of it.
    assert_allclose(model.coef_, plain.coef_, rtol=1e-9)


def test_exact_answers_have_no_offsets_and_declared_offsets_no_exact_answers():
    X, _, groups = make_offset_data(0.0, n=48, n_bags=6)
    y = X @ [1.0, -2.0]
    exact = fit_quietly(LIGHT, X, y, groups)
    assert exact.solution_.status is Status.NOISELESS
    assert (exact.bag_offset_probability_, exact.bag_offset_sd_) == (0.0, 0.0)
    declared = fit_quietly(LIGHT, X, y, groups, bag_offsets=0.3)
    assert declared.solution_.status is not Status.NOISELESS


def test_summary_and_json_tell_the_offsets():
    X, y, groups = make_offset_data(0.4)
    model = fit_quietly(LIGHT, X, y, groups, bag_offsets=0.25)
    summary, detail = model.summary(), str(model.summary(detail=True))
    assert " · offsets between bags sd 0.25 (declared)" in str(summary)
    assert "Random bag effects (offsets): declared, sd 0.25." in detail.splitlines()
    assert summary.to_dict()["bag_offsets"] == {
        "probability": pytest.approx(1.0), "sd": pytest.approx(0.25), "declared": True
    }  # fmt: skip


def test_offsets_that_are_not_there_have_no_digits():
    X, y, groups = make_offset_data(0.0)
    model = fit_quietly(LIGHT, X, y, groups)
    assert "ffsets" not in str(model.summary())
    effects = dataclasses.replace(model.result_.effects, offset_probability=0.04)
    solution = dataclasses.replace(model.solution_, effects=effects)
    found = dataclasses.replace(model.result_, solution=solution)
    detail = str(found.summary(detail=True)).splitlines()
    assert "Random bag effects (offsets): probability below 5%." in detail


@pytest.mark.parametrize("value", ["none", False, 0.0])
def test_nothing_is_said_of_offsets_that_are_switched_off(value):
    X, y, groups = make_offset_data(0.4)
    summary = fit_quietly(LIGHT, X, y, groups, bag_offsets=value).summary(detail=True)
    told = [line for line in str(summary).splitlines() if "Prior" not in line]
    assert not any("ffset" in line or "ontextual" in line for line in told)
    found = summary.to_dict()
    assert found["bag_offsets"] is None and found["contextual_effects"] is None
    single = fit_quietly("ls", X, y).summary()
    assert "ffsets" not in str(single) and single.to_dict()["bag_offsets"] is None


def test_contextual_effects_are_told_apart_from_offsets():
    """Labels that depend on the mean row of the bag: the slope between bags is another."""
    rng = np.random.default_rng(0)
    groups = np.arange(600) % 30
    X = rng.gamma(2.0, size=(600, 2)) + 2.0 * rng.normal(size=(30, 2))[groups]
    means = np.array([X[groups == r].mean(axis=0) for r in range(30)])
    y = X @ [1.0, -2.0] + means[groups] @ [0.0, 1.5] + 0.2 * rng.normal(size=600)
    model = fit_quietly(LIGHT, X, y, groups)
    found = model.summary().to_dict()
    contexts = found["contextual_effects"]
    assert contexts["probability"] > 0.95 and contexts["rests_on_prior"] is False
    told = [contexts["coefficients"][name] for name in ("x0", "x1")]
    assert_allclose([each["estimate"] for each in told], [0.0, 1.5], atol=0.15)
    assert all(0.0 < each["sd"] < 0.1 for each in told)
    assert found["bag_offsets"]["sd"] < 0.1
    assert " · contextual effects" in str(model.summary())
    (line,) = [x for x in str(model.summary(detail=True)).splitlines() if "mean rows" in x]
    assert "x0 " in line and "x1 " in line and "too few bags" not in line


def test_the_command_line_declares_offsets(folder, capsys):
    assert run([*FIT, "--bag-offsets", "0.25", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    told = found["bag_offsets"]
    assert (told["probability"], told["sd"]) == pytest.approx((1.0, 0.25))
    assert told["declared"] is True
    assert list(told["bags"]) == [f"pool {r}" for r in (0, 1, 2, 3)]
    assert run([*FIT, "--bag-offsets", "none", "--method", "ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bag_offsets"] is None


def test_what_was_declared_of_offsets_is_not_printed_as_a_finding(folder, capsys):
    report = ["--report", "r.html"]
    assert run([*FIT, "--bag-offsets", "none", *report, "-q"]) == 0
    printed = capsys.readouterr().out
    page = (folder / "r.html").read_text()
    assert "ffsets" not in printed and "bag effects" not in page
    assert run([*FIT, "--bag-offsets", "0.2", "-q"]) == 0
    printed = capsys.readouterr().out
    assert "offsets between bags sd 0.2 (declared)" in printed and "probability" not in printed
    assert run([*FIT, "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["bag_offsets"]["declared"] is False


@pytest.mark.parametrize("value", ["some", "-1", "nan", "inf"])
def test_the_command_line_refuses_other_offsets_in_one_line(value, folder, capsys):
    assert_one_line(run([*FIT, "--bag-offsets", value]), capsys.readouterr(), ["--bag-offsets"])


def test_the_command_line_says_which_method_has_offsets(folder, capsys):
    code = run([*FIT, "--bag-offsets", "1", "--method", "ls", "-q"])
    assert_one_line(code, capsys.readouterr(), ["'ls' has no offsets", "--method likelihood"])


def test_a_kept_model_remembers_offsets_and_exact_answers(tmp_path):
    X, y, groups = make_offset_data(0.4)
    for labels in (y, X @ [1.0, -2.0]):
        model = fit_quietly(LIGHT, X, labels, groups)
        model.save(tmp_path / "model.json")
        again = load(tmp_path / "model.json")
        assert again.bag_offset_sd_ == model.bag_offset_sd_
        assert again.solution_.status is model.solution_.status
        assert str(again.summary()) == str(model.summary())


def test_rows_in_blocks_have_offsets_too(monkeypatch):
    monkeypatch.setattr(methods, "BLOCKS_ABOVE", 1000)
    X, y, groups = make_offset_data(0.4, n=1600)
    given = fit_quietly(LIGHT, X, y, groups, bag_offsets=0.25)
    assert "in blocks" in str(given.summary(detail=True))
    assert given.bag_offset_sd_ == pytest.approx(0.25, rel=1e-12)
    with pytest.raises(ValueError, match="needs several bags"):
        ShuffledLinearRegression(LIGHT, bag_offsets="estimate").fit(X, y)


@pytest.mark.parametrize("kind", ["table", "weights", "two files"])
def test_offsets_are_told_by_the_names_of_bags_in_the_order_of_the_file(kind, folder, capsys):
    """One pool of eight is shifted: its name stands at its place, in JSON and in the report."""
    rng = np.random.default_rng(0)
    names = [f"pool {place}" for place in (7, 2, 9, 1, 12, 4, 3, 8)]
    sizes = [30, 11, 26, 17, 22, 14, 35, 19]
    groups = np.repeat(names, sizes)
    X = rng.gamma(2.0, size=(len(groups), 2))
    y = X @ [1.0, -2.0] + 0.2 * rng.standard_normal(len(X)) + 3.0 * (groups == "pool 2")
    counts = rng.integers(1, 3, len(X)) if kind == "weights" else np.ones(len(X), int)
    cells = zip(*X.T, y, groups, counts, strict=True)
    lines = [f"{a:.4f},{b:.4f},{label:.4f},{bag},{n}" for a, b, label, bag, n in cells]
    (folder / "pools.csv").write_text("\n".join(["a,b,y,bag,n", *lines]))
    args = ["fit", "pools.csv", "--label", "y", "--exclude", "n"]
    if kind == "weights":
        args = ["fit", "pools.csv", "--label", "y", "--weight", "n"]
    if kind == "two files":
        rows = [line.split(",") for line in lines]
        (folder / "x.csv").write_text(
            "\n".join(["a,b,bag", *(",".join((r[0], r[1], r[3])) for r in rows)])
        )
        (folder / "y.csv").write_text("\n".join(["y,bag", *(",".join(r[2:4]) for r in rows)]))
        args = ["fit", "--rows", "x.csv", "--labels", "y.csv"]
    args += ["--bag", "bag", "--seed", "1", "--json", "--report", "r.html"]
    assert run(args) == 0
    page = (folder / "r.html").read_text()
    picture = page[page.index("Offsets of the bags") :]
    places = [picture.index(name) for name in names]
    assert places == sorted(places)
    assert "number of the bag" not in page and "bag 1 (" not in page
    offsets = json.loads(capsys.readouterr().out)["bag_offsets"]["bags"]
    assert list(offsets) == names
    assert max(offsets, key=lambda name: offsets[name]["estimate"]) == "pool 2"
    assert offsets["pool 2"]["low"] > 1.0
