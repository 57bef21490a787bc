"""Posteriors to test: the targets of simulated data, and draws of the plain shuffled model."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from unshuffle import Likelihood
from unshuffle.core.strategy import Effort
from unshuffle.data.bags import make_bags
from unshuffle.data.blocks.first_pass import make_first_pass
from unshuffle.data.blocks.sources import ArraySource, number_bags
from unshuffle.data.scaling import standardise, standardise_pass
from unshuffle.inference.answer import draw_sample
from unshuffle.inference.likelihood import fit_least_squares
from unshuffle.inference.modes import find_modes
from unshuffle.inference.proposals import normalise
from unshuffle.kernels.transport.coupling import PRECISE
from unshuffle.model.block_building import build_blocks
from unshuffle.model.building import build_target
from unshuffle.model.kept_bags import KeptBags
from unshuffle.model.nodes import NODES_PER_SIGMA
from unshuffle.model.points import Parameters

# The model of the sampler and of enumeration: straight, with the sampler's bound on the weights.
PLAIN = Likelihood(curve_scale=0.0, weight_scale=1.0)


def build_from_bags(bags, options=PLAIN, has_intercept=True, noise=None):
    """Return target, columns, bags and scaling of bags in the user's units."""
    bags, scaling = standardise(bags, has_intercept, has_intercept)
    known = None if noise is None else noise.divided_by(scaling.label_scale)
    return *build_target(bags, has_intercept, known, options), scaling


def build_from_data(data, options=PLAIN, has_intercept=True, noise=None):
    """Return target, columns, bags and scaling of simulated data."""
    return build_from_bags(make_bags(data.X, data.y, data.groups), options, has_intercept, noise)


def make_parameters(weights, log_sigmas, curves=0.0):
    """Return points (m, p) for centred bags, which ask neither for levels nor priors."""
    w = np.atleast_2d(np.asarray(weights, dtype=float))
    nothing = np.zeros(len(w))
    coefs = np.zeros((len(w), 1)) + np.reshape(curves, (-1, 1))
    given = (nothing + log_sigmas, coefs, nothing, 0.0 * coefs, nothing, nothing)
    return Parameters(np.array([2]), w, *given, np.ones(len(w), bool))


def read_parameters(target, points):
    """Return points (w, log sigma, curve) of a target; one bag has no curve."""
    thetas = np.array([target.join(w, log_sigma) for w, log_sigma, _ in points])
    if target.terms:
        thetas[:, target.term_places] = [[curve] for *_, curve in points]
    return target.read_points(thetas)


def keep_rows(rows, y, offsets):
    """Return bags of rows (p, n) and of labels, which may come in any order."""
    labels = [np.sort(y[a:b] - y[a:b].mean()) for a, b in pairwise(offsets)]
    return KeptBags(np.ascontiguousarray(rows), np.concatenate(labels), np.asarray(offsets))


def evaluate_bags(z, y, offsets, sigma, wants_slopes=True, per_sigma=NODES_PER_SIGMA):
    """Return what bags say of their deviations whose predictions at a weight of one are z."""
    params = make_parameters([1.0], np.log(sigma))
    return keep_rows(z[None], y, offsets).evaluate(params, per_sigma, wants_slopes, PRECISE, 1)


def log_constant(target):
    """Return what the target's log likelihood has beyond the densities without constants.

    The gap of a bag of m labels has the density √m/σ exp(−m gap²/2σ²), and the common level is
    integrated out, which leaves σ/√n.
    """
    m = target.means.m
    return 0.5 * np.log(m).sum() - 0.5 * np.log(m.sum()) * target.means.has_intercept


def sample_plainly(data, has_intercept=True, noise=None, rng=0):
    """Return draws in standard units, their shares and the log evidence, at full power.

    The posterior is straight and without offsets, as that of the sampler and of enumeration. The
    evidence is that of densities without constants.
    """
    rng = np.random.default_rng(rng)
    # Seven rows can have hundreds of modes: more draws than a fit takes.
    options = replace(PLAIN, n_draws=1500, min_rounds=3)
    target, columns, bags, _ = build_from_data(data, options, has_intercept, noise)
    fitted = fit_least_squares(bags, columns, rng, Effort())
    sample = draw_sample(target, find_modes(target, fitted, rng), rng)
    shares = normalise(sample.log_weights)[0]
    return sample.slopes, shares, sample.log_evidence - log_constant(target)


def build_from_rows(X, y, groups, power, offset_share):
    """Return the target of rows in blocks at a power."""
    first = make_first_pass(ArraySource(X, y, *number_bags(groups, len(y))), 1)
    scaling = standardise_pass(first, True)
    target = build_blocks(first, scaling, None, Likelihood())[0]
    return replace(target, power=power).with_effects(offset_share, None, 0.0), scaling
