"""The solution of a solver: candidates best first, a status with advice, and statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from unshuffle.core.stats import Stats
from unshuffle.core.uncertainty import Posterior, Uncertainty
from unshuffle.errors import InputError, find_renamed
from unshuffle.formatting import count, show_number

if TYPE_CHECKING:
    from unshuffle.inference.pairing_draws import PairingSource

# Kinds of misfit that the diagnostics find; each has remedies (`results.remedies`).
OFFSETS = "offsets between bags"
CURVED = "a curved mean"
HETEROSCEDASTIC = "heteroscedastic noise"
OTHER_DISTRIBUTION = "labels of another distribution"


class Status(Enum):
    """How a solver ended; the value is a sentence of advice.

    Examples
    --------
    >>> Status.POSTERIOR.value
    'The posterior was sampled well: its spread is the uncertainty.'
    >>> Status.LONELY.is_doubtful
    True
    """

    EXACT = "The minimum is exact: a closed form or a search through every possibility."
    AGREED = "Several starts reached the best value: the minimum found is probably the lowest."
    LONELY = (
        "Only one start reached the best value, so a lower minimum may have been missed: "
        "raise n_starts and see whether the answer stays."
    )
    UNFINISHED = (
        "The best start was still improving when it stopped: raise tol, or scale the data "
        "so that no column dwarfs the others."
    )
    CERTIFIED = "Proven: no weights and no matching have a lower value (but for the gap shown)."
    UNPROVEN = (
        "Stopped before the proof was complete: the answer is the best found so far, and the gap "
        "says how much lower a value may still be; raise time_limit, or use fewer rows or features."
    )
    POSTERIOR = "The posterior was sampled well: its spread is the uncertainty."
    CONVERGED = "The estimating equations are solved, and sandwich errors measure the uncertainty."
    NOISELESS = "The labels are met to rounding, so that there is no noise and nothing to sample."
    NOTHING_VARIES = (
        "No label or no column varies, so that the data say nothing about the weights: they are "
        "shown as 0, without intervals. Give rows and labels that differ."
    )
    THIN_POSTERIOR = (
        "The posterior was hard to sample, so that estimate and intervals are rough: try another "
        "random_state and method 'ls', and rely only on weights that stay."
    )
    UNMIXED = (
        "The posterior was hard to sample (noise levels do not exchange, or runs disagree), "
        "so that estimate and intervals are rough: raise n_sweeps of Sampler, or use method "
        "'likelihood'."
    )
    UNMET_MOMENTS = (
        "No real weights meet the moment conditions of these data; the nearest were taken: give "
        "the noise level if it is known, or use a method that does not need moments ('ls')."
    )

    @property
    def is_doubtful(self) -> bool:
        """Whether the search did not end as it should, and another answer may be better."""
        return self not in (
            Status.EXACT,
            Status.AGREED,
            Status.CERTIFIED,
            Status.POSTERIOR,
            Status.CONVERGED,
            Status.NOISELESS,
            Status.NOTHING_VARIES,
        )


@dataclass(frozen=True, eq=False)
class Candidate:
    """One answer that a solver found.

    Attributes
    ----------
    weights : ndarray
        Coefficients of the features, then the intercept if there is one.
    value : float
        Value of the loss; with a posterior its negative log evidence.
    n_starts : int
        Number of starts of the search that ended here.
    evidence, share, noise : float or None
        With a posterior: log evidence, share of the posterior, and noise sd.

    Examples
    --------
    >>> Candidate(np.array([2.0, 1.0]), 0.1, n_starts=4).weights.tolist()
    [2.0, 1.0]
    """

    weights: np.ndarray
    value: float
    n_starts: int = 1
    evidence: float | None = None
    share: float | None = None
    noise: float | None = None


@dataclass(frozen=True)
class BagEffects:
    """The posterior of bag effects: random effects (offsets) and contextual effects.

    Attributes
    ----------
    offset_probability, offset_sd : float
        Probability that the labels of a bag share an offset, and its posterior mean sd (0 where
        there is none).
    context_probability : float
        Probability that the labels depend on the mean row of their bag beside their own row.
    contexts, context_sds : tuple of float
        Posterior mean and sd of the contextual effect of each feature.
    sizes, shares : tuple of float
        Sds of offsets that were weighed, and the probability of each.
    rests_on_prior : bool
        Whether there are too few bags to tell contextual effects from the prior.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(60, 1, noise=0.2, bags=3, rng=0)
    >>> model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    >>> model.result_.effects.has_offsets
    False
    """

    offset_probability: float
    offset_sd: float
    context_probability: float = 0.0
    contexts: tuple[float, ...] = ()
    context_sds: tuple[float, ...] = ()
    sizes: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    rests_on_prior: bool = False

    if not TYPE_CHECKING:  # type checkers know the new names alone

        def __getattr__(self, name: str) -> Any:
            renamed = {"probability": "offset_probability", "sd": "offset_sd"}
            return getattr(self, find_renamed("BagEffects", name, renamed))

    @property
    def has_offsets(self) -> bool:
        """Whether offsets are more probable than not."""
        return self.offset_probability >= 0.5 and self.offset_sd > 0.0

    @property
    def has_contexts(self) -> bool:
        """Whether the data show contextual effects, whose prior probability may be high."""
        return self.context_probability >= 0.95 and not self.rests_on_prior

    def mapped(
        self, to_user: Callable[[np.ndarray], np.ndarray], label_scale: float, d: int
    ) -> BagEffects:
        """Return the same in the user's units."""

        def slopes(values: tuple[float, ...]) -> tuple[float, ...]:
            if not values:
                return values
            padded = np.zeros(d)
            padded[: len(values)] = values
            return tuple((to_user(padded) - to_user(np.zeros(d)))[: len(values)].tolist())

        return replace(
            self,
            offset_sd=self.offset_sd * label_scale,
            contexts=slopes(self.contexts),
            context_sds=slopes(self.context_sds),
            sizes=tuple(size * label_scale for size in self.sizes),
        )


@dataclass(frozen=True)
class Certificate:
    """A proof of the best value: no answer has a value below `lower_bound`.

    Attributes
    ----------
    lower_bound : float
        No answer has a lower mean squared error.
    gap : float
        Distance of the bound from the value found, relative to the value, or to a billionth of the
        labels' mean square if the value is lower than that.
    is_complete : bool
        Whether the search ended, so that the value found is the least.

    Examples
    --------
    >>> Certificate(0.1, 0.0, True).describe(0.1)
    'Certified: the value 0.1 (mean squared) is the least, with no gap.'
    """

    lower_bound: float
    gap: float
    is_complete: bool

    def describe(self, value: float) -> str:
        """Return a sentence on what is proven of a value."""
        if self.is_complete:
            gap = "no gap" if self.gap == 0 else f"a relative gap of {self.gap:.1e}"
            return f"Certified: the value {value:.4g} (mean squared) is the least, with {gap}."
        return (
            f"Not certified: the value {value:.4g} (mean squared) is the least found, and none is "
            f"below {self.lower_bound:.4g} (relative gap {self.gap:.2g})."
        )


@dataclass(frozen=True, eq=False)
class Solution:
    """Candidates best first, the status, and what the solver counted.

    Attributes
    ----------
    candidates : tuple of Candidate
        The answers, best first.
    status : Status
        How the solver ended.
    stats : Stats
        What the solver counted.
    start_values : ndarray
        The final value of every start, best first, also of those that ended in a candidate not
        kept.
    estimate : ndarray or None
        The answer where it is not the best candidate, such as a posterior median.
    uncertainty : Uncertainty or None
        How sure the answer is, where the method can say.
    misfits : tuple of str or None
        Ways in which the labels differ from the model's predictions; None where they were not
        tested.
    certificate : Certificate or None
        What is proven of the best value.
    effects : BagEffects or None
        What is known of bag effects.
    pairings : PairingSource or None
        What draws pairings of linked rows.

    Examples
    --------
    >>> solution = Solution((Candidate(np.array([2.0]), 0.1),), Status.EXACT)
    >>> solution.weights.tolist(), solution.value, solution.status.name
    ([2.0], 0.1, 'EXACT')
    """

    candidates: tuple[Candidate, ...]
    status: Status
    stats: Stats = field(default_factory=Stats, metadata={"read": Stats.read})
    start_values: np.ndarray = field(default_factory=lambda: np.empty(0))
    estimate: np.ndarray | None = None
    uncertainty: Uncertainty | None = None
    misfits: tuple[str, ...] | None = None
    certificate: Certificate | None = None
    effects: BagEffects | None = None
    pairings: PairingSource | None = field(default=None, repr=False, metadata={"is_kept": False})

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self, find_renamed("Solution", name, {"offsets": "effects"}))

    def __repr__(self) -> str:
        """Return how the search ended, the best value, and the estimated weights."""
        shown = ", ".join(map(show_number, self.weights.tolist()))
        answers = count(len(self.candidates), "candidate")
        return (
            f"Solution: {self.status.name}, {answers}, best value {show_number(self.value)}\n"
            f"weights: {shown}\n{self.status.value}"
        )

    @property
    def best(self) -> Candidate:
        """The candidate with the lowest value."""
        return self.candidates[0]

    @property
    def weights(self) -> np.ndarray:
        """The estimated weights, the intercept last."""
        return self.best.weights if self.estimate is None else self.estimate

    @property
    def value(self) -> float:
        """The value of the best candidate."""
        return self.best.value

    @property
    def posterior(self) -> Posterior | None:
        """The uncertainty where it is a posterior."""
        return self.uncertainty if isinstance(self.uncertainty, Posterior) else None

    def with_remarks(self, remarks: tuple[str, ...], unknown: Sequence[int]) -> Solution:
        """Return the solution with remarks, and without information on the `unknown` weights.

        Parameters
        ----------
        remarks : tuple of str
            What was handled but should be known, in sentences.
        unknown : sequence of int
            Positions of weights of which the data say nothing.

        Returns
        -------
        Solution
            The same answers.

        Examples
        --------
        >>> solution = Solution((Candidate(np.array([2.0]), 0.1),), Status.EXACT)
        >>> solution.with_remarks(("Noted.",), ()).stats.remarks
        ('Noted.',)
        """
        found = replace(self, stats=replace(self.stats, remarks=remarks))
        if self.posterior is None:
            return found
        places = tuple(sorted({*self.posterior.unknown, *unknown}))
        return replace(found, uncertainty=replace(self.posterior, unknown=places))

    def _check_weights(
        self, to_user: Callable[[np.ndarray], np.ndarray], label_scale: float
    ) -> None:
        """Refuse answers and draws that overflow in the user's units."""
        found = [c.weights for c in self.candidates]
        found += [] if self.estimate is None else [self.estimate]
        found += [] if self.posterior is None else list(self.posterior.draws)
        weights = np.array(found)
        with np.errstate(over="ignore", invalid="ignore"):
            # Predictions have the size of the labels, times the weights in standard units.
            sizes = 4.0 * label_scale * np.abs(weights).sum(axis=-1)
            is_finite = np.isfinite(sizes).all() and np.isfinite(to_user(weights)).all()
        if not is_finite:
            raise InputError(
                f"weights of {np.abs(weights).max():.1e} in standard units, which these data "
                "allow, overflow in those of the data: rescale y and the columns of X to ordinary "
                "sizes"
            )

    def mapped(
        self, to_user: Callable[[np.ndarray], np.ndarray], label_scale: float, degree: int
    ) -> Solution:
        """Return the solution in the user's units; values grow by label_scale**degree.

        Parameters
        ----------
        to_user : callable
            Affine map of weights to the user's units.
        label_scale : float
            The user's units of labels for one standard unit.
        degree : int
            Degree of the loss in the labels.

        Returns
        -------
        Solution
            The same answers in the user's units.

        Raises
        ------
        InputError
            Where an answer overflows in these units.

        Examples
        --------
        >>> solution = Solution((Candidate(np.array([2.0]), 0.1),), Status.EXACT)
        >>> solution.mapped(lambda w: 3.0 * w, 3.0, 2).weights.tolist()
        [6.0]
        """
        value_scale = float(np.float64(label_scale) ** degree)
        worst = max((abs(c.value) for c in self.candidates), default=0.0)
        if worst > 1.0 and value_scale > np.finfo(float).max / worst:
            raise InputError(
                f"an answer has a value of {worst:.1e} in units of the labels' spread, which "
                f"overflows in those of y: rescale y, for instance divide it by {label_scale:.0e}"
            )
        self._check_weights(to_user, label_scale)
        # The value of a start that ended far from any answer may overflow to infinity.
        with np.errstate(over="ignore"):
            start_values = self.start_values * value_scale
        candidates = tuple(
            replace(
                c,
                weights=to_user(c.weights),
                value=c.value * value_scale,
                noise=None if c.noise is None else c.noise * label_scale,
            )
            for c in self.candidates
        )
        unsure, proof, effects = self.uncertainty, self.certificate, self.effects
        if proof is not None:
            proof = replace(proof, lower_bound=proof.lower_bound * value_scale)
        if effects is not None:
            effects = effects.mapped(to_user, label_scale, len(self.weights))
        estimate = None if self.estimate is None else to_user(self.estimate)
        unsure = None if unsure is None else unsure.mapped(to_user, label_scale)
        return replace(
            self,
            candidates=candidates,
            certificate=proof,
            effects=effects,
            start_values=start_values,
            estimate=estimate,
            uncertainty=unsure,
        )


def merge_starts(
    weights: np.ndarray,
    values: np.ndarray,
    curvature: np.ndarray,
    distance: float,
    n_starts: Sequence[int] | None = None,
) -> tuple[Candidate, ...]:
    """Merge end points of a search whose predictions agree into candidates, best first.

    Two end points are one answer when the root mean square difference of their predictions is
    below `distance` (in units of the labels' spread). `n_starts` says how many starts each end
    point already stands for; without it, one.
    """
    arrivals = np.ones(len(values), np.int64) if n_starts is None else np.asarray(n_starts)
    order = np.argsort(values, kind="stable")
    left = order[np.isfinite(values[order])]
    candidates = []
    # In these coordinates the curvature is the identity.
    values_of_axes, axes = np.linalg.eigh(curvature)
    flat = np.einsum("ij,jk->ik", weights, axes * np.sqrt(np.maximum(values_of_axes, 0.0)))
    while len(left):
        # The best end point left is merged with all that are close to it.
        s = left[0]
        is_own = ((flat[left] - flat[s]) ** 2).sum(axis=1) < distance**2
        is_own[0] = True
        n_own = int(arrivals[left[is_own]].sum())
        candidates.append(Candidate(weights[s].copy(), float(values[s]), n_own))
        left = left[~is_own]
    return tuple(candidates)
