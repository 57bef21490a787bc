"""``unshuffle predict``: predictions of a kept model for new rows, with intervals."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.options import (
    id_option,
    json_option,
    level_option,
    provenance,
    reading_options,
)
from unshuffle.cli.reading import list_ids, read_file
from unshuffle.cli.sections import Sectioned
from unshuffle.cli.tables import format_columns
from unshuffle.errors import InputError, shorten
from unshuffle.formatting import list_names

if TYPE_CHECKING:
    import numpy as np

    from unshuffle.io import Coding, Table
    from unshuffle.results.storage import Kept

_EPILOG = """\b
Examples:
  unshuffle fit cells.csv --label fluorescence --bag pool --save model.json
  unshuffle predict model.json new.csv --out predictions.csv
  unshuffle predict model.json new.csv --level 0.8 --new-label
  unshuffle predict model.json new.csv --bag pool --new-label"""


@click.command(cls=Sectioned, epilog=_EPILOG)
@click.argument("model")
@click.argument("data")
@level_option
@click.option(
    "--new-label",
    is_flag=True,
    help="Intervals of a label yet to be measured, with noise and the effect of its bag, and not "
    "of its mean.",
)
@click.option(
    "--bag",
    metavar="COL",
    help="Column of bags: rows of a bag that was fitted get its effect, others are of new bags.",
)
@id_option
@click.option("--out", metavar="FILE", help="Write the CSV to a file instead of stdout.")
@reading_options
@json_option
def predict(**options: Any) -> None:
    """Print a CSV of row, prediction, low and high.

    MODEL is a file of 'unshuffle fit --save' or model.save. DATA is a table that has the features
    of the model, in any order; '-' is standard input. Other columns are ignored. Rows are counted
    from 1 below the header. For methods without intervals, low and high are empty.
    """
    from unshuffle.io import code_new_rows
    from unshuffle.io.writing import check_writable, write_whole
    from unshuffle.results.storage import read_model

    if options["out"]:
        check_writable(options["out"])
    kept = read_model(options["model"])
    known = {"dates": _find_dates(kept, options), "na": _find_codes(kept, options)}
    table = read_file(options["data"], {**options, **known})
    if kept.result.formula is None:
        coding = _find_coding(kept, table, options["bag"])
        X, rows, groups, notes = code_new_rows(table, coding, options["missing"], options["bag"])
    else:
        from unshuffle.formulas.tables import build_new_rows

        formula, missing = kept.result.formula, options["missing"]
        X, rows, groups, notes = build_new_rows(table, formula, missing, options["bag"])
    predictions = kept.result.predict(X, groups)
    ends, why = _find_ends(kept, X, groups, options)
    why += _describe_bags(kept, groups)
    console.print_messages([*notes, *_describe(kept), *why], options["quiet"])
    low, high = zip(*([(None, None)] * len(rows) if ends is None else ends.tolist()), strict=True)
    columns = {"row": (rows + 1).tolist(), "prediction": predictions.tolist()}
    columns |= {"low": low, "high": high}
    ids = list_ids(table, options, rows.tolist())
    named = columns if ids is None else {"row": columns["row"], "id": ids, **columns}
    if options["out"]:
        write_whole(options["out"], format_columns(named))
        console.print_messages([f"predictions written to {options['out']}"], options["quiet"])
    if options["as_object"]:
        columns |= {} if ids is None else {"id": ids}
        console.print_json(_as_object(kept, columns, options, table.sha256))
    elif not options["out"]:
        sys.stdout.write(format_columns(named))


def _find_dates(kept: Kept, options: dict[str, Any]) -> list[str]:
    """Return columns of dates in the form of --dates: those of the model, and those asked for."""
    known = (kept.columns or {}).get("dates", {})
    asked = [each for each in options["dates"] if (each.rpartition("=")[0] or each) not in known]
    return [*asked, *(f"{name}={day}" for name, day in known.items())]


def _find_codes(kept: Kept, options: dict[str, Any]) -> list[str]:
    """Return codes of missing values in the form of --na: those asked for, and the model's."""
    columns = kept.columns or {}
    coded = [each for each in columns.get("coding") or [] if isinstance(each, dict)]
    named = ["", *(str(each.get("column")) for each in coded)]
    codes = [str(each) for each in columns.get("missing_codes") or []]
    known = [each for each in codes if each.rpartition("=")[0].strip() in named]
    return list(dict.fromkeys([*options["na"], *known]))


def _find_coding(kept: Kept, table: Table, bag: str | None) -> list[Coding]:
    """Return how the columns of a table enter X, as in the fit."""
    from unshuffle.io import Coding

    if kept.columns is not None:
        try:
            return [
                Coding(each["column"], None if each["levels"] is None else tuple(each["levels"]))
                for each in kept.columns["coding"]
            ]
        except (KeyError, TypeError) as exc:
            raise InputError(
                "the model is damaged (it does not say how its columns are coded); fit and save "
                "it again"
            ) from exc
    if kept.feature_names is not None:
        return [Coding(name) for name in kept.feature_names]
    d = len(kept.result.facts.scales)
    left_out = None if bag is None else table.find(bag, "bag column")
    names = [name for name in table.names if name != left_out]
    if len(names) != d:
        raise InputError(
            f"{table.source}: has {len(names)} columns, but the model knows its {d} features "
            "by their places only; keep just these columns, or fit with a data frame to name them"
        )
    return [Coding(name) for name in names]


def _find_ends(
    kept: Kept, X: np.ndarray, groups: np.ndarray | None, options: dict[str, Any]
) -> tuple[np.ndarray | None, list[str]]:
    """Return the intervals, or None and the reason."""
    level, new_label = options["level"], options["new_label"]
    try:
        return kept.result.predict_interval(X, level, new_label, groups), []
    except InputError as exc:
        return None, [f"no intervals: {exc}"]


def _describe_bags(kept: Kept, groups: np.ndarray | None) -> list[str]:
    """Return a message on bags that the model has not seen."""
    if groups is None:
        return []
    names = list(dict.fromkeys(groups.tolist()))
    is_known = kept.result.is_known_bag(names).tolist()
    new = [shorten(name) for name, known in zip(names, is_known, strict=True) if not known]
    return [f"bags without an effect that the model knows: {list_names(new)}"] if new else []


def _describe(kept: Kept) -> list[str]:
    """Return a message on what is predicted, where the model has the name of its label."""
    if kept.columns is None:
        return []
    label = f"'{kept.columns.get('label')}'"
    what = f"log10 of {label}" if kept.columns.get("log10") else label
    return [f"predictions of {what} by method {kept.result.method}"]


def _as_object(
    kept: Kept, columns: dict[str, Any], options: dict[str, Any], digest: str
) -> dict[str, Any]:
    rows = zip(*columns.values(), strict=True)
    return {
        "predictions": [dict(zip(columns, row, strict=True)) for row in rows],
        "level": options["level"],
        "new_label": options["new_label"],
        "bag": options["bag"],
        "label": None if kept.columns is None else kept.columns.get("label"),
        "method": kept.result.method,
        "model": kept.provenance,
        "provenance": provenance(None, digest),
    }
