"""Every choice of the likelihood, made once on tuning seeds and never per data set."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from unshuffle.errors import InputError

# Standardised log sigma is kept inside [-7, 1.5]: 0.1 % of sd(y) (numerically noiseless) to
# 4.5 sd(y). Noise that is given may be larger.
LOG_SIGMA_MIN, LOG_SIGMA_MAX = -7.0, 1.5
# The shapes of bags never count for more labels than these, in the estimate and in checks of the
# fit: histograms on six cells a sigma move what a billion say by tens of nats, and to so many
# digits no law is true. (Checked at 10⁹ rows that obey the model: misfit 17 nats in full, none so.)
MOST_LABELS = 1e8

_POSITIVE = (
    "weight_scale", "lean_scale", "share_low", "share_high", "tilt_share", "tilt_ceiling",
    "target_draws", "estimate_draws", "least_draws", "proposal_dof",
)  # fmt: skip
_COUNTS = ("n_starts", "n_refined", "n_components", "n_draws", "min_rounds", "max_rounds")


@dataclass(frozen=True)
class Settings:
    """The prior of the shuffled model, how far it is believed, and how hard it is explored."""

    # Collinear real tables have standardised weights up to 2.2, which a bound of 1 shuts out of
    # their intervals: at one bag 1.5, 2 and 3 cover .915, .924 and .942 of 53 tables at interval
    # scores of 2.22, 2.10 and 2.14; 1 covers .88 of 34 of them at 2.76, where 2 has .92 and 2.17.
    weight_scale: float = 2.5
    # The estimate bounds the weights more closely than the intervals' prior: a squared error counts
    # what collinear columns do. Errors on real tables (tuning seeds) at 1, 4, 10 and natural bags,
    # and on the paper's relative to print: 2.5 has .577 .285 .156 .334 and .694, 1.5 .575 .282 .156
    # .338 and .645, 1 .554 .276 .155 .341 and .641, 0.7 .536 .283 .157 .348 and .648.
    lean_scale: float = 1.0
    # Beta(1/2, 1) with the direction of w uniform: flat in the share apart from a mild preference
    # for low noise. A flat prior on w instead makes the signal's prior volume grow like |w|^(p-1)
    # and covers only 66 to 83 % at 5 dB.
    share_low: float = 0.5
    share_high: float = 1.0
    # The point estimate is the centre (least mean distance) under the extra factor
    # (1 + σ²/(0.05 var y))^(-20): regression is attempted where signal dominates. Intervals do not
    # use it (it breaks their coverage at 5 dB). Weights of 20 to 40 are equal on clean data; 40 is
    # what curved data need to leave a noisy wrong mode.
    tilt_share: float = 0.05
    tilt_weight: float = 40.0
    # The tilt moves the estimate by at most this many nats from the posterior with many bags, a
    # quarter of it with one: no preference overrules data that say "noisy" more firmly. It is a
    # compromise between tables that obey the model (the paper's) and others. With least squares
    # heard (`trust`), limits of 1, 2 (1 with one bag), 4 (1; taken) and 4 throughout have .587,
    # .586, .577 and .561 of print there, and errors of .511 .511 .511 .549 (one bag), .248 .253
    # .251 .254 (four), .147 .148 .150 .151 (ten) and .239 .235 .237 .239 (natural bags).
    tilt_limit: float = 4.0
    # Where hardly any of the posterior has a noise share below this, signal does not dominate, and
    # a tilt of more than a nat would fit noise, as least squares does: without this bound on a tilt
    # of 8 nats the error at -5 dB was 1.48 instead of 1.17 (0.84 without any tilt).
    tilt_ceiling: float = 0.4
    # The approximate permanent is a little too sure of itself: at full power 95 % intervals cover
    # 87 to 97 % in simulations (tuning seeds), at this power 92 to 97 %. Bags small enough for
    # exact permanents count in full.
    trust: float = 0.8
    # Whether the estimate believes the shapes of bags as far as that, whatever they have earned.
    # Intervals never do. Where nothing but simulations is asked it is better: see linkage.
    bets_in_full: bool = False
    # Sd of the curve c of the mean law z + c (z² − mean z²) with many bags.
    curve_scale: float = 0.3
    # Starts screened, refined and kept: more than 60 modes never mattered with several bags; with
    # one bag they average out.
    n_starts: int = 80
    n_refined: int = 16
    n_components: int = 16
    # Importance sampling: draws per round, least and most rounds, and the effective draws at which
    # it may stop.
    n_draws: int = 400
    min_rounds: int = 1
    max_rounds: int = 3
    target_draws: float = 250.0
    # The estimate is a mean, and needs fewer.
    estimate_draws: float = 150.0
    # Below this many effective draws the modes were not explored: weights are then flattened until
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
        for name in ("tilt_weight", "tilt_limit"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise InputError(f"Likelihood needs a {name} of at least 0, got {value}")
        if not 0 < self.trust <= 1:
            raise InputError(f"Likelihood needs a trust above 0 and at most 1, got {self.trust}")
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
        sentences = [
            f"Prior: the noise's share of the variance Beta({self.share_low:g}, "
            f"{self.share_high:g}), every direction of the predictions as likely, weights bounded "
            f"by N(0, ({scale}sd(y)/sd(x))²), intercept flat."
        ]
        if log_sigma is None:
            sentences.append(
                "The estimate (least mean distance to the posterior) leans further towards low "
                "noise and, in several bags, towards least squares; of the draws behind the "
                "intervals only a tenth lean."
            )
        else:
            sentences.append(
                "The noise is given and counts with its shape."
                if has_shape
                else "The noise level is given and taken as Gaussian."
            )
            if log_sigma <= LOG_SIGMA_MIN:
                sentences.append("It is below 0.1 % of the labels' spread and was taken as that.")
        if power < 1:
            sentences.append(
                f"Inside bags the likelihood counts with power {power:.2g}, bag means in full."
            )
        return tuple(sentences)
