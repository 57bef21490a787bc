"""Labels of small bags in their predicted distribution: places (PIT values) and scores."""

from math import erfc, exp, sqrt

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS

# Predictions further off than so many sds are wholly on one side of a label ...
_FAR = 8.0
# ... and those so many nats less likely than the best have no part in it.
_LEAST = 40.0


@njit(**OPTIONS)
def place_labels(z, offsets, ends, label_offsets, sigma, places):
    """Fill the mean over a bag's predictions of Φ((end − z)/σ) for every end of its labels.

    Bag r has the predictions ``z[offsets[r]:offsets[r + 1]]`` and the ends of ``label_offsets``.
    """
    per = 1.0 / (sqrt(2.0) * sigma)
    for r in range(offsets.size - 1):
        own = z[offsets[r] : offsets[r + 1]]
        for i in range(label_offsets[r], label_offsets[r + 1]):
            if i > label_offsets[r] and ends[i] == ends[i - 1]:
                places[i] = places[i - 1]
                continue
            total = 0.0
            for j in range(own.size):
                gap = (own[j] - ends[i]) * per
                if gap < -_FAR:
                    total += 1.0
                elif gap < _FAR:
                    total += 0.5 * erfc(gap)
            places[i] = total / own.size


@njit(**OPTIONS)
def score_labels(z, offsets, y, label_offsets, sigma, unit, scores):
    """Fill the scores of labels in shift, slope, noise and heteroscedasticity: see `misfit`."""
    for r in range(offsets.size - 1):
        own = z[offsets[r] : offsets[r + 1]]
        for i in range(label_offsets[r], label_offsets[r + 1]):
            best = np.inf
            for j in range(own.size):
                best = min(best, abs(y[i] - own[j]))
            best = 0.5 * (best / sigma) ** 2
            mass, shift, slope, excess, uneven = 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(own.size):
                gap = (y[i] - own[j]) / sigma
                nats = 0.5 * gap * gap - best
                if nats < _LEAST:
                    share, place = exp(-nats), own[j] / unit
                    mass += share
                    shift += share * gap
                    slope += share * gap * place
                    excess += share * (gap * gap - 1.0)
                    uneven += share * (gap * gap - 1.0) * place
            scores[i, 0], scores[i, 1] = shift / mass, slope / mass
            scores[i, 2], scores[i, 3] = excess / mass, uneven / mass
