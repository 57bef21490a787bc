"""Every number of a fit as bytes."""

import numpy as np


def outcome(model):
    """Return every number of a fit as bytes."""
    solution = model.solution_
    # The spreads decide the verdict: a last bit of theirs could turn it.
    numbers = [model.coef_, [model.intercept_], solution.start_values, model.result_.facts.scales]
    numbers += [part for c in solution.candidates for part in (c.weights, [c.value, c.n_starts])]
    if solution.uncertainty is not None and solution.uncertainty.has_interval:
        numbers.append(model.conf_int().ravel())
    words = (model.method_, model.noise_, model.identified_, str(model.summary()))
    return np.concatenate(numbers).tobytes(), words, solution.status
