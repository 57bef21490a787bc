"""Properties of the text for a paper: its numbers are those of the table, its references ours."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

import unshuffle
from page_reader import fit
from unshuffle import Bag, ShuffledLinearRegression, __version__, make_shuffled
from unshuffle.results.paper_text import (
    REFERENCES,
    find_log_base,
    show_effect,
    show_factor,
    write_paper_text,
)
from unshuffle.results.verdict import NOT_IDENTIFIED

ROOT = Path(__file__).parents[2]


def write(model, label=None, level=0.95):
    return write_paper_text(model.result_, level, label, 7)


def test_the_sentence_has_each_determined_coefficient_with_its_interval():
    model, _ = fit(names=["dose", "age"])
    text = write(model, "yield").result
    assert "yield on 2 features" in text and "6 bags (120 rows)" in text
    for row in model.summary().rows[:2]:
        numbers = [f"{value:.4g}" for value in (row.estimate, row.low, row.high)]
        is_told = f"{row.name} {numbers[0]} ({numbers[1]} to {numbers[2]})" in text
        assert is_told is (row.determined in ("sign", "sign and magnitude"))
        assert (row.name in text.partition("Undetermined")[2]) is (row.determined == "no")


@pytest.mark.filterwarnings("ignore:120 bags hold one row")
def test_the_sentence_says_what_was_known_of_the_links():
    data = make_shuffled(120, 2, noise=0.1, bags=12, rng=1)
    X, y, groups = data.X, data.y, data.groups
    parts = [(X[groups == g], y[groups == g]) for g in np.unique(groups)]
    full, means = [Bag(*part) for part in parts], [Bag(a, mean=b.mean()) for a, b in parts]
    halves = [Bag(a, b[:5]) for a, b in parts]
    wrong = ShuffledLinearRegression(mislinked=0.2, random_state=0).fit(X, data.linked_y)
    said = {
        "with labels shuffled inside 12 bags (120 rows)": unshuffle.fit(full, method="ls"),
        "with the mean labels of 12 bags (120 rows)": unshuffle.fit(means, method="means"),
        "with labels shuffled inside 12 bags, 8 of them known by mean labels (120 rows)":
            unshuffle.fit([*full[:4], *means[4:]], method="means"),
        "with rows and labels as separate samples of 12 bags (120 rows, 60 labels)":
            unshuffle.fit(halves, method="ls", same_individuals=False),
        "with each label beside its row (120 rows)":
            unshuffle.fit([Bag(a[None], b[None]) for a, b in zip(X, data.linked_y, strict=True)]),
        "with some labels beside wrong rows of one bag (120 rows)": wrong.result_,
    }  # fmt: skip
    for words, found in said.items():
        text = write_paper_text(found, 0.95, None, 7)
        assert f"2 features {words}" in text.result
        assert ("unknown" in text.method) is ("shuffled" in words or "separate" in words)
        assert ("only the mean" in text.method) is ("mean" in words)


def test_the_level_is_that_of_the_intervals():
    model, _ = fit()
    narrow, wide = (write(model, level=level) for level in (0.5, 0.99))
    assert "50 % intervals" in narrow.result and "99 % posterior intervals" in wide.method
    assert narrow.result != wide.result


def test_what_was_not_identified_is_no_result():
    model, _ = fit()
    draws = model.posterior_.draws
    spread = dataclasses.replace(
        model.posterior_, draws=draws + 99.0 * (draws - draws.mean(axis=0))
    )
    solution = dataclasses.replace(model.solution_, uncertainty=spread)
    model.result_ = dataclasses.replace(model.result_, solution=solution)
    assert model.summary().verdict == NOT_IDENTIFIED
    text = write(model).result
    assert "not identified" in text
    assert f"{model.summary().rows[0].estimate:.4g} (" not in text


def test_a_method_without_intervals_says_so():
    model, _ = fit("ls")
    text = write(model)
    assert "This method gives no intervals." in text.result and "interval" not in text.method
    assert f"{model.coef_[0]:.4g}" in text.result


@pytest.mark.parametrize("noise", [None, 0.1])
def test_the_paragraph_states_what_was_done(noise):
    data = make_shuffled(60, 1, noise=0.1, bags=3, rng=0)
    model = ShuffledLinearRegression("means", noise=noise, random_state=7)
    text = write(model.fit(data.X, data.y, data.groups)).method
    assert __version__ in text and "method 'means'" in text and "The seed was 7." in text
    assert ("noise was given" in text) is (noise is not None)


@pytest.mark.parametrize(
    ("label", "base"),
    [("log10 wage", 10.0), ("log2(a)", 2.0), ("ln x", np.e), ("log(x)", np.e),
     ("login", None), ("wage", None), ("catalog", None), (None, None)],
)  # fmt: skip
def test_a_logarithm_is_known_by_its_name(label, base):
    assert find_log_base(label) == (None if base is None else pytest.approx(base))


@pytest.mark.parametrize("base", [2.0, np.e, 10.0])
@pytest.mark.parametrize("exponent", [-3.0, -0.02, -1e-5, 0.0, 1e-5, 0.03, 0.4, 3.0])
def test_a_factor_has_the_digits_by_which_it_differs_from_one(exponent, base):
    shown = float(show_factor(exponent, base))
    factor = base**exponent
    assert shown == pytest.approx(factor, rel=5e-4)
    assert shown - 1.0 == pytest.approx(factor - 1.0, rel=0.1)


def test_factors_of_a_logarithm_are_powers_of_the_coefficients():
    model, _ = fit()
    for row in model.summary().rows[:2]:
        found = [float(each) for each in re.findall(r"[\d.]+", show_effect(row, 10.0))]
        expected = 10.0 ** np.array([row.estimate, row.low, row.high])
        np.testing.assert_allclose(found, expected, rtol=2e-3)
    assert "factors per unit" in write(model, "log10 wage").result


def test_the_references_are_those_of_the_bibliography_and_the_citation_file():
    page = (ROOT / "docs" / "references.md").read_text(encoding="utf-8").replace("*", "")
    for key, text in REFERENCES.items():
        if key != "unshuffle":
            assert f"- {text}\n" in page
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    own = REFERENCES["unshuffle"]
    author = re.search(r"- name: (.*)", cff)[1]
    title = re.search(r"^title: (.*)", cff, re.MULTILINE)[1]
    abstract = re.search(r"^abstract: (.*?)\.?$", cff, re.MULTILINE)[1]
    version = re.search(r"^version: (.*)", cff, re.MULTILINE)[1]
    assert author in own and f"{title}: {abstract[0].lower()}{abstract[1:]}" in own
    assert f"(version {version})" in own
    text = write(fit("ls")[0])
    assert text.references == (own, REFERENCES["abid2017"])
    assert text.bibtex.count("{") == text.bibtex.count("}") and version in text.bibtex
