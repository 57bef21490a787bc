"""`Table`, the result of every reader, and tables stacked from several files."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, quote, shorten, suggest
from unshuffle.formatting import SHOWN_NAMES

Column = NDArray[Any]


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, with notes on how they were read.

    A column is float64 (missing cells are NaN) or an object array of str (missing cells are None).
    ``aliases`` are second names of columns, ``source`` is the name in messages, ``notes`` are
    guesses and remarks, and ``sha256`` is the hash of the bytes. Columns ``aside`` are features
    only if they are named, for the reason given. Logarithms are fitted of the columns ``logs``.
    Columns ``absent`` are in some of several files only.
    """

    names: tuple[str, ...]
    columns: Mapping[str, Column]
    n_rows: int
    source: str
    notes: tuple[str, ...] = ()
    sha256: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict)
    aside: Mapping[str, str] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    logs: frozenset[str] = frozenset()

    def find(self, name: str, role: str = "column") -> str:
        """Return the column of this name or alias; refuse an unknown one with the nearest name."""
        if name in self.columns:
            return name
        if name in self.aliases:
            return self.aliases[name]
        known = [*self.names, *self.aliases]
        raise InputError(
            f"{self.source}: no {role} is called {quote(name)}; {suggest(name, known)}"
        )


def make_table(
    names: Sequence[str], columns: Sequence[Column], source: str, notes: Sequence[str], digest: str
) -> Table:
    """Return a table; refuse duplicate names and tables without rows."""
    check_names(names, source)
    n_rows = len(columns[0]) if columns else 0
    if n_rows == 0:
        raise InputError(f"{source}: no rows of data, only column names; is the file complete?")
    by_name = dict(zip(names, columns, strict=True))
    return Table(tuple(names), by_name, n_rows, source, tuple(notes), digest)


def check_names(names: Sequence[str], source: str) -> None:
    """Refuse two columns of one name, which would be ambiguous."""
    first: dict[str, int] = {}
    for position, name in enumerate(names, start=1):
        if name in first:
            raise InputError(
                f"{source}: columns {first[name]} and {position} are both called {quote(name)}; "
                "rename one of them"
            )
        first[name] = position


def stack_tables(
    tables: Sequence[Table], labels: Sequence[str] | None = None, bag: str | None = None
) -> Table:
    """Return tables of the same columns as one, below each other.

    With ``labels`` the column ``bag`` has the label of each table.
    """
    head = tables[0]
    if bag is not None and bag in head.columns:
        raise InputError(
            f"{head.source}: a column is already called {quote(bag)}; give another bag name"
        )
    check_same_names(tables)
    columns = {name: _stack_column([t.columns[name] for t in tables]) for name in head.names}
    counts = [table.n_rows for table in tables]
    names = head.names
    if labels is not None and bag is not None:
        columns[bag] = np.repeat(np.array(labels, dtype=object), counts)
        names = (*names, bag)
    notes = join_notes([(table.source, note) for table in tables for note in table.notes])
    digest = sha256("".join(table.sha256 for table in tables).encode()).hexdigest()
    source = f"{head.source} and {len(tables) - 1} more" if len(tables) > 1 else head.source
    return Table(
        names, columns, sum(counts), source, tuple(notes), digest, head.aliases, head.aside,
        absent=head.absent,
    )  # fmt: skip


def join_notes(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Return notes on files, each note once with the files that it is about.

    >>> join_notes([("a.csv", "no header"), ("b.csv", "no header"), ("b.csv", "latin-1")])
    ['a.csv and 1 more: no header', 'b.csv: latin-1']
    """
    sources: dict[str, list[str]] = {}
    for source, note in notes:
        sources.setdefault(note, []).append(source)
    return [
        f"{own[0]}: {note}" if len(own) == 1 else f"{own[0]} and {len(own) - 1} more: {note}"
        for note, own in sources.items()
    ]


def check_same_names(tables: Sequence[Table]) -> None:
    """Refuse tables that differ in their columns."""
    head = tables[0]
    for table in tables[1:]:
        different = set(head.names) ^ set(table.names)
        if different:
            raise InputError(
                f"{table.source} and {head.source} differ in the column "
                f"{quote(min(different))}; files read together need the same columns"
            )


def keep_common(tables: Sequence[Table], used: Collection[str]) -> list[Table]:
    """Return tables with the columns that all of them have; those ``used`` must be in all."""
    common = [name for name in tables[0].names if all(name in each.columns for each in tables)]
    for name in used:
        check_in_all(tables, name)
    alone = dict.fromkeys(name for each in tables for name in each.names if name not in common)
    if not alone:
        return list(tables)
    if not common:
        check_same_names(tables)
    shown = ", ".join(quote(name, 30) for name in list(alone)[:SHOWN_NAMES])
    note = f"columns that are not in all files, and not used: {shown}"
    kept = []
    for each in tables:
        aliases = {alias: name for alias, name in each.aliases.items() if name in common}
        columns = {name: each.columns[name] for name in common}
        aside = {name: why for name, why in each.aside.items() if name in common}
        notes = (*each.notes, note) if each is tables[0] else each.notes
        kept.append(
            replace(
                each,
                names=tuple(common),
                columns=columns,
                aliases=aliases,
                aside=aside,
                absent=frozenset(alone),
                notes=notes,
            )
        )
    return kept


def check_in_all(tables: Sequence[Table], name: str) -> None:
    """Refuse tables of which some lack a column that others have."""
    has = [name in each.columns for each in tables]
    if any(has) and not all(has):
        with_it, without = tables[has.index(True)], tables[has.index(False)]
        raise InputError(
            f"{without.source} and {with_it.source} differ in the column {quote(name)}, which is "
            "used; files read together need the same columns: name the features that they share, "
            "or exclude the column"
        )


def _stack_column(parts: Sequence[Column]) -> Column:
    if len({part.dtype for part in parts}) == 1:
        return np.concatenate(parts)
    # Numbers in one file and text in another become text.
    return np.concatenate([as_text(part) for part in parts])


def as_text(column: Column) -> NDArray[np.object_]:
    """Return a column as text, whole numbers without a decimal point and missing cells as None."""
    if column.dtype == object:
        return column
    texts = [None if value != value else f"{value:.17g}" for value in column.tolist()]
    return np.array(texts, dtype=object)


def source_name(path: object) -> str:
    """Return the name of a file as messages show it: one line of bounded length."""
    return "standard input" if str(path) == "-" else shorten(path, 120)
