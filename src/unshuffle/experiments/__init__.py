"""The paper's figures and tables, one file each; this file only knows their names."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from unshuffle.errors import InputError, quote, suggest

if TYPE_CHECKING:
    from unshuffle.experiments.runner import Experiment

# Name on the command line (its label in the source of the paper) → module, in the order of print
# but for the negative control, which belongs beside its table; the number in print is the `place`.
EXPERIMENTS = {
    "figure1": "figure1",
    "figure2": "figure2",
    "figure2b": "figure2b",
    "regimes-n-d": "regimes_n_d",
    "figure3": "figure3",
    "regimes-d-r": "regimes_d_r",
    "figure4": "figure4",
    "regularization": "regularization",
    "table1": "table1",
    "table2": "table2",
    "negative-control": "negative_control",
    "table3": "table3",
    "regimes-ls-p1": "regimes_ls_p1",
    "figureC": "figure_c",
}


def load_experiment(name: str) -> Experiment:
    """Return an experiment by name.

    >>> load_experiment("table2").place
    'Table 2'
    """
    if name not in EXPERIMENTS:
        raise InputError(f"no experiment is called {quote(name)}; {suggest(name, EXPERIMENTS)}")
    module = import_module(f"unshuffle.experiments.paper.{EXPERIMENTS[name]}")
    experiment: Experiment = module.EXPERIMENT
    return experiment
