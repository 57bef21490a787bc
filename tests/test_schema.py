"""The JSON of a fit is what its schema says, from the library and from every command."""

import json
from importlib import resources

import jsonschema
import numpy as np
import pytest

from command_line import FIT
from unshuffle import Bag, Histogram, ShuffledLinearRegression, fit, make_shuffled
from unshuffle.cli.app import run

SCHEMA = json.loads(
    (resources.files("unshuffle") / "schema" / "fit.schema.json").read_text(encoding="utf-8")
)
CHECK = jsonschema.Draft202012Validator(SCHEMA)


def walk_objects(schema):
    """Yield every part of a schema that lists keys."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield schema
        for part in schema.values():
            yield from walk_objects(part)


def test_the_schema_is_one_and_describes_every_key_in_one_line():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    parts = list(walk_objects(SCHEMA))
    assert len(parts) == 7
    for part in parts:
        assert part["additionalProperties"] is False
        for key, entry in part["properties"].items():
            assert entry["description"].endswith(".") and "\n" not in entry["description"], key


FITS = {
    "ls": ["--method", "ls"],
    "sm": ["--method", "sm", "--no-intercept"],
    "certified": ["--method", "certified"],
    "means": ["--method", "means", "--level", "0.5"],
    "likelihood": ["--method", "likelihood", "--noise", "0.05"],
    "ls, separate": ["--method", "ls", "--separate"],
}


@pytest.mark.parametrize("more", FITS.values(), ids=FITS)
def test_fit_prints_what_the_schema_says(more, folder, capsys):
    assert run([*FIT, *more, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    CHECK.validate(found)
    assert {"data", "provenance"} <= set(found)


def test_demo_prints_what_the_schema_says(folder, capsys):
    assert run(["demo", "--json"]) == 0
    CHECK.validate(json.loads(capsys.readouterr().out))


def test_a_summary_is_what_the_schema_says_without_files():
    data = make_shuffled(60, 2, bags=6, rng=0)
    for method in ("ls", "means", "likelihood"):
        model = ShuffledLinearRegression(method, random_state=0).fit(data.X, data.y, data.groups)
        CHECK.validate(json.loads(json.dumps(model.summary().to_dict(), allow_nan=False)))
    bags = [Bag(np.arange(6.0)[:, None], Histogram([0.0, 3.0, np.inf], [5, 4]))]
    found = fit(bags, method="ls", rng=0).summary().to_dict()
    CHECK.validate(json.loads(json.dumps(found, allow_nan=False)))
    assert (found["n"], found["labels"], found["pairing"]) == (6, 9, "draws")


@pytest.mark.parametrize("key", SCHEMA["required"])
def test_the_schema_refuses_an_object_that_lacks_a_key(key):
    data = make_shuffled(30, 1, rng=0)
    found = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y).summary().to_dict()
    del found[key]
    assert not CHECK.is_valid(found)
