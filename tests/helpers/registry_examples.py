"""One or more examples of every entry of the registries, so that tests can run over all of them.

`test_every_entry_has_an_example` fails when a new loss, noise or method is missing here.
"""

import copy
import warnings

import numpy as np

from unshuffle.estimator import ShuffledLinearRegression
from unshuffle.inference.likelihood import Likelihood
from unshuffle.methods import METHODS
from unshuffle.objectives import losses, noise
from unshuffle.simulate import make_shuffled


def cube_root(z):
    """A user's g: concave, so that it plays down the tails."""
    return np.cbrt(z)


def multiply_by_slope(z, s):
    """The product of a slope with the Jacobian of `cube_root`."""
    return s / (3 * np.cbrt(z) ** 2)


LOSS_EXAMPLES = {
    "squared": [losses.Squared()],
    "absolute": [losses.Absolute()],
    "kolmogorov-smirnov": [losses.KolmogorovSmirnov()],
    "small-d": [losses.SmallD(4), losses.SmallD()],
    "order-invariant": [
        losses.OrderInvariant(cube_root, 2.0, multiply_by_slope),
        losses.OrderInvariant(cube_root, 1.0, multiply_by_slope),
        losses.OrderInvariant(cube_root, 3.0),
        losses.OrderInvariant(cube_root, np.inf, multiply_by_slope),
    ],
    "moments": [losses.Moments(), losses.Moments(4), losses.Moments(3, f=lambda k: k**-2.0)],
}

# Skewed and off-centre where that is possible, so that no odd moment vanishes by luck.
NOISE_EXAMPLES = {
    "gaussian": noise.GaussianNoise(0.3),
    "moments": noise.MomentNoise((0.1, 0.2, 0.05, 0.15)),
    "sample": noise.noise_from_calibration([0.0, 0.1, 0.3, 1.0]),
    "student": noise.StudentNoise(0.23, 9.0),
    "grid": noise.GridNoise([-0.5, 0.0, 1.5], [0.0, 1.0, 0.0]),
}

# Methods that choose another, and so are no solver of their own: what they give is, bit for bit,
# what the chosen one gives (a test in test_methods), so that tests of numbers run over the others.
CHOOSERS = [name for name, method in METHODS.items() if method.strategy is None]
SOLVERS = [name for name in METHODS if name not in CHOOSERS]
# Methods whose fit takes a second where others take a hundredth.
LENGTHY = ("likelihood", "sampler")
# Options for properties that hold at any effort: one run of the sampler instead of four.
LIGHT = {"sampler": {"n_starts": 1}}
# The likelihood for tests of bits and words: one small round of draws.
CHEAP = Likelihood(
    n_starts=4, n_refined=2, n_components=2, n_draws=30, max_rounds=1, least_draws=1.0
)


def make_method_data(method, noise=0.05, rng=0):
    """Simulate data small enough, and with bags enough, for the method."""
    if method == "exact":
        return make_shuffled(8, 2, noise=noise, bags=[2, 3, 3], intercept=0.5, rng=rng)
    return make_shuffled(60, 2, noise=noise, bags=[7, 8, 9, 10, 12, 14], intercept=0.5, rng=rng)


def make_property_data(method, noise=0.05, rng=0):
    """Simulate data for properties of any size: fewer rows where that saves much.

    The bags are such that the likelihood takes both of its ways, exact permanents (up to 10 rows)
    and the scaled ones.
    """
    if method == "likelihood":
        return make_shuffled(23, 2, noise=noise, bags=[3, 4, 5, 11], intercept=0.5, rng=rng)
    return make_method_data(method, noise, rng)


def fit_quietly(method, X, y, groups=None, **options):
    """Fit with a fixed seed and little effort; what the fit has to say is tested elsewhere."""
    light = LIGHT.get(method, {}) if isinstance(method, str) else {}
    options = {"random_state": 3, **light, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return ShuffledLinearRegression(method=method, **options).fit(X, y, groups)


_SHARED = {}


def fit_shared(method, X, y, groups=None, **options):
    """Return the fit of `fit_quietly`, made once in a process: for what others are compared with.

    A test of repeating a fit needs at least one fresh one. The model is a copy, its results are
    not: look, and change nothing inside them.
    """
    parts = [np.asarray(part) for part in (X, y, [] if groups is None else groups)]
    data = tuple((part.dtype.str, part.shape, part.tobytes()) for part in parts)
    key = (method, data, tuple(sorted(options.items())))
    if key not in _SHARED:
        _SHARED[key] = fit_quietly(method, X, y, groups, **options)
    return copy.copy(_SHARED[key])


def all_weights(model):
    """Return the weights of a fitted model with the intercept last."""
    return np.append(model.coef_, model.intercept_)
