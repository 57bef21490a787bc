"""The verdict of a fit in three grades, and its explanation in sentences."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.uncertainty import StudentT, Uncertainty
from unshuffle.data.pairing import Pairing, Permutation
from unshuffle.errors import InputError, shorten
from unshuffle.formatting import list_names
from unshuffle.options import LEVEL
from unshuffle.results.determined import (
    MAGNITUDE_SHARE,
    NEGLIGIBLE,
    NEGLIGIBLE_SHARE,
    SIGN,
    SIGN_AND_MAGNITUDE,
    UNDETERMINED,
    assess_coefficients,
    find_collinear_pairs,
)
from unshuffle.results.limits import LINKS_LIMITS
from unshuffle.results.remedies import advise_on_collinear, find_remedy

IDENTIFIED, PARTLY, NOT_IDENTIFIED = "identified", "partly identified", "not identified"

# Evidence of ten to one is strong (Jeffreys 1961, appendix B): an answer with less than a tenth of
# the best one's share does not compete with it.
_STRONG_EVIDENCE = 10.0
_SHOWN_PAIRS = 3
_LINKS_OPEN = (
    "Wrong links and heavy tails or weak dependence look alike in these data: the intervals cover "
    "both readings. What would help: an audit of some links, a known mismatch rate, match "
    "probabilities, or pairs that are certainly right."
)
_LINKS_SILENT = (
    "No sign is seen that labels stand beside their rows. If their order says nothing, leave "
    "mislinked out."
)
_LINK_METHODS = {
    "mixture": "The estimate combines adjusted estimating equations (Lahiri and Larsen) with a "
    "mixture of right and wrong links as far as the two agree.",
    "ll": "The adjusted equations of Lahiri and Larsen hold for any noise; errors are sandwich.",
    "chambers": "The estimator of Chambers weighs labels by their variance; errors are sandwich.",
}


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts of a fit besides its solution: names and spreads of columns, sizes, how it was asked.

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
    # Bags of which only the mean label is known.
    n_means: int = 0
    # Columns that do not vary, each with its value; their weights are not determined.
    constants: tuple[tuple[int, float], ...] = ()
    pairing: Pairing = field(default_factory=Permutation)
    sources: tuple[str, ...] | None = None
    # Pairs of a row and its label that were known.
    n_anchors: int = 0
    # Remedies depend on these: collinear columns, columns of two values, whether the labels are
    # logarithms already, and whether they are positive.
    collinear: tuple[int, ...] = ()
    two_valued: tuple[int, ...] = ()
    has_logs: bool = False
    # Whether offsets between bags, or that there are none, were declared and not inferred.
    are_offsets_declared: bool = False
    has_positive_labels: bool = False
    # Sd of the labels, beside which a coefficient may be negligible; None in older files.
    label_spread: float | None = None
    # The transformed label, such as "log(y)"; None where the label is a column.
    label: str | None = None

    @property
    def is_linked(self) -> bool:
        """Whether the label of every row is known: bags of one row, or pairs that are known."""
        return self.pairing.has_individuals and self.n in (self.n_bags, self.n_anchors)

    @property
    def negligible(self) -> np.ndarray:
        """The size below which each weight is negligible; none for the intercept."""
        limits = np.zeros(len(self.names))
        if self.label_spread is not None:
            varies = self.scales > 0
            scales = np.where(varies, self.scales, 1.0)
            with np.errstate(over="ignore"):  # without bound for columns of hardly any spread
                limits[: len(scales)][varies] = (NEGLIGIBLE_SHARE * self.label_spread / scales)[
                    varies
                ]
        return limits


def check_level(level: float, alpha: float | None = None) -> float:
    """Return the level, which `alpha` gives too (1 − level), or refuse what is no probability.

    >>> check_level(0.9), check_level(0.95, alpha=0.1)
    (0.9, 0.9)
    """
    if alpha is None:
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level}: 0.95 means 95 %")
        return float(level)
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie between 0 and 1, got {alpha}: 0.05 means 95 % intervals")
    # In decimals 1 − 0.1 is 0.9, as users write it.
    found = round(1.0 - float(alpha), 15)
    if level not in (LEVEL, found):
        raise InputError(f"level={level} and alpha={alpha} differ: give one of them")
    return found


def need_uncertainty(solution: Solution, method: str) -> Uncertainty:
    """Return the uncertainty of a solution; refuse methods that have none."""
    if solution.uncertainty is None:
        raise InputError(
            f"method '{method}' is biased or inconsistent on shuffled data, so that an interval "
            "around it would cover the wrong value: use method='likelihood' for intervals"
        )
    return solution.uncertainty


def assess(solution: Solution, facts: Facts) -> tuple[str | None, ...]:
    """Return what is determined of each weight, the intercept last."""
    return assess_coefficients(solution, facts.negligible)


def grade(solution: Solution, facts: Facts) -> str | None:
    """Return the verdict, which follows from the table; None without intervals.

    Identified: every coefficient of a column that varies has its sign and magnitude determined or
    is negligible. Not identified, otherwise: the posterior was not sampled well, several different
    answers compete, or nothing is determined of any coefficient. The rest is partly identified.
    """
    unsure = solution.uncertainty
    if unsure is None or not unsure.has_interval:
        return None
    assessed = assess(solution, facts)
    told = {assessed[j] for j in range(len(facts.scales)) if j not in unsure.unknown}
    if told <= {UNDETERMINED}:
        return NOT_IDENTIFIED
    if told <= {SIGN_AND_MAGNITUDE, NEGLIGIBLE}:
        return IDENTIFIED
    return NOT_IDENTIFIED if len(different_answers(solution, facts)) > 1 else PARTLY


def different_answers(solution: Solution, facts: Facts) -> list[Candidate]:
    """Return answers that differ and compete, best first.

    Two answers differ where a coefficient of theirs has another sign, or a magnitude outside the
    range within which the table calls one determined, by more than is negligible.
    """
    limits, d = facts.negligible, len(facts.scales)
    found: list[Candidate] = []
    for each in competing_answers(solution):
        if each.share is None or each.share * _STRONG_EVIDENCE < (solution.best.share or 0.0):
            continue
        if all(_differ(each.weights[:d], other.weights[:d], limits[:d]) for other in found):
            found.append(each)
    return found


def list_different(solution: Solution, facts: Facts, verdict: str | None) -> tuple[int, ...]:
    """Return the positions of several different answers, where the verdict rests on them."""
    unsure = solution.uncertainty
    found = different_answers(solution, facts)
    if verdict != NOT_IDENTIFIED or len(found) < 2 or unsure is None or unsure.is_thin:
        return ()
    return tuple(solution.candidates.index(each) for each in found)


def _differ(a: np.ndarray, b: np.ndarray, limits: np.ndarray) -> bool:
    # Halved before sums are taken, which could overflow.
    middle, half = np.abs(a / 2 + b / 2), np.abs(a / 2 - b / 2)
    return bool(((half > MAGNITUDE_SHARE * middle) & (half > limits)).any())


def model_fits(solution: Solution) -> bool | None:
    """Return whether the labels look as the model predicts; None where that was not checked."""
    return None if solution.misfits is None else not solution.misfits


def make_headline(solution: Solution, verdict: str | None) -> tuple[str, str]:
    """Return the verdict in a few words, and the class of its colour.

    Good is only what is identified by a model that was seen to fit.
    """
    fits = model_fits(solution)
    if verdict is None:
        return "Not assessed", "unknown"
    words = verdict.capitalize()
    if fits is False:
        joint = "and" if verdict == NOT_IDENTIFIED else "but"
        return f"{words}, {joint} the model does not fit", "doubtful"
    if verdict == NOT_IDENTIFIED:
        return words, "doubtful"
    return words, "good" if verdict == IDENTIFIED and fits else "unknown"


def describe_misfit(solution: Solution, facts: Facts) -> str | None:
    """Return a sentence on the misfit of the model and its remedy; None where it fits."""
    if not solution.misfits:
        return None
    remedy = find_remedy(solution.misfits, facts)
    return (
        f"The model does not fit: {', '.join(solution.misfits)}. The labels inside bags count for "
        "less, and the intervals are wider." + (f" What may help: {remedy}." if remedy else "")
    )


def list_collinear_pairs(solution: Solution, facts: Facts) -> tuple[tuple[str, str], ...]:
    """Return the pairs of columns, or of categories, that the data cannot separate."""
    return find_collinear_pairs(solution, facts.scales, facts.names, facts.sources or facts.names)


def competing_answers(solution: Solution) -> tuple[Candidate, ...]:
    """Return the answers with a notable share, best first; one stands alone."""
    # Candidates with less than this share of the posterior are not shown.
    shown = [c for c in solution.candidates if c.share is None or c.share >= 0.02]
    return tuple(shown[:5]) or solution.candidates[:1]


def explain(solution: Solution, verdict: str | None, facts: Facts) -> tuple[str, ...]:
    """Return the explanation of a verdict in sentences, the verdict first."""
    posterior = solution.posterior
    sentences = [_state_verdict(solution, verdict, facts), *_describe_method(solution, facts)]
    if posterior is None:
        return (*sentences, *([solution.status.value] if solution.uncertainty is None else []))
    if solution.status is Status.NOTHING_VARIES:
        return (*sentences, solution.status.value)
    sentences += _describe_pairs(list_collinear_pairs(solution, facts))
    if solution.stats.mislinked_interval is not None:
        return tuple(sentences)
    if verdict != IDENTIFIED:
        sentences.append(_advise(solution, facts, posterior.is_thin))
    if solution.misfits is None:
        sentences.append("The fit of the model was not checked: method 'likelihood' checks it.")
    misfit = describe_misfit(solution, facts)
    if misfit is not None:
        sentences.append(misfit)
    if solution.status is not Status.POSTERIOR:
        sentences.append(solution.status.value)
    return tuple(sentences)


def _state_verdict(solution: Solution, verdict: str | None, facts: Facts) -> str:
    """State the verdict with its reason."""
    if verdict is None:
        return f"Not assessed: method '{facts.method}' has no intervals here."
    unsure = solution.uncertainty
    if unsure is None or solution.status is Status.NOTHING_VARIES:
        return "Not identified."
    if unsure.is_thin:
        draws = solution.stats.effective_draws
        size = "" if draws is None else f" (effective sample size {draws:.0f})"
        return (
            f"Not identified: the posterior was not sampled well{size}. That is no finding about "
            "the data: the estimate may be right or far off, and the intervals are no evidence."
        )
    rivals = different_answers(solution, facts)
    if verdict == NOT_IDENTIFIED and len(rivals) > 1:
        return (
            f"Not identified: {len(rivals)} different answers compete. "
            f"{_list_shares(solution, rivals)} The estimate is the centre of all draws: it may be "
            "near none of these answers."
        )
    if verdict == NOT_IDENTIFIED:
        return "Not identified: no coefficient has a determined sign."
    which = " (columns that vary)" if unsure.unknown else ""
    return f"{verdict.capitalize()}{which}: {_list_determined(solution, facts, unsure.unknown)}."


def _list_shares(solution: Solution, rivals: list[Candidate]) -> str:
    """Say which posterior shares the answers have, and how much is left for all others."""
    told = [
        f"answer {solution.candidates.index(each) + 1} {each.share or 0.0:.0%}" for each in rivals
    ]
    rest = 1.0 - sum(each.share or 0.0 for each in rivals)
    if rest >= 0.005:  # less is rounded to 0 %
        told.append(f"others {rest:.0%}")
    return f"Posterior shares: {'; '.join(told)}."


def _list_determined(solution: Solution, facts: Facts, unknown: tuple[int, ...]) -> str:
    """Say of which coefficients sign and magnitude are determined, of which the sign, and so on."""
    assessed = assess(solution, facts)
    varied = [j for j in range(len(facts.scales)) if j not in unknown]
    groups = {
        kind: [shorten(facts.names[j]) for j in varied if assessed[j] == kind]
        for kind in (SIGN_AND_MAGNITUDE, SIGN, NEGLIGIBLE, UNDETERMINED)
    }
    if len(groups[SIGN_AND_MAGNITUDE]) == len(varied) > 1:
        return "sign and magnitude of every coefficient are determined"

    def name(kind: str) -> str:
        return list_names(groups[kind])

    parts = []
    if groups[SIGN_AND_MAGNITUDE]:
        parts.append(f"sign and magnitude of {name(SIGN_AND_MAGNITUDE)} are determined")
    if groups[SIGN]:
        only = "only " if parts else ""
        parts.append(f"{only}the sign of {name(SIGN)} is determined")
    for kind, words in ((UNDETERMINED, "undetermined"), (NEGLIGIBLE, "negligible")):
        if groups[kind]:
            parts.append(f"{name(kind)} {'is' if len(groups[kind]) == 1 else 'are'} {words}")
    return "; ".join(parts)


def _describe_pairs(pairs: tuple[tuple[str, str], ...]) -> list[str]:
    """Say in words what cannot be told apart."""
    if not pairs:
        return []
    told = [f"{shorten(a)} from {shorten(b)}" for a, b in pairs]
    text = ", nor ".join(told[:_SHOWN_PAIRS])
    more = len(told) - _SHOWN_PAIRS
    text += f" (and {more} more pairs)" if more > 1 else " (and 1 more pair)" if more == 1 else ""
    return [f"Cannot separate {text}: what the two do together is known, the part of each is not."]


def _describe_method(solution: Solution, facts: Facts) -> list[str]:
    """Return sentences on the assumptions of regressions and of wrong links."""
    unsure, wrong = solution.uncertainty, solution.stats.mislinked
    if wrong is not None and not (wrong == 0.0 and isinstance(unsure, StudentT)):
        return [*_describe_links(solution, facts, float(wrong)), LINKS_LIMITS]
    if not isinstance(unsure, StudentT):
        return []
    if wrong is not None:
        first, units, way_out = "Every link is right: ordinary least squares", "pairs", "add pairs"
    elif facts.is_linked:
        first, units, way_out = "Every pair is known: ordinary least squares", "pairs", "add pairs"
    else:
        first = "Bag means are regressed on bag means: unbiased whatever the order"
        units, way_out = "bags", "add a bag, or use method 'likelihood'"
    if not unsure.has_interval:
        return [
            f"{first}. With as many weights as {units} nothing is left to measure the error, so "
            f"there are no intervals: {way_out}."
        ]
    degrees = "1 degree" if unsure.dof == 1 else f"{unsure.dof} degrees"
    return [f"{first}, with t intervals on {degrees} of freedom."]


def _describe_links(solution: Solution, facts: Facts, wrong: float) -> list[str]:
    """Say how links were used of which a share is wrong."""
    share, ends = f"{wrong:.0%}", solution.stats.mislinked_interval
    if ends is not None:
        low, high = ends
        first = f"About {share} of the links are wrong (estimated; 95 % interval {low:.0%} to "
        # A wider interval of the mismatch rate dominates the intervals of the coefficients.
        more = [_LINKS_OPEN] if high - low > 0.1 else []
        if solution.stats.links_say_nothing:
            more = [_LINKS_SILENT]
        return [f"{first}{high:.0%}).", *more]
    if isinstance(solution.uncertainty, StudentT):
        return [f"About {share} of the links are wrong, as given.", _LINK_METHODS[facts.method]]
    if facts.method == "sampler":
        return [
            f"Matchings were weighed by how many labels they move: {share} were expected to have "
            "moved."
        ]
    return [f"About {share} of the links are wrong: those labels were matched anew."]


def _advise(solution: Solution, facts: Facts, is_thin: bool) -> str:
    """Return a sentence on what would help, without what the data have already."""
    collinear = advise_on_collinear(facts)
    assessed = assess(solution, facts)
    still_open = {
        j for j in range(len(facts.scales)) if assessed[j] not in (SIGN_AND_MAGNITUDE, NEGLIGIBLE)
    }
    if collinear and still_open <= set(facts.collinear):
        # More data do not separate such columns.
        return f"What would help: {collinear}."
    d, has_individuals = len(facts.scales), facts.pairing.has_individuals
    ways = [collinear] if collinear else []
    # The posterior of 20 features or more is hard to sample. With 800 rows in 40 bags 25 are
    # sampled well and 30 are not; with 200 rows in 4 bags 20 are not.
    if is_thin and d >= 20:
        ways.append(f"fewer features (the posterior of {d} is hard to sample whatever the data)")
    if facts.is_linked or facts.n <= len(facts.names):
        ways.append("more rows")
    if facts.is_linked:
        ways.append("labels with less noise")
    elif is_thin and facts.n_bags > len(facts.names):
        ways.append("method='means', whose intervals need no sampling")
    else:
        ways.append("more bags (also the same samples divided into more, different bags)")
    if facts.n_means:
        ways.append("the single labels of some bags (in any order)")
    elif has_individuals and not facts.is_linked:
        ways.append(f"{'more' if facts.n_anchors else 'a few'} linked pairs (anchors)")
    if not has_individuals:
        ways.append("larger samples of rows and of labels")
    if not facts.is_noise_given:
        ways.append("a known noise level")
    return f"What would help: {', '.join(ways[:-1])}, or {ways[-1]}."
