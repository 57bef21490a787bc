"""Statistics of a solver: numbers of starts, evaluations and draws, mixing, links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Stats(Mapping[str, Any]):
    """Statistics of a solver; None where its algorithm has no such number.

    It is also a mapping from names to numbers, the form that model files have.

    Attributes
    ----------
    method : str
        The method that solved, where it is another than the one chosen.
    remarks, priors : tuple of str
        What was handled but should be known, and the priors used; each a sentence.
    n_starts, n_converged, n_candidates : int
        Starts of a search, those that met the tolerance, and the answers that they led to.
    n_evaluations : int
        Points at which the loss or the posterior was evaluated.
    n_matchings : int
        Matchings that an exhaustive search tried.
    n_sorted, n_open_cones : int
        Branch and bound: corners whose value was computed, and cones that are still open.
    n_exact : int
        Answers that meet the labels to rounding.
    n_rounds : int
        Rounds of importance sampling.
    effective_draws : float
        Effective sample size.
    likelihood_power : float
        Power of the tempered likelihood.
    log_evidence, log_evidence_error : float
        Log marginal likelihood, and its standard error between runs (None for a single run).
    diagnostics : mapping of str to float
        Fields of `Diagnostics`.
    n_levels, n_sweeps, n_trips : int
        Replica exchange: noise levels, sweeps, and round trips between the end levels.
    split_rhat, least_exchange, cut_share : float
        Replica exchange: the worst split R̂, the lowest exchange rate, and the largest share of
        the posterior at the coldest level.
    exchange_rates : array
        Mean exchange rates of neighbouring levels.
    match_probabilities : tuple of arrays
        For each bag the probabilities of matches (rows × labels, in canonical order).
    mislinked, mislinked_interval : float, pair of floats
        Share of wrong links, and its 95 % interval where it was estimated.
    links_say_nothing : bool
        Whether chance explains as well that labels stand beside their rows.
    link_probability : array
        Probability of each link that it is right.
    mixture_weight : float
        Share of the likelihood mixture in its average with the adjusted equations.

    Examples
    --------
    >>> stats = Stats(n_starts=32, n_evaluations=900)
    >>> stats.n_starts, stats["n_evaluations"], "n_sweeps" in stats
    (32, 900, False)
    """

    method: str | None = None
    remarks: tuple[str, ...] = ()
    priors: tuple[str, ...] = ()
    n_starts: int | None = None
    n_converged: int | None = None
    n_candidates: int | None = None
    n_evaluations: int | None = None
    n_matchings: int | None = None
    n_sorted: int | None = None
    n_open_cones: int | None = None
    n_exact: int | None = None
    n_rounds: int | None = None
    effective_draws: float | None = None
    likelihood_power: float | None = None
    log_evidence: float | None = None
    log_evidence_error: float | None = None
    diagnostics: Mapping[str, float] | None = None
    n_levels: int | None = None
    n_sweeps: int | None = None
    n_trips: int | None = None
    split_rhat: float | None = None
    least_exchange: float | None = None
    cut_share: float | None = None
    exchange_rates: np.ndarray | None = None
    match_probabilities: tuple[np.ndarray, ...] | None = None
    mislinked: float | None = None
    mislinked_interval: tuple[float, float] | None = None
    links_say_nothing: bool | None = None
    link_probability: np.ndarray | None = None
    mixture_weight: float | None = None

    def __getitem__(self, name: str) -> Any:
        if name not in _NAMES:
            raise KeyError(name)
        return getattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in _NAMES and self[str(name)] is not None

    def __iter__(self) -> Iterator[str]:
        return (name for name in _NAMES if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the number of this name, or the default where the algorithm has none."""
        found = self[name] if name in _NAMES else None
        return default if found is None else found

    def more_evaluations(self, n: int) -> Stats:
        """Return the same with so many more evaluations."""
        return replace(self, n_evaluations=(self.n_evaluations or 0) + n)

    @classmethod
    def read(cls, counted: Mapping[str, Any]) -> Stats:
        """Return the statistics in a model file, without numbers that only other versions have.

        >>> Stats.read({"n_starts": 3, "n_hops": 5}).n_starts
        3
        """
        return cls(**{name: value for name, value in counted.items() if name in _NAMES})


_NAMES = tuple(each.name for each in fields(Stats))
