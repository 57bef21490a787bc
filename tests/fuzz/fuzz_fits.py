"""Fits of whatever one may hand over: a result or one clear line, and never anything else.

    make fuzz                                           10 000 fits, in 20 parts
    python -m pytest tests/fuzz/fuzz_fits.py -k "part-3"     one part of them
    FUZZ_SEED=1 FUZZ_FITS=2000 make fuzz                others, and fewer

Hypothesis chooses what the data are like (`fuzz_cases.py`) and shrinks what fails. A part has a
seed of its own, so that it can be repeated, and parts that were run one by one add up to the
whole. What was ever found is fixed, and stands as an example in `tests/methods/test_extremes.py`.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from fuzz_cases import (
    BAD_OPTIONS,
    NOISES,
    OBJECTS,
    cases,
    draw_anchors,
    draw_data,
    make_bags,
    name_groups,
    shape_table,
    spoil,
)
from unshuffle import InputError, ShuffledLinearRegression, fit, methods
from unshuffle.cli.app import run as run_command

N_FITS = int(os.environ.get("FUZZ_FITS", "10000"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
N_PARTS = 20
# A fit of a few dozen rows goes through blocks above so many.
BLOCKS_ABOVE = 50
# What may also be wrong in bags and files.
GAPS = ("nan", "inf", "label nan")
OPTIONS = ("fit_intercept", "l1", "l2", "bag_offsets", "mislinked")


def read_options(case):
    """Return the options of a case, wrong ones among them."""
    options = {name: case[name] for name in OPTIONS}
    options |= {"method": OBJECTS.get(case["method"], case["method"])}
    options |= {"noise": NOISES[case["noise"]]}
    options |= dict(zip(("n_starts", "tol"), case["search"], strict=True))
    return options | BAD_OPTIONS.get(case["bad"], {})


def fit_table(case):
    """Fit a table, in blocks or not; ask for all that a fitted model tells."""
    X, y, codes, rng = draw_data(case)
    anchors = draw_anchors(case, codes, rng)
    groups = name_groups(case["bags"], codes)
    if len(y):
        X, y, groups = spoil(case["bad"], X, y, groups)
    X, y, groups = shape_table(case["form"], X, y, groups)
    model = ShuffledLinearRegression(**{"random_state": 0, **read_options(case)})
    model.fit(X, y, groups, anchors=anchors)
    assert np.isfinite(model.predict(X)).all()
    # As in scikit-learn one row has no R².
    assert np.isfinite(model.score(X, y, groups)) or len(y) == 1
    matched = model.match(X, y, groups, anchors=anchors)
    assert sorted(matched.order) == list(range(len(y)))
    if matched.probability is not None:
        assert ((matched.probability >= 0) & (matched.probability <= 1)).all()
    with contextlib.suppress(InputError):  # methods without intervals
        assert not np.isnan(model.predict(X, return_std=True)[1]).any()
        assert not np.isnan(model.predict_interval(X, new_label=True)).any()
    return model.result_


def fit_bags(case):
    """Fit bags of masses, bins, missing labels or separate samples."""
    X, y, codes, rng = draw_data(case)
    if len(y):
        X, y, _ = spoil(case["bad"] if case["bad"] in GAPS else None, X, y, codes)
    bags, same = make_bags(case["form"], X, y, codes, rng)
    options = read_options(case)
    return fit(bags, same_individuals=same, rng=options.pop("random_state", 0), **options)


def fit_file(case):
    """Fit a file by the command line; return None, since it prints what it found."""
    X, y, codes, rng = draw_data(case)
    texts = np.array(["low", "mid", "high"])[rng.integers(0, 3, len(y))]
    names = [f"x {j}" for j in range(X.shape[1])]
    if case["bad"] in GAPS and len(y):
        X, y, _ = spoil(case["bad"], X, y, codes)
    is_object = case["method"] in OBJECTS
    method = "ls" if is_object else case["method"]
    args = ["--label", "y", "--bag", "bag", "--method", method, "--json", "--seed", "0"]
    for name, value in (("--l1", case["l1"]), ("--l2", case["l2"])):
        args += [name, str(value)] if value else []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.csv")
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow([*names, "grade", "bag", "y"])
            for k in range(len(y)):
                table.writerow([*X[k], texts[k], f"b{codes[k]}", y[k]])
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_command(["fit", str(path), *args])
    if code == 2:
        line = err.getvalue().strip().splitlines()[-1]
        raise InputError(line)
    assert code == 0, err.getvalue()
    said = json.loads(out.getvalue(), parse_constant=pytest.fail)
    assert np.isfinite([each["estimate"] for each in said["coefficients"].values()]).all()
    assert "Traceback" not in err.getvalue()


def check_found(found):
    """Look at all that a fit tells."""
    assert np.isfinite(found.weights).all()
    for candidate in found.solution.candidates:
        assert np.isfinite([*candidate.weights, candidate.value]).all()
    summary = found.summary()
    json.dumps(summary.to_dict(), allow_nan=False)
    assert "nan" not in str(summary).split()
    with contextlib.suppress(InputError):  # methods without intervals
        ends = found.conf_int(intercept=True) if found.options.fit_intercept else found.conf_int()
        assert (ends[:, 0] <= ends[:, 1]).all()


def explain(error):
    """Return the line of a refusal; fail where it is no refusal but a failure inside."""
    line = str(error)
    if "sklearn" in traceback.extract_tb(error.__traceback__)[-1].filename:
        return line  # of its checks, in its own words
    assert isinstance(error, InputError), repr(error)
    assert line and "\n" not in line and len(line) < 500, line
    return line


def is_expected(case):
    """Return whether a case is to be refused for what is wrong with it."""
    bad, kind = case["bad"], case["kind"]
    if bad is None or case["n"] == 0:
        return False
    if kind == "file":
        return bad in GAPS
    if kind == "bags":
        return bad in BAD_OPTIONS or bad in GAPS
    return True


FITS = {"table": fit_table, "blocks": fit_table, "bags": fit_bags, "file": fit_file}


def check(case, tally):
    """Fit a case: a result, or one clear line."""
    above = BLOCKS_ABOVE if case["kind"] == "blocks" else methods.BLOCKS_ABOVE
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("error")
        # Doubt, misfit and remarks on the data are what a fit may warn of.
        warnings.simplefilter("ignore", UserWarning)
        patch.setattr(methods, "BLOCKS_ABOVE", above)
        patch.setattr(methods, "KEPT_UP_TO", above)
        patch.setenv("UNSHUFFLE_TRACEBACK", "1")
        try:
            found = FITS[case["kind"]](case)
            assert not is_expected(case), f"{case['bad']} was fitted"
            if found is not None:
                check_found(found)
        except ValueError as error:
            tally[f"refused: {explain(error)[:60]}"] += 1
            return
    tally[f"fitted: {case['kind']} {case['form']}"] += 1
    tally[f"method: {case['method']}"] += 1


@pytest.mark.parametrize("part", [pytest.param(k, id=f"part-{k}") for k in range(N_PARTS)])
def test_a_fit_is_a_result_or_one_clear_line(part, capsys):
    tally: Counter[str] = Counter()

    @seed(SEED * N_PARTS + part)
    @settings(
        max_examples=max(1, N_FITS // N_PARTS), deadline=None, database=None, print_blob=False,
        phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases())
    def check_all(case):
        check(case, tally)

    check_all()
    n_fitted = sum(count for name, count in tally.items() if name.startswith("fitted"))
    n_refused = sum(count for name, count in tally.items() if name.startswith("refused"))
    with capsys.disabled():
        print(f"\npart {part}: {n_fitted} fitted, {n_refused} refused")
        if os.environ.get("FUZZ_TALLY"):
            print(json.dumps(dict(tally.most_common()), indent=1))
    # Of a hundred cases more than half can be fitted, or the fuzzer tries refusals only.
    assert n_fitted > n_refused or n_fitted + n_refused < 100
