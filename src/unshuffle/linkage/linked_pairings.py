"""Draws of whole pairings where labels stand beside their rows and some links are wrong.

Given a mismatch rate and a draw of the coefficients, each link is right or wrong with the
probability of the mixture (see `scale_mixture`), recalibrated on real tables like the one that a
fit reports. The labels of wrong links are then exchanged among their rows inside the block, by
Gibbs sampling (Wu 1998; see `pairing_draws`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from unshuffle.data.products import multiply, predict_rows
from unshuffle.inference.pairing_draws import Noise, choose_evenly, exchange_labels
from unshuffle.linkage.calibration import load_link_calibration
from unshuffle.linkage.given_pairs import GivenPairs
from unshuffle.linkage.scale_mixture import log_noise_density


@dataclass(frozen=True, eq=False)
class LinkedComponent:
    """A fit at given mismatch rates, as far as draws need it.

    Attributes
    ----------
    w, root : coefficients, and steps of one sd in independent directions (rows).
    wrong : (n,) prior probability of each link to be wrong.
    noise : density of the noise of right links.
    """

    w: np.ndarray
    root: np.ndarray
    wrong: np.ndarray
    noise: Noise


@dataclass(frozen=True, eq=False)
class LinkedPairings:
    """Pairings of linked records, given a mixture of fits at several mismatch rates.

    `pairs` are those of blocks of more than one, `n` is the number of all.
    """

    pairs: GivenPairs
    n: int
    components: tuple[LinkedComponent, ...]
    mass: np.ndarray
    dof: int
    is_rate_known: bool

    def draw(self, m: int, rng: np.random.Generator) -> np.ndarray:
        """Return (m, n) places in y, in the order of the data as given."""
        pairs = self.pairs
        chosen = choose_evenly(self.mass, m, rng)
        # A pair that is alone in its block keeps its label.
        found = np.tile(np.arange(self.n), (m, 1))
        for k, one in enumerate(chosen.tolist()):
            label = self._draw_one(self.components[one], rng)
            found[k, pairs.place] = pairs.place[label]
        return found

    def _draw_one(self, fit: LinkedComponent, rng: np.random.Generator) -> np.ndarray:
        pairs, n = self.pairs, len(self.pairs.y)
        factor = np.sqrt(self.dof / rng.chisquare(self.dof))
        step = rng.standard_normal((1, len(fit.root))) * factor
        w = fit.w + multiply(step, fit.root)[0]
        z = predict_rows(pairs.X, w)
        right = link_probabilities(pairs, fit.wrong, pairs.y - z, fit.noise)
        told = load_link_calibration().recalibrate(right, is_known=self.is_rate_known)
        is_right = rng.random(n) < told
        codes = np.where(is_right, -1, pairs.codes)
        label = np.arange(n)
        wrong = np.flatnonzero(~is_right)
        by_mean = wrong[np.lexsort([z[wrong], pairs.codes[wrong]])]
        label[by_mean] = wrong[np.lexsort([pairs.y[wrong], pairs.codes[wrong]])]
        return exchange_labels(z, pairs.y, label, codes, fit.noise, rng)


def link_probabilities(
    pairs: GivenPairs, wrong: np.ndarray, rest: np.ndarray, noise: Noise
) -> np.ndarray:
    """Return the probability of each link to be right, given the residuals."""
    own = log_noise_density(rest, noise.scales, noise.shares)
    with np.errstate(divide="ignore"):
        odds = own + np.log(1.0 - wrong) - np.log(wrong) - pairs.log_reference
    return np.where(pairs.is_known | (wrong == 0.0), 1.0, expit(odds))
