"""Matching where labels stand beside their rows, but for a share of them."""

import csv
import io
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unshuffle import Sampler, ShuffledLinearRegression, compare_methods, make_shuffled
from unshuffle.cli.app import run
from unshuffle.core.uncertainty import StudentT
from unshuffle.data.bags import make_bags
from unshuffle.errors import InputError
from unshuffle.results.linked_matching import match_links


def simulate(n, noise, share, seed, bags=2):
    """Return data, labels of which a share was mixed up, and where the label of each row is."""
    rng = np.random.default_rng(seed)
    data = make_shuffled(n, 2, noise=noise, bags=bags, rng=seed)
    source = np.arange(n)
    for bag in np.unique(data.groups):
        rows = np.flatnonzero(data.groups == bag)
        some = rng.permutation(rows)[: round(share * len(rows))]
        source[some] = rng.permutation(some)
    return data, data.linked_y[source], np.argsort(source)


def fit(data, y, share=0.3, method="auto"):
    model = ShuffledLinearRegression(method, mislinked=share, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(data.X, y, data.groups)


@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_probabilities_are_as_often_right_as_they_say(noise):
    right, said = [], []
    for seed in range(6):
        data, y, truth = simulate(120, noise, 0.3, seed)
        found = fit(data, y).match(data.X, y, data.groups)
        assert sorted(found.order.tolist()) == list(range(120))
        assert_array_equal(found.labels, y[found.order])
        right.append(found.order == truth)
        said.append(found.probability)
    right, said = np.concatenate(right), np.concatenate(said)
    # 720 matches, those of a fit hanging together: a standard error of about 0.02.
    assert right.mean() == pytest.approx(said.mean(), abs=0.06)
    assert right[said > 0.8].mean() > 0.85
    assert right[said < 0.5].mean() < right[said > 0.8].mean() - 0.2
    # Guessing inside bags of 60 would be right in one of sixty.
    assert right.mean() > 0.65


def test_links_that_are_all_right_are_kept_for_sure():
    data, y, _ = simulate(40, 0.3, 0.0, 1)
    found = fit(data, y, share=0.0).match(data.X, y, data.groups)
    assert_array_equal(found.order, np.arange(40))
    assert_array_equal(found.probability, 1.0)
    assert "40 of 40 rows keep the label" in found.verdict[1]


def test_the_mixture_and_the_sampler_say_the_same_of_a_match():
    data, y, _ = simulate(60, 0.3, 0.3, 3, bags=1)
    one = fit(data, y).match(data.X, y, data.groups)
    other = fit(data, y, method=Sampler(n_sweeps=300)).match(data.X, y, data.groups)
    same = one.order == other.order
    # The mixture has a density of wrong labels in place of the labels themselves: 0.1 at most on
    # average was seen, and one match in ten that goes elsewhere.
    assert same.mean() > 0.8
    assert np.abs(one.probability - other.probability)[same].mean() < 0.15


def test_the_order_of_rows_moves_no_bit():
    data, y, _ = simulate(50, 0.3, 0.3, 4)
    y = np.round(y, 1)
    model = fit(data, y)
    order = np.random.default_rng(0).permutation(50)
    one = model.match(data.X, y, data.groups)
    two = model.match(data.X[order], y[order], data.groups[order])
    assert_array_equal(two.probability, one.probability[order])
    assert_array_equal(two.labels, one.labels[order])


def test_tables_of_a_fit_are_not_those_of_other_links():
    data, y, _ = simulate(30, 0.2, 0.3, 5, bags=1)
    model = fit(data, y, method=Sampler(n_sweeps=100))
    again = y[np.random.default_rng(1).permutation(30)]
    assert "the sampler walked over" in " ".join(model.match(data.X, y).verdict)
    assert "the sampler walked over" not in " ".join(model.match(data.X, again).verdict)


def test_a_label_that_an_anchor_took_away_has_no_link():
    bags = make_bags(np.arange(4.0)[:, None], np.arange(4.0), None, [1, -1, -1, -1])
    sure = StudentT(np.array([1.0, 0.0]), np.zeros((2, 2)), 5, 0.1)
    with pytest.raises(InputError, match="True or False for every row"):
        match_links(bags, np.array([1.0]), 0.0, sure, 0.3)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, y, truth = simulate(60, 0.1, 0.3, 6)
    lines = ["a,b,y,bag,known,truth"]
    known = truth == np.arange(60)
    known[np.flatnonzero(known)[10:]] = False
    for x, label, bag, is_known, linked in zip(
        data.X.tolist(), y.tolist(), data.groups.tolist(), known.tolist(),
        data.linked_y.tolist(), strict=True,
    ):  # fmt: skip
        lines.append(f"{x[0]!r},{x[1]!r},{label!r},{bag},{int(is_known)},{linked!r}")
    Path("d.csv").write_text("\n".join(lines) + "\n")
    return truth


DATA = ["d.csv", "--label", "y", "--bag", "bag", "--features", "a,b"]


def test_match_takes_links_from_the_command_line(table, capsys):
    assert run(["match", *DATA, "--mislinked", "0.3", "--anchor", "known"]) == 0
    streams = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(streams.out)))
    assert "rows keep the label that stood beside them" in streams.err
    sure = [float(row["probability"]) for row in rows]
    assert min(sure) >= 0.0 and sum(p == 1.0 for p in sure) >= 10
    assert run(["match", *DATA, "--mislinked", "2"]) == 2
    assert "2.0 is no share of wrong links" in capsys.readouterr().err


def test_compare_puts_the_mixture_first(table, capsys):
    how = ["--mislinked", "estimate", "--truth", "truth", "--methods", "auto,ls", "--json"]
    assert run(["compare", *DATA, *how]) == 0
    rows = json.loads(capsys.readouterr().out)["methods"]
    assert [row["method"] for row in rows] == ["mixture", "ls"]
    assert rows[0]["error"] < 0.1
    data, y, _ = simulate(40, 0.1, 0.2, 7)
    first = next(iter(compare_methods(data.X, y, data.groups, mislinked=0.2, random_state=0)))
    assert first.method == "mixture"
    assert_allclose(first.weights, fit(data, y, 0.2).coef_)


def test_the_report_names_pairs_links_and_proof(table, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    assert run(["fit", *DATA, "--mislinked", "0.3", "--anchor", "known", "--report", "r.html"]) == 0
    page = Path("r.html").read_text()
    assert "10 of 60 rows" in page and "30.0% of the labels, given" in page
    assert run(["fit", *DATA, "--method", "certified", "--report", "c.html"]) == 0
    capsys.readouterr()
    assert "Certificate" in Path("c.html").read_text()
