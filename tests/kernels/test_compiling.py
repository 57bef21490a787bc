"""How kernels are compiled changes no bit of what they return."""

import importlib
import os
import pkgutil
import subprocess
import sys

import pytest

from unshuffle import kernels

# Reflections, and a loss of sorted samples: sums whose order the compiler may choose.
TRY = """
import numpy as np
from unshuffle import kernels
rng = np.random.default_rng(0)
columns, y = rng.normal(size=(4, 317)), np.sort(rng.normal(size=317))
turned, slope = columns.copy(), np.empty(317)
kernels.triangulate(turned)
value = kernels.compare_sorted(kernels.ABSOLUTE, 1, np.sort(columns[0]), y, slope)
print(turned.tobytes().hex(), np.float64(value).tobytes().hex(), slope.tobytes().hex())
"""
# A whole fit: tiny bags, bags of points and bags on a grid.
FIT = """
import numpy as np
from unshuffle import ShuffledLinearRegression, make_shuffled
for n, bags in ((150, 5), (40, 8)):
    data = make_shuffled(n, 3, noise=0.3, bags=bags, rng=1)
    model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, groups=data.groups)
    print(model.coef_.tobytes().hex(), model.posterior_.draws.tobytes().hex())
"""


def find_kernels():
    """Return every compiled function by its name, with those that it calls."""
    found = {}
    for module in pkgutil.iter_modules(kernels.__path__, kernels.__name__ + "."):
        for value in vars(importlib.import_module(module.name)).values():
            if hasattr(value, "targetoptions") and value.__module__ == module.name:
                inside = (
                    value.py_func.__globals__.get(name) for name in value.py_func.__code__.co_names
                )
                found[f"{value.__module__}.{value.__name__}"] = (
                    value,
                    [each for each in inside if hasattr(each, "targetoptions")],
                )
    return found


def adds_freely(function, table):
    """Whether the compiler may choose the order of sums in it, or in what vanishes in it."""
    options = function.targetoptions
    if "reassoc" in getattr(options.get("fastmath"), "flags", options.get("fastmath") or ()):
        return True
    called = table[f"{function.__module__}.{function.__name__}"][1]
    return any(
        each.targetoptions.get("forceinline") and adds_freely(each, table) for each in called
    )


def test_functions_whose_sums_are_free_are_called_from_python_or_vanish_in_such():
    """Their copies, one alone and one in each kernel that calls them, may sum in another order."""
    table = find_kernels()
    called = {id(each) for _, calls in table.values() for each in calls}
    free = {name for name, (function, _) in table.items() if adds_freely(function, table)}
    assert len(free) > 5
    assert not {
        name
        for name in free
        if id(table[name][0]) in called and not table[name][0].targetoptions.get("forceinline")
    }


def run_twice(code, folder):
    """Return what a process prints that compiles, and what one prints that loads from its cache."""
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code], env=settings, check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    ]
    assert any(folder.rglob("*.nbc")) and outputs[0]
    return outputs


def test_a_process_that_compiles_and_one_that_loads_find_the_same_bits(tmp_path):
    compiled, loaded = run_twice(TRY, tmp_path)
    assert compiled == loaded


@pytest.mark.slow
def test_a_first_fit_has_the_bits_of_later_ones(tmp_path):
    compiled, loaded = run_twice(FIT, tmp_path)
    assert compiled == loaded
