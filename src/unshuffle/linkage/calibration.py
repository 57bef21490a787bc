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


@dataclass(frozen=True)
class LinkCalibration:
    """The calibrated numbers.

    Attributes
    ----------
    pairs : α, for how many pairs the likelihood of the mismatch rate counts at most.
    none_wrong : prior probability that no link is wrong.
    decay : δ of the prior density δ (1 − q)^(δ − 1) of other rates.
    agreement : p-value of Hausman's test below which the mixture loses weight, where the rate is
        known.
    agreement_estimated : the same where the rate is estimated.
    bias : share of the squared gap between the two estimates that is added to the variance of the
        mixture.
    ratio : ρ, the least slope of labels that depend less on their row, as a share of the others'.
    """

    pairs: float
    none_wrong: float
    decay: float
    agreement: float
    agreement_estimated: float
    bias: float
    ratio: float


@cache
def load_link_calibration() -> LinkCalibration:
    """Return the calibrated numbers."""
    text = files("unshuffle.linkage").joinpath("calibration.json").read_text("utf-8")
    found = json.loads(text)
    return LinkCalibration(**{each.name: found[each.name] for each in fields(LinkCalibration)})
