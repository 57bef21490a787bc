"""The numbers of the link model that are calibrated on real tables.

``benchmarks/calibrate_links.py`` fits them on two corpora of real tables with a share of the links
permuted, cross-validated over R packages. They stand in ``calibration.json`` beside the
out-of-fold figures they were chosen by. Nothing is set by hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

import numpy as np
from scipy.special import expit, logit


@dataclass(frozen=True)
class LinkCalibration:
    """The calibrated numbers.

    Attributes
    ----------
    pairs : α, for how many pairs the likelihood of the mismatch rate counts at most.
    pairs_alike : the same for the point estimate, where all labels depend on their rows alike.
    none_wrong : prior probability that no link is wrong.
    decay : δ of the prior density δ (1 − q)^(δ − 1) of other rates.
    agreement : p-value of Hausman's test below which the mixture loses weight, where the rate is
        known.
    agreement_estimated : the same where the rate is estimated.
    agreement_loose : the same where some labels depend less on their row than others.
    bias : share of the squared gap between the two estimates that is added to the variance of the
        mixture.
    ratio : ρ, the least slope of labels that depend less on their row, as a share of the others'.
    shift_known, slope_known : a and b of the recalibrated probability of a link to be right,
        expit(a + b logit p) (Platt 2000), where the rate is known.
    shift_estimated, slope_estimated : the same where the rate is estimated.
    """

    pairs: float
    pairs_alike: float
    none_wrong: float
    decay: float
    agreement: float
    agreement_estimated: float
    agreement_loose: float
    bias: float
    ratio: float
    shift_known: float
    slope_known: float
    shift_estimated: float
    slope_estimated: float

    def agree(self, loose: float, *, is_known: bool) -> float:
        """Return the p-value of agreement where labels are uneven with this probability."""
        alike = self.agreement if is_known else self.agreement_estimated
        return alike + loose * (self.agreement_loose - alike)

    def recalibrate(self, right: np.ndarray, *, is_known: bool) -> np.ndarray:
        """Return probabilities of links to be right that are so often right; 0 and 1 stay."""
        shift, slope = self.shift_estimated, self.slope_estimated
        if is_known:
            shift, slope = self.shift_known, self.slope_known
        return np.asarray(expit(shift + slope * logit(right)))


@cache
def load_link_calibration() -> LinkCalibration:
    """Return the calibrated numbers."""
    text = files("unshuffle.linkage").joinpath("calibration.json").read_text("utf-8")
    found = json.loads(text)
    return LinkCalibration(**{each.name: found[each.name] for each in fields(LinkCalibration)})
