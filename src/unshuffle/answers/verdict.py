"""What the data tell and what they do not, in plain words."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unshuffle import kernels
from unshuffle.core.pairing import Pairing, Permutation
from unshuffle.core.products import predict_rows
from unshuffle.core.solution import Solution, Status
from unshuffle.core.uncertainty import Posterior, StudentT, Uncertainty
from unshuffle.errors import InputError

# The verdict's rule: identified unless this share of the posterior lies further than this
# fraction of |ŵ| from ŵ (weights in units of w_j sd(x_j), the intercept left out).
FAR_SHARE, FAR_RADIUS = 0.05, 0.3
# Candidates with less than this share of the posterior are not worth a reader's time.
WORTH_SAYING = 0.02
# Parts of a direction below this share of the largest add less than a tenth of its variance; more
# than four parts no reader combines.
_LEAST_PART, _SHOWN_PARTS = 0.3, 4
_SHOWN_DIRECTIONS = 3


@dataclass(frozen=True, eq=False)
class Facts:
    """What is to be said of a fit besides its solution.

    `scales` are the spreads of the columns, `names` those of the weights, the intercept last.
    Without `n_labels` there are as many labels as rows.
    """

    method: str
    names: tuple[str, ...]
    scales: np.ndarray
    n: int
    n_bags: int
    noise: float | None
    is_noise_given: bool = False
    n_labels: int | None = None
    # Columns that do not vary, each with its value: of their weights nothing is known elsewhere.
    constants: tuple[tuple[int, float], ...] = ()
    pairing: Pairing = field(default_factory=Permutation)


def check_level(level: float) -> float:
    """Refuse a level that is no probability."""
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, got {level}: 0.95 means 95 %")
    return float(level)


def make_intervals(solution: Solution, method: str, level: float) -> np.ndarray:
    """Return one row (low, high) per weight, or say why there is none."""
    check_level(level)
    return need_uncertainty(solution, method).interval(level)


def need_uncertainty(solution: Solution, method: str) -> Uncertainty:
    """Return how sure a solution is, or say why nobody knows."""
    if solution.uncertainty is None:
        raise InputError(
            f"method '{method}' is biased or inconsistent on shuffled data, so that an interval "
            "around it would cover the wrong value: use method='likelihood' for intervals"
        )
    return solution.uncertainty


def is_identified(solution: Solution, scales: np.ndarray) -> bool | None:
    """Return whether the posterior stays near the estimate; None without a posterior."""
    posterior = solution.uncertainty
    if not isinstance(posterior, Posterior):
        return None
    share = posterior.share_beyond(solution.weights, scales, FAR_RADIUS)
    is_blind = set(range(len(scales))) <= set(posterior.unknown)
    # A posterior that could not be explored, or of no weight at all, must never count as certainty.
    return bool(share < FAR_SHARE) and not posterior.is_thin and not is_blind


def model_fits(solution: Solution) -> bool | None:
    """Return whether the labels look as the model predicts; None where nobody looked."""
    if not isinstance(solution.uncertainty, Posterior):
        return None
    return solution.status is not Status.MISFIT


def free_directions(
    solution: Solution, posterior: Posterior, scales: np.ndarray
) -> tuple[list[tuple[float, np.ndarray]], float]:
    """Return the directions in weight space that the data leave open, widest first, and |ŵ|.

    They are the principal axes of the posterior about the estimate, in units of w_j sd(x_j), along
    which a share of FAR_SHARE or more lies beyond the verdict's radius; each comes after the
    distance from the estimate that all but this share keep. Lengths are in units of the largest
    part of ŵ or of a draw, or plain where ŵ is 0.
    """
    gaps, parts, unit = posterior.measure(solution.weights, scales)
    # A square root on either side keeps the matrix symmetric.
    columns = np.ascontiguousarray((gaps * np.sqrt(posterior.shares)[:, None]).T)
    _, axes = np.linalg.eigh(kernels.gram(columns))
    size = float(np.sqrt((parts**2).sum()))
    found = []
    for axis in axes.T:
        reach = float(posterior.quantiles(np.abs(predict_rows(gaps, axis)), (1 - FAR_SHARE,))[0])
        if reach > FAR_RADIUS * size:
            found.append((reach, axis))
    if size == 0:
        found = [(reach * unit, axis) for reach, axis in found]
    return sorted(found, key=lambda pair: -pair[0]), size


def _describe_directions(solution: Solution, posterior: Posterior, facts: Facts) -> list[str]:
    """Say in a sentence which combinations of weights are known least, if any stand out."""
    found, size = free_directions(solution, posterior, facts.scales)
    parts = [
        f"{_describe_axis(axis, facts.names)} "
        + (f"(±{reach / size:.0%})" if size > 0 else f"(±{reach:.2g})")
        for reach, axis in found[:_SHOWN_DIRECTIONS]
    ]
    unit = "relative to the size of all weights" if size > 0 else "in units of the label"
    explanation = (
        f"for weights times the sd of their columns; {1 - FAR_SHARE:.0%} of the posterior lies "
        f"within ± of the estimate, {unit}"
    )
    return [f"Known least: {'; '.join(parts)} ({explanation})."] if parts else []


def _describe_axis(axis: np.ndarray, names: tuple[str, ...]) -> str:
    """Tell an axis by its largest parts, the largest first and positive."""
    order = np.argsort(-np.abs(axis), kind="stable")
    axis = axis * np.sign(axis[order[0]])
    largest = [i for i in order if abs(axis[i]) >= _LEAST_PART * axis[order[0]]]
    terms = [
        f"{'+' if axis[i] > 0 else '-'} {abs(axis[i]):.2f} {names[i]}"
        for i in largest[:_SHOWN_PARTS]
    ]
    return " ".join(terms).removeprefix("+ ") + (" …" if len(largest) > _SHOWN_PARTS else "")


def make_verdict(solution: Solution, identified: bool | None, facts: Facts) -> tuple[str, ...]:
    """Say in plain words what the data tell and what they do not."""
    unsure = solution.uncertainty
    if isinstance(unsure, StudentT):
        return (_describe_means(unsure),)
    if not isinstance(unsure, Posterior):
        sentence = "This method has no posterior, so that it cannot say how sure the answer is."
        return (sentence, solution.status.value)
    if solution.status is Status.NOTHING_VARIES:
        return ("The data do not identify the weights.", solution.status.value)
    if identified:
        which = " of the columns that vary" if unsure.unknown else ""
        sentences = [
            f"The data identify the weights{which}: the posterior stays close to the estimate."
        ]
    else:
        sentences = [*_describe_doubt(solution, unsure, facts), _advise(facts)]
    if solution.status is not Status.POSTERIOR:
        sentences.append(solution.status.value)
    return tuple(sentences)


def _describe_means(unsure: StudentT) -> str:
    """Say what a regression of bag means knows."""
    regression = "The means of the bags are regressed on each other: unbiased whatever the order"
    if not unsure.has_interval:
        return (
            f"{regression}, but with as many weights as bags nothing is left to measure the error, "
            "so that there are no intervals: add a bag, or use method 'likelihood'."
        )
    degrees = "1 degree" if unsure.dof == 1 else f"{unsure.dof} degrees"
    return f"{regression}, with textbook t intervals on {degrees} of freedom."


def _describe_doubt(solution: Solution, posterior: Posterior, facts: Facts) -> list[str]:
    """Say what is not known: that others compete, or that nobody could find out."""
    sentences = ["The data do not identify the weights: other answers explain them about as well."]
    if posterior.is_thin:
        # What a weakened likelihood allows need not be what the data allow.
        sentences = [
            "It could not be established whether the data identify the weights: the posterior was "
            "too hard to sample. The rest is told of a weakened likelihood, which allows more."
        ]
    rivals = [c for c in solution.candidates if (c.share or 0.0) >= WORTH_SAYING]
    share = posterior.share_beyond(solution.weights, facts.scales, FAR_RADIUS)
    if len(rivals) > 1 and share >= FAR_SHARE:
        shares = ", ".join(f"{c.share:.0%}" for c in rivals[:4])
        sentences.append(f"{len(rivals)} distinct answers compete, with posterior shares {shares}.")
    return sentences + _describe_directions(solution, posterior, facts)


def _advise(facts: Facts) -> str:
    """Say what would help these data: nothing that they have already."""
    has_individuals = facts.pairing.has_individuals
    is_linked = has_individuals and facts.n == facts.n_bags
    ways = []
    if is_linked or facts.n <= len(facts.names):
        ways.append("more rows")
    if is_linked:
        ways.append("labels with less noise")
    else:
        ways.append("more bags (also the same samples divided into more, different bags)")
    if has_individuals and not is_linked:
        ways.append("a few linked pairs as bags of one row")
    if not has_individuals:
        ways.append("larger samples of rows and of labels")
    if not facts.is_noise_given:
        ways.append("a known noise level")
    return f"What would help: {', '.join(ways[:-1])}, or {ways[-1]}."
