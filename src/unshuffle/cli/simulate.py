"""``unshuffle simulate``: a data set with known truth."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.options import json_option, provenance, seed_option, split_names
from unshuffle.cli.tables import format_csv

if TYPE_CHECKING:
    from unshuffle.simulate import ShuffledData

_EPILOG = """\b
Examples:
  unshuffle simulate -n 500 -d 3 --bags 10 --out data.csv
  unshuffle simulate --linked --out data.csv
  unshuffle compare data.csv --label y --bag bag --truth linked"""


def read_weights(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> list[float] | None:
    """Turn ``1,-2.5`` into numbers."""
    texts = split_names(ctx, param, values)
    try:
        return [float(text) for text in texts] or None
    except ValueError as exc:
        raise click.BadParameter(f"{exc}; give numbers such as 1,-2.5") from exc


@click.command(epilog=_EPILOG)
@click.option("-n", "--rows", "n", type=int, default=1000, show_default=True, help="Rows.")
@click.option("-d", "--dim", "d", type=int, default=3, show_default=True, help="Features.")
@click.option("--bags", type=int, default=1, show_default=True, help="Bags of equal size.")
@click.option("--noise", type=float, metavar="SD", help="Noise sd; 0.1 without it.")
@click.option("--snr", "snr_db", type=float, metavar="DB", help="Signal over noise, in decibels.")
@click.option(
    "--weights", multiple=True, callback=read_weights, metavar="A,B", help="True weights."
)
@click.option("--intercept", type=float, default=0.0, show_default=True, help="True intercept.")
@click.option(
    "--law",
    "features",
    default="exponential",
    show_default=True,
    help="Law of the features: normal, uniform, exponential or lognormal.",
)
@click.option("--linked", is_flag=True, help="Add a column 'linked' of labels in their true order.")
@seed_option
@click.option("--out", metavar="FILE", help="Write the CSV to a file and print the truth.")
@json_option
def simulate(**options: Any) -> None:
    """Write a data set with known truth.

    A CSV of features x1, x2, …, the column bag and the shuffled labels y. The truth is printed
    beside it: on stdout with --out, else on stderr.
    """
    from unshuffle.io.writing import write_whole
    from unshuffle.simulate import make_shuffled

    names = ("n", "d", "bags", "noise", "snr_db", "weights", "intercept", "features")
    with console.show_progress("simulating") as status:
        report = console.reporter(status)
        data = make_shuffled(**{name: options[name] for name in names}, rng=options["seed"])
        report("writing the table", 0.0)
        text = _as_csv(data, options["linked"])
    if options["out"]:
        write_whole(options["out"], text)
    if options["as_object"]:
        console.print_json(_as_object(data, options, None if options["out"] else text))
    elif options["out"]:
        console.print_result(*_describe(data))
    else:
        sys.stdout.write(text)
        console.print_messages(_describe(data))


def _as_object(data: ShuffledData, options: dict[str, Any], text: str | None) -> dict[str, Any]:
    truth = {
        "weights": {f"x{j}": w for j, w in enumerate(data.weights.tolist(), start=1)},
        "intercept": data.intercept,
        "noise": data.noise,
    }
    origin = provenance(options["seed"], None)
    return {"truth": truth, "out": options["out"], "csv": text, "provenance": origin}


def _describe(data: ShuffledData) -> list[str]:
    weights = ", ".join(f"x{j} {w:.6g}" for j, w in enumerate(data.weights.tolist(), start=1))
    return [
        f"true weights: {weights}",
        f"true intercept: {data.intercept:.6g}, noise sd: {data.noise:.6g}",
    ]


def _as_csv(data: ShuffledData, has_linked: bool) -> str:
    columns = [*data.X.T.tolist(), data.groups.tolist(), data.y.tolist()]
    names = [f"x{j}" for j in range(1, data.X.shape[1] + 1)] + ["bag", "y"]
    if has_linked:
        columns.append(data.linked_y.tolist())
        names.append("linked")
    return format_csv(names, zip(*columns, strict=True))
