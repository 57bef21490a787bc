"""Uncertainty of the weights: weighted draws from a posterior, or Student's t distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unshuffle.core.mean_function import TERMS, take_power
from unshuffle.data.products import BATCH_NUMBERS, dot, multiply
from unshuffle.errors import InputError
from unshuffle.formatting import align, show_number, split_numbers
from unshuffle.options import make_rng

if TYPE_CHECKING:
    from unshuffle.data.bags import Bags

# Precision of a quantile of a mixture, as a share of the range it is searched in.
_QUANTILE_TOL = 1e-10


def root_sum_square(rows: np.ndarray) -> np.ndarray:
    """Return the root of the sum of squares of each column, also where the squares overflow.

    >>> (root_sum_square(np.array([[3e200], [4e200]])) / 1e200).round(6).tolist()
    [5.0]
    """
    largest = np.abs(rows).max(axis=0, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(largest * np.sqrt(((rows / unit) ** 2).sum(axis=0)))


class Uncertainty(ABC):
    """Uncertainty of the weights [features …, intercept] around an estimate."""

    # Whether a posterior could not be sampled well.
    is_thin: bool = False
    # Positions of weights of which the data say nothing.
    unknown: tuple[int, ...] = ()

    @property
    @abstractmethod
    def noise(self) -> float | None:
        """Estimated sd of the noise."""

    @property
    @abstractmethod
    def has_interval(self) -> bool:
        """Whether there are intervals."""

    @property
    @abstractmethod
    def sd(self) -> np.ndarray:
        """The sd of each weight: of the posterior, or the standard error."""

    @abstractmethod
    def interval(self, level: float) -> np.ndarray:
        """Return one row (low, high) per weight."""

    @abstractmethod
    def sd_at(self, rows: np.ndarray, bags: np.ndarray | None = None) -> np.ndarray:
        """Return the sd of a new label at rows of as many columns as there are weights.

        `bags` are numbers of the bags fitted, −1 for new ones; None means a new bag throughout.
        """

    @abstractmethod
    def interval_at(
        self, rows: np.ndarray, level: float, new_label: bool, bags: np.ndarray | None = None
    ) -> np.ndarray:
        """Return (low, high) of the prediction, or of a new label, at every row.

        The prediction for a new bag is linear; that for a known bag is the mean of its labels.
        """

    @abstractmethod
    def sd_of(self, factors: np.ndarray) -> float:
        """Return the sd of a linear combination of the weights."""

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return n draws of the weights, and of the noise sd."""

    @abstractmethod
    def mapped(self, to_user: Callable[[np.ndarray], np.ndarray], scale: float) -> Uncertainty:
        """Return the same in other units: `to_user` is affine, the noise grows by `scale`."""


def _read_terms(values: np.ndarray) -> np.ndarray:
    """Return draws of terms (m, T) from a file, where those of one term are a vector."""
    return values[:, None] if values.ndim == 1 else values


def _write_terms(values: np.ndarray) -> np.ndarray:
    """Return what `_read_terms` reads."""
    return values[:, 0] if values.shape[1] == 1 else values


_OF_TERMS = {"read": _read_terms, "write": _write_terms}


@dataclass(frozen=True, eq=False)
class ModelDraws:
    """Draws of slopes inside bags, mean function and bag effects, in standard units.

    Predictions need them beside pooled coefficients and noise.

    The mean of a label at the standardised row x of bag r is, with z = within · x,

        level + z + Σ curve (zᵏ − signal) + bag_effect_r.

    The pooled slopes are within + bends + pooled_contexts. In a new bag the effect has mean
    pooled_contexts · x and sd `effect_sds`.

    Attributes
    ----------
    within, bends, pooled_contexts : (m, d), parts of the pooled slopes: inside bags, by the terms
        of the mean function, by contextual effects.
    curves, signals : (m, T), coefficients of the terms of the mean function (`TERMS`), and mean
        powers of z.
    effect_sds : (m,), sd of the effect of a new bag, random and contextual.
    bag_effects : (m, H), effects of the bags fitted, in their canonical order; None for very many.
    centre, factors : (d,), standard rows are (X − centre) factors.
    has_intercept : whether the columns are centred and there is an intercept.
    label_scale : labels in the user's units for one standard unit.
    """

    within: np.ndarray
    bends: np.ndarray
    pooled_contexts: np.ndarray
    curves: np.ndarray = field(metadata=_OF_TERMS)
    signals: np.ndarray = field(metadata=_OF_TERMS)
    effect_sds: np.ndarray
    bag_effects: np.ndarray | None
    centre: np.ndarray
    factors: np.ndarray
    has_intercept: bool
    label_scale: float = 1.0

    def at(self, chosen: np.ndarray) -> ModelDraws:
        """Return some of the draws."""
        effects = None if self.bag_effects is None else self.bag_effects[chosen]
        return replace(
            self,
            within=self.within[chosen],
            bends=self.bends[chosen],
            pooled_contexts=self.pooled_contexts[chosen],
            curves=self.curves[chosen],
            signals=self.signals[chosen],
            effect_sds=self.effect_sds[chosen],
            bag_effects=effects,
        )

    def bend(self, X: np.ndarray) -> np.ndarray | float:
        """Return the mean less the linear prediction at rows of a new bag, (n, m)."""
        if not self.curves.any():
            return 0.0
        rows = (X - self.centre) * self.factors
        z = multiply(rows, self.within.T)
        bent = np.zeros(z.shape)
        for term, curve, signal in zip(TERMS, self.curves.T, self.signals.T, strict=False):
            bent += curve * (take_power(z, term.degree) - signal)
        bent -= multiply(rows, self.bends.T)
        return np.asarray(self.label_scale * bent)

    def tilt(self, X: np.ndarray) -> np.ndarray | float:
        """Return what contextual effects add to the pooled slopes, at rows of one bag, (n, m)."""
        if not self.pooled_contexts.any():
            return 0.0
        rows = (X - self.centre) * self.factors
        return self.label_scale * multiply(rows, self.pooled_contexts.T)

    def shift(self, X: np.ndarray, bags: np.ndarray) -> np.ndarray:
        """Return the mean in bags (by number) less the mean in a new bag at rows, (n, m)."""
        assert self.bag_effects is not None
        rows = (X - self.centre) * self.factors
        shift = self.bag_effects.T[bags] - multiply(rows, self.pooled_contexts.T)
        return np.asarray(self.label_scale * shift)

    def mapped(self, to_user: Callable[[np.ndarray], np.ndarray], scale: float) -> ModelDraws:
        """Return the same for rows and labels in other units; `to_user` is affine."""
        d = self.within.shape[1]
        size = len(self.centre) + self.has_intercept
        base = to_user(np.zeros(size))
        moved = to_user(np.eye(size)[:d]) - base
        own = np.diagonal(moved[:, :d])
        safe = np.where(own != 0.0, own, 1.0)
        centre = -moved[:, -1] / safe if size > d else np.zeros(d)
        return replace(self, centre=centre, factors=own / scale, label_scale=scale)


@dataclass(frozen=True, eq=False)
class Posterior(Uncertainty):
    """Weighted draws from the posterior; `sample` returns draws of equal weight.

    The draws come from importance sampling, and count as their importance weights say: `shares`.
    Use `sample` or `to_arviz` for tools that expect draws of equal weight.

    Attributes
    ----------
    draws : ndarray of shape (m, d)
        Weighted draws of the coefficients, the intercept last.
    draw_weights, shares : ndarray of shape (m,)
        Importance weights of the draws, and the same adding up to one.
    sigma : ndarray of shape (m,)
        The noise sd of each draw.
    names : tuple of str
        Names of the columns of `draws`.
    bag_names : tuple of str or None
        Names of the bags fitted, in the order of ``model.bag_effects``.
    mean, sd, cov : ndarray
        Posterior mean, sd and covariance of the coefficients, the intercept last.
    noise : float or None
        Posterior mean of the noise sd.
    unknown : tuple of int
        Positions of coefficients of which the data say nothing: their interval is the whole line,
        whatever the draws. Without `has_noise` the same holds for the noise.

    is_thin : bool
        Whether the posterior could not be sampled well.
    has_noise : bool
        Whether the noise is part of the posterior.
    model : ModelDraws or None
        Draws of what predictions need beside the coefficients.
    has_intercept : bool
        Whether the last column is the intercept.
    data : Bags or None
        The data fitted, while they are few.

    Examples
    --------
    >>> draws, weights = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
    >>> posterior = Posterior(draws, weights, np.ones(3))
    >>> posterior.mean.tolist(), posterior.noise
    ([1.0], 1.0)
    >>> sample = posterior.sample(400, rng=0)
    >>> sorted(sample), round(float(sample["x0"].mean()), 1)
    (['noise', 'x0'], 1.0)
    """

    draws: np.ndarray
    draw_weights: np.ndarray
    sigma: np.ndarray
    # Whether the sampler failed to explore the posterior. The draws are then of a tempered
    # likelihood, wider than the posterior if the modes found are those that matter.
    is_thin: bool = False
    unknown: tuple[int, ...] = ()
    has_noise: bool = True
    # What predictions need beside; None where the model is linear without bag effects.
    model: ModelDraws | None = None
    # Names of the columns of the draws, and whether the last is the intercept.
    names: tuple[str, ...] = ()
    has_intercept: bool = False
    # Names of the bags fitted; None where their effects are not kept.
    bag_names: tuple[str, ...] | None = None
    # The data fitted, while they are few: neither files nor pickles keep them.
    data: Bags | None = field(default=None, repr=False, metadata={"is_kept": False})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "data": None}

    def __repr__(self) -> str:
        """Return mean and sd of each coefficient, and how many draws they rest on."""
        n, size = len(self.draws), 1.0 / float((self.shares**2).sum())
        names = self.names or tuple(f"x{j}" for j in range(self.draws.shape[1]))
        cells = [("coefficient", "mean", "sd")]
        cells += [
            (name, show_number(mean), show_number(sd))
            for name, mean, sd in zip(names, self.mean.tolist(), self.sd.tolist(), strict=True)
        ]
        head = f"Posterior: {n} weighted draws, effective size {size:.0f}"
        return "\n".join([head, *align(cells)])

    @cached_property
    def shares(self) -> np.ndarray:
        """The draws' weights, adding up to one."""
        return self.draw_weights / self.draw_weights.sum()

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean of the coefficients."""
        return np.asarray((self.shares[:, None] * self.draws).sum(axis=0))

    @property
    def sd(self) -> np.ndarray:
        """Posterior sd of each weight, infinite where the data say nothing."""
        gaps = self.draws - self.mean
        sd = root_sum_square(gaps * np.sqrt(self.shares)[:, None])
        sd[list(self.unknown)] = np.inf
        return sd

    @property
    def cov(self) -> np.ndarray:
        """Posterior covariance of the coefficients, NaN where the data say nothing."""
        gaps = self.draws - self.mean
        with np.errstate(over="ignore"):
            cov = multiply((gaps * self.shares[:, None]).T, gaps)
        cov[list(self.unknown)] = np.nan
        cov[:, list(self.unknown)] = np.nan
        return cov

    @property
    def noise(self) -> float | None:
        return dot(self.shares, self.sigma) if self.has_noise else None

    @property
    def has_interval(self) -> bool:
        return True

    def interval(self, level: float) -> np.ndarray:
        tail = (1.0 - level) / 2
        ends = np.stack([self.quantiles(draws, (tail, 1.0 - tail)) for draws in self.draws.T])
        ends[list(self.unknown)] = -np.inf, np.inf
        return ends

    def sd_of(self, factors: np.ndarray) -> float:
        if factors[list(self.unknown)].any():
            return np.inf
        values = multiply(self.draws, factors[:, None])
        gaps = values - (self.shares[:, None] * values).sum(axis=0)
        return float(root_sum_square(gaps * np.sqrt(self.shares)[:, None])[0])

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        pick = rng.choice(len(self.shares), n, p=self.shares)
        return self.draws[pick], self.sigma[pick]

    def resample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return positions of n draws of equal weight, in random order.

        Systematic resampling (Kitagawa 1996; Douc, Cappé and Moulines 2005): each draw is taken
        as often as its share says, up or down to a whole number.

        Parameters
        ----------
        n : int
            Number of draws.
        rng : Generator
            The source of randomness.

        Returns
        -------
        ndarray of shape (n,)
            Positions in `draws`.

        Raises
        ------
        InputError
            For numbers of draws below 1.

        Examples
        --------
        >>> draws, weights = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
        >>> posterior = Posterior(draws, weights, np.ones(3))
        >>> sorted(posterior.resample(4, np.random.default_rng(0)).tolist())
        [0, 1, 1, 2]
        """
        if not n > 0:
            raise InputError(f"n must be a number of draws above 0, got {n}")
        places = (np.arange(n) + rng.random()) / n
        chosen = np.searchsorted(np.cumsum(self.shares), places)
        return rng.permutation(np.minimum(chosen, len(self.shares) - 1))

    def sample(self, n: int = 1000, rng: Any = None) -> dict[str, np.ndarray]:
        """Return draws of equal weight, by name.

        Parameters
        ----------
        n : int, default=1000
            Number of draws. More than the effective sample size repeat each other.
        rng : None, int or Generator, default=None
            Seed of the resampling.

        Returns
        -------
        dict of str to ndarray of shape (n,)
            Each coefficient and the intercept by its name, and "noise" (its sd). Where bag effects
            are part of the model, "bag_sd" (sd of the effect of a new bag, for rows like those of
            the fit) and "bag[name]" for each bag fitted: what its labels lie above those of a new
            bag at the mean row of the data, ordered by name. "curvature" is c in the mean function
            z + c (z² − mean z²) of standardised labels. A name that a feature has already stands
            in parentheses. NaN where the data say nothing.

        See Also
        --------
        to_arviz : The same for ArviZ, with predictions.

        Examples
        --------
        >>> posterior = Posterior(np.array([[1.0], [3.0]]), np.ones(2), np.ones(2), names=("age",))
        >>> sorted(set(posterior.sample(10, rng=0)["age"].tolist()))
        [1.0, 3.0]
        """
        drawn, found = self.at(self.resample(n, make_rng(rng))), {}
        names = self.names or tuple(f"x{j}" for j in range(self.draws.shape[1]))
        columns = [*zip(names, drawn.coefficients.T, strict=True), *drawn.others.items()]
        effects = sorted(
            zip(self.bag_names or (), drawn.effects.T, strict=True),
            key=lambda pair: split_numbers(pair[0]),
        )
        columns += [(f"bag[{name}]", values) for name, values in effects]
        for name, values in columns:
            # The first of two equal names is a feature; the intercept is the last column.
            found[name if name not in found else f"({name})"] = np.ascontiguousarray(values)
        return found

    def at(self, chosen: np.ndarray) -> Posterior:
        """Return some of the draws, each with the same weight.

        Parameters
        ----------
        chosen : ndarray of int
            Positions in `draws`.

        Returns
        -------
        Posterior
            The chosen draws with equal weights.

        Examples
        --------
        >>> draws, weights = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
        >>> posterior = Posterior(draws, weights, np.ones(3))
        >>> posterior.at(np.array([2, 2])).mean.tolist()
        [2.0]
        """
        model = None if self.model is None else self.model.at(chosen)
        ones = np.ones(len(chosen))
        return replace(
            self, draws=self.draws[chosen], draw_weights=ones, sigma=self.sigma[chosen], model=model
        )

    @property
    def coefficients(self) -> np.ndarray:
        """The draws, NaN where the data say nothing."""
        draws = self.draws.copy()
        draws[:, list(self.unknown)] = np.nan
        return draws

    @property
    def others(self) -> dict[str, np.ndarray]:
        """Draws of noise, curvature and the sd of bag effects, as far as they are in the model."""
        found = {"noise": self.sigma if self.has_noise else np.full(len(self.sigma), np.nan)}
        if self.model is not None:
            terms = zip(TERMS, self.model.curves.T, strict=False)
            found |= {term.name: curve for term, curve in terms if curve.any()}
        if self.model is not None and self.model.effect_sds.any():
            found["bag_sd"] = self.model.label_scale * self.model.effect_sds
        return found

    @property
    def effects(self) -> np.ndarray:
        """Draws of the effect of each bag that has a name, (m, H)."""
        model = self.model
        if model is None or model.bag_effects is None or self.bag_names is None:
            return np.empty((len(self.draws), 0))
        return model.label_scale * model.bag_effects

    def draw_labels(
        self, rows: np.ndarray, bags: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw one label of every row in its bag for each draw, (m, n).

        Parameters
        ----------
        rows : ndarray of shape (n, k)
            Rows of as many columns as there are coefficients.
        bags : ndarray of shape (n,)
            Numbers of the bags, −1 for new ones.
        rng : Generator
            The source of randomness.

        Returns
        -------
        ndarray of shape (m, n)
            A label of each row for each draw.

        Examples
        --------
        >>> draws, weights = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
        >>> posterior = Posterior(draws, weights, np.ones(3))
        >>> rows, bags = np.ones((2, 1)), np.full(2, -1)
        >>> posterior.draw_labels(rows, bags, np.random.default_rng(0)).shape
        (3, 2)
        """
        means = np.concatenate(
            [self._means_at(part, own) for part, own in _cut(rows, bags, len(self.draws))]
        )
        return (means + self.sigma * rng.standard_normal(means.shape)).T

    def to_arviz(self, n: int = 1000, rng: Any = None) -> Any:
        """Return draws of equal weight for ArviZ: posterior, posterior predictive, observed data.

        Parameters
        ----------
        n : int, default=1000
            Number of draws, in one chain. They are independent given the weighted draws: chain
            diagnostics say nothing about them, the effective sample size of the fit does.
        rng : None, int or Generator, default=None
            Seed of the resampling and of the predictions.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            As the version of ArviZ has it (a DataTree from 1.0 on). The group ``posterior`` has
            "coefficients", "intercept", "noise", and what else `sample` returns. Labels in the
            groups ``posterior_predictive`` and ``observed_data`` are sorted inside each bag, since
            their order carries no information. These two groups are there for up to 10 000 rows
            with one label each, in the process that fitted them: files and pickles keep no data.

        Raises
        ------
        InputError
            Where ArviZ is not installed (``pip install 'unshuffle[arviz]'``).

        Examples
        --------
        >>> draws, weights = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
        >>> posterior = Posterior(draws, weights, np.ones(3))
        >>> posterior.to_arviz(100, rng=0).posterior["noise"].shape  # doctest: +SKIP
        (1, 100)
        """
        from unshuffle.core.arviz import export_draws  # of an extra

        return export_draws(self, n, make_rng(rng))

    def quantiles(self, values: np.ndarray, levels: tuple[float, ...]) -> np.ndarray:
        """Return quantiles of one value for each draw, each at the middle of its share.

        Parameters
        ----------
        values : ndarray of shape (m,)
            One value for each draw.
        levels : tuple of float
            Probabilities.

        Returns
        -------
        ndarray of shape (len(levels),)
            The quantiles.

        Examples
        --------
        >>> draws, weights = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
        >>> posterior = Posterior(draws, weights, np.ones(3))
        >>> posterior.quantiles(posterior.draws[:, 0], (0.5,)).tolist()
        [1.0]
        """
        order = np.argsort(values, kind="stable")
        shares = self.shares[order]
        return np.interp(levels, np.cumsum(shares) - 0.5 * shares, values[order])

    def sd_at(self, rows: np.ndarray, bags: np.ndarray | None = None) -> np.ndarray:
        roots = np.sqrt(self.shares)
        sds = []
        for part, own in _cut(rows, bags, len(self.shares)):
            z = self._means_at(part, own)
            gaps = z - (self.shares * z).sum(axis=1)[:, None]
            label_sds = self._label_sds(own)
            sds.append(
                np.hypot(root_sum_square((roots * gaps).T), root_sum_square((roots * label_sds).T))
            )
        return np.asarray(np.concatenate(sds))

    def mean_at(self, rows: np.ndarray, bags: np.ndarray | None = None) -> np.ndarray:
        """Return the posterior mean of a label at every row, in a new bag or in the bags given.

        Parameters
        ----------
        rows : ndarray of shape (n, k)
            Rows of as many columns as there are coefficients.
        bags : ndarray of shape (n,), optional
            Numbers of the bags fitted, −1 for new ones. Without them all bags are new.

        Returns
        -------
        ndarray of shape (n,)
            The posterior means.

        Examples
        --------
        >>> draws, weights = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
        >>> posterior = Posterior(draws, weights, np.ones(3))
        >>> posterior.mean_at(np.array([[3.0]])).tolist()
        [3.0]
        """
        return np.concatenate(
            [
                (self.shares * self._means_at(part, own)).sum(axis=1)
                for part, own in _cut(rows, bags, len(self.shares))
            ]
        )

    def interval_at(
        self, rows: np.ndarray, level: float, new_label: bool, bags: np.ndarray | None = None
    ) -> np.ndarray:
        tail = (1.0 - level) / 2
        ends = []
        for part, own in _cut(rows, bags, len(self.shares)):
            if new_label:
                z, sds = self._means_at(part, own), self._label_sds(own)
                ends.append(
                    np.stack([self._mixture(z, sds, tail), self._mixture(z, sds, 1.0 - tail)], 1)
                )
            else:
                z = multiply(part, self.draws.T)
                if own is not None:
                    z = np.where(own[:, None] >= 0, self._means_at(part, own), z)
                ends.append(np.stack([self.quantiles(each, (tail, 1.0 - tail)) for each in z]))
        return np.concatenate(ends)

    def trend(self, rows: np.ndarray) -> np.ndarray:
        """Return the mean of a label at rows for every draw, up to the effects of bags, (n, m).

        Parameters
        ----------
        rows : ndarray of shape (n, k)
            Rows of as many columns as there are coefficients.

        Returns
        -------
        ndarray of shape (n, m)
            The mean of each row for each draw.

        Examples
        --------
        >>> draws, weights = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
        >>> posterior = Posterior(draws, weights, np.ones(3))
        >>> posterior.trend(np.array([[3.0]])).tolist()
        [[0.0, 3.0, 6.0]]
        """
        z = multiply(rows, self.draws.T)
        if self.model is None:
            return z
        X = rows[:, : len(self.model.centre)]
        return np.asarray(z + self.model.bend(X) - self.model.tilt(X))

    def _means_at(self, rows: np.ndarray, bags: np.ndarray | None) -> np.ndarray:
        """Return the mean of a label at rows for every draw, (n, m)."""
        z = multiply(rows, self.draws.T)
        if self.model is None:
            return z
        X = rows[:, : len(self.model.centre)]
        z = z + self.model.bend(X)
        if bags is None:
            return z
        # Rows of unknown bags (−1) are as in a new bag.
        return z + np.where(bags[:, None] >= 0, self.model.shift(X, np.maximum(bags, 0)), 0.0)

    def _label_sds(self, bags: np.ndarray | None) -> np.ndarray:
        """Return the sd of a label about its mean, by draw: noise, and the effect of a new bag."""
        if self.model is None:
            return self.sigma[None]
        new = np.hypot(self.sigma, self.model.label_scale * self.model.effect_sds)[None]
        return new if bags is None else np.where(bags[:, None] >= 0, self.sigma, new)

    def _mixture(self, z: np.ndarray, sds: np.ndarray, probability: float) -> np.ndarray:
        """Return a quantile, for every row, of the mixture of normals about predictions (n, m).

        Newton's method with bisection where a step would leave the bracket. Rows are independent of
        each other: none depends on which others are in the batch.
        """
        from scipy.special import ndtr, ndtri  # slow to import, and for posteriors only

        # Without noise a normal is a point: its sd is then far below any spread, not zero.
        size = np.maximum(np.abs(z).max(axis=1), np.finfo(float).tiny)
        sds = np.broadcast_to(sds, z.shape)
        reach = z + ndtri(probability) * sds
        low, high = reach.min(axis=1), reach.max(axis=1)
        limit = _QUANTILE_TOL * (high - low) + 1e-15 * size
        place = 0.5 * low + 0.5 * high
        going = np.flatnonzero(high - low > limit)
        for _ in range(60):  # bisection alone takes 34
            if len(going) == 0:
                break
            at = place[going]
            sigma = np.maximum(sds[going], 1e-15 * size[going, None])
            steps = (at[:, None] - z[going]) / sigma
            above = (self.shares * ndtr(steps)).sum(axis=1) - probability
            low[going] = np.where(above < 0, at, low[going])
            high[going] = np.where(above < 0, high[going], at)
            heights = self.shares * np.exp(-0.5 * steps**2)
            # The slope overflows for noise below the range of numbers; the step is then bisection.
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                slope = (heights / sigma).sum(axis=1) / np.sqrt(2 * np.pi)
                new = at - above / slope
            middle = 0.5 * low[going] + 0.5 * high[going]
            is_inside = (new > low[going]) & (new < high[going])
            new = np.where(is_inside, new, middle)
            place[going] = new
            done = (np.abs(new - at) <= limit[going]) | (high[going] - low[going] <= limit[going])
            going = going[~done]
        return place

    def measure(
        self, centre: np.ndarray, scales: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the draws less a centre, the centre, and the unit of both.

        Weights are times `scales`, and the unit is the largest of them: squares of labels beyond
        1e154 would overflow.

        Parameters
        ----------
        centre : ndarray of shape (k,)
            The centre, such as the estimate.
        scales : ndarray of shape (k,)
            Factors of the coefficients, such as the sds of their columns.

        Returns
        -------
        gaps : ndarray of shape (m, k)
            Draws less the centre.
        parts : ndarray of shape (k,)
            The centre.
        unit : float
            The unit of both.

        Examples
        --------
        >>> draws, weights = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
        >>> posterior = Posterior(draws, weights, np.ones(3))
        >>> gaps, parts, unit = posterior.measure(np.array([1.0]), np.array([1.0]))
        >>> gaps.ravel().tolist(), parts.tolist(), unit
        ([-0.5, 0.0, 0.5], [0.5], 2.0)
        """
        k = len(scales)
        parts, drawn = centre[:k] * scales, self.draws[:, :k] * scales
        unit = float(max(np.abs(parts).max(initial=0.0), np.abs(drawn).max(initial=0.0))) or 1.0
        return drawn / unit - parts / unit, parts / unit, unit

    def mapped(self, to_user: Callable[[np.ndarray], np.ndarray], scale: float) -> Posterior:
        model = None if self.model is None else self.model.mapped(to_user, scale)
        return replace(self, draws=to_user(self.draws), sigma=self.sigma * scale, model=model)


@dataclass(frozen=True, eq=False)
class StudentT(Uncertainty):
    """Weights with normal errors of estimated variance, as in textbook regression.

    The rows of `spreads` are steps of one sd in independent directions: their products add up to
    the covariance, which would overflow for weights beyond 1e154.
    """

    centre: np.ndarray
    spreads: np.ndarray
    dof: int
    residual_sd: float | None

    @property
    def noise(self) -> float | None:
        return self.residual_sd

    @property
    def has_interval(self) -> bool:
        return self.dof >= 1

    @property
    def sd(self) -> np.ndarray:
        """The standard errors."""
        return root_sum_square(self.spreads)

    def interval(self, level: float) -> np.ndarray:
        self._check()
        reach = self._quantile(level) * root_sum_square(self.spreads)
        return np.stack([self.centre - reach, self.centre + reach], axis=1)

    def sd_at(self, rows: np.ndarray, bags: np.ndarray | None = None) -> np.ndarray:
        """Return the textbook's standard error of a new label."""
        self._check()
        return self._errors_at(rows, new_label=True)

    def interval_at(
        self, rows: np.ndarray, level: float, new_label: bool, bags: np.ndarray | None = None
    ) -> np.ndarray:
        self._check()
        reach = self._quantile(level) * self._errors_at(rows, new_label)
        z = multiply(rows, self.centre)
        return np.stack([z - reach, z + reach], axis=1)

    def sd_of(self, factors: np.ndarray) -> float:
        return float(root_sum_square(multiply(self.spreads, factors[:, None]))[0])

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        dof = max(self.dof, 1)
        factor = np.sqrt(dof / rng.chisquare(dof, n))
        steps = rng.standard_normal((n, len(self.spreads))) * factor[:, None]
        return self.centre + multiply(steps, self.spreads), np.full(n, self.noise or 0.0)

    def _quantile(self, level: float) -> float:
        """Return the quantile of t that bounds an interval."""
        from scipy.special import stdtrit  # slow to import, and for intervals only

        return float(stdtrit(self.dof, 0.5 + level / 2))

    def _check(self) -> None:
        if not self.has_interval:
            raise InputError(
                "there are as many weights as bags, so that nothing is left to measure the error: "
                "add a bag, or use method 'likelihood'"
            )

    def _errors_at(self, rows: np.ndarray, new_label: bool) -> np.ndarray:
        parts = multiply(self.spreads, rows.T)
        if new_label:
            parts = np.concatenate([parts, np.full((1, len(rows)), self.residual_sd)])
        return root_sum_square(parts)

    def mapped(self, to_user: Callable[[np.ndarray], np.ndarray], scale: float) -> StudentT:
        base = to_user(np.zeros(len(self.centre)))
        sd = None if self.residual_sd is None else self.residual_sd * scale
        return StudentT(to_user(self.centre), to_user(self.spreads) - base, self.dof, sd)


def _cut(
    rows: np.ndarray, bags: np.ndarray | None, n_draws: int
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Return pieces of the rows for which the predictions of all draws fit in memory."""
    size = max(1, BATCH_NUMBERS // max(n_draws, 1))
    parts = [slice(start, start + size) for start in range(0, max(len(rows), 1), size)]
    return [(rows[part], None if bags is None else bags[part]) for part in parts]
