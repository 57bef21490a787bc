"""Draws of equal weight in the layout of ArviZ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unshuffle.errors import import_extra

if TYPE_CHECKING:
    from unshuffle.core.uncertainty import Posterior
    from unshuffle.data.bags import Bags


def export_draws(posterior: Posterior, n: int, rng: np.random.Generator) -> Any:
    """Return n draws as ArviZ's InferenceData, or as a DataTree from its version 1.0 on."""
    arviz = import_extra("arviz", "arviz", "to_arviz")
    drawn, data = posterior.at(posterior.resample(n, rng)), posterior.data
    d = drawn.draws.shape[1] - drawn.has_intercept
    found = {"coefficients": drawn.coefficients[:, :d], **drawn.others}
    names = drawn.names or tuple(f"x{j}" for j in range(d))
    coords: dict[str, Any] = {"feature": list(names[:d])}
    dims = {"coefficients": ["feature"]}
    if drawn.has_intercept:
        found["intercept"] = drawn.coefficients[:, -1]
    if drawn.effects.size:
        found["bag"] = drawn.effects
        coords["bag_name"], dims["bag"] = list(drawn.bag_names or ()), ["bag_name"]
    # One chain.
    groups = {"posterior": {name: values[None] for name, values in found.items()}}
    if data is not None:
        groups["posterior_predictive"] = {"y": _predict(drawn, data, rng)[None]}
        groups["observed_data"] = {"y": data.y}
        coords["label"], dims["y"] = np.arange(data.n), ["label"]
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(groups, coords=coords, dims=dims)
    return arviz.from_dict(**groups, coords=coords, dims=dims)


def _predict(drawn: Posterior, data: Bags, rng: np.random.Generator) -> np.ndarray:
    """Return the labels that each draw predicts for the data, sorted inside each bag."""
    original_bags = np.arange(data.n_bags) if data.original_bags is None else data.original_bags
    rows = np.column_stack([data.X, np.ones((data.n, int(drawn.has_intercept)))])
    labels = drawn.draw_labels(rows, np.repeat(original_bags, data.sizes), rng)
    for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        labels[:, start:stop].sort(axis=1)
    return labels
