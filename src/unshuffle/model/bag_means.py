"""The likelihood of bag means: noise, random bag effects and contextual effects.

The residual of bag r, its mean label less its mean prediction, is

    gap_r = b + α_r + x̄_rᵀδ + e_r,   e_r ~ N(0, σ²/m_r + …),  α_r ~ N(0, (tσ)²),  δ ~ N(0, τ²I),

with an intercept b (flat prior), a random effect α_r that the labels of a bag share (an offset),
and a contextual effect δ of the bag's mean row x̄_r in standard units (Mundlak 1978; the "between"
minus the "within" slope, known from ecological regression). The sizes t and τ are zero or one of
a few values; b, α and δ are integrated in closed form, the sizes are summed over. A bag of one
row is a linked pair and has neither effect. (A size is a prior sd: t of random effects, τ of
contextual ones. `levels` are intercepts.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unshuffle.data.products import multiply
from unshuffle.model.settings import BAG_EFFECTS

OFFSETS = np.array(BAG_EFFECTS.offsets)
DECLARED_OFFSETS = np.array(BAG_EFFECTS.declared_offsets)
CONTEXTS = np.array(BAG_EFFECTS.contexts)
# The random effects of single bags are drawn if these are at most so many numbers (16 MB).
MOST_OFFSETS = 2_000_000


class Effects(NamedTuple):
    """Draws of the bag effects given draws of the other parameters.

    Sds of random effects (m,), sds τ of contextual effects (m,), contextual effects δ (m, p),
    intercepts (m,), and the random effect of every original bag (m, H), None for very many bags.
    """

    offset_sds: np.ndarray
    context_sds: np.ndarray
    contexts: np.ndarray
    levels: np.ndarray
    offsets: np.ndarray | None = None


class ClassSums(NamedTuple):
    """Sums over classes of bags of equal size, at n points.

    Labels m of a bag and number of bags of each class (k,); sums of gaps and of their squares
    (n, k), of mean rows times gaps (n, k, p), of mean rows (k, p) and of their products (k, p, p).
    """

    m: np.ndarray
    counts: np.ndarray
    gaps: np.ndarray
    squares: np.ndarray
    rows_gaps: np.ndarray
    rows: np.ndarray
    products: np.ndarray


class _Sums(NamedTuple):
    """Precision-weighted sums over bags, for every size t: (…, T) and, of rows, (…, T, p …).

    Sum of log precisions, of precisions, of gaps, of squared gaps; of rows, and of rows times gaps,
    eigenvectors and eigenvalues of the centred products of rows (None where no contextual effect is
    possible).
    """

    logs: np.ndarray
    ones: np.ndarray
    gaps: np.ndarray
    squares: np.ndarray
    rows: np.ndarray | None = None
    rows_gaps: np.ndarray | None = None
    axes: np.ndarray | None = None
    values: np.ndarray | None = None


class _Unit(NamedTuple):
    """The sums of `_Sums` without gaps where σ is one, and the precisions (T, R).

    They serve where all variances of the gaps are multiples of σ²: divided by σ², the precisions
    here are those of any σ.
    """

    weights: np.ndarray
    logs: np.ndarray
    ones: np.ndarray
    rows: np.ndarray | None = None
    axes: np.ndarray | None = None
    values: np.ndarray | None = None

    def add_up(
        self, s2: Any, gaps: np.ndarray, squares: np.ndarray, rows_gaps: np.ndarray | None, n: float
    ) -> _Sums:
        """Return the sums over n bags at points of noise s2 from those of unit noise."""
        per = 1.0 / np.asarray(s2)[..., None]
        logs, ones = self.logs + n * np.log(per), self.ones * per
        if rows_gaps is None or self.rows is None or self.axes is None or self.values is None:
            return _Sums(logs, ones, gaps * per, squares * per)
        axes = np.broadcast_to(self.axes, (*per.shape[:-1], *self.axes.shape))
        values, rows = self.values * per[..., None], self.rows * per[..., None]
        return _Sums(
            logs, ones, gaps * per, squares * per, rows, rows_gaps * per[..., None], axes, values
        )


class _Sizes(NamedTuple):
    """The posterior over sizes at points: log density `value`, probabilities `shares` (…, T, C).

    The distribution of δ follows from `axes` and `values`, eigenvectors and eigenvalues of the
    centred products of rows, and from `projections`, the rows times gaps along the axes. These are
    None where no contextual effect is possible.
    """

    value: Any
    shares: np.ndarray
    axes: np.ndarray | None
    values: np.ndarray | None
    projections: np.ndarray | None


@dataclass(frozen=True, eq=False)
class BagMeans:
    """The distribution of the gaps of R bags.

    Parameters
    ----------
    m : labels of each bag.
    fixed, factors : variance of each gap beside σ²/m: `fixed` + `factors` · var(predictions).
    has_intercept : whether a common level is integrated out.
    rows : mean rows of the bags in standard units, (R, p).
    offset_share, context_share : prior probabilities of random and of contextual effects.
    offset_sd : sd of the random effects where it is given.
    only : index of the one size t that is possible; None where all are.
    """

    m: np.ndarray
    fixed: np.ndarray
    factors: np.ndarray
    has_intercept: bool
    rows: np.ndarray
    offset_share: float = 0.0
    offset_sd: float | None = None
    context_share: float = 0.0
    only: int | None = None

    @property
    def n_sizes(self) -> int:
        """Number of possible sizes of random effects."""
        return 1 if self.offset_sd is not None else len(self._all_sizes)

    @property
    def _all_sizes(self) -> np.ndarray:
        if self.offset_share == 1.0:
            return DECLARED_OFFSETS
        return OFFSETS[:1] if self.offset_share == 0.0 else OFFSETS

    @cached_property
    def _sizes(self) -> np.ndarray:
        """The possible sizes t of random effects."""
        if self.offset_sd is not None:
            return np.ones(1)
        return self._all_sizes[
            slice(None) if self.only is None else slice(self.only, self.only + 1)
        ]

    @property
    def sizes(self) -> np.ndarray:
        """The sizes t of random effects that are weighed; none where their sd is given."""
        return np.empty(0) if self.offset_sd is not None else self._sizes

    @cached_property
    def _contexts(self) -> np.ndarray:
        """The possible sds τ of contextual effects, zero first."""
        return CONTEXTS[:1] if self.context_share == 0.0 else CONTEXTS

    @cached_property
    def _log_prior(self) -> np.ndarray:
        """Log prior of the sizes, (T, C)."""
        share, sizes = self.offset_share, self._sizes
        if self.offset_sd is not None:
            offsets = np.zeros(1)
        elif share == 1.0:
            offsets = np.full(len(sizes), -np.log(len(self._all_sizes)))
        else:
            offsets = np.log(np.where(sizes > 0.0, share / (len(OFFSETS) - 1), 1.0 - share))
        contexts = np.zeros(1)
        if len(self._contexts) > 1:
            share = self.context_share / (len(CONTEXTS) - 1)
            contexts = np.log(np.where(CONTEXTS > 0.0, share, 1.0 - self.context_share))
        return offsets[:, None] + contexts

    @cached_property
    def _has_effect(self) -> np.ndarray:
        """One for bags of several labels, zero for linked pairs."""
        return (self.m > 1.0).astype(float)

    @cached_property
    def _effect_rows(self) -> np.ndarray:
        """Mean rows of the bags that have effects, zero for the others."""
        return self.rows * self._has_effect[:, None]

    def evaluate(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigma: Any
    ) -> tuple[Any, np.ndarray, np.ndarray, Any]:
        """Return the log density and its derivatives in the gaps, in var(z) and in log σ.

        Of one set of gaps (R,) or of many (m, R).
        """
        sums, s2 = self._sum(gaps, variances, log_sigma)
        found = self._integrate(sums)
        if self._unit is not None:
            weights = self._unit.weights / np.asarray(s2)[..., None, None]
            by_gap = self._gap_slopes(gaps, weights, sums, found)
            slope = self._scale_slope(sums, found)
            return found.value, by_gap, np.zeros(gaps.shape), slope
        weights = self._precisions(variances, log_sigma)[1]
        by_gap = self._gap_slopes(gaps, weights, sums, found)
        by_variance = self._variance_slopes(gaps, weights, found)
        per_s2 = 1.0 / self.m + np.zeros((len(self._sizes), 1))
        if self.offset_sd is None:
            per_s2 = per_s2 + self._sizes[:, None] ** 2 * self._has_effect
        slope = (by_variance * per_s2).sum(axis=(-1, -2)) * 2.0 * s2
        return found.value, by_gap, by_variance.sum(axis=-2) * self.factors, slope

    def evaluate_many(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigmas: np.ndarray
    ) -> np.ndarray:
        """Return the log densities of many sets of gaps (m, R)."""
        return np.asarray(self._integrate(self._sum(gaps, variances, log_sigmas)[0]).value)

    def draw_effects(
        self,
        gaps: np.ndarray,
        variances: np.ndarray,
        log_sigmas: np.ndarray,
        rng: np.random.Generator,
    ) -> Effects:
        """Draw sizes, contextual effects and intercepts given many sets of gaps (m, R)."""
        sums, s2 = self._sum(gaps, variances, log_sigmas)
        found = self._draw(sums, s2, rng)
        if gaps.size > MOST_OFFSETS:
            return found
        own = np.divide.outer(s2, self.m) + self.fixed + self.factors * variances
        prior = found.offset_sds[:, None] ** 2 * self._has_effect
        rest = gaps - found.levels[:, None] - multiply(found.contexts, self._effect_rows.T)
        steps = rng.standard_normal(gaps.shape)
        offsets = prior * rest / (prior + own) + np.sqrt(prior * own / (prior + own)) * steps
        return found._replace(offsets=offsets)

    def draw_effects_of_classes(
        self, sums: ClassSums, log_sigmas: np.ndarray, rng: np.random.Generator
    ) -> Effects:
        """Return `draw_effects` from sums over classes of bags."""
        return self._draw(*self._add_up_classes(sums, log_sigmas), rng)

    def evaluate_classes(self, sums: ClassSums, log_sigmas: np.ndarray) -> np.ndarray:
        """Return `evaluate_many` from sums over classes; for zero `fixed` and `factors` only."""
        return np.asarray(self._integrate(self._add_up_classes(sums, log_sigmas)[0]).value)

    def size_shares(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigma: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the possible sds of random effects, and the probability of each at the gaps."""
        sums, s2 = self._sum(gaps, variances, log_sigma)
        shares = self._integrate(sums).shares.sum(axis=-1)
        return np.sqrt(self._offset_variances(s2)), shares

    def information(self, gaps: np.ndarray, log_sigma: float, slopes: np.ndarray) -> np.ndarray:
        """Return −∂²log density/∂u∂uᵀ for gaps that are linear in u with these slopes (R, k).

        For the first of the possible sizes t; averaged over the sds τ by their probabilities.
        """
        nothing = np.zeros(len(gaps))
        found = self._integrate(self._sum(gaps, nothing, log_sigma)[0])
        w = self._precisions(nothing, log_sigma)[1][0]
        shares = found.shares[0] / found.shares[0].sum()
        inner = np.einsum("r,rj,rk->jk", w, slopes, slopes)
        rows = self._effect_rows
        cross = np.einsum("r,rj,rk->jk", w, rows, slopes)
        if self.has_intercept:
            middle = np.einsum("r,rj->j", w, slopes)
            inner -= np.outer(middle, middle) / w.sum()
            cross -= np.outer(np.einsum("r,rj->j", w, rows), middle) / w.sum()
        for c, tau in enumerate(self._contexts):
            if tau > 0.0:
                assert found.axes is not None
                assert found.values is not None
                turned = found.axes[0].T @ cross
                inner -= shares[c] * turned.T @ (turned / (found.values[0] + tau**-2)[:, None])
        return np.asarray(inner)

    def _offset_variances(self, s2: Any) -> np.ndarray:
        """Return the variances of possible random effects, (…, T)."""
        if self.offset_sd is not None:
            return np.multiply.outer(np.ones(np.shape(s2)), np.array([self.offset_sd**2]))
        return np.multiply.outer(s2, self._sizes**2)

    def _precisions(self, variances: np.ndarray, log_sigma: Any) -> tuple[Any, np.ndarray]:
        """Return σ² and the precisions of gaps given b and δ, (…, T, R)."""
        s2 = np.exp(2.0 * log_sigma)
        own = np.divide.outer(s2, self.m) + self.fixed + self.factors * variances
        offsets = self._offset_variances(s2)[..., None] * self._has_effect
        return s2, 1.0 / (own[..., None, :] + offsets)

    @cached_property
    def _unit(self) -> _Unit | None:
        """The bags' sums where σ is one; None where other variances do not grow with σ²."""
        if self.offset_sd is not None or self.fixed.any() or self.factors.any():
            return None
        nothing = np.zeros(len(self.m))
        weights = self._precisions(nothing, 0.0)[1]
        found = self._add_up(nothing, weights)
        return _Unit(weights, found.logs, found.ones, found.rows, found.axes, found.values)

    def _sum(self, gaps: np.ndarray, variances: np.ndarray, log_sigma: Any) -> tuple[_Sums, Any]:
        """Add up over bags at points of gaps (…, R); return σ² too."""
        unit = self._unit
        if unit is None:
            s2, weights = self._precisions(variances, log_sigma)
            return self._add_up(gaps, weights), s2
        s2, heavy = np.exp(2.0 * np.asarray(log_sigma)), gaps[..., None, :] * unit.weights
        sums, squares = heavy.sum(axis=-1), (heavy * gaps[..., None, :]).sum(axis=-1)
        rows_gaps = None if unit.rows is None else self._add_rows(heavy)
        return unit.add_up(s2, sums, squares, rows_gaps, len(self.m)), s2

    def _add_rows(self, weights: np.ndarray) -> np.ndarray:
        """Return the product of weights (…, T, R) with the mean rows that have effects (R, p)."""
        return np.asarray(np.einsum("...r,rj->...j", weights, self._effect_rows))

    def _add_up(self, gaps: np.ndarray, weights: np.ndarray) -> _Sums:
        """Add up over bags."""
        heavy = weights * gaps[..., None, :]
        logs, ones = np.log(weights).sum(axis=-1), weights.sum(axis=-1)
        sums, squares = heavy.sum(axis=-1), (heavy * gaps[..., None, :]).sum(axis=-1)
        if len(self._contexts) == 1:
            return _Sums(logs, ones, sums, squares)
        p = self.rows.shape[1]
        rows, products = self._add_rows(weights), np.zeros((*ones.shape, p, p))
        for j in range(p):
            products[..., j] = self._add_rows(weights * self._effect_rows[:, j])
        axes, values = self._diagonalise(products, rows, ones)
        return _Sums(logs, ones, sums, squares, rows, self._add_rows(heavy), axes, values)

    def _diagonalise(
        self, products: np.ndarray, rows: np.ndarray, ones: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return eigenvectors and eigenvalues of the centred products of rows."""
        if self.has_intercept:
            products = products - (rows / ones[..., None])[..., None] * rows[..., None, :]
        values, axes = np.linalg.eigh(products)
        return axes, np.maximum(values, 0.0)

    def _add_up_classes(self, sums: ClassSums, log_sigmas: np.ndarray) -> tuple[_Sums, Any]:
        """Add up over classes of bags; return σ² too."""
        s2, is_scaled = np.exp(2.0 * log_sigmas), self.offset_sd is None
        has_effect = (sums.m > 1.0).astype(float)
        units = np.ones(1) if is_scaled else s2
        variances = np.divide.outer(units, sums.m)[:, None, :]
        variances = variances + self._offset_variances(units)[..., None] * has_effect
        weights = 1.0 / variances  # (n or 1, T, k)
        logs = (sums.counts * np.log(weights)).sum(axis=-1)
        ones = (sums.counts * weights).sum(axis=-1)
        gaps = (weights * sums.gaps[:, None, :]).sum(axis=-1)
        squares = (weights * sums.squares[:, None, :]).sum(axis=-1)
        found = _Sums(logs, ones, gaps, squares)
        if len(self._contexts) > 1:
            weights = weights * has_effect
            rows, products = multiply(weights, sums.rows), multiply(weights, sums.products)
            axes, values = self._diagonalise(products, rows, ones)
            rows_gaps = (weights[..., None] * sums.rows_gaps[:, None]).sum(axis=-2)
            found = found._replace(rows=rows, rows_gaps=rows_gaps, axes=axes, values=values)
        if not is_scaled:
            return found, s2
        parts = (
            None if each is None else each[0] for each in (found.rows, found.axes, found.values)
        )
        unit = _Unit(weights[0], logs[0], ones[0], *parts)
        return unit.add_up(s2, gaps, squares, found.rows_gaps, float(sums.counts.sum())), s2

    def _integrate(self, sums: _Sums) -> _Sizes:
        """Integrate intercept and effects, and sum over sizes."""
        logs, axes, values, projections = self._condition(sums)
        logs = logs + self._log_prior
        # SciPy's logsumexp would take longer than the permanents of a small table.
        best = logs.max(axis=(-1, -2))
        shares = np.exp(logs - best[..., None, None])
        mass = shares.sum(axis=(-1, -2))
        return _Sizes(
            best + np.log(mass), shares / mass[..., None, None], axes, values, projections
        )

    def _condition(
        self, sums: _Sums
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Return the log density given all pairs of sizes (…, T, C), axes, values and projections.

        The last three are those of `_Sizes`.
        """
        logs, squares = 0.5 * sums.logs, sums.squares
        if self.has_intercept:
            logs = logs - 0.5 * np.log(sums.ones)
            squares = squares - sums.gaps**2 / sums.ones
        logs = (logs - 0.5 * squares)[..., None] + np.zeros(len(self._contexts))
        if sums.axes is None:
            return logs, None, None, None
        assert sums.rows is not None
        assert sums.rows_gaps is not None
        assert sums.values is not None
        axes, values, projection = sums.axes, sums.values, sums.rows_gaps
        if self.has_intercept:
            projection = projection - sums.rows / sums.ones[..., None] * sums.gaps[..., None]
        projections = (axes * projection[..., None]).sum(axis=-2)
        taus = self._contexts[1:]
        values_of = values[..., None, :]
        logs[..., 1:] += 0.5 * (
            projections[..., None, :] ** 2 / (values_of + taus[:, None] ** -2)
        ).sum(-1)
        logs[..., 1:] -= 0.5 * np.log1p(values_of * taus[:, None] ** 2).sum(axis=-1)
        return logs, axes, values, projections

    def _gap_slopes(
        self, gaps: np.ndarray, w: np.ndarray, sums: _Sums, found: _Sizes
    ) -> np.ndarray:
        """Return the slopes in the gaps, (…, R): −C⁻¹gap averaged over sizes, C the covariance."""
        shares = found.shares.sum(axis=-1)
        rest, levels = shares[..., None] * gaps[..., None, :], shares * sums.gaps
        if found.axes is not None and found.values is not None and found.projections is not None:
            parts = (found.shares[..., None] * self._context_variances(found.values)).sum(axis=-2)
            deltas = ((parts * found.projections)[..., None, :] * found.axes).sum(axis=-1)
            rest = rest - multiply(deltas, self._effect_rows.T)
            assert sums.rows is not None
            levels = levels - (sums.rows * deltas).sum(axis=-1)
        if self.has_intercept:
            rest = rest - (levels / sums.ones)[..., None]
        return np.asarray(-(w * rest).sum(axis=-2))

    def _context_variances(self, values: np.ndarray) -> np.ndarray:
        """Return the posterior variances of δ along the axes for every sd τ, (…, T, C, p)."""
        taus = self._contexts
        inverse = np.where(taus > 0.0, taus, 1.0) ** -2
        return (taus > 0.0)[:, None] / (values[..., None, :] + inverse[:, None])

    def _scale_slope(self, sums: _Sums, found: _Sizes) -> Any:
        """Return the slope in log σ where all variances grow with σ²."""
        squares = sums.squares
        if self.has_intercept:
            squares = squares - sums.gaps**2 / sums.ones
        by_s2 = (0.5 * (squares - len(self.m) + self.has_intercept))[..., None]
        if found.values is not None and found.projections is not None:
            values, parts = found.values[..., None, :], self._context_variances(found.values)
            along = parts * found.projections[..., None, :]
            # The part of δ: (v + 2/τ²) (v + 1/τ²)⁻² = 2 (v + 1/τ²)⁻¹ − v (v + 1/τ²)⁻².
            fits = 2.0 * along * found.projections[..., None, :] - values * along**2
            by_s2 = by_s2 + 0.5 * (values * parts - fits).sum(axis=-1)
        return 2.0 * (found.shares * by_s2).sum(axis=(-1, -2))

    def _variance_slopes(self, gaps: np.ndarray, w: np.ndarray, found: _Sizes) -> np.ndarray:
        """Return the slopes in the variances of gaps for every size t, (…, T, R)."""
        total, rest = w.sum(axis=-1)[..., None, None], gaps[..., None, None, :]
        inner = w - w * w / total[..., 0] if self.has_intercept else w
        inner = inner[..., None, :]
        if found.axes is not None and found.values is not None and found.projections is not None:
            rows, parts = self._effect_rows, self._context_variances(found.values)
            along = (parts * found.projections[..., None, :])[..., None, :]
            deltas = (along * found.axes[..., None, :, :]).sum(axis=-1)
            rest = rest - multiply(deltas, rows.T)
            middle = self._add_rows(w) / total[..., 0] if self.has_intercept else np.zeros((1, 1))
            centred = rows - middle[..., None, :]
            turned = np.einsum("...rj,...jk->...kr", centred, found.axes) ** 2
            inner = inner - w[..., None, :] ** 2 * np.einsum("...ck,...kr->...cr", parts, turned)
        if self.has_intercept:
            rest = rest - (w[..., None, :] * rest).sum(axis=-1, keepdims=True) / total
        squares = (w[..., None, :] * rest) ** 2 - inner
        return np.asarray(0.5 * (found.shares[..., None] * squares).sum(axis=-2))

    def _draw(self, sums: _Sums, s2: Any, rng: np.random.Generator) -> Effects:
        """Draw sizes, contextual effects and intercepts, one for each point."""
        found, n = self._integrate(sums), len(sums.ones)
        n_contexts = len(self._contexts)
        ends = found.shares.reshape(n, -1).cumsum(axis=1)
        place = (ends < rng.random((n, 1)) * ends[:, -1:]).sum(axis=1)
        t, c = np.divmod(np.minimum(place, ends.shape[1] - 1), n_contexts)
        point = np.arange(n)
        tau, p = self._contexts[c], self.rows.shape[1]
        steps, delta = rng.standard_normal((n, p)), np.zeros((n, p))
        if found.axes is not None and found.values is not None and found.projections is not None:
            scale = found.values[point, t] + np.where(tau > 0.0, tau, 1.0)[:, None] ** -2
            along = found.projections[point, t] / scale + steps / np.sqrt(scale)
            delta = (found.axes[point, t] * along[:, None, :]).sum(axis=-1)
            delta[tau == 0.0] = 0.0
        levels = np.zeros(n)
        if self.has_intercept:
            total, middle = sums.ones[point, t], sums.gaps[point, t]
            if sums.rows is not None:
                middle = middle - (sums.rows[point, t] * delta).sum(axis=1)
            levels = middle / total + rng.standard_normal(n) / np.sqrt(total)
        offsets = np.sqrt(self._offset_variances(s2)[point, t])
        return Effects(offsets, tau, delta, levels)


@dataclass(frozen=True, eq=False)
class AnchoredMeans(BagMeans):
    """Bag means where known pairs stand as bags of one row and share the effects of their bag.

    `original_bags` has the number of the original bag of each of the R bags. As these share
    effects, the density is a product. The mean gap of an original bag, weighted by labels, has its
    effects and noise. The differences of gaps from that mean have noise alone.
    """

    original_bags: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))

    @cached_property
    def _totals(self) -> np.ndarray:
        """Labels of each original bag."""
        return np.bincount(self.original_bags, self.m)

    @cached_property
    def _given(self) -> BagMeans:
        """The distribution of the mean gaps of the bags as given."""
        nothing = np.zeros(len(self._totals))
        sums = np.zeros((len(self._totals), self.rows.shape[1]))
        np.add.at(sums, self.original_bags, self.m[:, None] * self.rows)
        return BagMeans(
            self._totals, nothing, nothing, self.has_intercept, sums / self._totals[:, None],
            self.offset_share, self.offset_sd, self.context_share, self.only,
        )  # fmt: skip

    def _split(self, gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean gaps of original bags (…, H), and what is left of each gap (…, R)."""
        sums = np.zeros((*gaps.shape[:-1], len(self._totals)))
        # Bag after bag: the order of the sum must not depend on the number of points.
        np.add.at(sums.T, self.original_bags, (gaps * self.m).T)
        means = sums / self._totals
        return means, gaps - means[..., self.original_bags]

    def _inside(self, rest: np.ndarray, log_sigma: Any) -> Any:
        """Return the log density of the differences of gaps from the means of original bags."""
        n_free = len(self.m) - len(self._totals)
        squares = (self.m * rest * rest).sum(axis=-1)
        return -0.5 * squares * np.exp(-2.0 * log_sigma) - n_free * log_sigma

    def evaluate(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigma: Any
    ) -> tuple[Any, np.ndarray, np.ndarray, Any]:
        means, rest = self._split(gaps)
        value, by_gap, _, slope = self._given.evaluate(means, np.zeros(means.shape), log_sigma)
        precision = np.exp(-2.0 * np.asarray(log_sigma))
        by_gap = (by_gap / self._totals)[..., self.original_bags] * self.m
        by_gap = by_gap - self.m * rest * precision[..., None]
        n_free = len(self.m) - len(self._totals)
        slope = slope + (self.m * rest * rest).sum(axis=-1) * precision - n_free
        return value + self._inside(rest, log_sigma), by_gap, np.zeros(gaps.shape), slope

    def evaluate_many(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigmas: np.ndarray
    ) -> np.ndarray:
        means, rest = self._split(gaps)
        values = self._given.evaluate_many(means, np.zeros(means.shape), log_sigmas)
        return np.asarray(values + self._inside(rest, log_sigmas))

    def size_shares(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigma: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        means = self._split(gaps)[0]
        return self._given.size_shares(means, np.zeros(means.shape), log_sigma)

    def draw_effects(
        self,
        gaps: np.ndarray,
        variances: np.ndarray,
        log_sigmas: np.ndarray,
        rng: np.random.Generator,
    ) -> Effects:
        means = self._split(gaps)[0]
        return self._given.draw_effects(means, np.zeros(means.shape), log_sigmas, rng)
