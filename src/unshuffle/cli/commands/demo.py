"""``unshuffle demo``: a pooled cytometry experiment, simulated and fitted."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.commands.fit import make_object, print_fit
from unshuffle.cli.dataset import Dataset, InMemory
from unshuffle.cli.fitting import fit_data
from unshuffle.cli.options import json_option, provenance, seed_option
from unshuffle.cli.wording import rephrase
from unshuffle.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from unshuffle.results.fit import Fit

_EPILOG = """\b
Example:
  unshuffle demo --out demo.html"""

N_CONSTRUCTS, N_POOLS, N_CELLS = 12, 10, 400
FEATURES = ("promoter", "ribosome site", "gene copies")
# What a cell's log10 fluorescence gains per unit of each feature: the truth to be found.
WEIGHTS, INTERCEPT, NOISE = (0.9, 0.5, 0.3), 2.0, 0.18

_MODEL: dict[str, Any] = {
    "method": "auto",
    "noise": None,
    "calibration": None,
    "l1": 0.0,
    "l2": 0.0,
    "no_intercept": False,
    "starts": None,
    "jobs": None,
    "bag_offsets": "auto",
}


@click.command(epilog=_EPILOG)
@seed_option
@click.option(
    "--out",
    default="unshuffle-demo.html",
    show_default=True,
    metavar="F.html",
    help="Where the report goes.",
)
@json_option
def demo(**options: Any) -> None:
    """Fit a simulated pooled experiment, beside the truth.

    Ten pools mix twelve constructs in known, unequal shares. A cytometer measures each cell, but
    not which construct it carries: inside a pool the labels are shuffled.
    """
    from unshuffle.io.writing import check_page

    check_page(options["out"])
    data = draw_pools(options["seed"])
    console.print_messages(_introduce())
    with console.show_progress("fitting") as status:
        found = fit_data(data, {**_MODEL, "seed": options["seed"]}, console.reporter(status))
        summary = found.summary()
    origin = provenance(options["seed"], data.sha256)
    truth = [*WEIGHTS, INTERCEPT]
    if options["as_object"]:
        result = make_object(found, summary, data, origin)
        console.print_json({**result, "truth": [*truth, NOISE]})
    else:
        print_fit(found, summary, truth)
        console.print_result(f"The true noise sd is {NOISE}.")
    _write_report(found, data, options["out"], origin)


def _introduce() -> list[str]:
    return [
        f"simulated: {N_POOLS} pools of {N_CELLS} cells, {N_CONSTRUCTS} constructs in unequal "
        f"shares, {len(FEATURES)} features; inside a pool no label is linked to its cell",
    ]


def draw_pools(seed: int) -> InMemory:
    """Simulate pools of cells: rows say which constructs are in a pool, labels what was seen."""
    import numpy as np

    from unshuffle.io import Design
    from unshuffle.simulate import shuffle_labels

    rng = np.random.default_rng(seed)
    constructs = rng.uniform(0.0, 1.0, (N_CONSTRUCTS, len(FEATURES)))
    shares = rng.dirichlet(np.full(N_CONSTRUCTS, 0.5), N_POOLS)
    carried = [rng.choice(N_CONSTRUCTS, N_CELLS, p=share) for share in shares]
    X = constructs[np.concatenate(carried)]
    pools = np.repeat(np.arange(1, N_POOLS + 1), N_CELLS)
    linked = X @ WEIGHTS + INTERCEPT + NOISE * rng.standard_normal(len(X))
    y = shuffle_labels(linked, pools, rng)
    design = Design(X, y, pools, FEATURES, (), np.arange(len(X)))
    return InMemory.of(
        design,
        source="simulated pools",
        sha256=_hash(X, y),
        label="log10 fluorescence",
        bag="pool",
        n_read=len(X),
    )


def _hash(X: np.ndarray, y: np.ndarray) -> str:
    return sha256(X.tobytes() + y.tobytes()).hexdigest()


def _write_report(found: Fit, data: Dataset, path: str, origin: dict[str, Any]) -> None:
    """Write the report; without the libraries it needs, say which to install."""
    from unshuffle.results.report import check_report, write_report

    try:
        check_report(path)
    except InputError as exc:
        console.print_messages([f"no report: {exc}"])
        return
    with console.show_progress("writing the report …"):
        write_report(
            found,
            path,
            **data.list_rows(),
            label=data.label,
            source=data.source,
            notes=[*data.describe(), *_introduce()],
            provenance=origin,
            words=rephrase,
        )
    console.print_messages([f"report written to {path}"])
