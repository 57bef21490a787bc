"""The checker of docstrings sees every public name, and finds what is missing."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpydoc")

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location(
    "check_docstrings", ROOT / "packaging" / "check_docstrings.py"
)
check_docstrings = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = check_docstrings
spec.loader.exec_module(check_docstrings)


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        # One line without sections: its parameter, what it returns, an example, what it raises.
        ("unshuffle.results.verdict.need_uncertainty", {"PR01", "RT01", "EX01", "RA01"}),
        ("unshuffle.io.columns.groups.check_groups", {"PR01", "RT01", "EX01", "RA01"}),
        ("unshuffle.options.FitOptions", {"PR01", "EX01"}),
    ],
)
def test_what_is_missing_is_found(name, rules):
    assert {each.split()[0] for each in check_docstrings.check(name)} == rules


def test_methods_and_properties_of_public_classes_are_checked():
    names = set(check_docstrings.find_names())
    assert "unshuffle.estimator.ShuffledLinearRegression.from_formula" in names
    assert "unshuffle.results.result.Fit.verdict" in names
    assert "unshuffle.design.plan.plan_runs" in names
    # Declared, and documented, by their base class.
    assert "unshuffle.objectives.noise.GaussianNoise.atoms" not in names


def test_the_public_interface_is_complete():
    assert check_docstrings.main([]) == 0
