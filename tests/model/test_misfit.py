"""Diagnostics of misfit, and the power of the within-bag likelihood that follows from them."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from targets import build_from_data
from unshuffle import Likelihood, ShuffledLinearRegression, Status, make_shuffled
from unshuffle.inference.answer import choose_power
from unshuffle.inference.calibration import calibrated_count, load_calibration
from unshuffle.inference.diagnostics import Diagnostics
from unshuffle.model import goodness_of_fit, kept_bags
from unshuffle.model.goodness_of_fit import measure_misfit, measure_uneven
from unshuffle.model.nodes import share_nodes

# Little effort: data of a thousand rows have one mode.
LIGHT = Likelihood(n_starts=16, n_refined=6, n_components=6, n_draws=300)
FITS = Diagnostics(0.0, 0.0, 0.1, 0.0, 0.0, 0.0)


def fit(data, options=LIGHT):
    """Fit with a fixed seed; warnings are tested elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ShuffledLinearRegression(options, random_state=0).fit(*data)


def count(found, n, n_bags):
    """Return for how many labels the within-bag likelihood counts."""
    return calibrated_count(load_calibration(), found, n, n_bags)


@pytest.mark.parametrize("name", ["misfit", "uneven"])
def test_the_power_falls_with_every_kind_of_misfit(name):
    counts = [count(replace(FITS, **{name: step}), 5000, 10) for step in (0, 3, 6, 60)]
    assert all(a >= b for a, b in pairwise(counts))
    assert counts[0] > counts[1]
    # Noise that grows and noise that shrinks with the prediction are as bad.
    if name == "uneven":
        assert count(replace(FITS, uneven=-3.0), 5000, 10) == counts[1]


def test_the_power_grows_with_rows_bags_and_signal():
    rows = [count(FITS, n, 4) for n in (200, 1000, 10_000)]
    bags = [count(FITS, 1000, n_bags) for n_bags in (1, 2, 10, 100)]
    noises = [count(replace(FITS, noise=noise), 300, 1) for noise in (0.1, 0.01, 0.001)]
    for counts in (rows, bags, noises):
        assert all(a <= b for a, b in pairwise(counts)) and counts[0] < counts[-1]
    # The more rows, the smaller the part of them that counts.
    assert rows[2] / 10_000 < rows[1] / 1000


@pytest.mark.parametrize("power", ["calibrated", "full", 0.3])
def test_a_declared_power_is_taken_and_few_rows_count_in_full(power):
    data = make_shuffled(12, 1, bags=2, noise=0.3, rng=0)
    target = build_from_data(data, replace(LIGHT, power=power))[0]
    if power == 0.3:
        assert choose_power(target, FITS) == 0.3
    else:  # permanents of six rows are exact
        assert choose_power(target, FITS) == (1.0 if power == "full" else pytest.approx(1, abs=0.2))
    large = build_from_data(make_shuffled(3000, 1, noise=0.3, rng=0), replace(LIGHT, power=power))[
        0
    ]
    found = choose_power(large, FITS)
    # The approximate permanent is a little too sharp: "full" counts eight tenths of it.
    assert found == 0.3 if power == 0.3 else found == 0.8 if power == "full" else found < 0.5


def test_the_estimators_option_is_the_full_power_and_other_methods_refuse_it():
    data = make_shuffled(200, 2, bags=4, noise=0.5, rng=3)
    options = dict(n_starts=8, random_state=0)
    first = ShuffledLinearRegression("likelihood", model_holds=True, **options)
    second = ShuffledLinearRegression(Likelihood(power="full"), **options)
    found = [each.fit(data.X, data.y, data.groups).conf_int() for each in (first, second)]
    assert np.array_equal(*found)
    assert "Declared: the linear model" in str(first.result_.stats["priors"])
    with pytest.raises(ValueError, match="'ls' takes no model_holds"):
        ShuffledLinearRegression("ls", model_holds=True).fit(data.X, data.y)


def test_declaring_the_model_narrows_intervals_and_is_said():
    data = make_shuffled(400, 2, bags=4, noise=0.5, rng=3)
    widths = []
    for power in ("calibrated", "full"):
        model = fit((data.X, data.y, data.groups), replace(LIGHT, power=power))
        low, high = model.conf_int().T
        assert (low < data.weights).all() and (data.weights < high).all()
        widths.append(np.mean(high - low))
        assert any("Declared" in each for each in model.solution_.stats["priors"]) == (
            power == "full"
        )
    assert widths[1] < widths[0]


def simulate(kind, seed):
    """Return a thousand rows in ten random bags, and the linked labels.

    The noise has 0.3 of the signal's spread. Offsets between bags are as large; a curve bends the
    mean by 0.3 (z² − mean z²)/sd(z); heteroscedastic noise grows as exp(z/2 sd(z)).
    """
    rng = np.random.default_rng(seed)
    X = rng.exponential(size=(1000, 3)) - 1.0
    if kind == "uneven":
        X = rng.uniform(-1.7, 1.7, size=(1000, 1))
    z = X @ np.array([1.0, -0.6, 0.4])[: X.shape[1]]
    groups, unit = np.arange(1000) % 10, z.std()
    scale = 0.3 * unit * (np.exp(0.5 * z / unit) if kind == "uneven" else 1.0)
    y = z + scale * rng.normal(size=1000)
    if kind == "curved":
        y += 0.3 * (z**2 - np.mean(z**2)) / unit
    if kind == "offset":
        y += 0.3 * unit * rng.normal(size=10)[groups]
    return X, y, groups


REASONS = {
    "obeys": (),
    "offset": ("offsets between bags",),
    "curved": ("a curved mean",),
    "uneven": ("heteroscedastic noise",),
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", REASONS)
def test_misfit_is_named_and_intervals_cover_the_linked_regression(kind, seed):
    """Ordinary regression of the linked labels lies in the 95 % intervals, misfit or not.

    On 33 simulations that obey (seeds 0 to 2 and 10 to 39) no reason was named: a false alarm is
    rarer than one in eleven (95 % sure), and 99 of 99 intervals covered. Offsets and the curve were
    named alone, and covered, on seeds 0 to 2, heteroscedastic noise on seeds 0 and 1.
    """
    X, y, groups = simulate(kind, seed)
    design = np.column_stack([X, np.ones(1000)])
    truth = np.linalg.lstsq(design, y, rcond=None)[0][:-1]
    model = fit((X, y, groups))
    low, high = model.conf_int().T
    assert ((low < truth) & (truth < high)).all()
    assert model.result_.misfits == REASONS[kind]
    assert model.model_fits_ is (not REASONS[kind])
    # Misfit is no matter of convergence.
    assert model.solution_.status is Status.POSTERIOR and model.result_.is_converged
    # Intervals tell something: coefficients are 1, -0.6 and 0.4.
    assert np.mean(high - low) < {"offset": 1.2, "uneven": np.inf}.get(kind, 0.45)


def test_a_straight_mean_function_cannot_fit_a_curved_one():
    """Why there is a curve: without, its misfit is another, and the intervals tell little."""
    X, y, groups = simulate("curved", 0)
    bent, straight = (fit((X, y, groups), o) for o in (LIGHT, replace(LIGHT, curve_scale=0.0)))
    assert "a curved mean" not in straight.result_.misfits
    assert straight.model_fits_ is False
    truth = np.linalg.lstsq(np.column_stack([X, np.ones(1000)]), y, rcond=None)[0][:3]
    errors = [np.linalg.norm(model.coef_ - truth) for model in (bent, straight)]
    # Measured on three seeds: 0.02 to 0.03 against 0.34 to 0.47; widths 0.13 against 1.1 to 1.9.
    assert errors[0] < 0.1 < errors[1]
    widths = [np.ptp(model.conf_int(), axis=1).mean() for model in (bent, straight)]
    assert 4 * widths[0] < widths[1]


def test_offsets_between_bags_widen_what_their_means_tell():
    """Bags that differ in their rows and by 4 more: the means scatter, and the fit says how much.

    Noise is exponential, of the same size.
    """
    rng = np.random.default_rng(1000)
    X = rng.normal(size=(2000, 2)) + np.repeat(rng.normal(size=(20, 2)), 100, axis=0)
    noise, effects = 4.0 * rng.exponential(size=2000), np.repeat(rng.normal(size=20), 100)
    groups = np.repeat(np.arange(20), 100)
    widths = []
    for y in (X @ [1.0, -1.0] + noise, X @ [1.0, -1.0] + noise + 4.0 * effects):
        model = fit((X, y, groups))
        widths.append(np.ptp(model.conf_int(), axis=1).mean())
    found = model.solution_.stats["diagnostics"]
    assert found["offset_probability"] > 0.99
    # Offsets come in steps of two, and the smallest noise is a part of the whole.
    assert 2.0 < found["offset_sd"] * y.std() < 8.0
    # The variance of a bag mean: 16/100 from the noise, 16 from the offset. Contextual effects,
    # which bags that differ leave open, widen both. With an effective sample size of 8000 the
    # ratio is 1.55.
    assert widths[1] > 1.3 * widths[0]


def test_one_bag_has_no_offset():
    data = make_shuffled(40, 1, noise=0.2, rng=0)
    found = fit((data.X, data.y, data.groups)).solution_.stats["diagnostics"]
    assert found["offset_probability"] == 0.0 and found["offset_sd"] == 0.0


# --- places and scores of labels in their distribution -----------------------------------


def build_at_truth(n, bags, seed, features="exponential", snr_db=25):
    """Return a target of data that obey the model, and their true point."""
    data = make_shuffled(n, 5, bags=bags, snr_db=snr_db, features=features, rng=seed)
    target, _, _, scaling = build_from_data(data, Likelihood())
    w = data.weights * scaling.scale / scaling.label_scale
    return target, target.join(w, np.log(data.noise / scaling.label_scale))


@pytest.mark.parametrize("bags", [1, 3])
def test_labels_of_large_bags_are_compared_as_if_every_row_were_read(bags, monkeypatch):
    # On 128 quantiles of one bag's predictions scores were -1.7 and 11, where rows say .1 and .4.
    target, theta = build_at_truth(2500, bags, 3)
    wrong = theta.copy()
    wrong[target.p] += 1.5  # noise that is too large is a misfit
    found = [(measure_uneven(target, x), measure_misfit(target, x)) for x in (theta, wrong)]
    for module in (kept_bags, goodness_of_fit):
        monkeypatch.setattr(module, "SMALL_ROWS", 10**9)
    rows = [(measure_uneven(target, x), measure_misfit(target, x)) for x in (theta, wrong)]
    assert rows[0][1] == 0.0 and rows[1][1] > 10.0
    # Nodes of a sixth of sigma add a 216th of its variance, and some labels go to the next of 30
    # cells for it.
    assert_allclose(found, rows, atol=0.03, rtol=0.02)


def test_what_is_too_far_from_a_label_to_matter_is_left_out(monkeypatch):
    target, theta = build_at_truth(2500, 1, 3)
    found = measure_uneven(target, theta), measure_misfit(target, theta)
    for name in ("_FAR", "_LEAST"):
        monkeypatch.setattr(goodness_of_fit, name, 1e6)
    # What is left out has e^-40 of the nearest.
    assert_allclose(found, (measure_uneven(target, theta), measure_misfit(target, theta)), 1e-9)


def test_noise_of_data_that_obey_is_even():
    """The squares of 20 normal scores add up to 45.3 in one of a thousand such tests.

    They add up to 16 here and to 18 on the next 20 seeds; on 128 quantiles of predictions to 55 and
    61, with four scores beyond 2.8, where noise is called uneven.
    """
    scores = [measure_uneven(*build_at_truth(5000, 1, seed)) for seed in range(20)]
    assert np.square(scores).sum() < 45.3


def test_nodes_keep_masses_and_means_and_are_few_however_far_values_are_apart():
    rng = np.random.default_rng(0)
    values, masses = rng.standard_cauchy(300), rng.integers(1, 5, 300)
    values[0] = 1e12
    nodes, shares = share_nodes(values, 0.01, masses.astype(float))
    again = share_nodes(np.repeat(values, masses), 0.01)
    assert len(nodes) <= 600 and (np.diff(nodes) > 0.0).all()
    assert_allclose(nodes, again[0])
    assert_allclose(shares, again[1])
    assert_allclose(shares.sum(), 1.0)
    assert_allclose(shares @ nodes, np.average(values, weights=masses))
