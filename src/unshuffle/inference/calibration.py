"""The power of the within-bag likelihood and the prior of bag effects, calibrated on real tables.

No real table obeys the model, and a likelihood that is wrong by δ nats a label deserves the weight
of about 1/δ labels, however many there are. So the within-bag likelihood is raised to a power, a
tempered or "coarsened" posterior (Miller and Dunson 2019; Grünwald and van Ommen 2017),

    power = min(full, c/n),   log c = a sum of diagnostics of the fit times coefficients.

The coefficients, and the prior probabilities of random and contextual bag effects, are fitted by
``make calibrate`` on two corpora of real tables, cross-validated over R packages, and stand in
``calibration.json`` with the out-of-fold figures they were chosen by. Nothing is set by hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from math import exp, log

from unshuffle.inference.diagnostics import Diagnostics


@dataclass(frozen=True)
class CalibrationSettings:
    """Bounds of the calibrated power.

    Attributes
    ----------
    least_count : float
        Labels for which the within-bag likelihood counts at least.
    most_noise_log : float
        Largest logarithm of 0.1 over the noise's share: no calibration data lie beyond.
    """

    least_count: float = 10.0
    most_noise_log: float = 3.0


CALIBRATION = CalibrationSettings()


@dataclass(frozen=True)
class Calibration:
    """The calibrated numbers.

    Attributes
    ----------
    base, bags, rows : log c of 200 labels in one bag that fit; per log R; per log(n/200).
    misfit, uneven : per log(1 + misfit), per log(1 + excess of the heteroscedasticity score).
    noise : per log of 0.1 over the noise's share of the variance, where that is below 0.1.
    offset_low, offset_high : prior probability of random bag effects for random bags, and for bags
        whose mean rows differ much.
    context_low, context_high : the same for contextual effects.
    """

    base: float
    bags: float
    rows: float
    misfit: float
    uneven: float
    noise: float
    offset_low: float
    offset_high: float
    context_low: float
    context_high: float

    def log_count(self, found: Diagnostics, n: float, n_bags: int) -> float:
        """Return log c: for how many labels the within-bag likelihood counts."""
        terms = describe(found, n, n_bags)
        return sum(getattr(self, name) * value for name, value in terms.items())


def describe(found: Diagnostics, n: float, n_bags: int) -> dict[str, float]:
    """Return the diagnostics that the coefficients multiply, by name."""
    return {
        "base": 1.0,
        "bags": log(n_bags),
        "rows": log(n / 200.0),
        "misfit": log(1.0 + found.misfit),
        "uneven": log(1.0 + max(0.5 * found.uneven**2 - 2.0, 0.0)),
        "noise": min(max(log(0.1 / found.noise), 0.0), CALIBRATION.most_noise_log),
    }


@cache
def load_calibration() -> Calibration:
    """Return the calibrated numbers of this version."""
    text = files("unshuffle.inference").joinpath("calibration.json").read_text(encoding="utf-8")
    numbers = json.loads(text)["numbers"]
    return Calibration(**{each.name: float(numbers[each.name]) for each in fields(Calibration)})


def prior_share(low: float, high: float, difference: float) -> float:
    """Return the prior probability of an effect: low for random bags, high for others.

    >>> prior_share(0.05, 0.9, 0.0), round(prior_share(0.05, 0.9, 1.0), 3)
    (0.05, 0.9)
    """
    return low + (high - low) * difference


def full_power(approximate: float, exactness: float) -> float:
    """Return the power at full use: below one as far as the likelihood is approximate."""
    return 1.0 - (1.0 - exactness) * approximate


def calibrated_count(calibration: Calibration, found: Diagnostics, n: float, n_bags: int) -> float:
    """Return for how many labels the within-bag likelihood counts, at least `least_count`."""
    return max(exp(calibration.log_count(found, n, n_bags)), CALIBRATION.least_count)
