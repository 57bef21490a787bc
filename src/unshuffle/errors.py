"""The errors a user meets, each one line that names the thing, the value and the way out."""

import difflib
import importlib
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

# Long enough for any honest column name, short enough that two of them fit one terminal line.
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
    """The labels do not look as the model predicts; the search itself may have ended well.

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
    """Something in the data was handled that should be known, such as a constant column.

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
    r"""Show any text on one line of bounded length, control characters escaped.

    >>> shorten("a\nb")
    'a\\nb'
    """
    # Cut before escaping: names of many megabytes must not be escaped in full just to be shown.
    head = str(text)[: limit + 1]
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in head)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def quote(text: object, limit: int = SHOWN_LENGTH) -> str:
    """Show a name or a value in quotes, shortened to one line."""
    return f"'{shorten(text, limit)}'"


def suggest(name: str, names: Iterable[str]) -> str:
    """Say which known name is nearest to a wrong one, or list the first few.

    >>> suggest("Yatch", ["yacht", "lsat"])
    "did you mean 'yacht'?"
    """
    # Comparing is quadratic in length, so only the beginnings are compared.
    known = {each[:100].casefold(): each for each in names}
    near = difflib.get_close_matches(name[:100].casefold(), known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {quote(known[near[0]])}?"
    first = [quote(each, 30) for each in list(known.values())[:6]]
    return "known: " + ", ".join(first) + (", …" if len(known) > len(first) else "")


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import an optional library, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        library = module.partition(".")[0]
        raise InputError(
            f"{purpose} needs the library {library}: pip install 'unshuffle[{extra}]'"
        ) from exc
