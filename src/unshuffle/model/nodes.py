"""Nodes of predictions: of the transport, and far closer together than the noise is wide."""

from __future__ import annotations

import numpy as np

# Cells of predictions per sigma. Laying a row on the two nodes beside it adds a sixth of a squared
# cell of variance; the likelihood takes out what it does in the first order. With 16 in place of 6
# the value between two good fits of a million rows moves by 0.08 nats.
FINE_PER_SIGMA = 6.0
# Bags of up to so many rows are looked at in full where labels are placed in their distribution;
# larger ones on nodes of a sixth of σ.
SMALL_ROWS = 256
# Nodes per sigma of the transport: 2.25 leave up to 0.8 nats of the value at n = 4000 and 9000 and
# sigma = 0.2 to 0.4, and waves of 0.001 to 0.013 nats in log sigma. (2: 1.3 nats; 2.5: 0.5, and an
# eighth slower. Quadratic splines, which spread less, leave half as many nats and two to four times
# the waves.)
NODES_PER_SIGMA = 2.25
# Above this number of labels, at their power, nodes are closer together. What is left of the error
# of binning is of fourth order in a node's width and grows with the labels, while the within-bag
# likelihood of random bags does not: at a million labels in full 2.25 nodes move the best of
# exponential columns by 3 nats, 4 nodes by a tenth of it.
_FEW_LABELS = 1e5


def nodes_per_sigma(n_labels: float) -> float:
    """Return the nodes of the transport per sigma for a number of labels at their power."""
    return float(NODES_PER_SIGMA * max(1.0, n_labels / _FEW_LABELS) ** 0.25)


def share_nodes(
    values: np.ndarray, width: float, masses: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes, in ascending order, of cells of a width that values lie between.

    And their shares: every value counts at both ends of its cell by its place in it, with its mass.
    There are no more nodes than twice the values, however far these are apart.

    >>> [each.tolist() for each in share_nodes(np.array([0.0, 0.25]), 1.0)]
    [[0.0, 1.0], [0.875, 0.125]]
    """
    low = np.floor(values.min() / width)
    places = values / width - low
    cells = places.astype(np.int64)
    right = places - cells
    left = 1.0 - right
    if masses is not None:
        left, right = masses * left, masses * right
    found, at = np.unique(np.concatenate([cells, cells + 1]), return_inverse=True)
    total = np.bincount(at[: len(cells)], left, len(found))
    total += np.bincount(at[len(cells) :], right, len(found))
    keep = total > 0.0
    whole = len(values) if masses is None else masses.sum()
    return (low + found[keep]) * width, total[keep] / whole
