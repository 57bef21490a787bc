"""The JSON of a fit is what its schema says, from the library and from every command."""

import json
import sys
from importlib import resources

import jsonschema
import numpy as np
import pytest

from command_line import FIT
from unshuffle import Bag, Histogram, ShuffledLinearRegression, fit, make_shuffled
from unshuffle.auditing import findings
from unshuffle.cli.app import run


def read_schema(command):
    path = resources.files("unshuffle") / "schema" / f"{command}.schema.json"
    return json.loads(path.read_text(encoding="utf-8"))


SCHEMA = read_schema("fit")
CHECK = jsonschema.Draft202012Validator(SCHEMA)
# The parts of each schema that list keys.
PARTS = {"fit": 10, "plan": 5, "audit": 11, "predict": 3, "compare": 4, "describe": 4}


def walk_objects(schema):
    """Yield every part of a schema that lists keys."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield schema
        for part in schema.values():
            yield from walk_objects(part)


@pytest.mark.parametrize("command", PARTS)
def test_the_schema_is_one_and_describes_every_key_in_one_line(command):
    schema = read_schema(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    parts = list(walk_objects(schema))
    assert len(parts) == PARTS[command]
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


def test_demo_prints_what_the_schema_says(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)  # no report
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


def print_object(capsys, *command):
    assert run([*command, "--json", "-q"]) == 0
    return json.loads(capsys.readouterr().out)


OTHERS = {
    "plan": ("plan", "data.csv", "--noise", "0.1", "--runs", "4,6", "--trials", "2", "--features",
             "x1,x2", "--label-sd", "1", "--method"),
    "plan --bag": ("plan", "data.csv", "--noise", "0.1", "--bag", "bag", "--trials", "2",
                   "--features", "x1,x2", "--method"),
}  # fmt: skip


@pytest.mark.parametrize("method", ["ls", "means"])
@pytest.mark.parametrize("command", OTHERS.values(), ids=OTHERS)
def test_plan_prints_what_its_schema_says(command, method, folder, capsys):
    found = print_object(capsys, *command, method)
    jsonschema.Draft202012Validator(read_schema("plan")).validate(found)
    del found["expectations"][0]["error_mc"]
    assert not jsonschema.Draft202012Validator(read_schema("plan")).is_valid(found)


@pytest.mark.parametrize("method", ["ls", "likelihood"])
def test_audit_prints_what_its_schema_says(method, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    list_releases = findings.list_releases
    monkeypatch.setattr(
        findings,
        "list_releases",
        lambda *args: list({each.kind: each for each in list_releases(*args)}.values()),
    )
    data = make_shuffled(40, 1, noise=0.1, bags=4, rng=0)
    rows = zip(data.X[:, 0].tolist(), data.linked_y.tolist(), data.groups.tolist(), strict=True)
    lines = [f"{x!r},{y!r},{bag}" for x, y, bag in rows]
    (tmp_path / "linked.csv").write_text("\n".join(["x,y,bag", *lines]) + "\n")
    how = ("audit", "linked.csv", "--label", "y", "--bag", "bag", "--method", method)
    found = print_object(capsys, *how)
    jsonschema.Draft202012Validator(read_schema("audit")).validate(found)
    del found["not_shown"]
    assert not jsonschema.Draft202012Validator(read_schema("audit")).is_valid(found)


@pytest.mark.parametrize("more", [[], ["--truth", "y"], ["--no-intercept"]])
def test_compare_prints_what_its_schema_says(more, folder, capsys):
    label = [] if "--truth" in more else ["--label", "y"]
    how = ("compare", "data.csv", *label, "--bag", "bag", "--methods", "ls,means,exact")
    found = print_object(capsys, *how, *more)
    check = jsonschema.Draft202012Validator(read_schema("compare"))
    check.validate(found)
    del found["methods"][1]["intervals"]
    assert not check.is_valid(found)


@pytest.mark.parametrize("method", ["ls", "means"])
def test_predict_prints_what_its_schema_says(method, folder, capsys):
    assert run([*FIT, "--method", method, "--save", "m.json", "-q"]) == 0
    capsys.readouterr()
    found = print_object(capsys, "predict", "m.json", "data.csv")
    jsonschema.Draft202012Validator(read_schema("predict")).validate(found)
    assert (found["predictions"][0]["low"] is None) == (method == "ls")
    del found["predictions"][0]["row"]
    assert not jsonschema.Draft202012Validator(read_schema("predict")).is_valid(found)


def test_describe_prints_what_the_schema_says(folder, capsys):
    assert run(["describe", "data.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, read_schema("describe"))
    assert (found["suggested_label"], found["suggested_bag"]) == ("y", "bag")
