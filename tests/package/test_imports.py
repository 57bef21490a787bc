"""The package: imports go downward, importing is cheap, public names explain themselves."""

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import unshuffle
from unshuffle import design

SOURCE = Path(unshuffle.__file__).parent

# From the ground up: a package may import only from those before it, and no modules import each
# other in a circle.
ORDER = [
    "errors",
    "formatting",
    "registry",
    "options",
    "progress",
    "threads",
    "kernels",
    "data",
    "objectives",
    "core",
    "gpu",
    "solvers",
    "model",
    "inference",
    "linkage",
    "methods",
    "solving",
    "io",
    "formulas",
    "results",
    "design",
    "auditing",
    "simulate",
    "scoring",
    "validation",
    "estimator",
    "loading",
    "comparison",
    "datasets",
    "experiments",
    "cli",
    "__main__",
]
# With more modules in a folder nobody sees at a glance what is there: ideas part into sub-packages.
MOST_MODULES = 20

MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
    for path in sorted(SOURCE.rglob("*.py"))
    if path != SOURCE / "__init__.py"
}


def walk_at_run_time(node):
    """Yield every node that can run, leaving out what only type checkers read."""
    yield node
    for child in ast.iter_child_nodes(node):
        test = child.test if isinstance(child, ast.If) else None
        if not (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"):
            yield from walk_at_run_time(child)


def imported_modules(path):
    """Return the modules of this package that a file imports, at the top or inside functions."""
    names = set()
    for node in walk_at_run_time(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} uses a relative import"
            # `from unshuffle.data.bags import Bag` may name a module, or something inside one.
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    found = set()
    for name in names:
        parts = name.split(".")[1:] if name.startswith("unshuffle.") else []
        while parts and ".".join(parts) not in MODULES:
            init = ".".join([*parts, "__init__"])
            if init in MODULES:
                found.add(init)
                break
            parts.pop()
        else:
            found |= {".".join(parts)} if parts else set()
    return found


@cache
def build_graph():
    """Return what each module imports."""
    return {module: imported_modules(path) for module, path in MODULES.items()}


def layer(module):
    """Return how high a module, or the package around it, stands."""
    return ORDER.index(module.split(".")[0])


def test_the_graph_sees_imports_of_every_form():
    graph = build_graph()
    assert "objectives.moments" in graph["objectives.problem"]  # from unshuffle.core import moments
    assert "data.bags" in graph["objectives.problem"]  # from unshuffle.data.bags import Bags
    assert "solvers.local_search" in graph["solvers.self_moments"]  # two names at once


def stands_above(other, module):
    """Whether `other`, which a module imports, belongs to a layer above that module's."""
    return layer(other) > layer(module)


def test_every_package_has_a_layer():
    assert {module.split(".")[0] for module in MODULES} == set(ORDER)


def test_imports_go_downward_only():
    upward = [
        f"{module} imports {other}, which is above it"
        for module, others in build_graph().items()
        for other in sorted(others)
        if stands_above(other, module)
    ]
    assert not upward
    # The search itself finds what it is for.
    assert stands_above("cli.app", "data.bags") and not stands_above("data.bags", "cli.app")


def test_no_modules_import_each_other_in_a_circle():
    left = {module: set(others) for module, others in build_graph().items()}
    while True:
        done = [module for module, others in left.items() if not others & left.keys()]
        if not done:
            break
        for module in done:
            del left[module]
    assert not left


def test_no_package_has_more_than_twenty_modules():
    folders = {path.parent for path in MODULES.values()}
    modules = {
        folder.relative_to(SOURCE): sorted(
            path.name for path in folder.glob("*.py") if path.stem != "__init__"
        )
        for folder in folders
    }
    assert {name: each for name, each in modules.items() if len(each) > MOST_MODULES} == {}


def test_importing_loads_nothing_heavy():
    code = (
        "import sys, unshuffle; "
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'pandas', 'polars', 'click'}; "
        "print(sorted(heavy & set(sys.modules)), "
        "sorted(m for m in sys.modules if m.startswith('unshuffle.')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[] []"


def test_a_fit_by_ls_does_not_import_the_posterior():
    code = (
        "import sys, numpy as np\n"
        "from unshuffle.results.fit import fit_table\n"
        "from unshuffle.options import FitOptions\n"
        "rng = np.random.default_rng(0)\n"
        "X, y = rng.normal(size=(40, 2)), rng.normal(size=40)\n"
        "fit_table(X, y, None, FitOptions(method='ls'), rng)\n"
        "print(sorted({'sklearn'} & set(sys.modules)),\n"
        "      [m for m in sys.modules if 'unshuffle.inference' in m])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[] []"


def test_the_core_fits_without_the_extras():
    extras = ("pandas", "polars", "matplotlib", "pooch", "pyarrow", "flowio", "dask", "openpyxl")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({extras}))\n"
        "import unshuffle\n"
        "data = unshuffle.make_shuffled(30, 1, rng=0)\n"
        "unshuffle.ShuffledLinearRegression('ls', random_state=0).fit(data.X, data.y)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


PUBLIC = [name for name in unshuffle.__all__ if name != "__version__"]


def test_every_public_name_is_there_and_listed():
    assert set(PUBLIC) <= set(dir(unshuffle))
    assert [name for name in PUBLIC if getattr(unshuffle, name) is None] == []


def test_unknown_names_are_missing_attributes():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        unshuffle.nonsense  # noqa: B018
    assert not hasattr(unshuffle, "nonsense")


def explains_itself(thing):
    """The table of methods does; so do pictures, which a page of the reference draws."""
    return isinstance(thing, dict) or thing.__name__.startswith("plot_")


def test_every_public_name_has_a_docstring():
    for name in PUBLIC:
        thing = getattr(unshuffle, name)
        if isinstance(thing, dict):
            assert all(entry.summary for entry in thing.values()), name
            continue
        first = inspect.getdoc(thing).splitlines()[0]
        # One sentence, written by hand: a dataclass without a docstring shows its signature.
        assert first.endswith((".", ":")) and not first.startswith(f"{name}("), name


def test_every_public_name_shows_a_runnable_example():
    for name in PUBLIC:
        thing = getattr(unshuffle, name)
        if explains_itself(thing):
            continue
        module = importlib.import_module(thing.__module__)
        tests = doctest.DocTestFinder(recurse=False).find(thing, name, module)
        assert any(test.examples for test in tests), f"{name} has no example"
        assert "Examples\n--------\n" in inspect.getdoc(thing), f"{name}: no heading 'Examples'"


def test_every_name_of_the_design_shows_an_example():
    for name in design.__all__:
        text = inspect.getdoc(getattr(design, name))
        assert re.search(r"Examples\n--------\n(.*\n)*?>>> ", text), name
