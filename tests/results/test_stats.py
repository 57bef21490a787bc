"""Properties of the statistics of a solver: typed, read as a mapping, and kept in model files."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace

import numpy as np
import pytest

from registry_examples import make_property_data
from unshuffle import ShuffledLinearRegression, load
from unshuffle.core.stats import Stats


def test_a_name_is_there_where_the_algorithm_has_counted_it():
    stats = Stats(n_starts=3, mislinked=0.0)
    assert isinstance(stats, Mapping)
    assert set(stats) == {"remarks", "priors", "n_starts", "mislinked"} and len(stats) == 4
    assert stats.get("n_sweeps", 7) == 7 and stats.get("mislinked", 7) == 0.0
    assert stats["n_sweeps"] is None
    with pytest.raises(KeyError, match="n_swept"):
        stats["n_swept"]


def test_more_evaluations_add_up_and_leave_the_rest():
    stats = Stats(n_starts=3).more_evaluations(4).more_evaluations(5)
    assert (stats.n_starts, stats.n_evaluations) == (3, 9)


def test_reading_gives_back_what_was_counted_and_leaves_out_numbers_of_other_versions():
    stats = Stats(n_starts=3, exchange_rates=np.arange(2.0))
    again = Stats.read({**stats, "n_racers": 5})
    assert all(getattr(again, each.name) is getattr(stats, each.name) for each in fields(Stats))


@pytest.mark.parametrize("method", ["ls", "likelihood"])
def test_a_file_keeps_every_number(method, tmp_path):
    data, path = make_property_data(method), tmp_path / "model.json"
    model = ShuffledLinearRegression(method, random_state=0).fit(data.X, data.y, data.groups)
    model.save(path)
    kept = json.loads(path.read_text())["result"]["fields"]["solution"]["fields"]["stats"]
    assert kept["is"] == "dict"  # as files of every version
    found, again = model.solution_.stats, load(path).solution_.stats
    assert type(again) is Stats and set(again) == set(found)
    assert dict(again) == dict(found)
    assert replace(again, remarks=("one",)).remarks == ("one",)
