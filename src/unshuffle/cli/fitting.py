"""From options to a fitted model, for every command that fits one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli.data import Data, read_calibration

if TYPE_CHECKING:
    from unshuffle.estimator import ShuffledLinearRegression


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, whether its search converged, and what it warned of."""

    model: ShuffledLinearRegression
    is_converged: bool
    remarks: tuple[str, ...]


def fit_data(data: Data, options: dict[str, Any]) -> Fitted:
    """Fit the data as the options say; warnings are collected, not printed."""
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning

    from unshuffle.estimator import ShuffledLinearRegression

    model = ShuffledLinearRegression(
        method=options["method"],
        noise=choose_noise(options),
        l1=options["l1"],
        l2=options["l2"],
        fit_intercept=not options["no_intercept"],
        n_starts=options["starts"],
        random_state=options["seed"],
        n_jobs=options["jobs"],
    )
    design = data.design
    groups: Any = design.groups
    model._array_names = design.feature_names
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(design.X, design.y, groups=groups)
    # The names of an array's columns, which scikit-learn would otherwise read off a data frame.
    model.feature_names_in_ = np.array(design.feature_names, dtype=object)
    failed = any(issubclass(each.category, ConvergenceWarning) for each in caught)
    remarks = [
        str(each.message)
        for each in caught
        if each.category is UserWarning or issubclass(each.category, RuntimeWarning)
    ]
    return Fitted(model, not failed, tuple(remarks))


def choose_noise(options: dict[str, Any]) -> Any:
    """Return the noise that the options give: None, an sd, or measured in a calibration run."""
    if options["noise"] is not None and options["calibration"] is not None:
        raise click.UsageError("give --noise or --calibration, not both")
    if options["calibration"] is not None:
        return read_calibration(options["calibration"], options["label"], options["log10"])
    return options["noise"]
