"""Threads change nothing but the time: the same bits for any number, and an end when told."""

import threading
import time
import warnings

import numpy as np
import pytest
from joblib import effective_n_jobs, parallel_config

from pairs import cover_pairs
from unshuffle import (
    Likelihood,
    OrderInvariant,
    Projection,
    ShuffledLinearRegression,
    make_shuffled,
)
from unshuffle.data.bags import make_bags
from unshuffle.objectives.penalties import no_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.solvers import projection
from unshuffle.threads import count_threads, map_all

N_STARTS = 13


def cube(z):
    return z**3


def slope_of_cube(z, slope):
    return 3 * z**2 * slope


METHODS = {
    "ls": "ls",
    "p1": "p1",
    "p2": "p2",
    "p3": Projection(3),
    "emd": "emd",
    "ks": "ks",
    "sm": "sm",
    # Little effort: the threads share starts, refinements and draws all the same.
    "likelihood": Likelihood(n_refined=3, n_components=3, n_draws=60, min_rounds=1, max_rounds=2),
    "order-invariant": OrderInvariant(cube, 2.0),
    "order-invariant with a derivative": OrderInvariant(cube, 2.0, slope_of_cube),
}


def fit(method, data, n_jobs, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ShuffledLinearRegression(
            method=method, n_starts=N_STARTS, n_jobs=n_jobs, random_state=seed
        )
        return model.fit(data.X, data.y)


def bits(model):
    candidates = model.solution_.candidates
    parts = [model.coef_, np.atleast_1d(model.intercept_)]
    parts += [c.weights for c in candidates] + [np.array([c.value for c in candidates])]
    return [part.tobytes() for part in parts]


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_candidate_has_the_same_bits_for_any_number_of_threads(method):
    # Sizes that divide into unequal parts, where matrix products round differently.
    # Differences and posteriors take seconds with five columns: two are enough for them.
    is_lengthy = isinstance(method, Likelihood) or getattr(method, "pull", cube) is None
    for seed in range(2):
        data = make_shuffled(101, 2 if is_lengthy else 5, noise=0.2, rng=seed)
        expected = bits(fit(method, data, 1, seed))
        for n_jobs in (2, 3):
            assert bits(fit(method, data, n_jobs, seed)) == expected


def evaluators(problem):
    rng = np.random.default_rng(0)
    return {
        "weights": (problem.smooth, problem.bags.d),
        "plane": (projection.make_plane(problem, rng).evaluate, problem.sphere.basis.shape[1]),
        "sphere": (projection.make_surface(problem, rng).evaluate, problem.sphere.basis.shape[1]),
    }


@pytest.mark.parametrize(
    ("n", "d", "place"),
    cover_pairs([40, 101, 1000], [2, 3, 5, 16, 33], ["weights", "plane", "sphere"]),
)
def test_no_bit_of_a_start_depends_on_the_others_of_its_batch(n, d, place):
    data = make_shuffled(n, d, noise=0.2, bags=2, rng=d)
    bags = make_bags(np.column_stack([data.X, np.ones(n)]), data.y, data.groups)
    loss = OrderInvariant(cube, 2.0, slope_of_cube)
    evaluate, k = evaluators(Problem(bags, loss, None, no_penalty(d + 1)))[place]
    points = np.random.default_rng(n).standard_normal((29, k))
    values, gradients = evaluate(points)
    for size in (1, 2, 3, 4, 7, 8, 13):
        for first in range(0, len(points), size):
            part = slice(first, first + size)
            some_values, some_gradients = evaluate(points[part])
            assert some_values.tobytes() == values[part].tobytes()
            assert some_gradients.tobytes() == np.ascontiguousarray(gradients[part]).tobytes()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_error_in_one_thread_ends_the_others_at_once(error):
    # Without the stop the other thread would go on for hundreds of evaluations of 20 ms each.
    main, both, known, calls_after = threading.get_ident(), threading.Barrier(2), set(), []

    def g(z):
        me = threading.get_ident()
        if me != main and me not in known:
            known.add(me)
            if both.wait(timeout=10) == 0:
                raise error
        elif me != main:
            calls_after.append(me)
            time.sleep(0.02)
        return z**3

    data = make_shuffled(60, 3, rng=0)
    model = ShuffledLinearRegression(
        method=OrderInvariant(g, 2.0, slope_of_cube), n_starts=N_STARTS, n_jobs=2, random_state=0
    )
    with pytest.raises(error):
        model.fit(data.X, data.y)
    # One evaluation calls g twice for the one bag; the other thread may be in one and begin one.
    assert len(calls_after) <= 8


@pytest.mark.parametrize("n_jobs", [1, 2, 5, None])
def test_mapping_keeps_the_order_of_items(n_jobs):
    for n in (0, 1, 7, 100):
        found = map_all(lambda item: item * item, list(range(n)), n_jobs)
        assert found == [k * k for k in range(n)]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_one_item_ends_all_and_is_the_one_raised(error):
    seen = []

    def work(item):
        if item == 3:
            raise error("item 3")
        time.sleep(0.002)
        seen.append(item)

    with pytest.raises(error, match="item 3"):
        map_all(work, list(range(2000)), 2)
    # Two threads would take 2 s for all; each ends within one item of the error.
    assert len(seen) < 500


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 5, -1, -2, -1000])
def test_jobs_are_counted_as_joblib_counts_them(n_jobs):
    assert count_threads(n_jobs) == effective_n_jobs(n_jobs)


def test_a_limit_of_joblib_holds_for_jobs(monkeypatch):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert count_threads(-1) == 1
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT")
    with parallel_config(n_jobs=3):
        assert count_threads(None) == effective_n_jobs(None) == 3


def test_no_jobs_are_refused_as_joblib_refuses_them():
    with pytest.raises(ValueError, match="n_jobs == 0"):
        count_threads(0)
