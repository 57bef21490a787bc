"""Generated pages are up to date, and the examples run."""

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression

from printed import find_difference
from unshuffle.results.limits import LINKS_LIMITS

ROOT = Path(__file__).parents[2]

needs_files = pytest.mark.skipif(
    not os.environ.get("UNSHUFFLE_DATA"), reason="UNSHUFFLE_DATA names no folder of data files"
)


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    # Functions of a module that only this process knows cannot be sent to workers by name.
    del sys.modules[path.stem]
    return module


def test_the_page_of_commands_is_up_to_date():
    script = load(ROOT / "docs" / "make_cli.py")
    written = script.PAGE.read_text(encoding="utf-8")
    assert written == script.make_page(), "run: python docs/make_cli.py"


def test_the_readmes_ten_lines_and_its_command_print_what_it_shows():
    pytest.importorskip("pandas")
    pages = load(ROOT / "docs" / "run_pages.py")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code, shown, command = (
        re.search(rf"^```{kind}\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)[1]
        for kind in ("python", "text", "bash")
    )
    assert len(code.strip().splitlines()) <= 10
    with pages.empty_folder():
        for printed in (pages.run_python(code, {}, pages.README), pages.run_shell(command)):
            assert not find_difference(printed, shown), "run: make expected"


def test_intervals_of_the_readmes_table_hold_the_linked_coefficients():
    iris, (petal_length, sepal_width) = load_iris(), (2, 1)
    linked = LinearRegression().fit(iris.data[:, [petal_length, sepal_width]], iris.data[:, 0])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "linked flowers gives {:.2f} and {:.2f}".format(*linked.coef_) in readme
    for name, coefficient in zip(("petal length", "sepal width"), linked.coef_, strict=True):
        low, high = re.search(rf"^{name} \(cm\) +\S+ +\S+ +(\S+) +(\S+)", readme, re.M).groups()
        assert float(low) <= coefficient <= float(high)


def test_the_readme_is_short_and_starts_with_the_installation():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) <= 800
    assert "pip install unshuffle" in readme.splitlines()[:20]


def test_links_of_the_readme_lead_to_files():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)", readme)
    assert targets and [target for target in targets if not (ROOT / target).is_file()] == []


def test_the_readme_says_how_intervals_of_wrong_links_covered():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert LINKS_LIMITS in readme


def test_the_curve_of_the_kernel_example_is_found(capsys):
    assert load(ROOT / "examples" / "kernel.py").main() < 0.1
    assert capsys.readouterr().out.count("\n") < 15


def test_the_record_linkage_example_finds_what_linking_in_order_does_not(capsys):
    pytest.importorskip("statsmodels")
    errors = load(ROOT / "examples" / "record_linkage.py").main()
    assert errors["unshuffled"] < 0.3 < errors["as if linked"]
    assert errors["two firms known"] < errors["unshuffled"]
    assert errors["a fifth wrong"] < 0.15 < errors["if all right"]
    assert capsys.readouterr().out.count("\n") < 15


def test_the_separate_samples_example_finds_the_weights(capsys):
    # Means of twelve cultures, each known to a few percent, fix the weights to about as much.
    assert load(ROOT / "examples" / "separate_samples.py").main() < 0.1
    assert capsys.readouterr().out.count("\n") < 15


@pytest.mark.slow
def test_the_cluster_example_finds_the_weights(capsys):
    pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    # About 0.01: so few rows are gathered; many are in the tests of Dask.
    assert load(ROOT / "examples" / "dask_cluster.py").main(3_000) < 0.05
    assert "3000 rows in 2 partitions, 2 workers" in capsys.readouterr().out


def test_the_example_of_a_card_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert load(ROOT / "examples" / "gpu.py").main(3_000) is None
    assert "pip install 'unshuffle[gpu]'" in capsys.readouterr().out


def test_the_certified_example_is_right_with_little_noise_and_proven_wrong_with_much(capsys):
    errors = load(ROOT / "examples" / "certified.py").main()
    assert errors[0.01] < 0.01 < 0.3 < errors[0.5]
    printed = capsys.readouterr().out
    assert printed.count("Certified: ") == 2 and printed.count("\n") < 15


def test_a_picture_shows_how_a_bound_rises_with_time(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    example = load(ROOT / "examples" / "certified.py")
    values, bounds = example.draw_bounds(tmp_path / "bounds.svg", limits=(0.05, 0.2))
    assert all(0.0 <= bound <= value for value, bound in zip(values, bounds, strict=True))
    assert b"<svg" in (tmp_path / "bounds.svg").read_bytes()


def test_the_known_links_example_shows_that_pairs_and_the_rest_give_more(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    errors = load(ROOT / "examples" / "known_links.py").main(2, tmp_path / "known.svg")
    assert errors[1.0][0] == pytest.approx(errors[1.0][2], rel=0.01)
    assert errors[0.2][0] < errors[0.0][0] and errors[0.1][0] < errors[0.1][1]
    assert b"<svg" in (tmp_path / "known.svg").read_bytes()


def test_the_predict_example_keeps_a_model_whose_intervals_hold(capsys, tmp_path):
    shares = load(ROOT / "examples" / "predict.py").main(tmp_path)
    # One fit: the mean is kept everywhere or nearly nowhere, readings by their own noise as well
    # (200 of them at 95 %: below 88 % once in 10 000).
    assert shares["mean"] > 0.5 and shares["reading"] > 0.88
    assert (tmp_path / "model.json").exists()
    assert capsys.readouterr().out.count("\n") < 10


def test_the_plan_example_designs_runs_that_keep_donors_together(capsys):
    plan = load(ROOT / "examples" / "plan.py").main(method="ls")
    runs = plan.assignments[8].runs.reshape(-1, 2)
    assert (runs[:, 0] == runs[:, 1]).all()
    assert "designed" in capsys.readouterr().out


def test_the_audit_example_tells_the_risk_and_what_it_leaves_out(capsys):
    found = load(ROOT / "examples" / "audit.py").main(method="ls")
    planned = found.planned
    # Six patients a clinic: noise hides most of them, but not all.
    assert planned.guess < planned.right < 0.6
    assert "Side information" in capsys.readouterr().out


@pytest.mark.slow
@needs_files
def test_the_promoters_example_ends_in_a_report(tmp_path, capsys):
    pytest.importorskip("flowio")
    pytest.importorskip("jinja2")
    error = load(ROOT / "examples" / "promoters.py").main(tmp_path / "r.html")
    assert error < 0.25
    assert (tmp_path / "r.html").stat().st_size < 1_000_000
    assert capsys.readouterr().out.count("\n") < 20
