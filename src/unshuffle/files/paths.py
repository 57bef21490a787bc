"""Names of files, patterns and folders; nothing is imported that takes time."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from pathlib import Path

from unshuffle.errors import InputError

_ENDINGS = (".parquet", ".pq")


def expand_paths(paths: Sequence[str]) -> list[str]:
    """Return the files that names, patterns and folders of Parquet files stand for, in order."""
    found: list[str] = []
    for path in paths:
        if Path(path).is_dir():
            inside = sorted(
                str(each) for each in Path(path).rglob("*") if each.suffix.lower() in _ENDINGS
            )
            if not inside:
                raise InputError(f"{path}: the folder holds no Parquet file; name the files")
            found += inside
        elif any(sign in path for sign in "*?[") and not Path(path).exists():
            matched = sorted(glob(path, recursive=True))
            if not matched:
                raise InputError(f"{path}: no file has such a name; check pattern and folder")
            found += matched
        else:
            found.append(path)
    return found


def are_parquet(paths: Sequence[str]) -> bool:
    """Whether all files are Parquet by their names."""
    return all(Path(path).suffix.lower() in _ENDINGS for path in paths)
