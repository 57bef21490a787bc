"""Pairings: whether rows and labels are the same individuals, a subset, or separate samples.

The likelihood sums over the pairing, which also sets the weight of bag means. With the same
individuals on both sides, mean label and mean prediction differ by σ/√n. Where labels are missing
or come from other individuals, the sampling error of both sides is added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unshuffle.errors import InputError, shorten


class Pairing(ABC):
    """How the labels of a bag come from its rows; n rows and m labels, both as masses."""

    name: ClassVar[str]
    # The pairing in a sentence, for output.
    sentence: ClassVar[str]
    # Whether each label belongs to one of the rows.
    has_individuals: ClassVar[bool] = True
    # Whether each row has its label, which output does not mention.
    is_usual: ClassVar[bool] = False

    @abstractmethod
    def weights(self, n: np.ndarray, m: np.ndarray) -> np.ndarray:
        """Return the weight of each bag: the effective number of labels behind its mean."""

    @abstractmethod
    def row_factors(self, n: np.ndarray, m: np.ndarray) -> np.ndarray:
        """Return f so that ȳ − z̄ has variance σ²/m + f var(z), var(z) being that of the bag."""


@dataclass(frozen=True)
class Permutation(Pairing):
    """The same individuals on both sides, each with its label.

    >>> Permutation().weights(np.array([3.0]), np.array([3.0])).tolist()
    [3.0]
    """

    name: ClassVar[str] = "permutation"
    sentence: ClassVar[str] = (
        "Rows and labels are the same individuals, so that their means differ by noise alone."
    )
    is_usual: ClassVar[bool] = True

    def weights(self, n: np.ndarray, m: np.ndarray) -> np.ndarray:
        return n

    def row_factors(self, n: np.ndarray, m: np.ndarray) -> np.ndarray:
        return np.zeros(len(n))


@dataclass(frozen=True)
class Subset(Pairing):
    """The same individuals on both sides, but the labels of some are missing at random.

    >>> Subset().row_factors(np.array([4.0]), np.array([2.0])).tolist()
    [0.25]
    """

    name: ClassVar[str] = "subset"
    sentence: ClassVar[str] = (
        "Rows and labels are the same individuals, and some labels are missing at random, so that "
        "intervals count which of them are seen."
    )

    def weights(self, n: np.ndarray, m: np.ndarray) -> np.ndarray:
        return m

    def row_factors(self, n: np.ndarray, m: np.ndarray) -> np.ndarray:
        return 1.0 / m - 1.0 / n


@dataclass(frozen=True)
class Draws(Pairing):
    """Separate samples of one population: no label belongs to any of the rows.

    >>> Draws().weights(np.array([2.0]), np.array([2.0])).tolist()
    [1.0]
    """

    name: ClassVar[str] = "draws"
    sentence: ClassVar[str] = (
        "Rows and labels are separate samples, so that intervals count the sampling error of both."
    )
    has_individuals: ClassVar[bool] = False

    def weights(self, n: np.ndarray, m: np.ndarray) -> np.ndarray:
        return n * m / (n + m)

    def row_factors(self, n: np.ndarray, m: np.ndarray) -> np.ndarray:
        return 1.0 / m + 1.0 / n


def choose_pairing(n: np.ndarray, m: np.ndarray, same_individuals: bool | None) -> Pairing:
    """Return the pairing of bags with n rows and m labels.

    Unless stated, rows and labels are the same individuals where their numbers agree in every
    bag, and separate samples otherwise.

    >>> choose_pairing(np.array([3.0]), np.array([2.0]), None).name
    'draws'
    """
    if not (same_individuals is None or isinstance(same_individuals, bool | np.bool_)):
        raise InputError(
            f"same_individuals={shorten(repr(same_individuals))} is not understood: give True "
            "(labels may be missing), False (separate samples) or None (by their numbers)"
        )
    is_equal = bool((n == m).all())
    if same_individuals is None:
        return Permutation() if is_equal else Draws()
    if not same_individuals:
        return Draws()
    wrong = np.flatnonzero(m > n)
    if len(wrong):
        r = wrong[0]
        raise InputError(
            f"bag {r} has {n[r]:g} rows but {m[r]:g} labels, more labels than individuals: give "
            "every individual's row, or fit them as separate samples (same_individuals=False)"
        )
    return Permutation() if is_equal else Subset()
