"""Old public names work for one minor version, and warn with the new name."""

import copy
import pickle

import pytest

from unshuffle import Bag, ShuffledLinearRegression, fit, make_shuffled


@pytest.fixture(scope="module")
def found():
    data = make_shuffled(60, 1, noise=0.2, bags=3, rng=0)
    bags = [Bag(data.X[data.groups == k], data.y[data.groups == k]) for k in range(3)]
    return fit(bags, rng=0)


def test_offsets_is_the_old_name_of_effects(found):
    for made in (found, found.solution):
        with pytest.warns(FutureWarning, match="now called effects") as seen:
            assert made.offsets is made.effects is not None
        assert seen[0].filename == __file__
    with pytest.warns(FutureWarning, match="offset_sd"):
        assert found.effects.sd == found.effects.offset_sd
    with pytest.warns(FutureWarning, match="offset_probability"):
        assert found.effects.probability == found.effects.offset_probability


def test_attributes_that_never_were_are_errors(found):
    for made, name in ((found, "Fit"), (found.solution, "Solution"), (found.effects, "BagEffects")):
        with pytest.raises(AttributeError, match=f"{name} has no attribute 'nothing'"):
            _ = made.nothing


def test_objects_with_old_names_are_copied_and_pickled(found, recwarn):
    for made in (found, found.solution, found.effects):
        assert type(copy.deepcopy(made)) is type(made)
    assert pickle.loads(pickle.dumps(found)).coef.tolist() == found.coef.tolist()
    assert not [each for each in recwarn if each.category is FutureWarning]


def test_an_estimator_has_no_old_names_that_warn(recwarn):
    model = ShuffledLinearRegression("ls", random_state=0)
    data = make_shuffled(30, 1, noise=0.1, bags=3, rng=0)
    model.fit(data.X, data.y, data.groups).summary()
    assert not [each for each in recwarn if each.category is FutureWarning]
