"""The methods by name, each with a summary and its class, which is imported on use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Method:
    """An entry of `METHODS`.

    Attributes
    ----------
    name : str
        What ``method=`` takes.
    summary : str
        One line on the method.
    place : str or None
        Module and class of the strategy or loss; None for names that choose another method.
    arguments : mapping
        Arguments of that class.

    Examples
    --------
    >>> METHODS["ls"].place
    'objectives.losses:Squared'
    """

    name: str
    summary: str
    place: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def strategy(self) -> Any:
        """The strategy or loss, which ``method=`` also takes; None for a chooser."""
        if self.place is None:
            return None
        module, _, name = self.place.partition(":")
        return getattr(import_module(f"unshuffle.{module}"), name)(**self.arguments)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("auto", "the method that the decision table picks for these data"),
        Method(
            "likelihood",
            "the posterior of the shuffled model: estimate, intervals, competing answers",
            "inference.likelihood:Likelihood",
        ),
        Method(
            "sampler",
            "the exact model sampled: matchings, weights and noise, for up to a few hundred rows",
            "inference.sampler:Sampler",
        ),
        Method("paper", "the paper's rule: 'sm' if d <= 2 or bags >= 3d, else 'p1'"),
        Method(
            "ls",
            "least squares over all matchings: sorted predictions against sorted labels",
            "objectives.losses:Squared",
        ),
        Method(
            "sm",
            "self-moments: the first K moments of predictions and labels agree",
            "objectives.losses:Moments",
        ),
        Method(
            "p1",
            "least squares among weights that meet the mean exactly",
            "solvers.projection:Projection",
            {"dp": 1},
        ),
        Method(
            "p2",
            "least squares among weights that meet mean and variance exactly",
            "solvers.projection:Projection",
            {"dp": 2},
        ),
        Method(
            "emd",
            "earth mover's distance between predictions and labels",
            "objectives.losses:Absolute",
        ),
        Method(
            "ks",
            "Kolmogorov-Smirnov distance between predictions and labels",
            "objectives.losses:KolmogorovSmirnov",
        ),
        Method(
            "small-d",
            "least squares on the smallest labels only (the paper's poor example)",
            "objectives.losses:SmallD",
        ),
        Method(
            "means",
            "regression of bag means, unbiased, for at least as many bags as weights",
            "solvers.means:Means",
        ),
        Method(
            "exact",
            "least squares over every permutation, for at most 8 rows",
            "solvers.exact:Exact",
        ),
        Method(
            "certified",
            "least squares with a proof that nothing is lower, for at most 4 weights",
            "solvers.certified:Certified",
        ),
    )
}
