"""Noise models: a variance, moments, and a few equally likely atoms.

Moments serve the moment loss, atoms every sorted loss: spread over its atoms, a prediction
becomes a small sample of what its label could have been.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from unshuffle.errors import InputError, quote, shorten

# Sixteen atoms bring the sorted losses within 1 % of their value for a thousand atoms at noise
# as large as the signal, at sixteen times the sorting; more gain nothing that sampling error
# does not hide.
N_ATOMS = 16


class Noise(ABC):
    """What is known of the noise added to every label."""

    has_atoms: ClassVar[bool] = True

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

    @abstractmethod
    def divided_by(self, scale: float) -> Noise:
        """Return the same noise in other units."""


@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Gaussian noise of a given standard deviation.

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
        raw = ndtri((np.arange(n_atoms) + 0.5) / n_atoms)
        return self.scale * raw / np.sqrt(np.mean(raw**2))

    def divided_by(self, scale: float) -> Noise:
        return GaussianNoise(self.scale / scale)


@dataclass(frozen=True)
class MomentNoise(Noise):
    """Noise of which only the moments E[e], E[e²], … are known; it has no atoms.

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
    """Noise seen in a sample, as `noise_from_calibration` makes it."""

    errors: np.ndarray

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


def noise_from_calibration(labels: Sequence[float]) -> Noise:
    """Measure the noise from labels of identical inputs: whatever they differ by is noise.

    The differences from the mean are widened by √(n/(n − 1)), so that the variance is unbiased.

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
}


def as_noise(noise: object) -> Noise | None:
    """Turn what the user gave into a noise model: None, an sd, moments, or a model itself."""
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
