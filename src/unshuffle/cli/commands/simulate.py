"""``unshuffle simulate``: a data set with known truth."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.options import (
    features_option,
    json_option,
    provenance,
    seed_option,
    split_names,
)
from unshuffle.cli.tables import format_csv

if TYPE_CHECKING:
    from unshuffle.cli.pools import Pools
    from unshuffle.simulate import ShuffledData

_EPILOG = """\b
Examples:
  unshuffle simulate -n 500 -d 3 --bags 10 --out data.csv
  unshuffle simulate --linked --out data.csv
  unshuffle simulate --samples plan.csv --features dose --bag runs_4 --out measured.csv
  unshuffle simulate --pools pools -n 4000 -d 2 --bags 10 --noise 0.18
  unshuffle compare data.csv --label y --bag bag --truth linked"""

_LAW = "--law is now called --distribution; the old name will be dropped in version 0.3.0"


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
    "--weights", multiple=True, callback=read_weights, metavar="A,B", help="True coefficients."
)
@click.option("--intercept", type=float, default=0.0, show_default=True, help="True intercept.")
@click.option(
    "--distribution",
    default="exponential",
    show_default=True,
    metavar="NAME",
    help="Distribution of the features: normal, uniform, exponential or lognormal.",
)
@click.option("--law", hidden=True)
@click.option("--linked", is_flag=True, help="Add a column 'linked' of labels in their true order.")
@click.option(
    "--samples",
    metavar="FILE",
    help="Measure the samples of this table instead of drawing features; --bag holds their bags.",
)
@features_option("Columns of features of --samples; all but the bag without it.")
@click.option("--bag", metavar="COL", help="Column of bags of --samples; one bag without it.")
@click.option(
    "--pools",
    metavar="FOLDER",
    help="Write a pooled cytometry experiment to this folder: an FCS file for each of --bags pools "
    "of --rows cells in all, single.fcs with one construct, pools.csv with features and shares.",
)
@seed_option
@click.option("--out", metavar="FILE", help="Write the CSV to a file and print the truth.")
@json_option
def simulate(**options: Any) -> None:
    """Write a data set with known truth.

    A CSV of features x1, x2, …, the column bag and the shuffled labels y. With --samples the
    features and bags are those of a table. The truth is printed beside it: on stdout with --out or
    --pools, else on stderr.
    """
    _check_calls(options)
    if options["law"]:
        console.print_messages([_LAW])
        options["distribution"] = options["law"]
    if options["pools"]:
        _simulate_pools(options)
        return
    from unshuffle.io.writing import check_writable, write_whole

    if options["out"]:
        check_writable(options["out"])
    with console.show_progress("simulating") as status:
        report = console.reporter(status)
        data, names, bag = _measure(options) if options["samples"] else _draw(options)
        report("writing the table", 0.0)
        text = _as_csv(data, names, bag, options["linked"])
    if options["out"]:
        write_whole(options["out"], text)
    if options["as_object"]:
        files = {"out": options["out"], "csv": None if options["out"] else text}
        console.print_json(_as_object(data, names, options["seed"], files))
    elif options["out"]:
        console.print_result(*_describe(data, names))
    else:
        sys.stdout.write(text)
        console.print_messages(_describe(data, names))


def _check_calls(options: dict[str, Any]) -> None:
    """Refuse options that do not go together."""
    if options["pools"] and (options["samples"] or options["out"] or options["linked"]):
        raise click.UsageError("--pools writes to its folder; leave --samples, --out, --linked out")
    if not options["samples"] and (options["bag"] or options["features"]):
        raise click.UsageError("--features and --bag are columns of --samples; name its file")


def _draw(options: dict[str, Any]) -> tuple[ShuffledData, list[str], str]:
    """Draw features, bags and labels."""
    from unshuffle.simulate import make_shuffled

    names = ("n", "d", "bags", "noise", "snr_db", "weights", "intercept")
    asked = {name: options[name] for name in names}
    data = make_shuffled(**asked, features=options["distribution"], rng=options["seed"])
    return data, [f"x{j}" for j in range(1, data.X.shape[1] + 1)], "bag"


def _measure(options: dict[str, Any]) -> tuple[ShuffledData, list[str], str]:
    """Draw labels of the samples of a table."""
    import numpy as np

    from unshuffle.io import choose_samples, read_table
    from unshuffle.simulate import measure_samples

    table = read_table(options["samples"])
    samples = choose_samples(table, features=options["features"] or None, bag=options["bag"])
    groups = np.zeros(len(samples.X), int) if samples.groups is None else samples.groups
    names = ("noise", "snr_db", "weights", "intercept")
    asked = {name: options[name] for name in names}
    data = measure_samples(samples.X, groups, **asked, rng=options["seed"])
    return data, list(samples.names), options["bag"] or "bag"


def _simulate_pools(options: dict[str, Any]) -> None:
    """Write a pooled cytometry experiment, and print its truth."""
    from unshuffle.cli.pools import LABEL, write_pools

    with console.show_progress("simulating"):
        pools, files = write_pools(options["pools"], options)
    names = [f"x{j}" for j in range(1, len(pools.weights) + 1)]
    if options["as_object"]:
        written = {"out": options["pools"], "csv": None, "files": files, "label": LABEL}
        console.print_json(_as_object(pools, names, options["seed"], written))
        return
    console.print_result(*_describe(pools, names))
    console.print_messages([f"{len(files)} files written to {options['pools']}; label: {LABEL}"])


def _as_object(
    data: ShuffledData | Pools, names: list[str], seed: int, files: dict[str, Any]
) -> dict[str, Any]:
    truth = {
        "weights": dict(zip(names, data.weights.tolist(), strict=True)),
        "intercept": data.intercept,
        "noise": data.noise,
    }
    return {"truth": truth, **files, "provenance": provenance(seed, None)}


def _describe(data: ShuffledData | Pools, names: list[str]) -> list[str]:
    truth = zip(names, data.weights.tolist(), strict=True)
    return [
        f"true coefficients: {', '.join(f'{name} {w:.6g}' for name, w in truth)}",
        f"true intercept: {data.intercept:.6g}, noise sd: {data.noise:.6g}",
    ]


def _as_csv(data: ShuffledData, names: list[str], bag: str, has_linked: bool) -> str:
    columns = [*data.X.T.tolist(), data.groups.tolist(), data.y.tolist()]
    names = [*names, bag, "y"]
    if has_linked:
        columns.append(data.linked_y.tolist())
        names.append("linked")
    return format_csv(names, zip(*columns, strict=True))
