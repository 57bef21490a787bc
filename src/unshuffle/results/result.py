"""The result of a fit (`Fit`), which estimator, command line, report and JSON share."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from unshuffle.core.solution import BagEffects, Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.uncertainty import Posterior
from unshuffle.data.bags import Bags
from unshuffle.data.pairing import Pairing
from unshuffle.data.products import predict_rows
from unshuffle.errors import DataWarning, InputError, ModelMisfitWarning, find_renamed
from unshuffle.options import FitOptions, make_rng
from unshuffle.results.contrasts import Contrast, find_contrast
from unshuffle.results.determined import assess_known, doubtful_weights
from unshuffle.results.frames import make_frame
from unshuffle.results.matching import Match, fingerprint, match_labels
from unshuffle.results.prediction import find_bags, predict_ends, predict_in_bags, predict_sds
from unshuffle.results.summary import Summary, summarise
from unshuffle.results.verdict import (
    IDENTIFIED,
    Facts,
    assess,
    check_level,
    competing_answers,
    describe_misfit,
    grade,
    model_fits,
    need_uncertainty,
)

if TYPE_CHECKING:
    from unshuffle.formulas.columns import FormulaColumns
    from unshuffle.inference.pairing_draws import PairingSource


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of a fit: estimates, intervals, verdict, predictions and matches.

    Attributes
    ----------
    solution : Solution
        Candidates, status and statistics of the solver.
    facts : Facts
        What is known of the data: names and spreads of columns, sizes, how rows and labels belong
        together.
    options : FitOptions
        What the fit was asked for.
    fingerprint : str or None
        A digest of the data, where tables of match probabilities depend on it.
    data, pairings : object or None
        The data fitted while they are few, and what draws pairings of linked ones; files and
        pickles keep neither.
    formula : FormulaColumns or None
        How a formula made the columns.
    library : str or None
        The library of the frame fitted, "pandas" or "polars".

    Examples
    --------
    >>> from unshuffle import Bag, fit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.exponential(size=(60, 1))
    >>> found = fit([Bag(X, rng.permutation(2 * X[:, 0] + 1))], method="ls", rng=1)
    >>> found.coef.round(3).tolist(), round(found.intercept, 3), found.method
    ([2.0], 1.0, 'ls')
    """

    solution: Solution
    facts: Facts
    options: FitOptions
    # Digest that identifies the bags of the fit in `match`; None where nothing depends on it.
    fingerprint: str | None = None
    # The data fitted, while they are few, and what draws pairings of linked ones: neither files nor
    # pickles keep them.
    data: Bags | None = field(default=None, repr=False, metadata={"is_kept": False})
    pairings: PairingSource | None = field(default=None, repr=False, metadata={"is_kept": False})
    # How a formula made the columns, and the library of the frame fitted, "pandas" or "polars".
    formula: FormulaColumns | None = None
    library: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "data": None, "pairings": None}

    @property
    def method(self) -> str:
        """The method used, where another one chose it."""
        return self.facts.method

    @property
    def weights(self) -> np.ndarray:
        """The estimated coefficients, the intercept last."""
        return self.solution.weights

    @property
    def coef(self) -> np.ndarray:
        """The estimated coefficients of the features."""
        return self.weights[: len(self.facts.scales)]

    @property
    def intercept(self) -> float:
        """The estimated intercept, 0.0 without one."""
        return float(self.weights[-1]) if self.options.fit_intercept else 0.0

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Competing answers, best first."""
        return self.solution.candidates

    @property
    def status(self) -> Status:
        """How the solver ended; its value is a sentence of advice."""
        return self.solution.status

    @property
    def stats(self) -> Stats:
        """What the solver counted."""
        return self.solution.stats

    @property
    def value(self) -> float:
        """The value of the best candidate."""
        return self.solution.value

    @property
    def start_values(self) -> np.ndarray:
        """The final value of every start, best first."""
        return self.solution.start_values

    @property
    def noise(self) -> float | None:
        """Sd of the noise, given or estimated; None where the method has none."""
        return self.facts.noise

    @property
    def posterior(self) -> Posterior | None:
        """Weighted draws of coefficients and noise, where the method has them."""
        return self.solution.posterior

    if not TYPE_CHECKING:  # type checkers know the new name alone

        def __getattr__(self, name: str) -> Any:
            return getattr(self, find_renamed("Fit", name, {"offsets": "effects"}))

    @property
    def effects(self) -> BagEffects | None:
        """What is known of offsets between bags; None for one bag, or where the method has none."""
        return self.solution.effects

    @property
    def pairing(self) -> Pairing:
        """How rows and labels belong together; its sentence says what follows from it."""
        return self.facts.pairing

    @property
    def n_labels(self) -> int:
        """Number of labels; it may differ from that of rows."""
        return self.facts.n if self.facts.n_labels is None else self.facts.n_labels

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was handled but should be known, each one sentence."""
        return self.stats.remarks

    @property
    def is_converged(self) -> bool:
        """Whether the search ended as it should; that the model fits is another thing."""
        return not self.status.is_doubtful

    @property
    def verdict(self) -> str | None:
        """One of "identified", "partly identified", "not identified"; None without intervals."""
        return grade(self.solution, self.facts)

    @property
    def identified(self) -> bool | None:
        """Whether the verdict is "identified"; None without intervals."""
        verdict = self.verdict
        return None if verdict is None else verdict == IDENTIFIED

    @property
    def model_fits(self) -> bool | None:
        """Whether the labels look as the model predicts; None where that was not checked."""
        return model_fits(self.solution)

    @property
    def misfits(self) -> tuple[str, ...]:
        """In what the labels do not look as the model predicts."""
        return self.solution.misfits or ()

    @property
    def determined(self) -> tuple[str | None, ...]:
        """What is determined of each coefficient, the intercept last; None without intervals.

        "sign and magnitude", "sign", "negligible" or "no".
        """
        return assess(self.solution, self.facts)

    @property
    def known(self) -> tuple[str | None, ...]:
        """`determined` in the words of version 0.1.0: "sign and size", "sign", "no"."""
        return assess_known(self.solution)

    @property
    def competing(self) -> tuple[Candidate, ...]:
        """The candidates with a notable share, best first."""
        return competing_answers(self.solution)

    @property
    def doubtful(self) -> list[int]:
        """Positions of the features that pictures show as determined least."""
        return doubtful_weights(self.solution, self.facts.scales)

    def conf_int(
        self, level: float = 0.95, intercept: bool = False, alpha: float | None = None
    ) -> Any:
        """Return the interval of each coefficient.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.
        intercept : bool, default=False
            Whether to return that of the intercept too, last.
        alpha : float, optional
            ``1 - level``, as an alternative to it.

        Returns
        -------
        ndarray of shape (n_coefficients, 2), or frame
            One row (low, high) per coefficient. Where a pandas or polars frame was fitted, a frame
            of that library with the columns low and high; pandas' index has the names.

        Raises
        ------
        InputError
            For methods without intervals.

        Examples
        --------
        >>> from unshuffle import fit, make_shuffled
        >>> data = make_shuffled(n=60, d=1, noise=0.1, bags=6, rng=0)
        >>> frame = {"x": data.X[:, 0], "y": data.y, "bag": data.groups}
        >>> found = fit("y ~ x", frame, bags="bag", method="means")
        >>> found.conf_int(alpha=0.1).shape
        (1, 2)
        """
        ends = need_uncertainty(self.solution, self.method).interval(check_level(level, alpha))
        ends = ends if intercept else ends[: len(self.facts.scales)]
        if self.library is None:
            return ends
        names = self.facts.names[: len(ends)]
        columns = {"low": ends[:, 0], "high": ends[:, 1]}
        return make_frame(columns, self.library, names, "conf_int")

    def contrast(
        self, expression: str, level: float = 0.95, alpha: float | None = None
    ) -> Contrast:
        """Return a linear combination of coefficients, with sd and interval.

        Parameters
        ----------
        expression : str
            Sums and differences of coefficients by name, times or over numbers: ``"x1 - x2"``.
            Names that hold signs of arithmetic may stand in backticks; "intercept" is one.
        level : float, default=0.95
            Probability of the interval.
        alpha : float, optional
            ``1 - level``, as an alternative to it.

        Returns
        -------
        Contrast
            Estimate, sd and interval: from the posterior draws, or from the t distribution.

        Raises
        ------
        InputError
            For methods without intervals, unknown names, and products of coefficients.

        Examples
        --------
        >>> from unshuffle import Bag, fit, make_shuffled
        >>> data = make_shuffled(n=60, d=2, noise=0.1, bags=6, rng=0)
        >>> bags = [Bag(data.X[data.groups == r], data.y[data.groups == r]) for r in range(6)]
        >>> found = fit(bags, method="means")
        >>> difference = found.contrast("x0 - x1")
        >>> difference.low < difference.estimate < difference.high
        True
        """
        return find_contrast(self.solution, self.facts, expression, check_level(level, alpha))

    def summary(
        self, level: float = 0.95, detail: bool = False, alpha: float | None = None
    ) -> Summary:
        """Return verdict, estimates and intervals: print it, or use its `to_…` methods.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.
        detail : bool, default=False
            Whether its text tells rules, estimand, bag effects, priors and competing answers too.
        alpha : float, optional
            ``1 - level``, as an alternative to it.

        Returns
        -------
        Summary
            What the fit says, as text, frame, dictionary, HTML or LaTeX.

        Examples
        --------
        >>> from unshuffle import Bag, fit
        >>> found = fit([Bag([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0])], method="ls", rng=0)
        >>> print(found.summary())
        Not assessed: method 'ls' has no intervals here.
        <BLANKLINE>
        coefficient  estimate
        x0                  2
        intercept           1
        <BLANKLINE>
        method ls · 3 rows · 1 feature · one bag · no intervals
        Several starts reached the best value: the minimum found is probably the lowest.
        """
        made = summarise(self.solution, self.facts, check_level(level, alpha), detail)
        return replace(made, library=self.library)

    def __repr__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return self.summary().to_card()

    def predict(self, X: Any, groups: Sequence[Hashable] | np.ndarray | None = None) -> np.ndarray:
        """Return X w + b for each row, and the posterior mean in bags that the fit knows.

        Parameters
        ----------
        X : ndarray of shape (n, d), or frame
            Rows; after a fit by a formula a frame with the columns that it names.
        groups : sequence of n hashable labels, optional
            The bag of each row; bags that were not fitted, and rows without `groups`, are new.

        Returns
        -------
        ndarray of shape (n,)
            The predictions, of the transformed label where the formula transforms it.

        Examples
        --------
        >>> from unshuffle import Bag, fit
        >>> found = fit([Bag([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0])], method="ls", rng=0)
        >>> found.predict(np.array([[2.0]])).round(6).tolist()
        [5.0]
        """
        rows = self.read_rows(X)
        bags = find_bags(self.solution, groups, len(rows))
        z = predict_rows(rows, self.coef) + self.intercept
        return z if bags is None else predict_in_bags(self.solution, self.facts, rows, bags, z)

    def predict_sd(
        self, X: Any, groups: Sequence[Hashable] | np.ndarray | None = None
    ) -> np.ndarray:
        """Return the posterior predictive sd of a label at each row: noise and bag included.

        Parameters
        ----------
        X : ndarray of shape (n, d), or frame
            Rows, as in `predict`.
        groups : sequence of n hashable labels, optional
            The bag of each row, as in `predict`.

        Returns
        -------
        ndarray of shape (n,)
            The sds, infinite where the data say nothing.

        Raises
        ------
        InputError
            For methods without intervals.

        Examples
        --------
        >>> from unshuffle import Bag, fit, make_shuffled
        >>> data = make_shuffled(n=60, d=1, noise=0.1, bags=6, rng=0)
        >>> bags = [Bag(data.X[data.groups == r], data.y[data.groups == r]) for r in range(6)]
        >>> bool((fit(bags, method="means").predict_sd(data.X) > 0).all())
        True
        """
        rows = self.read_rows(X)
        bags = find_bags(self.solution, groups, len(rows))
        return predict_sds(self.solution, self.facts, rows, bags)

    def predict_interval(
        self,
        X: Any,
        level: float = 0.95,
        new_label: bool = False,
        groups: Sequence[Hashable] | np.ndarray | None = None,
        alpha: float | None = None,
    ) -> np.ndarray:
        """Return (low, high) for each row: of the prediction, or of a new label there.

        Parameters
        ----------
        X : ndarray of shape (n, d), or frame
            Rows, as in `predict`.
        level : float, default=0.95
            Probability of the intervals.
        new_label : bool, default=False
            Whether the interval is that of a label yet to be measured, with its noise.
        groups : sequence of n hashable labels, optional
            The bag of each row, as in `predict`.
        alpha : float, optional
            ``1 - level``, as an alternative to it.

        Returns
        -------
        ndarray of shape (n, 2)
            The ends of the intervals, infinite where the data say nothing.

        Raises
        ------
        InputError
            For methods without intervals.

        Examples
        --------
        >>> from unshuffle import Bag, fit, make_shuffled
        >>> data = make_shuffled(n=60, d=1, noise=0.1, bags=6, rng=0)
        >>> bags = [Bag(data.X[data.groups == r], data.y[data.groups == r]) for r in range(6)]
        >>> fit(bags, method="means").predict_interval(data.X[:3]).shape
        (3, 2)
        """
        level, rows = check_level(level, alpha), self.read_rows(X)
        bags = find_bags(self.solution, groups, len(rows))
        return predict_ends(self.solution, self.facts, rows, level, new_label, bags)

    def read_rows(self, X: Any) -> np.ndarray:
        """Return rows as the model has them: a formula makes its columns from a frame.

        Parameters
        ----------
        X : ndarray of shape (n, d), or frame
            Rows.

        Returns
        -------
        ndarray of shape (n, d)
            The columns of the model.

        Raises
        ------
        InputError
            Where the frame lacks columns of the formula, or holds unknown levels.

        Examples
        --------
        >>> from unshuffle import Bag, fit
        >>> found = fit([Bag([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0])], method="ls", rng=0)
        >>> found.read_rows([[2.0]]).tolist()
        [[2.0]]
        """
        if self.formula is not None and not isinstance(X, np.ndarray):
            return self.formula.build(X)
        return np.asarray(X, dtype=float)

    def is_known_bag(self, groups: Sequence[Hashable] | np.ndarray) -> np.ndarray:
        """Return whether each name is that of a bag whose effect the fit knows.

        Parameters
        ----------
        groups : sequence of hashable labels
            Names of bags.

        Returns
        -------
        ndarray of bool
            One entry for each name.

        Examples
        --------
        >>> from unshuffle import Bag, fit
        >>> found = fit([Bag([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0])], method="ls", rng=0)
        >>> found.is_known_bag(["a"]).tolist()
        [False]
        """
        found = find_bags(self.solution, groups, len(groups))
        return np.zeros(len(groups), dtype=bool) if found is None else found >= 0

    def sample_pairings(
        self, m: int, rng: np.random.Generator | int | None = None, bags: Bags | None = None
    ) -> np.ndarray:
        """Draw m whole pairings from the posterior: which label belongs to which row.

        Parameters
        ----------
        m : int
            Number of pairings; 10 to 20 are usual.
        rng : None, int or Generator, default=None
            Seed of the draws.
        bags : Bags, optional
            The data fitted, where the fit did not keep them.

        Returns
        -------
        ndarray of shape (m, n)
            For each row the place of its label, −1 where a row has none.

        Raises
        ------
        InputError
            For methods without a posterior, and where the data are needed.

        See Also
        --------
        ShuffledLinearRegression.sample_pairings : The same with the model and its references.

        Examples
        --------
        >>> from unshuffle import Bag, fit, make_shuffled
        >>> data = make_shuffled(n=60, d=1, noise=0.1, bags=6, rng=0)
        >>> bags = [Bag(data.X[data.groups == r], data.y[data.groups == r]) for r in range(6)]
        >>> fit(bags, rng=0).sample_pairings(5, rng=0).shape
        (5, 60)
        """
        if isinstance(m, bool) or not isinstance(m, Integral) or m < 1:
            raise InputError(f"m={m!r} is no number of pairings: give a whole number from 1")
        source = self._find_pairings(bags) if self.pairings is None else self.pairings
        return source.draw(int(m), make_rng(rng))

    def _find_pairings(self, bags: Bags | None) -> PairingSource:
        """Return what draws pairings of shuffled labels."""
        if self.stats.mislinked is not None:
            raise InputError(
                "pairings of links of unknown quality are drawn by the fit itself, which files, "
                "pickles and method 'sampler' do not keep: fit again with method 'auto'"
            )
        data = self.data if bags is None else bags
        if data is None:
            raise InputError(
                "this fit keeps no data (more than 10 000 rows, a file or a pickle): give the data "
                "fitted, X, y and groups"
            )
        from unshuffle.inference.pairing_draws import read_shuffled  # not for every fit

        return read_shuffled(data, self.solution.uncertainty, self.method)

    def match(self, bags: Bags) -> Match:
        """Return which label most probably belongs to which row, and how sure that is.

        Parameters
        ----------
        bags : Bags
            The data fitted, or others of the same kind, as `make_bags` gathers them.

        Returns
        -------
        Match
            The order of the labels, and the probability of each match.

        Raises
        ------
        InputError
            Where rows and labels are not the same individuals.

        Examples
        --------
        >>> from unshuffle import Bag, fit, make_bags
        >>> X, y = np.array([[0.0], [1.0], [3.0]]), np.array([1.0, 7.0, 3.0])
        >>> fit([Bag(X, y)], method="ls", rng=0).match(make_bags(X, y)).order.tolist()
        [0, 2, 1]
        """
        return replace(self._match(bags), library=self.library)

    def _match(self, bags: Bags) -> Match:
        posterior, tables = self.posterior, None
        has_links = self.options.mislinked is not None
        if self.fingerprint is not None and fingerprint(bags, has_links) == self.fingerprint:
            tables = self.stats.match_probabilities
        if posterior is not None and posterior.is_thin:
            tables = None  # runs that disagree are no exact answer; the wider draws are kept
        wrong, unsure = self.stats.mislinked, self.solution.uncertainty
        if wrong is not None and unsure is not None and self.method != "likelihood":
            from unshuffle.results.linked_matching import match_links  # heavy, seldom needed

            return match_links(bags, self.coef, self.intercept, unsure, wrong, tables=tables)
        return match_labels(
            bags, self.coef, self.intercept, posterior, tables=tables, method=self.method
        )


def name_draws(
    found: Fit, bag_names: tuple[str, ...] | None = None, data: Bags | None = None
) -> Fit:
    """Return a fit whose posterior knows the names of its columns and bags, and the data."""
    posterior = found.posterior
    if posterior is None:
        return found
    has_intercept, names = bool(found.options.fit_intercept), found.facts.names
    named = replace(
        posterior, names=names, has_intercept=has_intercept, bag_names=bag_names, data=data
    )
    return replace(found, solution=replace(found.solution, uncertainty=named))


def as_fit(fitted: Any) -> Fit:
    """Return the result behind a fitted estimator, or the result itself."""
    if isinstance(fitted, Fit):
        return fitted
    if hasattr(fitted, "get_params"):  # of scikit-learn, which is slow to import
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(fitted)
    found = getattr(fitted, "result_", None)
    if not isinstance(found, Fit):
        raise InputError(
            f"this needs a fitted ShuffledLinearRegression, got {type(fitted).__name__}: of a "
            "pipeline give its last step, with X as the steps before it return it"
        )
    return found


def warn_once(found: Fit, stacklevel: int) -> None:
    """Say at most one thing about convergence, one about the model and one about the data."""
    from sklearn.exceptions import ConvergenceWarning  # slow to import

    misfit = None
    if found.misfits:
        from unshuffle.inference.diagnostics import WARNED_MISFITS  # of fits that have them

        if set(found.misfits) & set(WARNED_MISFITS):
            misfit = describe_misfit(found.solution, found.facts)
    said = [
        (None if found.is_converged else found.status.value, ConvergenceWarning),
        (misfit, ModelMisfitWarning),
        (" ".join(found.remarks), DataWarning),
    ]
    for text, category in said:
        if text:
            warnings.warn(text, category, stacklevel=stacklevel + 1)
