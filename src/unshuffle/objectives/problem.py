"""The penalised loss of bags as a function of the weights: value, gradient and curvature.

An `Objective` is what solvers minimise. `Problem` evaluates it from rows in memory, and
`objectives.block_moments` and `objectives.block_sorted` from data in blocks. Everything is in the
units of the bags, which are standard ones (`data.scaling`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from unshuffle import kernels
from unshuffle.data.bags import Bags
from unshuffle.data.products import BATCH_NUMBERS
from unshuffle.data.statistics import Statistics
from unshuffle.objectives import moments
from unshuffle.objectives.losses import Loss, Moments, Squared
from unshuffle.objectives.noise import Noise
from unshuffle.objectives.penalties import Penalty
from unshuffle.options import BagOffsets

# Rows a bag from which ranks from cells are faster than sorting.
_SCREENED_ROWS = 200

# weights (S, d) → values (S,), gradients (S, d)
Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
# weights (S, d) → values (S,), gradients (S, d), curvatures (S, d, d)
Curve = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]

# Ratio of the unit costs of moments: monomials × d from tensors, and n × K from rows.
_TENSOR_COST = 4
# Step of central differences: the cube root of the rounding error balances truncation against
# cancellation (Nocedal and Wright 2006).
_STEP = np.cbrt(np.finfo(float).eps)


class PooledBags(Protocol):
    """What an objective tells of its bags: sizes, means, pooled moments and label values."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def d(self) -> int:
        """Number of weights."""

    @property
    def n_bags(self) -> int:
        """Number of bags."""

    @property
    def y(self) -> np.ndarray:
        """Values of the labels, whose weights the statistics know."""

    @property
    def statistics(self) -> Statistics:
        """Pooled moments of rows and labels."""

    def bag_means(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean row (R, d) and the mean label (R,) of every bag."""


@dataclass(frozen=True, eq=False)
class Objective(ABC):
    """The penalised loss of bags: value and gradient at one or many points.

    With `has_intercept` the last weight is the intercept.
    """

    bags: PooledBags
    loss: Loss
    noise: Noise | None
    penalty: Penalty
    has_intercept: bool = False

    def __call__(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return value and gradient at weights (d,), or (d, S) for S starts on the last axis."""
        weights = np.ascontiguousarray(np.atleast_2d(np.asarray(w, dtype=float).T))
        values, gradients = self.smooth(weights)
        kink, slope = self.penalty.kinks(weights)
        values, gradients = values + kink, gradients + slope
        return (values[0], gradients[0]) if np.ndim(w) == 1 else (values, gradients.T)

    def smooth(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values (S,) and gradients (S, d) at weights (S, d), without the L1 part."""
        values, gradients = self._evaluate(weights)
        if not self.penalty.is_smooth_active:
            return values, gradients
        extra, slope = self.penalty.smooth(weights)
        return values + extra, gradients + slope

    def screen(self, weights: np.ndarray) -> np.ndarray:
        """Return values (S,) to choose starts by: those of `smooth`, or cheaper ones near them."""
        return self.smooth(weights)[0]

    def with_loss(self, loss: Loss) -> Self:
        """Return the same objective with another loss."""
        return replace(self, loss=loss)

    @property
    def curve(self) -> Curve | None:
        """As `smooth`, with the curvature at each point; None where it is not known."""
        return None

    @cached_property
    def curvature(self) -> np.ndarray:
        """The pooled second moment of the rows plus the L2 part, half the Hessian of LS."""
        return self.bags.statistics.gram + np.diag(self.penalty.l2)

    @property
    @abstractmethod
    def sphere(self) -> moments.MomentSphere:
        """The weights that meet the first two pooled moments."""

    @property
    @abstractmethod
    def _evaluate(self) -> Evaluate:
        """The loss without penalty."""


@dataclass(frozen=True, eq=False)
class Problem(Objective):
    """The penalised loss of bags in memory.

    With `has_intercept` the last column of the bags is ones.

    >>> from unshuffle.data.bags import make_bags
    >>> from unshuffle.objectives.losses import Squared
    >>> from unshuffle.objectives.penalties import no_penalty
    >>> bags = make_bags(np.array([[1.0], [2.0]]), np.array([4.0, 2.0]))
    >>> value, gradient = Problem(bags, Squared(), None, no_penalty(1))(np.array([1.0]))
    >>> float(value), gradient.tolist()
    (2.5, [-5.0])
    """

    bags: Bags
    offsets: BagOffsets = field(default_factory=BagOffsets)

    def screen(self, weights: np.ndarray) -> np.ndarray:
        """Return values (S,) to choose starts by.

        Least squares of plain bags needs neither slopes nor an exact order for it.
        """
        bags = self.bags
        is_plain = bags.is_plain and self.noise is None and isinstance(self.loss, Squared)
        if not is_plain or bags.n < _SCREENED_ROWS * bags.n_bags:
            return super().screen(weights)
        values = np.empty(len(weights))
        kernels.screen_squares(weights, bags.columns, bags.y, bags.offsets, values)
        return values + self.penalty.smooth(weights)[0]

    @cached_property
    def sphere(self) -> moments.MomentSphere:
        """The weights that meet the first two pooled moments."""
        return moments.make_sphere(self.bags, self.noise)

    @cached_property
    def _evaluate(self) -> Evaluate:
        if not self.loss.is_sorted:
            assert isinstance(self.loss, Moments)  # the only loss of this kind
            return _moment_evaluator(self.bags, self.loss, self.noise)
        atoms = np.zeros(1) if self.noise is None else self.noise.atoms()
        if not self.bags.is_plain:
            return _weighted_evaluator(self.bags, self.loss, atoms)
        if self.loss.code is not None:
            return _compiled_evaluator(self.bags, self.loss, atoms)
        return _plain_evaluator(self.bags, self.loss, atoms)


def _evaluate_by(kernel: Callable[..., None], *data: object) -> Evaluate:
    """Return the evaluation by a kernel of weights, data, and the values and gradients to fill."""

    def evaluate(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, gradients = np.empty(len(weights)), np.empty(weights.shape)
        kernel(weights, *data, values, gradients)
        return values, gradients

    return evaluate


def _compiled_evaluator(bags: Bags, loss: Loss, atoms: np.ndarray) -> Evaluate:
    """Evaluate a sorted loss that has a compiled form."""
    labels = bags.y if len(atoms) == 1 else np.repeat(bags.y, len(atoms))
    extent = loss.extent(int(bags.sizes.min()), bags.d)
    return _evaluate_by(
        kernels.evaluate_sorted, bags.columns, labels, bags.offsets, atoms, loss.code, extent
    )


def _weighted_evaluator(bags: Bags, loss: Loss, atoms: np.ndarray) -> Evaluate:
    """Evaluate a sorted loss between quantile functions: masses, and numbers that differ."""
    rows, labels, stats = bags.rows, bags.labels, bags.statistics
    shares = labels.masses / np.repeat(labels.totals, np.diff(labels.offsets))
    return _evaluate_by(
        kernels.evaluate_weighted, bags.columns, np.ascontiguousarray(rows.masses), rows.offsets,
        bags.y, shares, labels.offsets, stats.shares, atoms, loss.code,
    )  # fmt: skip


def _plain_evaluator(bags: Bags, loss: Loss, atoms: np.ndarray) -> Evaluate:
    """Evaluate any sorted loss with NumPy; without a slope, by differences in the weights.

    The products are sums (einsum) and not matrix products: the last bits of those depend on how
    many starts share them, and so on the number of threads.
    """

    def evaluate_block(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        values, gradients = np.zeros(len(weights)), np.zeros(weights.shape)
        has_slope = True
        for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
            columns, share = bags.columns[:, start:stop], (stop - start) / bags.n
            spread = np.einsum("sd,dn->sn", weights, columns)[:, :, None] + atoms
            spread = spread.reshape(len(weights), -1)
            order = np.argsort(spread, axis=1, kind="stable")
            labels = np.repeat(bags.y[start:stop], len(atoms))
            value, slope = loss(np.take_along_axis(spread, order, 1), labels)
            values += share * value
            if slope is None:
                has_slope = False
                continue
            by_row = np.empty_like(spread)
            np.put_along_axis(by_row, order, slope, 1)
            by_row = by_row.reshape(len(weights), stop - start, len(atoms)).sum(-1)
            gradients += share * np.einsum("sn,dn->sd", by_row, columns)
        return values, gradients if has_slope else None

    def evaluate(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n_block = max(1, BATCH_NUMBERS // (bags.n * len(atoms)))
        parts = [evaluate_block(weights[i : i + n_block]) for i in range(0, len(weights), n_block)]
        values = np.concatenate([value for value, _ in parts])
        if any(gradient is None for _, gradient in parts):
            return values, _differences(lambda w: evaluate_block(w)[0], weights)
        return values, np.concatenate([gradient for _, gradient in parts if gradient is not None])

    return evaluate


def _differences(value: Callable[[np.ndarray], np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Return central differences of the value in every weight."""
    gradients = np.empty(weights.shape)
    for j in range(weights.shape[1]):
        step = _STEP * np.maximum(np.abs(weights[:, j]), 1.0)
        up, down = weights.copy(), weights.copy()
        up[:, j] += step
        down[:, j] -= step
        gradients[:, j] = (value(up) - value(down)) / (up[:, j] - down[:, j])
    return gradients


def _moment_evaluator(bags: Bags, loss: Moments, noise: Noise | None) -> Evaluate:
    """Evaluate the moment loss from tensors where that is cheaper, else from the rows."""
    n_moments = loss.n_moments(bags.d, bags.n_bags)
    factors = loss.factors(n_moments)
    mixing = moments.mix_noise(n_moments, noise)
    targets = moments.label_moments(bags, n_moments)
    n_monomials = moments.count_monomials(bags.d, n_moments)
    is_cheap = n_monomials * bags.n_bags * bags.d < _TENSOR_COST * bags.n * n_moments
    if is_cheap or not bags.is_plain:
        monomials = moments.make_monomials(bags.d, n_moments)
        tensors = moments.make_tensors(bags, monomials)
        return evaluate_tensors(tensors, monomials, factors, mixing, targets)

    return _evaluate_by(
        kernels.evaluate_moments, bags.columns, bags.offsets, mixing, factors, targets
    )


def evaluate_tensors(
    tensors: np.ndarray,
    monomials: moments.Monomials,
    factors: np.ndarray,
    mixing: np.ndarray,
    targets: np.ndarray,
) -> Evaluate:
    """Evaluate the moment loss from the means of monomials over bags."""
    return _evaluate_by(
        kernels.evaluate_tensors, tensors, monomials.children, monomials.parents,
        monomials.degrees, monomials.coefficients, mixing, factors, targets,
    )  # fmt: skip
