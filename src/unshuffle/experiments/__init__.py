"""The paper's figures and tables by name; `experiments.paper` computes and draws them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from unshuffle.errors import InputError, quote, suggest

if TYPE_CHECKING:
    from unshuffle.experiments.runner import Experiment

# Name on the command line (its label in the source of the paper) → module and object, in the order
# of print but for the negative control, which belongs beside its table; the number in print is the
# `place`.
EXPERIMENTS = {
    "figure1": "figure1:EXPERIMENT",
    "figure2": "figure2:EXPERIMENT",
    "figure2b": "figure2:THREE_WEIGHTS",
    "regimes-n-d": "regimes:BY_ROWS",
    "figure3": "figure3:EXPERIMENT",
    "regimes-d-r": "regimes:BY_BAGS",
    "figure4": "figure4:EXPERIMENT",
    "regularization": "regularization:EXPERIMENT",
    "table1": "table1:EXPERIMENT",
    "table2": "table2:EXPERIMENT",
    "negative-control": "table2:NEGATIVE_CONTROL",
    "table3": "table3:EXPERIMENT",
    "regimes-ls-p1": "regimes:BY_SPREAD",
    "figureC": "figure_c:EXPERIMENT",
}


def load_experiment(name: str) -> Experiment:
    """Return an experiment by name.

    >>> load_experiment("table2").place
    'Table 2'
    """
    if name not in EXPERIMENTS:
        raise InputError(f"no experiment is called {quote(name)}; {suggest(name, EXPERIMENTS)}")
    module, _, place = EXPERIMENTS[name].partition(":")
    experiment: Experiment = getattr(import_module(f"unshuffle.experiments.paper.{module}"), place)
    return experiment
