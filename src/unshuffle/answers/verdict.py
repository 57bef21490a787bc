"""What the data tell and what they do not, in plain words."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unshuffle.answers.known import (
    FAR_RADIUS,
    FAR_SHARE,
    NOTHING,
    SHOWN_PARTS,
    SIGN,
    SIGN_AND_SIZE,
    find_inseparable,
    free_directions,
    judge_weights,
    largest_parts,
    told_directions,
)
from unshuffle.answers.limits import LINKS_LIMITS
from unshuffle.answers.remedies import advise_on_collinear, list_remedies
from unshuffle.core.pairing import Pairing, Permutation
from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.uncertainty import Posterior, StudentT, Uncertainty
from unshuffle.errors import InputError, shorten
from unshuffle.wording import list_names

# Candidates with less than this share of the posterior are not worth a reader's time.
WORTH_SAYING = 0.02
SHOWN_CANDIDATES = 5
# Names in a sentence; the table has all of them.
_SHOWN_NAMES = 8
_SHOWN_PAIRS = 3
# From so many on walkers hardly leave their starts: with 800 rows in 40 bags 25 features are
# sampled well and 30 are not, however many bags there are; with 200 rows in 4 bags 20 are not.
_MANY_FEATURES = 20


@dataclass(frozen=True, eq=False)
class Facts:
    """What is to be said of a fit besides its solution.

    `scales` are the spreads of the columns, `names` those of the weights, the intercept last, and
    `sources` what each column was made from (a category has a column for each level; None: each
    from itself). Without `n_labels` there are as many labels as rows.
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
    sources: tuple[str, ...] | None = None
    # Pairs of a row and its label that were known.
    n_anchors: int = 0
    # What decides which remedies apply: columns that depend linearly on others, columns of two
    # values, whether the labels are logarithms already, and whether they have logarithms.
    collinear: tuple[int, ...] = ()
    two_valued: tuple[int, ...] = ()
    has_logs: bool = False
    # Whether offsets between bags, or that there are none, were declared and not inferred.
    are_offsets_declared: bool = False
    has_positive_labels: bool = False


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
    return None if solution.misfits is None else not solution.misfits


def make_headline(solution: Solution, identified: bool | None) -> tuple[str, str]:
    """Return the verdict in a few words, and the class of its colour.

    Good is only what is identified by a model that was seen to fit.
    """
    fits, unsure = model_fits(solution), solution.uncertainty
    if identified is None:
        return "Not judged", "unknown"
    is_thin = isinstance(unsure, Posterior) and unsure.is_thin
    words = "Identified" if identified else "Not established" if is_thin else "Not identified"
    if fits is False:
        joint = "but" if identified else "and"
        return f"{words}, {joint} the model does not fit", "doubtful"
    if not identified:
        return words, "doubtful"
    return (words, "good") if fits else (f"{words}, if the model fits", "unknown")


def describe_misfit(solution: Solution, facts: Facts) -> str | None:
    """Say in what the labels do not look as the model predicts, what was done, and what helps."""
    if not solution.misfits:
        return None
    advice = "; or ".join(list_remedies(solution.misfits, facts))
    return (
        f"The model does not fit ({', '.join(solution.misfits)}): the labels do not look as it "
        "predicts, so that they count for less and the intervals are wider"
        + (f". What may mend it: {advice}." if advice else ".")
    )


def list_inseparable(solution: Solution, facts: Facts) -> tuple[tuple[str, str], ...]:
    """Return the pairs of columns, or of categories, that the data cannot separate."""
    return find_inseparable(solution, facts.scales, facts.names, facts.sources or facts.names)


def competing_answers(solution: Solution) -> tuple[Candidate, ...]:
    """Return the answers worth a reader's time, best first; one stands alone."""
    shown = [c for c in solution.candidates if c.share is None or c.share >= WORTH_SAYING]
    return tuple(shown[:SHOWN_CANDIDATES]) or solution.candidates[:1]


def _describe_directions(solution: Solution, posterior: Posterior, facts: Facts) -> list[str]:
    """Say in a sentence which combinations of weights are known least, if any stand out."""
    found, size = free_directions(solution, posterior, facts.scales)
    parts = [
        f"{_describe_axis(axis, facts.names)} "
        + (f"(±{reach / size:.0%})" if size > 0 else f"(±{reach:.2g})")
        for reach, axis in told_directions(found)
    ]
    unit = "relative to the size of all weights" if size > 0 else "in units of the label"
    explanation = (
        f"for weights times the sd of their columns; {1 - FAR_SHARE:.0%} of the posterior lies "
        f"within ± of the estimate, {unit}"
    )
    return [f"Known least: {'; '.join(parts)} ({explanation})."] if parts else []


def _describe_axis(axis: np.ndarray, names: tuple[str, ...]) -> str:
    """Tell an axis by its largest parts, the largest first and positive."""
    largest = largest_parts(axis)
    axis = axis * np.sign(axis[largest[0]])
    terms = [
        f"{'+' if axis[i] > 0 else '-'} {abs(axis[i]):.2f} {names[i]}"
        for i in largest[:SHOWN_PARTS]
    ]
    return " ".join(terms).removeprefix("+ ") + (" …" if len(largest) > SHOWN_PARTS else "")


def _describe_known(solution: Solution, facts: Facts) -> list[str]:
    """Say of which weights sign and size are known, of which the sign, and of which neither."""
    d = len(facts.scales)
    known = judge_weights(solution)[:d]
    groups = {
        kind: [shorten(facts.names[j]) for j in range(d) if known[j] == kind]
        for kind in (SIGN_AND_SIZE, SIGN, NOTHING)
    }
    words = {
        SIGN_AND_SIZE: "sign and size are known of {}",
        SIGN: "only the sign is known of {}",
        NOTHING: "not even the sign is known of {}",
    }
    if len(groups[NOTHING]) == d > 1:
        return ["The sign of no weight is known."]
    parts = [
        words[kind].format(
            "every weight" if len(names) == d > 1 else list_names(names, _SHOWN_NAMES)
        )
        for kind, names in groups.items()
        if names
    ]
    text = "; ".join(parts)
    return [f"{text[0].upper()}{text[1:]}."] if text else []


def _describe_pairs(pairs: tuple[tuple[str, str], ...]) -> list[str]:
    """Say in words what cannot be told apart."""
    if not pairs:
        return []
    told = [f"{shorten(a)} from {shorten(b)}" for a, b in pairs]
    text = ", nor ".join(told[:_SHOWN_PAIRS])
    more = len(told) - _SHOWN_PAIRS
    text += f" (and {more} more pairs)" if more > 1 else " (and 1 more pair)" if more == 1 else ""
    return [f"Cannot separate {text}: what the two do together is known, the part of each is not."]


def make_verdict(solution: Solution, identified: bool | None, facts: Facts) -> tuple[str, ...]:
    """Say in plain words what the data tell and what they do not."""
    unsure = solution.uncertainty
    wrong = solution.stats.get("mislinked")
    if wrong is not None:
        return _describe_links(solution, identified, facts, float(wrong))
    if isinstance(unsure, StudentT):
        first = _describe_linked(unsure) if facts.n_anchors == facts.n else _describe_means(unsure)
        return (first, *_describe_known(solution, facts))
    if not isinstance(unsure, Posterior):
        sentence = "This method has no posterior, so that it cannot say how sure the answer is."
        return (sentence, solution.status.value)
    if solution.status is Status.NOTHING_VARIES:
        return ("The data do not identify the weights.", solution.status.value)
    sentences = _describe_answer(solution, unsure, identified, facts)
    if solution.misfits is None:
        sentences.append("Nobody looked whether the model fits: method 'likelihood' does.")
    misfit = describe_misfit(solution, facts)
    if misfit is not None:
        sentences.append(misfit)
    if solution.status is not Status.POSTERIOR:
        sentences.append(solution.status.value)
    return tuple(sentences)


def _describe_answer(
    solution: Solution, posterior: Posterior, identified: bool | None, facts: Facts
) -> list[str]:
    """Say whether there is one answer, what is known of each weight, and what is not."""
    known = [] if posterior.is_thin else _describe_known(solution, facts)
    pairs = _describe_pairs(list_inseparable(solution, facts))
    if identified:
        which = " of the columns that vary" if posterior.unknown else ""
        first = f"The data identify the weights{which}: the posterior stays close to the estimate."
        return [first, *known, *pairs]
    first, *rest = _describe_doubt(solution, posterior, facts)
    return [first, *known, *pairs, *rest, _advise(solution, facts, posterior.is_thin)]


def _describe_means(unsure: StudentT) -> str:
    """Say what a regression of bag means knows."""
    first = "The means of the bags are regressed on each other: unbiased whatever the order"
    return _add_degrees(first, unsure, "bags", "add a bag, or use method 'likelihood'")


def _add_degrees(first: str, unsure: StudentT, units: str, way_out: str) -> str:
    """Say of a regression what its intervals rest on, or why there are none."""
    if not unsure.has_interval:
        return (
            f"{first}, but with as many weights as {units} nothing is left to measure the error, "
            f"so that there are no intervals: {way_out}."
        )
    degrees = "1 degree" if unsure.dof == 1 else f"{unsure.dof} degrees"
    return f"{first}, with textbook t intervals on {degrees} of freedom."


def _describe_links(
    solution: Solution, identified: bool | None, facts: Facts, wrong: float
) -> tuple[str, ...]:
    """Say what links are worth of which a share is wrong, and what follows."""
    unsure, share = solution.uncertainty, f"{wrong:.0%}"
    if isinstance(unsure, StudentT):
        first = f"About {share} of the links are wrong: labels are taken for those of their rows"
        known = _describe_known(solution, facts)
        if wrong == 0.0:
            first = _describe_linked(unsure).replace("Every pair is known", "Every link is right")
            return (first, *known)
        return (f"{first} as far as they fit, with sandwich errors.", LINKS_LIMITS, *known)
    if facts.method == "sampler":
        first = (
            f"Matchings were weighed by how many labels they move: {share} were expected to have "
            "moved."
        )
    elif facts.method == "likelihood":
        first = "That labels stand beside their rows says nothing: they are taken without order."
    else:
        first = f"About {share} of the links are wrong: those labels were matched anew."
    stats = {name: fact for name, fact in solution.stats.items() if name != "mislinked"}
    verdict = make_verdict(replace(solution, stats=stats), identified, facts)
    return (first, LINKS_LIMITS, *verdict)


def _describe_linked(unsure: StudentT) -> str:
    """Say what regression on known pairs knows."""
    first = "Every pair is known: this is ordinary least squares"
    return _add_degrees(first, unsure, "pairs", "add pairs")


def _describe_doubt(solution: Solution, posterior: Posterior, facts: Facts) -> list[str]:
    """Say what is not known: that others compete, or that nobody could find out."""
    sentences = ["The data do not identify the weights: other answers explain them about as well."]
    if posterior.is_thin:
        # Draws that did not explore the posterior allow other weights than the data do.
        sentences = [
            "It could not be established whether the data identify the weights: their posterior "
            "was too hard to sample. That is no finding about the data: the estimate may be right "
            "or far off, and the intervals are no evidence."
        ]
    rivals = [c for c in solution.candidates if (c.share or 0.0) >= WORTH_SAYING]
    share = posterior.share_beyond(solution.weights, facts.scales, FAR_RADIUS)
    if len(rivals) > 1 and share >= FAR_SHARE:
        shares = ", ".join(f"{c.share:.0%}" for c in rivals[:4])
        sentences.append(f"{len(rivals)} distinct answers compete, with posterior shares {shares}.")
    return sentences + _describe_directions(solution, posterior, facts)


def _advise(solution: Solution, facts: Facts, is_thin: bool) -> str:
    """Say what would help these data: nothing that they have already."""
    collinear = advise_on_collinear(facts)
    known = judge_weights(solution)
    unknown = {j for j in range(len(facts.scales)) if known[j] != SIGN_AND_SIZE}
    if collinear and unknown <= set(facts.collinear):
        # No data separate such columns.
        return f"What would help: {collinear}."
    d, has_individuals = len(facts.scales), facts.pairing.has_individuals
    is_linked = has_individuals and facts.n in (facts.n_bags, facts.n_anchors)
    ways = [collinear] if collinear else []
    if is_thin and d >= _MANY_FEATURES:
        ways.append(f"fewer features (the posterior of {d} is hard to sample whatever the data)")
    if is_linked or facts.n <= len(facts.names):
        ways.append("more rows")
    if is_linked:
        ways.append("labels with less noise")
    elif is_thin and facts.n_bags > len(facts.names):
        ways.append("method='means', whose intervals need no sampling")
    else:
        ways.append("more bags (also the same samples divided into more, different bags)")
    if has_individuals and not is_linked:
        ways.append(f"{'more' if facts.n_anchors else 'a few'} linked pairs (anchors)")
    if not has_individuals:
        ways.append("larger samples of rows and of labels")
    if not facts.is_noise_given:
        ways.append("a known noise level")
    return f"What would help: {', '.join(ways[:-1])}, or {ways[-1]}."
