"""Parser of contrasts: linear combinations of coefficients such as "x1 - 2 * x2"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unshuffle.errors import InputError, quote, suggest

_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_WORD = re.compile(r"[^\W\d]\w*")


def read_contrast(text: str, names: Sequence[str]) -> np.ndarray:
    """Return the factor of each coefficient in a contrast, and the constant last.

    Parameters
    ----------
    text : str
        Sums and differences of coefficients by name, times or over numbers. Names with signs of
        arithmetic may stand in backticks.
    names : sequence of str
        Names of the coefficients.

    Returns
    -------
    ndarray of shape (len(names) + 1,)
        The combination is their product with the coefficients, plus the last entry.

    Raises
    ------
    InputError
        For unknown names, products of coefficients, and text that is no such combination.

    Examples
    --------
    >>> read_contrast("x1 - 2 * (x2 + 0.5)", ["x1", "x2"]).tolist()
    [1.0, -2.0, -1.0]
    """
    if not isinstance(text, str):
        raise InputError(f"a contrast is a text such as 'x1 - x2', got {quote(text)}")
    reader = _Parser(text, tuple(names), _split_tokens(text, names))
    found = reader.read_sum()
    if reader.tokens:
        raise reader.refuse()
    if not found[:-1].any():
        raise InputError(
            f"contrast {quote(text)} names no coefficient, or they cancel: write 'x1 - x2'"
        )
    return found


def _split_tokens(text: str, names: Sequence[str]) -> list[str | int | float]:
    """Return the tokens of a text: signs (str), coefficients by place (int) and numbers (float)."""
    # The longest first: one name may begin another. A name of digits alone needs backticks.
    bare = sorted((name for name in names if not _NUMBER.fullmatch(name)), key=len, reverse=True)
    found: list[str | int | float] = []
    at = 0
    while at < len(text):
        number, sign = _NUMBER.match(text, at), text[at]
        name = next((each for each in bare if _stands_at(each, text, at)), None)
        if sign.isspace():
            at += 1
        elif sign == "`":
            end = text.find("`", at + 1)
            name = text[at + 1 : end] if end > at else text[at + 1 :]
            found.append(_find(name, names, text))
            at = (end if end > at else len(text)) + 1
        elif name is not None:
            found.append(list(names).index(name))
            at += len(name)
        elif number is not None:
            found.append(float(number[0]))
            at = number.end()
        elif sign in "+-*/()":
            found.append(sign)
            at += 1
        else:
            word = _WORD.match(text, at)
            _find(word[0] if word else sign, names, text)
    return found


def _stands_at(name: str, text: str, at: int) -> bool:
    """Return whether a name is at a place, and is not the beginning of a longer word."""
    end = at + len(name)
    is_cut = end < len(text) and re.match(r"\w\w", name[-1:] + text[end]) is not None
    return bool(name) and text.startswith(name, at) and not is_cut


def _find(name: str, names: Sequence[str], text: str) -> int:
    if name not in names:
        raise InputError(
            f"contrast {quote(text)}: no coefficient is called {quote(name)}; "
            f"{suggest(name, names)}"
        )
    return list(names).index(name)


@dataclass
class _Parser:
    """A recursive-descent parser; `tokens` are those not yet read."""

    text: str
    names: tuple[str, ...]
    tokens: list[str | int | float]

    def refuse(self) -> InputError:
        """Return the error of a text that is no contrast."""
        return InputError(
            f"contrast {quote(self.text)} is no sum of coefficients times numbers, such as "
            "'x1 - 2 * x2'"
        )

    def take(self, signs: str) -> str | None:
        """Return and remove the next token if it is one of the signs."""
        if self.tokens and isinstance(self.tokens[0], str) and self.tokens[0] in signs:
            return str(self.tokens.pop(0))
        return None

    def read_sum(self) -> np.ndarray:
        total = self.read_product()
        while sign := self.take("+-"):
            part = self.read_product()
            total = total + part if sign == "+" else total - part
        return total

    def read_product(self) -> np.ndarray:
        product = self.read_part()
        while sign := self.take("*/"):
            other = self.read_part()
            if sign == "/":
                if other[:-1].any() or not other[-1]:
                    raise self.refuse()
                product = product / other[-1]
            elif other[:-1].any() and product[:-1].any():
                raise self.refuse()
            else:
                product = product * other[-1] if product[:-1].any() else other * product[-1]
        return product

    def read_part(self) -> np.ndarray:
        if sign := self.take("+-"):
            part = self.read_part()
            return part if sign == "+" else -part
        if self.take("("):
            inside = self.read_sum()
            if not self.take(")"):
                raise self.refuse()
            return inside
        if not self.tokens or isinstance(self.tokens[0], str):
            raise self.refuse()
        token = self.tokens.pop(0)
        part = np.zeros(len(self.names) + 1)
        if isinstance(token, int):
            part[token] = 1.0
        else:
            part[-1] = float(token)
        return part
