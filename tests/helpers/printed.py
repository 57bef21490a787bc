"""How far two outputs agree: words exactly, numbers as far as their digits are meant.

The last digits of a fit differ between processors. Numbers agree to 2 %, to 0.001, or to one unit
of the last decimal that is printed, whichever is more. So do percentages to one unit.
"""

import re
from itertools import zip_longest

RELATIVE, ABSOLUTE = 0.02, 1e-3
_NUMBER = re.compile(r"(-?\d+(?:\.(\d+))?(?:[eE]([-+]?\d+))?)(?=( ?%)?)")


def find_difference(found, expected, has_numbers=True):
    """Return the first difference between two texts, empty where they agree.

    Widths of columns, and the rules of tables, follow the digits and are left out. Without
    `has_numbers` any number will do.
    """
    one, other = _join_words(found), _join_words(expected)
    words, known = (_NUMBER.sub("#", text).split(" ") for text in (one, other))
    for a, b in zip_longest(words, known):
        if a != b:
            return f"{a!r} in place of {b!r}"
    pairs = zip(_NUMBER.finditer(one), _NUMBER.finditer(other), strict=True)
    if has_numbers:
        return next((f"{a[1]} is far from {b[1]}" for a, b in pairs if not _are_near(a, b)), "")
    return ""


def find_json_difference(found, expected, place="$"):
    """Return the first difference between two JSON values, empty where they agree."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if list(found) != list(expected):
            return f"{place}: keys {list(found)} in place of {list(expected)}"
        parts = [(f"{place}.{key}", found[key], expected[key]) for key in expected]
    elif isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            return f"{place}: {len(found)} entries in place of {len(expected)}"
        pairs = zip(found, expected, strict=True)
        parts = [(f"{place}[{k}]", one, other) for k, (one, other) in enumerate(pairs)]
    else:
        return _compare_leaves(found, expected, place)
    return next(filter(None, (find_json_difference(a, b, where) for where, a, b in parts)), "")


def _compare_leaves(found, expected, place):
    if isinstance(found, str) and isinstance(expected, str):
        told = find_difference(found, expected)
        return f"{place}: {told}" if told else ""
    # A float that happens to be whole is written as one: 0.0, never 0.
    is_same = found == expected and type(found) is type(expected)
    if isinstance(found, float) and isinstance(expected, float):
        is_same = abs(found - expected) <= max(ABSOLUTE, RELATIVE * abs(expected))
    return "" if is_same else f"{place}: {found!r} in place of {expected!r}"


def _join_words(text):
    return " ".join(word for word in text.split() if set(word) != {"─"})


def _are_near(one, other):
    """Tell whether two numbers agree as far as their digits are meant."""
    gap = abs(float(one[1]) - float(other[1]))
    # Added, since two numbers a unit apart differ by a little more in binary.
    units = max(_find_unit(one), _find_unit(other)) * (1 + 1e-9)
    return gap <= max(ABSOLUTE, RELATIVE * abs(float(other[1])), units)


def _find_unit(number):
    """Return one unit of the last decimal; whole numbers are counts, except percentages."""
    if number[2] is None and number[4] is None:
        return 0.0
    return 10.0 ** (int(number[3] or 0) - len(number[2] or ""))
