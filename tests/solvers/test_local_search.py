"""The multi-start search reports agreement, and perturbs as far as its settings say."""

from dataclasses import replace

import numpy as np
import pytest

from unshuffle import make_shuffled
from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import Effort
from unshuffle.data.bags import make_bags
from unshuffle.data.scaling import standardise
from unshuffle.objectives.losses import Squared
from unshuffle.objectives.penalties import no_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.solvers.local_search import (
    BRIEF,
    THOROUGH,
    gather_ends,
    make_space,
    perturb,
    search,
)


def make_problem(seed, n=300, d=5):
    data = make_shuffled(n, d, snr_db=15, rng=seed)
    bags, _ = standardise(make_bags(data.X, data.y, data.groups), True, True)
    return Problem(bags, Squared(), None, no_penalty(d + 1), True)


@pytest.mark.parametrize("settings", [BRIEF, THOROUGH], ids=["brief", "thorough"])
def test_several_starts_agree_in_the_status_where_they_do(settings):
    seen = set()
    for seed in range(8):
        problem, effort = make_problem(seed), Effort(n_starts=6 + 6 * (seed % 2))
        space = make_space(problem, np.random.default_rng(seed))
        found = search(space, effort, 300, settings=settings)
        is_agreed = found.candidates[0].n_starts > 1
        assert found.status is (Status.AGREED if is_agreed else Status.LONELY)
        assert sum(c.n_starts for c in found.candidates) == effort.n_starts
        seen.add(is_agreed)
    assert seen == {True, False}


def test_an_answer_that_only_one_start_reached_is_lonely_although_others_agreed_on_a_higher_one():
    weights = np.array([[0.0, 0.0], [1.0, 0.0]])
    candidates = tuple(
        Candidate(w, v, k) for w, v, k in zip(weights, (0.2, 0.3), (4, 1), strict=True)
    )
    rough = Solution(candidates, Status.AGREED, Stats(), np.array([0.2, 0.3]))
    found = gather_ends(rough, weights, np.array([0.2, 0.1]), [4, 1], np.eye(2), Stats())
    assert found.candidates[0].n_starts == 1 and found.status is Status.LONELY
    found = gather_ends(rough, weights, np.array([0.2, 0.25]), [4, 1], np.eye(2), Stats())
    assert found.candidates[0].n_starts == 4 and found.status is Status.AGREED
    unfinished = replace(rough, status=Status.UNFINISHED)
    found = gather_ends(unfinished, weights, np.array([0.2, 0.1]), [4, 1], np.eye(2), Stats())
    assert found.status is Status.UNFINISHED


def test_steps_aside_are_no_longer_than_asked_and_keep_only_what_is_lower():
    problem = make_problem(1)
    space, asked = make_space(problem, np.random.default_rng(0)), []

    def evaluate(weights):
        asked.append(weights.copy())
        return problem.smooth(weights)

    space = replace(space, evaluate=evaluate)
    start = np.zeros((1, 6))
    value = problem.smooth(start)[0]
    found, lower, n_evaluations = perturb(space, start, value, 30.0, Effort(), 5, 0.1)
    first = asked[0]
    assert len(first) == 5 and n_evaluations == sum(len(each) for each in asked)
    # Normals of six directions, of mean square one: none is four times as long.
    lengths = np.sqrt(np.einsum("sj,jk,sk->s", first, problem.curvature, first))
    assert lengths.min() > 0.01 and lengths.max() < 0.4
    assert lower <= value and lower == pytest.approx(problem.smooth(found)[0])
