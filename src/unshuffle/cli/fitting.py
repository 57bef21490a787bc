"""The fit that the options ask for."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.dataset import Dataset
from unshuffle.cli.load_tables import read_calibration

if TYPE_CHECKING:
    from unshuffle.options import FitOptions
    from unshuffle.progress import Report
    from unshuffle.results.fit import Fit


def fit_data(data: Dataset, options: dict[str, Any], report: Report | None = None) -> Fit:
    """Return the fit of the data with the options of the command; `report` gets the progress."""
    from unshuffle.options import make_rng
    from unshuffle.progress import say_nothing
    from unshuffle.results.fit import note_label

    asked, report = make_options(options, data.n_rows), report or say_nothing
    report("fitting", 0.0)  # after the imports, which take a second
    found = data.fit(asked, make_rng(options["seed"]), report)
    return note_label(found, data.transformed_label, data.has_logs or data.is_log10)


def make_options(options: dict[str, Any], n: int = 0) -> FitOptions:
    """Return the options of the fit; many rows use all processors unless --jobs is given."""
    from unshuffle.methods import BLOCKS_ABOVE
    from unshuffle.options import FitOptions

    n_jobs = options["jobs"]

    return FitOptions(
        method=choose_method(options),
        noise=choose_noise(options),
        l1=options["l1"],
        l2=options["l2"],
        fit_intercept=not options["no_intercept"],
        n_starts=options["starts"],
        n_jobs=-1 if n_jobs is None and n > BLOCKS_ABOVE else n_jobs,
        bag_offsets=options["bag_offsets"],
        mislinked=choose_share(options),
        device=options.get("device"),
        model_holds=options.get("model_holds", False),
    )


def choose_share(options: dict[str, Any]) -> Any:
    """Return the share of wrong links; None where probabilities, an audit or a file give it.

    "estimate" is kept: the fit then calibrates the match probabilities.
    """
    from unshuffle.options import ESTIMATE

    share = options.get("mislinked")
    given = (options.get("link_probability"), options.get("audit"))
    is_given = isinstance(share, Path) or any(each is not None for each in given)
    return None if is_given and share != ESTIMATE else share


def save_fit(found: Fit, data: Dataset, options: dict[str, Any], origin: dict[str, Any]) -> None:
    """Write the model file of --save: the fit, and how its columns were made from the file."""
    from unshuffle.results.storage import store_model

    asked = {each.name: getattr(found.options, each.name) for each in fields(found.options)}
    columns = {
        "label": data.label,
        "log10": bool(options["log10"]),
        "coding": [asdict(each) for each in data.coding],
        "dates": dict(data.dates),
        "missing_codes": list(data.missing_codes),
    }
    params = {**asked, "random_state": options["seed"]}
    store_model(options["save"], found, params, data.feature_names, columns, origin)
    console.print_messages([f"model written to {options['save']}"], options["quiet"])


def choose_method(options: dict[str, Any]) -> Any:
    """Return the method, with its time limit where one is given."""
    limit = options.get("time_limit")
    if limit is None:
        return options["method"]
    if options["method"] != "certified":
        raise click.UsageError(
            f"--time-limit is for --method certified; leave it out with {options['method']!r}"
        )
    from unshuffle.solvers.certified import Certified

    return Certified(limit)


def choose_noise(options: dict[str, Any]) -> Any:
    """Return the noise: None, an sd, or the noise measured in a calibration run."""
    if options["noise"] is not None and options["calibration"] is not None:
        raise click.UsageError("give --noise or --calibration, not both")
    if options["calibration"] is not None:
        return read_calibration(options["calibration"], options)
    return options["noise"]
