"""Linear regression when you do not know which label belongs to which row."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name → the module that holds it; loaded on first use, so that importing is cheap.
_NAMES = {
    "ShuffledLinearRegression": "estimator",
    "load": "loading",
    "fit": "answers.fit",
    "Fit": "answers.result",
    "METHODS": "registry",
    "choose_method": "methods",
    "Means": "solvers.means",
    "choose_paper_method": "methods",
    "Likelihood": "posterior.likelihood",
    "Sampler": "posterior.sampler",
    "Exact": "solvers.exact",
    "Certified": "solvers.certified",
    "Projection": "solvers.projection",
    "Bag": "core.bags",
    "make_bags": "core.bags",
    "Histogram": "core.labels",
    "Squared": "core.losses",
    "Absolute": "core.losses",
    "KolmogorovSmirnov": "core.losses",
    "SmallD": "core.losses",
    "OrderInvariant": "core.losses",
    "Moments": "core.losses",
    "GaussianNoise": "core.noise",
    "MomentNoise": "core.noise",
    "StudentNoise": "core.noise",
    "GridNoise": "core.noise",
    "noise_from_calibration": "core.noise",
    "Links": "core.links",
    "Solution": "core.solution",
    "Status": "core.solution",
    "make_shuffled": "simulate",
    "shuffle_labels": "simulate",
    "load_dataset": "datasets",
    "sorted_error": "scoring",
    "make_shuffled_scorer": "scoring",
    "compare_methods": "comparison",
    "plot_coefficients": "answers.plots",
    "plot_sorted": "answers.bag_plots",
    "plot_bag_means": "answers.bag_plots",
    "plot_places": "answers.bag_plots",
    "plot_bags": "answers.bag_plots",
    "plot_offsets": "answers.bag_plots",
    "plot_predictions": "answers.bag_plots",
    "plot_noise": "answers.plots",
    "plot_offset_sd": "answers.plots",
    "plot_starts": "answers.plots",
    "plot_candidates": "answers.plots",
    "plot_posterior": "answers.plots",
    "plot_matches": "answers.plots",
    "plot_error_by_bags": "answers.plots",
    "plot_plan": "answers.plots",
    "plot_exposure": "answers.plots",
    "plot_calibration": "answers.plots",
    "write_report": "answers.report",
    "audit": "auditing.findings",
    "Audit": "auditing.findings",
    "write_audit": "auditing.page",
    "InputError": "errors",
    "ModelMisfitWarning": "errors",
    "OutlierWarning": "errors",
}

# Packages of names of their own, reached as `unshuffle.design` without being imported.
_PACKAGES = ("design",)

__all__ = ["__version__", *sorted(_NAMES)]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"unshuffle.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module 'unshuffle' has no attribute '{name}'")
    return getattr(import_module(f"unshuffle.{_NAMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, *_PACKAGES]
