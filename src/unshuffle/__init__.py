"""Linear regression when you do not know which label belongs to which row."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Public names by the module that holds them; loaded on first use, so that importing is cheap.
_MODULES = {
    "estimator": "ShuffledLinearRegression",
    "loading": "load",
    "results.fit": "fit",
    "results.result": "Fit",
    "results.summary": "Summary",
    "results.matching": "Match",
    "results.contrasts": "Contrast",
    "core.uncertainty": "Posterior",
    "registry": "METHODS",
    "methods": "choose_method choose_paper_method",
    "solvers.means": "Means",
    "inference.likelihood": "Likelihood",
    "inference.sampler": "Sampler",
    "solvers.exact": "Exact",
    "solvers.certified": "Certified",
    "solvers.projection": "Projection",
    "data.bags": "Bag make_bags",
    "data.labels": "Histogram",
    "objectives.losses": "Squared Absolute KolmogorovSmirnov SmallD OrderInvariant Moments",
    "objectives.noise": "GaussianNoise MomentNoise StudentNoise GridNoise noise_from_calibration",
    "data.links": "Links",
    "results.pooling": "pool Pooled",
    "core.solution": "Solution Status",
    "simulate": "make_shuffled shuffle_labels",
    "datasets": "load_dataset",
    "scoring": "sorted_error make_shuffled_scorer",
    "comparison": "compare_methods",
    "results.pictures.plots": (
        "plot_coefficients plot_noise plot_offset_sd plot_starts plot_candidates "
        "plot_posterior plot_matches plot_error_by_bags plot_plan plot_exposure "
        "plot_calibration"
    ),
    "results.pictures.bag_plots": (
        "plot_sorted plot_bag_means plot_places plot_bags plot_offsets plot_predictions"
    ),
    "results.report": "write_report",
    "auditing.findings": "audit Audit",
    "auditing.page": "write_audit",
    "errors": (
        "InputError DataWarning MissingGroupsWarning ModelMisfitWarning OutlierWarning "
        "SavedSeedWarning"
    ),
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names.split()}

if TYPE_CHECKING:  # the same names, for type checkers and editors (a test compares the two)
    from unshuffle import design as design
    from unshuffle.auditing.findings import (
        Audit as Audit,
        audit as audit,
    )
    from unshuffle.auditing.page import write_audit as write_audit
    from unshuffle.comparison import compare_methods as compare_methods
    from unshuffle.core.solution import (
        Solution as Solution,
        Status as Status,
    )
    from unshuffle.core.uncertainty import Posterior as Posterior
    from unshuffle.data.bags import (
        Bag as Bag,
        make_bags as make_bags,
    )
    from unshuffle.data.labels import Histogram as Histogram
    from unshuffle.data.links import Links as Links
    from unshuffle.datasets import load_dataset as load_dataset
    from unshuffle.errors import (
        DataWarning as DataWarning,
        InputError as InputError,
        MissingGroupsWarning as MissingGroupsWarning,
        ModelMisfitWarning as ModelMisfitWarning,
        OutlierWarning as OutlierWarning,
        SavedSeedWarning as SavedSeedWarning,
    )
    from unshuffle.estimator import ShuffledLinearRegression as ShuffledLinearRegression
    from unshuffle.inference.likelihood import Likelihood as Likelihood
    from unshuffle.inference.sampler import Sampler as Sampler
    from unshuffle.loading import load as load
    from unshuffle.methods import (
        choose_method as choose_method,
        choose_paper_method as choose_paper_method,
    )
    from unshuffle.objectives.losses import (
        Absolute as Absolute,
        KolmogorovSmirnov as KolmogorovSmirnov,
        Moments as Moments,
        OrderInvariant as OrderInvariant,
        SmallD as SmallD,
        Squared as Squared,
    )
    from unshuffle.objectives.noise import (
        GaussianNoise as GaussianNoise,
        GridNoise as GridNoise,
        MomentNoise as MomentNoise,
        StudentNoise as StudentNoise,
        noise_from_calibration as noise_from_calibration,
    )
    from unshuffle.registry import METHODS as METHODS
    from unshuffle.results.contrasts import Contrast as Contrast
    from unshuffle.results.fit import fit as fit
    from unshuffle.results.matching import Match as Match
    from unshuffle.results.pictures.bag_plots import (
        plot_bag_means as plot_bag_means,
        plot_bags as plot_bags,
        plot_offsets as plot_offsets,
        plot_places as plot_places,
        plot_predictions as plot_predictions,
        plot_sorted as plot_sorted,
    )
    from unshuffle.results.pictures.plots import (
        plot_calibration as plot_calibration,
        plot_candidates as plot_candidates,
        plot_coefficients as plot_coefficients,
        plot_error_by_bags as plot_error_by_bags,
        plot_exposure as plot_exposure,
        plot_matches as plot_matches,
        plot_noise as plot_noise,
        plot_offset_sd as plot_offset_sd,
        plot_plan as plot_plan,
        plot_posterior as plot_posterior,
        plot_starts as plot_starts,
    )
    from unshuffle.results.pooling import (
        Pooled as Pooled,
        pool as pool,
    )
    from unshuffle.results.report import write_report as write_report
    from unshuffle.results.result import Fit as Fit
    from unshuffle.results.summary import Summary as Summary
    from unshuffle.scoring import (
        make_shuffled_scorer as make_shuffled_scorer,
        sorted_error as sorted_error,
    )
    from unshuffle.simulate import (
        make_shuffled as make_shuffled,
        shuffle_labels as shuffle_labels,
    )
    from unshuffle.solvers.certified import Certified as Certified
    from unshuffle.solvers.exact import Exact as Exact
    from unshuffle.solvers.means import Means as Means
    from unshuffle.solvers.projection import Projection as Projection

# Packages of names of their own, reached as `unshuffle.design` without being imported.
_PACKAGES = ("design",)

__all__ = ["__version__", *sorted(_NAMES)]


if not TYPE_CHECKING:  # to them, an unknown name is an error

    def __getattr__(name: str) -> Any:
        if name in _PACKAGES:
            return import_module(f"unshuffle.{name}")
        if name not in _NAMES:
            raise AttributeError(f"module 'unshuffle' has no attribute '{name}'")
        return getattr(import_module(f"unshuffle.{_NAMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, *_PACKAGES]
