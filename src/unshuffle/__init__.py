"""Linear regression when you do not know which label belongs to which row."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name → the module that holds it; loaded on first use, so that importing is cheap.
_NAMES = {
    "ShuffledLinearRegression": "estimator",
    "load": "loading",
    "fit": "results.fit",
    "Fit": "results.result",
    "METHODS": "registry",
    "choose_method": "methods",
    "Means": "solvers.means",
    "choose_paper_method": "methods",
    "Likelihood": "inference.likelihood",
    "Sampler": "inference.sampler",
    "Exact": "solvers.exact",
    "Certified": "solvers.certified",
    "Projection": "solvers.projection",
    "Bag": "data.bags",
    "make_bags": "data.bags",
    "Histogram": "data.labels",
    "Squared": "objectives.losses",
    "Absolute": "objectives.losses",
    "KolmogorovSmirnov": "objectives.losses",
    "SmallD": "objectives.losses",
    "OrderInvariant": "objectives.losses",
    "Moments": "objectives.losses",
    "GaussianNoise": "objectives.noise",
    "MomentNoise": "objectives.noise",
    "StudentNoise": "objectives.noise",
    "GridNoise": "objectives.noise",
    "noise_from_calibration": "objectives.noise",
    "Links": "data.links",
    "Solution": "core.solution",
    "Status": "core.solution",
    "make_shuffled": "simulate",
    "shuffle_labels": "simulate",
    "load_dataset": "datasets",
    "sorted_error": "scoring",
    "make_shuffled_scorer": "scoring",
    "compare_methods": "comparison",
    "plot_coefficients": "results.pictures.plots",
    "plot_sorted": "results.pictures.bag_plots",
    "plot_bag_means": "results.pictures.bag_plots",
    "plot_places": "results.pictures.bag_plots",
    "plot_bags": "results.pictures.bag_plots",
    "plot_offsets": "results.pictures.bag_plots",
    "plot_predictions": "results.pictures.bag_plots",
    "plot_noise": "results.pictures.plots",
    "plot_offset_sd": "results.pictures.plots",
    "plot_starts": "results.pictures.plots",
    "plot_candidates": "results.pictures.plots",
    "plot_posterior": "results.pictures.plots",
    "plot_matches": "results.pictures.plots",
    "plot_error_by_bags": "results.pictures.plots",
    "plot_plan": "results.pictures.plots",
    "plot_exposure": "results.pictures.plots",
    "plot_calibration": "results.pictures.plots",
    "write_report": "results.report",
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
