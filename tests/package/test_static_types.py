"""Type checkers find wrong uses of the public names, which are loaded on first use."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import unshuffle

SOURCE = Path(unshuffle.__file__).parent

# A wrong use in each line, and the kind of error that is to be found there.
WRONG = {
    'ShuffledLinearRegression(methd="ls")': "call-arg",
    "model.fitt(data.X, data.y)": "attr-defined",
    "width: int = model.conf_int()": "assignment",
    "sds: np.ndarray = model.predict(data.X, return_std=True)": "assignment",
    "model.summary(levl=0.9)": "call-arg",
    "model.match(data.X, data.y).probabilty": "attr-defined",
    'make_shuffled(n="many")': "arg-type",
    "load(3)": "arg-type",
    "fit([Bag(data.X, data.y)], metod='ls')": "call-overload",
    "fit('y ~ a', {}, bag='pool')": "call-overload",
    "ShuffledLinearRegression.from_formula('y ~ a')": "call-arg",
    "model.contrast(3)": "arg-type",
    "model.conf_int(alpha='5 %')": "arg-type",
    "model.summary().tydi()": "attr-defined",
    "unshuffle.nonsense()": "attr-defined",
    "ShuffledLinearRegression(n_starts='ten')": "arg-type",
    "model.solution_.candidates[0].wieghts": "attr-defined",
}
RIGHT = """
import numpy as np
import unshuffle
from unshuffle import Bag, ShuffledLinearRegression, design, fit, load, make_shuffled

data = make_shuffled(60, 2, noise=0.1, bags=6, rng=0)
model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, groups=data.groups)
coefficients: np.ndarray = model.coef_
mean: np.ndarray = model.predict(data.X)
both: tuple[np.ndarray, np.ndarray] = model.predict(data.X, return_std=True)
found: unshuffle.Fit = fit([Bag(data.X, data.y)], method="ls", rng=0)
copy: ShuffledLinearRegression = model.set_params(method="means")
other: unshuffle.Fit = fit("y ~ a", {"a": [1.0], "y": [1.0]}, bags=None, method="ls", rng=0)
third = ShuffledLinearRegression.from_formula("y ~ a", {"a": [1.0]}, "pool", random_state=0)
low: float = third.contrast("a - intercept", alpha=0.1).low
match: unshuffle.Match = third.match(data.X, data.y)
plan: design.Plan = design.plan_runs(data.X, [2], noise=0.1, label_sd=1.0, rng=0)
print(model.summary().table, copy.get_params()["method"], found.coef.sum())
"""


def check_types(path, text):
    """Return the errors of mypy, strict, by line."""
    pytest.importorskip("mypy")
    path.write_text(text, encoding="utf-8")
    # Not followed: packages whose types no public name has. The bodies of the library's functions
    # are checked by `make types` and left out where its errors are ignored.
    config, names = path.with_name("mypy.ini"), ("numba", "dask", "distributed", "polars")
    others = ",".join(f"{name}.*" for name in (*names, "matplotlib", "rich", "narwhals"))
    sections = f"[mypy-{others}]\nfollow_imports = skip\n[mypy-unshuffle.*]\nignore_errors = True\n"
    config.write_text(f"[mypy]\n{sections}", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", f"--config-file={config}"]
    # The cache is of this test alone: others run at the same time.
    command += ["--no-error-summary", "--ignore-missing-imports"]
    command += ["--cache-dir", str(path.parent / "cache"), str(path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=SOURCE.parent)
    lines = [line for line in run.stdout.splitlines() if line.startswith(str(path))]
    return {int(line.split(":")[1]): line for line in lines if ": error:" in line}


def test_mypy_finds_every_wrong_use_and_no_other(tmp_path):
    text = RIGHT + "\n".join(WRONG) + "\n"
    found = check_types(tmp_path / "use.py", text)
    first = RIGHT.count("\n") + 1
    missed = [use for place, use in enumerate(WRONG, start=first) if place not in found]
    assert not missed
    assert [found[line] for line in sorted(found) if line < first] == []
    for place, kind in enumerate(WRONG.values(), start=first):
        assert f"[{kind}]" in found[place]


def test_type_checkers_see_the_names_that_are_loaded_on_first_use():
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    block = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    typed = {
        alias.asname: f"{node.module}".removeprefix("unshuffle.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    packages = {name: typed.pop(name) for name in unshuffle._PACKAGES}
    assert set(packages.values()) == {"unshuffle"}
    assert typed == unshuffle._NAMES
