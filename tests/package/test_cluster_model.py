"""Properties of the simulated cluster behind docs/decisions/022-cluster-forecast.md."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "cluster_model.py"


@pytest.fixture(scope="module")
def model():
    import sys

    spec = importlib.util.spec_from_file_location("cluster_model", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["cluster_model"] = module  # dataclasses look for their module there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["cluster_model"]


def run(model, n, rng=0, **changes):
    return model.simulate(
        model.Costs(), replace(model.Cluster(64), **changes), n, np.random.default_rng(rng)
    )


@pytest.mark.parametrize("n_workers", [1, 8, 9, 64, 1000])
def test_without_random_delays_a_fit_takes_what_the_formula_says(model, n_workers):
    cluster, costs = model.Cluster(n_workers), model.Costs()
    found = model.simulate(costs, cluster, 1e9, np.random.default_rng(0))
    assert found.seconds == pytest.approx(model.expect_seconds(costs, cluster, 1e9), rel=1e-12)
    levels = {1: 0, 8: 1, 9: 2, 64: 2, 1000: 4}[n_workers]
    assert model.count_levels(n_workers) == levels


def test_a_seed_gives_the_same_seconds_and_another_others(model):
    storm = {"machine_spread": 0.2, "pass_spread": 0.2, "losses": 1.0}
    assert run(model, 1e10, 3, **storm).seconds == run(model, 1e10, 3, **storm).seconds
    assert run(model, 1e10, 3, **storm).seconds != run(model, 1e10, 4, **storm).seconds


def test_a_pass_takes_as_long_as_its_slowest_worker(model):
    calm = run(model, 1e10).seconds
    # One task in a hundred is stuck: of 64, in half of the passes one or more.
    stuck = run(model, 1e10, stuck_share=0.01, stuck_factor=3.0).seconds
    added = 1e10 * model.Costs().row / 64
    share = (stuck - calm) / (2.0 * added)
    # Every pass with probability 1 - .99^64 = .474: within four sds.
    assert abs(share - 0.474) < 4.0 * np.sqrt(0.474 * 0.526 / model.Costs().n_passes)


def test_machines_of_other_speeds_cost_what_the_slowest_does(model):
    rng = np.random.default_rng(5)
    slowest = np.exp(0.3 * rng.standard_normal(64)).min()
    found = run(model, 1e10, 5, machine_spread=0.3).seconds
    calm = run(model, 1e10).seconds
    added = 1e10 * model.Costs().row / 64
    assert found - calm == pytest.approx(added * (1.0 / slowest - 1.0), rel=1e-9)


def test_lost_workers_lose_no_row_and_cost_their_share(model):
    calm, lossy = run(model, 1e10), run(model, 1e10, losses=0.5)
    assert 0 < lossy.n_lost < 64
    assert lossy.rows.sum() == pytest.approx(1e10, rel=1e-12)
    assert (lossy.rows == 0).sum() == lossy.n_lost
    # The last pass is the slowest: its time is that of the rows kept in memory.
    costs, left = model.Costs(), 64 - lossy.n_lost
    most = 1e10 * (
        costs.row / left + lossy.n_lost * (costs.remake + costs.row / costs.n_passes) / left / 32
    )
    assert calm.seconds < lossy.seconds < costs.host + most + costs.n_passes * 0.2


def test_more_workers_are_faster_until_messages_take_longer(model):
    seconds = [
        model.expect_seconds(model.Costs(), model.Cluster(k), 1e9) for k in (1, 8, 64, 512, 8**7)
    ]
    assert seconds[0] > seconds[1] > seconds[2] > seconds[3] and seconds[4] > seconds[3]


def test_matching_is_hidden_behind_passes_that_are_known_ahead(model):
    cluster = model.Cluster(64)

    def seconds(n, **changes):
        costs = replace(model.Costs(), **changes)
        found = model.simulate(costs, cluster, n, np.random.default_rng(0)).seconds
        assert found == pytest.approx(model.expect_seconds(costs, cluster, n), rel=1e-12)
        return found

    costs = model.Costs()
    # Passes of seconds hide all; of none, matching is all there is beside merges.
    assert seconds(1e10, n_waits=0) == pytest.approx(seconds(1e10, matching=0.0), rel=1e-12)
    added = seconds(1e10, n_waits=costs.n_passes) - seconds(1e10, matching=0.0)
    assert added == pytest.approx(costs.matching, rel=1e-9)
    assert seconds(0.0, n_waits=0, matching=1e4) == pytest.approx(1e4 + costs.host, rel=1e-9)
