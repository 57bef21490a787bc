"""Formulas make the columns that their text says, again for new rows, and run nothing else."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unshuffle import InputError, ShuffledLinearRegression, fit, load
from unshuffle.formulas.columns import read_formula
from unshuffle.formulas.frames import read_frame
from unshuffle.results.storage import decode, encode

pytest.importorskip("formulaic")


def make_frame(n=120, seed=0):
    """Return rows in bags of five, with numbers, texts, whole numbers and truth values."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "y": rng.exponential(size=n) + 1.0,
            "a": rng.normal(size=n),
            "the kind": rng.choice(list("uvw"), n),
            "k": rng.integers(0, 3, n),
            "b": rng.random(n) < 0.5,
            "pool": np.arange(n) // 5,
        }
    )


FRAME = make_frame()
KIND, A = FRAME["the kind"], FRAME["a"]


def is_level(name, *levels):
    return [(FRAME[name] == level).astype(float) for level in levels]


# Formula, and its columns by hand.
BY_HAND = {
    "y ~ a + b": [A, FRAME["b"]],
    "y ~ `the kind`": is_level("the kind", "v", "w"),
    "y ~ C(`the kind`, Treatment('v'))": is_level("the kind", "u", "w"),
    "y ~ C(`the kind`, contr.treatment('w'))": is_level("the kind", "u", "v"),
    "y ~ C(k)": is_level("k", 1, 2),
    "y ~ C(k, levels=[2, 0, 1])": is_level("k", 0, 1),
    "y ~ C(k) - 1": is_level("k", 0, 1, 2),
    "y ~ a * C(k)": [A, *is_level("k", 1, 2), *(A * level for level in is_level("k", 1, 2))],
    "y ~ a:b": [A * FRAME["b"]],
    "y ~ I(a ** 2) + exp(a) + np.sqrt(abs(a))": [A**2, np.exp(A), np.sqrt(np.abs(A))],
    "y ~ {a + 1}": [A + 1.0],
    "y ~ scale(a)": [(A - A.mean()) / A.std()],
    "log(y) ~ .": [A, *is_level("the kind", "v", "w"), FRAME["k"], FRAME["b"]],
}
# Those whose columns depend on the rows fitted.
WITH_STATE = ("y ~ bs(a, df=5)", "y ~ cr(a, df=4) + C(k)", "y ~ poly(a, 3)", "y ~ center(a):b")


@pytest.mark.parametrize("text", BY_HAND)
def test_columns_are_those_of_the_textbook(text):
    columns, X, y = read_formula(text, FRAME, ["pool"])
    np.testing.assert_allclose(X, np.column_stack(BY_HAND[text]), rtol=1e-12)
    assert columns.has_intercept is ("- 1" not in text)
    assert columns.is_transformed is columns.has_logs is text.startswith("log")
    np.testing.assert_array_equal(y, np.log(FRAME["y"]) if columns.has_logs else FRAME["y"])


@pytest.mark.parametrize("text", [*BY_HAND, *WITH_STATE])
def test_new_rows_are_coded_as_those_fitted_also_after_a_file(text):
    columns, X, _ = read_formula(text, FRAME, ["pool"])
    kept = decode(json.loads(json.dumps(encode(columns))))
    part = [7, 3, 50]  # of another mean, spread and range, and not all levels
    for each in (columns, kept):
        np.testing.assert_allclose(each.build(FRAME.iloc[part]), X[part], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(each.build(FRAME), X)


@pytest.mark.parametrize("text", ["y ~ a * `the kind` + b", "y ~ C(k) + bs(a, df=4)"])
def test_frames_of_every_library_give_the_same_columns(text):
    plain = {name: FRAME[name].to_numpy() for name in FRAME}
    _, X, _ = read_formula(text, FRAME)
    for data in (plain, pl.DataFrame({name: FRAME[name].to_list() for name in FRAME})):
        columns, other, _ = read_formula(text, data)
        np.testing.assert_array_equal(other, X)
        np.testing.assert_array_equal(columns.build(FRAME), X)


def test_categories_of_a_library_keep_the_order_of_their_levels():
    levels = ["w", "u", "v"]
    ordered = FRAME.assign(kind=pd.Categorical(KIND, categories=levels))
    own = pl.DataFrame({"y": FRAME["y"].to_list(), "kind": KIND.to_list()})
    own = own.with_columns(pl.col("kind").cast(pl.Enum(levels)))
    for data in (ordered, own):
        columns, X, _ = read_formula("y ~ kind", data)
        assert columns.names == ("kind[T.u]", "kind[T.v]")  # the base level is the first
        np.testing.assert_array_equal(X, np.column_stack(is_level("the kind", "u", "v")))


REFUSED = {
    "y ~ a +": "formula 'y ~ a .'",
    "~ a": "write a label and features",
    "y ~ 1": "has no feature",
    "y + a ~ k": "must be one label",
    "`the kind` ~ a": "is a factor",
    "y ~ a | k": "write a label and features",
    "y ~ A": "no column is called 'A'; did you mean 'a'",
    "y ~ f(a)": "no function is called 'f'",
    "y ~ log(a)": r"log\(a\) has no finite value in \d+ rows \(first: row \d+\)",
    "y ~ C(k, levels=[0, 1])": "not among its levels",
}
UNSAFE = (
    "y ~ __import__('os').system('touch hacked')",
    "y ~ {open('hacked', 'w')}",
    "y ~ np.load(a)",
    "y ~ np.core.os.system(a)",
    "y ~ a.__class__",
    "y ~ {[open(z, 'w') for z in ['hacked']]}",
    "y ~ (lambda: open('hacked', 'w'))()",
    "y ~ Q('a')",
    "y ~ scale(a, center='\\'\"+str(open(`hacked`))+\"')",
    "y ~ C(k, 'x\" + open(chr(104), chr(119)) + \"')",
    "y ~ {'{}'.format(a)}",
    "y ~ {f'{a}'}",
    "open('hacked', 'w') ~ a",
)


@pytest.mark.parametrize("text", REFUSED)
def test_formulas_that_are_none_are_refused_in_one_line(text):
    with pytest.raises(InputError, match=REFUSED[text].replace("'y ~ a .'", "'y ~ a")) as refused:
        read_formula(text, FRAME)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", UNSAFE)
def test_a_formula_runs_nothing_but_listed_functions(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        read_formula(text, FRAME)
    columns, _, _ = read_formula("y ~ a + C(k)", FRAME)
    edited = decode(json.loads(json.dumps({**encode(columns)}).replace("y ~ a + C(k)", "y ~ a")))
    object.__setattr__(edited, "text", text)  # as in a file that somebody else wrote
    with pytest.raises(InputError):
        edited.build(FRAME)
    assert not list(tmp_path.iterdir())


def test_new_rows_that_the_fit_cannot_code_are_refused_by_row():
    columns, _, _ = read_formula("y ~ bs(a, df=4) + C(`the kind`) + k", FRAME)
    new = FRAME.iloc[:4].reset_index(drop=True)
    cases = {
        "'z' in row 2, a level that the fit has not seen": new["the kind"].where(
            new.index != 2, "z"
        ),
    }
    for message, column in cases.items():
        with pytest.raises(InputError, match=message):
            columns.build(new.assign(**{"the kind": column}))
    with pytest.raises(InputError, match="a spline ends where the data fitted end"):
        columns.build(new.assign(a=99.0))
    with pytest.raises(InputError, match=r"column 'a' has missing .* in 1 row \(first: row 1\)"):
        columns.build(new.assign(a=new["a"].where(new.index != 1)))
    with pytest.raises(InputError, match="no column is called 'k'"):
        columns.build(new.drop(columns="k"))
    with pytest.raises(InputError, match="column 'k' holds text"):
        columns.build(new.assign(k="one"))
    with pytest.raises(InputError, match="have none: give a frame"):
        columns.build(np.ones((3, 3)))
    with pytest.raises(InputError, match="differ in length"):
        read_frame({"a": [1.0], "b": [1.0, 2.0]})


def make_shuffled_frame(n_bags=40, seed=1):
    """Return rows whose log label depends on a and on the kind, shuffled in pools."""
    frame, rng = make_frame(5 * n_bags, seed), np.random.default_rng(seed)
    # Pools differ in their mean rows, as bags must.
    frame["a"] += rng.normal(size=n_bags)[frame["pool"]]
    share = rng.dirichlet(np.ones(3), n_bags)
    frame["the kind"] = [rng.choice(list("uvw"), p=share[pool]) for pool in frame["pool"]]
    frame["y"] = np.exp(
        0.5 * frame["a"] + (frame["the kind"] == "v") + 0.01 * rng.normal(size=len(frame))
    )
    return frame, frame.assign(
        y=frame.groupby("pool")["y"].sample(frac=1, random_state=0).to_numpy()
    )


TEXT = "log(y) ~ a + C(`the kind`, Treatment('w'))"


def test_a_formula_is_the_fit_of_its_columns():
    _, frame = make_shuffled_frame()
    found = fit(TEXT, frame, bags="pool", method="means")
    X = np.column_stack([frame["a"], frame["the kind"] == "u", frame["the kind"] == "v"])
    by_hand = ShuffledLinearRegression("means").fit(X, np.log(frame["y"]), frame["pool"])
    model = ShuffledLinearRegression.from_formula(TEXT, frame, "pool", method="means")
    for each in (found.coef, model.coef_):
        np.testing.assert_array_equal(each, by_hand.coef_)
    np.testing.assert_array_equal(np.asarray(found.conf_int()), by_hand.conf_int())
    np.testing.assert_allclose(found.coef, [0.5, 0.0, 1.0], atol=0.05)
    assert model.feature_names_in_.tolist() == ["a", "C(`the kind`)[T.u]", "C(`the kind`)[T.v]"]
    z = by_hand.predict(X[:5])
    np.testing.assert_array_equal(found.predict(frame[:5]), z)
    np.testing.assert_array_equal(model.predict(frame[:5]), z)
    np.testing.assert_array_equal(
        model.predict_interval(frame[:5]), found.predict_interval(frame[:5])
    )
    own = fit(TEXT, frame, bags=frame["pool"].to_list(), method="means")
    np.testing.assert_array_equal(own.coef, found.coef)


def test_a_transformed_label_is_named_and_transformed_again():
    linked, frame = make_shuffled_frame()
    model = ShuffledLinearRegression.from_formula(TEXT, frame, "pool", method="means")
    assert model.summary().table[0][0] == "coefficient (label: log(y))"
    assert model.summary().to_dict()["label"] == "log(y)"
    plain = ShuffledLinearRegression.from_formula("y ~ a", frame, "pool", method="means")
    assert plain.summary().table[0][0] == "coefficient"
    assert model.score(frame, frame["y"], frame["pool"]) > 0.99
    # The labels of their rows, but for neighbours that noise exchanges.
    matched = model.match(frame, frame["y"], frame["pool"]).order
    assert np.mean(frame["y"].to_numpy()[matched] == linked["y"]) > 0.9


def test_a_kept_model_builds_the_columns_of_new_frames(tmp_path):
    _, frame = make_shuffled_frame()
    text = "y ~ poly(a, 2) + C(`the kind`) + bs(a, df=5):b - 1"
    model = ShuffledLinearRegression.from_formula(
        text, frame, "pool", method="ls", random_state=0, n_starts=2
    )
    assert model.fit_intercept is False and model.intercept_ == 0.0
    model.save(tmp_path / "model.json")
    kept = load(tmp_path / "model.json")
    part = frame.iloc[3:9]
    np.testing.assert_array_equal(kept.predict(part), model.predict(part))
    np.testing.assert_array_equal(
        kept.predict(part), model.predict(pl.DataFrame(part.to_dict("list")))
    )


def test_options_that_contradict_a_formula_are_refused():
    frame = make_frame()
    with pytest.raises(InputError, match="write '- 1'"):
        fit("y ~ a", frame, fit_intercept=False)
    with pytest.raises(InputError, match="write '- 1'"):
        ShuffledLinearRegression.from_formula("y ~ a", frame, fit_intercept=False)
    with pytest.raises(InputError, match="no column is called 'pol'; did you mean 'pool'"):
        fit("y ~ a", frame, bags="pol")
    with pytest.raises(InputError, match="groups has 3 entries"):
        fit("y ~ a", frame, bags=[1, 2, 3])
