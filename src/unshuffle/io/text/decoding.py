"""Decoding of text files to UTF-8 with line feeds, by a given or detected encoding."""

import codecs
import re

from unshuffle.errors import InputError, quote

# Byte-order marks, longest first: UTF-32's begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode_text(data: bytes, encoding: str | None, source: str) -> tuple[bytes, list[str]]:
    """Return the text as UTF-8 bytes with line feeds, and notes on what was guessed."""
    notes: list[str] = []
    if encoding is None:
        encoding = _guess_encoding(data, source)
        if encoding != "utf-8":
            notes.append(f"encoding {encoding} (guessed)")
    text = _to_utf8(data, encoding, source)
    if b"\0" in text:
        line = text.count(b"\n", 0, text.index(b"\0")) + 1
        raise InputError(
            f"{source}, line {line}: holds a zero byte, so it is no text table; "
            "save it as CSV, Parquet or FCS, or name its encoding"
        )
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if re.search(rb"\n[ \t]*\n[^\n]", text):
        notes.append("blank lines were skipped")
    return text, notes


def _guess_encoding(data: bytes, source: str) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    # Plain text has no zero bytes; UTF-16 without a mark has one beside every ASCII character.
    head = data[:1000]
    if head.count(b"\0") * 3 > len(head):
        return "utf-16-le" if head[1::2].count(b"\0") > head[0::2].count(b"\0") else "utf-16-be"
    if data.isascii() or _first_undecodable(data, "utf-8") < 0:
        return "utf-8"
    if _first_undecodable(data, "cp1252") < 0:
        return "cp1252"
    place = _first_undecodable(data, "cp1252")
    line = data.count(b"\n", 0, place) + 1
    raise InputError(
        f"{source}, line {line}: byte 0x{data[place]:02x} is neither UTF-8 nor Windows-1252; "
        "name the file's encoding (for instance latin-1)"
    )


def _first_undecodable(data: bytes, encoding: str) -> int:
    """Return the place of the first byte that this encoding cannot read; -1 if it reads all."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError as exc:
        return exc.start
    return -1


def _to_utf8(data: bytes, encoding: str, source: str) -> bytes:
    if encoding == "utf-8" and data.isascii():
        return data
    try:
        # A mark can survive where the encoding was given as plain utf-8.
        return data.decode(encoding).removeprefix("\ufeff").encode("utf-8")
    except UnicodeError as exc:
        place = f"byte {exc.start + 1}" if isinstance(exc, UnicodeDecodeError) else "a character"
        raise InputError(
            f"{source}: {place} cannot be read as {encoding}; name another encoding"
        ) from exc
    except (LookupError, ValueError) as exc:
        raise InputError(
            f"{source}: no text encoding is called {quote(encoding)}; "
            "use utf-8, utf-16, latin-1 or cp1252"
        ) from exc
