"""Linear regression when you do not know which label belongs to which row."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0.dev0"

# Public name → the module that holds it; loaded on first use, so that importing is cheap.
_NAMES = {
    "ShuffledLinearRegression": "estimator",
    "fit": "methods",
    "METHODS": "methods",
    "choose_method": "methods",
    "Means": "methods",
    "choose_paper_method": "methods",
    "Likelihood": "solvers.likelihood",
    "Sampler": "solvers.sampler",
    "Exact": "methods",
    "Projection": "solvers.projection",
    "Bag": "bags",
    "make_bags": "bags",
    "Squared": "losses",
    "Absolute": "losses",
    "KolmogorovSmirnov": "losses",
    "SmallD": "losses",
    "OrderInvariant": "losses",
    "Moments": "losses",
    "GaussianNoise": "noise",
    "MomentNoise": "noise",
    "noise_from_calibration": "noise",
    "Solution": "solution",
    "Status": "solution",
    "make_shuffled": "simulate",
    "shuffle_labels": "simulate",
    "load_dataset": "datasets",
    "sorted_error": "scoring",
    "make_shuffled_scorer": "scoring",
    "compare_methods": "comparison",
    "plot_coefficients": "plots",
    "plot_sorted": "plots",
    "plot_starts": "plots",
    "plot_candidates": "plots",
    "plot_posterior": "plots",
    "plot_matches": "plots",
    "plot_error_by_bags": "plots",
    "write_report": "report",
    "InputError": "errors",
}

__all__ = ["__version__", *sorted(_NAMES)]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'unshuffle' has no attribute '{name}'")
    return getattr(import_module(f"unshuffle.{_NAMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
