"""The summary of a fit: verdict, estimates with intervals, competing answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unshuffle.core.solution import BagEffects, Certificate, Solution
from unshuffle.data.pairing import Pairing
from unshuffle.formatting import align, count, show_number
from unshuffle.results.cards import make_card
from unshuffle.results.determined import DETERMINED_RULE, KNOWN_RULE, UNEXPLORED_RULE, assess_known
from unshuffle.results.frames import make_frame
from unshuffle.results.verdict import (
    IDENTIFIED,
    Facts,
    assess,
    competing_answers,
    explain,
    grade,
    list_collinear_pairs,
    list_different,
    make_headline,
    model_fits,
)

# Version of the JSON; raised when a key gets another meaning. 1 was that of version 0.1.0.
SCHEMA_VERSION = 2
COLUMNS = ("estimate", "sd", "low", "high", "determined")
_FRAME_COLUMNS = (*COLUMNS, "known")
MEANS_SENTENCE = (
    "Where only the mean of a bag is known, it tells the sum of individual and contextual effects "
    "(ecological regression); full bags or linked pairs tell them apart."
)
ESTIMAND = (
    "Coefficients and intervals are of the population value of the pooled slope: the slope inside "
    "bags, and the share of a contextual effect that a regression over all rows would see."
)
# The probability of bag effects below this is shown as a bound.
_UNLIKELY = 0.05
_RIVALS = "Competing answers, best first:"


@dataclass(frozen=True)
class SummaryRow:
    """One line of the table of a summary.

    Attributes
    ----------
    name : str
        Name of the column, or "intercept".
    estimate : float
        The estimate.
    sd, low, high : float or None
        Posterior sd and ends of the interval; None for methods without intervals.
    determined : str or None
        "sign and magnitude", "sign", "negligible" or "no".
    known : str or None
        `determined` in the words of version 0.1.0.
    standardised : float or None
        Estimate times the sd of its column, in units of the label; None for the intercept.

    Examples
    --------
    >>> row = SummaryRow("age", 1.2, 0.1, 1.0, 1.4, "sign and magnitude")
    >>> f"{row.name}: {row.estimate} ({row.low} to {row.high})"
    'age: 1.2 (1.0 to 1.4)'
    """

    name: str
    estimate: float
    sd: float | None
    low: float | None
    high: float | None
    determined: str | None = None
    known: str | None = None
    standardised: float | None = None


@dataclass(frozen=True)
class Summary:
    """The summary of a fit, as text, HTML, a frame, a dictionary or LaTeX.

    Attributes
    ----------
    verdict : str or None
        "identified", "partly identified" or "not identified"; None without intervals.
    explanation : tuple of str
        The verdict and its reasons in sentences.
    rows : tuple of SummaryRow
        The table: name, estimate, sd, low, high and determined of each coefficient.
    level : float
        Probability of the intervals.
    noise, is_noise_given : float or None, bool
        Sd of the noise, and whether it was given.
    method : str
        The method used.
    model_fits, misfits : bool or None, tuple of str
        Whether the labels look as the model predicts, and in what they do not.
    collinear_pairs : tuple of pairs of str
        Columns that the data cannot tell apart.
    is_converged, status : bool, str
        Whether the search ended as it should, and how it ended.
    n, n_labels, d, n_bags, n_anchors, n_means : int
        Numbers of rows, labels, features, bags, known pairs, and bags known by their mean label.
    pairing : Pairing
        How rows and labels belong together.
    effects, are_offsets_declared : BagEffects or None, bool
        Posterior of bag effects, and whether offsets were declared.
    candidates, n_competing, different : tuple of dict, int, tuple of int
        All answers, how many of them compete, and which differ though they are about as probable.
    priors, remarks : tuple of str
        What was assumed, and what was handled but should be known.
    certificate : Certificate or None
        What is proven of the best value.
    mislinked : float or None
        The share of wrong links, given or found.
    headline : tuple of str
        The verdict in a few words, and the class of its colour.
    is_explored : bool
        Whether the posterior was sampled well.
    detail : bool
        Whether the text tells rules, estimand, bag effects, priors and all competing answers.
    label, library : str or None
        The transformed label, and the library of the frame fitted.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression
    >>> model = ShuffledLinearRegression("ls", random_state=0)
    >>> summary = model.fit([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]).summary()
    >>> [(row.name, round(row.estimate, 6)) for row in summary.rows]
    [('x0', 2.0), ('intercept', 1.0)]
    """

    verdict: str | None
    explanation: tuple[str, ...]
    rows: tuple[SummaryRow, ...]
    level: float
    noise: float | None
    method: str
    model_fits: bool | None
    misfits: tuple[str, ...]
    collinear_pairs: tuple[tuple[str, str], ...]
    is_converged: bool
    status: str
    n: int
    n_labels: int
    d: int
    n_bags: int
    pairing: Pairing
    # None where there are none: one bag, another method, or switched off.
    effects: BagEffects | None
    candidates: tuple[dict[str, Any], ...]
    n_competing: int
    priors: tuple[str, ...]
    remarks: tuple[str, ...]
    certificate: Certificate | None = None
    are_offsets_declared: bool = False
    is_noise_given: bool = False
    # Pairs that were known, and the share of links that are wrong, given or found.
    n_anchors: int = 0
    # Bags of which only the mean label is known.
    n_means: int = 0
    mislinked: float | None = None
    # The verdict in a few words, and whether it is good, doubtful or unknown.
    headline: tuple[str, str] = ("Not assessed", "unknown")
    # Whether the posterior was sampled well, where there is one.
    is_explored: bool = True
    detail: bool = False
    # The transformed label, and the library of the frame fitted.
    label: str | None = None
    library: str | None = None
    # Positions of the different answers that compete.
    different: tuple[int, ...] = ()

    @property
    def identified(self) -> bool | None:
        """Whether the verdict is "identified"; None without one."""
        return None if self.verdict is None else self.verdict == IDENTIFIED

    @property
    def reason(self) -> str:
        """The reason of the verdict, without the verdict."""
        reason = self.explanation[0].partition(": ")[2]
        return f"{reason[:1].upper()}{reason[1:]}"

    @property
    def has_intervals(self) -> bool:
        """Whether any coefficient has an interval."""
        return any(row.low is not None for row in self.rows)

    @property
    def determined_rule(self) -> str | None:
        """The rule behind `determined`; None where nothing is assessed by it."""
        return self._make_rule(DETERMINED_RULE)

    @property
    def known_rule(self) -> str | None:
        """The rule of version 0.1.0 behind `known`; None where nothing is assessed by it."""
        return self._make_rule(KNOWN_RULE)

    def _make_rule(self, rule: str) -> str | None:
        if all(row.determined is None for row in self.rows):
            return None
        return rule if self.is_explored else f"{rule} {UNEXPLORED_RULE}"

    @property
    def table(self) -> list[tuple[str, ...]]:
        """The head and one line for each coefficient; estimates alone where that is all.

        Where several different answers compete, each has a column.
        """
        first = "coefficient" if self.label is None else f"coefficient (label: {self.label})"
        lines: list[tuple[str, ...]] = [(first, *COLUMNS)]
        for row in self.rows:
            numbers = (show_number(each) for each in (row.estimate, row.sd, row.low, row.high))
            lines.append((row.name, *numbers, row.determined or "–"))
        width = 2 if self.determined_rule is None else len(lines[0])
        places = () if self.detail else self.different
        answers = [self.candidates[k]["weights"] for k in places]
        heads = [f"answer {k + 1}" for k in places]
        more = [heads, *([show_number(w[j]) for w in answers] for j in range(len(self.rows)))]
        return [(*line[:width], *cells) for line, cells in zip(lines, more, strict=True)]

    @property
    def facts(self) -> str:
        """Sizes, method, noise and offsets in one line."""
        bags = "one bag" if self.n_bags == 1 else count(self.n_bags, "bag")
        parts = [
            f"noise sd {show_number(self.noise)}" + " (given)" * self.is_noise_given,
            f"method {self.method}",
            count(self.n, "row"),
            *([] if self.n_labels == self.n else [count(self.n_labels, "label")]),
            count(self.d, "feature"),
            bags + self._tell_means(),
            *([count(self.n_anchors, "pair") + " known"] if self.n_anchors else []),
            *([] if self.mislinked is None else [f"{self.mislinked:.0%} of links wrong"]),
            f"{100 * self.level:g} % intervals" if self.has_intervals else "no intervals",
        ]
        effects = self.effects
        if effects is not None and effects.has_offsets:
            declared = " (declared)" if self.are_offsets_declared else ""
            parts.append(f"offsets between bags sd {show_number(effects.offset_sd)}{declared}")
        if effects is not None and effects.has_contexts:
            parts.append("contextual effects")
        return " · ".join(parts if self.noise is not None else parts[1:])

    def _tell_means(self) -> str:
        if self.n_means == 0:
            return ""
        if self.n_bags in (1, self.n_means):
            return ", known by mean labels"
        return f", {self.n_means} known by mean labels"

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said below the facts: reasons, proofs, remarks, and details if asked.

        The short summary has two lines: where there is more to be said, one of diagnostics and one
        of remarks. With `detail` each has a line.
        """
        found = list(self.explanation[1:])
        if not self.pairing.is_usual:
            found.append(self.pairing.sentence)
        if self.n_means:
            found.append(MEANS_SENTENCE)
        if self.certificate is not None:
            found.append(self.certificate.describe(self.candidates[0]["value"]))
        # With three features the short summary has twelve lines at most.
        if self.detail or len(found) + len(self.remarks) <= 2:
            return (*found, *self.remarks, *(self.details if self.detail else ()))
        return tuple(" ".join(part) for part in (found, self.remarks) if part)

    @property
    def details(self) -> tuple[str, ...]:
        """Rules, estimand, bag effects and priors, in sentences."""
        rule = [] if self.determined_rule is None else [self.determined_rule]
        if self.effects is not None:
            rule.append(ESTIMAND)
        return (*rule, *self.describe_effects(), *self.priors)

    def describe_effects(self) -> tuple[str, ...]:
        """Say how probable random and contextual bag effects are, and how large they are.

        Returns
        -------
        tuple of str
            One sentence for random effects, one for contextual effects; none where the model has
            none.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression
        >>> model = ShuffledLinearRegression("ls", random_state=0)
        >>> summary = model.fit([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]).summary()
        >>> summary.describe_effects()
        ()
        """
        effects, found = self.effects, []
        if effects is not None and effects.offset_probability > 0.0:
            size = f"sd {show_number(effects.offset_sd)}"
            told = _tell_probability(effects.offset_probability, f", {size}")
            told = f"declared, {size}" if self.are_offsets_declared else f"probability {told}"
            found.append(f"Random bag effects (offsets): {told}.")
        if effects is not None and effects.context_probability > 0.0:
            columns = zip(self.rows, effects.contexts, effects.context_sds, strict=False)
            sizes = [
                f"{row.name} {show_number(mean)} (sd {show_number(sd)})"
                for row, mean, sd in columns
            ]
            told = _tell_probability(effects.context_probability, f": {', '.join(sizes)}")
            rests = " There are too few bags to tell them from their prior."
            found.append(
                f"Contextual effects of the bags' mean rows: probability {told}."
                + rests * effects.rests_on_prior
            )
        return tuple(found)

    @property
    def shows_candidates(self) -> bool:
        """Whether all competing answers are listed."""
        return self.detail and self.n_competing > 1

    def _rivals(self) -> list[tuple[str, ...]]:
        """Return competing answers, coefficients down and answers across; none where one does.

        The first line holds their numbers, the second their shares of the posterior.
        """
        if not self.shows_candidates or self.candidates[0]["share"] is None:
            return []
        shown = self.candidates[: self.n_competing]
        return [
            ("", *(str(place) for place in range(1, len(shown) + 1))),
            ("share", *(f"{c['share']:.0%}" for c in shown)),
            *(
                (row.name, *(show_number(c["weights"][j]) for c in shown))
                for j, row in enumerate(self.rows)
            ),
        ]

    def __str__(self) -> str:
        rivals = self._rivals()
        more = ["", _RIVALS, *align(rivals)] if rivals else []
        parts = [self.explanation[0], "", *align(self.table), "", self.facts, *self.notes]
        return "\n".join([*parts, *more])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.to_card()

    def to_card(self, title: str = "") -> str:
        """Return HTML for a notebook, below a title such as the model's parameters.

        Parameters
        ----------
        title : str, default=""
            A line above the verdict.

        Returns
        -------
        str
            The card, with a style of its own.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression
        >>> model = ShuffledLinearRegression("ls", random_state=0)
        >>> summary = model.fit([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]).summary()
        >>> "Not assessed" in summary.to_card()
        True
        """
        tables: list[tuple[str, list[tuple[str, ...]]]] = [("", self.table)]
        if self._rivals():
            tables.append((_RIVALS, self._rivals()))
        facts = [self.facts, *self.notes]
        reason = [self.reason] if self.reason else []
        return make_card(self.headline, reason, tables, facts, title)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists (None, never NaN, where there is no value).

        This is the JSON of the command line too, described by ``schema/fit.schema.json``. The
        intercept stands apart from the coefficients: a feature may have its name.

        Returns
        -------
        dict
            Verdict, coefficients, facts and candidates.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression
        >>> model = ShuffledLinearRegression("ls", random_state=0)
        >>> summary = model.fit([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]).summary()
        >>> summary.to_dict()["method"]
        'ls'
        """
        keys = ("estimate", "sd", "low", "high", "determined", "known")
        entries = [{key: getattr(row, key) for key in keys} for row in self.rows]
        names = [row.name for row in self.rows[: self.d]]
        return {
            "schema_version": SCHEMA_VERSION,
            "verdict": self.verdict,
            "explanation": list(self.explanation),
            "coefficients": dict(zip(names, entries[: self.d], strict=True)),
            "intercept": entries[self.d] if len(entries) > self.d else None,
            "standardised": {row.name: row.standardised for row in self.rows[: self.d]},
            "level": self.level,
            "determined_rule": self.determined_rule,
            "known_rule": self.known_rule,
            "inseparable": [list(pair) for pair in self.collinear_pairs],
            "noise": self.noise,
            "method": self.method,
            "n": self.n,
            "labels": self.n_labels,
            "d": self.d,
            "bags": self.n_bags,
            **({"known_means": self.n_means} if self.n_means else {}),
            **({"label": self.label} if self.label is not None else {}),
            "anchors": self.n_anchors,
            "mislinked": self.mislinked,
            "pairing": self.pairing.name,
            "bag_offsets": None
            if self.effects is None
            else {
                "probability": self.effects.offset_probability,
                "sd": self.effects.offset_sd,
                "declared": self.are_offsets_declared,
            },
            "contextual_effects": None
            if self.effects is None
            else _list_contexts(self.effects, names),
            "identified": self.identified,
            "model_fits": self.model_fits,
            "misfits": list(self.misfits),
            "converged": self.is_converged,
            "status": self.status,
            "candidates": [dict(c) for c in self.candidates],
            "certificate": None
            if self.certificate is None
            else {
                "certified": self.certificate.is_complete,
                "lower_bound": self.certificate.lower_bound,
                "gap": self.certificate.gap,
            },
            "priors": list(self.priors),
            "remarks": list(self.remarks),
        }

    def to_frame(self) -> Any:
        """Return the table as a pandas frame, with the names of coefficients as index.

        Returns
        -------
        pandas.DataFrame
            Columns estimate, sd, low, high, determined and known.

        Raises
        ------
        InputError
            Where pandas is not installed.

        See Also
        --------
        tidy : The same with the names in a column.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression
        >>> model = ShuffledLinearRegression("ls", random_state=0)
        >>> summary = model.fit([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]).summary()
        >>> summary.to_frame().loc["x0", "estimate"].round(6).item()
        2.0
        """
        columns = {name: [getattr(row, name) for row in self.rows] for name in _FRAME_COLUMNS}
        return make_frame(columns, None, [row.name for row in self.rows])

    def tidy(self) -> Any:
        """Return the table as a tidy frame: one line for each coefficient, named by `term`.

        Returns
        -------
        frame
            Columns term, estimate, sd, low, high and determined: a polars frame where one was
            fitted, otherwise of pandas.

        Raises
        ------
        InputError
            Where the library of frames is not installed.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression
        >>> model = ShuffledLinearRegression("ls", random_state=0)
        >>> tidy = model.fit([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]).summary().tidy()
        >>> tidy["term"].tolist(), list(tidy.columns)
        (['x0', 'intercept'], ['term', 'estimate', 'sd', 'low', 'high', 'determined'])
        """
        columns = {name: [getattr(row, name) for row in self.rows] for name in COLUMNS}
        names = [row.name for row in self.rows]
        return make_frame({"term": names, **columns}, self.library, what="tidy")

    def to_latex(self) -> str:
        """Return the table as a LaTeX tabular.

        Returns
        -------
        str
            A tabular environment.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression
        >>> model = ShuffledLinearRegression("ls", random_state=0)
        >>> summary = model.fit([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]).summary()
        >>> print(summary.to_latex().splitlines()[2])
         & estimate \\\\
        """
        (_, *head), *rows = self.table
        signs = ["l" if name == "determined" else "r" for name in head]
        lines = [rf"\begin{{tabular}}{{l{''.join(signs)}}}"]
        first = "" if self.label is None else _latex(self.label)
        lines += [r"\hline", " & ".join([first, *head]) + r" \\", r"\hline"]
        lines += [" & ".join([_latex(name), *cells]) + r" \\" for name, *cells in rows]
        return "\n".join([*lines, r"\hline", r"\end{tabular}"])


def summarise(solution: Solution, facts: Facts, level: float, detail: bool = False) -> Summary:
    """Return the summary of a solution; rows without intervals have None in their place."""
    verdict = grade(solution, facts)
    candidates = tuple(
        {
            "weights": [float(w) for w in c.weights],
            "value": c.value,
            "starts": c.n_starts,
            "evidence": c.evidence,
            # A sum of shares passes one by rounding.
            "share": None if c.share is None else min(c.share, 1.0),
            "noise": c.noise,
        }
        for c in solution.candidates
    )
    return Summary(
        verdict=verdict,
        explanation=explain(solution, verdict, facts),
        rows=_make_rows(solution, facts, level),
        level=level,
        noise=facts.noise,
        method=facts.method,
        model_fits=model_fits(solution),
        misfits=solution.misfits or (),
        collinear_pairs=list_collinear_pairs(solution, facts),
        is_converged=not solution.status.is_doubtful,
        status=solution.status.value,
        n=facts.n,
        n_labels=facts.n if facts.n_labels is None else facts.n_labels,
        d=len(facts.scales),
        n_bags=facts.n_bags,
        n_means=facts.n_means,
        pairing=facts.pairing,
        effects=_find_effects(solution, facts),
        candidates=candidates,
        n_competing=len(competing_answers(solution)),
        priors=solution.stats.priors,
        remarks=solution.stats.remarks,
        certificate=solution.certificate,
        are_offsets_declared=facts.are_offsets_declared,
        is_noise_given=facts.is_noise_given,
        n_anchors=facts.n_anchors,
        mislinked=solution.stats.mislinked,
        headline=make_headline(solution, verdict),
        is_explored=solution.uncertainty is None or not solution.uncertainty.is_thin,
        detail=detail,
        label=facts.label,
        different=list_different(solution, facts, verdict),
    )


def _make_rows(solution: Solution, facts: Facts, level: float) -> tuple[SummaryRow, ...]:
    """Return the table's rows, without an interval where there is none or it has no ends."""
    unsure, names = solution.uncertainty, facts.names
    scales = [*facts.scales.tolist(), *[None] * (len(names) - len(facts.scales))]
    spreads = np.full((len(names), 3), np.inf)
    if unsure is not None and unsure.has_interval:
        spreads = np.column_stack([unsure.sd, unsure.interval(level)])
    estimates, assessed, known = solution.weights, assess(solution, facts), assess_known(solution)
    found = []
    for j, (name, scale) in enumerate(zip(names, scales, strict=True)):
        w, (sd, low, high) = float(estimates[j]), spreads[j].tolist()
        row = SummaryRow(name, w, None, None, None, assessed[j], known[j])
        if np.isfinite(spreads[j]).all():
            row = replace(row, sd=sd, low=low, high=high)
        found.append(row if scale is None else replace(row, standardised=w * scale))
    return tuple(found)


def _find_effects(solution: Solution, facts: Facts) -> BagEffects | None:
    """Return the bag effects, None where they were switched off."""
    effects = solution.effects
    is_off = facts.are_offsets_declared and effects is not None and not effects.offset_probability
    return None if is_off else effects


def _tell_probability(probability: float, size: str) -> str:
    """Return a probability as text, followed by the size of an effect that is not unlikely."""
    return f"{probability:.0%}{size}" if probability >= _UNLIKELY else f"below {_UNLIKELY:.0%}"


def _list_contexts(effects: BagEffects, names: Sequence[str]) -> dict[str, Any]:
    """Return contextual effects as plain numbers."""
    pairs = zip(names, effects.contexts, effects.context_sds, strict=False)
    return {
        "probability": effects.context_probability,
        "rests_on_prior": effects.rests_on_prior,
        "coefficients": {name: {"estimate": mean, "sd": sd} for name, mean, sd in pairs},
    }


def _latex(text: str) -> str:
    """Escape what LaTeX would take for a command."""
    signs = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(signs.get(c, "\\" + c if c in "&%$#_{}" else c) for c in text)
