"""Properties of the registry: methods load, go by their names, and tell how far they are."""

import numpy as np
import pytest

from registry_examples import SOLVERS, fit_quietly, make_property_data
from unshuffle import comparison
from unshuffle.core.strategy import Strategy
from unshuffle.data.bags import Bag, join_bags, make_bags
from unshuffle.errors import InputError
from unshuffle.methods import METHODS, as_strategy
from unshuffle.objectives.losses import Loss
from unshuffle.options import FitOptions
from unshuffle.results.fit import fit_bags


def test_every_method_has_a_line_of_its_own():
    summaries = [method.summary for method in METHODS.values()]
    assert len(set(summaries)) == len(summaries)
    for name, method in METHODS.items():
        assert method.name == name
        assert method.summary
        assert "\n" not in method.summary


@pytest.mark.parametrize("name", METHODS)
def test_a_method_loads_and_is_called_by_its_name(name):
    found = METHODS[name].strategy
    if METHODS[name].place is None:
        assert found is None
        return
    assert isinstance(found, Strategy | Loss)
    strategy = as_strategy(found)
    assert strategy.name == name
    assert METHODS[name].strategy is found


@pytest.mark.parametrize("name", SOLVERS)
def test_penalties_are_taken_or_refused_as_the_strategy_says(name):
    data = make_property_data(name)
    if as_strategy(METHODS[name].strategy).takes_penalty:
        assert np.isfinite(fit_quietly(name, data.X, data.y, data.groups, l2=0.1).coef_).all()
        return
    with pytest.raises(InputError, match=f"method '{name}' has no penalties"):
        fit_quietly(name, data.X, data.y, data.groups, l2=0.1)


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "likelihood"])
def test_fewer_rows_than_weights_are_refused_where_the_strategy_needs_them(name):
    strategy = as_strategy(METHODS[name].strategy)
    bags = join_bags([Bag([[1.0, 2.0], [2.0, 1.0]], [1.0, 2.0])])
    if strategy.needs_rows:
        with pytest.raises(InputError, match="n_samples = 2 cannot fix 3 weights"):
            strategy.check(bags, FitOptions())
    else:
        strategy.check(bags, FitOptions())


@pytest.mark.parametrize(
    ("n", "absent"),
    [
        (8, ()),
        (9, ("exact",)),
        (300, ("exact",)),
        (301, ("exact", "sampler", "certified")),
    ],
)
def test_a_comparison_leaves_out_what_would_take_too_long(n, absent, monkeypatch):
    monkeypatch.setattr(comparison, "compare_one", lambda name, *rest: name)
    found = list(comparison.compare_methods(np.ones((n, 1)), np.ones(n)))
    assert found == [name for name in SOLVERS if name not in absent]
    named = list(comparison.compare_methods(np.ones((n, 1)), np.ones(n), methods=["exact", "ls"]))
    assert named == ["exact", "ls"]


class EnoughError(Exception):
    """What a caller who has seen enough raises."""


# Methods that search long enough to say how far they are.
SEARCHING = ("ls", "emd", "ks", "small-d", "p1", "sm", "likelihood", "certified")


def fit_and_listen(name, report=None):
    data = make_property_data(name)
    bags = make_bags(data.X, data.y, data.groups)
    told = [] if report is None else [report]
    return fit_bags(bags, FitOptions(method=name), np.random.default_rng(1), None, *told)


@pytest.mark.parametrize("name", SOLVERS)
def test_progress_goes_from_nought_to_one_and_changes_nothing(name):
    heard = []
    found = fit_and_listen(name, lambda stage, share: heard.append((stage, share)))
    if name in SEARCHING:
        assert heard
    stages = list(dict.fromkeys(stage for stage, _ in heard))
    for stage in stages:
        shares = [share for each, share in heard if each == stage]
        assert all(0.0 <= share <= 1.0 for share in shares)
        assert shares == sorted(shares)
        assert "\n" not in stage
    # A stage that is over does not come back.
    order = [stages.index(stage) for stage, _ in heard]
    assert order == sorted(order)
    assert found.weights.tobytes() == fit_and_listen(name).weights.tobytes()


@pytest.mark.parametrize("name", SEARCHING)
def test_an_exception_in_the_report_ends_the_fit(name):
    def stop(stage, share):
        raise EnoughError

    with pytest.raises(EnoughError):
        fit_and_listen(name, stop)
