"""Rows and labels in two files, in numbers of their own."""

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import FIT, assert_one_line
from unshuffle import Bag, Histogram, fit
from unshuffle.cli.app import run

WEIGHTS, INTERCEPT = np.array([1.0, -2.0]), 3.0
EDGES = np.array([-np.inf, -4.0, -1.0, 1.0, 3.0, 6.0, np.inf])
TWO = ["--rows", "rows.csv", "--labels", "labels.csv", "--bag", "bag"]


def draw_samples(rng=0, n_rows=30, n_labels=40, n_bags=6):
    """Return rows and labels of separate samples, rounded as they are written."""
    rng = np.random.default_rng(rng)
    samples = []
    for _ in range(n_bags):
        mean = rng.uniform(0.0, 3.0, 2)
        X, other = (mean + rng.exponential(0.5, (size, 2)) for size in (n_rows, n_labels))
        y = other @ WEIGHTS + INTERCEPT + 0.05 * rng.standard_normal(n_labels)
        samples.append((X.round(3), y.round(3)))
    return samples


def write_lines(path, head, lines):
    Path(path).write_text("\n".join([head, *lines]) + "\n")


def row_lines(samples):
    return [f"{a},{b},s{r}" for r, (X, _) in enumerate(samples) for a, b in X.tolist()]


def label_lines(samples):
    return [f"s{r},{v}" for r, (_, y) in enumerate(samples) for v in y.tolist()]


def bin_lines(samples):
    shown = ["" if np.isinf(edge) else f"{edge:g}" for edge in EDGES]
    return [
        f"s{r},{shown[k]},{shown[k + 1]},{count}"
        for r, (_, y) in enumerate(samples)
        for k, count in enumerate(np.histogram(y, EDGES)[0])
    ]


def fit_json(capsys, *more, command="fit"):
    assert run([command, *TWO, "--method", "ls", "--json", *more]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def coefficients(found):
    return [each["estimate"] for each in [*found["coefficients"].values(), found["intercept"]]]


@pytest.fixture
def samples(folder):
    made = draw_samples()
    write_lines("rows.csv", "x1,x2,bag", row_lines(made))
    write_lines("labels.csv", "bag,y", label_lines(made))
    write_lines("bins.csv", "bag,low,high,count", bin_lines(made))
    return made


BINS = ["--rows", "rows.csv", "--labels", "bins.csv", "--bag", "bag", "--method", "ls", "--json"]


@pytest.mark.parametrize("separate", [[], ["--separate"]])
def test_separate_samples_give_what_the_library_gives(samples, separate, capsys):
    found = fit_json(capsys, *separate)
    expected = fit([Bag(X, y) for X, y in samples], method="ls", rng=0)
    assert coefficients(found) == expected.weights.tolist()
    assert (found["n"], found["labels"], found["pairing"]) == (180, 240, "draws")


def test_a_histogram_gives_what_the_library_gives(samples, capsys):
    assert run(["fit", *BINS]) == 0
    found = json.loads(capsys.readouterr().out)
    bags = [Bag(X, Histogram(EDGES, np.histogram(y, EDGES)[0])) for X, y in samples]
    assert coefficients(found) == fit(bags, method="ls", rng=0).weights.tolist()
    assert (found["n"], found["labels"], found["pairing"]) == (180, 240, "draws")


def test_missing_labels_of_the_same_individuals_are_a_subset(samples, capsys):
    write_lines("labels.csv", "bag,y", [f"s{r},{v}" for r in range(6) for v in samples[r][1][:20]])
    found = fit_json(capsys, "--same-individuals")
    bags = [Bag(X, y[:20]) for X, y in samples]
    expected = fit(bags, method="ls", rng=0, same_individuals=True)
    assert coefficients(found) == expected.weights.tolist()
    assert found["pairing"] == "subset" == expected.pairing.name


def test_equal_numbers_may_be_separate_samples(folder, capsys):
    made = draw_samples(n_labels=30)
    write_lines("rows.csv", "x1,x2,bag", row_lines(made))
    write_lines("labels.csv", "bag,y", label_lines(made))
    assert fit_json(capsys)["pairing"] == "permutation"
    assert fit_json(capsys, "--same-individuals")["pairing"] == "permutation"
    assert fit_json(capsys, "--separate")["pairing"] == "draws"


def test_one_table_may_hold_separate_samples(folder, capsys):
    fits = {}
    for more in ([], ["--separate"]):
        assert run([*FIT, "--method", "ls", "--json", *more]) == 0
        fits[len(more)] = json.loads(capsys.readouterr().out)
    assert [fits[k]["pairing"] for k in (0, 1)] == ["permutation", "draws"]
    # Bags of equal size count alike under both, so that least squares finds the same weights; the
    # sums differ in their order.
    np.testing.assert_allclose(coefficients(fits[0]), coefficients(fits[1]), rtol=1e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("labels", ["labels.csv", "bins.csv"])
@pytest.mark.parametrize("more", [[], ["--separate"]])
def test_the_order_of_lines_changes_no_digit(samples, labels, more, seed, capsys):
    args = ["fit", "--rows", "rows.csv", "--labels", labels, "--bag", "bag", "--method", "ls"]
    results = []
    rng = np.random.default_rng(seed)
    for _ in range(2):
        assert run([*args, *more, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        del found["provenance"]
        results.append(found)
        for name in ("rows.csv", labels):
            head, *lines = Path(name).read_text().splitlines()
            write_lines(name, head, rng.permutation(lines))
    assert results[0] == results[1]


def test_weights_in_either_file_are_lines_written_several_times(samples, capsys):
    rng = np.random.default_rng(1)
    rows, labels = row_lines(samples), label_lines(samples)
    often, repeats = rng.integers(0, 4, len(rows)), rng.integers(0, 4, len(labels))
    write_lines("rows.csv", "x1,x2,bag", np.repeat(rows, often))
    write_lines("labels.csv", "bag,y", np.repeat(labels, repeats))
    written = fit_json(capsys)
    lines = [f"{line},{k}" for line, k in zip(rows, often, strict=True)]
    write_lines("rows.csv", "x1,x2,bag,k", lines)
    lines = [f"{line},{k}" for line, k in zip(labels, repeats, strict=True)]
    write_lines("labels.csv", "bag,y,k", lines)
    weighted = fit_json(capsys, "--weight", "k")
    for key in ("coefficients", "intercept", "n", "labels", "pairing", "candidates"):
        assert weighted[key] == written[key]


def test_weights_of_one_table_are_lines_written_several_times(folder, capsys):
    head, *lines = Path("data.csv").read_text().splitlines()
    often = np.random.default_rng(2).integers(0, 3, len(lines))
    weighted = [f"{line},{k}" for line, k in zip(lines, often, strict=True)]
    write_lines("weighted.csv", f"{head},k", weighted)
    write_lines("written.csv", head, np.repeat(lines, often))
    for command in (["fit"], ["compare", "--methods", "ls,means"], ["match"]):
        found = []
        for name, more in (("weighted.csv", ["--weight", "k"]), ("written.csv", [])):
            method = [] if command[0] == "compare" else ["--method", "ls"]
            args = [*command, name, "--label", "y", "--bag", "bag", *method, *more, "--json"]
            assert run(args) == 0
            result = json.loads(capsys.readouterr().out)
            for row in result.get("methods", ()):
                del row["seconds"]
            for match in result.get("matches", ()):
                del match["row"]
            found.append({k: v for k, v in result.items() if k not in ("data", "provenance")})
        assert found[0] == found[1]


def test_the_pairing_taken_is_said_wherever_the_fit_speaks(samples, capsys):
    sentence = "Rows and labels are separate samples"
    assert run(["fit", *TWO, "--method", "ls", "--report", "r.html"]) == 0
    streams = capsys.readouterr()
    assert sentence in streams.out and "180 rows · 240 labels" in streams.out
    assert f"{sentence}, so that intervals count" in streams.err
    assert "bag 's0' has 30 rows in rows.csv and 40 labels in labels.csv" in streams.err
    assert sentence in Path("r.html").read_text()
    assert sentence in str(fit([Bag(X, y) for X, y in samples], method="ls", rng=0).summary())


def test_a_report_of_bins_shows_what_is_compared(samples, capsys):
    assert run(["fit", *BINS, "--report", "r.html"]) == 0
    page = Path("r.html").read_text()
    assert "Labels and predictions" in page and "240, in bins" in page


def test_compare_shows_what_each_method_can_and_why_others_cannot(samples, capsys):
    methods = "ls,sm,emd,p1,p2,means,ks,small-d,exact,sampler"
    assert run(["compare", *TWO, "--methods", methods, "--json"]) == 0
    rows = {row["method"]: row for row in json.loads(capsys.readouterr().out)["methods"]}
    for name in ("ls", "sm", "emd", "p1", "p2", "means"):
        assert rows[name]["note"] is None and rows[name]["gap"] < 1.0
    for name in ("ks", "small-d", "exact", "sampler"):
        assert "needs one label for each row" in rows[name]["note"]
        assert rows[name]["coefficients"] is None


def test_match_of_two_files_deals_each_label_once(folder, capsys):
    made = draw_samples(n_labels=30)
    write_lines("rows.csv", "x1,x2,bag", row_lines(made))
    write_lines("labels.csv", "bag,y", label_lines(made)[::-1])
    matches = fit_json(capsys, command="match")["matches"]
    assert [match["row"] for match in matches] == list(range(1, 181))
    labels = [match["label"] for match in matches]
    for r, (_, y) in enumerate(made):
        assert sorted(labels[30 * r : 30 * r + 30]) == sorted(y.tolist())


ROWS = "x,bag\n1,a\n2,a\n3,b\n4,b\n"
WEIGHTED = "x,bag,k\n1,a,1\n2,a,{}\n3,b,1\n4,b,1\n"
LABELS = "bag,y\na,1\nb,2\n"
HEAD = "bag,low,high,count\n"
# Rows, labels, further options, and what the one line must name.
WRONG = {
    "negative weight": (WEIGHTED.format(-1), LABELS, "k", ["rows.csv", "row 2", "'k'", "-1"]),
    "fractional weight": (WEIGHTED.format(1.5), LABELS, "k", ["rows.csv", "row 2", "1.5", "whole"]),
    "missing weight": (WEIGHTED.format("NaN"), LABELS, "k", ["rows.csv", "row 2", "missing"]),
    "infinite weight": (WEIGHTED.format("inf"), LABELS, "k", ["rows.csv", "row 2", "'k'", "inf"]),
    "text as weight": (WEIGHTED.format("two"), LABELS, "k", ["rows.csv", "row 2", "'two'"]),
    "weights of zero": (
        "x,bag,k\n1,a,0\n2,b,0\n", LABELS, "k", ["rows.csv", "'k'", "is 0", "at least one"],
    ),
    "a bag of weight zero": (
        "x,bag,k\n1,a,1\n2,b,0\n", LABELS, "k", ["'b'", "0 rows in rows.csv", "1 labels"],
    ),
    "no weight column": (ROWS, LABELS, "w", ["rows.csv", "labels.csv", "weight column", "'w'"]),
    "label weight": (ROWS, "bag,y,k\na,1,1\nb,2,-3\n", "k", ["labels.csv", "row 2", "-3"]),
    "negative count": (ROWS, HEAD + "a,0,1,2\nb,0,1,-2\n", None, ["labels.csv", "row 2", "-2"]),
    "fractional count": (ROWS, HEAD + "a,0,1,2\nb,0,1,.5\n", None, ["labels.csv", "row 2", "0.5"]),
    "missing count": (ROWS, HEAD + "a,0,1,2\nb,0,1,\n", None, ["row 2", "'count'", "missing"]),
    "text as count": (ROWS, HEAD + "a,0,1,2\nb,0,1,x\n", None, ["row 2", "'count'", "'x'"]),
    "text as edge": (ROWS, HEAD + "a,0,1,2\nb,0,x,1\n", None, ["row 2", "'high'", "'x'"]),
    "counts of zero": (ROWS, HEAD + "a,0,1,0\nb,0,1,0\n", None, ["labels.csv", "count", "is 0"]),
    "edges that decrease": (
        ROWS, HEAD + "a,0,1,2\nb,3,1,2\n", None, ["labels.csv", "row 2", "from 3 down to 1"],
    ),
    "a bin without ends": (
        ROWS, HEAD + "a,0,1,2\nb,,,2\n", None, ["labels.csv", "row 2", "says nothing", "one end"],
    ),
    "bins on each other": (
        ROWS,
        HEAD + "a,2,4,2\na,0,3,2\nb,0,1,2\n",
        None,
        ["labels.csv", "rows 2 and 1", "'a'", "from 0 to 3", "from 2 to 4", "overlap"],
    ),
    "an open end in the middle": (ROWS, HEAD + "a,0,1,1\na,,3,1\nb,0,1,1\n", None, ["overlap"]),
    "a misspelt column": (
        ROWS, "bag,low,hi,count\na,0,1,1\n", None, ["labels.csv", "'high'", "did you mean 'hi'"],
    ),
    "no column of counts": (
        ROWS, "bag,low,high\na,0,1\n", None, ["labels.csv", "histogram", "'count'"],
    ),
    "weights of a histogram": (
        ROWS, "bag,low,high,count,k\na,0,1,1,1\n", "k", ["labels.csv", "'count'", "'k'"],
    ),
    "a bag without labels": (ROWS, "bag,y\na,1\n", None, ["'b'", "2 rows in rows.csv", "0 labels"]),
    "an empty histogram": (
        ROWS, HEAD + "a,0,1,1\nb,0,1,0\n", None, ["'b'", "2 rows in rows.csv", "0 labels"],
    ),
    "a bag without rows": (ROWS, LABELS + "c,1\n", None, ["'c'", "0 rows", "1 labels in labels"]),
    "other bags": (ROWS, "bag,y\nA1,1\nB1,2\n", None, ["rows.csv", "labels.csv", "'A1'", "alike"]),
    "bags of another column": (ROWS, "pool,y\na,1\n", None, ["labels.csv", "'bag'", "known"]),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "labels", "weight", "words"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("command", ["fit", "compare"])
def test_a_broken_pair_of_files_is_one_line(command, rows, labels, weight, words, folder, capsys):
    Path("rows.csv").write_text(rows)
    Path("labels.csv").write_text(labels)
    more = [] if weight is None else ["--weight", weight]
    method = ["--method", "ls"] if command == "fit" else ["--methods", "ls"]
    code = run([command, *TWO, *method, "-q", *more])
    assert_one_line(code, capsys.readouterr(), words)


def test_more_labels_than_individuals_are_one_line(samples, capsys):
    code = run(["fit", *TWO, "--same-individuals"])
    words = ["'s0'", "30 rows in rows.csv", "40 labels in labels.csv", "--separate"]
    assert_one_line(code, capsys.readouterr(), words)


UNMATCHED = {
    "separate samples": ("labels.csv", [], ["rows.csv and labels.csv", "separate samples"]),
    "bins": ("bins.csv", ["--same-individuals"], ["bins.csv", "labels in bins"]),
    "missing labels": ("some.csv", ["--same-individuals"], ["some.csv", "labels missing"]),
}


@pytest.mark.parametrize(("labels", "more", "words"), UNMATCHED.values(), ids=UNMATCHED)
def test_match_without_a_label_for_each_row_is_one_line(labels, more, words, folder, capsys):
    made = draw_samples(n_rows=40)
    write_lines("rows.csv", "x1,x2,bag", row_lines(made)[:-1] if not more else row_lines(made))
    write_lines("labels.csv", "bag,y", label_lines(made))
    write_lines("some.csv", "bag,y", label_lines(made)[1:])
    write_lines("bins.csv", "bag,low,high,count", bin_lines(made))
    args = ["--rows", "rows.csv", "--labels", labels, "--bag", "bag", "--method", "ls"]
    assert_one_line(run(["match", *args, *more]), capsys.readouterr(), words)
