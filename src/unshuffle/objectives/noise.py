"""Noise models: a variance, moments, a few equally likely atoms, and a density.

Moments serve the moment loss, atoms every sorted loss: spread over its atoms, a prediction
becomes a small sample of what its label could have been. The likelihood takes the density; noise
of which only moments are known counts as Gaussian there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from unshuffle.errors import InputError, quote, shorten

# At noise as large as the signal, sorted losses are within 1 % of their value for 1000 atoms.
N_ATOMS = 16
# Longer calibration samples are represented by so many quantiles.
_MAX_CENTRES = 1000


class Noise(ABC):
    """The distribution of the noise that is added to every label."""

    has_atoms: ClassVar[bool] = True
    # Whether the likelihood should see its shape, and not only its sd.
    has_shape: ClassVar[bool] = False

    @property
    def sd(self) -> float:
        """Standard deviation, √(E[e²] − E[e]²)."""
        mean, square = self.moments(2)
        # Noise that is a constant may round to just below zero.
        return float(np.sqrt(max(square - mean**2, 0.0)))

    @abstractmethod
    def moments(self, n_moments: int) -> np.ndarray:
        """Return E[e], E[e²], … up to the given number."""

    @abstractmethod
    def atoms(self, n_atoms: int = N_ATOMS) -> np.ndarray:
        """Return equally likely values with the mean and variance of the noise."""

    def log_density(self, errors: np.ndarray) -> np.ndarray:
        """Return the log density; without a shape of its own it is that of a Gaussian."""
        mean, sd = float(self.moments(1)[0]), _check_spread(self.sd)
        return -0.5 * ((errors - mean) / sd) ** 2 - np.log(sd * np.sqrt(2.0 * np.pi))

    @abstractmethod
    def divided_by(self, scale: float) -> Noise:
        """Return the same noise in other units."""


def _check_spread(sd: float) -> float:
    """Refuse the density of noise that does not vary."""
    if sd == 0:
        raise InputError("noise of sd 0 has no density: give a sd above 0, or no noise")
    return sd


@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Gaussian noise of a given standard deviation.

    Parameters
    ----------
    scale : float
        The standard deviation, at least 0.

    Examples
    --------
    >>> GaussianNoise(2.0).moments(4).tolist()
    [0.0, 4.0, 0.0, 48.0]
    """

    scale: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale >= 0):
            raise InputError(f"noise must be a finite sd of at least 0, got {self.scale}")

    @property
    def sd(self) -> float:
        return float(self.scale)

    def moments(self, n_moments: int) -> np.ndarray:
        moments, even = np.zeros(n_moments), np.float64(1.0)
        with np.errstate(over="ignore"):
            for k in range(2, n_moments + 1, 2):
                even *= (k - 1) * np.float64(self.scale) ** 2
                moments[k - 1] = even
        if not np.isfinite(moments).all():
            raise InputError(
                f"noise of {self.scale:.3g} times the size of the labels has no finite moments: "
                "give its sd in the units of y"
            )
        return moments

    def atoms(self, n_atoms: int = N_ATOMS) -> np.ndarray:
        if self.scale == 0:
            return np.zeros(1)
        from scipy.special import ndtri  # slow to import, and seldom needed

        raw = ndtri((np.arange(n_atoms) + 0.5) / n_atoms)
        return self.scale * raw / np.sqrt(np.mean(raw**2))

    def divided_by(self, scale: float) -> Noise:
        return GaussianNoise(self.scale / scale)


@dataclass(frozen=True)
class MomentNoise(Noise):
    """Noise of which only the moments E[e], E[e²], … are known; it has no atoms.

    Parameters
    ----------
    values : sequence of float
        E[e], E[e²], and as many more as are known.

    Examples
    --------
    >>> MomentNoise((0.0, 4.0)).sd
    2.0
    """

    values: tuple[float, ...]
    has_atoms: ClassVar[bool] = False

    def __post_init__(self) -> None:
        values = tuple(float(v) for v in self.values)
        if len(values) < 2 or not np.all(np.isfinite(values)):
            raise InputError(
                f"noise moments must be at least E[e] and E[e²], all finite, got {values}"
            )
        if values[1] < values[0] * values[0] or any(v < 0 for v in values[1::2]):
            raise InputError(
                f"no noise has the moments {values}: even moments are never negative, and "
                "E[e²] is at least E[e]²"
            )
        object.__setattr__(self, "values", values)

    def moments(self, n_moments: int) -> np.ndarray:
        if n_moments > len(self.values):
            raise InputError(
                f"the loss needs {n_moments} noise moments but {len(self.values)} are given: "
                "give more, or a smaller K in Moments(K)"
            )
        return np.array(self.values[:n_moments])

    def atoms(self, n_atoms: int = N_ATOMS) -> np.ndarray:
        raise InputError(
            "noise given by its moments cannot be spread over the predictions of a sorted loss: "
            "give a standard deviation or noise_from_calibration(labels), or use method='sm'"
        )

    def divided_by(self, scale: float) -> Noise:
        # Step by step: a power of the scale could overflow where the quotient does not.
        values = list(self.values)
        for k in range(len(values)):
            for j in range(k, len(values)):
                values[j] /= scale
        return MomentNoise(tuple(values))


@dataclass(frozen=True, eq=False)
class SampleNoise(Noise):
    """The empirical distribution of errors, as `noise_from_calibration` returns it."""

    errors: np.ndarray
    has_shape: ClassVar[bool] = True

    def log_density(self, errors: np.ndarray) -> np.ndarray:
        """Return the log of a kernel density estimate, shrunk to keep the sd of the errors.

        The bandwidth is that of Silverman (1986), 1.06 sd n^(-1/5).
        """
        from scipy.special import logsumexp  # slow to import, and seldom needed

        n, sd = len(self.errors), _check_spread(float(np.std(self.errors)))
        width = 1.06 * sd * n**-0.2
        mean = self.errors.mean()
        seen = self.errors
        if n > _MAX_CENTRES:
            seen = np.quantile(seen, (np.arange(_MAX_CENTRES) + 0.5) / _MAX_CENTRES)
        centres = mean + (seen - mean) * np.sqrt(max(1.0 - (width / sd) ** 2, 0.0))
        gaps = (np.asarray(errors)[..., None] - centres) / width
        scale = np.log(len(seen) * width * np.sqrt(2.0 * np.pi))
        return np.asarray(logsumexp(-0.5 * gaps**2, axis=-1)) - scale

    def moments(self, n_moments: int) -> np.ndarray:
        return np.array([np.mean(self.errors**k) for k in range(1, n_moments + 1)])

    def atoms(self, n_atoms: int = N_ATOMS) -> np.ndarray:
        if not self.errors.any():
            return np.zeros(1)
        raw = np.quantile(self.errors, (np.arange(n_atoms) + 0.5) / n_atoms)
        raw = raw - raw.mean()
        return raw * (np.std(self.errors) / np.std(raw) if np.std(raw) > 0 else 1.0)

    def divided_by(self, scale: float) -> Noise:
        return SampleNoise(self.errors / scale)


@dataclass(frozen=True)
class StudentNoise(Noise):
    """Noise with heavy tails: Student's t of a given sd and degrees of freedom, more than 2.

    Parameters
    ----------
    scale : float
        The standard deviation, above 0.
    dof : float
        Degrees of freedom, more than 2.

    Examples
    --------
    >>> StudentNoise(2.0, dof=5).sd
    2.0
    """

    scale: float
    dof: float
    has_shape: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise InputError(f"StudentNoise needs a finite sd above 0, got {self.scale}")
        if not (np.isfinite(self.dof) and self.dof > 2):
            raise InputError(
                f"StudentNoise needs more than 2 degrees of freedom, got {self.dof}: with 2 or "
                "fewer there is no sd"
            )

    @property
    def sd(self) -> float:
        return float(self.scale)

    @property
    def _unit(self) -> float:
        """Scale of the standard t whose sd is asked for."""
        return float(self.scale * np.sqrt((self.dof - 2.0) / self.dof))

    def log_density(self, errors: np.ndarray) -> np.ndarray:
        from scipy.stats import t as student_t  # slow to import, and seldom needed

        scaled = np.asarray(errors) / self._unit
        return np.asarray(student_t.logpdf(scaled, self.dof)) - np.log(self._unit)

    def moments(self, n_moments: int) -> np.ndarray:
        if n_moments >= self.dof:
            raise InputError(
                f"moment {n_moments} of t noise with {self.dof:g} degrees of freedom is infinite: "
                "give more degrees of freedom, or a smaller K in Moments(K)"
            )
        found = np.zeros(n_moments)
        for k in range(2, n_moments + 1, 2):
            before = found[k - 3] if k > 2 else 1.0
            found[k - 1] = before * self._unit**2 * self.dof * (k - 1) / (self.dof - k)
        return found

    def atoms(self, n_atoms: int = N_ATOMS) -> np.ndarray:
        from scipy.special import stdtrit  # slow to import, and seldom needed

        raw = stdtrit(self.dof, (np.arange(n_atoms) + 0.5) / n_atoms)
        return np.asarray(self.scale * raw / np.sqrt(np.mean(raw**2)))

    def divided_by(self, scale: float) -> Noise:
        return StudentNoise(self.scale / scale, self.dof)


@dataclass(frozen=True, eq=False)
class GridNoise(Noise):
    """Noise of a piecewise linear density, given at increasing places and zero beyond them.

    Parameters
    ----------
    places : array-like of shape (k,)
        Increasing values of the noise.
    density : array-like of shape (k,)
        Density at each of them, up to a factor.

    Examples
    --------
    >>> round(GridNoise([-1.0, 0.0, 1.0], [0.0, 1.0, 0.0]).sd, 4)
    0.4082
    """

    places: np.ndarray
    density: np.ndarray
    has_shape: ClassVar[bool] = True

    def __post_init__(self) -> None:
        try:
            places = np.asarray(self.places, dtype=float)
            density = np.asarray(self.density, dtype=float)
        except (TypeError, ValueError) as exc:
            raise InputError(f"GridNoise needs numbers: {exc}") from exc
        if places.ndim != 1 or places.shape != density.shape or len(places) < 2:
            raise InputError(
                f"GridNoise needs as many densities as places, at least two, got shapes "
                f"{places.shape} and {density.shape}"
            )
        if not (np.isfinite(places).all() and (np.diff(places) > 0).all()):
            raise InputError("GridNoise needs finite places that increase: sort them")
        if not (np.isfinite(density).all() and (density >= 0).all() and density.any()):
            raise InputError("GridNoise needs finite densities of at least 0, not all 0")
        total = np.trapezoid(density, places)
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "density", density / total)

    def log_density(self, errors: np.ndarray) -> np.ndarray:
        found = np.interp(errors, self.places, self.density, left=0.0, right=0.0)
        # A density of zero becomes a very small one: a single outlier must not decide.
        return np.log(np.maximum(found, 1e-12 * self.density.max()))

    def moments(self, n_moments: int) -> np.ndarray:
        # Gauss's rule with g points is exact to degree 2g − 1, and a line times eᵏ has k + 1.
        nodes, weights = np.polynomial.legendre.leggauss((n_moments + 3) // 2)
        parts = 0.5 * (nodes[:, None] + 1.0)
        places = self.places[:-1] + parts * np.diff(self.places)
        heights = self.density[:-1] + parts * np.diff(self.density)
        masses = 0.5 * weights[:, None] * np.diff(self.places) * heights
        return np.array([float((masses * places**k).sum()) for k in range(1, n_moments + 1)])

    def atoms(self, n_atoms: int = N_ATOMS) -> np.ndarray:
        levels = (np.arange(n_atoms) + 0.5) / n_atoms
        widths = np.diff(self.places)
        masses = 0.5 * (self.density[1:] + self.density[:-1]) * widths
        cumulated = np.concatenate([[0.0], np.cumsum(masses)])
        # The interval that contains the level, and the probability between its left end and there.
        at = np.searchsorted(cumulated, levels) - 1
        left, height = levels - cumulated[at], self.density[at]
        slope = (np.diff(self.density) / widths)[at]
        # On a line the probability is height t + slope t²/2, in the form that no slope cancels.
        root = np.sqrt(np.maximum(height**2 + 2.0 * slope * left, 0.0))
        raw = self.places[at] + 2.0 * left / (height + root)
        mean = float(self.moments(1)[0])
        return mean + (raw - raw.mean()) * (self.sd / np.std(raw))

    def divided_by(self, scale: float) -> Noise:
        return GridNoise(self.places / scale, self.density * scale)


def noise_from_calibration(labels: Sequence[float] | np.ndarray) -> Noise:
    """Measure the noise from labels of identical inputs: whatever they differ by is noise.

    The differences from the mean are widened by √(n/(n − 1)), so that the variance is unbiased.

    Parameters
    ----------
    labels : sequence of float
        Labels of identical inputs, at least two.

    Returns
    -------
    Noise
        The empirical distribution of the noise.

    Raises
    ------
    InputError
        For fewer than two finite labels.

    Examples
    --------
    >>> round(noise_from_calibration([1.0, 2.0, 3.0]).sd, 3)
    1.0
    """
    try:
        values = np.sort(np.asarray(labels, dtype=float).ravel())
    except (TypeError, ValueError) as exc:
        raise InputError(
            f"a calibration sample needs numbers, got {quote(labels)}: leave out what is no label"
        ) from exc
    n = len(values)
    if n < 2 or not np.all(np.isfinite(values)):
        raise InputError(f"a calibration sample needs at least two finite labels, got {n}")
    return SampleNoise((values - values.mean()) * np.sqrt(n / (n - 1)))


NOISES: dict[str, type[Noise]] = {
    "gaussian": GaussianNoise,
    "moments": MomentNoise,
    "sample": SampleNoise,
    "student": StudentNoise,
    "grid": GridNoise,
}


def as_noise(noise: object) -> Noise | None:
    """Return the noise model of what a user gave: None, an sd, moments, or a model."""
    if noise is None or isinstance(noise, Noise):
        return noise
    if isinstance(noise, Real) and not isinstance(noise, bool):
        return GaussianNoise(float(noise))
    if isinstance(noise, Sequence | np.ndarray) and not isinstance(noise, str):
        try:
            return MomentNoise(tuple(np.ravel(np.asarray(noise, dtype=float)).tolist()))
        except InputError:
            raise
        except (TypeError, ValueError) as exc:
            raise InputError(
                f"noise={shorten(noise)} holds what is no number: give moments E[e], E[e²], …"
            ) from exc
    raise InputError(
        f"noise={noise!r} is not understood: give None, a standard deviation, a sequence of "
        "moments E[e], E[e²], …, or noise_from_calibration(labels)"
    )
