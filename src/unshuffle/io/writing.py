"""Atomic writing of files, and checks of their places."""

import os
import secrets
from pathlib import Path
from typing import BinaryIO

from unshuffle.errors import InputError, shorten


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file atomically: after a failure it is as it was before.

    The content goes to a temporary file in the same folder, which then replaces the old one in one
    step. Where the system allows it, the temporary file has no name until it is complete, so a
    killed process leaves nothing behind. Devices and pipes are written directly.
    """
    target = check_writable(path)
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        if target.exists() and not target.is_file():
            with open(target, "wb") as file:
                file.write(data)
        else:
            _replace(target, data)
    except OSError as exc:
        reason = shorten(exc.strerror or exc, 100)
        raise InputError(
            f"{shorten(path, 120)}: cannot be written ({reason}); nothing was left behind, "
            "choose another place or make room"
        ) from exc
    return target


def _replace(target: Path, data: bytes) -> None:
    """Write a temporary file beside the target, and put it in its place."""
    place = target.with_name(f".unshuffle-{secrets.token_hex(8)}.tmp")
    try:
        if not _write_nameless(place, data):
            with open(place, "xb") as file:
                write_through(file, data)
        os.replace(place, target)
    finally:
        # After a failure or Ctrl-C only; a finished file no longer goes by this name.
        place.unlink(missing_ok=True)


def _write_nameless(place: Path, data: bytes) -> bool:
    """Write a file that gets its name once complete; False if the system has no such files."""
    flag = getattr(os, "O_TMPFILE", None)  # of Linux
    if flag is None:
        return False
    try:
        number = os.open(place.parent, flag | os.O_WRONLY, 0o666)
    except OSError:  # not every file system has them; other failures recur in the next attempt
        return False
    with open(number, "wb") as file:
        write_through(file, data)
        try:
            os.link(f"/proc/self/fd/{number}", place, follow_symlinks=True)
        except OSError:
            return False
    return True


def write_through(file: BinaryIO, data: bytes) -> None:
    """Write and synchronise a file: a full disk may show only then."""
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Refuse a path that cannot be written to, before any work."""
    shown = shorten(path, 120)
    try:
        # A link stays, and its target is replaced.
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise InputError(f"{shown}: is a folder; give the name of a file in it")
        if not target.parent.is_dir():
            raise InputError(f"{shown}: its folder does not exist; make it or choose another")
        may_write = os.access(target if target.exists() else target.parent, os.W_OK)
    except InputError:
        raise
    except (OSError, ValueError) as exc:  # a name too long or with a zero byte
        raise InputError(
            f"{shown}: cannot be written ({shorten(exc, 100)}); give another name"
        ) from exc
    if not may_write:
        raise InputError(f"{shown}: may not be written; ask for permission or choose another place")
    return target


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Return a folder that can be written to; a missing one is made."""
    shown = shorten(path, 120)
    try:
        folder = Path(os.path.realpath(path))
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{shown}: is a file; give the name of a folder")
        folder.mkdir(parents=True, exist_ok=True)
        may_write = os.access(folder, os.W_OK)
    except InputError:
        raise
    except (OSError, ValueError) as exc:
        raise InputError(
            f"{shown}: cannot be made ({shorten(exc, 100)}); give another name"
        ) from exc
    if not may_write:
        raise InputError(f"{shown}: may not be written; ask for permission or choose another place")
    return folder


def check_page(path: str | os.PathLike[str]) -> Path:
    """Refuse a path of an HTML page that cannot be written to, or that names another format."""
    target = check_writable(path)
    ending = Path(path).suffix
    if ending.lower() not in ("", ".html", ".htm"):
        raise InputError(
            f"{shorten(path, 120)}: a report is an HTML page, not {shorten(ending, 20)}; give a "
            "name that ends in .html"
        )
    return target
