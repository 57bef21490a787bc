"""What the command line prints: one object for --json, and nothing hidden."""

import csv
import dataclasses
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from command_line import FIT, assert_one_line, write_data, write_linked
from unshuffle import Fit, Status, make_shuffled
from unshuffle.cli.app import app, run
from unshuffle.cli.fitting import fit_data

# Every command that offers --json, with arguments that make it succeed on the files of its test.
JSON_COMMANDS = {
    "fit": ["fit", "data.csv", "--label", "y", "--bag", "bag", "--method", "ls"],
    "describe": ["describe", "data.csv"],
    "compare": ["compare", "data.csv", "--label", "y", "--bag", "bag", "--methods", "ls,means"],
    "match": ["match", "data.csv", "--label", "y", "--bag", "bag"],
    "predict": ["predict", "model.json", "data.csv"],
    "plan": ["plan", "data.csv", "--features", "x1,x2", "--noise", "1", "--runs", "2",
             "--trials", "2", "--method", "ls"],
    "audit": ["audit", "linked.csv", "--label", "y", "--bag", "bag", "--method", "ls"],
    "simulate": ["simulate", "-n", "20"],
    "datasets": ["datasets"],
    "demo": ["demo"],
}  # fmt: skip
HOSTILE_NAMES = ["[red]a[/red]", '<b>"x"</b>', "</script>", "$a_1$", "=1+1", "ä,ö", "[/]", "n" * 80]


@pytest.mark.parametrize("name", JSON_COMMANDS)
def test_json_is_one_object_and_nothing_else(name, folder, capsys):
    assert run([*FIT, "--method", "means", "--save", "model.json"]) == 0
    write_linked()
    capsys.readouterr()
    assert run([*JSON_COMMANDS[name], "--json"]) == 0
    streams = capsys.readouterr()
    assert isinstance(json.loads(streams.out, parse_constant=pytest.fail), dict)
    assert streams.out.startswith("{") and streams.out.endswith("}\n")


def test_every_command_with_json_is_tested():
    names = app.list_commands(None)
    offering = {
        name
        for name in names
        if any("--json" in option.opts for option in app.get_command(None, name).params)
    }
    assert offering - {"reproduce"} == set(JSON_COMMANDS)


def test_fit_prints_the_object_of_the_contract(folder, capsys):
    assert run([*FIT, "--method", "ls", "--json", "--seed", "7"]) == 0
    fit = json.loads(capsys.readouterr().out)
    assert list(fit["coefficients"]) == ["x1", "x2"]
    assert (
        set(fit["coefficients"]["x1"])
        == set(fit["intercept"])
        == {*("estimate", "sd", "low", "high", "determined", "known")}
    )
    assert (fit["n"], fit["d"], fit["bags"], fit["method"]) == (120, 2, 4, "ls")
    assert (fit["labels"], fit["pairing"]) == (120, "permutation")
    assert {"noise", "identified", "status"} <= set(fit)
    assert {"weights", "value"} <= set(fit["candidates"][0])
    origin = fit["provenance"]
    assert origin["seed"] == 7 and len(origin["data_sha256"]) == 64
    assert origin["command"].startswith("unshuffle fit data.csv --label y")


def test_hostile_names_come_back_unchanged_in_json(folder, capsys):
    write_data("data.csv", d=len(HOSTILE_NAMES), names=HOSTILE_NAMES)
    assert run([*FIT, "--method", "means", "--json"]) in (0, 2)
    streams = capsys.readouterr()
    assert run([*FIT, "--method", "ls", "--json", "--starts", "3"]) == 0
    streams = capsys.readouterr()
    assert list(json.loads(streams.out)["coefficients"]) == HOSTILE_NAMES


def test_hostile_names_are_shown_as_they_are(folder, capsys):
    write_data("data.csv", d=len(HOSTILE_NAMES), names=HOSTILE_NAMES)
    assert run([*FIT, "--method", "ls", "--starts", "3"]) == 0
    streams = capsys.readouterr()
    for name in HOSTILE_NAMES[:-1]:
        assert name in streams.out
        assert name in streams.err
    assert "\x1b" not in streams.out + streams.err


def test_quoted_names_with_commas_can_be_chosen(folder, capsys):
    write_data("data.csv", names=["a,b", "c"])
    assert run([*FIT, "--features", '"a,b",c', "--method", "ls", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["coefficients"]) == ["a,b", "c"]


def test_the_same_seed_gives_the_same_bytes(folder, capsys):
    outputs = []
    for _ in range(2):
        run([*FIT, "--json", "--seed", "3"])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def test_the_order_of_the_rows_does_not_matter(folder, capsys):
    head, *lines = Path("data.csv").read_text().splitlines()
    run([*FIT, "--method", "ls", "--json"])
    first = json.loads(capsys.readouterr().out)
    Path("data.csv").write_text("\n".join([head, *lines[::-1]]))
    run([*FIT, "--method", "ls", "--json"])
    other = json.loads(capsys.readouterr().out)
    assert first["coefficients"] == other["coefficients"]


def test_standard_input_and_two_files_give_the_same_fit(folder, capsys, monkeypatch):
    with open("data.csv", newline="") as file:
        records = list(csv.DictReader(file))
    for name, columns in {"rows.csv": ["x1", "x2", "bag"], "labels.csv": ["bag", "y"]}.items():
        with open(name, "w", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            # Another order of the labels: it carries no meaning.
            writer.writerows(records if name == "rows.csv" else records[::-1])
    content = Path("data.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    two = ["fit", "--rows", "rows.csv", "--labels", "labels.csv", "--bag", "bag"]
    fits = []
    for args in (FIT, ["fit", "-", "--label", "y", "--bag", "bag"], two):
        assert run([*args, "--method", "ls", "--json", "-q"]) == 0
        fits.append(json.loads(capsys.readouterr().out)["coefficients"])
    assert fits[0] == fits[1] == fits[2]


def test_a_name_of_ten_thousand_characters_is_whole_in_json_and_short_on_screen(folder, capsys):
    name = "n" * 10_000
    write_data("data.csv", names=[name, "b"])
    args = [*FIT, "--method", "ls"]
    assert run([*args, "--report", "r.html"]) == 0
    streams = capsys.readouterr()
    assert max(map(len, streams.out.splitlines())) < 500
    assert max(map(len, streams.err.splitlines())) < 500
    assert name not in Path("r.html").read_text()
    assert run([*args, "--json"]) == 0
    assert name in json.loads(capsys.readouterr().out)["coefficients"]


def test_parquet_and_fcs_give_the_same_fit_as_text(folder, capsys):
    pa, flowio = pytest.importorskip("pyarrow"), pytest.importorskip("flowio")
    from pyarrow import parquet

    # FCS holds single precision, so that the text is written from it.
    data = make_shuffled(100, 2, rng=0)
    values = np.column_stack([data.X, data.y]).astype(np.float32).astype(float)
    np.savetxt("t.csv", values, delimiter=",", header="a,b,y", comments="", fmt="%.17g")
    parquet.write_table(pa.table(dict(zip("aby", values.T, strict=True))), "t.parquet")
    with open("t.fcs", "wb") as file:
        flowio.create_fcs(file, values.ravel().tolist(), channel_names=["a", "b", "y"])
    fits = []
    for name in ("t.csv", "t.parquet", "t.fcs"):
        assert run(["fit", name, "--label", "y", "--method", "ls", "--json"]) == 0
        fits.append(json.loads(capsys.readouterr().out)["coefficients"])
    assert fits[0] == fits[1] == fits[2]


def test_several_files_are_a_bag_each(folder, capsys):
    write_data("one.csv", bags=1, rng=1)
    write_data("two.csv", bags=1, rng=1)
    args = ["fit", "one.csv", "two.csv", "--label", "y", "--features", "x1,x2", "--method", "ls"]
    assert run([*args, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bags"] == 2


def test_dropped_rows_are_counted(folder, capsys):
    with open("data.csv", "a") as file:
        file.write("NA,1,pool 0,2\n1,NA,pool 1,2\n")
    assert run([*FIT, "--method", "ls", "--json", "--missing", "drop"]) == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out)["data"]["rows_dropped"] == 2
    assert "dropped 2 of 122 rows" in streams.err


def test_categories_become_columns_with_a_named_base(folder, capsys):
    text = Path("data.csv").read_text().splitlines()
    lines = [f"{line},{'kind' if i == 0 else 'uvw'[i % 3]}" for i, line in enumerate(text)]
    Path("data.csv").write_text("\n".join(lines))
    assert run([*FIT, "--method", "ls", "--json"]) == 0
    fit = json.loads(capsys.readouterr().out)
    assert {"kind=v", "kind=w"} <= set(fit["coefficients"])
    assert fit["data"]["base_levels"] == {"kind": "u"}


def test_the_logarithm_of_labels_can_be_fitted(folder, capsys):
    with open("data.csv", newline="") as file:
        records = list(csv.DictReader(file))
    for record in records:
        record["y"] = repr(10 ** float(record["y"]))
    records.append({"x1": "1", "x2": "1", "bag": "pool 0", "y": "-5"})
    with open("power.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    assert run([*FIT, "--method", "ls", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)["coefficients"]
    args = ["fit", "power.csv", *FIT[2:], "--method", "ls", "--log10", "--json"]
    assert run(args) == 2
    told = capsys.readouterr().err
    assert "1 of 121 labels are 0 or negative and have no logarithm (first: row 121" in told
    assert "value -5" in told and "--missing drop" in told
    assert run([*args, "--missing", "drop"]) == 0
    logs = json.loads(capsys.readouterr().out)["coefficients"]
    for name in plain:
        assert logs[name]["estimate"] == pytest.approx(plain[name]["estimate"], abs=1e-6)


def test_the_noise_can_be_measured_in_a_calibration_run(folder, capsys):
    values = np.random.default_rng(0).normal(3.0, 0.05, 200)
    Path("single.csv").write_text("y\n" + "\n".join(f"{v:.5f}" for v in values))
    assert run([*FIT, "--calibration", "single.csv", "--method", "ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "ls"


def test_strict_leaves_with_three_when_in_doubt(folder, capsys, monkeypatch):
    args = [*FIT, "--method", "ls"]
    assert run([*args, "--strict"]) == 0

    def fit_badly(data, options, *more):
        found = fit_data(data, options, *more)
        solution = dataclasses.replace(found.solution, status=Status.UNFINISHED)
        return dataclasses.replace(found, solution=solution)

    monkeypatch.setattr("unshuffle.cli.commands.fit.fit_data", fit_badly)
    assert run(args) == 0
    assert run([*args, "--strict"]) == 3


@pytest.mark.parametrize("misfits", [(), ("heteroscedastic noise", "a curved mean")])
def test_a_misfit_alone_leaves_with_three_only_where_that_is_asked(
    misfits, folder, capsys, monkeypatch
):
    args = [*FIT, "--noise", "0.05", "--json", "-q"]

    def fit_so(data, options, *more):
        found = fit_data(data, options, *more)
        return dataclasses.replace(
            found, solution=dataclasses.replace(found.solution, misfits=misfits)
        )

    monkeypatch.setattr("unshuffle.cli.commands.fit.fit_data", fit_so)
    assert run([*args, "--strict"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["model_fits"] is (not misfits) and result["misfits"] == list(misfits)
    assert result["converged"] is True and result["identified"] is True
    told = " ".join(result["explanation"])
    assert ("heteroscedastic noise" in told) is bool(misfits)
    assert run([*args, "--strict-model"]) == (3 if misfits else 0)


def test_levels_of_a_category_are_called_by_its_column(folder, capsys):
    """Sex and species that hardly differ; only their joint effect can be known."""
    rng = np.random.default_rng(0)
    is_gentoo = rng.random(300) < 0.5
    is_male = np.where(rng.random(300) < 0.99, is_gentoo, ~is_gentoo)
    flipper = rng.normal(size=300)
    y = is_male + 0.8 * is_gentoo + 0.7 * flipper + 0.3 * rng.normal(size=300)
    lines = ["sex,species,flipper,pool,mass"]
    for place in range(300):
        cells = ("fm"[int(is_male[place])], ("adelie", "gentoo")[int(is_gentoo[place])])
        lines.append(f"{','.join(cells)},{flipper[place]:.4f},{place % 10},{y[place]:.4f}")
    Path("birds.csv").write_text("\n".join(lines))
    assert run(["fit", "birds.csv", "--label", "mass", "--bag", "pool", "--json", "-q"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["inseparable"] == [["sex", "species"]]
    assert any("Cannot separate sex from species:" in line for line in result["explanation"])
    known = {name: entry["determined"] for name, entry in result["coefficients"].items()}
    assert known["flipper"] == "sign and magnitude" != known["species=gentoo"]


def test_an_answer_that_is_not_identified_is_said_and_strict_leaves_with_three(folder, capsys):
    # Two features of the same distribution in one bag: exchanging their weights changes nothing.
    args = ["simulate", "-n", "150", "-d", "2", "--weights", "1,-0.4", "--distribution", "normal"]
    assert run([*args, "--noise", "0.2", "--out", "sim.csv"]) == 0
    capsys.readouterr()
    fit = ["fit", "sim.csv", "--label", "y", "--features", "x1,x2", "--strict"]
    assert run([*fit, "--json", "--report", "r.html"]) == 3
    result = json.loads(capsys.readouterr().out)
    assert result["identified"] is False and result["verdict"] == "not identified"
    assert "Not identified" in Path("r.html").read_text()
    assert run([*fit, "-q"]) == 3
    assert capsys.readouterr().out.startswith("Not identified: ")


def test_an_answer_that_is_partly_identified_does_not_leave_with_three(folder, capsys):
    args = ["simulate", "-n", "300", "-d", "3", "--bags", "6", "--weights", "1.2,-0.8,0"]
    assert run([*args, "--noise", "0.3", "--seed", "2", "--out", "sim.csv"]) == 0
    capsys.readouterr()
    assert run(["fit", "sim.csv", "--label", "y", "--bag", "bag", "--strict", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"] == "partly identified" and result["identified"] is False
    assert result["coefficients"]["x3"]["determined"] == "no"


def test_compare_measures_the_error_when_the_truth_is_known(folder, capsys):
    assert run(["simulate", "-n", "400", "--bags", "8", "--linked", "--out", "sim.csv"]) == 0
    args = ["compare", "sim.csv", "--label", "y", "--bag", "bag", "--truth", "linked"]
    capsys.readouterr()
    assert run([*args, "--methods", "ls,means", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["methods"]
    assert [row["method"] for row in rows] == ["ls", "means"]
    assert "linked" not in rows[0]["coefficients"]
    assert rows[0]["error"] < 0.2 and rows[0]["r2"] > 0.9


def test_compare_shows_every_method(folder, capsys):
    assert run(["compare", "data.csv", "--label", "y", "--bag", "bag"]) == 0
    text = capsys.readouterr().out
    for name in ("ls", "sm", "p1", "p2", "emd", "ks", "small-d", "means"):
        assert f"\n{name} " in text


def test_compare_shows_coefficients_and_intervals_side_by_side(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    args = ["compare", "data.csv", "--label", "y", "--bag", "bag", "--methods", "ls,means"]
    assert run([*args, "--level", "0.9", "-q"]) == 0
    head, _, ls, means, *more = capsys.readouterr().out.splitlines()
    assert head.split() == ["method", "seconds", "x1", "low", "high", "x2", "low", "high",
                            "intercept", "low", "high"]  # fmt: skip
    # By statsmodels: bag means weighted by the sizes of the bags, with t intervals.
    given = np.genfromtxt("data.csv", delimiter=",", skip_header=1, usecols=(0, 1, 3))
    names = np.genfromtxt("data.csv", delimiter=",", skip_header=1, usecols=2, dtype=str)
    sizes = np.unique(names, return_counts=True)[1]
    x1, x2, y = np.array([given[names == name].mean(axis=0) for name in np.unique(names)]).T
    rows = np.column_stack([x1, x2, np.ones(len(y))])
    known = pytest.importorskip("statsmodels.api").WLS(y, rows, weights=sizes).fit()
    expected = np.column_stack([known.params, known.conf_int(0.1)])
    found = np.array(means.split()[2:], dtype=float).reshape(3, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    # Least squares has no intervals, and nothing that would rank it.
    assert ls.split()[3:5] == ls.split()[6:8] == ["–", "–"]
    assert "low, high: 90 % intervals." in more
    assert any(line.startswith("No intervals: ls.") for line in more)
    assert "gap" not in " ".join([head, *more])


def test_tables_of_many_coefficients_stand_below_each_other(folder, capsys, monkeypatch):
    write_data("wide.csv", n=60, d=7, bags=10)
    monkeypatch.setenv("COLUMNS", "70")
    args = ["compare", "wide.csv", "--label", "y", "--bag", "bag", "--methods", "ls,means", "-q"]
    assert run(args) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split() for line in lines if line.startswith("method ")]
    assert len(heads) > 2 and max(map(len, lines)) <= 70
    names = [name for head in heads for name in head[1:] if name not in ("low", "high")]
    assert names == ["seconds", *(f"x{j}" for j in range(1, 8)), "intercept"]
    # A coefficient and the ends of its interval stay together.
    assert all(head.count("low") == head.count("high") == len(head[1:]) // 3 for head in heads)


def test_match_prints_a_csv_of_row_label_probability_and_bag(folder, capsys):
    assert run(["match", "data.csv", "--label", "y", "--bag", "bag"]) == 0
    streams = capsys.readouterr()
    records = list(csv.DictReader(io.StringIO(streams.out)))
    assert list(records[0]) == ["row", "label", "probability", "bag"]
    assert [int(r["row"]) for r in records] == list(range(1, 121))
    assert all(0 <= float(r["probability"]) <= 1 for r in records)
    with open("data.csv", newline="") as file:
        given = list(csv.DictReader(file))
    assert [r["bag"] for r in records] == [r["bag"] for r in given]
    for bag in {r["bag"] for r in given}:
        labels, known = (
            sorted(float(r[name]) for r in side if r["bag"] == bag)
            for side, name in ((records, "label"), (given, "y"))
        )
        assert labels == known
    assert "Identified: " in streams.err
    share = np.mean([float(r["probability"]) for r in records])
    assert f"About {100 * share:.0f} % of these matches are right" in streams.err


@pytest.mark.parametrize("kind", ["table", "weights", "two files"])
def test_match_returns_the_labels_of_the_file_where_logarithms_are_fitted(kind, folder, capsys):
    """Each bag gets its own labels back, digit by digit; 1e15 and 1e15 + 1 have one logarithm."""
    rng = np.random.default_rng(0)
    x, bags = rng.normal(size=24), np.repeat(["b", "a", "c"], 8)
    labels = [f"{value:.6g}" for value in 10 ** (1.5 * x + 0.01 * rng.normal(size=24))]
    labels[:2] = ["1000000000000000", "1000000000000001"]
    lines = [f"{a:.4f},{bag},1" for a, bag in zip(x, bags, strict=True)]
    both = [f"{line},{label}" for line, label in zip(lines, labels, strict=True)]
    Path("all.csv").write_text("\n".join(["x,bag,n,y", *both]))
    Path("x.csv").write_text("\n".join(["x,bag,n", *lines]))
    mixed = [f"{label},{bag}" for label, bag in zip(labels, bags, strict=True)]
    Path("y.csv").write_text("\n".join(["y,bag", *rng.permutation(mixed).tolist()]))
    how = {
        "table": ["all.csv", "--label", "y", "--exclude", "n"],
        "weights": ["all.csv", "--label", "y", "--weight", "n"],
        "two files": ["--rows", "x.csv", "--labels", "y.csv", "--exclude", "n"],
    }
    assert run(["match", *how[kind], "--bag", "bag", "--log10", "--method", "ls"]) == 0
    records = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    for bag in "abc":
        found = sorted(float(r["label"]) for r in records if r["bag"] == bag)
        assert found == sorted(float(y) for y, b in zip(labels, bags, strict=True) if b == bag)


def test_match_without_bags_has_no_such_column_and_says_where_it_has_no_probabilities(
    folder, capsys
):
    args = ["match", "data.csv", "--label", "y", "--features", "x1", "--method", "ls"]
    assert run(args) == 0
    streams = capsys.readouterr()
    assert streams.out.startswith("row,label,probability\n1,")
    assert all(line.endswith(",") for line in streams.out.splitlines()[1:])
    assert "without probabilities: method 'ls' has no posterior" in streams.err
    assert run([*args, "--json", "-q"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {match["probability"] for match in result["matches"]} == {None}
    assert any("without probabilities" in line for line in result["verdict"])
    assert result["identified"] is None and result["method"] == "ls"


def test_match_on_a_terminal_is_a_table_with_tiny_probabilities_in_words(
    folder, capsys, monkeypatch
):
    def fit_tiny(data, options, *more):
        found = fit_data(data, options, *more)

        def match(bags):
            matched = Fit.match(found, bags)
            tiny = np.where(np.arange(bags.n) % 2, 1e-9, matched.probability)
            return dataclasses.replace(matched, probability=tiny)

        return SimpleNamespace(
            match=match,
            **{name: getattr(found, name) for name in ("remarks", "summary", "method", "stats")},
            **{name: getattr(found, name) for name in ("identified", "model_fits")},
        )

    monkeypatch.setattr("unshuffle.cli.commands.match.fit_data", fit_tiny)
    args = ["match", "data.csv", "--label", "y", "--bag", "bag", "--noise", "0.05", "-q"]
    assert run(args) == 0
    # In a file they stay numbers.
    assert {
        r["probability"] for r in list(csv.DictReader(io.StringIO(capsys.readouterr().out)))[1::2]
    } == {"1e-09"}
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert run(args) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["row", "label", "probability", "bag"]
    assert all("< 0.001" in line for line in lines[2::2])
    assert len({len(line) for line in lines}) == 1


def test_simulated_data_fit_to_their_truth(folder, capsys):
    assert run(["simulate", "-n", "500", "--bags", "5", "--out", "sim.csv", "--json"]) == 0
    truth = json.loads(capsys.readouterr().out)["truth"]["weights"]
    assert run(["fit", "sim.csv", "--label", "y", "--bag", "bag", "--method", "ls", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["coefficients"]
    for name, value in truth.items():
        assert found[name]["estimate"] == pytest.approx(value, abs=0.1)


def test_datasets_are_listed_without_any_file(folder, capsys, monkeypatch):
    monkeypatch.delenv("UNSHUFFLE_DATA", raising=False)
    monkeypatch.setenv("UNSHUFFLE_CACHE", str(folder / "none"))
    assert run(["datasets"]) == 0
    text = capsys.readouterr().out
    assert "power_plant" in text and "not here" in text


def test_demo_finds_the_truth_and_writes_a_report(folder, capsys):
    assert run(["demo", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    found = [each["estimate"] for each in result["coefficients"].values()]
    np.testing.assert_allclose(found, result["truth"][:3], atol=0.1)
    assert Path("unshuffle-demo.html").stat().st_size < 1_000_000


def test_a_missing_extra_is_named_before_any_work(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    code = run([*FIT, "--report", "r.html", "-q"])
    assert_one_line(code, capsys.readouterr(), ["jinja2", "pip install 'unshuffle[report]'"])
    assert run(["demo"]) == 0
    streams = capsys.readouterr()
    assert "no report" in streams.err and "truth" in streams.out
    assert not Path("unshuffle-demo.html").exists()


def test_a_constant_column_is_called_by_its_name_and_has_no_interval(folder, capsys):
    assert run(["simulate", "-n", "60", "--bags", "6", "--out", "sim.csv"]) == 0
    lines = Path("sim.csv").read_text().splitlines()
    flat = [f"{line},{'batch' if place == 0 else 7}" for place, line in enumerate(lines)]
    Path("flat.csv").write_text("\n".join(flat) + "\n")
    fit = ["fit", "flat.csv", "--label", "y", "--bag", "bag"]
    capsys.readouterr()
    assert run([*fit, "--json", "--report", "r.html"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["coefficients"]["batch"] == {
        **{"estimate": 0.0, "sd": None, "low": None, "high": None},
        **{"determined": "no", "known": "no"},
    }
    assert result["intercept"]["low"] < result["intercept"]["high"]
    (note,) = [line for line in result["remarks"] if "constant" in line]
    assert note.startswith("column 'batch' is constant")
    page = re.sub(r"<(t[hd]) [^>]*>", r"<\1>", Path("r.html").read_text())
    assert "<th>batch</th><td>0</td><td>–</td><td>–</td><td>–</td>" in page
    assert run([*fit, "-q"]) == 0
    assert any(
        line.split() == ["batch", "0", "–", "–", "–", "no"]
        for line in capsys.readouterr().out.split("\n")
    )
