"""Options that say how tables are read: missing codes, dates, ids, base levels, expressions."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from command_line import assert_one_line
from unshuffle.cli.app import run

N = 60
RNG = np.random.default_rng(0)
AGE, RED = RNG.integers(18, 65, N), RNG.uniform(50, 200, N).round(3)
SEX = np.where(RNG.random(N) < 0.5, "m", "f")
DAY = RNG.integers(0, 400, N)
BAG = np.repeat([f"d{k}" for k in range(6)], N // 6)
PAY = (10 + 0.5 * AGE + 3.0 * (SEX == "m") + 0.01 * DAY + RNG.normal(0, 0.3, N)).round(4)
DATES = (np.datetime64("2020-01-01") + DAY.astype("timedelta64[D]")).astype(str).tolist()


def write(path, **columns):
    """Write columns as CSV; every value as it stands."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def print_fit(capsys, *args):
    """Return the JSON of a fit by regressing the means of the bags."""
    assert run(["fit", *args, "--method", "means", "--json", "-q"]) == 0
    return json.loads(capsys.readouterr().out)


def estimates(found):
    """Return coefficients and intercept."""
    values = {name: each["estimate"] for name, each in found["coefficients"].items()}
    return {**values, "intercept": found["intercept"]["estimate"]}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_missing_codes_are_missing_values_of_all_columns_or_of_one(here, capsys):
    age = [str(value) for value in AGE]
    pay = [str(value) for value in PAY]
    whole = {"age": age, "district": BAG, "pay": pay}
    write("empty.csv", **{**whole, "age": ["", *age[1:]], "pay": [pay[0], "", *pay[2:]]})
    write("codes.csv", **{**whole, "age": ["999", *age[1:]], "pay": [pay[0], "unknown", *pay[2:]]})
    how = ["--label", "pay", "--bag", "district", "--missing", "drop"]
    known = estimates(print_fit(capsys, "empty.csv", *how))
    for codes in ("999,unknown", "age=999,pay=unknown", "age=999.0,unknown"):
        found = print_fit(capsys, "codes.csv", *how, "--na", codes)
        assert estimates(found) == known
        assert found["data"]["missing_codes"] == codes.split(",")
        assert found["data"]["rows_dropped"] == 2
        assert any("1 in 'age'" in note and "1 in 'pay'" in note for note in found["data"]["notes"])
    # A code of another column is a number like others.
    write("ages.csv", **{**whole, "age": ["50", *age[1:]]})
    other = print_fit(capsys, "ages.csv", *how, "--na", "pay=50")
    assert other["data"]["rows_dropped"] == 0


def test_missing_values_are_counted_by_column_with_the_first_row(here, capsys):
    age, sex = [*map(str, AGE)], [*SEX]
    age[4] = age[7] = sex[2] = ""
    write("data.csv", age=age, sex=sex, district=BAG, pay=PAY)
    code = run(["fit", "data.csv", "--label", "pay", "--bag", "district"])
    words = ["row 3", "'sex'", "3 of 60 rows", "2 in 'age'", "1 in 'sex'", "--missing drop"]
    assert_one_line(code, capsys.readouterr(), words)


def test_dates_are_refused_with_the_way_out_and_counted_as_days(here, capsys):
    write("dates.csv", visit=DATES, district=BAG, pay=PAY)
    write("days.csv", visit=DAY, district=BAG, pay=PAY)
    how = ["--label", "pay", "--bag", "district"]
    code = run(["fit", "dates.csv", *how])
    assert_one_line(code, capsys.readouterr(), ["'visit'", "dates", min(DATES), "--dates 'visit'"])
    found = print_fit(capsys, "dates.csv", *how, "--dates", "visit=2020-01-01")
    known = print_fit(capsys, "days.csv", *how)
    assert estimates(found) == pytest.approx(estimates(known), rel=1e-9)
    assert found["data"]["dates"] == {"visit": "2020-01-01"}


def test_a_model_knows_the_codes_of_its_features(here, capsys):
    write("data.csv", age=[999, *AGE[1:]], district=BAG, pay=[-9, *PAY[1:]])
    how = ["--label", "pay", "--bag", "district", "--na", "age=999,pay=-9", "--missing", "drop"]
    assert run(["fit", "data.csv", *how, "--method", "means", "--save", "m.json", "-q"]) == 0
    write("new.csv", age=[999, *AGE[1:3]], district=BAG[:3])
    capsys.readouterr()
    # A code is no age, and a label that is not there has none.
    code = run(["predict", "m.json", "new.csv"])
    assert_one_line(code, capsys.readouterr(), ["row 1", "'age'", "--missing drop"])
    assert run(["predict", "m.json", "new.csv", "--missing", "drop", "-q"]) == 0
    assert [line[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["2", "3"]


def test_a_model_of_dates_predicts_from_dates(here, capsys):
    write("dates.csv", visit=DATES, district=BAG, pay=PAY)
    write("days.csv", visit=DAY, district=BAG, pay=PAY)
    printed = []
    for name, more in (("dates", ["--dates", "visit=2020-01-01"]), ("days", [])):
        how = [f"{name}.csv", "--label", "pay", "--bag", "district", "--method", "means"]
        assert run(["fit", *how, *more, "--save", "m.json", "-q"]) == 0
        capsys.readouterr()
        assert run(["predict", "m.json", f"{name}.csv", "-q"]) == 0
        printed.append(list(csv.reader(io.StringIO(capsys.readouterr().out))))
    first, second = (np.array(rows[1:], dtype=float) for rows in printed)
    np.testing.assert_allclose(first, second, rtol=1e-9)


WRONG = {
    "no such column of dates": (["--dates", "vist"], ["'vist'", "'visit'"]),
    "no date": (["--dates", "visit=soon"], ["'soon'", "YEAR-MONTH-DAY"]),
    "numbers as dates": (["--dates", "age"], ["'age'", "numbers, not dates"]),
    "no such column of codes": (["--na", "agee=9"], ["'agee'", "'age'"]),
    "no such base level": (["--base", "sex=x"], ["'sex'", "'x'"]),
    "base of numbers": (["--base", "age=30"], ["'age'", "no category"]),
    "base without level": (["--base", "sex"], ["--base", "COL=LEVEL"]),
    "no such ids": (["--id", "nr"], ["'nr'"]),
}


@pytest.mark.parametrize(("more", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_one_line(more, words, here, capsys):
    write("data.csv", age=AGE, sex=SEX, visit=DATES, district=BAG, pay=PAY)
    features = ["--features", "age,sex"]
    code = run(["fit", "data.csv", "--label", "pay", "--bag", "district", *features, *more])
    assert_one_line(code, capsys.readouterr(), words)


def test_the_base_level_changes_the_sign_and_the_intercept_alone(here, capsys):
    write("data.csv", age=AGE, sex=SEX, district=BAG, pay=PAY)
    how = ["data.csv", "--label", "pay", "--bag", "district"]
    first = print_fit(capsys, *how)
    second = print_fit(capsys, *how, "--base", "sex=m")
    one, two = estimates(first), estimates(second)
    assert two["sex=f"] == pytest.approx(-one["sex=m"])
    assert two["age"] == pytest.approx(one["age"])
    assert two["intercept"] == pytest.approx(one["intercept"] + one["sex=m"])
    assert (first["data"]["base_levels"], second["data"]["base_levels"]) == (
        {"sex": "f"}, {"sex": "m"},
    )  # fmt: skip


IDS = [f"{k:05d}" for k in range(7, 7 + N)]


def list_ids(path):
    """Return the column of ids of a file."""
    with open(path, newline="") as file:
        return [row["id"] for row in csv.DictReader(file)]


def test_ids_are_carried_as_they_are_written_to_every_table_of_rows(here, capsys):
    write("data.csv", nr=IDS, age=AGE, district=BAG, pay=PAY)
    how = ["data.csv", "--label", "pay", "--bag", "district", "--id", "nr", "--method", "means"]
    found = print_fit(capsys, *how)
    assert set(found["coefficients"]) == {"age"} and found["data"]["id"] == "nr"
    assert run(["fit", *how, "--save", "m.json", "-q"]) == 0
    plan = [
        "--noise",
        "0.3",
        "--runs",
        "2",
        "--trials",
        "2",
        "--method",
        "means",
        "--label-sd",
        "1",
    ]
    commands = {
        "match.csv": ["match", *how, "--out", "match.csv"],
        "predict.csv": ["predict", "m.json", "data.csv", "--id", "nr", "--out", "predict.csv"],
        "plan.csv": ["plan", "data.csv", "--features", "age", "--id", "nr", *plan, "--out",
                     "plan.csv"],
    }  # fmt: skip
    for name, command in commands.items():
        assert run([*command, "-q"]) == 0
        assert list_ids(name) == IDS, name
    capsys.readouterr()
    assert run(["predict", "m.json", "data.csv", "--id", "nr", "--json", "-q"]) == 0
    records = json.loads(capsys.readouterr().out)["predictions"]
    assert [each["id"] for each in records] == IDS


def test_drawn_tables_carry_ids(here, capsys):
    write("data.csv", nr=IDS, age=AGE, district=BAG, pay=PAY)
    how = ["match", "data.csv", "--label", "pay", "--bag", "district", "--id", "nr", "-q"]
    assert run([*how, "--draws", "2", "--out", "drawn"]) == 0
    for path in sorted(Path("drawn").iterdir()):
        assert list_ids(path) == IDS


def test_a_label_may_be_an_expression_in_every_command_that_takes_one(here, capsys):
    green = (RED * 10 ** (PAY / 40)).round(6)
    write("data.csv", age=AGE, district=BAG, **{"FITC-A": green, "PE-Texas Red-A": RED})
    label = "log10(FITC-A / PE-Texas Red-A)"
    values = np.log10(green / RED)
    write("computed.csv", age=AGE, district=BAG, ratio=values)
    bag = ["--bag", "district"]
    found = print_fit(capsys, "data.csv", "--label", label, *bag)
    known = print_fit(capsys, "computed.csv", "--label", "ratio", *bag)
    assert estimates(found) == pytest.approx(estimates(known), rel=1e-9)
    assert found["data"]["label"] == label
    for command in (
        ["compare", "data.csv", "--label", label, *bag, "--methods", "ls,means", "--json"],
        ["match", "data.csv", "--label", f"{label} * 2", *bag, "--method", "means", "--json"],
        ["audit", "data.csv", "--label", label, *bag, "--method", "ls", "--json"],
        ["plan", "data.csv", "--label", label, "--features", "age", "--noise", "0.01",
         "--method", "ls", "--runs", "2", "--trials", "2", "--json"],
    ):  # fmt: skip
        assert run([*command, "-q"]) == 0
        printed = json.loads(capsys.readouterr().out)
        if command[0] == "match":
            got = sorted(each["label"] for each in printed["matches"])
            np.testing.assert_allclose(got, np.sort(2 * values))
    assert run(["fit", "data.csv", "--label", label, *bag, "--method", "means"]) == 0
    assert "'FITC-A' is part of the label" in capsys.readouterr().err


BROKEN = {
    "attribute": ("FITC-A.__class__", "'FITC-A.__class__'"),
    "call": ("open(FITC-A)", "no function is called 'open'"),
    "deep": ("(" * 400 + "FITC-A" + ")" * 400, "nested more than"),
    "division by zero": ("1 / (FITC-A - FITC-A)", "division by 0 (60 of 60 rows)"),
    "negative": ("log10(0 - FITC-A)", "logarithm of 0 or a negative number"),
    "text": ("district + FITC-A", "'district' holds text"),
    "unknown": ("FITC / 2", "no column is called 'FITC'"),
}


@pytest.mark.parametrize(("label", "words"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("command", ["fit", "audit"])
def test_a_hostile_expression_is_one_line(label, words, command, here, capsys):
    write("data.csv", age=AGE, district=BAG, **{"FITC-A": RED})
    code = run([command, "data.csv", "--label", label, "--method", "ls", "-q"])
    assert_one_line(code, capsys.readouterr(), [words])


def test_rows_without_a_value_of_the_expression_can_be_dropped(here, capsys):
    red = [0.0, *RED[1:]]
    write("data.csv", age=AGE, district=BAG, green=PAY, red=red)
    how = ["data.csv", "--label", "green / red", "--bag", "district"]
    code = run(["fit", *how])
    assert_one_line(code, capsys.readouterr(), ["row 1", "division by 0", "--missing drop"])
    found = print_fit(capsys, *how, "--missing", "drop")
    assert found["data"]["rows_dropped"] == 1


def test_unused_columns_may_differ_between_files(here, capsys):
    half = N // 2
    write("a.csv", age=AGE[:half], pay=PAY[:half], extra=RED[:half])
    write("b.csv", pay=PAY[half:], other=SEX[half:], age=AGE[half:])
    write("both.csv", age=AGE, pay=PAY, file=np.repeat(["a", "b"], half))
    files = ["fit", "a.csv", "b.csv", "--label", "pay", "--method", "ls", "--json"]
    for more in (["--features", "age"], ["--exclude", "extra,other"]):
        assert run([*files, *more, "-q"]) == 0
        found = json.loads(capsys.readouterr().out)
        one = ["fit", "both.csv", "--label", "pay", "--bag", "file", "--method", "ls", "--json"]
        assert run([*one, "-q"]) == 0
        assert estimates(found) == estimates(json.loads(capsys.readouterr().out))
    for more in ([], ["--features", "age,extra"]):
        assert_one_line(run([*files, *more, "-q"]), capsys.readouterr(), ["b.csv", "'extra'"])


def make_pools(rng, n_pools=8):
    """Return constructs with their shares in each pool, and the labels of each pool."""
    constructs = rng.normal(size=(5, 2)).round(3)
    shares = rng.dirichlet(np.full(5, 0.7), n_pools).round(3)
    labels = []
    for share in shares:
        carried = rng.choice(5, 80, p=share / share.sum())
        labels.append(constructs[carried] @ [1.0, -0.5] + 0.1 * rng.standard_normal(80))
    return constructs, shares, labels


def write_pools(shares, constructs, labels):
    rows = [(p, k) for p in range(len(shares)) for k in range(len(constructs))]
    write(
        "rows.csv",
        pool=[f"pool{p}" for p, _ in rows],
        a=[constructs[k, 0] for _, k in rows],
        b=[constructs[k, 1] for _, k in rows],
        share=[shares[p, k] for p, k in rows],
    )
    for p, values in enumerate(labels):
        write(f"pool{p}.csv", y=values, other=values**2)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_weights_may_be_shares_and_every_label_file_a_bag(scale, here, capsys):
    constructs, shares, labels = make_pools(np.random.default_rng(1))
    write_pools((scale * shares).round(4), constructs, labels)
    files = sorted(str(path) for path in Path().glob("pool*.csv"))
    how = ["--rows", "rows.csv", "--labels", *files, "--label", "y", "--bag", "pool"]
    found = print_fit(capsys, *how, "--weight", "share")
    counts = np.rint(1e5 * shares / shares.sum(axis=1, keepdims=True)).astype(int)
    write_pools(counts, constructs, labels)
    known = print_fit(capsys, *how, "--weight", "share")
    assert estimates(found) == estimates(known)
    assert found["pairing"] == "draws"
    assert any("shares" in note for note in found["data"]["notes"])
    # Counts add up to rows; shares do not.
    assert known["n"] == counts.sum() and found["n"] == (shares > 0).sum()


def test_shares_that_do_not_fit_are_refused(here, capsys):
    constructs, shares, labels = make_pools(np.random.default_rng(1))
    how = ["--rows", "rows.csv", "--labels", *(f"pool{p}.csv" for p in range(8)), "--label", "y"]
    write_pools(0.5 * shares, constructs, labels)
    code = run(["fit", *how, "--bag", "pool", "--weight", "share"])
    words = ["rows.csv, row 1", "'share'", "'pool0'", "0.5", "sum to 1"]
    assert_one_line(code, capsys.readouterr(), words)
    write_pools(shares, constructs, labels)
    one = [*how, "--bag", "pool", "--weight", "share", "--same-individuals"]
    assert_one_line(run(["fit", *one]), capsys.readouterr(), ["shares", "--separate"])
    code = run(["fit", *how, "--weight", "share"])
    assert_one_line(code, capsys.readouterr(), ["--labels", "--bag"])


NOTED = {
    "constant": ({"flat": [7] * N}, "the same in every row, and no use as features: 'flat'"),
    "code": ({"kids": [999, 999, *([2, 1, 0] * 20)[: N - 2]]}, "(--na 'kids=999')"),
    "almost alike": (
        {"district": ["D0 ", "d0", *BAG[2:-1], "D5"]},
        "bag 'district' has names that differ in case, blanks or marks alone",
    ),
}


@pytest.mark.parametrize(("more", "words"), NOTED.values(), ids=NOTED)
def test_a_fit_notes_what_describe_notes_of_its_columns(more, words, here, capsys):
    whole = {"age": AGE, "district": BAG, "pay": PAY}
    how = ["fit", "data.csv", "--label", "pay", "--bag", "district", "--method", "ls"]
    for columns, is_noted in ((whole, False), ({**whole, **more}, True)):
        write("data.csv", **columns)
        assert run(how) == 0
        assert (words in capsys.readouterr().err) == is_noted
