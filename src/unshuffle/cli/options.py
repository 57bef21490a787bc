"""The options that several commands share."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from unshuffle import __version__
from unshuffle.cli.sections import Sectioned
from unshuffle.errors import import_extra
from unshuffle.registry import METHODS

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

# The bag column of several files read together, unless --bag gives it another name.
FILE_BAG = "file"


def split_names(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[str]:
    """Split lists such as ``a,b`` or ``'"a,b",c'``, as a line of CSV is split."""
    return [
        name.strip() for line in csv.reader(values, skipinitialspace=True) for name in line if name
    ]


def read_share(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """Return a share of wrong links, or the path of a file with one for each block."""
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        pass
    if Path(value).is_file():
        return Path(value)
    if Path(value).suffix:
        raise click.BadParameter(f"there is no file {value!r} of mismatch rates by block")
    return value


def read_audit(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """Return an audit as (links checked, links wrong)."""
    if value is None:
        return None
    try:
        checked, wrong = (int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no audit: give links checked and links wrong, such as 200,14"
        ) from None
    return checked, wrong


def check_level(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """Refuse a level that is no probability."""
    if not 0 < value < 1:
        raise click.BadParameter(f"{value:g} is not between 0 and 1; for 95 % give 0.95")
    return value


def read_offsets(ctx: click.Context, param: click.Parameter, value: str) -> str | float:
    """Return --bag-offsets as a word or an sd; refuse anything else."""
    if value in ("auto", "none", "estimate"):
        return value
    try:
        sd = float(value)
    except ValueError:
        sd = -1.0
    if not 0 <= sd < float("inf"):
        raise click.BadParameter(
            f"{value!r} is neither auto, none nor estimate, nor an sd of at least 0"
        )
    return sd


def check_device(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse a GPU that does not exist, before anything is read."""
    if value is not None:
        from unshuffle.gpu.devices import find_device

        find_device(value)
    return value


def check_dask(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse --dask without its library, before anything is read."""
    if value is not None:
        import_extra("distributed", "dask", "--dask")
    return value


def complete_methods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the methods that complete a word in the shell."""
    return [name for name in METHODS if name.startswith(incomplete)]


def join_options(*options: Decorator) -> Decorator:
    """Return several options as one decorator, in the order of the help text."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Random seed; the same seed gives the same digits.",
)
json_option = click.option(
    "--json", "as_object", is_flag=True, help="Print one JSON object and nothing else."
)
pictures_options = join_options(
    click.option(
        "--pictures", metavar="DIR", help="Write each picture of the report to a file of DIR."
    ),
    click.option(
        "--picture-format",
        type=click.Choice(["svg", "png", "pdf"]),
        default="svg",
        show_default=True,
        help="Format of the pictures.",
    ),
)
exclude_option = click.option(
    "--exclude",
    multiple=True,
    callback=split_names,
    metavar="A,B",
    help="Columns that are not features; all others are.",
)
categorical_option = click.option(
    "--categorical",
    multiple=True,
    callback=split_names,
    metavar="A,B",
    help="Columns whose numbers are codes of categories.",
)
id_option = click.option(
    "--id",
    metavar="COL",
    help="Column of row names. It is not a feature, and is copied to every table of rows.",
)
level_option = click.option(
    "--level",
    type=float,
    default=0.95,
    show_default=True,
    callback=check_level,
    metavar="P",
    help="Level of the intervals.",
)
method_option = click.option(
    "--method",
    default="auto",
    show_default=True,
    metavar="M",
    shell_complete=complete_methods,
    help=f"One of {', '.join(METHODS)}. With --mislinked also ll or chambers.",
)


def features_option(text: str) -> Decorator:
    """Return ``--features`` with a help text that names the default."""
    return click.option("--features", multiple=True, callback=split_names, metavar="A,B", help=text)


class ManyFiles(Sectioned):
    """A command whose --rows and --labels take several files, as shells expand patterns.

    ``--labels a.fcs b.fcs`` means ``--labels a.fcs --labels b.fcs``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, repeat_options(args, ("--rows", "--labels")))


def repeat_options(args: Sequence[str], names: Sequence[str]) -> list[str]:
    """Write the name of an option before each of its values.

    >>> repeat_options(["--labels", "a", "b", "--bag", "c"], ["--labels"])
    ['--labels', 'a', '--labels', 'b', '--bag', 'c']
    """
    written: list[str] = []
    option = None
    for place, each in enumerate(args):
        if each == "--":
            return [*written, *args[place:]]
        if each.startswith("-") and each != "-":
            option = each if each in names else None
        elif option is not None and args[place - 1] != option:
            written.append(option)
        written.append(each)
    return written


def label_option(text: str) -> Decorator:
    """Return ``--label`` with a help text, followed by that on expressions."""
    more = " Also an expression, such as 'log10(FITC-A / PE-A)'. Names may stand in backquotes."
    return click.option("--label", metavar="COL", help=f"{text}{more}")


reading_options = join_options(
    click.option(
        "--missing",
        type=click.Choice(["error", "drop"]),
        default="error",
        show_default=True,
        help="What to do with rows that have a missing value.",
    ),
    click.option(
        "--na",
        multiple=True,
        callback=split_names,
        metavar="CODE,COL=CODE",
        help="Codes of missing values, such as 999, in all columns or in one.",
    ),
    click.option(
        "--dates",
        multiple=True,
        callback=split_names,
        metavar="COL,COL=DAY",
        help="Columns of dates: days since DAY (YEAR-MONTH-DAY), or since 2000-01-01.",
    ),
    click.option(
        "-d", "--delimiter", metavar="MARK", help="Such as ',' or 'tab'. Default: detected."
    ),
    click.option("--decimal", metavar="MARK", help="'.' or ','. Default: detected."),
    click.option(
        "--thousands",
        metavar="MARK",
        help="'.', ',', \"'\" or 'space'. Default: detected if numbers have one reading.",
    ),
    click.option("--encoding", metavar="NAME", help="Such as utf-8 or latin-1. Default: detected."),
    click.option(
        "--header/--no-header", default=None, help="Whether the first line has column names."
    ),
    click.option(
        "--allow-offset-error",
        is_flag=True,
        help="Read FCS files whose data end one byte too far.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print errors alone on stderr."),
)

data_options = join_options(
    click.argument("data", nargs=-1),
    label_option("Column of labels."),
    features_option(
        "Columns of features. Default: all but label, bag, weight and anchor. Quote a name that "
        "holds a comma: '\"a,b\",c'."
    ),
    click.option(
        "--formula",
        metavar="TEXT",
        help="Label and features in one formula, such as 'log(y) ~ a * C(b)'. Replaces --label and "
        "--features.",
    ),
    exclude_option,
    click.option(
        "--bag",
        "--block",
        metavar="COL",
        help="Column of bags: which rows and labels belong together. Of several files each is a "
        f"bag (column '{FILE_BAG}'), unless they have this column or lie in folders such as COL=3.",
    ),
    categorical_option,
    click.option(
        "--base",
        multiple=True,
        callback=split_names,
        metavar="COL=LEVEL",
        help="Base level of a category; it has no coefficient. Default: the first level.",
    ),
    id_option,
    click.option("--rows", multiple=True, metavar="FILE", help="Files of rows without labels."),
    click.option(
        "--labels",
        multiple=True,
        metavar="FILE",
        help="Files of labels in any order, or of histograms (columns low, high, count). Of "
        "several files, such as pool1.fcs pool2.fcs, each is a bag.",
    ),
    click.option(
        "--separate",
        is_flag=True,
        help="Rows and labels are separate samples. Default where their numbers differ.",
    ),
    click.option(
        "--same-individuals",
        is_flag=True,
        help="Rows and labels are the same individuals; labels may be missing.",
    ),
    click.option(
        "--weight",
        metavar="COL",
        help="Column of counts: how many rows a line stands for. With --labels also the share of a "
        "row in its bag; shares sum to 1 or 100.",
    ),
    click.option(
        "--anchor",
        metavar="COL",
        help="Column of 1 and 0: 1 if the label beside the row is known to be its own.",
    ),
    click.option(
        "--log10",
        is_flag=True,
        help="Fit log10 of the labels. Values of 0 and below count as missing.",
    ),
    reading_options,
)

tuning_options = join_options(
    click.option("--noise", type=float, metavar="SD", help="Noise sd, if known."),
    click.option(
        "--calibration",
        metavar="FILE",
        help="File of labels measured on identical inputs; their spread is the noise.",
    ),
    click.option("--l1", type=float, default=0.0, metavar="X", help="Penalty on |w|."),
    click.option("--l2", type=float, default=0.0, metavar="X", help="Penalty on w²."),
    click.option("--no-intercept", is_flag=True, help="Fit no intercept."),
    click.option(
        "--bag-offsets",
        default="auto",
        show_default=True,
        callback=read_offsets,
        metavar="B",
        help="Offset shared by the labels of a bag: auto, none, estimate, or its sd.",
    ),
    click.option(
        "--starts", type=int, metavar="N", help="Number of starting points of the search."
    ),
    click.option(
        "--jobs",
        type=int,
        metavar="N",
        help="Number of threads; results do not depend on it. Default: all processors above 20000 "
        "rows, else one.",
    ),
)


def choose_reading(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `read_table`."""
    names = ("delimiter", "decimal", "thousands", "encoding", "header", "allow_offset_error", "na")
    return {name: options[name] for name in names}


def choose_marks(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `read_table` for files beside the data, such as calibrations."""
    names = ("decimal", "thousands", "allow_offset_error", "na")
    return {name: options[name] for name in names}


links_option = join_options(
    click.option(
        "--mislinked",
        "--mismatch-rate",
        metavar="SHARE|FILE",
        callback=read_share,
        help="Labels stand beside their rows, but this share of the links inside blocks is wrong. "
        "'estimate' estimates it. A CSV file with the columns block and rate gives one for each "
        "block.",
    ),
    click.option(
        "--link-probability",
        metavar="COL",
        help="Column of match probabilities: the probability that a link is right. "
        "--mislinked estimate calibrates them.",
    ),
    click.option(
        "--audit",
        metavar="CHECKED,WRONG",
        callback=read_audit,
        help="Number of links checked by hand, and how many were wrong. Replaces a known share.",
    ),
    click.option(
        "--safe",
        metavar="COL",
        help="Column of 1 and 0, or true and false: whether a link is certainly right.",
    ),
    click.option(
        "--link-columns",
        multiple=True,
        callback=split_names,
        metavar="A,B",
        help="Columns that explain link quality, such as a string distance.",
    ),
)


model_options = join_options(
    method_option,
    tuning_options,
    click.option(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="Time limit of --method certified; then the gap is printed. Default: 60.",
    ),
    click.option(
        "--model-holds",
        is_flag=True,
        help="Declare that the linear model with this noise holds, as in simulations or calibrated "
        "assays. Intervals are then those of the model.",
    ),
)


def provenance(seed: int | None, digest: str | None) -> dict[str, Any]:
    """Return what reproduces a run: version, seed, hash of the data, and the command."""
    args = click.get_current_context().find_root().obj or ()
    command = shlex.join(["unshuffle", *args])
    return {"version": __version__, "seed": seed, "data_sha256": digest, "command": command}
