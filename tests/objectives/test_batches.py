"""Work on many points is done in batches, whose size no answer depends on."""

import numpy as np
import pytest

from unshuffle.core import uncertainty
from unshuffle.core.uncertainty import Posterior
from unshuffle.data.bags import make_bags
from unshuffle.objectives import problem
from unshuffle.objectives.losses import OrderInvariant
from unshuffle.objectives.penalties import no_penalty


@pytest.mark.parametrize("size", [1, 100, 333])
def test_batches_of_any_size_give_the_same_bits(monkeypatch, size):
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(40, 3)), rng.normal(size=40), rng.normal(size=(9, 3))
    bags, loss = make_bags(X, y), OrderInvariant(np.arcsinh, 2.0)
    posterior = Posterior(weights, np.ones(9), np.ones(9))

    def evaluate():
        values, gradients = problem.Problem(bags, loss, None, no_penalty(3)).smooth(weights)
        return values, gradients, posterior.interval_at(X, 0.9, True)

    whole = evaluate()
    for module in (problem, uncertainty):
        monkeypatch.setattr(module, "BATCH_NUMBERS", size)
    for one, other in zip(whole, evaluate(), strict=True):
        assert np.array_equal(one, other)
