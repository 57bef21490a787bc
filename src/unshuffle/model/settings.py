"""Every choice of the likelihood, made once on tuning seeds and never per data set."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

from unshuffle.errors import InputError, shorten

# Standardised log sigma is kept inside [-7, 1.5]: 0.1 % of sd(y) (numerically noiseless) to
# 4.5 sd(y). Noise that is given may be larger.
LOG_SIGMA_MIN, LOG_SIGMA_MAX = -7.0, 1.5
# The within-bag likelihood never counts for more labels than these, in the estimate and in checks
# of the fit: histograms on six cells a sigma move that of a billion by tens of nats, and to so many
# digits no model is true. (At 10⁹ rows that obey the model: misfit 17 nats in full, none so.)
MOST_LABELS = 1e8

# In place of a power of the within-bag likelihood: as calibrated on real tables, or as the model
# says.
CALIBRATED, FULL = "calibrated", "full"
# Priors: of the noise's share of the variance, or none (flat in coefficients and log sigma).
SHARE, FLAT = "share", "flat"


@dataclass(frozen=True)
class BagEffectSettings:
    """The sizes that bag effects may have. `calibration.json` has the probability of any.

    Attributes
    ----------
    offsets : tuple of float
        Sds of random effects, in units of the noise sd: none, or a grid with a ratio of about two.
    declared_offsets : tuple of float
        The same where random effects are declared. They may exceed any noise.
    contexts : tuple of float
        Prior sds of contextual effects, in units of sd(y)/sd(x): none, or one of these.
    """

    offsets: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
    declared_offsets: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    contexts: tuple[float, ...] = (0.0, 0.1, 0.3, 0.6, 1.2)


BAG_EFFECTS = BagEffectSettings()

_POSITIVE = (
    "weight_scale", "share_low", "share_high", "target_draws", "least_draws", "proposal_dof",
)  # fmt: skip
_COUNTS = ("n_starts", "n_refined", "n_components", "n_draws", "min_rounds", "max_rounds")


def check_power(power: object, name: str = "power") -> None:
    """Refuse what is no power of the within-bag likelihood."""
    if isinstance(power, str) and power in (CALIBRATED, FULL):
        return
    is_number = isinstance(power, Real) and not isinstance(power, bool)
    if not (is_number and 0.0 < float(power) <= 1.0):  # type: ignore[arg-type]
        raise InputError(
            f"{name} must be '{CALIBRATED}', '{FULL}' (the model holds) or a number above 0 and at "
            f"most 1, got {shorten(repr(power))}"
        )


@dataclass(frozen=True)
class Settings:
    """The prior of the shuffled model, the power of its likelihood, and how hard it is explored."""

    # Collinear real tables have standardised weights up to 2.2, which a bound of 1 shuts out of
    # their intervals: at one bag 1.5, 2 and 3 cover .915, .924 and .942 of 53 tables at interval
    # scores of 2.22, 2.10 and 2.14; 1 covers .88 of 34 of them at 2.76, where 2 has .92 and 2.17.
    weight_scale: float = 2.5
    # Beta(1/2, 1) with the direction of w uniform: flat in the share apart from a mild preference
    # for low noise. A flat prior on w instead makes the signal's prior volume grow like |w|^(p-1)
    # and covers only 66 to 83 % at 5 dB.
    share_low: float = 0.5
    share_high: float = 1.0
    # "share", or "flat" in coefficients and log sigma: bag means alone are then weighted least
    # squares with t intervals.
    prior: str = SHARE
    # Power of the within-bag likelihood: "calibrated" on real tables, "full" where the linear model
    # is declared to hold, or a number.
    power: str | float = CALIBRATED
    # The approximate permanent is a little too sure of itself: at full power 95 % intervals cover
    # 87 to 97 % in simulations (tuning seeds), at this power 92 to 97 %. Bags small enough for
    # exact permanents count in full.
    approximate_power: float = 0.8
    # Sd of the curve c of the mean function z + c (z² − mean z²) with many bags.
    curve_scale: float = 0.3
    # Most starts screened, refined and kept. The search ends when new ones bring no new mode
    # (docs/decisions/006-search-from-many-starts.md).
    n_starts: int = 240
    n_refined: int = 60
    n_components: int = 16
    # Importance sampling: draws per round, least and most rounds, and the effective sample size
    # at which it may stop.
    n_draws: int = 200
    min_rounds: int = 1
    max_rounds: int = 30
    target_draws: float = 400.0
    # Below this effective sample size the modes were not explored: weights are then flattened until
    # there are so many, the intervals come from a weaker likelihood, and nothing is called
    # identified. Data that do identify their weights give 400 and more.
    least_draws: float = 100.0
    # Degrees of freedom of the proposal: heavier tails than any posterior seen, light enough to
    # stay efficient.
    proposal_dof: float = 5.0

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise InputError(f"Likelihood needs a positive {name}, got {value}")
        for name in _COUNTS:
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise InputError(f"Likelihood needs a whole {name} of at least 1, got {value!r}")
        check_power(self.power, "power of Likelihood")
        if self.prior not in (SHARE, FLAT):
            shown = shorten(repr(self.prior))
            raise InputError(f"prior of Likelihood must be '{SHARE}' or '{FLAT}', got {shown}")
        if not 0 < self.approximate_power <= 1:
            raise InputError(
                "Likelihood needs an approximate_power above 0 and at most 1, got "
                f"{self.approximate_power}"
            )
        if self.min_rounds > self.max_rounds:
            raise InputError(
                f"Likelihood needs min_rounds <= max_rounds, got {self.min_rounds} and "
                f"{self.max_rounds}"
            )

    def priors(
        self, log_sigma: float | None, power: float = 1.0, has_shape: bool = False
    ) -> tuple[str, ...]:
        """Say in sentences what was assumed; `log_sigma` is the known noise in standard units."""
        scale = "" if self.weight_scale == 1 else f"{self.weight_scale:g} "
        flat = "Prior: flat in the coefficients, the intercept and the logarithm of the noise sd."
        sentences = [
            flat
            if self.prior == FLAT
            else f"Prior: the noise's share of the variance Beta({self.share_low:g}, "
            f"{self.share_high:g}), directions of the predictions equally likely, times "
            f"N(0, ({scale}sd(y)/sd(x))²) for each coefficient, intercept flat."
        ]
        if log_sigma is not None:
            sentences.append(
                "The noise is given and counts with its distribution."
                if has_shape
                else "The noise level is given and taken as Gaussian."
            )
            if log_sigma <= LOG_SIGMA_MIN:
                sentences.append("It is below 0.1 % of the labels' spread and was taken as that.")
        if self.power == FULL:
            sentences.append(
                "Declared: the linear model with this noise holds. Intervals are those of the "
                f"model (within-bag likelihood at power {power:.2g}, no curvature)."
            )
        elif self.power != CALIBRATED:
            sentences.append(f"Declared: within-bag likelihood at power {power:.2g}.")
        elif power < 1:
            sentences.append(
                f"The within-bag likelihood has power {power:.2g}, calibrated on real tables; bag "
                "means count in full."
            )
        return tuple(sentences)
