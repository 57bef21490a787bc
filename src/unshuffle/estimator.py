"""The scikit-learn estimator: checks its input, calls `results.fit`, and sets the attributes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from unshuffle.data.bags import Bags, make_bags
from unshuffle.data.outliers import warn_of_outliers
from unshuffle.errors import InputError, MissingGroupsWarning
from unshuffle.formulas.frames import find_library, is_frame, read_frame
from unshuffle.gpu.devices import read_number
from unshuffle.io.dask.pieces import cut_into_pieces, is_dask
from unshuffle.io.dask.rows import map_rows
from unshuffle.io.sources.room import check_room
from unshuffle.methods import find_block_strategy
from unshuffle.objectives.checks import check_range
from unshuffle.options import FitOptions, make_rng
from unshuffle.progress import make_report
from unshuffle.results.fit import Fit, fit_formula, fit_source, fit_table, warn_once
from unshuffle.results.matching import Match
from unshuffle.results.storage import store_model
from unshuffle.results.summary import Summary
from unshuffle.results.verdict import check_level
from unshuffle.scoring import sorted_r2
from unshuffle.validation import check_data, check_groups

if TYPE_CHECKING:
    from unshuffle.data.links import Links
    from unshuffle.options import Frame, MethodLike, ModelOptions, NoiseLike, Seed
    from unshuffle.results.contrasts import Contrast
    from unshuffle.sklearn_types import BaseEstimator, RegressorMixin
else:
    from sklearn.base import BaseEstimator, RegressorMixin


class ShuffledLinearRegression(RegressorMixin, BaseEstimator):
    """Linear regression when the labels were shuffled inside known groups.

    The model is y = π(X w + b) + e with an unknown permutation π inside every group: the order
    of `y` inside a group carries no information and is never used, by `score` neither. Plain K-fold
    cuts groups apart: cross-validate over whole groups, with metadata routing (see `score`).

    Parameters
    ----------
    method : str or object, default="auto"
        A name from `METHODS`, or an object: ``Moments(K, f)``, ``SmallD(D)``,
        ``OrderInvariant(g, p)``, ``Projection(dp)``.
    noise : None, float, sequence or noise object, default=None
        What is known of the noise: nothing, the sd of Gaussian noise, its moments E[e], E[e²], …,
        or ``noise_from_calibration(labels of identical inputs)``.
    l1, l2 : float, default=0.0
        Penalties λ₁|w|₁ and λ₂|w|² on the coefficients, never on the intercept. They are added to
        the loss in the units of the data (LS: the mean squared gap; SM: unitless).
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    n_starts : int or None, default=None
        Number of starts of the search; None: until the best value was reached three times.
        For "likelihood" None means up to 240 starts of the search for modes. "sampler" makes
        independent runs instead, whose number is ``Sampler(n_runs=…)``.
    tol : float, default=1e-6
        A start stops when an iteration gains less than this (in units of the labels' variance).
    bag_offsets : "auto", "none", "estimate", bool or float, default="auto"
        Whether the labels of a bag share an unknown offset: the data decide ("auto"), there is none
        (False, "none"), there is one whose sd is estimated (True, "estimate"), or one of this sd,
        in units of the labels. Only "likelihood" has offsets.
    mislinked : None, float or "estimate", default=None
        None: the order of labels inside a group says nothing. A share from 0 to 1, or "estimate":
        each label stands beside its row, but for this share of them, which were mixed up inside
        their groups (record linkage). Needs method "auto", or "sampler" for few rows.
    device : None, "cpu" or "cuda", default=None
        Where more than 20 000 rows are passed over: on the processor, or on an NVIDIA GPU ("cuda:1"
        for the second of several; needs ``pip install 'unshuffle[gpu]'``). The result is the same
        to the last digit.
    model_holds : bool, default=False
        True declares that the linear model with Gaussian noise (or the noise given) holds, as in
        simulations and calibrated assays: the within-bag likelihood then has full power, the mean
        is straight, and intervals are those of the model. By default the power is calibrated on
        real tables. Only "likelihood" takes it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts; an int makes fits repeatable to the last digit.
    n_jobs : int or None, default=None
        Threads; the result is the same for every number.
    verbose : int, default=0
        1 prints each stage to stderr, and a note when functions are compiled; 2 also how far each
        stage is.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The estimated coefficients. With "likelihood" they are the spatial median of the posterior
        of the pooled slope's population value, w + S⁻¹S_b δ: the slope w inside bags and the share
        of a contextual effect δ of the bags' mean rows that a regression over all rows would see
        (S and S_b are the covariances of the rows and of the bags' mean rows). `conf_int` is about
        the same value. With random bags it is w, with bags of one row ordinary least squares.
    intercept_ : float
        The estimated intercept, 0.0 without one.
    method_ : str
        The method used, where "auto" or "paper" chose it.
    solution_ : Solution
        All candidates best first, with the status (a sentence of advice) and statistics.
    noise_ : float or None
        Sd of the noise, given or estimated; None where the method has none.
    verdict_ : str or None
        "identified": every coefficient has its sign and magnitude determined, or is negligible;
        "partly identified": some are; "not identified": several different answers compete,
        nothing is determined of any coefficient, or the posterior was not sampled well. The
        intercept does not count. None for methods without intervals.
    identified_ : bool or None
        Whether `verdict_` is "identified"; None for methods without intervals.
    model_fits_ : bool or None
        False when the labels do not look as the model predicts, with the reasons in
        ``result_.misfits`` and `summary()`; None where that was not checked. Apart from
        convergence, which is ``solution_.status``.
    bag_offset_probability_, bag_offset_sd_ : float or None
        Posterior probability that bags are offset, and the mean sd of the offsets in units of the
        labels (0 where there are none); None for one bag and for methods without offsets.
    link_probability_ : ndarray of shape (n,) or None
        Probability of each link to be right, where labels stand beside their rows.
    posterior_ : Posterior or None
        The posterior: `sample(n)` returns draws of equal weight by name, `to_arviz()` the same for
        ArviZ; `mean`, `sd` and `cov`; `draws` with their importance weights `shares`.
    result_ : Fit
        The result from which all of these come, as `unshuffle.fit` returns it.

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

    n_features_in_: int
    feature_names_in_: np.ndarray
    # Whether this is a clone of an estimator that was fitted with groups.
    _comes_from_groups = False

    # Requested by default under metadata routing: without groups the bags are lost, and without
    # anchors the known pairs.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {
        "groups": True,
        "anchors": True,
        "links": True,
    }
    __metadata_request__score: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"groups": True}

    def __init__(
        self,
        method: MethodLike = "auto",
        noise: NoiseLike = None,
        l1: float = 0.0,
        l2: float = 0.0,
        fit_intercept: bool = True,
        n_starts: int | None = None,
        tol: float = 1e-6,
        bag_offsets: str | bool | float = "auto",
        mislinked: str | float | None = None,
        device: str | None = None,
        model_holds: bool = False,
        random_state: Seed = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.noise = noise
        self.l1 = l1
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.n_starts = n_starts
        self.tol = tol
        self.bag_offsets = bag_offsets
        self.mislinked = mislinked
        self.device = device
        self.model_holds = model_holds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        groups: Iterable[Hashable] | None = None,
        *,
        anchors: Any = None,
        links: Links | None = None,
    ) -> ShuffledLinearRegression:
        """Estimate the coefficients; `groups` says which labels may belong to which rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows; NumPy, pandas and polars are welcome, and frames and arrays of Dask, whose
            partitions stay where they are. `y` and `groups` are then of Dask too.
        y : array-like of shape (n,)
            Labels; their order inside a group carries no information.
        groups : sequence of n hashable labels, optional
            The bag of each row and of each label; None means one bag. The column itself, not its
            name: ``fit(frame.drop(columns=["pool", "y"]), frame["y"], groups=frame["pool"])``.
        anchors : sequence, optional
            Pairs that are known: True for each row whose label stands beside it in `y`, or the
            numbers of these rows, or for each row the place of its label in `y` (-1 where it is
            not known). A known pair counts as in ordinary regression.
        links : Links, optional
            Labels stand beside their rows, but some links are wrong: match probabilities, the
            mismatch rate, an audit, or safe pairs. Without any of the first three the rate is
            estimated.

        Returns
        -------
        ShuffledLinearRegression
            The fitted estimator.

        Raises
        ------
        InputError
            For data or options that make no sense: one line that names the way out.

        Warns
        -----
        ModelMisfitWarning
            Where the labels do not look as the model predicts.
        MissingGroupsWarning
            Where the estimator, or the one it was cloned from, was fitted with groups before.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression, make_shuffled
        >>> data = make_shuffled(n=300, d=2, noise=0.1, bags=6, rng=0)
        >>> model = ShuffledLinearRegression(method="ls", random_state=0)
        >>> model.fit(data.X, data.y, groups=data.groups).coef_.round(1).tolist()
        [0.8, -1.3]
        """
        if groups is None:
            self._warn_of_groups("fitted again")
        options = self._options()
        is_remote = is_dask(X) or is_dask(y) or is_dask(groups)
        has_links = self.mislinked is not None or links is not None
        if is_remote and (anchors is not None or has_links):
            raise InputError(
                "data of Dask have no order in which links could be known: gather them with "
                "compute() to fit with anchors or mislinked"
            )
        if is_remote and read_number(self.device) is not None:
            raise InputError(
                f"device={self.device!r} is for data in memory, and data of Dask stay with its "
                "workers: leave device out, or gather them with compute()"
            )
        if is_remote:
            found = self._fit_dask(X, y, groups, options)
        else:
            found = self._fit_arrays(X, y, groups, options, anchors, links)
        # Rows of Dask have pandas' names.
        library = "pandas" if is_dask(X) and hasattr(X, "columns") else find_library(X)
        self._set_results(replace(found, library=library))
        warn_once(found, stacklevel=2)
        return self

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: Any,
        bags: Any = None,
        *,
        anchors: Any = None,
        links: Links | None = None,
        **options: Unpack[ModelOptions],
    ) -> ShuffledLinearRegression:
        """Fit a formula to a frame; `predict` then rebuilds the columns from new frames.

        Parameters
        ----------
        formula : str
            Such as ``"log(y) ~ x1 * C(x2, Treatment('b')) + bs(x3, df=4)"`` (Wilkinson and Rogers
            1973): factors with a base level, interactions, transformations and splines. ``.`` is
            every other column, ``- 1`` means no intercept. Needs ``pip install
            'unshuffle[formula]'``.
        data : frame or mapping of str to array-like
            Rows and labels: pandas, polars, or a dictionary of columns.
        bags : str or sequence of n hashable labels, optional
            The column of bags, or the bag of each row. Without it all rows form one bag.
        anchors : str or sequence, optional
            Pairs that are known, as in `fit`, or their column.
        links : Links, optional
            What is known of links, as in `fit`.
        **options
            Parameters of the estimator. The formula says whether there is an intercept.

        Returns
        -------
        ShuffledLinearRegression
            The fitted estimator. `predict`, `predict_interval`, `score` and `match` take frames
            with the columns that the formula names.

        Raises
        ------
        InputError
            For formulas that are none, unknown columns and functions, and missing values.

        See Also
        --------
        unshuffle.fit : The same without scikit-learn.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression, make_shuffled
        >>> made = make_shuffled(n=300, d=2, noise=0.1, bags=10, rng=0)
        >>> frame = {"a": made.X[:, 0], "b": made.X[:, 1], "y": made.y, "pool": made.groups}
        >>> model = ShuffledLinearRegression.from_formula(
        ...     "y ~ a + a:b", frame, bags="pool", method="means")
        >>> model.feature_names_in_.tolist()
        ['a', 'a:b']
        >>> model.predict({"a": [1.0, 2.0], "b": [0.0, 1.0]}).shape
        (2,)
        """
        if "fit_intercept" in options:
            raise InputError("a formula says whether there is an intercept: write '- 1' for none")
        model = cls(**options)
        rng, report = make_rng(model.random_state), make_report(model.verbose)
        found = fit_formula(
            formula, data, bags, model._options(), rng, report, anchors, links, stacklevel=2
        )
        model.fit_intercept = found.options.fit_intercept
        model._set_results(found)
        model.feature_names_in_ = np.array(found.facts.names[: len(found.coef)], dtype=object)
        model.n_features_in_ = len(found.coef)
        warn_once(found, stacklevel=2)
        return model

    def _options(self) -> FitOptions:
        """Return what a fit is asked for."""
        return FitOptions(
            self.method,
            self.noise,
            self.l1,
            self.l2,
            bool(self.fit_intercept),
            self.n_starts,
            self.tol,
            self.n_jobs,
            self.bag_offsets,
            self.mislinked,
            self.device,
            self.model_holds,
        )

    def _fit_arrays(
        self,
        X: Any,
        y: Any,
        groups: Any,
        options: FitOptions,
        anchors: Any = None,
        links: Links | None = None,
    ) -> Fit:
        X, y = check_data(self, X, y, reset=True)
        names = getattr(self, "feature_names_in_", None)
        warn_of_outliers(X, y, names, stacklevel=3)
        groups = check_groups(groups, len(y))
        rng, report = make_rng(self.random_state), make_report(self.verbose)
        return fit_table(X, y, groups, options, rng, names, report, anchors=anchors, links=links)

    def _fit_dask(self, X: Any, y: Any, groups: Any, options: FitOptions) -> Fit:
        """Fit in blocks where the partitions lie; gather what is no matter of blocks."""
        from unshuffle.io.dask.source import as_dask_source

        pieces, empty = cut_into_pieces(X, y, groups)
        source = as_dask_source(pieces)
        settings = find_block_strategy(options, source.n)
        if settings is None:
            check_room(source.n, source.d + 1, "data of Dask", f"method '{options.method}'")
            rows, labels, codes = source.gather()
            has_names = hasattr(empty, "columns")
            table = type(empty)(rows, columns=empty.columns) if has_names else rows
            return self._fit_arrays(table, labels, codes, options)
        validate_data(self, empty, reset=True, skip_check_array=True)
        names = getattr(self, "feature_names_in_", None)
        rng, report = make_rng(self.random_state), make_report(self.verbose)
        return fit_source(source, options, settings, rng, names, report)

    def _set_results(self, found: Fit) -> None:
        """Set the attributes of a fitted model."""
        self.result_ = found
        self.method_ = found.method
        self.coef_, self.intercept_ = found.coef, found.intercept
        self.solution_, self.posterior_ = found.solution, found.posterior
        self.noise_ = found.noise
        self.verdict_, self.identified_ = found.verdict, found.identified
        self.model_fits_ = found.model_fits
        offsets = found.effects
        self.bag_offset_probability_ = None if offsets is None else offsets.offset_probability
        self.link_probability_ = found.solution.stats.link_probability
        self.bag_offset_sd_ = None if offsets is None else offsets.offset_sd

    def __sklearn_clone__(self) -> ShuffledLinearRegression:
        """Return an unfitted copy, which remembers whether this one was fitted with groups."""
        copy = super().__sklearn_clone__()
        if self._had_groups():
            copy._comes_from_groups = True
        return copy

    def _had_groups(self) -> bool:
        """Return whether this estimator, or the one it was cloned from, was fitted with groups."""
        found = getattr(self, "result_", None)
        return self._comes_from_groups if found is None else found.facts.n_bags > 1

    def _warn_of_groups(self, done: str) -> None:
        """Warn of missing groups where a fit had them."""
        if self._had_groups():
            warnings.warn(
                f"a model of several groups is {done} without groups, so that all rows are one "
                "bag: give groups, in scikit-learn's tools by metadata routing "
                "(sklearn.set_config(enable_metadata_routing=True))",
                MissingGroupsWarning,
                stacklevel=3,
            )

    def _read_rows(self, X: Any) -> Any:
        """Return rows for validation: a formula makes its columns from a frame."""
        formula = self.result_.formula
        if formula is None or not is_frame(X):
            return X
        if list(getattr(X, "columns", [])) == self.feature_names_in_.tolist():
            return X  # it has the columns already
        return read_frame(dict(zip(formula.names, formula.build(X).T, strict=True)))

    def _read_labels(self, X: Any, y: Any) -> Any:
        """Return labels for validation, transformed as the formula says where X is a frame."""
        formula = self.result_.formula
        if formula is None or not formula.is_transformed or not is_frame(X):
            return y
        return formula.build_label(y, X)

    def _read_bags(self, X: Any, y: Any, groups: Iterable[Hashable] | None, anchors: Any) -> Bags:
        """Return rows and labels of a fitted model as bags."""
        labels, rows = self._read_labels(X, y), self._read_rows(X)
        rows, labels = check_data(self, rows, labels, reset=False)
        return make_bags(rows, labels, check_groups(groups, len(labels)), anchors)

    def _html_repr(self) -> str:
        """Return what a notebook shows: a card once fitted, scikit-learn's diagram before."""
        if not hasattr(self, "result_"):
            return str(super()._html_repr())
        return self.result_.summary().to_card(" ".join(repr(self).split()))

    @overload
    def predict(
        self,
        X: Any,
        return_std: Literal[False] = False,
        groups: Iterable[Hashable] | None = None,
    ) -> np.ndarray: ...

    @overload
    def predict(
        self, X: Any, return_std: Literal[True], groups: Iterable[Hashable] | None = None
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        groups: Iterable[Hashable] | None = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return X w + b for each row, and with `return_std` also the sd of a label there.

        Rows of bags that were fitted, named by `groups`, get the posterior mean of their labels.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows; after a fit by a formula a frame with the columns that it names. Dask input
            returns lazy Dask output.
        return_std : bool, default=False
            Whether to return the posterior predictive sd of a label too: coefficients, noise, the
            random and contextual effect of the row's bag, and the curvature of the mean function,
            where the model has them. It is infinite where the data say nothing: in a column that
            did not vary.
        groups : sequence of n hashable labels, optional
            The bag of each row. The prediction for a bag that was fitted includes its effect, and
            the curvature of the mean function; all other rows, and all rows without `groups`, are
            of new bags.

        Returns
        -------
        ndarray of shape (n,), or two of them
            Predictions, with `return_std` also their sds. After a fit by a formula they are of the
            transformed label.

        Raises
        ------
        InputError
            With `return_std` for methods without intervals.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression
        >>> model = ShuffledLinearRegression("ls", random_state=0)
        >>> model.fit([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]).predict([[2.0]]).round(6).tolist()
        [5.0]
        """
        check_is_fitted(self)
        if is_dask(X):
            _refuse_groups(groups)
            z = map_rows(X, lambda part: np.asarray(self.predict(part)))
            return (z, map_rows(X, lambda part: self.predict(part, True)[1])) if return_std else z
        X = validate_data(self, self._read_rows(X), reset=False, dtype=float)
        bags = check_groups(groups, len(X))
        z = self.result_.predict(X, bags)
        return (z, self.result_.predict_sd(X, bags)) if return_std else z

    def predict_interval(
        self,
        X: Any,
        level: float = 0.95,
        new_label: bool = False,
        groups: Iterable[Hashable] | None = None,
        alpha: float | None = None,
    ) -> np.ndarray:
        """Return one row (low, high) for each row of X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `predict`.
        level : float, default=0.95
            Posterior probability of the interval.
        new_label : bool, default=False
            False: the interval of X w + b. True: that of a label yet to be measured, with noise
            (Gaussian, of the sd given or estimated), the random and contextual effect of the row's
            bag, and the curvature of the mean function, where the model has them.
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
        >>> from unshuffle import ShuffledLinearRegression, make_shuffled
        >>> data = make_shuffled(n=60, d=1, noise=0.1, bags=6, rng=0)
        >>> model = ShuffledLinearRegression("means").fit(data.X, data.y, data.groups)
        >>> model.predict_interval(data.X, alpha=0.1).shape
        (60, 2)
        """
        check_is_fitted(self)
        level = check_level(level, alpha)
        if is_dask(X):
            _refuse_groups(groups)
            self.conf_int(level)  # refuses now what would fail on workers
            interval = partial(self.predict_interval, level=level, new_label=new_label)
            return map_rows(X, interval, ("low", "high"))
        X = validate_data(self, self._read_rows(X), reset=False, dtype=float)
        return self.result_.predict_interval(X, level, new_label, check_groups(groups, len(X)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keep the fitted model in a JSON file, which `unshuffle.load` reads.

        It holds numbers and names, the draws of the posterior and the formula included, and no
        code; no row or label of the data is in it.

        Parameters
        ----------
        path : str or path-like
            The file, replaced where it exists.

        Raises
        ------
        InputError
            For methods and noises with functions of your own, which a file cannot keep.

        Warns
        -----
        SavedSeedWarning
            Where `random_state` is a generator: the loaded model has None.

        Examples
        --------
        >>> import tempfile
        >>> from unshuffle import ShuffledLinearRegression, load
        >>> model = ShuffledLinearRegression("ls", random_state=0)
        >>> model = model.fit([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.json")
        ...     load(f"{folder}/model.json").predict([[2.0]]).round(6).tolist()
        [5.0]
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        store_model(path, self.result_, self.get_params(deep=False), names)

    def score(
        self,
        X: Any,
        y: Any,
        groups: Iterable[Hashable] | None = None,
        sample_weight: None = None,
    ) -> float:
        """Return 1 − Σ(ŷ↑ − y↑)²/Σ(y − ȳ)², labels and predictions sorted inside each group.

        The order of `y` inside a group is never used, so that this is no R² of linked labels, but
        never below it: where links are known, that is
        ``sklearn.metrics.r2_score(linked_y, model.predict(X))``. Groups of one row are links.

        Plain K-fold cuts groups apart and breaks the pairing: split by whole groups
        (``GroupKFold``), under ``sklearn.set_config(enable_metadata_routing=True)``, so that the
        groups of each fold reach `fit` and `score`, which both ask for them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `predict`.
        y : array-like of shape (n,)
            Labels; after a fit by a formula in the units of the frame, if X is a frame.
        groups : sequence of n hashable labels, optional
            The bag of each row and of each label, as in `fit`.
        sample_weight : None
            There are no weights of rows: which label a row has is not known. It stands here for
            scikit-learn's pipelines, which always name it.

        Returns
        -------
        float
            The score; 1 is best.

        Raises
        ------
        InputError
            For a `sample_weight`, and for rows and labels of different number.

        Warns
        -----
        MissingGroupsWarning
            Without groups, where the fit had some.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression, make_shuffled
        >>> data = make_shuffled(n=60, d=1, noise=0.0, bags=6, rng=0)
        >>> model = ShuffledLinearRegression("means").fit(data.X, data.y, data.groups)
        >>> round(model.score(data.X, data.y, data.groups), 6)
        1.0
        """
        check_is_fitted(self)
        if sample_weight is not None:
            raise InputError(
                "score has no sample_weight: which label belongs to a row is not known; repeat "
                "rows and labels instead, or leave it out"
            )
        if groups is None:
            self._warn_of_groups("scored")
        labels, X = self._read_labels(X, y), self._read_rows(X)
        rows, labels = check_data(self, X, labels, reset=False)
        return sorted_r2(labels, self.predict(X), check_groups(groups, len(rows)))

    def conf_int(
        self, level: float = 0.95, intercept: bool = False, alpha: float | None = None
    ) -> np.ndarray | Frame:
        """Return the interval of each coefficient.

        The intervals are of the population value of the pooled slope, as `coef_` is. A coefficient
        of which the data say nothing (of a constant column, or where nothing varies) has the row
        (-inf, inf); `summary()` shows it without an interval, and a remark says why.

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
            One row (low, high) per coefficient. Where X was a frame of pandas or polars, a frame
            of that library with the columns low and high; pandas' index has the names.
            ``np.asarray`` of it is the same array.

        Raises
        ------
        InputError
            For methods without intervals: around a biased estimate an interval would cover the
            wrong value.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression, make_shuffled
        >>> data = make_shuffled(n=60, d=1, noise=0.1, bags=6, rng=0)
        >>> model = ShuffledLinearRegression("means").fit(data.X, data.y, data.groups)
        >>> model.conf_int(alpha=0.1).shape
        (1, 2)
        """
        check_is_fitted(self)
        ends: np.ndarray | Frame = self.result_.conf_int(level, intercept, alpha)
        return ends

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
        >>> from unshuffle import ShuffledLinearRegression, make_shuffled
        >>> data = make_shuffled(n=60, d=2, noise=0.1, bags=6, rng=0)
        >>> model = ShuffledLinearRegression("means").fit(data.X, data.y, data.groups)
        >>> difference = model.contrast("x0 - x1")
        >>> difference.low < difference.estimate < difference.high
        True
        """
        check_is_fitted(self)
        return self.result_.contrast(expression, level, alpha)

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
        >>> from unshuffle import ShuffledLinearRegression
        >>> model = ShuffledLinearRegression("ls", random_state=0)
        >>> model.fit([[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]).summary()
        Not assessed: method 'ls' has no intervals here.
        <BLANKLINE>
        coefficient  estimate
        x0                  2
        intercept           1
        <BLANKLINE>
        method ls · 3 rows · 1 feature · one bag · no intervals
        Several starts reached the best value: the minimum found is probably the lowest.
        """
        check_is_fitted(self)
        return self.result_.summary(level, detail, alpha)

    def match(
        self, X: Any, y: Any, groups: Iterable[Hashable] | None = None, *, anchors: Any = None
    ) -> Match:
        """Return for each row the index in `y` of the label of its rank, and its probability.

        Inside a bag the row with the smallest prediction gets the smallest label, and so on: given
        the estimate this is the most likely order as a whole. The label of one row may still be
        less probable than another, which its probability shows. Equal labels of a bag are one
        label, with their probabilities added; `verdict` says how sure the matches are.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `predict`: the data fitted, or new data of the same kind.
        y : array-like of shape (n,)
            Labels, as in `score`.
        groups : sequence of n hashable labels, optional
            The bag of each row and of each label, as in `fit`.
        anchors : sequence, optional
            Pairs that are known, as in `fit`. They stay together.

        Returns
        -------
        Match
            The order of the labels, and the probability of each match.

        Raises
        ------
        InputError
            For rows and labels of different number.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression
        >>> X, y = [[0.0], [1.0], [3.0]], [1.0, 7.0, 3.0]
        >>> ShuffledLinearRegression("ls", random_state=0).fit(X, y).match(X, y).order.tolist()
        [0, 2, 1]
        """
        check_is_fitted(self)
        bags = self._read_bags(X, y, groups, anchors)
        check_range(bags, getattr(self, "feature_names_in_", None))
        return self.result_.match(bags)

    def sample_pairings(
        self,
        m: int,
        rng: Any = None,
        *,
        X: Any = None,
        y: Any = None,
        groups: Iterable[Hashable] | None = None,
        anchors: Any = None,
    ) -> np.ndarray:
        """Draw m whole pairings from the posterior: which label belongs to which row.

        Coefficients and noise are drawn from the posterior behind `conf_int`, and a pairing given
        them by Gibbs sampling. ``y[pairing]`` completes the data: run any other analysis on each of
        m completed tables, and combine the results with `unshuffle.pool` (Rubin's rules).

        Parameters
        ----------
        m : int
            Number of pairings; 10 to 20 are usual.
        rng : None, int or Generator, default=None
            Seed of the draws.
        X : array-like of shape (n, d), optional
            The rows fitted. Data are needed where the fit keeps none: above 10 000 rows of shuffled
            data, and after loading a model.
        y : array-like of shape (n,), optional
            The labels fitted.
        groups : sequence of n hashable labels, optional
            The bags fitted.
        anchors : sequence, optional
            The pairs that were known.

        Returns
        -------
        ndarray of shape (m, n)
            For each row the index in `y` of its label, −1 where a row has none.

        Raises
        ------
        InputError
            For methods without a posterior, and for labels of other individuals than the rows.

        See Also
        --------
        match : The most likely pairing, with probabilities.
        unshuffle.pool : Rubin's rules.

        References
        ----------
        Rubin, D. B. (1987). *Multiple Imputation for Nonresponse in Surveys*. Wiley.

        Examples
        --------
        >>> from unshuffle import ShuffledLinearRegression, make_shuffled
        >>> data = make_shuffled(n=60, d=1, noise=0.1, bags=6, rng=0)
        >>> model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
        >>> pairings = model.sample_pairings(5, rng=0)
        >>> pairings.shape, bool((data.groups[pairings] == data.groups).all())
        ((5, 60), True)
        """
        check_is_fitted(self)
        if X is None:
            return self.result_.sample_pairings(m, rng)
        return self.result_.sample_pairings(m, rng, self._read_bags(X, y, groups, anchors))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The data of scikit-learn's checks are one bag without groups, in which no method reaches
        # R² > 0.5 in general.
        tags.regressor_tags.poor_score = True
        return tags


def _refuse_groups(groups: Any) -> None:
    """Refuse bags for rows of Dask, whose partitions are predicted one by one."""
    if groups is not None:
        raise InputError(
            "groups are for rows in memory: gather rows of Dask with compute(), or leave groups out"
        )
