"""Errors and warnings for users, and helpers for their messages of one line."""

import difflib
import importlib
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

# Longest name in a message: two of them fit one line of a terminal.
SHOWN_LENGTH = 60


class InputError(ValueError):
    """The input is wrong: one line that names the thing, the value and the way out.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression
    >>> try:
    ...     ShuffledLinearRegression("lss").fit([[1.0], [2.0], [4.0]], [3.0, 1.0, 2.0])
    ... except InputError as error:
    ...     print(str(error).split(":")[0])
    unknown method 'lss'
    """


class ModelMisfitWarning(UserWarning):
    """The labels differ from what the model predicts, though the search may have converged.

    Examples
    --------
    Silence it where `summary()` is read anyway:

    >>> import warnings
    >>> warnings.simplefilter("ignore", ModelMisfitWarning)
    """


class OutlierWarning(UserWarning):
    """A few cells of a column lie far from all others, or hold a code for missing values.

    They are fitted as they are. The message names row, column, value and distance.

    Examples
    --------
    Make it an error where data must be clean:

    >>> import warnings
    >>> warnings.simplefilter("error", OutlierWarning)
    """


class DataWarning(UserWarning):
    """The data have a property that users should know, such as a constant column.

    Examples
    --------
    Silence it where the data are known:

    >>> import warnings
    >>> warnings.simplefilter("ignore", DataWarning)
    """


class MissingGroupsWarning(UserWarning):
    """A model fitted with groups is fitted again or scored without them.

    All rows are then one bag. scikit-learn passes groups on only where metadata routing asks for
    them.

    Examples
    --------
    Make it an error in cross-validation:

    >>> import warnings
    >>> warnings.simplefilter("error", MissingGroupsWarning)
    """


class SavedSeedWarning(UserWarning):
    """A model file cannot keep the generator that was given as random_state.

    Examples
    --------
    Silence it where the seed is of no matter:

    >>> import warnings
    >>> warnings.simplefilter("ignore", SavedSeedWarning)
    """


class MissingDataError(InputError):
    """A data set is known by name but its file is neither here nor to be had."""


def find_renamed(owner: str, name: str, renamed: Mapping[str, str]) -> str:
    """Return the new name of an attribute of `owner`, with a warning if `name` is its old one."""
    if name not in renamed:
        raise AttributeError(f"{owner} has no attribute {name!r}")
    text = f"{name} is now called {renamed[name]}; the old name will be dropped in version 0.3.0"
    warnings.warn(text, FutureWarning, stacklevel=3)
    return renamed[name]


def shorten(text: object, limit: int = SHOWN_LENGTH) -> str:
    r"""Return a text as one line of bounded length, with control characters escaped.

    >>> shorten("a\nb")
    'a\\nb'
    """
    # Cut before escaping, for a name may have megabytes.
    head = str(text)[: limit + 1]
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in head)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def quote(text: object, limit: int = SHOWN_LENGTH) -> str:
    """Return a name or a value in quotes, shortened to one line."""
    return f"'{shorten(text, limit)}'"


def suggest(name: str, names: Iterable[str]) -> str:
    """Return the known name nearest to a wrong one as a question, or a list of the first names.

    >>> suggest("Yatch", ["yacht", "lsat"])
    "did you mean 'yacht'?"
    """
    # Comparison is quadratic in length, so only the beginnings are compared.
    known = {each[:100].casefold(): each for each in names}
    near = difflib.get_close_matches(name[:100].casefold(), known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {quote(known[near[0]])}?"
    first = [quote(each, 30) for each in list(known.values())[:6]]
    return "known: " + ", ".join(first) + (", …" if len(known) > len(first) else "")


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Return an optional library; refuse a missing one with the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        library = module.partition(".")[0]
        raise InputError(
            f"{purpose} needs the library {library}: pip install 'unshuffle[{extra}]'"
        ) from exc
