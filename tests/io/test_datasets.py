"""The data set registry: names, hashes, where files come from, and Table 1."""

import functools
import hashlib
import http.server
import os
import socket
import threading

import numpy as np
import pytest

from unshuffle import datasets
from unshuffle.datasets import (
    DATASETS,
    DataSet,
    dataset_path,
    list_datasets,
    load_dataset,
    load_promoters,
)
from unshuffle.errors import InputError, MissingDataError

needs_files = pytest.mark.skipif(
    not os.environ.get("UNSHUFFLE_DATA"), reason="UNSHUFFLE_DATA names no folder of data files"
)

# Table 1 of the paper: d with the bias column, n, R² and the sd of the residuals.
TABLE_1 = {
    "lsat": (2, 15, 0.60, 0.21),
    "accidents": (2, 51, 0.84, 0.08),
    "acetylene": (4, 16, 0.92, 0.09),
    "power_plant": (5, 9568, 0.93, 0.06),
    "airfoil": (6, 1043, 0.83, 0.06),
    "yacht": (7, 134, 0.88, 0.05),
    "concrete": (9, 559, 0.91, 0.05),
    "synthetic1": (3, 50, 0.93, 0.06),
    "synthetic2": (4, 100, 0.99, 0.02),
    "synthetic3": (5, 200, 0.90, 0.05),
    "synthetic4": (6, 400, 0.98, 0.03),
    "synthetic5": (7, 400, 0.94, 0.04),
    "synthetic6": (7, 800, 0.81, 0.07),
}

# The file gives R² = 0.8156, which rounds to .82; the table prints .81. No one convention (cut
# off, adjusted for d) gives .81 here and the other twelve as printed, so it is taken as a slip.
PRINTED_OTHERWISE = {"synthetic6": 0.82}

# These three were scaled to [0, 1] before their outliers were removed, and Table 1 uses them as
# they stand; scaled again their residuals would be .07, .10 and .06.
AS_THEY_STAND = {"airfoil", "yacht", "concrete"}

TINY = b"1,2\n3,5\n5,9\n"


@pytest.fixture
def no_folders(monkeypatch, tmp_path):
    """No data folder, and an empty cache."""
    monkeypatch.delenv("UNSHUFFLE_DATA", raising=False)
    monkeypatch.setenv("UNSHUFFLE_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def server(tmp_path):
    """Serve a tiny table from this machine and return its address."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "tiny.csv").write_bytes(TINY)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def register(monkeypatch, url, digest=None):
    digest = digest or hashlib.sha256(TINY).hexdigest()
    row = DataSet("tiny", "tiny.csv", 3, 1, digest, url, "made up")
    monkeypatch.setattr(datasets, "DATASETS", {**DATASETS, "tiny": row})


def is_one_line(error):
    return "\n" not in str(error.value)


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=DATASETS)
def test_every_data_set_has_a_hash_a_size_and_an_origin(dataset):
    assert len(dataset.sha256) == 64
    assert dataset.rows > 0 and dataset.features > 0 and dataset.origin
    assert (dataset.url is None) == (dataset.name == "promoters")
    assert dataset.url is None or dataset.url.startswith("https://raw.githubusercontent.com/")


def test_no_two_data_sets_share_a_file_or_a_hash():
    assert len({d.file for d in DATASETS.values()}) == len(DATASETS)
    assert len({d.sha256 for d in DATASETS.values()}) == len(DATASETS)


@needs_files
@pytest.mark.parametrize("name", DATASETS)
def test_files_are_the_known_ones(name):
    assert dataset_path(name).is_file()


@needs_files
@pytest.mark.parametrize("name", [d.name for d in DATASETS.values() if d.kind == "table"])
def test_registry_states_the_sizes_of_the_files(name):
    X, y = load_dataset(name)
    assert X.shape == (DATASETS[name].rows, DATASETS[name].features)
    assert y.shape == (DATASETS[name].rows,)


@needs_files
@pytest.mark.parametrize("name", TABLE_1)
def test_table_1_of_the_paper_is_met(name):
    d, n, r2, sigma = TABLE_1[name]
    X, y = load_dataset(name, scale=name not in AS_THEY_STAND)
    X = np.column_stack([X, np.ones(len(X))])
    residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    assert X.shape == (n, d)
    assert round(1 - residual.var() / y.var(), 2) == PRINTED_OTHERWISE.get(name, r2)
    assert round(residual.std(), 2) == sigma


@needs_files
def test_scaling_maps_every_column_onto_the_unit_interval():
    X, y = load_dataset("power_plant", scale=True)
    for values in (*X.T, y):
        assert values.min() == 0 and values.max() == 1


@needs_files
def test_sequences_are_of_one_length_and_letters_of_dna():
    X, y = load_dataset("pbm", scale=True)
    assert X.shape == y.shape == (7534,)
    assert {len(sequence) for sequence in X} == {36}
    assert set("".join(X)) <= set("ACGT")
    assert (y.min(), y.max()) == (0, 1)


@needs_files
def test_promoters_follow_an_additive_model():
    promoters = load_promoters()
    assert promoters.X.shape == (100_000, 8) and promoters.y.shape == (100_000,)
    assert not any("J23101" in name for name in promoters.feature_names)
    _, counts = np.unique(promoters.construct, return_counts=True)
    assert counts.tolist() == [4000] * 25
    X = np.column_stack([promoters.X, np.ones(100_000)])
    residual = promoters.y - X @ np.linalg.lstsq(X, promoters.y, rcond=None)[0]
    assert 1 - residual.var() / promoters.y.var() == pytest.approx(0.76, abs=0.005)
    # The base level of both slots is the construct whose features are all zero.
    assert set(promoters.construct[~promoters.X.any(axis=1)]) == {"J23101_J23101"}


@needs_files
def test_loading_promoters_by_name_gives_the_same_arrays():
    X, y = load_dataset("promoters")
    promoters = load_promoters()
    assert (X == promoters.X).all() and (y == promoters.y).all()


def test_an_fcs_name_points_to_the_file_reader():
    with pytest.raises(InputError, match=r"read_table\(dataset_path\('fcs-data1'\)\)"):
        load_dataset("fcs-data1")


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match=r"did you mean 'yacht'") as error:
        load_dataset("Yatch")
    assert is_one_line(error)


def test_a_name_far_from_all_gets_a_list():
    with pytest.raises(InputError, match=r"known: 'lsat'"):
        dataset_path("\n" * 10_000)


def test_a_download_is_checked_and_kept(monkeypatch, no_folders, server):
    register(monkeypatch, f"{server}/tiny.csv")
    X, y = load_dataset("tiny")
    assert X.tolist() == [[1], [3], [5]] and y.tolist() == [2, 5, 9]
    register(monkeypatch, "http://127.0.0.1:9/gone.csv")
    assert dataset_path("tiny") == no_folders / "cache" / "tiny.csv"
    assert [each.where for each in list_datasets() if each.name == "tiny"] == ["cache"]


def test_a_download_of_another_file_is_refused_and_not_kept(monkeypatch, no_folders, server):
    register(monkeypatch, f"{server}/tiny.csv", digest="0" * 64)
    with pytest.raises(MissingDataError) as error:
        dataset_path("tiny")
    found = hashlib.sha256(TINY).hexdigest()
    assert is_one_line(error)
    assert all(part in str(error.value) for part in ("0" * 64, found, "UNSHUFFLE_DATA"))
    assert not (no_folders / "cache" / "tiny.csv").exists()


def test_no_network_is_one_line_that_says_where_it_looked(monkeypatch, no_folders):
    with socket.socket() as taken:  # bound but not listening, so that nobody answers
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/tiny.csv"
        register(monkeypatch, url)
        with pytest.raises(MissingDataError) as error:
            dataset_path("tiny")
    assert is_one_line(error)
    assert all(part in str(error.value) for part in (url, "cache", "UNSHUFFLE_DATA"))


def test_an_address_that_is_gone_is_a_missing_data_set(monkeypatch, no_folders, server):
    register(monkeypatch, f"{server}/other.csv")
    with pytest.raises(MissingDataError, match=r"404"):
        dataset_path("tiny")


def test_promoters_are_to_be_had_only_through_the_data_folder(no_folders):
    with pytest.raises(MissingDataError, match=r"no public address.*UNSHUFFLE_DATA"):
        load_dataset("promoters")


def test_without_pooch_the_extra_is_named(monkeypatch, no_folders):
    def refuse(*args):
        raise InputError("downloading data sets needs pooch: pip install 'unshuffle[data]'")

    monkeypatch.setattr(datasets, "import_extra", refuse)
    monkeypatch.delenv("UNSHUFFLE_CACHE")
    with pytest.raises(MissingDataError, match=r"unshuffle\[data\]") as error:
        dataset_path("lsat")
    assert is_one_line(error)
    assert {each.where for each in list_datasets()} == {"not here"}


@pytest.mark.parametrize("subfolder", ["", "fcs"])
def test_the_data_folder_comes_before_the_cache(monkeypatch, no_folders, subfolder):
    register(monkeypatch, None)
    for folder in (no_folders / "data" / subfolder, no_folders / "cache"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tiny.csv").write_bytes(TINY)
    monkeypatch.setenv("UNSHUFFLE_DATA", str(no_folders / "data"))
    assert dataset_path("tiny") == no_folders / "data" / subfolder / "tiny.csv"
    assert list_datasets()[-1].where == "UNSHUFFLE_DATA"


@pytest.mark.parametrize("variable", ["UNSHUFFLE_DATA", "UNSHUFFLE_CACHE"])
def test_a_changed_file_is_refused_wherever_it_lies(monkeypatch, no_folders, variable):
    register(monkeypatch, None)
    (no_folders / "tiny.csv").write_bytes(TINY + b"7,13\n")
    monkeypatch.setenv(variable, str(no_folders))
    with pytest.raises(InputError) as error:
        load_dataset("tiny")
    found = hashlib.sha256(TINY + b"7,13\n").hexdigest()
    expected = hashlib.sha256(TINY).hexdigest()
    parts = (str(no_folders / "tiny.csv"), expected, found, "replace")
    assert all(part in str(error.value) for part in parts) and is_one_line(error)


def test_a_data_folder_that_is_none_is_named(monkeypatch, no_folders):
    monkeypatch.setenv("UNSHUFFLE_DATA", str(no_folders / "nowhere"))
    with pytest.raises(InputError, match=r"UNSHUFFLE_DATA names .*nowhere.*not a folder"):
        load_dataset("lsat")


def test_listing_downloads_nothing(monkeypatch, no_folders):
    monkeypatch.setattr(datasets, "download", None)
    listing = list_datasets()
    assert [each.name for each in listing] == list(DATASETS)
    assert {each.where for each in listing} == {"not here"}
