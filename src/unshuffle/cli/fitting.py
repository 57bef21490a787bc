"""From options to a fit, for every command that makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli.data import Data, read_calibration

if TYPE_CHECKING:
    from unshuffle.answers.fit import Fit
    from unshuffle.core.options import FitOptions


def fit_data(data: Data, options: dict[str, Any]) -> Fit:
    """Fit the data as the options say."""
    from unshuffle.answers.fit import fit_bags, fit_table
    from unshuffle.core.options import make_rng
    from unshuffle.files import join_design

    asked = make_options(options)
    # Not kept here: the solver lets go of what it no longer needs.
    rng, names = make_rng(options["seed"]), data.design.feature_names
    design = data.design
    if design.apart is None and design.counts is None:
        return fit_table(design.X, design.y, design.groups, asked, rng, names)
    return fit_bags(join_design(design), asked, rng, names)


def make_options(options: dict[str, Any]) -> FitOptions:
    """Return what the fit is asked for."""
    from unshuffle.core.options import FitOptions

    return FitOptions(
        method=options["method"],
        noise=choose_noise(options),
        l1=options["l1"],
        l2=options["l2"],
        fit_intercept=not options["no_intercept"],
        n_starts=options["starts"],
        n_jobs=options["jobs"],
    )


def choose_noise(options: dict[str, Any]) -> Any:
    """Return the noise that the options give: None, an sd, or measured in a calibration run."""
    if options["noise"] is not None and options["calibration"] is not None:
        raise click.UsageError("give --noise or --calibration, not both")
    if options["calibration"] is not None:
        return read_calibration(options["calibration"], options["label"], options["log10"])
    return options["noise"]
