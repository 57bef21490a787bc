"""The numbers of the link model that are calibrated on real tables.

``benchmarks/calibrate_links.py`` fits them on two corpora of real tables with a share of the links
permuted, cross-validated over R packages. They stand in ``link_calibration.json`` beside the
out-of-fold figures they were chosen by. Nothing is set by hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class LinkCalibration:
    """The calibrated numbers.

    Attributes
    ----------
    pairs : α, for how many pairs the likelihood of the mismatch rate counts at most.
    none_wrong : prior probability that no link is wrong.
    decay : b of the prior density b (1 − q)ᵇ⁻¹ of other rates.
    agreement : p-value of Hausman's test below which the mixture loses weight, where the rate is
        known.
    agreement_estimated : the same where the rate is estimated.
    bias : share of the squared gap between the two estimates that is added to the variance of the
        mixture.
    """

    pairs: float
    none_wrong: float
    decay: float
    agreement: float
    agreement_estimated: float
    bias: float


@cache
def load_link_calibration() -> LinkCalibration:
    """Return the calibrated numbers."""
    text = files("unshuffle.linkage").joinpath("calibration.json").read_text("utf-8")
    found = json.loads(text)
    return LinkCalibration(**{each.name: found[each.name] for each in fields(LinkCalibration)})
