"""Model files: a fitted model as JSON, with numbers to the last bit and without code.

A file holds a tree of the library's own frozen classes, listed below. Reading makes these classes
and no others, whatever the file says. Arrays carry their shape and order in memory, so that sums
over them give the same bits.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from unshuffle import __version__
from unshuffle.core.solution import Status
from unshuffle.errors import InputError, SavedSeedWarning, quote, shorten
from unshuffle.io.table import source_name
from unshuffle.io.writing import write_whole
from unshuffle.results.result import Fit, name_draws

FORMAT = "unshuffle-model"
# Raised when a field changes its meaning or a kind is new. A new field with a default needs no new
# version: files without it still read as they did.
FORMAT_VERSION = 2

_KINDS = {
    name: module
    for module, names in {
        "results.result": "Fit",
        "results.verdict": "Facts",
        "options": "FitOptions",
        "core.solution": "Solution Candidate Certificate BagEffects",
        "core.uncertainty": "Posterior StudentT ModelDraws",
        "data.pairing": "Permutation Subset Draws",
        "formulas.columns": "FormulaColumns",
        "objectives.noise": "GaussianNoise MomentNoise SampleNoise StudentNoise GridNoise",
        "objectives.losses": "Squared Absolute KolmogorovSmirnov SmallD Moments OrderInvariant",
        "solvers.means": "Means",
        "solvers.exact": "Exact",
        "solvers.certified": "Certified",
        "solvers.projection": "Projection",
        "model.settings": "Settings",
        "inference.likelihood": "Likelihood",
        "inference.sampler": "Sampler",
    }.items()
    for name in names.split()
}
_DTYPES = ("float64", "int64", "bool")
_ODD_NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

# Format 1 (version 0.1.0): kinds, fields and kinds of misfit that have another name now.
_KINDS_OF_1 = {"OffsetLaw": "BagEffects"}
_FIELDS_OF_1 = {
    "Solution": {"offsets": "effects"},
    "BagEffects": {"probability": "offset_probability", "sd": "offset_sd"},
    "Likelihood": {"trust": "approximate_power"},
}
_MISFITS_OF_1 = {
    "uneven noise": "heteroscedastic noise",
    "labels of another shape": "labels of another distribution",
}
# Options of its Likelihood that have no successor, with their defaults.
_LOST_OPTIONS = {
    "lean_scale": 1.0, "tilt_share": 0.05, "tilt_weight": 40.0, "tilt_limit": 4.0,
    "tilt_ceiling": 0.4, "bets_in_full": False, "estimate_draws": 150.0,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Kept:
    """Content of a model file: the result, the estimator's parameters, and names of columns.

    `columns` says how the command line made X from a file, `provenance` where the data came from;
    both are None for models of the library.
    """

    result: Fit
    params: Mapping[str, Any]
    feature_names: tuple[str, ...] | None
    columns: Mapping[str, Any] | None = None
    provenance: Mapping[str, Any] | None = None


def store_model(
    path: str | os.PathLike[str],
    result: Fit,
    params: Mapping[str, Any],
    feature_names: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a model file, whole or not at all."""
    params = dict(params)
    seed = params.get("random_state")
    if seed is not None and not isinstance(seed, int | np.integer):
        warnings.warn(
            "random_state is a generator, which a file cannot keep: the loaded model has None",
            SavedSeedWarning,
            stacklevel=3,
        )
        params["random_state"] = None
    names = None if feature_names is None else [str(name) for name in feature_names]
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "version": __version__,
        "params": {name: encode(value, f"{name}=") for name, value in params.items()},
        "feature_names": names,
        "columns": columns,
        "provenance": provenance,
        "result": encode(result, "the result's "),
    }
    write_whole(path, json.dumps(content, allow_nan=False, ensure_ascii=False) + "\n")


def read_model(path: str | os.PathLike[str]) -> Kept:
    """Read a model file, or say in one line why it is none."""
    source = source_name(path)
    content = _read_object(path, source)
    if content.get("format") != FORMAT:
        raise InputError(
            f"{source}: is no model of unshuffle; give a file that model.save or "
            "'unshuffle fit --save' wrote"
        )
    version, writer = content.get("format_version"), shorten(content.get("version"), 30)
    if version not in (1, FORMAT_VERSION):
        raise InputError(
            f"{source}: is a model of format {shorten(version, 30)}, written by unshuffle "
            f"{writer}, and this version ({__version__}) reads formats 1 and {FORMAT_VERSION}; "
            "install that version, or fit and save again"
        )
    try:
        if version == 1:
            _refuse_lost_options(content, f"{source}: was written by unshuffle {writer}")
            content = _upgrade(content)
        params = {name: decode(value) for name, value in content["params"].items()}
        names = content["feature_names"]
        result = decode(content["result"])
        if version == 1:
            result = name_draws(result)
        kept = Kept(
            result,
            params,
            None if names is None else tuple(map(str, names)),
            content["columns"],
            content["provenance"],
        )
        _check_sizes(kept)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
        raise InputError(
            f"{source}: the model is damaged ({type(exc).__name__}: {shorten(exc, 80)}); fit and "
            "save it again"
        ) from exc
    return kept


def _refuse_lost_options(content: dict[str, Any], what: str) -> None:
    """Refuse a model of format 1 that was fitted with options that no longer exist."""
    method = content["params"].get("method")
    given = method["fields"] if isinstance(method, dict) else {}
    for name, usual in _LOST_OPTIONS.items():
        if given.get(name, usual) != usual:
            raise InputError(
                f"{what} with Likelihood({name}={given[name]!r}), an option that this version "
                "lacks; install that version, or fit and save again"
            )


def _upgrade(value: Any) -> Any:
    """Return the content of a file of format 1 under the names of this format."""
    if isinstance(value, list):
        return [_upgrade(each) for each in value]
    if not isinstance(value, dict):
        return value
    value = {key: _upgrade(each) for key, each in value.items()}
    kind = value.get("is")
    if "fields" not in value or not isinstance(kind, str):
        return value
    kind = _KINDS_OF_1.get(kind, kind)
    names = _FIELDS_OF_1.get(kind, {})
    parts = {
        names.get(name, name): part
        for name, part in value["fields"].items()
        if kind != "Likelihood" or name not in _LOST_OPTIONS
    }
    if kind == "Solution" and parts.get("misfits") is not None:
        kinds = parts["misfits"]["items"]
        parts["misfits"] = {"is": "tuple", "items": [_MISFITS_OF_1.get(k, k) for k in kinds]}
    return {"is": kind, "fields": parts}


def _read_object(path: str | os.PathLike[str], source: str) -> dict[str, Any]:
    """Return the JSON object in a file."""
    try:
        content = json.loads(Path(path).read_bytes())
    except FileNotFoundError as exc:
        raise InputError(f"{source}: no such file; check the name and the folder") from exc
    except IsADirectoryError as exc:
        raise InputError(f"{source}: is a folder; name a model file in it") from exc
    except PermissionError as exc:
        raise InputError(f"{source}: may not be read; ask for permission or copy it") from exc
    except json.JSONDecodeError as exc:
        text = exc.doc.rstrip()
        is_cut = text.startswith("{") and (exc.pos >= len(text) or not text.endswith("}"))
        what = "was cut off" if is_cut else "is no JSON"
        raise InputError(
            f"{source}: {what} (line {exc.lineno}, column {exc.colno}); give a file that "
            "model.save or 'unshuffle fit --save' wrote, or save the model again"
        ) from exc
    except (UnicodeDecodeError, RecursionError) as exc:
        raise InputError(
            f"{source}: is no JSON; give a file that model.save or 'unshuffle fit --save' wrote"
        ) from exc
    except (OSError, ValueError) as exc:  # names too long or with a zero byte, failing disks
        raise InputError(f"{source}: cannot be read ({shorten(exc, 100)})") from exc
    return content if isinstance(content, dict) else {}


def _check_sizes(kept: Kept) -> None:
    """Refuse a result whose parts do not go together."""
    found = kept.result
    d = len(found.facts.scales)
    n_weights = d + bool(found.options.fit_intercept)
    sizes = [np.shape(found.weights), (len(found.facts.names),)]
    sizes += [np.shape(c.weights) for c in found.candidates]
    if found.posterior is not None:
        sizes.append(np.shape(found.posterior.draws)[1:])
        m = len(found.posterior.draws)
        if not m == len(found.posterior.draw_weights) == len(found.posterior.sigma):
            raise ValueError("draws, their weights and their noise differ in number")
        model = found.posterior.model
        if model is not None:
            parts = (model.within, model.bends, model.pooled_contexts)
            numbers = (model.effect_sds, *model.curves.T, *model.signals.T)
            effects = () if model.bag_effects is None else (model.bag_effects[:, 0],)
            if any(np.shape(part) != (m, d) for part in parts) or any(
                np.shape(part) != (m,) for part in (*numbers, *effects)
            ):
                raise ValueError("draws and those of their bag effects differ in number")
    if found.formula is not None and len(found.formula.names) != d:
        raise ValueError("the columns of the formula differ in number")
    if any(shape != (n_weights,) for shape in sizes):
        raise ValueError("weights and columns differ in number")
    if kept.feature_names is not None and len(kept.feature_names) != d:
        raise ValueError(f"{len(kept.feature_names)} names for {d} columns")


def encode(value: Any, what: str = "") -> Any:
    """Return a value as JSON; `what` names its place in error messages."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"is": "number", "value": str(value)}
    if isinstance(value, np.generic):
        return encode(value.item(), what)
    if isinstance(value, np.ndarray):
        return _encode_array(value, what)
    if isinstance(value, Status):
        return {"is": "Status", "name": value.name}
    if isinstance(value, list):
        return [encode(each, what) for each in value]
    if isinstance(value, tuple):
        return {"is": "tuple", "items": [encode(each, what) for each in value]}
    if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
        pairs = [[encode(key, what), encode(each, what)] for key, each in value.items()]
        return {"is": "dict", "pairs": pairs}
    if isinstance(value, Mapping):
        return {
            "is": "dict",
            "items": {str(key): encode(each, what) for key, each in value.items()},
        }
    kind = type(value).__name__
    if is_dataclass(value) and type(value) is _find_kind(kind):
        parts = {}
        for each in fields(value):
            if not each.metadata.get("is_kept", True):
                continue
            part = each.metadata.get("write", _as_it_is)(getattr(value, each.name))
            # The default function of a field is not kept.
            if not (callable(part) and part is each.default):
                parts[each.name] = encode(part, f"{what}{kind} with {each.name}=")
        return {"is": kind, "fields": parts}
    raise InputError(
        f"{what}{shorten(repr(value))} cannot be kept in a file, which holds numbers and names but "
        "no code: use a method and a noise of the library without functions of your own, or keep "
        "the numbers of summary().to_dict()"
    )


def _encode_array(array: np.ndarray, what: str) -> dict[str, Any]:
    if array.dtype.name not in _DTYPES:
        raise InputError(f"{what} an array of {array.dtype.name} cannot be kept in a file")
    values = array.ravel().tolist()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        values = [each if math.isfinite(each) else str(each) for each in values]
    is_by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    return {
        "is": "array",
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "order": "F" if is_by_columns else "C",
        "values": values,
    }


def decode(value: Any) -> Any:
    """Return the value that `encode` turned into JSON."""
    if isinstance(value, list):
        return [decode(each) for each in value]
    if not isinstance(value, dict):
        return value
    kind = value["is"]
    if kind == "number":
        return _ODD_NUMBERS[value["value"]]
    if kind == "tuple":
        return tuple(decode(each) for each in value["items"])
    if kind == "dict" and "pairs" in value:
        return {decode(key): decode(each) for key, each in value["pairs"]}
    if kind == "dict":
        return {key: decode(each) for key, each in value["items"].items()}
    if kind == "array":
        return _decode_array(value)
    if kind == "Status":
        return Status[value["name"]]
    return _decode_fields(kind, value["fields"])


def _decode_array(value: dict[str, Any]) -> np.ndarray:
    if value["dtype"] not in _DTYPES:
        raise ValueError(f"an array of {quote(value['dtype'])}")
    values = [_ODD_NUMBERS[v] if isinstance(v, str) else v for v in value["values"]]
    array = np.array(values, dtype=value["dtype"]).reshape(value["shape"])
    return np.asfortranarray(array) if value["order"] == "F" else array


def _decode_fields(kind: str, parts: dict[str, Any]) -> Any:
    """Make one of the library's classes; its fields were checked when it was first made."""
    cls = _find_kind(kind)
    if cls is None:
        raise ValueError(f"no kind is called {quote(kind)}")
    made = object.__new__(cls)
    left = dict(parts)
    for each in fields(cls):
        if each.name in left:
            read = each.metadata.get("read", _as_it_is)
            part = read(decode(left.pop(each.name)))
        elif each.default is not MISSING:
            part = each.default
        elif each.default_factory is not MISSING:
            part = each.default_factory()
        else:
            raise KeyError(f"{kind} without {each.name}")
        object.__setattr__(made, each.name, part)
    if left:
        raise ValueError(f"{kind} has no {quote(min(left))}")
    return made


def _as_it_is(value: Any) -> Any:
    return value


def _find_kind(name: str) -> Any:
    module = _KINDS.get(name)
    return None if module is None else getattr(import_module(f"unshuffle.{module}"), name)
