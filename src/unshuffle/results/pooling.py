"""Rubin's rules: one answer from the analyses of several completed data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unshuffle.errors import InputError
from unshuffle.formatting import align, show_number


@dataclass(frozen=True, eq=False)
class Pooled:
    """Estimates pooled by Rubin's rules; one entry for each coefficient.

    Attributes
    ----------
    estimate : ndarray
        Mean of the estimates.
    covariance : ndarray
        Total covariance: mean covariance within, plus (1 + 1/m) times the covariance between.
    sd : ndarray
        Standard errors.
    interval : ndarray of shape (d, 2)
        Ends of the t intervals.
    df : ndarray
        Degrees of freedom.
    missing_information : ndarray
        Fraction of missing information: the share of the information about a coefficient that the
        unknown pairing takes away.
    names : tuple of str
        Names of the coefficients.
    level : float
        Level of the intervals.

    Examples
    --------
    >>> print(pool([[1.0], [2.0]], [[[0.25]], [[0.25]]], names=["age"]))
    coefficient  estimate  sd     low   high     df  missing information
    age               1.5   1  -3.361  6.361  1.778               0.8547
    """

    estimate: np.ndarray
    covariance: np.ndarray
    interval: np.ndarray
    df: np.ndarray
    missing_information: np.ndarray
    names: tuple[str, ...]
    level: float

    @property
    def sd(self) -> np.ndarray:
        """Standard errors."""
        return np.sqrt(np.diagonal(self.covariance))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        head = ("coefficient", "estimate", "sd", "low", "high", "df", "missing information")
        values = (self.estimate, self.sd, *self.interval.T, self.df, self.missing_information)
        cells = [[show_number(float(v)) for v in row] for row in zip(*values, strict=True)]
        lines = [head, *([name, *row] for name, row in zip(self.names, cells, strict=True))]
        return "\n".join(align(lines))


def pool(
    estimates: Sequence[Any],
    covariances: Sequence[Any],
    *,
    dof: float | None = None,
    level: float = 0.95,
    names: Sequence[str] | None = None,
) -> Pooled:
    """Pool the analyses of m completed data sets by Rubin's rules (1987).

    Parameters
    ----------
    estimates : sequence of m arrays of shape (d,)
        The estimates of each analysis.
    covariances : sequence of m arrays of shape (d, d)
        Their covariance matrices; numbers where d is 1.
    dof : float, optional
        Residual degrees of freedom of one analysis (n − d in a linear regression). Degrees of
        freedom are then those of Barnard and Rubin (1999), which never exceed it; without it those
        of Rubin (1987), for large samples.
    level : float, default=0.95
        Level of the intervals.
    names : sequence of str, optional
        Names of the coefficients.

    Returns
    -------
    Pooled
        Estimate, covariance, sd, interval, df and fraction of missing information.

    Raises
    ------
    InputError
        For fewer than two analyses, or arrays that do not belong together.

    References
    ----------
    Rubin, D. B. (1987). *Multiple Imputation for Nonresponse in Surveys*. Wiley.
    Barnard, J. and Rubin, D. B. (1999). Small-sample degrees of freedom with multiple imputation.
    *Biometrika* 86, 948–955.

    Examples
    --------
    >>> pooled = pool([[1.0], [2.0], [3.0]], [[[1.0]], [[1.0]], [[1.0]]])
    >>> pooled.estimate.tolist(), pooled.covariance.round(3).tolist(), pooled.df.round(3).tolist()
    ([2.0], [[2.333]], [6.125])
    """
    points, within = _read(estimates, covariances)
    m, d = points.shape
    if not 0.0 < level < 1.0:
        raise InputError(f"level={level!r} is no probability between 0 and 1: give 0.95 or such")
    if dof is not None and not dof > 0.0:
        raise InputError(f"dof={dof!r} must be a number of degrees of freedom above 0")
    estimate, inside = points.mean(axis=0), within.mean(axis=0)
    gaps = points - estimate
    between = (1.0 + 1.0 / m) * np.einsum("ki,kj->ij", gaps, gaps) / (m - 1)
    total = inside + between
    variances = np.diagonal(total)
    share = np.divide(
        np.diagonal(between), variances, out=np.zeros(d), where=variances > 0.0
    )  # λ: share of the variance that is between
    df = _find_df(share, m, dof)
    # γ = (r + 2/(df + 3))/(r + 1) with r = λ/(1 − λ).
    missing = share + (1.0 - share) * np.where(share > 0.0, 2.0 / (df + 3.0), 0.0)
    from scipy.special import stdtrit  # slow to import

    reach = stdtrit(np.minimum(df, 1e9), 0.5 + level / 2.0) * np.sqrt(variances)
    shown = tuple(f"x{j}" for j in range(d)) if names is None else tuple(map(str, names))
    if len(shown) != d:
        raise InputError(f"names has {len(shown)} entries but there are {d} coefficients")
    interval = np.stack([estimate - reach, estimate + reach], axis=1)
    return Pooled(estimate, total, interval, df, missing, shown, level)


def _find_df(share: np.ndarray, m: int, dof: float | None) -> np.ndarray:
    """Return degrees of freedom: Rubin's, or those of Barnard and Rubin with `dof`."""
    with np.errstate(divide="ignore"):
        large = (m - 1) / share**2
        if dof is None:
            return np.asarray(large)
        observed = (dof + 1.0) / (dof + 3.0) * dof * (1.0 - share)
        return np.asarray(1.0 / (1.0 / large + 1.0 / observed))


def _read(estimates: Sequence[Any], covariances: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates (m, d) and covariances (m, d, d), or say what does not fit."""
    if len(estimates) != len(covariances):
        raise InputError(
            f"there are {len(estimates)} estimates but {len(covariances)} covariances: give one "
            "of each for every completed data set"
        )
    if len(estimates) < 2:
        raise InputError(
            f"{len(estimates)} analysis says nothing of the variance between: give two or more"
        )
    try:
        points = np.array([np.atleast_1d(np.asarray(each, float)) for each in estimates])
        within = np.array([np.atleast_2d(np.asarray(each, float)) for each in covariances])
    except (TypeError, ValueError):
        raise InputError(
            "estimates and covariances must be numbers, of the same coefficients in every analysis"
        ) from None
    d = points.shape[-1]
    if points.ndim != 2 or within.shape[1:] != (d, d):
        raise InputError(
            f"estimates have shape {points.shape[1:]} and covariances {within.shape[1:]}: give "
            "arrays of d numbers and of d × d"
        )
    if not (np.isfinite(points).all() and np.isfinite(within).all()):
        raise InputError("estimates or covariances hold values that are not finite: mend them")
    if (np.diagonal(within, axis1=1, axis2=2) < 0.0).any():
        raise InputError("a covariance has a negative variance on its diagonal: mend it")
    return points, within
