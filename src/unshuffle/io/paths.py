"""Names of files, patterns and folders, with fast imports only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path

from unshuffle.errors import InputError, quote, suggest

_ENDINGS = (".parquet", ".pq")
# The value of a folder such as run=3 that stands for a missing one.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def expand_paths(paths: Sequence[str]) -> list[str]:
    """Return the files of names, patterns and folders of Parquet files, in order."""
    found: list[str] = []
    for path in paths:
        matched = [path]
        if any(sign in path for sign in "*?[") and not Path(path).exists():
            matched = sorted(glob(path, recursive=True))
            if not matched:
                raise InputError(f"{path}: no file has such a name; check pattern and folder")
        for each in matched:
            found += _list_folder(each) if Path(each).is_dir() else [each]
    seen: set[str] = set()
    for path in found:
        place = os.path.abspath(path)
        if place in seen:
            raise InputError(
                f"{path}: named twice, so that its rows would count twice; once will do"
            )
        seen.add(place)
    return found


def _list_folder(path: str) -> list[str]:
    """Return the Parquet files below a folder, without folders of such names."""
    inside = sorted(
        str(each)
        for each in Path(path).rglob("*")
        if each.suffix.lower() in _ENDINGS and not each.is_dir()
    )
    if not inside:
        raise InputError(f"{path}: the folder holds no Parquet file; name the files")
    return inside


def find_partitions(paths: Sequence[str | os.PathLike[str]], name: str | None) -> list[str] | None:
    """Return the values of folders such as ``run=3`` for each file; None if a file has none.

    >>> find_partitions(["out/run=3/a.parquet", "out/run=4/a.parquet"], "run")
    ['3', '4']
    """
    found = []
    for path in paths:
        own = [part for part in Path(path).parent.parts if part.startswith(f"{name}=")]
        if name is None or not own:
            return None
        found.append(own[-1].partition("=")[2])
        if found[-1] in ("", _NO_VALUE):
            raise InputError(
                f"{path}: its folder names no bag ({own[-1]}); leave the file out, or name the bag"
            )
    return found


def describe_file_bags(bag: str, names: Iterable[str]) -> str:
    """Return the note that each file is a bag, for no file has the bag column."""
    near = suggest(bag, names)
    hint = f"; {near}" if near.startswith("did you mean") else ""
    return f"no file has a column {quote(bag)}, so that every file is a bag{hint}"


def are_parquet(paths: Sequence[str]) -> bool:
    """Whether all files are Parquet by their names."""
    return all(Path(path).suffix.lower() in _ENDINGS for path in paths)
