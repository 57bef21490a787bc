"""Properties of kept models: a file holds all of a fit, to the last bit, and nothing that runs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from registry_examples import NOISE_EXAMPLES, SOLVERS, fit_quietly, fit_shared, make_property_data
from unshuffle import (
    Certified,
    Likelihood,
    Moments,
    OrderInvariant,
    Projection,
    Sampler,
    ShuffledLinearRegression,
    SmallD,
    load,
    make_shuffled,
)
from unshuffle.core.mean_function import TERMS
from unshuffle.errors import InputError
from unshuffle.results.storage import FORMAT_VERSION, decode, encode


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.json"


def keep(model, path):
    model.save(path)
    return load(path)


@pytest.mark.parametrize("method", SOLVERS)
def test_a_kept_model_speaks_as_the_one_that_was_saved(method, path):
    data = make_property_data(method)
    model = fit_shared(method, data.X, data.y, data.groups)
    kept = keep(model, path)
    assert isinstance(kept, ShuffledLinearRegression)
    assert str(kept.summary(0.9)) == str(model.summary(0.9))
    assert kept.summary().to_dict() == model.summary().to_dict()
    assert kept.predict(data.X).tobytes() == model.predict(data.X).tobytes()
    assert (kept.method_, kept.noise_, kept.intercept_) == (
        model.method_,
        model.noise_,
        model.intercept_,
    )
    found, expected = (each.match(data.X, data.y, data.groups) for each in (kept, model))
    assert_array_equal(found.order, expected.order)
    if model.solution_.uncertainty is None:
        return
    assert kept.conf_int(0.8, intercept=True).tobytes() == (
        model.conf_int(0.8, intercept=True).tobytes()
    )
    for new_label in (False, True):
        ends = [each.predict_interval(data.X, new_label=new_label) for each in (kept, model)]
        assert ends[0].tobytes() == ends[1].tobytes()
    if model.posterior_ is not None:
        assert found.probability.tobytes() == expected.probability.tobytes()
        assert kept.posterior_.draws.tobytes() == model.posterior_.draws.tobytes()
        assert kept.posterior_.mean.tobytes() == model.posterior_.mean.tobytes()


def test_a_kept_model_can_be_cloned_fitted_and_kept_again(path):
    data = make_property_data("ls")
    model = fit_quietly("ls", data.X, data.y, data.groups, l2=0.1, n_starts=5)
    kept = keep(model, path)
    assert kept.get_params() == model.get_params()
    again = clone(kept).fit(data.X, data.y, data.groups)
    assert again.coef_.tobytes() == model.coef_.tobytes()
    text = path.read_text()
    kept.save(path)
    assert path.read_text() == text


def test_names_of_columns_are_kept(path):
    pandas = pytest.importorskip("pandas")
    data = make_property_data("ls")
    frame = pandas.DataFrame(data.X, columns=["dose", "größe"])
    kept = keep(ShuffledLinearRegression("ls", random_state=0).fit(frame, data.y), path)
    assert kept.feature_names_in_.tolist() == ["dose", "größe"]
    with pytest.raises(ValueError, match="feature names"):
        kept.predict(frame.rename(columns={"dose": "rate"}))
    with pytest.raises(ValueError, match="3 features"):
        keep(fit_shared("ls", data.X, data.y), path).predict(np.ones((2, 3)))


METHODS_KEPT = (
    Likelihood(weight_scale=1.0),
    Sampler(n_sweeps=300),
    Certified(5.0),
    Projection(2),
    SmallD(4),
    Moments(3),
)


@pytest.mark.parametrize("method", METHODS_KEPT, ids=lambda each: type(each).__name__)
def test_methods_given_as_objects_are_kept(method):
    assert decode(json.loads(json.dumps(encode(method)))) == method


@pytest.mark.parametrize("name", NOISE_EXAMPLES)
def test_every_noise_is_kept(name):
    noise = NOISE_EXAMPLES[name]
    kept = decode(json.loads(json.dumps(encode(noise))))
    assert type(kept) is type(noise)
    assert kept.sd == noise.sd
    assert_array_equal(kept.moments(4), noise.moments(4))


ODD = {
    "numbers": [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, np.inf, -np.inf],
    "arrays": np.array([[1.5, np.nan], [np.inf, -0.0]]),
    "by columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "empty": np.empty((0, 3)),
    "whole": np.array([1, -(2**62)]),
    "bits": np.array([True, False]),
    "nested": ({"a": (1, None, "ü")}, [True, 2]),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_values_come_back_bit_for_bit(case):
    found = decode(json.loads(json.dumps(encode(ODD[case]), allow_nan=False)))
    assert repr(found) == repr(ODD[case])
    if isinstance(found, np.ndarray):
        assert (found.dtype, found.shape) == (ODD[case].dtype, ODD[case].shape)
        assert found.tobytes() == ODD[case].tobytes()
        assert found.flags.c_contiguous == ODD[case].flags.c_contiguous


def test_a_function_is_refused_with_the_way_out(path):
    data = make_property_data("ls")
    for method in (OrderInvariant(np.cbrt, 2.0), Moments(2, f=lambda k: 1.0 / k)):
        model = fit_quietly(method, data.X, data.y, data.groups)
        with pytest.raises(InputError, match=r"no code.*summary\(\)\.to_dict\(\)"):
            model.save(path)
        assert not path.exists()


def test_a_generator_is_not_kept_and_that_is_said(path):
    data = make_property_data("ls")
    model = fit_quietly("ls", data.X, data.y, random_state=np.random.default_rng(0))
    with pytest.warns(UserWarning, match="random_state"):
        model.save(path)
    assert load(path).random_state is None


def test_draws_of_one_term_are_a_vector_in_the_file(path):
    """As in files of 0.2.0, which had no list of terms."""
    data = make_property_data("likelihood")
    model = fit_shared("likelihood", data.X, data.y, data.groups)
    kept = keep(model, path)
    parts = json.loads(path.read_text())["result"]["fields"]["solution"]["fields"]
    draws = parts["uncertainty"]["fields"]["model"]["fields"]
    for name in ("curves", "signals"):
        expected = getattr(model.posterior_.model, name)
        assert expected.shape == (draws[name]["shape"][0], len(TERMS))
        if len(TERMS) == 1:
            assert draws[name]["shape"] == [len(expected)]
        assert_array_equal(getattr(kept.posterior_.model, name), expected)
    more = np.arange(6.0).reshape(3, 2)
    model = replace(model.posterior_.model, curves=more, signals=more)
    assert_array_equal(decode(encode(model)).curves, more)


def test_an_unfitted_model_is_not_saved(path):
    with pytest.raises(ValueError, match="not fitted"):
        ShuffledLinearRegression().save(path)


def write_model(path, **changes):
    data = make_shuffled(30, 1, rng=0)
    fit_shared("means", data.X, data.y, np.arange(30) % 5).save(path)
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **changes}))
    return content


def change_result(content, *keys, value):
    """Return the result with one part replaced, deep inside."""
    place = content["result"]
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return content["result"]


def test_a_model_of_another_version_is_refused_by_its_number(path):
    write_model(path, format_version=FORMAT_VERSION + 1, version="9.9")
    with pytest.raises(InputError, match=r"format 3, written by unshuffle 9\.9.*reads formats 1"):
        load(path)


# Written by version 0.1.0, with what it predicted for three rows.
OLD_MODELS = Path(__file__).with_name("models_of_0_1_0")


@pytest.mark.parametrize("name", ["likelihood", "ls", "means"])
def test_models_of_the_first_release_predict_as_they_did(name, path):
    expected = json.loads((OLD_MODELS / "expected.json").read_text())
    model, rows, told = (
        load(OLD_MODELS / f"{name}.json"),
        np.array(expected["rows"]),
        expected[name],
    )
    if hasattr(model, "feature_names_in_"):
        pandas = pytest.importorskip("pandas")
        rows = pandas.DataFrame(rows, columns=model.feature_names_in_)
    assert_allclose(model.predict(rows), told["predictions"], rtol=1e-12)
    if "intervals" in told:
        assert_allclose(model.predict_interval(rows), told["intervals"], rtol=1e-12)
        ends = model.predict_interval(rows, new_label=True)
        assert_allclose(ends, told["new_labels"], rtol=1e-9)
        assert_allclose(model.predict(rows, return_std=True)[1], told["sds"], rtol=1e-12)
        assert_allclose(model.conf_int(), told["conf_int"], rtol=1e-12)
    assert model.bag_offset_sd_ == told.get("offset_sd")
    if model.posterior_ is not None:
        assert list(model.posterior_.sample(5)) == ["x0", "x1", "intercept", "noise"]
    # It speaks, and is kept anew in this version's format.
    assert "estimate" in str(model.summary())
    assert_array_equal(keep(model, path).predict(rows), model.predict(rows))


def test_a_model_of_the_first_release_with_a_lost_option_is_refused_by_its_name(path):
    text = (OLD_MODELS / "likelihood.json").read_text()
    path.write_text(text.replace('"tilt_limit": 4.0', '"tilt_limit": 2.0'))
    with pytest.raises(InputError, match=r"unshuffle 0\.1\.0 with Likelihood\(tilt_limit=2\.0\)"):
        load(path)


def test_a_parameter_of_a_later_version_is_refused_by_its_name(path):
    write_model(path, params={"spin": 1})
    with pytest.raises(InputError, match="parameter 'spin'"):
        load(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_model_cut_short_is_refused(path, share):
    write_model(path)
    text = path.read_text()
    path.write_text(text[: int(share * len(text))])
    with pytest.raises(InputError, match=r"model\.json: was cut off \(line 1"):
        load(path)


NO_MODELS = {
    "no JSON": (b"hello", "is no JSON"),
    "empty": (b"", "is no JSON"),
    "a pickle": (b"\x80\x04\x95\xff\xfe", "is no JSON"),
    "a list": (b"[1, 2]", "is no model of unshuffle"),
    "another object": (b'{"method": "ls"}', "is no model of unshuffle"),
    "deeply nested": (b"[" * 100_000, "is no JSON"),
}


@pytest.mark.parametrize(("content", "words"), NO_MODELS.values(), ids=NO_MODELS)
def test_what_is_no_model_is_refused_in_one_line(content, words, path):
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        load(path)
    assert "\n" not in str(caught.value) and "model.json" in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a folder"):
        load(tmp_path)


DAMAGE = {
    "no result": lambda content: {"result": None},
    "a part missing": lambda content: {
        "result": {"is": "Fit", "fields": {"facts": content["result"]["fields"]["facts"]}}
    },
    "a stranger's class": lambda content: {"result": {"is": "Popen", "fields": {"args": "ls"}}},
    "a class that is no result": lambda content: {"result": {"is": "Squared", "fields": {}}},
    "too many names": lambda content: {"feature_names": ["a", "b"]},
    "weights of other columns": lambda content: {
        "result": change_result(
            content, "fields", "facts", "fields", "names", value={"is": "tuple", "items": ["a"]}
        )
    },
    "an array of objects": lambda content: {
        "result": change_result(
            content, "fields", "facts", "fields", "scales", "dtype", value="object"
        )
    },
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_model_is_refused_in_one_line(damage, path):
    content = write_model(path)
    path.write_text(json.dumps({**content, **damage(content)}))
    with pytest.raises(InputError, match=r"the model is damaged .*save it again") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_a_file_without_a_later_field_reads_with_its_default(path):
    content = write_model(path)
    del content["result"]["fields"]["facts"]["fields"]["constants"]
    path.write_text(json.dumps(content))
    assert load(path).result_.facts.constants == ()


def test_no_row_and_no_label_of_the_data_is_in_the_file(path):
    data = make_property_data("likelihood")
    fit_shared("likelihood", data.X, data.y, data.groups).save(path)
    text = path.read_text()
    assert not any(repr(float(value)) in text for value in (*data.X.ravel(), *data.y))
