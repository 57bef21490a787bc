"""Properties of posteriors in blocks: modes, draws and fits."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from oracles import central_differences
from tables import needs_files
from targets import build_from_rows
from unshuffle import Likelihood, ShuffledLinearRegression, make_shuffled, methods, shuffle_labels
from unshuffle.inference.answer import choose_power
from unshuffle.inference.block_modes import (
    BLOCK_MODES,
    FittedMode,
    continue_modes,
    find_rest_curvature,
    keep_best,
    refine_modes,
    search_soft_directions,
)
from unshuffle.inference.blocks import ascend_powers, search_exchanges, take_few_labels
from unshuffle.inference.diagnostics import Diagnostics
from unshuffle.inference.importance import sample_posterior
from unshuffle.inference.modes import maximise_all
from unshuffle.inference.proposals import make_mixture
from unshuffle.io.reading import read_table
from unshuffle.model.goodness_of_fit import measure_misfit, measure_uneven
from unshuffle.model.settings import MOST_LABELS


def make_differing(n, rng, n_bags=10, d=3):
    """Return rows that differ in their means from bag to bag, labels, groups and weights."""
    rng = np.random.default_rng(rng)
    groups = np.sort(np.arange(n) % n_bags)
    X = rng.standard_normal((n, d)) + rng.standard_normal((n_bags, d))[groups]
    w = np.array([0.7, -0.4, 0.2])[:d]
    linked = X @ w + 0.2 * rng.standard_normal(n)
    return X, shuffle_labels(linked, groups, rng), groups, w


@pytest.fixture(scope="module")
def differing():
    X, y, groups, w = make_differing(20_000, 0)
    target, scaling = build_from_rows(X, y, groups, 0.01, 0.9)
    return target, target.join(w * scaling.scale / scaling.label_scale, -1.5)


@pytest.fixture(scope="module")
def alike():
    data = make_shuffled(20_000, 3, bags=8, snr_db=12, rng=3)
    target, scaling = build_from_rows(data.X, data.y, data.groups, 0.1, 0.05)
    return target, target.join(data.weights * scaling.scale / scaling.label_scale, -1.2)


@pytest.fixture(scope="module")
def small_bags():
    data = make_shuffled(6000, 3, bags=300, snr_db=12, rng=3)
    target, scaling = build_from_rows(data.X, data.y, data.groups, 0.5, 0.05)
    return target, target.join(data.weights * scaling.scale / scaling.label_scale, -1.2)


# --- modes ------------------------------------------------------------


def test_bags_without_offsets_have_a_mode_of_their_own(differing):
    """From a point where offsets explain the gaps, which a climb on the sum never leaves."""
    target, truth = differing
    astray = truth.copy()
    astray[:3] += [0.02, -0.02, 0.02]
    astray[3] = -2.5
    modes = refine_modes(target, [(0.0, astray)])
    assert modes[0].size_index == 0
    sds = np.sqrt((modes[0].factor ** 2).sum(axis=1))[:3]
    assert (np.abs(astray - modes[0].theta)[:3] > 5.0 * sds).any()
    assert (np.abs(truth - modes[0].theta)[:3] < 4.0 * sds).all()
    sds, shares = target.offset_shares(modes[0].theta)
    assert shares[sds > 0.0].sum() < 1e-3


def test_a_mode_has_no_slope_left(differing, alike):
    for target, theta in (differing, alike):
        best = refine_modes(target, [(0.0, theta)])[0]
        alone = replace(target, means=replace(target.means, only=best.size_index))
        # In sds: a fifth of one is as near as a mode is asked to be.
        assert np.linalg.norm(best.factor.T @ alone(best.theta)[1]) < 0.3


def test_curvatures_of_what_takes_no_pass_are_differences_of_its_slopes(differing):
    target, theta = differing
    alone = replace(target, means=replace(target.means, only=1))
    found = find_rest_curvature(alone, theta)
    for k in (0, 2, 3, 4):
        expected = -central_differences(lambda at, k=k: alone.evaluate_rest(at)[1][k], theta, 1e-5)
        # Bends of the prior in the weights, and of gaps in weights and curve at once, are left out.
        np.testing.assert_allclose(found[k], expected, atol=5e-3 * np.abs(found).max())


def test_the_within_bag_likelihood_and_the_rest_are_the_posterior(differing):
    target, theta = differing
    values, slopes = target.evaluate_within_bag(theta[None])
    rest, by_rest = target.evaluate_rest(theta)
    value, gradient = target(theta)
    assert target.power * values[0] + rest == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(target.power * slopes[0] + by_rest, gradient, rtol=1e-9)


def test_rounds_share_one_mixture_density(small_bags):
    """Every draw is weighed by the mean density of all rounds."""
    target, theta = small_bags
    target = replace(target, options=replace(target.options, n_draws=60, max_rounds=3))
    mixture = make_mixture(target, [(0.0, theta)])
    sample = sample_posterior(target, mixture, np.inf, np.random.default_rng(0))
    assert sample.n_rounds == 3 and len(sample.x) == 180
    density = np.mean([np.exp(each.log_density(sample.x)) for each in sample.used], axis=0)
    expected = target.log_density(sample.parts) - np.log(density)
    np.testing.assert_allclose(sample.log_weights, expected, rtol=1e-9)


def test_a_mode_that_is_followed_to_another_power_is_the_mode_there(alike):
    target, theta = alike
    weak, strong = replace(target, power=0.02), replace(target, power=0.5)
    modes = refine_modes(weak, maximise_all(weak, [theta]))
    followed = continue_modes(strong, modes, weak.power)
    direct = refine_modes(strong, maximise_all(strong, [theta]))
    assert followed[0].value == pytest.approx(direct[0].value, abs=0.05)
    # The last step may be of .3 sds: .05 nats.
    assert followed[0].value > max(strong(mode.theta)[0] for mode in modes) + 1.0


def test_looking_around_a_wide_mode_leads_to_the_narrow_one_inside(alike):
    target, theta = alike
    weak, strong = replace(target, power=0.02), replace(target, power=0.5)
    modes = refine_modes(weak, maximise_all(weak, [theta]))
    found = search_soft_directions(strong, modes[0], weak.power)
    mode = continue_modes(strong, modes, weak.power)[0]
    assert len(found) == 4  # both ways on two directions
    # Climbs end where a step gains a hundredth of a nat, along ridges some tenths below the mode.
    assert max(value for value, _ in found) == pytest.approx(mode.value, abs=0.5)
    assert strong.distance(max(found, key=lambda mode: mode[0])[1], mode.theta) < 0.02


@pytest.fixture(scope="module")
def two_bags():
    """The target of four skewed columns in two bags, and the truth in its coordinates."""
    rng, n = np.random.default_rng(1), 20_000
    columns = [rng.exponential(size=n), rng.gamma(2.0, size=n), rng.exponential(size=n) ** 1.3]
    X, w = np.column_stack([*columns, rng.gamma(3.0, size=n)]), np.array([1.0, -0.6, 0.5, 0.2])
    groups, noise = np.arange(n) % 2, 0.3
    y = shuffle_labels(X @ w + noise * rng.standard_normal(n), groups, rng)
    target, scaling = build_from_rows(X, y, groups, 0.5, 0.05)
    w = w * scaling.scale / scaling.label_scale
    return target, target.join(w, np.log(noise / scaling.label_scale))


def test_bags_without_offsets_are_waited_for_while_their_weights_do_not_fit_the_means_yet():
    def make_mode(evidence, offset, is_inside):
        theta, factor = np.array([float(offset), evidence]), 0.01 * np.eye(2)
        value = evidence - 2.0 * np.log(0.01)
        return FittedMode(value, theta, factor, offset, None, 6.0, is_inside)

    best, far, farther = (
        make_mode(0.0, 1, True),
        make_mode(-900.0, 0, False),
        make_mode(-1900.0, 0, False),
    )
    others = [make_mode(-900.0, 2, False), make_mode(-50.0, 3, False)]
    assert keep_best([best, farther, far, *others], [], 0) == [best, others[1], far]
    assert keep_best([best, far], [], BLOCK_MODES.steps_on_the_way) == [best]  # not for ever
    assert keep_best([far], [make_mode(-30.0, 0, True)], 0) == []  # one has arrived


def test_exchanged_weights_lead_from_a_wrong_mode_to_the_right_one(two_bags):
    target, truth = two_bags
    exchanged = truth.copy()
    exchanged[[0, 2]] = truth[[2, 0]]
    (right, _), wrong = maximise_all(target, [truth, exchanged])
    assert wrong[0] < right - 10.0  # a climb from there stays there
    found = search_exchanges(target, target, [wrong], np.random.default_rng(0))
    # Climbs end where a step gains a hundredth of a nat, along ridges some tenths below the mode.
    assert found[0][0] == pytest.approx(right, abs=0.5)
    assert [value for value, _ in found] == sorted((value for value, _ in found), reverse=True)


def test_modes_that_all_labels_rule_out_are_kept_for_the_power_of_intervals(two_bags):
    target, truth = two_bags
    exchanged = truth.copy()
    exchanged[[0, 2]] = truth[[2, 0]]
    target = replace(target, power=1.0)
    modes, others = ascend_powers(
        target, take_few_labels(target), [truth, exchanged], np.random.default_rng(0)
    )
    values = target.evaluate_tempered(np.array([modes[0].theta, *(theta for _, theta in others)]))
    # Two modes a hundred nats apart are nearly equal at a hundredth of the power, which is more
    # than the power of intervals of two bags.
    far = [target.distance(theta, modes[0].theta) > 0.05 for _, theta in others]
    assert any(
        is_far and value < values[0] - 15.0 for is_far, value in zip(far, values[1:], strict=True)
    )


# --- power ------------------------------------------------------------


@pytest.mark.parametrize("power", ["calibrated", "full"])
def test_the_likelihood_never_counts_for_more_labels_than_histograms_tell_apart(power):
    fits = Diagnostics(0.0, 0.0, 0.05, 0.0, 0.0, 0.0)
    counts = []
    for n in (1e6, 1e9, 1e11):
        target = SimpleNamespace(
            n_shuffled=n, n_effective=20, n_known_means=0,
            within_bag=SimpleNamespace(approximate=1.0), options=Likelihood(power=power),
        )  # fmt: skip
        counts.append(choose_power(target, fits) * n)
    assert counts == sorted(counts) and counts[-1] <= MOST_LABELS * (1 + 1e-12)
    if power == "full":
        assert counts[-1] == pytest.approx(MOST_LABELS)


def test_departures_below_what_histograms_tell_apart_are_no_misfit(alike):
    target, theta = alike
    low, high, counts, offsets = target.within_bag.label_bins
    found = []
    for times in (1.0, 1e4, 1e8):  # the same departure in more labels than count, and in more yet
        label_bins = (low, high, times * MOST_LABELS / counts.sum() * counts, offsets)
        more = replace(target, within_bag=replace(target.within_bag, label_bins=label_bins))
        found.append((measure_misfit(more, theta), measure_uneven(more, theta)))
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[0] == pytest.approx(found[2], rel=1e-9)
    assert found[0][0] > 100.0  # what a sample departs by, multiplied


# --- fits ------------------------------------------------------------


@pytest.mark.parametrize("n", [5_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_blocks_agree_with_the_plain_likelihood_within_their_draws(monkeypatch, n):
    data = make_shuffled(n, 2, bags=12, snr_db=12, rng=11)
    plain = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    monkeypatch.setattr(methods, "BLOCKS_ABOVE", 1000)
    blocks = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    summaries = [str(model.summary(detail=True)) for model in (blocks, plain)]
    assert "in blocks" in summaries[0] and "in blocks" not in summaries[1]
    sd = np.diff(plain.conf_int(), axis=1)[:, 0] / 3.92
    # 250 draws know a median to .08 sd, the ends of an interval of a lopsided posterior to .6.
    # The evidence depends on the largest weights: seeds of blocks differ by .6 at 20 000 rows.
    one, other = (model.conf_int(1e-6).mean(axis=1) for model in (plain, blocks))
    assert (np.abs(one - other) < 0.35 * sd).all()
    assert (np.abs(blocks.conf_int() - plain.conf_int()) < 2.4 * sd[:, None]).all()
    evidence = [model.solution_.stats["log_evidence"] for model in (plain, blocks)]
    assert abs(evidence[0] - evidence[1]) < 1.2
    # No interval of the 5000 rows ends near zero; with those of 20 000 one has zero well inside.
    assert blocks.identified_ is plain.identified_ is (n == 5_000)
    # What is negligible follows from the spread of the labels, whose cells are let go of early.
    limits = 0.1 * data.y.std() / data.X.std(axis=0)
    assert blocks.result_.facts.negligible[:2] == pytest.approx(limits, rel=1e-9)


def test_strongly_differing_bags_are_explored_and_no_offsets_are_seen():
    X, y, groups, w = make_differing(20_010, 5)
    model = ShuffledLinearRegression(random_state=0).fit(X, y, groups)
    assert model.solution_.status.name == "POSTERIOR" and model.model_fits_
    low, high = model.conf_int(0.999).T
    assert ((low < w) & (w < high)).all()
    # Bags that differ may have contextual effects, which their means cannot tell from the rest.
    assert np.abs(model.coef_ - w).max() < 0.05


def test_a_bag_of_one_row_stands_beside_a_large_one():
    data = make_shuffled(20_001, 2, bags=[1, 20_000], snr_db=15, rng=2)
    with pytest.warns(UserWarning, match="1 bag holds one row"):
        model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    low, high = model.conf_int(0.999).T
    assert np.isfinite(model.coef_).all() and (high > low).all()
    assert ((low < data.weights) & (data.weights < high)).all()


@pytest.mark.slow
def test_ten_million_rows_of_columns_that_are_alike_are_told_apart():
    # The likelihood of so many rows is a narrow bent ridge: an ascent in one stage ends .36 of a
    # label's sd away.
    rng = np.random.default_rng(1000)
    n, w = 10_000_000, np.array([1.0, -0.6, 0.4, 0.3, -0.2])
    X, groups = rng.exponential(size=(n, 5)), np.arange(n) % 20
    y = X @ w
    y += 0.277 * rng.standard_normal(n)
    model = ShuffledLinearRegression(random_state=0).fit(X, y, groups)
    assert model.identified_ and model.model_fits_
    low, high = model.conf_int(0.999).T
    assert ((low <= w) & (w <= high)).all()
    assert np.linalg.norm(model.coef_ - w) < 0.1


@needs_files
@pytest.mark.slow
def test_two_cytometry_files_cover_linked_regression_or_say_that_they_do_not_tell():
    parts = []
    for k, stem in enumerate(("J23103_J23109", "J23101_J23101")):
        table = read_table(Path(os.environ["UNSHUFFLE_DATA"]) / "fcs" / f"{stem}.fcs")
        events = np.stack([table.columns[name] for name in ("SSC-A", "FSC-A", "FITC-A")], axis=1)
        events = np.log10(events[(events > 0).all(axis=1)])
        parts.append(np.column_stack([events, np.full(len(events), k)]))
    rows = np.vstack(parts)
    X, y, groups = rows[:, :2], rows[:, 2], rows[:, 3].astype(int)
    linked = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0][:2]
    model = ShuffledLinearRegression(random_state=0).fit(X, shuffle_labels(y, groups, 0), groups)
    assert not model.model_fits_
    low, high = model.conf_int().T
    assert not model.identified_ or ((low < linked) & (linked < high)).all()
