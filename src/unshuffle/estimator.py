"""The scikit-learn estimator: validate, wire, expose; no mathematics."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from unshuffle.bags import make_bags
from unshuffle.errors import InputError, quote
from unshuffle.inference import Summary, check_level, is_identified, make_intervals, summarise
from unshuffle.matching import Match, match_labels
from unshuffle.methods import FitOptions, solve_bags, warn_once
from unshuffle.noise import as_noise
from unshuffle.solution import Solution
from unshuffle.uncertainty import Posterior


class ShuffledLinearRegression(RegressorMixin, BaseEstimator):
    """Linear regression when the labels were shuffled inside known groups.

    The model is y = π(X w + b) + e with an unknown permutation π inside every group: the order
    of `y` inside a group carries no information and is never used.

    Parameters
    ----------
    method : str or object, default="auto"
        A name from `METHODS`, or an object: ``Moments(K, f)``, ``SmallD(D)``,
        ``OrderInvariant(g, p)``, ``Projection(dp)``.
    noise : None, float, sequence or noise object, default=None
        What is known of the noise: nothing, the sd of Gaussian noise, its moments E[e], E[e²], …,
        or ``noise_from_calibration(labels of identical inputs)``.
    l1, l2 : float, default=0.0
        Penalties λ₁|w|₁ and λ₂|w|² on the weights, never on the intercept, added to the loss as
        it is defined in the units of the data (LS: the mean squared gap; SM: unitless).
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    n_starts : int or None, default=None
        Number of starts of the search; None goes on until the best value was reached three times.
    tol : float, default=1e-6
        A start stops when an iteration gains less than this (in units of the labels' variance).
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts; an int makes fits repeatable to the last digit.
    n_jobs : int or None, default=None
        Threads; the result is the same for every number.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The estimated weights.
    intercept_ : float
        The estimated intercept, 0.0 without one.
    method_ : str
        The method used, where "auto" or "paper" chose it.
    solution_ : Solution
        All candidates best first, with the status (a sentence of advice) and statistics.
    noise_ : float or None
        Sd of the noise, given or estimated; None where the method has none.
    identified_ : bool or None
        False when 5 % or more of the posterior lies further than 0.3 |ŵ| from ŵ (weights in units
        of w_j sd(x_j)); None for methods without a posterior.
    posterior_ : Posterior or None
        Weighted draws of the weights and of the noise.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(n=300, d=2, noise=0.1, bags=6, rng=0)
    >>> model = ShuffledLinearRegression(method="ls", random_state=0)
    >>> model.fit(data.X, data.y, groups=data.groups).coef_.round(1).tolist()
    [0.8, -1.3]
    >>> data.weights.round(1).tolist()
    [0.8, -1.3]
    """

    # Asked for by default under metadata routing: without groups the labels' bags are lost.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}

    def __init__(
        self,
        method: Any = "auto",
        noise: Any = None,
        l1: float = 0.0,
        l2: float = 0.0,
        fit_intercept: bool = True,
        n_starts: int | None = None,
        tol: float = 1e-6,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.noise = noise
        self.l1 = l1
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.n_starts = n_starts
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self, X: Any, y: Any, groups: Sequence[Hashable] | None = None
    ) -> ShuffledLinearRegression:
        """Estimate the weights; `groups` says which labels may belong to which rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows; NumPy, pandas and polars are welcome.
        y : array-like of shape (n,)
            Labels; their order inside a group carries no information.
        groups : sequence of n hashable labels, optional
            The bag of each row and of each label; None means one bag.
        """
        X, y = _check_data(self, X, y)
        options = FitOptions(
            self.method,
            self.noise,
            self.l1,
            self.l2,
            bool(self.fit_intercept),
            self.n_starts,
            self.tol,
            self.n_jobs,
        )
        bags = make_bags(X, y, _check_groups(groups, len(y)))
        solution, self.method_ = solve_bags(bags, options, _make_rng(self.random_state))
        weights = solution.weights
        self.coef_ = weights[: bags.d]
        self.intercept_ = float(weights[-1]) if self.fit_intercept else 0.0
        self.solution_ = solution
        self.posterior_ = (
            solution.uncertainty if isinstance(solution.uncertainty, Posterior) else None
        )
        # Spreads of the columns: the verdict measures weights in units of w_j sd(x_j).
        self._scales = X.std(axis=0)
        self._sizes = (bags.n, bags.n_bags)
        self.noise_ = _noise_level(self.noise, solution)
        self.identified_ = is_identified(solution, self._scales)
        warn_once(solution)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return X w + b for each row."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=float)
        return X @ self.coef_ + self.intercept_

    def conf_int(self, level: float = 0.95) -> np.ndarray:
        """Return one row (low, high) per feature, the intercept left out.

        Methods without a posterior refuse: around a biased estimate an interval would cover the
        wrong value.
        """
        check_is_fitted(self)
        return make_intervals(self.solution_, self.method_, level)[: len(self.coef_)]

    def summary(self, level: float = 0.95) -> Summary:
        """Return estimate, intervals, noise and verdict: print it, or use its `to_…` methods."""
        check_is_fitted(self)
        return summarise(
            self.solution_,
            self.method_,
            self._names(),
            self._scales,
            self._sizes,
            self.noise_,
            check_level(level),
        )

    def match(self, X: Any, y: Any, groups: Sequence[Hashable] | None = None) -> Match:
        """Return for each row the index in `y` of its most likely label, and its probability.

        Parameters
        ----------
        X, y, groups
            As in `fit`; the data fitted, or new data of the same kind.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=float)
        y = np.asarray(y, dtype=float).ravel()
        bags = make_bags(X, y, _check_groups(groups, len(y)))
        return match_labels(bags, self.coef_, self.intercept_, self.posterior_)

    def _names(self) -> tuple[str, ...]:
        """Names of the weights, the intercept last."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(len(self.coef_))]
        return (*map(str, names), *(("intercept",) if self.fit_intercept else ()))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Without groups the data of scikit-learn's own checks are one bag, which no method can
        # match to R² > 0.5 in general.
        tags.regressor_tags.poor_score = True
        return tags


def _check_data(model: BaseEstimator, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Validate X and y in scikit-learn's way, with errors that name column, row and way out."""
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] > 1:
        raise InputError(
            f"y should be a 1d array, got shape {tuple(shape)}: fit one label column at a time"
        )
    # The length of a sparse matrix is another thing; scikit-learn refuses it in its own words.
    if hasattr(X, "__len__") and hasattr(y, "__len__") and not issparse(X) and len(X) != len(y):
        raise InputError(
            f"X has {len(X)} rows but y has {len(y)} labels, inconsistent numbers of samples: "
            "give one label for each row, bag by bag"
        )
    try:
        X, y = validate_data(model, X, y, dtype=np.float64, y_numeric=True, ensure_all_finite=False)
    except ValueError as exc:
        offender = _find_text(X) or _find_gap(y)
        if offender is None:
            raise
        raise InputError(offender) from exc
    names = getattr(model, "feature_names_in_", None)
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        name = f"column {column}" if names is None else f"column {quote(names[column])}"
        raise InputError(
            f"X holds {_describe(X[row, column])} in {name}, row {row}: drop the row or fill it in"
        )
    return X, np.asarray(y, dtype=np.float64)


def _noise_level(noise: Any, solution: Solution) -> float | None:
    """Return the noise sd that was given, else the estimated one, else None."""
    given = as_noise(noise)
    if given is not None:
        return given.sd
    return None if solution.uncertainty is None else solution.uncertainty.noise


def _describe(value: float) -> str:
    """Name a number that is none (scikit-learn's checks look for these words)."""
    return "NaN" if np.isnan(value) else "infinity (inf)"


def _find_gap(y: Any) -> str | None:
    """Return a sentence on the first label that is NaN or infinite, if there is one."""
    if y is None or np.asarray(y).dtype.kind == "c":
        return None
    try:
        values = np.asarray(y, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        return None
    bad = np.flatnonzero(~np.isfinite(values))
    if not len(bad):
        return None
    return (
        f"y holds {_describe(values[bad[0]])} in row {bad[0]}: drop the label together with one "
        "row of its bag, or fill it in"
    )


def _find_text(X: Any) -> str | None:
    """Return a sentence on the first entry that is no number, if there is one."""
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        columns = [(quote(name), frame[name].to_list()) for name in frame.columns]
    else:
        array = np.asarray(X, dtype=object)
        if array.ndim != 2:
            return None
        columns = [(str(j), array[:, j].tolist()) for j in range(array.shape[1])]
    for name, values in columns:
        for row, value in enumerate(values):
            if isinstance(value, str | bytes):
                return (
                    f"X holds the text {quote(value)} in column {name}, row {row}: turn categories "
                    "into numbers first, for instance with sklearn's OneHotEncoder(drop='first')"
                )
    return None


def _check_groups(groups: Any, n: int) -> Any:
    """Refuse groups of another length, and groups that are missing."""
    if groups is None:
        return None
    frame = nw.from_native(groups, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame) or (isinstance(groups, np.ndarray) and groups.ndim != 1):
        raise InputError(f"groups must be one column of names, got shape {np.shape(groups)}")
    items = frame.to_list() if isinstance(frame, nw.Series) else groups
    if len(items) != n:
        raise InputError(
            f"groups has {len(items)} entries but there are {n} rows: give the bag of every row"
        )
    is_complete = isinstance(items, np.ndarray) and items.dtype.kind in "iubUS"
    for row, name in enumerate(() if is_complete else items):
        if name is None or name != name:
            raise InputError(f"groups holds {name} in row {row}: give every row a bag, or drop it")
        if not isinstance(name, Hashable):
            raise InputError(
                f"groups holds {quote(name)} in row {row}, which is no name: give numbers or texts"
            )
    return items


def _make_rng(random_state: Any) -> np.random.Generator:
    """Turn scikit-learn's random_state into a generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, dtype=np.uint64))
    return np.random.default_rng(random_state)
