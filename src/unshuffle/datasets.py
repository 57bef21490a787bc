"""Data sets of the paper and others, by name, address and SHA-256.

No data file is part of this package. A file is searched in the folder of the environment variable
``UNSHUFFLE_DATA``, then in the cache, and is otherwise downloaded. Its SHA-256 is always checked.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, MissingDataError, import_extra, quote, shorten, suggest

Kind = Literal["table", "sequences", "fcs", "promoters"]


@dataclass(frozen=True)
class DataSet:
    """A data file: its name, size, SHA-256 and origin.

    ``rows`` and ``features`` are those of `load_dataset`; for an FCS file they are events and
    channels.
    """

    name: str
    file: str
    rows: int
    features: int
    sha256: str
    url: str | None
    origin: str
    kind: Kind = "table"


class Listing(NamedTuple):
    """A line of `list_datasets`: a data set and the place of its file."""

    name: str
    rows: int
    features: int
    origin: str
    where: Literal["UNSHUFFLE_DATA", "cache", "not here"]


@dataclass(frozen=True)
class Promoters:
    """Cells of two-promoter constructs: one-hot features, label and construct of each cell.

    ``X`` (n, 8) holds 0 and 1, ``y`` (n,) is log10(FITC-A / PE-Texas Red-A), ``construct`` (n,)
    names the construct as "J23101_J23103", ``feature_names`` are "promoter1=J23103" and so on.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    construct: NDArray[np.str_]
    feature_names: tuple[str, ...]


def _github(repository: str, revision: str, path: str) -> str:
    return f"https://raw.githubusercontent.com/{repository}/{revision}/{path}"


def _paper(name: str, file: str, rows: int, features: int, sha256: str, origin: str) -> DataSet:
    # The commit is the last of the authors' repository; the SHA-256 guards it as well.
    commit = "6808dcc8d4db3a1c7edb9f1b3685ec7f91050093"
    url = _github("abidlabs/shuffled_stats", commit, f"datasets/{file}")
    return DataSet(name, file, rows, features, sha256, url, origin)


def _fcs(stem: str, events: int, channels: int, sha256: str, folder: tuple[str, str]) -> DataSet:
    # HEAD is the repository's default branch, whatever its name.
    repository, path = folder
    url = _github(repository, "HEAD", f"{path}/{stem}.fcs")
    origin = f"flow cytometry, github {repository}"
    return DataSet(f"fcs-{stem}", f"{stem}.fcs", events, channels, sha256, url, origin, "fcs")


_MATLAB = "MATLAB sample data, github abidlabs/shuffled_stats"
_UCI = "UCI repository, github abidlabs/shuffled_stats"
_TRIMMED = "UCI repository, outliers removed, github abidlabs/shuffled_stats"
_SYNTHETIC = "synthetic, github abidlabs/shuffled_stats"
_TANDEM = ("fenghuibao/dSort-Seq", "cytometry_data/promoter_lib/tandem_promoters")
_FLOWIO = ("whitews/FlowIO", "data/fcs_files")

_ALL = (
    _paper("lsat", "lsat.csv", 15, 1,
           "e86e4a6018844a9e18b291e8d539934b6d1bfbc44f68171a147654822ed12880", _MATLAB),
    _paper("accidents", "accidents.csv", 51, 1,
           "97d71d86b20b580c4b5b6043d9176a359a86cb257a811deb0368638b491f01c2", _MATLAB),
    _paper("acetylene", "acetylene.csv", 16, 3,
           "3314b96c0efca3f82123f68bef0d9c1daa50fe1189fd372b0ef342dfb0bf4b1b", _MATLAB),
    _paper("power_plant", "power_plant.csv", 9568, 4,
           "cdcd6986360350a188cc851769caec70ebdaa75791975a63cec7a6488f1207bc", _UCI),
    _paper("airfoil", "airfoil-modified.csv", 1043, 5,
           "9918d424cebd6a3f2da6fd37c56dd266b730db982e96089a91ad5651aac6613c", _TRIMMED),
    _paper("yacht", "yacht-modified.csv", 134, 6,
           "7bfbdb2f9cb130986e74f866b7254b6f4686fa6ab71fb5e3cfe4616068dca410", _TRIMMED),
    _paper("concrete", "concrete-modified.csv", 559, 8,
           "1fecd069696826d05719b4a54f5c96fdc953c2b5e4159502d1aaf90bcd0eac2e", _TRIMMED),
    _paper("synthetic1", "synthetic1.csv", 50, 2,
           "8f28485a7199f05e16960e70d34e4537b4cebc37e042ecfa4612038c8f2f2209", _SYNTHETIC),
    _paper("synthetic2", "synthetic2.csv", 100, 3,
           "2b071e1906d47051fba663799735e17245c6961ddf9bb55a623083add6e79bbc", _SYNTHETIC),
    _paper("synthetic3", "synthetic3.csv", 200, 4,
           "93ff54e73368002fc02fa54243c3a3ab7289d94f84d51a1ff3867bb34b145dff", _SYNTHETIC),
    _paper("synthetic4", "synthetic4.csv", 400, 5,
           "f89ba9d00e7a5e47d0c73afa8d31dee0f7a127f0d7518f4e4ce8fa5b5e87f20a", _SYNTHETIC),
    _paper("synthetic5", "synthetic5.csv", 400, 6,
           "007d2a7901fcca36dfe0ac6a4e95acd3b7124a53f9bfc3430a83f756f85b80ac", _SYNTHETIC),
    _paper("synthetic6", "synthetic6.csv", 800, 6,
           "bd6ba0bb3aaba133ec4964abf444034dccbbc5e156537039d23380bf7c9100a6", _SYNTHETIC),
    DataSet("pbm", "pbm.txt", 7534, 36,
            "c2c99fd933f7afd0d4fe45c6553770d7c17a82ee420a08ccdb54a200ec44eda6",
            _github("TsuPeiChiu/DNAshapeR", "HEAD", "inst/extdata/PBMsample.s"),
            "protein-binding microarray, github TsuPeiChiu/DNAshapeR", "sequences"),
    DataSet("promoters", "promoters.csv.gz", 100_000, 8,
            "b7f9c51904c989dfa400632d69e041625f89b0ea2917dba1a45656835cfb9a79", None,
            "flow cytometry of 25 constructs, drawn from github fenghuibao/dSort-Seq",
            "promoters"),
    _fcs("J23101_J23101", 101_017, 6,
         "675c439459d7e670149cb0ff9ea2dd3f7194616ec0439939c75ef26433afe1e1", _TANDEM),
    _fcs("J23103_J23109", 101_296, 6,
         "608cac2640176c562a5124d677e4ddf9aeaaafe8ddd4fd60002d559df0132e2b", _TANDEM),
    _fcs("3FITC_4PE_004", 94_569, 4,
         "240e76eba7e04c7e9116c8c3ad8388ccb2faf58105d21b831d122764a3621e53", _FLOWIO),
    _fcs("data1", 13_367, 8,
         "cba7812f5bbce700786d22d97cf9858c1301878aa840c64eadcd263a3a0a5508", _FLOWIO),
)  # fmt: skip

DATASETS: dict[str, DataSet] = {each.name: each for each in _ALL}


def load_dataset(name: str, *, scale: bool = False) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Load a data set by name as linked X (n, d) and y (n,).

    A column of ones is never added: the estimator has ``fit_intercept``. For "pbm" X is the array
    of sequences; for "promoters" it is that of `load_promoters`.

    Parameters
    ----------
    name : str
        Name of the data set; ``unshuffle datasets`` lists them.
    scale : bool, default=False
        Whether to map every column, the label included, onto [0, 1] as the paper does.

    Returns
    -------
    X : ndarray of shape (n, d)
        The rows.
    y : ndarray of shape (n,)
        The label of each row.

    Raises
    ------
    InputError
        For unknown names, and files that are neither here nor to be had.

    Examples
    --------
    >>> X, y = load_dataset("lsat")  # doctest: +SKIP
    """
    dataset = _find(name)
    if dataset.kind == "fcs":
        raise InputError(
            f"{quote(name)} is an FCS file with no label of its own: "
            f"read it with read_table(dataset_path({quote(name)})) and choose a channel"
        )
    X: Any
    if dataset.kind == "promoters":
        promoters = load_promoters()
        X, y = promoters.X, promoters.y
    elif dataset.kind == "sequences":
        pairs = np.loadtxt(dataset_path(name), dtype=np.str_)
        X, y = pairs[:, 1], pairs[:, 0].astype(np.float64)
    else:
        values = np.loadtxt(dataset_path(name), delimiter=",", ndmin=2)
        X, y = values[:, :-1], values[:, -1]
    if scale:
        X, y = (X if dataset.kind == "sequences" else _scale(X)), _scale(y)
    return np.ascontiguousarray(X), np.ascontiguousarray(y)


def load_promoters() -> Promoters:
    """Load the two-promoter constructs with J23101 as the base level of both slots.

    >>> load_promoters().feature_names[0]  # doctest: +SKIP
    'promoter1=J23103'
    """
    fields = [("slot1", "U6"), ("slot2", "U6"), ("green", "f8"), ("red", "f8")]
    cells = np.loadtxt(dataset_path("promoters"), delimiter=",", skiprows=1, dtype=fields)
    blocks, names = [], []
    for number, slot in enumerate((cells["slot1"], cells["slot2"]), start=1):
        levels = [str(level) for level in np.unique(slot) if level != "J23101"]
        blocks.append(slot[:, None] == np.array(levels))
        names += [f"promoter{number}={level}" for level in levels]
    construct = np.char.add(np.char.add(cells["slot1"], "_"), cells["slot2"])
    y = np.log10(cells["green"] / cells["red"])
    return Promoters(np.hstack(blocks).astype(np.float64), y, construct, tuple(names))


def dataset_path(name: str) -> Path:
    """Return the path of the file of a data set, which is downloaded if it is not here.

    It is searched in ``$UNSHUFFLE_DATA`` and its subfolder ``fcs``, then in the cache
    (``$UNSHUFFLE_CACHE`` or the user's cache folder). The SHA-256 is always checked.
    """
    dataset = _find(name)
    path, _ = _locate(dataset)
    if path is None:
        return download(dataset)
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as exc:
        raise InputError(
            f"{shorten(path, 200)} cannot be read ({shorten(exc, 100)}); mend its permissions"
        ) from exc
    if found != dataset.sha256:
        raise InputError(
            f"{shorten(path, 200)} is not the file known as {quote(name)}: SHA-256 expected "
            f"{dataset.sha256}, found {found}; remove or replace it"
        )
    return path


def list_datasets() -> list[Listing]:
    """Return all data sets with the places of their files; downloads nothing."""
    return [
        Listing(each.name, each.rows, each.features, each.origin, _locate(each)[1])
        for each in DATASETS.values()
    ]


def _find(name: str) -> DataSet:
    if name not in DATASETS:
        raise InputError(f"no data set is called {quote(name)}; {suggest(str(name), DATASETS)}")
    return DATASETS[name]


def _scale(values: NDArray[np.float64]) -> NDArray[np.float64]:
    span = np.ptp(values, axis=0)
    # A constant column has no span; it becomes zeros.
    return np.asarray((values - values.min(axis=0)) / np.where(span == 0, 1.0, span))


def _data_folder() -> Path | None:
    given = os.environ.get("UNSHUFFLE_DATA")
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise InputError(
            f"UNSHUFFLE_DATA names {quote(folder, 200)}, which is not a folder: "
            "set it to the folder of the data files, or unset it"
        )
    return folder


def _cache_folder() -> Path | None:
    """Return the cache folder; None without the variable and without pooch."""
    given = os.environ.get("UNSHUFFLE_CACHE")
    if given:
        return Path(given).expanduser()
    try:
        return Path(_pooch().os_cache("unshuffle"))
    except InputError:
        return None


def _locate(
    dataset: DataSet,
) -> tuple[Path | None, Literal["UNSHUFFLE_DATA", "cache", "not here"]]:
    folder, cache = _data_folder(), _cache_folder()
    for path in (folder / dataset.file, folder / "fcs" / dataset.file) if folder else ():
        if path.is_file():
            return path, "UNSHUFFLE_DATA"
    if cache and (cache / dataset.file).is_file():
        return cache / dataset.file, "cache"
    return None, "not here"


def _pooch() -> Any:
    return import_extra("pooch", "data", "downloading data sets")


def download(dataset: DataSet) -> Path:
    """Download the file of a data set to the cache, and return its path."""
    name, url = quote(dataset.name), dataset.url
    if url is None:
        raise MissingDataError(
            f"{name} has no public address: put {dataset.file} into a folder and name that "
            f"folder in UNSHUFFLE_DATA ({_searched()})"
        )
    try:
        pooch = _pooch()
    except InputError as exc:
        raise MissingDataError(f"{name} is not here ({_searched()}), and {exc}") from exc
    try:
        return Path(
            pooch.retrieve(
                url,
                known_hash=f"sha256:{dataset.sha256}",
                fname=dataset.file,
                path=_cache_folder(),
                downloader=pooch.HTTPDownloader(timeout=30),
            )
        )
    except OSError as exc:  # no network, no such address, or the cache is not writable
        reason = shorten(exc, 160)
        raise MissingDataError(
            f"{name} is not here ({_searched()}) and {url} could not be fetched into the cache: "
            f"{reason}; download it elsewhere and name its folder in UNSHUFFLE_DATA"
        ) from exc
    except ValueError as exc:  # the checksum differs; pooch names both
        raise MissingDataError(
            f"{name}: {url} no longer holds the known file: {shorten(exc, 400)} "
            "Find the old file and name its folder in UNSHUFFLE_DATA"
        ) from exc


def _searched() -> str:
    folder, cache = _data_folder(), _cache_folder()
    first = shorten(folder, 200) if folder else "UNSHUFFLE_DATA, which is not set"
    return f"looked in {first}" + (f" and in the cache {shorten(cache, 200)}" if cache else "")
